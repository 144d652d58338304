// Gradients of the index ops against finite differences, first and second; and the bug reports about them.
#include "autograd/gradcheck.h"
#include "tests/tensor/index_cases.h"

namespace weft {
namespace {

using namespace testing_values;
using autograd::gradcheck;
using autograd::gradgradcheck;
using Inputs = autograd::variable_list;

Tensor leaf(Place sizes, unsigned seed = 1) {
  return random_tensor(std::move(sizes), DType::Float64, seed).requires_grad_();
}
template <class F>
void check(F f, const Inputs& inputs) {
  EXPECT_TRUE(gradcheck(f, inputs));
  EXPECT_TRUE(gradgradcheck(f, inputs));
}

TEST(IndexGradient, ReadingOps) {
  const Tensor x = leaf({4, 3});
  const Tensor places = random_index({5, 2}, 0, 4), row = random_index({6}, 0, 4);
  check([&](const Inputs& in) { return gather(in[0], 0, places); }, {x});
  check([&](const Inputs& in) { return index_select(in[0], 0, row); }, {x});
  check([&](const Inputs& in) { return embedding(in[0], places); }, {x});
  check(
      [&](const Inputs& in) {
        return index(in[0], {random_index({2, 2}, -4, 4), random_index({2}, -3, 3)});
      },
      {x});
  check([&](const Inputs& in) { return index(in[0], {Tensor(), random_index({2}, -3, 3)}); }, {x});
  const Tensor mask = random_tensor({4, 3}, DType::Bool);
  check([&](const Inputs& in) { return index(in[0], {mask}); }, {x});
  check([&](const Inputs& in) { return masked_select(in[0], mask); }, {x});
  check([&](const Inputs& in) { return take_along_dim(in[0], random_index({1, 3}, 0, 4), 0); }, {x});
}

TEST(IndexGradient, WritingOps) {
  const Tensor x = leaf({4, 3}), source = leaf({5, 3}, 2);
  const Tensor row = index_tensor({3, 0, 3, 1, 1}, {5}), unique = index_tensor({3, 0}, {2});
  const Tensor wide = random_index({4, 2}, 0, 4), apart = index_tensor({3, 1, 0, 2}, {2, 2});
  check([&](const Inputs& in) { return scatter_add(in[0], 0, wide, in[1]); }, {x, source});
  check([&](const Inputs& in) { return scatter(in[0], 0, apart, in[1]); }, {x, source});
  check([&](const Inputs& in) { return scatter(in[0], 0, wide, 3); }, {x});
  check([&](const Inputs& in) { return index_add(in[0], 0, row, in[1], 1.5); }, {x, source});
  check([&](const Inputs& in) { return index_copy(in[0], 0, unique, in[1]); }, {x, leaf({2, 3}, 3)});
  check([&](const Inputs& in) { return index_fill(in[0], 0, unique, 2); }, {x});
  check([&](const Inputs& in) { return index_put(in[0], {row}, in[1], true); }, {x, source});
  check([&](const Inputs& in) { return index_put(in[0], {unique}, in[1]); }, {x, leaf({3}, 4)});
  check(
      [&](const Inputs& in) {
        return index_put(in[0], {random_tensor({4, 3}, DType::Bool)}, in[1]);
      },
      {x, leaf({1}, 4)});
  // In place, on a tensor with history.
  check([&](const Inputs& in) { return (in[0] * 2).index_put_({row}, in[1], true); }, {x, source});
  check([&](const Inputs& in) { return (in[0] * 2).scatter_(0, apart, in[1]); }, {x, source});
}

TEST(IndexGradient, ScatterReduceInEveryMode) {
  const Tensor index = index_tensor({0, 1, 2, 1, 1, 0, 0, 2, 2, 0, 0, 1}, {4, 3});
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (bool include_self : {true, false}) {
      SCOPED_TRACE(std::string(reduce) + (include_self ? " with self" : ""));
      const auto f = [&](const Inputs& in) {
        return scatter_reduce(in[0], 0, index, in[1], reduce, include_self);
      };
      check(f, {leaf({4, 3}), leaf({5, 4}, 2)});
    }
  }
}

TEST(IndexGradient, ProductsWithZerosAreExact) {
  const Tensor x = from_values({2, 0, 3}, {3}, DType::Float64).requires_grad_();
  const Tensor source = from_values({0, 5, 7, 0, 0}, {5}, DType::Float64).requires_grad_();
  const Tensor index = index_tensor({0, 0, 1, 2, 2}, {5});
  EXPECT_TRUE(gradcheck([&](const Inputs& in) { return scatter_reduce(in[0], 0, index, in[1], "prod"); },
                        {x, source}));
}

TEST(IndexGradient, RearrangingOps) {
  const Tensor x = leaf({3, 4}), y = leaf({2, 4}, 2);
  check([](const Inputs& in) { return cat({in[0], in[1], in[0]}); }, {x, y});
  check([](const Inputs& in) { return stack({in[0], in[0] * 2}, 1); }, {x});
  check([](const Inputs& in) { return flip(in[0], {0, 1}); }, {x});
  check([](const Inputs& in) { return roll(in[0], {1, -2}, {0, 1}); }, {x});
  check([](const Inputs& in) { return roll(in[0], {5}); }, {x});
  check([](const Inputs& in) { return tril(in[0], 1) + triu(in[0], -1); }, {x});
  check([](const Inputs& in) { return repeat(in[0], {2, 1, 2}); }, {x});
  check([](const Inputs& in) { return tile(in[0], {2}); }, {x});
  check([](const Inputs& in) { return repeat_interleave(in[0], 2, 1); }, {x});
  check([](const Inputs& in) { return diag(in[0], 1); }, {x});
  check([](const Inputs& in) { return diag(in[0], -2); }, {leaf({3})});
  check([](const Inputs& in) { return pad(in[0], {1, -1, 2, 0}, "constant", 4); }, {x});
  check([](const Inputs& in) { return pad(in[0], {3, 2, 1, 2}, "reflect"); }, {x});
  check([](const Inputs& in) { return pad(in[0], {-1, 5, 1, 1}, "replicate"); }, {x});
  check([](const Inputs& in) { return pad(in[0], {3, 4, 0, 2}, "circular"); }, {x});
}

// Nothing is read or written, so that x gets all of what arrives or nothing, and a source nothing.
TEST(IndexGradient, AnEmptyIndexHasGradients) {
  const Tensor x = leaf({4, 3}), source = leaf({2, 3}, 2), none = leaf({0, 3}, 3);
  const Tensor empty = index_tensor({}, {0}), flat = index_tensor({}, {0, 3}),
               wide = index_tensor({}, {4, 0});
  check([&](const Inputs& in) { return gather(in[0], 0, flat); }, {x});
  check([&](const Inputs& in) { return gather(in[0], 1, wide); }, {x});
  check([&](const Inputs& in) { return gather(in[0], 1, empty); }, {x});
  check([&](const Inputs& in) { return index_select(in[0], 0, empty); }, {x});
  check([&](const Inputs& in) { return embedding(in[0], empty); }, {x});
  check([&](const Inputs& in) { return embedding(in[0], flat); }, {x});
  check([&](const Inputs& in) { return index(in[0], {empty}); }, {x});
  check([&](const Inputs& in) { return index(in[0], {empty, empty}); }, {x});
  check([&](const Inputs& in) { return in[0].index({empty, indexing::None, 1}); }, {x});
  check([&](const Inputs& in) { return take_along_dim(in[0], flat, 0); }, {x});
  check([&](const Inputs& in) { return masked_select(in[0], zeros({4, 3}, kBool)); }, {x});
  for (const Tensor& index : {flat, empty}) {
    check([&](const Inputs& in) { return scatter(in[0], 0, index, in[1]); }, {x, source});
    check([&](const Inputs& in) { return scatter(in[0], 0, index, 7); }, {x});
    check([&](const Inputs& in) { return scatter_add(in[0], 0, index, in[1]); }, {x, source});
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
      for (const bool include_self : {true, false})
        check([&](const Inputs& in) { return scatter_reduce(in[0], 0, index, in[1], reduce, include_self); },
              {x, source});
  }
  check([&](const Inputs& in) { return index_add(in[0], 0, empty, in[1], 2); }, {x, none});
  check([&](const Inputs& in) { return index_copy(in[0], 0, empty, in[1]); }, {x, none});
  check([&](const Inputs& in) { return index_fill(in[0], 0, empty, 5); }, {x});
  check([&](const Inputs& in) { return index_put(in[0], {empty}, in[1]); }, {x, none});
  check([&](const Inputs& in) { return index_put(in[0], {empty}, in[1], true); }, {x, leaf({3}, 4)});
}

TEST(IndexGradient, RollsByAnyNumber) {
  const Tensor x = leaf({4, 3});
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = -(int64_t{1} << 62);
  for (const int64_t shift : {most, most - 1, least, least + 1, int64_t{1} << 62, int64_t{5}, int64_t{-5}}) {
    SCOPED_TRACE(shift);
    EXPECT_TRUE(same_bits(roll(x, {shift}, {0}), roll(x, {shift % 4}, {0})));
    EXPECT_TRUE(same_bits(roll(x, {shift}), roll(x, {shift % 12})));
    check([&](const Inputs& in) { return roll(in[0], {shift, shift}, {0, 1}); }, {x});
    check([&](const Inputs& in) { return roll(in[0], {shift}); }, {x});
  }
  EXPECT_TRUE(same_bits(roll(x, {most, most}, {0, 0}), roll(x, {2 * (most % 4)}, {0})));
  EXPECT_TRUE(same_bits(roll(x, {least, least, 1}, {1, 1, 1}), roll(x, {2 * (least % 3) + 1}, {1})));
  check([&](const Inputs& in) { return roll(in[0], {most, most}, {0, 0}); }, {x});
  EXPECT_EQ(roll(zeros({0, 3}), {most, most}, {0, 0}).numel(), 0);
}

TEST(IndexGradient, CatGivesEachInputItsDType) {
  const Tensor a = from_values({1, 2}, {2}, DType::Float32).requires_grad_();
  const Tensor b = from_values({3}, {1}, DType::Float64).requires_grad_();
  const Tensor none = random_tensor({0}, DType::Float32).requires_grad_();
  (cat({a, b, none}) * from_values({10, 20, 30}, {3}, DType::Float64)).sum().backward();
  EXPECT_EQ(a.grad().dtype(), DType::Float32);
  expect_array(a.grad(), Array(from_values({10, 20}, {2}, DType::Float32)));
  expect_array(b.grad(), Array({1}, 30));
}

// C54
TEST(IndexGradient, SelectsFromOneRowDoNotShareAGradient) {
  const Tensor x = random_tensor({3, 4}, DType::Float32).requires_grad_();
  const Tensor index = index_tensor({1, 3, 1, 3, 1, 3}, {3, 2});
  const Tensor weight = from_values({2, -1}, {2}, DType::Float32);
  (gather(x, 1, index) * weight).sum().backward();
  expect_array(x.grad(), Array(from_values({0, 2, 0, -1, 0, 2, 0, -1, 0, 2, 0, -1}, {3, 4}, DType::Float32)));
}

// C56
TEST(IndexGradient, MaximumFromMinusInfinityHasNoNaN) {
  const Tensor x =
      from_values({-std::numeric_limits<double>::infinity()}, {1}, DType::Float64).requires_grad_();
  const Tensor source = from_values({1, 4, 2}, {3}, DType::Float64).requires_grad_();
  scatter_reduce(x, 0, index_tensor({0, 0, 0}, {3}), source, "amax", false).sum().backward();
  expect_array(source.grad(), Array(from_values({0, 1, 0}, {3}, DType::Float64)));
  expect_array(x.grad(), Array({1}, 0));
}

// C26: the copy is read before the target is written.
TEST(IndexGradient, RowsShiftFromACopyOfThemselves) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{4, 2}, {1024, 2048}}) {
    Tensor x = random_tensor({rows, columns}, DType::Float32);
    const Tensor before = raw_copy(x);
    narrow(x, 0, 1, rows - 1).copy_(narrow(x, 0, 0, rows - 1).clone());
    EXPECT_TRUE(same_bits(narrow(x, 0, 1, rows - 1), narrow(before, 0, 0, rows - 1)));
    EXPECT_TRUE(same_bits(select(x, 0, 0), select(before, 0, 0)));
  }
}

// C24
TEST(IndexGradient, AWriteThroughAViewWithGapsLeavesTheRest) {
  Tensor base = from_values({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12}, DType::Float32);
  Tensor view = slice(base, 0, Sym::from_int(0), Sym::from_int(12), 4);
  view.index_add_(0, index_tensor({0, 1, 2}, {3}), from_values({100, 100, 100}, {3}, DType::Float32));
  expect_array(base, Array(from_values({100, 1, 2, 3, 104, 5, 6, 7, 108, 9, 10, 11}, {12}, DType::Float32)));
}

// The composites of views, on values.
TEST(Repeat, CompositesMatchTheirFormulas) {
  const Tensor x = from_values({1, 2, 3, 4}, {2, 2}, DType::Int64);
  expect_array(repeat(x, {2, 1, 2}),
               Array(from_values({1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}, {2, 2, 4}, DType::Int64)));
  expect_array(tile(x, {2}), Array(from_values({1, 2, 1, 2, 3, 4, 3, 4}, {2, 4}, DType::Int64)));
  expect_array(repeat_interleave(x, 2, 1),
               Array(from_values({1, 1, 2, 2, 3, 3, 4, 4}, {2, 4}, DType::Int64)));
  expect_array(repeat_interleave(x, 2), Array(from_values({1, 1, 2, 2, 3, 3, 4, 4}, {8}, DType::Int64)));
  expect_array(repeat(x, {0, 1}), Array({0, 2}));
  const Tensor same = repeat(x, {1, 1});
  EXPECT_FALSE(same->storage == x->storage);
  expect_array(diag(from_values({1, 2}, {2}, DType::Int64), 1),
               Array(from_values({0, 1, 0, 0, 0, 2, 0, 0, 0}, {3, 3}, DType::Int64)));
  expect_array(diag(from_values({1, 2}, {2}, DType::Int64)),
               Array(from_values({1, 0, 0, 2}, {2, 2}, DType::Int64)));
  expect_array(diag(from_values({1, 2}, {2}, DType::Int64), -1),
               Array(from_values({0, 0, 0, 1, 0, 0, 0, 2, 0}, {3, 3}, DType::Int64)));
  expect_array(one_hot(index_tensor({2, 0}, {2})),
               Array(from_values({0, 0, 1, 1, 0, 0}, {2, 3}, DType::Int64)));
  tests::expect_contains(tests::error_of<IndexError>([&] { one_hot(index_tensor({5}, {1}), 3); }),
                         "one_hot: x holds class 5 at [0], but num_classes is 3");
  expect_array(masked_select(from_values({3}, {}, DType::Int64), from_values({1}, {}, DType::Bool)),
               Array({1}, 3));
}

}  // namespace
}  // namespace weft
