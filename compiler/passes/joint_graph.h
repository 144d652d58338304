// JointGraph: a graph of forward and backward, and which of its values belong where.
// Needs graph. The partition and the choice of what it saves look at this.
#pragma once

#include <span>

#include "compiler/trace/graph.h"

namespace weft::compiler {

// The inputs are primals ++ tangents, the outputs are those of forward ++ gradients.
struct JointGraph {
  JointGraph(const Graph& joint, size_t num_primals, size_t num_outputs);

  const Graph& graph;
  size_t num_primals, num_outputs;
  std::vector<std::vector<ValueId>> reads;  // by node
  std::vector<std::vector<NodeId>> users;   // by value; kNoNode stands for an output
  // By node. What neither needs a tangent nor runs forward is needed by backward alone.
  std::vector<bool> needs_tangent, runs_forward;
  // By value, likewise. Primals and all that forward outputs are computed from are forward.
  std::vector<bool> depends_on_tangent, is_forward;

  std::span<const ValueId> primals() const { return {graph.inputs.data(), num_primals}; }
  std::span<const ValueId> tangents() const { return std::span(graph.inputs).subspan(num_primals); }
  std::span<const ValueId> outputs() const { return {graph.outputs.data(), num_outputs}; }
  std::span<const ValueId> gradients() const { return std::span(graph.outputs).subspan(num_outputs); }

  bool is_input(ValueId value) const { return graph[value].node == kNoNode; }
  bool is_view(ValueId value) const { return !is_input(value) && node_of(value).op->kind == Kind::View; }
  const Node& node_of(ValueId value) const { return graph.nodes[graph[value].node]; }
  // The value whose memory this one is in.
  ValueId root_of(ValueId value) const;
  // The nodes that read it, themselves or through views.
  std::vector<NodeId> readers_of(ValueId value) const;
  // For the sizes of the trace.
  double elements_of(ValueId value) const;
  double bytes_of(ValueId value) const;
};

}  // namespace weft::compiler
