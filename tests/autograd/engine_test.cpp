// Tests of backward and grad: who gets which gradient, what is kept, and what is refused.
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <thread>

#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;

TEST(Backward, ChainRuleThroughPointwiseOps) {
  Tensor x = leaf({1, 2, 3}), w = leaf({4, 5, 6});
  Tensor y = x * w + sin(x);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  y.backward(vector({1, 1, 1}));
  EXPECT_EQ(list(x.grad()), (List{4 + std::cos(1.0), 5 + std::cos(2.0), 6 + std::cos(3.0)}));
  EXPECT_EQ(list(w.grad()), (List{1, 2, 3}));
}

TEST(Backward, GradientsOfASecondPassAreAdded) {
  Tensor x = leaf({1, 2});
  (x * 3).backward(vector({1, 1}));
  (x * 4).backward(vector({1, 10}));
  EXPECT_EQ(list(x.grad()), (List{7, 43}));
}

TEST(Backward, AValueUsedTwiceGetsBothGradients) {
  Tensor x = leaf({3});
  Tensor y = x * x;
  Tensor z = y * y + y;
  z.backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{4 * 27 + 6}));
}

TEST(Backward, IdentityGradientsDoNotShareMemory) {
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  Tensor seed = vector({1, 2});
  (a + b).backward(seed);
  EXPECT_NE(a.grad().data_ptr<double>(), b.grad().data_ptr<double>());
  EXPECT_NE(a.grad().data_ptr<double>(), seed.data_ptr<double>());
  EXPECT_NE(b.grad().data_ptr<double>(), seed.data_ptr<double>());
  EXPECT_EQ(list(a.grad()), (List{1, 2}));
}

TEST(Backward, ChainOfAMillionNodesNeitherOverflowsNorLeaks) {
  for (int64_t length : {100'000, 1'000'000}) {
    Tensor x = leaf({1});
    Tensor y = x;
    for (int64_t i = 0; i < length; ++i) y = y + x;
    y.backward(vector({1}));
    EXPECT_EQ(list(x.grad()), (List{static_cast<double>(length + 1)}));
  }
}

TEST(Backward, ALongChainIsFreedWithoutBackward) {
  Tensor x = leaf({0.5});
  Tensor y = x;
  for (int64_t i = 0; i < 100'000; ++i) y = sin(y);
}

TEST(Backward, SecondPassOverFreedTensorsSaysSo) {
  Tensor x = leaf({1, 2});
  Tensor y = x * x;
  y.backward(vector({1, 1}));
  const std::string text = error_of([&] { y.backward(vector({1, 1})); });
  expect_contains(text, "mul (engine_test.cpp");
  expect_contains(text, "retain_graph=true");
}

TEST(Backward, RetainGraphAllowsASecondPass) {
  Tensor x = leaf({1, 2});
  Tensor y = x * x;
  y.backward(vector({1, 1}), true);
  y.backward(vector({1, 1}));
  EXPECT_EQ(list(x.grad()), (List{4, 8}));
}

TEST(Backward, NothingSavedNothingToComplainAbout) {
  Tensor x = leaf({1, 2});
  Tensor y = x + 1;
  y.backward(vector({1, 1}));
  y.backward(vector({1, 1}));
  EXPECT_EQ(list(x.grad()), (List{2, 2}));
}

TEST(Backward, ErrorsNameWhatIsWrong) {
  Tensor x = leaf({1, 2});
  expect_contains(error_of([&] { (x * 2).backward(vector({1, 2, 3})); }), "gradient has sizes [3]");
  expect_contains(error_of([&] { (x * 2).backward(); }), "more than one element");
  expect_contains(error_of([&] { (x * 2).backward(vector({1, 2}, kFloat32)); }), "float32");
  expect_contains(error_of([&] { vector({1}).backward(); }), "does not require grad");
  expect_contains(error_of([&] { vector({1}, kInt64).requires_grad_(); }), "only floating");
  Tensor y = x * 2;
  expect_contains(error_of([&] { y.requires_grad_(false); }), "detach()");
}

TEST(Backward, RunsWithoutRecording) {
  Tensor x = leaf({1, 2});
  (x * x).backward(vector({1, 1}));
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(Grad, ReturnsGradientsAndLeavesGradAlone) {
  Tensor x = leaf({2}), w = leaf({5});
  Tensor y = x * w;
  auto g = autograd::grad({y}, {w}, {vector({1})});
  EXPECT_EQ(list(g[0]), (List{2}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Grad, OfAnIntermediateTensor) {
  Tensor x = leaf({2});
  Tensor y = x * x;
  Tensor z = y * y;
  EXPECT_EQ(list(autograd::grad({z}, {y}, {vector({1})})[0]), (List{8}));
}

TEST(Grad, UnusedInputIsAnErrorUnlessAllowed) {
  Tensor x = leaf({2}), w = leaf({5});
  Tensor y = x * x;
  expect_contains(error_of([&] { autograd::grad({y}, {w}, {vector({1})}); }), "do not depend on input 0");
  Tensor z = x * x;
  EXPECT_FALSE(autograd::grad({z}, {w}, {vector({1})}, {}, false, true)[0].defined());
}

TEST(Grad, CreateGraphGivesDerivativesOfAnyOrder) {
  Tensor x = leaf({1.5});
  Tensor y = x * x * x * x;
  std::vector<double> expected{4 * std::pow(1.5, 3), 12 * std::pow(1.5, 2), 24 * 1.5, 24};
  for (double value : expected) {
    y = autograd::grad({y}, {x}, {vector({1})}, {}, true)[0];
    EXPECT_DOUBLE_EQ(y.to_vector<double>()[0], value);
  }
}

TEST(Grad, CreateGraphThroughASavedResult) {
  Tensor x = leaf({0.3});
  Tensor y = exp(x);
  Tensor g = autograd::grad({y}, {x}, {vector({1})}, {}, true)[0];
  Tensor h = autograd::grad({g * 2}, {x}, {vector({1})})[0];
  EXPECT_DOUBLE_EQ(list(h)[0], 2 * list(y)[0]);
}

TEST(Backward, BetweenInputsOnly) {
  Tensor x = leaf({2}), w = leaf({5});
  Tensor y = x * w;
  autograd::backward({y}, {vector({1})}, {}, false, {w});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(list(w.grad()), (List{2}));
}

TEST(GradMode, NothingIsRecordedUnderNoGrad) {
  Tensor x = leaf({1});
  const NoGradGuard guard;
  EXPECT_FALSE((x * x).requires_grad());
  {
    const EnableGradGuard on;
    EXPECT_TRUE((x * x).requires_grad());
  }
  EXPECT_FALSE((x * x).requires_grad());
}

// C60: equal expressions on both sides of a switch of grad mode are different tensors.
TEST(GradMode, EnabledInsideNoGradRecordsOnlyThere) {
  Tensor x = leaf({1}), a, b;
  const NoGradGuard guard;
  {
    const AutoGradMode on(true);
    a = x + 1;
  }
  b = x + 1;
  EXPECT_TRUE(a.requires_grad());
  EXPECT_FALSE(b.requires_grad());
}

// C62
TEST(Hooks, RetainedGradientOfAnIntermediate) {
  Tensor x = leaf({2});
  Tensor y = x * 2;
  y.retain_grad();
  Tensor z = y * y;
  z.backward(vector({1}));
  EXPECT_EQ(list(y.grad()), (List{8}));
  EXPECT_EQ(list(x.grad()), (List{16}));
}

TEST(Hooks, SeeAndReplaceTheGradient) {
  Tensor x = leaf({2});
  Tensor y = x * 3;
  List seen;
  y.register_hook([&](const Tensor& g) {
    seen = list(g);
    return g * 2;
  });
  const unsigned id = x.register_hook([&](const Tensor& g) { return g + 1; });
  (y * 5).backward(vector({1}));
  EXPECT_EQ(seen, (List{5}));
  EXPECT_EQ(list(x.grad()), (List{31}));
  x.remove_hook(id);
  x.mutable_grad().reset();
  (x * 3).backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{3}));
}

// C106: an exception in the middle of backward leaves no trace.
TEST(Hooks, AnExceptionAbortsBackwardAndTheNextOneIsRight) {
  Tensor x = leaf({1, 2});
  const auto live = [] { return list(vector({1})).size(); };
  static_cast<void>(live);
  {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) {
      y = y * x;
      if (i == 4) y.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("stop"); });
    }
    EXPECT_THROW(y.backward(vector({1, 1})), std::runtime_error);
  }
  EXPECT_TRUE(GradMode::is_enabled());
  EXPECT_FALSE(x.grad().defined());
  (x * x).backward(vector({1, 1}));
  EXPECT_EQ(list(x.grad()), (List{2, 4}));
}

TEST(Backward, ThreadsMeetInASharedLeaf) {
  Tensor x = leaf({1, 1});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) (x * 2).backward(vector({1, 2}));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(list(x.grad()), (List{4000, 8000}));
}

TEST(Backward, InsideBackward) {
  Tensor x = leaf({3});
  Tensor y = x * 2;
  y.register_hook([](const Tensor& g) {
    const AutoGradMode on(true);
    Tensor inner = leaf({5});
    (inner * inner).backward(vector({1}));
    return g * list(inner.grad())[0];
  });
  y.backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{20}));
}

// C58: sqrt(x·x) is not |x| where x·x underflows.
TEST(Backward, UnderflowIsNotSimplifiedAway) {
  Tensor x = leaf({1e-30}, kFloat32);
  Tensor y = sqrt(x * x);
  y.backward(vector({1}, kFloat32));
  EXPECT_EQ(list(y)[0], 0);
  EXPECT_TRUE(std::isinf(list(x.grad())[0]) || std::isnan(list(x.grad())[0]));
}

// C56: the initial value is not counted, and gets no NaN.
TEST(Backward, ScatterOfTheLargestStartedFromMinusInfinity) {
  Tensor src = leaf({1, 4, 2});
  Tensor start = vector({-std::numeric_limits<double>::infinity()});
  Tensor index = vector({0, 0, 0}, kInt64);
  Tensor out = start.scatter_reduce(0, index, src, "amax", false);
  EXPECT_EQ(list(out), (List{4}));
  out.sum().backward();
  EXPECT_EQ(list(src.grad()), (List{0, 1, 0}));
}

TEST(Backward, ScalarNeedsNoGradientAndListsAreWalked) {
  Tensor a = leaf({1, 2}), b = leaf({3});
  Tensor all = cat({a * 2, b, a});
  (all * all).sum().backward();
  EXPECT_EQ(list(a.grad()), (List{10, 20}));
  EXPECT_EQ(list(b.grad()), (List{6}));
}

TEST(Tape, RecordingAnAddIsCheap) {
  Tensor a = values(List(16, 1.0), {16}, kFloat32).requires_grad_(),
         b = values(List(16, 2.0), {16}, kFloat32);
  double best = 1e9, plain = 1e9;
  for (int round = 0; round < 20; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) Tensor y = a + b;
    best = std::min(
        best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    const NoGradGuard guard;
    begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) Tensor y = a + b;
    plain = std::min(
        plain, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  RecordProperty("recorded_ns", static_cast<int>(best / 2000));
  std::cout << "add of 16: " << plain / 2000 << " ns, recorded " << best / 2000 << " ns\n";
  EXPECT_LT(best / 2000, 6000);
}

}  // namespace
}  // namespace weft
