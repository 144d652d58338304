// Tests of checkpoint: same gradients, less kept.
#include "autograd/checkpoint.h"

#include "tensor/allocator.h"
#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;

Tensor deep(const Tensor& x, const Tensor& w) {
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = sin(y * w) + exp(y * 0.1);
  return y;
}

TEST(Checkpoint, GivesTheSameGradientsAsWithout) {
  Tensor x = leaf({0.3, 0.7}), w = leaf({1.1, 0.9}), captured = leaf({2, 3});
  const auto run = [&](bool is_checkpointed) {
    Tensor start = x * 2;
    const auto body = [captured](const Tensor& a, const Tensor& b) { return deep(a, b) * captured; };
    Tensor y = is_checkpointed ? autograd::checkpoint(body, start, w) : body(start, w);
    return autograd::grad({y}, {x, w, captured}, {vector({1, 2})});
  };
  const variable_list plain = run(false), again = run(true);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(list(plain[i]), list(again[i]));
}

TEST(Checkpoint, KeepsLessThanTheForwardMade) {
  const int64_t n = 100'000;
  Tensor x = values(List(n, 0.5), {n}).requires_grad_(), w = values(List(n, 1.0), {n});
  const auto held = [&](bool is_checkpointed) {
    const int64_t before = allocator_stats().live_bytes;
    Tensor y = is_checkpointed ? autograd::checkpoint(deep, x, w) : deep(x, w);
    return allocator_stats().live_bytes - before;
  };
  EXPECT_LT(held(true), 2 * n * 8);
  EXPECT_GT(held(false), 10 * n * 8);
}

TEST(Checkpoint, CanBeDifferentiatedTwice) {
  Tensor x = leaf({0.4});
  const auto second = [&](bool is_checkpointed) {
    const auto body = [](const Tensor& a) { return sin(a * a) * a; };
    Tensor y = is_checkpointed ? autograd::checkpoint(body, x) : body(x);
    Tensor g = autograd::grad({y}, {x}, {vector({1})}, {}, true)[0];
    return list(autograd::grad({g}, {x}, {vector({1})})[0]);
  };
  EXPECT_EQ(second(false), second(true));
}

TEST(Checkpoint, AnotherComputationTheSecondTimeIsAnError) {
  Tensor x = leaf({0.4});
  int calls = 0;
  Tensor y = autograd::checkpoint([&](const Tensor& a) { return ++calls == 1 ? sin(a * a) : a * a; }, x);
  expect_contains(error_of([&] { y.backward(vector({1})); }), "the same computation both times");
}

TEST(Checkpoint, AnInputWrittenSinceIsAnError) {
  Tensor x = leaf({0.4});
  Tensor start = x * 2;
  Tensor y = autograd::checkpoint([](const Tensor& a) { return sin(a * a); }, start);
  start.detach().zero_();
  expect_contains(error_of([&] { y.backward(vector({1})); }), "input 0 was written in place");
}

}  // namespace
}  // namespace weft
