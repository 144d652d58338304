// Sizes, guards and recompiles: cases that users of tensor compilers met, and their neighbours.

#include <cmath>

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;
using indexing::None;
using indexing::Slice;

// ---- What must not cause a trace --------------------------------------------------------------------------------------

TEST(Guards, IgnoreTheSizesOfAnInputThatNobodyReads) {
  for (const std::optional<bool> dynamic : {std::optional<bool>(), std::optional<bool>(true)}) {
    int entered = 0;
    auto f = compile(
        [&](Tensor x, Tensor) {
          ++entered;
          return 2 * x;
        },
        {.dynamic = dynamic, .audit = false});
    const Tensor x = tensor({1., 2., 3.});
    for (const int64_t n : {4, 6, 0, 1}) EXPECT_EQ(list(f(x, ones({n}))), (List{2, 4, 6})) << n;
    EXPECT_EQ(entered, 1);
  }
}

TEST(Guards, IgnoreTheSizesOfAnInputThatIsOnlyReturned) {
  int entered = 0;
  auto f = compile(
      [&](Tensor x, Tensor y) {
        ++entered;
        return std::make_tuple(x + 1, y);
      },
      without_audits());
  for (const int64_t n : {4, 6, 0, 1}) {
    const Tensor y = counting({n});
    const auto [sum, same] = f(tensor({1., 2.}), y);
    EXPECT_EQ(list(sum), (List{2, 3}));
    EXPECT_TRUE(same.is_same(y));
    EXPECT_EQ(same.size(0), n);
  }
  EXPECT_EQ(entered, 1);
}

TEST(Guards, NoticeWhatIsReadOfATensorWithoutAnOp) {
  const auto holds = [](auto property, const Tensor& first, const Tensor& second) {
    const auto f = [=](Tensor x, Tensor probe) { return property(probe) ? x * 2 : x * 3; };
    hold_in_all_modes(f, [&](const auto& call) {
      const Tensor x = ones({2});
      EXPECT_EQ(property(first), !property(second));
      return Results{call(x, first), call(x, second), call(x, first)};
    });
  };
  const Tensor two = zeros({4, 3});
  holds([](const Tensor& t) { return t.dim() == 2; }, two, zeros({12}));
  holds([](const Tensor& t) { return t.dtype() == kFloat32; }, two, zeros({4, 3}, kFloat64));
  holds([](const Tensor& t) { return t.is_contiguous(); }, two, zeros({3, 4}).t());
  holds([](const Tensor& t) { return t.requires_grad(); }, zeros({4, 3}).requires_grad_(), two);
  holds([](const Tensor& t) { return t.size(0) == 4; }, two, zeros({5, 3}));
  holds([](const Tensor& t) { return t.numel() > 12; }, zeros({5, 3}), two);
  holds([](const Tensor& t) { return t.stride(0) == 1; }, zeros({3, 4}).t(), two);
  holds([](const Tensor& t) { return t.defined(); }, two, Tensor());
  holds([](const Tensor& t) { return sizes_of(t) == Ints{4, 3}; }, two, zeros({3, 4}));
}

TEST(Guards, NoticeThatGradModeIsRead) {
  const auto f = [](Tensor x) { return GradMode::is_enabled() ? x * 2 : x * 3; };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = ones({2});
    Results results{call(x)};
    {
      const NoGradGuard off;
      results.push_back(call(x));
    }
    results.push_back(call(x));
    EXPECT_EQ(list(results[1]), (List{3, 3}));
    return results;
  });
}

TEST(Guards, IgnoreRequiresGradWhileGradModeIsOff) {
  const Counts counts;
  auto f = compile([](Tensor a, Tensor b) { return clamp_min(a + b, 0); }, without_audits());
  const NoGradGuard off;
  Tensor a = tensor({1., -5.});
  const Tensor b = tensor({1., 2.});
  EXPECT_EQ(list(f(a, b)), (List{2, 0}));
  a.requires_grad_();
  const Tensor y = f(a, b);
  EXPECT_EQ(list(y), (List{2, 0}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(counts.traces(), 1u);
}

TEST(Guards, NoticeRequiresGradWhileGradModeIsOn) {
  hold_in_all_modes([](Tensor a, Tensor b) { return clamp_min(a + b, 0); },
                    [](const auto& call) {
                      Tensor a = tensor({1., -5.});
                      const Tensor b = tensor({1., 2.});
                      const Tensor before = call(a, b);
                      EXPECT_FALSE(before.requires_grad());
                      a.requires_grad_();
                      const Tensor after = call(a, b);
                      EXPECT_TRUE(after.requires_grad());
                      after.sum().backward();
                      EXPECT_EQ(list(a.grad()), (List{1, 0}));
                      return Results{before, after, a.grad()};
                    });
}

TEST(Guards, IgnoreTheStrideOfADimOfSizeOne) {
  int entered = 0;
  auto f = compile(
      [&](Tensor x) {
        ++entered;
        return 2 * x;
      },
      without_audits());
  const Tensor packed = counting({1, 8});
  const Tensor row = counting({8, 64}).slice(0, 0, 1).slice(1, 0, 8);
  ASSERT_EQ(row.stride(0), 64);
  const List want{0, 2, 4, 6, 8, 10, 12, 14};
  EXPECT_EQ(list(f(packed)), want);
  EXPECT_EQ(list(f(row)), want);
  EXPECT_EQ(list(f(row.as_strided({1, 8}, {7, 1}))), want);
  EXPECT_EQ(entered, 1);
}

TEST(Guards, NoticeTheStrideOfALongerDim) {
  int entered = 0;
  auto f = compile(
      [&](Tensor x) {
        ++entered;
        return 2 * x;
      },
      without_audits());
  const Tensor wide = counting({8, 64}).slice(0, 0, 2).slice(1, 0, 8);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(tests::difference_of_bits(f(counting({2, 8})), counting({2, 8}) * 2), "");
    EXPECT_EQ(tests::difference_of_bits(f(wide), wide * 2), "");
    EXPECT_EQ(tests::difference_of_bits(f(counting({8, 2}).t()), counting({8, 2}).t() * 2), "");
  }
  EXPECT_LE(entered, 3);
}

TEST(Guards, NoticeTheLayoutOfAGradient) {
  hold_in_all_modes([](Tensor x) { return x.grad() * 2; },
                    [](const auto& call) {
                      Results results;
                      for (const int64_t n : {3, 4, 5, 1, 0, 7}) {
                        const Tensor x = ones({n}).requires_grad_();
                        (x * 2).sum().backward();
                        results.push_back(call(x));
                      }
                      return results;
                    });
  const Tensor held = numbers({2, 3}).requires_grad_();
  hold_in_all_modes([held](Tensor y) { return (held.grad() * 10).sum(1) + y; },
                    [&](const auto& call) {
                      Results results;
                      const Tensor table = counting({6, 6});
                      for (const Tensor& gradient :
                           {counting({2, 3}), counting({3, 2}).t(), table.slice(0, 0, 2).slice(1, 0, 3),
                            table.slice(0, 2, 4).slice(1, 1, 4), counting({2, 3})}) {
                        Tensor(held).mutable_grad() = gradient;
                        results.push_back(call(zeros({2})));
                      }
                      return results;
                    });
}

TEST(Guards, IgnoreTheLayoutOfAGradientThatNobodyReads) {
  int entered = 0;
  const auto f = compile(
      [&](Tensor x) {
        ++entered;
        return x * 2;
      },
      without_audits());
  const Tensor x = ones({2, 3}).requires_grad_();
  for (const Tensor& gradient : {Tensor(), counting({2, 3}), counting({3, 2}).t(), Tensor()}) {
    Tensor(x).mutable_grad() = gradient;
    f(x);
  }
  EXPECT_EQ(entered, 1);
}

TEST(Guards, HoldForTensorsWithoutElements) {
  hold_in_all_modes([](Tensor x) { return std::make_tuple(x * 2, x.sum(0), x.t()); },
                    [](const auto& call) {
                      Results results;
                      for (const SymList& sizes : {SymList{0, 3}, SymList{3, 0}, SymList{3, 2}, SymList{0, 0},
                                                   SymList{1, 0}, SymList{1, 1}, SymList{2, 3}}) {
                        const auto [twice, sum, turned] = call(counting(sizes));
                        results.insert(results.end(), {twice, sum, turned});
                      }
                      return results;
                    });
}

// ---- Sizes as symbols -------------------------------------------------------------------------------------------------

TEST(DynamicSizes, ADerivedSizeOfOneDecidesBroadcasting) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        return x.view({-1, 3}) * y.view({-1, 3});
      },
      [](const auto& call) {
        const Tensor y = tensor({0., 1., 2., 3., 4., 5.});
        const Tensor first = call(tensor({1., 2., 3.}), y);
        EXPECT_EQ(list(first), (List{0, 2, 6, 3, 8, 15}));
        const Tensor second = call(tensor({1., 2., 3., 4., 5., 6.}), y);
        EXPECT_EQ(list(second), (List{0, 2, 6, 12, 20, 30}));
        const Tensor third = call(y, tensor({1., 2., 3.}));
        EXPECT_EQ(list(third), (List{0, 2, 6, 3, 8, 15}));
        const Tensor fourth = call(counting({9}), counting({9}));
        EXPECT_EQ(fourth.size(0), 3);
        return Results{first, second, third, fourth};
      });
}

TEST(DynamicSizes, ADerivedSizeOfOneDecidesReductionsSlicesAndSqueezes) {
  const auto f = [](Tensor x) {
    const Tensor rows = x.view({-1, 2});
    return std::make_tuple(rows.squeeze(), rows.slice(0, 1) + rows.slice(0, 0, -1), rows.var(DimList{0}, 0),
                           cat({rows, rows.slice(0, 0, 1)}), rows / x.size(0));
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int64_t n : {6, 2, 4, 8, 2, 6}) {
      const auto [squeezed, shifted, variance, joined, scaled] = call(numbers({n}));
      EXPECT_EQ(squeezed.dim(), n == 2 ? 1 : 2) << n;
      EXPECT_EQ(shifted.size(0), n / 2 - 1) << n;
      EXPECT_EQ(joined.size(0), n / 2 + 1) << n;
      results.insert(results.end(), {squeezed, shifted, variance, joined, scaled});
    }
    return results;
  });
}

TEST(DynamicSizes, BranchesOnSizesPickTheirOwnProgram) {
  const auto f = [](Tensor x) {
    const auto n = x.size(0);
    if (n % 2 == 0) return x.view({n / 2, 2}).sum(1);
    if (n > 6) return x * n;
    return x - n;
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int64_t n : {4, 7, 5, 8, 9, 3, 1, 0, 2, 4}) results.push_back(call(counting({n})));
    EXPECT_EQ(list(results[0]), (List{1, 5}));
    EXPECT_EQ(list(results[5]), (List{-3, -2, -1}));
    return results;
  });
}

TEST(DynamicSizes, ReshapeOfAStridedTensorIsAView) {
  hold_in_all_modes(
      [](Tensor x) {
        return x.reshape({12, x.size(2)});
      },
      [](const auto& call) {
        Results results;
        for (const int64_t n : {5, 6, 8, 1, 7}) {
          const Tensor base = counting({4, 3, 8});
          const Tensor x = base.index({Slice(), Slice(), Slice(None, n)});
          Tensor y = call(x);
          EXPECT_EQ(y[1][0].template item<float>(), 8) << n;
          EXPECT_EQ(y[11][n - 1].template item<float>(), 88 + n - 1) << n;
          EXPECT_EQ(y.stride(0), 8) << n;
          EXPECT_TRUE(shares_memory(y, base)) << n;
          y[2].fill_(-1);
          EXPECT_EQ(base[0][2][0].template item<float>(), -1) << n;
          results.insert(results.end(), {y, base});
        }
        return results;
      });
}

TEST(DynamicSizes, ReshapeThatNeedsACopyIsNoView) {
  hold_in_all_modes(
      [](Tensor x) {
        return x.transpose(0, 1).reshape({3, -1});
      },
      [](const auto& call) {
        Results results;
        for (const int64_t n : {4, 5, 1, 2}) {
          const Tensor x = counting({n, 3, 2});
          const Tensor y = call(x);
          EXPECT_EQ(shares_memory(x, y), n == 1) << n;
          results.push_back(y);
        }
        return results;
      });
}

TEST(DynamicSizes, SizesThatAreEqualByAccidentAreNotTied) {
  int entered = 0;
  const auto function = [&](Tensor x, Tensor y) {
    ++entered;
    return sum(x) + sum(y);
  };
  for (const std::optional<bool> dynamic : {std::optional<bool>(), std::optional<bool>(true)}) {
    entered = 0;
    auto f = compile(function, {.dynamic = dynamic, .audit = false});
    EXPECT_EQ(f(ones({5}), ones({5})).item<float>(), 10);
    EXPECT_EQ(f(ones({6}), ones({9})).item<float>(), 15);
    EXPECT_EQ(f(ones({10}), ones({10})).item<float>(), 20);
    EXPECT_EQ(f(ones({3}), ones({8})).item<float>(), 11);
    EXPECT_LE(entered, dynamic ? 1 : 2);
  }
}

TEST(DynamicSizes, SizesThatTheProgramRelatesAreTied) {
  hold_in_all_modes([](Tensor x, Tensor y) { return x + y; },
                    [](const auto& call) {
                      Results results;
                      results.push_back(call(counting({5}), counting({5})));
                      results.push_back(call(counting({6}), counting({6})));
                      results.push_back(call(counting({7}), counting({1})));
                      results.push_back(call(counting({1}), counting({7})));
                      EXPECT_NE(error_of([&] { call(counting({4}), counting({6})); }), "no error");
                      results.push_back(call(counting({3}), counting({3})));
                      return results;
                    });
}

TEST(DynamicSizes, ALaterCallOfAnotherLengthIsComputedAnew) {
  hold_in_all_modes([](Tensor x) { return std::make_tuple(sum(2 * x), 2 * x); },
                    [](const auto& call) {
                      const auto [three, long3] = call(full({3}, 3.0));
                      EXPECT_EQ(three.template item<float>(), 18);
                      EXPECT_EQ(long3.size(0), 3);
                      const auto [six, long6] = call(full({6}, 3.0));
                      EXPECT_EQ(six.template item<float>(), 36);
                      EXPECT_EQ(long6.size(0), 6);
                      EXPECT_EQ(long6.numel(), 6);
                      return Results{three, long3, six, long6};
                    });
}

TEST(DynamicSizes, ManyShapesOfOneRankShareFewPrograms) {
  int entered = 0;
  auto f = compile(
      [&](Tensor w) {
        ++entered;
        return w / sqrt(sum(w * w));
      },
      without_audits());
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{640, 8}, {8, 640}, {1, 64},    {64, 1},
                                                           {33, 7},  {7, 33},  {128, 128}, {3, 5},
                                                           {2, 2},   {16, 4},  {1, 9},     {100, 1}};
  for (int round = 0; round < 2; ++round) {
    for (const auto& [rows, columns] : shapes) {
      const Tensor w = numbers({rows, columns}), got = f(w);
      EXPECT_NEAR(got.square().sum().item<double>(), 1, 1e-5) << rows << " x " << columns;
      EXPECT_EQ(tests::difference_of_bits(got, w / sqrt(sum(w * w))), "");
    }
  }
  // Three of any size, one with a size 1 in front, one behind.
  EXPECT_LE(entered, 5);
}

TEST(DynamicSizes, AreTakenThroughEveryKindOfOp) {
  const auto f = [](Tensor x, Tensor w) {
    const Tensor h = silu(x.matmul(w));
    const Tensor shifted = cat({h.slice(0, 1), h.narrow(0, 0, 1)});
    const Tensor windows = pad(h, {0, 0, 1, 1}).unfold(0, 3, 1).sum(-1);
    const Tensor order = h.sum(1).argsort(0);
    return std::make_tuple(softmax(h, 0), shifted, windows, h.index_select(0, order), h.expand({2, -1, -1}),
                           h.reshape({-1}).cumsum(0), zeros_like(h) + arange(h.size(1), kFloat32));
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const Tensor w = numbers({3, 4}, 2);
    for (const int64_t n : {4, 6, 1, 9, 2}) {
      const auto outputs = call(numbers({n, 3}), w);
      std::apply([&](const auto&... t) { results.insert(results.end(), {t...}); }, outputs);
    }
    return results;
  });
}

TEST(DynamicSizes, ArgumentsOfSizesStaySymbols) {
  int entered = 0;
  auto f = compile(
      [&](Tensor x, Sym n) {
        ++entered;
        return x.slice(0, 0, n) * n;
      },
      {.dynamic = true, .audit = false});
  for (const int64_t n : {3, 4, 5, 2}) {
    const Tensor got = f(counting({8}), Sym::from_int(n));
    EXPECT_EQ(tests::difference_of_bits(got, counting({8}).slice(0, 0, n) * n), "") << n;
  }
  EXPECT_EQ(entered, 1);
}

// ---- Numbers that change ------------------------------------------------------------------------------------------------

TEST(Numbers, ALearningRateThatChangesEachStepIsNotBakedIn) {
  const auto run = [](auto step) {
    Tensor w = tensor({10.});
    const Tensor g = ones({1});
    for (int k = 0; k < 5; ++k) step(w, g, 0.1 / (k + 1));
    EXPECT_NEAR(w.item<double>(), 9.7716667, 2e-6);
    for (int k = 5; k < 1005; ++k) step(w, g, 0.1 / (k + 1));
    return w;
  };
  const auto plain = [](Tensor w, Tensor g, double lr) { w.sub_(lr * g); };
  const auto scalar = [](Tensor w, Tensor g, Scalar lr) { w.sub_(lr * g); };
  const Tensor want = run(plain);
  const Counts of_plain;
  EXPECT_EQ(tests::difference_of_bits(run(compile(plain, without_audits())), want), "");
  EXPECT_LE(of_plain.traces(), 2u);
  const Counts of_scalar;
  EXPECT_EQ(tests::difference_of_bits(run(compile(scalar, without_audits())), want), "");
  EXPECT_EQ(of_scalar.traces(), 1u);
  EXPECT_EQ(of_plain.eager_calls(), 0u);
}

TEST(Numbers, ARateInACellIsReadAtEachCall) {
  Cell lr = 1;
  int entered = 0;
  auto step = compile(
      [&](Tensor w) {
        ++entered;
        w.sub_(lr.read() * ones_like(w));
      },
      without_audits());
  Tensor w = tensor({10.});
  for (const double rate : {1., 2., 0.5, -3., 0.}) {
    lr = rate;
    step(w);
  }
  EXPECT_EQ(list(w), (List{9.5}));
  EXPECT_EQ(entered, 1);
}

// With a constant gradient every bias-corrected step is lr, whatever the step count.
TEST(Numbers, AdamCountsItsStepsInsideTheFunction) {
  Tensor w = tensor({1.}).requires_grad_();
  optim::Adam adam(std::vector<Tensor>{w}, optim::AdamOptions(0.01).eps(1e-8));
  auto step = compile(
      [&](Tensor scale) {
        (w * scale).sum().backward();
        adam.step();
        adam.zero_grad();
      },
      without_audits());
  const Counts counts;
  for (int i = 0; i < 20; ++i) step(ones({1}));
  EXPECT_NEAR(w.item<double>(), 0.8, 1e-6);
  EXPECT_LE(counts.traces(), 3u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

TEST(Numbers, AStepCountInACellIsBumpedByTheFunction) {
  Cell steps = 0;
  int entered = 0;
  Tensor m = zeros({1}, kFloat64), v = zeros({1}, kFloat64);
  auto step = compile(
      [&](Tensor w, Tensor g) {
        ++entered;
        steps += 1;
        const Scalar t = steps.read();
        m.mul_(0.9).add_(g, 0.1);
        v.mul_(0.999).addcmul_(g, g, 0.001);
        w.sub_(0.01 * (m / (1 - pow(Scalar(0.9), t))) / (sqrt(v / (1 - pow(Scalar(0.999), t))) + 1e-8));
      },
      without_audits());
  Tensor w = ones({1}, kFloat64);
  for (int i = 0; i < 20; ++i) step(w, ones({1}, kFloat64));
  EXPECT_NEAR(w.item<double>(), 0.8, 1e-6);
  EXPECT_EQ(steps.value(), 20);
  EXPECT_EQ(entered, 1);
}

TEST(Numbers, AStepCountThatIsPassedAsAPlainIntIsRight) {
  const auto update = [](Tensor w, Tensor m, Tensor g, int64_t t) {
    m.mul_(0.9).add_(g, 0.1);
    w.sub_(0.01 * m / (1 - std::pow(0.9, static_cast<double>(t))));
  };
  const auto run = [](auto step) {
    const Tensor w = ones({1}, kFloat64), m = zeros({1}, kFloat64), g = ones({1}, kFloat64);
    for (int64_t t = 1; t <= 60; ++t) step(w, m, g, t);
    return w;
  };
  const Tensor want = run(update);
  EXPECT_NEAR(want.item<double>(), 0.4, 1e-9);
  const Counts counts;
  EXPECT_EQ(tests::difference_of_bits(run(compile(update, without_audits())), want), "");
  EXPECT_EQ(counts.eager_calls(), 0u);
  EXPECT_LE(counts.traces(), 6u);  // four values of their own, then one program that reads the number
}

// A plain int of the user's that the function bumps itself cannot be seen; an audit finds it.
TEST(Numbers, AStepCountInAPlainIntIsFoundByAnAudit) {
  int64_t t = 0;
  auto step = compile([&](Tensor w) {
    ++t;
    w.sub_(1.0 / static_cast<double>(t));
  });
  Tensor w = zeros({1}, kFloat64);
  for (int i = 0; i < 3; ++i) step(w);
  const double before = w.item<double>();
  const int64_t steps = t;
  step(w);
  // From the second call on, which is hit 1, the function runs each time.
  EXPECT_EQ(t, steps + 1);
  EXPECT_DOUBLE_EQ(w.item<double>(), before - 1.0 / static_cast<double>(t));
}

}  // namespace
}  // namespace weft
