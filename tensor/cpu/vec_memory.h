// Loads and stores of every element type as vectors, whole and partial, with the conversions between them.
// Stands on tensor/cpu/vec.h; kernels read a tensor of any dtype through it.
#pragma once

#include "tensor/base/dtype.h"
#include "tensor/cpu/vec.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

namespace detail {

template <class S>
struct ComputeTypeOf {
  using type = int32_t;
};
template <>
struct ComputeTypeOf<float> {
  using type = float;
};
template <>
struct ComputeTypeOf<double> {
  using type = double;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeTypeOf<Float16> {
  using type = float;
};
template <>
struct ComputeTypeOf<int64_t> {
  using type = int64_t;
};

}  // namespace detail

// The vector element in which values of an element type are computed: halves in float, small integers in int32_t.
template <class S>
using ComputeType = typename detail::ComputeTypeOf<S>::type;

namespace detail {

template <class S>
WEFT_INLINE Vec<ComputeType<S>> load_compute(const S* p) {
  using V = Vec<ComputeType<S>>;
  if constexpr (std::is_same_v<S, ComputeType<S>>) {
    return V::load(p);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    return V::map([&](int i) {
      return (typename V::Raw)((typename V::Unsigned)load_u16(p + i * kRegisterLanes<float>).data << 16);
    });
  } else if constexpr (std::is_same_v<S, Float16>) {
    return V::map([&](int i) { return load_f16(p + i * kRegisterLanes<float>); });
  } else {
    return V::map([&](int i) {
      const S* q = p + i * kRegisterLanes<int32_t>;
      if constexpr (std::is_same_v<S, int16_t>) return load_i16(q);
      else if constexpr (std::is_same_v<S, int8_t>) return load_i8(q);
      else return load_u8(q);
    });
  }
}

// Float rounded to odd: a later rounding to fewer digits then gives what rounding x once would.
WEFT_INLINE Vec<float> narrow_to_odd(Vec<double> x) {
  Vec<float> f = cast<float>(x);
  Vec<double> back = cast<double>(f);
  Vec<int32_t> bits = as_int(f);
  Vec<int32_t> toward_zero = where(abs(back) > abs(x), bits - 1, bits);
  return as_float(where((back != x) & !is_nan(x), toward_zero | 1, bits));
}

WEFT_INLINE void store_bf16(BFloat16* p, Vec<float> x) {
  using V = Vec<float>;
  Vec<int32_t> u = as_int(x);
  Vec<int32_t> rounded = u + 0x7fff + ((u >> 16) & 1);
  u = where(is_nan(x), u | 0x400000, rounded) >> 16;
  each<V::kRegisters>([&](int i) { store_low16(p + i * kRegisterLanes<float>, u.reg[i]); });
}

template <class S>
WEFT_INLINE void store_small(S* p, Vec<int32_t> x) {
  each<Vec<int32_t>::kRegisters>([&](int i) {
    if constexpr (sizeof(S) == 2) store_low16(p + i * kRegisterLanes<int32_t>, x.reg[i]);
    else store_low8(p + i * kRegisterLanes<int32_t>, x.reg[i]);
  });
}

}  // namespace detail

// Sixteen elements as a vector of C.
template <class C, class S>
WEFT_INLINE Vec<C> load_as(const S* p) {
  return cast<C>(detail::load_compute(p));
}

template <class T>
WEFT_INLINE void store_mask(bool* p, Mask<T> m) {
  detail::store_small(p, where(m, Vec<int32_t>(1), Vec<int32_t>(0)));
}

// Sixteen lanes as elements of S. To a half: rounded to nearest even, once. A float to an integer type: toward zero,
// saturating in that type's range, NaN gives 0. An integer to a smaller one: modulo its range. To bool: x != 0.
template <class S, class C>
WEFT_INLINE void store_as(S* p, Vec<C> x) {
  constexpr bool from_float = std::is_floating_point_v<C>;
  if constexpr (std::is_same_v<S, bool>) {
    store_mask(p, x != 0);
  } else if constexpr (std::is_same_v<S, C>) {
    x.store(p);
  } else if constexpr (std::is_same_v<S, BFloat16> || std::is_same_v<S, Float16>) {
    Vec<float> f;
    if constexpr (std::is_same_v<C, float>) f = x;
    else f = detail::narrow_to_odd(cast<double>(x));
    if constexpr (std::is_same_v<S, BFloat16>) detail::store_bf16(p, f);
    else
      detail::each<Vec<float>::kRegisters>(
          [&](int i) { detail::store_f16(p + i * kRegisterLanes<float>, f.reg[i]); });
  } else if constexpr (sizeof(S) >= 4) {
    cast<S>(x).store(p);
  } else if constexpr (from_float) {
    Vec<int32_t> whole = cast<int32_t>(x);
    constexpr int low = std::numeric_limits<S>::min(), high = std::numeric_limits<S>::max();
    detail::store_small(p, minimum(maximum(whole, low), high));
  } else {
    detail::store_small(p, cast<int32_t>(x));
  }
}

// to[0, n) = from[0, n), for the few elements of a tail or of a row of a tile. A memcpy of unknown length is a call, or a
// string instruction that takes longer to begin than such a copy takes.
template <class S>
inline void copy_few(S* to, const S* from, int64_t n) {
  const auto copy = [&](auto count) {
    std::memcpy(static_cast<void*>(to), from, sizeof(S) * count());
    to += count(), from += count();
  };
  for (int64_t i = 0; i < n / kLanes; ++i) copy(std::integral_constant<size_t, kLanes>());
  static_assert(kLanes == 16);
  if (n & 8) copy(std::integral_constant<size_t, 8>());
  if (n & 4) copy(std::integral_constant<size_t, 4>());
  if (n & 2) copy(std::integral_constant<size_t, 2>());
  if (n & 1) copy(std::integral_constant<size_t, 1>());
}

// The first n elements (0 <= n <= 16), the other lanes filled; nothing beyond them is touched.
template <class C, class S>
WEFT_INLINE Vec<C> load_partial(const S* p, int n, C fill) {
  S elements[kLanes];
  std::memset(static_cast<void*>(elements), 0, sizeof(elements));
  copy_few<S>(elements, p, n);
  Mask<C> inside = Mask<C>::from_bits((1u << n) - 1);
  return where(inside, load_as<C>(static_cast<const S*>(elements)), fill);
}
template <class S, class C>
WEFT_INLINE void store_partial(S* p, Vec<C> x, int n) {
  S elements[kLanes];
  store_as(elements, x);
  copy_few<S>(p, elements, n);
}
template <class T>
WEFT_INLINE void store_mask_partial(bool* p, Mask<T> m, int n) {
  bool elements[kLanes];
  store_mask(elements, m);
  copy_few<bool>(p, elements, n);
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
