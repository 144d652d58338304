// Nodes: how they go away, what they save, and how a gradient is accumulated.
#include "autograd/node.h"

#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "tensor/allocator.h"
#include "tensor/dispatch.h"
#include "tensor/quiet_handles.h"

namespace weft::autograd {
namespace {

thread_local uint64_t next_sequence = 0;
}  // namespace

Node::Node() : sequence(next_sequence++) {}

void* Node::operator new(size_t bytes) { return weft::allocate(bytes); }
void Node::operator delete(void* memory, size_t bytes) { weft::deallocate(memory, bytes); }

// Note [Freeing long chains]
// The last handle to a node may hold the last handle to the node before it, and so on for a million steps. Nodes that
// become free while another is being deleted are therefore put in a list and deleted by the outermost call.
void Node::destroy(Node* node) noexcept {
  thread_local Node* dead = nullptr;
  thread_local bool is_deleting = false;
  node->next_dead_ = dead;
  dead = node;
  if (is_deleting) return;
  is_deleting = true;
  while (dead != nullptr) {
    Node* next = dead;
    dead = next->next_dead_;
    delete next;
  }
  is_deleting = false;
}

Tensor copy_of(const Tensor& x) {
  if (grad_mode_enabled()) return clone(x);
  if (x->is_fake) {
    Tensor rows = contiguous(x);  // row-major, as below
    return rows.is_same(x) ? clone(x) : rows;
  }
  Tensor copy = make_tensor(x->layout.sizes, x->dtype, x->device);
  copy_data(x, copy);
  return copy;
}

// ---- Accumulation ---------------------------------------------------------------------------------------------------

void GradCell::add(Tensor gradient, bool is_ours) {
  Tensor before;  // may hold the last handle to much: goes after the lock
  const std::lock_guard lock(mutex);
  if (!is_read) return;
  is_touched = true;
  const QuietHandles heard(false);  // the user's code may hold a reference to this handle
  if (!grad.defined()) {
    grad = is_ours && gradient.is_contiguous() ? std::move(gradient) : copy_of(gradient);
  } else if (grad_mode_enabled()) {
    before = grad;
    grad = grad + gradient;
  } else {
    grad.add_(gradient);
  }
}

AccumulateNode::AccumulateNode(const Tensor& leaf, Intrusive<GradCell> cell) : cell_(std::move(cell)) {
  sequence = UINT64_MAX;  // as soon as its gradient is complete, so that the gradient's memory is free early
  results.push_back(Meta(leaf));
}

void AccumulateNode::apply(Step& step) {
  Tensor gradient = std::move(step.grads[0]);
  if (!gradient.defined()) return;
  const bool is_ours = !grad_mode_enabled() && !gradient->is_fake && gradient.use_count() == 1 &&
                       gradient->storage != nullptr && gradient->storage.use_count() == 1 &&
                       gradient->storage->bytes() == gradient.nbytes();  // not a part of something large
  cell_->add(std::move(gradient), is_ours);
}

// ---- Saved tensors --------------------------------------------------------------------------------------------------

std::string describe(const Node& node) {
  const std::string place = to_string(node.where);
  return place.empty() ? node.name() : weft::detail::concat(node.name(), " (", place, ")");
}

SaveHook*& SaveHook::current() {
  thread_local SaveHook* hook = nullptr;
  return hook;
}

// Note [Saved operands]
// An in-place op gives a tensor a history. Were that history to hold the tensor itself, because a step in it saved it as an
// operand, neither would ever go. So what is saved is a handle of its own, with the history that the operand had. A leaf
// that requires grad is never written so.
namespace {

void set_apart(Tensor& x) {
  const bool is_leaf_with_grad = x->requires_grad && x->base == nullptr && !tape_of(x)->producer;
  if (x.use_count() == 1 || is_leaf_with_grad) return;
  Tensor own = share_data(x);
  if (x->needs_grad())
    if (Edge history = gradient_edge(x)) set_producer(own, std::move(history.node), history.slot);
  x.exchange(own);  // it is no handle of the user's that changes
}

}  // namespace

SavedTensor::SavedTensor(Tensor data, bool is_own_result)
    : data_(std::move(data)), version_(data_.version()), is_own_result_(is_own_result) {
  SaveHook* const hook = SaveHook::current();
  if (hook == nullptr) [[likely]] {
    if (!is_own_result) set_apart(data_);
    return;
  }
  bool keeps = true;
  const bool is_leaf_with_grad = !is_own_result && data_->needs_grad() && is_leaf(data_);
  const size_t ticket = hook->save(data_, is_leaf_with_grad, keeps);
  if (keeps) return;
  elsewhere_.reset(new Elsewhere{Intrusive<SaveHook>::share(hook), ticket, gradient_edge(data_)});
  Tensor().exchange(data_);
}

SavedTensor& SavedTensor::operator=(SavedTensor&& other) noexcept {
  SavedTensor taken(std::move(other));
  data_.exchange(taken.data_);  // it is no handle of the user's that changes
  std::swap(elsewhere_, taken.elsewhere_);
  version_ = taken.version_;
  is_own_result_ = taken.is_own_result_;
  return *this;
}

Tensor SavedTensor::unpack(Node& owner, uint32_t slot) const {
  if (elsewhere_ != nullptr) {
    const QuietHandles heard(false);
    Tensor data = elsewhere_->hook->restore(elsewhere_->ticket);
    if (!is_own_result_ && !elsewhere_->history) return data;
    Tensor result = share_data(data);
    if (is_own_result_) set_producer(result, Intrusive<Node>::share(&owner), slot);
    else set_producer(result, elsewhere_->history.node, elsewhere_->history.slot);
    return result;
  }
  if (data_.version() != version_) [[unlikely]] {
    const Storage& storage = *data_->storage;
    const std::string place = to_string(storage.last_write());
    weft::detail::throw_error(weft::detail::concat(
        "backward: ", autograd::describe(owner), " saved a ", weft::describe(data_),
        " tensor for its gradient at version ", version_, ", but in-place ops have brought it to version ",
        data_.version(), "; the last was ", storage.last_writer() ? storage.last_writer()->name() : "unknown",
        place.empty() ? "" : " (" + place + ")",
        ".\n  Write to a clone() instead, or use the op without the trailing _."));
  }
  if (!is_own_result_) return data_;
  Tensor result = share_data(data_);
  set_producer(result, Intrusive<Node>::share(&owner), slot);
  return result;
}

}  // namespace weft::autograd
