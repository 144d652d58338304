// The rules of simplify, and the sweep that applies them.
// Place: compiler/passes/simplify.h says where it stands. Rules ask for facts of the table (Op::kind, Op::algebra,
// Promote::Move), never for an op's name.
#include "compiler/passes/simplify.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "compiler/passes/rewrite.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/table_environment.h"
#include "tensor/ops/pointwise_rule.h"

namespace weft::compiler {
namespace {

// What a rule makes of a node: a value that is there already, or another node. Neither: it does not apply.
struct Result {
  ValueId value = kNoValue;
  std::optional<Node> node;

  Result() = default;
  Result(ValueId v) : value(v) {}         // NOLINT
  Result(Node n) : node(std::move(n)) {}  // NOLINT
  bool applies() const { return value != kNoValue || node.has_value(); }
};

// The new graph as rules see it. A node under a rule has one result, whose spec is `type`.
class Sweep {
 public:
  explicit Sweep(const Graph& graph)
      : graph_(graph), rewriter_(graph), environment_(*graph.expressions), hollow_(rewriter_.to()) {}
  Graph run();

  // ---- Asked by rules
  const Node* maker_of(ValueId value) const {
    const NodeId n = now()[value].node;
    return n == kNoNode ? nullptr : &now().nodes[n];
  }
  const Value& operator[](ValueId value) const { return now()[value]; }
  bool has_spec(ValueId value, const Value& type) const {
    return has_same_spec(graph_.expressions->syms, now()[value], type);
  }
  bool has_layout(ValueId value, const Value& type) const {
    return has_same_layout(graph_.expressions->syms, now()[value], type);
  }
  bool is_equal(Sym a, Sym b) const { return compiler::is_equal(graph_.expressions->syms, a, b); }
  // The node gives what `type` says, for all sizes.
  bool gives(const Node& node, const Value& type);
  // The number that all elements of the value are, exactly; nothing if they differ or are not known.
  std::optional<Scalar> uniform(ValueId value) const { return uniform_[value]; }
  std::span<const Operand> operands(const Node& node) { return hollow_.operands(node); }

 private:
  const Graph& now() const { return rewriter_.to(); }
  void add(ValueId old, ValueId value);
  std::optional<Scalar> uniform_of(const Node& node, const Value& type) const;

  const Graph& graph_;
  Rewriter rewriter_;
  TableEnvironment environment_;
  HollowValues hollow_;
  std::vector<std::optional<Scalar>> uniform_;  // by new value
};

// ---- Facts ------------------------------------------------------------------------------------------------------------

bool is_move(const Op& op) { return op.pointwise != nullptr && op.pointwise->promote == Promote::Move; }

// What the eager kernels make of one number: an element of `dtype`, converted to `to`. Nothing if the dtype does not hold
// it: the node raises when it runs.
std::optional<Scalar> element(const Scalar& number, DType dtype, DType to) {
  struct Pause {
    TraceHook* trace = std::exchange(current_trace(), nullptr);
    AutoGradMode off{false};
    ~Pause() { current_trace() = trace; }
  } pause;
  try {
    return scalar_tensor(number, TensorOptions(dtype)).to(to).item();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_known(const Scalar& number) { return !number.is_traced() && !number.is_symbolic(); }

// Every value of the first type is one of the second.
bool holds_all_of(DType from, DType to) {
  struct Format {
    int digits, exponent;  // significant bits, and those of the exponent (integers: 0)
    bool is_signed;
  };
  const auto format = [](DType dtype) -> Format {
    switch (dtype) {
      case DType::Float32: return {24, 8, true};
      case DType::Float64: return {53, 11, true};
      case DType::BFloat16: return {8, 8, true};
      case DType::Float16: return {11, 5, true};
      case DType::Int64: return {63, 0, true};
      case DType::Int32: return {31, 0, true};
      case DType::Int16: return {15, 0, true};
      case DType::Int8: return {7, 0, true};
      case DType::UInt8: return {8, 0, false};
      case DType::Bool: return {1, 0, false};
    }
    return {};
  };
  if (is_floating(from) && !is_floating(to)) return false;
  const Format a = format(from), b = format(to);
  return a.digits <= b.digits && a.exponent <= b.exponent && (!a.is_signed || b.is_signed);
}

// Converting by way of `via` gives what converting at once gives.
bool is_lossless(DType from, DType via, DType to) {
  if (from == via) return true;
  if (!holds_all_of(from, via)) return false;
  // Integers wrap where floats saturate.
  const bool saturates = is_floating(via) && !is_floating(from) && is_integral(to);
  return !saturates || holds_all_of(from, to);
}

// Bit for bit the number of an identity, as an operand beside tensors of this dtype.
bool is_number(const Scalar& given, double number, DType dtype) {
  if (!is_known(given)) return false;
  if (is_floating(dtype))
    return std::bit_cast<uint64_t>(given.to_double()) == std::bit_cast<uint64_t>(number);
  return given.to_double() == number;
}

// ---- Rules: algebra ---------------------------------------------------------------------------------------------------

// The operands in all slots but these two are the defaults.
bool rest_is_default(const Node& node, int slot, int other) {
  for (size_t p = 0; p < node.op->schema.params.size(); ++p) {
    const Param& param = node.op->schema.params[p];
    if (!param.is_operand()) continue;
    const int at = node.op->schema.operand_index(p);
    if (at == slot || at == other || static_cast<size_t>(at) >= node.operands.size()) continue;
    const Argument& rest = node.operands[static_cast<size_t>(at)];
    if (rest.kind != Argument::Kind::Number || !param.has_default || !is_known(rest.number) ||
        rest.number.to_double() != param.default_value.as_scalar().to_double())
      return false;
  }
  return true;
}

Result identity_number(Sweep& sweep, const Node& node, const Value& type) {
  for (const Algebra::Identity& identity : node.op->algebra.identities) {
    const Argument &number = node.operands[static_cast<size_t>(identity.slot)],
                   &other = node.operands[static_cast<size_t>(identity.gives)];
    if (number.kind == Argument::Kind::Number && other.is_value() && sweep.has_spec(other.value, type) &&
        is_number(number.number, identity.number, type.dtype) &&
        rest_is_default(node, identity.slot, identity.gives))
      return other.value;
  }
  return {};
}

Result involution(Sweep& sweep, const Node& node, const Value& type) {
  if (!node.op->algebra.is_involution) return {};
  const Node* inner = sweep.maker_of(node.operands[0].value);
  if (inner == nullptr || inner->op != node.op || !sweep.has_spec(inner->operands[0].value, type)) return {};
  return inner->operands[0].value;
}

Result idempotent(Sweep& sweep, const Node& node, const Value& type) {
  if (!node.op->algebra.is_idempotent || !node.operands[0].is_value()) return {};
  const Node* inner = sweep.maker_of(node.operands[0].value);
  if (inner == nullptr || inner->op != node.op || !sweep.has_spec(node.operands[0].value, type)) return {};
  for (size_t i = 1; i < node.operands.size(); ++i)
    if (!is_same(node.operands[i], inner->operands[i])) return {};
  return node.operands[0].value;
}

Result choice(Sweep& sweep, const Node& node, const Value& type) {
  if (!node.op->algebra.is_choice) return {};
  const Argument *taken = nullptr, &a = node.operands[1], &b = node.operands[2];
  if (is_same(a, b)) taken = &a;
  else if (const std::optional<Scalar> condition = sweep.uniform(node.operands[0].value))
    taken = condition->to_double() != 0 ? &a : &b;
  if (taken == nullptr || !taken->is_value() || !sweep.has_spec(taken->value, type)) return {};
  return taken->value;
}

// ---- Rules: numbers ---------------------------------------------------------------------------------------------------

// A tensor that is one number throughout becomes that number, where nothing else sees the difference.
Result uniform_operand(Sweep& sweep, const Node& node, const Value& type) {
  if (node.op->kind != Kind::Pointwise || is_move(*node.op)) return {};
  const PointwiseTypes before = pointwise_types(*node.op, sweep.operands(node));
  for (const Param& param : node.op->schema.params) {
    if (param.type != ParamType::Value && param.type != ParamType::OptionalValue) continue;
    const auto slot = static_cast<size_t>(
        node.op->schema.operand_index(static_cast<size_t>(&param - node.op->schema.params.data())));
    const Argument& operand = node.operands[slot];
    if (!operand.is_value()) continue;
    const std::optional<Scalar> number = sweep.uniform(operand.value);
    // Beyond 2^53 the way through a double would round twice.
    if (!number || (!number->is_floating() && std::abs(number->to_double()) > 0x1p53)) continue;
    Node changed = node;
    changed.operands[slot] = Argument::of(*number);
    const auto is_value = [](const Argument& argument) { return argument.is_value(); };
    if (std::none_of(changed.operands.begin(), changed.operands.end(), is_value)) continue;
    const PointwiseTypes after = pointwise_types(*node.op, sweep.operands(changed));
    if (after.common == before.common && after.result == before.result && sweep.gives(changed, type))
      return changed;
  }
  return {};
}

// ---- Rules: moves -----------------------------------------------------------------------------------------------------

// All operands of a move but the last give no more than sizes and dtype.
Result move_of_own_type(Sweep& sweep, const Node& node, const Value& type) {
  if (!is_move(*node.op)) return {};
  const Argument& last = node.operands.back();
  if (!last.is_value() || !sweep.has_spec(last.value, type)) return {};
  return last.value;
}

// A tensor filled with one number needs no other.
Result move_of_number(Sweep& sweep, const Node& node, const Value& type) {
  if (!is_move(*node.op)) return {};
  const Argument& last = node.operands.back();
  std::optional<Scalar> number;
  if (last.kind == Argument::Kind::Number) number = last.number;
  else if ((number = sweep.uniform(last.value)))
    number = element(*number, sweep[last.value].dtype, type.dtype);
  if (!number) return {};
  Node fill = node;
  fill.op = &WEFT_OP("full");
  fill.operands = {Argument::of(*number)};
  fill.attrs = {SymList(type.sizes), type.dtype, type.device, Attr()};
  if (sweep.gives(fill, type)) return fill;
  fill.attrs[3] = SymList(type.strides);
  if (sweep.gives(fill, type)) return fill;
  return {};
}

// copy(self, source) reads its source alone.
Result move_without_self(Sweep& sweep, const Node& node, const Value& type) {
  if (!is_move(*node.op) || node.operands.size() < 2 || !node.operands.back().is_value()) return {};
  Node move = node;
  move.operands = {node.operands.back()};
  move.op = &WEFT_OP("to_dtype");
  move.attrs = {type.dtype};
  if (sweep[node.operands.back().value].dtype == type.dtype) {
    move.op = &WEFT_OP("clone");
    move.attrs = {false};
  }
  if (sweep.gives(move, type)) return move;
  return {};
}

Result move_of_move(Sweep& sweep, const Node& node, const Value& type) {
  if (!is_move(*node.op) || node.operands.size() != 1) return {};
  const Node* inner = sweep.maker_of(node.operands[0].value);
  if (inner == nullptr || !is_move(*inner->op) || inner->operands.size() != 1) return {};
  const ValueId source = inner->operands[0].value;
  if (!is_lossless(sweep[source].dtype, sweep[node.operands[0].value].dtype, type.dtype)) return {};
  Node direct = node;
  direct.operands[0] = Argument::of(source);
  if (sweep.gives(direct, type)) return direct;
  return {};
}

// ---- Rules: views -----------------------------------------------------------------------------------------------------

// What a view is a view of, what that is one of, and so on; nearest first.
std::vector<ValueId> bases_of(const Sweep& sweep, const Node& view) {
  constexpr size_t kMost = 16;  // longer chains are shortened piece by piece
  std::vector<ValueId> bases = {view.operands[0].value};
  while (const Node* maker = sweep.maker_of(bases.back())) {
    if (maker->op->kind != Kind::View || bases.size() == kMost) break;
    bases.push_back(maker->operands[0].value);
  }
  return bases;
}

Result view_of_own_layout(Sweep& sweep, const Node& node, const Value& type) {
  if (node.op->kind != Kind::View) return {};
  const std::vector<ValueId> bases = bases_of(sweep, node);
  for (size_t i = bases.size(); i-- > 0;)
    if (sweep.has_spec(bases[i], type)) return bases[i];
  return {};
}

Result view_of_earlier_base(Sweep& sweep, const Node& node, const Value& type) {
  if (node.op->kind != Kind::View) return {};
  const std::vector<ValueId> bases = bases_of(sweep, node);
  for (size_t i = bases.size(); i-- > 1;) {
    Node direct = node;
    direct.operands[0] = Argument::of(bases[i]);
    if (sweep[bases[i]].dtype == sweep[bases[0]].dtype && sweep.gives(direct, type)) return direct;
  }
  return {};
}

Result permutation_of_earlier_base(Sweep& sweep, const Node& node, const Value& type) {
  if (node.op->kind != Kind::View) return {};
  const std::vector<ValueId> bases = bases_of(sweep, node);
  for (size_t i = bases.size(); i-- > 1;) {
    const Value& base = sweep[bases[i]];
    if (base.sizes.size() != type.sizes.size() || base.dtype != type.dtype) continue;
    DimList dims;
    SmallVector<bool, kInlineRank> is_taken(base.sizes.size(), false);
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      for (size_t from = 0; from < base.sizes.size(); ++from) {
        if (is_taken[from] || !sweep.is_equal(type.sizes[d], base.sizes[from]) ||
            !sweep.is_equal(type.strides[d], base.strides[from]))
          continue;
        is_taken[from] = true;
        dims.push_back(static_cast<int64_t>(from));
        break;
      }
    }
    if (dims.size() != type.sizes.size()) continue;
    Node direct = node;
    direct.op = &WEFT_OP("permute");
    direct.operands = {Argument::of(bases[i])};
    direct.attrs = {dims};
    if (sweep.gives(direct, type)) return direct;
  }
  return {};
}

// ---- The list ---------------------------------------------------------------------------------------------------------

// f, g: ops. x, y: tensors. n: a number. Equality is of bits; the result always has the type of the node: sizes, strides,
// offset and dtype. The first rule that applies is taken, then the list is tried again on what it gave.
struct Rule {
  const char* pattern;
  const char* result;
  const char* condition;
  Result (*apply)(Sweep&, const Node&, const Value& type);
};
constexpr Rule kRules[] = {
    {"f(x, n)", "x", "n is an identity number of f", identity_number},
    {"f(f(x))", "x", "f is an involution", involution},
    {"f(f(x, y), y)", "f(x, y)", "f is idempotent", idempotent},
    {"choose(c, x, y)", "x or y", "c is one number throughout, or x is y", choice},
    {"f(x, y)", "f(x, n)", "f is pointwise, y is n throughout, and n takes part in the dtype as y did",
     uniform_operand},
    {"move(x)", "x", "x has the type of the result", move_of_own_type},
    {"move(n)", "full(n)", "", move_of_number},
    {"move(x, y)", "move(y)", "y has the sizes of x", move_without_self},
    {"move(move(x))", "move(x)", "the inner conversion keeps every value", move_of_move},
    {"view(… view(x))", "x", "x has the layout of the result", view_of_own_layout},
    {"g(view(… x))", "g(x)", "g leads from x to the same layout", view_of_earlier_base},
    {"view(… view(x))", "permute(x)", "the layouts differ in the order of the dimensions",
     permutation_of_earlier_base},
};
// A node changes a few times at most: each rule drops a node or an operand.
constexpr int kMaxRounds = 32;

// ---- The sweep --------------------------------------------------------------------------------------------------------

bool Sweep::gives(const Node& node, const Value& type) {
  environment_.reset();
  try {
    const std::optional<OutputSpecs> specs =
        infer_results(Call{*node.op, hollow_.operands(node), node.attrs, node.where});
    if (!specs || specs->size() != 1 || environment_.has_guessed()) return false;
    const OutputSpec& spec = (*specs)[0];
    Value given = type;
    given.sizes = spec.sizes;
    given.strides = spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes);
    given.offset = spec.offset;
    given.dtype = spec.dtype;
    given.device = spec.device;
    return has_same_spec(graph_.expressions->syms, given, type);
  } catch (const TableEnvironment::UnknownNumber&) {
    return false;
  } catch (const Error&) {
    return false;  // the op does not take these operands
  }
}

std::optional<Scalar> Sweep::uniform_of(const Node& node, const Value& type) const {
  if (node.op->algebra.is_fill) {
    const Scalar& number = node.operands[0].number;
    return is_known(number) ? element(number, type.dtype, type.dtype) : std::nullopt;
  }
  const bool keeps_values =
      (node.op->kind == Kind::View && node.op->view_dtype == nullptr && !node.op->views_storage) ||
      (is_move(*node.op) && node.operands.size() == 1);
  if (!keeps_values) return std::nullopt;
  const ValueId source = node.operands[0].value;
  const std::optional<Scalar> number = uniform_[source];
  return number ? element(*number, now()[source].dtype, type.dtype) : std::nullopt;
}

void Sweep::add(ValueId old, ValueId value) {
  uniform_.resize(now().values.size());
  rewriter_.set(old, value);
}

Graph Sweep::run() {
  rewriter_.copy_inputs();
  Memory memory(rewriter_);
  for (ValueId input : graph_.inputs) {
    memory.add(input, rewriter_[input]);
    add(input, rewriter_[input]);
  }
  for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
    const Node& old = graph_.nodes[n];
    if (old.num_outputs != 1 || old.op->has_effect) {
      rewriter_.copy(n);
      for (uint32_t k = 0; k < old.num_outputs; ++k) {
        memory.add(old.first_output + k, rewriter_[old.first_output + k]);
        add(old.first_output + k, rewriter_[old.first_output + k]);
      }
      continue;
    }
    const ValueId result = old.first_output;
    const Value& type = graph_[result];
    Node node = rewriter_.translated(old);
    ValueId stands = kNoValue;
    bool is_changing = true;
    for (int round = 0; is_changing && round < kMaxRounds; ++round) {
      is_changing = false;
      for (const Rule& rule : kRules) {
        Result found = rule.apply(*this, node, type);
        if (found.value != kNoValue && memory.may_stand_for(found.value, result)) {
          stands = found.value;
          break;
        }
        if (!found.node) continue;
        node = std::move(*found.node);
        is_changing = true;
        break;
      }
    }
    if (stands != kNoValue) {
      memory.stands_for(stands, result);
      add(result, stands);
      continue;
    }
    const OutputSpec spec = type.spec();
    const ValueId added = rewriter_.to().add_node(std::move(node), {&spec, 1});
    memory.add(result, added);
    add(result, added);
    uniform_[added] = uniform_of(rewriter_.to().nodes.back(), type);
  }
  return rewriter_.finish();
}

}  // namespace

Graph simplify(const Graph& graph) { return Sweep(graph).run(); }

}  // namespace weft::compiler
