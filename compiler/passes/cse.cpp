// Common subexpression elimination.
// Place: compiler/passes/cse.h says where it stands.
#include "compiler/passes/cse.h"

#include <algorithm>

#include "compiler/passes/rewrite.h"

namespace weft::compiler {
namespace {

// Operands that may change places stand in ascending order.
Node in_order(Node node) {
  if (node.op->algebra.is_commutative && node.operands[0].is_value() && node.operands[1].is_value() &&
      node.operands[1].value < node.operands[0].value)
    std::swap(node.operands[0], node.operands[1]);
  return node;
}

}  // namespace

Graph cse(const Graph& graph) {
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  Memory memory(rewriter);
  for (ValueId input : graph.inputs) memory.add(input, rewriter[input]);

  struct Known {
    Node key;
    ValueId first_output;
  };
  std::unordered_map<uint64_t, SmallVector<Known, 1>> known;  // by hash, each list in the order of the graph
  for (NodeId n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    Node key = in_order(rewriter.translated(node));
    const auto fits = [&](const Known& other) {
      if (!is_same(other.key, key)) return false;
      for (uint32_t k = 0; k < node.num_outputs; ++k) {
        const ValueId old = node.first_output + k, now = other.first_output + k;
        if (!memory.may_stand_for(now, old) ||
            !has_same_spec(graph.expressions->syms, rewriter.to()[now], graph[old]))
          return false;
      }
      return true;
    };
    SmallVector<Known, 1>& candidates = known[hash_of(key)];
    const auto found =
        node.op->has_effect ? candidates.end() : std::find_if(candidates.begin(), candidates.end(), fits);
    if (found != candidates.end()) {
      for (uint32_t k = 0; k < node.num_outputs; ++k) {
        rewriter.set(node.first_output + k, found->first_output + k);
        memory.stands_for(found->first_output + k, node.first_output + k);
      }
      continue;
    }
    const NodeId added = rewriter.copy(n);
    for (uint32_t k = 0; k < node.num_outputs; ++k)
      memory.add(node.first_output + k, rewriter[node.first_output + k]);
    if (!node.op->has_effect) candidates.push_back({std::move(key), rewriter.to().nodes[added].first_output});
  }
  return rewriter.finish();
}

}  // namespace weft::compiler
