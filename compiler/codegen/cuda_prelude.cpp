// The text of the prelude.
// Place: the out-of-line half of cuda_prelude.h.
#include "compiler/codegen/cuda_prelude.h"

#include "tensor/base/error.h"

namespace weft::compiler {

const char* cuda_prelude() {
  return R"(
typedef signed char i8;
typedef unsigned char u8;
struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };
struct w_bool { unsigned char bits; };
struct w_error { int check; long value, size, element; };

static inline float w_nan_f32() { return __int_as_float(0x7fc00000); }
static inline double w_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }

// ---- Primitives that are more than an operator
static inline float w_minimum(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
static inline float w_maximum(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
static inline double w_minimum(double a, double b) {
  if (a != a) return a + b;
  if (b != b) return a + b;
  if (a == b && a == 0) return __double2hiint(a) < 0 ? a : b;
  return a < b ? a : b;
}
static inline double w_maximum(double a, double b) {
  if (a != a) return a + b;
  if (b != b) return a + b;
  if (a == b && a == 0) return __double2hiint(a) < 0 ? b : a;
  return a > b ? a : b;
}
static inline int w_minimum(int a, int b) { return a < b ? a : b; }
static inline int w_maximum(int a, int b) { return a > b ? a : b; }
static inline long w_minimum(long a, long b) { return a < b ? a : b; }
static inline long w_maximum(long a, long b) { return a > b ? a : b; }
static inline int w_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
static inline int w_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
static inline int w_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
static inline long w_add(long a, long b) { return (long)((unsigned long)a + (unsigned long)b); }
static inline long w_sub(long a, long b) { return (long)((unsigned long)a - (unsigned long)b); }
static inline long w_mul(long a, long b) { return (long)((unsigned long)a * (unsigned long)b); }
static inline float w_add(float a, float b) { return a + b; }
static inline float w_mul(float a, float b) { return a * b; }
static inline double w_add(double a, double b) { return a + b; }
static inline double w_mul(double a, double b) { return a * b; }
static inline float w_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
static inline double w_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
static inline int w_fma(int a, int b, int c) { return w_add(w_mul(a, b), c); }
static inline long w_fma(long a, long b, long c) { return w_add(w_mul(a, b), c); }
static inline float w_abs(float x) { return __int_as_float(__float_as_int(x) & 0x7fffffff); }
static inline double w_abs(double x) { return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll); }
static inline int w_abs(int x) { return x < 0 ? w_sub(0, x) : x; }
static inline long w_abs(long x) { return x < 0 ? w_sub(0l, x) : x; }
static inline float w_sqrt(float x) { return __fsqrt_rn(x); }
static inline double w_sqrt(double x) { return __dsqrt_rn(x); }
static inline float w_floor(float x) { return floorf(x); }
static inline double w_floor(double x) { return floor(x); }
static inline float w_ceil(float x) { return ceilf(x); }
static inline double w_ceil(double x) { return ceil(x); }
static inline float w_trunc(float x) { return truncf(x); }
static inline double w_trunc(double x) { return trunc(x); }
static inline float w_round_even(float x) { return rintf(x); }
static inline double w_round_even(double x) { return rint(x); }
template <class T> static inline T w_floor(T x) { return x; }
template <class T> static inline T w_ceil(T x) { return x; }
template <class T> static inline T w_trunc(T x) { return x; }
template <class T> static inline T w_round_even(T x) { return x; }
static inline float w_copysign(float a, float b) { return copysignf(a, b); }
static inline double w_copysign(double a, double b) { return copysign(a, b); }
static inline int w_shl(int a, int n) { return (unsigned)n < 32u ? (int)((unsigned)a << n) : 0; }
static inline long w_shl(long a, long n) { return (unsigned long)n < 64ul ? (long)((unsigned long)a << n) : 0; }
static inline int w_shr(int a, int n) { return a >> ((unsigned)n < 32u ? n : 31); }
static inline long w_shr(long a, long n) { return a >> ((unsigned long)n < 64ul ? n : 63); }
template <class T> static inline T w_trunc_div(T a, T b) { return b == 0 ? 0 : b == -1 ? w_sub(T(0), a) : a / b; }
template <class T> static inline T w_trunc_mod(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
template <class T> static inline T w_floor_div(T a, T b) {
  T q = w_trunc_div(a, b), r = w_trunc_mod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
template <class T> static inline T w_floor_mod(T a, T b) {
  T r = w_trunc_mod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// Toward zero, saturating, 0 for NaN: what the conversion instructions of float do. Of double, NaN is asked for.
static inline int w_to_int(float x) { return __float2int_rz(x); }
static inline long w_to_int(double x) { return __double2ll_rz(x); }
static inline float w_to_float(int x) { return (float)x; }
static inline double w_to_float(long x) { return (double)x; }
static inline int w_to_i32(float x) { return x != x ? 0 : __float2int_rz(x); }
static inline int w_to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
static inline int w_to_i32(long x) { return (int)x; }
static inline int w_to_i32(int x) { return x; }
static inline int w_to_i32(bool x) { return x; }
static inline long w_to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
static inline long w_to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
static inline long w_to_i64(long x) { return x; }
static inline long w_to_i64(int x) { return x; }
static inline long w_to_i64(bool x) { return x; }
static inline int w_bits(float x) { return __float_as_int(x); }
static inline long w_bits(double x) { return __double_as_longlong(x); }
static inline float w_bits(int x) { return __int_as_float(x); }
static inline double w_bits(long x) { return __longlong_as_double(x); }
// ---- Halves
// Conversions of two at a time take the arithmetic pipes; those of one take the one of MUFU, an eighth as wide.
static inline unsigned w_two_bf16(float high, float low) { unsigned r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
static inline unsigned w_two_f16(float high, float low) { unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
static inline unsigned short w_bits_bf16(float x) { return (unsigned short)w_two_bf16(0.0f, x); }
static inline unsigned short w_bits_f16(float x) { return (unsigned short)w_two_f16(0.0f, x); }
static inline float w_of_bf16(unsigned bits) { return __uint_as_float(bits << 16); }
static inline float w_of_f16(unsigned short bits) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits)); return r; }
static inline float w_round_bf16(float x) { return __uint_as_float(w_two_bf16(x, 0.0f)); }
static inline float w_round_f16(float x) { return w_of_f16(w_bits_f16(x)); }
// A double as a float from which a half rounds as from the double: the last bit says that digits were lost.
static inline float w_odd(double x) {
  const float r = __double2float_rz(x);
  return (double)r != x ? __int_as_float(__float_as_int(r) | 1) : r;
}

// ---- Numbers of the call
template <class T> struct w_number { static inline T of(unsigned long slot) { return (T)slot; } };
template <> struct w_number<float> { static inline float of(unsigned long slot) { return __uint_as_float((unsigned)slot); } };
template <> struct w_number<double> { static inline double of(unsigned long slot) { return __longlong_as_double((long)slot); } };
template <> struct w_number<bool> { static inline bool of(unsigned long slot) { return (slot & 0xff) != 0; } };

// ---- Packs
template <class T, int V> struct w_pack { unsigned w[(V * sizeof(T) + 3) / 4]; };
template <int V> static inline float w_get(const w_pack<float, V>& p, int e) { return __uint_as_float(p.w[e]); }
template <int V> static inline int w_get(const w_pack<int, V>& p, int e) { return (int)p.w[e]; }
template <int V> static inline double w_get(const w_pack<double, V>& p, int e) { return __hiloint2double((int)p.w[2 * e + 1], (int)p.w[2 * e]); }
template <int V> static inline long w_get(const w_pack<long, V>& p, int e) { return (long)((unsigned long)p.w[2 * e + 1] << 32 | p.w[2 * e]); }
template <int V> static inline float w_get(const w_pack<bf16, V>& p, int e) { return __uint_as_float(e & 1 ? p.w[e / 2] & 0xffff0000u : p.w[e / 2] << 16); }
template <int V> static inline float w_get(const w_pack<f16, V>& p, int e) { return w_of_f16((unsigned short)(p.w[e / 2] >> (e & 1) * 16)); }
template <int V> static inline int w_get(const w_pack<short, V>& p, int e) { return (short)(p.w[e / 2] >> (e & 1) * 16); }
template <int V> static inline int w_get(const w_pack<i8, V>& p, int e) { return (i8)(p.w[e / 4] >> (e & 3) * 8); }
template <int V> static inline int w_get(const w_pack<u8, V>& p, int e) { return (u8)(p.w[e / 4] >> (e & 3) * 8); }
template <int V> static inline bool w_get(const w_pack<w_bool, V>& p, int e) { return (u8)(p.w[e / 4] >> (e & 3) * 8) != 0; }
// Elements are put in ascending order.
template <int V> static inline void w_put(w_pack<float, V>& p, int e, float x) { p.w[e] = __float_as_uint(x); }
template <int V> static inline void w_put(w_pack<int, V>& p, int e, int x) { p.w[e] = (unsigned)x; }
template <int V> static inline void w_put(w_pack<double, V>& p, int e, double x) { p.w[2 * e] = (unsigned)__double2loint(x); p.w[2 * e + 1] = (unsigned)__double2hiint(x); }
template <int V> static inline void w_put(w_pack<long, V>& p, int e, long x) { p.w[2 * e] = (unsigned)x; p.w[2 * e + 1] = (unsigned)((unsigned long)x >> 32); }
template <class T, int V> static inline void w_put16(w_pack<T, V>& p, int e, unsigned bits) { p.w[e / 2] = e & 1 ? p.w[e / 2] | bits << 16 : bits; }
template <class T, int V> static inline void w_put8(w_pack<T, V>& p, int e, unsigned bits) { p.w[e / 4] = e & 3 ? p.w[e / 4] | bits << (e & 3) * 8 : bits; }
template <int V> static inline void w_put(w_pack<bf16, V>& p, int e, float x) { w_put16(p, e, __float_as_uint(x) >> 16); }
template <int V> static inline void w_put(w_pack<f16, V>& p, int e, float x) { w_put16(p, e, w_bits_f16(x)); }
template <int V> static inline void w_put(w_pack<short, V>& p, int e, int x) { w_put16(p, e, (unsigned)x & 0xffffu); }
template <int V> static inline void w_put(w_pack<i8, V>& p, int e, int x) { w_put8(p, e, (unsigned)x & 0xffu); }
template <int V> static inline void w_put(w_pack<u8, V>& p, int e, int x) { w_put8(p, e, (unsigned)x & 0xffu); }
template <int V> static inline void w_put(w_pack<w_bool, V>& p, int e, bool x) { w_put8(p, e, x ? 1u : 0u); }
// The bits of an element, unchanged.
template <class T, int V> static inline void w_copy(w_pack<T, V>& to, const w_pack<T, V>& from, int e) {
  if (sizeof(T) == 8) { to.w[2 * e] = from.w[2 * e]; to.w[2 * e + 1] = from.w[2 * e + 1]; }
  else if (sizeof(T) == 4) to.w[e] = from.w[e];
  else if (sizeof(T) == 2) w_put16(to, e, from.w[e / 2] >> (e & 1) * 16 & 0xffffu);
  else w_put8(to, e, from.w[e / 4] >> (e & 3) * 8 & 0xffu);
}

// ---- Arithmetic of two halves, each result rounded once: what rounding the sum or product in float gives, but for products so
// small that float has lost bits of them.
template <class T> struct w_pair;
template <> struct w_pair<bf16> {
  static inline unsigned both(float x) { return w_two_bf16(x, x); }
  static inline float get(unsigned p, int e) { return __uint_as_float(e & 1 ? p & 0xffff0000u : p << 16); }
  static inline unsigned fma(unsigned a, unsigned b, unsigned c) { unsigned r; asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r; }
  static inline unsigned mul(unsigned a, unsigned b) { return fma(a, b, 0x80008000u); }
  static inline unsigned add(unsigned a, unsigned b) { return fma(a, 0x3f803f80u, b); }
  static inline unsigned sub(unsigned a, unsigned b) { return fma(b, 0xbf80bf80u, a); }
};
template <> struct w_pair<f16> {
  static inline unsigned both(float x) { return w_two_f16(x, x); }
  static inline float get(unsigned p, int e) { return w_of_f16((unsigned short)(p >> (e & 1) * 16)); }
  static inline unsigned mul(unsigned a, unsigned b) { unsigned r; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
  static inline unsigned add(unsigned a, unsigned b) { unsigned r; asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
  static inline unsigned sub(unsigned a, unsigned b) { unsigned r; asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
};

// ---- Memory
// Where a load looks first: in any cache, or past the SM's own, for what other blocks wrote; or it is marked as read once.
enum { w_cached, w_fresh, w_once };
template <int H, class T> static inline T w_read(const T* p) { return H == w_fresh ? __ldcg(p) : H == w_once ? __ldcs(p) : *p; }
template <class T, int V> static inline void w_put_element(w_pack<T, V>& p, int e, const T* from) {
  if (sizeof(T) == 8) { const uint2 x = *(const uint2*)from; p.w[2 * e] = x.x; p.w[2 * e + 1] = x.y; }
  else if (sizeof(T) == 4) p.w[e] = *(const unsigned*)from;
  else if (sizeof(T) == 2) w_put16(p, e, *(const unsigned short*)from);
  else w_put8(p, e, *(const unsigned char*)from);
}
template <class T, int V> static inline void w_set_element(T* to, const w_pack<T, V>& p, int e) {
  if (sizeof(T) == 8) *(uint2*)to = make_uint2(p.w[2 * e], p.w[2 * e + 1]);
  else if (sizeof(T) == 4) *(unsigned*)to = p.w[e];
  else if (sizeof(T) == 2) *(unsigned short*)to = (unsigned short)(p.w[e / 2] >> (e & 1) * 16);
  else *(unsigned char*)to = (unsigned char)(p.w[e / 4] >> (e & 3) * 8);
}
// IsAligned: the address is a multiple of the pack, or of 16 bytes. Of the elements, the first n are there.
template <int H, bool IsAligned, class T, int V> static inline void w_load(w_pack<T, V>& p, const T* from, int n = V) {
  constexpr int bytes = V * sizeof(T);
  if (IsAligned && n >= V) {
    if constexpr (bytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < bytes / 16; ++i) {
        const uint4 x = w_read<H>((const uint4*)from + i);
        p.w[4 * i] = x.x; p.w[4 * i + 1] = x.y; p.w[4 * i + 2] = x.z; p.w[4 * i + 3] = x.w;
      }
    } else if constexpr (bytes == 8) {
      const uint2 x = w_read<H>((const uint2*)from);
      p.w[0] = x.x; p.w[1] = x.y;
    } else if constexpr (bytes == 4) p.w[0] = w_read<H>((const unsigned*)from);
    else if constexpr (bytes == 2) p.w[0] = w_read<H>((const unsigned short*)from);
    else p.w[0] = w_read<H>((const unsigned char*)from);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < n) w_put_element(p, e, from + e);
  }
}
template <bool IsAligned, class T, int V> static inline void w_store(T* to, const w_pack<T, V>& p, int n = V) {
  constexpr int bytes = V * sizeof(T);
  if (IsAligned && n >= V) {
    if constexpr (bytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < bytes / 16; ++i)
        ((uint4*)to)[i] = make_uint4(p.w[4 * i], p.w[4 * i + 1], p.w[4 * i + 2], p.w[4 * i + 3]);
    } else if constexpr (bytes == 8) *(uint2*)to = make_uint2(p.w[0], p.w[1]);
    else if constexpr (bytes == 4) *(unsigned*)to = p.w[0];
    else if constexpr (bytes == 2) *(unsigned short*)to = (unsigned short)p.w[0];
    else *(unsigned char*)to = (unsigned char)p.w[0];
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < n) w_set_element(to + e, p, e);
  }
}
// Packs on their way into shared memory. Those that a thread commits together are there when it has waited until at most `n` of
// what it committed later are not; no other thread may read them.
static inline unsigned w_place(const void* shared) {
  unsigned place;
  asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(place) : "l"(shared));
  return place;
}
// At a distance of Offset bytes from both addresses, which is part of the instruction.
template <int V, int Offset, class T> static inline void w_ask_at(unsigned place, const T* from) {
  constexpr int bytes = V * sizeof(T);
  if constexpr (bytes % 16 == 0) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" :: "r"(place), "l"(from), "n"(Offset) : "memory");
    if constexpr (bytes == 32) asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %2], 16;" :: "r"(place), "l"(from), "n"(Offset + 16) : "memory");
  } else if constexpr (bytes == 8) asm volatile("cp.async.ca.shared.global [%0 + %2], [%1 + %2], 8;" :: "r"(place), "l"(from), "n"(Offset) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0 + %2], [%1 + %2], 4;" :: "r"(place), "l"(from), "n"(Offset) : "memory");
}
template <class T, int V> static inline void w_ask(T* to, const T* from) { w_ask_at<V, 0>(w_place(to), from); }
static inline void w_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
static inline void w_wait(int n) {
  if (n >= 6) asm volatile("cp.async.wait_group 6;" ::: "memory");
  else if (n >= 3) asm volatile("cp.async.wait_group 3;" ::: "memory");
  else if (n == 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
  else if (n == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
  else asm volatile("cp.async.wait_group 0;" ::: "memory");
}
template <class T> static inline auto w_one(const T* from) { w_pack<T, 1> p; w_load<w_cached, true>(p, from); return w_get(p, 0); }
template <class T, class X> static inline void w_set(T* to, X x) { w_pack<T, 1> p; w_put(p, 0, x); w_store<true>(to, p); }

// ---- Folds
// Note [Reduction tree on CUDA]: the lanes of a row, then threads two by two, four by four and so on.
struct w_sum { template <class T> static inline T of(T a, T b) { return w_add(a, b); } template <class T> static inline T none() { return T(0); } };
struct w_prod { template <class T> static inline T of(T a, T b) { return w_mul(a, b); } template <class T> static inline T none() { return T(1); } };
template <class T> struct w_limits;
template <> struct w_limits<float> { static inline float most() { return __int_as_float(0x7f800000); } static inline float least() { return -most(); } };
template <> struct w_limits<double> { static inline double most() { return __longlong_as_double(0x7ff0000000000000ll); } static inline double least() { return -most(); } };
template <> struct w_limits<int> { static inline int most() { return 0x7fffffff; } static inline int least() { return -0x7fffffff - 1; } };
template <> struct w_limits<long> { static inline long most() { return 0x7fffffffffffffffl; } static inline long least() { return -0x7fffffffffffffffl - 1; } };
struct w_max { template <class T> static inline T of(T a, T b) { return w_maximum(a, b); } template <class T> static inline T none() { return w_limits<T>::least(); } };
struct w_min { template <class T> static inline T of(T a, T b) { return w_minimum(a, b); } template <class T> static inline T none() { return w_limits<T>::most(); } };
template <class F, class T> static inline T w_fold4(T a, T b, T c, T d) { return F::of(F::of(a, b), F::of(c, d)); }
// `threads` is a power of two; all threads of the block call it.
template <class F, class T> static inline T w_fold_lanes(T x, int threads, T* shared) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2)
    if (step < threads) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, step));
  if (threads > 32) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = threads / 32;
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = shared[(warp & ~(warps - 1)) + (lane & (warps - 1))];
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
      if (step < warps) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, step));
  }
  return x;
}

// ---- Computed indices
static __noinline__ void w_fail(w_error* error, int check, long value, long size, long element) {
  if (atomicCAS(&error->check, 0, check + 1) != 0) return;
  error->value = value;
  error->size = size;
  error->element = element;
}
static inline long w_index(long i, long size, bool is_checked, w_error* error, int check, long element) {
  const long from_end = i < 0 ? i + size : i;
  if ((unsigned long)from_end < (unsigned long)size) return from_end;
  if (is_checked) w_fail(error, check, i, size, element);
  return 0;
}

// ---- Index arithmetic. A divisor of 0 occurs where no loop runs.
static inline w_int w_least(w_int a, w_int b) { return a < b ? a : b; }
static inline w_int w_most(w_int a, w_int b) { return a < b ? b : a; }
static inline w_int w_over(w_int a, w_int b) { return (w_int)((w_unsigned)a / (w_unsigned)b); }
static inline w_int w_rest(w_int a, w_int b) { return (w_int)((w_unsigned)a % (w_unsigned)b); }
static inline w_int w_quotient(w_int a, w_int b) { return b == 0 ? 0 : a / b; }
static inline w_int w_remainder(w_int a, w_int b) { return b == 0 ? 0 : a % b; }
static inline w_int w_floor_quotient(w_int a, w_int b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }
)";
}

const char* cuda_random_prelude() {
  return R"(
// ---- Random words (Philox4x32-10): the block of counter, and words of it.
struct w_block { unsigned x, y, z, w; };
static inline w_block w_philox(unsigned long seed, unsigned long place) {
  unsigned c0 = (unsigned)place, c1 = (unsigned)(place >> 32), c2 = 0, c3 = 0, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const unsigned a = __umulhi(0xD2511F53u, c0), b = __umulhi(0xCD9E8D57u, c2);
    const unsigned a_low = 0xD2511F53u * c0, b_low = 0xCD9E8D57u * c2;
    c0 = b ^ c1 ^ k0;
    c1 = b_low;
    c2 = a ^ c3 ^ k1;
    c3 = a_low;
  }
  return {c0, c1, c2, c3};
}
// The block that was made last, so that neighbours share it.
struct w_words { long at = -1; w_block block; };
static inline int w_word32(unsigned long seed, unsigned long counter, long i, w_words& made) {
  if (made.at != i >> 2) made.at = i >> 2, made.block = w_philox(seed, counter + (unsigned long)(i >> 2));
  return (int)((i & 2) ? (i & 1) ? made.block.w : made.block.z : (i & 1) ? made.block.y : made.block.x);
}
static inline long w_word64(unsigned long seed, unsigned long counter, long i, w_words& made) {
  if (made.at != i >> 1) made.at = i >> 1, made.block = w_philox(seed, counter + (unsigned long)(i >> 1));
  return (long)((i & 1) ? (unsigned long)made.block.w << 32 | made.block.z : (unsigned long)made.block.y << 32 | made.block.x);
}
)";
}

const char* cuda_atomic_prelude() {
  return R"(
// ---- Atomic additions to elements
static inline void w_atomic_add(float* p, float x) { atomicAdd(p, x); }
static inline void w_atomic_add(double* p, double x) { atomicAdd(p, x); }
static inline void w_atomic_add(int* p, int x) { atomicAdd(p, x); }
static inline void w_atomic_add(long* p, long x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
// What is smaller lies in a word that is exchanged as a whole.
template <class T, class Add> static inline void w_atomic_update(T* p, Add add) {
  unsigned* const word = (unsigned*)((unsigned long)p & ~3ul);
  const unsigned shift = (unsigned)((unsigned long)p & 3ul) * 8, mask = (sizeof(T) == 2 ? 0xffffu : 0xffu) << shift;
  for (unsigned old = *(volatile unsigned*)word;;) {
    const unsigned next = (old & ~mask) | (add((old & mask) >> shift) << shift & mask), seen = atomicCAS(word, old, next);
    if (seen == old) return;
    old = seen;
  }
}
static inline void w_atomic_add(bf16* p, float x) { w_atomic_update(p, [x](unsigned old) { return (unsigned)w_bits_bf16(w_of_bf16(old) + x); }); }
static inline void w_atomic_add(f16* p, float x) { w_atomic_update(p, [x](unsigned old) { return (unsigned)w_bits_f16(w_of_f16((unsigned short)old) + x); }); }
static inline void w_atomic_add(short* p, int x) { w_atomic_update(p, [x](unsigned old) { return old + (unsigned)x; }); }
static inline void w_atomic_add(i8* p, int x) { w_atomic_update(p, [x](unsigned old) { return old + (unsigned)x; }); }
static inline void w_atomic_add(u8* p, int x) { w_atomic_update(p, [x](unsigned old) { return old + (unsigned)x; }); }
static inline void w_atomic_add(w_bool* p, bool x) { if (x) p->bits = 1; }
)";
}

const char* cuda_array_prelude() {
  return R"(
// ---- Folds of arrays in scratch memory, by 512 threads
// The inner tree of n elements: blocks of 32768 by 512 lanes, whose values take the place of the first elements.
template <class F, class T> static inline T w_fold_block(const volatile T* x, long n, long all, T* shared) {
  int lanes = 1;
  while (lanes < 512 && lanes * 16 < all) lanes *= 2;
  T a[4] = {F::template none<T>(), F::template none<T>(), F::template none<T>(), F::template none<T>()};
  const int t = threadIdx.x % lanes;
  if (all % 4 == 0) {
#pragma unroll 4
    for (long i = 4 * t; i < n; i += 4 * lanes) {
      T own[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) own[e] = x[i + e];
#pragma unroll
      for (int e = 0; e < 4; ++e) a[e] = F::of(a[e], own[e]);
    }
  } else {
    for (long i = t; i < n; i += 4 * lanes)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (i + e * lanes < n) a[e] = F::of(a[e], (T)x[i + e * lanes]);
  }
  __syncthreads();
  return w_fold_lanes<F>(w_fold4<F>(a[0], a[1], a[2], a[3]), lanes, shared);
}
template <class F, class T> static inline T w_fold_array(volatile T* x, long n, T* shared) {
  while (n > 32768) {
    const long blocks = (n + 32767) / 32768;
    for (long b = 0; b < blocks; ++b) {
      const T value = w_fold_block<F, T>(x + b * 32768, n - b * 32768 < 32768 ? n - b * 32768 : 32768, n, shared);
      __syncthreads();
      if (threadIdx.x == 0) x[b] = value;
    }
    n = blocks;
    __threadfence_block();
    __syncthreads();
  }
  return w_fold_block<F, T>(x, n, n, shared);
}
// The outer tree of n elements, one for each row: blocks of `size`, eights of blocks, eight slots. `eights` has room for them.
template <class F, class T> static inline T w_fold_rows(const volatile T* x, long n, long size, volatile T* eights, T* shared) {
  const long blocks = (n + size - 1) / size, count = (blocks + 7) / 8;
  for (long first = 0; first < count * 8; first += blockDim.x) {
    const long p = first + threadIdx.x;
    T value = F::template none<T>();
    for (long i = p * size; i < n && i < (p + 1) * size; ++i) value = F::of(value, (T)x[i]);
    for (int step = 1; step < 8; step *= 2) value = F::of(value, __shfl_xor_sync(0xffffffffu, value, step));
    if (p % 8 == 0 && p / 8 < count) eights[p / 8] = value;
  }
  __threadfence_block();
  __syncthreads();
  T value = F::template none<T>();
  for (long q = threadIdx.x % 8; q < count; q += 8) value = F::of(value, (T)eights[q]);
  for (int step = 1; step < 8; step *= 2) value = F::of(value, __shfl_xor_sync(0xffffffffu, value, step));
  __syncthreads();
  return value;
}
)";
}

const char* cuda_element(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    case DType::BFloat16: return "bf16";
    case DType::Float16: return "f16";
    case DType::Int64: return "long";
    case DType::Int32: return "int";
    case DType::Int16: return "short";
    case DType::Int8: return "i8";
    case DType::UInt8: return "u8";
    case DType::Bool: return "w_bool";
  }
  WEFT_ASSERT(false, "unknown dtype");
}

const char* cuda_type(DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::BFloat16:
    case DType::Float16: return "float";
    case DType::Float64: return "double";
    case DType::Int64: return "long";
    case DType::Bool: return "bool";
    default: return "int";
  }
}

std::string cuda_fold(cpu::Fold fold) {
  switch (fold) {
    case cpu::Fold::Sum: return "w_sum";
    case cpu::Fold::Prod: return "w_prod";
    case cpu::Fold::Max: return "w_max";
    case cpu::Fold::Min: return "w_min";
  }
  WEFT_ASSERT(false, "unknown fold");
}

}  // namespace weft::compiler
