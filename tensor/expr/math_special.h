// erf and erfc over a generic value V.
// Part of tensor/expr/math.h; stands on math_trigonometric.h for two_product().
#pragma once

#include "tensor/expr/math_trigonometric.h"

namespace weft::expr {

template <class V>
V erf_f32(V x) {
  V a = abs(x), z = x * x;
  // erf(x)/x - 1 in x^2, |x| < 1, error 2^-29
  V near = fma(x,
               polynomial(z, 7.889119157e-5, -0.0008020845698, 0.005189536462, -0.02685444558, 0.1128360021,
                          -0.3761262714, 0.1283791659),
               x);
  // -log(erfc a), 1 <= a <= 4, error 2^-26; erf 4 rounds to 1
  V tail =
      polynomial(where(a > 4, V(4), a), -1.599791679e-6, 4.529753557e-5, -0.0005901983944, 0.004727665266,
                 -0.02632745702, 0.109909613, 0.6320135623, 1.130119649, -0.0002910100818);
  auto [n, p] = exp_parts_f32(-where(a < 1, V(1), tail));
  V far = 1 - (1 + p) * power_of_two_f32(to_int(n));
  return where(a < 1, near, copysign(far, x));
}

// erf(x)/x - 1 in z = x^2, |x| < 1, error 2^-63
template <class V>
inline V erf_near_tail_f64(V z) {
  return polynomial(z, 5.960685338518456e-11, -1.13749557360685777e-9, 1.46603287227418273e-8,
                    -1.63503962228645475e-7, 1.64610084778026943e-6, -0.0000149255957721809049,
                    0.000120553311329558196, -0.000854832698142554209, 0.00522397762482843067,
                    -0.0268661706450778751, 0.112837916709548845, -0.376126389031837482,
                    0.128379167095512574);
}
template <class V>
inline V erf_near_f64(V x) {
  return fma(x, erf_near_tail_f64(x * x), x);
}
// erfc a for a >= 1/2, its exponential underflowing as it should.
template <class V>
inline V erfc_tail_f64(V a) {
  a = where(a > 28, V(28), a);
  V q = (a - 4) / (a + 4);
  // (1 + 2a) exp(a^2) erfc(a) in q, 1/2 <= a <= 28, error 2^-60
  V p = polynomial(q, 1.87869491735395349e-9, -9.69175021468658424e-9, -1.811548189302671e-8,
                   1.03372792428304641e-7, 7.50109622004268417e-8, -8.19654559428152518e-7,
                   2.93432922621553736e-7, 5.70659743221366312e-6, -0.0000112218119983749352,
                   -0.0000243981015746505479, 0.000150621599601568321, -0.000199256953521194415,
                   -0.000757773272076495106, 0.00503197001652070576, -0.0161977340600084431,
                   0.0371675155340032879, -0.06633036581204306, 0.093732834998522658, -0.101039066036311549,
                   0.0680970542546887458, 0.0153796521026198609, -0.139621116840562488) *
        q;
  constexpr double kStart = 1.23299511862555251;
  V numerator = kStart + p, numerator_low = p - (numerator - kStart);
  // exp(-a^2) with both parts of the square; its 1 + p is multiplied out to save a rounding.
  auto [square, square_low] = two_product(a, a);
  V n = round_even(square * -kLog2E);
  V e = exp_remainder_f64(fma(n, -kLn2Low, fma(n, -kLn2High, -square)) - square_low);
  V d = fma(a, 2, 1), d_low = exact_fma(a, V(2), 1 - d), g = numerator / d;
  V g_low = ((exact_fma(-g, d, numerator) + numerator_low) - g * d_low) / d;
  return scale_f64(g + fma(e, g, g_low), to_int(n));
}
template <class V>
V erf_f64(V x) {
  V a = abs(x);
  return where(a < 1, erf_near_f64(x), copysign(1 - erfc_tail_f64(a), x));
}
template <class V>
V erfc_f64(V x) {
  V a = abs(x), tail = erfc_tail_f64(a);  // 1 - erf loses a bit where erf exceeds 0.7
  return where(a < 0.7, 1 - erf_near_f64(x), where(x < 0, 2 - tail, tail));
}
template <class V>
V erfc_f32(V x) {
  return to_f32(erfc_f64(to_f64(x)));
}

}  // namespace weft::expr
