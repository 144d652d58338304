// Tensors with given or random values and layouts, and comparisons of their bits: for the tests of reductions.
// Needs dispatch only, so that it serves before and beside the public factories.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/cpu/parallel.h"
#include "tensor/dispatch.h"

namespace weft::testing_values {

inline Tensor from_values(const std::vector<double>& values, std::vector<int64_t> sizes, DType dtype) {
  const Tensor wide = make_tensor(SymList(sizes), DType::Float64);
  std::copy(values.begin(), values.end(), data_of<double>(wide));
  const Tensor result = make_tensor(SymList(sizes), dtype);
  copy_data(wide, result);
  return result;
}

inline Tensor random_tensor(std::vector<int64_t> sizes, DType dtype, unsigned seed = 1, double low = -2,
                            double high = 2) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(low, high);
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  std::vector<double> values(static_cast<size_t>(n));
  for (double& value : values) value = is_floating(dtype) ? real(random) : std::floor(real(random) * 3);
  if (dtype == DType::UInt8 || dtype == DType::Bool)
    for (double& value : values) value = std::abs(value);
  return from_values(values, sizes, dtype);
}

inline Tensor as_dtype(const Tensor& x, DType dtype) {
  const Tensor result = make_tensor(x->layout.sizes, dtype);
  copy_data(x, result);
  return result;
}

inline std::vector<double> values_of(const Tensor& x) {
  const Tensor wide = as_dtype(x, DType::Float64);
  const double* p = data_of<double>(wide);
  return {p, p + int_numel(wide)};
}

// The same values in another memory order: dimensions a and b swapped in memory, not in logic.
inline Tensor with_swapped_memory(const Tensor& x, size_t a, size_t b) {
  Sizes sizes = x->layout.sizes;
  std::swap(sizes[a], sizes[b]);
  Layout<Sym> layout = contiguous_layout<Sym>(sizes);
  std::swap(layout.sizes[a], layout.sizes[b]);
  std::swap(layout.strides[a], layout.strides[b]);
  const Tensor base = make_tensor(sizes, x->dtype);
  const Tensor result = make_view(base, layout);
  copy_data(x, result);
  return result;
}
// Every dimension with gaps.
inline Tensor with_gaps(const Tensor& x) {
  Sizes wide = x->layout.sizes;
  for (Sym& size : wide) size = size * 2;
  Layout<Sym> layout = contiguous_layout<Sym>(wide);
  layout.sizes = x->layout.sizes;
  for (Sym& stride : layout.strides) stride = stride * 2;
  const Tensor result = make_view(make_tensor(wide, x->dtype), layout);
  copy_data(x, result);
  return result;
}

// Equal sizes, dtypes and bits; NaN equals NaN.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.sizes() == b.sizes()) || a.dtype() != b.dtype()) return false;
  const std::vector<double> p = values_of(a), q = values_of(b);
  for (size_t i = 0; i < p.size(); ++i)
    if (std::memcmp(&p[i], &q[i], 8) != 0 && !(std::isnan(p[i]) && std::isnan(q[i]))) return false;
  return true;
}

// Sets the number of threads for its lifetime.
struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

}  // namespace weft::testing_values
