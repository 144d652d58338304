// The loops of tests/tensor/vec_kernels.h over Vec.
// Place: compiled once per instruction set; each compilation defines kKernels in its own namespace.
#include "tests/tensor/vec_kernels.h"

#include "tensor/cpu/vec_math.h"
#include "tensor/cpu/vec_memory.h"

namespace weft::cpu_test {
namespace {

using namespace weft::cpu;

template <class T, class F>
void unary(const T* a, const T*, T* out, size_t n) {
  for (size_t i = 0; i < n; i += kLanes) F{}(Vec<T>::load(a + i)).store(out + i);
}
template <class T, class F>
void binary(const T* a, const T* b, T* out, size_t n) {
  for (size_t i = 0; i < n; i += kLanes) F{}(Vec<T>::load(a + i), Vec<T>::load(b + i)).store(out + i);
}

template <class F>
constexpr Function one(const char* name, F) {
  return {name, 1, unary<float, F>, unary<double, F>};
}
template <class F>
constexpr Function two(const char* name, F) {
  return {name, 2, binary<float, F>, binary<double, F>};
}
template <class F>
constexpr IntFunction ints(const char* name, F) {
  return {name, binary<int32_t, F>, binary<int64_t, F>};
}

#define WEFT_ONE(name) one(#name, [](auto x) { return name(x); })
#define WEFT_TWO(name) two(#name, [](auto x, auto y) { return name(x, y); })
#define WEFT_INTS(name) ints(#name, [](auto x, auto y) { return name(x, y); })

constexpr Function kFunctions[] = {
    WEFT_ONE(exp),     WEFT_ONE(exp2),   WEFT_ONE(expm1),   WEFT_ONE(log),        WEFT_ONE(log2),
    WEFT_ONE(log10),   WEFT_ONE(log1p),  WEFT_ONE(sin),     WEFT_ONE(cos),        WEFT_ONE(tan),
    WEFT_ONE(asin),    WEFT_ONE(acos),   WEFT_ONE(atan),    WEFT_ONE(sinh),       WEFT_ONE(cosh),
    WEFT_ONE(tanh),    WEFT_ONE(asinh),  WEFT_ONE(acosh),   WEFT_ONE(atanh),      WEFT_ONE(erf),
    WEFT_ONE(erfc),    WEFT_ONE(rsqrt),  WEFT_ONE(sigmoid), WEFT_ONE(reciprocal), WEFT_ONE(lgamma),
    WEFT_ONE(digamma), WEFT_ONE(erfinv), WEFT_TWO(pow),     WEFT_TWO(atan2),
};

constexpr Function kPrimitives[] = {
    WEFT_ONE(abs),
    WEFT_ONE(neg),
    WEFT_ONE(sqrt),
    WEFT_ONE(floor),
    WEFT_ONE(ceil),
    WEFT_ONE(trunc),
    WEFT_ONE(round_even),
    WEFT_TWO(minimum),
    WEFT_TWO(maximum),
    WEFT_TWO(copysign),
    WEFT_TWO(floor_div),
    WEFT_TWO(floor_mod),
    WEFT_TWO(trunc_mod),
    two("divide", [](auto x, auto y) { return x / y; }),
    two("add", [](auto x, auto y) { return x + y; }),
    two("multiply", [](auto x, auto y) { return x * y; }),
    two("mixed",
        [](auto x, auto y) { return where((x < y) & !(x == 0), 1 - x * 0.5, where(is_nan(y), 3, y)); }),
    two("fma", [](auto x, auto y) { return fma(x, y, -x); }),
};

constexpr IntFunction kIntegers[] = {
    WEFT_INTS(floor_div),
    WEFT_INTS(floor_mod),
    WEFT_INTS(trunc_div),
    WEFT_INTS(trunc_mod),
    WEFT_INTS(minimum),
    WEFT_INTS(maximum),
    WEFT_INTS(pow),
    ints("add", [](auto x, auto y) { return x + y; }),
    ints("subtract", [](auto x, auto y) { return x - y; }),
    ints("multiply", [](auto x, auto y) { return x * y; }),
    ints("bits", [](auto x, auto y) { return (x & y) ^ (x | ~y); }),
    ints("shift_left", [](auto x, auto y) { return x << y; }),
    ints("shift_right", [](auto x, auto y) { return x >> y; }),
    ints("shift_by_scalar", [](auto x, auto y) { return (x >> 3) + (y << 5) + (x >> 64) + (y << 64); }),
    ints("abs_neg", [](auto x, auto y) { return abs(x) - (-y); }),
    ints("less_equal",
         [](auto x, auto y) { return where(x <= y, 1, 0) + where(x != y, 2, 0) + where(x > y, 4, 0); }),
};

template <class From, class To>
void convert_all(const void* a, void* out, size_t n) {
  using C = ComputeType<From>;
  for (size_t i = 0; i < n; i += kLanes)
    store_as(static_cast<To*>(out) + i, load_as<C>(static_cast<const From*>(a) + i));
}
template <class From, class To>
void convert_tail(const void* a, void* out, int n) {
  using C = ComputeType<From>;
  store_partial(static_cast<To*>(out), load_partial<C>(static_cast<const From*>(a), n, C(1)), n);
}
template <class From, class To>
constexpr Conversion conversion() {
  return {dtype_of<From>, dtype_of<To>, convert_all<From, To>, convert_tail<From, To>};
}

#define WEFT_FROM(From)                                                                      \
  conversion<From, float>(), conversion<From, double>(), conversion<From, BFloat16>(),       \
      conversion<From, Float16>(), conversion<From, int64_t>(), conversion<From, int32_t>(), \
      conversion<From, int16_t>(), conversion<From, int8_t>(), conversion<From, uint8_t>(),  \
      conversion<From, bool>()
constexpr Conversion kConversions[] = {
    WEFT_FROM(float),   WEFT_FROM(double),  WEFT_FROM(BFloat16), WEFT_FROM(Float16), WEFT_FROM(int64_t),
    WEFT_FROM(int32_t), WEFT_FROM(int16_t), WEFT_FROM(int8_t),   WEFT_FROM(uint8_t), WEFT_FROM(bool),
};

bool supported() {
#if defined(__AVX512BW__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return __builtin_cpu_supports("sse4.2");
#endif
}

template <class T>
T sum(const T* lanes) {
  return reduce(Vec<T>::load(lanes), [](auto a, auto b) { return a + b; });
}
template <class T>
T largest(const T* lanes) {
  return reduce(Vec<T>::load(lanes), [](auto a, auto b) { return maximum(a, b); });
}

}  // namespace

#define WEFT_STRING(x) #x
#define WEFT_NAME_OF(x) WEFT_STRING(x)
namespace WEFT_ISA_NAMESPACE {
constinit const Kernels kKernels{WEFT_NAME_OF(WEFT_ISA_NAMESPACE),
                                 supported,
                                 kFunctions,
                                 kPrimitives,
                                 kIntegers,
                                 kConversions,
                                 sum<float>,
                                 sum<double>,
                                 largest<float>,
                                 sum<int64_t>};
}

}  // namespace weft::cpu_test
