// Tests of layers and initial values.
#include <cmath>

#include "tests/autograd/tensors.h"
#include "weft.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

TEST(Init, LinearStartsWithinOneOverRootOfItsInputs) {
  manual_seed(1);
  nn::Linear layer(64, 300);
  EXPECT_LE(largest(layer->weight), 0.125);
  EXPECT_GT(largest(layer->weight), 0.12);
  EXPECT_LE(largest(layer->bias), 0.125);
  EXPECT_NEAR(layer->weight.std().item<double>(), 0.125 / std::sqrt(3.0), 0.002);
  EXPECT_FALSE(nn::Linear(nn::LinearOptions(2, 2).bias(false))->bias.defined());
}

TEST(Init, VariancesFollowTheirRules) {
  manual_seed(2);
  const Tensor w = empty({200, 100});
  nn::init::xavier_normal_(w);
  EXPECT_NEAR(w.std().item<double>(), std::sqrt(2.0 / 300), 0.002);
  nn::init::xavier_uniform_(w, 2);
  EXPECT_LE(largest(w), 2 * std::sqrt(6.0 / 300) * 1.0001);
  nn::init::kaiming_normal_(w, 0, kFanOut, kReLU);
  EXPECT_NEAR(w.std().item<double>(), std::sqrt(2.0 / 200), 0.003);
  nn::init::trunc_normal_(w, 0, 1, -0.5, 0.5);
  EXPECT_LE(largest(w), 0.5);
  EXPECT_NEAR(w.mean().item<double>(), 0, 0.01);
  EXPECT_EQ(nn::init::calculate_fan_in_and_fan_out(empty({8, 3, 5, 5})),
            (std::pair<int64_t, int64_t>(75, 200)));
  expect_contains(error_of([] { nn::init::kaiming_normal_(empty({3})); }), "at least two dimensions");
  expect_contains(error_of([] { nn::init::calculate_gain("swish"); }), "\"swish\"");
}

TEST(Init, OrthogonalRowsAreOrthonormal) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}}) {
    const Tensor w = empty({rows, columns}, kFloat64);
    nn::init::orthogonal_(w, 2);
    const Tensor gram = rows < columns ? w.matmul(w.t()) : w.t().matmul(w);
    EXPECT_TRUE(allclose(gram, eye(5, kFloat64) * 4, 1e-12, 1e-12));
  }
}

TEST(Norms, StartAsIdentityScalesAndCheckTheirInput) {
  nn::LayerNorm layer(nn::LayerNormOptions({3, 4}));
  EXPECT_EQ(layer->weight.sizes(), (std::vector<int64_t>{3, 4}));
  const Tensor y = layer(randn({2, 3, 4}));
  EXPECT_TRUE(allclose(y.mean({1, 2}), zeros({2}), 1e-5, 1e-5));
  nn::RMSNorm rms(48);
  EXPECT_EQ(rms->weight.sum().item<double>(), 48);
  const std::string text = error_of([&] { rms(ones({2, 47})); });
  expect_contains(text, "RMSNorm: x has sizes [2, 47], but the layer normalises the last dimensions [48]");
  expect_contains(text, "layer_test.cpp:");
  EXPECT_FALSE(nn::RMSNorm(nn::RMSNormOptions(4).elementwise_affine(false))->weight.defined());
}

TEST(Embedding, PaddingRowIsZeroAndGetsNoGradient) {
  nn::Embedding table(nn::EmbeddingOptions(5, 3).padding_idx(-4));
  EXPECT_EQ(*table->options.padding_idx(), 1);
  EXPECT_EQ(table->weight[1].abs().sum().item<double>(), 0);
  const Tensor index = testing::values({0, 1, 1, 4}, {2, 2}, kInt64);
  const Tensor rows = table(index);
  EXPECT_EQ(rows.sizes(), (std::vector<int64_t>{2, 2, 3}));
  rows.sum().backward();
  EXPECT_EQ(testing::list(table->weight.grad().sum(1)), (testing::List{3, 0, 0, 0, 3}));
  expect_contains(error_of([] { nn::Embedding(nn::EmbeddingOptions(5, 3).padding_idx(5)); }), "rows 0 to 4");
}

TEST(Dropout, IsTheIdentityInEvalMode) {
  manual_seed(3);
  nn::Dropout dropout(0.25);
  const Tensor x = ones({1000});
  const Tensor y = dropout(x);
  EXPECT_NEAR(y.ne(0).sum().item<double>(), 750, 60);
  EXPECT_NEAR(largest(y), 1 / 0.75, 1e-6);
  dropout->eval();
  EXPECT_TRUE(equal(dropout(x), x));
  expect_contains(error_of([] { nn::Dropout(1.5); }), "p is 1.5");
}

TEST(Activations, CallTheFunctionOfTheirName) {
  const Tensor x = randn({4, 5});
  EXPECT_TRUE(equal(nn::SiLU()(x), silu(x)));
  EXPECT_TRUE(equal(nn::GELU(nn::GELUOptions().approximate("tanh"))(x), gelu(x, "tanh")));
  EXPECT_TRUE(equal(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2))(x), leaky_relu(x, 0.2)));
  EXPECT_TRUE(equal(nn::Softmax(1)(x), softmax(x, 1)));
  EXPECT_TRUE(equal(nn::Hardtanh(nn::HardtanhOptions(-0.5, 0.5))(x), hardtanh(x, -0.5, 0.5)));
  const Tensor written = x.clone();
  EXPECT_TRUE(nn::ReLU(nn::ReLUOptions().inplace(true))(written).is_same(written));
  EXPECT_TRUE(equal(written, relu(x)));
  EXPECT_EQ(nn::Flatten()(ones({2, 3, 4})).sizes(), (std::vector<int64_t>{2, 12}));
  EXPECT_EQ(nn::LeakyReLU()->describe(), "LeakyReLU(negative_slope=0.01)");
}

TEST(Losses, ModulesPassTheirOptionsOn) {
  const Tensor logits = randn({3, 4}), target = testing::values({0, 3, -100}, {3}, kInt64);
  nn::CrossEntropyLoss criterion(
      nn::CrossEntropyLossOptions().label_smoothing(0.1).reduction(kSum).weight(rand({4})));
  EXPECT_TRUE(
      equal(criterion(logits, target), cross_entropy(logits, target, criterion->weight, "sum", -100, 0.1)));
  EXPECT_EQ(criterion->named_buffers().keys(), std::vector<std::string>{"weight"});
  const Tensor other = randn({3, 4});
  EXPECT_TRUE(equal(nn::MSELoss(kSum)(logits, other), mse_loss(logits, other, "sum")));
  EXPECT_TRUE(equal(nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5))(logits, other),
                    smooth_l1_loss(logits, other, "mean", 0.5)));
  namespace F = nn::functional;
  EXPECT_TRUE(equal(
      F::cross_entropy(logits, target, F::CrossEntropyFuncOptions().ignore_index(-100).reduction(kNone)),
      cross_entropy(logits, target, {}, "none")));
  EXPECT_TRUE(equal(F::softmax(logits, F::SoftmaxFuncOptions(1)), softmax(logits, 1)));
}

}  // namespace
}  // namespace weft
