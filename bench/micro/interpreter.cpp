// Functions compiled for the interpreter against eager calls and against generated code: the counter ratio_to_eager is time
// over that of the eager calls, ratio_to_code over that of the kernel that the default backend makes, in the same process.
// Place: above the library.
#include <benchmark/benchmark.h>
#include <weft.h>

#include <algorithm>
#include <chrono>

namespace {

using namespace weft;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Rounds of the three in turn, so that what else the machine does meets all of them.
template <class F>
void against_eager(benchmark::State& state, const SymList& sizes, const F& function) {
  NoGradGuard guard;
  const Tensor x = randn(sizes), w = randn({sizes[sizes.size() - 1]});
  auto interpreted = compile(function, "interpret");
  auto generated = compile(function, "weft");
  const auto time_of = [&](const auto& f) {
    const double start = seconds_now();
    benchmark::DoNotOptimize(f(x, w));
    return seconds_now() - start;
  };
  for (int warmup = 0; warmup < 3; ++warmup) time_of(interpreted), time_of(generated), time_of(function);
  std::vector<double> times, eager, code;
  for (auto _ : state) {
    times.push_back(time_of(interpreted));
    state.SetIterationTime(times.back());
    eager.push_back(time_of(function));
    code.push_back(time_of(generated));
  }
  const double mine = median(times);
  state.counters["median_ms"] = mine * 1e3;
  state.counters["ratio_to_eager"] = mine / median(eager);
  state.counters["ratio_to_code"] = mine / median(code);
}

void add_small(benchmark::State& state) {
  against_eager(state, {16}, [](const Tensor& x, const Tensor& w) { return x * w + x; });
}
void chain(benchmark::State& state) {
  against_eager(state, {2048, 2048}, [](const Tensor& x, const Tensor& w) { return gelu(x + w) * x + 1; });
}
void chain_of_short_rows(benchmark::State& state) {
  against_eager(state, {1000000, 3}, [](const Tensor& x, const Tensor& w) { return (x + w) * x + 1; });
}
void half_chain(benchmark::State& state) {
  against_eager(state, {2048, 2048}, [](const Tensor& x, const Tensor& w) {
    return ((x.to(kBFloat16) + w.to(kBFloat16)) * 2).to(kFloat32);
  });
}
void rms_norm_silu(benchmark::State& state) {
  against_eager(state, {2048, 2048},
                [](const Tensor& x, const Tensor& w) { return silu(rms_norm(x, {x.size(1)}, w, 1e-6)); });
}
void softmax_of_short_rows(benchmark::State& state) {
  against_eager(state, {100000, 10}, [](const Tensor& x, const Tensor& w) { return softmax(x * w, -1); });
}
void sum_of_columns(benchmark::State& state) {
  against_eager(state, {4096, 1024}, [](const Tensor& x, const Tensor& w) { return (x * w).sum(0); });
}
void transposed(benchmark::State& state) {
  against_eager(state, {2048, 2048}, [](const Tensor& x, const Tensor& w) { return x.t() + x * w; });
}

#define WEFT_INTERPRETER(function)     \
  BENCHMARK(function)                  \
      ->Name("interpreter/" #function) \
      ->UseManualTime()                \
      ->Unit(benchmark::kMillisecond)  \
      ->Iterations(25)
WEFT_INTERPRETER(add_small);
WEFT_INTERPRETER(chain);
WEFT_INTERPRETER(chain_of_short_rows);
WEFT_INTERPRETER(half_chain);
WEFT_INTERPRETER(rms_norm_silu);
WEFT_INTERPRETER(softmax_of_short_rows);
WEFT_INTERPRETER(sum_of_columns);
WEFT_INTERPRETER(transposed);

}  // namespace
