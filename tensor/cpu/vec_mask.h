// Mask<T>: sixteen truth values that select lanes of a Vec<T>, whatever the instruction set.
// Stands on vec_register.h; tensor/cpu/vec.h includes it.
#pragma once

#include "tensor/cpu/vec_register.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

// Every vector has 16 lanes on every instruction set, so that reductions combine in one order everywhere.
inline constexpr int kLanes = 16;

template <class T, int L>
struct Vec;

namespace detail {

// f(0) … f(N-1), unrolled by the front end: N is 1, 2, 4 or 8.
template <int N, class F>
WEFT_INLINE void each(F f) {
  f(0);
  if constexpr (N > 1) f(1);
  if constexpr (N > 2) f(2), f(3);
  if constexpr (N > 4) f(4), f(5), f(6), f(7);
}

}  // namespace detail

// Returns a vector or mask whose register i is the expression, written out for each register: as functions of i they would be
// layers of calls to inline, of which each kernel has hundreds (the pointwise kernels: 20 s to compile, and 15 s this way).
#define WEFT_SET_REGISTER(k, ...) \
  if constexpr (kRegisters > k) { \
    constexpr int i = k;          \
    result.reg[i] = __VA_ARGS__;  \
  }
#define WEFT_BY_REGISTER(Type, ...)   \
  do {                                \
    Type result;                      \
    WEFT_SET_REGISTER(0, __VA_ARGS__) \
    WEFT_SET_REGISTER(1, __VA_ARGS__) \
    WEFT_SET_REGISTER(2, __VA_ARGS__) \
    WEFT_SET_REGISTER(3, __VA_ARGS__) \
    WEFT_SET_REGISTER(4, __VA_ARGS__) \
    WEFT_SET_REGISTER(5, __VA_ARGS__) \
    WEFT_SET_REGISTER(6, __VA_ARGS__) \
    WEFT_SET_REGISTER(7, __VA_ARGS__) \
    return result;                    \
  } while (false)

template <class T, int L = kLanes>
struct Mask {
  static constexpr int kRegisters = L / kRegisterLanes<T>;
  MaskRegister<T> reg[kRegisters];

  Mask() = default;
  WEFT_INLINE Mask(bool value) { *this = from_bits(value ? ~0u : 0u); }

  // Bit i of the number is lane i.
  WEFT_INLINE static Mask from_bits(uint32_t bits) {
    WEFT_BY_REGISTER(Mask, detail::mask_from_bits<T>(bits >> (i * kRegisterLanes<T>)));
  }
  WEFT_INLINE uint32_t bits() const {
    uint32_t all = 0;
    detail::each<kRegisters>([&](int i) { all |= detail::mask_bits<T>(reg[i]) << (i * kRegisterLanes<T>); });
    return all;
  }
  bool operator[](int lane) const { return (bits() >> lane) & 1; }

  template <class F>
  WEFT_INLINE static Mask map(F f) {
    WEFT_BY_REGISTER(Mask, f(i));
  }

  WEFT_INLINE friend Mask operator&(Mask a, Mask b) {
    WEFT_BY_REGISTER(Mask, detail::mask_and<T>(a.reg[i], b.reg[i]));
  }
  WEFT_INLINE friend Mask operator|(Mask a, Mask b) {
    WEFT_BY_REGISTER(Mask, detail::mask_or<T>(a.reg[i], b.reg[i]));
  }
  WEFT_INLINE friend Mask operator^(Mask a, Mask b) {
    WEFT_BY_REGISTER(Mask, detail::mask_xor<T>(a.reg[i], b.reg[i]));
  }
  WEFT_INLINE friend Mask operator!(Mask a) { WEFT_BY_REGISTER(Mask, detail::mask_not<T>(a.reg[i])); }
  WEFT_INLINE friend Mask operator~(Mask a) { return !a; }
  WEFT_INLINE friend Mask operator&&(Mask a, Mask b) { return a & b; }
  WEFT_INLINE friend Mask operator||(Mask a, Mask b) { return a | b; }

  WEFT_INLINE friend bool any(Mask a) { return a.bits() != 0; }
  WEFT_INLINE friend bool all(Mask a) { return a.bits() == (1u << L) - 1; }
  // Both arms scalars: the result has the element type of the compared values.
  WEFT_INLINE friend Vec<T, L> where(Mask m, T a, T b) { return where(m, Vec<T, L>(a), Vec<T, L>(b)); }
};

// The same lanes as a mask for another element type.
template <class To, class From, int L>
WEFT_INLINE Mask<To, L> convert(Mask<From, L> m) {
  if constexpr (std::is_same_v<To, From>) {
    return m;
  } else if constexpr (sizeof(To) == sizeof(From)) {
    return Mask<To, L>::map([&](int i) { return (detail::RawMask<To>)m.reg[i].data; });
  } else if constexpr (sizeof(To) > sizeof(From)) {
    return Mask<To, L>::map([&](int i) {
      return i % 2 ? detail::widen_mask<To, 1>(m.reg[i / 2]) : detail::widen_mask<To, 0>(m.reg[i / 2]);
    });
  } else {
    return Mask<To, L>::map([&](int i) { return detail::narrow_mask<To>(m.reg[2 * i], m.reg[2 * i + 1]); });
  }
}

template <class A, class B, int L>
requires(!std::is_same_v<A, B>) WEFT_INLINE Mask<A, L>
operator&(Mask<A, L> a, Mask<B, L> b) { return a & convert<A>(b); }
template <class A, class B, int L>
requires(!std::is_same_v<A, B>) WEFT_INLINE Mask<A, L>
operator|(Mask<A, L> a, Mask<B, L> b) { return a | convert<A>(b); }
template <class A, class B, int L>
requires(!std::is_same_v<A, B>) WEFT_INLINE Mask<A, L>
operator^(Mask<A, L> a, Mask<B, L> b) { return a ^ convert<A>(b); }

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
