// Tests of the losses: values by hand, reductions, ignored and weighted classes, errors with class and row.
#include <cmath>
#include <limits>

#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::leaf;
using testing::list;
using testing::List;
using testing::values;
using testing::vector;

constexpr double kInf = std::numeric_limits<double>::infinity();

void expect_near(const Tensor& x, const List& expected, double tolerance = 1e-12) {
  const List got = list(x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

TEST(MSELoss, Reduces) {
  const Tensor x = vector({1, 2, 4}), t = vector({1, 4, 1});
  expect_near(mse_loss(x, t, "none"), {0, 4, 9});
  expect_near(mse_loss(x, t, "sum"), {13});
  expect_near(mse_loss(x, t), {13.0 / 3});
  expect_near(l1_loss(x, t), {5.0 / 3});
  expect_contains(error_of([&] { mse_loss(x, t, "avg"); }), "mse_loss: reduction is \"avg\"");
  expect_contains(error_of([&] { mse_loss(x, t, "batchmean"); }), "loss_test.cpp:");
}

TEST(SmoothL1Loss, IsQuadraticThenLinear) {
  const Tensor x = vector({0, 1, -5}), t = vector({0, 0, 0});
  expect_near(smooth_l1_loss(x, t, "none", 2), {0, 0.25, 4});
  expect_near(huber_loss(x, t, "none", 2), {0, 0.5, 8});
  expect_near(smooth_l1_loss(x, t, "none", 0), {0, 1, 5});
  expect_contains(error_of([&] { huber_loss(x, t, "mean", 0); }), "delta is 0");
}

TEST(SmoothL1Loss, InfiniteDifferenceHasAFiniteGradient) {
  const Tensor x = leaf({kInf, -kInf, 2, -2, 0.5}), t = vector({0, 0, 0, 0, 0});
  smooth_l1_loss(x, t, "sum", 2).backward();
  EXPECT_EQ(list(x.grad()), (List{1, -1, 1, -1, 0.25}));
  const Tensor y = leaf({kInf, -3, 2});
  huber_loss(y, vector({0, 0, 0}), "sum", 2).backward();
  EXPECT_EQ(list(y.grad()), (List{2, -2, 2}));
}

TEST(KLDiv, ZeroTargetsCountNothing) {
  const Tensor x = values({std::log(0.5), std::log(0.5), std::log(0.25), std::log(0.75)}, {2, 2});
  const Tensor t = values({1, 0, 0.5, 0.5}, {2, 2});
  const double row2 = 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75);
  expect_near(kl_div(x, t, "batchmean"), {(std::log(2.0) + row2) / 2});
  expect_near(kl_div(x, t, "sum"), {std::log(2.0) + row2});
  expect_near(kl_div(x, x, "sum", true), {0});
}

TEST(BCEWithLogits, WeighsPositivesAndElements) {
  const Tensor x = vector({0, 800, -800}), t = vector({1, 1, 0});
  expect_near(binary_cross_entropy_with_logits(x, t, {}, {}, "none"), {std::log(2.0), 0, 0});
  expect_near(binary_cross_entropy_with_logits(x, t, vector({2, 1, 1}), vector({3, 3, 3}), "none"),
              {6 * std::log(2.0), 0, 0});
  expect_contains(error_of([&] { binary_cross_entropy_with_logits(x, vector({1}), {}, {}); }),
                  "target has sizes [1]");
}

Tensor classes(const std::vector<double>& numbers, const std::vector<int64_t>& sizes) {
  return values(numbers, sizes, kInt64);
}

TEST(CrossEntropy, UniformLogitsGiveTheLogOfTheClasses) {
  const Tensor logits = values(List(8, 1.0), {2, 4}).requires_grad_();
  const Tensor loss = cross_entropy(logits, classes({1, 3}, {2}));
  expect_near(loss, {std::log(4.0)});
  loss.backward();
  expect_near(logits.grad(), {0.125, -0.375, 0.125, 0.125, 0.125, 0.125, 0.125, -0.375});
}

TEST(CrossEntropy, IgnoredTargetsCountNeitherInSumNorMean) {
  const Tensor logits = values({0, 0, 5, 1, 0, 0}, {3, 2}).requires_grad_();
  const Tensor target = classes({0, -100, 1}, {3});
  expect_near(cross_entropy(logits, target), {std::log(2.0)});
  expect_near(cross_entropy(logits, target, {}, "none"), {std::log(2.0), 0, std::log(2.0)});
  cross_entropy(logits, target).backward();
  expect_near(logits.grad(), {-0.25, 0.25, 0, 0, 0.25, -0.25});
  EXPECT_TRUE(std::isnan(list(cross_entropy(logits, classes({-100, -100, -100}, {3})))[0]));
  expect_near(cross_entropy(logits, classes({7, 7, 1}, {3}), {}, "mean", 7), {std::log(2.0)});
}

TEST(CrossEntropy, WeightsAreTheMeasureOfTheMean) {
  const Tensor logits = values({0, 0, 0, 1, 2, 0}, {2, 3});
  const Tensor weight = vector({1, 2, 4}), target = classes({1, 2}, {2});
  const double row1 = std::log(3.0), row2 = std::log(std::exp(1) + std::exp(2) + 1);
  expect_near(cross_entropy(logits, target, weight), {(2 * row1 + 4 * row2) / 6});
  expect_near(cross_entropy(logits, target, weight, "sum"), {2 * row1 + 4 * row2});
  expect_contains(error_of([&] { cross_entropy(logits, target, vector({1, 2})); }), "there are 3 classes");
}

TEST(CrossEntropy, LabelSmoothingEqualsSmoothedProbabilities) {
  const Tensor logits = values({0.3, -1, 2, 0.1, 0.5, -0.5}, {2, 3});
  const Tensor hard = classes({2, 0}, {2});
  const double high = 0.7 + 0.1, low = 0.1;
  const Tensor soft = values({low, low, high, high, low, low}, {2, 3});
  for (const char* reduction : {"none", "sum", "mean"}) {
    expect_near(cross_entropy(logits, hard, {}, reduction, -100, 0.3),
                list(cross_entropy(logits, soft, {}, reduction)));
    const Tensor onehot = values({0, 0, 1, 1, 0, 0}, {2, 3});
    expect_near(cross_entropy(logits, hard, {}, reduction, -100, 0.3),
                list(cross_entropy(logits, onehot, {}, reduction, -100, 0.3)));
  }
}

TEST(CrossEntropy, TakesClassesInTheSecondDimension) {
  // [1, 2, 3]: three positions with two classes each.
  const Tensor logits = values({0, 1, 2, 0, 0, 0}, {1, 2, 3});
  const Tensor target = classes({0, 1, 0}, {1, 3});
  const List expected = {std::log(2.0), std::log(1 + std::exp(1)), std::log(std::exp(2) + 1) - 2};
  expect_near(cross_entropy(logits, target, {}, "none"), expected);
  expect_near(cross_entropy(logits, target), {(expected[0] + expected[1] + expected[2]) / 3});
  expect_near(cross_entropy(vector({0, 0}), classes({1}, {})), {std::log(2.0)});
}

TEST(CrossEntropy, ErrorNamesClassRowRangeAndLine) {
  const Tensor logits = values(List(640, 0), {64, 10});
  List numbers(64, 3);
  numbers[37] = 10;
  const std::string text = error_of([&] { cross_entropy(logits, classes(numbers, {64})); });
  expect_contains(text,
                  "cross_entropy: target holds class 10 at row 37, but logits [64, 10] have classes 0 to 9.\n"
                  "  Classes count from 0; rows that are to be left out hold ignore_index.\n"
                  "  at loss_test.cpp:");
  const Tensor image = values(List(12, 0), {1, 2, 2, 3});
  expect_contains(error_of([&] {
                    cross_entropy(image, classes({0, 0, 1, 0, -1, 0}, {1, 2, 3}));
                  }),
                  "target holds class -1 at [0, 1, 1]");
}

TEST(CrossEntropy, ErrorsSayWhatTheTargetShouldBe) {
  const Tensor logits = values(List(12, 0), {4, 3});
  expect_contains(error_of([&] {
                    cross_entropy(logits, classes({0, 0}, {2}));
                  }),
                  "needs a target of sizes [4]");
  expect_contains(error_of([&] {
                    cross_entropy(logits, vector({0, 0, 0, 0}));
                  }),
                  "class numbers must be integers");
  expect_contains(error_of([&] {
                    cross_entropy(logits, classes(List(12, 0), {4, 3}));
                  }),
                  "probabilities must be floating");
  expect_contains(error_of([&] { cross_entropy(logits, logits, {}, "mean", -100, 1.5); }),
                  "label_smoothing is 1.5");
}

TEST(NLLLoss, PicksTheTargetsEntry) {
  const Tensor x = values({-1, -2, -3, -4}, {2, 2});
  expect_near(nll_loss(x, classes({1, 0}, {2}), {}, "none"), {2, 3});
  expect_near(nll_loss(x, classes({1, 0}, {2}), vector({1, 3})), {(6.0 + 3) / 4});
  expect_near(nll_loss(x, values({1, 0}, {2}, kUInt8), {}), {2.5});
}

}  // namespace
}  // namespace weft
