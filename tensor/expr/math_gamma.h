// lgamma, digamma and erfinv over a generic value V, computed in double for both float types.
// Part of tensor/expr/math.h; stands on the exponential, trigonometric and error functions.
#pragma once

#include "tensor/expr/math_special.h"

namespace weft::expr {

// log |Gamma(y)| for y > 0: a fit on [1, 3] that keeps both zeros, recurrence towards it from 0 and from 8,
// Stirling's series beyond.
template <class V>
inline V lgamma_positive_f64(V y) {
  auto below = y < 1, beyond = y >= 8;
  V x = where(below, y + 1, where(beyond, V(2), y)), product(1);
  for (int i = 0; i < 5; ++i) {
    auto high = x > 3;
    x = where(high, x - 1, x);
    product = where(high, product * x, product);
  }
  V log_value = log_f64(where(below | beyond, y, product));
  V t = x - 2;
  // log Gamma(x) / ((x - 1) (x - 2)) in x - 2, error 2^-58.0
  V g = polynomial(
      t, -8.78005489257341262e-10, 1.58169948259361508e-9, 2.86769686835042794e-9, -4.3580892285834305e-9,
      -1.01468929408363368e-8, 1.63249413559343848e-8, 1.31337129999328914e-9, 5.69290100535649426e-9,
      -5.44349662031269361e-8, 1.04438067108119532e-7, -1.84268803844738609e-7, 3.95724529166435743e-7,
      -8.56487140904171508e-7, 1.81147495271322086e-6, -3.84613713810275172e-6, 8.2212058370182327e-6,
      -0.0000176619522500759324, 0.0000381690830973033539, -0.0000830950835154151659, 0.000182552614448264522,
      -0.000405707401678875635, 0.000915376924121029283, -0.00210813083372530444, 0.00499864116462342525,
      -0.01238419219337724, 0.0329650006211569741, -0.100317301674353875, 0.422784335098467136);
  V near = (x - 1) * t * g + where(below, -log_value, log_value);
  V inverse = 1 / y, v = inverse * inverse;
  // (log Gamma(y) - (y - 1/2)(log y - 1) - log(2 pi)/2 + 1/2) y in 1/y^2, y >= 8, error 2^-60.6
  V series = polynomial(v, 0.00506926532243708969, -0.00189054082635335386, 0.000841472866868924315,
                        -0.000595236607115593264, 0.000793650789835555569, -0.00277777777777410015,
                        0.0833333333333333328);
  V far = (y - 0.5) * (log_value - 1) + fma(inverse, series, 0.418938533204672741780);
  return where(beyond, far, near);
}
// Reflection for negative x: log |Gamma(x)| = -log |Gamma(1 - x)| - log |sin(pi x) / pi|. Poles give infinity.
template <class V>
V lgamma_f64(V x) {
  V a = abs(x);
  auto negative = x < 0;
  V positive = lgamma_positive_f64(where(negative, 1 + a, a));
  V sine = abs(sin_moderate_f64((a - round_even(a)) * kPi)) * 0.318309886183790671538;
  V reflected = -positive - log_f64(sine);
  reflected = where(sine == 0, V(kInfinity), reflected);
  return where(a == kInfinity, a, where(negative, reflected, positive));
}

// The fit on [1, 2] keeps the zero at 1.4616; recurrence towards it from 0 and from 8, asymptotic series beyond.
template <class V>
inline V digamma_positive_f64(V y) {
  auto below = y < 1, beyond = y >= 8;
  V x = where(below, y + 1, where(beyond, V(1), y));
  // sum of 1/x as one quotient
  V numerator(0), denominator(1);
  for (int i = 0; i < 6; ++i) {
    auto high = x > 2;
    x = where(high, x - 1, x);
    numerator = where(high, fma(numerator, x, denominator), numerator);
    denominator = where(high, denominator * x, denominator);
  }
  V t = x - 1.5;
  // digamma(x) / (x - zero) in x - 3/2, error 2^-53.4
  V h = polynomial(t, 0.000267787173965803242, -0.00037871125026206814, 0.000217106033899279665,
                   -0.000354383050224095116, 0.000728706039640676133, -0.00107787667481575375,
                   0.00155504982807315285, -0.00233750057883094484, 0.00351928749903904175,
                   -0.00528091153894853408, 0.00792691373522508248, -0.0119081456800280324,
                   0.0179072545085365364, -0.0269758000775131271, 0.0407608337328847264,
                   -0.0619221331892127724, 0.0949887244564934982, -0.148404923054879699, 0.240542484240762471,
                   -0.423627421281457194, 0.951055876031832907);
  V zero_distance = (x - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54;
  V sum = where(below, V(-1), numerator) / where(below, y, denominator);
  V near = fma(zero_distance, h, sum);
  V inverse = 1 / y, v = inverse * inverse;
  // (digamma(y) - log y + 1/(2y)) y^2 in 1/y^2, y >= 8, error 2^-62.2
  V series = polynomial(v, 0.299816027049613353, -0.0800447897777286539, 0.0210515223037650972,
                        -0.00757546485261303107, 0.00416666552860328962, -0.00396825396607061188,
                        0.0083333333333317339, -0.0833333333333333331);
  V far = log_f64(y) + fma(v, series, -0.5 * inverse);
  return where(beyond, far, near);
}
// As torch: digamma(+-0) is -+infinity, negative integers give NaN.
template <class V>
V digamma_f64(V x) {
  auto negative = x < 0;
  V positive = digamma_positive_f64(where(negative, 1 - x, x));
  V fraction = x - round_even(x);
  V reflected = positive - kPi / tan_moderate_f64(fraction * kPi);
  reflected = where(fraction == 0, V(kNaN), reflected);
  return where(x == 0, copysign(V(kInfinity), -x), where(negative, reflected, positive));
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
  V error = where(a < 0.5, erf_near_f64(where(y < 1, y, V(0))) - a, (1 - a) - erfc_tail_f64(y));
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
