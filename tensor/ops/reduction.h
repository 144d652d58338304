// What the entries of folds, scans and norms share: dimensions, result sizes, the way back to the full shape.
// Needs entry; private to reduction.cpp, scan.cpp, normalization.cpp and their like.
#pragma once

#include "tensor/cpu/reduce.h"
#include "tensor/ops/entry.h"

namespace weft {

void register_arg_ops(OpTable& table);
void register_variance_ops(OpTable& table);
void register_scan_ops(OpTable& table);
void register_softmax_ops(OpTable& table);
void register_normalization_ops(OpTable& table);

// By dimension: is it folded. An empty list means all. Errors: IndexError for a dimension out of range, Error for one
// that is named twice.
using FoldedDims = SmallVector<bool, 2 * kInlineRank>;
FoldedDims folded_dims(const DimList& dims, int64_t rank, const char* op);

// The sizes without the folded dimensions, or with 1 in their place.
Sizes folded_sizes(const Sizes& sizes, const FoldedDims& folded, bool keepdim);
// The number of elements that are folded into one.
Sym folded_count(std::span<const Sym> sizes, const FoldedDims& folded);

// A result of a fold, broadcast back to the sizes of its operand (as a view).
Tensor unfold_to(const Tensor& result, const DimList& dims, bool keepdim, const SymList& sizes,
                 SourceLocation where);

// Folds x into `out`, which is contiguous.
void run_fold(const Tensor& x, const FoldedDims& folded, cpu::Fold fold, DType compute, const Tensor& out,
              std::optional<DType> via = {}, std::optional<double> divisor = {});

// A half computation runs in float and rounds once at its end: body(x in the compute dtype), converted back.
template <class Body>
Tensor in_compute_dtype(const Tensor& x, DType result, SourceLocation where, const Body& body) {
  const DType compute = is_half(x.dtype()) ? DType::Float32 : x.dtype();
  return body(x.to(compute, false, false, where)).to(result, false, false, where);
}

}  // namespace weft
