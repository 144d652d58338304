// Remainders and floored quotients of floats over a generic value V, with PyTorch's rules.
// Part of tensor/expr/math.h; stands on math_exponential.h for the powers of two.
#pragma once

#include "tensor/expr/math_exponential.h"

namespace weft::expr {

template <class V>
inline auto exponent_f64(V x) {
  auto tiny = x < 0x1p-1022;
  auto e = as_int(where(tiny, x * 0x1p54, x)) >> 52;
  return where(tiny, e - 54, e);
}

// One step of exact long division for finite r >= 0, b > 0 (b may be infinite): takes about 51 bits off r modulo b.
template <class V>
inline V remainder_step_f64(V r, V b) {
  auto shift = maximum(exponent_f64(r) - exponent_f64(b) - 51, 0);
  V scaled = scale_f64(b, shift);  // at most r 2^-50, exact
  V q = trunc(r / scaled);
  V next = exact_fma(-q, scaled, r);
  next = where(next < 0, next + scaled, next);  // the quotient was rounded up
  return where(r >= scaled, next, r);
}
// The steps after which every pair is done: exponents differ by 277 (float) or 2098 (double) at most.
inline constexpr int kRemainderStepsF32 = 6, kRemainderStepsF64 = 42;

template <class V>
struct RemainderStart {
  V r, b;
};
// |a| and |b| where a remainder exists, else 0 and 1.
template <class V>
inline RemainderStart<V> remainder_start(V a, V b) {
  auto defined = (abs(a) < kInfinity) & !(b == 0) & !is_nan(b);
  return {where(defined, abs(a), V(0)), where(defined, abs(b), V(1))};
}
// torch.fmod's value once r = |a| mod |b| is known: the sign of a, NaN where there is no remainder.
template <class V>
inline V trunc_mod_from(V a, V b, V r) {
  auto defined = (abs(a) < kInfinity) & !(b == 0) & !is_nan(b);
  return where(defined, copysign(r, a), V(kNaN));
}
// torch.remainder and torch.floor_divide from torch.fmod (ATen's div_floor_floating).
template <class V>
inline V floor_mod_from(V b, V mod) {
  return where((mod != 0) & ((b < 0) ^ (mod < 0)), mod + b, mod);
}
template <class V>
inline V floor_div_from(V a, V b, V mod) {
  V quotient = (a - mod) / b;
  quotient = where((mod != 0) & ((b < 0) ^ (mod < 0)), quotient - 1, quotient);
  V down = floor(quotient);
  down = where(quotient - down > 0.5, down + 1, down);
  V result = where(quotient != 0, down, copysign(V(0), a / b));
  return where(b == 0, a / b, result);
}

// Straight-line forms for printed code; a kernel stops as soon as no lane has r >= b.
template <class V>
V trunc_mod_f64(V a, V b) {
  auto [r, d] = remainder_start(a, b);
  for (int i = 0; i < kRemainderStepsF64; ++i) r = remainder_step_f64(r, d);
  return trunc_mod_from(a, b, r);
}
template <class V>
V trunc_mod_f32(V a, V b) {
  auto [r, d] = remainder_start(to_f64(a), to_f64(b));
  for (int i = 0; i < kRemainderStepsF32; ++i) r = remainder_step_f64(r, d);
  return trunc_mod_from(a, b, to_f32(r));
}

}  // namespace weft::expr
