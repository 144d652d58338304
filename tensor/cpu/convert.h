// Conversion of elements between dtypes, with strides.
// Needs isa; convert.isa.cpp holds the kernels.
#pragma once

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

// Converts n elements; strides in elements. A float becomes an integer toward zero and saturates, NaN gives 0; an integer
// wraps into a smaller one; a double becomes a half in one rounding; anything but zero is true.
using ConvertKernel = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n);

struct ConvertKernels {
  ConvertKernel kernels[kNumDTypes][kNumDTypes];  // [from][to]
};
WEFT_PER_ISA(const ConvertKernels&, convert_kernels)

inline ConvertKernel convert_kernel(DType from, DType to) {
  return convert_kernels().kernels[static_cast<int>(from)][static_cast<int>(to)];
}

}  // namespace weft::cpu
