// floor_div, floor_mod, trunc_div and trunc_mod over Vec; nothing here traps.
// Stands on tensor/cpu/vec.h; tensor/cpu/vec_math.h includes it. Integers: the quotient of a division by zero is
// unspecified (callers check before), the smallest integer over -1 wraps.
#pragma once

#include "tensor/cpu/vec.h"
#include "tensor/expr/math_division.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

namespace detail {

// 32-bit quotients are exact in double: a quotient that is no integer is 2^-31 away from the next.
[[gnu::noinline]] inline Vec<int32_t> quotient(Vec<int32_t> a, Vec<int32_t> b, bool down) {
  Vec<double> q = cast<double>(a) / cast<double>(b);
  q = down ? floor(q) : trunc(q);
  return cast<int32_t>(to_int(where(abs(q) <= 0x1p31, q, 0)));
}
[[gnu::noinline]] inline Vec<int64_t> quotient(Vec<int64_t> a, Vec<int64_t> b, bool down) {
  int64_t x[kLanes], y[kLanes];
  a.store(x);
  b.store(y);
  for (int i = 0; i < kLanes; ++i) {
    int64_t n = x[i], d = y[i];
    if (d == 0 || d == -1) {
      x[i] = d == 0 ? 0 : int64_t(0 - uint64_t(n));
    } else {
      x[i] = n / d - (down && n % d != 0 && (n < 0) != (d < 0));
    }
  }
  return Vec<int64_t>::load(x);
}

// torch.fmod.
template <class T>
[[gnu::noinline, gnu::flatten]] Vec<T, kChunk<T>> fmod_chunk(Vec<T, kChunk<T>> a, Vec<T, kChunk<T>> b) {
  auto [r, d] = expr::remainder_start(cast<double>(a), cast<double>(b));
  while (any(r >= d)) r = expr::remainder_step_f64(r, d);
  return expr::trunc_mod_from(a, b, cast<T>(r));
}
template <class T>
WEFT_INLINE Vec<T> fmod_floating(Vec<T> a, Vec<T> b) {
  Vec<T> result;
  each<kLanes / kChunk<T>>([&](int k) {
    set_part<kChunk<T>>(result, k, fmod_chunk<T>(part<kChunk<T>>(a, k), part<kChunk<T>>(b, k)));
  });
  return result;
}

}  // namespace detail

template <class T>
Vec<T> trunc_div(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  if constexpr (std::is_floating_point_v<T>) return trunc(a / b);
  else return detail::quotient(a, b, false);
}
template <class T>
Vec<T> trunc_mod(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  if constexpr (std::is_floating_point_v<T>) return detail::fmod_floating(a, b);
  else return a - detail::quotient(a, b, false) * b;
}
template <class T>
Vec<T> floor_div(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  if constexpr (std::is_floating_point_v<T>) return expr::floor_div_from(a, b, detail::fmod_floating(a, b));
  else return detail::quotient(a, b, true);
}
template <class T>
Vec<T> floor_mod(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  if constexpr (std::is_floating_point_v<T>) return expr::floor_mod_from(b, detail::fmod_floating(a, b));
  else return a - detail::quotient(a, b, true) * b;
}

// A scalar dividend.
template <class S, class T>
requires std::is_arithmetic_v<S> Vec<T> trunc_div(S a, Vec<T> b) { return trunc_div(Vec<T>(T(a)), b); }
template <class S, class T>
requires std::is_arithmetic_v<S> Vec<T> trunc_mod(S a, Vec<T> b) { return trunc_mod(Vec<T>(T(a)), b); }
template <class S, class T>
requires std::is_arithmetic_v<S> Vec<T> floor_div(S a, Vec<T> b) { return floor_div(Vec<T>(T(a)), b); }
template <class S, class T>
requires std::is_arithmetic_v<S> Vec<T> floor_mod(S a, Vec<T> b) { return floor_mod(Vec<T>(T(a)), b); }

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
