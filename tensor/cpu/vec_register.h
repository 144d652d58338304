// One hardware register: the few operations whose spelling depends on the instruction set.
// Lowest floor of tensor/cpu/vec.h, which builds 16-lane vectors from these; nothing else includes it.
#pragma once

// GCC 12 takes the undefined source operands of its own AVX-512 intrinsics for mistakes (PR 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#ifndef WEFT_ISA_NAMESPACE
#  error "the build names the instruction set: WEFT_ISA_NAMESPACE is isa_sse4, isa_avx2 or isa_avx512"
#endif

#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {

#if defined(__AVX512BW__)
using Arch = xsimd::avx512bw;
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
using Arch = xsimd::fma3<xsimd::avx2>;
inline constexpr int kRegisterBytes = 32;
#else
using Arch = xsimd::sse4_2;
inline constexpr int kRegisterBytes = 16;
#endif

template <class T>
using Register = xsimd::batch<T, Arch>;
template <class T>
using MaskRegister = xsimd::batch_bool<T, Arch>;

template <class T>
inline constexpr int kRegisterLanes = kRegisterBytes / int(sizeof(T));

// The integer with T's bits, signed and unsigned.
template <class T>
using IntOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <class T>
using UnsignedOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

enum class Compare { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

namespace detail {

// The compiler's own vector type: its operators on unsigned elements wrap and never trap.
template <class T, int Bytes = kRegisterBytes>
struct NativeOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <class T, int Bytes = kRegisterBytes>
using Native = typename NativeOf<T, Bytes>::type;

using F32 = Register<float>;
using F64 = Register<double>;
using I32 = Register<int32_t>;
using I64 = Register<int64_t>;
using MaskF32 = MaskRegister<float>;
using MaskF64 = MaskRegister<double>;
using MaskI32 = MaskRegister<int32_t>;
using MaskI64 = MaskRegister<int64_t>;

template <class T>
using RawMask = typename MaskRegister<T>::register_type;

#if defined(__AVX512BW__)
// ---- AVX-512: 64-byte registers, masks of one bit a lane ----------------------------------------------

constexpr int float_predicate(Compare c) {
  constexpr int codes[] = {_CMP_EQ_OQ, _CMP_NEQ_UQ, _CMP_LT_OQ, _CMP_LE_OQ, _CMP_GT_OQ, _CMP_GE_OQ};
  return codes[int(c)];
}
constexpr int int_predicate(Compare c) {
  constexpr int codes[] = {_MM_CMPINT_EQ, _MM_CMPINT_NE,  _MM_CMPINT_LT,
                           _MM_CMPINT_LE, _MM_CMPINT_NLE, _MM_CMPINT_NLT};
  return codes[int(c)];
}
// The macro forms, so that the predicate is an immediate at -O0 too.
template <Compare C>
WEFT_INLINE MaskF32 compare(F32 a, F32 b) {
  constexpr int predicate = float_predicate(C);
  return __mmask16(_mm512_cmp_ps_mask(a, b, predicate));
}
template <Compare C>
WEFT_INLINE MaskF64 compare(F64 a, F64 b) {
  constexpr int predicate = float_predicate(C);
  return __mmask8(_mm512_cmp_pd_mask(a, b, predicate));
}
template <Compare C>
WEFT_INLINE MaskI32 compare(I32 a, I32 b) {
  constexpr int predicate = int_predicate(C);
  return __mmask16(_mm512_cmp_epi32_mask(a, b, predicate));
}
template <Compare C>
WEFT_INLINE MaskI64 compare(I64 a, I64 b) {
  constexpr int predicate = int_predicate(C);
  return __mmask8(_mm512_cmp_epi64_mask(a, b, predicate));
}

WEFT_INLINE F32 select(MaskF32 m, F32 a, F32 b) { return _mm512_mask_blend_ps(m.data, b, a); }
WEFT_INLINE F64 select(MaskF64 m, F64 a, F64 b) { return _mm512_mask_blend_pd(m.data, b, a); }
WEFT_INLINE I32 select(MaskI32 m, I32 a, I32 b) { return _mm512_mask_blend_epi32(m.data, b, a); }
WEFT_INLINE I64 select(MaskI64 m, I64 a, I64 b) { return _mm512_mask_blend_epi64(m.data, b, a); }

template <class T>
WEFT_INLINE MaskRegister<T> mask_and(MaskRegister<T> a, MaskRegister<T> b) {
  return RawMask<T>(a.data & b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_or(MaskRegister<T> a, MaskRegister<T> b) {
  return RawMask<T>(a.data | b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_xor(MaskRegister<T> a, MaskRegister<T> b) {
  return RawMask<T>(a.data ^ b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_not(MaskRegister<T> a) {
  return RawMask<T>(~a.data);
}
template <class T>
WEFT_INLINE uint32_t mask_bits(MaskRegister<T> a) {
  return uint32_t(a.data);
}
// Lane i is true where bit i is set; bits above the register are ignored.
template <class T>
WEFT_INLINE MaskRegister<T> mask_from_bits(uint32_t bits) {
  return RawMask<T>(bits);
}

WEFT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
WEFT_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
WEFT_INLINE F32 sqrt(F32 a) { return _mm512_sqrt_ps(a); }
WEFT_INLINE F64 sqrt(F64 a) { return _mm512_sqrt_pd(a); }
// The second operand is returned where either is NaN or both are zeros.
WEFT_INLINE F32 raw_min(F32 a, F32 b) { return _mm512_min_ps(a, b); }
WEFT_INLINE F64 raw_min(F64 a, F64 b) { return _mm512_min_pd(a, b); }
WEFT_INLINE F32 raw_max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
WEFT_INLINE F64 raw_max(F64 a, F64 b) { return _mm512_max_pd(a, b); }
template <int Mode>
WEFT_INLINE F32 round(F32 a) {
  return _mm512_roundscale_ps(a, Mode);
}
template <int Mode>
WEFT_INLINE F64 round(F64 a) {
  return _mm512_roundscale_pd(a, Mode);
}

WEFT_INLINE I32 to_int(F32 a) { return _mm512_cvttps_epi32(a); }
WEFT_INLINE I64 to_int(F64 a) { return _mm512_cvttpd_epi64(a); }
WEFT_INLINE F32 to_float(I32 a) { return _mm512_cvtepi32_ps(a); }
WEFT_INLINE F64 to_float(I64 a) { return _mm512_cvtepi64_pd(a); }

template <int Half>
WEFT_INLINE F64 widen(F32 a) {
  return _mm512_cvtps_pd(Half ? _mm512_extractf32x8_ps(a, 1) : _mm512_castps512_ps256(a));
}
template <int Half>
WEFT_INLINE I64 widen(I32 a) {
  return _mm512_cvtepi32_epi64(Half ? _mm512_extracti32x8_epi32(a, 1) : _mm512_castsi512_si256(a));
}
template <int Half>
WEFT_INLINE F64 widen_to_double(I32 a) {
  return _mm512_cvtepi32_pd(Half ? _mm512_extracti32x8_epi32(a, 1) : _mm512_castsi512_si256(a));
}
WEFT_INLINE F32 narrow(F64 a, F64 b) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a)), _mm512_cvtpd_ps(b), 1);
}
WEFT_INLINE I32 narrow(I64 a, I64 b) {
  return _mm512_inserti32x8(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(a)), _mm512_cvtepi64_epi32(b), 1);
}
// Masks between element sizes: 32 bits to 64 (one half) and back (two registers).
template <class To, int Half, class From>
WEFT_INLINE MaskRegister<To> widen_mask(MaskRegister<From> a) {
  return RawMask<To>(a.data >> (8 * Half));
}
template <class To, class From>
WEFT_INLINE MaskRegister<To> narrow_mask(MaskRegister<From> a, MaskRegister<From> b) {
  return RawMask<To>(_mm512_kunpackb(b.data, a.data));
}

WEFT_INLINE F32 gather(const float* base, I32 i) { return _mm512_i32gather_ps(i, base, 4); }
WEFT_INLINE I32 gather(const int32_t* base, I32 i) { return _mm512_i32gather_epi32(i, base, 4); }
WEFT_INLINE F64 gather(const double* base, I64 i) { return _mm512_i64gather_pd(i, base, 8); }
WEFT_INLINE I64 gather(const int64_t* base, I64 i) { return _mm512_i64gather_epi64(i, base, 8); }

WEFT_INLINE I32 load_u16(const void* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
}
WEFT_INLINE I32 load_i16(const void* p) {
  return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i*)p));
}
WEFT_INLINE I32 load_u8(const void* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)); }
WEFT_INLINE I32 load_i8(const void* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)); }
WEFT_INLINE void store_low16(void* p, I32 a) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(a)); }
WEFT_INLINE void store_low8(void* p, I32 a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a)); }
WEFT_INLINE F32 load_f16(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
WEFT_INLINE void store_f16(void* p, F32 a) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#else
// ---- SSE4.2 and AVX2: masks are registers of all-ones and all-zeros ----------------------------------

template <Compare C, class T>
WEFT_INLINE MaskRegister<T> compare(Register<T> x, Register<T> y) {
  auto a = (Native<T>)x.data, b = (Native<T>)y.data;
  if constexpr (C == Compare::Equal) return (RawMask<T>)(a == b);
  if constexpr (C == Compare::NotEqual) return (RawMask<T>)(a != b);
  if constexpr (C == Compare::Less) return (RawMask<T>)(a < b);
  if constexpr (C == Compare::LessEqual) return (RawMask<T>)(a <= b);
  if constexpr (C == Compare::Greater) return (RawMask<T>)(a > b);
  if constexpr (C == Compare::GreaterEqual) return (RawMask<T>)(a >= b);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_and(MaskRegister<T> a, MaskRegister<T> b) {
  return (RawMask<T>)((Native<int64_t>)a.data & (Native<int64_t>)b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_or(MaskRegister<T> a, MaskRegister<T> b) {
  return (RawMask<T>)((Native<int64_t>)a.data | (Native<int64_t>)b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_xor(MaskRegister<T> a, MaskRegister<T> b) {
  return (RawMask<T>)((Native<int64_t>)a.data ^ (Native<int64_t>)b.data);
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_not(MaskRegister<T> a) {
  return (RawMask<T>)(~(Native<int64_t>)a.data);
}

#  if defined(__AVX2__)
WEFT_INLINE F32 select(MaskF32 m, F32 a, F32 b) { return _mm256_blendv_ps(b, a, m); }
WEFT_INLINE F64 select(MaskF64 m, F64 a, F64 b) { return _mm256_blendv_pd(b, a, m); }
WEFT_INLINE I32 select(MaskI32 m, I32 a, I32 b) { return _mm256_blendv_epi8(b, a, m); }
WEFT_INLINE I64 select(MaskI64 m, I64 a, I64 b) { return _mm256_blendv_epi8(b, a, m); }
template <class T>
WEFT_INLINE uint32_t mask_bits(MaskRegister<T> a) {
  if constexpr (sizeof(T) == 4) return uint32_t(_mm256_movemask_ps((__m256)a.data));
  else return uint32_t(_mm256_movemask_pd((__m256d)a.data));
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_from_bits(uint32_t bits) {
  if constexpr (sizeof(T) == 4) {
    auto lane = (Native<int32_t>)_mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return (RawMask<T>)(((int32_t)bits & lane) == lane);
  } else {
    auto lane = (Native<int64_t>)_mm256_setr_epi64x(1, 2, 4, 8);
    return (RawMask<T>)(((long)bits & lane) == lane);
  }
}

WEFT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
WEFT_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
WEFT_INLINE F32 sqrt(F32 a) { return _mm256_sqrt_ps(a); }
WEFT_INLINE F64 sqrt(F64 a) { return _mm256_sqrt_pd(a); }
WEFT_INLINE F32 raw_min(F32 a, F32 b) { return _mm256_min_ps(a, b); }
WEFT_INLINE F64 raw_min(F64 a, F64 b) { return _mm256_min_pd(a, b); }
WEFT_INLINE F32 raw_max(F32 a, F32 b) { return _mm256_max_ps(a, b); }
WEFT_INLINE F64 raw_max(F64 a, F64 b) { return _mm256_max_pd(a, b); }
template <int Mode>
WEFT_INLINE F32 round(F32 a) {
  return _mm256_round_ps(a, Mode);
}
template <int Mode>
WEFT_INLINE F64 round(F64 a) {
  return _mm256_round_pd(a, Mode);
}
WEFT_INLINE I32 to_int(F32 a) { return _mm256_cvttps_epi32(a); }
WEFT_INLINE F32 to_float(I32 a) { return _mm256_cvtepi32_ps(a); }

template <int Half>
WEFT_INLINE F64 widen(F32 a) {
  return _mm256_cvtps_pd(Half ? _mm256_extractf128_ps(a, 1) : _mm256_castps256_ps128(a));
}
template <int Half>
WEFT_INLINE I64 widen(I32 a) {
  return _mm256_cvtepi32_epi64(Half ? _mm256_extracti128_si256(a, 1) : _mm256_castsi256_si128(a));
}
template <int Half>
WEFT_INLINE F64 widen_to_double(I32 a) {
  return _mm256_cvtepi32_pd(Half ? _mm256_extracti128_si256(a, 1) : _mm256_castsi256_si128(a));
}
WEFT_INLINE F32 narrow(F64 a, F64 b) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a)), _mm256_cvtpd_ps(b), 1);
}
WEFT_INLINE I32 narrow(I64 a, I64 b) {
  __m256 low = _mm256_shuffle_ps((__m256)a.data, (__m256)b.data, _MM_SHUFFLE(2, 0, 2, 0));
  return _mm256_permute4x64_epi64((__m256i)low, _MM_SHUFFLE(3, 1, 2, 0));
}

WEFT_INLINE F32 gather(const float* base, I32 i) { return _mm256_i32gather_ps(base, i, 4); }
WEFT_INLINE I32 gather(const int32_t* base, I32 i) { return _mm256_i32gather_epi32(base, i, 4); }
WEFT_INLINE F64 gather(const double* base, I64 i) { return _mm256_i64gather_pd(base, i, 8); }
WEFT_INLINE I64 gather(const int64_t* base, I64 i) {
  return _mm256_i64gather_epi64((const long long*)base, i, 8);
}

WEFT_INLINE I32 load_u16(const void* p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)); }
WEFT_INLINE I32 load_i16(const void* p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)p)); }
WEFT_INLINE I32 load_u8(const void* p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)); }
WEFT_INLINE I32 load_i8(const void* p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)); }
WEFT_INLINE __m128i low16(I32 a) {
  __m256i packed =
      _mm256_shuffle_epi8(a, _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1,
                                              4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
}
WEFT_INLINE void store_low16(void* p, I32 a) { _mm_storeu_si128((__m128i*)p, low16(a)); }
WEFT_INLINE void store_low8(void* p, I32 a) {
  __m128i bytes = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, -1, -1, -1, -1, -1, -1, -1, -1);
  _mm_storel_epi64((__m128i*)p, _mm_shuffle_epi8(low16(a), bytes));
}
WEFT_INLINE F32 load_f16(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
WEFT_INLINE void store_f16(void* p, F32 a) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#  else
WEFT_INLINE F32 select(MaskF32 m, F32 a, F32 b) { return _mm_blendv_ps(b, a, m); }
WEFT_INLINE F64 select(MaskF64 m, F64 a, F64 b) { return _mm_blendv_pd(b, a, m); }
WEFT_INLINE I32 select(MaskI32 m, I32 a, I32 b) { return _mm_blendv_epi8(b, a, m); }
WEFT_INLINE I64 select(MaskI64 m, I64 a, I64 b) { return _mm_blendv_epi8(b, a, m); }
template <class T>
WEFT_INLINE uint32_t mask_bits(MaskRegister<T> a) {
  if constexpr (sizeof(T) == 4) return uint32_t(_mm_movemask_ps((__m128)a.data));
  else return uint32_t(_mm_movemask_pd((__m128d)a.data));
}
template <class T>
WEFT_INLINE MaskRegister<T> mask_from_bits(uint32_t bits) {
  if constexpr (sizeof(T) == 4) {
    auto lane = (Native<int32_t>)_mm_setr_epi32(1, 2, 4, 8);
    return (RawMask<T>)(((int32_t)bits & lane) == lane);
  } else {
    auto lane = (Native<int64_t>)_mm_set_epi64x(2, 1);
    return (RawMask<T>)(((long)bits & lane) == lane);
  }
}

WEFT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
WEFT_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm_add_pd(_mm_mul_pd(a, b), c); }
WEFT_INLINE F32 sqrt(F32 a) { return _mm_sqrt_ps(a); }
WEFT_INLINE F64 sqrt(F64 a) { return _mm_sqrt_pd(a); }
WEFT_INLINE F32 raw_min(F32 a, F32 b) { return _mm_min_ps(a, b); }
WEFT_INLINE F64 raw_min(F64 a, F64 b) { return _mm_min_pd(a, b); }
WEFT_INLINE F32 raw_max(F32 a, F32 b) { return _mm_max_ps(a, b); }
WEFT_INLINE F64 raw_max(F64 a, F64 b) { return _mm_max_pd(a, b); }
template <int Mode>
WEFT_INLINE F32 round(F32 a) {
  return _mm_round_ps(a, Mode);
}
template <int Mode>
WEFT_INLINE F64 round(F64 a) {
  return _mm_round_pd(a, Mode);
}
WEFT_INLINE I32 to_int(F32 a) { return _mm_cvttps_epi32(a); }
WEFT_INLINE F32 to_float(I32 a) { return _mm_cvtepi32_ps(a); }

template <int Half>
WEFT_INLINE F64 widen(F32 a) {
  return _mm_cvtps_pd(Half ? _mm_movehl_ps(a, a) : __m128(a));
}
template <int Half>
WEFT_INLINE I64 widen(I32 a) {
  return _mm_cvtepi32_epi64(Half ? _mm_unpackhi_epi64(a, a) : __m128i(a));
}
template <int Half>
WEFT_INLINE F64 widen_to_double(I32 a) {
  return _mm_cvtepi32_pd(Half ? _mm_unpackhi_epi64(a, a) : __m128i(a));
}
WEFT_INLINE F32 narrow(F64 a, F64 b) { return _mm_movelh_ps(_mm_cvtpd_ps(a), _mm_cvtpd_ps(b)); }
WEFT_INLINE I32 narrow(I64 a, I64 b) {
  return (__m128i)_mm_shuffle_ps((__m128)a.data, (__m128)b.data, _MM_SHUFFLE(2, 0, 2, 0));
}

WEFT_INLINE F32 gather(const float* base, I32 index) {
  auto i = (Native<int32_t>)index.data;
  return _mm_setr_ps(base[i[0]], base[i[1]], base[i[2]], base[i[3]]);
}
WEFT_INLINE I32 gather(const int32_t* base, I32 index) {
  auto i = (Native<int32_t>)index.data;
  return _mm_setr_epi32(base[i[0]], base[i[1]], base[i[2]], base[i[3]]);
}
WEFT_INLINE F64 gather(const double* base, I64 index) {
  auto i = (Native<int64_t>)index.data;
  return _mm_setr_pd(base[i[0]], base[i[1]]);
}
WEFT_INLINE I64 gather(const int64_t* base, I64 index) {
  auto i = (Native<int64_t>)index.data;
  return _mm_set_epi64x(base[i[1]], base[i[0]]);
}

WEFT_INLINE I32 load_u16(const void* p) { return _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i*)p)); }
WEFT_INLINE I32 load_i16(const void* p) { return _mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i*)p)); }
WEFT_INLINE __m128i load_4_bytes(const void* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm_cvtsi32_si128(bits);
}
WEFT_INLINE I32 load_u8(const void* p) { return _mm_cvtepu8_epi32(load_4_bytes(p)); }
WEFT_INLINE I32 load_i8(const void* p) { return _mm_cvtepi8_epi32(load_4_bytes(p)); }
WEFT_INLINE void store_low16(void* p, I32 a) {
  __m128i words = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
  _mm_storel_epi64((__m128i*)p, _mm_shuffle_epi8(a, words));
}
WEFT_INLINE void store_low8(void* p, I32 a) {
  __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  int32_t bits = _mm_cvtsi128_si32(_mm_shuffle_epi8(a, bytes));
  __builtin_memcpy(p, &bits, 4);
}

// Half precision without F16C: the same bits as its instructions, NaN payloads included.
WEFT_INLINE F32 load_f16(const void* p) {
  auto h = (Native<uint32_t>)load_u16(p).data;
  auto magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
  auto scaled = (Native<uint32_t>)((Native<float>)(magnitude << 13) * 0x1p112f);  // exact for subnormals too
  auto special = (magnitude << 13) | 0x7f800000 | ((Native<uint32_t>)(magnitude > 0x7c00) & 0x00400000);
  auto is_special = (Native<uint32_t>)(magnitude >= 0x7c00);
  return (__m128)(sign | (special & is_special) | (scaled & ~is_special));
}
WEFT_INLINE void store_f16(void* p, F32 a) {
  auto u = (Native<uint32_t>)a.data;
  auto magnitude = u & 0x7fffffff, sign = (u >> 16) & 0x8000;
  auto normal = (magnitude + ((magnitude >> 13) & 1) + (0xfffu - (112u << 23))) >> 13;
  // Adding 0.5 lets the adder round to the spacing of half's subnormals, 2^-24.
  auto subnormal = (Native<uint32_t>)((Native<float>)magnitude + 0.5f) - 0x3f000000;
  auto nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  auto tiny = (Native<uint32_t>)(magnitude < 0x38800000), huge = (Native<uint32_t>)(magnitude >= 0x477ff000);
  auto is_nan = (Native<uint32_t>)(magnitude > 0x7f800000);
  auto bits = (subnormal & tiny) | (normal & ~tiny & ~huge) | (0x7c00 & huge & ~is_nan) | (nan & is_nan);
  store_low16(p, (__m128i)(bits | sign));
}
#  endif

// Without an instruction for it: adding 1.5 * 2^52 puts an integer of up to 51 bits into the low mantissa.
WEFT_INLINE I64 to_int(F64 a) {
  auto shifted = (Native<double>)round<_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC>(a).data + 0x1.8p52;
  return (typename I64::register_type)((Native<int64_t>)shifted - 0x4338000000000000);
}
WEFT_INLINE F64 to_float(I64 a) {
  auto bits = (Native<int64_t>)a.data + 0x4338000000000000;
  return (typename F64::register_type)((Native<double>)bits - 0x1.8p52);
}

template <class To, int Half, class From>
WEFT_INLINE MaskRegister<To> widen_mask(MaskRegister<From> a) {
  return (RawMask<To>)widen<Half>(I32((typename I32::register_type)a.data)).data;
}
template <class To, class From>
WEFT_INLINE MaskRegister<To> narrow_mask(MaskRegister<From> a, MaskRegister<From> b) {
  using Bits = typename I64::register_type;
  return (RawMask<To>)narrow(I64((Bits)a.data), I64((Bits)b.data)).data;
}
#endif

}  // namespace detail
}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
