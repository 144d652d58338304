// Cutting the joint graph: the halves, and in which order they compute.
// Place: compiler/passes/partition.h says where it stands.
#include "compiler/passes/partition.h"

#include <algorithm>
#include <numeric>

#include "compiler/passes/rewrite.h"
#include "compiler/passes/saved_values.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

class Cut {
 public:
  Cut(const Graph& joint, const PartitionOptions& options)
      : environment_(*joint.expressions),
        graph_(joint),
        options_(options),
        joint_(joint, options.num_primals, options.num_outputs),
        is_saved_(saved_values(joint_, options)) {}

  Partition run() {
    Partition result;
    for (ValueId value = 0; value < graph_.values.size(); ++value)
      if (is_saved_[value])
        result.saved.push_back({value, saved_as(joint_, options_, value) == SavedAs::Copy,
                                bytes_to_save(joint_, options_, value)});
    result.forward = make_forward();
    std::vector<size_t> counts = options_.gradients_of;
    if (counts.empty()) counts.push_back(joint_.gradients().size());
    WEFT_ASSERT(std::accumulate(counts.begin(), counts.end(), size_t{0}) == joint_.gradients().size(),
                "partition: the backward graphs give not as many gradients as there are\n", graph_);
    size_t first = 0;
    for (const size_t count : counts) {
      result.backward.push_back(make_backward(joint_.gradients().subspan(first, count)));
      first += count;
    }
    return result;
  }

 private:
  // The nodes that lead from what is there to these values, in the order of the graph.
  std::vector<bool> needed_for(std::span<const ValueId> values, const std::vector<bool>& is_there) const {
    std::vector<bool> needed(graph_.nodes.size());
    std::vector<ValueId> open(values.begin(), values.end());
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (is_there[value]) continue;
      const NodeId n = graph_[value].node;
      WEFT_ASSERT(n != kNoNode, "partition: %", value, " is read but was not saved\n", graph_);
      if (needed[n]) continue;
      needed[n] = true;
      open.insert(open.end(), joint_.reads[n].begin(), joint_.reads[n].end());
    }
    return needed;
  }

  Graph make_forward() const {
    Rewriter rewriter(graph_);
    for (const ValueId primal : joint_.primals()) rewriter.copy_input(primal);
    std::vector<ValueId> outputs(joint_.outputs().begin(), joint_.outputs().end());
    for (ValueId value = 0; value < graph_.values.size(); ++value)
      if (is_saved_[value] && !joint_.is_input(value)) outputs.push_back(value);
    std::vector<bool> is_there(graph_.values.size());
    for (const ValueId primal : joint_.primals()) is_there[primal] = true;
    const std::vector<bool> needed = needed_for(outputs, is_there);
    for (NodeId n = 0; n < graph_.nodes.size(); ++n)
      if (needed[n] || joint_.runs_forward[n]) rewriter.copy(n);
    Graph forward = rewriter.finish(outputs);
    forward.name = "forward";
    return forward;
  }

  Partition::Backward make_backward(std::span<const ValueId> gradients) const {
    std::vector<bool> is_there = is_saved_;
    for (const ValueId tangent : joint_.tangents()) is_there[tangent] = true;
    std::vector<bool> needed = needed_for(gradients, is_there);
    for (NodeId n = 0; n < graph_.nodes.size(); ++n)
      if (joint_.needs_tangent[n] && graph_.nodes[n].op->has_effect) {
        const std::vector<bool> more = needed_for(joint_.reads[n], is_there);
        for (NodeId m = 0; m < n; ++m) needed[m] = needed[m] || more[m];
        needed[n] = true;
      }

    Partition::Backward result;
    Rewriter rewriter(graph_);
    std::vector<bool> is_read(graph_.values.size());
    for (NodeId n = 0; n < graph_.nodes.size(); ++n)
      if (needed[n])
        for (const ValueId value : joint_.reads[n]) is_read[value] = true;
    for (const ValueId gradient : gradients) is_read[gradient] = true;
    const auto take = [&](ValueId value) {
      if (!is_there[value] || !is_read[value]) return;
      if (joint_.is_input(value)) rewriter.copy_input(value);
      else
        rewriter.set(value, rewriter.to().add_input(graph_[value].spec(),
                                                    "saved" + std::to_string(result.reads.size())));
      result.reads.push_back(value);
    };
    for (ValueId value = 0; value < graph_.values.size(); ++value)
      if (is_saved_[value]) take(value);
    for (const ValueId tangent : joint_.tangents()) take(tangent);

    // In the order of the joint graph, with what depends on no tangent where it is first needed.
    std::vector<bool> is_emitted(graph_.nodes.size());
    std::vector<NodeId> open;
    const auto emit = [&](NodeId root) {
      open.push_back(root);
      while (!open.empty()) {
        const NodeId n = open.back();
        if (is_emitted[n]) {
          open.pop_back();
          continue;
        }
        const size_t before = open.size();
        for (const ValueId value : joint_.reads[n])
          if (!rewriter.has(value)) open.push_back(graph_[value].node);
        if (open.size() > before) continue;
        rewriter.copy(n);
        is_emitted[n] = true;
        open.pop_back();
      }
    };
    for (NodeId n = 0; n < graph_.nodes.size(); ++n)
      if (needed[n] && joint_.needs_tangent[n]) emit(n);
    for (const ValueId gradient : gradients)
      if (!rewriter.has(gradient)) emit(graph_[gradient].node);
    result.graph = rewriter.finish(gradients);
    result.graph.name = "backward";
    return result;
  }

  const TableEnvironment environment_;
  const Graph& graph_;
  const PartitionOptions& options_;
  JointGraph joint_;
  std::vector<bool> is_saved_;
};

}  // namespace

Partition partition(const Graph& joint, const PartitionOptions& options) { return Cut(joint, options).run(); }

}  // namespace weft::compiler
