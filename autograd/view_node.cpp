// The gradient of an in-place op on a view.
#include "autograd/view_node.h"

namespace weft::autograd {

ViewWriteNode::ViewWriteNode(const Tensor& base, Intrusive<ViewStep> steps, Intrusive<OpNode> inner)
    : layout_(base->layout), steps_(std::move(steps)), inner_(std::move(inner)) {
  where = inner_->where;
  results.push_back(Meta(base));
  edges = inner_->edges;
  edges[0] = gradient_edge(base);
}

Tensor ViewWriteNode::copy_like_base(const Tensor& dy) const {
  const bool is_plain = layout_.offset == 0 && is_contiguous(layout_);
  if (is_plain) return dy.is_contiguous() ? clone(dy, where) : contiguous(dy, where);
  // The views may speak of places in the storage, so the copy has a storage laid out like the base's.
  Sym span = layout_.offset + 1;
  for (size_t d = 0; d < layout_.sizes.size(); ++d) span = span + (layout_.sizes[d] - 1) * layout_.strides[d];
  Tensor memory = zeros({span}, dy.options(), where);
  Tensor copy = as_strided(memory, layout_.sizes, layout_.strides, layout_.offset, where);
  copy.copy_(dy, false, where);
  return copy;
}

void ViewWriteNode::apply(Step& step) {
  Tensor rest = copy_like_base(step.grads[0]);
  Tensor region = replay(*steps_, rest, where);
  Tensor dy = clone(region, where);  // the region is overwritten below
  SmallVector<bool, 3> wanted(step.wanted.begin(), step.wanted.end());
  SmallVector<Tensor, 3> gradients(edges.size());
  Step inner{{&dy, 1}, {gradients.data(), gradients.size()}, {wanted.data(), wanted.size()}};
  inner_->apply(inner);
  for (size_t i = 1; i < edges.size(); ++i) step.results[i] = std::move(gradients[i]);
  if (!step.wanted[0]) return;
  if (gradients[0].defined()) region.copy_(gradients[0], false, where);
  else region.zero_(where);
  step.results[0] = std::move(rest);
}

}  // namespace weft::autograd
