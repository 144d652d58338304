// Accuracy of the vector math functions against long double, and equality between instruction sets.
// Runs the loops of tests/tensor/vec_kernels.h; sets that this processor lacks are skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "tests/tensor/vec_kernels.h"

namespace weft::cpu_test {
namespace {

using Real = long double;
constexpr Real kPi = std::numbers::pi_v<Real>;
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
constexpr Real kNaN = std::numeric_limits<Real>::quiet_NaN();

Real digamma(Real x) {
  if (x == 0) return -std::copysign(kInfinity, x);
  if (x < 0) return x == std::floor(x) ? kNaN : digamma(1 - x) - kPi / std::tan(kPi * (x - std::round(x)));
  Real sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  Real z = 1 / (x * x);
  return sum + std::log(x) - 0.5L / x -
         z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z * (1 / 132.0L)))));
}

Real trigamma(Real x) {
  if (x <= 0) {
    Real sine = std::sin(kPi * (x - std::round(x))) / kPi;
    return x == std::floor(x) ? kInfinity : 1 / (sine * sine) - trigamma(1 - x);
  }
  Real sum = 0;
  for (; x < 40; x += 1) sum += 1 / (x * x);
  Real z = 1 / (x * x);
  return sum + 1 / x + z / 2 + z / x * (1 / 6.0L - z * (1 / 30.0L - z * (1 / 42.0L - z / 30)));
}

Real erfinv(Real x) {
  Real a = std::fabs(x);
  if (!(a <= 1)) return kNaN;
  if (a == 1 || a == 0) return a == 1 ? std::copysign(kInfinity, x) : x;
  Real y = a < 0.5L ? a * 0.886L : std::sqrt(-std::log(1 - a)), low = 0, high = 7;
  for (int i = 0; i < 100; ++i) {
    Real error = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    (error > 0 ? high : low) = y;
    Real next = y - error * std::sqrt(kPi) / 2 * std::exp(y * y);
    if (std::fabs(next - y) <= 1e-20L * y) return std::copysign(next, x);
    y = next > low && next < high ? next : (low + high) / 2;
  }
  return std::copysign(y, x);
}

struct Case {
  Real (*reference)(Real, Real);
  double f32_ulp, f64_ulp;
};
#define WEFT_REFERENCE(name) [](Real x, Real) -> Real { return std::name(x); }
// The bounds are measured maxima, rounded up; tensor/cpu/vec_math.h states them for readers.
const std::map<std::string, Case> kCases = {
    {"exp", {WEFT_REFERENCE(exp), 1.1, 1.1}},
    {"exp2", {WEFT_REFERENCE(exp2), 1.1, 1.2}},
    {"expm1", {WEFT_REFERENCE(expm1), 1.6, 2.1}},
    {"log", {WEFT_REFERENCE(log), 1, 1}},
    {"log2", {WEFT_REFERENCE(log2), 1.5, 1}},
    {"log10", {WEFT_REFERENCE(log10), 0.6, 1}},
    {"log1p", {WEFT_REFERENCE(log1p), 1.6, 1.6}},
    {"sin", {WEFT_REFERENCE(sin), 1.6, 1}},
    {"cos", {WEFT_REFERENCE(cos), 1.7, 1}},
    {"tan", {WEFT_REFERENCE(tan), 0.6, 2.2}},
    {"asin", {WEFT_REFERENCE(asin), 0.6, 2}},
    {"acos", {WEFT_REFERENCE(acos), 0.6, 1.5}},
    {"atan", {WEFT_REFERENCE(atan), 1.8, 1.8}},
    {"sinh", {WEFT_REFERENCE(sinh), 0.6, 2.6}},
    {"cosh", {WEFT_REFERENCE(cosh), 0.6, 1.6}},
    {"tanh", {WEFT_REFERENCE(tanh), 1.5, 2.7}},
    {"asinh", {WEFT_REFERENCE(asinh), 0.6, 2.2}},
    {"acosh", {WEFT_REFERENCE(acosh), 0.6, 2.4}},
    {"atanh", {WEFT_REFERENCE(atanh), 0.6, 2.2}},
    {"erf", {WEFT_REFERENCE(erf), 1.5, 1.5}},
    {"erfc", {WEFT_REFERENCE(erfc), 0.6, 2.2}},
    {"sigmoid",
     {[](Real x, Real) -> Real { return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); },
      1.7, 2.5}},
    {"rsqrt", {[](Real x, Real) -> Real { return 1 / std::sqrt(x); }, 1.5, 1.5}},
    {"reciprocal", {[](Real x, Real) -> Real { return 1 / x; }, 0.5, 0.5}},
    {"lgamma", {WEFT_REFERENCE(lgamma), 0.6, 1.3}},
    {"digamma", {[](Real x, Real) -> Real { return digamma(x); }, 0.6, 1.1}},
    {"erfinv", {[](Real x, Real) -> Real { return erfinv(x); }, 0.6, 1.3}},
    {"pow", {[](Real x, Real y) -> Real { return std::pow(x, y); }, 0.6, 1.4}},
    {"atan2", {[](Real x, Real y) -> Real { return std::atan2(x, y); }, 0.6, 1.7}},
};

// Distance in units of the last place of the correctly rounded result; infinite for a wrong kind or a wrong sign of zero.
template <class T>
double ulp_error(T got, Real want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kInfinity;
  if (std::signbit(got) != std::signbit(want)) return kInfinity;
  if (std::isinf(T(want)) && std::isinf(got)) return 0;
  if (std::isinf(want)) return kInfinity;
  int exponent = want == 0 ? Limits::min_exponent : std::max(std::ilogb(want) + 1, Limits::min_exponent);
  Real value = std::isinf(got) ? std::copysign(std::ldexp(1.0L, Limits::max_exponent), Real(got)) : Real(got);
  return double(std::fabs(value - want) / std::ldexp(1.0L, exponent - Limits::digits));
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (T x : {T(0),
              T(1),
              T(2),
              T(3),
              T(0.5),
              T(0.25),
              T(1.5),
              T(4),
              T(10),
              Limits::infinity(),
              Limits::max(),
              Limits::min(),
              Limits::denorm_min(),
              Limits::min() / 2,
              Limits::epsilon(),
              T(88.5),
              T(88.8),
              T(100),
              T(103.5),
              T(709.5),
              T(745),
              T(1e22),
              T(3e38),
              T(std::numbers::pi),
              T(std::numbers::pi / 2),
              T(0x1p15),
              T(0x1p20),
              T(1e6)}) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.push_back(Limits::quiet_NaN());
  return values;
}

// About 10^5 values: special ones, intervals where functions bend, every exponent, multiples of pi/2 and dyadic steps to 1.
template <class T>
std::vector<T> spread_values(unsigned seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = special_values<T>();
  std::mt19937_64 random(seed);
  auto uniform = [&](double low, double high) {
    return T(std::uniform_real_distribution<double>(low, high)(random));
  };
  for (int i = 0; i < 12000; ++i) {
    for (double range : {1.0, 10.0, 100.0, 800.0}) values.push_back(uniform(-range, range));
    values.push_back(uniform(0.5, 2));
    values.push_back(1 + uniform(-1, 1) * T(std::ldexp(1.0, -int(random() % 40))));
    int lowest = Limits::min_exponent - Limits::digits;
    T any = std::ldexp(uniform(1, 2), lowest + int(random() % unsigned(Limits::max_exponent - lowest)));
    values.push_back(random() % 2 ? any : -any);
    values.push_back(T(double(random() % 4000000) * std::numbers::pi / 2));
  }
  while (values.size() % 16 != 0) values.push_back(1);
  return values;
}

template <class T>
struct Inputs {
  std::vector<T> a, b;
};
template <class T>
Inputs<T> inputs(int operands) {
  Inputs<T> in{spread_values<T>(1), {}};
  in.b = in.a;
  if (operands == 1) return in;
  std::mt19937_64 random(2);
  for (size_t i = 0; i < in.b.size(); ++i) {
    T y = T(std::uniform_real_distribution<double>(-1, 1)(random) * (i % 2 ? 40 : 2));
    in.b[i] = i % 5 == 0 ? in.a[random() % in.a.size()] : i % 7 == 0 ? std::round(y) : y;
  }
  std::vector<T> special = special_values<T>();
  size_t next = 0;
  for (T x : special)
    for (T y : special) in.a[next] = x, in.b[next++] = y;
  return in;
}

template <class T>
std::vector<T> run(Loop<T> loop, const Inputs<T>& in) {
  std::vector<T> out(in.a.size());
  loop(in.a.data(), in.b.data(), out.data(), out.size());
  return out;
}

// Where the reference itself loses digits: its sum cancels near a zero that is no number. For negative arguments the
// terms that cancel grow with log |x|.
bool reference_cancels(const std::string& name, Real x, Real want) {
  if (name == "lgamma" ? x >= 0 : name != "digamma") return false;
  return std::fabs(want) < (x < 0 ? 0.5L + 0.5L * std::log1p(-x) : 0.5L);
}

class VecMath : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supported())
      GTEST_SKIP() << GetParam()->name << ": this processor lacks the instruction set";
  }

  template <class T>
  void check(const Function& function, Loop<T> loop, double bound) {
    Inputs<T> in = inputs<T>(function.operands);
    std::vector<T> out = run(loop, in);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      Real want = kCases.at(function.name).reference(in.a[i], in.b[i]);
      if (reference_cancels(function.name, in.a[i], want)) continue;
      double error = ulp_error(out[i], want);
      if (error > worst) worst = error, where = i;
    }
    EXPECT_LE(worst, bound) << function.name << " f" << 8 * sizeof(T) << " at " << std::hexfloat
                            << in.a[where] << ", " << in.b[where] << ": got " << out[where];
  }
};

TEST_P(VecMath, StaysWithinTheStatedUlp) {
  for (const Function& function : GetParam()->functions) {
    const Case& bounds = kCases.at(function.name);
    check(function, function.f32, bounds.f32_ulp);
    check(function, function.f64, bounds.f64_ulp);
  }
}

// The value of one element must not depend on its lane or on its neighbours (huge arguments take another path).
TEST_P(VecMath, ValueDoesNotDependOnTheLane) {
  for (const Function& function : GetParam()->functions) {
    Inputs<float> in = inputs<float>(function.operands), shifted = in;
    std::rotate(shifted.a.begin(), shifted.a.begin() + 5, shifted.a.end());
    std::rotate(shifted.b.begin(), shifted.b.begin() + 5, shifted.b.end());
    std::vector<float> plain = run(function.f32, in), moved = run(function.f32, shifted);
    std::rotate(plain.begin(), plain.begin() + 5, plain.end());
    for (size_t i = 0; i < plain.size(); ++i) {
      if (std::isnan(plain[i]) && std::isnan(moved[i])) continue;
      ASSERT_EQ(std::memcmp(&plain[i], &moved[i], sizeof(float)), 0)
          << function.name << "(" << shifted.a[i] << ")";
    }
  }
}

// Values from 200-bit arithmetic at numbers beside the zeros, where all but the last digits of each term cancel.
TEST_P(VecMath, GammaFunctionsKeepTheirDigitsBesideZeros) {
  struct Value {
    const char* name;
    double x, want;
  };
  const Value kValues[] = {
      {"digamma", 0x1.762d86356be3fp+0, -9.241265521729427e-17},
      {"digamma", 0x1.762d8620151e5p+0, -4.807746276832806e-09},
      {"digamma", 0x1.7624dd2f1a9fcp+0, -0.0001278807505163606},
      {"digamma", 0x1.762d86356be40p+0, 1.2245374622004068e-16},
      {"lgamma", 0x1.fffffffffffffp-1, 6.408381213480008e-17},
      {"lgamma", 0x1.0000000000001p+0, -1.2816762426960008e-16},
      {"lgamma", 0x1.fffeb074a771dp-1, 5.772238896093089e-06},
      {"lgamma", 0x1.fffffffffffffp+0, -9.387698065543117e-17},
      {"lgamma", 0x1.0000000000001p+1, 1.8775396131086244e-16},
      {"lgamma", 0x1.ffff583a53b8ep+0, -4.227811104241674e-06},
      {"lgamma", -0x1.4e147ae147ae1p+1, -0.11862717393747273},
      {"lgamma", -0x1.56e1fc2f8f359p-997, 690.7755278982137},
      {"digamma", -0x1.56e1fc2f8f359p-997, 9.999999999999999e+299},
  };
  for (const Function& function : GetParam()->functions) {
    for (const Value& value : kValues) {
      if (std::string(function.name) != value.name) continue;
      std::vector<double> x(16, value.x), out(16);
      function.f64(x.data(), x.data(), out.data(), 16);
      EXPECT_LE(ulp_error(out[0], Real(value.want)), 2)
          << value.name << "(" << std::hexfloat << value.x << "): got " << out[0];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VecMath, testing::Values(&kSse4, &kAvx2, &kAvx512),
                         [](const auto& info) { return std::string(info.param->name); });

// ---- between instruction sets -------------------------------------------------------------------------------

template <class T>
bool same_bits(T a, T b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
double ulps_between(T a, T b) {
  if (same_bits(a, b)) return 0;
  if (a != a || b != b) return kInfinity;
  Real unit = std::ldexp(1.0L, std::max(std::ilogb(std::isinf(b) ? std::numeric_limits<T>::max() : b) + 1,
                                        std::numeric_limits<T>::min_exponent) -
                                   std::numeric_limits<T>::digits);
  if (std::isinf(a) || std::isinf(b)) return std::isinf(a) && std::isinf(b) ? kInfinity : 1;
  return double(std::fabs(Real(a) - Real(b)) / unit);
}

// How far x may move a function when it is moved by half a unit in the last place: near a zero that is no number this
// is many units of a result that becomes as small as one likes, and no two evaluations agree to fewer.
template <class T>
Real half_ulp_of_argument(const std::string& name, Real x) {
  Real slope = name == "lgamma" ? digamma(x) : name == "digamma" ? trigamma(x) : 0;
  return std::fabs(x * slope) * std::ldexp(1.0L, -std::numeric_limits<T>::digits);
}

template <class T>
void compare(const Function& f, Loop<T> one, Loop<T> other, double bound) {
  Inputs<T> in = inputs<T>(f.operands);
  std::vector<T> x = run(one, in), y = run(other, in);
  for (size_t i = 0; i < x.size(); ++i) {
    double distance = bound == 0 ? !same_bits(x[i], y[i]) : ulps_between(x[i], y[i]);
    if (distance > bound && bound > 0 && in.a[i] < 0 && std::fabs(y[i]) < 0.5) {
      EXPECT_LE(std::fabs(Real(x[i]) - Real(y[i])), half_ulp_of_argument<T>(f.name, in.a[i]))
          << f.name << "(" << std::hexfloat << in.a[i] << "): " << x[i] << " and " << y[i];
      continue;
    }
    ASSERT_LE(distance, bound) << f.name << "(" << std::hexfloat << in.a[i] << ", " << in.b[i]
                               << "): " << x[i] << " and " << y[i];
  }
}

TEST(VecMathAcrossSets, Avx2AndAvx512AgreeBitForBit) {
  if (!kAvx2.supported() || !kAvx512.supported()) GTEST_SKIP() << "needs AVX2 and AVX-512";
  for (size_t i = 0; i < kAvx2.functions.size(); ++i) {
    compare(kAvx2.functions[i], kAvx2.functions[i].f32, kAvx512.functions[i].f32, 0);
    compare(kAvx2.functions[i], kAvx2.functions[i].f64, kAvx512.functions[i].f64, 0);
  }
  for (size_t i = 0; i < kAvx2.primitives.size(); ++i) {
    compare(kAvx2.primitives[i], kAvx2.primitives[i].f32, kAvx512.primitives[i].f32, 0);
    compare(kAvx2.primitives[i], kAvx2.primitives[i].f64, kAvx512.primitives[i].f64, 0);
  }
}

// SSE4 has no fma: two units in the last place; at the zeros of lgamma and digamma between negative integers what half
// a unit of the argument does.
TEST(VecMathAcrossSets, Sse4StaysNearAvx2) {
  if (!kAvx2.supported()) GTEST_SKIP() << "needs AVX2";
  for (size_t i = 0; i < kAvx2.functions.size(); ++i) {
    compare(kAvx2.functions[i], kSse4.functions[i].f32, kAvx2.functions[i].f32, 2);
    compare(kAvx2.functions[i], kSse4.functions[i].f64, kAvx2.functions[i].f64, 2);
  }
  for (size_t i = 0; i < kAvx2.primitives.size(); ++i) {
    if (std::string(kAvx2.primitives[i].name) == "fma") continue;  // fma(x, y, -x) may cancel altogether
    compare(kAvx2.primitives[i], kSse4.primitives[i].f32, kAvx2.primitives[i].f32, 0);
    compare(kAvx2.primitives[i], kSse4.primitives[i].f64, kAvx2.primitives[i].f64, 0);
  }
}

}  // namespace
}  // namespace weft::cpu_test
