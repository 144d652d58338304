// Which algorithm a matrix product takes, and how products are described to cuBLASLt; on a GPU that is host memory.
#include <gtest/gtest.h>

#include <chrono>

#include "tensor/cuda/products.h"
#include "tests/support/fake_driver.h"

namespace weft {
namespace {

using cuda::Matmul;
using tests::fake_gpu;

class CudaProducts : public ::testing::Test {
 protected:
  CudaProducts() {
    cuda::forget_products();
    fake_gpu().products.clear();
    fake_gpu().fastest = 5;
    // No process before this one has kept anything for such a GPU.
    fake_gpu().name = "GPU " + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
    // Of devices the properties are asked for once: the name is that of the first test, and the sizes tell tests apart.
    static int64_t tests = 0;
    what.m = what.lda = what.ldd = 16384 + ++tests;
  }
  ~CudaProducts() override {
    cuda::forget_products();
    fake_gpu().is_capturing = false;
    fake_gpu().offers = 8;
    fake_gpu().refuses_epilogues = false;
  }

  // A [m, k] filled with ones times B [k, n] of twos, into d.
  bool multiply(double beta = 0) {
    const auto m = static_cast<size_t>(what.m);
    a.assign(m * 3, 1);
    b.assign(3 * 2, 2);
    d.assign(m * 2, 10);
    what.reads_c = beta != 0;
    return cuda::multiply(what, {.a = a.data(), .b = b.data(), .d = d.data(), .beta = beta});
  }
  static uint64_t last() { return fake_gpu().products.back().algorithm; }

  tests::FakeDriverScope scope;
  Matmul what{.n = 2, .k = 3, .ldb = 3};
  std::vector<float> a, b, d;
};

TEST_F(CudaProducts, TheHeuristicIsAskedOnce) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(multiply());
    EXPECT_EQ(last(), 0u) << "eager code takes what is offered first";
  }
  EXPECT_EQ(fake_gpu().products.size(), 3u);
  EXPECT_EQ(cuda::product_stats().heuristics, 1);
  EXPECT_EQ(cuda::product_stats().timed, 0);
  EXPECT_EQ(d[0], 6);
  what.alignment = 4;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(cuda::product_stats().heuristics, 2) << "another description";
}

TEST_F(CudaProducts, PlansTakeTheFastestFromTheirFirstCallOn) {
  const cuda::TimedProductsScope timed;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(multiply());
    EXPECT_EQ(last(), 5u);
  }
  EXPECT_EQ(cuda::product_stats().timed, 1);
  EXPECT_EQ(cuda::product_stats().heuristics, 1);
  {
    const cuda::TimedProductsScope eager(false);
    ASSERT_TRUE(multiply());
    EXPECT_EQ(last(), 0u);
  }
  // The next process.
  cuda::forget_products();
  fake_gpu().products.clear();
  fake_gpu().fastest = 3;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 5u);
  EXPECT_EQ(fake_gpu().products.size(), 1u);
  EXPECT_EQ(cuda::product_stats().loaded, 1);
  EXPECT_EQ(cuda::product_stats().heuristics, 0);
}

TEST_F(CudaProducts, WhatIsAddedToIsNotAddedToByTiming) {
  const cuda::TimedProductsScope timed;
  ASSERT_TRUE(multiply(2));
  EXPECT_GT(fake_gpu().products.size(), 8u);
  for (const float x : d) EXPECT_EQ(x, 26);
}

TEST_F(CudaProducts, NothingIsTimedWhileAStreamIsCaptured) {
  const cuda::TimedProductsScope timed;
  fake_gpu().is_capturing = true;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 0u);
  EXPECT_EQ(fake_gpu().products.size(), 1u);
  fake_gpu().is_capturing = false;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 5u);
  fake_gpu().is_capturing = true;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 5u) << "what is known is taken";
}

TEST_F(CudaProducts, EqualTimesGoToTheFirstOffer) {
  fake_gpu().fastest = 100;  // none of them
  const cuda::TimedProductsScope timed;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 0u);
}

TEST_F(CudaProducts, SmallProductsAreNotTimed) {
  what.m = what.lda = what.ldd = 64;
  const cuda::TimedProductsScope timed;
  ASSERT_TRUE(multiply());
  EXPECT_EQ(last(), 0u);
  EXPECT_EQ(fake_gpu().products.size(), 1u);
}

TEST_F(CudaProducts, WhatCannotBeDoneIsSaid) {
  fake_gpu().offers = 0;
  for (const bool is_timed : {false, true}) {
    const cuda::TimedProductsScope timed(is_timed);
    EXPECT_FALSE(multiply());
    EXPECT_FALSE(multiply());
  }
  EXPECT_TRUE(fake_gpu().products.empty());
  EXPECT_EQ(cuda::product_stats().heuristics, 1);
}

}  // namespace
}  // namespace weft
