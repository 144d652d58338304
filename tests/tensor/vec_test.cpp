// Primitives, integers, conversions and reductions of the vector type against plain scalar code.
// Runs the loops of tests/tensor/vec_kernels.h; sets that this processor lacks are skipped.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/tensor/vec_kernels.h"

namespace weft::cpu_test {
namespace {

class VecTest : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!GetParam()->supported())
      GTEST_SKIP() << GetParam()->name << ": this processor lacks the instruction set";
  }
  const Function& primitive(const std::string& name) {
    for (const Function& f : GetParam()->primitives)
      if (name == f.name) return f;
    throw std::runtime_error(name);
  }
  const Conversion& conversion(DType from, DType to) {
    for (const Conversion& c : GetParam()->conversions)
      if (c.from == from && c.to == to) return c;
    throw std::runtime_error("no such conversion");
  }
  template <class T>
  T apply(const std::string& name, T a, T b) {
    std::vector<T> x(16, a), y(16, b), out(16);
    if constexpr (sizeof(T) == 4) primitive(name).f32(x.data(), y.data(), out.data(), 16);
    else primitive(name).f64(x.data(), y.data(), out.data(), 16);
    for (int i = 1; i < 16; ++i)
      EXPECT_EQ(std::memcmp(&out[0], &out[i], sizeof(T)), 0) << name << " lane " << i;
    return out[0];
  }
  template <class From, class To>
  std::vector<To> convert(std::vector<From> values) {
    size_t n = values.size();
    values.resize((n + 15) / 16 * 16);
    auto storage = std::make_unique<To[]>(values.size());
    conversion(dtype_of<From>, dtype_of<To>).convert(values.data(), storage.get(), values.size());
    return std::vector<To>(storage.get(), storage.get() + n);
  }
};

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> values() {
  std::vector<T> v = {T(0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      T(0.5),
                      T(2.5),
                      T(-2.5),
                      T(1e10),
                      T(kInf),
                      T(-kInf),
                      T(kNan),
                      std::numeric_limits<T>::max(),
                      std::numeric_limits<T>::denorm_min(),
                      -std::numeric_limits<T>::min(),
                      T(3),
                      T(-7)};
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    T x = std::ldexp(T(random() % 1000003) / 1000003 + 1,
                     int(random() % (2 * std::numeric_limits<T>::max_exponent - 20)) -
                         std::numeric_limits<T>::max_exponent + 10);
    v.push_back(i % 2 ? x : -x);
  }
  return v;
}

// ATen's div_floor_floating and remainder.
template <class T>
T floor_div(T a, T b) {
  if (b == 0) return a / b;
  T mod = std::fmod(a, b), div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T(0), a / b);
  T down = std::floor(div);
  return div - down > T(0.5) ? down + 1 : down;
}
template <class T>
T floor_mod(T a, T b) {
  T mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
template <class T>
T least(T a, T b) {
  return a != a || b != b ? a + b : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}
template <class T>
T greatest(T a, T b) {
  return a != a || b != b ? a + b : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
}

template <class T, class Apply>
void check_primitives(Apply apply) {
  auto expect = [&](const char* name, T a, T b, T want) {
    T got = apply(name, a, b);
    EXPECT_TRUE((got != got && want != want) || std::memcmp(&got, &want, sizeof(T)) == 0)
        << name << "(" << std::hexfloat << a << ", " << b << "): got " << got << ", want " << want;
  };
  for (T a : values<T>()) {
    expect("abs", a, a, std::fabs(a));
    expect("neg", a, a, -a);
    expect("sqrt", a, a, std::sqrt(a));
    expect("floor", a, a, std::floor(a));
    expect("ceil", a, a, std::ceil(a));
    expect("trunc", a, a, std::trunc(a));
    expect("round_even", a, a, std::nearbyint(a));
    for (T b : values<T>()) {
      expect("minimum", a, b, least(a, b));
      expect("maximum", a, b, greatest(a, b));
      expect("copysign", a, b, std::copysign(a, b));
      expect("divide", a, b, a / b);
      expect("mixed", a, b, a < b && a != 0 ? 1 - a * T(0.5) : b != b ? T(3) : b);
      expect("trunc_mod", a, b, std::fmod(a, b));
      expect("floor_mod", a, b, floor_mod(a, b));
      expect("floor_div", a, b, floor_div(a, b));
    }
  }
}

TEST_P(VecTest, PrimitivesEqualScalarCode) {
  check_primitives<float>([&](const char* name, float a, float b) { return apply(name, a, b); });
  check_primitives<double>([&](const char* name, double a, double b) { return apply(name, a, b); });
}

TEST_P(VecTest, FloorDivisionOfAndByInfinities) {
  for (float a : {kInf, -kInf, kNan}) EXPECT_TRUE(std::isnan(apply("floor_div", a, 1.0f)));
  EXPECT_EQ(apply("floor_div", 1.0f, kInf), 0.0f);
  EXPECT_EQ(apply("floor_div", -1.0f, kInf), -1.0f);
}

// ---- integers -------------------------------------------------------------------------------------------------

template <class T>
T scalar(const std::string& name, T a, T b) {
  using U = std::make_unsigned_t<T>;
  constexpr int bits = 8 * sizeof(T);
  T quotient = b == 0 ? 0 : b == -1 ? T(U(0) - U(a)) : a / b;
  bool adjust = b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0);
  auto shift_right = [](T x, T n) { return U(n) >= U(bits) ? T(x < 0 ? -1 : 0) : T(x >> n); };
  if (name == "trunc_div") return quotient;
  if (name == "floor_div") return quotient - adjust;
  if (name == "trunc_mod") return T(U(a) - U(quotient) * U(b));
  if (name == "floor_mod") return T(U(a) - U(quotient - adjust) * U(b));
  if (name == "minimum") return std::min(a, b);
  if (name == "maximum") return std::max(a, b);
  if (name == "add") return T(U(a) + U(b));
  if (name == "subtract") return T(U(a) - U(b));
  if (name == "multiply") return T(U(a) * U(b));
  if (name == "bits") return (a & b) ^ (a | ~b);
  if (name == "shift_left") return U(b) >= U(bits) ? 0 : T(U(a) << b);
  if (name == "shift_right") return shift_right(a, b);
  if (name == "shift_by_scalar") return T(U(a >> 3) + (U(b) << 5) + U(a < 0 ? -1 : 0));
  if (name == "abs_neg") return T((a < 0 ? U(0) - U(a) : U(a)) + U(b));
  if (name == "less_equal") return (a <= b ? 1 : 0) + (a != b ? 2 : 0) + (a > b ? 4 : 0);
  if (name == "pow") {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    U result = 1, square = U(a);
    for (; b; b >>= 1, square *= square)
      if (b & 1) result *= square;
    return T(result);
  }
  throw std::runtime_error(name);
}

template <class T, class Pick>
void check_integers(const Kernels& kernels, Pick pick) {
  std::vector<T> v = {0,
                      1,
                      -1,
                      2,
                      -2,
                      3,
                      -3,
                      7,
                      -7,
                      10,
                      31,
                      32,
                      63,
                      64,
                      1000003,
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::max(),
                      std::numeric_limits<T>::min() + 1};
  std::mt19937_64 random(4);
  for (int i = 0; i < 60; ++i) v.push_back(T(random() >> (random() % 64)) * (i % 2 ? 1 : -1));
  std::vector<T> a, b;
  for (T x : v)
    for (T y : v) a.push_back(x), b.push_back(y);
  while (a.size() % 16) a.push_back(1), b.push_back(1);
  std::vector<T> out(a.size());
  for (const IntFunction& f : kernels.integers) {
    pick(f)(a.data(), b.data(), out.data(), a.size());
    std::string name = f.name;
    bool divides = name.find("div") != std::string::npos || name.find("mod") != std::string::npos;
    for (size_t i = 0; i < a.size(); ++i) {
      if (divides && b[i] == 0) continue;  // computed above without a trap; its value is unspecified
      ASSERT_EQ(out[i], scalar(name, a[i], b[i])) << name << "(" << a[i] << ", " << b[i] << ")";
    }
  }
}

TEST_P(VecTest, IntegersWrapAndNeverTrap) {
  check_integers<int32_t>(*GetParam(), [](const IntFunction& f) { return f.i32; });
  check_integers<int64_t>(*GetParam(), [](const IntFunction& f) { return f.i64; });
}

// ---- conversions ----------------------------------------------------------------------------------------------

// Rounds to nearest even at a half type's spacing with exact double arithmetic.
template <int Digits, int MinExponent, int MaxExponent>
double round_to(double x) {
  if (x == 0 || std::isnan(x) || std::isinf(x)) return x;
  int unit = std::max(std::ilogb(x) + 1, MinExponent) - Digits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::fabs(rounded) >= std::ldexp(1.0, MaxExponent) ? std::copysign(double(kInf), x) : rounded;
}
double decode(Float16 h) {
  int exponent = (h.bits >> 10) & 31, mantissa = h.bits & 1023;
  double sign = h.bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? double(kNan) : sign * double(kInf);
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}
double decode(BFloat16 h) { return std::bit_cast<float>(uint32_t(h.bits) << 16); }

template <class Half>
std::vector<Half> all_patterns() {
  std::vector<Half> patterns(65536);
  for (int i = 0; i < 65536; ++i) patterns[size_t(i)].bits = uint16_t(i);
  return patterns;
}

#define WEFT_EXPECT_SAME_VALUE(got, want, input)                            \
  ASSERT_TRUE(((got) != (got) && (want) != (want)) ||                       \
              ((got) == (want) && std::signbit(got) == std::signbit(want))) \
      << std::hexfloat << (input) << ": got " << (got) << ", want " << (want)

TEST_P(VecTest, EveryHalfLoadsExactlyAndComesBack) {
  auto check = [&](auto patterns) {
    using Half = typename decltype(patterns)::value_type;
    std::vector<float> loaded = convert<Half, float>(patterns);
    std::vector<Half> back = convert<Half, Half>(patterns);
    for (size_t i = 0; i < patterns.size(); ++i) {
      WEFT_EXPECT_SAME_VALUE(double(loaded[i]), decode(patterns[i]), i);
      bool quiet_bit_only = std::isnan(loaded[i]) &&
                            ((back[i].bits ^ patterns[i].bits) & ~(sizeof(Half) == 2 ? 0x0240 : 0)) == 0;
      ASSERT_TRUE(back[i].bits == patterns[i].bits || quiet_bit_only)
          << i << " came back as " << back[i].bits;
    }
  };
  check(all_patterns<Float16>());
  check(all_patterns<BFloat16>());
}

TEST_P(VecTest, HalvesRoundOnceToNearestEven) {
  std::mt19937_64 random(5);
  std::vector<double> wide;
  std::vector<float> narrow;
  for (int i = 0; i < 200000; ++i) {
    float x = std::bit_cast<float>(uint32_t(random()));
    float near_f16 = std::ldexp(float(random() % 65536) / 32768, int(random() % 44) - 27);
    narrow.push_back(i % 2 ? x : near_f16);
    // Just beside the midpoint of two halves: the case that two roundings get wrong.
    double middle = std::ldexp(double((random() % 4096) * 2 + 1), int(random() % 60) - 42);
    int nudge = int(random() % 3) - 1;
    wide.push_back(i % 2 ? narrow.back() : middle * (1 + nudge * 0x1p-45) * (i % 4 ? 1 : -1));
  }
  for (double x : {0.0, -0.0, 65519.0, 65520.0, 65519.999999999, 1e300, -1e-300, 0x1p-25, 0x1.0000000001p-25,
                   3.39e38, 3.3961775e38})
    wide.push_back(x), narrow.push_back(float(x));
  auto f16 = convert<float, Float16>(narrow);
  auto bf16 = convert<float, BFloat16>(narrow);
  auto wide_f16 = convert<double, Float16>(wide);
  auto wide_bf16 = convert<double, BFloat16>(wide);
  for (size_t i = 0; i < narrow.size(); ++i) {
    WEFT_EXPECT_SAME_VALUE(decode(f16[i]), (round_to<11, -13, 16>(narrow[i])), narrow[i]);
    WEFT_EXPECT_SAME_VALUE(decode(bf16[i]), (round_to<8, -125, 128>(narrow[i])), narrow[i]);
    WEFT_EXPECT_SAME_VALUE(decode(wide_f16[i]), (round_to<11, -13, 16>(wide[i])), wide[i]);
    WEFT_EXPECT_SAME_VALUE(decode(wide_bf16[i]), (round_to<8, -125, 128>(wide[i])), wide[i]);
  }
}

template <class To, class From>
To saturate(From x) {
  if (x != x) return 0;
  long double t = std::trunc((long double)x);
  if (t < (long double)std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
  if (t > (long double)std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
  return To(t);
}

TEST_P(VecTest, FloatsSaturateAsIntegers) {
  auto check = [&](auto from) {
    using From = decltype(from);
    std::vector<From> x = {From(1.9),
                           From(-0.3),
                           From(-1.5),
                           From(300.7),
                           kNan,
                           kInf,
                           -kInf,
                           From(127.9),
                           From(-129),
                           From(2e9),
                           From(-3e9),
                           From(2147483647),
                           From(9.3e18),
                           From(-9.3e18),
                           From(9e18),
                           From(1e30),
                           From(0.0),
                           From(65535.5),
                           From(-2147483648.0),
                           From(-0x1p63),
                           From(0x1p63)};
    auto each = [&](auto to) {
      using To = decltype(to);
      auto out = convert<From, To>(x);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], (saturate<To>(x[i]))) << x[i];
    };
    each(int64_t()), each(int32_t()), each(int16_t()), each(int8_t()), each(uint8_t());
    auto truth = convert<From, bool>(x);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(truth[i], x[i] != 0);
  };
  check(float());
  check(double());
}

TEST_P(VecTest, IntegersConvertModuloTheirRange) {
  std::vector<int64_t> x = {0,
                            1,
                            -1,
                            127,
                            128,
                            255,
                            256,
                            -129,
                            32768,
                            65535,
                            1ll << 31,
                            -(1ll << 31) - 1,
                            (1ll << 53) + 1,
                            INT64_MAX,
                            INT64_MIN,
                            123456789012345};
  auto check = [&](auto to) {
    using To = decltype(to);
    auto out = convert<int64_t, To>(x);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], To(x[i])) << x[i];
  };
  check(int32_t()), check(int16_t()), check(int8_t()), check(uint8_t()), check(double()), check(float());
  std::vector<int32_t> y(x.begin(), x.end());
  auto doubles = convert<int32_t, double>(y);
  auto longs = convert<int32_t, int64_t>(y);
  auto floats = convert<int32_t, float>(y);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_TRUE(doubles[i] == y[i] && longs[i] == y[i] && floats[i] == float(y[i]));
}

// The elements end where a forbidden page begins, and a canary stands behind the output.
TEST_P(VecTest, TailsTouchOnlyTheirElements) {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  auto map = [&] {
    char* p = static_cast<char*>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(p + page, page, PROT_NONE), 0);
    return p;
  };
  char *in = map(), *out = map();
  for (const Conversion& c : GetParam()->conversions) {
    for (size_t n = 0; n <= 16; ++n) {
      char* a = in + page - n * size_of(c.from);
      char* result = out + page - n * size_of(c.to);
      std::memset(in, 0, page);
      std::memset(out, 0x5a, page);
      for (size_t i = 0; i < n * size_of(c.from); i += size_of(c.from)) a[i] = 1;
      alignas(64) char whole_in[128] = {}, whole_out[128] = {};
      std::memcpy(whole_in, a, n * size_of(c.from));
      c.convert(whole_in, whole_out, 16);
      c.convert_tail(a, result, int(n));
      EXPECT_EQ(std::memcmp(result, whole_out, n * size_of(c.to)), 0)
          << c.from << " to " << c.to << ", " << n;
      for (char* p = result - 16; p < result; ++p) ASSERT_EQ(*p, 0x5a);
    }
  }
  munmap(in, 2 * page);
  munmap(out, 2 * page);
}

TEST_P(VecTest, ReductionFollowsTheFixedTree) {
  auto tree = [](auto* lanes) {
    std::vector v(lanes, lanes + 16);
    for (int width = 8; width; width /= 2)
      for (int i = 0; i < width; ++i) v[size_t(i)] = v[size_t(i)] + v[size_t(i + width)];
    return v[0];
  };
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    float f[16];
    double d[16];
    int64_t n[16];
    for (int i = 0; i < 16; ++i) {
      f[i] = std::ldexp(float(random()), int(random() % 40) - 20) * (i % 3 ? 1 : -1);
      d[i] = double(f[i]) / 3;
      n[i] = int64_t(random()) << (i * 2);
    }
    EXPECT_EQ(GetParam()->sum_f32(f), tree(f));
    EXPECT_EQ(GetParam()->sum_f64(d), tree(d));
    EXPECT_EQ(GetParam()->sum_i64(n), tree(n));
    EXPECT_EQ(GetParam()->max_f32(f), *std::max_element(f, f + 16));
    f[random() % 16] = kNan;
    EXPECT_TRUE(std::isnan(GetParam()->max_f32(f)));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VecTest, testing::Values(&kSse4, &kAvx2, &kAvx512),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace weft::cpu_test
