// Tests of arg-extremes, scans and statistics: values against plain loops, ties, NaN, layouts, threads, edges.
#include <gtest/gtest.h>

#include "tests/tensor/tensor_values.h"

namespace weft {
namespace {

using namespace testing_values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// The place of the first NaN, else of the first largest.
int64_t reference_argmax(const std::vector<double>& values) {
  size_t best = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return static_cast<int64_t>(i);
    if (values[i] > values[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

// Coarse values: many ties.
Tensor with_ties(std::vector<int64_t> sizes, DType dtype, unsigned seed) {
  const Tensor x = random_tensor(sizes, kFloat64, seed, -5, 5);
  return as_dtype(floor(x), dtype);
}

TEST(Arg, FirstOfEqualExtremesInEveryDtypeAndLength) {
  for (DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8}) {
    for (int64_t n : {1, 2, 15, 16, 17, 63, 4095, 4097, 70001}) {
      const Tensor x = with_ties({n}, dtype, 2);
      EXPECT_EQ(argmax(x).item<int64_t>(), reference_argmax(values_of(x))) << dtype << " " << n;
      std::vector<double> negated = values_of(x);
      for (double& value : negated) value = -value;
      EXPECT_EQ(argmin(x, 0).item<int64_t>(), reference_argmax(negated)) << dtype << " " << n;
    }
  }
}

TEST(Arg, EveryDimensionAndLayout) {
  const Tensor x = with_ties({5, 67, 70}, kFloat32, 3);
  const std::vector<double> values = values_of(x);
  for (int64_t dim = 0; dim < 3; ++dim) {
    const std::vector<int64_t> sizes = x.sizes();
    const size_t d = static_cast<size_t>(dim), n = static_cast<size_t>(sizes[d]);
    size_t inner = 1;
    for (size_t k = d + 1; k < 3; ++k) inner *= static_cast<size_t>(sizes[k]);
    std::vector<double> want;
    for (size_t o = 0; o < values.size() / (n * inner); ++o) {
      for (size_t c = 0; c < inner; ++c) {
        std::vector<double> run;
        for (size_t i = 0; i < n; ++i) run.push_back(values[(o * n + i) * inner + c]);
        want.push_back(static_cast<double>(reference_argmax(run)));
      }
    }
    for (int threads : {1, 2}) {
      Threads guard(threads);
      for (const Tensor& layout :
           {x, with_gaps(x), with_swapped_memory(x, 0, 2), with_swapped_memory(x, 1, 2)}) {
        EXPECT_EQ(values_of(argmax(layout, dim)), want);
        const auto [largest, places] = max(layout, dim);
        EXPECT_EQ(values_of(places), want);
        EXPECT_TRUE(same_bits(largest, amax(layout, dim)));
        EXPECT_TRUE(same_bits(std::get<0>(min(layout, dim, true)), amin(layout, dim, true)));
      }
    }
  }
}

// C66: storage order gives 1.
TEST(Arg, FlattenedPlacesAreLogical) {
  const Tensor x = from_values({0, 9, 1, 2, 3, 4}, {2, 3}, kFloat32);
  Layout<Sym> layout = x->layout;
  std::swap(layout.sizes[0], layout.sizes[1]);
  std::swap(layout.strides[0], layout.strides[1]);
  EXPECT_EQ(argmax(make_view(x, layout)).item<int64_t>(), 2);
}

TEST(Arg, TheFirstNaNWins) {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    std::vector<double> values(9000, 1.0);
    values[10] = kInf;
    values[5001] = values[8999] = kNaN;
    EXPECT_EQ(argmax(from_values(values, {9000}, dtype)).item<int64_t>(), 5001);
    EXPECT_EQ(argmin(from_values(values, {9000}, dtype)).item<int64_t>(), 5001);
    EXPECT_EQ(values_of(argmax(from_values(values, {4500, 2}, dtype), 0)), (std::vector<double>{5, 2500}));
  }
  EXPECT_EQ(argmax(from_values({-0.0, 0.0}, {2}, kFloat32)).item<int64_t>(), 0);
}

TEST(Arg, SizesAndEdges) {
  const Tensor x = with_ties({3, 4}, kFloat32, 5);
  EXPECT_EQ(argmax(x, 1, true).sizes(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(argmax(x, {}, true).sizes(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(argmax(from_values({7}, {}, kFloat32), -1).item<int64_t>(), 0);
  EXPECT_THROW(argmax(make_tensor(SymList{0}, kFloat32)), Error);
  EXPECT_THROW(max(make_tensor(SymList{3, 0}, kFloat32), 1), Error);
  EXPECT_EQ(argmax(make_tensor(SymList{3, 0}, kFloat32), 0).sizes(), (std::vector<int64_t>{0}));
  EXPECT_THROW(max(make_tensor(SymList{0}, kFloat32)), Error);
}

TEST(Scan, RunningTotalsOfEveryDtype) {
  for (DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kUInt8, kBool}) {
    for (int64_t n : {1, 2, 15, 17, 130}) {
      const Tensor x = random_tensor({2, n, 3}, dtype, 6, -1, 1);
      const std::vector<double> values = values_of(x);
      const std::vector<double> got = values_of(cumsum(x, 1));
      const double step = dtype == kBFloat16  ? 1. / 128
                          : dtype == kFloat16 ? 1. / 1024
                          : dtype == kFloat32 ? 1e-5
                                              : 1e-12;
      for (size_t o = 0; o < 2; ++o) {
        for (size_t c = 0; c < 3; ++c) {
          double total = 0;
          for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
            const size_t at = (o * static_cast<size_t>(n) + i) * 3 + c;
            total += values[at];
            EXPECT_NEAR(got[at], total, is_floating(dtype) ? step * (1 + std::abs(total)) : 0);
          }
        }
      }
      EXPECT_EQ(cumsum(x, 1).dtype(), is_floating(dtype) ? dtype : kInt64);
    }
  }
}

TEST(Scan, LayoutsWidthsAndThreadsGiveTheSameBits) {
  for (int64_t width : {1, 2, 16, 65, 150}) {
    const Tensor x = random_tensor({3, 201, width}, kFloat32, 7, 0.9, 1.1);
    const Tensor sums = cumsum(x, 1), products = cumprod(x, 1);
    for (int threads : {1, 2}) {
      Threads guard(threads);
      EXPECT_TRUE(same_bits(cumsum(with_gaps(x), 1), sums));
      EXPECT_TRUE(same_bits(cumsum(with_swapped_memory(x, 1, 2), 1), sums));
      EXPECT_TRUE(same_bits(cumprod(with_swapped_memory(x, 0, 2), -2), products));
    }
    // Serial from the first to the last: plain float additions.
    const float* in = data_of<float>(x);
    const float* out = data_of<float>(sums);
    float total = 0;
    for (int64_t i = 0; i < 201; ++i) {
      total += in[i * width];
      EXPECT_EQ(out[i * width], total);
    }
  }
}

// C90.
TEST(Scan, EmptyAndZeroDimensional) {
  EXPECT_EQ(cumsum(from_values({4}, {}, kFloat32), 0).item<float>(), 4);
  EXPECT_EQ(cumprod(from_values({4}, {}, kFloat32), -1).item<float>(), 4);
  EXPECT_EQ(cumsum(make_tensor(SymList{0, 3}, kFloat32), 0).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_THROW(cumsum(make_tensor(SymList{2}, kFloat32), 1), IndexError);
}

TEST(Statistics, VarianceAgainstDoubleAndWithALargeMean) {
  for (int64_t n : {2, 17, 4097}) {
    const Tensor x = random_tensor({3, n}, kFloat32, 8, 1000, 1001);
    const std::vector<double> values = values_of(x);
    for (double correction : {0.0, 1.0}) {
      const std::vector<double> got = values_of(var(x, 1, correction)),
                                roots = values_of(std(x, 1, correction));
      for (size_t r = 0; r < 3; ++r) {
        double mean = 0, total = 0;
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) mean += values[r * static_cast<size_t>(n) + i];
        mean /= static_cast<double>(n);
        for (size_t i = 0; i < static_cast<size_t>(n); ++i)
          total += std::pow(values[r * static_cast<size_t>(n) + i] - mean, 2);
        // The mean itself is rounded to 2^-24 of 1000, which its square adds to the variance.
        EXPECT_NEAR(got[r], total / (static_cast<double>(n) - correction), 1e-5);
        EXPECT_NEAR(roots[r], std::sqrt(total / (static_cast<double>(n) - correction)), 1e-5);
      }
    }
  }
  EXPECT_TRUE(std::isnan(var(from_values({1}, {1}, kFloat32)).item<float>()));
  const auto [variance, mean_of] = var_mean(random_tensor({4, 5}, kFloat64, 9), 0);
  EXPECT_EQ(variance.sizes(), mean_of.sizes());
}

TEST(Statistics, VarianceOfRowsEqualsItsPartsBitForBit) {
  for (DType dtype : {kFloat32, kFloat64, kFloat16}) {
    for (int64_t n : {2, 15, 17, 4097}) {
      const Tensor x = random_tensor({4, n}, dtype, 10), wide = dtype == kFloat16 ? as_dtype(x, kFloat32) : x;
      const Tensor d = wide - mean(wide, 1, true);
      const Tensor want = sum(d * d, 1) / (static_cast<double>(n) - 1);
      EXPECT_TRUE(same_bits(var(x, 1), as_dtype(want, dtype))) << dtype << " " << n;
      EXPECT_TRUE(same_bits(var(with_swapped_memory(x, 0, 1), 1), as_dtype(want, dtype)));
    }
  }
}

TEST(Statistics, Norms) {
  const Tensor x = from_values({3, -4, 0, 0}, {2, 2}, kFloat32);
  EXPECT_EQ(norm(x).item<float>(), 5);
  EXPECT_EQ(values_of(norm(x, 1, 1)), (std::vector<double>{7, 0}));
  EXPECT_EQ(values_of(norm(x, kInf, 1)), (std::vector<double>{4, 0}));
  EXPECT_EQ(values_of(norm(x, -kInf, 1)), (std::vector<double>{3, 0}));
  EXPECT_NEAR(norm(x, 3).item<double>(), std::cbrt(27.0 + 64.0), 1e-5);
}

}  // namespace
}  // namespace weft
