// Tests of RMSprop, Adagrad and the schedules against their formulas written out.
#include <cmath>

#include "tests/autograd/tensors.h"
#include "weft.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::leaf;
using testing::List;

template <class Rule>
void expect_follows(optim::Optimizer& opt, Tensor& w, int steps, Rule rule) {
  double p = w.item<double>();
  for (int t = 1; t <= steps; ++t) {
    opt.zero_grad();
    ((w - 3) * (w - 3)).sum().backward();
    opt.step();
    p = rule(p, 2 * (p - 3), t);
    EXPECT_NEAR(w.item<double>(), p, 1e-12) << "step " << t;
  }
}
std::vector<Tensor> params(const Tensor& w) { return {w}; }

TEST(RMSprop, FollowsItsFormula) {
  Tensor w = leaf({1});
  optim::RMSprop plain(params(w), optim::RMSpropOptions(0.1).alpha(0.9).weight_decay(0.01));
  double v = 0;
  expect_follows(plain, w, 8, [&](double p, double g, int) {
    g += 0.01 * p;
    v = 0.9 * v + 0.1 * g * g;
    return p - 0.1 * g / (std::sqrt(v) + 1e-8);
  });
  w = leaf({1});
  optim::RMSprop full(params(w), optim::RMSpropOptions(0.05).alpha(0.9).momentum(0.8).centered(true));
  double mean = 0, buffer = 0;
  v = 0;
  expect_follows(full, w, 8, [&](double p, double g, int) {
    v = 0.9 * v + 0.1 * g * g;
    mean = 0.9 * mean + 0.1 * g;
    buffer = 0.8 * buffer + g / (std::sqrt(v - mean * mean) + 1e-8);
    return p - 0.05 * buffer;
  });
}

TEST(Adagrad, FollowsItsFormula) {
  Tensor w = leaf({1});
  optim::Adagrad opt(params(w), optim::AdagradOptions(0.5).lr_decay(0.1).initial_accumulator_value(0.2));
  double sum = 0.2;
  expect_follows(opt, w, 8, [&](double p, double g, int t) {
    sum += g * g;
    return p - 0.5 / (1 + (t - 1) * 0.1) * g / (std::sqrt(sum) + 1e-10);
  });
}

template <class Scheduler>
List rates(optim::Optimizer& opt, Scheduler&& schedule, int steps) {
  List result = {opt.param_groups()[0].options().get_lr()};
  for (int i = 0; i < steps; ++i) {
    schedule.step();
    result.push_back(schedule.get_last_lr()[0]);
  }
  return result;
}
void expect_rates(const List& got, const List& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15) << "step " << i;
}

TEST(Scheduler, FollowsItsFormula) {
  Tensor w = leaf({1});
  const auto sgd = [&] { return std::make_unique<optim::SGD>(params(w), optim::SGDOptions(0.8)); };
  auto opt = sgd();
  expect_rates(rates(*opt, optim::StepLR(*opt, 2, 0.5), 4), {0.8, 0.8, 0.4, 0.4, 0.2});
  opt = sgd();
  expect_rates(rates(*opt, optim::MultiStepLR(*opt, {1, 3}, 0.5), 4), {0.8, 0.4, 0.4, 0.2, 0.2});
  opt = sgd();
  expect_rates(rates(*opt, optim::ExponentialLR(*opt, 0.5), 2), {0.8, 0.4, 0.2});
  opt = sgd();
  expect_rates(rates(*opt, optim::CosineAnnealingLR(*opt, 2, 0.2), 3), {0.8, 0.5, 0.2, 0.5});
  opt = sgd();
  expect_rates(rates(*opt, optim::LinearLR(*opt, 0.5, 1, 2), 3), {0.4, 0.6, 0.8, 0.8});
  opt = sgd();
  expect_rates(
      rates(*opt, optim::LambdaLR(*opt, [](int64_t t) { return 1.0 / static_cast<double>(t + 1); }), 1),
      {0.8, 0.4});
  expect_contains(error_of([&] { optim::StepLR(*opt, 0); }), "step_size is 0");
}

TEST(OneCycle, RisesToTheTopAndMovesBeta1TheOtherWay) {
  Tensor w = leaf({1});
  optim::Adam opt(params(w), optim::AdamOptions(0.1));
  optim::OneCycleLR schedule(opt, 0.05, 10);
  auto& options = static_cast<optim::AdamOptions&>(opt.param_groups()[0].options());
  EXPECT_NEAR(options.get_lr(), 0.002, 1e-15);
  EXPECT_NEAR(std::get<0>(options.betas()), 0.95, 1e-15);
  schedule.step();
  schedule.step();  // the top: 0.3 · 10 - 1
  EXPECT_NEAR(options.get_lr(), 0.05, 1e-15);
  EXPECT_NEAR(std::get<0>(options.betas()), 0.85, 1e-15);
  EXPECT_NEAR(std::get<1>(options.betas()), 0.999, 1e-15);
  for (int i = 0; i < 7; ++i) schedule.step();
  EXPECT_NEAR(options.get_lr(), 0.002 / 1e4, 1e-15);
  EXPECT_NEAR(std::get<0>(options.betas()), 0.95, 1e-15);
  expect_contains(error_of([&] { schedule.step(); }), "step 10 of a cycle of 10");
  optim::Adagrad other(params(w));
  expect_contains(error_of([&] { optim::OneCycleLR(other, 0.1, 10); }),
                  "adagrad has neither momentum nor betas");
}

TEST(Scheduler, CountCanBeRestored) {
  Tensor w = leaf({1});
  optim::SGD opt(params(w), optim::SGDOptions(0.8));
  optim::StepLR schedule(opt, 2, 0.5);
  schedule.set_last_epoch(4);
  EXPECT_NEAR(opt.param_groups()[0].options().get_lr(), 0.2, 1e-15);
  EXPECT_EQ(schedule.last_epoch(), 4);
}

}  // namespace
}  // namespace weft
