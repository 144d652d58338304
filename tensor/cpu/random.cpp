// Spreading random kernels over threads, by ranges of counters.
// Place: the plain half of random.h.
#include "tensor/cpu/random.h"

#include "tensor/base/error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/random/philox.h"

namespace weft::cpu {

void run_random(Draw draw, DType dtype, const RandomCall& call, int64_t n, const void* in, void* out) {
  const RandomKernel kernel = random_kernels().kernels[static_cast<int>(draw)][static_cast<int>(dtype)];
  WEFT_ASSERT(kernel != nullptr, "no random kernel for ", dtype);
  // A core makes about a word a nanosecond.
  constexpr int64_t kGrain = 16384;
  parallel_for(
      n, kGrain, [&](int64_t begin, int64_t end) { kernel(call, begin, end - begin, in, out); },
      kRandomAlignment);
}

int64_t numbers_per_counter(Draw draw, DType dtype, int64_t low, int64_t high) {
  const bool wide = draw == Draw::Bits64 || (draw == Draw::Integer && randint_needs_64_bits(low, high)) ||
                    (dtype == DType::Float64 && (draw == Draw::Uniform || draw == Draw::Normal));
  return wide ? 2 : 4;
}
uint64_t counters_of(Draw draw, DType dtype, int64_t low, int64_t high, int64_t n) {
  const auto count = static_cast<uint64_t>(n);
  return numbers_per_counter(draw, dtype, low, high) == 2 ? philox_counters64(count)
                                                          : philox_counters32(count);
}

}  // namespace weft::cpu
