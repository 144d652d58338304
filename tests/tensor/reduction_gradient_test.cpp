// Tests of the gradients of folds, scans, softmax and norms against finite differences, and of their choices at ties,
// zeros and infinities.
#include <gtest/gtest.h>

#include "autograd/gradcheck.h"
#include "tests/tensor/tensor_values.h"

namespace weft {
namespace {

using namespace testing_values;
using autograd::gradcheck;
using autograd::gradgradcheck;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor leaf(std::vector<int64_t> sizes, unsigned seed, double low = -2, double high = 2) {
  Tensor x = random_tensor(sizes, kFloat64, seed, low, high);
  x.requires_grad_();
  return x;
}
using Inputs = std::vector<Tensor>;

TEST(ReductionGradient, FoldsAndStatistics) {
  const Tensor x = leaf({3, 4, 5}, 1);
  for (const DimList& dims : {DimList(), DimList(1), DimList{0, 2}, DimList(-1)}) {
    for (bool keepdim : {false, true}) {
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{sum(in[0], dims, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{mean(in[0], dims, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{amax(in[0], dims, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{amin(in[0], dims, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{var(in[0], dims, 1, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{std(in[0], dims, 0, keepdim)}; }, {x}));
      EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{logsumexp(in[0], dims, keepdim)}; }, {x}));
      for (double p : {1.0, 2.0, 3.0, kInf, -kInf})
        EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{norm(in[0], p, dims, keepdim)}; }, {x}));
    }
  }
  EXPECT_TRUE(gradgradcheck([&](const Inputs& in) { return Inputs{logsumexp(in[0], 1)}; }, {x}));
  EXPECT_TRUE(gradgradcheck([&](const Inputs& in) { return Inputs{var(in[0], 1)}; }, {x}));
}

TEST(ReductionGradient, ProductsWithZerosAndScans) {
  for (int zeros : {0, 1, 2}) {
    std::vector<double> values = values_of(random_tensor({3, 4}, kFloat64, 2, 0.5, 2));
    for (int i = 0; i < zeros; ++i) values[static_cast<size_t>(4 + 2 * i)] = 0;
    Tensor x = from_values(values, {3, 4}, kFloat64);
    x.requires_grad_();
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{prod(in[0], 1)}; }, {x})) << zeros;
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{prod(in[0])}; }, {x})) << zeros;
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{cumprod(in[0], 1)}; }, {x})) << zeros;
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{cumprod(in[0], 0)}; }, {x})) << zeros;
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{cumsum(in[0], -1)}; }, {x})) << zeros;
  }
  const Tensor x = leaf({3, 4}, 3);
  EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{std::get<0>(max(in[0], 1))}; }, {x}));
  EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{std::get<0>(min(in[0], 0, true))}; }, {x}));
}

TEST(ReductionGradient, SoftmaxAndNorms) {
  const Tensor x = leaf({3, 5}, 4), w = leaf({5}, 5), b = leaf({5}, 6);
  for (int64_t dim : {0, 1}) {
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{softmax(in[0], dim)}; }, {x}));
    EXPECT_TRUE(gradcheck([&](const Inputs& in) { return Inputs{log_softmax(in[0], dim)}; }, {x}));
    EXPECT_TRUE(gradgradcheck([&](const Inputs& in) { return Inputs{softmax(in[0], dim)}; }, {x}));
    EXPECT_TRUE(gradgradcheck([&](const Inputs& in) { return Inputs{log_softmax(in[0], dim)}; }, {x}));
  }
  const auto layer = [](const Inputs& in) { return Inputs{layer_norm(in[0], {5}, in[1], in[2])}; };
  const auto rms = [](const Inputs& in) { return Inputs{rms_norm(in[0], {5}, in[1])}; };
  EXPECT_TRUE(gradcheck(layer, {x, w, b}));
  EXPECT_TRUE(gradcheck(rms, {x, w}));
  EXPECT_TRUE(gradgradcheck(layer, {x, w, b}));
  EXPECT_TRUE(gradgradcheck(rms, {x, w}));
  EXPECT_TRUE(gradcheck([](const Inputs& in) { return Inputs{layer_norm(in[0], {3, 5}, {}, {})}; }, {x}));

  const Tensor image = leaf({2, 4, 3}, 7), scale = leaf({4}, 8), shift = leaf({4}, 9);
  EXPECT_TRUE(gradcheck([](const Inputs& in) { return Inputs{group_norm(in[0], 2, in[1], in[2])}; },
                        {image, scale, shift}));
  EXPECT_TRUE(
      gradcheck([](const Inputs& in) { return Inputs{batch_norm(in[0], {}, {}, in[1], in[2], true)}; },
                {image, scale, shift}));
}

Tensor gradient_of(const Tensor& y, const Tensor& x) {
  y.sum().backward();
  return x.grad();
}

TEST(ReductionGradient, TiesShareEvenly) {
  Tensor x = from_values({1, 3, 3, 2}, {4}, kFloat32);
  x.requires_grad_();
  EXPECT_EQ(values_of(gradient_of(amax(x), x)), (std::vector<double>{0, 0.5, 0.5, 0}));
  Tensor y = from_values({1, 3, 3, 2}, {1, 4}, kFloat32);
  y.requires_grad_();
  EXPECT_EQ(values_of(gradient_of(std::get<0>(max(y, 1)), y)), (std::vector<double>{0, 1, 0, 0}));
}

TEST(ReductionGradient, NothingIsNaNAtZeroNormAndMaskedRows) {
  Tensor x = from_values({0, 0, 0}, {3}, kFloat32);
  x.requires_grad_();
  EXPECT_EQ(values_of(gradient_of(norm(x), x)), (std::vector<double>{0, 0, 0}));
  Tensor masked = from_values({-kInf, -kInf, 0, -kInf}, {2, 2}, kFloat32);
  masked.requires_grad_();
  EXPECT_EQ(values_of(gradient_of(logsumexp(masked, 1), masked)), (std::vector<double>{0, 0, 1, 0}));
}

TEST(BatchNorm, TrainingUpdatesTheRunningStatistics) {
  const Tensor x = from_values({1, 10, 3, 30}, {2, 2}, kFloat32);
  Tensor mean = from_values({0, 0}, {2}, kFloat32), variance = from_values({1, 1}, {2}, kFloat32);
  batch_norm(x, mean, variance, {}, {}, true, 0.5);
  EXPECT_EQ(values_of(mean), (std::vector<double>{1, 10}));
  EXPECT_EQ(values_of(variance), (std::vector<double>{1.5, 100.5}));
  const Tensor before = as_dtype(mean, kFloat32);
  batch_norm(x, mean, variance, {}, {}, false);
  EXPECT_TRUE(same_bits(mean, before));
  EXPECT_THROW(batch_norm(from_values({1, 2}, {1, 2}, kFloat32), mean, variance, {}, {}, true), Error);
  EXPECT_THROW(batch_norm(x, {}, {}, {}, {}, false), Error);
}

}  // namespace
}  // namespace weft
