// Tests of folds: values against long-double sums, the fixed tree on every layout and thread count, edges and errors.
#include <gtest/gtest.h>

#include "tensor/cpu/reduce.h"
#include "tests/tensor/tensor_values.h"

namespace weft {
namespace {

using namespace testing_values;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// Σ over the dimensions, in long double.
std::vector<double> reference_sum(const Tensor& x, const std::vector<bool>& folded) {
  const std::vector<double> values = values_of(x);
  const std::vector<int64_t> sizes = x.sizes();
  size_t outputs = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!folded[d]) outputs *= static_cast<size_t>(sizes[d]);
  std::vector<long double> totals(outputs, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    size_t rest = i, at = 0, step = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      const size_t index = rest % static_cast<size_t>(sizes[d]);
      rest /= static_cast<size_t>(sizes[d]);
      if (folded[d]) continue;
      at += index * step;
      step *= static_cast<size_t>(sizes[d]);
    }
    totals[at] += values[i];
  }
  return {totals.begin(), totals.end()};
}

// The tree of Note [Reduction tree], written down once more, element by element.
float tree_of_run(const std::vector<float>& x) {
  float total = 0;
  for (size_t begin = 0; begin < x.size(); begin += 4096) {
    float slot[64] = {};
    for (size_t i = begin; i < std::min(x.size(), begin + 4096); ++i) slot[(i - begin) % 64] += x[i];
    float lane[16];
    for (int l = 0; l < 16; ++l) lane[l] = (slot[l] + slot[l + 16]) + (slot[l + 32] + slot[l + 48]);
    for (int step = 8; step > 0; step /= 2)
      for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
    total += lane[0];
  }
  return total;
}
float tree_of_outer(const std::vector<float>& x) {
  float total = 0;
  for (size_t begin = 0; begin < x.size(); begin += 64) {
    float block = 0;
    for (size_t i = begin; i < std::min(x.size(), begin + 64); ++i) block += x[i];
    total += block;
  }
  return total;
}

TEST(ReductionTree, InnerRunsFollowTheNote) {
  for (int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 70001}) {
    const Tensor x = random_tensor({n}, kFloat32, 3);
    const float* p = data_of<float>(x);
    EXPECT_EQ(sum(x).item<float>(), tree_of_run({p, p + n})) << n;
  }
}

TEST(ReductionTree, OuterFoldsFollowTheNote) {
  for (int64_t rows : {1, 2, 63, 64, 65, 129, 1000}) {
    const Tensor x = random_tensor({rows, 21}, kFloat32, 4);
    const std::vector<double> got = values_of(sum(x, 0));
    for (int64_t c = 0; c < 21; ++c) {
      std::vector<float> column;
      for (int64_t r = 0; r < rows; ++r) column.push_back(data_of<float>(x)[r * 21 + c]);
      EXPECT_EQ(static_cast<float>(got[static_cast<size_t>(c)]), tree_of_outer(column)) << rows;
    }
  }
}

TEST(ReductionTree, InnerValuesAreThenFoldedOverTheOuterOnes) {
  const Tensor x = random_tensor({130, 3, 70}, kFloat32, 5);
  const std::vector<double> got = values_of(sum(x, {0, 2}));
  for (int64_t k = 0; k < 3; ++k) {
    std::vector<float> inner;
    for (int64_t j = 0; j < 130; ++j) {
      const float* run = data_of<float>(x) + (j * 3 + k) * 70;
      inner.push_back(tree_of_run({run, run + 70}));
    }
    EXPECT_EQ(static_cast<float>(got[static_cast<size_t>(k)]), tree_of_outer(inner));
  }
}

TEST(ReductionTree, StridesAndThreadsDoNotChangeTheBits) {
  struct Case {
    std::vector<int64_t> sizes;
    DimList dims;
  };
  const Case cases[] = {{{70001}, {}},          {{3, 70001}, {1}},      {{70001, 3}, {0}},
                        {{300, 301}, {}},       {{300, 301}, {0}},      {{300, 301}, {1}},
                        {{7, 130, 65}, {1}},    {{7, 130, 65}, {0, 2}}, {{7, 130, 65}, {0}},
                        {{7, 130, 65}, {0, 1}}, {{5000, 40}, {0}},      {{40, 5000}, {1}},
                        {{2, 9000, 3}, {1}},    {{1, 37, 1, 66}, {1}},  {{9, 1, 70, 5}, {0, 2}}};
  for (DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt32}) {
    for (const Case& c : cases) {
      const Tensor x = random_tensor(c.sizes, dtype, 7);
      std::optional<Tensor> expected;
      for (int threads : {1, 2}) {
        Threads guard(threads);
        std::vector<Tensor> layouts = {x, with_gaps(x)};
        for (size_t a = 0; a < c.sizes.size(); ++a)
          for (size_t b = a + 1; b < c.sizes.size(); ++b) layouts.push_back(with_swapped_memory(x, a, b));
        for (const Tensor& layout : layouts) {
          const Tensor got = sum(layout, c.dims);
          if (!expected) expected = got;
          EXPECT_TRUE(same_bits(got, *expected)) << dtype << " " << x.sizes() << " dims " << c.dims
                                                 << " strides " << layout.strides() << " threads " << threads;
          EXPECT_TRUE(threads != 2 || same_bits(amax(layout, c.dims), amax(x, c.dims)));
        }
      }
    }
  }
}

TEST(ReductionTree, EveryInstructionSetGivesTheSameBits) {
  const Tensor x = random_tensor({70001}, kFloat32, 9);
  float avx2 = 0, avx512 = 0, sse4 = 0;
  const int sum_row = static_cast<int>(cpu::Fold::Sum), f32 = static_cast<int>(kFloat32);
  cpu::isa_sse4::reduce_kernels().kernels[sum_row][f32].run(data_of<float>(x), 70001, &sse4);
  if (cpu::current_isa() != cpu::Isa::SSE4) {
    cpu::isa_avx2::reduce_kernels().kernels[sum_row][f32].run(data_of<float>(x), 70001, &avx2);
    EXPECT_EQ(sse4, avx2);
  }
  if (cpu::current_isa() == cpu::Isa::AVX512) {
    cpu::isa_avx512::reduce_kernels().kernels[sum_row][f32].run(data_of<float>(x), 70001, &avx512);
    EXPECT_EQ(avx2, avx512);
  }
}

TEST(Sum, ValuesOfEveryDtypeAndLength) {
  for (DType dtype :
       {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    for (int64_t n : {1, 2, 15, 16, 17, 63, 4095, 4097}) {
      const Tensor x = random_tensor({n}, dtype, 11);
      const Tensor y = sum(x);
      EXPECT_EQ(y.dtype(), is_floating(dtype) ? dtype : kInt64);
      const double want = reference_sum(x, {true})[0];
      const double step = dtype == kBFloat16  ? 1. / 128
                          : dtype == kFloat16 ? 1. / 1024
                          : dtype == kFloat32 ? 1e-5
                                              : 1e-13;
      EXPECT_NEAR(y.item<double>(), want, is_floating(dtype) ? step * (1 + std::abs(want)) : 0)
          << dtype << " " << n;
    }
  }
}

TEST(Sum, MiddleAndSplitDimensions) {
  const Tensor x = random_tensor({5, 33, 18}, kFloat64, 12);
  const std::vector<std::pair<DimList, std::vector<bool>>> cases = {
      {{0}, {true, false, false}},   {{1}, {false, true, false}},    {{2}, {false, false, true}},
      {{0, 2}, {true, false, true}}, {{-1, 1}, {false, true, true}}, {{}, {true, true, true}}};
  for (const auto& [dims, folded] : cases) {
    const std::vector<double> got = values_of(sum(x, dims)), want = reference_sum(x, folded);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  }
  EXPECT_EQ(sum(x, {0, 2}, true).sizes(), (std::vector<int64_t>{1, 33, 1}));
  EXPECT_EQ(sum(x, {0, 2}).sizes(), (std::vector<int64_t>{33}));
}

TEST(Sum, AnExpandedOperandCountsEveryRepetition) {
  const Tensor x = random_tensor({1, 40}, kFloat32, 13);
  Layout<Sym> layout = x->layout;
  layout.sizes[0] = Sym::from_int(1000);
  layout.strides[0] = Sym::from_int(0);
  const Tensor wide = make_view(x, layout);
  const Tensor dense = make_tensor(layout.sizes, kFloat32);
  copy_data(wide, dense);
  EXPECT_TRUE(same_bits(sum(wide), sum(dense)));
  EXPECT_TRUE(same_bits(sum(wide, 0), sum(dense, 0)));
  EXPECT_TRUE(same_bits(sum(wide, 1), sum(dense, 1)));
}

// C78: a half accumulator stalls at 2048 and 256.
TEST(Sum, HalfSumsDoNotStall) {
  EXPECT_EQ(sum(from_values(std::vector<double>(4096, 1), {4096}, kFloat16)).item<double>(), 4096);
  EXPECT_EQ(sum(from_values(std::vector<double>(1000, 1), {1000}, kBFloat16)).item<double>(), 1000);
  EXPECT_EQ(sum(from_values(std::vector<double>(1000, 1), {1000, 1}, kBFloat16), 0).item<double>(), 1000);
}

// C88: a tail that stores a whole vector writes past the end.
TEST(Sum, NarrowOutputsLeaveTheirSurroundingsAlone) {
  for (int64_t width = 1; width <= 70; ++width) {
    const std::vector<float> ones(static_cast<size_t>(37 * width), 1.0f);
    std::vector<float> out(static_cast<size_t>(width) + 64, -5.0f);
    const int64_t sizes[] = {37, width}, strides[] = {width, 1};
    const bool folded[] = {true, false};
    cpu::run_reduce({cpu::Fold::Sum,
                     kFloat32,
                     {},
                     {},
                     ones.data(),
                     kFloat32,
                     sizes,
                     strides,
                     folded,
                     out.data() + 32,
                     kFloat32});
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(out[i], i >= 32 && i < 32 + static_cast<size_t>(width) ? 37.0f : -5.0f) << width << " " << i;
  }
}

TEST(Sum, DtypeIsWhatElementsBecomeFirst) {
  const Tensor x = from_values({0.75, 0.75, 0.75}, {3}, kFloat32);
  EXPECT_EQ(sum(x, {}, false, kFloat64).dtype(), kFloat64);
  EXPECT_EQ(sum(x, {}, false, kInt64).item<int64_t>(), 0);
  EXPECT_EQ(sum(x, kInt32).dtype(), kInt32);
  EXPECT_EQ(sum(from_values({100, 100, 100}, {3}, kInt8), kInt8).item<int64_t>(), 44);
}

// C90.
TEST(Reduction, EmptyAndZeroDimensional) {
  const Tensor empty = make_tensor(SymList{0, 5}, kFloat32);
  EXPECT_EQ(sum(empty).item<float>(), 0);
  EXPECT_EQ(prod(empty).item<float>(), 1);
  EXPECT_TRUE(std::isnan(mean(empty).item<float>()));
  EXPECT_EQ(values_of(sum(empty, 0)), std::vector<double>(5, 0.0));
  EXPECT_EQ(sum(empty, 1).sizes(), (std::vector<int64_t>{0}));
  EXPECT_FALSE(any(empty).item<bool>());
  EXPECT_TRUE(all(empty).item<bool>());
  EXPECT_THROW(amax(empty), Error);
  EXPECT_THROW(amin(empty, 0), Error);
  EXPECT_EQ(amax(empty, 1).sizes(), (std::vector<int64_t>{0}));
  const Tensor number = from_values({3}, {}, kFloat32);
  for (int64_t dim : {0, -1}) {
    EXPECT_EQ(sum(number, dim).item<float>(), 3);
    EXPECT_EQ(mean(number, dim).item<float>(), 3);
    EXPECT_EQ(amax(number, dim).item<float>(), 3);
  }
  EXPECT_THROW(sum(number, 1), IndexError);
}

TEST(Reduction, ErrorsNameWhatWasGiven) {
  const Tensor x = random_tensor({2, 3}, kFloat32);
  const auto text = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(text([&] { sum(x, {0, -2}); }).find("name dimension 0 twice"), std::string::npos);
  EXPECT_NE(text([&] { mean(random_tensor({2}, kInt64)); }).find("[2] int64"), std::string::npos);
  EXPECT_NE(text([&] {
              amax(make_tensor(SymList{4, 0}, kFloat32), 1);
            }).find("dimension 1 of size 0"),
            std::string::npos);
  EXPECT_THROW(sum(x, 2), IndexError);
}

TEST(Mean, DividesOnceAndRoundsHalfOnce) {
  // The float sum 2049 + 1/2 is no half number; its mean over 2 is rounded once.
  const Tensor x = from_values({2048, 1}, {2}, kFloat16);
  EXPECT_EQ(mean(x).item<double>(), 1024.5 - 0.5);  // 1024.5 is halfway: to even
  EXPECT_EQ(mean(random_tensor({3, 4}, kInt32), {0}, false, kFloat32).dtype(), kFloat32);
  const Tensor y = random_tensor({7, 9}, kFloat32, 2);
  EXPECT_TRUE(same_bits(mean(y, 1), div(sum(y, 1), 9)));
}

// C64 and the order of zeros.
TEST(Extreme, NaNWinsAndMinusZeroIsSmaller) {
  for (DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    for (int64_t n : {4, 37, 5000}) {
      for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<double> values(static_cast<size_t>(n), 1.0);
        values[static_cast<size_t>(at)] = kNaN;
        EXPECT_TRUE(std::isnan(amax(from_values(values, {n}, dtype)).item<double>()));
        EXPECT_TRUE(std::isnan(amin(from_values(values, {n, 1}, dtype), 0).item<double>()));
      }
    }
    EXPECT_FALSE(std::signbit(amax(from_values({-0.0, 0.0, -0.0}, {3}, dtype)).item<double>()));
    EXPECT_TRUE(std::signbit(amin(from_values({0.0, -0.0, 0.0}, {3}, dtype)).item<double>()));
    EXPECT_EQ(amax(from_values({-kInf, -kInf}, {2}, dtype)).item<double>(), -kInf);
  }
}

TEST(Extreme, EveryIntegerTypeKeepsItsRange) {
  for (DType dtype : {kInt64, kInt32, kInt16, kInt8, kUInt8}) {
    const Tensor x = from_values({3, 100, 7, 0}, {4}, dtype);
    EXPECT_EQ(amax(x).item<int64_t>(), 100);
    EXPECT_EQ(amin(x).item<int64_t>(), 0);
    EXPECT_EQ(amax(x).dtype(), dtype);
  }
  EXPECT_TRUE(amax(from_values({0, 1}, {2}, kBool)).item<bool>());
}

TEST(Truth, NaNIsTrueAndCountsAreInt64) {
  const Tensor x = from_values({0, kNaN, 0, -0.0, 0, 2}, {2, 3}, kFloat32);
  EXPECT_EQ(values_of(any(x, 1)), (std::vector<double>{1, 1}));
  EXPECT_EQ(values_of(all(x, 0)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(values_of(count_nonzero(x, 1)), (std::vector<double>{1, 1}));
  EXPECT_EQ(any(x).dtype(), kBool);
  EXPECT_EQ(count_nonzero(x).dtype(), kInt64);
}

}  // namespace
}  // namespace weft
