// Comparing tensors: bit for bit, or within the tolerances of the stored reference results.
// Needs tensor and safetensors_file. Answers are texts: empty when equal, otherwise where and how they differ.
#pragma once

#include "tests/support/safetensors_file.h"

namespace weft::tests {

// |a - b| <= atol + rtol · |b| per element; NaN equals NaN; infinities, integers and bools are exact.
struct Tolerance {
  double rtol = 0, atol = 0;
};

// Those of tests/data/golden/README.md: k is 1 for pointwise programs and 8 for all others.
Tolerance golden_tolerance(DType dtype, double k);

// The elements in row-major order; exact but for integers beyond 2^53.
std::vector<double> doubles_of(const Tensor& x);
// "[1, 0]": the index of an element counted in row-major order.
std::string index_text(const Tensor& x, size_t element);

std::string difference_of_types(const Tensor& got, const Tensor& want);
std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance);
// Any differing bit counts, but a NaN equals any NaN.
std::string difference_of_bits(const Tensor& got, const Tensor& want);
// Strides decide where an element lies only where there are several.
std::string difference_of_strides(const Tensor& got, const Tensor& want);

}  // namespace weft::tests
