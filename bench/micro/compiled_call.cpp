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
