// unsqueeze_, squeeze_, transpose_ and t_: the tensor itself gets another layout; its data and version stay.
// Place: register.cpp calls register_metadata_ops; dispatch's become() gives the tensor the history of its view.
#include "tensor/ops/entry.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

Tensor unsqueeze_by_name(const Tensor& x, int64_t dim, SourceLocation where) {
  Tensor self = x;
  return self.unsqueeze_(dim, where);
}
Tensor squeeze_by_name(const Tensor& x, int64_t dim, SourceLocation where) {
  Tensor self = x;
  return self.squeeze_(dim, where);
}
Tensor transpose_by_name(const Tensor& x, int64_t dim0, int64_t dim1, SourceLocation where) {
  Tensor self = x;
  return self.transpose_(dim0, dim1, where);
}
Tensor t_by_name(const Tensor& x, SourceLocation where) {
  Tensor self = x;
  return self.t_(where);
}

// A tensor with a history keeps it, with the view as one more step, also while grad mode is off.
template <class F>
void become_view(const Op& op, const Tensor& self, SourceLocation where, F&& make) {
  const CompositeScope scope(op, where, {self});
  Tensor view;
  {
    const AutoGradMode on(true);
    view = make();
  }
  become(op, self, view, where);
}

}  // namespace

void register_metadata_ops(OpTable& table) {
  composite(table, "unsqueeze_(Tensor self, int dim) -> Tensor", &unsqueeze_by_name);
  composite(table, "squeeze_(Tensor self, int dim) -> Tensor", &squeeze_by_name);
  composite(table, "transpose_(Tensor self, int dim0, int dim1) -> Tensor", &transpose_by_name)
      .samples({.calls = {"self=[3,4] dim0=0 dim1=1", "self=[2,3,4] dim0=-1 dim1=0"}});
  composite(table, "t_(Tensor self) -> Tensor", &t_by_name);
}

Tensor& Tensor::unsqueeze_(int64_t dim, SourceLocation where) {
  become_view(WEFT_OP("unsqueeze_"), *this, where, [&] { return weft::unsqueeze(*this, dim, where); });
  return *this;
}
Tensor& Tensor::squeeze_(int64_t dim, SourceLocation where) {
  become_view(WEFT_OP("squeeze_"), *this, where, [&] { return weft::squeeze(*this, dim, where); });
  return *this;
}
Tensor& Tensor::transpose_(int64_t dim0, int64_t dim1, SourceLocation where) {
  become_view(WEFT_OP("transpose_"), *this, where, [&] { return weft::transpose(*this, dim0, dim1, where); });
  return *this;
}
Tensor& Tensor::t_(SourceLocation where) {
  become_view(WEFT_OP("t_"), *this, where, [&] { return weft::t(*this, where); });
  return *this;
}

}  // namespace weft
