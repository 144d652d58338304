// The methods of Tensor about gradients.
// Place: declared in tensor/tensor.h; they stand here because the tape is above the tensor floor.
#include <atomic>

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "tensor/state_epoch.h"

namespace weft {

using namespace autograd;

bool GradMode::is_enabled() {
  if (TraceHook* trace = current_trace()) trace->note_grad_mode_asked();
  return grad_mode_enabled();
}

Tensor& Tensor::requires_grad_(bool value) {
  TensorImpl& x = checked();
  if (value == x.needs_grad()) return *this;
  WEFT_CHECK(current_trace() == nullptr || x.is_fake, "requires_grad_: ", weft::describe(*this),
             " was made outside of the compiled function that changes it; call requires_grad_() before");
  if (x.is_captured.load(std::memory_order_relaxed)) bump_state_epoch();
  if (!value) {
    WEFT_CHECK(autograd::is_leaf(*this), "requires_grad_(false): ", weft::describe(*this),
               " was made by a recorded op; use detach() for a tensor without history");
    forget_history(*this);
    return *this;
  }
  WEFT_CHECK(is_floating(x.dtype), "requires_grad_: ", weft::describe(*this),
             " has no gradient; only floating tensors do");
  Tape& tape = make_tape(*this);
  static_cast<void>(grad_cell(*this));
  tape.accumulator = make_intrusive<AccumulateNode>(*this, tape.cell);
  x.requires_grad = true;
  return *this;
}

bool Tensor::is_leaf() const {
  static_cast<void>(checked());
  return autograd::is_leaf(*this);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph,
                      SourceLocation where) const {
  autograd::backward({*this}, gradient.defined() ? variable_list{gradient} : variable_list{},
                     retain_graph || create_graph, create_graph, {}, where);
}

Tensor Tensor::grad() const {
  static_cast<void>(checked());
  const Tape* tape = tape_of(stand_in(*this));
  if (tape == nullptr || !tape->cell) return {};
  const std::lock_guard lock(tape->cell->mutex);
  tape->cell->is_touched = true;
  return tape->cell->grad;
}

Tensor& Tensor::mutable_grad() {
  static_cast<void>(checked());
  GradCell& cell = grad_cell(*this);
  cell.is_touched = true;
  return cell.grad;
}

void Tensor::set_grad(const Tensor& gradient) {
  const TensorImpl& x = checked();
  if (gradient.defined()) {
    WEFT_CHECK(gradient.sizes() == sizes() && gradient->dtype == x.dtype, "set_grad: the gradient is ",
               weft::describe(gradient), ", but the tensor is ", weft::describe(*this));
  }
  mutable_grad() = stand_in(gradient);
}

void Tensor::retain_grad() const {
  WEFT_CHECK(checked().needs_grad(), "retain_grad: ", weft::describe(*this), " does not require grad");
  const Tensor& x = stand_in(*this);
  const Edge edge = producer_of(x);
  Tape& tape = make_tape(x);
  if (!edge || tape.retains_grad) return;  // a leaf keeps its gradient anyway
  tape.retains_grad = true;
  retain_in(x, *edge.node, edge.slot);
}

unsigned Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  static std::atomic<unsigned> next_id{1};
  WEFT_CHECK(checked().needs_grad(), "register_hook: ", weft::describe(*this), " does not require grad");
  const Edge edge = gradient_edge(*this);
  if (edge.node->hooks == nullptr) edge.node->hooks = std::make_unique<Hooks>();
  const unsigned id = next_id++;
  edge.node->hooks->entries.push_back({edge.slot, id, std::move(hook)});
  return id;
}

void Tensor::remove_hook(unsigned id) const {
  static_cast<void>(checked());
  const Edge edge = gradient_edge(*this);
  if (!edge || edge.node->hooks == nullptr) return;
  std::erase_if(edge.node->hooks->entries, [&](const Hooks::Entry& entry) { return entry.id == id; });
}

Tensor Tensor::detach(SourceLocation where) const {
  if (checked().needs_grad() && current_trace() != nullptr) {
    // A node of the graph, so that whoever differentiates the graph again does not go past it.
    const AutoGradMode off(false);
    return share_data(weft::alias(*this, where));
  }
  return share_data(*this);
}

Tensor& Tensor::detach_() {
  TensorImpl& x = checked();
  WEFT_CHECK(current_trace() == nullptr || x.is_fake, "detach_: ", weft::describe(*this),
             " was made outside of the compiled function that changes it; call detach_() before");
  WEFT_CHECK(x.base == nullptr, "detach_: ", weft::describe(*this),
             " is a view, whose history is that of its base; use detach()");
  // Compiled functions ask at each call what is no leaf.
  if (x.is_captured.load(std::memory_order_relaxed) && x.requires_grad && !tape_of(*this)->producer)
    bump_state_epoch();
  forget_history(*this);
  return *this;
}

}  // namespace weft
