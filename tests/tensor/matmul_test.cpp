// Tests of the matrix products as ops: forms and broadcasting of matmul, strides, numerics of addmm, dtypes, errors,
// gradients.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "autograd/gradcheck.h"
#include "tensor/base/half.h"
#include "tensor/dispatch.h"
#include "tests/support/error_text.h"

namespace weft {
namespace {

Tensor made(const std::vector<int64_t>& sizes, DType dtype = kFloat64) {
  Tensor x = make_tensor(SymList(sizes), dtype);
  std::mt19937 random(static_cast<unsigned>(sizes.size() * 100 + static_cast<size_t>(int_numel(x))));
  std::uniform_real_distribution<double> real(-2, 2);
  Tensor values = make_tensor(SymList(sizes), kFloat64);
  for (int64_t i = 0; i < int_numel(values); ++i)
    data_of<double>(values)[i] = is_floating(dtype) ? real(random) : double(random() % 200);
  copy_data(values, x);
  return x;
}
std::vector<double> values(const Tensor& x) {
  const Tensor dense = make_tensor(x->layout.sizes, kFloat64);
  copy_data(x, dense);
  return {data_of<double>(dense), data_of<double>(dense) + int_numel(dense)};
}
std::vector<int64_t> strided_index(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) index[d] = flat % sizes[d], flat /= sizes[d];
  return index;
}

// numpy's definition of matmul, element by element.
void check_matmul(const std::vector<int64_t>& sizes_a, const std::vector<int64_t>& sizes_b) {
  SCOPED_TRACE(::testing::PrintToString(sizes_a) + " " + ::testing::PrintToString(sizes_b));
  const Tensor a = made(sizes_a), b = made(sizes_b);
  const std::vector<double> in_a = values(a), in_b = values(b), got = values(matmul(a, b));
  std::vector<int64_t> wide_a = sizes_a, wide_b = sizes_b;
  if (wide_a.size() == 1) wide_a.insert(wide_a.begin(), 1);
  if (wide_b.size() == 1) wide_b.push_back(1);
  const size_t rank = std::max(wide_a.size(), wide_b.size());
  wide_a.insert(wide_a.begin(), rank - wide_a.size(), 1);
  wide_b.insert(wide_b.begin(), rank - wide_b.size(), 1);
  std::vector<int64_t> sizes(rank);
  for (size_t d = 0; d + 2 < rank; ++d) sizes[d] = wide_a[d] == 1 ? wide_b[d] : wide_a[d];
  sizes[rank - 2] = wide_a[rank - 2], sizes[rank - 1] = wide_b[rank - 1];
  std::vector<int64_t> squeezed(sizes);
  if (sizes_b.size() == 1) squeezed.erase(squeezed.end() - 1);
  if (sizes_a.size() == 1) squeezed.erase(squeezed.begin() + static_cast<long>(rank) - 2);
  ASSERT_EQ(matmul(a, b).sizes(), squeezed);
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  ASSERT_EQ(static_cast<int64_t>(got.size()), count);
  const auto flat = [](const std::vector<int64_t>& index, const std::vector<int64_t>& of) {
    int64_t result = 0;
    for (size_t d = 0; d < of.size(); ++d) result = result * of[d] + (of[d] == 1 ? 0 : index[d]);
    return static_cast<size_t>(result);
  };
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> at_a = strided_index(i, sizes), at_b = at_a;
    double sum = 0;
    for (int64_t p = 0; p < wide_a[rank - 1]; ++p) {
      at_a[rank - 1] = p, at_b[rank - 2] = p;
      sum += in_a[flat(at_a, wide_a)] * in_b[flat(at_b, wide_b)];
    }
    ASSERT_NEAR(got[static_cast<size_t>(i)], sum, 1e-12) << i;
  }
}

TEST(Matmul, EveryFormEqualsNumpysDefinition) {
  using Sizes = std::vector<int64_t>;
  for (const auto& [a, b] : std::vector<std::pair<Sizes, Sizes>>{{{5}, {5}},
                                                                 {{5}, {5, 3}},
                                                                 {{2, 5}, {5}},
                                                                 {{2, 5}, {5, 3}},
                                                                 {{2, 3, 4, 5}, {5, 6}},
                                                                 {{2, 3, 4, 5}, {5}},
                                                                 {{2, 1, 4, 5}, {3, 5, 6}},
                                                                 {{4, 5}, {2, 5, 3}},
                                                                 {{5}, {2, 5, 3}},
                                                                 {{5}, {2, 2, 5, 3}},
                                                                 {{1, 4, 5}, {3, 5, 2}},
                                                                 {{3, 4, 5}, {1, 5, 2}},
                                                                 {{2, 3, 4, 0}, {0, 6}},
                                                                 {{0, 4, 5}, {0, 5, 2}},
                                                                 {{0}, {0}},
                                                                 {{2, 0}, {0}},
                                                                 {{2, 3, 1, 5}, {2, 3, 5, 1}}})
    check_matmul(a, b);
}

TEST(Matmul, StridedOperandsGiveTheSameAsTheirCopies) {
  const Tensor a = made({6, 8}), b = made({10, 8});
  const auto expected = values(mm(a, b.t().contiguous()));
  const auto near = [&](const Tensor& got) {
    const auto numbers = values(got);
    ASSERT_EQ(numbers.size(), expected.size());
    for (size_t i = 0; i < numbers.size(); ++i) ASSERT_NEAR(numbers[i], expected[i], 1e-12);
  };
  near(mm(a, b.t()));
  near(mm(a.t().contiguous().t(), b.t()));
  const Tensor wide = made({6, 16});
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 8; ++j) data_of<double>(wide)[i * 16 + 2 * j] = data_of<double>(a)[i * 8 + j];
  near(mm(slice(wide, 1, Sym::from_int(0), Sym::from_int(16), 2), b.t()));
  // One row for all: stride 0.
  const Tensor row = made({1, 8});
  const auto stretched = values(mm(expand(row, {6, 8}), b.t())),
             copied = values(mm(expand(row, {6, 8}).contiguous(), b.t()));
  for (size_t i = 0; i < copied.size(); ++i) ASSERT_NEAR(stretched[i], copied[i], 1e-12);
}

// Eager, interpreted and compiled programs agree because the steps round one by one.
TEST(Addmm, EqualsProductScalingAndSumBitForBit) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor a = made({33, 70}, dtype), b = made({70, 50}, dtype), bias = made({50}, dtype),
                 full = made({33, 50}, dtype);
    EXPECT_EQ(values(addmm(bias, a, b)), values(add(mm(a, b), bias)));
    EXPECT_EQ(values(addmm(full, a, b, 0.3, 1.7)), values(add(mul(mm(a, b), 1.7), mul(full, 0.3))));
    EXPECT_EQ(values(linear(a, b.t(), bias)), values(addmm(bias, a, b)));
    EXPECT_EQ(values(linear(a, b.t(), Tensor())), values(mm(a, b)));
  }
  const Tensor x = made({2, 3, 4}), w = made({5, 4}), bias = made({5});
  EXPECT_EQ(linear(x, w, bias).sizes(), (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(linear(made({4}), w, bias).sizes(), (std::vector<int64_t>{5}));
}

TEST(Addmm, ZeroBetaIgnoresNanOfTheSummand) {
  const Tensor x = made({2, 2}), a = made({2, 3}), b = made({3, 2});
  data_of<double>(x)[1] = NAN;
  EXPECT_EQ(values(addmm(x, a, b, 0)), values(mm(a, b)));
}

// C84: the result of an int8 batched product is int8, modulo its range.
TEST(Bmm, Int8ProductsStayInt8) {
  const Tensor a = made({2, 3, 4}, kInt8), b = made({2, 4, 5}, kInt8);
  const Tensor product = bmm(a, b);
  EXPECT_EQ(product.dtype(), kInt8);
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 5; ++j) {
        int sum = 0;
        for (int64_t p = 0; p < 4; ++p)
          sum += data_of<int8_t>(a)[t * 12 + i * 4 + p] * data_of<int8_t>(b)[t * 20 + p * 5 + j];
        EXPECT_EQ(data_of<int8_t>(product)[t * 15 + i * 5 + j], static_cast<int8_t>(sum));
      }
}

TEST(Matmul, HalfProductsRoundTheFloatSumOnce) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Tensor a = made({9, 300}, dtype), b = made({300, 20}, dtype);
    const auto got = values(mm(a, b));
    const std::vector<double> in_a = values(a), in_b = values(b);
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j = 0; j < 20; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < 300; ++p) {
          const double term = in_a[static_cast<size_t>(i * 300 + p)] * in_b[static_cast<size_t>(p * 20 + j)];
          sum += term, size += std::abs(term);
        }
        const double unit = dtype == kBFloat16 ? 0x1p-8 : 0x1p-11;
        EXPECT_NEAR(got[static_cast<size_t>(i * 20 + j)], sum,
                    unit * std::abs(sum) + 301 * 0x1p-24 * size * (1 + unit));
      }
  }
}

TEST(Matmul, ErrorsNameSizesAndDtypes) {
  const Tensor a = made({2, 3}), b = made({4, 5}), v = made({3});
  EXPECT_ERROR(
      "matmul: a [2, 3] and b [4, 5] disagree on the contracted dimension: a.size(1) is 3, b.size(0) is 4",
      matmul(a, b));
  EXPECT_ERROR("matmul_test.cpp", matmul(a, b));
  EXPECT_ERROR("mm: a [2, 3] and b [4, 5] disagree", mm(a, b));
  EXPECT_ERROR("mm: b is [3] float64, but needs 2 dimensions", mm(a, v));
  EXPECT_ERROR("matmul: a is [2, 3] float64 and b is [] float64; both need at least one dimension",
               matmul(a, made({})));
  EXPECT_ERROR("bmm: a [2, 3, 4] and b [3, 4, 5] disagree on the batch",
               bmm(made({2, 3, 4}), made({3, 4, 5})));
  EXPECT_ERROR("matmul", matmul(made({2, 3, 4}), made({3, 4, 5})));
  EXPECT_ERROR("linear: x [2, 3] and weight [5, 4] disagree", linear(a, made({5, 4}), Tensor()));
  EXPECT_ERROR("linear: bias is [4], but weight [5, 3] gives 5 outputs", linear(a, made({5, 3}), made({4})));
  EXPECT_ERROR("addmm: x [7] does not broadcast to the product's sizes [2, 5]",
               addmm(made({7}), a, made({3, 5})));
  EXPECT_ERROR("beta is 0.5", addmm(made({5}, kInt64), made({2, 3}, kInt64), made({3, 5}, kInt64), 0.5));
  EXPECT_ERROR("bool", mm(made({2, 3}, kBool), made({3, 2}, kBool)));
}

// C86.
TEST(Matmul, MixedDtypesAreRejected) {
  EXPECT_ERROR("matmul: a is [2, 3, 4] float16 and b is [2, 4, 5] float32; both must have the same dtype",
               matmul(made({2, 3, 4}, kFloat16), made({2, 4, 5}, kFloat32)));
  EXPECT_ERROR("addmm: x is",
               addmm(made({2, 5}, kFloat32), made({2, 3}, kBFloat16), made({3, 5}, kBFloat16)));
  const Tensor sum =
      add(linear(made({2, 3}, kBFloat16), made({5, 3}, kBFloat16), Tensor()), made({2, 5}, kFloat32));
  EXPECT_EQ(sum.dtype(), kFloat32);
}

// ---- Gradients ----------------------------------------------------------------------------------------------------------

Tensor leaf(const std::vector<int64_t>& sizes) {
  Tensor x = made(sizes);
  return x.requires_grad_();
}
template <class F>
void check_gradients(F function, const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(autograd::gradcheck(function, inputs));
  EXPECT_TRUE(autograd::gradgradcheck(function, inputs));
}

TEST(MatmulGradient, AgreesWithFiniteDifferences) {
  using List = std::vector<Tensor>;
  check_gradients([](const List& in) { return mm(in[0], in[1]); }, {leaf({2, 3}), leaf({3, 4})});
  check_gradients([](const List& in) { return bmm(in[0], in[1]); }, {leaf({2, 2, 3}), leaf({2, 3, 2})});
  check_gradients([](const List& in) { return mv(in[0], in[1]); }, {leaf({2, 3}), leaf({3})});
  check_gradients([](const List& in) { return dot(in[0], in[1]); }, {leaf({4}), leaf({4})});
  check_gradients([](const List& in) { return outer(in[0], in[1]); }, {leaf({2}), leaf({3})});
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 4}, {4}, {1, 4}, {2, 1}, {1}, {}})
    check_gradients([](const List& in) { return addmm(in[0], in[1], in[2], 0.5, 2); },
                    {leaf(sizes), leaf({2, 3}), leaf({3, 4})});
  check_gradients([](const List& in) { return baddbmm(in[0], in[1], in[2], 2, -1); },
                  {leaf({2, 2}), leaf({2, 2, 3}), leaf({2, 3, 2})});
  check_gradients([](const List& in) { return linear(in[0], in[1], in[2]); },
                  {leaf({2, 2, 3}), leaf({4, 3}), leaf({4})});
  check_gradients([](const List& in) { return matmul(in[0], in[1]); }, {leaf({2, 1, 2, 3}), leaf({2, 3, 2})});
  check_gradients([](const List& in) { return matmul(in[0], in[1]); }, {leaf({2, 3}), leaf({2, 3, 2})});
  check_gradients([](const List& in) { return matmul(in[0], in[1]); }, {leaf({3}), leaf({2, 3, 2})});
}

TEST(MatmulGradient, AWeightsGradientIsRowMajor) {
  const Tensor x = made({6, 4});
  Tensor weight = leaf({5, 4}), bias = leaf({5});
  linear(x, weight, bias).sum().backward();
  EXPECT_TRUE(weight.grad().is_contiguous());
  EXPECT_EQ(values(bias.grad()), std::vector<double>(5, 6));
}

}  // namespace
}  // namespace weft
