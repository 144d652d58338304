// Single kernels at 4096x4096 float32 against a parallel plain-store copy of the same bytes into reused memory: the
// counter copies_of_bytes is time over that of the copy, measured in the same process.
#include <benchmark/benchmark.h>
#include <weft.h>

#include <algorithm>
#include <chrono>

#include "tensor/cpu/parallel.h"

namespace {

using namespace weft;

constexpr int64_t kSide = 4096;
constexpr int64_t kElements = kSide * kSide;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A plain loop that the compiler vectorises, without non-temporal stores.
__attribute__((noinline)) void copy_floats(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// Seconds to copy so many floats (each read once and written once); the median of 15 runs.
double copy_seconds(int64_t floats) {
  static const Tensor from = ones({2 * kElements}), to = zeros({2 * kElements});
  const float* source = from.data_ptr<float>();
  float* target = to.data_ptr<float>();
  std::vector<double> times;
  for (int run = 0; run < 15; ++run) {
    const double start = seconds();
    parallel_for(floats, 1 << 16, [&](int64_t begin, int64_t end) {
      copy_floats(source + begin, target + begin, end - begin);
    });
    times.push_back(seconds() - start);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

// `floats` counts those that the kernel must read and write, each once. Runs of kernel and copy alternate.
template <class F>
void against_copy(benchmark::State& state, double floats, F body) {
  NoGradGuard guard;
  body();
  std::vector<double> times, ratios;
  for (auto _ : state) {
    const double start = seconds();
    body();
    const double time = seconds() - start;
    state.SetIterationTime(time);
    times.push_back(time);
  }
  const double copy = copy_seconds(static_cast<int64_t>(floats / 2));
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  const double median = times[times.size() / 2];
  state.counters["median_ms"] = median * 1e3;
  state.counters["copy_ms"] = copy * 1e3;
  state.counters["ratio_to_copy"] = median / copy;
}

Tensor& square_of(int which) {
  static Tensor tensors[3];
  if (!tensors[which].defined()) tensors[which] = randn({kSide, kSide});
  return tensors[which];
}

void add_large(benchmark::State& state) {
  against_copy(state, 3.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0) + square_of(1)); });
}
void exp_large(benchmark::State& state) {
  against_copy(state, 2.0 * kElements, [] { benchmark::DoNotOptimize(exp(square_of(0))); });
}
void rms_norm_large(benchmark::State& state) {
  const Tensor w = ones({kSide});
  against_copy(state, 2.0 * kElements,
               [&] { benchmark::DoNotOptimize(rms_norm(square_of(0), {kSide}, w, 1e-6)); });
}
void layer_norm_large(benchmark::State& state) {
  const Tensor w = ones({kSide}), b = zeros({kSide});
  against_copy(state, 2.0 * kElements,
               [&] { benchmark::DoNotOptimize(layer_norm(square_of(0), {kSide}, w, b)); });
}
void softmax_large(benchmark::State& state) {
  against_copy(state, 2.0 * kElements, [] { benchmark::DoNotOptimize(softmax(square_of(0), -1)); });
}
void sum_inner(benchmark::State& state) {
  against_copy(state, 1.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).sum(1)); });
}
void sum_outer(benchmark::State& state) {
  against_copy(state, 1.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).sum(0)); });
}
void sum_full(benchmark::State& state) {
  against_copy(state, 1.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).sum()); });
}
void clone_large(benchmark::State& state) {
  against_copy(state, 2.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).clone()); });
}
void transpose_copy(benchmark::State& state) {
  against_copy(state, 2.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).t().contiguous()); });
}
void add_transposed(benchmark::State& state) {
  against_copy(state, 3.0 * kElements, [] { benchmark::DoNotOptimize(square_of(0).t() + square_of(1)); });
}

#define WEFT_BANDWIDTH(function)      \
  BENCHMARK(function)                 \
      ->Name("bandwidth/" #function)  \
      ->UseManualTime()               \
      ->Unit(benchmark::kMillisecond) \
      ->Iterations(25)
WEFT_BANDWIDTH(add_large);
WEFT_BANDWIDTH(exp_large);
WEFT_BANDWIDTH(rms_norm_large);
WEFT_BANDWIDTH(layer_norm_large);
WEFT_BANDWIDTH(softmax_large);
WEFT_BANDWIDTH(sum_inner);
WEFT_BANDWIDTH(sum_outer);
WEFT_BANDWIDTH(sum_full);
WEFT_BANDWIDTH(clone_large);
WEFT_BANDWIDTH(transpose_copy);
WEFT_BANDWIDTH(add_transposed);

}  // namespace
