// The copy, on all threads.
#include "bench/weft_bench/copy.h"

#include <weft.h>

#include <algorithm>
#include <chrono>

#include "tensor/cpu/parallel.h"

namespace weft::bench {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A plain loop that the compiler vectorises, without non-temporal stores.
__attribute__((noinline)) void copy_floats(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

}  // namespace

double copy_us(double bytes) {
  static Tensor from, to;
  const int64_t floats = static_cast<int64_t>(bytes / 8);
  if (!from.defined() || from.size(0) < floats) {
    from = ones({floats});
    to = zeros({floats});
  }
  const float* source = from.data_ptr<float>();
  float* target = to.data_ptr<float>();
  double times[3];
  for (double& time : times) {
    const double start = seconds();
    parallel_for(floats, 1 << 16, [&](int64_t begin, int64_t end) {
      copy_floats(source + begin, target + begin, end - begin);
    });
    time = seconds() - start;
  }
  std::sort(times, times + 3);
  return times[1] * 1e6;
}

}  // namespace weft::bench
