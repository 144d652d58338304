// Cutting the joint graph: which half a node belongs to, what is saved, and the order of the halves.
// Place: compiler/passes/partition.h says where it stands.
#include "compiler/passes/partition.h"

#include <algorithm>

#include "compiler/passes/rewrite.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

class Cut {
 public:
  Cut(const Graph& joint, const PartitionOptions& options)
      : joint_(joint), options_(options), environment_(*joint.expressions) {
    WEFT_ASSERT(options.num_primals <= joint.inputs.size() && options.num_outputs <= joint.outputs.size(),
                "partition: ", options.num_primals, " primals and ", options.num_outputs,
                " outputs of a graph with ", joint.inputs.size(), " inputs and ", joint.outputs.size(),
                " outputs");
    reads_.reserve(joint.nodes.size());
    for (const Node& node : joint.nodes) reads_.push_back(values_read_by(joint, node));
    place_nodes();
    find_saved();
  }

  Partition run() {
    Partition result;
    result.saved = saved_;
    result.forward = make_forward();
    result.backward = make_backward();
    return result;
  }

 private:
  std::span<const ValueId> forward_outputs() const { return {joint_.outputs.data(), options_.num_outputs}; }
  std::span<const ValueId> gradients() const {
    return std::span(joint_.outputs).subspan(options_.num_outputs);
  }

  // ---- Which half
  // Forward is what its outputs need. What depends on a tangent, and what only that needs, is backward.
  void place_nodes() {
    depends_on_tangent_.resize(joint_.values.size());
    needs_tangent_.resize(joint_.nodes.size());
    runs_forward_.resize(joint_.nodes.size());
    for (size_t i = options_.num_primals; i < joint_.inputs.size(); ++i)
      depends_on_tangent_[joint_.inputs[i]] = true;
    for (NodeId n = 0; n < joint_.nodes.size(); ++n) {
      const Node& node = joint_.nodes[n];
      const bool depends = std::any_of(reads_[n].begin(), reads_[n].end(),
                                       [&](ValueId value) { return depends_on_tangent_[value]; });
      needs_tangent_[n] = depends;
      for (uint32_t k = 0; k < node.num_outputs; ++k) depends_on_tangent_[node.first_output + k] = depends;
    }
    is_forward_.resize(joint_.values.size());
    for (size_t i = 0; i < options_.num_primals; ++i) is_forward_[joint_.inputs[i]] = true;
    for (ValueId output : forward_outputs()) {
      WEFT_ASSERT(!depends_on_tangent_[output], "partition: the forward output %", output,
                  " depends on a tangent\n", joint_);
      is_forward_[output] = true;
    }
    for (NodeId n = static_cast<NodeId>(joint_.nodes.size()); n-- > 0;) {
      const Node& node = joint_.nodes[n];
      const ValueId first = node.first_output;
      bool is_forward = node.op->has_effect && !needs_tangent_[n];
      for (uint32_t k = 0; k < node.num_outputs; ++k) is_forward = is_forward || is_forward_[first + k];
      if (!is_forward) continue;
      runs_forward_[n] = true;
      for (uint32_t k = 0; k < node.num_outputs; ++k) is_forward_[first + k] = true;
      for (ValueId value : reads_[n]) is_forward_[value] = true;
    }
  }

  // ---- What is saved
  bool is_input(ValueId value) const { return joint_[value].node == kNoNode; }
  bool is_view(ValueId value) const {
    return !is_input(value) && joint_.nodes[joint_[value].node].op->kind == Kind::View;
  }
  ValueId base_of(ValueId view) const { return joint_.nodes[joint_[view].node].operands[0].value; }

  // The values that a backward node or a gradient is: those of forward among them cross the cut.
  void find_saved() {
    std::vector<bool> crosses(joint_.values.size());
    const auto reach = [&](ValueId value) {
      if (is_forward_[value]) crosses[value] = true;
    };
    for (ValueId gradient : gradients()) reach(gradient);
    for (NodeId n = 0; n < joint_.nodes.size(); ++n)
      if (!runs_forward_[n])
        for (ValueId value : reads_[n]) reach(value);

    is_saved_.resize(joint_.values.size());
    for (ValueId value = 0; value < joint_.values.size(); ++value)
      is_saved_[value] = crosses[value] && !is_view(value);
    // A view is made again from what is there; else from its base, which keeps the same memory alive. Only of a part is
    // the part itself saved.
    for (const bool parts : {false, true}) {
      for (ValueId value = 0; value < joint_.values.size(); ++value) {
        if (!crosses[value] || !is_view(value) || is_made_from_saved(value)) continue;
        ValueId root = value;
        while (is_view(root)) root = base_of(root);
        if (is_input(root) || bytes_of_hint(root) <= bytes_of_hint(value)) is_saved_[root] = true;
        else if (parts) is_saved_[value] = true;
      }
    }
    for (ValueId value = 0; value < joint_.values.size(); ++value)
      if (is_saved_[value]) saved_.push_back(value);
  }
  bool is_made_from_saved(ValueId value) const {
    while (!is_saved_[value] && is_view(value)) value = base_of(value);
    return is_saved_[value];
  }
  double bytes_of_hint(ValueId value) const {
    auto bytes = static_cast<double>(size_of(joint_[value].dtype));
    for (Sym size : joint_[value].sizes) bytes *= static_cast<double>(hint_of(size));
    return bytes;
  }

  // ---- The halves
  Graph make_forward() const {
    Rewriter rewriter(joint_);
    for (size_t i = 0; i < options_.num_primals; ++i) rewriter.copy_input(joint_.inputs[i]);
    for (NodeId n = 0; n < joint_.nodes.size(); ++n)
      if (runs_forward_[n]) rewriter.copy(n);
    std::vector<ValueId> outputs(forward_outputs().begin(), forward_outputs().end());
    outputs.insert(outputs.end(), saved_.begin(), saved_.end());
    Graph forward = rewriter.finish(outputs);
    forward.name = "forward";
    return forward;
  }

  Graph make_backward() const {
    Rewriter rewriter(joint_);
    for (size_t i = 0; i < saved_.size(); ++i) {
      const ValueId value = saved_[i];
      if (is_input(value)) {
        rewriter.copy_input(value);
        continue;
      }
      rewriter.set(value, rewriter.to().add_input(joint_[value].spec(), "saved" + std::to_string(i)));
    }
    for (size_t i = options_.num_primals; i < joint_.inputs.size(); ++i)
      rewriter.copy_input(joint_.inputs[i]);
    // In the order of the joint graph, with what depends on no tangent where it is first needed.
    std::vector<bool> is_there(joint_.nodes.size());
    std::vector<NodeId> open;
    const auto emit = [&](NodeId root) {
      open.push_back(root);
      while (!open.empty()) {
        const NodeId n = open.back();
        if (is_there[n]) {
          open.pop_back();
          continue;
        }
        const size_t before = open.size();
        for (ValueId value : reads_[n])
          if (!rewriter.has(value)) open.push_back(joint_[value].node);
        if (open.size() > before) continue;
        rewriter.copy(n);
        is_there[n] = true;
        open.pop_back();
      }
    };
    for (NodeId n = 0; n < joint_.nodes.size(); ++n)
      if (needs_tangent_[n]) emit(n);
    for (ValueId gradient : gradients())
      if (!rewriter.has(gradient)) emit(joint_[gradient].node);
    Graph backward = rewriter.finish(gradients());
    backward.name = "backward";
    return backward;
  }

  const Graph& joint_;
  const PartitionOptions& options_;
  TableEnvironment environment_;
  std::vector<std::vector<ValueId>> reads_;                       // by node
  std::vector<bool> needs_tangent_, runs_forward_;                // by node
  std::vector<bool> depends_on_tangent_, is_forward_, is_saved_;  // by value
  std::vector<ValueId> saved_;
};

}  // namespace

Partition partition(const Graph& joint, const PartitionOptions& options) { return Cut(joint, options).run(); }

}  // namespace weft::compiler
