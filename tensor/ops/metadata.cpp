// unsqueeze_, squeeze_, transpose_ and t_: the tensor itself gets another layout; its data and version stay.
// Place: methods of tensor.h over the views of view.cpp.
#include "tensor/ops/check.h"

namespace weft {
namespace {

struct GradModeOn {
  GradModeOn() { set_grad_mode(true); }
  ~GradModeOn() { set_grad_mode(before); }
  bool before = grad_mode_enabled();
};

void take_layout(const Tensor& self, const Tensor& from) {
  self->layout = from->layout;
  self->numel = from->numel;
  self->is_contiguous = from->is_contiguous;
}

// Turns self into the view of itself that `op` makes. Where the tape or a trace knows the tensor, another handle takes over
// its place in history, and self becomes a view of that: a gradient then passes the view's rule on its way back, and an
// in-place op on self is still one on what it was.
void become_view(const Tensor& self, const char* name, const Op& op, const Attrs& attrs, SourceLocation where) {
  try {
    const TensorImpl& x = *self.impl();
    if (x.tape == nullptr && x.trace == nullptr && !x.requires_grad) {
      const Layout<Sym> layout = op.view(x.layout, attrs, x.dtype);
      take_layout(self, make_view(self, layout));
      return;
    }
    WEFT_CHECK(!self.requires_grad() || !self.is_leaf(), name,
               ": self is a leaf that requires grad, whose gradient has its sizes; use ", op.name(), "()");
    static_cast<void>(op.view(x.layout, attrs, x.dtype));  // a mistake shows before anything moves
    const Tensor before = make_view(self, x.layout);
    before->is_fake = x.is_fake;
    before->is_contiguous = x.is_contiguous;
    before->requires_grad = x.requires_grad;
    before->is_rewritten = x.is_rewritten;
    before->base = x.base;
    before->made_by = x.made_by;
    before->made_at = x.made_at;
    before->tape = std::move(self->tape);
    if (x.trace != nullptr) before->trace = x.trace->share();
    const GradModeOn on;
    const Tensor after = call(op, {before}, attrs, where);
    take_layout(self, after);
    self->requires_grad = after->requires_grad;
    self->is_rewritten = after->is_rewritten;
    self->base = after->base;
    self->tape = std::move(after->tape);
    if (after->trace != nullptr) self->trace = std::move(after->trace);
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

}  // namespace

Tensor& Tensor::unsqueeze_(int64_t dim, SourceLocation where) {
  Attrs attrs;
  attrs.push_back(dim);
  become_view(*this, "unsqueeze_", WEFT_OP("unsqueeze"), attrs, where);
  return *this;
}
Tensor& Tensor::squeeze_(int64_t dim, SourceLocation where) {
  Attrs attrs;
  attrs.push_back(DimList(dim));
  become_view(*this, "squeeze_", WEFT_OP("squeeze"), attrs, where);
  return *this;
}
Tensor& Tensor::transpose_(int64_t dim0, int64_t dim1, SourceLocation where) {
  Attrs attrs;
  attrs.push_back(dim0);
  attrs.push_back(dim1);
  become_view(*this, "transpose_", WEFT_OP("transpose"), attrs, where);
  return *this;
}
Tensor& Tensor::t_(SourceLocation where) {
  WEFT_CHECK_AT(where, dim() <= 2, "t_: the tensor ", sizes(), " has ", dim(),
                " dimensions; it takes up to 2: use transpose_()");
  return transpose_(0, dim() < 2 ? 0 : 1, where);
}

}  // namespace weft
