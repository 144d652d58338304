// Factories, tensors of written numbers, clones and casts.
#include <gtest/gtest.h>
#include <weft.h>

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

Doubles values(const Tensor& x) { return x.to_vector<double>(); }

TEST(Create, DTypesFollowPyTorch) {
  EXPECT_EQ(zeros({2}).dtype(), kFloat32);
  EXPECT_EQ(full({2}, 3).dtype(), kInt64);
  EXPECT_EQ(full({2}, true).dtype(), kBool);
  EXPECT_EQ(full({2}, 3.5).dtype(), kFloat32);
  EXPECT_EQ(arange(3).dtype(), kInt64);
  EXPECT_EQ(arange(3.0).dtype(), kFloat32);
  EXPECT_EQ(linspace(0, 1, 3).dtype(), kFloat32);
  EXPECT_EQ(eye(2).dtype(), kFloat32);
  EXPECT_EQ(tensor(3).dtype(), kInt64);
  EXPECT_EQ(tensor(3.5).dtype(), kFloat32);
  EXPECT_EQ(tensor(true).dtype(), kBool);
  EXPECT_EQ(tensor({1, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), kFloat32);
  EXPECT_EQ(tensor({true, false}).dtype(), kBool);
  EXPECT_EQ(tensor(std::vector<int32_t>{1}).dtype(), kInt64);
  EXPECT_EQ(tensor(std::vector<double>{1}).dtype(), kFloat32);
  EXPECT_EQ(tensor(std::vector<bool>{true}).dtype(), kBool);
  EXPECT_EQ(tensor({1, 2}, kFloat64).dtype(), kFloat64);
}

TEST(Create, NestedListsGiveDimensions) {
  EXPECT_EQ(tensor(3.5).dim(), 0);
  EXPECT_EQ(tensor({1, 2, 3}).sizes(), (Ints{3}));
  EXPECT_EQ(tensor({{1, 2, 3}}).sizes(), (Ints{1, 3}));
  EXPECT_EQ(tensor({{1}, {2}}).sizes(), (Ints{2, 1}));
  EXPECT_EQ(tensor({{{1, 2}, {3, 4}, {5, 6}}}).sizes(), (Ints{1, 3, 2}));
  EXPECT_EQ(tensor({{{{1}}}}).sizes(), (Ints{1, 1, 1, 1}));
  EXPECT_EQ(values(tensor({{1., 2.}, {3., 4.}}, kFloat64)), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(values(tensor({{1, 2}, {3, 4}}, kBFloat16)), (Doubles{1, 2, 3, 4}));
  EXPECT_TRUE(tensor({1., 2.}, TensorOptions().requires_grad(true)).requires_grad());
  EXPECT_EQ(tensor(std::vector<float>{}).sizes(), (Ints{0}));
  EXPECT_THROW(tensor({{1, 2}, {3}}), Error);
  EXPECT_THROW(tensor({{1, 2}, 3}), Error);
  EXPECT_THROW(tensor({1, {2, 3}}), Error);
  EXPECT_THROW(tensor({300}, kUInt8), Error);
}

TEST(Create, ArangeCountsAsPyTorch) {
  EXPECT_EQ(values(arange(1, 10, 3)), (Doubles{1, 4, 7}));
  EXPECT_EQ(values(arange(5, 0, -2)), (Doubles{5, 3, 1}));
  EXPECT_EQ(values(arange(0, 1, 0.25)), (Doubles{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(0, 1, 0.1, kFloat64).size(0), 10);
  EXPECT_EQ(arange(1, 1).size(0), 0);
  for (DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8})
    EXPECT_EQ(values(arange(3, dtype)), (Doubles{0, 1, 2})) << dtype;
  EXPECT_THROW(arange(0, 5, 0), Error);
  EXPECT_THROW(arange(0, 5, -1), Error);
  EXPECT_THROW(arange(0, INFINITY), Error);
  EXPECT_EQ(values(linspace(0, 1, 5)), (Doubles{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(linspace(3, 9, 1)), (Doubles{3}));
  EXPECT_EQ(linspace(0, 1, 0).size(0), 0);
  EXPECT_EQ(values(eye(2, 3)), (Doubles{1, 0, 0, 0, 1, 0}));
}

TEST(Create, LikeKeepsDenseStrides) {
  Tensor x = zeros({2, 3}).t();
  EXPECT_EQ(ones_like(x).strides(), (Ints{1, 3}));
  EXPECT_EQ(full_like(x, 2, kInt64).dtype(), kInt64);
  EXPECT_EQ(zeros_like(x.slice(0, 0, 3, 2)).strides(), (Ints{1, 2}));
  EXPECT_EQ(empty_like(zeros({3, 1}).expand({3, 4})).strides(), (Ints{4, 1}));
}

TEST(Create, EveryElementIsFilled) {
  for (DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
    for (int64_t n : {0, 1, 17, 100003}) {
      EXPECT_EQ(values(ones({n}, dtype)), Doubles(static_cast<size_t>(n), 1)) << dtype << ' ' << n;
      EXPECT_EQ(values(zeros({n}, dtype)), Doubles(static_cast<size_t>(n), 0)) << dtype << ' ' << n;
    }
  EXPECT_THROW(full({2}, 1e30, kFloat16), Error);
  EXPECT_THROW(zeros({-1}), Error);
}

TEST(Create, FromBlobUsesTheCallersMemory) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int freed = 0;
  {
    Tensor x = from_blob(data, {2, 3});
    x.mul_(2);
    EXPECT_EQ(data[5], 10);
    EXPECT_EQ(values(from_blob(data, {3, 2}, {1, 3})), (Doubles{0, 6, 2, 8, 4, 10}));
    Tensor y = from_blob(data, {6}, [&](void*) { ++freed; });
    Tensor view = y.slice(0, 1);
    y.reset();
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  EXPECT_THROW(from_blob(nullptr, {2}), Error);
}

TEST(Copy, CloneKeepsTheOrderOfDimensionsAndContiguousDoesNot) {
  Tensor x = arange(6, kFloat32).view({2, 3}).t();
  EXPECT_EQ(x.clone().strides(), (Ints{1, 3}));
  EXPECT_EQ(x.contiguous().strides(), (Ints{2, 1}));
  EXPECT_EQ(values(x.contiguous()), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(x.clone()), (Doubles{0, 3, 1, 4, 2, 5}));
  Tensor c = x.t();
  EXPECT_TRUE(c.contiguous().is_same(c));
  EXPECT_NE(c.clone()->storage, c->storage);
}

TEST(Copy, CastsRoundTowardZeroAndAliasWhereNothingChanges) {
  Tensor x = tensor({1.9, -0.3, 300.7, -1.5, NAN, INFINITY});
  EXPECT_TRUE(x.to(kFloat32).is_same(x));
  EXPECT_FALSE(x.to(kFloat32, false, true).is_same(x));
  EXPECT_EQ(x.slice(0, 0, 4).to(kInt32).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 300, -1}));
  // Case C72: vector body and tail follow one rule.
  for (double value : {-1.5, 300.7, static_cast<double>(NAN), static_cast<double>(INFINITY), 1.9, -0.3})
    for (DType dtype : {kUInt8, kInt32, kInt64}) {
      const Ints all = full({37}, value).to(dtype).to_vector<int64_t>();
      EXPECT_EQ(std::count(all.begin(), all.end(), all[0]), 37) << value << ' ' << dtype;
    }
  EXPECT_EQ(x.t().to(kFloat64).dtype(), kFloat64);
  Tensor w = tensor({1., 2.}).requires_grad_();
  w.to(kFloat64).mul(3).sum().backward();
  EXPECT_EQ(w.grad().dtype(), kFloat32);
  EXPECT_EQ(values(w.grad()), (Doubles{3, 3}));
}

// A transposed copy of every element size and odd shapes meets every element.
TEST(Copy, TransposedCopiesOfAllSizes) {
  for (DType dtype : {kUInt8, kInt16, kFloat32, kFloat64})
    for (auto [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1}, {7, 9}, {16, 16}, {33, 65}, {130, 70}, {300, 257}}) {
      Tensor x = arange(rows * columns).remainder(101).to(dtype).view({rows, columns});
      const Doubles flat = values(x), turned = values(x.t().contiguous());
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(turned[static_cast<size_t>(c * rows + r)], flat[static_cast<size_t>(r * columns + c)])
              << dtype << ' ' << rows << 'x' << columns;
      Tensor batched = x.view({1, rows, columns}).expand({3, rows, columns}).transpose(1, 2).contiguous();
      EXPECT_TRUE(batched[2].equal(x.t()));
    }
}

// Results beyond the caches are written past them, where rows are aligned.
TEST(Copy, LargeTransposedCopies) {
  for (int64_t columns : {2100, 2051}) {
    Tensor x = arange(2050 * columns, kInt32).view({2050, columns});
    for (const Tensor& source : {x, x.slice(1, 1)}) {
      Tensor turned = source.t().contiguous();
      EXPECT_TRUE(turned.t().equal(source));
      const int32_t* data = turned.data_ptr<int32_t>();
      const int64_t first = columns - source.size(1);
      for (int64_t i = 0; i < turned.numel(); i += 997)
        ASSERT_EQ(data[i], i % 2050 * columns + i / 2050 + first);
    }
  }
}

// Case C90: tensors of no elements and of no dimensions.
TEST(Empty, ViewsAndCopiesWork) {
  Tensor x = zeros({0, 5});
  EXPECT_EQ(x.t().sizes(), (Ints{5, 0}));
  EXPECT_EQ(x.reshape({5, 0}).numel(), 0);
  EXPECT_EQ(x.view({0, 7}).numel(), 0);
  EXPECT_EQ(x.clone().sizes(), (Ints{0, 5}));
  EXPECT_EQ(x.to(kInt64).dtype(), kInt64);
  EXPECT_EQ(x.add(1).numel(), 0);
  x.copy_(zeros({1, 5})).fill_(3).add_(1);
  EXPECT_THROW(x[0], IndexError);
  EXPECT_THROW(x.item(), Error);
  EXPECT_THROW(x.view({0, -1}), Error);
  Tensor s = tensor(2.5);
  EXPECT_EQ(s.view({1}).item<float>(), 2.5f);
  EXPECT_EQ(s.expand({3}).sum().item<float>(), 7.5f);
  EXPECT_EQ(s.t().dim(), 0);
  EXPECT_EQ(s.flatten().sizes(), (Ints{1}));
  EXPECT_EQ(s.transpose(0, -1).dim(), 0);
  EXPECT_EQ(s.unfold(0, 1, 1).sizes(), (Ints{1}));
  EXPECT_EQ(s.clone().fill_(1).item<float>(), 1.f);
}

TEST(Sizes, BytesThatOverflowAreAnError) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THROW(empty({huge}), Error);
  EXPECT_THROW(rand({huge}), Error);
  EXPECT_THROW(randperm(huge), Error);
  EXPECT_THROW(linspace(0, 1, huge), Error);
  EXPECT_THROW(tensor(1.).repeat({huge}), Error);
  EXPECT_THROW(diag(ones({1}), int64_t{1} << 31), Error);
}

TEST(Undefined, OperandIsAnErrorAndNotZero) {
  const Tensor none;
  Tensor x = ones({2});
  EXPECT_THROW(1 - none, Error);
  EXPECT_THROW(add(x, none), Error);
  EXPECT_THROW(where(none, 1, 2), Error);
  EXPECT_THROW(x.add_(none), Error);
  EXPECT_THROW(x.lerp_(none, 1), Error);
  EXPECT_THROW(ones({2}, kInt64).remainder_(none), Error);
  EXPECT_THROW(x.index_put_({0}, none), Error);
  EXPECT_EQ(x.sum().item<float>(), 2.f);
  try {
    none.exp();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("exp: x is an undefined tensor"), std::string::npos)
        << error.what();
  }
}

TEST(Views, FarStridesDoNotWrapAround) {
  const Tensor x = ones({6});
  const int64_t far = int64_t{1} << 62;
  EXPECT_THROW(x.as_strided({4}, {far}), Error);
  EXPECT_THROW(x.as_strided({5, 5}, {far, far}), Error);
  EXPECT_THROW(x.as_strided({2}, {INT64_MAX}), Error);
  EXPECT_THROW(x.as_strided({1}, {1}, INT64_MAX), Error);
}

TEST(Chunk, AnyNumberOfChunksIsServedOrRefused) {
  EXPECT_EQ(ones({3}).chunk(INT64_MAX).size(), 3u);
  EXPECT_EQ(ones({3}).split(INT64_MAX).size(), 1u);
  EXPECT_EQ(zeros({0}).chunk(4).size(), 4u);
  EXPECT_THROW(zeros({0}).chunk(INT64_MAX), Error);
}

}  // namespace
}  // namespace weft
