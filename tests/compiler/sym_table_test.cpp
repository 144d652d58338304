// SymTable: normal form, decisions, evaluation; and random expressions against plain integer arithmetic.
#include "compiler/trace/sym_table.h"

#include <gtest/gtest.h>

#include <random>

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

Sym num(int64_t value) { return Sym::from_int(value); }

struct SymTableTest : testing::Test {
  SymTable table;
  Sym add(Sym a, Sym b) { return table.binary(SymOp::Add, a, b); }
  Sym sub(Sym a, Sym b) { return table.binary(SymOp::Sub, a, b); }
  Sym mul(Sym a, Sym b) { return table.binary(SymOp::Mul, a, b); }
  Sym floor_div(Sym a, Sym b) { return table.binary(SymOp::FloorDiv, a, b); }
  Sym div(Sym a, Sym b) { return table.binary(SymOp::TruncDiv, a, b); }
  Sym mod(Sym a, Sym b) { return table.binary(SymOp::Mod, a, b); }
  Sym size(int64_t hint, int64_t min = 2, int64_t max = INT64_MAX) {
    return table.add_symbol({"s" + std::to_string(table.symbols().size()), hint, min, max});
  }
  std::string text(Sym a) { return table.to_string(a); }
  std::optional<bool> decide(SymCompare op, Sym a, Sym b) { return table.decide(op, a, b); }
};

bool same(Sym a, Sym b) {
  return a.is_symbolic() == b.is_symbolic() &&
         (a.is_symbolic() ? a.id() == b.id() : a.concrete() == b.concrete());
}

// Each level reads the one below it twice: walking all ways down would take 2^40 steps.
TEST_F(SymTableTest, SymbolsAreFoundOnceHoweverOftenTheirPartsOccur) {
  const Sym s0 = size(4), s1 = size(6), unread = size(8), s3 = size(10);
  Sym a = add(mul(s0, num(7)), s3);
  for (int level = 0; level < 40; ++level) a = add(floor_div(a, num(3)), mod(a, num(5 + level)));
  a = add(a, floor_div(mul(s1, s0), s3));
  const auto number = [&](Sym symbol) { return *table.as_symbol(symbol); };
  EXPECT_EQ(table.symbols_of(a), (std::vector<uint32_t>{number(s0), number(s1), number(s3)}));
  EXPECT_EQ(table.symbols_of(unread), std::vector<uint32_t>{number(unread)});
  EXPECT_TRUE(table.symbols_of(num(3)).empty());
}

TEST_F(SymTableTest, EqualExpressionsAreOne) {
  const Sym s0 = size(4), s1 = size(6);
  EXPECT_TRUE(same(mul(s0, s1), mul(s1, s0)));
  EXPECT_TRUE(same(add(mul(s0, num(3)), s0), mul(num(4), s0)));
  EXPECT_TRUE(same(mul(add(s0, s1), sub(s0, s1)), sub(mul(s0, s0), mul(s1, s1))));
  EXPECT_TRUE(same(sub(add(s0, s1), s1), s0));
  EXPECT_TRUE(same(sub(s0, s0), num(0)));
  EXPECT_TRUE(same(mul(s0, num(0)), num(0)));
  EXPECT_TRUE(same(table.binary(SymOp::Min, s0, s1), table.binary(SymOp::Min, s1, s0)));
}

TEST_F(SymTableTest, QuotientsAndRemaindersSimplify) {
  const Sym s0 = size(8), s1 = size(6), free = size(8, 0);
  EXPECT_TRUE(same(floor_div(mul(s0, s1), s1), s0));
  EXPECT_TRUE(same(div(mul(s0, num(4)), num(2)), mul(s0, num(2))));
  EXPECT_TRUE(same(mod(mul(s0, s1), s1), num(0)));
  EXPECT_TRUE(same(mod(mul(s0, num(8)), num(4)), num(0)));
  EXPECT_TRUE(same(div(add(mul(s0, num(8)), mul(s1, num(8))), add(s0, s1)), num(8)));
  EXPECT_TRUE(same(div(mul(mul(s0, s1), num(12)), mul(s0, num(4))), mul(s1, num(3))));
  EXPECT_EQ(text(div(mul(s0, s1), mul(s0, num(4)))), "s1 // 4");
  EXPECT_EQ(text(mod(mul(s0, s1), mul(s0, num(4)))), "s0*(s1 % 4)");
  EXPECT_EQ(text(add(div(sub(s0, num(1)), num(2)), num(1))), "(s0 + 1) // 2");
  EXPECT_EQ(text(div(add(mul(s0, num(8)), num(7)), num(8))), "s0");
  EXPECT_EQ(text(div(add(mul(s0, num(4)), num(2)), num(8))), "s0 // 2");
  EXPECT_EQ(text(div(div(s0, num(2)), num(3))), "s0 // 6");
  EXPECT_EQ(text(mod(add(s0, num(9)), num(8))), "(s0 + 1) % 8");
  // b may be 0 here, and a quotient that is written may not lose its error.
  EXPECT_EQ(text(div(mul(free, s0), free)), "(s0*s2) // s2");
  // Nor may the sign be lost: -3 / 2 is -1, floored -2.
  EXPECT_EQ(text(div(sub(s0, s1), num(2))), "(s0 - s1) / 2");
  EXPECT_EQ(text(floor_div(sub(s0, s1), num(2))), "(s0 - s1) // 2");
}

TEST_F(SymTableTest, Prints) {
  const Sym s0 = size(4), s1 = size(6);
  EXPECT_EQ(text(add(mul(s0, num(4)), num(1))), "s0*4 + 1");
  EXPECT_EQ(text(sub(num(5), s0)), "-s0 + 5");
  EXPECT_EQ(text(sub(mul(s1, s0), mul(num(2), s1))), "s0*s1 - s1*2");
  EXPECT_EQ(text(mul(floor_div(s0, num(8)), num(8))), "(s0 // 8)*8");
  EXPECT_EQ(text(table.binary(SymOp::Max, s0, num(7))), text(table.binary(SymOp::Max, num(7), s0)));
  EXPECT_EQ(text(num(-3)), "-3");

  // By structure, not by the order in which parts were made.
  SymTable other;
  const Sym t0 = other.add_symbol({"s0", 4, 2, 100}), t1 = other.add_symbol({"s1", 6, 2, 100});
  other.binary(SymOp::Mod, t1, num(3));
  const Sym quotient = other.binary(SymOp::FloorDiv, t1, num(3));
  const Sym there = other.binary(SymOp::Add, other.binary(SymOp::Mod, t0, num(5)), quotient);
  const Sym here = add(floor_div(s1, num(3)), mod(s0, num(5)));
  EXPECT_EQ(other.to_string(there), text(here));
  EXPECT_EQ(other.hash(there), table.hash(here));
}

TEST_F(SymTableTest, DecidesByFormAndRange) {
  const Sym s0 = size(4), s1 = size(6, 2, 10), s2 = size(3, 0);
  EXPECT_EQ(decide(SymCompare::Eq, mul(s0, s1), mul(s1, s0)), true);
  EXPECT_EQ(decide(SymCompare::Ge, s0, num(2)), true);
  EXPECT_EQ(decide(SymCompare::Eq, s0, num(1)), false);
  EXPECT_EQ(decide(SymCompare::Ne, mul(s0, s1), num(0)), true);
  EXPECT_EQ(decide(SymCompare::Ge, mul(s0, s1), num(4)), true);
  EXPECT_EQ(decide(SymCompare::Gt, mul(s0, s1), s0), true);
  EXPECT_EQ(decide(SymCompare::Le, s0, mul(s0, num(4))), true);
  EXPECT_EQ(decide(SymCompare::Lt, s0, s1), std::nullopt);
  EXPECT_EQ(decide(SymCompare::Le, mul(s1, num(2)), num(20)), true);
  EXPECT_EQ(decide(SymCompare::Eq, mul(s0, num(2)), num(5)), false);
  EXPECT_EQ(decide(SymCompare::Eq, s0, num(5)), std::nullopt);
  EXPECT_EQ(decide(SymCompare::Ge, s2, num(0)), true);
  EXPECT_EQ(decide(SymCompare::Gt, s2, num(0)), std::nullopt);
  EXPECT_EQ(decide(SymCompare::Le, mul(floor_div(s0, num(8)), num(8)), s0), true);
  EXPECT_EQ(decide(SymCompare::Lt, sub(s0, mul(floor_div(s0, num(8)), num(8))), num(8)), true);
  EXPECT_EQ(decide(SymCompare::Lt, mod(s0, num(8)), num(8)), true);
  EXPECT_EQ(decide(SymCompare::Le, floor_div(add(s0, num(1)), num(2)), s0), true);
  EXPECT_EQ(decide(SymCompare::Lt, s0, add(s0, s1)), true);
  EXPECT_EQ(decide(SymCompare::Le, table.binary(SymOp::Min, s0, num(7)), num(7)), true);
}

TEST_F(SymTableTest, AssumptionsAnswerLaterQuestions) {
  const Sym s0 = size(8), s1 = size(8), s2 = size(64), s3 = size(5);
  const Sym before = mul(s1, num(3));
  table.assume(SymCompare::Eq, s0, s1);
  EXPECT_TRUE(same(table.current(s1), s0));
  EXPECT_TRUE(same(table.current(before), mul(s0, num(3))));
  EXPECT_EQ(decide(SymCompare::Eq, before, mul(s0, num(3))), true);
  table.assume(SymCompare::Eq, s2, mul(s0, num(8)));
  EXPECT_EQ(text(table.current(add(s2, num(1)))), "s0*8 + 1");
  table.assume(SymCompare::Eq, mod(s0, num(4)), num(0));
  EXPECT_TRUE(same(mod(mul(s1, num(3)), num(2)), num(0)));
  EXPECT_TRUE(same(mul(floor_div(s0, num(4)), num(4)), s0));
  table.assume(SymCompare::Lt, s3, s0);
  EXPECT_EQ(decide(SymCompare::Lt, s3, s1), true);
  EXPECT_EQ(decide(SymCompare::Lt, mul(s3, num(2)), mul(s0, num(2))), true);
  table.assume(SymCompare::Ne, s3, num(7));
  EXPECT_EQ(decide(SymCompare::Eq, s3, num(7)), false);
  table.assume(SymCompare::Le, s0, num(64));
  EXPECT_EQ(table.range(s1).max, 64);
  EXPECT_EQ(table.range(mul(s0, s1)).max, 64 * 64);
  table.assume(SymCompare::Eq, s0, num(8));
  EXPECT_TRUE(same(table.current(s2), num(64)));
  EXPECT_TRUE(same(add(before, s3), add(s3, num(24))));
}

TEST_F(SymTableTest, BoundsFollowFromAssumptions) {
  const Sym s0 = size(7), s1 = size(8), s2 = size(9);
  table.assume(SymCompare::Lt, s0, s1);
  table.assume(SymCompare::Lt, s1, s2);
  EXPECT_EQ(decide(SymCompare::Lt, s0, s2), true);
  EXPECT_EQ(decide(SymCompare::Ge, s0, add(s1, num(3))), false);
  EXPECT_EQ(decide(SymCompare::Lt, s0, sub(s2, num(2))), std::nullopt);
  // As many pieces of 3 as there are in the call.
  table.assume(SymCompare::Eq, floor_div(add(s0, num(2)), num(3)), num(3));
  EXPECT_EQ(table.range(s0).min, 7);
  EXPECT_EQ(table.range(s0).max, 9);
  EXPECT_EQ(decide(SymCompare::Le, s0, num(INT64_MAX)), true);
}

TEST_F(SymTableTest, RelationsReadWell) {
  const Sym s0 = size(7), s1 = size(8), s2 = size(9);
  const auto relation = [&](SymCompare op, Sym a, Sym b) {
    const Relation r = table.simplified(op, a, b);
    return text(r.a) + " " + name_of(r.op) + " " + text(r.b);
  };
  EXPECT_EQ(relation(SymCompare::Gt, sub(mul(s0, num(2)), num(1)), num(4)), "s0 >= 3");
  EXPECT_EQ(relation(SymCompare::Ge, num(64), s0), "s0 <= 64");
  EXPECT_EQ(relation(SymCompare::Gt, sub(s1, s0), num(0)), "s0 < s1");
  EXPECT_EQ(relation(SymCompare::Le, mul(s0, num(-1)), num(-4)), "s0 >= 4");
  EXPECT_EQ(relation(SymCompare::Eq, mul(s0, s1), s2), "s2 == s0*s1");
  EXPECT_EQ(relation(SymCompare::Ne, sub(s0, num(1)), num(1)), "s0 != 2");
  EXPECT_EQ(relation(SymCompare::Ge, s0, sub(s1, num(5))), "s1 <= s0 + 5");
  EXPECT_EQ(relation(SymCompare::Eq, mod(s0, num(8)), num(0)), "s0 % 8 == 0");
}

TEST_F(SymTableTest, EvaluatesOrNamesTheExpression) {
  const Sym s0 = size(4), s1 = size(6, 0);
  const Sym area = mul(mul(s0, s0), s1);
  EXPECT_EQ(table.evaluate(area, std::vector<int64_t>{3, 5}), 45);
  EXPECT_EQ(table.hint(area), 96);
  // What fits is given, also where a part of it does not.
  const Sym difference = sub(mul(mul(s0, s0), s0), mul(mul(s0, s0), s1));
  const int64_t big = int64_t{1} << 31;
  EXPECT_EQ(table.evaluate(difference, std::vector<int64_t>{big, big - 1}), big * big);
  const auto message = [&](Sym a, std::vector<int64_t> values) -> std::string {
    EXPECT_EQ(table.try_evaluate(a, values), std::nullopt);
    try {
      table.evaluate(a, values);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(area, {int64_t{1} << 40, 2}),
            "size: s0*s0*s1 does not fit in 64 bits for s0 = 1099511627776, s1 = 2");
  EXPECT_EQ(message(add(floor_div(s0, s1), s0), {5, 0}), "size: s0 // s1 divides by zero for s0 = 5, s1 = 0");
  EXPECT_THROW(div(s0, num(0)), Error);
  EXPECT_THROW(mod(num(3), num(0)), Error);
  const Sym zero = size(0, 0, 9);
  EXPECT_THROW(table.check_hint(div(s0, zero)), Error);
}

TEST_F(SymTableTest, LargeExpressionsStaySmall) {
  std::vector<Sym> sizes;
  for (int i = 0; i < 200; ++i) sizes.push_back(size(2 + i % 3));
  Sym sum = num(1), power = sizes[0], product = num(1), mixed = sizes[1];
  for (Sym s : sizes) sum = add(sum, s);
  for (int i = 0; i < 20; ++i) power = mul(power, sizes[0]);
  for (int i = 0; i < 6; ++i) product = mul(product, add(add(sizes[i], sizes[i + 10]), sizes[i + 20]));
  // Each step uses the last one twice: only sharing keeps this from doubling.
  for (int i = 0; i < 100; ++i)
    mixed = table.binary(SymOp::Max, floor_div(mixed, num(3)), sub(sizes[i], floor_div(mixed, num(2))));
  std::vector<int64_t> values;
  int64_t expected_sum = 1, expected_product = 1;
  for (int i = 0; i < 200; ++i) values.push_back(2 + i % 5);
  for (int64_t v : values) expected_sum += v;
  for (int i = 0; i < 6; ++i) expected_product *= values[i] + values[i + 10] + values[i + 20];
  int64_t expected_mixed = values[1];
  for (int i = 0; i < 100; ++i)
    expected_mixed =
        std::max(expected_mixed >= 0 ? expected_mixed / 3 : -((-expected_mixed + 2) / 3),
                 values[i] - (expected_mixed >= 0 ? expected_mixed / 2 : -((-expected_mixed + 1) / 2)));
  EXPECT_EQ(table.evaluate(sum, values), expected_sum);
  EXPECT_EQ(table.evaluate(power, values), int64_t{1} << 21);
  EXPECT_EQ(table.evaluate(product, values), expected_product);
  EXPECT_EQ(table.evaluate(mixed, values), expected_mixed);
  EXPECT_LT(text(mixed).size(), 10000u);
}

// ---- Random expressions

// The value by plain integer arithmetic; nothing where that overflows or divides by zero.
std::optional<int64_t> plain(SymOp op, std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return std::nullopt;
  const __int128 x = *a, y = *b;
  __int128 result = 0;
  switch (op) {
    case SymOp::Add: result = x + y; break;
    case SymOp::Sub: result = x - y; break;
    case SymOp::Mul: result = x * y; break;
    case SymOp::Min: result = std::min(x, y); break;
    case SymOp::Max: result = std::max(x, y); break;
    case SymOp::TruncDiv:
      if (y == 0) return std::nullopt;
      result = x / y;
      break;
    case SymOp::Mod:
      if (y == 0) return std::nullopt;
      result = x % y;
      break;
    case SymOp::FloorDiv:
      if (y == 0) return std::nullopt;
      result = x / y;
      if (result * y != x && (x < 0) != (y < 0)) --result;
      break;
  }
  if (result > INT64_MAX || result < INT64_MIN / 4) return std::nullopt;
  return static_cast<int64_t>(result);
}

class RandomTable {
 public:
  static constexpr int kSamples = 12;

  explicit RandomTable(std::mt19937_64& random) : random_(random) {
    const int count = 2 + pick(3);
    for (int i = 0; i < count; ++i) {
      static constexpr int64_t lows[] = {0, 1, 2, 2, 2, -5};
      const int64_t min = lows[pick(6)];
      const int64_t max = pick(3) == 0 ? min + 1 + pick(8) : pick(2) == 0 ? 100 : INT64_MAX;
      ranges_.push_back({min, max});
      for (auto& sample : samples_) sample.push_back(draw(ranges_.back()));
      const Sym symbol = table.add_symbol({"s" + std::to_string(i), samples_[0].back(), min, max});
      std::vector<std::optional<int64_t>> values;
      for (const auto& sample : samples_) values.push_back(sample.back());
      nodes_.push_back({symbol, values});
    }
  }

  // Adds one expression of two earlier ones or numbers; checks it against plain arithmetic.
  void grow() {
    const SymOp op = static_cast<SymOp>(pick(8));
    const Node a = operand(), b = operand();
    Node made;
    for (int i = 0; i < kSamples; ++i) made.values.push_back(plain(op, a.values[i], b.values[i]));
    ++expressions;
    try {
      made.sym = table.binary(op, a.sym, b.sym);
    } catch (const Error& error) {
      EXPECT_FALSE(made.values[0].has_value()) << error.what() << " " << text(a) << name(op) << text(b);
      return;
    }
    check(made, text(a) + name(op) + text(b));
    const Interval range = table.range(made.sym);
    for (int i = 0; i < kSamples; ++i) {
      if (!is_live(i) || !made.values[i]) continue;
      EXPECT_LE(range.min, *made.values[i]) << text(made);
      EXPECT_GE(range.max, *made.values[i]) << text(made);
    }
    if (made.values[0]) nodes_.push_back(made);
  }

  void ask() {
    const SymCompare op = static_cast<SymCompare>(pick(6));
    const Node a = operand(), b = operand();
    const auto answer = table.decide(op, a.sym, b.sym);
    ++questions;
    const Relation same = table.simplified(op, a.sym, b.sym);
    for (int i = 0; i < kSamples; ++i) {
      if (!is_live(i) || !a.values[i] || !b.values[i]) continue;
      const auto x = table.try_evaluate(same.a, samples_[i]), y = table.try_evaluate(same.b, samples_[i]);
      // Terms that cancel in a - b stand on both sides here, where they may not fit into 64 bits: such a guard fails.
      if (!x || !y) continue;
      EXPECT_EQ(holds(op, *a.values[i], *b.values[i]), holds(same.op, *x, *y))
          << text(a) << ' ' << name_of(op) << ' ' << text(b) << " became " << table.to_string(same.a) << ' '
          << name_of(same.op) << ' ' << table.to_string(same.b);
    }
    if (!answer) return;
    ++answers;
    for (int i = 0; i < kSamples; ++i) {
      if (!is_live(i) || !a.values[i] || !b.values[i]) continue;
      EXPECT_EQ(holds(op, *a.values[i], *b.values[i]), *answer)
          << text(a) << ' ' << name_of(op) << ' ' << text(b) << " with " << *a.values[i] << " and "
          << *b.values[i];
    }
  }

  // Assumes a relation that holds in sample 0; the samples in which it does not are out from now on.
  void assume() {
    const Node a = operand(), b = operand();
    const int64_t x = *a.values[0], y = *b.values[0];
    const SymCompare op = x == y         ? SymCompare::Eq
                          : pick(3) == 0 ? SymCompare::Ne
                          : x < y        ? SymCompare::Lt
                                         : SymCompare::Gt;
    for (int i = 0; i < kSamples; ++i)
      if (!a.values[i] || !b.values[i] || !holds(op, *a.values[i], *b.values[i])) dead_[i] = true;
    table.assume(op, a.sym, b.sym);
    for (const Node& node : nodes_) check({table.current(node.sym), node.values}, text(node));
  }

  SymTable table;
  static inline int64_t expressions = 0, questions = 0, answers = 0;

 private:
  struct Node {
    Sym sym;
    std::vector<std::optional<int64_t>> values;
  };
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t draw(Interval range) {
    const int64_t span = range.max == INT64_MAX ? (pick(4) == 0 ? 100000 : 12) : range.max - range.min + 1;
    return range.min + pick(span);
  }
  Node operand() {
    if (pick(3) == 0) {
      static constexpr int64_t values[] = {-3, -2, -1, 0, 1, 2, 2, 3, 4, 8, 16, 7};
      const int64_t value = values[pick(12)];
      return {num(value), std::vector<std::optional<int64_t>>(kSamples, value)};
    }
    return nodes_[pick(static_cast<int64_t>(nodes_.size()))];
  }
  bool is_live(int i) const { return !dead_[i]; }
  std::string text(const Node& node) const { return table.to_string(node.sym); }
  static std::string name(SymOp op) {
    static constexpr const char* names[] = {" + ", " - ", " * ", " // ", " / ", " % ", " min ", " max "};
    return names[static_cast<int>(op)];
  }
  void check(const Node& node, const std::string& origin) {
    for (int i = 0; i < kSamples; ++i) {
      if (!is_live(i) || !node.values[i]) continue;
      const auto value = table.try_evaluate(node.sym, samples_[i]);
      std::string sample;
      for (int64_t v : samples_[i]) sample += std::to_string(v) + " ";
      EXPECT_EQ(value, node.values[i])
          << origin << " became " << table.to_string(node.sym) << " at " << sample;
    }
  }

  std::mt19937_64& random_;
  std::vector<Interval> ranges_;
  std::vector<int64_t> samples_[kSamples];
  bool dead_[kSamples] = {};
  std::vector<Node> nodes_;
};

TEST(SymTableRandom, AgreesWithPlainArithmetic) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  RandomTable::expressions = RandomTable::questions = RandomTable::answers = 0;
  for (int round = 0; round < 1200 && !testing::Test::HasFailure(); ++round) {
    RandomTable world(random);
    for (int i = 0; i < 30; ++i) {
      world.grow();
      world.ask();
      world.ask();
      if (round % 2 == 1 && i % 8 == 7) world.assume();
    }
  }
  std::cout << RandomTable::expressions << " expressions, " << RandomTable::answers << " of "
            << RandomTable::questions << " questions answered\n";
  EXPECT_GE(RandomTable::expressions, 20000);
  EXPECT_GE(RandomTable::answers, 20000);
}

}  // namespace
}  // namespace weft::compiler
