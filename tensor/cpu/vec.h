// Vec<T>: sixteen lanes of float, double, int32_t or int64_t with operators, masks and casts, the same on every
// instruction set. Kernels include it in a file that the build compiles once per set; needs nothing but xsimd.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/cpu/vec_mask.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

// The math functions work on pieces of one register, which calls pass in a register.
template <class T>
inline constexpr int kChunk = kRegisterLanes<T>;

template <class To, class From, int L>
Vec<To, L> cast(Vec<From, L> x);

template <class T, int L = kLanes>
struct Vec {
  using value_type = T;
  using Int = IntOf<T>;
  using Unsigned = detail::Native<UnsignedOf<T>>;
  using Signed = detail::Native<Int>;
  using Raw = typename Register<T>::register_type;
  static constexpr bool kFloating = std::is_floating_point_v<T>;
  static constexpr int kBits = 8 * int(sizeof(T));
  static constexpr int kRegisters = L / kRegisterLanes<T>;
  Register<T> reg[kRegisters];

  Vec() = default;
  WEFT_INLINE Vec(T x) {
    Register<T> one(x);
    detail::each<kRegisters>([&](int i) { reg[i] = one; });
  }
  WEFT_INLINE static Vec load(const T* p) {
    WEFT_BY_REGISTER(Vec, Register<T>::load_unaligned(p + i * kRegisterLanes<T>));
  }
  WEFT_INLINE void store(T* p) const {
    detail::each<kRegisters>([&](int i) { reg[i].store_unaligned(p + i * kRegisterLanes<T>); });
  }
  // start, start + 1, …: the place of each lane.
  WEFT_INLINE static Vec iota(T start) {
    alignas(64) static constexpr T lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return load(lanes) + start;
  }
  T operator[](int lane) const {
    T lanes[L];
    store(lanes);
    return lanes[lane];
  }

  template <class F>
  WEFT_INLINE static Vec map(F f) {
    WEFT_BY_REGISTER(Vec, f(i));
  }
  // The register as the compiler's vectors: of T, of unsigned and of signed integers.
  WEFT_INLINE detail::Native<T> raw(int i) const { return (detail::Native<T>)reg[i].data; }
  WEFT_INLINE Unsigned u(int i) const { return (Unsigned)reg[i].data; }
  WEFT_INLINE Signed s(int i) const { return (Signed)reg[i].data; }

  // The operands of + - *: floats as they are, integers unsigned so that they wrap.
  WEFT_INLINE auto ring(int i) const {
    if constexpr (kFloating) return raw(i);
    else return u(i);
  }

  WEFT_INLINE friend Vec operator+(Vec a, Vec b) { WEFT_BY_REGISTER(Vec, (Raw)(a.ring(i) + b.ring(i))); }
  WEFT_INLINE friend Vec operator-(Vec a, Vec b) { WEFT_BY_REGISTER(Vec, (Raw)(a.ring(i) - b.ring(i))); }
  WEFT_INLINE friend Vec operator*(Vec a, Vec b) { WEFT_BY_REGISTER(Vec, (Raw)(a.ring(i) * b.ring(i))); }
  WEFT_INLINE friend Vec operator/(Vec a, Vec b) requires kFloating {
    WEFT_BY_REGISTER(Vec, (Raw)(a.raw(i) / b.raw(i)));
  }
  WEFT_INLINE friend Vec operator-(Vec a) { return neg(a); }
  WEFT_INLINE friend Vec operator+(Vec a) { return a; }
  WEFT_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  WEFT_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  WEFT_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
  WEFT_INLINE Vec& operator/=(Vec b) { return *this = *this / b; }

  WEFT_INLINE friend Vec operator&(Vec a, Vec b) requires(!kFloating) {
    WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) & b.u(i)));
  }
  WEFT_INLINE friend Vec operator|(Vec a, Vec b) requires(!kFloating) {
    WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) | b.u(i)));
  }
  WEFT_INLINE friend Vec operator^(Vec a, Vec b) requires(!kFloating) {
    WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) ^ b.u(i)));
  }
  WEFT_INLINE friend Vec operator~(Vec a) requires(!kFloating) { WEFT_BY_REGISTER(Vec, (Raw)(~a.u(i))); }

  // A count outside 0 … width-1 leaves zeros (<<) or the sign (>>).
  WEFT_INLINE friend Vec operator<<(Vec a, int count) requires(!kFloating) {
    if (unsigned(count) >= unsigned(kBits)) return Vec(T(0));
    WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) << UnsignedOf<T>(count)));
  }
  WEFT_INLINE friend Vec operator>>(Vec a, int count) requires(!kFloating) {
    if (unsigned(count) >= unsigned(kBits)) count = kBits - 1;
    return map([&](int i) {
      if constexpr (kBits == 32 || kRegisterBytes == 64) return (Raw)(a.s(i) >> T(count));
      Unsigned sign = (Unsigned)(a.s(i) < 0);  // no 64-bit arithmetic shift before AVX-512
      return (Raw)(((a.u(i) ^ sign) >> UnsignedOf<T>(count)) ^ sign);
    });
  }
  WEFT_INLINE friend Vec operator<<(Vec a, Vec count) requires(!kFloating) {
    return map([&](int i) {
      Unsigned inside = (Unsigned)(count.u(i) < UnsignedOf<T>(kBits));
      return (Raw)((a.u(i) << (count.u(i) & UnsignedOf<T>(kBits - 1))) & inside);
    });
  }
  WEFT_INLINE friend Vec operator>>(Vec a, Vec count) requires(!kFloating) {
    return map([&](int i) {
      Unsigned outside = (Unsigned)(count.u(i) >= UnsignedOf<T>(kBits));
      Unsigned sign = (Unsigned)(a.s(i) < 0);
      Unsigned n = (count.u(i) | outside) & UnsignedOf<T>(kBits - 1);
      return (Raw)(((a.u(i) ^ sign) >> n) ^ sign);
    });
  }

  template <Compare C>
  WEFT_INLINE static Mask<T, L> compare(Vec a, Vec b) {
    using Result = Mask<T, L>;
    WEFT_BY_REGISTER(Result, detail::compare<C>(a.reg[i], b.reg[i]));
  }
  WEFT_INLINE friend Mask<T, L> operator==(Vec a, Vec b) { return compare<Compare::Equal>(a, b); }
  WEFT_INLINE friend Mask<T, L> operator!=(Vec a, Vec b) { return compare<Compare::NotEqual>(a, b); }
  WEFT_INLINE friend Mask<T, L> operator<(Vec a, Vec b) { return compare<Compare::Less>(a, b); }
  WEFT_INLINE friend Mask<T, L> operator<=(Vec a, Vec b) { return compare<Compare::LessEqual>(a, b); }
  WEFT_INLINE friend Mask<T, L> operator>(Vec a, Vec b) { return compare<Compare::Greater>(a, b); }
  WEFT_INLINE friend Mask<T, L> operator>=(Vec a, Vec b) { return compare<Compare::GreaterEqual>(a, b); }

  template <class U>
  WEFT_INLINE friend Vec where(Mask<U, L> m, Vec a, Vec b) {
    Mask<T, L> mine = convert<T>(m);
    WEFT_BY_REGISTER(Vec, detail::select(mine.reg[i], a.reg[i], b.reg[i]));
  }

  // ---- primitives ------------------------------------------------------------------------------------------

  WEFT_INLINE friend Vec neg(Vec a) {
    if constexpr (kFloating) WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) ^ (UnsignedOf<T>(1) << (kBits - 1))));
    else WEFT_BY_REGISTER(Vec, (Raw)(0 - a.u(i)));
  }
  WEFT_INLINE friend Vec abs(Vec a) {
    if constexpr (kFloating) WEFT_BY_REGISTER(Vec, (Raw)(a.u(i) & (~UnsignedOf<T>(0) >> 1)));
    else
      return map([&](int i) {
        Unsigned sign = (Unsigned)(a.s(i) < 0);
        return (Raw)((a.u(i) ^ sign) - sign);
      });
  }
  // a * b + c, rounded once where the instruction set has FMA, twice on SSE4.
  WEFT_INLINE friend Vec fma(Vec a, Vec b, Vec c) {
    if constexpr (kFloating) WEFT_BY_REGISTER(Vec, detail::fma(a.reg[i], b.reg[i], c.reg[i]));
    else return a * b + c;
  }
  // a * b + c for error terms: exact wherever the result is representable, on SSE4 too.
  WEFT_INLINE friend Vec exact_fma(Vec a, Vec b, Vec c) requires kFloating {
#ifdef __FMA__
    return fma(a, b, c);
#else
    if constexpr (kBits == 32) {
      return cast<float>(cast<double>(a) * cast<double>(b) + cast<double>(c));
    } else {
      // Dekker's product by halves of 26 bits, then Knuth's sum; all 2^-60 smaller where a half could overflow.
      auto big = (abs(a) > 0x1p990) | (abs(b) > 0x1p990) | (abs(a * b) > 0x1p1000), first = abs(a) > abs(b);
      a = where(big & first, a * 0x1p-60, a), b = where(big & !first, b * 0x1p-60, b),
      c = where(big, c * 0x1p-60, c);
      Vec a1 = a * 0x1.0000002p27, b1 = b * 0x1.0000002p27;
      Vec a_high = a1 - (a1 - a), b_high = b1 - (b1 - b), a_low = a - a_high, b_low = b - b_high;
      Vec p = a * b, e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
      Vec s = p + c, t = s - p, r = (p - (s - t)) + (c - t);
      Vec sum = s + (e + r);
      sum = where(sum == sum, sum, s);
      return where(big, sum * 0x1p60, sum);
    }
#endif
  }
  WEFT_INLINE friend Vec sqrt(Vec a) requires kFloating { WEFT_BY_REGISTER(Vec, detail::sqrt(a.reg[i])); }

  template <int Mode>
  WEFT_INLINE static Vec round(Vec a) {
    if constexpr (kFloating) WEFT_BY_REGISTER(Vec, detail::round<Mode | _MM_FROUND_NO_EXC>(a.reg[i]));
    else return a;
  }
  WEFT_INLINE friend Vec floor(Vec a) { return round<_MM_FROUND_TO_NEG_INF>(a); }
  WEFT_INLINE friend Vec ceil(Vec a) { return round<_MM_FROUND_TO_POS_INF>(a); }
  WEFT_INLINE friend Vec trunc(Vec a) { return round<_MM_FROUND_TO_ZERO>(a); }
  WEFT_INLINE friend Vec round_even(Vec a) { return round<_MM_FROUND_TO_NEAREST_INT>(a); }

  WEFT_INLINE friend Mask<T, L> is_nan(Vec a) { return a != a; }

  // NaN in either operand gives NaN; -0 is less than +0. Both orders of the hardware's minimum together hold
  // every NaN and every -0, so "or" keeps them.
  WEFT_INLINE friend Vec minimum(Vec a, Vec b) {
    if constexpr (kFloating)
      return map([&](int i) {
        return (Raw)((Unsigned)detail::raw_min(a.reg[i], b.reg[i]).data |
                     (Unsigned)detail::raw_min(b.reg[i], a.reg[i]).data);
      });
    else return where(a < b, a, b);
  }
  WEFT_INLINE friend Vec maximum(Vec a, Vec b) {
    if constexpr (kFloating) {
      Vec ordered = map([&](int i) {
        return (Raw)((Unsigned)detail::raw_max(a.reg[i], b.reg[i]).data &
                     (Unsigned)detail::raw_max(b.reg[i], a.reg[i]).data);
      });
      return where(is_nan(a) | is_nan(b), a + b, ordered);
    } else {
      return where(a > b, a, b);
    }
  }
  WEFT_INLINE friend Vec copysign(Vec magnitude, Vec sign) requires kFloating {
    constexpr auto bit = UnsignedOf<T>(1) << (kBits - 1);
    WEFT_BY_REGISTER(Vec, (Raw)((magnitude.u(i) & ~bit) | (sign.u(i) & bit)));
  }

  // base[index[lane]] for small tables; the index has T's size.
  WEFT_INLINE friend Vec gather_same_size(const T* base, Vec<Int, L> index) {
    WEFT_BY_REGISTER(Vec, detail::gather(base, index.reg[i]));
  }
};

// ---- bits and conversions -----------------------------------------------------------------------------------

template <class To, class From, int L>
WEFT_INLINE Vec<To, L> bitcast(Vec<From, L> x) {
  static_assert(sizeof(To) == sizeof(From));
  return Vec<To, L>::map([&](int i) { return (typename Vec<To, L>::Raw)x.reg[i].data; });
}
template <class T, int L>
WEFT_INLINE Vec<IntOf<T>, L> as_int(Vec<T, L> x) {
  return bitcast<IntOf<T>>(x);
}
template <int L>
WEFT_INLINE Vec<float, L> as_float(Vec<int32_t, L> x) {
  return bitcast<float>(x);
}
template <int L>
WEFT_INLINE Vec<double, L> as_float(Vec<int64_t, L> x) {
  return bitcast<double>(x);
}

// Toward zero, for values known to fit: |x| < 2^31 for float, < 2^51 for double. Others give some integer.
template <class T, int L>
WEFT_INLINE Vec<IntOf<T>, L> to_int(Vec<T, L> x) {
  return Vec<IntOf<T>, L>::map([&](int i) { return detail::to_int(x.reg[i]); });
}
// Back, for |i| < 2^51.
template <int L>
WEFT_INLINE Vec<float, L> to_float(Vec<int32_t, L> x) {
  return Vec<float, L>::map([&](int i) { return detail::to_float(x.reg[i]); });
}
template <int L>
WEFT_INLINE Vec<double, L> to_float(Vec<int64_t, L> x) {
  return Vec<double, L>::map([&](int i) { return detail::to_float(x.reg[i]); });
}

namespace detail {

// One lane at a time, for conversions without an instruction.
template <class To, class From, int L, class F>
WEFT_INLINE Vec<To, L> by_lane(Vec<From, L> x, F f) {
  From in[L];
  To out[L];
  x.store(in);
  for (int i = 0; i < L; ++i) out[i] = f(in[i]);
  return Vec<To, L>::load(out);
}

inline int64_t saturate_to_int64(double x) {
  if (!(x > -0x1p63)) return x != x ? 0 : INT64_MIN;
  return x >= 0x1p63 ? INT64_MAX : int64_t(x);
}

}  // namespace detail

// Between element types. A float becomes an integer toward zero and saturates, NaN gives 0; integers wrap.
template <class To, class From, int L>
WEFT_INLINE Vec<To, L> cast(Vec<From, L> x) {
  using Result = Vec<To, L>;
  constexpr bool from_float = std::is_floating_point_v<From>, to_float_type = std::is_floating_point_v<To>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (from_float == to_float_type && sizeof(To) > sizeof(From)) {
    return Result::map(
        [&](int i) { return i % 2 ? detail::widen<1>(x.reg[i / 2]) : detail::widen<0>(x.reg[i / 2]); });
  } else if constexpr (from_float == to_float_type) {
    return Result::map([&](int i) { return detail::narrow(x.reg[2 * i], x.reg[2 * i + 1]); });
  } else if constexpr (std::is_same_v<From, int32_t>) {
    if constexpr (std::is_same_v<To, float>) return to_float(x);
    else
      return Result::map([&](int i) {
        return i % 2 ? detail::widen_to_double<1>(x.reg[i / 2]) : detail::widen_to_double<0>(x.reg[i / 2]);
      });
  } else if constexpr (std::is_same_v<From, int64_t>) {
    if constexpr (std::is_same_v<To, double> && kRegisterBytes == 64) return to_float(x);
    else return detail::by_lane<To>(x, [](int64_t value) { return To(value); });
  } else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, int32_t>) {
    Result fits = where(x >= 0x1p31f, std::numeric_limits<int32_t>::max(), to_int(x));
    return where(is_nan(x), 0, fits);
  } else if constexpr (std::is_same_v<From, float>) {
    return cast<int64_t>(cast<double>(x));
  } else if constexpr (std::is_same_v<To, int32_t>) {
    x = where(x < -0x1p31, -0x1p31, where(x > 2147483647.0, 2147483647.0, x));
    return cast<int32_t>(to_int(where(is_nan(x), 0.0, x)));
  } else if constexpr (kRegisterBytes == 64) {
    Result fits = where(x >= 0x1p63, std::numeric_limits<int64_t>::max(), to_int(x));
    return where(is_nan(x), 0, fits);
  } else {
    return detail::by_lane<int64_t>(x, [](double value) { return detail::saturate_to_int64(value); });
  }
}
template <class V>
WEFT_INLINE auto to_f64(V x) {
  return cast<double>(x);
}
template <class V>
WEFT_INLINE auto to_f32(V x) {
  return cast<float>(x);
}

// base[index[lane]]; every index must lie inside the table.
template <class T, class I, int L>
WEFT_INLINE Vec<T, L> gather(const T* base, Vec<I, L> index) {
  return gather_same_size(base, cast<IntOf<T>>(index));
}

// ---- pieces and reductions --------------------------------------------------------------------------------

// Lanes M*k … M*k+M-1.
template <int M, class T, int L>
WEFT_INLINE Vec<T, M> part(Vec<T, L> x, int k) {
  constexpr int n = Vec<T, M>::kRegisters;
  return Vec<T, M>::map([&](int i) { return x.reg[k * n + i]; });
}
template <int M, class T, int L>
WEFT_INLINE void set_part(Vec<T, L>& x, int k, Vec<T, M> piece) {
  constexpr int n = Vec<T, M>::kRegisters;
  detail::each<n>([&](int i) { x.reg[k * n + i] = piece.reg[i]; });
}

namespace detail {

// Lane i takes the value of lane i + K; the last K lanes hold anything.
template <int K, class T>
WEFT_INLINE Vec<T> shift_lanes_down(Vec<T> x) {
#if defined(__AVX512BW__)
  using Raw = typename Vec<T>::Raw;
  if constexpr (sizeof(T) == 4) {
    return Vec<T>::map(
        [&](int i) { return (Raw)_mm512_alignr_epi32((__m512i)x.reg[i].data, (__m512i)x.reg[i].data, K); });
  } else {
    return Vec<T>::map([&](int i) {
      auto from = (__m512i)x.reg[K == 8 ? 1 : i].data;
      return (Raw)_mm512_alignr_epi64(from, from, K % 8);
    });
  }
#else
  if constexpr (K >= kRegisterLanes<T>) {
    constexpr int n = Vec<T>::kRegisters;
    return Vec<T>::map([&](int i) { return x.reg[(i + K / kRegisterLanes<T>) % n]; });
  } else {
    T lanes[kLanes + K];
    x.store(lanes);
    std::memcpy(lanes + kLanes, lanes, sizeof(T) * K);
    return Vec<T>::load(lanes + K);
  }
#endif
}

}  // namespace detail

// Combines the lanes by one fixed tree: lane i with lane i + 8, then + 4, + 2, + 1.
template <class T, class Op>
WEFT_INLINE T reduce(Vec<T> x, Op op) {
  x = op(x, detail::shift_lanes_down<8>(x));
  x = op(x, detail::shift_lanes_down<4>(x));
  x = op(x, detail::shift_lanes_down<2>(x));
  x = op(x, detail::shift_lanes_down<1>(x));
  return x[0];
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
