// Ops are tried on values that are there until they work.
// Place: the out-of-line half of generate_program.h.
#include "tests/fuzz/generate_program.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

namespace weft::tests {
namespace {

constexpr int64_t kMostElements = 3000;
constexpr size_t kMostInputs = 12;

// Ops that give memory as it is, or what lies beside their operand.
struct Exception {
  const char* op;
  const char* reason;
};
constexpr Exception kNoFixedValue[] = {
    {"empty", "its data are not initialised"},
    {"empty_like", "its data are not initialised"},
    {"as_strided", "it reads the storage, also where no element of the operand lies"},
    {"as_strided.scatter", "like as_strided"},
};

bool takes_part(const Op& op) {
  if (op.has_effect) return false;
  for (const Exception& exception : kNoFixedValue)
    if (op.name() == exception.op) return false;
  return std::none_of(op.schema.params.begin(), op.schema.params.end(),
                      [](const Param& param) { return param.type == ParamType::Routine; });
}

// How often an op of a kind is wanted.
constexpr std::pair<Kind, double> kShares[] = {
    {Kind::Pointwise, 28}, {Kind::Mutation, 16},  {Kind::View, 16},  {Kind::Reduction, 14},
    {Kind::Index, 12},     {Kind::Composite, 14}, {Kind::Create, 4}, {Kind::Extern, 4},
};

const std::map<Kind, std::vector<const Op*>>& ops_by_kind() {
  static const auto all = [] {
    std::map<Kind, std::vector<const Op*>> ops;
    for (const Op* op : OpTable::instance().all())
      if (takes_part(*op)) ops[op->kind].push_back(op);
    return ops;
  }();
  return all;
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) { program_.seed = seed; }

  Program generate() {
    choose_calls();
    for (size_t i = 0, n = 1 + below(4); i < n; ++i) add_input();
    manual_seed(program_.seed + 1);
    const size_t steps = 2 + below(chance(0.3) ? 16 : 7);
    for (size_t tries = 0; tries < 60 * steps && program_.steps.size() < steps && !is_over_; ++tries) {
      const AutoGradMode grad(program_.backward != Backward::None);
      try_add_step();
    }
    choose_results();
    return std::move(program_);
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }

  void choose_calls() {
    const auto size = [&] { return one_of<int64_t>({3, 3, 4, 4, 2, 5, 7, 8, 17, 1, 0}); };
    program_.batches.push_back(size());
    while (program_.batches.size() < (chance(0.25) ? 3 : 2)) {
      const int64_t next = size();
      if (next != program_.batches.back()) program_.batches.push_back(next);
    }
    program_.dynamic = chance(0.15);
    if (chance(0.35))
      program_.backward =
          one_of({Backward::Outside, Backward::Outside, Backward::GradInside, Backward::BackwardInside});
    if (chance(0.3)) program_.num_numbers = 1 + static_cast<uint32_t>(below(2));
  }

  // ---- Inputs

  ValueName new_name(const Tensor& value) {
    const auto name = static_cast<ValueName>(values_.size());
    values_.push_back(value);
    return name;
  }

  // Its values as of the first call.
  ValueName add(ProgramInput input) {
    input.name = static_cast<ValueName>(values_.size());
    program_.inputs.push_back(input);
    // Values of earlier inputs may have been written by now; sharing goes by the living tensors.
    Program alone = program_;
    alone.backward = Backward::None;
    Tensors made = make_inputs(alone, 0);
    Tensor x = made.back();
    if (input.shares != ProgramInput::Shares::Nothing) {
      Layout<Sym> layout = x->layout;
      x = input.shares == ProgramInput::Shares::Itself ? values_[input.with]
                                                       : make_view(values_[input.with], std::move(layout));
    }
    return new_name(x);
  }

  DType any_dtype() { return chance(0.5) ? DType::Float32 : static_cast<DType>(below(kNumDTypes)); }

  void add_input() {
    ProgramInput input;
    if (!program_.inputs.empty() && chance(0.12)) {
      const ProgramInput& with = program_.inputs[below(program_.inputs.size())];
      if (!with.requires_grad) {
        input.with = with.name;
        input.dtype = with.dtype;
        input.shares = one_of({ProgramInput::Shares::Itself, ProgramInput::Shares::Transposed,
                               ProgramInput::Shares::Tail, ProgramInput::Shares::EverySecond});
        add(input);
        return;
      }
    }
    if (!program_.inputs.empty() && chance(0.4)) {
      input.sizes = program_.inputs[below(program_.inputs.size())].sizes;
      if (!input.sizes.empty() && chance(0.3)) input.sizes.erase(input.sizes.begin());
    } else {
      for (size_t d = 0, rank = one_of<size_t>({0, 1, 1, 2, 2, 2, 2, 3, 3, 4}); d < rank; ++d) {
        if (chance(d == 0 ? 0.7 : 0.15)) input.sizes.push_back({.of = Extent::Of::Batch});
        else
          input.sizes.push_back(
              {.plus = one_of<int64_t>({4, 4, 3, 3, 5, 1, 2, 8, 17, chance(0.2) ? 0 : 33})});
      }
    }
    input.dtype = any_dtype();
    input.specials = chance(0.2);
    if (chance(0.3)) input.low = 0.1, input.high = 2;
    if (is_floating(input.dtype) == false && chance(0.4)) input.below = one_of<int64_t>({2, 3, 4});
    if (chance(0.35))
      input.layout = one_of({Arrangement::Transposed, Arrangement::Gaps, Arrangement::Expanded});
    input.requires_grad = program_.backward != Backward::None && is_floating(input.dtype) && chance(0.7);
    while (elements_of(input.sizes) > kMostElements) input.sizes.pop_back();
    add(input);
  }

  int64_t elements_of(const std::vector<Extent>& sizes) {
    int64_t n = 1;
    for (const Extent& size : sizes)
      n *= size.of == Extent::Of::Batch ? *std::max_element(program_.batches.begin(), program_.batches.end())
                                        : size.plus;
    return n;
  }

  // ---- Arguments of ops

  ValueName any_value() {
    // What is new is read often, so that chains grow.
    const size_t n = values_.size();
    return static_cast<ValueName>(n > 4 && chance(0.5) ? n - 1 - below(4) : below(n));
  }

  // A value that fits beside the first one, if there is one: of its sizes, or of other dtypes as the name asks.
  ValueName value_for(const Param& param, const Tensor* first) {
    const bool is_index = param.name.starts_with("ind") || param.name.starts_with("target");
    const bool is_mask = param.name.starts_with("mask") || param.name.starts_with("cond");
    ValueName name = any_value();
    for (int tries = 0; tries < 6; ++tries, name = any_value()) {
      const Tensor& x = values_[name];
      if (is_index && x.dtype() != DType::Int64 && chance(0.9)) continue;
      if (is_mask && x.dtype() != DType::Bool && chance(0.9)) continue;
      if (first != nullptr && x.sizes() != first->sizes() && chance(0.7)) continue;
      break;
    }
    return name;
  }

  Scalar any_number() {
    const double inf = std::numeric_limits<double>::infinity();
    const Scalar numbers[] = {0, 0.0, -0.0, 1, 1.0, -1, 2, 3, 0.5, -1.5, true, false, inf, 1e-3, 100};
    return numbers[below(std::size(numbers))];
  }

  Extent any_size(const Tensor* first, ValueName first_name) {
    if (first == nullptr || first->dim() == 0 || chance(0.4))
      return {.plus = one_of<int64_t>({1, 2, 3, 4, 5, 0, -1, 17})};
    const auto dim = static_cast<int64_t>(below(static_cast<size_t>(first->dim())));
    return {Extent::Of::Size, first_name, dim, chance(0.75) ? 0 : one_of<int64_t>({-1, 1, -2})};
  }

  std::vector<Extent> any_sizes(const Tensor* first, ValueName first_name) {
    std::vector<Extent> own;
    if (first != nullptr)
      for (int64_t d = 0; d < first->dim(); ++d) own.push_back({Extent::Of::Size, first_name, d, 0});
    switch (first == nullptr ? 5 : below(7)) {
      case 0: return own;
      case 1: return {{Extent::Of::Numel, first_name, 0, 0}};
      case 2: return {{.plus = one_of<int64_t>({1, 2, 3})}, {.plus = -1}};
      case 3: own.insert(own.begin(), Extent{.plus = one_of<int64_t>({1, 2})}); return own;
      case 4: std::reverse(own.begin(), own.end()); return own;
      case 5: {
        std::vector<Extent> sizes;
        for (size_t d = 0, rank = 1 + below(3); d < rank; ++d) sizes.push_back(any_size(first, first_name));
        return sizes;
      }
      default:
        if (own.empty()) return own;
        own[below(own.size())] = {.plus = one_of<int64_t>({1, -1, 2})};
        return own;
    }
  }

  ProgramAttr any_attr(const Op& op, const Param& param, const Tensor* first, ValueName first_name) {
    if (param.has_default && chance(0.35)) return param.default_value;
    if (param.optional && chance(0.3)) return Attr();
    const int64_t rank = first != nullptr ? first->dim() : 2;
    switch (param.type) {
      case ParamType::Bool: return Attr(chance(0.5));
      case ParamType::Int:
        if (param.name.find("dim") != std::string::npos || chance(0.1))
          return Attr(static_cast<int64_t>(below(static_cast<size_t>(2 * rank + 1))) - rank);
        return any_size(first, first_name);
      case ParamType::Float: return Attr(one_of({0.5, 1.0, 2.0, 0.25, 1e-5}));
      case ParamType::Scalar: return Attr(any_number());
      case ParamType::Dims: {
        DimList dims;
        for (int64_t d = 0; d < rank; ++d) dims.push_back(d - (chance(0.3) ? rank : 0));
        std::shuffle(dims.begin(), dims.end(), random_);
        if (chance(0.5)) dims.resize(below(dims.size() + 1));
        return Attr(std::move(dims));
      }
      case ParamType::Sizes: return any_sizes(first, first_name);
      case ParamType::DType: return Attr(static_cast<DType>(below(kNumDTypes)));
      case ParamType::Device: return Attr(Device(kCPU));
      case ParamType::String: {
        // What its samples say, and what several ops of the table take.
        std::vector<std::string> texts = {"mean", "sum", "none"};
        for (const Sample& sample : samples_of(op))
          for (const Sample::Entry& entry : sample.entries)
            if (const auto* text = entry.arg.get<std::string>();
                text != nullptr && op.schema.params[entry.param].name == param.name)
              texts = {*text};
        return Attr(std::string_view(texts[below(texts.size())]));
      }
      default: return param.default_value;
    }
  }

  // ---- Steps

  const Op& any_op() {
    double total = 0;
    for (const auto& [kind, share] : kShares) total += share;
    double at = std::uniform_real_distribution<double>(0, total)(random_);
    for (const auto& [kind, share] : kShares) {
      if (at < share) {
        const std::vector<const Op*>& ops = ops_by_kind().at(kind);
        return *ops[below(ops.size())];
      }
      at -= share;
    }
    return *ops_by_kind().begin()->second.front();
  }

  void try_add_step() {
    const Op& op = any_op();
    // What an op with samples takes is seldom met by chance.
    if (!op.samples.calls.empty() && program_.inputs.size() < kMostInputs && chance(0.35)) try_sample(op);
    else try_chance(op);
  }

  void try_chance(const Op& op) {
    ProgramStep step{&op, {}, {}, {}};
    const Tensor* first = nullptr;
    ValueName first_name = 0;
    const auto add_value = [&](const Param& param) {
      const ValueName name = value_for(param, first);
      step.operands.push_back({ProgramOperand::Kind::Value, name, {}, 0});
      if (first == nullptr) first = &values_[name], first_name = name;
    };
    const auto add_number = [&](Scalar number) {
      if (program_.num_numbers > 0 && chance(0.4))
        step.operands.push_back(
            {ProgramOperand::Kind::Argument, 0, {}, static_cast<uint32_t>(below(program_.num_numbers))});
      else step.operands.push_back({ProgramOperand::Kind::Number, 0, number, 0});
    };
    // The tensors of a list come last.
    for (const bool lists : {false, true}) {
      for (const Param& param : op.schema.params) {
        const bool is_list =
            param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList;
        if (!param.is_operand() || is_list != lists) continue;
        switch (param.type) {
          case ParamType::Tensor: add_value(param); break;
          case ParamType::OptionalTensor:
            if (chance(0.5)) add_value(param);
            else step.operands.emplace_back();
            break;
          case ParamType::TensorList:
          case ParamType::OptionalTensorList:
            for (size_t i = 0, n = 1 + below(3); i < n; ++i) {
              if (param.type == ParamType::OptionalTensorList && chance(0.3)) step.operands.emplace_back();
              else add_value(param);
            }
            break;
          case ParamType::OptionalValue:
            if (chance(0.3)) {
              step.operands.emplace_back();
              break;
            }
            [[fallthrough]];
          case ParamType::Value:
            if (first == nullptr || chance(0.6)) {
              add_value(param);
              break;
            }
            [[fallthrough]];
          default:
            add_number(param.has_default && !param.default_value.is_none() && chance(0.7)
                           ? param.default_value.as_scalar()
                           : any_number());
        }
      }
    }
    for (const Param& param : op.schema.params)
      if (!param.is_operand()) step.attrs.push_back(any_attr(op, param, first, first_name));
    try_step(std::move(step));
  }

  // One of the calls that the op's entry gives, on values that are there or on new inputs.
  void try_sample(const Op& op) {
    const std::vector<Sample> samples = samples_of(op);
    const Sample& sample = samples[below(samples.size())];
    const DType dtype = any_dtype();
    Tensors tensors;
    std::vector<ValueName> names;
    const size_t num_inputs = program_.inputs.size(), num_values = values_.size();
    const bool varies = chance(0.6);
    for (const TensorSpec& spec : sample.tensors()) {
      const DType wanted = spec.dtype.value_or(dtype);
      std::vector<ValueName> fitting;
      for (ValueName name = 0; name < values_.size(); ++name)
        if (values_[name].dtype() == wanted && values_[name].sizes() == spec.sizes && spec.below == 0)
          fitting.push_back(name);
      if (!fitting.empty() && chance(0.8)) {
        names.push_back(fitting[below(fitting.size())]);
      } else {
        ProgramInput input;
        for (const int64_t size : spec.sizes) {
          if (varies && size == program_.batches[0]) input.sizes.push_back({.of = Extent::Of::Batch});
          else input.sizes.push_back({.plus = size});
        }
        input.dtype = wanted;
        input.low = op.samples.low;
        input.high = op.samples.high;
        input.below = spec.below;
        if (chance(0.2)) input.layout = one_of({Arrangement::Transposed, Arrangement::Gaps});
        input.requires_grad = program_.backward != Backward::None && is_floating(wanted) && chance(0.7);
        names.push_back(add(input));
      }
      tensors.push_back(values_[names.back()]);
    }
    const BoundCall call = sample.call(op, tensors);
    ProgramStep step{&op, {}, {}, {}};
    size_t next = 0;
    for (const Operand& operand : call.operands()) {
      if (operand.is_tensor()) step.operands.push_back({ProgramOperand::Kind::Value, 0, {}, 0});
      else if (operand.is_scalar)
        step.operands.push_back({ProgramOperand::Kind::Number, 0, operand.scalar, 0});
      else step.operands.emplace_back();
    }
    // Tensors of a list come last among the operands, and so may be asked for in another order: by identity.
    for (size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i].kind != ProgramOperand::Kind::Value) continue;
      for (next = 0; next < tensors.size() && !tensors[next].is_same(*call.operands()[i].tensor);) ++next;
      step.operands[i].value = names[next];
    }
    for (const Attr& attr : call.attrs()) step.attrs.emplace_back(attr);
    if (try_step(std::move(step))) return;
    // Inputs that nobody wanted go again.
    program_.inputs.resize(num_inputs);
    values_.resize(num_values);
  }

  // Whether it became part of the program.
  bool try_step(ProgramStep step) {
    const Op& op = *step.op;
    if (op.view_dtype != nullptr && !step.attrs.empty()) {
      const auto* attr = std::get_if<Attr>(&step.attrs.front());
      // Other bits than those of 0 and 1 are no bool.
      if (attr != nullptr && attr->is<DType>() && attr->as_dtype() == DType::Bool) return false;
    }
    ProgramValues values;
    for (ValueName name = 0; name < values_.size(); ++name) values[name] = values_[name];
    // As many results as it gives: found by running it.
    program_.steps.push_back(step);
    const size_t index = program_.steps.size() - 1;
    if (index >= kMostSteps) {
      program_.steps.pop_back();
      return false;
    }
    Tensors results;
    try {
      results = run_step(program_, index, values, make_numbers(program_, 0), true);
    } catch (const NotComparable&) {
      program_.steps.pop_back();
      return false;
    } catch (const InternalError&) {
      is_over_ = true;
      return true;
    } catch (const Error&) {
      // Now and then a program ends with an error, if the arguments are not too wild.
      if (index > 0 && chance(0.01)) {
        is_over_ = true;
        if (!is_in_place(op) && !op.schema.returns_list) program_.steps.back().results = {new_name({})};
        return true;
      }
      program_.steps.pop_back();
      return false;
    }
    for (const Tensor& result : results) {
      if (result.defined() && int_numel(result) <= kMostElements && result.dim() <= 5) continue;
      program_.steps.pop_back();
      return false;
    }
    if (is_in_place(op)) return true;
    constexpr size_t kMostResults = 3;
    if (results.size() > kMostResults) results.resize(kMostResults);
    for (const Tensor& result : results) program_.steps.back().results.push_back(new_name(result));
    return true;
  }

  void choose_results() {
    std::vector<ValueName> made;
    for (const ProgramStep& step : program_.steps)
      made.insert(made.end(), step.results.begin(), step.results.end());
    if (made.empty() || chance(0.1)) made.push_back(program_.inputs[below(program_.inputs.size())].name);
    program_.results.push_back(made.back());
    for (size_t i = 0, n = below(4); i < n; ++i) program_.results.push_back(made[below(made.size())]);
    std::sort(program_.results.begin(), program_.results.end());
    if (!chance(0.1))
      program_.results.erase(std::unique(program_.results.begin(), program_.results.end()),
                             program_.results.end());
  }

  std::mt19937 random_;
  Program program_;
  Tensors values_;  // by name
  bool is_over_ = false;
};

}  // namespace

Program generate_program(uint32_t seed) { return Generator(seed).generate(); }

}  // namespace weft::tests
