// Backward through a compiled call: saved tensors, the lazily compiled program, gradients of gradients.
#include "compiler/runtime/compiled_node.h"

#include <algorithm>

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "compiler/runtime/arm.h"
#include "compiler/runtime/frame.h"

namespace weft::compiler {
namespace {

// Note [Backward of a path]
// While a function is traced the ordinary tape records its fakes, and when it has returned the ordinary engine walks them
// from one tangent for each differentiable result: the nodes that it records are the backward graph. It reads tangents and
// values of the forward, which are saved. A call is one step of the tape outside. Gradients of gradients run the forward
// graph again by eager ops with the tape on, from the inputs as they were, and differentiate that.
class CompiledNode final : public autograd::Node {
 public:
  CompiledNode(const Frame& frame, const SegmentNode& node, std::vector<Tensor> saved)
      : backward_(node.backward),
        symbols_(frame.values().symbols.begin(), frame.values().symbols.end()),
        numbers_(frame.values().numbers.begin(), frame.values().numbers.end()),
        is_spent_(node.backward->programs.size()) {
    where = backward_->where;
    edges.reserve(backward_->wanted.size());
    wanted_inputs_.reserve(backward_->wanted.size());
    saved_.reserve(saved.size());
    inputs_.reserve(backward_->path_inputs.size());
    for (const uint32_t input : backward_->wanted) {
      const Tensor& tensor = frame.input(input);
      edges.push_back(autograd::gradient_edge(tensor));
      wanted_inputs_.push_back(tensor);
    }
    for (Tensor& tensor : saved) saved_.emplace_back(std::move(tensor), false);
    for (const uint32_t input : backward_->path_inputs) {
      if (input == kNoInput) inputs_.emplace_back();
      else inputs_.emplace_back(frame.input(input), false);
    }
  }

  const char* name() const override { return backward_->name.c_str(); }

  void apply(autograd::Step& step) override {
    std::vector<Tensor> tangents(step.grads.begin(), step.grads.end());
    PathBackward::Program* program = find(tangents);
    if (program != nullptr && !program->error.empty()) weft::detail::throw_error(program->error);
    // For gradients of gradients, and for a choice of outputs that was not foreseen, eager ops do it all again.
    last_ = program;
    if (grad_mode_enabled() || program == nullptr) return differentiate_again(step, tangents);
    const size_t index = static_cast<size_t>(program - backward_->programs.data());
    check_kept(!is_spent_[index]);
    for (Tensor& tangent : tangents)
      if (tangent.defined()) tangent = tangent.contiguous();
    std::vector<Tensor> own(saved_.size());
    SmallVector<const Tensor*, 16> reads;
    const JointPlan::Program& joint = backward_->joint->programs()[index];
    for (const JointPlan::Read read : joint.reads) {
      if (!read.is_tangent) own[read.index] = saved_[read.index].unpack(*this, 0);
      reads.push_back(read.is_tangent ? &tangents[backward_->tangents[read.index]] : &own[read.index]);
    }
    std::vector<Tensor> gradients(joint.graph.outputs.size());
    backward_->joint->plan_of(index, *backward_->backend)
        .run({reads.data(), reads.size()}, {symbols_, numbers_}, gradients);
    size_t next = 0;
    for (size_t i = 0; i < edges.size(); ++i)
      if (program->has_gradient[i]) step.results[i] = std::move(gradients[next++]);
  }

  // What the backward that ran has read is freed, as eager frees the steps that it walked. Outputs that lead elsewhere keep
  // what is theirs.
  void release() override {
    is_released_ = true;
    inputs_.clear();
    for (size_t p = 0; p < is_spent_.size(); ++p)
      if (last_ == nullptr || last_->shares_saved[p]) is_spent_[p] = true;
    std::vector<bool> is_needed(saved_.size());
    for (size_t p = 0; p < is_spent_.size(); ++p) {
      if (is_spent_[p]) continue;
      for (const JointPlan::Read read : backward_->joint->programs()[p].reads)
        if (!read.is_tangent) is_needed[read.index] = true;
    }
    for (size_t i = 0; i < saved_.size(); ++i)
      if (!is_needed[i]) saved_[i] = {};
  }

 private:
  void check_kept(bool is_kept) const {
    WEFT_CHECK(is_kept, "backward: ", describe(*this),
               " was walked a second time, but what it had saved was freed by the first backward.\n  Pass "
               "retain_graph=true to the first one, or compute the result again.");
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
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs_[i].defined()) inputs[i] = inputs_[i].unpack(*this, 0);
    std::vector<const Tensor*> reads;
    for (const ValueId value : values) reads.push_back(&inputs[(*backward_->path)[value].index]);
    std::vector<Tensor> outputs(forward.outputs.size());
    GraphRunner(forward).run_differentiable(reads, {symbols_, numbers_}, outputs);
    std::vector<Tensor> roots, gradients_of_roots, leaves;
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (!tangents[i].defined() || !outputs[i]->needs_grad()) continue;
      roots.push_back(outputs[i]);
      gradients_of_roots.push_back(tangents[i]);
    }
    std::vector<size_t> slots;
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!step.wanted[i]) continue;
      // The parts of one gradient come as one.
      if (i > 0 && wanted_inputs_[i].is_same(wanted_inputs_[i - 1])) continue;
      leaves.push_back(wanted_inputs_[i]);
      slots.push_back(i);
    }
    if (roots.empty() || leaves.empty()) return;
    std::vector<Tensor> gradients =
        autograd::grad(roots, leaves, gradients_of_roots, create_graph, create_graph, true);
    for (size_t k = 0; k < slots.size(); ++k) step.results[slots[k]] = std::move(gradients[k]);
  }

  std::shared_ptr<PathBackward> backward_;
  std::vector<int64_t> symbols_;
  std::vector<Scalar> numbers_;
  std::vector<autograd::SavedTensor> saved_, inputs_;
  std::vector<Tensor> wanted_inputs_;
  const PathBackward::Program* last_ = nullptr;  // that ran
  std::vector<bool> is_spent_;                   // by program: what it needs was freed
  bool is_released_ = false;
};

}  // namespace

Intrusive<autograd::Node> connect(Frame& frame, const SegmentNode& node) {
  const PathBackward& backward = *node.backward;
  std::vector<Tensor> saved;
  saved.reserve(backward.saved.size());
  for (size_t i = 0; i < backward.saved.size(); ++i) {
    const Slot slot = backward.saved[i];
    const Tensor& tensor = frame.tensor(slot);
    // What somebody may write is kept as it was; results are kept without their history, which leads here.
    if (backward.joint->saved()[i].is_copied) saved.push_back(autograd::copy_of(tensor.detach()));
    else saved.push_back(slot.is_carried ? autograd::share_data(tensor) : tensor);
  }
  auto step = make_intrusive<CompiledNode>(frame, node, std::move(saved));
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
