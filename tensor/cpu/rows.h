// Softmax and norms over contiguous rows: each row is read from memory once and stays in cache until it is finished.
// Needs isa and base; rows.isa.cpp holds the kernels. Their results are bit for bit those of the ops they stand for:
// sums follow Note [Reduction tree], half elements are computed in float and round once.
#pragma once

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

// `rows` rows of n elements, one after another. weight and bias have n elements or are null.
struct RowCall {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  int64_t rows = 0, n = 0;
  double eps = 0;
  double divisor = 1;  // of the variance
  // n elements of the compute dtype; only for half types.
  void* scratch = nullptr;
};

// By element type: float, double and the half types.
struct RowKernels {
  using Kernel = void (*)(const RowCall&);
  Kernel softmax = nullptr;               // e / Σe, e = exp(x - max)
  Kernel log_softmax = nullptr;           // (x - max) - log Σ exp(x - max)
  Kernel softmax_backward = nullptr;      // y · (dy - Σ y·dy), y in the place of x
  Kernel log_softmax_backward = nullptr;  // dy - exp(y) · Σ dy
  Kernel layer_norm = nullptr;            // (x - mean) · rsqrt(var + eps) · weight + bias
  Kernel rms_norm = nullptr;              // x · rsqrt(mean(x²) + eps) · weight
  Kernel layer_norm_backward = nullptr;   // with respect to x
  Kernel rms_norm_backward = nullptr;
  // Adds dy · (the normalised x) of each row to `out`, n totals of the compute dtype.
  Kernel layer_norm_backward_weight = nullptr;
  Kernel rms_norm_backward_weight = nullptr;
  Kernel variance = nullptr;  // Σ (x - mean)² / divisor: one element of `out` for each row
};
WEFT_PER_ISA(const RowKernels*, row_kernels)

}  // namespace weft::cpu
