// Loop bodies: their listing, the levels of their values, strides of indices, and what verify() refuses.
#include "compiler/loops/loop_body.h"

#include <gtest/gtest.h>

#include "compiler/loops/index_expr.h"
#include "compiler/loops/loop_levels.h"
#include "tests/compiler/body_builder.h"

namespace weft::compiler::tests {
namespace {

std::string failure_of(const LoopBody& body) {
  try {
    verify(body);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

#define EXPECT_REFUSED(body, text) \
  EXPECT_NE(failure_of(body).find(text), std::string::npos) << failure_of(body)

bool same(Sym a, Sym b) { return __builtin_memcmp(&a, &b, sizeof a) == 0; }

// softmax over rows of s0 elements, halves in memory.
struct Softmax : BodyBuilder {
  Expr x, shifted, total, y;
  Softmax() {
    body.name = "softmax";
    loops(Sym::from_int(1), Sym::from_int(5), size("s0", 7));
    const TableEnvironment environment = arithmetic();
    const uint32_t from = in(DType::BFloat16), to = out(DType::BFloat16);
    x = cast(load(from, r * body.columns + c), DType::Float32);
    shifted = exp(x - fold(cpu::Fold::Max, Axis::Columns, x));
    total = sum(Axis::Columns, shifted);
    y = cast(shifted / total, DType::BFloat16);
    store(to, r * body.columns + c, y);
  }
};

TEST(LoopBody, ListingShowsLoopsSourcesFoldsAndStores) {
  Softmax softmax;
  verify(softmax.body);
  EXPECT_EQ(to_string(softmax.body),
            "softmax(in b0: bf16, out b1: bf16, s0) for 0 < 1, r < 5, c < s0 {\n"
            "  %0: bf16 = b0[s0*r + c]\n"
            "  %1: f32 = Cast %0\n"
            "  %2: f32 = fold 0\n"
            "  %3: f32 = Sub %1 %2\n"
            "  %4: f32 = exp %3\n"
            "  %5: f32 = fold 1\n"
            "  %6: f32 = Div %4 %5\n"
            "  %7: bf16 = Cast %6\n"
            "  fold 0 = max of %1 along columns\n"
            "  fold 1 = sum of %4 along columns\n"
            "  b1[s0*r + c] = %7 for each element\n"
            "}\n");
}

TEST(LoopBody, ListingShowsMasksNumbersChecksAndWords) {
  BodyBuilder b(2, 1, 8);
  const TableEnvironment environment = b.arithmetic();
  b.body.name = "gather";
  const uint32_t table = b.in(DType::Int32), which = b.in(DType::Int64), to = b.out(DType::Int32);
  const Expr inside = b.place(b.c) < 6;
  const Sym at = b.indirect(b.load(which, b.c, inside), Sym::from_int(10), "gather");
  b.body.checks[0].mask = inside.id;
  const Expr found = b.load(table, b.b * 10 + at, inside);
  const Expr scaled = found * b.number(DType::Int32);
  BodyStore& store = b.store(to, b.b * 8 + b.c, scaled + b.random(b.c));
  store.mask = inside.id;
  store.mode = BodyStore::Mode::Add;
  verify(b.body);
  EXPECT_EQ(
      to_string(b.body),
      "gather(in b0: i32, in b1: i64, out b2: i32, n0: i32, n1: i64, n2: i64) for b < 2, 0 < 1, c < 8 {\n"
      "  %0: i64 = c\n"
      "  %1: i64 = 6\n"
      "  %2: bool = Lt %0 %1\n"
      "  %3: i64 = b1[c] if %2   # i0 in 10, gather if %2\n"
      "  %4: i32 = b0[b*10 + i0] if %2\n"
      "  %5: i32 = n0\n"
      "  %6: i32 = Mul %4 %5\n"
      "  %7: i32 = random n1 n2[c]\n"
      "  %8: i32 = Add %6 %7\n"
      "  b2[b*8 + c] += %8 for each element if %2\n"
      "}\n");
}

TEST(LoopLevels, EachFoldAlongTheColumnsStartsAPass) {
  Softmax softmax;
  const LoopLevels levels = levels_of(softmax.body);
  EXPECT_EQ(levels.num_passes, 3u);
  EXPECT_EQ(levels.values[softmax.x.id].pass, 0u);
  EXPECT_EQ(levels.values[softmax.shifted.id].pass, 1u);
  EXPECT_EQ(levels.values[softmax.total.id].pass, 2u);
  EXPECT_FALSE(levels.values[softmax.total.id].uses_column);
  EXPECT_TRUE(levels.values[softmax.total.id].uses_row);
  EXPECT_TRUE(levels.values[softmax.y.id].uses_column);
  EXPECT_EQ(levels.stores[0].pass, 2u);
  EXPECT_EQ(levels.folds[1].pass, 1u);
  EXPECT_TRUE(levels.folds[1].uses_column);
  EXPECT_FALSE(levels.folds_rows);
  EXPECT_FALSE(levels.has_after);
}

// The backward pass of a norm: one value for each row, one for each column, and the mean of the former for the batch.
TEST(LoopLevels, FoldsAlongTheRowsAreThereAfterThem) {
  BodyBuilder b(3, 200, 100);
  const TableEnvironment environment = b.arithmetic();
  const uint32_t from = b.in(DType::Float32), by_row = b.out(DType::Float32),
                 by_column = b.out(DType::Float32), by_batch = b.out(DType::Float32);
  const Expr x = b.load(from, (b.b * 200 + b.r) * 100 + b.c);
  const Expr row = b.sum(BodyBuilder::Axis::Columns, x);
  const Expr column = b.sum(BodyBuilder::Axis::Rows, x * row);
  const Expr batch = b.sum(BodyBuilder::Axis::RowValues, row);
  b.store(by_row, b.b * 200 + b.r, row, BodyBuilder::Each::Row);
  b.store(by_column, b.b * 100 + b.c, column, BodyBuilder::Each::Column);
  b.store(by_batch, b.b, batch, BodyBuilder::Each::Batch);
  verify(b.body);
  const LoopLevels levels = levels_of(b.body);
  EXPECT_EQ(levels.num_passes, 2u);
  EXPECT_TRUE(levels.folds_rows);
  EXPECT_TRUE(levels.has_after);
  EXPECT_EQ(levels.folds[1].pass, 1u);
  EXPECT_TRUE(levels.folds[1].uses_row && levels.folds[1].uses_column);
  EXPECT_FALSE(levels.folds[2].uses_column);
  EXPECT_TRUE(levels.values[column.id].after_rows && levels.values[column.id].uses_column);
  EXPECT_FALSE(levels.values[column.id].uses_row);
  EXPECT_TRUE(levels.values[batch.id].after_rows);
  EXPECT_FALSE(levels.values[batch.id].uses_column);
  EXPECT_EQ(levels.stores[0].pass, 1u);
  EXPECT_TRUE(levels.stores[1].after_rows && levels.stores[1].uses_column);
}

TEST(LoopLevels, StridesAlongTheColumns) {
  BodyBuilder b;
  b.loops(Sym::from_int(4), b.size("s0", 6), b.size("s1", 8));
  const TableEnvironment environment = b.arithmetic();
  const uint32_t which = b.in(DType::Int64);
  const Sym by_row = b.indirect(b.load(which, b.r), b.body.rows);
  const Sym by_column = b.indirect(b.load(which, b.c), b.body.rows);
  const auto stride = [&](Sym index) { return column_stride(b.body, index); };
  const auto expect = [&](Sym index, Sym expected) {
    const std::optional<Sym> found = stride(index);
    ASSERT_TRUE(found.has_value()) << b.table().to_string(index);
    EXPECT_TRUE(same(*found, expected)) << b.table().to_string(*found);
  };
  expect(b.r * b.body.columns + b.c, Sym::from_int(1));
  expect(b.b * 7 + b.c * b.body.rows + b.r, b.body.rows);
  expect(b.body.columns - 1 - b.c, Sym::from_int(-1));
  expect(b.c * b.r, b.r);
  expect(b.r, Sym::from_int(0));
  expect(by_row * b.body.columns + b.c * 3, Sym::from_int(3));
  EXPECT_FALSE(stride(b.c * b.c).has_value());
  EXPECT_FALSE(stride(b.table().binary(SymOp::FloorDiv, b.c, Sym::from_int(2))).has_value());
  EXPECT_FALSE(stride(by_column + b.c).has_value());
  EXPECT_TRUE(use_of(b.body, by_row).row);
  EXPECT_FALSE(use_of(b.body, by_row).column);
  EXPECT_TRUE(use_of(b.body, by_column + b.b).column);
  EXPECT_TRUE(use_of(b.body, by_column + b.b).batch);
}

TEST(IndexExpr, SubstitutionSimplifiesWhatItMakes) {
  BodyBuilder b(1, 12, 5);
  const TableEnvironment environment = b.arithmetic();
  SymTable& table = b.table();
  const auto div = [&](Sym x, int64_t d) { return table.binary(SymOp::FloorDiv, x, Sym::from_int(d)); };
  const Sym index = div(b.r, 4) * 7 + b.r % 4 + b.c * b.c;
  const Sym outer = table.add_symbol({"o", 0, 0, 2}), inner = table.add_symbol({"i", 0, 0, 3});
  EXPECT_TRUE(same(substitute(table, index, b.r, outer * 4 + inner), outer * 7 + inner + b.c * b.c));
  EXPECT_TRUE(same(substitute(table, index, b.r, Sym::from_int(6)), 9 + b.c * b.c));
  EXPECT_TRUE(same(substitute(table, index, outer, inner), index));
  // Both at once: what is put in is not replaced again.
  const std::pair<Sym, Sym> swap[] = {{b.r, b.c}, {b.c, b.r}};
  EXPECT_TRUE(same(substitute(table, b.r * 3 + b.c, swap), b.c * 3 + b.r));
}

TEST(LoopBodyVerify, RefusesWhatNoKernelCanDo) {
  {
    Softmax s;
    s.body.buffers[1].dtype = DType::Float32;
    EXPECT_REFUSED(s.body, "%7 in bfloat16 goes to buffer 1 of float32");
  }
  {
    Softmax s;
    s.body.buffers[0].is_read = false;
    EXPECT_REFUSED(s.body, "%0 reads buffer 0, which says that it is not read");
  }
  {
    Softmax s;
    s.body.size_symbols.clear();
    EXPECT_REFUSED(s.body, "column s0 reads s0, which no call brings");
  }
  {
    Softmax s;
    s.body.rows = Sym::from_int(1);
    s.body.row = Sym::from_int(0);
    EXPECT_REFUSED(s.body, "index s0*r + c reads r, which is neither a loop, a size nor a value");
  }
  {
    Softmax s;
    s.body.folds[0].value = s.y.id;
    EXPECT_REFUSED(s.body, "%2 is a fold of %7, which comes later");
  }
  {
    Softmax s;
    s.body.stores[0].each = BodyStore::Each::Row;
    EXPECT_REFUSED(s.body, "store 0 for each row depends on the column");
  }
  {
    Softmax s;
    s.store(1, Sym::from_int(0), cast(s.total, DType::BFloat16), BodyStore::Each::Batch);
    EXPECT_REFUSED(s.body, "store 1 for each batch depends on the row");
  }
  {
    BodyBuilder b(1, 3, 4);
    const Expr x = b.load(b.in(DType::Float32), b.c);
    b.store(b.out(DType::Float32), b.c, x - b.sum(BodyBuilder::Axis::Rows, x));
    EXPECT_REFUSED(b.body, "store 0 for each element needs a fold along the rows, of which it is part");
  }
  {
    BodyBuilder b(1, 3, 4);
    const Expr x = b.load(b.in(DType::Float32), b.c);
    b.sum(BodyBuilder::Axis::RowValues, x);
    EXPECT_REFUSED(b.body, "fold 0 of row values has a column");
  }
  {
    BodyBuilder b(1, 3, 4);
    const Expr x = b.load(b.in(DType::BFloat16), b.c);
    b.store(b.out(DType::BFloat16), b.c, x + x);
    EXPECT_REFUSED(b.body, "%1 = Add gives bfloat16 from bfloat16");
  }
  {
    BodyBuilder b(1, 3, 4);
    b.store(b.out(DType::Int64), b.c, b.place(b.c)).mask = 0;
    EXPECT_REFUSED(b.body, "mask %0 is in int64");
  }
  {
    BodyBuilder b(1, 3, 4);
    const Expr value = b.place(b.c);
    const Sym at = b.indirect(value, Sym::from_int(4));
    const Expr loaded = b.load(b.in(DType::Int64), at);
    b.body.indirects[0].value = loaded.id;
    EXPECT_REFUSED(b.body, "asks for %1 before it is there");
  }
}

}  // namespace
}  // namespace weft::compiler::tests
