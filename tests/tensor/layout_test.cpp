// View rules over plain integers, over Sym, and over the expressions of a small environment.
#include <gtest/gtest.h>

#include <map>

#include "tensor/dispatch.h"
#include "tensor/view_rules.h"

namespace weft {
namespace {

Layout<int64_t> ints(std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0) {
  return {{sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, offset};
}
Layout<Sym> syms(const Layout<int64_t>& x) {
  Layout<Sym> result{{}, {}, Sym::from_int(x.offset)};
  for (int64_t size : x.sizes) result.sizes.push_back(Sym::from_int(size));
  for (int64_t stride : x.strides) result.strides.push_back(Sym::from_int(stride));
  return result;
}
std::string text(const Layout<int64_t>& x) {
  return detail::concat(view_rules::detail::Text(x.sizes), view_rules::detail::Text(x.strides), x.offset);
}
std::string text(const Layout<Sym>& x) { return detail::concat(x.sizes, x.strides, x.offset); }

template <class S>
std::optional<S> maybe(std::optional<int64_t> value) {
  if (!value) return std::nullopt;
  return weft::detail::size_of_int<S>(*value);
}
template <class S>
SmallVector<S, kInlineRank> list(std::vector<int64_t> values) {
  SmallVector<S, kInlineRank> result;
  for (int64_t value : values) result.push_back(weft::detail::size_of_int<S>(value));
  return result;
}

// Every rule with usual and with odd arguments; what it gives or says, as text.
template <class S>
std::vector<std::string> all_rules(const Layout<S>& x) {
  std::vector<std::string> results;
  const auto run = [&](auto rule) {
    try {
      results.push_back(text(rule()));
    } catch (const Error& error) {
      results.push_back(error.what());
    }
  };
  using view_rules::detail::number;
  for (int64_t a : {-4, -1, 0, 1, 2, 3}) {
    run([&] { return view_rules::unsqueeze(x, a); });
    run([&] { return view_rules::select(x, a, number<S>(1)); });
    run([&] { return view_rules::select(x, 0, number<S>(a)); });
    run([&] { return view_rules::diagonal(x, a, 0, 1); });
    run([&] { return view_rules::unfold(x, a, number<S>(2), number<S>(1)); });
    run([&] { return view_rules::unfold(x, 0, number<S>(a), number<S>(2)); });
    for (int64_t b : {-2, 0, 1, 5}) {
      run([&] { return view_rules::transpose(x, a, b); });
      run([&] { return view_rules::diagonal(x, 0, a, b); });
      for (int64_t step : {0, 1, 2}) {
        run([&] { return view_rules::slice(x, 0, maybe<S>(a), maybe<S>(b), number<S>(step)); });
        run([&] { return view_rules::slice(x, -1, maybe<S>({}), maybe<S>(b), number<S>(step)); });
      }
    }
  }
  const std::vector<std::vector<int64_t>> lists = {
      {},      {-1},    {6},          {2, 3},    {3, 2},      {-1, 2},    {2, -1, 1},
      {24},    {4, 6},  {-1, -1},     {2, 3, 4}, {1, 2, 3},   {5, 2, 3},  {0},
      {0, -1}, {2, 12}, {2, 3, 2, 2}, {-2},      {3, -1, -1}, {2, -1, -1}};
  for (const std::vector<int64_t>& sizes : lists) {
    const auto wanted = list<S>(sizes);
    run([&] { return view_rules::view<S>(x, wanted); });
    run([&] { return view_rules::expand<S>(x, wanted); });
    run([&] { return view_rules::as_strided<S>(x, wanted, wanted, maybe<S>({})); });
  }
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{}, {0}, {1, 0}, {2, 0, 1}, {-1, 0, 1}, {0, 0}}) {
    const DimList given(dims);
    run([&] { return view_rules::permute(x, dims); });
    run([&] { return view_rules::squeeze(x, &given); });
  }
  run([&] { return view_rules::squeeze(x, nullptr); });
  for (int64_t from : {1, 2, 4, 8})
    for (int64_t to : {1, 2, 4, 8}) run([&] { return view_rules::reinterpret(x, from, to); });
  return results;
}

TEST(ViewRules, IntegersAndSymGiveTheSame) {
  for (const Layout<int64_t>& x :
       {ints({}, {}), ints({6}, {1}), ints({6}, {2}, 3), ints({2, 3}, {3, 1}), ints({3, 2}, {1, 3}),
        ints({2, 3, 4}, {12, 4, 1}), ints({2, 3, 4}, {24, 8, 2}, 8), ints({4, 1, 6}, {6, 9, 1}),
        ints({0, 3}, {3, 1}), ints({2, 3}, {0, 1}), ints({1, 1}, {7, 5}), ints({4, 2, 3}, {1, 12, 4})})
    EXPECT_EQ(all_rules(x), all_rules(syms(x))) << text(x);
}

// ---- Expressions ----------------------------------------------------------------------------------------------------

// Expressions as text, with hints; comparisons are decided by the hint and noted as guards.
class TextEnvironment : public SymEnvironment {
 public:
  TextEnvironment() : outer_(current_sym_environment()) { current_sym_environment() = this; }
  ~TextEnvironment() override { current_sym_environment() = outer_; }

  Sym symbol(const std::string& name, int64_t value) { return make(name, value); }
  Sym binary(SymOp op, Sym a, Sym b) override {
    const int64_t x = hint(a), y = hint(b);
    const bool zero_a = is(a, 0), one_a = is(a, 1), zero_b = is(b, 0), one_b = is(b, 1);
    const std::string both[] = {to_string(a), to_string(b)};
    switch (op) {
      case SymOp::Add: return zero_a ? b : zero_b ? a : make("(" + both[0] + "+" + both[1] + ")", x + y);
      case SymOp::Sub: return zero_b ? a : make("(" + both[0] + "-" + both[1] + ")", x - y);
      case SymOp::Mul:
        if (zero_a || zero_b) return Sym::from_int(0);
        return one_a ? b : one_b ? a : make(both[0] + "*" + both[1], x * y);
      case SymOp::FloorDiv:
      case SymOp::TruncDiv: return one_b ? a : make(both[0] + "/" + both[1], x / y);
      case SymOp::Mod: return make(both[0] + "%" + both[1], x % y);
      case SymOp::Min: return make("min(" + both[0] + "," + both[1] + ")", std::min(x, y));
      case SymOp::Max: return make("max(" + both[0] + "," + both[1] + ")", std::max(x, y));
    }
    return a;
  }
  bool compare(SymCompare op, Sym a, Sym b) override {
    if (!known(op, a, b)) guards.push_back(to_string(a) + name_of(op) + to_string(b));
    return statically_known(op, hint(a), hint(b));
  }
  bool known(SymCompare op, Sym a, Sym b) override {
    return to_string(a) == to_string(b) && statically_known(op, int64_t{0}, int64_t{0});
  }
  int64_t specialize(Sym a) override {
    specialized.push_back(to_string(a));
    return hint(a);
  }
  int64_t hint(Sym a) const override { return a.is_symbolic() ? values_[a.id()].second : a.concrete(); }
  std::string to_string(Sym a) const override {
    return a.is_symbolic() ? values_[a.id()].first : std::to_string(a.concrete());
  }

  std::vector<std::string> guards, specialized;

 private:
  static bool is(Sym a, int64_t value) { return !a.is_symbolic() && a.concrete() == value; }
  static const char* name_of(SymCompare op) {
    constexpr const char* names[] = {"==", "!=", "<", "<=", ">", ">="};
    return names[static_cast<int>(op)];
  }
  Sym make(const std::string& name, int64_t value) {
    for (uint32_t id = 0; id < values_.size(); ++id)
      if (values_[id].first == name) return Sym::from_id(id);
    values_.emplace_back(name, value);
    return Sym::from_id(static_cast<uint32_t>(values_.size() - 1));
  }

  SymEnvironment* outer_;
  std::vector<std::pair<std::string, int64_t>> values_;
};

struct SymbolicViews : testing::Test {
  TextEnvironment environment;
  Sym s = environment.symbol("s", 6), three = Sym::from_int(3);
  Layout<Sym> x = contiguous_layout<Sym>({s, three});
};

TEST_F(SymbolicViews, TransposeKeepsExpressionsWithoutGuards) {
  EXPECT_EQ(text(view_rules::transpose(x, 0, 1)), "[3, s][1, 3]0");
  EXPECT_EQ(text(view_rules::unsqueeze(x, 0)), "[1, s, 3][s*3, 3, 1]0");
  EXPECT_TRUE(environment.guards.empty());
}
TEST_F(SymbolicViews, SliceAndSelectStaySymbolic) {
  EXPECT_EQ(text(view_rules::slice<Sym>(x, 0, Sym::from_int(1), {}, Sym::from_int(1))), "[(s-1), 3][3, 1]3");
  EXPECT_EQ(text(view_rules::slice<Sym>(x, 0, {}, Sym::from_int(-1), Sym::from_int(1))),
            "[(-1+s), 3][3, 1]0");
  EXPECT_EQ(text(view_rules::select(x, 0, Sym::from_int(-1))), "[3][1](-1+s)*3");
  EXPECT_TRUE(environment.specialized.empty());
  EXPECT_FALSE(environment.guards.empty());
}
TEST_F(SymbolicViews, ViewInfersAnExpression) {
  const Sizes flat = {Sym::from_int(-1)};
  EXPECT_EQ(text(view_rules::view<Sym>(x, flat)), "[s*3][1]0");
  const Sizes pairs = {Sym::from_int(-1), s};
  EXPECT_EQ(text(view_rules::view<Sym>(x, pairs)), "[s*3/s, s][s, 1]0");
  EXPECT_TRUE(environment.specialized.empty());
}
TEST_F(SymbolicViews, ViewOfATransposedTensorNeedsACopy) {
  const Sizes flat = {Sym::from_int(-1)};
  EXPECT_FALSE(view_rules::try_view<Sym>(view_rules::transpose(x, 0, 1), flat, "reshape").has_value());
  EXPECT_TRUE(environment.specialized.empty());
}
// A strided tensor whose width is an expression still merges its outer dimensions: case C06.
TEST_F(SymbolicViews, OuterDimensionsOfAStridedTensorMerge) {
  const Layout<Sym> base{
      {Sym::from_int(4), three, s}, {Sym::from_int(24), Sym::from_int(8), Sym::from_int(1)}, {}};
  const Sizes merged = {Sym::from_int(12), s};
  EXPECT_EQ(text(view_rules::view<Sym>(base, merged)), "[12, s][8, 1]0");
}
TEST_F(SymbolicViews, ExpandKeepsMarkedDimensions) {
  const Sizes wanted = {Sym::from_int(2), Sym::from_int(-1), three};
  EXPECT_EQ(text(view_rules::expand<Sym>(x, wanted)), "[2, s, 3][0, 3, 1]0");
  EXPECT_TRUE(environment.guards.empty());
}
TEST_F(SymbolicViews, UnfoldCountsWindows) {
  EXPECT_EQ(text(view_rules::unfold(x, 0, Sym::from_int(2), Sym::from_int(2))),
            "[((s-2)/2+1), 3, 2][6, 1, 3]0");
}

// ---- Layouts ----------------------------------------------------------------------------------------------------------

TEST(Layouts, DenseStridesKeepTheOrderOfDimensions) {
  const auto dense = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return SizesView(dense_strides(syms(ints(sizes, strides)))).vec();
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(dense({2, 3}, {1, 2}), (V{1, 2}));
  EXPECT_EQ(dense({2, 3}, {2, 4}), (V{1, 2}));  // gaps close
  EXPECT_EQ(dense({2, 3}, {0, 1}), (V{3, 1}));  // an expanded tensor
  EXPECT_EQ(dense({2, 3, 4}, {4, 8, 1}), (V{4, 8, 1}));
  EXPECT_EQ(dense({1, 8}, {64, 1}), (V{64, 1}));
}
TEST(Layouts, StrideOfASizeOneDimensionSaysNothing) {
  EXPECT_TRUE(is_contiguous(syms(ints({1, 8}, {64, 1}))));
  EXPECT_FALSE(is_contiguous(syms(ints({2, 8}, {64, 1}))));
}

}  // namespace
}  // namespace weft
