// Making random graphs: ops are tried on values that are there until they work.
#include "tests/compiler/random_graph.h"

#include <algorithm>
#include <limits>

namespace weft::compiler::tests {
namespace {

constexpr int64_t kMostElements = 200;

// The sign and the digits of a NaN are nobody's: what shows them takes part where there is none.
bool shows_nan_bits(const Op& op) {
  return op.view_dtype != nullptr || op.name().starts_with("signbit") || op.name().starts_with("copysign");
}
bool has_nan(const Tensor& x) { return is_floating(x.dtype()) && any(isnan(x)).item<bool>(); }

bool takes_part(const Op& op) {
  if (op.data_dependent || op.schema.returns_list || op.schema.num_outputs == 0 || op.has_effect)
    return false;
  switch (op.kind) {
    case Kind::Pointwise:
    case Kind::Reduction:
    case Kind::View:
    case Kind::Index: return true;
    case Kind::Create: return op.algebra.is_fill;
    default: return false;
  }
}

}  // namespace

RandomGraph::RandomGraph(uint32_t seed, int nodes) : random_(seed) {
  // Views, moves and what has algebra come often: there is little to rewrite elsewhere.
  for (const Op* op : OpTable::instance().all()) {
    if (!takes_part(*op)) continue;
    const Algebra& a = op->algebra;
    const bool is_rich = op->kind == Kind::View || op->name() == "to_dtype" || op->name() == "clone" ||
                         op->name() == "copy" || a.is_fill || a.is_involution || a.is_idempotent ||
                         a.is_choice || !a.identities.empty();
    ops_.insert(ops_.end(), is_rich ? 12 : 1, op);
  }
  const AutoGradMode off(false);
  add_inputs();
  for (int made = 0, tries = 0; made < nodes && tries < 200 * nodes; ++tries) made += try_add_node();
}

void RandomGraph::add_inputs() {
  const double inf = std::numeric_limits<double>::infinity();
  const auto add = [&](const SymList& sizes, DType dtype) {
    const double specials[] = {0.0, -0.0, 1, -1, inf, -inf, std::numeric_limits<double>::quiet_NaN(), 0.5, 2};
    const int64_t n = product({sizes.data(), sizes.size()}).concrete();
    Tensor x = make_tensor(sizes, DType::Float64);
    for (int64_t i = 0; i < n; ++i)
      data_of<double>(x)[i] = chance(0.3) ? specials[below(std::size(specials))]
                                          : std::uniform_real_distribution<double>(-4, 4)(random_);
    x = x.to(dtype);
    if (sizes.size() == 2 && chance(0.3)) x = x.transpose(0, 1);
    graph.add_input(spec_of(x));
    inputs.push_back(x);
    values.push_back(x);
  };
  add({3, 4}, DType::Float32);
  add({3, 4}, DType::Float32);
  add({4}, DType::Float32);
  add({2, 3, 4}, DType::Float32);
  add({3, 4}, DType::BFloat16);
  add({3, 4}, DType::Bool);
  add({}, DType::Float64);
  add({3, 4}, chance(0.5) ? DType::Int64 : DType::UInt8);
  // Indices.
  const Tensor index = arange(4).remainder(3).to(kInt64);
  graph.add_input(spec_of(index));
  inputs.push_back(index);
  values.push_back(index);
}

Scalar RandomGraph::any_number() {
  const double inf = std::numeric_limits<double>::infinity();
  const Scalar numbers[] = {0, 0.0, -0.0, 1, 1.0, 1, 1.0, -1, 2, 0.5, true, false, inf, -inf};
  return numbers[below(std::size(numbers))];
}

Attr RandomGraph::any_attr(const Param& param, const Tensor* first) {
  if (param.has_default && chance(0.4)) return param.default_value;
  if (param.optional && chance(0.3)) return {};
  const int64_t rank = first != nullptr ? first->dim() : 2;
  const auto dim = [&] { return static_cast<int64_t>(below(static_cast<size_t>(2 * rank + 1))) - rank; };
  switch (param.type) {
    case ParamType::Bool: return chance(0.5);
    case ParamType::Int: return dim();
    case ParamType::Float: {
      const double numbers[] = {0.5, 1, 2, 0.25};
      return numbers[below(std::size(numbers))];
    }
    case ParamType::Scalar: return Scalar(static_cast<int64_t>(below(3)));
    case ParamType::Dims: {
      DimList dims;
      for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
      std::shuffle(dims.begin(), dims.end(), random_);
      if (chance(0.4)) dims.resize(below(dims.size() + 1));
      return dims;
    }
    case ParamType::Sizes: {
      if (first == nullptr) return chance(0.5) ? SymList{3, 4} : SymList{4};
      SymList own = first->sizes();
      const int64_t n = int_numel(*first);
      switch (below(6)) {
        case 0: return own;
        case 1: return SymList{n};
        case 2: return SymList{2, -1};
        case 3: own.insert(own.begin(), Sym::from_int(2)); return own;
        case 4: std::reverse(own.begin(), own.end()); return own;
        default: return SymList(first->strides());
      }
    }
    case ParamType::DType: return static_cast<DType>(below(kNumDTypes));
    case ParamType::Device: return Device(kCPU);
    default: return param.default_value;
  }
}

// What is there already, once more; sometimes with the first two operands exchanged.
void RandomGraph::repeat_node() {
  Node node = graph.nodes[below(graph.nodes.size())];
  if (node.operands.size() > 1 && node.operands[0].is_value() && node.operands[1].is_value() &&
      node.op->algebra.is_commutative && chance(0.5))
    std::swap(node.operands[0], node.operands[1]);
  run_and_add(std::move(node));
}

bool RandomGraph::run_and_add(Node node) {
  std::vector<Operand> operands;
  for (const Argument& argument : node.operands) {
    if (argument.is_value()) operands.emplace_back(values[argument.value]);
    else if (argument.kind == Argument::Kind::Number) operands.emplace_back(argument.number);
    else operands.emplace_back();
  }
  if (shows_nan_bits(*node.op)) {
    for (const Operand& operand : operands)
      if (operand.is_tensor() && has_nan(*operand.tensor)) return false;
  }
  std::vector<Tensor> results(static_cast<size_t>(node.op->schema.num_outputs));
  try {
    call_into(*node.op, operands, node.attrs, {}, results);
  } catch (const Error&) {
    return false;
  }
  std::vector<OutputSpec> specs;
  for (const Tensor& result : results) {
    if (int_numel(result) > kMostElements || result.dim() > 4) return false;
    specs.push_back(spec_of(result));
  }
  graph.add_node(std::move(node), specs);
  values.insert(values.end(), results.begin(), results.end());
  return true;
}

bool RandomGraph::try_add_node() {
  if (!graph.nodes.empty() && chance(0.1)) {
    repeat_node();
    return true;
  }
  const Op& op = *ops_[below(ops_.size())];
  Node node;
  node.op = &op;
  const Tensor* first = nullptr;
  const auto add_value = [&] {
    // What is new is read often, so that chains grow.
    const ValueId id =
        chance(0.5) && values.size() > 12 ? static_cast<ValueId>(values.size() - 1 - below(6)) : any_value();
    node.operands.push_back(value(id));
    if (first == nullptr) first = &values[id];
  };
  // The tensors of a list come last.
  for (const bool lists : {false, true}) {
    for (const Param& param : op.schema.params) {
      const bool is_list = param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList;
      if (!param.is_operand() || is_list != lists) continue;
      switch (param.type) {
        case ParamType::Tensor: add_value(); break;
        case ParamType::TensorList:
        case ParamType::OptionalTensorList:
          add_value();
          add_value();
          break;
        case ParamType::OptionalTensor: node.operands.emplace_back(); break;
        case ParamType::Value:
        case ParamType::OptionalValue:
          if (first == nullptr || chance(0.6)) {
            add_value();
            break;
          }
          [[fallthrough]];
        case ParamType::Number: {
          const Scalar n = param.has_default && chance(0.7) ? param.default_value.as_scalar() : any_number();
          node.operands.push_back(number(n));
          break;
        }
        default: return false;
      }
    }
  }
  for (const Param& param : op.schema.params)
    if (!param.is_operand()) node.attrs.push_back(any_attr(param, first));
  return run_and_add(std::move(node));
}

}  // namespace weft::compiler::tests
