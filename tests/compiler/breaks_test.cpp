// What stands on both sides of a break: sizes of results, errors, shared memory, random numbers, and what audits compare.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

Tensor row(const std::vector<float>& numbers) { return tensor(numbers); }

// ---- Sizes that depend on data ------------------------------------------------------------------------------------------

// What a later path asks of an earlier result must hold in later calls of that path.
TEST(ResultSizes, AskedInALaterBranchAreCheckedThere) {
  const auto f = [](Tensor x) {
    const Tensor positive = x.masked_select(x > 0);
    if ((x[0] > 0).item<bool>()) return positive * 2;
    return positive.view({2, -1}).sum(0);  // only an even number of them
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results{call(row({1, 2, 3})), call(row({-1, 2, 3, 4, 5}))};
    EXPECT_EQ(list(results[1]), (List{6, 8}));
    EXPECT_NE(error_of([&] { call(row({-1, 2, 3, 4})); }), "no error");
    results.push_back(call(row({-1, 2, 3, 4, 5, 6, 7})));
    results.push_back(call(row({1, 2, 3, 4})));
    return results;
  });
}

TEST(ResultSizes, OfZeroOneAndManyTakeTheirOwnPath) {
  const auto f = [](Tensor x) {
    const Tensor places = x.nonzero().flatten();
    if (places.size(0) == 0) return zeros({1}, kInt64) - 1;
    return places.size(0) == 1 ? places * 10 : places.cumsum(0);
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (const auto& numbers : std::vector<std::vector<float>>{
             {0, 1, 1}, {0, 0, 0}, {0, 1, 0}, {1, 1, 1}, {0, 0, 0}, {1, 0, 0}, {1, 1, 0}})
      results.push_back(call(row(numbers)));
    return results;
  });
}

TEST(ResultSizes, MayBeReturned) {
  const auto f = [](Tensor x) {
    return std::make_tuple(x.nonzero().size(0), x.masked_select(x > 0).numel());
  };
  const auto compiled = compile(f, without_audits());
  for (const auto& numbers : std::vector<std::vector<float>>{{1, -2, 0}, {0, 0, 0}, {3, 0, 0}, {1, 2, 3}}) {
    const auto [nonzero, positive] = compiled(row(numbers));
    EXPECT_EQ(nonzero, row(numbers).nonzero().size(0));
    EXPECT_EQ(positive, row(numbers).masked_select(row(numbers) > 0).numel());
  }
}

// ---- Questions ------------------------------------------------------------------------------------------------------------

TEST(Questions, AboutTheTruthOfANumberHaveTwoOutcomes) {
  int entered = 0;
  const auto f = compile(
      [&](Tensor x) {
        ++entered;
        const Tensor sum = x.sum();
        return sum.item<bool>() && static_cast<bool>(x[0].item()) ? x + 1 : x - 1;
      },
      without_audits());
  for (const float value : {0.5f, 3.f, 7.f, -2.25f, 0.25f, 100.f}) {
    EXPECT_EQ(list(f(row({value}))), List{value + 1}) << value;
    EXPECT_EQ(list(f(row({0}))), List{-1});
  }
  EXPECT_EQ(entered, 2);
}

TEST(Questions, WithAHiddenThresholdAreFoundByAnAudit) {
  double threshold = 1;
  const auto f = compile([&](Tensor x) { return x.sum().item() > threshold ? x * 2 : x * 3; });
  EXPECT_EQ(list(f(row({2}))), List{4});
  threshold = 5;
  EXPECT_EQ(list(f(row({2}))), List{6});  // hit 1 is audited
  EXPECT_EQ(list(f(row({2}))), List{6});
  EXPECT_EQ(list(f(row({7}))), List{14});
}

TEST(Questions, WithHiddenPlacesOfAViewAreFoundByAnAudit) {
  int64_t place = 0;
  const auto f = compile([&](Tensor x) { return x.select(0, place); });
  const Tensor x = counting({3});
  EXPECT_EQ(f(x).item<float>(), 0);
  place = 2;
  EXPECT_EQ(f(x).item<float>(), 2);
  EXPECT_EQ(f(x).item<float>(), 2);
}

TEST(Questions, ThatAnAuditMeetsFirstJoinTheTree) {
  int entered = 0;
  const auto f = compile([&](Tensor x) {
    ++entered;
    return (x.sum() > 0).item<bool>() ? x * 2 : x * 3;
  });
  f(row({1}));
  f(row({-1}));  // hit 1: audited, and the other outcome
  const Counts counts;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(list(f(row({i % 2 == 0 ? 1.f : -1.f}))), List{i % 2 == 0 ? 2. : -3.});
  EXPECT_EQ(entered, 2);
  EXPECT_EQ(counts.traces(), 0u);
}

// ---- Errors -----------------------------------------------------------------------------------------------------------------

TEST(ErrorsInSegments, LeaveWhatFinishedSegmentsWrote) {
  Tensor state = zeros({1});
  const Tensor table = counting({4});
  const auto f = [&](Tensor i) {
    state.add_(1);
    const bool is_small = (i.sum() < 3).item<bool>();
    state.add_(10);
    if (is_small) return table.index_select(0, i);
    const Tensor picked = table.index_select(0, i);  // may be out of range
    if ((picked.sum() > 1000).item<bool>()) return picked;
    state.add_(100);
    return picked * 2;
  };
  for (const Way& way : compiled_ways()) {
    SCOPED_TRACE(way.name);
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      state.zero_();
      EXPECT_EQ(list(compiled(tensor({1}))), List{1});
      EXPECT_EQ(state.item<float>(), 11);
      EXPECT_EQ(list(compiled(tensor({3}))), List{6});
      EXPECT_EQ(state.item<float>(), 122);
      expect_contains(error_of([&] { compiled(tensor({7})); }), "index_select");
      EXPECT_EQ(state.item<float>(), 123);  // what stands before the first question
      EXPECT_EQ(list(compiled(tensor({3}))), List{6});
      EXPECT_EQ(state.item<float>(), 234);
    }
  }
}

TEST(ErrorsInSegments, LeaveGradientsAndRatesAsTheyWereAtTheBreak) {
  Tensor w = row({2}).requires_grad_();
  Cell rate(1);
  const auto f = compile(
      [&](Tensor x) {
        (w * x).sum().backward();
        rate.set(rate.read() * 2);
        if ((x.sum() > 3).item<bool>()) {
          rate.set(rate.read() * 100);
          throw std::runtime_error("too large");
        }
        return x * rate.read();
      },
      without_audits());
  for (int round = 1; round <= 3; ++round) {
    w.mutable_grad().reset();
    rate.set(1);
    EXPECT_THROW(f(row({5})), std::runtime_error);
    EXPECT_EQ(list(w.grad()), List{5});
    EXPECT_EQ(rate.value(), 2);
    EXPECT_EQ(list(f(row({1}))), List{4});
    EXPECT_EQ(list(w.grad()), List{6});
  }
}

TEST(ErrorsInSegments, ThatAreCaughtInsideMakeTheFunctionRunEagerly) {
  const auto f = [](Tensor i) {
    const Tensor table = counting({4});
    try {
      if (table.index_select(0, i).sum().item<float>() > 2) return i * 2;
    } catch (const Error&) {
      return i * 0 - 1;
    }
    return i * 3;
  };
  hold_in_all_modes(
      f,
      [](const auto& call) {
        return Results{call(tensor({1})), call(tensor({9})), call(tensor({3})), call(tensor({9}))};
      },
      Capture::IfPossible);
}

// ---- Memory that is shared -----------------------------------------------------------------------------------------------------

TEST(SharedMemory, WrittenAfterABreakIsAsEager) {
  const auto f = [](Tensor x, Tensor y) {
    const Tensor noise = rand({2});
    if ((x.sum() > 5).item<bool>()) {
      x.mul_(2);
      y.add_(x);
    }
    return x + y + noise;
  };
  hold_in_all_modes(f, [](const auto& call) {
    manual_seed(5);
    Results results;
    const auto run = [&](const Tensor& base, int64_t from) {
      results.push_back(call(base.slice(0, 0, 2), base.slice(0, from, from + 2)));
      results.push_back(base);
    };
    run(counting({4}), 1);
    run(counting({4}) + 3, 1);
    run(counting({4}) + 3, 2);
    run(counting({4}), 1);
    run(counting({4}) + 4, 1);
    results.push_back(zeros({}, kInt64) + static_cast<int64_t>(default_generator().offset()));
    return results;
  });
}

TEST(SharedMemory, ThatCannotBeCapturedIsTriedOnceForEachKindOfCall) {
  int entered = 0;
  const auto f = compile(
      [&](Tensor x, Tensor y) {
        ++entered;
        x.mul_(2);
        return (x * y).sum();
      },
      without_audits());
  const auto call = [&] {
    const Tensor base = numbers({6}).requires_grad_() * 1;
    f(base.slice(0, 0, 4), base.slice(0, 2, 6));
  };
  call();
  entered = 0;
  for (int i = 0; i < 10; ++i) call();
  EXPECT_EQ(entered, 10);
  // Other calls are compiled as ever.
  const Counts counts;
  for (int i = 0; i < 3; ++i) f(numbers({4}), numbers({4}, 2));
  EXPECT_EQ(counts.hits(), 2u);
}

TEST(SharedMemory, OfAWholeTensorSeenByItsStridesHoldsForThatPlaceAlone) {
  const auto f = [](Tensor x) { return x.as_strided({2}, {2}, 1) * 1; };
  hold_in_all_modes(f, [](const auto& call) {
    const Tensor base = counting({9});
    return Results{call(counting({4})), call(base.slice(0, 3, 7)), call(base.slice(0, 5, 9)),
                   call(counting({4}) * 2)};
  });
}

// ---- Host data -----------------------------------------------------------------------------------------------------------------

TEST(HostData, MadeInsideIsANewTensorAtEachCall) {
  const auto f = [](Tensor x) {
    Tensor sum = tensor({10., 20.});
    const Tensor given = tensor({1., 2.}), part = tensor({{5., 6.}, {7., 8.}})[1];
    sum += x;
    sum[0] += 100;
    return std::make_tuple(sum, given, given.view({2, 1}), part);
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    for (int i = 0; i < 3; ++i) {
      auto [sum, given, view, part] = call(row({1, 2}));
      EXPECT_EQ(list(sum), (List{111, 22}));
      EXPECT_EQ(list(given), (List{1, 2}));
      EXPECT_EQ(list(part), (List{7, 8}));
      given.mul_(3);  // the caller's own
      part.zero_();
      sum.zero_();
      results.insert(results.end(), {given, view});
    }
    return results;
  });
}

// ---- Hooks ---------------------------------------------------------------------------------------------------------------------

TEST(Hooks, OfATensorFromOutsideAreRegisteredOutside) {
  const auto f = compile(
      [](Tensor x) {
        x.register_hook([](const Tensor& g) { return g * 2; });
        return x * 3;
      },
      without_audits());
  for (int i = 0; i < 2; ++i)
    expect_contains(error_of([&] { f(row({1}).requires_grad_()); }), "register_hook: x");
}

}  // namespace
}  // namespace weft
