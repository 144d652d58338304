// Empty work and judged arguments: cases that users of tensor compilers met. What explain() says is in report_test.cpp.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

TEST(Nothing, IsWrongWithIgnoringResults) {
  const auto add = compile([](Tensor a, Tensor b) { return a + b; }, without_audits());
  const Tensor a = tensor({2., 4.}), b = tensor({1., 1.});
  for (int i = 0; i < 5; ++i) add(a, b);
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(add(a, b));
  for (const Tensor& one : kept) EXPECT_EQ(list(one), (List{3, 5}));
}

TEST(Nothing, IsWrongWithAFunctionThatReturnsItsInput) {
  hold_in_all_modes([](Tensor x) { return x; },
                    [](const auto& call) {
                      const Tensor x = tensor({2., 4.});
                      EXPECT_TRUE(call(x).is_same(x));
                      const Tensor leaf = tensor({2., 4.}).requires_grad_();
                      EXPECT_TRUE(call(leaf).is_same(leaf));
                      return Results{};
                    });
}

TEST(Nothing, IsWrongWithFunctionsOfNoWork) {
  hold_in_all_modes([] {},
                    [](const auto& call) {
                      call();
                      return Results{};
                    });
  hold_in_all_modes([](Tensor, int) { return 3; },
                    [](const auto& call) {
                      EXPECT_EQ(call(ones({2}), 1), 3);
                      return Results{};
                    });
  hold_in_all_modes(
      [](Tensor x) {
        x.exp();  // dead
        return std::make_tuple(Tensor(), x.detach(), std::vector<Tensor>{});
      },
      [](const auto& call) {
        const Tensor x = ones({2});
        const auto [none, same, empty] = call(x);
        EXPECT_FALSE(none.defined());
        EXPECT_TRUE(shares_memory(same, x));
        EXPECT_TRUE(empty.empty());
        return Results{same};
      });
  hold_in_all_modes([] { return full({2}, 7.0); },
                    [](const auto& call) {
                      const Tensor a = call(), b = call();
                      EXPECT_FALSE(shares_memory(a, b));
                      return Results{a, b};
                    });
}

TEST(Judgement, OfBoundsOutsideTheDtypeIsTheSameInAllModes) {
  const auto f = [](Tensor x) { return clamp(x, -1e39, 1e39); };
  const Tensor x = tensor({1., -2.});
  std::string want;
  Tensor result;
  want = error_of([&] { result = f(x); });
  if (want == "no error") {
    EXPECT_EQ(list(result), (List{1, -2}));
  }
  for (const Way& way : compiled_ways()) {
    const auto compiled = compile(f, way.options);
    for (int round = 0; round < 3; ++round) {
      Tensor got;
      EXPECT_EQ(error_of([&] { got = compiled(x); }), want) << way.name;
      EXPECT_EQ(tests::difference_of_bits(got, result), "") << way.name;
    }
  }
}

// The same words for the same mistake, at the first call and after a good one.
TEST(Judgement, OfMistakesIsTheSameInAllModes) {
  const auto holds = [](auto f, const std::vector<Tensor>& good, const std::vector<Tensor>& bad) {
    const std::string want = error_of([&] { f(bad); });
    EXPECT_NE(want, "no error");
    for (const Way& way : compiled_ways()) {
      SCOPED_TRACE(way.name);
      const auto compiled = compile(f, way.options);
      EXPECT_EQ(error_of([&] { compiled(bad); }), want);
      for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(tests::difference_of_bits(compiled(good), f(good)), "");
        EXPECT_EQ(error_of([&] { compiled(bad); }), want);
      }
    }
  };
  using Inputs = std::vector<Tensor>;
  holds([](Inputs x) { return x[0].matmul(x[1]); }, {ones({2, 3}), ones({3, 4})},
        {ones({2, 3}), ones({4, 4})});
  holds([](Inputs x) { return x[0].matmul(x[1]); }, {ones({2, 3}), ones({3, 4})},
        {ones({2, 3}, kFloat16), ones({3, 4})});
  holds([](Inputs x) { return x[0] + x[1]; }, {ones({2}), ones({2})}, {ones({2}), ones({3})});
  holds([](Inputs x) { return x[0].view({2, -1}); }, {ones({4})}, {ones({5})});
  holds([](Inputs x) { return x[0].select(0, 3); }, {ones({4})}, {ones({3})});
  holds([](Inputs x) { return x[0].index_select(0, x[1]); }, {ones({4}), tensor({0, 3})},
        {ones({4}), tensor({0, 4})});
  holds([](Inputs x) { return cross_entropy(x[0], x[1]); }, {ones({2, 3}), tensor({0, 2})},
        {ones({2, 3}), tensor({0, 3})});
  holds([](Inputs x) { return embedding(x[0], x[1]); }, {ones({4, 2}), tensor({0, 3})},
        {ones({4, 2}), tensor({-1})});
  holds([](Inputs x) { return x[0].argmax(0); }, {ones({4})}, {ones({0})});
  holds([](Inputs x) { return x[0].floor_divide(x[1]); }, {tensor({4, 5}), tensor({2, 2})},
        {tensor({4, 5}), tensor({2, 0})});
}

}  // namespace
}  // namespace weft
