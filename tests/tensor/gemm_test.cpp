// Tests of the matrix product kernels: against sums in double, for every dtype, layout and size; threads; both backends.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tensor/base/half.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

double as_double(double x) { return x; }
double as_double(BFloat16 x) { return to_float(x); }
double as_double(Float16 x) { return to_float(x); }
template <class S>
S from_double(double x) {
  if constexpr (std::is_same_v<S, BFloat16>) return to_bfloat16(x);
  else if constexpr (std::is_same_v<S, Float16>) return to_float16(x);
  else return static_cast<S>(x);
}
template <class S>
constexpr double kEpsilon = std::is_same_v<S, double>     ? 0x1p-53
                            : std::is_floating_point_v<S> ? 0x1p-24
                                                          : 0;
// Half a unit in the last place of what is stored.
template <class S>
constexpr double kRounding = std::is_same_v<S, BFloat16>  ? 0x1p-8
                             : std::is_same_v<S, Float16> ? 0x1p-11
                                                          : 0;

enum Layout { kRows, kColumns, kStrided };

template <class S>
struct Matrix {
  std::vector<S> data;
  int64_t batch_stride, row, col;
  Matrix(int64_t batch, int64_t rows, int64_t cols, Layout layout, std::mt19937& random) {
    const int64_t gap = layout == kStrided ? 2 : 1;
    row = layout == kColumns ? 1 : cols * gap + (layout == kStrided);
    col = layout == kColumns ? rows : gap;
    batch_stride = rows * cols * gap + rows + 3;
    data.resize(static_cast<size_t>(batch * batch_stride + 16));
    std::uniform_real_distribution<double> real(-2, 2);
    std::uniform_int_distribution<int> integer(std::is_same_v<S, uint8_t> ? 0 : -90, 90);
    for (S& x : data)
      x = std::is_integral_v<S> ? from_double<S>(integer(random)) : from_double<S>(real(random));
  }
  S at(int64_t b, int64_t i, int64_t j) const {
    return data[static_cast<size_t>(b * batch_stride + i * row + j * col)];
  }
};

template <class S>
void check_gemm(int64_t batch, int64_t m, int64_t n, int64_t k, Layout layout_a, Layout layout_b,
                bool added) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype_of<S>) << " batch " << batch << ": " << m << "x" << k
                                    << "x" << n << " layouts " << layout_a << layout_b << " added " << added);
  std::mt19937 random(static_cast<unsigned>(m * 131 + n * 17 + k));
  const Matrix<S> a(batch, m, k, layout_a, random), b(batch, k, n, layout_b, random),
      x(batch, m, n, kStrided, random);
  const S canary = from_double<S>(77);
  std::vector<S> c(static_cast<size_t>(batch * m * n) + 16, canary);
  Gemm gemm{.dtype = dtype_of<S>,
            .batch = batch,
            .m = m,
            .n = n,
            .k = k,
            .a = a.data.data(),
            .a_batch = a.batch_stride,
            .a_row = a.row,
            .a_col = a.col,
            .b = b.data.data(),
            .b_batch = b.batch_stride,
            .b_row = b.row,
            .b_col = b.col,
            .c = c.data(),
            .c_batch = m * n,
            .c_row = n};
  if (added) {
    gemm.epilogue = {.alpha = 3,
                     .beta = -0.5,
                     .int_alpha = 3,
                     .int_beta = -5,
                     .x = x.data.data(),
                     .x_batch = x.batch_stride,
                     .x_row = x.row,
                     .x_col = x.col};
  }
  run_gemm(gemm);
  for (int64_t t = 0; t < batch; ++t) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const S got = c[static_cast<size_t>((t * m + i) * n + j)];
        if constexpr (std::is_integral_v<S>) {
          uint64_t sum = 0;
          for (int64_t p = 0; p < k; ++p)
            sum += static_cast<uint64_t>(a.at(t, i, p)) * static_cast<uint64_t>(b.at(t, p, j));
          if (added) sum = 3 * sum - 5 * static_cast<uint64_t>(x.at(t, i, j));
          ASSERT_EQ(got, static_cast<S>(sum)) << t << " " << i << " " << j;
        } else {
          double sum = 0, size = 0;
          for (int64_t p = 0; p < k; ++p) {
            const double term = as_double(a.at(t, i, p)) * as_double(b.at(t, p, j));
            sum += term, size += std::abs(term);
          }
          double bound = static_cast<double>(k + 1) * kEpsilon<float> * size;
          if (std::is_same_v<S, double>) bound = static_cast<double>(2 * k + 2) * kEpsilon<double> * size;
          if (added) {
            sum = 3 * sum - 0.5 * as_double(x.at(t, i, j));
            bound = 3 * bound + 4 * std::max(kEpsilon<S>, kEpsilon<double>) * (3 * size + 2);
          }
          bound += kRounding<S> * (std::abs(sum) + bound) +
                   (kRounding<S> > 0 ? 4 * kEpsilon<float> * (size + 2) : 0);
          ASSERT_NEAR(as_double(got), sum, bound) << t << " " << i << " " << j;
        }
      }
    }
  }
  for (size_t i = static_cast<size_t>(batch * m * n); i < c.size(); ++i)
    ASSERT_EQ(as_double(c[i]), as_double(canary)) << "written beyond the result";
}

// Around the edges of tiles (2, 6, 8 rows; 16, 24, 48 columns), of vectors and of passes over k (256).
template <class S>
void check_all() {
  for (const Layout layout_a : {kRows, kColumns, kStrided}) {
    for (const Layout layout_b : {kRows, kColumns, kStrided}) {
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 7, 3},
                                    {13, 50, 19},
                                    {8, 48, 16},
                                    {1, 9, 33},
                                    {9, 1, 33},
                                    {1, 1, 40},
                                    {34, 17, 1},
                                    {1, 35, 5},
                                    {35, 1, 5},
                                    {50, 97, 261}})
        check_gemm<S>(1, m, n, k, layout_a, layout_b, (m + n) % 2 == 0);
    }
  }
  check_gemm<S>(3, 5, 7, 9, kRows, kColumns, true);
  check_gemm<S>(3, 1, 7, 9, kRows, kColumns, true);
  check_gemm<S>(3, 7, 1, 9, kStrided, kRows, true);
}

class EveryBackend : public ::testing::TestWithParam<GemmBackend> {
 protected:
  void SetUp() override { set_gemm_backend(GetParam()); }
  void TearDown() override { set_gemm_backend(GemmBackend::Auto); }
};
INSTANTIATE_TEST_SUITE_P(Gemm, EveryBackend, ::testing::Values(GemmBackend::Own, GemmBackend::OpenBlas));

TEST_P(EveryBackend, FloatProductsMatchTheSumInDouble) { check_all<float>(); }
TEST_P(EveryBackend, DoubleProductsMatchTheSumInDouble) { check_all<double>(); }
TEST(Gemm, HalfProductsRoundOnce) {
  check_all<BFloat16>();
  check_all<Float16>();
}
TEST(Gemm, IntegerProductsWrap) {
  check_all<int64_t>();
  check_all<int32_t>();
  check_all<int16_t>();
  check_all<int8_t>();
  check_all<uint8_t>();
}

TEST_P(EveryBackend, NoTermsGiveZerosAndTheSummand) {
  for (const bool added : {false, true}) {
    check_gemm<float>(1, 3, 4, 0, kRows, kRows, added);
    check_gemm<float>(2, 1, 4, 0, kRows, kRows, added);
    check_gemm<float>(2, 4, 1, 0, kRows, kRows, added);
  }
  check_gemm<BFloat16>(1, 3, 4, 0, kRows, kRows, true);
  check_gemm<float>(1, 0, 4, 3, kRows, kRows, true);
  check_gemm<float>(1, 4, 0, 3, kRows, kRows, true);
  check_gemm<float>(0, 4, 2, 3, kRows, kRows, true);
}

template <class S>
std::vector<char> product_on(int threads, int64_t batch, int64_t m, int64_t n, int64_t k) {
  std::mt19937 random(5);
  const Matrix<S> a(batch, m, k, kRows, random), b(batch, k, n, kColumns, random);
  std::vector<char> c(static_cast<size_t>(batch * m * n) * sizeof(S));
  const int before = num_threads();
  set_num_threads(threads);
  own_gemm({.dtype = dtype_of<S>,
            .batch = batch,
            .m = m,
            .n = n,
            .k = k,
            .a = a.data.data(),
            .a_batch = a.batch_stride,
            .a_row = a.row,
            .a_col = a.col,
            .b = b.data.data(),
            .b_batch = b.batch_stride,
            .b_row = b.row,
            .b_col = b.col,
            .c = c.data(),
            .c_batch = m * n,
            .c_row = n});
  set_num_threads(before);
  return c;
}

TEST(Gemm, ThreadsChangeNoBit) {
  for (const auto& [batch, m, n, k] :
       {std::array<int64_t, 4>{1, 200, 150, 300}, {7, 40, 50, 60}, {1, 1, 900, 700}, {1, 3, 2000, 99}}) {
    for (int threads : {2, 3}) {
      EXPECT_EQ(product_on<float>(1, batch, m, n, k), product_on<float>(threads, batch, m, n, k));
      EXPECT_EQ(product_on<BFloat16>(1, batch, m, n, k), product_on<BFloat16>(threads, batch, m, n, k));
    }
  }
}

// What the note in gemm.h promises: one fma after the other (two roundings where the machine has no fma).
TEST(Gemm, AnElementIsOneChainOfFmaInTheOrderOfK) {
  const int64_t m = 11, n = 53, k = 600;
  std::mt19937 random(1);
  const Matrix<float> a(1, m, k, kRows, random), b(1, k, n, kRows, random);
  std::vector<float> c(static_cast<size_t>(m * n));
  own_gemm({.dtype = kFloat32,
            .batch = 1,
            .m = m,
            .n = n,
            .k = k,
            .a = a.data.data(),
            .a_batch = 0,
            .a_row = a.row,
            .a_col = a.col,
            .b = b.data.data(),
            .b_batch = 0,
            .b_row = b.row,
            .b_col = b.col,
            .c = c.data(),
            .c_batch = 0,
            .c_row = n});
  const bool fused = current_isa() != Isa::SSE4;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum = fused ? std::fma(a.at(0, i, p), b.at(0, p, j), sum) : sum + a.at(0, i, p) * b.at(0, p, j);
      ASSERT_EQ(c[static_cast<size_t>(i * n + j)], sum) << i << " " << j;
    }
  }
}

TEST(Gemm, AVectorIsSummedInSixteenLanesWhateverTheLayout) {
  const int64_t m = 37, k = 83;
  std::mt19937 random(2);
  const Matrix<float> rows(1, m, k, kRows, random), x(1, k, 1, kRows, random);
  std::vector<float> columns(static_cast<size_t>(m * k));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) columns[static_cast<size_t>(p * m + i)] = rows.at(0, i, p);
  std::vector<float> from_rows(m), from_columns(m), turned(m);
  Gemm gemm{.dtype = kFloat32,
            .batch = 1,
            .m = m,
            .n = 1,
            .k = k,
            .a = rows.data.data(),
            .a_batch = 0,
            .a_row = rows.row,
            .a_col = rows.col,
            .b = x.data.data(),
            .b_batch = 0,
            .b_row = x.row,
            .b_col = 1,
            .c = from_rows.data(),
            .c_batch = 0,
            .c_row = 1};
  own_gemm(gemm);
  gemm.a = columns.data(), gemm.a_row = 1, gemm.a_col = m, gemm.c = from_columns.data();
  own_gemm(gemm);
  // The same as a row vector times the transposed matrix.
  own_gemm({.dtype = kFloat32,
            .batch = 1,
            .m = 1,
            .n = m,
            .k = k,
            .a = x.data.data(),
            .a_batch = 0,
            .a_row = 1,
            .a_col = x.row,
            .b = columns.data(),
            .b_batch = 0,
            .b_row = m,
            .b_col = 1,
            .c = turned.data(),
            .c_batch = 0,
            .c_row = m});
  EXPECT_EQ(from_rows, from_columns);
  EXPECT_EQ(from_rows, turned);
  for (int64_t i = 0; i < m; ++i) {
    float lanes[16] = {};
    for (int64_t p = 0; p < k; ++p) {
      float& lane = lanes[p % 16];
      lane = current_isa() == Isa::SSE4 ? lane + rows.at(0, i, p) * x.at(0, p, 0)
                                        : std::fma(rows.at(0, i, p), x.at(0, p, 0), lane);
    }
    for (int step = 8; step > 0; step /= 2)
      for (int lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
    EXPECT_EQ(from_rows[static_cast<size_t>(i)], lanes[0]) << i;
  }
}

TEST(Gemm, DotOfManyBlocksMatchesDouble) {
  for (const int64_t n : {0, 1, 15, 16, 100, 65536, 200001}) {
    std::mt19937 random(3);
    const Matrix<float> a(1, 1, std::max<int64_t>(n, 1), kStrided, random),
        b(1, 1, std::max<int64_t>(n, 1), kRows, random);
    float sum = -1;
    own_dot(kFloat32, n, a.data.data(), a.col, b.data.data(), b.col, &sum);
    double expected = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double term = double(a.at(0, 0, i)) * double(b.at(0, 0, i));
      expected += term, size += std::abs(term);
    }
    EXPECT_NEAR(sum, expected, (4096 + 16) * 0x1p-24 * size) << n;
  }
}

// c = a · b for square matrices without gaps.
Gemm square(int64_t n, const std::vector<float>& a, const std::vector<float>& b, float* c) {
  return {.dtype = kFloat32,
          .batch = 1,
          .m = n,
          .n = n,
          .k = n,
          .a = a.data(),
          .a_batch = 0,
          .a_row = n,
          .a_col = 1,
          .b = b.data(),
          .b_batch = 0,
          .b_row = n,
          .b_col = 1,
          .c = c,
          .c_batch = 0,
          .c_row = n};
}

TEST_P(EveryBackend, NanOfUnusedMemoryStaysOut) {
  // c holds NaN before; rows beyond the matrix hold NaN too.
  const int64_t n = 20;
  std::vector<float> a(n * n, 1), b(n * n, 2), c(n * n, NAN);
  run_gemm(square(n, a, b, c.data()));
  for (float x : c) EXPECT_EQ(x, 40);
}

TEST_P(EveryBackend, AProductInsideAParallelRegionIsSafe) {
  const int64_t n = 96;
  std::vector<float> a(n * n, 1), b(n * n, 2);
  std::vector<float> c(4 * n * n);
  parallel_for(
      4, 1,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) run_gemm(square(n, a, b, c.data() + i * n * n));
      },
      1);
  for (float x : c) ASSERT_EQ(x, 192);
}

}  // namespace
}  // namespace weft::cpu
