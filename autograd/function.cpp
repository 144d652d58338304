// The node of a user-defined function.
#include "autograd/function.h"

#include <cxxabi.h>

#include <algorithm>

#include "autograd/tape.h"
#include "tensor/quiet_handles.h"

namespace weft::autograd {
namespace {

thread_local uint64_t num_made = 0;

bool contains(const variable_list& list, const Tensor& x) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& y) { return y.is_same(x); });
}

}  // namespace

uint64_t num_function_nodes() { return num_made; }

FunctionNode::FunctionNode(const std::type_info& type) {
  ++num_made;
  int status = 0;
  char* readable = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  name_ = status == 0 ? readable : type.name();
  std::free(readable);
  if (const size_t colon = name_.rfind("::"); colon != std::string::npos) name_.erase(0, colon + 2);
  context.node_ = this;
}

void FunctionNode::start(const variable_list& arguments) {
  edges.resize(arguments.size());
  if (!grad_mode_enabled()) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) continue;
    edges[i] = gradient_edge(arguments[i]);
    is_recording_ = is_recording_ || edges[i];
  }
}

void FunctionNode::finish(const variable_list& arguments, variable_list& outputs) {
  if (!is_recording_) {
    context.to_save_.clear();
    return;
  }
  for (const Tensor& x : context.dirty_)
    WEFT_CHECK(contains(outputs, x), name_,
               ": an input that was marked dirty is not among the results of forward");
  std::vector<bool> is_own(outputs.size());
  variable_list before = outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& y = outputs[i];
    WEFT_CHECK(y.defined(), name_, ": result ", i, " of forward is undefined");
    results.push_back(Meta(y));
    if (!is_floating(y->dtype) || contains(context.non_differentiable_, y)) continue;
    is_own[i] = true;
    const bool is_dirty = contains(context.dirty_, y);
    // An input that is passed through, or a tensor with a history of its own, is another tensor afterwards.
    if (!is_dirty && (contains(arguments, y) || y->needs_grad())) y = share_data(y);
    if (is_dirty) {
      WEFT_CHECK(!y->needs_grad() || !is_leaf(y), name_, ": a leaf that requires grad was written in place");
      WEFT_CHECK(y->base == nullptr, name_,
                 ": a view was written in place; its base cannot follow. Use a clone()");
    }
    set_producer(y, Intrusive<Node>::share(this), static_cast<uint32_t>(i));
    if (is_dirty) {
      y->is_rewritten = true;
      ++tape_of(y)->generation;
    }
  }
  for (const Tensor& x : context.to_save_) {
    uint32_t slot = 0;
    bool is_result = false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!x.defined() || !x.is_same(before[i]) || !is_own[i]) continue;
      if (contains(arguments, x) && !contains(context.dirty_, x)) continue;  // saved as the input that it is
      is_result = true;
      slot = static_cast<uint32_t>(i);
    }
    saved_.push_back(!x.defined() ? SavedTensor() : SavedTensor(is_result ? share_data(x) : x, is_result));
    saved_slots_.push_back(slot);
    has_saved_ = true;
  }
  context.to_save_.clear();
  context.dirty_.clear();
  context.non_differentiable_.clear();
}

void FunctionNode::release() {
  if (!has_saved_) return;
  is_released_ = true;
  saved_.clear();
}

void FunctionNode::apply(Step& step) {
  WEFT_CHECK(!is_released_, "backward: ", name_,
             " was walked a second time, but what it had saved was freed by the first backward.\n  Pass "
             "retain_graph=true to the first one, or compute the result again.");
  variable_list gradients(step.grads.begin(), step.grads.end());
  for (size_t i = 0; i < gradients.size() && context.materialize_grads_; ++i) {
    if (!gradients[i].defined())
      gradients[i] = zeros(results[i].sizes, TensorOptions(results[i].dtype).device(results[i].device));
  }
  variable_list answers;
  {
    const QuietHandles heard(false);
    answers = run_backward(std::move(gradients));
  }
  WEFT_CHECK(answers.size() >= edges.size(), name_, ": backward returned ", answers.size(), " gradients for ",
             edges.size(), " arguments of forward; return one for each, undefined where there is none");
  for (size_t i = 0; i < answers.size(); ++i) {
    WEFT_CHECK(i < edges.size() || !answers[i].defined(), name_, ": backward returned ", answers.size(),
               " gradients for ", edges.size(), " arguments of forward");
    if (i < edges.size() && step.wanted[i]) step.results[i] = std::move(answers[i]);
  }
}

variable_list AutogradContext::get_saved_variables() const {
  WEFT_CHECK(!node_->is_released_, node_->name(),
             ": what it had saved was freed by the first backward; pass "
             "retain_graph=true to it");
  variable_list tensors;
  for (size_t i = 0; i < node_->saved_.size(); ++i) {
    const SavedTensor& saved = node_->saved_[i];
    tensors.push_back(saved.defined() ? saved.unpack(*node_, node_->saved_slots_[i]) : Tensor());
  }
  return tensors;
}

bool AutogradContext::needs_input_grad(size_t index) const {
  WEFT_CHECK(index < node_->edges.size(), node_->name(), ": needs_input_grad(", index, ") with ",
             node_->edges.size(), " arguments");
  return static_cast<bool>(node_->edges[index]);
}

}  // namespace weft::autograd
