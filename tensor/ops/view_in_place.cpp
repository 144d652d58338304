// In-place ops on metadata: the tensor gets another shape, its data stay.
// Place: register.cpp calls register_view_in_place_ops; the tape gives the tensor the history of its view.
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

}  // namespace

void register_view_in_place_ops(OpTable& table) {
  composite(table, "unsqueeze_(Tensor self, int dim) -> Tensor", &unsqueeze_by_name);
  composite(table, "squeeze_(Tensor self, int dim) -> Tensor", &squeeze_by_name);
  composite(table, "transpose_(Tensor self, int dim0, int dim1) -> Tensor", &transpose_by_name);
  composite(table, "t_(Tensor self) -> Tensor", &t_by_name);
}

Tensor& Tensor::unsqueeze_(int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("unsqueeze_"), where);
  become(scope.op(), *this, weft::unsqueeze(*this, dim, where), where);
  return *this;
}
Tensor& Tensor::squeeze_(int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("squeeze_"), where);
  become(scope.op(), *this, weft::squeeze(*this, dim, where), where);
  return *this;
}
Tensor& Tensor::transpose_(int64_t dim0, int64_t dim1, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("transpose_"), where);
  become(scope.op(), *this, weft::transpose(*this, dim0, dim1, where), where);
  return *this;
}
Tensor& Tensor::t_(SourceLocation where) {
  const CompositeScope scope(WEFT_OP("t_"), where);
  become(scope.op(), *this, weft::t(*this, where), where);
  return *this;
}

}  // namespace weft
