// Initial values of parameters.
// Place: the out-of-line half of nn/init.h.
#include "nn/init.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"

namespace weft::nn::init {

Tensor uniform_(Tensor tensor, double low, double high) {
  const NoGradGuard no_grad;
  return tensor.uniform_(low, high);
}
Tensor normal_(Tensor tensor, double mean, double std) {
  const NoGradGuard no_grad;
  return tensor.normal_(mean, std);
}
Tensor constant_(Tensor tensor, const Scalar& value) {
  const NoGradGuard no_grad;
  return tensor.fill_(value);
}
Tensor zeros_(Tensor tensor) { return constant_(std::move(tensor), 0); }
Tensor ones_(Tensor tensor) { return constant_(std::move(tensor), 1); }

Tensor eye_(Tensor tensor) {
  WEFT_CHECK(tensor.dim() == 2, "eye_: the tensor has sizes ", tensor.sizes(), "; a matrix is needed");
  const NoGradGuard no_grad;
  return tensor.copy_(eye(tensor.size(0), tensor.size(1), tensor.options()));
}

// The inverse of the normal distribution function, applied to a uniform draw between its values at both ends.
Tensor trunc_normal_(Tensor tensor, double mean, double std, double low, double high) {
  WEFT_CHECK(low < high, "trunc_normal_: low is ", low, " and high ", high, "; low must be below high");
  WEFT_CHECK(std > 0, "trunc_normal_: std is ", std, "; it must be positive");
  const NoGradGuard no_grad;
  const auto cdf = [&](double x) { return 0.5 * (1 + std::erf((x - mean) / (std * std::sqrt(2.0)))); };
  const double from = 2 * cdf(low) - 1, to = 2 * cdf(high) - 1;
  // erfinv is steep near the ends: draw and invert in double, whatever the tensor holds.
  Tensor values = empty(SymList(tensor.sizes()), TensorOptions(kFloat64).device(tensor.device()));
  values.uniform_(from, to);
  values = values.erfinv().mul(std * std::sqrt(2.0)).add(mean).clamp(low, high);
  return tensor.copy_(values);
}

// Modified Gram-Schmidt in double, each vector twice, which is enough for orthogonality to rounding.
Tensor orthogonal_(Tensor tensor, double gain) {
  WEFT_CHECK(tensor.dim() >= 2, "orthogonal_: the tensor has sizes ", tensor.sizes(),
             "; at least two dimensions are needed");
  const NoGradGuard no_grad;
  const int64_t rows = tensor.size(0), total = tensor.numel();
  if (total == 0) return tensor;
  const int64_t columns = total / rows, count = std::min(rows, columns), length = std::max(rows, columns);
  Tensor draws = empty({count, length}, kFloat64);
  draws.normal_();
  std::vector<double> vectors = draws.to_vector<double>();
  const auto vector = [&](int64_t i) { return vectors.data() + i * length; };
  const auto dot = [&](const double* a, const double* b) {
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += a[k] * b[k];
    return sum;
  };
  for (int64_t i = 0; i < count; ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) {
        const double along = dot(vector(i), vector(j));
        for (int64_t k = 0; k < length; ++k) vector(i)[k] -= along * vector(j)[k];
      }
      const double norm = std::sqrt(dot(vector(i), vector(i)));
      for (int64_t k = 0; k < length; ++k) vector(i)[k] /= norm;
    }
  }
  Tensor result = from_blob(vectors.data(), {count, length}, kFloat64);
  if (rows > columns) result = result.t();
  return tensor.copy_(result.mul(gain).reshape(SymList(tensor.sizes())));
}

std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor) {
  WEFT_CHECK(tensor.dim() >= 2, "fan in and fan out: the tensor has sizes ", tensor.sizes(),
             "; at least two dimensions [out, in, …] are needed");
  int64_t field = 1;
  for (int64_t d = 2; d < tensor.dim(); ++d) field *= tensor.size(d);
  return {tensor.size(1) * field, tensor.size(0) * field};
}

double calculate_gain(Keyword nonlinearity, double param) {
  if (nonlinearity == kLinear || nonlinearity == kConv1D || nonlinearity == kConv2D ||
      nonlinearity == kConv3D || nonlinearity == kSigmoid)
    return 1;
  if (nonlinearity == kTanh) return 5.0 / 3;
  if (nonlinearity == kReLU) return std::sqrt(2.0);
  if (nonlinearity == kLeakyReLU) return std::sqrt(2.0 / (1 + param * param));
  if (nonlinearity == kSELU) return 3.0 / 4;
  WEFT_CHECK(false, "calculate_gain: the nonlinearity is \"", nonlinearity.text,
             "\"; it may be linear, conv1d, conv2d, conv3d, sigmoid, tanh, relu, leaky_relu or selu");
  return 1;
}

namespace {

double kaiming_std(const Tensor& tensor, double a, Keyword mode, Keyword nonlinearity) {
  WEFT_CHECK(mode == kFanIn || mode == kFanOut, "kaiming: mode is \"", mode.text,
             "\"; it may be fan_in or fan_out");
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  return calculate_gain(nonlinearity, a) / std::sqrt(static_cast<double>(mode == kFanIn ? fan_in : fan_out));
}

double xavier_std(const Tensor& tensor, double gain) {
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  return gain * std::sqrt(2.0 / static_cast<double>(fan_in + fan_out));
}

// A uniform distribution has the standard deviation bound/√3.
Tensor uniform_of_std(Tensor tensor, double std) {
  if (tensor.numel() == 0) return tensor;
  const double bound = std::sqrt(3.0) * std;
  return uniform_(std::move(tensor), -bound, bound);
}

}  // namespace

Tensor xavier_uniform_(Tensor tensor, double gain) {
  return uniform_of_std(tensor, xavier_std(tensor, gain));
}
Tensor xavier_normal_(Tensor tensor, double gain) { return normal_(tensor, 0, xavier_std(tensor, gain)); }
Tensor kaiming_uniform_(Tensor tensor, double a, Keyword mode, Keyword nonlinearity) {
  if (tensor.numel() == 0) return tensor;
  return uniform_of_std(tensor, kaiming_std(tensor, a, mode, nonlinearity));
}
Tensor kaiming_normal_(Tensor tensor, double a, Keyword mode, Keyword nonlinearity) {
  if (tensor.numel() == 0) return tensor;
  return normal_(tensor, 0, kaiming_std(tensor, a, mode, nonlinearity));
}

}  // namespace weft::nn::init
