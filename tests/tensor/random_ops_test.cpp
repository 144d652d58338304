// Tests of the random ops: every value is the one philox.h defines, on any number of threads; moments; errors; dropout's mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/gradcheck.h"
#include "tensor/base/half.h"
#include "tensor/cpu/parallel.h"
#include "tensor/dispatch.h"
#include "tensor/random/generator.h"
#include "tests/support/error_text.h"

namespace weft {
namespace {

constexpr uint64_t kSeed = 0xFEDCBA9876543210;  // needs all 64 bits

template <class T>
std::vector<T> values(const Tensor& x) {
  return {data_of<T>(x), data_of<T>(x) + int_numel(x)};
}
Tensor filled(const std::vector<int64_t>& sizes, DType dtype, double value) {
  const Tensor x = make_tensor(SymList(sizes), dtype), number = make_tensor(SymList(sizes), kFloat64);
  std::fill(data_of<double>(number), data_of<double>(number) + int_numel(number), value);
  copy_data(number, x);
  return x;
}
// The state with which the next op draws.
GeneratorState seeded(uint64_t offset = 0) {
  default_generator().set_state({kSeed, offset});
  return default_generator().get_state();
}

TEST(RandomOps, UniformNumbersAreThoseOfTheStream) {
  for (const int64_t n : {1, 5, 255, 256, 1000, 70001}) {
    // Near the carry of the counter's lower word.
    const uint64_t offset = 0xFFFFFFF0;
    seeded(offset);
    const Tensor x = rand({n});
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(data_of<float>(x)[i], philox_uniform(philox_word32(kSeed, offset, static_cast<uint64_t>(i))))
          << i;
    EXPECT_EQ(default_generator().offset(), offset + philox_counters32(static_cast<uint64_t>(n)));
    seeded(offset);
    const Tensor wide = rand({n}, kFloat64);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(data_of<double>(wide)[i],
                philox_uniform(philox_word64(kSeed, offset, static_cast<uint64_t>(i))))
          << i;
    EXPECT_EQ(default_generator().offset(), offset + philox_counters64(static_cast<uint64_t>(n)));
  }
  seeded();
  const Tensor half = rand({300}, kFloat16);
  seeded();
  const Tensor brain = rand({300}, kBFloat16);
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(to_float(data_of<Float16>(half)[i]), philox_uniform<11>(philox_word32(kSeed, 0, i)));
    EXPECT_EQ(to_float(data_of<BFloat16>(brain)[i]), philox_uniform<8>(philox_word32(kSeed, 0, i)));
  }
}

TEST(RandomOps, IntegersAreThoseOfTheStreamInEveryType) {
  const int64_t n = 600;
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    seeded(3);
    const Tensor x = randint(1, 100, {n}, dtype), numbers = make_tensor(Sizes{Sym::from_int(n)}, kInt64);
    copy_data(x, numbers);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(data_of<int64_t>(numbers)[i],
                philox_randint(philox_word32(kSeed, 3, static_cast<uint64_t>(i)), 1, 100));
  }
  EXPECT_EQ(randint(5, {3}).dtype(), kInt64);
  seeded(3);
  const Tensor wide = randint(-5, int64_t{1} << 40, {n});
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(data_of<int64_t>(wide)[i],
              philox_randint(philox_word64(kSeed, 3, static_cast<uint64_t>(i)), -5, int64_t{1} << 40));
}

TEST(RandomOps, NormalNumbersFollowBoxAndMuller) {
  seeded(9);
  const Tensor x = randn({1001}, kFloat64);
  seeded(9);
  const Tensor single = randn({1001});
  for (uint64_t i = 0; i < 1001; ++i) {
    const uint64_t even = i / 2 * 2;
    const double u = philox_uniform(philox_word64(kSeed, 9, even)),
                 v = philox_uniform(philox_word64(kSeed, 9, even + 1));
    const double radius = std::sqrt(-2 * std::log(1 - u)), angle = 2 * M_PI * v;
    EXPECT_NEAR(data_of<double>(x)[i], radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)), 1e-13);
    const double a = philox_uniform(philox_word32(kSeed, 9, even)),
                 b = philox_uniform(philox_word32(kSeed, 9, even + 1));
    const double single_radius = std::sqrt(-2 * std::log(1 - a)), turn = 2 * M_PI * b;
    EXPECT_NEAR(data_of<float>(single)[i], single_radius * (i % 2 == 0 ? std::cos(turn) : std::sin(turn)),
                4e-6);
  }
}

TEST(RandomOps, NormalNumbersHaveTheRightMoments) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    const int64_t n = 1 << 16;
    manual_seed(1);
    const Tensor x = make_tensor(Sizes{Sym::from_int(n)}, kFloat64);
    copy_data(randn({n}, dtype), x);
    double moments[5] = {};
    for (int64_t i = 0; i < n; ++i)
      for (int k = 1; k <= 4; ++k) moments[k] += std::pow(data_of<double>(x)[i], k) / static_cast<double>(n);
    // Five standard errors: sqrt(E x^2k - (E x^k)^2) / 256.
    EXPECT_NEAR(moments[1], 0, 5 / 256.0) << dtype;
    EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2) / 256) << dtype;
    EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15) / 256) << dtype;
    EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96) / 256) << dtype;
  }
}

TEST(RandomOps, ThreadsChangeNoValue) {
  const auto draw = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    seeded();
    std::vector<std::vector<float>> all;
    all.push_back(values<float>(rand({100003})));
    all.push_back(values<float>(randn({100003})));
    all.push_back(values<float>(randint(7, {100003}, kFloat32)));
    all.push_back(values<float>(bernoulli(filled({100003}, kFloat32, 0.3))));
    all.push_back(values<float>(dropout(filled({100003}, kFloat32, 1), 0.3)));
    all.push_back(values<float>(randperm(100003, kFloat32)));
    set_num_threads(before);
    return all;
  };
  EXPECT_EQ(draw(1), draw(2));
  EXPECT_EQ(draw(1), draw(3));
}

TEST(RandomOps, BernoulliComparesTheWord) {
  const int64_t n = 1000;
  for (const double p : {0.0, 0.25, 0.999, 1.0}) {
    seeded();
    const Tensor by_number = bernoulli(filled({n}, kInt32, 0), p);
    seeded();
    const Tensor by_tensor = bernoulli(filled({n}, kFloat64, p));
    for (int64_t i = 0; i < n; ++i) {
      const bool hit = philox_word32(kSeed, 0, static_cast<uint64_t>(i)) < p * 0x1p32;
      ASSERT_EQ(data_of<int32_t>(by_number)[i], hit);
      ASSERT_EQ(data_of<double>(by_tensor)[i], hit);
    }
  }
}

TEST(RandomOps, InPlaceFormsFillByLogicalIndex) {
  seeded();
  Tensor dense = filled({6, 4}, kFloat32, 0);
  dense.uniform_(-2, 3);
  seeded();
  Tensor base = filled({4, 6}, kFloat32, 0), turned = base.t();
  turned.uniform_(-2, 3);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ(data_of<float>(base)[j * 6 + i], data_of<float>(dense)[i * 4 + j]);
      EXPECT_EQ(data_of<float>(dense)[i * 4 + j],
                philox_uniform(philox_word32(kSeed, 0, static_cast<uint64_t>(i * 4 + j))) * 5.0f + -2.0f);
    }
  EXPECT_EQ(base.version(), 1u);
  seeded();
  Tensor x = filled({500}, kFloat64, 0);
  x.normal_(10, 0.5);
  seeded();
  const auto standard = values<double>(randn({500}, kFloat64));
  for (size_t i = 0; i < 500; ++i) EXPECT_DOUBLE_EQ(values<double>(x)[i], standard[i] * 0.5 + 10);
  Tensor flags = filled({1000}, kBool, 0);
  flags.bernoulli_(0.5);
  const auto bits = values<uint8_t>(flags.to(kUInt8));
  EXPECT_NEAR(std::accumulate(bits.begin(), bits.end(), 0), 500, 5 * 16);
  Tensor small = filled({1000}, kInt8, 0);
  small.random_(-128, 128);
  const auto numbers = values<int8_t>(small);
  EXPECT_LT(*std::min_element(numbers.begin(), numbers.end()), -100);
  EXPECT_GT(*std::max_element(numbers.begin(), numbers.end()), 100);
}

TEST(RandomOps, UniformNeverReachesItsUpperEnd) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    Tensor x = filled({20000}, dtype, 0);
    x.uniform_(1, 1.03125);
    const Tensor wide = x.to(kFloat32);
    for (const float value : values<float>(wide)) ASSERT_TRUE(value >= 1 && value < 1.03125f) << value;
  }
}

TEST(RandomOps, RandpermHoldsEveryNumberOnce) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    auto numbers = values<int64_t>(randperm(n));
    const bool moved = !std::is_sorted(numbers.begin(), numbers.end());
    EXPECT_EQ(moved, n == 1000 || (n == 2 && numbers[0] == 1));
    std::sort(numbers.begin(), numbers.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  }
}

TEST(RandomOps, MultinomialDrawsByWeight) {
  manual_seed(4);
  const Tensor weights = filled({2, 4}, kFloat32, 0);
  const float numbers[] = {1, 0, 3, 4, 0, 0, 2, 0};
  std::copy(numbers, numbers + 8, data_of<float>(weights));
  const Tensor drawn = multinomial(weights, 8000, true);
  EXPECT_EQ(drawn.sizes(), (std::vector<int64_t>{2, 8000}));
  int counts[4] = {};
  for (int64_t i = 0; i < 8000; ++i) ++counts[data_of<int64_t>(drawn)[i]];
  for (int64_t i = 8000; i < 16000; ++i) ASSERT_EQ(data_of<int64_t>(drawn)[i], 2);
  EXPECT_NEAR(counts[0], 1000, 5 * 30);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[2], 3000, 5 * 43);
  EXPECT_NEAR(counts[3], 4000, 5 * 45);
  // Without replacement the first draw follows the weights, and no class comes twice.
  int first[4] = {};
  const Tensor row = filled({4}, kFloat64, 0);
  std::copy(numbers, numbers + 4, data_of<double>(row));
  for (int round = 0; round < 4000; ++round) {
    auto order = values<int64_t>(multinomial(row, 3));
    ++first[order[0]];
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, (std::vector<int64_t>{0, 2, 3}));
  }
  EXPECT_NEAR(first[0], 500, 5 * 21);
  EXPECT_NEAR(first[3], 2000, 5 * 32);
}

TEST(Dropout, KeepsAndScalesByTheWord) {
  const int64_t n = 3000;
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    seeded(7);
    const Tensor y = dropout(filled({n}, dtype, 3), 0.25).to(kFloat64);
    for (int64_t i = 0; i < n; ++i) {
      const bool kept = philox_word32(kSeed, 7, static_cast<uint64_t>(i)) < 0.75 * 0x1p32;
      ASSERT_EQ(data_of<double>(y)[i] == 0, !kept);
      if (kept) {
        ASSERT_EQ(data_of<double>(y)[i], dtype == kFloat64 ? 3 * (1 / 0.75) : 4);
      }
    }
  }
  // What is dropped leaves no NaN behind.
  EXPECT_EQ(values<float>(dropout(filled({4}, kFloat32, NAN), 1)), (std::vector<float>{0, 0, 0, 0}));
  const Tensor x = filled({4}, kFloat32, 1);
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
}

TEST(Dropout, BackwardRecomputesTheForwardMask) {
  Tensor x = filled({40, 25}, kFloat32, 1);
  x.requires_grad_();
  const Tensor y = dropout(x, 0.4);
  // Draws in between move the generator on.
  rand({100});
  y.sum().backward();
  EXPECT_EQ(values<float>(x.grad()), values<float>(y));
  // A transposed operand: the mask goes by logical index.
  Tensor turned = filled({25, 40}, kFloat32, 1);
  turned.requires_grad_();
  const Tensor z = dropout(turned.t(), 0.4);
  z.sum().backward();
  EXPECT_EQ(values<float>(turned.grad().contiguous()), values<float>(z.t().contiguous()));
}

TEST(RandomOps, ErrorsNameWhatWasGiven) {
  Tensor x = filled({3}, kFloat32, 0), bytes = filled({3}, kUInt8, 0);
  EXPECT_ERROR("rand: size -1 of dimension 0 is negative", rand({-1}));
  EXPECT_ERROR("rand: the dtype is int64", rand({2}, kInt64));
  EXPECT_ERROR("randint: low is 5 and high is 5, but low must be below high", randint(5, 5, {2}));
  EXPECT_ERROR("randint: [0, 300) leaves the range 0 to 255 of uint8", randint(0, 300, {2}, kUInt8));
  EXPECT_ERROR("randperm: n is -1", randperm(-1));
  EXPECT_ERROR("randperm: n is 300, but uint8 holds whole numbers only up to 255", randperm(300, kUInt8));
  EXPECT_ERROR("dropout: p is 1.5", dropout(x, 1.5));
  EXPECT_ERROR("dropout: p is nan", dropout(x, NAN));
  EXPECT_ERROR("only floating tensors", dropout(bytes, 0.5));
  EXPECT_ERROR("bernoulli: element 0 of the probabilities is 1.25", bernoulli(filled({3}, kFloat32, 1.25)));
  EXPECT_ERROR("bernoulli: element 0", bernoulli(filled({3}, kFloat32, NAN)));
  EXPECT_ERROR("bernoulli_p: p is -0.1", bernoulli(x, -0.1));
  EXPECT_ERROR("uniform_: low is 2 and high is 1", x.uniform_(2, 1));
  EXPECT_ERROR("the dtype is uint8", bytes.uniform_());
  EXPECT_ERROR("std is -1", x.normal_(0, -1));
  EXPECT_ERROR("leaves the range 0 to 255 of uint8", bytes.random_(-1, 5));
  EXPECT_ERROR("the weights of row 0 sum to 0", multinomial(x, 1));
  EXPECT_ERROR("weight 0 of row 0 is -1", multinomial(filled({3}, kFloat32, -1), 1));
  EXPECT_ERROR("4 draws without replacement were asked for, but there are 3 classes",
               multinomial(filled({3}, kFloat32, 1), 4));
  EXPECT_ERROR("at least one is needed", multinomial(filled({3}, kFloat32, 1), 0));
}

}  // namespace
}  // namespace weft
