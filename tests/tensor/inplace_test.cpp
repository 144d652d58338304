// Writing in place: through views, from overlapping sources, with casts; metadata in place; versions; mistakes.
#include <gtest/gtest.h>
#include <weft.h>

#include <cstdlib>

#include "tests/support/error_text.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using namespace indexing;

Floats values(const Tensor& x) { return x.to_vector<float>(); }

// Case C24: elements between those of the view stay.
TEST(InPlace, WriteThroughAViewWithGaps) {
  Tensor base = arange(12, kFloat32);
  Tensor v = base.slice(0, {}, {}, 4);
  v += 100;
  EXPECT_EQ(values(base), (Floats{100, 1, 2, 3, 104, 5, 6, 7, 108, 9, 10, 11}));
}

// Case C26: rows shifted by one, small and large.
TEST(InPlace, OverlappingCopyReadsBeforeItWrites) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{4, 2}, {1024, 2048}}) {
    Tensor x = arange(rows, kFloat32).view({rows, 1}).expand({rows, columns}).contiguous();
    Tensor down = x.clone();
    down.slice(0, 1).copy_(down.slice(0, 0, rows - 1));
    EXPECT_EQ(down[0][0].item<float>(), 0);
    EXPECT_TRUE(down.slice(0, 1).equal(x.slice(0, 0, rows - 1)));
    Tensor up = x.clone();
    up.slice(0, 0, rows - 1).copy_(up.slice(0, 1));
    EXPECT_TRUE(up.slice(0, 0, rows - 1).equal(x.slice(0, 1)));
  }
  Tensor square = arange(9, kFloat32).view({3, 3});
  square.copy_(square.t());
  EXPECT_EQ(values(square), (Floats{0, 3, 6, 1, 4, 7, 2, 5, 8}));
  // Two wrappers of the same memory are as much one memory as two views.
  float data[5] = {1, 2, 3, 4, 5};
  from_blob(data + 1, {4}).copy_(from_blob(data, {4}));
  EXPECT_EQ(data[4], 4);
  EXPECT_EQ(data[1], 1);
}

TEST(InPlace, CopyBroadcastsAndConverts) {
  Tensor x = zeros({2, 3}, kInt32);
  x.copy_(tensor({1.9, -2.9, 3.}));
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{1, -2, 3, 1, -2, 3}));
  x.copy_(tensor(7.));
  EXPECT_EQ(x.sum().item<int64_t>(), 42);
  EXPECT_EQ(tests::first_line_of_error([&] { x.copy_(zeros({2})); }),
            "copy_: the source of sizes [2] does not broadcast to the sizes [2, 3] of the tensor that is "
            "written to");
  EXPECT_EQ(tests::first_line_of_error([&] { x.fill_(zeros({1})); }),
            "fill_: the value has sizes [1]; it must be a number or a tensor without dimensions");
  x.t().fill_(tensor(4));
  EXPECT_EQ(x.sum().item<int64_t>(), 24);
  x.slice(1, 0, 3, 2).zero_();
  EXPECT_EQ(x.sum().item<int64_t>(), 8);
}

TEST(InPlace, PointwiseOpsWriteTheirTensor) {
  Tensor x = tensor({1., 4., 9.});
  const void* data = x.data_ptr();
  x.sqrt_().neg_().add_(10, 0.5).mul_(2).sub_(tensor(1.)).div_(3).clamp_(2, 3);
  EXPECT_EQ(x.data_ptr(), data);
  const Tensor expected = ((-tensor({1., 2., 3.}) + 5) * 2 - 1).div(3).clamp(2, 3);
  EXPECT_TRUE(x.equal(expected));
  Tensor i = tensor({7, -7});
  i.div_(2, "floor");
  EXPECT_EQ(i.to_vector<int64_t>(), (Ints{3, -4}));
  i.bitwise_not_();
  EXPECT_EQ(i.to_vector<int64_t>(), (Ints{-4, 3}));
  EXPECT_THROW(i.div_(2), Error);
  EXPECT_THROW(i.add_(0.5), Error);
  EXPECT_THROW(tensor({1., 2.}).add_(zeros({2, 2})), Error);
  Tensor m = tensor({1., 2., 3.});
  m.masked_fill_(m > 1.5, -1);
  EXPECT_EQ(values(m), (Floats{1, -1, -1}));
  m.lerp_(zeros({3}), 0.5).addcmul_(ones({3}), ones({3}), 2).leaky_relu_();
  EXPECT_EQ(values(m), (Floats{2.5, 1.5, 1.5}));
  Tensor half = tensor({1., 2.}, kBFloat16);
  half += 1;
  EXPECT_EQ(values(half), (Floats{2, 3}));
}

TEST(InPlace, OverlappingOperandsAreReadFirst) {
  Tensor x = tensor({1., 2., 3., 4., 5.});
  x.slice(0, 1).add_(x.slice(0, 0, 4));
  EXPECT_EQ(values(x), (Floats{1, 3, 5, 7, 9}));
  x.slice(0, 0, 4).mul_(x.slice(0, 1));
  EXPECT_EQ(values(x), (Floats{3, 15, 35, 63, 9}));
  Tensor m = arange(4, kFloat32).view({2, 2});
  m.add_(m.t());
  EXPECT_EQ(values(m), (Floats{0, 3, 3, 6}));
  m.add_(m);
  EXPECT_EQ(values(m), (Floats{0, 6, 6, 12}));
  float data[5] = {1, 2, 3, 4, 5};
  from_blob(data + 1, {4}).add_(from_blob(data, {4}));
  EXPECT_EQ(Floats(data, data + 5), (Floats{1, 3, 5, 7, 9}));
}

TEST(InPlace, ExpandedViewsAreRefused) {
  Tensor x = zeros({3, 1}).expand({3, 4});
  EXPECT_THROW(x.add_(1), Error);
  EXPECT_THROW(x.fill_(1), Error);
}

TEST(InPlace, VersionsCountWritesThroughAnyView) {
  Tensor x = zeros({4});
  Tensor v = x.slice(0, 1);
  const uint32_t before = x.version();
  v.add_(1);
  x.unsqueeze_(0);
  EXPECT_EQ(x.version(), before + 1);
  EXPECT_EQ(v.version(), before + 1);
}

TEST(InPlace, GradientsOfCopyAndFill) {
  Tensor x = ones({2, 3}).requires_grad_(), w = tensor({1., 2., 3.}).requires_grad_();
  Tensor y = x * 2;
  y.select(0, 0).copy_(w);
  (y * 3).sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{0, 0, 0, 6, 6, 6}));
  EXPECT_EQ(values(w.grad()), (Floats{3, 3, 3}));
  Tensor z = ones({2}).requires_grad_(), s = tensor(5.).requires_grad_();
  Tensor f = z * 2;
  f.fill_(s);
  f.sum().backward();
  EXPECT_EQ(values(z.grad()), (Floats{0, 0}));
  EXPECT_EQ(s.grad().item<float>(), 2);
  // The source of a copy of another dtype gets its gradient in its own.
  Tensor h = tensor({1., 2.}, kBFloat16).requires_grad_();
  Tensor target = zeros({3, 2});
  target.copy_(h);
  target.sum().backward();
  EXPECT_EQ(h.grad().dtype(), kBFloat16);
  EXPECT_EQ(values(h.grad()), (Floats{3, 3}));
}

// ---- Metadata ---------------------------------------------------------------------------------------------------------

// Case C32: a reshaped intermediate is not a view to its user.
TEST(Metadata, UnsqueezeOfAnIntermediateKeepsItsHistory) {
  Tensor x = tensor({1., 2.}).requires_grad_();
  Tensor y = 2 * x;
  y.unsqueeze_(0);
  y.mul_(2);
  EXPECT_EQ(y.sizes(), (Ints{1, 2}));
  EXPECT_EQ(values(y), (Floats{4, 8}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{4, 4}));
}
TEST(Metadata, TransposeReachesEveryHandle) {
  Tensor x = arange(6, kFloat32).view({2, 3}).clone();
  Tensor other = x;
  x.t_();
  EXPECT_EQ(other.sizes(), (Ints{3, 2}));
  EXPECT_FALSE(other.is_contiguous());
  EXPECT_EQ(other[2][1].item<float>(), 5);
  x.unsqueeze_(1).squeeze_(1).transpose_(0, 1);
  EXPECT_TRUE(other.is_contiguous());
  EXPECT_THROW(x.transpose_(0, 2), IndexError);
  EXPECT_THROW(ones({2}).requires_grad_().unsqueeze_(0), Error);
}
TEST(Metadata, ATransposedIntermediateSendsItsGradientBackTransposed) {
  Tensor x = ones({2, 3}).requires_grad_();
  Tensor y = x * 1;
  y.t_();
  (y * arange(6, kFloat32).view({3, 2})).sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{0, 2, 4, 1, 3, 5}));
}

// Case C34: strides of results are those of eager PyTorch.
TEST(Layout, ResultsKeepTheOrderOfTheirInputs) {
  Tensor x = zeros({4, 4});
  Tensor y = x.clone().select(1, 1);
  y.fill_(0);
  EXPECT_EQ(y.strides(), (Ints{4}));
  EXPECT_EQ((2 * zeros({2, 3}).t()).strides(), (Ints{1, 3}));
}
// Case C20: a stride of a size-1 dimension says nothing.
TEST(Layout, SizeOneStridesChangeNothing) {
  Tensor row = arange(64 * 8, kFloat32).view({8, 64}).slice(0, 0, 1).slice(1, 0, 8);
  EXPECT_EQ(row.strides(), (Ints{64, 1}));
  EXPECT_TRUE(row.is_contiguous());
  EXPECT_EQ(values(2 * row), values(2 * row.clone()));
}

TEST(Layout, EighteenDimensionsInOppositeOrders) {
  const std::vector<int64_t> sizes(18, 2);
  std::vector<int64_t> backwards;
  for (int64_t d = 17; d >= 0; --d) backwards.push_back(d);
  Tensor x = arange(int64_t{1} << 18, kFloat32).view(sizes), y = x.permute(backwards);
  EXPECT_EQ(values(x + y), values(x + y.contiguous()));
}

// Case C92, 4 GB: WEFT_TEST_HUGE=1.
TEST(Huge, MoreThan2To31Elements) {
  if (std::getenv("WEFT_TEST_HUGE") == nullptr) GTEST_SKIP() << "takes 5 GB; set WEFT_TEST_HUGE=1";
  const int64_t n = (int64_t{1} << 31) + 8;
  Tensor x = zeros({n}, kUInt8);
  x.slice(0, n - 5, n - 4).fill_(7);
  x.mul_(2).add_(1);
  EXPECT_EQ(x[n - 5].item<int64_t>(), 15);
  EXPECT_EQ(x[-1].item<int64_t>(), 1);
  EXPECT_EQ(x.slice(0, n - 6, n - 4).clone().to_vector<int64_t>(), (Ints{1, 15}));
  Tensor wide = x.as_strided({2, 4}, {n - 6, 1}, 0);
  EXPECT_EQ(wide.contiguous().to_vector<int64_t>(), (Ints{1, 1, 1, 1, 1, 15, 1, 1}));
}

}  // namespace
}  // namespace weft
