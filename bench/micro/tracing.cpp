// What the first call of a function costs but for kernels' code: tracing and graph passes, by the number of ops.
// Place: above the library; figures are in bench/RESULTS.md.
#include <benchmark/benchmark.h>
#include <weft.h>

namespace {

using namespace weft;

// A deep net of tiny tensors, five ops a layer. The backend runs the graph by eager ops, which takes a microsecond each.
Tensor layers(Tensor x, const std::vector<Tensor>& weights, int64_t num_ops) {
  for (int64_t i = 0; i + 5 <= num_ops; i += 5) {
    const Tensor& w = weights[static_cast<size_t>(i / 5) % weights.size()];
    x = tanh(x * w + 0.5) - (x.sum(-1, true) * 0.01);
  }
  return x;
}

void trace(benchmark::State& state) {
  const int64_t num_ops = state.range(0);
  const bool has_gradients = state.range(1) != 0;
  std::vector<Tensor> weights;
  for (int i = 0; i < 50; ++i) weights.push_back(randn({16}).requires_grad_(has_gradients));
  const Tensor x = randn({4, 16});
  for (auto _ : state) {
    const auto f = compile([&](Tensor y) { return layers(y, weights, num_ops); },
                           {.backend = "aot_eager", .audit = false});
    benchmark::DoNotOptimize(f(x));
  }
}
BENCHMARK(trace)
    ->Name("tracing")
    ->ArgNames({"ops", "grad"})
    ->ArgsProduct({{50, 2000, 20000}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
