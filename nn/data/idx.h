// IDX files, the format of MNIST and its like: one array of any rank, plain or gzip-compressed.
// Needs tensor; nn/io/file.h and zlib in the source.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace weft::data {

// Dtypes: uint8, int8, int16, int32, float32, float64, as the file says. A gzip file is recognised by its first bytes.
// Errors: the file cannot be read, is damaged, or does not hold as many bytes as its header says.
Tensor read_idx(const std::string& path);

}  // namespace weft::data
