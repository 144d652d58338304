// Sorting and scanning the rows of an array, and their extremes, on the current device and its current stream.
// Needs context. The kernels are the driver's; tensor/ops/sort.cpp, scan.cpp and arg.cpp stand on it.
#pragma once

#include "tensor/base/dtype.h"
#include "tensor/cuda/context.h"

namespace weft::cuda {

Element element_of(DType dtype);

// Errors: those of CUDA.
void sort_rows(const RowSort& what, const void* x, void* values, int64_t* indices);
void scan_rows(const RowScan& what, const void* x, void* out);
// `values` may be null.
void find_extremes(const RowExtreme& what, const void* x, void* values, int64_t* places);

}  // namespace weft::cuda
