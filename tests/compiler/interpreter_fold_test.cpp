// The interpreter against eager ops, bit for bit: folds along columns, rows and both.
#include <gtest/gtest.h>

#include "tests/compiler/run_body.h"

namespace weft::compiler::tests {
namespace {

std::vector<int64_t> lengths() {
  std::vector<int64_t> lengths = {4095, 4096, 4097, 9000};
  for (int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  return lengths;
}

Tensor folded(cpu::Fold fold, const Tensor& x, int64_t dim) {
  switch (fold) {
    case cpu::Fold::Sum: return sum(x, {dim});
    case cpu::Fold::Prod: return prod(x, dim);
    case cpu::Fold::Max: return amax(x, {dim});
    case cpu::Fold::Min: return amin(x, {dim});
  }
  return {};
}
constexpr cpu::Fold kFolds[] = {cpu::Fold::Sum, cpu::Fold::Prod, cpu::Fold::Max, cpu::Fold::Min};

TEST(Interpreter, FoldsRowsOfEveryLength) {
  for (const int64_t columns : lengths()) {
    for (const cpu::Fold fold : kFolds) {
      Body b(1, 5, columns);
      const uint32_t x = b.in(f32), out = b.out(f32);
      b.store(out, b.r, b.fold(fold, Axis::Columns, b.load(x, b.dense())), Each::Row);
      const Tensor p = randn({5, columns});
      expect_result(b, {p, empty({5})}, 1, folded(fold, p, 1), std::to_string(columns));
    }
  }
}

TEST(Interpreter, FoldsInEveryType) {
  for (const DType dtype : {f32, f64, i64, i32}) {
    for (const cpu::Fold fold : kFolds) {
      Body b(1, 130, 75);
      const uint32_t x = b.in(dtype), row = b.out(dtype), column = b.out(dtype);
      const Expr value = b.load(x, b.dense());
      b.store(row, b.r, b.fold(fold, Axis::Columns, value), Each::Row);
      b.store(column, b.c, b.fold(fold, Axis::Rows, value), Each::Column);
      Tensor p = values({130, 75}, dtype);
      if (fold == cpu::Fold::Prod) p = p.abs().add(1).to(dtype);
      const auto want = [&](int64_t dim) { return folded(fold, p, dim).to(dtype); };
      if (dtype == i32 && (fold == cpu::Fold::Sum || fold == cpu::Fold::Prod)) {
        // Eager sums of int32 are int64, whose low halves are those of int32.
        expect_result(b, {p, empty({130}, TensorOptions(dtype)), empty({75}, TensorOptions(dtype))}, 1,
                      want(1));
        continue;
      }
      const Tensor rows = empty({130}, TensorOptions(dtype)), columns = empty({75}, TensorOptions(dtype));
      expect_result(b, {p, rows, columns}, 1, want(1), name_of(dtype));
      expect_result(b, {p, rows, columns}, 2, want(0), name_of(dtype));
    }
  }
}

TEST(Interpreter, FoldsColumnsOfEveryNumberOfRows) {
  std::vector<int64_t> numbers = {5000};
  for (int64_t rows = 1; rows <= 200; ++rows) numbers.push_back(rows);
  for (const int64_t rows : numbers) {
    for (const int64_t columns : {3, 1100, 20000}) {
      if (columns > 3 && rows % 16 > 1) continue;
      Body b(2, rows, columns);
      const uint32_t x = b.in(f32), out = b.out(f32);
      b.store(out, b.b * columns + b.c, b.sum(Axis::Rows, b.load(x, b.dense())), Each::Column);
      const Tensor p = randn({2, rows, columns});
      expect_result(b, {p, empty({2, columns})}, 1, sum(p, {1}), weft::detail::concat(rows, " rows"));
    }
  }
}

TEST(Interpreter, FoldsAllOfATensor) {
  for (const int64_t n : {1, 100, 4096, 4097, 1000000}) {
    Body b(1, 1, n);
    const uint32_t x = b.in(f32), out = b.out(f32), as_row = b.out(f32);
    const Expr total = b.sum(Axis::Columns, b.load(x, b.c));
    b.store(out, Sym::from_int(0), total * 2, Each::Batch);
    b.store(as_row, Sym::from_int(0), total, Each::Row);
    const Tensor p = randn({n}), other = empty({1});
    expect_result(b, {p, empty({1}), other}, 1, (sum(p) * 2).view({1}));
    EXPECT_EQ(difference_of_bits(other, sum(p).view({1})), "");
  }
}

TEST(Interpreter, FoldsValuesOfRows) {
  // The loss of each row, and their mean: the inner tree over the rows.
  for (const int64_t rows : {1, 64, 65, 5000}) {
    Body b(1, rows, 12);
    const uint32_t x = b.in(f32), mean = b.out(f32), sums = b.out(f32), serial = b.out(f32);
    const Expr row = b.sum(Axis::Columns, b.load(x, b.dense()));
    b.store(sums, b.r, row, Each::Row);
    b.store(mean, Sym::from_int(0), b.sum(Axis::RowValues, row * row) / static_cast<double>(rows),
            Each::Batch);
    // The outer tree of the same values: as of a column.
    b.store(serial, Sym::from_int(0), b.sum(Axis::Rows, row), Each::Batch);
    const Tensor p = randn({rows, 12}), q = sum(p, {1}), each = empty({rows}), outer = empty({1});
    expect_result(b, {p, empty({1}), each, outer}, 1, (sum(q * q) / rows).view({1}));
    EXPECT_EQ(difference_of_bits(each, q), "");
    EXPECT_EQ(difference_of_bits(outer, sum(q.view({rows, 1}).expand({rows, 2}), {0}).slice(0, 0, 1)), "");
  }
}

TEST(Interpreter, SoftmaxTakesThreePasses) {
  for (const int64_t columns : lengths()) {
    for (const DType dtype : {f32, DType::BFloat16}) {
      Body b(2, 3, columns);
      const uint32_t from = b.in(dtype), to = b.out(dtype);
      const Expr x = cast(b.load(from, b.dense()), f32);
      const Expr e = exp(x - b.fold(cpu::Fold::Max, Axis::Columns, x));
      b.store(to, b.dense(), cast(e / b.sum(Axis::Columns, e), dtype));
      const Tensor p = randn({2, 3, columns}).to(dtype);
      expect_result(b, {p, empty_like(p)}, 1, softmax(p, -1), std::to_string(columns));
    }
  }
}

TEST(Interpreter, SoftmaxOfOneLongRowIsShared) {
  Body b(1, 1, 200000);
  const uint32_t from = b.in(f32), to = b.out(f32), most = b.out(f32);
  const Expr x = b.load(from, b.c), top = b.fold(cpu::Fold::Max, Axis::Columns, x);
  const Expr e = exp(x - top);
  b.store(to, b.c, e / b.sum(Axis::Columns, e));
  b.store(most, Sym::from_int(0), top, Each::Row);
  const Tensor p = randn({200000}), largest = empty({1});
  expect_result(b, {p, empty_like(p), largest}, 1, softmax(p, 0));
  EXPECT_EQ(difference_of_bits(largest, amax(p, {0}).view({1})), "");
}

// The backward pass of RMSNorm: dx for each element by a fold along its row, dw for each column by a fold along the rows.
TEST(Interpreter, FoldsBothAxesInOnePass) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 5}, {64, 16}, {65, 16}, {200, 300}, {1000, 3}, {3, 4097}, {70, 5000}, {2, 70000}}) {
    for (const int64_t batches : {1, 7}) {
      Body b(batches, rows, columns);
      const uint32_t x = b.in(f32), dy = b.in(f32), w = b.in(f32), dx = b.out(f32), dw = b.out(f32);
      const Expr value = b.load(x, b.dense()), grad = b.load(dy, b.dense());
      const Expr scale = rsqrt(b.sum(Axis::Columns, value * value) / static_cast<double>(columns) + 1e-5);
      const Expr normal = value * scale, wide = grad * b.load(w, b.c);
      const Expr along = b.sum(Axis::Columns, normal * wide) / static_cast<double>(columns);
      b.store(dx, b.dense(), (wide - normal * along) * scale);
      b.store(dw, b.b * columns + b.c, b.sum(Axis::Rows, grad * normal), Each::Column);
      const Tensor p = randn({batches, rows, columns}), q = randn({batches, rows, columns}),
                   s = randn({columns});
      const Tensor scales = rsqrt(sum(p * p, {2}, true) / static_cast<double>(columns) + 1e-5);
      const Tensor n = p * scales, g = q * s;
      const Tensor mean = sum(n * g, {2}, true) / static_cast<double>(columns);
      const Tensor weight = empty({batches, columns}), out = empty_like(p);
      const std::string what = weft::detail::concat(batches, " x ", rows, " x ", columns);
      expect_result(b, {p, q, s, out, weight}, 3, (g - n * mean) * scales, what);
      expect_result(b, {p, q, s, out, weight}, 4, sum(q * n, {1}), what);
    }
  }
}

// What comes after the rows may be any function of the folds, of the column and of nothing.
TEST(Interpreter, ComputesAfterTheRows) {
  for (const int64_t columns : {6, 3000}) {
    Body b(3, 90, columns);
    const uint32_t x = b.in(f32), w = b.in(f32), out = b.out(DType::BFloat16), count = b.out(f32),
                   every = b.out(f32);
    const Expr value = b.load(x, b.dense());
    const Expr mean = b.sum(Axis::Rows, value) / 90.0, squares = b.sum(Axis::Rows, value * value) / 90.0;
    const Expr row = b.sum(Axis::Columns, value);
    b.store(out, b.b * columns + b.c, cast(b.load(w, b.c) * (squares - mean * mean), DType::BFloat16),
            Each::Column);
    b.store(count, b.b, b.fold(cpu::Fold::Max, Axis::RowValues, row), Each::Batch);
    b.store(every, b.b * columns + b.c, cast(b.place(b.b), f32), Each::Column);
    const Tensor p = randn({3, 90, columns}), s = randn({columns});
    const Tensor m = sum(p, {1}) / 90.0, v = sum(p * p, {1}) / 90.0 - m * m;
    const Tensor largest = empty({3}), index = empty({3, columns});
    expect_result(b, {p, s, empty({3, columns}, TensorOptions(kBFloat16)), largest, index}, 2,
                  (s * v).to(kBFloat16));
    EXPECT_EQ(difference_of_bits(largest, amax(sum(p, {2}), {1})), "");
    EXPECT_EQ(difference_of_bits(index, arange(3).to(kFloat32).view({3, 1}).expand({3, columns})), "");
  }
}

TEST(Interpreter, FoldsOfValuesThatDoNotMoveAlongTheFold) {
  for (const int64_t columns : {5, 6000}) {
    Body b(1, 70, columns);
    const uint32_t x = b.in(f32), y = b.in(f32), row = b.out(f32), column = b.out(f32), same = b.out(f32);
    const Expr of_row = b.load(x, b.r), of_column = b.load(y, b.c);
    b.store(row, b.r, b.sum(Axis::Columns, of_row), Each::Row);
    b.store(column, b.c, b.sum(Axis::Rows, of_column), Each::Column);
    b.store(same, b.r, b.sum(Axis::Columns, of_column) * of_row, Each::Row);
    const Tensor p = randn({70}), q = randn({columns}), columns_of = empty({columns}), rows_of = empty({70});
    const Tensor wide = p.view({70, 1}).expand({70, columns}).contiguous();
    expect_result(b, {p, q, empty({70}), columns_of, rows_of}, 2, sum(wide, {1}));
    EXPECT_EQ(difference_of_bits(columns_of, sum(q.expand({70, columns}).contiguous(), {0})), "");
    EXPECT_EQ(difference_of_bits(rows_of, sum(q) * p), "");
  }
}

TEST(Interpreter, EmptyLoopsGiveIdentities) {
  {
    Body b;
    b.loops(Sym::from_int(1), Sym::from_int(4), b.size("s0", 3, 0));
    b.sizes = {0};
    const uint32_t x = b.in(f32), out = b.out(f32);
    b.store(out, b.r, b.sum(Axis::Columns, b.load(x, b.dense())) + 1, Each::Row);
    expect_result(b, {empty({0}), full({4}, 7.0)}, 1, ones({4}));
  }
  {
    Body b;
    b.loops(Sym::from_int(1), b.size("s0", 3, 0), Sym::from_int(4));
    b.sizes = {0};
    const uint32_t x = b.in(f32), out = b.out(f32);
    b.store(out, b.c, b.fold(cpu::Fold::Prod, Axis::Rows, b.load(x, b.dense())), Each::Column);
    expect_result(b, {empty({0}), full({4}, 7.0)}, 1, ones({4}));
  }
}

}  // namespace
}  // namespace weft::compiler::tests
