// ScalarTable: numbers of a compiled path, evaluated as Scalars are outside a trace.
#include "compiler/trace/scalar_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tensor/base/error.h"
#include "tensor/cell.h"

namespace weft::compiler {
namespace {

using Kind = ScalarExpr::Kind;
using Category = Scalar::Category;

struct ScalarTableTest : testing::Test {
  Expressions tables;

  ScalarId constant(const Scalar& number) {
    ScalarExpr expr;
    expr.kind = Kind::Constant;
    expr.category = number.category();
    expr.constant = number;
    return tables.scalars.add(expr);
  }
  ScalarId leaf(Kind kind, uint32_t index, Category category = Category::Floating) {
    ScalarExpr expr;
    expr.kind = kind;
    expr.category = category;
    expr.index = index;
    return tables.scalars.add(expr);
  }
  ScalarId binary(ScalarOp op, ScalarId a, ScalarId b) {
    ScalarExpr expr;
    expr.kind = Kind::Binary;
    expr.op = op;
    expr.a = a;
    expr.b = b;
    return tables.scalars.add(expr);
  }
  std::string text(ScalarId id) { return tables.scalars.to_string(id, tables.syms); }
};

constexpr auto no_item = [](uint32_t) -> Scalar { throw Error("no item"); };

TEST_F(ScalarTableTest, EqualNumbersAreOne) {
  const ScalarId rate = leaf(Kind::Input, 0), half = constant(0.5);
  EXPECT_EQ(binary(ScalarOp::Mul, rate, half), binary(ScalarOp::Mul, leaf(Kind::Input, 0), constant(0.5)));
  EXPECT_NE(binary(ScalarOp::Sub, rate, half), binary(ScalarOp::Sub, half, rate));
  EXPECT_NE(constant(0.0), constant(-0.0));
  EXPECT_EQ(constant(NAN), constant(NAN));
  EXPECT_NE(constant(1.0), constant(1));
  EXPECT_NE(constant(1), constant(true));
  EXPECT_NE(leaf(Kind::Input, 1), leaf(Kind::Item, 1));
  const Sym size = tables.syms.add_symbol({"s0", 8, 2});
  EXPECT_EQ(constant(Scalar(size)), constant(Scalar(size)));
  EXPECT_NE(constant(Scalar(size)), constant(Scalar(int64_t{size.id()})));
}

TEST_F(ScalarTableTest, Prints) {
  const Sym size = tables.syms.add_symbol({"s0", 8, 2});
  EXPECT_EQ(text(binary(ScalarOp::Mul, leaf(Kind::Input, 0), constant(0.5))), "(%in0 * 0.5)");
  EXPECT_EQ(text(binary(ScalarOp::Sub, constant(1), binary(ScalarOp::Pow, leaf(Kind::Item, 3), constant(2)))),
            "(1 - (%item3 ** 2))");
  EXPECT_EQ(text(binary(ScalarOp::Div, constant(1.5), constant(Scalar(size)))), "(1.5 / s0)");
}

TEST_F(ScalarTableTest, ReadsWhatTheCallBrings) {
  const Sym size = tables.syms.add_symbol({"s0", 8, 2});
  const std::vector<int64_t> sizes = {20};
  const std::vector<Scalar> numbers = {Scalar(3), Scalar(0.25)};
  const RunValues values = {sizes, numbers};
  const ScalarId mean = binary(ScalarOp::Div, leaf(Kind::Item, 7), constant(Scalar(size)));
  const auto item = [](uint32_t index) { return Scalar(10.0 * index); };
  EXPECT_EQ(evaluate(tables, mean, values, item).to_double(), 3.5);
  const ScalarId integer =
      binary(ScalarOp::Mul, leaf(Kind::Input, 0, Category::Integer), constant(Scalar(size)));
  EXPECT_TRUE(evaluate(tables, integer, values, no_item).is_integer());
  EXPECT_EQ(evaluate(tables, integer, values, no_item).to_int(), 60);
  EXPECT_EQ(evaluate(tables, Scalar::from_trace(Category::Floating, mean), values, item).to_double(), 3.5);
  EXPECT_EQ(evaluate(tables, Scalar(size), values, no_item).to_int(), 20);
  EXPECT_EQ(evaluate(tables, Scalar(2.5), values, no_item).to_double(), 2.5);
  const Sym product = tables.syms.binary(SymOp::Mul, size, size);
  const std::vector<int64_t> large = {int64_t{1} << 40};
  EXPECT_THROW(evaluate(tables, Scalar(product), {large, {}}, no_item), Error);
}

// Every operation on every pair of categories gives what it gives outside a trace, in value and category.
TEST_F(ScalarTableTest, AgreesWithScalarsOutsideATrace) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t n) { return random() % n; };
  const auto draw = [&]() -> Scalar {
    switch (pick(5)) {
      case 0: return Scalar(pick(2) == 1);
      case 1: return Scalar(static_cast<int64_t>(random()));
      case 2: return Scalar(static_cast<int64_t>(pick(20)) - 10);
      case 3: return Scalar(static_cast<double>(pick(20)) - 10);
      default: return Scalar(std::ldexp(static_cast<double>(random()), -static_cast<int>(pick(100))));
    }
  };
  for (int round = 0; round < 3000; ++round) {
    Expressions own;
    std::vector<Scalar> inputs, items, expected;
    std::vector<ScalarId> ids;
    for (uint32_t i = 0; i < 6; ++i) {
      ScalarExpr expr;
      const Scalar value = draw();
      expr.category = value.category();
      expr.kind = i < 2 ? Kind::Constant : i < 4 ? Kind::Input : Kind::Item;
      expr.constant = value;
      expr.index = i % 2;
      if (expr.kind == Kind::Input) inputs.push_back(value);
      if (expr.kind == Kind::Item) items.push_back(value);
      ids.push_back(own.scalars.add(expr));
      expected.push_back(value);
    }
    for (int step = 0; step < 12; ++step) {
      const size_t a = pick(ids.size()), b = pick(ids.size());
      ScalarExpr expr;
      expr.kind = Kind::Binary;
      expr.op = static_cast<ScalarOp>(pick(5));
      expr.a = ids[a];
      expr.b = ids[b];
      ids.push_back(own.scalars.add(expr));
      expected.push_back(expr.op == ScalarOp::Add   ? expected[a] + expected[b]
                         : expr.op == ScalarOp::Sub ? expected[a] - expected[b]
                         : expr.op == ScalarOp::Mul ? expected[a] * expected[b]
                         : expr.op == ScalarOp::Div ? expected[a] / expected[b]
                                                    : pow(expected[a], expected[b]));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const Scalar value = evaluate(own, ids[i], {{}, inputs}, [&](uint32_t index) { return items[index]; });
      ASSERT_EQ(value.category(), expected[i].category());
      if (value.is_floating())
        ASSERT_EQ(std::bit_cast<uint64_t>(value.to_double()),
                  std::bit_cast<uint64_t>(expected[i].to_double()));
      else ASSERT_EQ(value.to_int(), expected[i].to_int());
    }
  }
}

TEST_F(ScalarTableTest, LongChainsAreComputedOnce) {
  // Each step uses the last one twice: without sharing this would take 2^10000 steps.
  ScalarId id = leaf(Kind::Input, 0);
  double expected = 1.5;
  for (int i = 0; i < 10000; ++i) {
    const ScalarId half = binary(ScalarOp::Mul, id, constant(0.25 + i % 3 * 0.25));
    id = binary(ScalarOp::Add, binary(ScalarOp::Mul, half, half), id);
    const double part = expected * (0.25 + i % 3 * 0.25);
    expected = part * part + expected;
    if (i % 4 == 3) {
      id = binary(ScalarOp::Pow, id, constant(0.125));
      expected = std::pow(expected, 0.125);
    }
  }
  const std::vector<Scalar> numbers = {Scalar(1.5)};
  EXPECT_EQ(evaluate(tables, id, {{}, numbers}, no_item).to_double(), expected);
  EXPECT_LT(text(id).size(), 100000u);
}

}  // namespace
}  // namespace weft::compiler
