// What PyTorch refuses is refused, and what it converts is converted: bools without a sign, integers to negative powers,
// numbers beside the range of a dtype, memory that no address reaches.
#include <weft.h>

#include <cmath>
#include <limits>

#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::list;
using testing::List;

TEST(Pow, IntegersTakeNoNegativePower) {
  const Tensor x = tensor({1, 2, -1});
  expect_contains(error_of([&] { pow(x, -1); }), "pow: the exponent is -1");
  expect_contains(error_of([&] { x.to(kUInt8).pow(-2); }), "pow: the exponent is -2");
  expect_contains(error_of([&] { pow(tensor({true}), -1); }), "pow: the exponent is -1");
  Tensor y = x.clone();
  expect_contains(error_of([&] { y.pow_(-3); }), "pow_: the exponent is -3");
  EXPECT_EQ(list(y), (List{1, 2, -1}));
  EXPECT_EQ(list(pow(x, -1.0)), (List{1, 0.5, -1}));
  EXPECT_EQ(list(pow(tensor({2., 4.}), -1)), (List{0.5, 0.25}));
  // Of tensors PyTorch asks nothing: 1 and -1 keep their powers, all else becomes 0.
  EXPECT_EQ(list(pow(tensor({2, 1, -1, -1, 0}), tensor({-1, -2, -3, -2, 0}))), (List{0, 1, -1, 1, 1}));
  EXPECT_EQ(list(pow(2, tensor({-1, 3}))), (List{0, 8}));
}

TEST(Sub, BoolsHaveNoDifference) {
  const Tensor mask = tensor({true, false}), whole = tensor({3, 4}), x = tensor({1.5, 2.5});
  for (const auto& subtract :
       std::vector<std::function<void()>>{[&] { mask - mask; }, [&] { mask - 1; }, [&] { 1 - mask; },
                                          [&] { whole - mask; }, [&] { mask - whole; }, [&] { x - mask; },
                                          [&] { x - true; }, [&] { whole - true; }, [&] { sub(x, mask, 2); }})
    expect_contains(error_of(subtract), "sub: does not take bools");
  expect_contains(error_of([&] { rsub(mask, 1); }), "rsub: does not take bools");
  Tensor y = x.clone();
  expect_contains(error_of([&] { y -= mask; }), "sub_: does not take bools");
  expect_contains(error_of([&] { y.sub_(true); }), "sub_: does not take bools");
  EXPECT_EQ(list(y), (List{1.5, 2.5}));
  expect_contains(error_of([&] { -mask; }), "neg: does not take bools");
  EXPECT_EQ(list(mask + mask), (List{1, 0}));
  EXPECT_EQ(list(x - x * 2), (List{-1.5, -2.5}));
  EXPECT_EQ(list(~mask), (List{0, 1}));
}

// ---- Numbers that become elements ---------------------------------------------------------------------------------------

// Each op that writes a number, as a function from a tensor [3] to one that holds the number somewhere.
struct Writer {
  const char* name;
  std::function<Tensor(const Tensor&, Scalar)> write;
};
const std::vector<Writer>& writers() {
  static const Tensor mask = tensor({false, true, false}), index = tensor({1});
  static const std::vector<Writer> all = {
      {"masked_fill", [](const Tensor& x, Scalar v) { return x.masked_fill(mask, v); }},
      {"index_fill", [](const Tensor& x, Scalar v) { return x.index_fill(0, index, v); }},
      {"scatter", [](const Tensor& x, Scalar v) { return x.scatter(0, index, v); }},
      {"index_put", [](const Tensor& x, Scalar v) { return index_put(x, {index}, v); }},
      {"pad",
       [](const Tensor& x, Scalar v) {
         return pad(x, {1, 0}, "constant", v).flip({0}).narrow(0, 2, 2);
       }},
      {"masked_fill_", [](Tensor x, Scalar v) { return x.masked_fill_(mask, v); }},
      {"index_fill_", [](Tensor x, Scalar v) { return x.index_fill_(0, index, v); }},
      {"scatter_", [](Tensor x, Scalar v) { return x.scatter_(0, index, v); }},
      {"index_put_", [](Tensor x, Scalar v) { return x.index_put_({index}, v); }},
      {"fill_", [](Tensor x, Scalar v) { return x.fill_(v); }},
      {"full_like", [](const Tensor& x, Scalar v) { return full_like(x, v); }},
  };
  return all;
}

TEST(Numbers, OutsideTheDTypeAreRefused) {
  struct Case {
    Scalar number;
    DType dtype;
  };
  const Case cases[] = {{300, kUInt8},       {-300, kUInt8},   {128, kInt8},   {-32769, kInt16},
                        {1LL << 31, kInt32}, {3e9, kInt32},    {1e19, kInt64}, {1e6, kFloat16},
                        {1e300, kFloat32},   {1e39, kBFloat16}};
  for (const Writer& writer : writers()) {
    for (const Case& c : cases) {
      SCOPED_TRACE(::testing::Message() << writer.name << " " << c.number << " " << name_of(c.dtype));
      Tensor x = zeros({3}, c.dtype);
      const std::string text = error_of([&] { writer.write(x, c.number); });
      expect_contains(text, "lies outside");
      expect_contains(text, std::string(writer.name) + ": ");
      expect_contains(text, "refusal_test.cpp:");
      EXPECT_EQ(list(x), (List{0, 0, 0}));
    }
  }
}

TEST(Numbers, OfAnotherCategoryAreConverted) {
  struct Case {
    Scalar number;
    DType dtype;
    double stored;
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Case cases[] = {{1.5, kInt64, 1},        {-1.5, kInt32, -1},  {-1, kUInt8, 255},
                        {2.5, kBool, 1},         {true, kFloat32, 1}, {7, kFloat16, 7},
                        {-inf, kBFloat16, -inf}, {inf, kFloat16, inf}};
  for (const Writer& writer : writers()) {
    for (const Case& c : cases) {
      SCOPED_TRACE(::testing::Message() << writer.name << " " << c.number << " " << name_of(c.dtype));
      const Tensor y = writer.write(zeros({3}, c.dtype), c.number);
      EXPECT_EQ(y.dtype(), c.dtype);
      const List got = list(y);
      EXPECT_NE(std::find(got.begin(), got.end(), c.stored), got.end());
    }
  }
  EXPECT_TRUE(std::isnan(list(zeros({3}).masked_fill(tensor({true, false, false}), NAN))[0]));
}

// ---- Memory of the caller -----------------------------------------------------------------------------------------------

TEST(FromBlob, ReachesNoFurtherThanAnAddress) {
  std::vector<float> memory(4);
  const int64_t far = int64_t{1} << 61;
  for (const auto& make : std::vector<std::function<void()>>{
           [&] {
             from_blob(memory.data(), {far, 2});
           },
           [&] {
             from_blob(memory.data(), {far, far, far, far});
           },
           [&] {
             from_blob(memory.data(), {far, far}, {0, 0});
           },
           [&] { from_blob(memory.data(), {3}, {far}); }, [&] { from_blob(memory.data(), {far}, kFloat64); },
           [&] { from_blob(memory.data(), {2}, {2 * far}); }}) {
    const std::string text = error_of(make);
    expect_contains(text, "from_blob: sizes");
    expect_contains(text, "refusal_test.cpp:");
  }
  EXPECT_EQ(from_blob(memory.data(), {0, far}).numel(), 0);
  EXPECT_EQ(list(from_blob(memory.data(), {2, 2}, {1, 1})), (List{0, 0, 0, 0}));
}

// Two tensors made by from_blob have two storages, but what lies in one is overwritten by a write into the other.
TEST(FromBlob, AWriteReadsWhatAnotherWrapperOfTheMemoryHoldsFirst) {
  const auto overlapping = [](const std::function<void(Tensor to, const Tensor& from)>& write) {
    std::vector<float> memory = {0, 1, 2, 3, 4, 5};
    write(from_blob(memory.data() + 1, {5}), from_blob(memory.data(), {5}));
    return List(memory.begin(), memory.end());
  };
  const List shifted = {0, 0, 1, 2, 3, 4};
  const Tensor all = arange(5);
  EXPECT_EQ(overlapping([&](Tensor to, const Tensor& from) { to.index_copy_(0, all, from); }), shifted);
  EXPECT_EQ(overlapping([&](Tensor to, const Tensor& from) { to.scatter_(0, all, from); }), shifted);
  EXPECT_EQ(overlapping([&](Tensor to, const Tensor& from) { to.index_put_({all}, from); }), shifted);
  EXPECT_EQ(overlapping([&](Tensor to, const Tensor& from) { to.index_add_(0, all, from); }),
            (List{0, 1, 3, 5, 7, 9}));
  EXPECT_EQ(overlapping([&](Tensor to, const Tensor& from) { to.scatter_add_(0, all, from); }),
            (List{0, 1, 3, 5, 7, 9}));
  // An index that the write itself would change.
  std::vector<int64_t> memory = {3, 2, 1, 0};
  from_blob(memory.data(), {4}, kInt64).index_fill_(0, from_blob(memory.data(), {4}, kInt64), 9);
  EXPECT_EQ(memory, (std::vector<int64_t>{9, 9, 9, 9}));
}

}  // namespace
}  // namespace weft
