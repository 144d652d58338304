// What loops can compute of a graph, and where its values lie.
// Place: with body_builder.cpp the out-of-line half of compiler/loops/body_builder.h.
#include "compiler/loops/body_builder.h"
#include "tensor/ops/pointwise_rule.h"

namespace weft::compiler {

Lowering::Lowering(const Graph& g)
    : graph(g),
      expressions(std::make_shared<Expressions>(*g.expressions)),
      environment(*expressions),
      values(g.values),
      unit_of(g.values.size(), kNoUnit),
      in_memory(g.values.size()),
      hollow(g),
      inlinable_(g.nodes.size(), -1),
      layouts_(g.values.size()),
      dense_views_(g.nodes.size()) {
  for (const ValueId input : g.inputs) in_memory[input] = true;
}

Sym Lowering::symbol(uint32_t role, Sym size) {
  if (is_one(size)) return Sym::from_int(0);
  const std::pair<uint64_t, uint32_t> key(key_of(size), role);
  if (const auto found = symbols_.find(key); found != symbols_.end()) return found->second;
  const Interval range = syms().range(size);
  const std::string name = role == kBatch ? "b" : role == kRow ? "x" : role == kColumn ? "r" : "i";
  // The index of a loop that never runs may be anything: what follows from it must not be a fixed place, which would be read
  // before the loop.
  const int64_t most =
      range.max == INT64_MAX || range.max == 0 ? INT64_MAX : std::max<int64_t>(1, range.max - 1);
  const Sym made = syms().add_symbol({.name = name, .hint = 0, .min = 0, .max = most});
  if (size.is_symbolic()) syms().assume(SymCompare::Lt, made, size);
  symbols_.emplace(key, made);
  return made;
}

ValueId Lowering::add_partial(const Value& value) {
  values.push_back(value);
  unit_of.push_back(kNoUnit);
  in_memory.push_back(false);
  layouts_.emplace_back();
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Lowering::root_of(ValueId value) const {
  while (value < graph.values.size() && !in_memory[value] && unit_of[value] == kNoUnit) {
    const NodeId node = graph[value].node;
    if (node == kNoNode || graph.nodes[node].op->kind != Kind::View) break;
    value = graph.nodes[node].operands[0].value;
  }
  return value;
}

const Layout<Sym>* Lowering::layout_of(ValueId value) {
  if (layouts_[value] != nullptr) return layouts_[value].get();
  const Value& v = values[value];
  if (in_memory[value] || unit_of[value] != kNoUnit) {
    layouts_[value] = std::make_unique<Layout<Sym>>(Layout<Sym>{v.sizes, v.strides, Sym::from_int(0)});
    return layouts_[value].get();
  }
  if (v.node == kNoNode || graph.nodes[v.node].op->kind != Kind::View) return nullptr;
  const Node& node = graph.nodes[v.node];
  if (node.op->views_storage) return nullptr;
  const ValueId operand = node.operands[0].value;
  const Layout<Sym>* base = layout_of(operand);
  // Another width of elements counts its places in other units.
  if (base == nullptr || size_of(values[operand].dtype) != size_of(v.dtype)) return nullptr;
  layouts_[value] = std::make_unique<Layout<Sym>>(node.op->view(*base, node.attrs, values[operand].dtype));
  return layouts_[value].get();
}

const Layout<Sym>& Lowering::view_of_dense(NodeId id) {
  if (dense_views_[id] == nullptr) {
    const Node& node = graph.nodes[id];
    const Value& operand = values[node.operands[0].value];
    dense_views_[id] = std::make_unique<Layout<Sym>>(
        node.op->view(contiguous_layout<Sym>(operand.sizes), node.attrs, operand.dtype));
  }
  return *dense_views_[id];
}

bool Lowering::is_inlinable(NodeId id) {
  if (inlinable_[id] >= 0) return inlinable_[id] != 0;
  const Node& node = graph.nodes[id];
  const Op& op = *node.op;
  const bool answer = [&] {
    if (node.num_outputs != 1 || op.has_effect || op.data_dependent) return false;
    // What goes from one device to another is a copy, not a loop.
    for (const Argument& argument : node.operands)
      if (argument.is_value() && values[argument.value].device != values[node.first_output].device)
        return false;
    switch (op.kind) {
      case Kind::Pointwise: return op.pointwise != nullptr;
      case Kind::Create:
      case Kind::Index: {
        if (op.element == nullptr) return false;
        environment.reset();
        try {
          const Call call{op, hollow.operands(node), node.attrs, node.where};
          const OutputSpec result = values[node.first_output].spec();
          return has_element_rule(call, result) && !environment.has_guessed() &&
                 !may_index_nothing(call, result);
        } catch (const TableEnvironment::UnknownNumber&) {
          return false;
        }
      }
      case Kind::View: {
        if (op.views_storage) return false;
        const ValueId operand = node.operands[0].value;
        const DType from = values[operand].dtype, to = values[node.first_output].dtype;
        if (from != to &&
            (compute_dtype(from) != from || compute_dtype(to) != to || size_of(from) != size_of(to)))
          return false;
        environment.reset();
        try {
          view_of_dense(id);
        } catch (const Error&) {
          return false;  // strides that row-major memory does not have
        }
        return !environment.has_guessed();
      }
      default: return false;
    }
  }();
  inlinable_[id] = answer;
  return answer;
}

double Lowering::own_cost(NodeId id) {
  const Node& node = graph.nodes[id];
  if (node.op->kind == Kind::View) return 0;
  if (node.op->pointwise != nullptr) return node.op->pointwise->cost;
  if (node.op->is_random) return 60;
  return 4;
}

namespace {

// The values in memory, units included, that are reached from `open` through what is computed where it is read; with a list
// for them, through units that are computed again too.
std::vector<ValueId> reached(Lowering& lowering, std::vector<ValueId> open,
                             std::vector<ValueId>* recomputed = nullptr) {
  std::vector<ValueId> reads;
  std::vector<bool> seen(lowering.values.size());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (seen[value]) continue;
    seen[value] = true;
    const NodeId node = lowering.values[value].node;
    const bool is_passed = recomputed != nullptr && lowering.is_recomputed(value);
    if (is_passed) recomputed->push_back(value);
    if (lowering.in_memory[value] || (lowering.unit_of[value] != kNoUnit && !is_passed)) {
      reads.push_back(value);
    } else if (node != kNoNode) {
      const std::vector<ValueId> operands = values_read_by(lowering.graph, lowering.graph.nodes[node]);
      open.insert(open.end(), operands.rbegin(), operands.rend());
    }
  }
  return reads;
}

}  // namespace

std::vector<ValueId> reads_of(Lowering& lowering, const Unit& unit, std::vector<ValueId>& recomputed) {
  if (unit.is_fold) return reached(lowering, {unit.source}, &recomputed);
  return reached(lowering, values_read_by(lowering.graph, lowering.graph.nodes[unit.node]), &recomputed);
}

std::vector<ValueId> reads_of(Lowering& lowering, NodeId node) {
  return reached(lowering, values_read_by(lowering.graph, lowering.graph.nodes[node]));
}

bool is_same_size(Lowering& lowering, Sym a, Sym b) {
  return a.is_symbolic() || b.is_symbolic() ? lowering.syms().decide(SymCompare::Eq, a, b).value_or(false)
                                            : a.concrete() == b.concrete();
}

Sym product_of(std::span<const Sym> sizes) {
  Sym result = Sym::from_int(1);
  for (const Sym size : sizes) result = result * size;
  return result;
}

}  // namespace weft::compiler
