// Dead code elimination.
// Place: compiler/passes/dce.h says where it stands.
#include "compiler/passes/dce.h"

#include "compiler/passes/rewrite.h"

namespace weft::compiler {

Graph dce(const Graph& graph) {
  std::vector<bool> is_needed(graph.values.size()), is_live(graph.nodes.size());
  for (ValueId output : graph.outputs) is_needed[output] = true;
  for (NodeId n = static_cast<NodeId>(graph.nodes.size()); n-- > 0;) {
    const Node& node = graph.nodes[n];
    is_live[n] = node.op->has_effect;
    for (uint32_t k = 0; k < node.num_outputs; ++k)
      is_live[n] = is_live[n] || is_needed[node.first_output + k];
    if (!is_live[n]) continue;
    for (ValueId value : values_read_by(graph, node)) is_needed[value] = true;
  }
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (NodeId n = 0; n < graph.nodes.size(); ++n)
    if (is_live[n]) rewriter.copy(n);
  return rewriter.finish();
}

}  // namespace weft::compiler
