// Gradients through and inside compiled functions: cases that users of tensor compilers met.
// Their neighbours are in backward_test.cpp.

#include <cmath>

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;
using autograd::grad;

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

// ---- Gradients of gradients -------------------------------------------------------------------------------------------

TEST(GradientsOfGradients, StayDifferentiableInsideTheFunction) {
  const auto f = [](Tensor x, Tensor w) {
    const Tensor y = relu(x.matmul(w)).sum();
    const Tensor g = grad({y}, {x}, {}, {}, true)[0];
    return std::make_tuple(g, (g * g).sum());
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = tensor({{1., 1.}}).requires_grad_(), w = tensor({{1., 0.}, {0., 2.}}).requires_grad_();
    const auto [g, penalty] = call(x, w);
    EXPECT_EQ(list(g), (List{1, 2}));
    EXPECT_TRUE(g.requires_grad());
    EXPECT_EQ(penalty.template item<float>(), 5);
    penalty.backward();
    EXPECT_EQ(list(w.grad()), (List{2, 2, 4, 4}));
    return Results{g, penalty, w.grad(), x.grad()};
  });
}

TEST(GradientsOfGradients, StayDifferentiableThroughTheFunction) {
  hold_in_all_modes([](Tensor x, Tensor w) { return relu(x.matmul(w)).sum(); },
                    [](const auto& call) {
                      const Tensor x = tensor({{1., 1.}}).requires_grad_(),
                                   w = tensor({{1., 0.}, {0., 2.}}).requires_grad_();
                      const Tensor g = grad({call(x, w)}, {x}, {}, {}, true)[0];
                      EXPECT_EQ(list(g), (List{1, 2}));
                      EXPECT_TRUE(g.requires_grad());
                      const Tensor penalty = (g * g).sum();
                      penalty.backward();
                      EXPECT_EQ(list(w.grad()), (List{2, 2, 4, 4}));
                      return Results{g, penalty, w.grad(), x.grad()};
                    });
}

TEST(GradientsOfGradients, AreTakenInsideTheFunctionAsAWhole) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) {
        const Tensor y = relu(x.matmul(w)).sum();
        const Tensor g = grad({y}, {x}, {}, {}, true)[0];
        const Tensor penalty = (g * g).sum();
        penalty.backward();
        return penalty;
      },
      [](const auto& call) {
        const Tensor x = tensor({{1., 1.}}).requires_grad_(),
                     w = tensor({{1., 0.}, {0., 2.}}).requires_grad_();
        const Tensor penalty = call(x, w);
        EXPECT_EQ(list(w.grad()), (List{2, 2, 4, 4}));
        return Results{penalty.detach(), w.grad(), x.grad()};
      });
}

// ---- Mutation and history ---------------------------------------------------------------------------------------------

TEST(History, SurvivesInADetachedAliasOfAWrittenInput) {
  hold_in_all_modes(
      [](Tensor a) {
        const Tensor t = a.detach();
        a.mul_(5);
        return std::make_tuple(a, t);
      },
      [](const auto& call) {
        const Tensor leaf = ones({2}).requires_grad_();
        const Tensor given = 3 * leaf;
        const auto [a, t] = call(given);
        EXPECT_TRUE(a.is_same(given));
        EXPECT_TRUE(shares_memory(a, t));
        EXPECT_FALSE(t.requires_grad());
        EXPECT_EQ(list(a), (List{15, 15}));
        EXPECT_EQ(list(t), (List{15, 15}));
        a.sum().backward();
        EXPECT_EQ(list(leaf.grad()), (List{15, 15}));
        return Results{a, t, leaf.grad()};
      });
}

TEST(History, AllowsAWriteThatNothingSavedNeeds) {
  hold_in_all_modes(
      [](Tensor base, Tensor m, Tensor s) {
        Tensor x = base * 1;
        const Tensor y = x.slice(0, 0, 2).sum();
        x.sub_(m);
        x.div_(s);
        return y + x.sum();
      },
      [](const auto& call) {
        const Tensor base = row({1, 2, 3}).requires_grad_(), m = tensor(1.f).requires_grad_(),
                     s = tensor(2.f).requires_grad_();
        const Tensor loss = call(base, m, s);
        EXPECT_EQ(loss.template item<float>(), 4.5);
        loss.backward();
        EXPECT_EQ(list(base.grad()), (List{1.5, 1.5, 0.5}));
        EXPECT_EQ(list(m.grad()), (List{-1.5}));
        EXPECT_EQ(list(s.grad()), (List{-0.75}));
        return Results{loss, base.grad(), m.grad(), s.grad()};
      });
}

// The write comes from a compiled function, between an op outside and its backward.
TEST(History, AllowsACompiledWriteThatNothingSavedNeeds) {
  hold_in_all_modes(
      [](Tensor x, Tensor m, Tensor s) {
        x.sub_(m);
        x.div_(s);
      },
      [](const auto& call) {
        const Tensor base = row({1, 2, 3}).requires_grad_(), m = tensor(1.f).requires_grad_(),
                     s = tensor(2.f).requires_grad_();
        Tensor x = base * 1;
        const Tensor y = x.slice(0, 0, 2).sum();
        call(x, m, s);
        (y + x.sum()).backward();
        EXPECT_EQ(list(base.grad()), (List{1.5, 1.5, 0.5}));
        EXPECT_EQ(list(m.grad()), (List{-1.5}));
        EXPECT_EQ(list(s.grad()), (List{-0.75}));
        return Results{x, base.grad(), m.grad(), s.grad()};
      });
}

TEST(History, RefusesAWriteOverWhatIsSavedInsideTheFunction) {
  const auto f = [](Tensor x) {
    Tensor y = x * 1;
    const Tensor z = (y * y).sum();
    y.add_(1);
    return z;
  };
  const Tensor leaf = ones({2}).requires_grad_();
  const std::string want = error_of([&] { f(leaf).backward(); });
  expect_contains(want, "mul");
  for (const Way& way : compiled_ways()) {
    SCOPED_TRACE(way.name);
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      const Tensor z = compiled(leaf);
      EXPECT_EQ(z.item<float>(), 2);
      expect_contains(error_of([&] { z.backward(); }), "mul");
    }
  }
  EXPECT_FALSE(leaf.grad().defined());
}

// ---- Several outputs, several passes ----------------------------------------------------------------------------------

TEST(Backward, RunsSeparatelyThroughEachViewOutput) {
  hold_in_all_modes([](Tensor x) { return std::make_tuple(x[0], x[1]); },
                    [](const auto& call) {
                      const Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
                      const auto [first, second] = call(x);
                      first.sum().backward();
                      second.sum().backward();
                      EXPECT_EQ(list(x.grad()), (List{1, 1, 1, 1}));
                      return Results{first, second, x.grad()};
                    });
}

TEST(Backward, RunsSeparatelyThroughOutputsThatSaveNothing) {
  hold_in_all_modes(
      [](Tensor x) {
        const std::vector<Tensor> rows = (2 * x).unbind(0);
        return std::make_tuple(rows[0], rows[1], x.neg());
      },
      [](const auto& call) {
        const Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
        const auto [first, second, third] = call(x);
        first.sum().backward();
        third.sum().backward();
        second.sum().backward();
        EXPECT_EQ(list(x.grad()), (List{1, 1, 1, 1}));
        return Results{first, second, third, x.grad()};
      });
}

TEST(Backward, RunsSeparatelyThroughIndependentOutputs) {
  hold_in_all_modes([](Tensor x, Tensor y) { return std::make_tuple(sin(x), exp(y) * y); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_(), y = row({3, 4}).requires_grad_();
                      const auto [a, b] = call(x, y);
                      a.sum().backward();
                      EXPECT_FALSE(y.grad().defined());
                      b.sum().backward();
                      return Results{a, b, x.grad(), y.grad()};
                    });
}

TEST(Backward, TwiceInsideOneStepGivesTheSameEachTime) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) {
        const Tensor turned = x.t().contiguous(), losses = turned.matmul(w);
        losses.sum().backward({}, true);
        (0.5 * losses).sum().backward();
      },
      [](const auto& call) {
        const Tensor x = tensor({{1., 2.}, {3., 4.}});
        Tensor w = row({1, -1}).requires_grad_();
        Results results;
        for (int run = 0; run < 4; ++run) {
          call(x, w);
          EXPECT_EQ(list(w.grad()), (List{4.5, 10.5}));
          results.push_back(w.grad());
          w.mutable_grad().reset();
        }
        return results;
      });
}

TEST(Backward, TwiceInsideOneStepWithGradientsClearedInside) {
  hold_in_all_modes(
      [](Tensor x, Tensor w) {
        const Tensor losses = x.t().contiguous().matmul(w);
        losses.sum().backward({}, true);
        (0.5 * losses).sum().backward();
        const Tensor gradient = w.grad().clone();
        w.mutable_grad().reset();
        return gradient;
      },
      [](const auto& call) {
        const Tensor x = tensor({{1., 2.}, {3., 4.}}), w = row({1, -1}).requires_grad_();
        Results results;
        for (int run = 0; run < 4; ++run) {
          results.push_back(call(x, w));
          EXPECT_EQ(list(results.back()), (List{4.5, 10.5}));
          EXPECT_FALSE(w.grad().defined());
        }
        return results;
      });
}

// ---- Formulas ---------------------------------------------------------------------------------------------------------

TEST(Formulas, OfSelectsDoNotAddUpOverAnExpandedZero) {
  hold_in_all_modes([](Tensor x) { return 2 * x.select(-1, 1) - x.select(-1, 3); },
                    [](const auto& call) {
                      const List want{0, 2, 0, -1, 0, 2, 0, -1, 0, 2, 0, -1};
                      const Tensor rows = numbers({3, 4}).requires_grad_();
                      for (int64_t r = 0; r < 3; ++r) call(rows[r]).backward();
                      EXPECT_EQ(list(rows.grad()), want);
                      const Tensor one_hot = numbers({3, 4}).requires_grad_();
                      for (int64_t r = 0; r < 3; ++r) call(one_hot).backward(eye(3)[r]);
                      EXPECT_EQ(list(one_hot.grad()), want);
                      const Tensor batched = numbers({3, 4}).requires_grad_();
                      call(batched).sum().backward();
                      EXPECT_EQ(list(batched.grad()), want);
                      return Results{rows.grad(), one_hot.grad(), batched.grad()};
                    });
}

TEST(Formulas, OfGathersAddUpWhatRepeats) {
  const auto f = [](Tensor x, Tensor i) {
    return x.expand({2, -1}).gather(1, i).sum() + x.index_select(0, i[0]).sum() + x.index({i}).sum() +
           x.slice(0, 0, 2).sum() + x.unfold(0, 2, 1).sum();
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = counting({3}).requires_grad_();
    call(x, tensor({{0, 0, 2}, {0, 1, 0}})).backward();
    EXPECT_EQ(list(x.grad()), (List{4 + 2 + 4 + 1 + 1, 1 + 0 + 1 + 1 + 2, 1 + 1 + 1 + 0 + 1}));
    return Results{x.grad()};
  });
}

TEST(Formulas, OfAScatteredMaximumGoToTheLargest) {
  hold_in_all_modes(
      [](Tensor src) {
        const Tensor start = full({1}, -std::numeric_limits<double>::infinity());
        return start.scatter_reduce(0, tensor({0, 0, 0}), src, "amax", false);
      },
      [](const auto& call) {
        const Tensor src = row({1, 4, 2}).requires_grad_();
        const Tensor out = call(src);
        EXPECT_EQ(list(out), List{4});
        out.sum().backward();
        EXPECT_EQ(list(src.grad()), (List{0, 1, 0}));
        return Results{out, src.grad()};
      });
}

TEST(Formulas, OfScatteredReductionsEqualEager) {
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      SCOPED_TRACE(reduce);
      hold_in_all_modes(
          [=](Tensor x, Tensor src) {
            return x.scatter_reduce(0, tensor({1, 0, 1, 1, 3}), src, reduce, include_self);
          },
          [](const auto& call) {
            const Tensor x = row({5, -1, 2, 3}).requires_grad_(),
                         src = row({2, 4, 2, -3, 3}).requires_grad_();
            const Tensor out = call(x, src);
            (out * row({1, 2, 3, 4})).sum().backward();
            return Results{out, x.grad(), src.grad()};
          });
    }
  }
}

TEST(Formulas, AreNotSimplifiedByRulesOfRealNumbers) {
  hold_in_all_modes([](Tensor x) { return sqrt(x * x); },
                    [](const auto& call) {
                      const Tensor x = row({1e-30f, 3, -2}).requires_grad_();
                      const Tensor y = call(x);
                      EXPECT_EQ(list(y), (List{0, 3, 2}));
                      y.sum().backward();
                      EXPECT_EQ(list(x.grad()), (List{HUGE_VAL, 1, -1}));
                      return Results{y, x.grad()};
                    });
  hold_in_all_modes(
      [](Tensor x) {
        return std::vector<Tensor>{x * 0,
                                   x - x,
                                   x / x,
                                   (x + 1e8f) - 1e8f,
                                   log(exp(x)),
                                   x * 3 / 3,
                                   x + 0,
                                   -(-x),
                                   x * 1,
                                   pow(x, 2),
                                   (x * x) / x,
                                   x.sum() - x.sum(),
                                   0 - x,
                                   maximum(x, x),
                                   where(x == x, x, 0)};
      },
      [](const auto& call) {
        Tensor x = row({NAN, HUGE_VALF, 2, -3, 0, -0.f, 1e-30f, 0.1f}).requires_grad_();
        const std::vector<Tensor> values = call(x);
        Results results = values;
        for (const Tensor& one : values) {
          x.mutable_grad().reset();
          one.sum().backward({}, true);
          results.push_back(x.grad());
        }
        return results;
      });
}

// ---- Modes and the tape's own calls -----------------------------------------------------------------------------------

TEST(GradModes, InsideTheFunctionDecideForThemselves) {
  hold_in_all_modes(
      [](Tensor x) {
        Tensor a;
        {
          const EnableGradGuard on;
          a = x + 1;
        }
        const Tensor b = x + 1;
        return std::make_tuple(a, b);
      },
      [](const auto& call) {
        const Tensor x = row({1, 2}).requires_grad_();
        const NoGradGuard off;
        const auto [a, b] = call(x);
        EXPECT_TRUE(a.requires_grad());
        EXPECT_FALSE(b.requires_grad());
        EXPECT_FALSE(shares_memory(a, b));
        const EnableGradGuard on;
        a.sum().backward();
        EXPECT_EQ(list(x.grad()), (List{1, 1}));
        return Results{a, b, x.grad()};
      });
}

TEST(GradModes, OffInAPartOfTheFunctionStopGradientsThere) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor y = x * x;
        Tensor scale;
        {
          const NoGradGuard off;
          scale = x * x;
          scale.add_(1);
        }
        return std::make_tuple(y * scale, scale, (y * y.detach()).sum());
      },
      [](const auto& call) {
        const Tensor x = row({1, 2}).requires_grad_();
        const auto [product, scale, half] = call(x);
        EXPECT_FALSE(scale.requires_grad());
        (product.sum() + half).backward();
        EXPECT_EQ(list(x.grad()), (List{2 * 2 + 2, 4 * 5 + 16}));
        return Results{product, scale, half, x.grad()};
      });
}

TEST(TapeCalls, KeptGradientsOfIntermediatesAreKeptOrRefused) {
  const auto f = [](Tensor x) {
    const Tensor y = 2 * x;
    y.retain_grad();
    return std::make_tuple(y * y, y);
  };
  for (const Way& way : compiled_ways()) {
    SCOPED_TRACE(way.name);
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      const Tensor x = tensor(2.f).requires_grad_();
      Tensor z, y;
      const std::string text = error_of([&] { std::tie(z, y) = compiled(x); });
      if (text != "no error") {
        expect_contains(text, "retain_grad");
        continue;
      }
      z.backward();
      EXPECT_EQ(list(y.grad()), List{8});
      EXPECT_EQ(list(x.grad()), List{16});
    }
  }
}

TEST(TapeCalls, HooksOnIntermediatesRunOrAreRefused) {
  int calls = 0;
  const auto f = [&](Tensor x) {
    const Tensor y = 2 * x;
    y.register_hook([&](const Tensor& g) {
      ++calls;
      return g * 10;
    });
    return (y * y).sum();
  };
  for (const Way& way : compiled_ways()) {
    SCOPED_TRACE(way.name);
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      const Tensor x = tensor({2.f}).requires_grad_();
      const std::string text = error_of([&] { compiled(x).backward(); });
      if (text != "no error") expect_contains(text, "register_hook");
      else EXPECT_EQ(list(x.grad()), List{160});
    }
  }
}

TEST(TapeCalls, HooksOutsideSeeGradientsOfCompiledResults) {
  hold_in_all_modes([](Tensor x) { return std::make_tuple(x * x, x + 1); },
                    [](const auto& call) {
                      const Tensor x = row({1, 2}).requires_grad_();
                      Results results;
                      x.register_hook([&](const Tensor& g) { results.push_back(g.clone()); });
                      const auto [square, next] = call(x);
                      square.retain_grad();
                      next.register_hook([](const Tensor& g) { return g * 3; });
                      (square.sum() * 2 + next.sum()).backward();
                      EXPECT_EQ(list(x.grad()), (List{2 * 2 + 3, 4 * 2 + 3}));
                      EXPECT_EQ(list(square.grad()), (List{2, 2}));
                      results.push_back(square.grad());
                      results.push_back(x.grad());
                      return results;
                    });
}

}  // namespace
}  // namespace weft
