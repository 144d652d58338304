// Building a graph, and who reads its values.
// Place: the out-of-line half of compiler/trace/graph.h; printing, checking and hashing are in files of their own.
#include "compiler/trace/graph.h"

#include <algorithm>

#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

Value value_of(const OutputSpec& spec, NodeId node, size_t index) {
  Value value;
  value.sizes = spec.sizes;
  value.strides = spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes);
  value.offset = spec.offset;
  value.dtype = spec.dtype;
  value.device = spec.device;
  value.node = node;
  value.index = static_cast<uint32_t>(index);
  return value;
}

// Row-major strides of symbolic sizes are expressions: outside a trace the tables of the graph make them.
class Environment {
 public:
  explicit Environment(Expressions& tables) {
    if (current_sym_environment() == nullptr) own_.emplace(tables);
  }

 private:
  std::optional<TableEnvironment> own_;
};

}  // namespace

ValueId Graph::add_input(const OutputSpec& spec, std::string input_name) {
  const Environment environment(*expressions);
  const auto id = static_cast<ValueId>(values.size());
  values.push_back(value_of(spec, kNoNode, inputs.size()));
  input_names.resize(inputs.size());
  input_names.push_back(std::move(input_name));
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_node(Node node, std::span<const OutputSpec> results) {
  const Environment environment(*expressions);
  const auto id = static_cast<NodeId>(nodes.size());
  node.first_output = static_cast<ValueId>(values.size());
  node.num_outputs = static_cast<uint32_t>(results.size());
  for (size_t k = 0; k < results.size(); ++k) values.push_back(value_of(results[k], id, k));
  nodes.push_back(std::move(node));
  return nodes.back().first_output;
}

std::vector<ValueId> values_read_by(const Graph& graph, const Node& node) {
  std::vector<ValueId> values;
  const auto add = [&](ValueId value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  for (const Argument& argument : node.operands)
    if (argument.is_value()) add(argument.value);
  std::vector<ScalarId> found;  // grows while it is walked
  const auto reach = [&](ScalarId id) {
    if (std::find(found.begin(), found.end(), id) == found.end()) found.push_back(id);
  };
  for_each_number(node, [&](const Scalar& number) {
    if (number.is_traced()) reach(number.trace_id());
  });
  for (size_t i = 0; i < found.size(); ++i) {
    const ScalarExpr& expr = graph.expressions->scalars[found[i]];
    if (expr.kind == ScalarExpr::Kind::Item) add(graph.items[expr.index]);
    if (expr.kind != ScalarExpr::Kind::Binary) continue;
    reach(expr.a);
    reach(expr.b);
  }
  return values;
}

std::vector<std::vector<NodeId>> users_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for (NodeId n = 0; n < graph.nodes.size(); ++n)
    for (ValueId value : values_read_by(graph, graph.nodes[n])) users[value].push_back(n);
  for (ValueId output : graph.outputs)
    if (users[output].empty() || users[output].back() != kNoNode) users[output].push_back(kNoNode);
  return users;
}

}  // namespace weft::compiler
