// Backward through a compiled call: saved tensors, the lazily compiled program, gradients of gradients.
#include "compiler/runtime/compiled_node.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "compiler/runtime/arm.h"
#include "compiler/runtime/frame.h"
#include "tensor/state_epoch.h"

namespace weft::compiler {
namespace {

// Note [Backward of a path]
// While a function is traced the ordinary tape records its fakes, and when it has returned the ordinary engine walks them
// from one tangent for each differentiable result: the nodes that it records are the backward graph. It reads tangents and
// values of the forward, which are saved. A call is one step of the tape outside. Gradients of gradients run the forward
// graph again by eager ops with the tape on, from the inputs as they were, and differentiate that.
class CompiledNode final : public autograd::Node {
 public:
  // `leaves`: those of the backward, if they are kept as such. `saved`: what is saved beside them.
  CompiledNode(const Frame& frame, const SegmentNode& node, Intrusive<const PathBackward::LeafEdges> leaves,
               std::span<Tensor> saved)
      : backward_(node.backward),
        own_(backward_->own[leaves != nullptr]),
        leaves_(std::move(leaves)),
        symbols_(frame.values().symbols),
        numbers_(frame.values().numbers),
        is_spent_(node.backward->programs.size(), false) {
    where = backward_->where;
    edges.reserve(own_.wanted.size());
    for (const uint32_t i : own_.wanted)
      edges.push_back(autograd::gradient_edge(frame.input(backward_->wanted[i])));
    saved_.reserve(saved.size());
    for (Tensor& tensor : saved) saved_.emplace_back(std::move(tensor), false);
    inputs_.reserve(own_.inputs.size());
    for (const uint32_t i : own_.inputs) inputs_.emplace_back(frame.input(backward_->path_inputs[i]), false);
    if (leaves_ == nullptr) return;
    lacks_edges.store(true, std::memory_order_relaxed);
    versions_.reserve(backward_->leaves.size());
    for (const Tensor* leaf : backward_->leaves) versions_.push_back((*leaf)->storage->version());
  }

  // By wanted, of which the leaves are not there yet.
  void add_edges() override {
    const std::lock_guard lock(backward_->mutex());
    if (!lacks_edges.load(std::memory_order_relaxed)) return;
    SmallVector<autograd::Edge, 3> all(backward_->wanted.size());
    for (size_t k = 0; k < own_.wanted.size(); ++k) all[own_.wanted[k]] = std::move(edges[k]);
    for (size_t i = 0; i < all.size(); ++i)
      if (const uint32_t leaf = backward_->wanted_leaves[i]; leaf != kNoInput) all[i] = leaves_->edges[leaf];
    edges = std::move(all);
    lacks_edges.store(false, std::memory_order_release);
  }

  const char* name() const override { return backward_->name.c_str(); }

  void apply(autograd::Step& step) override {
    std::vector<Tensor> tangents(step.grads.begin(), step.grads.end());
    PathBackward::Program* program = find(tangents);
    if (program != nullptr && program->error) throw *program->error;
    // For gradients of gradients, and for a choice of outputs that was not foreseen, eager ops do it all again.
    last_ = program;
    if (grad_mode_enabled() || program == nullptr) return differentiate_again(step, tangents);
    const size_t index = static_cast<size_t>(program - backward_->programs.data());
    check_kept(!is_spent_[index]);
    for (Tensor& tangent : tangents)
      if (tangent.defined()) tangent = tangent.contiguous();
    const std::vector<bool> is_read = reads_saved(index);
    std::vector<Tensor> saved(is_read.size());
    for (size_t k = 0; k < saved_.size(); ++k)
      if (is_read[own_.saved[k]]) saved[own_.saved[k]] = saved_[k].unpack(*this, 0);
    for (size_t i = 0; leaves_ != nullptr && i < saved.size(); ++i)
      if (is_read[i]) unpack_leaf(backward_->saved_leaves[i], saved[i]);
    SmallVector<const Tensor*, 16> reads;
    const JointPlan::Program& joint = backward_->joint->programs()[index];
    for (const JointPlan::Read read : joint.reads)
      reads.push_back(read.is_tangent ? &tangents[backward_->tangents[read.index]] : &saved[read.index]);
    const std::vector<bool> joins = parts_to_join(*program);
    if (joins.empty()) {
      std::vector<Tensor> gradients(joint.graph.outputs.size());
      backward_->joint->plan_of(index, backward_->backend)
          .run({reads.data(), reads.size()}, run_values(), gradients);
      size_t next = 0;
      for (size_t i = 0; i < edges.size(); ++i)
        if (program->has_gradient[i]) step.results[i] = std::move(gradients[next++]);
      return;
    }
    std::vector<Tensor> gradients(joins.size() -
                                  static_cast<size_t>(std::count(joins.begin(), joins.end(), true)));
    backward_->joint->summed_plan_of(index, joins, backward_->backend)
        ->run({reads.data(), reads.size()}, run_values(), gradients);
    size_t next = 0, part = 0;
    for (size_t i = 0; i < edges.size(); ++i)
      if (program->has_gradient[i] && !joins[part++]) step.results[i] = std::move(gradients[next++]);
  }

  // What the backward that ran has read is freed, as eager frees the steps that it walked. Outputs that lead elsewhere keep
  // what is theirs.
  void release() override {
    is_released_ = true;
    inputs_.clear();
    const PathBackward::Program* last = last_;
    for (size_t p = 0; p < is_spent_.size(); ++p)
      if (last == nullptr || last->shares_saved[p]) is_spent_[p] = true;
    std::vector<bool> is_needed(backward_->saved.size());
    for (size_t p = 0; p < is_spent_.size(); ++p) {
      if (is_spent_[p]) continue;
      const std::vector<bool> is_read = reads_saved(p);
      for (size_t i = 0; i < is_needed.size(); ++i) is_needed[i] = is_needed[i] || is_read[i];
    }
    for (size_t k = 0; k < saved_.size(); ++k)
      if (!is_needed[own_.saved[k]]) saved_[k] = {};
  }

 private:
  RunValues run_values() const {
    return {{symbols_.data(), symbols_.size()}, {numbers_.data(), numbers_.size()}};
  }

  // By PathBackward::saved.
  std::vector<bool> reads_saved(size_t program) const {
    std::vector<bool> result(backward_->saved.size());
    for (const JointPlan::Read read : backward_->joint->programs()[program].reads)
      if (!read.is_tangent) result[read.index] = true;
    return result;
  }

  void unpack_leaf(uint32_t leaf, Tensor& to) {
    if (leaf == kNoInput) return;
    to = autograd::SavedTensor::at_version(*backward_->leaves[leaf], versions_[leaf]).unpack(*this, 0);
  }

  void check_kept(bool is_kept) const {
    WEFT_CHECK(is_kept, "backward: ", describe(*this),
               " was walked a second time, but what it had saved was freed by the first backward.\n  Pass "
               "retain_graph=true to the first one, or compute the result again.");
  }

  // By gradient of the program: it is a part, to be added to the one before it. Empty where no gradient has parts, and where the
  // walk adds up something else before them.
  std::vector<bool> parts_to_join(const PathBackward::Program& program) const {
    std::vector<bool> joins;
    bool any = false;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!program.has_gradient[i]) continue;
      joins.push_back(!joins.empty() && backward_->wanted[i] == backward_->wanted[i - 1]);
      if (!joins.back()) continue;
      if (!autograd::is_untouched(edges[i])) return {};
      any = true;
    }
    if (!any) joins.clear();
    return joins;
  }

  PathBackward::Program* find(const std::vector<Tensor>& tangents) {
    for (PathBackward::Program& program : backward_->programs) {
      bool fits = true;
      for (size_t i = 0; i < tangents.size(); ++i) fits = fits && tangents[i].defined() == program.mask[i];
      if (fits) return &program;
    }
    return nullptr;
  }

  void differentiate_again(autograd::Step& step, const std::vector<Tensor>& tangents) {
    check_kept(!is_released_);
    WEFT_CHECK(!backward_->has_functions, "backward: ", name(),
               " applies a user-defined autograd::Function, so its gradient cannot be differentiated again "
               "from outside, nor "
               "taken of a choice among more than four outputs; call grad() inside the compiled function");
    const bool create_graph = grad_mode_enabled();
    const AutoGradMode on(true);
    std::vector<ValueId> values;
    const Graph forward =
        without_effects(extract(*backward_->path, 0, backward_->forward_end, backward_->outputs, values));
    std::vector<Tensor> inputs(backward_->path_inputs.size());
    for (size_t k = 0; k < inputs_.size(); ++k) inputs[own_.inputs[k]] = inputs_[k].unpack(*this, 0);
    for (size_t i = 0; leaves_ != nullptr && i < inputs.size(); ++i)
      unpack_leaf(backward_->input_leaves[i], inputs[i]);
    std::vector<const Tensor*> reads;
    for (const ValueId value : values) reads.push_back(&inputs[(*backward_->path)[value].index]);
    std::vector<Tensor> outputs(forward.outputs.size());
    GraphRunner(forward).run_differentiable(reads, run_values(), outputs);
    std::vector<autograd::Root> roots;
    for (size_t i = 0; i < tangents.size(); ++i)
      if (tangents[i].defined() && outputs[i]->needs_grad())
        roots.push_back({autograd::gradient_edge(outputs[i]), tangents[i]});
    std::vector<autograd::Target> targets;
    std::vector<size_t> slots;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!step.wanted[i]) continue;
      // The parts of one gradient come as one.
      if (i > 0 && edges[i].node == edges[i - 1].node && edges[i].slot == edges[i - 1].slot) continue;
      targets.push_back({edges[i], {}});
      slots.push_back(i);
    }
    if (roots.empty() || targets.empty()) return;
    autograd::walk(roots, targets, {create_graph, create_graph, false});
    for (size_t k = 0; k < slots.size(); ++k) step.results[slots[k]] = std::move(targets[k].gradient);
  }

  const std::shared_ptr<PathBackward> backward_;
  const PathBackward::Own& own_;
  const Intrusive<const PathBackward::LeafEdges> leaves_;
  const SmallVector<int64_t, 4> symbols_;
  const SmallVector<Scalar, 2> numbers_;
  SmallVector<autograd::SavedTensor, 2> saved_, inputs_;     // by Own::saved, Own::inputs
  SmallVector<uint32_t, 4> versions_;                        // by leaf
  std::atomic<const PathBackward::Program*> last_{nullptr};  // that ran; several walks may meet here
  SmallVector<bool, 4> is_spent_;                            // by program: what it needs was freed
  bool is_released_ = false;
};

}  // namespace

bool is_leaf_with_grad(const Tensor& x) {
  const autograd::Tape* tape = autograd::tape_of(x);
  return x->requires_grad && x->base == nullptr && tape != nullptr && !tape->producer && tape->accumulator;
}

Intrusive<const PathBackward::LeafEdges> PathBackward::leaf_edges() {
  if (leaves.empty()) return nullptr;
  const uint64_t epoch = state_epoch();
  const std::lock_guard lock(mutex_);
  if (leaf_edges_ == nullptr || leaf_edges_->epoch != epoch) {
    auto now = make_intrusive<LeafEdges>();
    now->epoch = epoch;
    for (const Tensor* leaf : leaves) {
      if (!is_leaf_with_grad(*leaf)) return nullptr;
      now->edges.push_back({autograd::tape_of(*leaf)->accumulator, 0});
    }
    leaf_edges_ = std::move(now);
  }
  return leaf_edges_;
}

Intrusive<autograd::Node> connect(Frame& frame, const SegmentNode& node) {
  PathBackward& backward = *node.backward;
  // Who takes charge of what is saved is asked for each tensor.
  Intrusive<const PathBackward::LeafEdges> leaves;
  if (autograd::SaveHook::current() == nullptr) leaves = backward.leaf_edges();
  const PathBackward::Own& own = backward.own[leaves != nullptr];
  SmallVector<Tensor, 8> saved;
  saved.reserve(own.saved.size());
  for (const uint32_t i : own.saved) {
    const Slot slot = backward.saved[i];
    const Tensor& tensor = frame.tensor(slot);
    // What somebody may write is kept as it was; results are kept without their history, which leads here.
    if (backward.joint->saved()[i].is_copied) saved.push_back(autograd::copy_of(tensor.detach()));
    else saved.push_back(slot.is_carried ? autograd::share_data(tensor) : tensor);
  }
  auto step =
      make_intrusive<CompiledNode>(frame, node, std::move(leaves), std::span(saved.data(), saved.size()));
  for (size_t k = 0; k < backward.differentiable.size(); ++k) {
    const Root root = backward.differentiable[k];
    if (root.is_result) {
      // What it will be is known when it has been made.
      const OutputPlan& plan = node.effects.tensors[root.index];
      step->results.push_back(autograd::Meta(plan.kind == OutputPlan::Kind::Part ? frame.output(plan.index)
                                                                                 : frame.input(plan.index)));
      continue;
    }
    const Tensor& output = frame.output(root.index);
    step->results.push_back(autograd::Meta(output));
    autograd::set_producer(output, step, static_cast<uint32_t>(k));
  }
  return step;
}

void connect_views(const SegmentNode& node, const Intrusive<autograd::Node>& step,
                   std::span<const Tensor> results) {
  const std::vector<Root>& roots = node.backward->differentiable;
  for (size_t k = 0; k < roots.size(); ++k) {
    if (!roots[k].is_result) continue;
    const Tensor& view = results[roots[k].index];
    step->results[k] = autograd::Meta(view);
    autograd::set_producer(view, step, static_cast<uint32_t>(k));
  }
}

}  // namespace weft::compiler
