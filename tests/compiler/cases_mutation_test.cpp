// Writes, aliases, views and what is given back: cases that users of tensor compilers met.
// Their neighbours are in aliasing_test.cpp and writes_test.cpp.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;
using indexing::None;
using indexing::Slice;

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

// ---- Inputs that share memory -----------------------------------------------------------------------------------------

TEST(Aliases, InputsThatOverlapOnALaterCallAreSeen) {
  hold_in_all_modes(
      [](Tensor x, Tensor y) {
        x.mul_(3);
        return x + y;
      },
      [](const auto& call) {
        const Tensor apart = row({1, 2, 3, 4, 5});
        const Tensor first = call(apart, row({4, 5, 6, 7, 8}));
        EXPECT_EQ(list(first), (List{7, 11, 15, 19, 23}));
        EXPECT_EQ(list(apart), (List{3, 6, 9, 12, 15}));
        const Tensor base = row({1, 2, 3, 4, 5, 6, 7, 8, 9});
        const Tensor second = call(base.slice(0, 0, 5), base.slice(0, 3, 8));
        EXPECT_EQ(list(second), (List{15, 21, 15, 19, 23}));
        EXPECT_EQ(list(base), (List{3, 6, 9, 12, 15, 6, 7, 8, 9}));
        const Tensor third = call(row({1, 2, 3, 4, 5}), row({4, 5, 6, 7, 8}));
        return Results{first, apart, second, base, third};
      });
}

// ---- Writes through views ---------------------------------------------------------------------------------------------

TEST(Writes, ThroughAViewWithGapsKeepWhatItDoesNotCover) {
  const List want{100, 1, 2, 3, 104, 5, 6, 7, 108, 9, 10, 11};
  hold_in_all_modes(
      [](Tensor base) {
        Tensor v = base.slice(0, {}, {}, 4);
        v += 100;
        return base;
      },
      [&](const auto& call) {
        const Tensor base = counting({12});
        const Tensor y = call(base);
        EXPECT_EQ(list(y), want);
        EXPECT_TRUE(y.is_same(base));
        return Results{y, base};
      });
  hold_in_all_modes(
      [] {
        const Tensor base = arange(12, kFloat32);
        Tensor v = base.index({Slice(None, None, 4)});
        v += 100;
        return base;
      },
      [&](const auto& call) {
        const Tensor y = call();
        EXPECT_EQ(list(y), want);
        return Results{y};
      });
}

TEST(Writes, RowsShiftedFromACopyOfThemselvesDoNotSmear) {
  const auto shift = [](Tensor x) { x.slice(0, 1).copy_(x.slice(0, 0, -1).clone()); };
  hold_in_all_modes(shift, [](const auto& call) {
    const Tensor small = tensor({{1., 1.}, {2., 2.}, {3., 3.}, {4., 4.}});
    call(small);
    EXPECT_EQ(list(small), (List{1, 1, 1, 1, 2, 2, 3, 3}));
    const Tensor large = counting({1024, 2048}), before = large.clone();
    call(large);
    EXPECT_TRUE(equal(large.slice(0, 1), before.slice(0, 0, -1)));
    EXPECT_TRUE(equal(large[0], before[0]));
    return Results{small, large};
  });
}

TEST(Writes, RowsShiftedOntoThemselvesDoNotSmear) {
  hold_in_all_modes(
      [](Tensor x) {
        x.slice(0, 1).copy_(x.slice(0, 0, -1));
        x.slice(1, 0, -1).add_(x.slice(1, 1));
      },
      [](const auto& call) {
        Results results;
        for (const SymList& sizes : {SymList{4, 2}, SymList{1, 3}, SymList{257, 129}}) {
          const Tensor x = counting(sizes);
          call(x);
          results.push_back(x);
        }
        return results;
      });
}

TEST(Writes, GatheredRowsAreReadBeforeTheyArePutBack) {
  hold_in_all_modes([](Tensor x, Tensor i) { x.index_put_({i}, x.index({i}) + x.index({i})); },
                    [](const auto& call) {
                      const Tensor x = tensor({{3., -1.}, {5., 7.}});
                      call(x, tensor({0, 0}));
                      EXPECT_EQ(list(x), (List{6, -2, 5, 7}));
                      const Tensor large = numbers({300, 65});
                      call(large, arange(600).remainder(300));
                      return Results{x, large};
                    });
}

TEST(Writes, AccumulatedRowsAreReadBeforeTheyAreAdded) {
  const auto f = [](Tensor x, Tensor i) {
    x.index_put_({i}, x.index_select(0, i), true);
    x.index_add_(0, i, x.index_select(0, i));
    x.scatter_add_(0, i.unsqueeze(1).expand({-1, 2}), x.index_select(0, i));
  };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor x = tensor({{3., -1.}, {5., 7.}});
    call(x, tensor({0, 0}));
    EXPECT_EQ(list(x), (List{81, -27, 5, 7}));
    return Results{x};
  });
}

TEST(Writes, IntoWhatAMaskChoosesReadFirst) {
  hold_in_all_modes(
      [](Tensor x) {
        const Tensor low = x < 0;
        x.masked_fill_(low, 0.5);
        x.index_put_({x > 2}, -x.max());
        return low;
      },
      [](const auto& call) {
        const Tensor x = row({-1, 3, 0, 4, -2});
        const Tensor low = call(x);
        EXPECT_EQ(list(x), (List{0.5, -4, 0, -4, 0.5}));
        EXPECT_EQ(list(low), (List{1, 0, 0, 0, 1}));
        return Results{x, low};
      });
}

// ---- What is given back -----------------------------------------------------------------------------------------------

TEST(Outputs, OfTwoCallsAreTwoTensors) {
  hold_in_all_modes([](Tensor x) { return 4 * x; },
                    [](const auto& call) {
                      const Tensor a = call(row({0.5})), b = call(row({0.75}));
                      EXPECT_EQ(a.template item<float>(), 2);
                      EXPECT_EQ(b.template item<float>(), 3);
                      EXPECT_FALSE(equal(a, b));
                      EXPECT_FALSE(shares_memory(a, b));
                      return Results{a, b};
                    });
  hold_in_all_modes([](Tensor x) { return x.sum(); },
                    [](const auto& call) {
                      const Results sums{call(row({1, 2})), call(row({3, 4})), call(row({5, 6}))};
                      for (size_t i = 0; i < sums.size(); ++i)
                        EXPECT_EQ(sums[i].item<float>(), 3 + 4 * static_cast<float>(i));
                      return sums;
                    });
}

TEST(Outputs, AfterAMetadataOpAreNoViewsToTheUser) {
  hold_in_all_modes(
      [](Tensor x) {
        Tensor y = 2 * x;
        y.unsqueeze_(0);
        return y;
      },
      [](const auto& call) {
        Tensor x = row({1, 2}).requires_grad_();
        Tensor y = call(x);
        y.mul_(2);
        EXPECT_EQ(sizes_of(y), (Ints{1, 2}));
        EXPECT_EQ(list(y), (List{4, 8}));
        y.sum().backward();
        EXPECT_EQ(list(x.grad()), (List{4, 4}));
        return Results{y, x.grad()};
      });
}

TEST(Outputs, AfterOtherMetadataOpsHaveTheirShape) {
  hold_in_all_modes(
      [](Tensor x) {
        Tensor a = x.exp();
        a.transpose_(0, 1);
        Tensor b = x.unsqueeze(2) * 3;
        b.squeeze_(2).t_();
        Tensor c = a + 1;
        c.t_().add_(b.t());
        return std::make_tuple(a, b, c);
      },
      [](const auto& call) {
        const auto [a, b, c] = call(numbers({3, 2}));
        EXPECT_EQ(sizes_of(a), (Ints{2, 3}));
        EXPECT_EQ(sizes_of(b), (Ints{2, 3}));
        EXPECT_EQ(sizes_of(c), (Ints{3, 2}));
        return Results{a, b, c};
      });
}

// The handle that the caller holds has another shape afterwards.
TEST(Outputs, OfAMetadataOpOnAnInputAreAsEager) {
  hold_in_all_modes(
      [](Tensor x) {
        x.unsqueeze_(0);
        return x * 2;
      },
      [](const auto& call) {
        const Tensor x = row({1, 2});
        const Tensor y = call(x);
        EXPECT_EQ(sizes_of(x), (Ints{1, 2}));
        return Results{x, y};
      });
}

TEST(Outputs, HaveTheStridesOfEager) {
  hold_in_all_modes(
      [](Tensor x) {
        Tensor y = x.clone().select(1, 1);
        y.zero_();
        return y;
      },
      [](const auto& call) {
        const Tensor y = call(counting({4, 4}));
        EXPECT_EQ(sizes_of(y), (Ints{4}));
        EXPECT_EQ(strides_of(y), (Ints{4}));
        EXPECT_EQ(list(y), (List{0, 0, 0, 0}));
        return Results{y};
      });
  hold_in_all_modes([](Tensor z) { return 2 * z; },
                    [](const auto& call) {
                      const Tensor g = call(counting({2, 3}).t());
                      EXPECT_EQ(strides_of(g), (Ints{1, 3}));
                      EXPECT_EQ(g.t().view({6}).numel(), 6);
                      return Results{g};
                    });
}

TEST(Outputs, HaveTheStridesOfEagerAfterWritesToPartsOfThem) {
  const auto f = [](Tensor x) {
    Tensor turned = x.t().clone();  // keeps the layout of its source
    turned.slice(0, 0, 1).fill_(7);
    Tensor middle = (x + 1).slice(1, 1, 3);
    middle.mul_(2);
    Tensor wide = zeros({2, 3, 4}).permute({2, 0, 1});
    wide[0].add_(1);
    Tensor diagonal = x.clone().diagonal();
    diagonal.neg_();
    return std::make_tuple(turned, middle, wide, wide + 1, diagonal, x.t() + x.t());
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const int64_t n : {4, 5}) {
      const auto outputs = call(numbers({n, n}));
      std::apply([&](const auto&... t) { results.insert(results.end(), {t...}); }, outputs);
    }
    return results;
  });
}

TEST(Outputs, OfAnInputThatIsNotAlignedAreRight) {
  hold_in_all_modes([](Tensor m) { return std::make_tuple(m * tanh(m), m.slice(0, 0, 4)); },
                    [](const auto& call) {
                      const Tensor buffer = numbers({100004});
                      const auto [aligned, head] = call(buffer.slice(0, 0, 100003));
                      const auto [shifted, slice] = call(buffer.slice(0, 1));
                      EXPECT_TRUE(equal(aligned.slice(0, 1), shifted.slice(0, 0, -1)));
                      EXPECT_TRUE(shares_memory(slice, buffer));
                      EXPECT_EQ(slice.storage_offset(), 1);
                      EXPECT_EQ(head.storage_offset(), 0);
                      return Results{aligned, head, shifted, slice};
                    });
}

TEST(Writes, IntoAViewOfTheSameDtypeAreWrites) {
  hold_in_all_modes(
      [](Tensor x) {
        x.view(kFloat32).copy_(ones({4, 4}));
      },
      [](const auto& call) {
        const Tensor x = zeros({4, 4});
        call(x);
        EXPECT_EQ(x.sum().template item<float>(), 16);
        return Results{x};
      });
}

TEST(Writes, IntoOtherViewsThatChangeNothingAreWrites) {
  hold_in_all_modes(
      [](Tensor x) {
        x.view({4, 4}).add_(1);
        x.alias().add_(2);
        x.view_as(x).slice(0).add_(4);
        x.t().t().add_(8);
        x.contiguous().add_(16);  // x itself, which is packed
        x.reshape({16}).add_(32);
        x.expand({4, 4}).add_(64);
        x.to(kFloat32).add_(128);  // x itself
        x.detach().add_(256);
      },
      [](const auto& call) {
        const Tensor x = zeros({4, 4});
        call(x);
        EXPECT_EQ(x.sum().template item<float>(), 16 * 511);
        return Results{x};
      });
}

TEST(Writes, IntoTheBytesOfAnotherDtypeAreWrites) {
  hold_in_all_modes([](Tensor x) { x.view(kInt32).copy_(full({4}, 0x40000000, kInt32)); },
                    [](const auto& call) {
                      const Tensor x = zeros({4});
                      call(x);
                      EXPECT_EQ(list(x), (List{2, 2, 2, 2}));
                      return Results{x};
                    });
}

// ---- State outside ----------------------------------------------------------------------------------------------------

TEST(Escapes, ATensorStoredInACapturedListIsNamed) {
  std::vector<Tensor> kept;
  const int line = __LINE__ + 2;
  auto f = compile([&](Tensor x, Tensor y) {
    kept.push_back(x + y);
    return exp(kept.back());
  });
  for (int round = 0; round < 2; ++round) {
    const std::string text = error_of([&] { f(row({1}), row({2})); });
    expect_contains(text, "add");
    expect_contains(text, "cases_mutation_test.cpp:" + std::to_string(line));
    kept.clear();
  }
  // Nothing is left behind: the same function runs eagerly, and others are traced.
  {
    const CompileGuard off(false);
    f(row({1}), row({2}));
    f(row({5}), row({6}));
  }
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(list(kept[0]), List{3});
  EXPECT_EQ(list(kept[1]), List{11});
}

TEST(Escapes, NumbersStoredInACapturedListAreReal) {
  std::vector<double> kept;
  auto f = compile([&](Tensor x, Tensor y) {
    const Tensor z = x + y;
    kept.push_back(z.item<double>());
    return exp(z);
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor y = f(row({1}), row({2 + 4 * static_cast<float>(i)}));
    EXPECT_EQ(tests::difference_of_bits(y, exp(row({3 + 4 * static_cast<float>(i)}))), "");
  }
  EXPECT_EQ(kept, (List{3, 7, 11, 15}));
}

// ---- Version counters -------------------------------------------------------------------------------------------------

TEST(Versions, MoveWhenACompiledFunctionWrites) {
  const auto f = [](Tensor x, Tensor y) {
    x.index_put_({Slice()}, 0);
    return y * 2;
  };
  const auto compiled = compile(f, without_audits());
  for (int round = 0; round < 3; ++round) {
    const Tensor x = ones({3}), y = ones({3});
    const uint32_t version = x.version(), other = y.version();
    compiled(x, y);
    EXPECT_EQ(list(x), (List{0, 0, 0}));
    EXPECT_GT(x.version(), version);
    EXPECT_EQ(y.version(), other);
  }
}

TEST(Versions, MakeBackwardRefuseWhatACompiledFunctionOverwrote) {
  const auto f = [](Tensor x) { x.index_put_({Slice()}, 0); };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor leaf = row({1, 2}).requires_grad_();
    Tensor x = leaf * 1;
    const Tensor y = (x * x).sum();
    call(x);
    const std::string text = error_of([&] { y.backward(); });
    EXPECT_NE(text, "no error");
    expect_contains(text, "mul");
    return Results{x.detach()};
  });
}

TEST(Versions, MoveThroughViewsAndCapturedTensors) {
  Tensor state = zeros({4});
  const auto f = compile(
      [&](Tensor x) {
        state.slice(0, 1, 3).add_(x);
        x[0].mul_(2);
      },
      without_audits());
  for (int round = 1; round <= 3; ++round) {
    const Tensor base = ones({4}), x = base.slice(0, 1, 3);
    const uint32_t of_state = state.version(), of_base = base.version();
    f(x);
    EXPECT_GT(state.version(), of_state);
    EXPECT_GT(base.version(), of_base);
    EXPECT_EQ(list(base), (List{1, 2, 1, 1}));
    EXPECT_EQ(list(state), (List{0, 1.0 * round, 1.0 * round, 0}));
  }
}

}  // namespace
}  // namespace weft
