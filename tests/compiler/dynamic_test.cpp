// Automatic dynamic dimensions, marks, and the limits of one compiled object.
#include "compiler/runtime/dynamic.h"

#include <gtest/gtest.h>

#include "compiler/runtime/limits.h"
#include "weft.h"

namespace weft::compiler {
namespace {

using Kind = DimPolicy::Kind;

ArgumentLeaves leaves_of(const std::vector<Tensor>& tensors, std::vector<NumberLeaf> numbers = {}) {
  ArgumentLeaves leaves;
  for (const Tensor& x : tensors) leaves.tensors.push_back(&x);
  for (const NumberLeaf& n : numbers) leaves.numbers.push_back(n);
  return leaves;
}
void observe(DynamicState& state, const std::vector<Tensor>& tensors) { state.observe(leaves_of(tensors)); }
// One letter for each dimension: s(tatic), d(ynamic), r(ange declared).
std::string policies(const DynamicState& state, const Tensor& x, uint32_t leaf = 0) {
  std::string text;
  for (const DimPolicy& policy : state.policies(leaf, x)) text += "sdr"[static_cast<int>(policy.kind)];
  return text;
}

TEST(Dynamic, SecondValueMakesADimensionDynamic) {
  DynamicState state;
  const Tensor a = ones({64, 3}), b = ones({17, 3});
  observe(state, {a});
  EXPECT_EQ(policies(state, a), "ss");
  observe(state, {a});
  EXPECT_EQ(policies(state, a), "ss");
  observe(state, {b});
  EXPECT_EQ(policies(state, b), "ds");
  observe(state, {a});
  EXPECT_EQ(policies(state, a), "ds");
}

TEST(Dynamic, RanksAndLeavesAreKeptApart) {
  DynamicState state;
  observe(state, {ones({4}), ones({5})});
  observe(state, {ones({4, 4}), ones({6})});
  EXPECT_EQ(policies(state, ones({4})), "s");
  EXPECT_EQ(policies(state, ones({4, 4})), "ss");
  EXPECT_EQ(policies(state, ones({6}), 1), "d");
  EXPECT_EQ(policies(state, ones({2, 2, 2})), "sss");
}

TEST(Dynamic, EqualSizesAreNotTied) {
  DynamicState state;
  observe(state, {ones({5}), ones({5})});
  observe(state, {ones({6}), ones({5})});
  EXPECT_EQ(policies(state, ones({6}), 0), "d");
  EXPECT_EQ(policies(state, ones({5}), 1), "s");
}

TEST(Dynamic, OptionsDecideForAllDimensions) {
  DynamicState always(true), never(false);
  for (int64_t n : {3, 4, 5}) {
    observe(always, {ones({n, 2})});
    observe(never, {ones({n, 2})});
  }
  EXPECT_EQ(policies(always, ones({5, 2})), "dd");
  EXPECT_EQ(policies(never, ones({5, 2})), "ss");
}

TEST(Dynamic, MarksOfTheTensorWin) {
  DynamicState never(false), always(true), state;
  const Tensor x = ones({4, 5, 6});
  mark_dynamic(x, 0, {0, 128});
  mark_static(x, -1);
  EXPECT_EQ(policies(never, x), "rss");
  EXPECT_EQ(policies(always, x), "rds");
  EXPECT_EQ(state.policies(0, x)[0].range.max, 128);
  EXPECT_EQ(state.policies(0, x)[0].range.min, 0);
  mark_static(x, 0);
  EXPECT_EQ(policies(always, x), "sds");
  // Views and results are other tensors.
  EXPECT_EQ(policies(always, x.view({4, 5, 6})), "ddd");
  EXPECT_TRUE(marks_of(x + 1).empty());
}

TEST(Dynamic, StaticSizesAreNotLearntFrom) {
  DynamicState state;
  for (int64_t n : {3, 4, 5}) {
    const Tensor x = ones({n});
    mark_static(x, 0);
    observe(state, {x});
  }
  observe(state, {ones({7})});
  EXPECT_EQ(policies(state, ones({7})), "s");
  observe(state, {ones({8})});
  EXPECT_EQ(policies(state, ones({8})), "d");
}

TEST(Dynamic, MarksRefuseWhatCannotHold) {
  const auto error_of = [](int64_t dim, DimRange range) -> std::string {
    try {
      mark_dynamic(ones({4, 5}), dim, range);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(1, {6, 9}),
            "mark_dynamic: size(1) is 5, outside the range [6, 9] that is declared for it");
  EXPECT_EQ(error_of(0, {5, 4}),
            "mark_dynamic: the range [5, 4] is empty or below 0; min and max are sizes, both included");
  EXPECT_NE(error_of(2, {}).find("mark_dynamic"), std::string::npos);
  EXPECT_EQ(error_of(-1, {5, 5}), "no error");
}

TEST(Dynamic, StridesThatFollowFromSizesStayWithoutSymbols) {
  DynamicState state;
  observe(state, {ones({2, 3})});
  observe(state, {ones({2, 4})});
  EXPECT_EQ(policies(state, ones({2, 4})), "sd");
  EXPECT_EQ(state.dynamic_strides(0, ones({2, 4})), 0u);
}

TEST(Dynamic, PitchOfRowsBecomesASymbol) {
  DynamicState state;
  const auto columns = [](int64_t pitch) { return ones({8, pitch}).slice(1, 0, 4); };
  observe(state, {columns(16)});
  EXPECT_EQ(state.dynamic_strides(0, columns(16)), 0u);
  observe(state, {columns(32)});
  EXPECT_EQ(state.dynamic_strides(0, columns(32)), 1u);
  // Not once a size is symbolic as well.
  observe(state, {ones({9, 32}).slice(1, 0, 4)});
  EXPECT_EQ(state.dynamic_strides(0, columns(32)), 0u);
}

TEST(Dynamic, TransposedTensorIsAProgramOfItsOwn) {
  DynamicState state;
  observe(state, {ones({4, 4})});
  observe(state, {ones({4, 4}).t()});
  EXPECT_EQ(state.dynamic_strides(0, ones({4, 4})), 0u);
}

TEST(Dynamic, StrideOfASizeOfOneSaysNothing) {
  DynamicState state;
  observe(state, {ones({1, 8})});
  observe(state, {ones({4, 64}).slice(0, 0, 1).slice(1, 0, 8)});
  EXPECT_EQ(state.dynamic_strides(0, ones({1, 8})), 0u);
}

TEST(Dynamic, JoinIsALattice) {
  using History = DimHistory;
  const History unset, four{History::Kind::Value, 4}, five{History::Kind::Value, 5},
      follows{History::Kind::Follows, 0}, mixed{History::Kind::Mixed, 0}, differs{History::Kind::Differs, 0};
  const History all[] = {unset, four, five, follows, mixed, differs};
  for (const History& a : all) {
    EXPECT_EQ(join(a, a), a);
    EXPECT_EQ(join(a, unset), a);
    for (const History& b : all) {
      EXPECT_EQ(join(a, b), join(b, a));
      for (const History& c : all) EXPECT_EQ(join(join(a, b), c), join(a, join(b, c)));
    }
  }
  EXPECT_EQ(join(four, five), differs);
  EXPECT_EQ(join(four, follows), mixed);
}

TEST(Dynamic, NumbersAreFixedUntilTheyHaveChangedTooOften) {
  DynamicState state;
  const auto observe_numbers = [&](double f, int64_t i, int64_t size) {
    state.observe(leaves_of({}, {{NumberLeaf::Kind::Float, f},
                                 {NumberLeaf::Kind::Int, i},
                                 {NumberLeaf::Kind::Size, size},
                                 {NumberLeaf::Kind::Scalar, f}}));
  };
  observe_numbers(0.1, 1, 7);
  EXPECT_EQ(state.number_policy(0), NumberPolicy::Fixed);
  EXPECT_EQ(state.size_policy(2).kind, Kind::Static);
  observe_numbers(0.2, 2, 8);
  EXPECT_EQ(state.number_policy(0), NumberPolicy::Lifted);
  EXPECT_EQ(state.number_policy(1), NumberPolicy::Fixed);
  EXPECT_EQ(state.size_policy(2).kind, Kind::Dynamic);
  EXPECT_EQ(state.number_policy(3), NumberPolicy::Fixed);
  observe_numbers(0.2, 3, 8);
  observe_numbers(0.2, 4, 8);
  observe_numbers(0.2, 1, 8);
  EXPECT_EQ(state.number_policy(1), NumberPolicy::Fixed);
  observe_numbers(0.2, 5, 8);
  EXPECT_EQ(state.number_policy(1), NumberPolicy::Lifted);
}

TEST(Dynamic, SizeThatTheFunctionFixesIsFollowedAtItsFifthValue) {
  DynamicState state;
  std::vector<bool> follows;
  int64_t before = 10;
  observe(state, {ones({before})});
  for (int64_t n : {11, 12, 1, 13, 14}) {
    const Tensor x = ones({n});
    GuardFailure failure;
    failure.field = GuardFailure::Field::Size;
    failure.expected = before;
    failure.got = n;
    observe(state, {x});
    follows.push_back(state.is_fixed_too_often(failure, leaves_of({x})));
    if (n > 1) before = n;
  }
  EXPECT_EQ(follows, (std::vector<bool>{false, false, false, false, true}));
}

TEST(Limits, LeastRecentGoesButTheDynamicOneStays) {
  const std::vector<EntryAge> entries{{5, false}, {1, true}, {3, false}};
  EXPECT_EQ(choose_victim(entries), 2u);
  const std::vector<EntryAge> two_dynamic{{5, false}, {1, true}, {3, true}};
  EXPECT_EQ(choose_victim(two_dynamic), 1u);
  const std::vector<EntryAge> only{{1, true}};
  EXPECT_EQ(choose_victim(only), 0u);
}

TEST(Limits, OptionsSetTheNumberOfGenerations) {
  EXPECT_EQ(generation_limit({}, {}), 8u);
  EXPECT_EQ(generation_limit({}, true), 8u);
  EXPECT_EQ(generation_limit({}, false), std::nullopt);
  EXPECT_EQ(generation_limit(3, false), 3u);
  EXPECT_THROW(generation_limit(0, {}), Error);
}

TEST(Limits, MoreThanAFifthOfTheLastHundredIsAStorm) {
  MissRate rate;
  for (int i = 0; i < 20; ++i) rate.miss();
  EXPECT_FALSE(rate.is_storm());
  rate.miss();
  EXPECT_TRUE(rate.is_storm());
  // It ends when the window has moved on.
  for (int i = 0; i < 79; ++i) rate.hit();
  EXPECT_TRUE(rate.is_storm());
  rate.hit();
  EXPECT_FALSE(rate.is_storm());
  MissRate steady;
  for (int i = 0; i < 1000; ++i) {
    if (i % 5 == 0) steady.miss();
    else steady.hit();
    EXPECT_FALSE(steady.is_storm()) << i;
  }
  MissRate worse;
  bool is_storm = false;
  for (int i = 0; i < 200; ++i) {
    if (i % 4 == 0) worse.miss();
    else worse.hit();
    is_storm |= worse.is_storm();
  }
  EXPECT_TRUE(is_storm);
}

TEST(Limits, ShapeOfHalfTheCallsIsHot) {
  HotShape often;
  int told = 0;
  const int64_t hot[] = {64, 3};
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t other[] = {i, 3};
    if (i % 3 == 0) EXPECT_FALSE(often.note(other));
    else told += often.note(hot);
  }
  EXPECT_EQ(told, 1);
  HotShape seldom;
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t other[] = {i, 3};
    EXPECT_FALSE(i % 3 == 0 ? seldom.note(hot) : seldom.note(other)) << i;
  }
}

}  // namespace
}  // namespace weft::compiler
