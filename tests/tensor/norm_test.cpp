// Tests of layer_norm and rms_norm: bit equality of the row kernels with their parts, values, errors.
#include <gtest/gtest.h>

#include "tests/tensor/tensor_values.h"

namespace weft {
namespace {

using namespace testing_values;

struct Parts {
  Tensor y, rstd;
};
Parts layer_parts(const Tensor& x, double eps) {
  const Tensor d = x - mean(x, -1, true);
  const Tensor rstd = rsqrt(mean(d * d, -1, true) + eps);
  return {d * rstd, rstd};
}
Parts rms_parts(const Tensor& x, double eps) {
  const Tensor rstd = rsqrt(mean(x * x, -1, true) + eps);
  return {x * rstd, rstd};
}

constexpr int64_t kLengths[] = {2, 7, 15, 16, 17, 63, 64, 65, 130, 1000, 4095, 4096, 4097, 9001};

TEST(Norm, RowKernelsEqualTheirPartsBitForBit) {
  for (int64_t n : kLengths) {
    for (DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = random_tensor({3, n}, dtype, 3), w = random_tensor({n}, dtype, 4),
                   b = random_tensor({n}, dtype, 5);
      const Parts layer = layer_parts(x, 1e-5), rms = rms_parts(x, 1e-6);
      EXPECT_TRUE(same_bits(layer_norm(x, {n}, w, b), layer.y * w + b)) << dtype << " " << n;
      EXPECT_TRUE(same_bits(layer_norm(x, {n}, {}, {}), layer.y)) << dtype << " " << n;
      EXPECT_TRUE(same_bits(layer_norm(x, {n}, w, {}), layer.y * w)) << dtype << " " << n;
      EXPECT_TRUE(same_bits(layer_norm(x, {n}, {}, b), layer.y + b)) << dtype << " " << n;
      EXPECT_TRUE(same_bits(rms_norm(x, {n}, w, 1e-6), rms.y * w)) << dtype << " " << n;
      EXPECT_TRUE(same_bits(rms_norm(x, {n}, {}, 1e-6), rms.y)) << dtype << " " << n;
    }
    for (DType dtype : {kBFloat16, kFloat16}) {
      const Tensor x = random_tensor({3, n}, dtype, 3), w = random_tensor({n}, dtype, 4),
                   b = random_tensor({n}, dtype, 5);
      const Tensor wide = as_dtype(x, kFloat32), wide_w = as_dtype(w, kFloat32),
                   wide_b = as_dtype(b, kFloat32);
      EXPECT_TRUE(
          same_bits(layer_norm(x, {n}, w, b), as_dtype(layer_parts(wide, 1e-5).y * wide_w + wide_b, dtype)));
      EXPECT_TRUE(same_bits(rms_norm(x, {n}, w, 1e-6), as_dtype(rms_parts(wide, 1e-6).y * wide_w, dtype)));
    }
  }
}

TEST(Norm, BackwardKernelsEqualTheirPartsBitForBit) {
  const SourceLocation here = SourceLocation::current();
  for (int64_t n : kLengths) {
    for (int64_t rows : {int64_t{1}, int64_t{3}, n < 100 ? int64_t{200} : int64_t{67}}) {
      for (DType dtype : {kFloat32, kFloat64}) {
        const Tensor x = random_tensor({rows, n}, dtype, 3), w = random_tensor({n}, dtype, 4),
                     dy = random_tensor({rows, n}, dtype, 5);
        const Attrs attrs = {SymList{n}, 1e-5};
        const Parts layer = layer_parts(x, 1e-5), rms = rms_parts(x, 1e-5);
        const Tensor g = dy * w;
        EXPECT_TRUE(same_bits(call(WEFT_OP("layer_norm_backward"), {dy, x, w}, attrs, here),
                              ((g - mean(g, -1, true)) - layer.y * mean(g * layer.y, -1, true)) * layer.rstd))
            << dtype << " " << n;
        EXPECT_TRUE(same_bits(call(WEFT_OP("rms_norm_backward"), {dy, x, w}, attrs, here),
                              (g - rms.y * mean(g * rms.y, -1, true)) * rms.rstd))
            << dtype << " " << n;
        for (int threads : {1, 2}) {
          Threads guard(threads);
          EXPECT_TRUE(same_bits(call(WEFT_OP("layer_norm_backward_weight"), {dy, x}, attrs, here),
                                sum(dy * layer.y, 0)))
              << dtype << " " << rows << " " << n;
          EXPECT_TRUE(
              same_bits(call(WEFT_OP("rms_norm_backward_weight"), {dy, x}, attrs, here), sum(dy * rms.y, 0)));
        }
      }
    }
  }
}

TEST(Norm, SeveralDimensionsAndLayouts) {
  const Tensor x = random_tensor({4, 3, 9}, kFloat32, 6);
  const Tensor d = x - mean(x, {1, 2}, true);
  const Tensor want = d * rsqrt(mean(d * d, {1, 2}, true) + 1e-5);
  for (const Tensor& layout : {x, with_gaps(x), with_swapped_memory(x, 0, 2), with_swapped_memory(x, 1, 2)})
    EXPECT_TRUE(same_bits(layer_norm(layout, {3, 9}, {}, {}), want));
}

// C76: E[x²] - E[x]² cancels.
TEST(Norm, ALargeMeanDoesNotCancel) {
  const Tensor x = from_values({4096, 4096 + 1. / 256, 4096 + 2. / 256, 4096 + 3. / 256}, {1, 4}, kFloat32);
  const std::vector<double> got = values_of(layer_norm(x, {4}, {}, {})),
                            want = {-1.0867, -0.3622, 0.3622, 1.0867};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 1e-3);
}

TEST(Norm, WiderParametersBesideAHalfInput) {
  const Tensor x = random_tensor({3, 20}, kBFloat16, 7), w = random_tensor({20}, kFloat32, 8);
  EXPECT_EQ(rms_norm(as_dtype(x, kFloat32), {20}, w).dtype(), kFloat32);
  EXPECT_EQ(rms_norm(x, {20}, as_dtype(w, kBFloat16)).dtype(), kBFloat16);
}

TEST(Norm, EmptyBatchesAndErrors) {
  EXPECT_EQ(layer_norm(make_tensor(SymList{0, 5}, kFloat32), {5}, {}, {}).sizes(),
            (std::vector<int64_t>{0, 5}));
  const Tensor x = random_tensor({2, 5}, kFloat32);
  EXPECT_THROW(layer_norm(x, {4}, {}, {}), Error);
  EXPECT_THROW(layer_norm(x, {}, {}, {}), Error);
  EXPECT_THROW(layer_norm(x, {5}, random_tensor({4}, kFloat32), {}), Error);
  EXPECT_THROW(rms_norm(random_tensor({2, 5}, kInt64), {5}, {}), Error);
}

}  // namespace
}  // namespace weft
