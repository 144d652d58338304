// Folding strided arrays along dimensions by one fixed tree: sums, products, extremes.
// Needs isa and base; reduce.isa.cpp holds the kernels, reduce.cpp the loops around them.
//
// Note [Reduction tree]
// A folded value depends on the logical shape, the folded dimensions and the elements alone: never on strides, threads
// or instruction set. Generated code follows the same order. Dimensions of size 1 are dropped, then adjacent logical
// dimensions that are both folded or both kept count as one.
//  - inner: if the innermost of these is folded (n elements), it is folded in blocks of 4096. Element i of a block goes
//    to accumulator i % 64, that is, row (i / 16) % 4 and lane i % 16, in order, starting from the identity. At the end
//    of the block the rows combine as (a0 + a1) + (a2 + a3), then lane l takes lane l + 8, l + 4, l + 2, l + 1. Lanes
//    that a short last block does not reach hold the identity. The blocks' values are added in order to a total that
//    starts from the identity. (Otherwise each element is its own inner value.)
//  - outer: the inner values that belong to one output, in the logical order of the other folded dimensions, are folded
//    serially in blocks of 64, each starting from the identity; the blocks' values are added in order to a total that
//    starts from the identity.
// The identities: +0, 1, -inf and +inf (the smallest and largest integer). Sums of a half type fold in float.
// mean divides the total. Threads split outputs, or blocks whose values are kept and combined in order.
#pragma once

#include <optional>
#include <span>

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

enum class Fold : uint8_t { Sum, Prod, Max, Min };  // Max and Min hold NaN where an element is NaN
inline constexpr int kNumFolds = 4;

inline constexpr int64_t kInnerBlock = 4096;
inline constexpr int64_t kInnerSlots = 64;
inline constexpr int64_t kOuterBlock = 64;
// Columns that fold_columns takes at a time: 64 accumulators of 64 floats are 16 KB, half of a common L1.
inline constexpr int64_t kColumns = 64;

// Kernels of one fold on elements of one dtype; values and accumulators have its compute dtype.
struct FoldKernels {
  // The inner tree of n elements in a row.
  void (*run)(const void* x, int64_t n, void* value) = nullptr;
  // The inner tree of each of `width` <= kColumns columns; row i starts at x + i * row_stride elements.
  void (*columns)(const void* x, int64_t row_stride, int64_t n, int64_t width, void* values) = nullptr;
  // totals[c] = totals[c] + x[r][c] for r in order.
  void (*rows)(void* totals, const void* x, int64_t row_stride, int64_t rows, int64_t width) = nullptr;
  // total = total + values[i] in order: of the compute dtype.
  void (*serial)(void* total, const void* values, int64_t n) = nullptr;
  void (*fill_identity)(void* totals, int64_t n) = nullptr;
};
struct ReduceKernels {
  FoldKernels kernels[kNumFolds]
                     [kNumDTypes];  // bool and integers below 32 bits have none: they are converted
};
WEFT_PER_ISA(const ReduceKernels&, reduce_kernels)

inline const FoldKernels& fold_kernels(Fold fold, DType dtype) {
  return reduce_kernels().kernels[static_cast<int>(fold)][static_cast<int>(dtype)];
}

struct ReduceCall {
  Fold fold;
  DType compute;  // f32, f64, i64 or i32
  // Elements are converted to this dtype before they are converted to `compute`.
  std::optional<DType> via = {};
  // The total is divided by it (compute f32 or f64).
  std::optional<double> divisor = {};
  const void* in;
  DType in_dtype;
  std::span<const int64_t> sizes, strides;  // strides in elements
  std::span<const bool> folded;             // by dimension
  // Row-major over the kept dimensions.
  void* out;
  DType out_dtype;
};
void run_reduce(const ReduceCall& call);

}  // namespace weft::cpu
