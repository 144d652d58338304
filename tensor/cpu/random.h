// Filling arrays with random numbers by the rules of tensor/random/philox.h, on vectors and threads.
// Needs isa and base; random.isa.cpp holds the kernels.
#pragma once

#include <cstdint>

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

// Note [Box and Muller's pairs]
// Normal numbers 2j and 2j + 1 come from the two words u, v (as uniforms) that these elements draw:
//   r = sqrt(-2 ln(1 - u)),  element 2j is r · cos(2π v),  element 2j + 1 is r · sin(2π v)
// in float for f32 and the halves, which round once at the end, and in double for f64.
//
// Note [Chances]
// A bool that is true with chance p compares its 32-bit word with p · 2^32, so p is met to 2^-33 in every dtype, and 0 and 1
// exactly.

struct ChanceLimit {
  bool always;     // p is 1, or as good as 1
  uint32_t limit;  // otherwise words below it hit

  constexpr explicit ChanceLimit(double p) : always(false), limit(0) {
    const double scaled = p * 0x1p32;
    auto words = static_cast<uint64_t>(scaled);
    if (static_cast<double>(words) < scaled) ++words;  // word < scaled, in integers
    always = words >> 32 != 0;
    limit = static_cast<uint32_t>(words);
  }
};

// How many bits of a word a uniform number of this dtype takes, so that nothing rounds up to 1; f64 takes 53.
constexpr int uniform_bits(DType dtype) {
  return dtype == DType::Float64 ? 53 : dtype == DType::Float16 ? 11 : dtype == DType::BFloat16 ? 8 : 24;
}

// What is drawn. `offset` is the first counter of the op.
struct RandomCall {
  uint64_t seed, offset;
  double a = 0,
         b = 1;  // uniform on [a, b); normal of mean a and deviation b; chance a; dropout: chance a, factor b
  int64_t low = 0, high = 1;  // integers in [low, high)
};

// Elements first … first + n of out (and in), dense; first is a multiple of kRandomAlignment.
using RandomKernel = void (*)(const RandomCall&, int64_t first, int64_t n, const void* in, void* out);
inline constexpr int64_t kRandomAlignment = 256;

enum class Draw : uint8_t {
  Uniform,   // f32 f64 bf16 f16
  Normal,    // the same
  Integer,   // all dtypes
  Chance,    // all dtypes: 1 with chance a, else 0
  ChanceOf,  // floating: 1 with the chance that stands in `in`
  Dropout,   // floating: in · b with chance a, else 0
  Bits64,    // i64: the 64-bit words themselves
};
inline constexpr int kNumDraws = 7;

struct RandomKernels {
  RandomKernel kernels[kNumDraws][kNumDTypes];  // null where a dtype has none
};
WEFT_PER_ISA(const RandomKernels&, random_kernels)

// Fills n elements on all threads. `in` is dense, or null for draws that read nothing.
void run_random(Draw draw, DType dtype, const RandomCall& call, int64_t n, const void* in, void* out);

// How many counters n elements of such a draw take.
uint64_t counters_of(Draw draw, DType dtype, int64_t low, int64_t high, int64_t n);
// How many numbers one counter gives: 4, or 2 of 64 bits. counters_of is n over this, rounded up.
int64_t numbers_per_counter(Draw draw, DType dtype, int64_t low, int64_t high);

}  // namespace weft::cpu
