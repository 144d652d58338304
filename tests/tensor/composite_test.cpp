// Tests of the composites of pointwise ops and of the edge values that they and their ops must keep.
#include <cmath>
#include <limits>

#include "tensor/tensor_data.h"
#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::list;
using testing::List;
using testing::number;
using testing::values;
using testing::vector;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The values of a tensor, read by copy_data so that the test needs no factory.
template <class T>
std::vector<T> elements(const Tensor& x) {
  Tensor flat = make_tensor(Sizes(SymList(x.sizes())), dtype_of<T>);
  copy_data(x, flat);
  const T* data = flat.data_ptr<T>();
  return {data, data + int_numel(flat)};
}
void expect_values(const Tensor& x, const List& expected) {
  const std::vector<double> got = elements<double>(x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    else EXPECT_EQ(got[i], expected[i]) << i;
  }
}
template <class T>
Tensor integers(const std::vector<T>& numbers) {
  Tensor x = make_tensor(Sizes{Sym::from_int(static_cast<int64_t>(numbers.size()))}, dtype_of<T>);
  std::copy(numbers.begin(), numbers.end(), x.data_ptr<T>());
  return x;
}

// C68
template <class T>
void check_integer_division() {
  const T smallest = std::numeric_limits<T>::min();
  const Tensor a = integers<T>({-7, 7, smallest}), b = integers<T>({2, -2, -1});
  EXPECT_EQ(elements<T>(floor_divide(a, b)), (std::vector<T>{-4, -4, smallest}));
  EXPECT_EQ(elements<T>(div(a, b, "floor")), (std::vector<T>{-4, -4, smallest}));
  EXPECT_EQ(elements<T>(div(a, b, "trunc")), (std::vector<T>{-3, -3, smallest}));
  EXPECT_EQ(elements<T>(remainder(integers<T>({-7, 7, smallest}), integers<T>({3, -3, -1}))),
            (std::vector<T>{2, -2, 0}));
  const Tensor zeros = integers<T>({1, 0, 1});
  expect_contains(error_of([&] { floor_divide(a, zeros); }), "divisor holds 0");
  expect_contains(error_of([&] { div(a, 0, "trunc"); }), "divisor holds 0");
  expect_contains(error_of([&] { remainder(a, zeros); }), "divisor holds 0");
}
TEST(IntegerDivision, RoundsAsAskedAndWrapsAtTheSmallestInteger) {
  check_integer_division<int32_t>();
  check_integer_division<int64_t>();
}

TEST(Division, TrueDivisionOfIntegersGivesTheDefaultFloat) {
  const Tensor quotient = integers<int32_t>({7, -7}) / integers<int32_t>({2, 2});
  EXPECT_EQ(quotient.dtype(), kFloat32);
  expect_values(quotient, {3.5, -3.5});
  expect_contains(error_of([&] { div(quotient, 2, "up"); }), "rounding_mode is \"up\"");
}

// C70: the remainder rule, as in PyTorch.
TEST(Division, FloorDivisionOfInfinitiesFollowsTheRemainder) {
  expect_values(floor_divide(vector({kInf, -kInf, kNaN}, kFloat32), 1.0), {kNaN, kNaN, kNaN});
  expect_values(floor_divide(vector({1, -1}, kFloat32), kInf), {0, -1});
}

// C72: saturating, NaN gives 0, and the vector body agrees with the tail.
TEST(Casts, FloatsOutsideTheRangeSaturateInBodyAndTail) {
  const auto check = [](double value, DType to, double expected) {
    Tensor source = vector(List(37, value), kFloat32), target = make_tensor(Sizes{Sym::from_int(37)}, to);
    copy_data(source, target);
    for (double got : elements<double>(target)) EXPECT_EQ(got, expected) << value << " to " << to;
  };
  check(-1.5, kUInt8, 0);
  check(300.7, kUInt8, 255);
  check(kNaN, kUInt8, 0);
  check(kInf, kUInt8, 255);
  check(1.9, kUInt8, 1);
  check(-0.3, kUInt8, 0);
  check(-1.5, kInt32, -1);
  check(kNaN, kInt32, 0);
  check(kInf, kInt32, 2147483647);
  check(kNaN, kInt64, 0);
  check(-kInf, kInt64, -9223372036854775808.0);
}

// C74
TEST(HalfTypes, EveryOpRounds) {
  const Tensor x = vector({256}, kBFloat16);
  expect_values((x + 1) - 256, {0});
}

// C80, C58
TEST(FloatAlgebra, DoesNotPretendThatFloatsAreReals) {
  const Tensor x = vector({kNaN, kInf, 2, -3}, kFloat32);
  expect_values(x * 0, {kNaN, kNaN, 0, -0.0});
  EXPECT_TRUE(std::signbit(elements<double>(x * 0)[3]));
  expect_values(x - x, {kNaN, kNaN, 0, 0});
  const Tensor y = vector({0, 2}, kFloat32);
  expect_values(y / y, {kNaN, 1});
  const Tensor tiny = vector({1e-30}, kFloat32);
  expect_values(sqrt(tiny * tiny), {0});
}

// C64
TEST(NaN, SurvivesClampMaximumMinimumAndRelu) {
  for (DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    for (int repeat : {1, 10}) {  // the second one reaches past the vector body
      List a, b, clamped, rectified;
      for (int i = 0; i < repeat; ++i) {
        a.insert(a.end(), {kNaN, -1, 2, kNaN});
        b.insert(b.end(), {1, kNaN, kNaN, 3});
        clamped.insert(clamped.end(), {kNaN, 0.5, 2, kNaN});
        rectified.insert(rectified.end(), {kNaN, 0, 2, kNaN});
      }
      const Tensor x = vector(a, dtype), y = vector(b, dtype);
      expect_values(clamp_min(x, 0.5), clamped);
      expect_values(clamp(x, 0.5, 5), clamped);
      expect_values(relu(x), rectified);
      expect_values(maximum(x, y), List(a.size(), kNaN));
      expect_values(minimum(x, y), List(a.size(), kNaN));
    }
  }
}

// C84
TEST(Promotion, FollowsTensorsThenZeroDimThenNumbers) {
  const Tensor i32 = integers<int32_t>({1, 2}), i64 = integers<int64_t>({1, 2});
  EXPECT_EQ((i32 * 2.5).dtype(), kFloat32);
  EXPECT_EQ((vector({1, 2}, kBFloat16) + number(1, kFloat64)).dtype(), kBFloat16);
  EXPECT_EQ((i64 + number(1, kFloat32)).dtype(), kFloat32);
  EXPECT_EQ((vector({1, 0}, kBool) + 1).dtype(), kInt64);
  EXPECT_EQ((i32 / i32).dtype(), kFloat32);
}

// C128
TEST(Clamp, BoundsBeyondTheDtypeAreInfinite) {
  expect_values(clamp(vector({1, -2}, kFloat32), -1e39, 1e39), {1, -2});
}

TEST(Clamp, TakesEitherBoundAndTensors) {
  const Tensor x = vector({-2, 0.5, 3}, kFloat32);
  expect_values(clamp(x, {}, 1), {-2, 0.5, 1});
  expect_values(clamp(x, 0), {0, 0.5, 3});
  expect_values(clamp(x, 2, 1), {1, 1, 1});
  expect_values(clip(x, vector({0, 0, 0}, kFloat32), number(2, kFloat32)), {0, 0.5, 2});
  expect_contains(error_of([&] { clamp(x, {}); }), "neither min nor max");
}

TEST(BitwiseNot, FlipsBitsOrTruth) {
  expect_values(bitwise_not(integers<int32_t>({0, 5, -1})), {-1, -6, 0});
  expect_values(bitwise_not(integers<uint8_t>({0, 5})), {255, 250});
  expect_values(~vector({1, 0}, kBool), {0, 1});
  expect_contains(error_of([] { bitwise_not(vector({1.0}, kFloat32)); }), "float32");
}

TEST(MaskedFill, KeepsTheDtype) {
  const Tensor mask = vector({1, 0, 1}, kBool);
  const Tensor big = integers<int64_t>({(int64_t{1} << 53) + 1, (int64_t{1} << 53) + 1, 3});
  const Tensor filled = masked_fill(big, mask, 2.5);
  EXPECT_EQ(filled.dtype(), kInt64);
  EXPECT_EQ(elements<int64_t>(filled), (std::vector<int64_t>{2, (int64_t{1} << 53) + 1, 2}));
  expect_values(masked_fill(vector({1, 2, 3}, kFloat32), mask, number(-1, kFloat32)), {-1, 2, -1});
  expect_contains(error_of([&] { masked_fill(big, big, 0); }), "must be bool");
  expect_contains(error_of([&] { masked_fill(big, mask, big); }), "0-d");
}

TEST(NanToNum, UsesTheLimitsOfTheDtype) {
  const Tensor x = vector({kNaN, kInf, -kInf, 1}, kFloat16);
  expect_values(nan_to_num(x), {0, 65504, -65504, 1});
  expect_values(nan_to_num(vector({kNaN, kInf, -kInf, 1}, kBFloat16), 7, 8, 9), {7, 8, 9, 1});
}

TEST(IsClose, TreatsInfinitiesAndNaNAsPyTorchDoes) {
  const Tensor a = vector({1, kInf, -kInf, kNaN, 1}, kFloat32),
               b = vector({1 + 1e-6, kInf, kInf, kNaN, 2}, kFloat32);
  expect_values(isclose(a, b), {1, 1, 0, 0, 0});
  expect_values(isclose(a, b, 1e-5, 1e-8, true), {1, 1, 0, 1, 0});
  expect_contains(error_of([&] { isclose(a, vector({1, 1, 1, 1, 1}, kFloat64)); }), "one dtype");
  EXPECT_FALSE(allclose(a, b));
  EXPECT_TRUE(allclose(vector({1, 2}, kFloat32), vector({1, 2}, kFloat32)));
}

TEST(Equal, ComparesSizesAndValues) {
  EXPECT_TRUE(equal(vector({1, 2}), vector({1, 2})));
  EXPECT_FALSE(equal(vector({1, 2}), vector({1, 3})));
  EXPECT_FALSE(equal(vector({1, 2}), values({1, 2}, {2, 1})));
  EXPECT_FALSE(equal(vector({kNaN}), vector({kNaN})));
  EXPECT_TRUE(equal(vector({}), vector({})));
}

TEST(Composite, ErrorNamesTheCallersLine) {
  expect_contains(error_of([] { gelu(vector({1.0}), "exact"); }), "composite_test.cpp:");
}

TEST(Composite, CanBeCalledByItsEntry) {
  const Tensor x = vector({-1.0, 4.0}), two = number(2);
  Tensor result = call(WEFT_OP("div"), {x, two}, SourceLocation::current());
  expect_values(result, {-0.5, 2});
}

TEST(Division, GradientsFollowBothOperands) {
  const Tensor a = testing::leaf({1, 4}), b = testing::leaf({2, 8});
  (a / b).backward(vector({1, 1}));
  EXPECT_EQ(list(a.grad()), (List{0.5, 0.125}));
  EXPECT_EQ(list(b.grad()), (List{-0.25, -0.0625}));
}

// alpha is 1 by default, an integer, and must not turn bools into integers.
TEST(Promotion, NumbersBesideTheOperandsDoNotDecideTheDType) {
  const Tensor yes = weft::tensor({true, false}), also = weft::tensor({true, true});
  EXPECT_EQ((yes + also).dtype(), kBool);
  EXPECT_EQ((yes + also).to_vector<bool>(), (std::vector<bool>{true, true}));
  const Tensor x = weft::tensor({1, 2}, kInt32);
  EXPECT_EQ(addcmul(x, x, x).dtype(), kInt32);
  EXPECT_EQ(leaky_relu(weft::tensor({-1.0}, kBFloat16)).dtype(), kBFloat16);
}

}  // namespace
}  // namespace weft
