// exp(x), sin(x), pow(x, y) … over Vec: the functions of tensor/expr/math.h, by element type.
// Each is one out-of-line function per element type and piece, so a file with many kernels compiles each body once.
#pragma once

#include "tensor/cpu/vec.h"
#include "tensor/cpu/vec_divide.h"
#include "tensor/expr/math.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

template <class E, class I, int L>
WEFT_INLINE auto lookup(const expr::Table<E>& table, Vec<I, L> index) {
  if constexpr (sizeof(E) == 8 && std::is_integral_v<E>) return gather((const int64_t*)table.data, index);
  else if constexpr (std::is_integral_v<E>) return gather((const int32_t*)table.data, index);
  else return gather(table.data, index);
}

namespace detail {

// Applies f to pieces of kChunk lanes. A noinline f then takes float pieces in one register.
template <class T, int L, class F, class... V>
WEFT_INLINE Vec<T, L> by_chunks(F f, Vec<T, L> x, V... more) {
  if constexpr (L == kChunk) {
    return f(x, more...);
  } else {
    Vec<T, L> result;
    each<L / kChunk>(
        [&](int k) { set_part<kChunk>(result, k, f(part<kChunk>(x, k), part<kChunk>(more, k)...)); });
    return result;
  }
}

}  // namespace detail

#define WEFT_VEC_FUNCTION(name)                                                          \
  namespace detail {                                                                     \
  template <class T>                                                                     \
  [[gnu::noinline]] Vec<T, kChunk> name##_chunk(Vec<T, kChunk> x) {                      \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(x);                            \
    else return expr::name##_f64(x);                                                     \
  }                                                                                      \
  }                                                                                      \
  template <class T, int L>                                                              \
  WEFT_INLINE Vec<T, L> name(Vec<T, L> x) {                                              \
    static_assert(std::is_floating_point_v<T>, #name " takes a float vector");           \
    return detail::by_chunks([](auto piece) { return detail::name##_chunk(piece); }, x); \
  }

WEFT_VEC_FUNCTION(exp)
WEFT_VEC_FUNCTION(exp2)
WEFT_VEC_FUNCTION(expm1)
WEFT_VEC_FUNCTION(log)
WEFT_VEC_FUNCTION(log2)
WEFT_VEC_FUNCTION(log10)
WEFT_VEC_FUNCTION(log1p)
WEFT_VEC_FUNCTION(asin)
WEFT_VEC_FUNCTION(acos)
WEFT_VEC_FUNCTION(atan)
WEFT_VEC_FUNCTION(sinh)
WEFT_VEC_FUNCTION(cosh)
WEFT_VEC_FUNCTION(tanh)
WEFT_VEC_FUNCTION(asinh)
WEFT_VEC_FUNCTION(acosh)
WEFT_VEC_FUNCTION(atanh)
WEFT_VEC_FUNCTION(erf)
WEFT_VEC_FUNCTION(erfc)
WEFT_VEC_FUNCTION(sigmoid)
WEFT_VEC_FUNCTION(lgamma)
WEFT_VEC_FUNCTION(digamma)
WEFT_VEC_FUNCTION(erfinv)
#undef WEFT_VEC_FUNCTION

// The reduction of huge arguments runs only when a lane needs it; no lane's value depends on the others.
#define WEFT_VEC_ANGLE_FUNCTION(name)                                                    \
  namespace detail {                                                                     \
  template <class T>                                                                     \
  [[gnu::noinline]] Vec<T, kChunk> name##_huge(Vec<T, kChunk> x) {                       \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(x);                            \
    else return expr::name##_f64(x);                                                     \
  }                                                                                      \
  template <class T>                                                                     \
  [[gnu::noinline]] Vec<T, kChunk> name##_chunk(Vec<T, kChunk> x) {                      \
    constexpr double limit = sizeof(T) == 4 ? expr::kModerateF32 : expr::kModerateF64;   \
    if (any(abs(x) > limit)) [[unlikely]]                                                \
      return name##_huge(x);                                                             \
    if constexpr (sizeof(T) == 4) return expr::name##_moderate_f32(x);                   \
    else return expr::name##_moderate_f64(x);                                            \
  }                                                                                      \
  }                                                                                      \
  template <class T, int L>                                                              \
  WEFT_INLINE Vec<T, L> name(Vec<T, L> x) {                                              \
    static_assert(std::is_floating_point_v<T>, #name " takes a float vector");           \
    return detail::by_chunks([](auto piece) { return detail::name##_chunk(piece); }, x); \
  }

WEFT_VEC_ANGLE_FUNCTION(sin)
WEFT_VEC_ANGLE_FUNCTION(cos)
WEFT_VEC_ANGLE_FUNCTION(tan)
#undef WEFT_VEC_ANGLE_FUNCTION

#define WEFT_VEC_BINARY_FUNCTION(name)                                                \
  namespace detail {                                                                  \
  template <class T>                                                                  \
  [[gnu::noinline]] Vec<T, kChunk> name##_chunk(Vec<T, kChunk> a, Vec<T, kChunk> b) { \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(a, b);                      \
    else return expr::name##_f64(a, b);                                               \
  }                                                                                   \
  template <class T, int L>                                                           \
  WEFT_INLINE Vec<T, L> name##_floating(Vec<T, L> a, Vec<T, L> b) {                   \
    return by_chunks([](auto p, auto q) { return name##_chunk(p, q); }, a, b);        \
  }                                                                                   \
  }

WEFT_VEC_BINARY_FUNCTION(atan2)
WEFT_VEC_BINARY_FUNCTION(pow)
#undef WEFT_VEC_BINARY_FUNCTION

namespace detail {
template <class T>
[[gnu::noinline]] Vec<T> pow_whole(Vec<T> a, Vec<T> b) {
  return expr::pow_integer(a, b, 8 * int(sizeof(T)));
}
}  // namespace detail

template <class T, int L>
WEFT_INLINE Vec<T, L> atan2(Vec<T, L> y, std::type_identity_t<Vec<T, L>> x) {
  return detail::atan2_floating(y, x);
}
template <class T, int L>
WEFT_INLINE Vec<T, L> pow(Vec<T, L> x, std::type_identity_t<Vec<T, L>> y) {
  if constexpr (std::is_floating_point_v<T>) return detail::pow_floating(x, y);
  else return detail::pow_whole(x, y);
}
// A scalar base or ordinate.
template <class T, int L>
WEFT_INLINE Vec<T, L> atan2(T y, Vec<T, L> x) {
  return detail::atan2_floating(Vec<T, L>(y), x);
}
template <class S, class T, int L>
requires std::is_arithmetic_v<S> WEFT_INLINE Vec<T, L> pow(S x, Vec<T, L> y) {
  return pow(Vec<T, L>(T(x)), y);
}

template <class T, int L>
WEFT_INLINE Vec<T, L> rsqrt(Vec<T, L> x) {
  return 1 / sqrt(x);
}
template <class T, int L>
WEFT_INLINE Vec<T, L> reciprocal(Vec<T, L> x) {
  return 1 / x;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
