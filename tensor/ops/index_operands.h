// What the index ops share: checks of index tensors, loops over tensors, the operands that alias a target.
// Needs dispatch and cpu/index. Used by index.cpp, scatter.cpp and rearrange.cpp.
#pragma once

#include "tensor/cpu/index.h"
#include "tensor/dispatch.h"

namespace weft::index_ops {

// A 0-d tensor counts as one dimension of size 1.
inline int64_t rank_of(const Tensor& x) { return std::max<int64_t>(1, x.dim()); }
inline Sym size_at(const Tensor& x, int64_t d) {
  return x.dim() == 0 ? Sym::from_int(1) : x->layout.sizes[static_cast<size_t>(d)];
}
int64_t dim_of(const Call& call, const Tensor& x, size_t attr = 0);

cpu::IndexList sizes_of(const Tensor& x);
cpu::IndexList strides_of(const Tensor& x);

// Which dtypes an op takes as an index. Error otherwise.
enum class IndexTypes : uint8_t { Int64, Int64OrInt32 };
void check_index_dtype(const Call& call, const Tensor& index, IndexTypes types);
// The same values as int64; real tensors only.
Tensor as_int64(const Tensor& index);
// IndexError naming the first value outside [low, size) and its place. `dim` is the dimension of x that it indexes.
void check_range(const Call& call, const Tensor& index, int64_t low, const Tensor& x, int64_t dim);

// Each place of `index` meets the element of x with dimension `dim` taken from the index, and the one of `dense` there.
cpu::IndexedLoop loop_along(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& dense);
// Each place of `dense` meets the element of x with dimension `dim` taken from the vector `index`.
cpu::IndexedLoop loop_over_slices(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& dense);

// The tensor itself, or a copy where a write into `target` would change it.
Tensor unaliased(const Tensor& x, const Tensor& target);
// A tensor without dimensions holding the number. Error naming the op if it lies outside the dtype.
Tensor number_tensor(const Scalar& value, DType dtype, const char* op);

// A kernel that writes into its target, run on a copy of operand 0.
template <void (*kernel)(const Call&, const Tensor& target)>
void run_on_copy(const Call& call, std::span<Tensor> outputs) {
  copy_data(call.tensor(0), outputs[0]);
  kernel(call, outputs[0]);
}
OutputSpecs like_operand_0(const Call& call);

}  // namespace weft::index_ops
