// while_loop(): condition and body stay in the graph; the number of steps is that of each call.
#include <gtest/gtest.h>

#include <weft.h>

#include "tests/support/error_text.h"

namespace weft {
namespace {

const CompileOptions kOneGraph{.fullgraph = true};

// Halves until nothing is above 1, and counts.
std::tuple<Tensor, Tensor> halve(Tensor x) {
  auto out = while_loop([](const Tensor&, const Tensor& y) { return y.abs().max() > 1; },
                        [](const Tensor& i, const Tensor& y) {
                          return std::tuple{i + 1, y / 2};
                        },
                        {tensor(0), x});
  return {out[0], out[1]};
}

TEST(WhileLoop, RunsAsOftenAsEachCallNeeds) {
  reset_compile_stats();
  auto compiled = compile(halve, kOneGraph);
  for (const double value : {5.0, 0.5, 100.0, 1.0, 7.0}) {
    const Tensor x = tensor({value, -value / 3});
    const auto [steps, y] = compiled(x);
    const auto [want_steps, want] = halve(x);
    EXPECT_EQ(steps.item<int64_t>(), want_steps.item<int64_t>()) << value;
    EXPECT_TRUE(equal(y, want)) << value;
    EXPECT_TRUE(equal(x, tensor({value, -value / 3})));
  }
  EXPECT_EQ(compile_stats().compilations, 1u);
}

TEST(WhileLoop, CarriesATensorATupleOrAList) {
  const auto f = [](Tensor x, Scalar limit) {
    const Tensor weight = x * 0 + 2;
    Tensor one = while_loop([&](const Tensor& y) { return y.sum() < limit; },
                            [&](const Tensor& y) { return y * weight; }, x);
    auto [i, y] = while_loop([](const Tensor& n, const Tensor&) { return n < 3; },
                             [&](const Tensor& n, const Tensor& z) {
                               return std::tuple{n + 1, z + one};
                             },
                             std::tuple{tensor(0), x});
    const auto list = while_loop([](const std::vector<Tensor>& all) { return all[0] < 2; },
                                 [](const std::vector<Tensor>& all) {
                                   return std::vector<Tensor>{all[0] + 1, all[1] * all[1]};
                                 },
                                 std::vector<Tensor>{tensor(0), y});
    return list[1] + i;
  };
  auto compiled = compile(f, kOneGraph);
  for (const double limit : {1.0, 20.0, 5.0}) {
    const Tensor x = tensor({{1., 2.}, {0.5, 0.25}}).t();
    EXPECT_TRUE(equal(compiled(x, limit), f(x, limit))) << limit;
  }
}

TEST(WhileLoop, StandsInCondsAndOtherLoopsUnderDynamicSizes) {
  const auto f = [](Tensor x) {
    return cond(
        x.sum() > 0,
        [&] {
          return while_loop([](const Tensor& y) { return y.sum() < 100; },
                            [&](const Tensor& y) {
                              const Tensor inner =
                                  while_loop([](const Tensor& z) { return z.max() < 4; },
                                             [&](const Tensor& z) { return z + x.size(0); }, y);
                              return inner * 1.5;
                            },
                            x);
        },
        [&] { return x - 1; });
  };
  auto compiled = compile(f, {.dynamic = true, .fullgraph = true});
  reset_compile_stats();
  for (const int64_t n : {2, 3, 5})
    for (const double value : {1.0, -1.0}) {
      const Tensor x = full({n}, value);
      EXPECT_TRUE(equal(compiled(x), f(x))) << n << ' ' << value;
    }
  EXPECT_EQ(compile_stats().compilations, 1u);
}

TEST(WhileLoop, PrintsAtEachStep) {
  std::vector<float> seen;
  auto f = compile(
      [&](Tensor x) {
        return while_loop([](const Tensor& y) { return y < 3; },
                          [&](const Tensor& y) {
                            host_call([&](const Tensor& value) { seen.push_back(value.item<float>()); }, y);
                            return y + 1;
                          },
                          x);
      },
      kOneGraph);
  EXPECT_EQ(f(tensor(0.)).item<float>(), 3);
  EXPECT_EQ(f(tensor(1.)).item<float>(), 3);
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 2, 1, 2}));
}

TEST(WhileLoop, GoesOnUnderNoGrad) {
  auto f = compile(
      [](Tensor x) {
        NoGradGuard off;
        return while_loop([](const Tensor& y) { return y.sum() < 10; }, [](const Tensor& y) { return y * 2; },
                          x);
      },
      kOneGraph);
  EXPECT_EQ(f(tensor({1.}).requires_grad_()).item<float>(), 16);
}

TEST(WhileLoopErrors, SayWhatIsWrong) {
  const auto run = [](auto cond_fn, auto body_fn, Tensor x) {
    compile([&](Tensor y) { return while_loop(cond_fn, body_fn, y); })(x);
  };
  const auto below = [](const Tensor& y) { return y.sum() < 3; };
  const auto twice = [](const Tensor& y) { return y * 2; };
  EXPECT_ERROR("body_fn makes [4] float32 of tensor 0, which is [2] float32", run(
                                                                                  below,
                                                                                  [](const Tensor& y) {
                                                                                    return cat({y, y});
                                                                                  },
                                                                                  ones({2})));
  EXPECT_ERROR("body_fn makes [2] float64 of tensor 0, which is [2] float32",
               run(
                   below, [](const Tensor& y) { return y.to(kFloat64); }, ones({2})));
  EXPECT_ERROR("body_fn of while_loop: gives 2 tensors, but was given 1",
               run(
                   below,
                   [](const Tensor& y) {
                     return std::vector<Tensor>{y, y};
                   },
                   ones({2})));
  EXPECT_ERROR("cond_fn gives a tensor of sizes [2], not one element",
               run([](const Tensor& y) { return y < 3; }, twice, ones({2})));
  EXPECT_ERROR("tensor 0 ([2] float32) requires grad, but a loop in a compiled function has no gradient",
               run(below, twice, ones({2}).requires_grad_()));
  const Tensor weight = ones({2}).requires_grad_();
  EXPECT_ERROR("what body_fn gives for tensor 0 requires grad",
               run(
                   below, [&](const Tensor& y) { return y * weight; }, ones({2})));
  EXPECT_ERROR("body_fn of while_loop: add_ writes into a tensor that it was given",
               run(
                   below, [](const Tensor& y) { return Tensor(y).add_(1); }, ones({2})));
  EXPECT_ERROR("while_loop_test.cpp:", run(
                                           below,
                                           [](const Tensor& y) {
                                             return cat({y, y});
                                           },
                                           ones({2})));
}

}  // namespace
}  // namespace weft
