// operator<<: the texts are those of PyTorch.
#include <gtest/gtest.h>
#include <weft.h>

#include <cmath>
#include <sstream>

namespace weft {
namespace {

std::string text(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST(Print, ValuesAreAligned) {
  EXPECT_EQ(text(tensor(3.5)), "tensor(3.5000)");
  EXPECT_EQ(text(tensor(3)), "tensor(3)");
  EXPECT_EQ(text(tensor({1., 2.})), "tensor([1., 2.])");
  EXPECT_EQ(text(tensor({1.5, -20.25})), "tensor([  1.5000, -20.2500])");
  EXPECT_EQ(text(tensor({{1, 20}, {-3, 4}})), "tensor([[ 1, 20],\n        [-3,  4]])");
  EXPECT_EQ(text(tensor({true, false})), "tensor([ True, False])");
  EXPECT_EQ(text(arange(8, kFloat32).view({2, 2, 2})),
            "tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]])");
  EXPECT_EQ(text(arange(4, kFloat32).view({2, 2}).t()), "tensor([[0., 2.],\n        [1., 3.]])");
}
TEST(Print, ScientificWhereDigitsWouldVanish) {
  EXPECT_EQ(text(tensor({1e-5, 1.})), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(text(tensor({1., 1e9})), "tensor([1.0000e+00, 1.0000e+09])");
  EXPECT_EQ(text(tensor({0.5, 501.})), "tensor([5.0000e-01, 5.0100e+02])");
}
TEST(Print, NonFiniteValues) {
  EXPECT_EQ(text(tensor({1., NAN, INFINITY})), "tensor([1., nan, inf])");
  EXPECT_EQ(text(tensor({0.5, NAN, -INFINITY})), "tensor([0.5000,    nan,   -inf])");
  EXPECT_EQ(text(tensor({0., 0.})), "tensor([0., 0.])");
}
TEST(Print, DTypesThatAreNotTheDefaultAreNamed) {
  EXPECT_EQ(text(tensor({1., 2.}, kFloat64)), "tensor([1., 2.], dtype=float64)");
  EXPECT_EQ(text(tensor({1.5, 2.}, kBFloat16)), "tensor([1.5000, 2.0000], dtype=bfloat16)");
  EXPECT_EQ(text(tensor({1, 2}, kUInt8)), "tensor([1, 2], dtype=uint8)");
  EXPECT_EQ(text(tensor({1., 2.}).requires_grad_()), "tensor([1., 2.], requires_grad=True)");
}
TEST(Print, NothingToPrint) {
  EXPECT_EQ(text(zeros({0})), "tensor([])");
  EXPECT_EQ(text(zeros({0, 3})), "tensor([], sizes [0, 3])");
  EXPECT_EQ(text(zeros({0}, kInt64)), "tensor([], dtype=int64)");
  EXPECT_EQ(text(Tensor()), "tensor(undefined)");
}
TEST(Print, LongTensorsAreShortened) {
  EXPECT_EQ(text(arange(1001)), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(text(zeros({2, 600})),
            "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.]])");
  EXPECT_EQ(text(arange(2048, kFloat32).view({1024, 2})),
            "tensor([[0.0000e+00, 1.0000e+00],\n        [2.0000e+00, 3.0000e+00],\n        [4.0000e+00, "
            "5.0000e+00],\n"
            "        ...,\n        [2.0420e+03, 2.0430e+03],\n        [2.0440e+03, 2.0450e+03],\n"
            "        [2.0460e+03, 2.0470e+03]])");
  EXPECT_LT(text(zeros({100, 100, 100})).size(), 3000u);
}
TEST(Print, LinesBreakAt80Columns) {
  EXPECT_EQ(text(arange(30)),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

}  // namespace
}  // namespace weft
