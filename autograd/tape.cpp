// The tape's hooks in dispatch: recording ops, views and in-place ops; and the history of a tensor.
#include "autograd/tape.h"

#include "autograd/grad_mode.h"
#include "autograd/op_node.h"
#include "autograd/view_node.h"
#include "tensor/allocator.h"

namespace weft {
namespace autograd {

// Note [Views and in-place ops]
// Every view of a floating tensor keeps its base and the ops that made it, also where nothing requires grad, because an
// in-place op may change that later. An in-place op on a view is a step of the base's history (ViewWriteNode). A base counts
// how often its history was replaced (`generation`); a view that is used and finds its number behind runs the ops that made
// it again on the base and takes the history of what comes out. Whether a view requires grad is answered without that:
// TensorImpl::needs_grad looks at the base.

// A chain this long is replaced by one as_strided, so that a view of a view of a view … stays small.
constexpr uint32_t kMaxViewSteps = 16;

void* ViewStep::operator new(size_t bytes) { return weft::allocate(bytes); }
void ViewStep::operator delete(void* memory, size_t bytes) { weft::deallocate(memory, bytes); }
void* Tape::operator new(size_t bytes) { return weft::allocate(bytes); }
void Tape::operator delete(void* memory, size_t bytes) { weft::deallocate(memory, bytes); }

Tape::~Tape() {
  if (!cell) return;
  // Nobody can ask for this gradient any more. It may hold the last handle to much: let it go outside the lock.
  Tensor last;
  const std::lock_guard lock(cell->mutex);
  cell->is_read = false;
  std::swap(last, cell->grad);
}

Tape& make_tape(const Tensor& x) {
  if (x->tape == nullptr) x->tape = std::make_unique<Tape>();
  return *tape_of(x);
}

namespace {

// The view that x follows its base by, or null.
View* followed(const Tensor& x) {
  Tape* tape = tape_of(x);
  return tape != nullptr && tape->view != nullptr && !tape->view->is_detached ? tape->view : nullptr;
}

std::mutex refresh_mutex;

void check_shape(const View& view) {
  const Tape* base = tape_of(view.base);
  WEFT_CHECK(
      base == nullptr || base->shape == view.base_shape, "backward: a view follows ",
      weft::describe(view.base),
      ", whose sizes were changed in place (as by unsqueeze_) after the view was made, and which was written "
      "since; make the view again");
}

// Brings the history of a view up to that of its base.
void refresh(const Tensor& x) {
  View* view = followed(x);
  if (view == nullptr) return;
  const Tape* base = tape_of(view->base);
  const uint32_t generation = base != nullptr ? base->generation : 0;
  if (view->generation.load(std::memory_order_acquire) == generation) return;
  check_shape(*view);
  const AutoGradMode on(true);
  const Tensor again = replay(*view->steps, view->base, x->made_at);
  const std::lock_guard lock(refresh_mutex);
  if (view->generation.load(std::memory_order_acquire) == generation) return;
  Tape& tape = *tape_of(x);
  if (const Tape* fresh = tape_of(again)) tape.producer = fresh->producer;
  x->requires_grad = again->requires_grad;
  if (tape.retains_grad && tape.producer) retain_in(x, *tape.producer.node, tape.producer.slot);
  view->generation.store(generation, std::memory_order_release);
}

}  // namespace

Edge producer_of(const Tensor& given) {
  const Tensor& x = stand_in(given);
  refresh(x);
  const Tape* tape = tape_of(x);
  return tape != nullptr ? tape->producer : Edge();
}

Edge gradient_edge(const Tensor& given) {
  const Tensor& x = stand_in(given);
  if (!x->needs_grad()) return {};
  refresh(x);
  const Tape& tape = *tape_of(x);
  return tape.producer ? tape.producer : Edge{tape.accumulator, 0};
}

bool is_leaf(const Tensor& x) { return !stand_in(x)->needs_grad() || !producer_of(x); }

void retain_in(const Tensor& x, Node& node, uint32_t slot) {
  Tape& tape = make_tape(x);
  if (node.hooks == nullptr) node.hooks = std::make_unique<Hooks>();
  static_cast<void>(grad_cell(x));
  node.hooks->retains.push_back({slot, tape.cell});
}

void set_producer(const Tensor& x, Intrusive<Node> node, uint32_t slot) {
  Tape& tape = make_tape(x);
  if (tape.retains_grad && tape.producer && tape.producer.node->hooks) {
    std::erase_if(tape.producer.node->hooks->retains,
                  [&](const Hooks::Retain& retain) { return retain.cell == tape.cell; });
  }
  if (tape.retains_grad) retain_in(x, *node, slot);
  tape.producer = {std::move(node), slot};
  x->requires_grad = true;
}

void forget_history(const Tensor& x) {
  x->requires_grad = false;
  x->is_rewritten = false;
  if (Tape* tape = tape_of(x)) {
    tape->producer = {};
    tape->accumulator = {};
    ++tape->generation;
  }
}

GradCell& grad_cell(const Tensor& x) {
  Tape& tape = make_tape(stand_in(x));
  if (!tape.cell) tape.cell = make_intrusive<GradCell>();
  return *tape.cell;
}

Tensor share_data(const Tensor& given) {
  const Tensor& x = stand_in(given);
  Tensor shared = make_view(x, x->layout);
  shared->is_fake = x->is_fake;
  shared->is_contiguous = x->is_contiguous;
  shared->made_by = x->made_by;
  shared->made_at = x->made_at;
  if (x->trace != nullptr) shared->trace = x->trace->share(*shared.impl());
  return shared;
}

Tensor replay(const ViewStep& steps, Tensor x, SourceLocation where) {
  SmallVector<const ViewStep*, kMaxViewSteps> order;
  for (const ViewStep* step = &steps; step != nullptr; step = step->before.get()) order.push_back(step);
  for (size_t i = order.size(); i-- > 0;)
    x = call(*order[i]->op, std::initializer_list<Operand>{x}, order[i]->attrs, where);
  return x;
}

namespace {

// ---- Views ----------------------------------------------------------------------------------------------------------

// Lets a fresh view follow its base. `is_detached`: it was made without history from what has one.
void follow(const Call& call, const Tensor& from, const Tensor& view, bool is_detached) {
  if (call.op.grad_state == GradState::None || !is_floating(view->dtype)) return;
  auto tape = std::make_unique<ViewTape>();
  View& own = tape->own;
  const Tape* from_tape = tape_of(from);
  const View* outer = from_tape != nullptr ? from_tape->view : nullptr;
  own.base = outer != nullptr ? outer->base : from;
  own.is_detached = is_detached || (outer != nullptr && outer->is_detached);
  auto step = make_intrusive<ViewStep>();
  if (outer != nullptr) {
    step->before = outer->steps;
    step->length = outer->steps->length + 1;
  }
  if (step->length > kMaxViewSteps && own.base->dtype == view->dtype) {
    step->before = {};
    step->length = 1;
    step->op = &WEFT_OP("as_strided");
    step->attrs = {Attr(SymList(view->layout.sizes)), Attr(SymList(view->layout.strides)),
                   Attr(view->layout.offset)};
  } else {
    step->op = &call.op;
    step->attrs = call.attrs;
  }
  own.steps = std::move(step);
  if (const Tape* base = tape_of(own.base)) {
    own.generation.store(base->generation, std::memory_order_relaxed);
    own.base_shape = base->shape;
  }
  if (!own.is_detached) view->base = own.base.impl();
  view->tape = std::move(tape);
}

void record_view(const Call& call, const Tensor& base, const Tensor& view) {
  follow(call, base, view, base->needs_grad());
}

// ---- Ops ------------------------------------------------------------------------------------------------------------

void record(const Call& call, std::span<Tensor> outputs) {
  if (!has_gradient(call.op, call.operands)) return;
  bool any_floating = false;
  for (const Tensor& output : outputs) any_floating = any_floating || is_floating(output->dtype);
  if (!any_floating) return;
  auto node = make_intrusive<OpNode>(call.op, call);
  if (call.op.kind == Kind::View) follow(call, call.tensor(0), outputs[0], false);
  node->finish(outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (is_floating(outputs[i]->dtype)) set_producer(outputs[i], node, static_cast<uint32_t>(i));
}

// ---- In-place ops ---------------------------------------------------------------------------------------------------

struct PendingWrite final : TapeSlot {
  Intrusive<OpNode> node;
};

std::unique_ptr<TapeSlot> before_mutation(const Call& call, const Tensor& self) {
  if (!is_floating(self->dtype)) return nullptr;
  // Never destroyed: nodes in static storage may name it while the process ends.
  static const Op& no_rules = *new Op(Schema("overwrite() -> Tensor"), Kind::Mutation);
  const Op& base_op = call.op.base != nullptr ? *call.op.base : no_rules;
  if (!self->needs_grad() && !has_gradient(base_op, call.operands)) return nullptr;

  const Tape* tape = tape_of(self);
  const View* view = tape != nullptr ? tape->view : nullptr;
  WEFT_CHECK(
      view == nullptr || !view->is_detached, call.name(),
      ": self is a view that was made while grad mode was off, of a tensor that requires grad, so this write "
      "could not reach the tensor's history; make the view with grad mode on, or write under NoGradGuard");
  WEFT_CHECK(!self->needs_grad() || !is_leaf(self), call.name(),
             ": self is a leaf that requires grad, whose value backward needs as it is; write under "
             "NoGradGuard (as an "
             "optimizer does), or into a clone()");
  WEFT_CHECK(
      view == nullptr || !view->base->requires_grad || !is_leaf(view->base), call.name(),
      ": self is a view of a leaf that requires grad, whose value backward needs as it is; write under "
      "NoGradGuard, or into a view of a clone()");
  if (view != nullptr) check_shape(*view);
  auto pending = std::make_unique<PendingWrite>();
  pending->node = make_intrusive<OpNode>(base_op, call, &self);
  return pending;
}

void rewrite(const Tensor& x, Intrusive<Node> node) {
  set_producer(x, std::move(node), 0);
  x->is_rewritten = true;
  ++tape_of(x)->generation;
}

void after_mutation(const Call&, const Tensor& self, std::unique_ptr<TapeSlot> slot) {
  Intrusive<OpNode> node = std::move(static_cast<PendingWrite&>(*slot).node);
  node->finish({&self, 1});
  const View* view = followed(self);
  if (view == nullptr) {
    rewrite(self, std::move(node));
    return;
  }
  const Tensor base = view->base;
  rewrite(base, make_intrusive<ViewWriteNode>(base, view->steps, std::move(node)));
}

// ---- In-place ops on metadata ---------------------------------------------------------------------------------------

void become(const Op& op, const Tensor& self, const Tensor& view) {
  const bool is_leaf_with_grad = self->needs_grad() && is_leaf(self);
  WEFT_CHECK(
      !is_leaf_with_grad || !grad_mode_enabled(), op.name(),
      ": self is a leaf that requires grad; change its shape under NoGradGuard, or use the op without the "
      "trailing _");
  if (followed(self) != nullptr) {
    // A view of another base: so is its view.
    Intrusive<GradCell> cell = tape_of(self)->cell;
    self->tape = std::move(view->tape);
    self->base = view->base;
    self->requires_grad = view->requires_grad;
    tape_of(self)->cell = std::move(cell);
    return;
  }
  if (!self->needs_grad()) {
    if (self->tape != nullptr || is_floating(self->dtype)) ++make_tape(self).shape;
    return;
  }
  ++tape_of(self)->shape;
  if (is_leaf_with_grad) {
    tape_of(self)->accumulator = make_intrusive<AccumulateNode>(view, tape_of(self)->cell);
    return;
  }
  Edge edge = producer_of(view);
  WEFT_CHECK(edge, op.name(),
             ": self has a history, which cannot follow while grad mode is off; use the op without "
             "the trailing _");
  set_producer(self, std::move(edge.node), edge.slot);
}

}  // namespace
}  // namespace autograd

constinit const TapeHook tape_hook = {autograd::record, autograd::before_mutation, autograd::after_mutation,
                                      autograd::record_view, autograd::become};

}  // namespace weft
