// Tests of sort and topk: stability, NaN, signed zeros, every dtype, any dimension and strides, threads, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "autograd/gradcheck.h"
#include "tensor/base/half.h"
#include "tensor/cpu/parallel.h"
#include "tensor/dispatch.h"
#include "tests/support/error_text.h"

namespace weft {
namespace {

Tensor uninitialised(const std::vector<int64_t>& sizes, DType dtype) {
  return make_tensor(SymList(sizes), dtype);
}
template <class T>
Tensor from(const std::vector<int64_t>& sizes, const std::vector<T>& values) {
  Tensor x = uninitialised(sizes, dtype_of<T>);
  std::copy(values.begin(), values.end(), data_of<T>(x));
  return x;
}
template <class T>
std::vector<T> values(const Tensor& x) {
  return {data_of<T>(x), data_of<T>(x) + int_numel(x)};
}
// x seen with its two dimensions exchanged.
Tensor transposed(const Tensor& x) {
  Layout<Sym> layout = x->layout;
  std::swap(layout.sizes[0], layout.sizes[1]);
  std::swap(layout.strides[0], layout.strides[1]);
  return make_view(x, layout);
}

TEST(Sort, EqualElementsKeepTheirOrderInBothDirections) {
  const Tensor x = from<float>({7}, {2, 1, 2, 0, 1, 2, 0});
  const auto [up, up_index] = sort(x);
  EXPECT_EQ(values<float>(up), (std::vector<float>{0, 0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(values<int64_t>(up_index), (std::vector<int64_t>{3, 6, 1, 4, 0, 2, 5}));
  const auto [down, down_index] = sort(x, -1, true);
  EXPECT_EQ(values<float>(down), (std::vector<float>{2, 2, 2, 1, 1, 0, 0}));
  EXPECT_EQ(values<int64_t>(down_index), (std::vector<int64_t>{0, 2, 5, 1, 4, 3, 6}));
  EXPECT_EQ(values<int64_t>(argsort(x)), values<int64_t>(up_index));
}

TEST(Sort, NanIsTheLargestAndZerosAreEqual) {
  const float inf = INFINITY, nan = NAN;
  const Tensor x = from<float>({8}, {nan, 1, -0.0f, -inf, 0.0f, -nan, inf, -0.0f});
  const auto [up, index] = sort(x);
  EXPECT_EQ(values<int64_t>(index), (std::vector<int64_t>{3, 2, 4, 7, 1, 6, 0, 5}));
  EXPECT_TRUE(std::signbit(values<float>(up)[1]) && !std::signbit(values<float>(up)[2]));
  EXPECT_EQ(values<int64_t>(argsort(x, 0, true)), (std::vector<int64_t>{0, 5, 6, 1, 2, 4, 7, 3}));
  EXPECT_EQ(values<int64_t>(std::get<1>(topk(x, 3))), (std::vector<int64_t>{0, 5, 6}));
  EXPECT_EQ(values<int64_t>(std::get<1>(topk(x, 3, 0, false))), (std::vector<int64_t>{3, 2, 4}));
}

template <class T>
void check_against_stable_sort(int64_t n) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype_of<T>) << " " << n);
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::vector<T> data(static_cast<size_t>(n));
  std::vector<double> numbers(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      const double real = static_cast<double>(static_cast<int>(random() % 2001) - 1000) / 8;
      if constexpr (std::is_same_v<T, Float16>) data[i] = to_float16(real);
      else data[i] = to_bfloat16(real);
      numbers[i] = to_float(data[i]);
    } else {
      if constexpr (std::is_floating_point_v<T>)
        data[i] = static_cast<T>(static_cast<int64_t>(random())) / T(7);
      else data[i] = static_cast<T>(random());
      numbers[i] = static_cast<double>(data[i]);
    }
  }
  Tensor x = uninitialised({n}, dtype_of<T>);
  std::copy(data.begin(), data.end(), data_of<T>(x));
  const auto before = [&](int64_t i, int64_t j) {
    const auto a = static_cast<size_t>(i), b = static_cast<size_t>(j);
    if constexpr (std::is_same_v<T, int64_t>) return data[a] < data[b];
    else return numbers[a] < numbers[b];
  };
  for (const bool descending : {false, true}) {
    std::vector<int64_t> expected(data.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int64_t i, int64_t j) { return descending ? before(j, i) : before(i, j); });
    const auto [sorted, index] = sort(x, 0, descending);
    ASSERT_EQ(values<int64_t>(index), expected);
    for (size_t i = 0; i < data.size(); ++i)
      ASSERT_EQ(std::memcmp(data_of<T>(sorted) + i, data_of<T>(x) + expected[i], sizeof(T)), 0);
    for (const int64_t k : {n / 10, n / 2, n}) {
      const auto top = values<int64_t>(std::get<1>(topk(x, k, 0, descending)));
      ASSERT_EQ(top, std::vector<int64_t>(expected.begin(), expected.begin() + k)) << k;
    }
  }
}

// 512 is where the radix sort takes over.
TEST(Sort, EveryTypeAndLengthMatchesAStableSort) {
  for (const int64_t n : {1, 2, 17, 511, 512, 3000}) {
    check_against_stable_sort<float>(n);
    check_against_stable_sort<double>(n);
    check_against_stable_sort<BFloat16>(n);
    check_against_stable_sort<Float16>(n);
    check_against_stable_sort<int64_t>(n);
    check_against_stable_sort<int32_t>(n);
    check_against_stable_sort<int16_t>(n);
    check_against_stable_sort<int8_t>(n);
    check_against_stable_sort<uint8_t>(n);
    check_against_stable_sort<bool>(n);
  }
}

TEST(Sort, AnyDimensionAndStrides) {
  const int64_t sizes[] = {3, 5, 4};
  std::vector<int32_t> data(60);
  for (int32_t i = 0; i < 60; ++i) data[static_cast<size_t>(i)] = i * 37 % 61;
  const Tensor x = from<int32_t>({3, 5, 4}, data);
  for (int64_t dim = 0; dim < 3; ++dim) {
    const auto [sorted, index] = sort(x, dim - 3);
    const int64_t step = dim == 0 ? 20 : dim == 1 ? 4 : 1;
    for (int64_t i = 0; i < 60; ++i) {
      if (i / step % sizes[dim] == 0) continue;
      EXPECT_LT(values<int32_t>(sorted)[static_cast<size_t>(i - step)],
                values<int32_t>(sorted)[static_cast<size_t>(i)]);
      const int64_t at = i + (values<int64_t>(index)[static_cast<size_t>(i)] - i / step % sizes[dim]) * step;
      EXPECT_EQ(data[static_cast<size_t>(at)], values<int32_t>(sorted)[static_cast<size_t>(i)]);
    }
  }
  // [[3, 1], [2, 5]] transposed is [[3, 2], [1, 5]].
  const Tensor square = transposed(from<float>({2, 2}, {3, 1, 2, 5}));
  EXPECT_EQ(values<float>(std::get<0>(sort(square, 1))), (std::vector<float>{2, 3, 1, 5}));
  EXPECT_EQ(values<float>(std::get<0>(sort(square, 0))), (std::vector<float>{1, 2, 3, 5}));
  EXPECT_EQ(values<float>(std::get<0>(topk(square, 1, 1))), (std::vector<float>{3, 5}));
}

TEST(Sort, EmptyAndScalarTensorsSort) {
  const Tensor scalar = from<float>({}, {4});
  const auto [sorted, index] = sort(scalar);
  EXPECT_EQ(sorted.dim(), 0);
  EXPECT_EQ(values<float>(sorted)[0], 4);
  EXPECT_EQ(values<int64_t>(index)[0], 0);
  EXPECT_EQ(std::get<0>(sort(uninitialised({0}, kFloat32))).numel(), 0);
  EXPECT_EQ(std::get<0>(sort(uninitialised({3, 0}, kFloat32), 0)).sizes(), (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(std::get<0>(topk(uninitialised({3, 4}, kFloat32), 0)).sizes(), (std::vector<int64_t>{3, 0}));
}

TEST(Sort, ThreadsChangeNothing) {
  std::mt19937 random(7);
  std::vector<float> data(200 * 100);
  for (float& x : data) x = static_cast<float>(random() % 50);
  const Tensor x = from<float>({200, 100}, data);
  const int before = num_threads();
  set_num_threads(1);
  const auto one = values<int64_t>(argsort(x, 1));
  set_num_threads(2);
  const auto two = values<int64_t>(argsort(x, 1));
  set_num_threads(before);
  EXPECT_EQ(one, two);
}

TEST(Sort, GradientsGoBackToWhereTheValuesStood) {
  for (const int64_t dim : {0, 1}) {
    Tensor x = from<double>({2, 3}, {3, 1, 2, 6, 4, 5});
    x.requires_grad_();
    using List = std::vector<Tensor>;
    EXPECT_TRUE(
        autograd::gradcheck([&](const List& in) { return std::get<0>(sort(in[0], dim, true)); }, List{x}));
    EXPECT_TRUE(
        autograd::gradcheck([&](const List& in) { return std::get<0>(topk(in[0], 1, dim)); }, List{x}));
  }
  Tensor scalar = from<double>({}, {3});
  scalar.requires_grad_();
  std::get<0>(sort(scalar)).backward();
  EXPECT_EQ(values<double>(scalar.grad()), std::vector<double>{1});
}

TEST(Sort, ErrorsNameWhatWasGiven) {
  const Tensor x = uninitialised({2, 3}, kFloat32);
  EXPECT_NE(tests::error_of([&] {
              topk(x, 4);
            }).find("topk: k is 4, but dimension 1 of [2, 3] has 3 elements: k may be 0 to 3"),
            std::string::npos);
  EXPECT_NE(tests::error_of([&] { topk(x, -1, 0); }).find("topk: k is -1"), std::string::npos);
  EXPECT_THROW(sort(x, 2), IndexError);
  EXPECT_NE(tests::error_of([&] { sort(Tensor()); }).find("sort: x is an undefined tensor"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
