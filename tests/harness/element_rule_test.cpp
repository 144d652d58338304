// What element rules make of the samples of the table has the bits of the kernels' results, and their errors.
// One test per op with a rule. A rule runs once, on symbols for the place of the element; the graph that it gives is then
// evaluated for all elements at once, each primitive by the op of its meaning.
#include <gtest/gtest.h>

#include <map>

#include "compiler/trace/infer.h"
#include "compiler/trace/scalar_table.h"
#include "tensor/base/half.h"
#include "tensor/cpu/index.h"
#include "tensor/index_rules.h"
#include "tensor/loop_rule.h"
#include "tensor/ops/element.h"
#include "tensor/random/philox.h"
#include "tests/harness/sample.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

using compiler::Expressions;
using compiler::Interval;
using Tensors = std::vector<Tensor>;

constexpr DType kAllDTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Int64,
                                DType::Int32,   DType::Int16,   DType::Int8,     DType::UInt8,   DType::Bool};

// ---- What a rule may ask --------------------------------------------------------------------------------------------

// Sizes may be decided by their values, places may not; nobody may read a number that the call brings.
class Environment final : public SymEnvironment, public ScalarEnvironment {
 public:
  Environment()
      : outer_sizes_(std::exchange(current_sym_environment(), this)),
        outer_numbers_(std::exchange(current_scalar_environment(), this)) {}
  ~Environment() override {
    current_sym_environment() = outer_sizes_;
    current_scalar_environment() = outer_numbers_;
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // The values of the symbols of sizes; places have none of their own.
  Sym add_size(int64_t value) {
    values.push_back(value);
    return tables.syms.add_symbol({.name = "s", .hint = value, .min = 2});
  }
  Sym add_place(Sym size) {
    const bool is_known = !size.is_symbolic();
    if (is_known && size.concrete() == 1) return Sym::from_int(0);
    values.push_back(0);
    const int64_t most = is_known ? std::max<int64_t>(0, size.concrete() - 1) : INT64_MAX;
    const Sym place = tables.syms.add_symbol({.name = "i", .hint = 0, .min = 0, .max = most});
    if (!is_known) tables.syms.assume(SymCompare::Lt, place, size);
    places_.push_back(*tables.syms.as_symbol(place));
    return place;
  }

  Sym binary(SymOp op, Sym a, Sym b) override { return tables.syms.binary(op, a, b); }
  bool compare(SymCompare op, Sym a, Sym b) override {
    refuse_places(a), refuse_places(b);
    if (const std::optional<bool> answer = tables.syms.decide(op, a, b)) return *answer;
    return compiler::holds(op, tables.syms.hint(a), tables.syms.hint(b));
  }
  bool known(SymCompare op, Sym a, Sym b) override { return tables.syms.decide(op, a, b).value_or(false); }
  int64_t specialize(Sym a) override {
    refuse_places(a);
    return tables.syms.hint(a);
  }
  int64_t hint(Sym a) const override { return tables.syms.hint(a); }
  std::string to_string(Sym a) const override { return tables.syms.to_string(a); }

  Scalar binary(ScalarOp, const Scalar& a, const Scalar&) override { return refuse_number(), a; }
  bool compare(SymCompare, const Scalar&, const Scalar&) override { return refuse_number(), false; }
  double read_double(const Scalar&) override { return refuse_number(), 0; }
  int64_t read_int(const Scalar&) override { return refuse_number(), 0; }

  Expressions tables;
  std::vector<int64_t> values;  // by symbol

 private:
  void refuse_places(Sym a) const {
    if (!a.is_symbolic()) return;
    for (const uint32_t symbol : tables.syms.symbols_of(a))
      if (std::find(places_.begin(), places_.end(), symbol) != places_.end())
        ADD_FAILURE() << "a rule settles " << to_string(a) << " for all elements";
  }
  static void refuse_number() { ADD_FAILURE() << "a rule reads a number that only the call knows"; }

  SymEnvironment* outer_sizes_;
  ScalarEnvironment* outer_numbers_;
  std::vector<uint32_t> places_;
};

constexpr uint32_t kNoValue = ~0u;

// What stands behind an Input, by its slot.
struct Source {
  enum class Kind : uint8_t { Load, Place, Number, Random } kind;
  size_t operand = 0;
  element::Place at = {};  // Load: by dimension; Place, Random: one
  uint32_t mask = kNoValue;
  Scalar number = 0, seed = 0, offset = 0;
};
struct CheckedIndex {
  uint32_t symbol, value;
  Sym size;
};

class Recorder final : public LoopReader {
 public:
  Recorder(Environment& e, const Call& c) : environment(e), call(c) {}

  ExprGraph& graph() override { return values; }
  Expr load(size_t operand, std::span<const Sym> place) override {
    return add_load(kNoValue, operand, place);
  }
  Expr load_where(const Expr& condition, size_t operand, std::span<const Sym> place) override {
    EXPECT_EQ(condition.dtype(), DType::Bool);
    return add_load(condition.id, operand, place);
  }
  Expr place(Sym index) override { return add({.kind = Source::Kind::Place, .at = {index}}, DType::Int64); }
  Sym index(const Expr& value, Sym size) override {
    EXPECT_TRUE(value.dtype() == DType::Int64 || value.dtype() == DType::Int32) << value.dtype();
    const Sym symbol = environment.add_place(Sym::from_int(INT64_MAX / 4));
    indices.push_back({*environment.tables.syms.as_symbol(symbol), value.id, size});
    return symbol;
  }
  Expr number(const Scalar& number, DType dtype) override {
    EXPECT_EQ(compute_dtype(dtype), dtype);
    return add({.kind = Source::Kind::Number, .number = number}, dtype);
  }
  Expr random(const Scalar& seed, const Scalar& offset, Sym index, bool wide) override {
    return add({.kind = Source::Kind::Random, .at = {index}, .seed = seed, .offset = offset},
               wide ? DType::Int64 : DType::Int32);
  }

  Environment& environment;
  const Call& call;
  ExprGraph values;
  std::vector<Source> sources;
  std::vector<CheckedIndex> indices;

 private:
  Expr add(Source source, DType dtype) {
    sources.push_back(std::move(source));
    return values.input(static_cast<int>(sources.size() - 1), dtype);
  }
  Expr add_load(uint32_t mask, size_t operand, std::span<const Sym> place) {
    const Tensor& x = call.tensor(operand);
    EXPECT_EQ(static_cast<int64_t>(place.size()), x.dim());
    return add({.kind = Source::Kind::Load, .operand = operand, .at = element::copy_of(place), .mask = mask},
               x.dtype());
  }
};

// ---- Evaluation -----------------------------------------------------------------------------------------------------

const char* op_of(Prim prim) {
  switch (prim) {
    case Prim::Add: return "add";
    case Prim::Sub: return "sub";
    case Prim::Mul: return "mul";
    case Prim::Div: return "true_divide";
    case Prim::Neg: return "neg";
    case Prim::FloorMod: return "remainder";
    case Prim::Sqrt: return "sqrt";
    case Prim::Eq: return "eq";
    case Prim::Ne: return "ne";
    case Prim::Lt: return "lt";
    case Prim::Le: return "le";
    case Prim::Gt: return "gt";
    case Prim::Ge: return "ge";
    case Prim::And: return "bitwise_and";
    case Prim::Or: return "bitwise_or";
    case Prim::Xor: return "bitwise_xor";
    case Prim::Not: return "bitwise_not";
    case Prim::Shl: return "bitwise_left_shift";
    case Prim::Shr: return "bitwise_right_shift";
    case Prim::Where: return "where";
    default: return name_of(prim);  // a function
  }
}

// All elements of a result, row-major. The tensors of the call are those that the rule's stand for.
class Evaluation {
 public:
  Evaluation(Recorder& recorder, const Call& call, std::span<const Sym> place,
             const std::vector<int64_t>& sizes)
      : recorder_(recorder), call_(call) {
    for (const int64_t size : sizes) count_ *= size;
    for (int64_t i = 0; i < count_; ++i) {
      std::vector<int64_t> values = recorder.environment.values;
      int64_t rest = i;
      for (size_t d = sizes.size(); d-- > 0;) {
        if (place[d].is_symbolic())
          values[*recorder.environment.tables.syms.as_symbol(place[d])] = rest % sizes[d];
        rest /= sizes[d];
      }
      symbols_.push_back(std::move(values));
    }
  }

  // IndexError where a checked index is out of range.
  Tensor run(Expr result) {
    for (uint32_t id = 0; id < recorder_.values.nodes().size(); ++id) {
      values_.push_back(value(recorder_.values.nodes()[id]));
      for (const CheckedIndex& index : recorder_.indices)
        if (index.value == id) settle(index);
    }
    const Tensor row = make_tensor({Sym::from_int(count_)}, result.dtype());
    copy_data(expand(values_[result.id], {count_}), row);
    return row;
  }

 private:
  int64_t evaluate(Sym a, int64_t i) const {
    return a.is_symbolic() ? recorder_.environment.tables.syms.evaluate(a, symbols_[static_cast<size_t>(i)])
                           : a.concrete();
  }

  void settle(const CheckedIndex& index) {
    const Tensor value = expand(values_[index.value].to(DType::Int64), {count_}).contiguous();
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t at = data_of<int64_t>(value)[i], size = evaluate(index.size, i);
      if (at < -size || at >= size) throw IndexError("out of range");
      symbols_[static_cast<size_t>(i)][index.symbol] = at < 0 ? at + size : at;
    }
  }

  // One element, where all are alike, or all of them.
  Tensor value(const ExprGraph::Node& node) {
    if (node.prim == Prim::Input) return input(recorder_.sources[node.imm], node.dtype);
    if (node.prim == Prim::Constant) return tensor_of_bytes(&node.imm, {1}, node.dtype);
    Args args;
    for (int k = 0; k < arity_of(node.prim); ++k) {
      const DType dtype = recorder_.values.nodes()[node.args[k]].dtype;
      if (node.prim != Prim::Cast) {
        EXPECT_TRUE(dtype == compute_dtype(dtype) || dtype == DType::Bool)
            << name_of(node.prim) << ' ' << dtype;
      }
      args.push_back(values_[node.args[k]]);
    }
    const Tensor& first = *args[0].get<Tensor>();
    switch (node.prim) {
      case Prim::Cast:
      case Prim::ToInt:
      case Prim::ToFloat: return first.to(node.dtype);
      case Prim::Bitcast: return view(first, node.dtype);
      default: break;
    }
    const Tensor result = bind_call(OpTable::instance().get(op_of(node.prim)), args).run()[0];
    EXPECT_EQ(result.dtype(), node.dtype) << name_of(node.prim);
    return result;
  }

  Tensor input(const Source& source, DType dtype) {
    if (source.kind == Source::Kind::Number) {
      const Scalar& number = source.number;
      return is_floating(dtype) ? full({1}, number.to_double(), dtype) : full({1}, number.to_int(), dtype);
    }
    const Tensor result = make_tensor({Sym::from_int(count_)}, dtype);
    if (source.kind == Source::Kind::Load) return load(source, result), result;
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t at = evaluate(source.at[0], i);
      if (source.kind == Source::Kind::Place) {
        data_of<int64_t>(result)[i] = at;
        continue;
      }
      const auto seed = static_cast<uint64_t>(source.seed.to_int()),
                 offset = static_cast<uint64_t>(source.offset.to_int()), index = static_cast<uint64_t>(at);
      if (dtype == DType::Int64)
        data_of<int64_t>(result)[i] = static_cast<int64_t>(philox_word64(seed, offset, index));
      else data_of<int32_t>(result)[i] = static_cast<int32_t>(philox_word32(seed, offset, index));
    }
    return result;
  }

  void load(const Source& source, const Tensor& result) {
    const Tensor& x = call_.tensor(source.operand);
    const auto bytes = static_cast<int64_t>(x.itemsize());
    // Where the mask is false a rule may not rely on any value.
    std::memset(bytes_of(result), x.dtype() == DType::Bool ? 1 : 0x5A, result.nbytes());
    const Tensor mask =
        source.mask == kNoValue ? Tensor() : expand(values_[source.mask], {count_}).contiguous();
    for (int64_t i = 0; i < count_; ++i) {
      if (mask.defined() && !data_of<bool>(mask)[i]) continue;
      int64_t from = 0;
      for (size_t d = 0; d < source.at.size(); ++d) {
        const int64_t at = evaluate(source.at[d], i), size = int_sizes(x)[d];
        WEFT_ASSERT(at >= 0 && at < size, "element ", i, " reads place ", at, " of ", size, " in dimension ",
                    d, " of operand ", source.operand);
        from += at * int_strides(x)[d];
      }
      std::memcpy(bytes_of(result) + i * bytes, bytes_of(x) + from * bytes, static_cast<size_t>(bytes));
    }
  }

  Recorder& recorder_;
  const Call& call_;
  int64_t count_ = 1;
  std::vector<std::vector<int64_t>> symbols_;  // by element
  Tensors values_;                             // by node
};

// ---- Calls ----------------------------------------------------------------------------------------------------------

// Which parts of a call the rule does not know.
struct Unknowns {
  bool sizes = false, numbers = false;
};
constexpr Unknowns kUnknowns[] = {{}, {.sizes = true}, {.numbers = true}};

// The same call on tensors without data, whose sizes may be symbols, and with numbers that may be known later.
struct AbstractCall {
  AbstractCall(const Call& call, Unknowns unknowns, Environment& environment) {
    for (const Operand& operand : call.operands) {
      if (operand.is_tensor()) {
        const Tensor& x = *operand.tensor;
        OutputSpec spec{x->layout.sizes, x.dtype(), x.device()};
        for (Sym& size : spec.sizes)
          if (unknowns.sizes && size.concrete() > 1) size = environment.add_size(size.concrete());
        tensors.push_back(compiler::make_hollow(spec));
        operands.emplace_back(tensors.back());
      } else if (operand.is_scalar && unknowns.numbers) {
        const auto id = static_cast<uint32_t>(numbers.size());
        numbers.push_back(operand.scalar);
        operands.emplace_back(Scalar::from_trace(operand.scalar.category(), id));
      } else {
        operands.push_back(operand);
      }
    }
  }
  AbstractCall(const AbstractCall&) = delete;

  std::deque<Tensor> tensors;
  std::vector<Scalar> numbers;  // by trace id
  std::vector<Operand> operands;
};

std::string difference_in_rows(const Tensor& row, const Tensor& result) {
  Tensor flat = make_tensor({Sym::from_int(int_numel(result))}, result.dtype());
  if (int_numel(result) > 0) copy_data(reshape(result, {-1}), flat);
  return difference_of_bits(row, flat);
}

enum class Answer : uint8_t { NoRule, Equal, Differs };

// Compares rule and kernel on one call that works or has a wrong index.
Answer check_call(const Call& call, Unknowns unknowns) {
  Tensor result;
  std::optional<std::string> index_error;
  try {
    result = call_boxed(call.op, call.operands, call.attrs, call.where)[0];
  } catch (const IndexError& error) {
    index_error = error.what();
  }
  const OutputSpec known = call.op.infer(call)[0];
  Environment environment;
  AbstractCall abstract(call, unknowns, environment);
  const Call asked{call.op, abstract.operands, call.attrs, call.where};
  const OutputSpec spec = unknowns.sizes ? call.op.infer(asked)[0] : known;
  element::Place place;
  for (const Sym size : spec.sizes) place.push_back(environment.add_place(size));
  Recorder recorder(environment, asked);
  const Expr value = call.op.element(recorder, asked, spec, {place.data(), place.size()});
  EXPECT_EQ(has_element_rule(asked, spec), !value.is_number());
  if (value.is_number()) return Answer::NoRule;
  EXPECT_EQ(value.dtype(), spec.dtype);
  for (Source& source : recorder.sources)
    if (source.number.is_traced()) source.number = abstract.numbers[source.number.trace_id()];
  try {
    const Tensor row =
        Evaluation(recorder, call, {place.data(), place.size()}, SizesView(known.sizes)).run(value);
    if (index_error) {
      ADD_FAILURE() << "the rule takes an index of which the kernel says: " << *index_error;
      return Answer::Differs;
    }
    const std::string text = difference_in_rows(row, result);
    EXPECT_EQ(text, "") << to_string(recorder.values, value);
    return text.empty() ? Answer::Equal : Answer::Differs;
  } catch (const IndexError&) {
    EXPECT_TRUE(index_error.has_value()) << "the rule refuses an index that the kernel takes";
    return index_error ? Answer::Equal : Answer::Differs;
  }
}

// ---- The tests ------------------------------------------------------------------------------------------------------

std::vector<const Op*> ops_with_a_rule() {
  std::vector<const Op*> ops;
  for (const Op* op : OpTable::instance().all())
    if (op->element != nullptr) ops.push_back(op);
  return ops;
}

class ElementRuleOf : public ::testing::TestWithParam<const Op*> {
 protected:
  // The first index of every index tensor, replaced.
  void check_wrong_indices(const Sample& sample, const Tensors& tensors) {
    const std::vector<TensorSpec> specs = sample.tensors();
    for (size_t k = 0; k < specs.size(); ++k) {
      if (specs[k].below == 0 || int_numel(tensors[k]) == 0) continue;
      for (const int64_t index : {int64_t{-1}, -specs[k].below, -specs[k].below - 1, specs[k].below}) {
        SCOPED_TRACE("index " + std::to_string(index) + " in operand " + std::to_string(k));
        Tensors changed = tensors;
        changed[k] = copy_of(tensors[k]);
        if (changed[k].dtype() == DType::Int64) data_of<int64_t>(changed[k])[0] = index;
        else data_of<int32_t>(changed[k])[0] = static_cast<int32_t>(index);
        const BoundCall call = sample.call(*GetParam(), changed);
        check_call(call.call(), {});
      }
    }
  }
};

TEST_P(ElementRuleOf, EqualsTheKernelBitForBit) {
  const Op& op = *GetParam();
  ASSERT_TRUE(op.kind == Kind::Create || op.kind == Kind::Index);
  std::map<int, int> compared;  // by what was unknown
  for (const Sample& sample : samples_of(op)) {
    for (const DType dtype : kAllDTypes) {
      SCOPED_TRACE(op.name() + "(" + sample.text + ") in " + std::string(short_name_of(dtype)));
      const Tensors dense = make_tensors(op, sample, dtype, Fill::Specials);
      bool has_rule = false;
      for (const bool is_dense : {true, false}) {
        Tensors tensors;
        for (size_t k = 0; k < dense.size(); ++k)
          tensors.push_back(
              is_dense ? dense[k]
                       : arranged(dense[k], k % 2 == 0 ? Arrangement::Gaps : Arrangement::Transposed));
        const BoundCall bound = sample.call(op, tensors);
        try {
          bound.run();
        } catch (const Error&) {
          continue;  // not for this dtype
        }
        for (size_t u = 0; u < std::size(kUnknowns); ++u) {
          SCOPED_TRACE(kUnknowns[u].sizes     ? "sizes unknown"
                       : kUnknowns[u].numbers ? "numbers unknown"
                                              : "all known");
          const Answer answer = check_call(bound.call(), kUnknowns[u]);
          has_rule = has_rule || answer == Answer::Equal;
          if (answer == Answer::Equal) ++compared[static_cast<int>(u)];
        }
      }
      if (has_rule) check_wrong_indices(sample, dense);
      if (HasFailure()) return;
    }
  }
  for (size_t u = 0; u < std::size(kUnknowns); ++u)
    EXPECT_GT(compared[static_cast<int>(u)], 0) << "the rule covers no sample with unknowns " << u;
}

INSTANTIATE_TEST_SUITE_P(OpTable, ElementRuleOf, ::testing::ValuesIn(ops_with_a_rule()),
                         [](const auto& info) { return test_name_of(*info.param); });

// No op of the table has pieces like these: several copies and a fill along one dimension.
TEST(ElementRule, MovesByAnyPieces) {
  static constexpr auto rule = [](auto size) {
    using S = decltype(size(0));
    MoveRule<S> rule;
    for (int d = 0; d < 3; ++d)
      rule.dims.push_back({{size(2), size(3), -1},
                           {size(7 + d), size(0), 0, true},
                           {size(3), size(1), 1},
                           {size(0), size(0), 1},
                           {size(2), size(2), 0}});
    return rule;
  };
  Op op(Schema("probe(Tensor x) -> Tensor"), Kind::Index);
  op.move = [](const Call&) { return rule([](int64_t n) { return Sym::from_int(n); }); };
  op.element = element::of_move;
  const Tensor x = make_tensor({Sym::from_int(4), Sym::from_int(5), Sym::from_int(6)}, DType::Float16);
  for (int64_t i = 0; i < int_numel(x); ++i) data_of<Float16>(x)[i] = to_float16(static_cast<float>(i + 1));
  const MoveRule<int64_t> real = rule([](int64_t n) { return n; });
  const std::vector<int64_t> sizes = {real.size(0), real.size(1), real.size(2)};
  const Tensor want = make_tensor(SymList(sizes), DType::Float16);
  const Float16 fill = {};
  cpu::move(real, {int_sizes(x), 3}, {int_strides(x), 3}, 2, bytes_of(x), &fill, bytes_of(want));

  const Operand operand(x);
  const Call call{op, {&operand, 1}, {}, SourceLocation::current()};
  Environment environment;
  element::Place place;
  for (const int64_t size : sizes) place.push_back(environment.add_place(Sym::from_int(size)));
  Recorder recorder(environment, call);
  const std::span<const Sym> at(place.data(), place.size());
  const Expr value = op.element(recorder, call, {SymList(sizes), DType::Float16}, at);
  EXPECT_EQ(difference_in_rows(Evaluation(recorder, call, at, sizes).run(value), want), "");
}

// 2^32 + 2^24 + 1 lies above the middle of two bfloat16, and in float32 on it.
TEST(ElementRule, RoundsPartsOnce) {
  const int64_t number = (int64_t{1} << 32) + (1 << 24) + 1;
  const BFloat16 one = to_bfloat16(1.0);
  const Tensor parts[] = {tensor_of_bytes(&number, {1}, DType::Int64),
                          tensor_of_bytes(&one, {1}, DType::BFloat16)};
  const BoundCall call =
      bind_call(OpTable::instance().get("cat"), {}, {{"tensors", Arg::List{parts[0], parts[1]}}});
  EXPECT_EQ(check_call(call.call(), {}), Answer::Equal);
}

// The rule of an index into nothing is whole, but only a kernel can say that an index is wrong.
TEST(ElementRule, KnowsWhetherItMayIndexNothing) {
  const Op& op = OpTable::instance().get("index_select");
  const auto may_index_nothing_of = [&](int64_t size, const Tensor& index) {
    const Tensor x = make_tensor({Sym::from_int(size)}, DType::Float32);
    const BoundCall bound = bind_call(op, {}, {{"x", x}, {"dim", int64_t{0}}, {"index", index}});
    const OutputSpec result = op.infer(bound.call())[0];
    EXPECT_TRUE(has_element_rule(bound.call(), result)) << size;
    return may_index_nothing(bound.call(), result);
  };
  const int64_t zero = 0;
  const Tensor none = make_tensor({Sym::from_int(0)}, DType::Int64),
               first = tensor_of_bytes(&zero, {}, DType::Int64);
  EXPECT_TRUE(may_index_nothing_of(0, none));
  EXPECT_TRUE(may_index_nothing_of(0, first));
  EXPECT_FALSE(may_index_nothing_of(1, none));
  EXPECT_FALSE(may_index_nothing_of(1, first));
  const BoundCall call = bind_call(
      op, {}, {{"x", make_tensor({Sym::from_int(0)}, DType::Float32)}, {"dim", int64_t{0}}, {"index", none}});
  EXPECT_EQ(check_call(call.call(), {}), Answer::Equal);
}

// What only the kernel can refuse is left to it.
TEST(ElementRule, IsMissingWhereTheKernelMayRaise) {
  const Op& op = OpTable::instance().get("full");
  const auto has_rule = [&](const Scalar& number, DType dtype) {
    const Operand operand(number);
    const Attrs attrs = {SymList{Sym::from_int(2)}, dtype, Device(kCPU), Attr()};
    const Call call{op, {&operand, 1}, attrs, SourceLocation::current()};
    return has_element_rule(call, op.infer(call)[0]);
  };
  using enum Scalar::Category;
  EXPECT_TRUE(has_rule(65504, DType::Float16));
  EXPECT_FALSE(has_rule(1e6, DType::Float16));
  EXPECT_FALSE(has_rule(300, DType::UInt8));
  EXPECT_TRUE(has_rule(Scalar::from_trace(Floating, 0), DType::Float64));
  EXPECT_FALSE(has_rule(Scalar::from_trace(Floating, 0), DType::Float32));
  EXPECT_TRUE(has_rule(Scalar::from_trace(Integer, 0), DType::Float32));
  EXPECT_FALSE(has_rule(Scalar::from_trace(Integer, 0), DType::Float16));
  EXPECT_FALSE(has_rule(Scalar::from_trace(Integer, 0), DType::Int32));
  EXPECT_TRUE(has_rule(Scalar::from_trace(Floating, 0), DType::Bool));
}

}  // namespace
}  // namespace weft::tests
