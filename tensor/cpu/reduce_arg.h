// Where the largest and smallest elements stand, and running sums and products.
// Needs isa and base; reduce_arg.isa.cpp holds the kernels. Arrays are contiguous.
#pragma once

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

// Kernels of one element type. Values have its compute dtype.
struct ArgKernels {
  // The first of n elements that equals *value, or the first NaN if that is NaN; n if there is none.
  int64_t (*find)(const void* x, int64_t n, const void* value) = nullptr;
  // For each of `width` columns of n rows: the place of the first NaN, else of the first extreme.
  void (*max_columns)(const void* x, int64_t row_stride, int64_t n, int64_t width, int64_t* index) = nullptr;
  void (*min_columns)(const void* x, int64_t row_stride, int64_t n, int64_t width, int64_t* index) = nullptr;
  // out[r][c] = total[c] after row r, in order from the identity; the running total is not rounded to a half type.
  void (*cumsum)(const void* x, void* out, int64_t row_stride, int64_t n, int64_t width) = nullptr;
  void (*cumprod)(const void* x, void* out, int64_t row_stride, int64_t n, int64_t width) = nullptr;
};
// By dtype: bool and integers below 32 bits have none.
WEFT_PER_ISA(const ArgKernels*, arg_kernels)

// The most columns of max_columns, min_columns, cumsum and cumprod.
inline constexpr int64_t kArgColumns = 64;

}  // namespace weft::cpu
