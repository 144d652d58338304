// Tensors of more than 2^31 elements on a GPU, eager and compiled: places are counted in 64 bits where 32 do not reach.
// Expected values are closed forms. Skips where there is no GPU, or none with 48 GB to spare.
#include <gtest/gtest.h>
#include <weft.h>

namespace weft {
namespace {

constexpr int64_t kNeeded = int64_t{48} << 30;  // bytes: some tensors of 9.2 GB, and the results of their ops

class CudaSizes : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << "no GPU: " << cuda::why_unavailable();
    try {
      empty({kNeeded}, TensorOptions(kUInt8).device(kCUDA));
    } catch (const Error& error) {
      GTEST_SKIP() << "takes 48 GB of a GPU: " << error.what();
    }
    cuda::empty_cache();
  }
  void TearDown() override {
    if (cuda::is_available()) cuda::empty_cache();
  }

  template <class F, class... Inputs>
  Tensor run(F f, const Inputs&... inputs) const {
    if (GetParam()) return compile(f)(inputs...);
    return f(inputs...);
  }

  NoGradGuard no_grad;
};

TEST_P(CudaSizes, OneDimension) {
  const int64_t n = (int64_t{1} << 31) + 4097;
  const Tensor x = ones({n}, TensorOptions(kInt8).device(kCUDA));
  const Tensor twice = run([](Tensor x) { return x + x; }, x);
  EXPECT_EQ(twice[n - 1].item<int64_t>(), 2);
  EXPECT_EQ(twice[int64_t{1} << 31].item<int64_t>(), 2);
  EXPECT_EQ(run([](Tensor x) { return x.sum(); }, twice).item<int64_t>(), 2 * n);
}

// Each row holds its number. Both sizes are odd, so that no row but every fourth begins at a pack.
TEST_P(CudaSizes, Rows) {
  const int64_t rows = 70001, columns = 32771;
  const TensorOptions options = TensorOptions(kFloat32).device(kCUDA);
  const Tensor x = zeros({rows, columns}, options) + arange(0, rows, 1, options).view({rows, 1});
  {
    const Tensor shares = run([](Tensor x) { return softmax(x, -1); }, x);
    EXPECT_EQ(shares[rows - 1][columns - 1].item<float>(), 1.0f / columns);
    EXPECT_EQ(shares[rows / 2 + 1][7].item<float>(), 1.0f / columns);
  }
  EXPECT_EQ(run([](Tensor x) { return x.sum(1); }, x)[2048].item<float>(), 2048.0f * columns);
  EXPECT_EQ(run([](Tensor x) { return x.amax(); }, x).item<float>(), rows - 1);
  EXPECT_EQ(run([](Tensor x) { return x.amax(0); }, x)[columns - 1].item<float>(), rows - 1);
  const Tensor last = full({3}, rows - 1, TensorOptions(kInt64).device(kCUDA));
  const Tensor taken = run([](Tensor x, Tensor i) { return index_select(x, 0, i); }, x, last);
  EXPECT_EQ(taken[2][columns - 1].item<float>(), rows - 1);
  EXPECT_EQ(x.t()[columns - 1][rows - 1].item<float>(), rows - 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, CudaSizes, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "Compiled" : "Eager"; });

}  // namespace
}  // namespace weft
