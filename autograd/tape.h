// Tape: what the tape knows about one tensor: the step that made it, its gradient, and the tensor it is a view of.
// Needs node. Defines tensor/dispatch.h's tape_hook; the rest of autograd asks here for the history of a tensor.
#pragma once

#include "autograd/node.h"
#include "tensor/dispatch.h"

namespace weft::autograd {

// How a view was made from its base: the last op and the steps before it.
struct ViewStep : RefCounted<ViewStep> {
  const Op* op = nullptr;
  Attrs attrs;
  Intrusive<ViewStep> before;
  uint32_t length = 1;

  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes);
};

// A view follows its base: an in-place op on either changes the history of both. Note [Views and in-place ops]
struct View {
  Tensor base;
  Intrusive<ViewStep> steps;
  // The base's generation that the view's own history stems from.
  std::atomic<uint32_t> generation{0};
  // The base's `shape` that the steps start from.
  uint32_t base_shape = 0;
  // Made while grad mode was off from a base that required grad: it has the data only.
  bool is_detached = false;
};

struct Tape : TapeSlot {
  ~Tape() override;
  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes);

  Edge producer;                // empty for leaves
  Intrusive<Node> accumulator;  // of a leaf that requires grad
  Intrusive<GradCell> cell;     // of a leaf, or of a tensor that retains its gradient
  View* view = nullptr;         // into a ViewTape
  uint32_t generation = 0;      // how often an in-place op replaced the history
  uint32_t shape = 0;           // how often an in-place op on metadata replaced the layout
  bool retains_grad = false;
};

struct ViewTape final : Tape {
  ViewTape() { view = &own; }
  View own;
};

inline Tape* tape_of(const Tensor& x) { return static_cast<Tape*>(x->tape.get()); }
Tape& make_tape(const Tensor& x);

// Where the gradient of x goes; empty if x needs none. Brings the history of a view up to date.
Edge gradient_edge(const Tensor& x);
// The same for a tensor that was made by an op; leaves have none.
Edge producer_of(const Tensor& x);
bool is_leaf(const Tensor& x);

// Makes `node` the history of a tensor.
void set_producer(const Tensor& x, Intrusive<Node> node, uint32_t slot);
// Makes x a leaf without history.
void forget_history(const Tensor& x);
GradCell& grad_cell(const Tensor& x);
// Lets `node` store the gradient of its result `slot` as the .grad of x.
void retain_in(const Tensor& x, Node& node, uint32_t slot);

// Another handle to the data of x, without history; it shares storage and version.
Tensor share_data(const Tensor& x);
// The ops that made a view, run on another tensor.
Tensor replay(const ViewStep& steps, Tensor x, SourceLocation where);

}  // namespace weft::autograd
