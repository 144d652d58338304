// What a compiled function that is differentiated from outside keeps for backward, what it computes again, and by how many
// kernels it does so.
#include <numeric>

#include "autograd/checkpoint.h"
#include "autograd/gradcheck.h"
#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

CompileOptions interpreted(double budget = 1) {
  return {.backend = "interpret", .audit = false, .activation_memory_budget = budget};
}

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

struct Counted {
  size_t forward = 0, backward = 0;  // kernels; of the program of all tangents
  size_t calls = 0;                  // of libraries
  uint64_t bytes = 0;
  std::string text;
};
// After a call and its backward.
template <class F>
Counted counted(const F& compiled) {
  const Explanation explanation = compiled.core().explanation();
  Counted result;
  result.text = explanation.to_string();
  const Explanation::Entry& entry = explanation.entries.at(0);
  result.forward = entry.graphs.at(0).kernels.size();
  result.backward = entry.graphs.at(1).kernels.size();
  for (const Explanation::Graph& graph : entry.graphs) result.calls += graph.extern_calls;
  for (const Explanation::Activation& each : entry.activations) result.bytes += each.bytes;
  EXPECT_EQ(result.bytes, explanation.stats.saved_bytes);
  return result;
}

// ---- Kernels

TEST(Activations, RmsNormAndSiluAreOneKernelAndTwo) {
  const auto f = compile(
      [](Tensor x, Tensor w) { return silu(x * rsqrt(mean(x * x, {-1}, true) + 1e-5) * w); }, interpreted());
  const Tensor x = randn({64, 128}).requires_grad_(), w = randn({128}).requires_grad_();
  f(x, w).sum().backward();
  const Counted got = counted(f);
  EXPECT_EQ(got.forward, 1u) << got.text;
  EXPECT_LE(got.backward, 2u) << got.text;
  EXPECT_EQ(got.calls, 0u) << got.text;
  EXPECT_EQ(got.bytes, 64 * sizeof(float)) << "one number for each row\n" << got.text;
}

TEST(Activations, SoftmaxesAndNormsAreOneKernelEachWay) {
  const Tensor x = randn({64, 128}).requires_grad_(), w = randn({128}), b = randn({128});
  const auto expect_one_each = [&](const char* name, const auto& body, uint64_t bytes) {
    const auto f = compile(body, interpreted());
    f(x).sum().backward();
    const Counted got = counted(f);
    EXPECT_EQ(got.forward, 1u) << name << got.text;
    EXPECT_EQ(got.backward, 1u) << name << got.text;
    EXPECT_EQ(got.calls, 0u) << name << got.text;
    EXPECT_LE(got.bytes, bytes) << name << got.text;
  };
  constexpr uint64_t kRows = 64 * sizeof(float);
  expect_one_each(
      "softmax", [](Tensor t) { return softmax(t, -1); }, 0);
  expect_one_each(
      "log_softmax", [](Tensor t) { return log_softmax(t, -1); }, 0);
  expect_one_each(
      "layer_norm", [&](Tensor t) { return layer_norm(t, {128}, w, b); }, 2 * kRows);
}

// ---- What is kept

TEST(Activations, AChainOfPointwiseOpsKeepsNothing) {
  const auto f = compile([](Tensor x) { return (exp(sin(x) * 2) + tanh(x)).square(); }, interpreted());
  const Tensor x = randn({1000}).requires_grad_();
  f(x).sum().backward();
  EXPECT_EQ(counted(f).bytes, 0u) << counted(f).text;
}

TEST(Activations, AProductIsKeptAndWhatFollowsIsNot) {
  const auto f = compile([](Tensor x, Tensor w) { return gelu(x.matmul(w) * 2 + 1).sin(); }, interpreted());
  const Tensor x = randn({32, 16}).requires_grad_(), w = randn({16, 8}).requires_grad_();
  f(x, w).sum().backward();
  EXPECT_EQ(counted(f).bytes, 32 * 8 * sizeof(float)) << counted(f).text;
  expect_contains(counted(f).text, "saved for backward: 1 tensor, 1.02 KB");
}

TEST(Activations, DropoutIsDrawnAgain) {
  const auto body = [](Tensor x) { return dropout(x * 2, 0.5, true) + 1; };
  const auto f = compile(body, interpreted());
  const Tensor x = randn({64, 64}).requires_grad_();
  manual_seed(3);
  const Tensor y = f(x);
  y.sum().backward();
  EXPECT_EQ(counted(f).bytes, 0u) << counted(f).text;
  for (int round = 0; round < 3; ++round) {
    const Tensor a = randn({64, 64}).requires_grad_(), b = a.detach().clone().requires_grad_();
    manual_seed(5 + round);
    const Tensor want = body(a);
    want.sum().backward();
    manual_seed(5 + round);
    const Tensor got = f(b);
    randn({3});  // what is drawn between forward and backward changes nothing
    got.sum().backward();
    expect_same({got, b.grad()}, {want, a.grad()});
  }
}

TEST(Activations, WhatACheckpointEnclosesIsComputedAgain) {
  const auto block = [](const Tensor& h, const Tensor& w) { return tanh(gelu(h.matmul(w)).matmul(w)); };
  const Tensor w = randn({16, 16}).requires_grad_(), x = randn({32, 16}).requires_grad_();
  const auto bytes_of = [&](bool is_checkpointed) {
    const auto f = compile(
        [&](Tensor h) {
          for (int i = 0; i < 4; ++i)
            h = is_checkpointed ? autograd::checkpoint([&](const Tensor& t) { return block(t, w); }, h)
                                : block(h, w);
          return h;
        },
        interpreted());
    f(x).sum().backward();
    return counted(f);
  };
  const Counted plain = bytes_of(false), checkpointed = bytes_of(true);
  // The results of three blocks; that of the last one is the function's.
  EXPECT_EQ(checkpointed.bytes, 3 * 32 * 16 * sizeof(float)) << checkpointed.text;
  EXPECT_GT(plain.bytes, 2 * checkpointed.bytes);
  EXPECT_GT(checkpointed.calls, plain.calls);
}

TEST(Activations, ABudgetIsKeptAndChangesNoResult) {
  const auto body = [](Tensor x, Tensor w) {
    for (int i = 0; i < 4; ++i) x = tanh(softmax(x.matmul(w), -1) * 8 - 1) + dropout(x, 0.25, true);
    return x;
  };
  const auto results = [](const auto& call) {
    manual_seed(11);
    const Tensor x = numbers({32, 16}).requires_grad_(), w = numbers({16, 16}, 2).requires_grad_();
    const Tensor y = call(x, w);
    y.square().sum().backward();
    return Results{y, x.grad(), w.grad()};
  };
  const Results want = results(body);
  uint64_t before = UINT64_MAX, most = 0;
  for (const double budget : {1.0, 0.7, 0.4, 0.1, 0.0}) {
    SCOPED_TRACE(budget);
    const auto f = compile(body, interpreted(budget));
    expect_same(results(f), want);
    const uint64_t bytes = counted(f).bytes;
    if (budget == 1) most = bytes;
    EXPECT_LE(bytes, before);
    EXPECT_LE(static_cast<double>(bytes), budget * static_cast<double>(most));
    before = bytes;
  }
  EXPECT_GT(most, 0u);
  expect_contains(error_of([] { compile([](Tensor x) { return x; }, interpreted(1.5)); }),
                  "activation_memory_budget is 1.5");
}

// ---- What eager code allows is allowed

TEST(Activations, ResultsThatEagerDoesNotKeepMayBeWritten) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) { return x.matmul(w) * 3 + 1; },
      [](const auto& call) {
        const Tensor x = numbers({4, 3}).requires_grad_(), w = numbers({3, 3}, 2).requires_grad_();
        Tensor y = call(x, w);
        y += x;
        y.mul_(2);
        y.square().sum().backward();
        return Results{y, x.grad(), w.grad()};
      });
  // Backward needs what is returned, but eager code keeps another value.
  hold_in_all_modes(
      [](Tensor x, Tensor w) {
        const Tensor h = x.matmul(w);
        return std::make_tuple(h, gelu(h + 1));
      },
      [](const auto& call) {
        const Tensor x = numbers({4, 3}).requires_grad_(), w = numbers({3, 3}, 2).requires_grad_();
        auto [h, y] = call(x, w);
        h.mul_(2);
        (h.sum() + y.sum()).backward();
        return Results{h, y, x.grad(), w.grad()};
      });
}

TEST(Activations, WhatEagerKeepsMayNotBeWritten) {
  const auto scenario = [](const auto& call) {
    const Tensor x = numbers({4}).requires_grad_();
    Tensor h = x * 1;
    const Tensor y = call(h);
    {
      const NoGradGuard off;
      h.add_(1);
    }
    return error_of([&] { y.sum().backward(); });
  };
  const auto body = [](Tensor x) { return sin(x) * 2; };
  expect_contains(scenario(body), "in-place");
  expect_contains(scenario(compile(body, interpreted())), "in-place");
}

TEST(Activations, EachResultKeepsWhatIsItsOwn) {
  // Both are functions of x, which eager code saves for each of them.
  hold_in_all_modes([](Tensor x, Tensor y) { return std::make_tuple(sin(x * 2), cos(y * 2) * y); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_(), y = row({3, 4}).requires_grad_();
                      const auto [a, b] = call(x, y);
                      a.sum().backward();
                      b.sum().backward();
                      return Results{x.grad(), y.grad()};
                    });
}

TEST(Activations, PassGradcheckUnderEveryBudget) {
  for (const double budget : {1.0, 0.5, 0.0}) {
    const auto f = compile(
        [](Tensor x, Tensor w) { return (softmax(tanh(x.matmul(w)), -1) * exp(x.sum(1, true))).square(); },
        interpreted(budget));
    const Tensor x = numbers({3, 4}, 1, kFloat64).requires_grad_(),
                 w = numbers({4, 2}, 2, kFloat64).requires_grad_();
    const auto check = [&](const variable_list& inputs) { return f(inputs[0], inputs[1]); };
    EXPECT_TRUE(autograd::gradcheck(check, {x, w})) << budget;
    EXPECT_TRUE(autograd::gradgradcheck(check, {x, w})) << budget;
  }
}

TEST(Activations, AFunctionThatIsFollowedCompilesItsBackwardOnce) {
  const auto f = compile(
      [](Tensor x) {
        const float scale = x.detach().sum().item<float>();
        return sin(x * scale);
      },
      interpreted());
  uint64_t before = 0;
  for (int i = 0; i < 6; ++i) {
    const Tensor x = numbers({4}, i).requires_grad_();
    f(x).sum().backward();
    if (i == 3) before = compile_stats().compilations;
  }
  EXPECT_EQ(compile_stats().compilations, before);
}

}  // namespace
}  // namespace weft
