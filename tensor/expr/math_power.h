// pow over a generic value V: a logarithm in two doubles, C's special cases.
// Part of tensor/expr/math.h; stands on math_trigonometric.h for two_sum() and two_product().
#pragma once

#include <limits>

#include "tensor/expr/math_trigonometric.h"

namespace weft::expr {

// C's table of special cases around the value r of |x|^y.
template <class V, class I>
inline V pow_specials(V x, V y, V r, I sign_bit) {
  auto whole = trunc(y) == y;
  auto odd = whole & (trunc(y * 0.5) != y * 0.5);
  V minus_r = as_float(as_int(r) | sign_bit);
  r = where((as_int(x) < 0) & odd, minus_r, r);
  r = where((x < 0) & !whole & (x > -kInfinity), V(kNaN), r);
  r = where(is_nan(x) | is_nan(y), x + y, r);
  return where((y == 0) | (x == 1) | ((x == -1) & (abs(y) == kInfinity)), V(1), r);
}

// log a as high + low, relative error about 2^-66, for finite a > 0.
template <class V>
inline Sum<V> log_in_two_parts_f64(V a) {
  auto [e, f] = log_parts_f64(a);
  // s + s_low = f / (2 + f)
  V d = f + 2, d_low = f - (d - 2);
  V s = f / d;
  V s_low = (exact_fma(-s, d, f) - s * d_low) / d;
  auto [z, z_low] = two_product(s, s);
  z_low = fma(2 * s, s_low, z_low);
  // (atanh(s)/s - 1 - z/3) / z^2 in z = s^2, error 2^-60
  V q = z * z *
        polynomial(z, 0.0586270474683556119, 0.0585300744220758195, 0.0666740665852411949,
                   0.0769229739814740219, 0.0909090916851729952, 0.111111111108240897, 0.142857142857146899,
                   0.199999999999999999);
  auto [third, third_low] = two_product(z, V(0x1.5555555555555p-2));
  third_low = fma(z, 0x1.5555555555555p-56, fma(z_low, 0x1.5555555555555p-2, third_low));
  V u = third + q, u_low = ((third - u) + q) + third_low;
  auto [v, v_low] = two_product(s, u);
  v_low = fma(s, u_low, fma(s_low, u, v_low));
  V t = s + v, t_low = ((s - t) + v) + (s_low + v_low);
  // Twice that, plus e ln 2 whose first part is exact.
  V whole = e * 0x1.62e42fefa38p-1;
  V high = whole + 2 * t;
  return {high, ((whole - high) + 2 * t) + fma(e, 0x1.ef35793c7673p-45, 2 * t_low)};
}

template <class V>
V pow_f64(V x, V y) {
  V a = abs(x);
  auto [high, low] = log_in_two_parts_f64(a);
  auto end = (a == 0) | (a == kInfinity);
  high = where(end, where(a == 0, V(-kInfinity), V(kInfinity)), high);
  V p = y * high;
  V p_low = fma(y, low, exact_fma(y, high, -p));
  V c = clamp_keeping_nan(p, -746, 710);
  p_low = where(end | (c != p), V(0), p_low);
  V n = round_even(c * kLog2E);
  V r = fma(n, -kLn2Low, fma(n, -kLn2High, c)) + p_low;
  return pow_specials(x, y, scale_f64(1 + exp_remainder_f64(r), to_int(n)),
                      std::numeric_limits<int64_t>::min());
}

// In double: log2 to 2^-43, exp2 to 2^-38, one rounding at the end.
template <class V>
V pow_f32(V x, V y) {
  auto a = to_f64(abs(x));
  using W = decltype(a);
  auto i = as_int(a);
  auto e = (i - 0x3fe6a09e667f3bcc) >> 52;
  W f = as_float(i - (e << 52)) - 1;
  W s = f / (f + 2), z = s * s;
  // log2(1 + f) / s in z = s^2
  W q = polynomial(z, 0.282929809705100377, 0.319903666489177592, 0.41220930077220855, 0.577077941897080305,
                   0.961796694114913126, 2.88539008177784916);
  W log2_a = fma(s, q, to_float(e));
  log2_a = where(a == 0, W(-kInfinity), where(a == kInfinity, W(kInfinity), log2_a));
  W p = clamp_keeping_nan(to_f64(y) * log2_a, -160, 130);
  W n = round_even(p), r = p - n;
  // (2^r - 1) / r, |r| <= 1/2
  W t = polynomial(r, 1.32596462502704502e-6, 0.0000153037041924735298, 0.000154034365095814469,
                   0.00133334784606316796, 0.00961812918357997056, 0.0555041090633810383,
                   0.240226506957374399, 0.693147180556830714);
  V value = to_f32(fma(r, t, 1) * power_of_two_f64(to_int(n)));
  return pow_specials(x, y, value, std::numeric_limits<int32_t>::min());
}

template <class V>
V rsqrt_f32(V x) {
  return 1 / sqrt(x);
}
template <class V>
V rsqrt_f64(V x) {
  return 1 / sqrt(x);
}
template <class V>
V reciprocal_f32(V x) {
  return 1 / x;
}
template <class V>
V reciprocal_f64(V x) {
  return 1 / x;
}

// Integers by squaring, modulo 2^bits. A negative exponent: 1 and -1 have powers, the rest gives 0, as torch does.
template <class V>
V pow_integer(V base, V exponent, int bits) {
  V result(1), square = base, left = exponent;
  for (int i = 0; i < bits - 1; ++i) {
    result = where((left & 1) != 0, result * square, result);
    square = square * square;
    left = left >> 1;
  }
  V minus_one = where((exponent & 1) != 0, V(-1), V(1));
  V negative = where(base == 1, V(1), where(base == -1, minus_one, V(0)));
  return where(exponent < 0, negative, result);
}

}  // namespace weft::expr
