// Telling the halves of a joint graph apart.
// Place: the out-of-line half of compiler/passes/joint_graph.h.
#include "compiler/passes/joint_graph.h"

#include <algorithm>

namespace weft::compiler {

// Forward is what its outputs need. What depends on a tangent, and what only that needs, is backward.
JointGraph::JointGraph(const Graph& joint, size_t primals, size_t outputs)
    : graph(joint), num_primals(primals), num_outputs(outputs), users(users_of(joint)) {
  WEFT_ASSERT(num_primals <= joint.inputs.size() && num_outputs <= joint.outputs.size(),
              "partition: ", num_primals, " primals and ", num_outputs, " outputs of a graph with ",
              joint.inputs.size(), " inputs and ", joint.outputs.size(), " outputs");
  reads.reserve(joint.nodes.size());
  for (const Node& node : joint.nodes) reads.push_back(values_read_by(joint, node));

  depends_on_tangent.resize(joint.values.size());
  needs_tangent.resize(joint.nodes.size());
  for (const ValueId tangent : tangents()) depends_on_tangent[tangent] = true;
  for (NodeId n = 0; n < joint.nodes.size(); ++n) {
    const Node& node = joint.nodes[n];
    const bool depends = std::any_of(reads[n].begin(), reads[n].end(),
                                     [&](ValueId value) { return depends_on_tangent[value]; });
    needs_tangent[n] = depends;
    for (uint32_t k = 0; k < node.num_outputs; ++k) depends_on_tangent[node.first_output + k] = depends;
  }

  is_forward.resize(joint.values.size());
  runs_forward.resize(joint.nodes.size());
  for (size_t i = 0; i < num_primals; ++i) is_forward[joint.inputs[i]] = true;
  for (size_t i = 0; i < num_outputs; ++i) {
    const ValueId output = joint.outputs[i];
    WEFT_ASSERT(!depends_on_tangent[output], "partition: the forward output %", output,
                " depends on a tangent\n", joint);
    is_forward[output] = true;
  }
  for (NodeId n = static_cast<NodeId>(joint.nodes.size()); n-- > 0;) {
    const Node& node = joint.nodes[n];
    const ValueId first = node.first_output;
    bool runs = node.op->has_effect && !needs_tangent[n];
    for (uint32_t k = 0; k < node.num_outputs; ++k) runs = runs || is_forward[first + k];
    if (!runs) continue;
    runs_forward[n] = true;
    for (uint32_t k = 0; k < node.num_outputs; ++k) is_forward[first + k] = true;
    for (const ValueId value : reads[n]) is_forward[value] = true;
  }
}

ValueId JointGraph::root_of(ValueId value) const {
  while (is_view(value)) value = node_of(value).operands[0].value;
  return value;
}

std::vector<NodeId> JointGraph::readers_of(ValueId value) const {
  std::vector<NodeId> readers;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    for (const NodeId user : users[next]) {
      if (user == kNoNode) continue;
      if (graph.nodes[user].op->kind == Kind::View) open.push_back(graph.nodes[user].first_output);
      else readers.push_back(user);
    }
  }
  return readers;
}

double JointGraph::elements_of(ValueId value) const {
  double count = 1;
  for (const Sym size : graph[value].sizes) count *= static_cast<double>(hint_of(size));
  return count;
}

double JointGraph::bytes_of(ValueId value) const {
  return elements_of(value) * static_cast<double>(size_of(graph[value].dtype));
}

}  // namespace weft::compiler
