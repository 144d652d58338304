// NumPy's .npy files: one array each, to exchange tensors with Python.
// Needs tensor; file.h in the source. Format: numpy.lib.format, versions 1 to 3.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace weft::io {

// Dtypes: float64, float32, float16, int64, int32, int16, int8, uint8, bool, little-endian. An array in Fortran's order
// is turned to rows, so the result is contiguous with the array's own shape.
// Errors: the file cannot be read, is not well formed, or holds another dtype.
Tensor load_npy(const std::string& path);

// Writes version 1, replacing the file in one step. Any device and strides.
// Errors: bfloat16, which NumPy lacks; an undefined tensor; the disk's own.
void save_npy(const std::string& path, const Tensor& x);

}  // namespace weft::io
