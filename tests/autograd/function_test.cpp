// Tests of user-defined functions.
#include "autograd/function.h"

#include <cmath>

#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;
using autograd::AutogradContext;

struct Cube : autograd::Function<Cube> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t scale) {
    ctx->save_for_backward({x});
    ctx->saved_data["scale"] = scale;
    EXPECT_FALSE(grad_mode_enabled());
    return x * x * x * scale;
  }
  static variable_list backward(AutogradContext* ctx, variable_list dy) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {dy[0] * 3 * x * x * ctx->saved_data["scale"].toInt(), Tensor()};
  }
};

TEST(Function, BackwardIsTheUsersOwn) {
  Tensor x = leaf({2});
  Tensor y = Cube::apply(x, 5);
  EXPECT_EQ(list(y), (List{40}));
  EXPECT_TRUE(y.requires_grad());
  y.backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{60}));
}

TEST(Function, IsDifferentiableAgain) {
  Tensor x = leaf({2});
  Tensor g = autograd::grad({Cube::apply(x, 1)}, {x}, {vector({1})}, {}, true)[0];
  EXPECT_EQ(list(autograd::grad({g}, {x}, {vector({1})})[0]), (List{12}));
}

TEST(Function, IsNotRecordedWithoutNeed) {
  EXPECT_FALSE(Cube::apply(vector({2}), 5).requires_grad());
  Tensor x = leaf({2});
  const NoGradGuard guard;
  EXPECT_FALSE(Cube::apply(x, 5).requires_grad());
}

TEST(Function, FreedAndChangedSavedTensorsAreNamed) {
  Tensor x = leaf({2});
  Tensor y = Cube::apply(x, 1);
  y.backward(vector({1}));
  expect_contains(error_of([&] { y.backward(vector({1})); }), "Cube was walked a second time");
}

// Saves its result and gives two, one of which has no gradient.
struct ExpAndSign : autograd::Function<ExpAndSign> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x) {
    Tensor y = exp(x), s = sign(x);
    ctx->save_for_backward({y});
    ctx->mark_non_differentiable({s});
    return {y, s};
  }
  static variable_list backward(AutogradContext* ctx, variable_list dy) {
    return {dy[0] * ctx->get_saved_variables()[0]};
  }
};

TEST(Function, ASavedResultKeepsItsHistoryAndMakesNoCycle) {
  Tensor x = leaf({0.5});
  variable_list y = ExpAndSign::apply(x);
  EXPECT_FALSE(y[1].requires_grad());
  Tensor g = autograd::grad({y[0]}, {x}, {vector({1})}, {}, true)[0];
  Tensor h = autograd::grad({g}, {x}, {vector({1})})[0];
  EXPECT_DOUBLE_EQ(list(h)[0], std::exp(0.5));
}

struct Identity : autograd::Function<Identity> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x; }
  static variable_list backward(AutogradContext*, variable_list dy) { return {-dy[0]}; }
};

TEST(Function, AnInputPassedThroughIsAnotherTensor) {
  Tensor x = leaf({2});
  Tensor y = Identity::apply(x);
  EXPECT_FALSE(y.is_same(x));
  EXPECT_TRUE(x.is_leaf());
  y.backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{-1}));
}

struct Short : autograd::Function<Short> {
  static Tensor forward(AutogradContext*, const Tensor& x, const Tensor& y) { return x * y; }
  static variable_list backward(AutogradContext*, variable_list dy) { return {dy[0]}; }
};

TEST(Function, TooFewGradientsAreAnError) {
  Tensor x = leaf({2});
  Tensor y = Short::apply(x, x);
  expect_contains(error_of([&] { y.backward(vector({1})); }),
                  "Short: backward returned 1 gradients for 2 arguments");
}

struct Wrong : autograd::Function<Wrong> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list) { return {vector({1, 2, 3})}; }
};

TEST(Function, AGradientOfOtherSizesIsAnError) {
  Tensor x = leaf({2, 3});
  expect_contains(error_of([&] {
                    Wrong::apply(x).backward(vector({1, 1}));
                  }),
                  "Wrong gave a gradient of sizes [3] for a tensor of sizes [2]");
}

}  // namespace
}  // namespace weft
