// ViewWriteNode: the step of the tape for an in-place op on a view, as a step of the view's base.
// Needs tape. Note [Views and in-place ops] in tape.cpp.
#pragma once

#include "autograd/op_node.h"
#include "autograd/tape.h"

namespace weft::autograd {

// The gradient of the new base is that of the old base with the written region cut out; in the region it passes through
// the op. Edge 0 leads to the base's old history, the others are those of the op.
class ViewWriteNode final : public Node {
 public:
  ViewWriteNode(const Tensor& base, Intrusive<ViewStep> steps, Intrusive<OpNode> inner);
  const char* name() const override { return inner_->name(); }
  void apply(Step& step) override;
  void release() override { inner_->release(); }

 private:
  // dy in memory of its own, with the strides of the base.
  Tensor copy_like_base(const Tensor& dy) const;

  Layout<Sym> layout_;  // of the base
  Intrusive<ViewStep> steps_;
  Intrusive<OpNode> inner_;
};

}  // namespace weft::autograd
