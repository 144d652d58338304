// Arrays with coordinates, layouts and naive loops: what the tests of the index ops compare with.
// Needs tensor_values.h.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/error_text.h"
#include "tests/tensor/tensor_values.h"

namespace weft::testing_values {

using Place = std::vector<int64_t>;

// Row-major numbers with sizes.
struct Array {
  Place sizes;
  std::vector<double> values;

  Array(Place s, double fill = 0) : sizes(std::move(s)) {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    values.assign(static_cast<size_t>(n), fill);
  }
  explicit Array(const Tensor& x) : sizes(x.sizes()), values(values_of(x)) {}

  double& operator()(const Place& at) {
    int64_t offset = 0;
    for (size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + at[d];
    return values[static_cast<size_t>(offset)];
  }
};

// Calls f with every place in row-major order.
inline void for_each_place(const Place& sizes, const std::function<void(const Place&)>& f) {
  for (int64_t size : sizes)
    if (size == 0) return;
  Place at(sizes.size(), 0);
  while (true) {
    f(at);
    size_t d = sizes.size();
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

inline void expect_array(const Tensor& got, const Array& want, const std::string& what = "") {
  ASSERT_TRUE(got.sizes() == want.sizes) << what << ": " << describe(got);
  const std::vector<double> values = values_of(got);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(want.values[i])) ASSERT_TRUE(std::isnan(values[i])) << what << " at " << i;
    else ASSERT_EQ(values[i], want.values[i]) << what << " at " << i;
  }
}

inline Tensor index_tensor(const std::vector<double>& values, Place sizes, DType dtype = DType::Int64) {
  return from_values(values, std::move(sizes), dtype);
}
inline Tensor random_index(Place sizes, int64_t low, int64_t high, unsigned seed = 7,
                           DType dtype = DType::Int64) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> value(low, high - 1);
  Array array(sizes);
  for (double& v : array.values) v = static_cast<double>(value(random));
  return from_values(array.values, sizes, dtype);
}

// The same values row-major, transposed in memory, and with gaps.
inline std::vector<Tensor> in_layouts(const Tensor& x) {
  std::vector<Tensor> result{x, with_gaps(x)};
  if (x.dim() >= 2) result.push_back(with_swapped_memory(x, 0, static_cast<size_t>(x.dim()) - 1));
  return result;
}

inline Tensor raw_copy(const Tensor& x) { return as_dtype(x, x.dtype()); }

inline constexpr DType kEveryDType[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16,
                                        DType::Int64,   DType::Int32,   DType::Int16,    DType::Int8,
                                        DType::UInt8,   DType::Bool};

}  // namespace weft::testing_values
