// Tests of optimizers against steps worked out by PyTorch's formulas, and of gradient clipping.
#include <cmath>

#include "tests/autograd/tensors.h"
#include "weft.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::leaf;
using testing::list;
using testing::List;
using testing::vector;

// Steps with the gradient 2(w - 3), in plain doubles: each optimizer is held against its formula written out.
template <class Rule>
List follow(int steps, Rule rule) {
  double w = 1;
  List path;
  for (int t = 1; t <= steps; ++t) path.push_back(w = rule(w, 2 * (w - 3), t));
  return path;
}
List run(optim::Optimizer& opt, Tensor& w, int steps) {
  List path;
  for (int t = 0; t < steps; ++t) {
    opt.zero_grad();
    ((w - 3) * (w - 3)).sum().backward();
    opt.step();
    path.push_back(w.item<double>());
  }
  return path;
}
void expect_path(const List& got, const List& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << "step " << i + 1;
}
std::vector<Tensor> params(const Tensor& w) { return {w}; }

TEST(SGD, FollowsItsFormula) {
  Tensor w = leaf({1});
  optim::SGD plain(params(w), optim::SGDOptions(0.1).weight_decay(0.01));
  expect_path(run(plain, w, 5), follow(5, [](double p, double g, int) { return p - 0.1 * (g + 0.01 * p); }));

  w = leaf({1});
  optim::SGD momentum(params(w), optim::SGDOptions(0.05).momentum(0.9).dampening(0.2));
  double v = 0;
  expect_path(run(momentum, w, 6), follow(6, [&](double p, double g, int t) {
                v = t == 1 ? g : 0.9 * v + 0.8 * g;
                return p - 0.05 * v;
              }));

  w = leaf({1});
  optim::SGD nesterov(params(w), optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3));
  v = 0;
  expect_path(run(nesterov, w, 6), follow(6, [&](double p, double g, int) {
                g += 1e-3 * p;
                v = 0.9 * v + g;
                return p - 0.05 * (g + 0.9 * v);
              }));
}

TEST(Adam, FollowsItsFormula) {
  for (bool amsgrad : {false, true}) {
    Tensor w = leaf({1});
    optim::Adam adam(params(w),
                     optim::AdamOptions(0.1).betas({0.8, 0.9}).weight_decay(0.01).amsgrad(amsgrad));
    double m = 0, v = 0, top = 0;
    expect_path(run(adam, w, 40), follow(40, [&](double p, double g, int t) {
                  g += 0.01 * p;
                  m = 0.8 * m + 0.2 * g;
                  v = 0.9 * v + 0.1 * g * g;
                  top = std::max(top, v);
                  const double second = amsgrad ? top : v;
                  return p - 0.1 / (1 - std::pow(0.8, t)) * m /
                                 (std::sqrt(second / (1 - std::pow(0.9, t))) + 1e-8);
                }));
  }
}

TEST(AdamW, DecaysTheWeightBeforeTheStep) {
  Tensor w = leaf({1});
  optim::AdamW adamw(params(w), optim::AdamWOptions(0.1).weight_decay(0.1));
  double m = 0, v = 0;
  expect_path(run(adamw, w, 10), follow(10, [&](double p, double g, int t) {
                p *= 1 - 0.1 * 0.1;
                m = 0.9 * m + 0.1 * g;
                v = 0.999 * v + 0.001 * g * g;
                return p -
                       0.1 / (1 - std::pow(0.9, t)) * m / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
              }));
}

// C10
TEST(Adam, ConstantGradientMovesByTheRateEachStep) {
  Tensor w = vector({1}, kFloat32).requires_grad_();
  optim::Adam adam(params(w), optim::AdamOptions(0.01));
  for (int i = 0; i < 20; ++i) {
    adam.zero_grad();
    w.sum().backward();
    adam.step();
  }
  EXPECT_NEAR(w.item<double>(), 0.8, 1e-6);
}

TEST(Optimizer, ParametersWithoutAGradientKeepStateAndStepCount) {
  Tensor a = leaf({1}), b = leaf({1});
  optim::AdamW opt(std::vector<Tensor>{a, b}, optim::AdamWOptions(0.1));
  a.sum().backward();
  opt.step();
  EXPECT_EQ(opt.param_groups()[0].states()[0].step.value(), 1);
  EXPECT_EQ(opt.param_groups()[0].states()[1].step.value(), 0);
  EXPECT_EQ(list(b), List{1});
}

TEST(Optimizer, GroupsHaveTheirOwnRates) {
  Tensor a = leaf({1}), b = leaf({1});
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(params(a));
  groups.emplace_back(params(b), std::make_unique<optim::SGDOptions>(0.5));
  optim::SGD opt(groups, optim::SGDOptions(0.1));
  (a + b).sum().backward();
  opt.step();
  EXPECT_NEAR(a.item<double>(), 0.9, 1e-15);
  EXPECT_NEAR(b.item<double>(), 0.5, 1e-15);
  const uint64_t before = state_epoch();
  static_cast<optim::SGDOptions&>(opt.param_groups()[0].options()).lr(0.2);
  opt.param_groups()[1].options().set_lr(0.25);
  static_cast<optim::SGDOptions&>(opt.param_groups()[1].options()).lr() *= 2;
  EXPECT_EQ(state_epoch(), before) << "a rate is a cell: changing it is no change of the program";
  opt.step();
  EXPECT_NEAR(a.item<double>(), 0.7, 1e-15);
  EXPECT_NEAR(b.item<double>(), 0.0, 1e-15);
}

TEST(Optimizer, ErrorsNameTheParameterOrOption) {
  Tensor w = leaf({1});
  expect_contains(error_of([] { optim::SGD(std::vector<Tensor>{}); }), "sgd: there are no parameters");
  expect_contains(error_of([&] {
                    optim::SGD(std::vector<Tensor>{w, w});
                  }),
                  "parameter 1 of sizes [1] is given twice");
  expect_contains(error_of([&] { optim::SGD(params(w * 2)); }), "was made by an op");
  expect_contains(error_of([&] { optim::AdamW(params(w), optim::AdamWOptions(-1)); }), "adamw: lr is -1");
  expect_contains(error_of([&] {
                    optim::Adam(params(w), optim::AdamOptions().betas({0.9, 1}));
                  }),
                  "betas are 0.9 and 1");
  expect_contains(error_of([&] { optim::SGD(params(w), optim::SGDOptions(0.1).nesterov(true)); }),
                  "nesterov needs a momentum");
}

TEST(Optimizer, CopiedOptionsHaveCellsOfTheirOwn) {
  Tensor a = leaf({1}), b = leaf({1});
  const optim::SGDOptions options(0.1);
  optim::SGD first(params(a), options), second(params(b), options);
  first.param_groups()[0].options().set_lr(0.7);
  EXPECT_EQ(second.param_groups()[0].options().get_lr(), 0.1);
  EXPECT_EQ(options.lr(), 0.1);
}

TEST(Optimizer, ClosureRunsWithGradModeOn) {
  Tensor w = leaf({1});
  optim::SGD opt(params(w), optim::SGDOptions(0.1));
  const NoGradGuard no_grad;
  const Tensor loss = opt.step([&] {
    opt.zero_grad();
    Tensor value = (w * w).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<double>(), 1);
  EXPECT_NEAR(w.item<double>(), 0.8, 1e-15);
}

TEST(Optimizer, StateFollowsAModelThatWasConverted) {
  nn::Linear layer(2, 2);
  optim::AdamW opt(layer->parameters());
  layer->to(kFloat64);
  layer(ones({1, 2}, kFloat64)).sum().backward();
  opt.step();
  EXPECT_EQ(opt.param_groups()[0].states()[0].slots[0].dtype(), kFloat64);
}

TEST(ClipGrad, ScalesAllGradientsByOneFactor) {
  Tensor a = leaf({0, 0}), b = leaf({0}), unused = leaf({0});
  (a * vector({3, 0}) + b * 4).sum().backward();  // b counts in both elements: its gradient is 8
  const double norm = std::sqrt(9.0 + 64.0);
  EXPECT_NEAR(nn::utils::clip_grad_norm_({a, b, unused}, 1.0).to_double(), norm, 1e-12);
  EXPECT_NEAR(list(a.grad())[0], 3 / (norm + 1e-6), 1e-12);
  EXPECT_NEAR(list(b.grad())[0], 8 / (norm + 1e-6), 1e-12);
  const List clipped = list(b.grad());
  nn::utils::clip_grad_norm_({a, b}, 100.0);
  EXPECT_EQ(list(b.grad()), clipped) << "gradients below the bound stay";
  nn::utils::clip_grad_value_({a, b}, 0.1);
  EXPECT_NEAR(list(b.grad())[0], 0.1, 1e-15);
  EXPECT_EQ(nn::utils::clip_grad_norm_({unused}, 1.0).to_double(), 0);
}

TEST(ClipGrad, NonFiniteNormChangesNothingWhereItIsAnError) {
  Tensor a = leaf({0, 1});
  (a * vector({INFINITY, 2})).sum().backward();
  expect_contains(error_of([&] { nn::utils::clip_grad_norm_({a}, 1.0, 2.0, true); }),
                  "norm of all gradients is inf");
  EXPECT_EQ(list(a.grad())[1], 2);
}

}  // namespace
}  // namespace weft
