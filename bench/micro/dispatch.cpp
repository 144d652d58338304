// What one call costs: small eager ops with and without a tape, and the allocator under them.
// Place: above the library; figures are in bench/RESULTS.md.
#include <benchmark/benchmark.h>
#include <weft.h>

#include "tensor/allocator.h"

namespace {

using namespace weft;

void add_16(benchmark::State& state) {
  NoGradGuard guard;
  const Tensor a = randn({16}), b = randn({16});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16)->Name("dispatch/add_16");

void add_16_requires_grad(benchmark::State& state) {
  Tensor a = randn({16}), b = randn({16});
  a.requires_grad_();
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16_requires_grad)->Name("dispatch/add_16_requires_grad");

void mul_scalar_16(benchmark::State& state) {
  NoGradGuard guard;
  const Tensor a = randn({16});
  for (auto _ : state) benchmark::DoNotOptimize(a * 2.0);
}
BENCHMARK(mul_scalar_16)->Name("dispatch/mul_number_16");

void add_broadcast(benchmark::State& state) {
  NoGradGuard guard;
  const Tensor a = randn({4, 16}), b = randn({16});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_broadcast)->Name("dispatch/add_4x16_broadcast");

void view_16(benchmark::State& state) {
  NoGradGuard guard;
  const Tensor a = randn({4, 4});
  for (auto _ : state) benchmark::DoNotOptimize(a.transpose(0, 1));
}
BENCHMARK(view_16)->Name("dispatch/transpose");

void backward_chain(benchmark::State& state) {
  Tensor a = randn({16});
  a.requires_grad_();
  for (auto _ : state) {
    Tensor x = a;
    for (int i = 0; i < 100; ++i) x = x * 1.01;
    x.sum().backward();
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(backward_chain)->Name("tape/forward_backward_of_100");

void allocate_pair(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* p = allocate(bytes);
    benchmark::DoNotOptimize(p);
    deallocate(p, bytes);
  }
}
BENCHMARK(allocate_pair)->Name("allocator/pair")->Arg(64)->Arg(1000)->Arg(4096)->Arg(1 << 20)->Arg(1 << 26);

}  // namespace
