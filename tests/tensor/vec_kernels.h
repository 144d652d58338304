// Tables of loops over the vector functions, one table for each instruction set, for the tests to compare.
// tests/tensor/vec_kernels.isa.cpp, compiled once per set, fills them; this header needs no vector type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/base/dtype.h"

namespace weft::cpu_test {

template <class T>
using Loop = void (*)(const T* a, const T* b, T* out, size_t n);  // n is a multiple of 16

struct Function {
  const char* name;
  int operands;
  Loop<float> f32;
  Loop<double> f64;
};
struct IntFunction {
  const char* name;
  Loop<int32_t> i32;
  Loop<int64_t> i64;
};
// out[i] = a[i] converted, through a vector of the compute type of From and then of To.
struct Conversion {
  DType from, to;
  void (*convert)(const void* a, void* out, size_t n);
  void (*convert_tail)(const void* a, void* out, int n);  // n <= 16, by partial load and store
};

struct Kernels {
  const char* name;
  bool (*supported)();
  std::span<const Function> functions, primitives;
  std::span<const IntFunction> integers;
  std::span<const Conversion> conversions;
  float (*sum_f32)(const float* lanes);
  double (*sum_f64)(const double* lanes);
  float (*max_f32)(const float* lanes);
  int64_t (*sum_i64)(const int64_t* lanes);
};

namespace isa_sse4 {
extern const Kernels kKernels;
}
namespace isa_avx2 {
extern const Kernels kKernels;
}
namespace isa_avx512 {
extern const Kernels kKernels;
}
inline const Kernels& kSse4 = isa_sse4::kKernels;
inline const Kernels& kAvx2 = isa_avx2::kKernels;
inline const Kernels& kAvx512 = isa_avx512::kKernels;

}  // namespace weft::cpu_test
