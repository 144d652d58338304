// What one hit of a compiled function costs beside its kernels: guards, launch plan, results; and what captured tensors add.
// Place: above the library; figures are in bench/RESULTS.md.
#include <benchmark/benchmark.h>
#include <weft.h>

namespace {

using namespace weft;

void expect_hits(benchmark::State& state, const CompileStats& before) {
  const CompileStats now = compile_stats();
  if (now.traces != before.traces || now.refreshes != before.refreshes ||
      now.eager_calls != before.eager_calls)
    state.SkipWithError("a call was no hit");
}

// As at a call that is no audit: those are few, but as long as a thousand hits.
const CompileOptions kNoAudits{.audit = false};

void four_tensors(benchmark::State& state) {
  const auto f = compile([](Tensor a, Tensor b, Tensor c, Tensor d) { return a * b + c * d; }, kNoAudits);
  const Tensor a = randn({16}), b = randn({16}), c = randn({16}), d = randn({16});
  f(a, b, c, d);
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(f(a, b, c, d));
  expect_hits(state, before);
}
BENCHMARK(four_tensors)->Name("compiled/four_tensors_16");

// So many tensors that are arguments: each has guards of its own, and any two might share memory.
void separate_arguments(benchmark::State& state) {
  const auto f = compile([](std::vector<Tensor> x) { return x.front() + x.back(); }, kNoAudits);
  const auto all = compile(
      [](std::vector<Tensor> x) {
        Tensor sum = x[0];
        for (size_t i = 1; i < x.size(); ++i) sum = sum + x[i];
        return sum;
      },
      kNoAudits);
  std::vector<Tensor> arguments;
  for (int64_t i = 0; i < state.range(0); ++i) arguments.push_back(randn({16}));
  const auto call = [&] { return state.range(1) == 0 ? f(arguments) : all(arguments); };
  call();
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(call());
  expect_hits(state, before);
}
BENCHMARK(separate_arguments)
    ->Name("compiled/separate_arguments")
    ->ArgNames({"tensors", "all"})
    ->Args({100, 0})
    ->Args({100, 1});

// The parameters of one module, which require grad or are frozen.
void module_parameters(benchmark::State& state) {
  struct Net : nn::Module {
    explicit Net(int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        weights.push_back(register_parameter("w" + std::to_string(i), randn({16})));
    }
    Tensor forward(const Tensor& x) {
      Tensor sum = x;
      for (const Tensor& weight : weights) sum = sum + weight;
      return sum;
    }
    std::vector<Tensor> weights;
  };
  const auto net = std::make_shared<Net>(state.range(0));
  if (state.range(1) == 0) net->requires_grad_(false);
  const auto f = compile(net, kNoAudits);
  const Tensor x = randn({16});
  f(x);
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  expect_hits(state, before);
}
BENCHMARK(module_parameters)
    ->Name("compiled/module_parameters")
    ->ArgNames({"tensors", "grad"})
    ->Args({300, 0})
    ->Args({300, 1});

// Batches of all sizes: calls that hit one program, whatever the order. The function is compiled anew for each run.
void changing_batches(benchmark::State& state) {
  const auto f = compile([](Tensor x, Tensor w) { return silu(x.matmul(w)).sum(); }, kNoAudits);
  const Tensor rows = randn({512, 4}), w = randn({4, 3});
  std::vector<Tensor> batches;
  for (int64_t n = 2; n <= 512; ++n) batches.push_back(rows.slice(0, 0, n));
  const CompileStats before = compile_stats();
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(f(batches[i = (i + 389) % batches.size()], w));
  state.counters["traces"] = static_cast<double>(compile_stats().traces - before.traces);
}
BENCHMARK(changing_batches)->Name("compiled/changing_batches");

// The function reads so many captured tensors, of which the program needs none: what is left is their guards and hand-over.
void captured_unread(benchmark::State& state) {
  std::vector<Tensor> captured;
  for (int64_t i = 0; i < state.range(0); ++i) captured.push_back(randn({16}));
  const auto f = compile(
      [&](Tensor x) {
        for (const Tensor& each : captured) static_cast<void>(each * x);
        return x + 1;
      },
      kNoAudits);
  const Tensor x = randn({16});
  f(x);
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  expect_hits(state, before);
}
BENCHMARK(captured_unread)->Name("compiled/captured_unread")->Arg(1)->Arg(300);

// The same, and their 16 elements are added up.
void captured_read(benchmark::State& state) {
  std::vector<Tensor> captured;
  for (int64_t i = 0; i < state.range(0); ++i) captured.push_back(randn({16}));
  const auto f = compile(
      [&](Tensor x) {
        for (const Tensor& each : captured) x = x + each;
        return x;
      },
      kNoAudits);
  const Tensor x = randn({16});
  f(x);
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  expect_hits(state, before);
}
BENCHMARK(captured_read)->Name("compiled/captured_read")->Arg(1)->Arg(300);

// Parameters that require grad: the call is also a step of the tape, which saves what its backward reads.
void captured_parameters(benchmark::State& state) {
  std::vector<Tensor> captured;
  for (int64_t i = 0; i < state.range(0); ++i) captured.push_back(randn({16}).requires_grad_());
  const auto f = compile(
      [&](Tensor x) {
        for (const Tensor& each : captured) x = x + each;
        return x;
      },
      kNoAudits);
  const Tensor x = randn({16});
  f(x);
  const CompileStats before = compile_stats();
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  expect_hits(state, before);
}
BENCHMARK(captured_parameters)->Name("compiled/captured_parameters")->Arg(1)->Arg(300);

}  // namespace
