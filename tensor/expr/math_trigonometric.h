// sin, cos, tan and their inverses over a generic value V, with Payne-Hanek reduction for huge arguments.
// Part of tensor/expr/math.h; stands on math_exponential.h for polynomial().
#pragma once

#include "tensor/expr/math_exponential.h"

namespace weft::expr {

// A constant table: printed code names it, kernels read its data. Indices lie in [0, size).
template <class T>
struct Table {
  const char* name;
  const T* data;
  int size;
};

// 2/pi in words of 48 bits, after one word of zeros.
inline constexpr uint64_t kTwoOverPiWords[27] = {
    0x000000000000, 0xa2f9836e4e44, 0x1529fc2757d1, 0xf534ddc0db62, 0x95993c439041, 0xfe5163abdebb,
    0xc561b7246e3a, 0x424dd2e00649, 0x2eea09d1921c, 0xfe1deb1cb129, 0xa73ee88235f5, 0x2ebb4484e99c,
    0x7026b45f7e41, 0x3991d6398353, 0x39f49c845f8b, 0xbdf9283b1ff8, 0x97ffde05980f, 0xef2f118b5a0a,
    0x6d1f6d367ecf, 0x27cb09b74f46, 0x3f669e5fea2d, 0x7527bac7ebe5, 0xf17b3d0739f7, 0x8a5292ea6bfb,
    0x5fb11f8d5d08, 0x56033046fc7b, 0x6babf0cfbc20};
inline constexpr Table<uint64_t> kTwoOverPi{"two_over_pi", kTwoOverPiWords, 27};

inline constexpr double kPi = 0x1.921fb54442d18p+1, kPiTail = 0x1.1a62633145c07p-53;
inline constexpr double kHalfPi = kPi / 2, kHalfPiTail = kPiTail / 2, kHalfPiTail2 = -0x1.f1976b7ed8fbcp-110;
inline constexpr double kTwoOverPiValue = 0.636619772367581343076;

// Below these the Cody-Waite reductions are exact enough; above, reduce_huge.
inline constexpr double kModerateF32 = 0x1p15, kModerateF64 = 0x1p20;

template <class V>
struct Sum {
  V high, low;
};
// high + low = a + b exactly (Knuth).
template <class V>
inline Sum<V> two_sum(V a, V b) {
  V s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
template <class V>
inline Sum<V> two_product(V a, V b) {
  V p = a * b;
  return {p, exact_fma(a, b, -p)};
}

// x = quadrant pi/2 + (r + low), |r| <= about pi/4; quadrant is an integer of V's width, good modulo 4.
template <class V, class N>
struct Reduced {
  V r, low;
  N quadrant;
};

template <class V>
inline auto reduce_moderate_f32(V a) {
  V n = round_even(a * kTwoOverPiValue);
  // pi/2 in three floats. The first step is exact: both sides are multiples of 2^-23 and the result is below 1.
  V r = exact_fma(n, V(-0x1.921fb6p+0), a);
  r = exact_fma(n, V(0x1.777a5cp-25), r);
  r = fma(n, 0x1.ee59dap-50, r);
  auto quadrant = to_int(n);
  return Reduced<V, decltype(quadrant)>{r, V(0), quadrant};
}

template <class V>
inline auto reduce_moderate_f64(V a) {
  V n = round_even(a * kTwoOverPiValue);
  V exact = exact_fma(n, V(-kHalfPi), a);
  auto [p, p_low] = two_product(n, V(-kHalfPiTail));
  auto [r, low] = two_sum(exact, p);
  auto quadrant = to_int(n);
  return Reduced<V, decltype(quadrant)>{r, fma(n, -kHalfPiTail2, low + p_low), quadrant};
}

// Payne and Hanek: a = M 2^E with M of 53 bits, so only those bits of 2/pi matter that 2^E brings near the
// point: four windows of 48 bits, as doubles. For a >= 2^20; infinity and NaN give NaN.
template <class V>
inline auto reduce_huge_f64(V a) {
  auto bits = as_int(a);
  auto exponent = (bits >> 52) - 1075;
  V m = as_float((bits & 0xfffffffffffff) | 0x4330000000000000);
  // The first window starts at the bit that weighs 2 after scaling by 2^E.
  auto position = maximum(exponent + 46, 0);
  auto word = to_int(floor(fma(to_float(position), 1.0 / 48, 1.0 / 128)));
  auto shift = position - word * 48;
  word = minimum(word, 22);
  auto w0 = lookup(kTwoOverPi, word), w1 = lookup(kTwoOverPi, word + 1), w2 = lookup(kTwoOverPi, word + 2);
  auto w3 = lookup(kTwoOverPi, word + 3), w4 = lookup(kTwoOverPi, word + 4);
  auto window = [&](auto high, auto low) {
    return to_float(((high << shift) & 0xffffffffffff) | (low >> (48 - shift)));
  };
  V t0 = window(w0, w1) * 0x1p-46, t1 = window(w1, w2) * 0x1p-94;
  V t2 = window(w2, w3) * 0x1p-142, t3 = window(w3, w4) * 0x1p-190;
  auto [p0, e0] = two_product(m, t0);
  auto [p1, e1] = two_product(m, t1);
  auto [p2, e2] = two_product(m, t2);
  // Whole turns leave first; what remains is summed in two parts.
  p0 = p0 - 4 * round_even(p0 * 0.25);
  auto [s1, c1] = two_sum(p0, e0);
  V k1 = round_even(s1);
  auto [s2, c2] = two_sum(s1 - k1, p1);
  V k2 = round_even(s2);
  auto [s3, c3] = two_sum(s2 - k2, p2);
  auto [s4, c4] = two_sum(s3, e1);
  auto [s5, c5] = two_sum(s4, c1 + c2);
  V low = c3 + c4 + c5 + fma(m, t3, e2);
  V k3 = round_even(s5);
  auto [high, rest] = two_sum(s5 - k3, low);
  // Times pi/2.
  auto [r, r_low] = two_product(high, V(kHalfPi));
  r_low = fma(high, kHalfPiTail, fma(rest, kHalfPi, r_low));
  V k = k1 + k2 + k3;
  auto quadrant = to_int(k - 4 * floor(k * 0.25));
  V nan = where(a < kInfinity, V(0), V(kNaN));
  return Reduced<V, decltype(quadrant)>{r + nan, r_low, quadrant};
}

template <class V>
inline auto reduce_f64(V a) {
  auto near = reduce_moderate_f64(a);
  auto far = reduce_huge_f64(a);
  auto huge = a > kModerateF64;
  return Reduced<V, decltype(near.quadrant)>{where(huge, far.r, near.r), where(huge, far.low, near.low),
                                             where(huge, far.quadrant, near.quadrant)};
}
template <class V>
inline auto reduce_f32(V a) {
  auto near = reduce_moderate_f32(a);
  auto far = reduce_huge_f64(to_f64(a));
  auto huge = a > kModerateF32;
  auto far_quadrant = to_int(to_f32(to_float(far.quadrant)));
  return Reduced<V, decltype(near.quadrant)>{where(huge, to_f32(far.r), near.r), V(0),
                                             where(huge, far_quadrant, near.quadrant)};
}

template <class V>
inline V sin_polynomial_f32(V r, V z) {
  return fma(r * z, polynomial(z, 2.724386018e-6, -0.0001984003962, 0.008333331787, -0.1666666666), r);
}
template <class V>
inline V cos_polynomial_f32(V z) {
  return fma(z * z, polynomial(z, -2.729588716e-7, 2.480056096e-5, -0.00138888876, 0.04166666666),
             fma(z, -0.5, 1));
}
template <class V>
inline V sin_polynomial_f64(V r, V low, V z) {
  // (sin r - r) / r^3 in r^2, |r| <= pi/4, error 2^-66
  V p = polynomial(z, -7.58549052663883322e-13, 1.6058510951613035e-10, -2.50521061007960978e-8,
                   2.75573192189565246e-6, -0.000198412698412645685, 0.00833333333333333126,
                   -0.166666666666666667);
  return r + fma(r * z, p, low * fma(z, -0.5, 1));
}
template <class V>
inline V cos_polynomial_f64(V r, V low, V z) {
  // (cos r - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4, error 2^-70
  V p = polynomial(z, 4.74520082914371531e-14, -1.14704493926369815e-11, 2.0876755717854622e-9,
                   -2.75573192211899859e-7, 0.0000248015873015843703, -0.00138888888888888877,
                   0.0416666666666666667);
  V h = z * 0.5, w = 1 - h;
  return w + (((1 - w) - h) + fma(z * z, p, -(r * low)));
}

// sin of a reduced angle turned by some quarters, and the sign of x kept: sin(-0) = -0.
template <class V, class R>
inline V sin_from_f32(V x, R reduced) {
  V z = reduced.r * reduced.r;
  V value = where((reduced.quadrant & 1) != 0, cos_polynomial_f32(z), sin_polynomial_f32(reduced.r, z));
  return as_float(as_int(value) ^ ((reduced.quadrant & 2) << 30) ^ (as_int(x) & INT32_MIN));
}
template <class R>
inline auto cos_from_f32(R reduced) {
  auto z = reduced.r * reduced.r;
  auto value = where((reduced.quadrant & 1) != 0, sin_polynomial_f32(reduced.r, z), cos_polynomial_f32(z));
  return as_float(as_int(value) ^ (((reduced.quadrant + 1) & 2) << 30));
}
template <class V, class R>
inline V sin_from_f64(V x, R reduced) {
  V z = reduced.r * reduced.r;
  V value = where((reduced.quadrant & 1) != 0, cos_polynomial_f64(reduced.r, reduced.low, z),
                  sin_polynomial_f64(reduced.r, reduced.low, z));
  return as_float(as_int(value) ^ ((reduced.quadrant & 2) << 62) ^ (as_int(x) & INT64_MIN));
}
template <class R>
inline auto cos_from_f64(R reduced) {
  auto z = reduced.r * reduced.r;
  auto value = where((reduced.quadrant & 1) != 0, sin_polynomial_f64(reduced.r, reduced.low, z),
                     cos_polynomial_f64(reduced.r, reduced.low, z));
  return as_float(as_int(value) ^ (((reduced.quadrant + 1) & 2) << 62));
}
template <class V, class R>
inline V tan_from_f64(V x, R reduced) {
  V z = reduced.r * reduced.r;
  V s = sin_polynomial_f64(reduced.r, reduced.low, z), c = cos_polynomial_f64(reduced.r, reduced.low, z);
  auto odd = (reduced.quadrant & 1) != 0;
  V value = where(odd, -c, s) / where(odd, s, c);
  return as_float(as_int(value) ^ (as_int(x) & INT64_MIN));
}

// The _moderate forms hold for |x| <= kModerateF32 or kModerateF64 and NaN, bit for bit as the full ones: a kernel
// takes them when no lane is larger.
template <class V>
V sin_moderate_f32(V x) {
  return sin_from_f32(x, reduce_moderate_f32(abs(x)));
}
template <class V>
V cos_moderate_f32(V x) {
  return cos_from_f32(reduce_moderate_f32(abs(x)));
}
template <class V>
V tan_moderate_f32(V x) {
  auto wide = to_f64(x);
  return to_f32(tan_from_f64(wide, reduce_moderate_f64(abs(wide))));
}
template <class V>
V sin_moderate_f64(V x) {
  return sin_from_f64(x, reduce_moderate_f64(abs(x)));
}
template <class V>
V cos_moderate_f64(V x) {
  return cos_from_f64(reduce_moderate_f64(abs(x)));
}
template <class V>
V tan_moderate_f64(V x) {
  return tan_from_f64(x, reduce_moderate_f64(abs(x)));
}

template <class V>
V sin_f32(V x) {
  return sin_from_f32(x, reduce_f32(abs(x)));
}
template <class V>
V cos_f32(V x) {
  return cos_from_f32(reduce_f32(abs(x)));
}
template <class V>
V sin_f64(V x) {
  return sin_from_f64(x, reduce_f64(abs(x)));
}
template <class V>
V cos_f64(V x) {
  return cos_from_f64(reduce_f64(abs(x)));
}
template <class V>
V tan_f64(V x) {
  return tan_from_f64(x, reduce_f64(abs(x)));
}
template <class V>
V tan_f32(V x) {
  return to_f32(tan_f64(to_f64(x)));
}

// ---- inverses -----------------------------------------------------------------------------------------------

template <class V>
inline V atan_unit_f32(V t) {
  V z = t * t;
  // (atan t - t) / t^3 in t^2, t <= 1, error 2^-26
  return fma(t * z,
             polynomial(z, -0.002508332976, 0.01399534491, -0.03666811819, 0.06318004862, -0.0868892537,
                        0.1104199946, -0.1427961083, 0.1999978979, -0.3333333214),
             t);
}
template <class V>
inline V atan_unit_f64(V t) {
  V z = t * t;
  // (atan t - t) / t^3 in t^2, t <= 1, error 2^-55
  return fma(
      t * z,
      polynomial(z, 0.0000190734117397521433, -0.000209590360668104812, 0.00109181966575672951,
                 -0.00360892514179468026, 0.00857557294919037854, -0.0158082683574003474,
                 0.0239663482268896903, -0.0314797123597110923, 0.0376117061950947947, -0.0426554568132954158,
                 0.0473951704777288928, -0.0525843053915939469, 0.0588159521470974637, -0.0666657713061868831,
                 0.0769230019902895339, -0.0909090867150216486, 0.111111110967211573, -0.142857142854526143,
                 0.199999999999981097, -0.333333333333333311),
      t);
}
template <class V>
V atan_f32(V x) {
  V a = abs(x);
  auto steep = a > 1;
  V p = atan_unit_f32(where(steep, 1 / a, a));
  return copysign(where(steep, kHalfPi - (p + 4.37113883e-8), p), x);
}
template <class V>
V atan_f64(V x) {
  V a = abs(x);
  auto steep = a > 1;
  V p = atan_unit_f64(where(steep, 1 / a, a));
  return copysign(where(steep, kHalfPi - (p - kHalfPiTail), p), x);
}
template <class V>
V atan2_f64(V y, V x) {
  V ay = abs(y), ax = abs(x);
  auto steep = ay > ax;
  V numerator = where(steep, ax, ay), denominator = where(steep, ay, ax);
  // 0/0 counts as 0 and inf/inf as 1: C's special cases follow.
  V t = where(numerator == denominator, V(1), numerator / denominator);
  V p = atan_unit_f64(where(numerator == 0, V(0), t));
  p = where(steep, kHalfPi - (p - kHalfPiTail), p);
  p = where(as_int(x) < 0, kPi - (p - kPiTail), p);
  return where(is_nan(x) | is_nan(y), x + y, copysign(p, y));
}
template <class V>
V atan2_f32(V y, V x) {
  return to_f32(atan2_f64(to_f64(y), to_f64(x)));
}

// asin s = s + s z R(z), s <= 1/2
template <class V>
inline V asin_series_f64(V z) {
  // (asin s - s) / s^3 in z = s^2, error 2^-56
  return z * polynomial(z, 0.028998874125655932, -0.0152124381275232846, 0.0176367885165688456,
                        0.00536886224871686981, 0.0103439299557675186, 0.0114758565958262366,
                        0.0139715611926516913, 0.0173523686988081938, 0.0223721739919370873,
                        0.0303819441114862549, 0.0446428571467150249, 0.0749999999999824591,
                        0.16666666666666668);
}
template <class V>
V asin_f64(V x) {
  V a = abs(x);
  auto steep = a > 0.5;
  V z = where(steep, 0.5 * (1 - a), a * a), s = where(steep, sqrt(z), a);
  V r = asin_series_f64(z);
  return copysign(where(steep, (kHalfPi - 2 * s) - (2 * s * r - kHalfPiTail), fma(s, r, s)), x);
}
template <class V>
V acos_f64(V x) {
  V a = abs(x);
  auto steep = a > 0.5;
  V z = where(steep, 0.5 * (1 - a), a * a), s = where(steep, sqrt(z), x);
  V r = asin_series_f64(z), twice = 2 * fma(s, r, s);
  V flat = kHalfPi - (s - fma(-s, r, kHalfPiTail));
  return where(steep, where(x < 0, kPi - (twice - kPiTail), twice), flat);
}
template <class V>
V asin_f32(V x) {
  return to_f32(asin_f64(to_f64(x)));
}
template <class V>
V acos_f32(V x) {
  return to_f32(acos_f64(to_f64(x)));
}

}  // namespace weft::expr
