// Comparing tensors.
#include "tests/support/compare.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "tensor/base/half.h"

namespace weft::tests {

Tolerance golden_tolerance(DType dtype, double k) {
  switch (dtype) {
    case DType::Float32: return {1.3e-6 * k, 1e-5 * k};
    case DType::Float64: return {1e-7, 1e-7};
    case DType::Float16: return {1e-3 * k, 1e-3 * k};
    case DType::BFloat16: return {1.6e-2, 1e-2};
    default: return {};
  }
}

std::vector<double> doubles_of(const Tensor& x) {
  const Tensor y = copy_of(x);
  std::vector<double> values(static_cast<size_t>(int_numel(y)));
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data_of<T>(y);
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) values[i] = to_float(from[i]);
      else values[i] = static_cast<double>(from[i]);
    }
  });
  return values;
}

std::string index_text(const Tensor& x, size_t element) {
  std::vector<size_t> index(static_cast<size_t>(x.dim()));
  for (size_t d = index.size(); d-- > 0;) {
    const auto size = static_cast<size_t>(int_sizes(x)[d]);
    index[d] = element % size;
    element /= size;
  }
  std::string text = "[";
  for (size_t d = 0; d < index.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(index[d]);
  return text + "]";
}

std::string difference_of_types(const Tensor& got, const Tensor& want) {
  if (!got.defined() || !want.defined())
    return got.defined() == want.defined() ? "" : describe(got) + " instead of " + describe(want);
  if (got.dtype() == want.dtype() && got.sizes() == want.sizes()) return {};
  return describe(got) + " instead of " + describe(want);
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (std::string text = difference_of_types(got, want); !text.empty() || !got.defined()) return text;
  const Tensor exact_got = copy_of(got), exact_want = copy_of(want);
  if (!is_floating(got.dtype())) {
    if (got.nbytes() == 0 || std::memcmp(bytes_of(exact_got), bytes_of(exact_want), got.nbytes()) == 0)
      return {};
  }
  const std::vector<double> a = doubles_of(got), b = doubles_of(want);
  size_t wrong = 0, worst = 0;
  double worst_excess = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i] && is_floating(got.dtype())) continue;
    const double error = std::abs(a[i] - b[i]), allowed = tolerance.atol + tolerance.rtol * std::abs(b[i]);
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && error <= allowed) continue;
    const double excess = std::isfinite(error) ? error - allowed : HUGE_VAL;
    if (wrong++ == 0 || excess > worst_excess) worst = i, worst_excess = excess;
  }
  if (wrong == 0) return {};
  std::ostringstream text;
  text.precision(9);
  text << wrong << " of " << a.size() << " elements differ; at " << index_text(got, worst) << " got "
       << a[worst] << ", want " << b[worst];
  return text.str();
}

std::string difference_of_bits(const Tensor& got, const Tensor& want) {
  if (std::string text = difference_of_types(got, want); !text.empty() || !got.defined()) return text;
  const Tensor a = copy_of(got), b = copy_of(want);
  const size_t width = size_of(a.dtype());
  const char *bits_a = bytes_of(a), *bits_b = bytes_of(b);
  if (a.nbytes() == 0 || std::memcmp(bits_a, bits_b, a.nbytes()) == 0) return {};
  const std::vector<double> values_a = doubles_of(a), values_b = doubles_of(b);
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < values_a.size(); ++i) {
    if (std::isnan(values_a[i]) && std::isnan(values_b[i])) continue;
    if (std::memcmp(bits_a + i * width, bits_b + i * width, width) == 0) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  std::ostringstream text;
  text.precision(17);
  text << wrong << " of " << values_a.size() << " elements differ in bits; first at " << index_text(a, first)
       << ": " << values_a[first] << " and " << values_b[first];
  return text.str();
}

std::string difference_of_strides(const Tensor& got, const Tensor& want) {
  bool is_same = true;
  for (int64_t d = 0; d < got.dim(); ++d)
    is_same = is_same && (got.size(d) <= 1 || got.stride(d) == want.stride(d));
  if (is_same || int_numel(got) == 0) return {};
  std::ostringstream text;
  text << "strides " << got.strides() << " instead of " << want.strides();
  return text.str();
}

}  // namespace weft::tests
