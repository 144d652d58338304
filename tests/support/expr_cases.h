// Pointwise ops of all sorts and the values on which printed code is held to their kernels.
// For the tests of scalar and of vector code; needs the standard library only.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace weft::tests {

struct ExprCase {
  const char* op;
  bool floats, integers;
};
// Arithmetic, rounding, quotients, functions of one and two values, predicates, bits, choices, gradients.
inline constexpr ExprCase kExprCases[] = {
    {"add", true, true},
    {"mul", true, true},
    {"true_divide", true, false},
    {"floor_divide", true, true},
    {"trunc_divide", true, true},
    {"remainder", true, true},
    {"fmod", true, true},
    {"pow", true, true},
    {"maximum", true, true},
    {"fmin", true, false},
    {"atan2", true, false},
    {"hypot", true, false},
    {"copysign", true, false},
    {"logaddexp", true, false},
    {"where", true, true},
    {"lerp", true, false},
    {"fma", true, true},
    {"clamp_both", true, true},
    {"lt", true, true},
    {"logical_xor", true, true},
    {"isnan", true, true},
    {"isinf", true, false},
    {"signbit", true, false},
    {"bitwise_xor", false, true},
    {"bitwise_left_shift", false, true},
    {"bitwise_right_shift", false, true},
    {"neg", true, true},
    {"abs", true, true},
    {"sign", true, true},
    {"round", true, true},
    {"sqrt", true, false},
    {"rsqrt", true, false},
    {"exp", true, false},
    {"expm1", true, false},
    {"log1p", true, false},
    {"log2", true, false},
    {"sin", true, false},
    {"tan", true, false},
    {"acos", true, false},
    {"tanh", true, false},
    {"asinh", true, false},
    {"sigmoid", true, false},
    {"erf", true, false},
    {"erfc", true, false},
    {"erfinv", true, false},
    {"lgamma", true, false},
    {"digamma", true, false},
    {"gelu_tanh", true, false},
    {"softplus", true, false},
    {"hardswish", true, false},
    {"pow.grad0", true, false},
    {"pow.grad1", true, false},
    {"maximum.grad0", true, false},
    {"remainder.grad1", true, false},
    {"silu.grad0", true, false},
    {"gelu_erf.grad0", true, false},
    {"atan2.grad0", true, false},
    {"selu.grad0", true, false},
};

// Every pair of special values, then bit patterns of all magnitudes, then values of everyday size.
template <class T>
std::vector<std::vector<T>> inputs_for(int arity, bool nonzero_second) {
  std::vector<T> specials;
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    for (T x :
         {T(0), T(0.5), T(1), T(1.5), T(2), T(2.5), T(3), T(20), T(88), T(700), T(1e-3), T(1e5), T(1e30),
          Limits::infinity(), Limits::max(), Limits::min(), Limits::denorm_min(), T(1) - Limits::epsilon()}) {
      specials.push_back(x);
      specials.push_back(-x);
    }
    specials.push_back(Limits::quiet_NaN());
  } else {
    for (T x :
         {T(0), T(1), T(2), T(3), T(7), T(31), T(32), T(63), T(64), T(1000), std::numeric_limits<T>::max()}) {
      specials.push_back(x);
      specials.push_back(static_cast<T>(-x));
    }
    specials.push_back(std::numeric_limits<T>::min());
  }
  std::mt19937_64 random(20240607);
  std::normal_distribution<double> normal(0, 3);
  const size_t count = specials.size() * specials.size() + 4000;
  std::vector<std::vector<T>> inputs(static_cast<size_t>(arity), std::vector<T>(count));
  for (size_t k = 0; k < inputs.size(); ++k) {
    for (size_t i = 0; i < count; ++i) {
      T& x = inputs[k][i];
      if (i < specials.size() * specials.size()) {
        // All pairs of the first two; the others walk along.
        x = specials[k == 0 ? i / specials.size() : (i + (k - 1) * (i / 7)) % specials.size()];
      } else if (i % 2 == 0) {
        const uint64_t bits = random();
        std::memcpy(&x, &bits, sizeof x);
      } else {
        x = static_cast<T>(normal(random));
      }
      if (nonzero_second && k == 1 && x == 0) x = 1;
    }
  }
  return inputs;
}

}  // namespace weft::tests
