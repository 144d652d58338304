// Running the row kernels on tensors: rows made contiguous, threads, the decomposition elsewhere.
// Needs reduction.h and cpu/rows; private to softmax.cpp and normalization.cpp.
#pragma once

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/rows.h"
#include "tensor/ops/reduction.h"

namespace weft {

// x in another dtype and contiguous; x itself if it is so already. No tape.
Tensor converted(const Tensor& x, DType dtype);
inline DType wide_dtype(DType dtype) { return is_half(dtype) ? DType::Float32 : dtype; }

// All tensors are contiguous and of one dtype; `call` holds the addresses of the first row and n. Kernel is one of
// RowKernels.
void run_rows(cpu::RowKernels::Kernel cpu::RowKernels::*kernel, const cpu::RowCall& call, DType dtype);

// Runs body() without tape and copies its result into `out`, rounding once.
template <class Body>
void run_decomposed(const Tensor& out, const Body& body) {
  const AutoGradMode off(false);
  copy_data(body(), out);
}

}  // namespace weft
