// Tests of softmax and log_softmax: bit equality of the row kernels with their parts, values, masked rows, layouts.
#include <gtest/gtest.h>

#include "tests/tensor/tensor_values.h"

namespace weft {
namespace {

using namespace testing_values;

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor softmax_parts(const Tensor& x, int64_t dim) {
  const Tensor e = exp(x - amax(x, dim, true));
  return e / sum(e, dim, true);
}
Tensor log_softmax_parts(const Tensor& x, int64_t dim) {
  const Tensor shifted = x - amax(x, dim, true);
  return shifted - log(sum(exp(shifted), dim, true));
}

TEST(Softmax, RowKernelsEqualTheirPartsBitForBit) {
  for (int64_t n : {1, 2, 7, 15, 16, 17, 63, 64, 65, 130, 1000, 4095, 4096, 4097, 9001}) {
    for (DType dtype : {kFloat32, kFloat64}) {
      const Tensor x = random_tensor({3, n}, dtype, 3, -9, 9);
      EXPECT_TRUE(same_bits(softmax(x, 1), softmax_parts(x, 1))) << dtype << " " << n;
      EXPECT_TRUE(same_bits(log_softmax(x, -1), log_softmax_parts(x, 1))) << dtype << " " << n;
      const Tensor dy = random_tensor({3, n}, dtype, 4), y = softmax(x, 1), log_y = log_softmax(x, 1);
      EXPECT_TRUE(same_bits(call(WEFT_OP("softmax_backward"), {dy, y}, {1}, SourceLocation::current()),
                            y * (dy - sum(dy * y, 1, true))));
      EXPECT_TRUE(
          same_bits(call(WEFT_OP("log_softmax_backward"), {dy, log_y}, {1}, SourceLocation::current()),
                    dy - exp(log_y) * sum(dy, 1, true)));
    }
    for (DType dtype : {kBFloat16, kFloat16}) {
      const Tensor x = random_tensor({3, n}, dtype, 5, -9, 9), wide = as_dtype(x, kFloat32);
      EXPECT_TRUE(same_bits(softmax(x, 1), as_dtype(softmax_parts(wide, 1), dtype))) << dtype << " " << n;
      EXPECT_TRUE(same_bits(log_softmax(x, 1), as_dtype(log_softmax_parts(wide, 1), dtype)))
          << dtype << " " << n;
    }
  }
}

TEST(Softmax, OtherDimensionsLayoutsAndThreads) {
  const Tensor x = random_tensor({6, 40, 9}, kFloat32, 6);
  for (int64_t dim : {0, 1, 2, -2}) {
    const Tensor want = softmax_parts(x, dim);
    for (int threads : {1, 2}) {
      Threads guard(threads);
      for (const Tensor& layout :
           {x, with_gaps(x), with_swapped_memory(x, 0, 2), with_swapped_memory(x, 1, 2)})
        EXPECT_TRUE(same_bits(softmax(layout, dim), want)) << dim;
    }
  }
  const Tensor half = random_tensor({40, 9}, kFloat16, 7);
  EXPECT_TRUE(same_bits(softmax(half, 0), as_dtype(softmax_parts(as_dtype(half, kFloat32), 0), kFloat16)));
}

TEST(Softmax, ValuesAgainstDouble) {
  const Tensor x = random_tensor({5, 301}, kFloat32, 8, -30, 30);
  const std::vector<double> in = values_of(x), out = values_of(softmax(x, 1)),
                            logs = values_of(log_softmax(x, 1));
  for (size_t r = 0; r < 5; ++r) {
    long double total = 0;
    for (size_t c = 0; c < 301; ++c) total += std::exp(static_cast<long double>(in[r * 301 + c]));
    for (size_t c = 0; c < 301; ++c) {
      const double want = static_cast<double>(std::exp(static_cast<long double>(in[r * 301 + c])) / total);
      // x - max lies within 60 of 0 and is rounded to 2^-24 of that.
      EXPECT_NEAR(out[r * 301 + c], want, 5e-6 * want + 1e-38);
      EXPECT_NEAR(logs[r * 301 + c], std::log(want), 2e-5);
    }
  }
}

// C82.
TEST(Softmax, MaskedRowsAndMaskedBeginnings) {
  for (double value : values_of(softmax(from_values({-kInf, -kInf, -kInf}, {3}, kFloat32), 0)))
    EXPECT_TRUE(std::isnan(value));
  std::vector<double> late(1026, -kInf);
  late[1024] = late[1025] = 0;
  std::vector<double> want(1026, 0);
  want[1024] = want[1025] = 0.5;
  EXPECT_EQ(values_of(softmax(from_values(late, {1026}, kFloat32), 0)), want);
  EXPECT_EQ(values_of(softmax(from_values({-kInf, 0, -kInf}, {3}, kFloat32), 0)),
            (std::vector<double>{0, 1, 0}));
  const std::vector<double> logs = values_of(log_softmax(from_values({-kInf, 0, -kInf}, {3}, kFloat32), 0));
  EXPECT_EQ(logs, (std::vector<double>{-kInf, 0, -kInf}));
}

// C90.
TEST(Softmax, EmptyAndZeroDimensional) {
  EXPECT_EQ(softmax(make_tensor(SymList{0, 5}, kFloat32), 1).sizes(), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(softmax(make_tensor(SymList{5, 0}, kFloat32), 1).sizes(), (std::vector<int64_t>{5, 0}));
  EXPECT_EQ(softmax(make_tensor(SymList{5, 0}, kFloat32), 0).sizes(), (std::vector<int64_t>{5, 0}));
  EXPECT_EQ(softmax(from_values({3}, {}, kFloat32), -1).item<float>(), 1);
}

TEST(Softmax, IntegersNeedADtype) {
  const Tensor x = from_values({1, 2}, {2}, kInt64);
  EXPECT_THROW(softmax(x, 0), Error);
  EXPECT_EQ(softmax(x, 0, kFloat64).dtype(), kFloat64);
  EXPECT_THROW(softmax(from_values({1, 2}, {2}, kFloat32), 1), IndexError);
}

// Called by name these are open to anybody; a shorter operand was read past its end.
TEST(RowBackward, OperandsOfDifferentSizesAreRefused) {
  const Tensor dy = from_values({1, 2, 3, 4}, {2, 2}, kFloat32), row = from_values({1, 2}, {1, 2}, kFloat32);
  const auto here = SourceLocation::current();
  for (const char* name : {"softmax_backward", "log_softmax_backward"})
    EXPECT_THROW(call(OpTable::instance().get(name), {dy, row}, Attrs{1}, here), Error) << name;
  const Attrs norm{SymList{2}, 1e-5};
  for (const char* name : {"layer_norm_backward", "rms_norm_backward"})
    EXPECT_THROW(call(OpTable::instance().get(name), {dy, row, Operand()}, norm, here), Error) << name;
  for (const char* name : {"layer_norm_backward_weight", "rms_norm_backward_weight"})
    EXPECT_THROW(call(OpTable::instance().get(name), {dy, row}, norm, here), Error) << name;
}

}  // namespace
}  // namespace weft
