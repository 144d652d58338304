// exp(x), sin(x), pow(x, y) … over Vec: the functions of tensor/expr/math.h, by element type.
// Each is one out-of-line function per element type and piece, which tile_math.isa.cpp compiles for all files of a set.
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

// Applies f to pieces of one register.
template <class T, int L, class F, class... V>
WEFT_INLINE Vec<T, L> by_chunks(F f, Vec<T, L> x, V... more) {
  if constexpr (L == kChunk<T>) {
    return f(x, more...);
  } else {
    Vec<T, L> result;
    each<L / kChunk<T>>([&](int k) {
      set_part<kChunk<T>>(result, k, f(part<kChunk<T>>(x, k), part<kChunk<T>>(more, k)...));
    });
    return result;
  }
}

}  // namespace detail

#define WEFT_VEC_FUNCTION(name)                                                             \
  namespace detail {                                                                        \
  template <class T>                                                                        \
  [[gnu::noinline, gnu::flatten]] Vec<T, kChunk<T>> name##_chunk(Vec<T, kChunk<T>> x) {     \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(x);                               \
    else return expr::name##_f64(x);                                                        \
  }                                                                                         \
  }                                                                                         \
  template <class T, int L>                                                                 \
  WEFT_INLINE Vec<T, L> name(Vec<T, L> x) {                                                 \
    static_assert(std::is_floating_point_v<T>, #name " takes a float vector");              \
    return detail::by_chunks([](auto piece) { return detail::name##_chunk<T>(piece); }, x); \
  }

// Beside each: the largest error seen for float and for double, in units of the last place, on sets with fma.
WEFT_VEC_FUNCTION(exp)      // 0.96, 0.96
WEFT_VEC_FUNCTION(exp2)     // 0.74, 0.89
WEFT_VEC_FUNCTION(expm1)    // 1.34, 1.79
WEFT_VEC_FUNCTION(log)      // 0.81, 0.79
WEFT_VEC_FUNCTION(log2)     // 1.29, 0.74
WEFT_VEC_FUNCTION(log10)    // 0.51, 0.67
WEFT_VEC_FUNCTION(log1p)    // 1.44, 1.29
WEFT_VEC_FUNCTION(asin)     // 0.51, 1.85
WEFT_VEC_FUNCTION(acos)     // 0.51, 1.08
WEFT_VEC_FUNCTION(atan)     // 1.46, 1.44
WEFT_VEC_FUNCTION(sinh)     // 0.51, 2.26
WEFT_VEC_FUNCTION(cosh)     // 0.51, 1.30
WEFT_VEC_FUNCTION(tanh)     // 1.26, 2.41
WEFT_VEC_FUNCTION(asinh)    // 0.51, 1.83
WEFT_VEC_FUNCTION(acosh)    // 0.51, 2.06
WEFT_VEC_FUNCTION(atanh)    // 0.51, 1.85
WEFT_VEC_FUNCTION(erf)      // 1.08, 1.11
WEFT_VEC_FUNCTION(erfc)     // 0.51, 1.80
WEFT_VEC_FUNCTION(sigmoid)  // 1.51, 2.26
WEFT_VEC_FUNCTION(lgamma)   // 0.51, 1.15 away from the zeros for x < 0
WEFT_VEC_FUNCTION(digamma)  // 0.51, 0.85 away from the zeros for x < 0
WEFT_VEC_FUNCTION(erfinv)   // 0.51, 1.05
#undef WEFT_VEC_FUNCTION

// The reduction of huge arguments runs only when a lane needs it; no lane's value depends on the others.
#define WEFT_VEC_ANGLE_FUNCTION(name)                                                       \
  namespace detail {                                                                        \
  template <class T>                                                                        \
  [[gnu::noinline, gnu::flatten]] Vec<T, kChunk<T>> name##_huge(Vec<T, kChunk<T>> x) {      \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(x);                               \
    else return expr::name##_f64(x);                                                        \
  }                                                                                         \
  template <class T>                                                                        \
  [[gnu::noinline, gnu::flatten]] Vec<T, kChunk<T>> name##_chunk(Vec<T, kChunk<T>> x) {     \
    constexpr double limit = sizeof(T) == 4 ? expr::kModerateF32 : expr::kModerateF64;      \
    if (any(abs(x) > limit)) [[unlikely]]                                                   \
      return name##_huge<T>(x);                                                             \
    if constexpr (sizeof(T) == 4) return expr::name##_moderate_f32(x);                      \
    else return expr::name##_moderate_f64(x);                                               \
  }                                                                                         \
  }                                                                                         \
  template <class T, int L>                                                                 \
  WEFT_INLINE Vec<T, L> name(Vec<T, L> x) {                                                 \
    static_assert(std::is_floating_point_v<T>, #name " takes a float vector");              \
    return detail::by_chunks([](auto piece) { return detail::name##_chunk<T>(piece); }, x); \
  }

WEFT_VEC_ANGLE_FUNCTION(sin)  // 1.56, 0.76
WEFT_VEC_ANGLE_FUNCTION(cos)  // 1.54, 0.77
WEFT_VEC_ANGLE_FUNCTION(tan)  // 0.51, 1.96
#undef WEFT_VEC_ANGLE_FUNCTION

#define WEFT_VEC_BINARY_FUNCTION(name)                                                                       \
  namespace detail {                                                                                         \
  template <class T>                                                                                         \
  [[gnu::noinline, gnu::flatten]] Vec<T, kChunk<T>> name##_chunk(Vec<T, kChunk<T>> a, Vec<T, kChunk<T>> b) { \
    if constexpr (sizeof(T) == 4) return expr::name##_f32(a, b);                                             \
    else return expr::name##_f64(a, b);                                                                      \
  }                                                                                                          \
  template <class T, int L>                                                                                  \
  WEFT_INLINE Vec<T, L> name##_floating(Vec<T, L> a, Vec<T, L> b) {                                          \
    return by_chunks([](auto p, auto q) { return name##_chunk<T>(p, q); }, a, b);                            \
  }                                                                                                          \
  }

WEFT_VEC_BINARY_FUNCTION(atan2)  // 0.51, 1.40
WEFT_VEC_BINARY_FUNCTION(pow)    // 0.51, 1.30
#undef WEFT_VEC_BINARY_FUNCTION

namespace detail {
template <class T>
[[gnu::noinline, gnu::flatten]] Vec<T> pow_whole(Vec<T> a, Vec<T> b) {
  return expr::pow_integer(a, b, 8 * int(sizeof(T)));
}
}  // namespace detail

// The bodies take seconds to compile: one file has them, the others only call.
#ifdef WEFT_VEC_MATH_BODIES
#  define WEFT_VEC_EXTERN
#else
#  define WEFT_VEC_EXTERN extern
#endif
namespace detail {
#define WEFT_VEC_FUNCTION(name)                                                                      \
  WEFT_VEC_EXTERN template Vec<float, kChunk<float>> name##_chunk<float>(Vec<float, kChunk<float>>); \
  WEFT_VEC_EXTERN template Vec<double, kChunk<double>> name##_chunk<double>(Vec<double, kChunk<double>>);
WEFT_VEC_FUNCTION(exp)
WEFT_VEC_FUNCTION(exp2)
WEFT_VEC_FUNCTION(expm1)
WEFT_VEC_FUNCTION(log)
WEFT_VEC_FUNCTION(log2)
WEFT_VEC_FUNCTION(log10)
WEFT_VEC_FUNCTION(log1p)
WEFT_VEC_FUNCTION(sin)
WEFT_VEC_FUNCTION(cos)
WEFT_VEC_FUNCTION(tan)
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
WEFT_VEC_FUNCTION(erfinv)
WEFT_VEC_FUNCTION(sigmoid)
WEFT_VEC_FUNCTION(lgamma)
WEFT_VEC_FUNCTION(digamma)
#undef WEFT_VEC_FUNCTION
#define WEFT_VEC_BINARY_FUNCTION(name)                                                                   \
  WEFT_VEC_EXTERN template Vec<float, kChunk<float>> name##_chunk<float>(Vec<float, kChunk<float>>,      \
                                                                         Vec<float, kChunk<float>>);     \
  WEFT_VEC_EXTERN template Vec<double, kChunk<double>> name##_chunk<double>(Vec<double, kChunk<double>>, \
                                                                            Vec<double, kChunk<double>>);
WEFT_VEC_BINARY_FUNCTION(atan2)
WEFT_VEC_BINARY_FUNCTION(pow)
WEFT_VEC_BINARY_FUNCTION(fmod)
#undef WEFT_VEC_BINARY_FUNCTION
WEFT_VEC_EXTERN template Vec<int32_t> pow_whole<int32_t>(Vec<int32_t>, Vec<int32_t>);
WEFT_VEC_EXTERN template Vec<int64_t> pow_whole<int64_t>(Vec<int64_t>, Vec<int64_t>);
}  // namespace detail
#undef WEFT_VEC_EXTERN

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
