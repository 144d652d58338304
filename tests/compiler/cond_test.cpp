// cond(): both arms stay in the graph; values, gradients and errors are those of the plain `if`.
#include <gtest/gtest.h>

#include <weft.h>

#include "compiler/runtime/arm.h"
#include "compiler/trace/graph.h"
#include "tests/support/error_text.h"

namespace weft {
namespace {

bool is_equal(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && equal(a, b);
}

const CompileOptions kOneGraph{.fullgraph = true};

TEST(Cond, IsAnIfOutsideOfATrace) {
  const Tensor x = tensor({1., 2.});
  const auto plus = [](Tensor t) { return t + 1; };
  const auto times = [](Tensor t) { return t * 10; };
  EXPECT_TRUE(is_equal(cond(x.sum() > 2, plus, times, x), tensor({2., 3.})));
  EXPECT_TRUE(is_equal(cond(x.sum() > 3, plus, times, x), tensor({10., 20.})));
  EXPECT_TRUE(is_equal(cond(false, plus, times, x), tensor({10., 20.})));
  EXPECT_TRUE(is_equal(cond(x.sum() > 3, plus, times, {x}), tensor({10., 20.})));
  int ran = 0;
  EXPECT_TRUE(is_equal(cond(
                           tensor(1), [&] { return x; },
                           [&] {
                             ++ran;
                             return -x;
                           }),
                       x));
  EXPECT_EQ(ran, 0);
  EXPECT_ERROR("cond: the predicate has 2 elements (sizes [2]), not one; use any() or all()",
               cond(x > 1, plus, times, x));
}

TEST(Cond, OneProgramServesBothOutcomes) {
  reset_compile_stats();
  auto f = compile(
      [](Tensor x) {
        return cond(
                   x.sum() > 0, [](Tensor t) { return (t + 1).sin(); }, [](Tensor t) { return t * 3; }, x) *
               2;
      },
      kOneGraph);
  for (const double value : {1.0, -1.0, 2.0, -2.0, 0.5}) {
    const Tensor x = full({3}, value);
    EXPECT_TRUE(is_equal(f(x), (value > 0 ? (x + 1).sin() : x * 3) * 2)) << value;
  }
  EXPECT_EQ(compile_stats().compilations, 1u);
  EXPECT_EQ(compile_stats().breaks, 0u);
}

TEST(Cond, ArmsUseWhatTheyCapture) {
  const Tensor weight = tensor({2., 3.});
  Tensor bias = tensor({1., 1.});
  auto f = compile(
      [&](Tensor x, Scalar scale) {
        const Tensor y = x * 2;
        return cond((x > 0).all(), [&] { return y * weight * scale + x.size(0); },
                    [&] {
                      return (y + bias) * tensor({5., 7.});
                    });
      },
      kOneGraph);
  const auto eager = [&](const Tensor& x, double scale) {
    return (x > 0).all().item<bool>() ? x * 2 * weight * scale + 2 : (x * 2 + bias) * tensor({5., 7.});
  };
  for (const double value : {1.0, -1.0, 2.0, -2.0}) {
    bias.add_(1);  // what is captured is read at each call
    const Tensor x = full({2}, value);
    EXPECT_TRUE(is_equal(f(x, value + 3), eager(x, value + 3))) << value;
  }
}

TEST(Cond, GivesTuplesVectorsAndStructs) {
  struct Pair {
    Tensor a;
    std::vector<Tensor> rest;
  };
  auto f = compile(
      [](Tensor x) {
        const Tensor positive = x.sum() > 0;
        auto [low, high] = cond(
            positive,
            [](Tensor t) {
              return std::tuple{t, t + 1};
            },
            [](Tensor t) {
              return std::tuple{t - 1, t};
            },
            x);
        const auto list = cond(
            positive, [](const Tensor& a, const Tensor& b) { return std::vector<Tensor>{a + b}; },
            [](const Tensor& a, const Tensor& b) { return std::vector<Tensor>{a - b}; }, {low, high});
        const Pair pair = cond(
            positive,
            [&] {
              return Pair{list[0], {low, high}};
            },
            [&] {
              return Pair{-list[0], {high, low}};
            });
        return std::vector<Tensor>{pair.a, pair.rest[0], pair.rest[1]};
      },
      kOneGraph);
  for (int i = 0; i < 2; ++i) {
    std::vector<Tensor> out = f(tensor({2.}));
    EXPECT_EQ(out[0].item<float>(), 5);
    EXPECT_EQ(out[1].item<float>(), 2);
    EXPECT_EQ(out[2].item<float>(), 3);
    out = f(tensor({-2.}));
    EXPECT_EQ(out[0].item<float>(), 1);
    EXPECT_EQ(out[1].item<float>(), -2);
    EXPECT_EQ(out[2].item<float>(), -3);
  }
}

TEST(Cond, AnArmMayGiveBackWhatItWasGiven) {
  auto f = compile(
      [](Tensor x) {
        Tensor y = cond(
            x.sum() > 0, [](Tensor t) { return t; }, [](Tensor t) { return -t; }, x);
        y.add_(100);  // a tensor of its own
        return std::tuple{x + 0, y};
      },
      kOneGraph);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = tensor({1., 2.});
    const auto [same, y] = f(x);
    EXPECT_TRUE(is_equal(same, tensor({1., 2.})));
    EXPECT_TRUE(is_equal(x, tensor({1., 2.})));
    EXPECT_TRUE(is_equal(y, tensor({101., 102.})));
  }
}

TEST(Cond, NestsAndFollowsDynamicSizes) {
  CompileOptions options{.dynamic = true, .fullgraph = true};
  auto f = compile(
      [](Tensor x) {
        const Sym n = x.size(0);
        return cond(
            x.sum() > 0,
            [&] {
              return cond(
                  x.max() > 5, [&] { return x / n; },
                  [&] {
                    return x.view({n / 2, 2}).t().reshape({n}) * n;
                  });
            },
            [&] { return x.flip({0}) - arange(n, kFloat32); });
      },
      options);
  const auto eager = [](const Tensor& x) {
    const int64_t n = x.size(0);
    if (x.sum().item<float>() > 0)
      return x.max().item<float>() > 5 ? x / n : x.view({n / 2, 2}).t().reshape({n}) * n;
    return x.flip({0}) - arange(n, kFloat32);
  };
  reset_compile_stats();
  for (const int64_t n : {4, 6, 8, 10})
    for (const double scale : {1.0, 3.0, -1.0}) {
      const Tensor x = arange(n, kFloat32) * scale;
      EXPECT_TRUE(is_equal(f(x), eager(x))) << n << ' ' << scale;
    }
  EXPECT_EQ(compile_stats().compilations, 1u);
}

TEST(Cond, ReadsNumbersOfTensors) {
  auto f = compile(
      [](Tensor x, Tensor scale) {
        const Scalar outside = scale.item();
        return cond(
            x.sum() > 0, [&] { return x * outside; }, [&] { return x * (x.max().item() + outside); });
      },
      kOneGraph);
  for (int i = 1; i < 4; ++i) {
    EXPECT_TRUE(is_equal(f(tensor({1., 2.}), full({}, i)), tensor({1., 2.}) * i));
    EXPECT_TRUE(is_equal(f(tensor({-1., -2.}), full({}, i)), tensor({-1., -2.}) * (i - 1)));
  }
}

TEST(Cond, RatesChangeWithoutANewProgram) {
  Cell rate(0.5);
  auto f = compile(
      [&](Tensor x) {
        return cond(
            x.sum() > 0, [&] { return x * rate.read(); }, [&] { return x; });
      },
      kOneGraph);
  reset_compile_stats();
  for (const double value : {0.5, 2.0, 3.0}) {
    rate = value;
    EXPECT_EQ(f(tensor({1.})).item<float>(), value);
  }
  EXPECT_EQ(compile_stats().compilations, 1u);
}

// ---- Gradients ----------------------------------------------------------------------------------------------------------

// Gradients of sum(f(x, w) * cotangent) with respect to both.
std::vector<Tensor> gradients(const std::function<Tensor(Tensor, Tensor)>& f, const Tensor& x,
                              const Tensor& w) {
  const Tensor a = x.clone().requires_grad_(), b = w.clone().requires_grad_();
  const Tensor y = f(a, b);
  return autograd::grad({(y * arange(y.numel(), kFloat32).view(y.sizes())).sum()}, {a, b}, {}, {}, false,
                        true);
}

TEST(CondGradient, IsThatOfTheArmThatRan) {
  const auto f = [](Tensor x, Tensor w) {
    const Tensor y = x * w;
    return cond(
               x.sum() > 0, [&] { return (y * x).exp() + w; }, [&] { return y.sin() * 2; }) *
           w;
  };
  auto compiled = compile(f, kOneGraph);
  for (const double value : {0.5, -0.5, 0.25, -0.25}) {
    const Tensor x = full({3}, value), w = tensor({1., -2., 0.5});
    const std::vector<Tensor> want = gradients(f, x, w), got = gradients(compiled, x, w);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(allclose(got[i], want[i], 1e-6, 1e-7)) << value << ' ' << i;
  }
}

TEST(CondGradient, IsZeroWhereOnlyTheOtherArmReadsATensor) {
  const auto f = [](Tensor x, Tensor w) {
    return cond(
        x.sum() > 0, [&] { return x * 2; }, [&] { return w * w; });
  };
  auto compiled = compile(f, kOneGraph);
  for (const double value : {1.0, -1.0}) {
    const Tensor x = full({2}, value), w = tensor({3., 4.});
    const std::vector<Tensor> got = gradients(compiled, x, w);
    EXPECT_TRUE(is_equal(got[0], value > 0 ? tensor({0., 2.}) : zeros({2})));
    EXPECT_TRUE(is_equal(got[1], value > 0 ? zeros({2}) : tensor({0., 8.})));
  }
}

TEST(CondGradient, FlowsInsideAWholeStep) {
  const auto make = [] {
    manual_seed(3);
    auto layer = std::make_shared<nn::LinearImpl>(3, 2);
    return layer;
  };
  const auto step_of = [](nn::LinearImpl& layer, optim::SGD& sgd) {
    return [&layer, &sgd](Tensor x) {
      const Tensor y = layer.forward(x);
      Tensor loss = cond(
          y.mean() > 0, [&] { return (y * y).sum(); }, [&] { return y.exp().sum(); });
      loss.backward();
      sgd.step();
      sgd.zero_grad();
      return loss;
    };
  };
  auto eager_layer = make(), layer = make();
  optim::SGD eager_sgd(eager_layer->parameters(), optim::SGDOptions(0.1)),
      sgd(layer->parameters(), optim::SGDOptions(0.1));
  auto eager = step_of(*eager_layer, eager_sgd);
  auto compiled = compile(step_of(*layer, sgd), kOneGraph);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = (arange(6, kFloat32).view({2, 3}) - 3) * (i % 2 == 0 ? 1 : -1);
    EXPECT_TRUE(allclose(compiled(x), eager(x), 1e-6, 1e-6)) << i;
  }
  EXPECT_TRUE(allclose(layer->weight, eager_layer->weight, 1e-6, 1e-6));
}

TEST(CondGradient, OfTheGradientAndOfNestedConds) {
  const auto f = [](Tensor x) {
    return cond(
        x.sum() > 0,
        [&] {
          return cond(
              x.max() > 2, [&] { return x * x * x; }, [&] { return x.exp(); });
        },
        [&] { return x.sin(); });
  };
  // Inside: the whole second derivative is one graph.
  const auto second = [f](Tensor x) {
    x = x.detach().requires_grad_();
    const Tensor first = autograd::grad({f(x).sum()}, {x}, {}, true, true)[0];
    return autograd::grad({(first * first).sum()}, {x})[0];
  };
  auto compiled_second = compile(second, kOneGraph);
  // Outside: through the node of a compiled function.
  auto compiled = compile(f, kOneGraph);
  const auto second_outside = [&](Tensor x) {
    x = x.detach().requires_grad_();
    const Tensor first = autograd::grad({compiled(x).sum()}, {x}, {}, true, true)[0];
    return autograd::grad({(first * first).sum()}, {x})[0];
  };
  for (const double value : {3.0, 1.0, -1.0, 2.5, 0.5, -2.0}) {
    const Tensor x = tensor({value, value / 2});
    const Tensor want = second(x);
    EXPECT_TRUE(allclose(compiled_second(x), want, 1e-5, 1e-6)) << value;
    EXPECT_TRUE(allclose(second_outside(x), want, 1e-5, 1e-6)) << value;
  }
}

TEST(CondGradient, StopsAtDetachAndNoGrad) {
  const auto f = [](Tensor x, Tensor w) {
    return cond(
        x.sum() > 0, [&] { return x.detach() * w; },
        [&] {
          NoGradGuard off;
          return x * w;
        });
  };
  auto compiled = compile(f, kOneGraph);
  const Tensor x = tensor({1., 2.}), w = tensor({3., 4.});
  const std::vector<Tensor> got = gradients(compiled, x, w);
  EXPECT_FALSE(got[0].defined() && got[0].abs().sum().item<float>() != 0);
  EXPECT_TRUE(is_equal(got[1], tensor({0., 2.})));
}

// ---- Effects ------------------------------------------------------------------------------------------------------------

TEST(Cond, EffectsHappenInTheArmThatRuns) {
  std::vector<float> seen;
  auto f = compile(
      [&](Tensor x) {
        const auto note = [&](float sign) {
          return [&seen, sign](const Tensor& value) { seen.push_back(sign * value.item<float>()); };
        };
        return cond(
            x.sum() > 0,
            [&] {
              host_call(note(1), x.max());
              return x * x;
            },
            [&] {
              host_call(note(-1), x.max());
              return x + 1;
            });
      },
      kOneGraph);
  for (int i = 1; i < 4; ++i) {
    const Tensor x = full({1}, 1. * i).requires_grad_();
    f(x).sum().backward();  // once, not again in the backward
    EXPECT_EQ(x.grad().item<float>(), 2 * i);
    f(full({1}, -1. * i));
  }
  EXPECT_EQ(seen, (std::vector<float>{1, 1, 2, 2, 3, 3}));
}

// ---- Errors -------------------------------------------------------------------------------------------------------------

template <class T, class F>
void run_cond(T true_fn, F false_fn) {
  compile([&](Tensor x) { return cond(x.sum() > 0, true_fn, false_fn, x); })(ones({2}));
}

TEST(CondErrors, SayWhatDiffers) {
  EXPECT_ERROR(
      "result 0 differs in its size: true_fn of cond gives [2] float32, false_fn of cond gives [4] float32",
      run_cond([](Tensor x) { return x; },
               [](Tensor x) {
                 return cat({x, x});
               }));
  EXPECT_ERROR(
      "result 0 differs in its dtype: true_fn of cond gives [2] float32, false_fn of cond gives [2] float64",
      run_cond([](Tensor x) { return x; }, [](Tensor x) { return x.to(kFloat64); }));
  EXPECT_ERROR("result 0 differs in its number of dimensions: true_fn of cond gives [] float32",
               run_cond([](Tensor x) { return x.sum(); }, [](Tensor x) { return x; }));
  EXPECT_ERROR("true_fn of cond gives 1 tensors, false_fn of cond 2",
               run_cond([](Tensor x) { return std::vector<Tensor>{x}; },
                        [](Tensor x) {
                          return std::vector<Tensor>{x, x};
                        }));
}

TEST(CondErrors, ArmsArePure) {
  const auto same = [](Tensor x) { return x + 0; };
  EXPECT_ERROR("true_fn of cond: add_ writes into a tensor from outside",
               run_cond([](Tensor x) { return x.add_(1); }, same));
  EXPECT_ERROR("false_fn of cond: mul_ writes into a tensor from outside",
               run_cond(same, [](Tensor x) { return x.select(0, 0).mul_(2) + x; }));
  EXPECT_ERROR("are changed in place",
               run_cond([](Tensor x) { return x.unsqueeze_(0).squeeze(0) + 0; }, same));
  EXPECT_ERROR("true_fn of cond: random numbers are drawn",
               run_cond([](Tensor x) { return x + rand({2}); }, same));
  EXPECT_ERROR("true_fn of cond: the value of a tensor is needed",
               run_cond([](Tensor x) { return x.max().item<bool>() ? x * 2 : x * 3; }, same));
  Tensor kept;
  EXPECT_ERROR("true_fn of cond: the tensor [2] float32 that mul made",
               run_cond([&](Tensor x) { return (kept = x * 2) + 1; }, same));
  kept.reset();
  Cell cell(1);
  EXPECT_ERROR("a number that outlives the call", run_cond(
                                                      [&](Tensor x) {
                                                        cell.set(2);
                                                        return x + 0;
                                                      },
                                                      same));
}

TEST(CondErrors, NumbersOfAnArmStayInside) {
  auto f = compile([](Tensor x) {
    Scalar kept;
    const Tensor y = cond(
        x.sum() > 0, [&] { return kept = x.max().item(), x + 1; }, [&] { return x + 2; });
    return y * kept;
  });
  EXPECT_ERROR("a number that item() gave inside an arm is used outside of it", f(ones({2})));
}

TEST(CondErrors, NameTheLineOfTheUser) {
  auto f = compile([](Tensor x) {
    return cond(
        x.sum() > 0, [&] { return x; },
        [&] {
          return cat({x, x});
        });
  });
  EXPECT_ERROR("cond_test.cpp:", f(ones({2})));
}

// ---- Graphs -------------------------------------------------------------------------------------------------------------

TEST(Cond, RetracesFindTheSameProgramAndGraphsAreSound) {
  size_t graphs = 0;
  const auto check = [&](const compiler::Graph& graph, std::span<const Tensor>) {
    ++graphs;
    verify(graph);
    for (const compiler::Node& node : graph.nodes)
      for (const Attr& attr : node.attrs)
        if (attr.is<RoutinePtr>())
          for (const auto& part : dynamic_cast<const compiler::Arms&>(attr.as_routine()).parts)
            verify(part.graph);
    EXPECT_NE(to_string(graph).find("true_fn("), std::string::npos) << graph;
    return eager_program(graph);
  };
  const Tensor weight = ones({2});
  auto f = compile(
      [&](Tensor x) {
        return cond(
            x.sum() > 0, [&] { return x * weight; }, [&] { return x + weight; });
      },
      {.backend = check, .dynamic = true, .fullgraph = true});
  for (int i = 0; i < 12; ++i) f(full({2}, i % 2 == 0 ? 1.0 : -1.0));  // audits at hits 1 and 10
  auto layer = nn::Linear(1, 1);
  layer->eval();
  f(ones({2}));
  EXPECT_EQ(graphs, 1u);
}

}  // namespace
}  // namespace weft
