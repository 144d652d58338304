// Checks of index tensors and loops over tensors.
// Place: the out-of-line half of tensor/ops/index_operands.h.
#include "tensor/ops/index_operands.h"

#include <cstring>

#include "tensor/ops/fill.h"

namespace weft::index_ops {

int64_t dim_of(const Call& call, const Tensor& x, size_t attr) {
  return normalize_dim(call.attr(attr).as_int(), x.dim(), call.name());
}

cpu::IndexList sizes_of(const Tensor& x) {
  if (x.dim() == 0) return {1};
  return {int_sizes(x), int_sizes(x) + x.dim()};
}
cpu::IndexList strides_of(const Tensor& x) {
  if (x.dim() == 0) return {1};
  return {int_strides(x), int_strides(x) + x.dim()};
}

void check_index_dtype(const Call& call, const Tensor& index, IndexTypes types) {
  if (index->dtype == DType::Int64) return;
  if (types == IndexTypes::Int64OrInt32 && index->dtype == DType::Int32) return;
  WEFT_CHECK(false, call.name(), ": the index is ", index->dtype, "; it must be ",
             types == IndexTypes::Int64 ? "int64" : "int64 or int32");
}

Tensor as_int64(const Tensor& index) {
  if (index->dtype == DType::Int64) return index;
  Tensor result = make_tensor(index->layout.sizes, DType::Int64, index->device);
  copy_data(index, result);
  return result;
}

void check_range(const Call& call, const Tensor& index, int64_t low, const Tensor& x, int64_t dim) {
  const int64_t size = size_at(x, dim);
  const int64_t place =
      cpu::find_out_of_range({sizes_of(index), {strides_of(index)}}, data_of<int64_t>(index), low, size);
  if (place < 0) return;
  Sizes at(static_cast<size_t>(index.dim()), Sym());
  int64_t rest = place, offset = 0;
  for (size_t d = at.size(); d-- > 0;) {
    at[d] = Sym::from_int(rest % int_sizes(index)[d]);
    rest /= int_sizes(index)[d];
    offset += at[d].concrete() * int_strides(index)[d];
  }
  const int64_t value = data_of<int64_t>(index)[offset];
  std::string rule = size == 0 ? detail::concat("is empty") : detail::concat("takes ", low, " to ", size - 1);
  throw IndexError(detail::concat(call.name(), ": the index holds ", value, " at ", SizesView(at),
                                  ", but dimension ", dim, " of ", x.sizes(), " ", rule),
                   place, value);
}

cpu::IndexedLoop loop_along(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& dense) {
  cpu::IndexedLoop loop;
  loop.box.sizes = sizes_of(index);
  loop.box.strides = {strides_of(x), strides_of(index), strides_of(dense)};
  int64_t& stride = loop.box.strides[cpu::IndexedLoop::kIndexed][static_cast<size_t>(dim)];
  loop.scale = stride;
  stride = 0;
  loop.range = size_at(x, dim);
  return loop;
}

cpu::IndexedLoop loop_over_slices(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& dense) {
  cpu::IndexedLoop loop;
  loop.box.sizes = sizes_of(dense);
  loop.box.strides = {strides_of(x), cpu::IndexList(loop.box.sizes.size(), 0), strides_of(dense)};
  const auto d = static_cast<size_t>(dim);
  loop.box.strides[cpu::IndexedLoop::kIndex][d] = strides_of(index)[0];
  loop.scale = loop.box.strides[cpu::IndexedLoop::kIndexed][d];
  loop.box.strides[cpu::IndexedLoop::kIndexed][d] = 0;
  loop.range = size_at(x, dim);
  return loop;
}

Tensor unaliased(const Tensor& x, const Tensor& target) {
  if (!share_memory(x, target)) return x;
  Tensor copy = make_tensor(x->layout.sizes, x->dtype, x->device);
  copy_data(x, copy);
  return copy;
}

Tensor number_tensor(const Scalar& value, DType dtype, const char* op) {
  const Element element(value, dtype, op);
  Tensor result = make_tensor({}, dtype);
  std::memcpy(bytes_of(result), element.bytes, size_of(dtype));
  return result;
}

OutputSpecs like_operand_0(const Call& call) {
  const Tensor& x = call.tensor(0);
  return {{x->layout.sizes, x->dtype, x->device}};
}

}  // namespace weft::index_ops
