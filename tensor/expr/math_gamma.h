// lgamma, digamma and erfinv over a generic value V, computed in double for both float types.
// Part of tensor/expr/math.h; stands on the exponential, trigonometric and error functions.
#pragma once

#include "tensor/expr/math_special.h"

namespace weft::expr {

// Note [Gamma functions in two parts]
// Both functions are sums whose terms cancel: near their zeros, and for negative x almost everywhere. Each term is kept
// as high + low and the sum rounds once, so that the results are good to an ulp or so, with fma and without.

// log y for positive finite y, in two parts.
template <class V>
inline Sum<V> log_sum_f64(V y) {
  auto [e, f] = log_parts_f64(y);
  auto [h, tail] = log_series_f64(f);
  V high = f - h, low = (((f - high) - h) - exact_fma(0.5 * f, f, -h)) + tail;
  V whole = e * kLn2High, sum = whole + high;
  return {sum, fma(e, kLn2Low, ((whole - sum) + high) + low)};
}
// b + c x for |b| > |c x|, in two parts.
template <class V>
inline Sum<V> linear_sum(double b, V c, V x) {
  V product = c * x, sum = b + product;
  return {sum, product - (sum - b)};
}
// 1/x in two parts, 2^-500 < |x| < 2^500.
template <class V>
inline Sum<V> reciprocal_sum(V x) {
  V q = 1 / x;
  return {q, -q * exact_fma(q, x, V(-1))};
}
template <class V>
inline Sum<V> add(Sum<V> a, Sum<V> b) {
  auto [sum, lost] = two_sum(a.high, b.high);
  return {sum, lost + (a.low + b.low)};
}
template <class V>
inline Sum<V> multiply(Sum<V> a, Sum<V> b) {
  auto [product, lost] = two_product(a.high, b.high);
  return {product, lost + fma(a.high, b.low, a.low * b.high)};
}

// log |Gamma(y)| for y > 0: a fit on [1, 3] that keeps both zeros, recurrence towards it from 0 and from 8,
// Stirling's series beyond. Where `shifted`, log Gamma(y + 1) for y < 1.
template <class V, class M>
inline Sum<V> lgamma_sum_f64(V y, M shifted) {
  auto below = y < 1, beyond = y >= 8;
  V x = where(beyond, V(2), y), product(1);
  for (int i = 0; i < 5; ++i) {
    auto high = x > 3;
    x = where(high, x - 1, x);
    product = where(high, product * x, product);
  }
  Sum<V> log = log_sum_f64(where(below | beyond, y, product));
  // The fit's argument is x, or y + 1 below 1, without the rounding of that sum.
  V t = where(below, y - 1, x - 2), t_low = where(below, (y - t) - 1, V(0));
  // log Gamma(x) / ((x - 1) (x - 2)) in t = x - 2, error 2^-58.0
  Sum<V> g = linear_sum(
      0.422784335098467136,
      polynomial(
          t, -8.78005489257341262e-10, 1.58169948259361508e-9, 2.86769686835042794e-9, -4.3580892285834305e-9,
          -1.01468929408363368e-8, 1.63249413559343848e-8, 1.31337129999328914e-9, 5.69290100535649426e-9,
          -5.44349662031269361e-8, 1.04438067108119532e-7, -1.84268803844738609e-7, 3.95724529166435743e-7,
          -8.56487140904171508e-7, 1.81147495271322086e-6, -3.84613713810275172e-6, 8.2212058370182327e-6,
          -0.0000176619522500759324, 0.0000381690830973033539, -0.0000830950835154151659,
          0.000182552614448264522, -0.000405707401678875635, 0.000915376924121029283, -0.00210813083372530444,
          0.00499864116462342525, -0.01238419219337724, 0.0329650006211569741, -0.100317301674353875),
      t);
  g.low = g.low + 4.94292e-18;
  Sum<V> near = multiply(multiply(Sum<V>{where(below, y, x - 1), V(0)}, Sum<V>{t, t_low}), g);
  Sum<V> recurrence = {where(below, -log.high, log.high), where(below, -log.low, log.low)};
  auto whole = below & shifted;
  near = add(near, Sum<V>{where(whole, V(0), recurrence.high), where(whole, V(0), recurrence.low)});
  V inverse = 1 / y, v = inverse * inverse;
  // (log Gamma(y) - (y - 1/2)(log y - 1) - log(2 pi)/2 + 1/2) y in 1/y^2, y >= 8, error 2^-60.6
  V series = polynomial(v, 0.00506926532243708969, -0.00189054082635335386, 0.000841472866868924315,
                        -0.000595236607115593264, 0.000793650789835555569, -0.00277777777777410015,
                        0.0833333333333333328);
  V half_below = y - 0.5;
  Sum<V> far = multiply(Sum<V>{half_below, (y - half_below) - 0.5}, Sum<V>{log.high - 1, log.low});
  V far_low = far.low + fma(inverse, series, 0.418938533204672741780);
  far_low = where(far.high < kInfinity, far_low, V(0));
  return {where(beyond, far.high, near.high), where(beyond, far_low, near.low)};
}
// Reflection for negative x = -a: log |Gamma(x)| = -log Gamma(a) - log(a |sin(pi a)| / pi). Poles give infinity.
template <class V>
V lgamma_f64(V x) {
  V a = abs(x);
  auto negative = x < 0;
  Sum<V> positive = lgamma_sum_f64(a, negative);
  V f = abs(a - round_even(a));
  Sum<V> z = two_product(f, f);
  V m = 1 - z.high;
  // (sin(pi f) / (pi f (1 - f^2)) - 1) / f^2 in f^2, f <= 1/2, error 2^-63
  Sum<V> w = linear_sum(1.0,
                        polynomial(z.high, 6.9699579231128034e-9, -2.45918060540210378e-7,
                                   6.72987405983145516e-6, -0.000141698903094573481, 0.00220438213059203584,
                                   -0.023943465686953704, 0.166808358435127168, -0.644934066848226436),
                        z.high);
  Sum<V> sine = multiply(Sum<V>{m, ((1 - m) - z.high) - z.low}, w);
  // Below 1 the factor a has gone into log Gamma(a + 1).
  sine = multiply(two_product(where(a < 1, V(1), a), f), sine);
  Sum<V> log = log_sum_f64(sine.high);
  log.low = log.low + sine.low / sine.high;
  Sum<V> sum = add(positive, log);
  V reflected = where(f == 0, V(kInfinity), -(sum.high + sum.low));
  V value = where(negative, reflected, positive.high + positive.low);
  return where((a == 0) | (a == kInfinity), V(kInfinity), where(is_nan(x), x, value));
}

// digamma(y) for y > 0: the fit on [1, 2] keeps the zero at 1.4616; recurrence towards it from 0 and from 8,
// asymptotic series beyond. Where `shifted`, digamma(y) + 1/y = digamma(y + 1).
template <class V, class M>
inline Sum<V> digamma_sum_f64(V y, M shifted) {
  auto below = y < 1, beyond = y >= 8;
  Sum<V> inverse = reciprocal_sum(y);
  V x = where(beyond, V(1), y);
  V times = where(below, where(shifted, V(0), V(-1)), where(shifted, V(1), V(0)));
  Sum<V> sum = {times * inverse.high, times * inverse.low};
  for (int i = 0; i < 6; ++i) {
    auto high = x > 2;
    x = where(high, x - 1, x);
    Sum<V> term = reciprocal_sum(x);
    sum = add(sum, Sum<V>{where(high, term.high, V(0)), where(high, term.low, V(0))});
  }
  V t = where(below, y - 0.5, x - 1.5);
  // digamma(x) / (x - zero) in t = x - 3/2, error 2^-58.5
  Sum<V> h = linear_sum(
      0.95105587603183288,
      polynomial(t, 0.000121174881721727743, -0.000178331691777097972, 0.0000932923338844340966,
                 -0.000144658503223480087, 0.000325882789933891725, -0.000486033490529075347,
                 0.000690281311104961066, -0.00103643236362093816, 0.00156350360605951509,
                 -0.00234549977102249224, 0.00351808867196091174, -0.00527993664381149976,
                 0.00792702333083685884, -0.0119082201525510868, 0.0179072482353577434,
                 -0.0269757966576554402, 0.0407608339433991703, -0.0619221332755418723, 0.0949887244528496185,
                 -0.148404923053880298, 0.240542484240787237, -0.423627421281460602),
      t);
  h.low = h.low + 4.33074e-17;
  constexpr double kZero = 0x1.762d86356be3fp+0, kZeroTail = 0x1.b86a722197829p-54;
  V rough = where(below, y - (kZero - 1), x - kZero), distance = rough - kZeroTail;
  Sum<V> near = add(multiply(Sum<V>{distance, (rough - distance) - kZeroTail}, h), sum);
  V v = inverse.high * inverse.high;
  // (digamma(y) - log y + 1/(2y)) y^2 in 1/y^2, y >= 8, error 2^-62.2
  V series = polynomial(v, 0.299816027049613353, -0.0800447897777286539, 0.0210515223037650972,
                        -0.00757546485261303107, 0.00416666552860328962, -0.00396825396607061188,
                        0.0083333333333317339, -0.0833333333333333331);
  Sum<V> log = log_sum_f64(y);
  V far_low = log.low + fma(v, series, where(shifted, V(0.5), V(-0.5)) * inverse.high);
  return {where(beyond, log.high, near.high), where(beyond, far_low, near.low)};
}
// Reflection for negative x = -a: digamma(x) = digamma(a) + 1/a + pi cot(pi a). As torch: digamma(+-0) is -+infinity,
// negative integers give NaN.
template <class V>
V digamma_f64(V x) {
  V a = abs(x);
  auto negative = x < 0;
  Sum<V> positive = digamma_sum_f64(a, negative);
  V f = a - round_even(a);
  Sum<V> z = two_product(f, f);
  V m = 1 - z.high, m_low = ((1 - m) - z.high) - z.low;
  // 1/f - pi cot(pi f) = f (2/(1 - f^2) + S(f^2)), |f| <= 1/2, error of S 2^-59
  V s = polynomial(z.high, 2.62892764173626404e-6, 7.22757606884267182e-6, 0.0000306879741363662623,
                   0.000122473904985035962, 0.000492175599769093607, 0.00198915008698643345,
                   0.00815471240242878007, 0.0346861239687696327, 0.164646467422277364, 1.28986813369645287);
  V pole = 2 / m, pole_low = -(exact_fma(pole, m, V(-2)) + pole * m_low) / m;
  V both = pole + s;
  Sum<V> rest = multiply(Sum<V>{-f, V(0)}, Sum<V>{both, ((pole - both) + s) + pole_low});
  Sum<V> sum = add(add(reciprocal_sum(f), rest), positive);
  V reflected = where(f == 0, V(kNaN), sum.high + sum.low);
  V value = where(negative, reflected, positive.high + positive.low);
  value = where(a < 0x1p-60, -1 / x, value);
  return where(x < kInfinity, where(x > -kInfinity, value, V(kNaN)), x);
}

// A fit of 21 bits or more, then one step of Halley's method on erf (on erfc beyond 1/2) which triples them.
template <class V>
V erfinv_f64(V x) {
  V a = abs(x);
  V w = -log_f64((1 - a) * (1 + a));
  w = where(w < 37, w, V(37));
  // erfinv(a)/a in w - 3, w = -log(1 - a^2) <= 6, error 2^-27.2; in sqrt(w) - 4 beyond, error 2^-21.3
  V u = w - 3, s = sqrt(where(w < 6, V(6), w)) - 4;
  V central = polynomial(u, 6.5156699777042189e-10, -5.45079599189481282e-9, -1.89099631615556644e-8,
                         4.47965275103462904e-7, -1.77142498249670291e-6, -0.0000127057850999597629,
                         0.000195113968292745186, -0.000836200168980733469, -0.00573817899807164051,
                         0.241630412238338679, 1.62354201243072089);
  V tail =
      polynomial(s, -4.05984978405340917e-6, 0.0000243177548856096086, -0.0000519012309948001761,
                 0.0000547664369236360662, -0.0000909233602825721336, 0.000316336943563349349,
                 -0.00088381641097929635, 0.00126222585887044963, 1.00949557744487738, 3.83978366246188334);
  V y = a * where(w < 6, central, tail);
  // Below 1, erf y = y + y t and y - a is exact: the difference keeps the digits that erf itself would round away.
  auto central_part = a < 0.75;
  V inside = where(central_part, y, V(0));
  V error = where(central_part, fma(inside, erf_near_tail_f64(inside * inside), inside - a),
                  (1 - a) - erfc_tail_f64(y));
  V step = error * 0.886226925452758013649 * exp_f64(y * y);
  y = y - step / fma(y, step, 1);
  y = where(a == 1, V(kInfinity), where(a <= 1, y, V(kNaN)));
  return copysign(y, x);
}

template <class V>
V lgamma_f32(V x) {
  return to_f32(lgamma_f64(to_f64(x)));
}
template <class V>
V digamma_f32(V x) {
  return to_f32(digamma_f64(to_f64(x)));
}
template <class V>
V erfinv_f32(V x) {
  return to_f32(erfinv_f64(to_f64(x)));
}

}  // namespace weft::expr
