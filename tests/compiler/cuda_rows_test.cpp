// Sorting, scans and extremes on a GPU against the CPU: every dtype, lengths around what the kernels change at, NaN, ties, strides, graphs.
// On a machine without a GPU the kernels are those of tests/support, and what is tried is how they are called.
#include <gtest/gtest.h>
#include <weft.h>

#include <limits>

#include "tests/support/compare.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/gpu.h"

namespace weft {
namespace {

using indexing::Slice;
using tests::difference_of_bits;

constexpr DType kDTypes[] = {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64,
                             kInt32,   kInt16,   kInt8,     kUInt8,   kBool};

class CudaRows : public testing::Test {
 protected:
  tests::Gpu gpu;
  void SetUp() override { manual_seed(7); }
};

// Few different values, so that many are equal; of floats some are NaN, infinite or a zero with a sign.
Tensor with_ties(SymList sizes, DType dtype) {
  Tensor x = randint(-40, 40, sizes).to(kFloat64);
  if (is_floating(dtype)) {
    x = where(eq(x, 7), std::numeric_limits<double>::quiet_NaN(), x / 4);
    x = where(eq(x, 2), -std::numeric_limits<double>::infinity(), x);
    x = where(eq(x, 3), x * -0.0, x);
  } else if (dtype == kUInt8 || dtype == kBool) {
    x = abs(x);
  }
  return dtype == kBool ? x > 20 : x.to(dtype);
}

void expect_sorted_alike(const Tensor& x, const Tensor& there, int64_t dim) {
  for (const bool descending : {false, true}) {
    const auto [values, indices] = sort(x, dim, descending);
    const auto [got_values, got_indices] = sort(there, dim, descending);
    EXPECT_TRUE(got_values.is_cuda() && got_indices.is_cuda());
    EXPECT_EQ(difference_of_bits(got_values.cpu(), values), "")
        << x.dtype() << x.sizes() << " dim " << dim << descending;
    EXPECT_EQ(difference_of_bits(got_indices.cpu(), indices), "")
        << x.dtype() << x.sizes() << " dim " << dim << descending;
  }
}

TEST_F(CudaRows, SortsEveryDType) {
  for (const DType dtype : kDTypes)
    for (const int64_t n : {1, 2, 33, 2500}) {
      const Tensor x = with_ties({3, n}, dtype), y = with_ties({n, 3}, dtype);
      expect_sorted_alike(x, x.to(kCUDA), -1);
      expect_sorted_alike(y, y.to(kCUDA), 0);
    }
}

TEST_F(CudaRows, SortsRowsOfEveryLength) {
  for (const DType dtype : {kFloat32, kInt64}) {
    for (const int64_t n : {1, 3, 31, 32, 255, 1024, 2047, 2048, 2049, 4096, 70001}) {
      const Tensor x = with_ties({n}, dtype);
      expect_sorted_alike(x, x.to(kCUDA), 0);
    }
    for (const int64_t rows : {1, 2, 1000, 5000}) {
      const Tensor x = with_ties({rows, 5}, dtype), y = with_ties({rows / 40 + 1, 2100, 2}, dtype);
      expect_sorted_alike(x, x.to(kCUDA), 1);
      expect_sorted_alike(y, y.to(kCUDA), 1);
    }
  }
  for (const Tensor& x : {zeros({0, 3}), zeros({3, 0}), tensor(2.5)}) expect_sorted_alike(x, x.to(kCUDA), -1);
}

TEST_F(CudaRows, SortsWhatHasStrides) {
  for (const int64_t n : {40, 4100}) {
    const Tensor x = with_ties({n, 6}, kFloat32), y = x.to(kCUDA);
    expect_sorted_alike(x.t(), y.t(), 1);
    expect_sorted_alike(x.index({Slice(1, n, 2), Slice(1, 5)}), y.index({Slice(1, n, 2), Slice(1, 5)}), 0);
    expect_sorted_alike(x.select(1, 2).expand({3, n}), y.select(1, 2).expand({3, n}), 1);
  }
}

TEST_F(CudaRows, TakesTheFirstOfASort) {
  for (const DType dtype : {kFloat32, kBFloat16, kInt64})
    for (const int64_t n : {50, 3000})
      for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{7}, n})
        for (const bool largest : {false, true}) {
          const Tensor x = with_ties({4, n, 2}, dtype);
          const auto [values, indices] = topk(x, k, 1, largest);
          const auto [got_values, got_indices] = topk(x.to(kCUDA), k, 1, largest);
          EXPECT_EQ(difference_of_bits(got_values.cpu(), values), "") << dtype << n << " " << k << largest;
          EXPECT_EQ(difference_of_bits(got_indices.cpu(), indices), "") << dtype << n << " " << k << largest;
        }
}

TEST_F(CudaRows, GradientsOfASortGoBack) {
  const auto gradient = [](const Tensor& x, const Tensor& w) {
    const Tensor leaf = x.detach().requires_grad_();
    (std::get<0>(sort(leaf, 0)) * w).sum().backward();
    return leaf.grad();
  };
  const Tensor x = randn({300, 3}), w = randn({300, 3});
  EXPECT_EQ(difference_of_bits(gradient(x.to(kCUDA), w.to(kCUDA)).cpu(), gradient(x, w)), "");
}

void expect_extremes_alike(const Tensor& x, const Tensor& there, int64_t dim) {
  const auto program = [](const Tensor& a, int64_t d) {
    const auto [largest, largest_at] = max(a, d);
    const auto [smallest, smallest_at] = min(a, d, true);
    return std::vector<Tensor>{largest,      largest_at, smallest, smallest_at, argmax(a, d, true),
                               argmin(a, d), argmax(a),  argmin(a)};
  };
  const std::vector<Tensor> want = program(x, dim), got = program(there, dim);
  for (size_t k = 0; k < want.size(); ++k)
    EXPECT_EQ(difference_of_bits(got[k].cpu(), want[k]), "")
        << x.dtype() << x.sizes() << " dim " << dim << " " << k;
}

TEST_F(CudaRows, FindsExtremesOfEveryDType) {
  for (const DType dtype : kDTypes)
    for (const int64_t n : {1, 2, 33, 300, 9000}) {
      const Tensor x = with_ties({3, n}, dtype), y = with_ties({2, n, 35}, dtype);
      expect_extremes_alike(x, x.to(kCUDA), 1);
      expect_extremes_alike(x.t(), x.to(kCUDA).t(), 0);
      expect_extremes_alike(y, y.to(kCUDA), 1);
    }
}

TEST_F(CudaRows, FindsTheFirstExtremeWhereverItIs) {
  for (const int64_t n : {40, 257, 5000, 300000}) {
    for (const int64_t at : {int64_t{0}, int64_t{7}, n / 2, n - 2}) {
      for (const double value : {9.0, std::numeric_limits<double>::quiet_NaN()}) {
        Tensor x = rand({2, n});
        x.index({Slice(), Slice(at, at + 2)}).fill_(value);
        EXPECT_EQ(argmax(x.to(kCUDA), 1).to_vector<int64_t>(), (std::vector<int64_t>{at, at})) << n << value;
        EXPECT_EQ(argmin((-x).to(kCUDA), 1).to_vector<int64_t>(), (std::vector<int64_t>{at, at}))
            << n << value;
        EXPECT_EQ(argmax(x.to(kCUDA).t().contiguous(), 0).to_vector<int64_t>(),
                  (std::vector<int64_t>{at, at}))
            << n << value;
      }
    }
  }
  const Tensor rows = with_ties({70000, 3}, kFloat32), number = tensor(2.5);
  expect_extremes_alike(rows, rows.to(kCUDA), 1);
  expect_extremes_alike(rows, rows.to(kCUDA), 0);
  expect_extremes_alike(number, number.to(kCUDA), 0);
  EXPECT_EQ(argmax(zeros({0, 3}).to(kCUDA), 1).cpu().sizes(), argmax(zeros({0, 3}), 1).sizes());
}

// Whole numbers whose sums are exact, in whatever order they are made: results must be those of the CPU to the bit.
TEST_F(CudaRows, SumsAndProductsRun) {
  struct Case {
    SymList sizes;
    int64_t dim;
  };
  const Case cases[] = {
      {{1}, 0},       {{5}, 0},         {{33}, 0},          {{257}, 0},          {{2, 256}, 1},
      {{3, 4099}, 1}, {{1, 33000}, 1},  {{2, 70001}, 1},    {{300, 32768}, 1},   {{3000, 7}, 1},
      {{3000, 7}, 0}, {{2, 31, 33}, 1}, {{2, 500, 33}, 1},  {{16, 40, 1100}, 1}, {{0, 4}, 0},
      {{4, 0}, 1},    {{40, 1, 50}, 1}, {{2, 32, 66000}, 1}};
  for (const auto& [sizes, dim] : cases) {
    const Tensor whole = randint(-3, 4, sizes);
    const int64_t numel = whole.numel();
    const Tensor i = remainder(arange(numel).reshape(sizes), 3);
    const Tensor factors = where(eq(i, 0), 2.0, where(eq(i, 1), 0.5, -1.0));
    for (const DType dtype : kDTypes) {
      // The large ones by the types that have kernels.
      if (numel > 1000000 && dtype != kFloat32) continue;
      const Tensor x = whole.to(dtype);
      EXPECT_EQ(difference_of_bits(cumsum(x.to(kCUDA), dim).cpu(), cumsum(x, dim)), "")
          << dtype << SymList(sizes) << " " << dim;
      const Tensor y = is_floating(dtype) ? factors.to(dtype) : x;
      EXPECT_EQ(difference_of_bits(cumprod(y.to(kCUDA), dim).cpu(), cumprod(y, dim)), "")
          << dtype << SymList(sizes) << " " << dim;
    }
  }
  const Tensor number = tensor(2.5);
  EXPECT_EQ(difference_of_bits(cumsum(number.to(kCUDA), 0).cpu(), number), "");
  const Tensor bytes = randint(0, 100, {6, 900}).to(kInt16);
  for (const DType dtype : {kInt32, kFloat64, kFloat16})
    EXPECT_EQ(difference_of_bits(cumsum(bytes.to(kCUDA), 1, dtype).cpu(), cumsum(bytes, 1, dtype)), "")
        << dtype;
}

TEST_F(CudaRows, ScansReadStridesAndOddAddresses) {
  const Tensor x = randint(-3, 4, {70, 5001}).to(kFloat32), y = x.to(kCUDA);
  EXPECT_EQ(difference_of_bits(cumsum(y.t(), 0).cpu(), cumsum(x.t(), 0)), "");
  EXPECT_EQ(difference_of_bits(cumsum(y.index({3, Slice(1, 4000)}), 0).cpu(),
                               cumsum(x.index({3, Slice(1, 4000)}), 0)),
            "");
  EXPECT_EQ(difference_of_bits(cumsum(y.index({Slice(), Slice(1, 5000, 3)}), 1).cpu(),
                               cumsum(x.index({Slice(), Slice(1, 5000, 3)}), 1)),
            "");
}

TEST_F(CudaRows, ScansPassNaNOnAndKeepWhatIsBefore) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  for (const int64_t n : {100, 3000, 40000}) {
    for (const double special : {nan, infinity}) {
      Tensor x = ones({2, n});
      x.index({0, n / 2 + 3}).fill_(special);
      EXPECT_EQ(difference_of_bits(cumsum(x.to(kCUDA), 1).cpu(), cumsum(x, 1)), "") << n << " " << special;
      EXPECT_EQ(difference_of_bits(cumprod(x.to(kCUDA), 1).cpu(), cumprod(x, 1)), "") << n << " " << special;
      EXPECT_EQ(difference_of_bits(cumsum(x.to(kCUDA), 0).cpu(), cumsum(x, 0)), "") << n << " " << special;
    }
  }
}

// Sums that are rounded: the same ones in every run, and near to those in double.
TEST_F(CudaRows, ScansGiveTheSameBitsEachTime) {
  for (const SymList& sizes : {SymList{5, 3000}, SymList{2, 300001}, SymList{700, 40}}) {
    const Tensor x = rand(sizes), there = x.to(kCUDA);
    for (const int64_t dim : {0, 1}) {
      const Tensor first = cumsum(there, dim);
      for (int i = 0; i < 5; ++i) EXPECT_EQ(difference_of_bits(cumsum(there, dim).cpu(), first.cpu()), "");
      EXPECT_EQ(tests::difference(first.cpu(), cumsum(x.to(kFloat64), dim).to(kFloat32),
                                  {.rtol = 3e-5, .atol = 1e-6}),
                "");
    }
  }
}

TEST_F(CudaRows, CallsAskForWhatTheyNeedAlone) {
  if (!gpu.is_fake()) GTEST_SKIP() << "there is a GPU: it does not say how it was called";
  tests::FakeGpu& fake = tests::fake_gpu();
  fake.sorts.clear(), fake.scans.clear();
  static_cast<void>(topk(randn({2, 30, 4}).to(kCUDA), 3, 1, false));
  ASSERT_EQ(fake.sorts.size(), 1u);
  EXPECT_EQ(fake.sorts[0].outer, 2);
  EXPECT_EQ(fake.sorts[0].n, 30);
  EXPECT_EQ(fake.sorts[0].inner, 4);
  EXPECT_EQ(fake.sorts[0].count, 3);
  EXPECT_FALSE(fake.sorts[0].is_descending);
  static_cast<void>(sort(zeros({0, 4}).to(kCUDA)));
  EXPECT_EQ(fake.sorts.size(), 1u) << "nothing to sort";
  static_cast<void>(cumprod(ones({3, 4}, kInt32).to(kCUDA), 0));
  ASSERT_EQ(fake.scans.size(), 1u);
  EXPECT_TRUE(fake.scans[0].is_product);
  EXPECT_EQ(fake.scans[0].element, cuda::Element::Int64);
  EXPECT_EQ(fake.scans[0].inner, 4);
}

// ---- In plans and CUDA graphs ------------------------------------------------------------------------------------------

std::vector<Tensor> program(Tensor x, Tensor w) {
  const Tensor y = x.mm(w);
  const auto [values, indices] = topk(y, 5, 1);
  return {values, indices, cumsum(y, 1), std::get<0>(sort(y, 0)), std::get<1>(max(y, 1))};
}

void expect_replayed_alike(const Tensor& w) {
  const auto f =
      compile([](Tensor x, Tensor w) { return program(x, w); }, {.audit = false, .mode = "reduce-overhead"});
  for (int i = 0; i < 5; ++i) {
    const Tensor x = randint(-3, 4, {6, 40}).to(kFloat32);
    const std::vector<Tensor> want = program(x, w), got = f(x.to(kCUDA), w.to(kCUDA));
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(difference_of_bits(got[k].cpu(), want[k]), "") << i << " " << k;
  }
}

TEST(CudaRowsReplay, CallsAreRecorded) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a GPU: CudaRowsReplayed runs on it";
  const tests::FakeKernelsScope scope;
  expect_replayed_alike(randint(-2, 3, {40, 40}).to(kFloat32));
  EXPECT_GE(tests::fake_kernels().graph_launches, 3);
}

TEST(CudaRowsReplayed, CallsAreRecorded) {
  if (!cuda::is_available()) GTEST_SKIP() << "no GPU: " << cuda::why_unavailable();
  const uint64_t before = compile_stats().graph_replays;
  expect_replayed_alike(randint(-2, 3, {40, 5000}).to(kFloat32));
  EXPECT_GE(compile_stats().graph_replays - before, 3u);
}

}  // namespace
}  // namespace weft
