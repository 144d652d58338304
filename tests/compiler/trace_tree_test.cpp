// When a compiled function enters the user's code: recompiles, branches on data, loops, numbers read on the host.

#include <cmath>

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

// ---- Recompiles -------------------------------------------------------------------------------------------------------

Tensor layer(Tensor x, Tensor w) { return silu(x.matmul(w)); }

TEST(Recompiles, TwiceForBatchesOfFourSizes) {
  int entered = 0;
  const Counts counts;
  const auto f = compile(
      [&](Tensor x, Tensor w) {
        ++entered;
        return layer(x, w);
      },
      without_audits());
  const Tensor w = numbers({8, 3}, 2);
  for (const int64_t batch : {4, 4, 8, 16, 32, 7, 4}) {
    const Tensor x = numbers({batch, 8});
    EXPECT_EQ(tests::difference_of_bits(f(x, w), layer(x, w)), "") << batch;
  }
  EXPECT_EQ(entered, 2);
  EXPECT_EQ(counts.traces(), 2u);
  EXPECT_EQ(counts.hits(), 5u);
}

TEST(Recompiles, OnceWhereTheBatchIsDeclaredDynamic) {
  const Counts counts;
  const auto f = compile([](Tensor x, Tensor w) { return layer(x, w); }, without_audits());
  const Tensor w = numbers({8, 3}, 2);
  bool is_first = true;
  for (const int64_t batch : {4, 4, 8, 16, 32}) {
    Tensor x = numbers({batch, 8});
    if (is_first) mark_dynamic(x, 0);
    is_first = false;
    EXPECT_EQ(tests::difference_of_bits(f(x, w), layer(x, w)), "") << batch;
  }
  EXPECT_EQ(counts.traces(), 1u);
}

TEST(Recompiles, OnceWhereAllSizesAreDynamicFromTheStart) {
  const Counts counts;
  const auto f = compile([](Tensor x, Tensor w) { return layer(x, w); }, {.dynamic = true, .audit = false});
  for (const int64_t n : {4, 8, 16, 5}) {
    const Tensor x = numbers({n, n + 1}), w = numbers({n + 1, n + 2}, 2);
    EXPECT_EQ(tests::difference_of_bits(f(x, w), layer(x, w)), "") << n;
  }
  EXPECT_EQ(counts.traces(), 1u);
}

TEST(Recompiles, ForEachSizeWhereTheyAreNeverDynamic) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return x * 2; }, {.dynamic = false, .audit = false});
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 12; ++n) EXPECT_EQ(f(ones({n})).sum().item<float>(), static_cast<float>(2 * n));
  EXPECT_EQ(counts.traces(), 12u);
}

TEST(Recompiles, ForAMarkedSizeStayExact) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return x * 2; }, without_audits());
  for (const int64_t n : {4, 5, 6, 4, 5, 6}) {
    Tensor x = ones({n, 3});
    mark_static(x, 0);
    EXPECT_EQ(f(x).sum().item<float>(), static_cast<float>(6 * n));
  }
  EXPECT_EQ(counts.traces(), 3u);
}

TEST(Recompiles, OfDeclaredSizesHoldAtZeroAndOneToo) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return x * 2 + 1; }, without_audits());
  for (const int64_t n : {4, 1, 0, 2, 9}) {
    Tensor x = counting({n});
    mark_dynamic(x, 0);
    EXPECT_EQ(tests::difference_of_bits(f(x), counting({n}) * 2 + 1), "") << n;
  }
  EXPECT_EQ(counts.traces(), 1u);
}

TEST(Recompiles, ForTheirReasonsAlone) {
  int entered = 0;
  const auto f = compile(
      [&](Tensor x) {
        ++entered;
        return x * 2;
      },
      without_audits());
  const auto expect_entries = [&](const Tensor& x, int more) {
    const int before = entered;
    EXPECT_EQ(tests::difference_of_bits(f(x), x * 2), "");
    EXPECT_EQ(tests::difference_of_bits(f(x), x * 2), "");
    EXPECT_EQ(entered - before, more);
  };
  expect_entries(counting({4, 3}), 1);
  expect_entries(numbers({4, 3}), 0);
  expect_entries(counting({4, 3}, kFloat64), 1);
  expect_entries(counting({4, 3}, kInt64), 1);
  expect_entries(counting({4}), 1);
  expect_entries(counting({3, 4}).t(), 1);
  expect_entries(counting({4, 3}).requires_grad_(), 1);
  {
    const NoGradGuard off;
    expect_entries(counting({4, 3}).requires_grad_(), 0);  // as without
  }
  expect_entries(counting({4, 3}), 0);
}

// ---- Values that decide -----------------------------------------------------------------------------------------------

struct Gate : nn::Module {
  nn::Linear fc = register_module("fc", nn::Linear(3, 3));
  int* entered = nullptr;
  Tensor forward(const Tensor& x) {
    ++*entered;
    return fc(x).tanh();
  }
};

TEST(TraceTree, RunsSeenOutcomesWithoutEnteringTheFunction) {
  int entered = 0, inner_entered = 0;
  auto gate = std::make_shared<Gate>();
  gate->entered = &inner_entered;
  const auto inner = compile(gate, without_audits());
  const auto f = [&](Tensor x) {
    ++entered;
    Tensor y = x * 2;
    if ((y.sum() > 6).item<bool>()) y = y - 1;
    else y = y + 1;
    y = inner(y);
    if (y.max() > 0.5) y = y * 10;
    while ((y.abs().sum() > 1).item<bool>()) y = y / 2;
    return y;
  };
  const auto compiled = compile(f, without_audits());
  const NoGradGuard off;
  std::vector<Tensor> inputs;
  for (const float scale : {1.f, -1.f, 4.f, 0.01f})
    inputs.push_back(row({scale, 2 * scale, -0.5f * scale}).view({1, 3}));
  Results want;
  for (const Tensor& x : inputs) want.push_back(f(x));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(tests::difference_of_bits(compiled(inputs[i]), want[i]), "") << i;
  entered = inner_entered = 0;
  const Counts counts;
  for (int round = 0; round < 20; ++round)
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_EQ(tests::difference_of_bits(compiled(inputs[i]), want[i]), "") << i;
  EXPECT_EQ(entered, 0);
  EXPECT_EQ(inner_entered, 0);
  EXPECT_EQ(counts.traces(), 0u);
}

TEST(TraceTree, EveryFormOfQuestionPicksItsBranch) {
  const auto holds = [](auto question) {
    const auto f = [=](Tensor x) { return question(x) ? x + 1 : x * 3; };
    hold_in_all_modes(f, [](const auto& call) {
      Results results;
      for (const float value : {2.f, -2.f, 2.f, 0.f, -2.f}) results.push_back(call(tensor({value, 1.f})));
      return results;
    });
  };
  holds([](Tensor x) { return (x.sum() > 0).item<bool>(); });
  holds([](Tensor x) { return bool(x.sum() > 0); });
  holds([](Tensor x) { return x.sum().item() > 0; });
  holds([](Tensor x) { return x.sum().item<float>() > 0; });
  holds([](Tensor x) { return x.sum().item<double>() > x[1].item<double>(); });
  holds([](Tensor x) { return x.argmax(0).item<int64_t>() == 0; });
  holds([](Tensor x) { return x.to(kInt64)[0].item<int>() == 2; });
  holds([](Tensor x) { return equal(x, x.abs()); });
  holds([](Tensor x) { return allclose(x, x.abs()); });
  holds([](Tensor x) { return x.nonzero().size(0) == 2; });
  holds([](Tensor x) { return x.masked_select(x > 0).sum().item() > 2; });
  holds([](Tensor x) { return (x > 0).all().item<bool>() && !(x > 5).any().item<bool>(); });
}

TEST(TraceTree, SegmentsHappenOnce) {
  Tensor count = zeros({}, kInt64), drawn = zeros({3});
  const auto f = [&](Tensor x) {
    count.add_(1);
    drawn.copy_(rand({3}));
    x.mul_(2);
    if ((x.sum() > 10).item<bool>()) x.sub_(1);
    count.add_(100);
    if (x[0].item() > 2) return x + drawn;
    return x - drawn;
  };
  hold_in_all_modes(f, [&](const auto& call) {
    count.zero_();
    manual_seed(7);
    Results results;
    for (const float value : {1.f, 2.f, 4.f, 9.f, 1.f, 4.f}) {
      const Tensor x = full({3}, value);
      results.push_back(call(x));
      results.push_back(x);
      results.push_back(drawn.clone());
    }
    EXPECT_EQ(count.item<int64_t>(), 606);
    results.push_back(zeros({}, kInt64) + static_cast<int64_t>(default_generator().offset()));
    return results;
  });
}

TEST(TraceTree, LoopsOverDataRunAsOftenAsEager) {
  const auto f = [](Tensor x) {
    int64_t steps = 0;
    while ((x.abs().max() > 1).item<bool>()) {
      x = x / 2;
      ++steps;
    }
    return std::make_tuple(x, steps);
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int64_t power : {0, 3, 5, 1, 12, 3, 90, 0}) {
      const auto [x, steps] = call(full({2}, std::ldexp(1.0, static_cast<int>(power))));
      EXPECT_EQ(steps, power);
      results.push_back(x);
    }
    return results;
  });
}

TEST(TraceTree, BranchesAreDifferentiable) {
  const auto f = [](Tensor x, Tensor w) {
    const Tensor h = x.matmul(w);
    if ((h.sum() > 0).item<bool>()) return (h * h).sum();
    return h.exp().sum();
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const float sign : {1.f, -1.f, 1.f, -1.f}) {
      const Tensor x = full({2, 3}, sign).requires_grad_(), w = full({3, 2}, 0.5).requires_grad_();
      const Tensor y = call(x, w);
      y.backward();
      results.insert(results.end(), {y, x.grad(), w.grad()});
    }
    return results;
  });
}

TEST(TraceTree, ResultsWhoseSizesDependOnDataGoOn) {
  const auto f = [](Tensor x) {
    const Tensor positive = x.masked_select(x > 0);
    const Tensor places = x.nonzero().flatten();
    return std::make_tuple(positive * positive.size(0), places, positive.cumsum(0).flip(0), x.index({x < 0}));
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const auto& numbers : std::vector<std::vector<float>>{
             {1, -2, 3, 0}, {1, 2, 3, 4}, {-1, -2, -3, -4}, {0, 0, 0, 0}, {5, 0, 0, -5}, {1, -2, 3, 0}}) {
      const auto [scaled, places, sums, negative] = call(row(numbers));
      results.insert(results.end(), {scaled, places, sums, negative});
    }
    return results;
  });
}

TEST(TraceTree, GradientsFlowThroughResultsWhoseSizesDependOnData) {
  hold_in_all_modes([](Tensor x) { return (x.masked_select(x > 0).square() * 2).sum(); },
                    [](const auto& call) {
                      Results results;
                      for (const auto& numbers :
                           std::vector<std::vector<float>>{{1, -2, 3}, {1, 2, 3}, {-1, -2, -3}, {1, -2, 3}}) {
                        const Tensor x = row(numbers).requires_grad_();
                        const Tensor y = call(x);
                        y.backward();
                        results.insert(results.end(), {y, x.grad()});
                      }
                      return results;
                    });
}

TEST(TraceTree, BreaksAreErrorsWhereAFullGraphIsAskedFor) {
  const int line = __LINE__ + 3;
  const auto f = compile(
      [](Tensor x) {
        if ((x.sum() > 3).item<bool>()) return x + 1;
        return x * 2;
      },
      {.fullgraph = true, .audit = false});
  for (int round = 0; round < 2; ++round)
    expect_contains(error_of([&] { f(ones({2})); }), "trace_tree_test.cpp:" + std::to_string(line));
  const auto whole = compile([](Tensor x) { return where(x.sum() > 3, x + 1, x * 2); }, {.fullgraph = true});
  EXPECT_EQ(list(whole(ones({2}))), (List{2, 2}));
  EXPECT_EQ(list(whole(ones({4}))), (List{2, 2, 2, 2}));
}

// ---- Follow mode --------------------------------------------------------------------------------------------------------

TEST(FollowMode, ANativeNumberReadFromATensorIsRight) {
  const Counts counts;
  const auto f = [](Tensor x) {
    const float mean = x.mean().item<float>();
    return (x - mean) / (1 + std::abs(mean));
  };
  const auto compiled = compile(f, without_audits());
  for (int i = 0; i < 100; ++i) {
    const Tensor x = numbers({4}, i);
    EXPECT_EQ(tests::difference_of_bits(compiled(x), f(x)), "") << i;
  }
  EXPECT_LE(counts.traces(), 6u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

TEST(FollowMode, GradientsOfFollowedCallsAreRight) {
  const auto f = [](Tensor x, double scale) { return (x * x * scale).sum() * (1 + scale); };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (int i = 0; i < 8; ++i) {
      const Tensor x = row({1, 2}).requires_grad_();
      const Tensor y = call(x, 0.1 * i);
      y.backward();
      results.insert(results.end(), {y, x.grad()});
    }
    return results;
  });
}

TEST(FollowMode, BranchesOnPlainNumbersTakeTheirOwn) {
  const auto f = [](Tensor x, double t) {
    if (t > 0.5) return x * t;
    return x + t;
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const double t : {0.1, 0.2, 0.9, 0.3, 0.7, 0.8, 0.05, 0.5, 0.1})
      results.push_back(call(row({1, 2}), t));
    return results;
  });
}

TEST(FollowMode, NumbersThatOpsLookAtAreNotConfused) {
  // Equal numbers at first, different ones later, in positions that are easy to mix up.
  const auto f = [](Tensor x, double a, double b, double c) {
    return clamp(x * a, -b, b) + pow(x.abs() + 1, c) + leaky_relu(x, a) + softplus(x, 1 + b, 20) +
           x.lerp(x * 2, c);
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const Tensor x = numbers({5});
    for (const auto& [a, b, c] : std::vector<std::array<double, 3>>{
             {1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {0.5, 0.25, 3}, {1, 1, 1}, {3, 3, 3}})
      results.push_back(call(x, a, b, c));
    return results;
  });
}

}  // namespace
}  // namespace weft
