// Views: strides, aliasing, gradients of partial and overlapping views, and the text of mistakes.
#include <gtest/gtest.h>
#include <weft.h>

#include "tensor/ops/view.h"
#include "tests/support/error_text.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor numbers(const SymList& sizes, TensorOptions options = {}) {
  Sym count = product(sizes);
  return arange(Scalar(count), options.dtype(options.has_dtype() ? options.dtype() : kFloat32)).view(sizes);
}
Floats values(const Tensor& x) { return x.to_vector<float>(); }

void expect_view(const Tensor& view, const Tensor& base, Ints sizes, Ints strides, int64_t offset) {
  EXPECT_EQ(view.sizes().vec(), sizes);
  EXPECT_EQ(view.strides().vec(), strides);
  EXPECT_EQ(view.storage_offset(), offset);
  EXPECT_EQ(view->storage, base->storage);
}

TEST(View, StridesAndOffsetsAreThoseOfPyTorch) {
  Tensor x = numbers({2, 3, 4});
  expect_view(x.view({6, 4}), x, {6, 4}, {4, 1}, 0);
  expect_view(x.view({-1}), x, {24}, {1}, 0);
  expect_view(x.reshape({4, -1}), x, {4, 6}, {6, 1}, 0);
  expect_view(x.transpose(0, -1), x, {4, 3, 2}, {1, 4, 12}, 0);
  expect_view(x.permute({2, 0, 1}), x, {4, 2, 3}, {1, 12, 4}, 0);
  expect_view(x.movedim(0, 2), x, {3, 4, 2}, {4, 1, 12}, 0);
  expect_view(x.slice(1, 1), x, {2, 2, 4}, {12, 4, 1}, 4);
  expect_view(x.slice(2, -3, 100, 2), x, {2, 3, 2}, {12, 4, 2}, 1);
  expect_view(x.slice(1, 2, 1), x, {2, 0, 4}, {12, 4, 1}, 8);
  expect_view(x.select(1, -1), x, {2, 4}, {12, 1}, 8);
  expect_view(x.narrow(2, 1, 2), x, {2, 3, 2}, {12, 4, 1}, 1);
  expect_view(x.narrow(2, -2, 2), x, {2, 3, 2}, {12, 4, 1}, 2);
  expect_view(x.diagonal(0, 1, 2), x, {2, 3}, {12, 5}, 0);
  expect_view(x.diagonal(1, 1, 2), x, {2, 3}, {12, 5}, 1);
  expect_view(x.diagonal(-1, 1, 2), x, {2, 2}, {12, 5}, 4);
  expect_view(x.unsqueeze(1), x, {2, 1, 3, 4}, {12, 12, 4, 1}, 0);
  expect_view(x.unsqueeze(-1), x, {2, 3, 4, 1}, {12, 4, 1, 1}, 0);
  expect_view(x.unsqueeze(1).squeeze(), x, {2, 3, 4}, {12, 4, 1}, 0);
  expect_view(x.unsqueeze(1).squeeze(0), x, {2, 1, 3, 4}, {12, 12, 4, 1}, 0);
  expect_view(x.slice(0, 0, 1).expand({5, -1, 4}), x, {5, 3, 4}, {0, 4, 1}, 0);
  expect_view(x.flatten(1), x, {2, 12}, {12, 1}, 0);
  expect_view(x.unflatten(2, {2, -1}), x, {2, 3, 2, 2}, {12, 4, 2, 1}, 0);
  expect_view(x.unfold(2, 3, 1), x, {2, 3, 2, 3}, {12, 4, 1, 1}, 0);
  expect_view(x.as_strided({2, 2}, {1, 2}, 3), x, {2, 2}, {1, 2}, 3);
  expect_view(x.view(kInt32), x, {2, 3, 4}, {12, 4, 1}, 0);
  expect_view(x.view(kInt16), x, {2, 3, 8}, {24, 8, 1}, 0);
  expect_view(x.slice(0, 1).view(kFloat64), x, {1, 3, 2}, {6, 2, 1}, 6);
  expect_view(x.alias(), x, {2, 3, 4}, {12, 4, 1}, 0);
  EXPECT_EQ(x.unfold(2, 3, 1)[1][0][1].to_vector<float>(), (Floats{13, 14, 15}));
}

TEST(View, PiecesCoverTheTensor) {
  Tensor x = numbers({7, 2});
  std::vector<Tensor> pieces = x.split(3);
  ASSERT_EQ(pieces.size(), 3u);
  expect_view(pieces[2], x, {1, 2}, {2, 1}, 12);
  pieces = x.split({1, 4, 2});
  expect_view(pieces[1], x, {4, 2}, {2, 1}, 2);
  pieces = x.chunk(3);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].size(0), 1);
  pieces = x.unbind(1);
  expect_view(pieces[1], x, {7}, {2}, 1);
  EXPECT_EQ(zeros({0, 2}).chunk(3).size(), 3u);
  EXPECT_EQ(zeros({0, 2}).split(4).size(), 1u);
}

// Case C06: outer dimensions merge although the tensor has gaps; the result writes into the base.
TEST(View, ReshapeOfAStridedTensorIsAViewWhereItCanBe) {
  Tensor base = numbers({4, 3, 8});
  for (int64_t n : {5, 6}) {
    Tensor y = base.slice(2, 0, n).reshape({12, n});
    expect_view(y, base, {12, n}, {8, 1}, 0);
    EXPECT_EQ(y[1][0].item<float>(), 8);
    EXPECT_EQ(y[11][n - 1].item<float>(), static_cast<float>(88 + n - 1));
  }
  Tensor copy = base.transpose(0, 2).reshape({-1});
  EXPECT_NE(copy->storage, base->storage);
  EXPECT_EQ(copy[1].item<float>(), 24);
}

// Case C36: a slice of an unaligned tensor shares its memory.
TEST(View, SliceOfAnUnalignedTensorSharesMemory) {
  Tensor buffer = numbers({100004});
  Tensor m = buffer.slice(0, 1);
  Tensor y = m * tanh(m);
  Tensor aligned = m.clone();
  EXPECT_TRUE(y.equal(aligned * tanh(aligned)));
  expect_view(m.slice(0, 0, 4), buffer, {4}, {1}, 1);
}

// Case C38: a no-op reinterpretation is still a view.
TEST(View, SameDTypeReinterpretIsAView) {
  Tensor x = zeros({4, 4});
  x.view(kFloat32).copy_(ones({4, 4}));
  EXPECT_EQ(x.sum().item<float>(), 16);
}

TEST(View, MistakesSayWhatWouldBeRight) {
  Tensor x = numbers({2, 3});
  EXPECT_EQ(tests::first_line_of_error([&] { x.t().view({6}); }),
            "view: a tensor of sizes [3, 2] and strides [1, 3] cannot be seen as [6]: a dimension of the "
            "view would "
            "span two that are not adjacent; use reshape(), which copies");
  EXPECT_EQ(tests::first_line_of_error([&] {
              x.reshape({4, -1});
            }),
            "reshape: sizes [4, -1] do not divide the 6 elements of the tensor [2, 3]");
  EXPECT_EQ(tests::first_line_of_error([&] { x.view({5}); }),
            "view: sizes [5] hold 5 elements, but the tensor [2, 3] has 6");
  EXPECT_EQ(tests::first_line_of_error([&] { x.select(0, 2); }),
            "select: index 2 is out of range for dimension 0 of the tensor [2, 3]; it takes -2 to 1");
  EXPECT_EQ(tests::first_line_of_error([&] { x.narrow(1, 2, 2); }),
            "narrow: start 2 and length 2 reach beyond dimension 1 of [2, 3]");
  EXPECT_EQ(tests::first_line_of_error([&] { x.as_strided({4}, {2}); }),
            "as_strided: sizes [4] with strides [2] and offset 0 reach element 6 of a storage of 6 elements");
  EXPECT_EQ(tests::first_line_of_error([&] { x.slice(0, 0, 2, 0); }),
            "slice: step is 0; it must be 1 or more");
  EXPECT_EQ(tests::first_line_of_error([&] {
              x.expand({2, 4});
            }),
            "expand: dimension 1 of the tensor [2, 3] has size 3, not 1, and cannot become 4 of [2, 4]");
  EXPECT_EQ(tests::first_line_of_error([&] {
              x.split({1, 2}, 1).size() == 2 ? x.split({1, 1}, 1) : std::vector<Tensor>();
            }),
            "split: sizes [1, 1] add up to 2, but dimension 1 of [2, 3] has 3");
  EXPECT_EQ(
      tests::first_line_of_error([&] { x.view(kFloat64); }),
      "view: the last dimension of [2, 3] has 3 elements of 4 bytes, which do not fill elements of 8 bytes");
  EXPECT_THROW(x.select(0, 5), IndexError);
  EXPECT_THROW(x.transpose(0, 2), IndexError);
  EXPECT_THROW(zeros({}).select(0, 0), IndexError);
  EXPECT_THROW(zeros({0})[0], IndexError);
}

// ---- Gradients --------------------------------------------------------------------------------------------------------

// The gradient of sum(weights * view(x)) with weights 1, 2, 3, …
template <class F>
Floats gradient(const Tensor& base, F view) {
  Tensor x = base.detach().clone().requires_grad_();
  Tensor y = view(x);
  (y * (numbers(SymList(y.sizes())) + 1)).sum().backward();
  return values(x.grad());
}

TEST(ViewGradient, PartialViewsFillWithZeros) {
  Tensor x = numbers({2, 3});
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.slice(1, 1); }), (Floats{0, 1, 2, 0, 3, 4}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.slice(1, 0, 3, 2); }), (Floats{1, 0, 2, 3, 0, 4}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.select(1, -1); }), (Floats{0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.diagonal(1); }), (Floats{0, 1, 0, 0, 0, 2}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.t(); }), (Floats{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(gradient(x,
                     [](const Tensor& t) {
                       return t.permute({1, 0}).reshape({-1});
                     }),
            (Floats{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.unsqueeze(0).squeeze(); }),
            (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(gradient(numbers({1, 3}),
                     [](const Tensor& t) {
                       return t.expand({2, 2, 3});
                     }),
            (Floats{22, 26, 30}));
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.split(2, 1)[1]; }), (Floats{0, 0, 1, 0, 0, 2}));
}

TEST(ViewGradient, OverlappingViewsAddUp) {
  Tensor x = numbers({5});
  // Windows (0,1,2), (1,2,3), (2,3,4) with weights 1 to 9.
  EXPECT_EQ(gradient(x, [](const Tensor& t) { return t.unfold(0, 3, 1); }),
            (Floats{1, 2 + 4, 3 + 5 + 7, 6 + 8, 9}));
  EXPECT_EQ(gradient(x,
                     [](const Tensor& t) {
                       return t.as_strided({3, 3}, {1, 1}, 0);
                     }),
            (Floats{1, 2 + 4, 3 + 5 + 7, 6 + 8, 9}));
  EXPECT_EQ(gradient(x,
                     [](const Tensor& t) {
                       return t.as_strided({2, 2}, {0, 1}, 1);
                     }),
            (Floats{0, 4, 6, 0, 0}));
  // A half sum rounds once: 256 + 1 + 1 is 258, not 256.
  Tensor h = zeros({2}, kBFloat16).requires_grad_();
  Tensor weights = tensor({256., 0., 1., 0., 1., 0.}, kBFloat16).view({3, 2});
  (h.as_strided({3, 2}, {0, 1}, 0) * weights).sum().backward();
  EXPECT_EQ(values(h.grad())[0], 258);
}

TEST(ViewGradient, AsStridedOfAStridedBaseIsPyTorchs) {
  // The base is a transposed view: places in the storage, not indices, decide.
  Tensor x = numbers({2, 3}).requires_grad_();
  Tensor y = x.t();  // strides (1, 3)
  (y.as_strided({2}, {1}, 1) * tensor({10., 20.})).sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{0, 10, 20, 0, 0, 0}));
  // A base with an offset: an absolute offset of 1 lies before its first element.
  Tensor z = numbers({6}).requires_grad_();
  (z.slice(0, 2).as_strided({2}, {1}, 3) * tensor({10., 20.})).sum().backward();
  EXPECT_EQ(values(z.grad()), (Floats{0, 0, 0, 10, 20, 0}));
}

TEST(ViewGradient, PartialViewsAreTwiceDifferentiable) {
  Tensor x = numbers({2, 3}, kFloat64).requires_grad_();
  const auto check = [&](auto f) {
    EXPECT_TRUE(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; }, {x}));
    EXPECT_TRUE(autograd::gradgradcheck(
        [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; }, {x}));
  };
  check([](const Tensor& t) { return square(t.slice(1, 1)); });
  check([](const Tensor& t) { return square(t.unfold(1, 2, 1)); });
  check([](const Tensor& t) { return square(t.t().as_strided({2, 2}, {1, 1}, 1)); });
  check([](const Tensor& t) { return square(t.diagonal()); });
}

TEST(ViewScatter, WritesIntoACopy) {
  Tensor x = numbers({2, 3});
  Tensor y = scatter_through_view(WEFT_OP("select"), {int64_t{1}, int64_t{0}}, {2, 3}, full({2}, 9.f), x,
                                  SourceLocation::current());
  EXPECT_EQ(values(y), (Floats{9, 1, 2, 9, 4, 5}));
  EXPECT_EQ(values(x), (Floats{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace weft
