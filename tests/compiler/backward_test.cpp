// Backward through compiled functions from outside, and inside them, in every form that the tape knows.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;
using autograd::grad;

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

// ---- From outside -----------------------------------------------------------------------------------------------------

TEST(BackwardOutside, TwoForwardsBeforeOneBackward) {
  hold_in_all_modes([](Tensor x) { return (x * x * x).sum(); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_(), y = row({3, -1}).requires_grad_();
                      const Tensor a = call(x), b = call(y), c = call(x * y);
                      (a * 2 + b + c).backward();
                      return Results{a, b, c, x.grad(), y.grad()};
                    });
}

TEST(BackwardOutside, TwoForwardsAndTheirBackwardsInAnyOrder) {
  hold_in_all_modes([](Tensor x) { return exp(x).sum(); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_(), y = row({3, -1}).requires_grad_();
                      const Tensor a = call(x), b = call(y);
                      b.backward();
                      a.backward();
                      return Results{x.grad(), y.grad()};
                    });
}

TEST(BackwardOutside, WalksARetainedGraphAgainAndNoOther) {
  hold_in_all_modes([](Tensor x) { return (x * x).sum(); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_();
                      const Tensor y = call(x);
                      y.backward({}, true);
                      y.backward();
                      EXPECT_EQ(list(x.grad()), (List{4, 8}));
                      const std::string text = error_of([&] { y.backward(); });
                      expect_contains(text, "retain_graph");
                      EXPECT_EQ(list(x.grad()), (List{4, 8}));
                      return Results{x.grad()};
                    });
}

TEST(BackwardOutside, AddsUpOverCalls) {
  hold_in_all_modes([](Tensor x, Tensor w) { return silu(x.matmul(w)).sum(); },
                    [](const auto& call) {
                      const Tensor w = numbers({3, 2}).requires_grad_();
                      Tensor x = numbers({4, 3}, 2).requires_grad_();
                      for (int i = 0; i < 3; ++i) call(x + i, w).backward();
                      return Results{w.grad(), x.grad()};
                    });
}

// An input that is used in several places gets its gradient in parts. They are added up inside where the walk outside has
// nothing to add before them, and one by one behind what came earlier.
TEST(BackwardOutside, PartsOfAGradientAreAddedUpInEagersOrder) {
  const auto f = [](Tensor x) { return x * (x * x).sum() + x.exp() * 0.3; };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int which : {0, 1, 2, 3}) {
      const Tensor x = numbers({7, 5}).requires_grad_();
      Tensor y, other;
      if (which == 1) other = (x * 0.7).sin().sum();
      y = call(x).sum();
      if (which == 2) other = (x * 0.7).sin().sum();
      if (which == 3) other = call(x).sum() * 0.1;
      if (other.defined()) y = y + other;
      y.backward();
      results.push_back(x.grad());
      results.push_back(grad({call(x).sum() + x.sum() * 0.3}, {x})[0]);
    }
    return results;
  });
}

TEST(BackwardOutside, OfSeveralUsesIsWrittenOnce) {
  const auto f = compile([](Tensor x) { return x * (x * x).sum({1}, true); });
  const Tensor x = numbers({64, 64}).requires_grad_();
  f(x).sum().backward();
  const Explanation e = explain(f, x);
  ASSERT_EQ(e.entries.size(), 1u);
  const Explanation::Graph& backward = e.entries[0].graphs.back();
  int64_t written = 0;
  for (const Explanation::Kernel& kernel : backward.kernels) written += kernel.bytes.written;
  EXPECT_LT(written, 2 * 64 * 64 * int64_t{sizeof(float)}) << backward.name;
}

TEST(BackwardOutside, OnlySomeOutputsReceiveGradients) {
  const auto f = [](Tensor x, Tensor y) {
    return std::make_tuple(x * y, sin(x), y.exp(), x.argmax(0), (x + y).detach(), x * 2);
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int which : {0, 1, 2, 3}) {
      const Tensor x = row({1, 2}).requires_grad_(), y = row({3, -1}).requires_grad_();
      const auto [product, sine, power, index, bare, twice] = call(x, y);
      EXPECT_FALSE(index.requires_grad());
      EXPECT_FALSE(bare.requires_grad());
      if (which == 0) product.sum().backward();
      if (which == 1) sine.sum().backward();
      if (which == 2) power.sum().backward();
      if (which == 3) (sine.sum() + twice[1]).backward();
      EXPECT_EQ(x.grad().defined(), which != 2);
      EXPECT_EQ(y.grad().defined(), which == 0 || which == 2);
      results.insert(results.end(), {x.grad(), y.grad()});
    }
    return results;
  });
}

TEST(BackwardOutside, OnlySomeInputsRequireGradients) {
  hold_in_all_modes([](Tensor x, Tensor w, Tensor b) { return tanh(x.matmul(w) + b); },
                    [](const auto& call) {
                      Results results;
                      for (int which = 0; which < 8; ++which) {
                        const Tensor x = numbers({2, 3}, 1).requires_grad_((which & 1) != 0),
                                     w = numbers({3, 2}, 2).requires_grad_((which & 2) != 0),
                                     b = numbers({2}, 3).requires_grad_((which & 4) != 0);
                        const Tensor y = call(x, w, b);
                        EXPECT_EQ(y.requires_grad(), which != 0);
                        if (which != 0) y.sum().backward();
                        results.insert(results.end(), {y, x.grad(), w.grad(), b.grad()});
                      }
                      return results;
                    });
}

TEST(BackwardOutside, OfUnusedInputsIsUndefinedOrRefused) {
  hold_in_all_modes([](Tensor x, Tensor) { return x * x; },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_(), y = row({3}).requires_grad_();
                      const Tensor z = call(x, y).sum();
                      const auto found = grad({z}, {x, y}, {}, true, false, true);
                      EXPECT_FALSE(found[1].defined());
                      EXPECT_NE(error_of([&] { grad({z}, {x, y}, {}, true); }), "no error");
                      return Results{found[0]};
                    });
}

TEST(BackwardOutside, WithGivenGradientsOfAllSizesAndLayouts) {
  hold_in_all_modes([](Tensor x) { return std::make_tuple(x.t() * 2, x.sum(0)); },
                    [](const auto& call) {
                      const Tensor x = numbers({2, 3}).requires_grad_();
                      const auto [turned, sum] = call(x);
                      autograd::backward({turned, sum}, {numbers({2, 3}, 5).t(), ones({1}).expand({3})});
                      Results results{x.grad()};
                      EXPECT_NE(error_of([&, &t = turned] { t.backward(ones({2, 3}), true); }), "no error");
                      return results;
                    });
}

TEST(BackwardOutside, OfCapturedParameters) {
  const auto net = std::make_shared<nn::LinearImpl>(3, 2);
  {
    const NoGradGuard off;
    net->weight.copy_(numbers({2, 3}));
    net->bias.copy_(numbers({2}));
  }
  hold_in_all_modes([&](Tensor x) { return tanh(net->forward(x)); },
                    [&](const auto& call) {
                      Results results;
                      for (const int64_t n : {4, 4, 1, 7}) {
                        net->zero_grad();
                        const Tensor x = numbers({n, 3}, 2).requires_grad_();
                        call(x).square().sum().backward();
                        results.insert(results.end(), {x.grad(), net->weight.grad(), net->bias.grad()});
                      }
                      net->zero_grad();
                      return results;
                    });
}

// The tape lets go of parameters that it had saved; that is no change of the user's.
TEST(BackwardOutside, ThatSavedParametersLeavesTheProgramAsItIs) {
  const Tensor weight = numbers({3}).requires_grad_(), scale = numbers({3}, 2).requires_grad_();
  const auto f = compile([&](Tensor x) { return ((x * weight).sin() * scale).sum(); }, without_audits());
  f(counting({3})).backward();
  const Counts counts;
  for (int i = 0; i < 3; ++i) {
    f(counting({3})).backward();
    (weight * scale).sum().backward();
  }
  EXPECT_EQ(counts.hits(), 3u);
}

TEST(BackwardOutside, GradientsOfGradientsToThirdOrder) {
  hold_in_all_modes([](Tensor x) { return (exp(x) * sin(x)).sum(); },
                    [](const auto& call) {
                      const Tensor x = testing::vector({0.5, -1}).requires_grad_();
                      Results results{call(x)};
                      for (int order = 0; order < 3; ++order)
                        results.push_back(grad({results.back().sum()}, {x}, {}, {}, true)[0]);
                      results.back().sum().backward();
                      results.push_back(x.grad());
                      return results;
                    });
}

TEST(BackwardOutside, GradientsOfGradientsWithGivenGradients) {
  hold_in_all_modes([](Tensor x, Tensor w) { return std::make_tuple(relu(x.matmul(w)), x.pow(3)); },
                    [](const auto& call) {
                      const Tensor x = numbers({2, 3}).requires_grad_(),
                                   w = numbers({3, 2}, 4).requires_grad_(),
                                   v = numbers({2, 2}, 6).requires_grad_();
                      const auto [h, cube] = call(x, w);
                      const auto first = grad({h, cube.sum()}, {x, w}, {v, Tensor()}, {}, true);
                      (first[0].square().sum() + first[1].square().sum()).backward();
                      return Results{first[0], first[1], x.grad(), w.grad(), v.grad()};
                    });
}

TEST(BackwardOutside, PassesGradcheck) {
  const auto f =
      compile([](Tensor x, Tensor w) { return softmax(tanh(x.matmul(w)), -1) * x.sum(); }, without_audits());
  const Tensor x = numbers({3, 4}, 1, kFloat64).requires_grad_(),
               w = numbers({4, 2}, 2, kFloat64).requires_grad_();
  const auto check = [&](const variable_list& inputs) { return f(inputs[0], inputs[1]); };
  EXPECT_TRUE(autograd::gradcheck(check, {x, w}));
  EXPECT_TRUE(autograd::gradgradcheck(check, {x, w}));
}

TEST(BackwardOutside, OfInputsThatWereWritten) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        y[0].mul_(2);
        x.mul_(y);
        x.slice(0, 1).add_(y.slice(0, 1));
        return x * y;
      },
      [](const auto& call) {
        const Tensor a = row({1, 2, 3}).requires_grad_(), b = row({4, 5, 6}).requires_grad_();
        Tensor x = a * 1, y = b * 1;
        const Tensor z = call(x, y);
        (z.sum() + (x * 3).sum() + y.square().sum()).backward();
        return Results{z, x, y, a.grad(), b.grad()};
      });
}

TEST(BackwardOutside, OfInputsThatBecomeDifferentiableByTheWrite) {
  hold_in_all_modes([](Tensor x, Tensor w) { x.slice(0, 0, 2).copy_(w * 2); },
                    [](const auto& call) {
                      Tensor x = zeros({3});
                      const Tensor w = row({1, 2}).requires_grad_();
                      call(x, w);
                      EXPECT_TRUE(x.requires_grad());
                      (x * x).sum().backward();
                      EXPECT_EQ(list(w.grad()), (List{8, 16}));
                      return Results{x, w.grad()};
                    });
}

TEST(BackwardOutside, InHalfTypes) {
  for (const DType dtype : {kBFloat16, kFloat16, kFloat64}) {
    hold_in_all_modes([](Tensor x, Tensor w) { return (softmax(x.matmul(w), -1) * gelu(x).sum()).square(); },
                      [&](const auto& call) {
                        const Tensor x = numbers({3, 4}, 1).to(dtype).requires_grad_(),
                                     w = numbers({4, 2}, 2).to(dtype).requires_grad_();
                        const Tensor y = call(x, w);
                        y.sum().backward();
                        return Results{y, x.grad(), w.grad()};
                      });
  }
}

TEST(BackwardOutside, OfTensorsWithoutElements) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) { return silu(x.matmul(w)); },
      [](const auto& call) {
        Results results;
        for (const int64_t n : {0, 1, 2, 0}) {
          const Tensor x = numbers({n, 3}).requires_grad_(), w = numbers({3, 2}).requires_grad_();
          call(x, w).sum().backward();
          results.insert(results.end(), {x.grad(), w.grad()});
        }
        return results;
      });
}

TEST(BackwardOutside, ThroughChainsOfCompiledFunctions) {
  hold_in_all_modes([](Tensor x) { return tanh(x) * x; },
                    [](const auto& call) {
                      const Tensor x = numbers({5}).requires_grad_();
                      Tensor y = x;
                      for (int i = 0; i < 4; ++i) y = call(y) + 0.1;
                      y.sum().backward();
                      return Results{y, x.grad()};
                    });
}

// Backward is compiled when it first runs, with a backend that was the function's.
TEST(BackwardOutside, RunsWhenTheFunctionIsGone) {
  const auto num_graphs = std::make_shared<int>(0);
  const Tensor x = numbers({3}).requires_grad_();
  Tensor y;
  {
    const auto f = compile([](Tensor a) { return (a * a).sin(); },
                           {.backend = [num_graphs](const compiler::Graph& graph, std::span<const Tensor>) {
                             ++*num_graphs;
                             return eager_program(graph);
                           }});
    y = f(x);
  }
  y.sum().backward();
  EXPECT_EQ(*num_graphs, 2);
  const Tensor plain = numbers({3}).requires_grad_();
  (plain * plain).sin().sum().backward();
  EXPECT_EQ(tests::difference_of_bits(x.grad(), plain.grad()), "");
  y = {};
  EXPECT_EQ(num_graphs.use_count(), 1);
}

TEST(BackwardOutside, ThroughAFunctionOfTheUsers) {
  struct Cube : autograd::Function<Cube> {
    static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) {
      ctx->save_for_backward({x});
      return x * x * x;
    }
    static variable_list backward(autograd::AutogradContext* ctx, variable_list dy) {
      const Tensor x = ctx->get_saved_variables()[0];
      return {dy[0] * 5 * x * x};  // not the true one, to tell whose runs
    }
  };
  hold_in_all_modes([](Tensor x) { return Cube::apply(x * 1).sum(); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_();
                      const Tensor y = call(x);
                      y.backward();
                      EXPECT_EQ(list(x.grad()), (List{5, 20}));
                      return Results{y, x.grad()};
                    });
}

TEST(BackwardOutside, ThroughACheckpoint) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) {
        const auto block = [w](const Tensor& h) { return tanh(h.matmul(w)); };
        return autograd::checkpoint(block, autograd::checkpoint(block, x)).sum();
      },
      [](const auto& call) {
        const Tensor x = numbers({2, 3}).requires_grad_(), w = numbers({3, 3}, 2).requires_grad_();
        call(x, w).backward();
        return Results{x.grad(), w.grad()};
      });
}

// ---- Inside -------------------------------------------------------------------------------------------------------------

TEST(BackwardInside, LeavesGradientsWhereEagerDoes) {
  Tensor w = numbers({3}).requires_grad_();
  hold_in_all_modes([&](Tensor x) { (w * x).square().sum().backward(); },
                    [&](const auto& call) {
                      w.mutable_grad().reset();
                      Results results;
                      call(row({1, 2, 3}));
                      results.push_back(w.grad().clone());
                      call(row({1, 2, 3}));  // adds to what is there
                      results.push_back(w.grad().clone());
                      w.mutable_grad().reset();
                      call(row({3, 2, 1}));
                      results.push_back(w.grad().clone());
                      EXPECT_FALSE(w.grad().requires_grad());
                      w.mutable_grad().reset();
                      return results;
                    });
}

TEST(BackwardInside, KeepsTheIdentityOfAGradientItAddsTo) {
  Tensor w = numbers({3}).requires_grad_();
  const auto f = compile([&](Tensor x) { (w * x).sum().backward(); }, without_audits());
  for (int round = 0; round < 3; ++round) {
    const Tensor gradient = ones({3});
    w.set_grad(gradient);
    f(row({1, 2, 3}));
    EXPECT_TRUE(w.grad().is_same(gradient)) << round;
    EXPECT_EQ(list(gradient), (List{2, 3, 4}));
  }
}

TEST(BackwardInside, ReadsAndClearsGradients) {
  Tensor w = numbers({3}).requires_grad_();
  hold_in_all_modes(
      [&](Tensor x) {
        const bool had = w.grad().defined();
        Tensor before = had ? w.grad().clone() : zeros({3});
        w.mutable_grad().reset();
        (w * x).sum().backward();
        return std::make_tuple(before, w.grad() * 2);
      },
      [&](const auto& call) {
        w.mutable_grad().reset();
        const auto [none, first] = call(row({1, 2, 3}));
        const auto [before, second] = call(row({4, 5, 6}));
        EXPECT_EQ(list(none), (List{0, 0, 0}));
        EXPECT_EQ(list(before), (List{1, 2, 3}));
        EXPECT_EQ(list(w.grad()), (List{4, 5, 6}));
        w.mutable_grad().reset();
        return Results{none, first, before, second};
      });
}

TEST(BackwardInside, OfArgumentsThatAreLeaves) {
  hold_in_all_modes([](Tensor x) { (x * x).sum().backward(); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_();
                      call(x);
                      call(x);
                      EXPECT_EQ(list(x.grad()), (List{4, 8}));
                      return Results{x.grad()};
                    });
}

TEST(BackwardInside, GradGivesGradientsWithoutTouchingAny) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        const auto found = grad({(x * y).sum(), x.exp().sum()}, {x, y});
        return std::make_tuple(found[0], found[1]);
      },
      [](const auto& call) {
        const Tensor x = row({1, 2}).requires_grad_(), y = row({3, 4}).requires_grad_();
        const auto [dx, dy] = call(x, y);
        EXPECT_FALSE(x.grad().defined());
        EXPECT_FALSE(dx.requires_grad());
        EXPECT_EQ(list(dy), (List{1, 2}));
        return Results{dx, dy};
      });
}

// A tape that began outside is not the function's to walk.
TEST(BackwardInside, IntoATapeFromOutsideIsAnErrorThatSaysSo) {
  const auto f = compile([](Tensor x) { (x * x).sum().backward(); }, without_audits());
  const Tensor leaf = row({1, 2}).requires_grad_();
  const std::string text = error_of([&] { f(leaf * 2); });
  expect_contains(text, "outside");
  EXPECT_FALSE(leaf.grad().defined());
  f(leaf);
  EXPECT_EQ(list(leaf.grad()), (List{2, 4}));
}

}  // namespace
}  // namespace weft
