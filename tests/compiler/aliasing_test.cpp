// Inputs that share memory, and results that share it with inputs and with each other.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

// ---- Inputs -------------------------------------------------------------------------------------------------------------

TEST(AliasedInputs, TheSameTensorPassedTwice) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        x.add_(1);
        return x * y;
      },
      [](const auto& call) {
        Results results;
        for (int round = 0; round < 3; ++round) {
          const Tensor a = counting({3}), b = counting({3});
          results.push_back(call(a, a));
          EXPECT_EQ(list(results.back()), (List{1, 4, 9}));
          results.push_back(call(a, b));
          EXPECT_EQ(list(results.back()), (List{0, 3, 8}));
          results.insert(results.end(), {a, b});
        }
        return results;
      });
}

TEST(AliasedInputs, TwoHandlesAndViewsOfOneTensor) {
  const auto f = [](Tensor x, Tensor y) {
    x.mul_(2);
    y.sub_(1);
    return x + y;
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const auto run = [&](auto second) {
      const Tensor base = numbers({3, 3});
      results.push_back(call(base, second(base)));
      results.push_back(base);
    };
    run([](const Tensor& x) { return x.alias(); });
    run([](const Tensor& x) { return x.t(); });
    run([](const Tensor& x) { return x.detach(); });
    run([](const Tensor& x) { return x.slice(0, 1, 2); });
    run([](const Tensor& x) { return x.diagonal(); });
    run([](const Tensor& x) { return x.clone(); });
    run([](const Tensor& x) { return x.view({9}).slice(0, 3).view({2, 3}).slice(0, 0, 1); });
    return results;
  });
}

TEST(AliasedInputs, PartsOfOneStorageThatDoNotOverlap) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        x.add_(y);
        y.mul_(x);
        return y.sum();
      },
      [](const auto& call) {
        const Tensor base = counting({4, 4});
        Results results;
        results.push_back(call(base[0], base[2]));
        results.push_back(call(base.select(1, 1), base.select(1, 3)));
        results.push_back(call(base.slice(0, 0, 2), base.slice(0, 2)));
        results.push_back(base);
        return results;
      });
}

TEST(AliasedInputs, ThreeOfWhichTwoOverlap) {
  const auto f = [](std::vector<Tensor> all) {
    all[1].mul_(10);
    all[0].add_(all[2]);
    return all[0] - all[1];
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    const auto run = [&](const std::vector<std::pair<int64_t, int64_t>>& ranges) {
      const Tensor base = counting({12});
      std::vector<Tensor> parts;
      for (const auto& [from, to] : ranges) parts.push_back(base.slice(0, from, to));
      results.push_back(call(parts));
      results.push_back(base);
    };
    run({{0, 4}, {4, 8}, {8, 12}});
    run({{0, 4}, {2, 6}, {8, 12}});
    run({{0, 4}, {6, 10}, {8, 12}});
    run({{0, 4}, {2, 6}, {4, 8}});
    run({{3, 7}, {3, 7}, {3, 7}});
    run({{0, 4}, {4, 8}, {8, 12}});
    return results;
  });
}

TEST(AliasedInputs, OverlapThatIsOnlyReadNeedsNoTraceOfItsOwn) {
  int entered = 0;
  auto f = compile(
      [&](Tensor x, Tensor y) {
        ++entered;
        return x + y;
      },
      without_audits());
  const Tensor base = counting({9});
  EXPECT_EQ(list(f(counting({5}), counting({5}))), (List{0, 2, 4, 6, 8}));
  EXPECT_EQ(list(f(base.slice(0, 0, 5), base.slice(0, 3, 8))), (List{3, 5, 7, 9, 11}));
  EXPECT_EQ(list(f(base.slice(0, 0, 5), base.slice(0, 0, 5))), (List{0, 2, 4, 6, 8}));
  EXPECT_EQ(entered, 1);
}

TEST(AliasedInputs, AnArgumentThatOverlapsACapturedTensor) {
  const Tensor state = counting({6});
  hold_in_all_modes(
      [state](Tensor x) {
        Tensor own = state;
        own.add_(1);
        x.mul_(2);
        return own.sum() + x.sum();
      },
      [&](const auto& call) {
        Tensor(state).copy_(counting({6}));
        const Tensor apart = counting({2});
        Results results{call(apart), apart, state.clone()};
        EXPECT_EQ(list(state), (List{1, 2, 3, 4, 5, 6}));
        results.push_back(call(state.slice(0, 1, 3)));
        EXPECT_EQ(list(state), (List{2, 6, 8, 5, 6, 7}));
        results.push_back(call(state));
        results.push_back(state.clone());
        return results;
      });
}

// A program with one input for two tensors is for calls in which they are one.
TEST(AliasedInputs, TwoArgumentsThatWereOneTensor) {
  hold_in_all_modes([](Tensor x, Tensor y) { return std::make_tuple(x * y, y); },
                    [](const auto& call) {
                      const Tensor a = counting({3}), b = numbers({3});
                      Results results;
                      for (const Tensor& other : {a, b, a}) {
                        const auto [product, same] = call(a, other);
                        EXPECT_TRUE(same.is_same(other));
                        results.push_back(product);
                      }
                      return results;
                    });
}

TEST(AliasedInputs, AnArgumentThatWasACapturedTensor) {
  const Tensor state = counting({3});
  hold_in_all_modes([state](Tensor x) { return x * state; },
                    [&](const auto& call) {
                      return Results{call(state), call(numbers({3})), call(state)};
                    });
}

TEST(AliasedInputs, AnArgumentThatWasTheGradientOfAnother) {
  const auto run = [](const auto& call) {
    const Tensor x = ones({3}).requires_grad_();
    (x * 2).sum().backward();
    return Results{call(x, x.grad()), call(x, counting({3})), call(x, x.grad())};
  };
  hold_in_all_modes([](Tensor x, Tensor g) { return x.grad() * 10 + g; }, run);
  hold_in_all_modes([](Tensor g, Tensor x) { return x.grad() * 10 + g; },
                    [&](const auto& call) { return run([&](Tensor x, Tensor g) { return call(g, x); }); });
}

TEST(AliasedInputs, ACapturedTensorThatWasTheGradientOfAnother) {
  const Tensor x = ones({3}).requires_grad_(), first = full({3}, 2.0), second = full({3}, 7.0);
  const auto run = [&](const auto& call) {
    Results results;
    for (const Tensor& gradient : {first, second, first}) {
      Tensor(x).mutable_grad() = gradient;
      results.push_back(call(counting({3})));
    }
    return results;
  };
  hold_in_all_modes([x, first](Tensor y) { return x.grad() * 10 + first + y; }, run);
  hold_in_all_modes(
      [x, first](Tensor y) {
        const Tensor twice = first * 2;
        return x.grad() * 10 + twice + y;
      },
      run);
}

// Gradients are inputs, too: an argument may share memory with one on a later call.
TEST(AliasedInputs, AnArgumentThatSharesMemoryWithAGradient) {
  const auto scenario = [](const auto& call) {
    Results results;
    const Tensor x = ones({3}).requires_grad_();
    (x * 2).sum().backward();
    const auto run = [&](const Tensor& g) { results.insert(results.end(), {call(x, g), x.grad().clone()}); };
    run(full({3}, 5.0));
    run(x.grad());
    run(x.grad().slice(0, 0, 3));
    run(full({3}, 5.0));
    return results;
  };
  hold_in_all_modes(
      [](Tensor x, Tensor g) {
        g.add_(1);
        return x.grad() * 10 + g;
      },
      scenario);
  hold_in_all_modes(
      [](Tensor x, Tensor g) {
        x.grad().add_(1);
        return x.grad() * 10 + g;
      },
      scenario);
  hold_in_all_modes(
      [](Tensor x, Tensor g) {
        (x * x).sum().backward();
        return g * 2;
      },
      scenario);
}

TEST(AliasedInputs, TwoGradientsThatShareMemory) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        (x * 3).sum().backward();
        return y.grad() * 2;
      },
      [](const auto& call) {
        Results results;
        const Tensor x = ones({3}).requires_grad_(), y = ones({3}).requires_grad_();
        (x * 2).sum().backward();
        (y * 2).sum().backward();
        results.push_back(call(x, y));
        Tensor(y).mutable_grad() = x.grad();
        results.push_back(call(x, y));
        Tensor(y).mutable_grad() = x.grad().alias();
        results.push_back(call(x, y));
        Tensor(y).mutable_grad() = x.grad().clone();
        results.push_back(call(x, y));
        return results;
      });
}

TEST(AliasedInputs, ThatRequireGrad) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        x.mul_(2);
        return (x * y).sum();
      },
      [](const auto& call) {
        const Tensor leaf = numbers({6}).requires_grad_();
        Tensor base = leaf * 1;
        const Tensor y = call(base.slice(0, 0, 4), base.slice(0, 2, 6));
        y.backward();
        return Results{y.detach(), base.detach(), leaf.grad()};
      },
      Capture::IfPossible);
}

TEST(AliasedInputs, InHalfTypes) {
  for (const DType dtype : {kBFloat16, kFloat16, kInt32, kFloat64}) {
    hold_in_all_modes(
        [](Tensor x, Tensor y) {
          x.mul_(3);
          y.add_(x);
          return x - y;
        },
        [&](const auto& call) {
          const Tensor base = counting({7}, dtype), other = counting({5}, dtype);
          Results results{call(other, counting({5}, dtype)), other};
          results.push_back(call(base.slice(0, 0, 5), base.slice(0, 2)));
          results.push_back(base);
          return results;
        });
  }
}

// ---- Results ------------------------------------------------------------------------------------------------------------

TEST(AliasedOutputs, AnInputIsGivenBackItself) {
  hold_in_all_modes([](Tensor x, Tensor y) { return std::make_tuple(y, x, x + y, x); },
                    [](const auto& call) {
                      const Tensor a = numbers({3}), b = numbers({3}, 2);
                      const auto [first, second, sum, third] = call(a, b);
                      EXPECT_TRUE(first.is_same(b));
                      EXPECT_TRUE(second.is_same(a));
                      EXPECT_TRUE(third.is_same(a));
                      const auto [x, y, twice, z] = call(a, a);
                      EXPECT_TRUE(x.is_same(a) && y.is_same(a) && z.is_same(a));
                      return Results{sum, twice};
                    });
}

TEST(AliasedOutputs, ViewsOfInputsShareTheirMemory) {
  const auto f = [](Tensor x) {
    return std::vector<Tensor>{x[0],
                               x.t(),
                               x.slice(1, 1),
                               x.view({-1}),
                               x.unsqueeze(1),
                               x.diagonal(),
                               x.expand({2, -1, -1}),
                               x.t().slice(0, 1).select(1, 0),
                               x.detach(),
                               x.as_strided({2}, {2}, 1)};
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int64_t n : {3, 4, 1}) {
      const Tensor storage = numbers({n + 2, 3}), x = storage.slice(0, 1, n + 1);
      const std::vector<Tensor> views = call(x);
      for (size_t i = 0; i < views.size(); ++i) {
        EXPECT_TRUE(shares_memory(views[i], storage)) << i;
        results.push_back(zeros({}, kInt64) + views[i].storage_offset());
      }
      Tensor(x).mul_(2);
      results.insert(results.end(), views.begin(), views.end());
    }
    return results;
  });
}

TEST(AliasedOutputs, ResultsThatAreViewsOfOneAnother) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor y = x * 2;
        return std::vector<Tensor>{y, y.t(), y[1], y, y.view({-1}), y.t()[1]};
      },
      [](const auto& call) {
        std::vector<Tensor> all = call(counting({3, 3}));
        for (const Tensor& one : all) EXPECT_TRUE(shares_memory(one, all[0]));
        EXPECT_TRUE(all[3].is_same(all[0]));
        all[2].fill_(-1);
        EXPECT_EQ(list(all[0]), (List{0, 2, 4, -1, -1, -1, 12, 14, 16}));
        EXPECT_EQ(list(all[5]), (List{2, -1, 14}));
        return all;
      });
}

TEST(AliasedOutputs, ViewsWithoutTheirBase) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor y = x * 2;
        return std::make_tuple(y[0], y[1], y.select(1, 1));
      },
      [](const auto& call) {
        auto [a, b, c] = call(counting({2, 3}));
        EXPECT_TRUE(shares_memory(a, b));
        EXPECT_TRUE(shares_memory(a, c));
        a.fill_(9);
        EXPECT_EQ(list(c), (List{9, 8}));
        EXPECT_EQ(list(b), (List{6, 8, 10}));
        return Results{a, b, c};
      });
}

TEST(AliasedOutputs, ViewsOfResultsThatRequireGrad) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor y = x * 2;
        return std::make_tuple(y, y.t());
      },
      [](const auto& call) {
        const Tensor x = counting({2, 3}).requires_grad_();
        auto [y, turned] = call(x);
        EXPECT_TRUE(shares_memory(y, turned));
        y.mul_(3);  // shows in the other, values and gradient
        turned.sum().backward();
        EXPECT_EQ(list(x.grad()), (List{6, 6, 6, 6, 6, 6}));
        return Results{turned, x.grad()};
      });
}

TEST(AliasedOutputs, AnInputThatWasWrittenAndItsViews) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor before = x[0];
        x.mul_(2);
        const Tensor after = x[1];
        return std::make_tuple(before, after, x, x.t(), x + 1);
      },
      [](const auto& call) {
        const Tensor x = counting({2, 2});
        const auto [before, after, same, turned, sum] = call(x);
        EXPECT_TRUE(same.is_same(x));
        EXPECT_TRUE(shares_memory(before, x) && shares_memory(after, x) && shares_memory(turned, x));
        EXPECT_EQ(list(before), (List{0, 2}));
        EXPECT_EQ(list(turned), (List{0, 4, 2, 6}));
        return Results{before, after, same, turned, sum};
      });
}

TEST(AliasedOutputs, ACapturedTensorAndItsViews) {
  const Tensor state = counting({2, 2});
  hold_in_all_modes([state](Tensor x) { return std::make_tuple(state, state[1], state + x); },
                    [&](const auto& call) {
                      const auto [same, part, sum] = call(ones({2, 2}));
                      EXPECT_TRUE(same.is_same(state));
                      EXPECT_TRUE(shares_memory(part, state));
                      EXPECT_EQ(part.storage_offset(), 2);
                      return Results{part, sum};
                    });
}

TEST(AliasedOutputs, OfSizeZeroAndOne) {
  hold_in_all_modes(
      [](Tensor x) { return std::make_tuple(x, x.t(), x * 2, x.slice(0, 0, 0)); },
      [](const auto& call) {
        Results results;
        for (const SymList& sizes : {SymList{0, 2}, SymList{2, 0}, SymList{1, 1}, SymList{2, 1}}) {
          const Tensor x = counting(sizes);
          const auto [same, turned, twice, none] = call(x);
          EXPECT_TRUE(same.is_same(x));
          results.insert(results.end(), {turned, twice, none});
        }
        return results;
      });
}

TEST(AliasedOutputs, OfDetachedResultsShareMemoryWithoutHistory) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor y = x * 2;
        return std::make_tuple(y, y.detach());
      },
      [](const auto& call) {
        const Tensor x = counting({2}).requires_grad_();
        const auto [y, bare] = call(x);
        EXPECT_TRUE(shares_memory(y, bare));
        EXPECT_TRUE(y.requires_grad());
        EXPECT_FALSE(bare.requires_grad());
        return Results{y, bare};
      });
}

}  // namespace
}  // namespace weft
