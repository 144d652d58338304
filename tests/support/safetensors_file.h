// Reading and writing safetensors files in tests, apart from the library's own reader, which it helps to check.
// Needs tensor. Errors: Error naming the file and what is wrong in it.
#pragma once

#include <map>
#include <string>

#include "tensor/dispatch.h"

namespace weft::tests {

using NamedTensors = std::map<std::string, Tensor>;

// A contiguous tensor with a copy of the bytes.
Tensor tensor_of_bytes(const void* bytes, const std::vector<int64_t>& sizes, DType dtype);
// A contiguous copy of x's values: no op, no tape.
Tensor copy_of(const Tensor& x);

NamedTensors read_safetensors(const std::string& path);
void write_safetensors(const std::string& path, const NamedTensors& tensors);

}  // namespace weft::tests
