// exp, log and their kin over a generic value V: Vec for kernels, a symbolic value for printed code.
// Part of tensor/expr/math.h; only the generic operations named there, no branch on a value.
#pragma once

#include <cstdint>
#include <limits>

namespace weft::expr {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLog2E = 1.44269504088896340736, kLog2ETail = 2.03552737409310331e-17;
// ln 2 in two parts; a product of the first with an exponent is exact.
inline constexpr double kLn2HighF32 = 0x1.62e4p-1, kLn2LowF32 = 1.42860682030941723212e-6;
inline constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 1.90821492927058770002e-10;

// c[0] x^n + c[1] x^(n-1) + … + c[n], highest degree first. Coefficients in these files are own Remez fits
// (250-bit arithmetic) of the expression in the comment beside them, unless another source is named.
template <class V, class... C>
inline V polynomial(V x, double first, C... rest) {
  V p(first);
  ((p = fma(p, x, V(rest))), ...);
  return p;
}

template <class N>
inline auto power_of_two_f32(N n) {
  return as_float((n + 127) << 23);
}
template <class N>
inline auto power_of_two_f64(N n) {
  return as_float((n + 1023) << 52);
}

// x 2^n in two exact steps and one rounding, also into the subnormals.
template <class V, class N>
inline V scale_f32(V x, N n) {
  auto half = n >> 1;
  return x * power_of_two_f32(half) * power_of_two_f32(n - half);
}
template <class V, class N>
inline V scale_f64(V x, N n) {
  auto half = n >> 1;
  return x * power_of_two_f64(half) * power_of_two_f64(n - half);
}

template <class V>
inline V clamp_keeping_nan(V x, double low, double high) {
  x = where(x < low, V(low), x);
  return where(x > high, V(high), x);
}

// e^x = 2^n (1 + p), x within the range of exponents.
template <class V>
struct ExpParts {
  V n, p;
};
template <class V>
inline ExpParts<V> exp_parts_f32(V x) {
  V n = round_even(x * kLog2E);
  V r = fma(n, -kLn2LowF32, fma(n, -kLn2HighF32, x));
  // (e^r - 1 - r) / r^2, |r| <= ln 2 / 2, error 2^-29
  V q = polynomial(r, 0.0001990890633, 0.001393454711, 0.008333284103, 0.04166645675, 0.1666666676,
                   0.5000000014);
  return {n, fma(r * r, q, r)};
}
template <class V>
inline V exp_remainder_f64(V r) {
  // (e^r - 1 - r) / r^2, |r| <= ln 2 / 2, error 2^-59
  V q = polynomial(r, 2.09224822761775302e-9, 2.51062761710849353e-8, 2.75572502457159009e-7,
                   2.75572528295539274e-6, 0.0000248015873501264546, 0.000198412698768679967,
                   0.00138888888888732099, 0.00833333333332554346, 0.0416666666666666856,
                   0.166666666666666714, 0.5);
  return fma(r * r, q, r);
}
template <class V>
inline ExpParts<V> exp_parts_f64(V x) {
  V n = round_even(x * kLog2E);
  return {n, exp_remainder_f64(fma(n, -kLn2Low, fma(n, -kLn2High, x)))};
}

template <class V>
V exp_f32(V x) {
  auto [n, p] = exp_parts_f32(clamp_keeping_nan(x, -104, 89));
  return scale_f32(1 + p, to_int(n));
}
template <class V>
V exp_f64(V x) {
  auto [n, p] = exp_parts_f64(clamp_keeping_nan(x, -746, 710));
  return scale_f64(1 + p, to_int(n));
}
// e^x / 2 without overflow before the result's.
template <class V>
V half_exp_f64(V x) {
  auto [n, p] = exp_parts_f64(clamp_keeping_nan(x, -746, 711));
  return scale_f64(1 + p, to_int(n) - 1);
}

template <class V>
V exp2_f32(V x) {
  V c = clamp_keeping_nan(x, -151, 129);
  V n = round_even(c), r = c - n;
  // (2^r - 1) / r, |r| <= 1/2, error 2^-32
  V q = polynomial(r, 1.531008114e-5, 0.0001546145022, 0.001333345455, 0.009618056661, 0.05550410929,
                   0.2402265092, 0.6931471806);
  return scale_f32(fma(r, q, 1), to_int(n));
}
template <class V>
V exp2_f64(V x) {
  V c = clamp_keeping_nan(x, -1076, 1025);
  V n = round_even(c), r = c - n;
  // (2^r - 1) / r, |r| <= 1/2, error 2^-62
  V q = polynomial(r, 2.57378135020971328e-11, 4.45581815349031455e-10, 7.05489146781111569e-9,
                   1.0178057086201744e-7, 1.32154868232962163e-6, 0.0000152527338415601242,
                   0.000154035303933547752, 0.00133335581464064677, 0.00961812910762848662,
                   0.055504108664821627, 0.240226506959100712, 0.693147180559945309);
  return scale_f64(fma(r, q, 1), to_int(n));
}

// 2^n p + (2^n - 1), halved in between so that n = 128 or 1024 fits; p itself where n = 0.
template <class V>
V expm1_f32(V x) {
  auto [n, p] = exp_parts_f32(clamp_keeping_nan(x, -18, 89));
  V half = power_of_two_f32(to_int(n) - 1);
  return copysign(where(n == 0, p, 2 * fma(half, p, half - 0.5)), x);
}
template <class V>
V expm1_f64(V x) {
  auto [n, p] = exp_parts_f64(clamp_keeping_nan(x, -38, 710));
  V half = power_of_two_f64(to_int(n) - 1);
  return copysign(where(n == 0, p, 2 * fma(half, p, half - 0.5)), x);
}

// x = 2^e (1 + f), 1 + f in [sqrt 1/2, sqrt 2), for positive finite x, subnormal too.
template <class V>
struct LogParts {
  V e, f;
};
template <class V>
inline LogParts<V> log_parts_f32(V x) {
  auto subnormal = x < 0x1p-126;
  auto i = as_int(where(subnormal, x * 0x1p23, x));
  auto e = (i - 0x3f3504f3) >> 23;
  return {to_float(e) - where(subnormal, V(23), V(0)), as_float(i - (e << 23)) - 1};
}
template <class V>
inline LogParts<V> log_parts_f64(V x) {
  auto subnormal = x < 0x1p-1022;
  auto i = as_int(where(subnormal, x * 0x1p54, x));
  auto e = (i - 0x3fe6a09e667f3bcc) >> 52;
  return {to_float(e) - where(subnormal, V(54), V(0)), as_float(i - (e << 52)) - 1};
}

// The value of a logarithm at 0, infinity, negative numbers and NaN; r elsewhere.
template <class V>
inline V log_specials(V x, V r) {
  V special = where(x == 0, V(-kInfinity), where(x < 0, V(kNaN), x));
  return where((x > 0) & (x < kInfinity), r, special);
}

// log(1 + f) - f on the reduced range.
template <class V>
inline V log_tail_f32(V f, V start) {
  V z = f * f;
  // (log(1 + f) - f + f^2/2) / f^3, error 2^-25
  V p = polynomial(f, 0.07331691968, -0.1165918742, 0.1163463482, -0.1239681005, 0.1425117029, -0.1666914661,
                   0.200006876, -0.2499998123, 0.3333333126);
  return fma(z, -0.5, fma(f * z, p, start));
}
template <class V>
V log_f32(V x) {
  auto [e, f] = log_parts_f32(x);
  V y = log_tail_f32(f, e * kLn2LowF32);
  return log_specials(x, fma(e, kLn2HighF32, f + y));
}
template <class V>
V log2_f32(V x) {
  auto [e, f] = log_parts_f32(x);
  V y = log_tail_f32(f, V(0));
  constexpr double kLog2EMinus1 = 0.44269504088896340736;
  return log_specials(x, e + (f + (y + fma(y, kLog2EMinus1, f * kLog2EMinus1))));
}

// log(1 + f) = f - h + s (h + R), h = f^2/2, s = f/(2 + f); the scheme of fdlibm's e_log.c, with own R.
template <class V>
struct LogSeries {
  V h, tail;  // tail = s (h + R)
};
template <class V>
inline LogSeries<V> log_series_f64(V f) {
  V s = f / (2 + f), z = s * s, h = 0.5 * f * f;
  // (2 atanh(s) - 2 s) / s^3 in z = s^2, error 2^-51 of a term below 2^-6
  V r =
      z * polynomial(z, 0.146190969920537854, 0.153314977645028434, 0.181828962076318324,
                     0.222222110317493219, 0.285714286266514069, 0.399999999998978878, 0.666666666666666975);
  return {h, s * (h + r)};
}
template <class V>
V log_f64(V x) {
  auto [e, f] = log_parts_f64(x);
  auto [h, tail] = log_series_f64(f);
  return log_specials(x, fma(e, kLn2High, f - (h - fma(e, kLn2Low, tail))));
}
// (log(1 + f) in two parts) times a constant in two parts, plus e times another.
template <class V>
inline V scaled_log_f64(V x, double scale, double scale_tail, double e_scale, double e_scale_tail) {
  auto [e, f] = log_parts_f64(x);
  auto [h, tail] = log_series_f64(f);
  V high = f - h, low = ((f - high) - h) + tail;
  V product = high * scale;
  V rest = fma(high, scale_tail, fma(low, scale, exact_fma(high, scale, -product)));
  V whole = e * e_scale, sum = whole + product;
  rest = fma(e, e_scale_tail, rest + ((whole - sum) + product));
  return log_specials(x, sum + rest);
}
template <class V>
V log2_f64(V x) {
  return scaled_log_f64(x, kLog2E, kLog2ETail, 1.0, 0.0);
}
template <class V>
V log10_f64(V x) {
  return scaled_log_f64(x, 0.434294481903251827651, 1.09831965021676508e-17, 0x1.34413509f6p-2,
                        3.69423907715893078e-13);
}
template <class V>
V log10_f32(V x) {
  return to_f32(log10_f64(to_f64(x)));
}

// log(u) + c/u with u = 1 + x rounded and c what the rounding lost.
template <class V>
inline V log1p_from(V x, V u, V log_u) {
  V lost = where(x < 1, x - (u - 1), 1 - (u - x));
  V correction = where((u > 0) & (u < kInfinity), lost / u, V(0));
  return copysign(log_u + correction, x);
}
template <class V>
V log1p_f32(V x) {
  return log1p_from(x, 1 + x, log_f32(1 + x));
}
template <class V>
V log1p_f64(V x) {
  return log1p_from(x, 1 + x, log_f64(1 + x));
}

// 1 / (1 + e^-x), through e^-|x| so that nothing overflows and small results keep their digits.
template <class V>
V sigmoid_f32(V x) {
  auto [n, p] = exp_parts_f32(clamp_keeping_nan(-abs(x), -104, 0));
  V m = 1 + p, lost = p - (m - 1);
  V e = scale_f32(m, to_int(n));
  auto negative = x < 0;
  V d = 1 + e, d_lost = e - (d - 1);
  V quotient = where(negative, e, V(1)) / d;
  // What the two sums lost comes back, nearly: 2.2 -> 1.5 ulp. (1/(1 + p) is about 1 - p, 1/d about 3/4.)
  return fma(quotient, fma(d_lost, -0.75, where(negative, lost * (1 - p), V(0))), quotient);
}
template <class V>
V sigmoid_f64(V x) {
  V e = exp_f64(-abs(x));
  return where(x < 0, e, V(1)) / (1 + e);
}

template <class V>
V tanh_f32(V x) {
  V a = abs(x), z = x * x;
  // (tanh x - x) / x^3 in x^2, |x| < 0.625, error 2^-24 of a term below 1/8
  V small = fma(
      x * z, polynomial(z, -0.006111132826, 0.02100870951, -0.05385379562, 0.1333279292, -0.3333332924), x);
  auto [n, p] = exp_parts_f32(where(a > 10, V(20), 2 * a));
  V e = (1 + p) * power_of_two_f32(to_int(n));
  return copysign(where(a < 0.625, small, 1 - 2 / (e + 1)), x);
}
template <class V>
V tanh_f64(V x) {
  V a = abs(x), t = expm1_f64(where(a > 22, V(44), 2 * a));
  return copysign(t / (t + 2), x);
}

template <class V>
V sinh_f64(V x) {
  V a = abs(x), t = expm1_f64(where(a > 1, V(1), a)), h = half_exp_f64(a);
  return copysign(where(a < 1, 0.5 * (t + t / (t + 1)), h - 0.25 / h), x);
}
template <class V>
V cosh_f64(V x) {
  V h = half_exp_f64(abs(x));
  return h + 0.25 / h;
}
// For large a: log(2a) = log1p(a - 1) + log 2.
template <class V>
V asinh_f64(V x) {
  V a = abs(x), square = a * a;
  auto far = a >= 0x1p28;
  V y = log1p_f64(where(far, a - 1, a + square / (1 + sqrt(square + 1))));
  return copysign(where(far, y + 0.693147180559945309417, y), x);
}
template <class V>
V acosh_f64(V x) {
  V t = x - 1;
  auto far = x >= 0x1p28;
  V y = log1p_f64(where(far, t, t + sqrt(2 * t + t * t)));
  return where(x < 1, V(kNaN), where(far, y + 0.693147180559945309417, y));
}
template <class V>
V atanh_f64(V x) {
  V a = abs(x);
  return copysign(0.5 * log1p_f64(2 * a / (1 - a)), x);
}
template <class V>
V sinh_f32(V x) {
  return to_f32(sinh_f64(to_f64(x)));
}
template <class V>
V cosh_f32(V x) {
  return to_f32(cosh_f64(to_f64(x)));
}
template <class V>
V asinh_f32(V x) {
  return to_f32(asinh_f64(to_f64(x)));
}
template <class V>
V acosh_f32(V x) {
  return to_f32(acosh_f64(to_f64(x)));
}
template <class V>
V atanh_f32(V x) {
  return to_f32(atanh_f64(to_f64(x)));
}

}  // namespace weft::expr
