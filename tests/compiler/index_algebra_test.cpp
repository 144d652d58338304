// Index expressions over loop symbols: what they become, and random ones against plain integer arithmetic.
#include <gtest/gtest.h>

#include <random>

#include "compiler/loops/index_expr.h"
#include "compiler/trace/sym_table.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

Sym num(int64_t value) { return Sym::from_int(value); }

// n, m and l are sizes of at least 1; i < n, j < m and k < l; p < 6 and q < 4.
struct IndexAlgebra : testing::Test {
  SymTable table;
  Sym n = size("n", 7), m = size("m", 5), l = size("l", 3);
  Sym i = below("i", n), j = below("j", m), k = below("k", l), p = below("p", num(6)), q = below("q", num(4));

  Sym size(const char* name, int64_t hint) { return table.add_symbol({name, hint, 1}); }
  Sym below(const char* name, Sym size) {
    const Sym symbol = table.add_symbol({name, 0, 0, size.is_symbolic() ? INT64_MAX : size.concrete() - 1});
    if (size.is_symbolic()) table.assume(SymCompare::Lt, symbol, size);
    return symbol;
  }
  Sym add(Sym a, Sym b) { return table.binary(SymOp::Add, a, b); }
  Sym add(Sym a, Sym b, Sym c) { return add(add(a, b), c); }
  Sym sub(Sym a, Sym b) { return table.binary(SymOp::Sub, a, b); }
  Sym mul(Sym a, Sym b) { return table.binary(SymOp::Mul, a, b); }
  Sym mul(Sym a, int64_t b) { return mul(a, num(b)); }
  Sym div(Sym a, Sym b) { return table.binary(SymOp::FloorDiv, a, b); }
  Sym div(Sym a, int64_t b) { return div(a, num(b)); }
  Sym mod(Sym a, Sym b) { return table.binary(SymOp::Mod, a, b); }
  Sym mod(Sym a, int64_t b) { return mod(a, num(b)); }
  std::string text(Sym a) { return table.to_string(a); }
  void is(Sym a, Sym b) {
    EXPECT_TRUE(__builtin_memcmp(&a, &b, sizeof a) == 0) << text(a) << "  is not  " << text(b);
  }
  void less(Sym a, Sym b) {
    EXPECT_EQ(table.decide(SymCompare::Lt, a, b), true) << text(a) << " < " << text(b);
  }
  void unknown(SymCompare op, Sym a, Sym b) {
    EXPECT_EQ(table.decide(op, a, b), std::nullopt) << text(a) << ' ' << name_of(op) << ' ' << text(b);
  }
};

// A flattened index goes apart into what it was made of.
TEST_F(IndexAlgebra, MultiplesLeaveQuotientsAndRemainders) {
  is(div(add(mul(p, 4), q), 4), p);
  is(mod(add(mul(p, 4), q), 4), q);
  is(div(add(mul(i, 4), q), 4), i);
  is(div(add(mul(i, m), j), m), i);
  is(mod(add(mul(i, m), j), m), j);
  const Sym flat = add(mul(i, mul(m, l)), mul(j, l), k);
  is(div(flat, mul(m, l)), i);
  is(mod(div(flat, l), m), j);
  is(mod(flat, l), k);
  is(mod(flat, mul(m, l)), add(mul(j, l), k));
  is(div(flat, mul(mul(n, m), l)), num(0));
  is(mod(flat, mul(mul(n, m), l)), flat);
  // A size that is a sum, as padding makes it.
  const Sym padded = add(m, num(2)), inner = below("t", padded);
  is(div(add(mul(i, padded), inner), padded), i);
  is(mod(add(mul(i, padded), inner), padded), inner);
  is(div(add(mul(i, padded), add(j, num(1))), padded), i);
}

TEST_F(IndexAlgebra, SmallPartsBelowTheDivisorVanish) {
  is(div(add(mul(i, 8), q), 16), div(i, 2));
  is(div(add(mul(i, 8), mul(p, 1), num(1)), 16), div(i, 2));
  is(mod(add(mul(i, 4), q), 8), add(mul(mod(i, 2), 4), q));
  is(div(add(mul(i, m), j), mul(m, 3)), div(i, 3));
  is(mod(add(mul(i, m), j), mul(m, 3)), add(mul(mod(i, 3), m), j));
  const Sym x = table.add_symbol({"x", 0, 0});
  is(div(add(mul(x, m), j), mul(m, l)), div(x, l));
}

TEST_F(IndexAlgebra, RemaindersOfSmallValuesAreTheValues) {
  is(mod(i, n), i);
  is(div(i, n), num(0));
  is(mod(p, 6), p);
  is(mod(div(p, 2), 3), div(p, 2));
  // x // m below l where x is below m·l.
  const Sym x = below("x", mul(m, l));
  is(mod(div(x, m), l), div(x, m));
  is(div(div(x, m), l), num(0));
  is(mod(mod(x, m), m), mod(x, m));
}

TEST_F(IndexAlgebra, QuotientsAndRemaindersNest) {
  const Sym x = table.add_symbol({"x", 100, 0});
  is(div(div(x, 3), 4), div(x, 12));
  is(div(div(x, m), l), div(x, mul(m, l)));
  is(mod(mod(x, 12), 4), mod(x, 4));
  is(mod(mod(x, mul(m, l)), m), mod(x, m));
  is(div(mod(x, 12), 4), mod(div(x, 4), 3));
  is(div(mod(x, mul(m, l)), l), mod(div(x, l), m));
  is(mod(add(mul(mod(x, 12), 3), q), 4), mod(add(mul(x, 3), q), 4));
}

TEST_F(IndexAlgebra, SplitIndicesJoin) {
  const Sym x = table.add_symbol({"x", 100, 0});
  is(add(mod(x, 4), mul(div(x, 4), 4)), x);
  is(add(mod(x, m), mul(div(x, m), m)), x);
  is(add(mod(div(x, 3), 4), mul(div(x, 12), 4)), div(x, 3));
  is(add(mod(div(x, l), m), mul(div(x, mul(m, l)), m)), div(x, l));
  is(add(mul(mod(x, m), 5), mul(div(x, m), mul(m, 5)), i), add(mul(x, 5), i));
  is(add(mul(mod(x, m), n), mul(div(x, m), mul(m, n))), mul(x, n));
  const Sym sum = add(x, i);
  is(add(mod(sum, 4), mul(div(sum, 4), 4)), sum);
  // Three parts of one index, the last joined first or last.
  const Sym high = div(x, mul(m, l)), middle = mod(div(x, l), m), low = mod(x, l);
  is(add(mul(high, mul(m, l)), mul(middle, l), low), x);
  is(add(add(low, mul(middle, l)), mul(high, mul(m, l))), x);
  // A window of the joint index stays what it is.
  EXPECT_NE(text(add(mod(x, 4), mul(div(x, 4), 8))), text(x));
}

TEST_F(IndexAlgebra, BoundsFollowFromSizes) {
  less(add(mul(i, m), j), mul(n, m));
  less(add(mul(i, mul(m, l)), mul(j, l), k), mul(mul(n, m), l));
  less(add(mul(p, m), j), mul(m, 6));
  less(sub(sub(n, num(1)), i), n);
  less(mod(i, m), m);
  less(mod(mul(i, j), m), m);
  less(mul(div(i, m), m), n);
  less(div(add(mul(i, m), j), l), mul(n, m));
  less(num(-1), sub(sub(n, num(1)), i));
  EXPECT_EQ(table.decide(SymCompare::Ge, sub(sub(mul(n, m), num(1)), add(mul(i, m), j)), num(0)), true);
  unknown(SymCompare::Lt, i, m);
  unknown(SymCompare::Lt, add(mul(i, m), j), mul(n, l));
  unknown(SymCompare::Lt, add(mul(i, l), j), mul(n, m));
  unknown(SymCompare::Lt, add(i, num(1)), n);
}

TEST_F(IndexAlgebra, ExtremaByRange) {
  is(table.binary(SymOp::Min, i, n), i);
  is(table.binary(SymOp::Min, add(mul(i, m), j), sub(mul(n, m), num(1))), add(mul(i, m), j));
  is(table.binary(SymOp::Max, i, num(0)), i);
  const Sym none = table.add_symbol({"z", 0, 0, 0}), one = table.add_symbol({"o", 1, 1, 1});
  is(mul(none, i), num(0));
  is(mul(one, i), i);
}

// ---- Random indices

// Loops over sizes that differ between calls and over plain numbers; every expression knows its value in some places of
// some calls by plain arithmetic.
class RandomLoops {
 public:
  static constexpr int kPlaces = 10;

  explicit RandomLoops(std::mt19937_64& random) : random_(random) {
    for (int s = 0; s < 3; ++s) {
      const int64_t min = pick(3) == 0 ? 2 : 1;
      Node size = symbol("n" + std::to_string(s), min, INT64_MAX, [&](int) { return min + pick(7); });
      if (pick(4) == 0) {  // a multiple of 4, which a guard asked for
        for (int64_t& value : size.values) value = 4 * (1 + pick(3));
        remember(size);
        table.assume(SymCompare::Eq, table.binary(SymOp::Mod, size.sym, num(4)), num(0));
        size.sym = table.current(size.sym);
      }
      sizes_.push_back(size);
    }
    sizes_.push_back(made(SymOp::Mul, sizes_[0], sizes_[1]));
    sizes_.push_back(made(SymOp::Add, sizes_[1], number(1 + pick(3))));
    for (int i = 0; i < 4; ++i) {
      const Node bound = pick(2) == 0 ? number(1 + pick(9)) : sizes_[static_cast<size_t>(pick(5))];
      loops_.push_back(loop("i" + std::to_string(i), bound));
      nodes_.push_back(loops_.back());
    }
  }

  void grow() {
    const Node a = any(), b = any();
    switch (pick(8)) {
      case 0: return keep(made(SymOp::Add, a, b));
      case 1: return keep(made(SymOp::Add, made(SymOp::Mul, a, divisor()), b));
      case 2:
      case 3: return keep(made(SymOp::FloorDiv, a, divisor()));
      case 4:
      case 5: return keep(made(SymOp::Mod, a, divisor()));
      case 6: {  // counted from the end
        const Node loop = loops_[static_cast<size_t>(pick(static_cast<int64_t>(loops_.size())))];
        return keep(made(SymOp::Sub, made(SymOp::Sub, loop_bounds_.at(loop.sym.id()), number(1)), loop));
      }
      default: {  // apart and joined again
        const Node d = divisor();
        const Node part = made(SymOp::Mod, a, d), rest = made(SymOp::FloorDiv, a, d);
        keep(part);
        return keep(made(SymOp::Add, made(SymOp::Mul, rest, pick(4) == 0 ? divisor() : d), part));
      }
    }
  }

  void ask() {
    const SymCompare op = static_cast<SymCompare>(pick(6));
    const Node a = any();
    const Node b = pick(2) == 0 ? any() : made(SymOp::Mul, divisor(), divisor());
    const auto answer = table.decide(op, a.sym, b.sym);
    ++questions;
    if (!answer) return;
    ++answers;
    for (int at = 0; at < kPlaces; ++at)
      ASSERT_EQ(holds(op, a.values[at], b.values[at]), *answer)
          << text(a) << ' ' << name_of(op) << ' ' << text(b) << " at " << place(at);
  }

  // Another loop takes the place of one: i = outer·d + inner, or another index that stays below its bound.
  void replace() {
    const Node d = divisor(), loop = loops_[static_cast<size_t>(pick(static_cast<int64_t>(loops_.size())))];
    const Node by = pick(2) == 0 ? made(SymOp::Mod, any(), loop_bounds_.at(loop.sym.id()))
                                 : made(SymOp::FloorDiv, loop, d);
    const Node a = any();
    const Sym replaced = substitute(table, a.sym, loop.sym, by.sym);
    for (int at = 0; at < kPlaces; ++at) {
      std::vector<int64_t> moved = places_[at];
      moved[*table.as_symbol(loop.sym)] = by.values[at];
      ASSERT_EQ(table.evaluate(replaced, places_[at]), table.evaluate(a.sym, moved))
          << text(a) << " with " << text(by) << " for " << text(loop) << " at " << place(at);
    }
  }

  SymTable table;
  static inline int64_t expressions = 0, questions = 0, answers = 0;

 private:
  struct Node {
    Sym sym;
    int64_t values[kPlaces];
    int64_t steps = 0;  // operations as it was written
  };

  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  const Node& any() { return nodes_[static_cast<size_t>(pick(static_cast<int64_t>(nodes_.size())))]; }
  Node number(int64_t value) const {
    Node node{num(value), {}};
    std::fill(node.values, node.values + kPlaces, value);
    return node;
  }
  Node divisor() {
    static constexpr int64_t numbers[] = {1, 2, 3, 4, 6, 8, 12};
    return pick(2) == 0 ? number(numbers[pick(7)]) : sizes_[static_cast<size_t>(pick(5))];
  }

  template <class F>
  Node symbol(const std::string& name, int64_t min, int64_t max, const F& value) {
    Node node{};
    for (int at = 0; at < kPlaces; ++at) node.values[at] = value(at);
    node.sym = table.add_symbol({name, node.values[0], min, max});
    remember(node);
    return node;
  }
  void remember(const Node& node) {
    const uint32_t number = *table.as_symbol(node.sym);
    for (int at = 0; at < kPlaces; ++at) {
      places_[at].resize(std::max<size_t>(places_[at].size(), number + 1));
      places_[at][number] = node.values[at];
    }
  }
  Node loop(const std::string& name, const Node& bound) {
    const int64_t max = bound.sym.is_symbolic() ? INT64_MAX : bound.sym.concrete() - 1;
    const Node node = symbol(name, 0, max, [&](int at) { return at == 0 ? 0 : pick(bound.values[at]); });
    if (bound.sym.is_symbolic()) table.assume(SymCompare::Lt, node.sym, bound.sym);
    loop_bounds_.emplace(node.sym.id(), bound);
    return node;
  }

  Node made(SymOp op, const Node& a, const Node& b) {
    Node node{table.binary(op, a.sym, b.sym), {}, a.steps + b.steps + 1};
    for (int at = 0; at < kPlaces; ++at) {
      const int64_t x = a.values[at], y = b.values[at];
      switch (op) {
        case SymOp::Add: node.values[at] = x + y; break;
        case SymOp::Sub: node.values[at] = x - y; break;
        case SymOp::Mul: node.values[at] = x * y; break;
        case SymOp::Mod: node.values[at] = x % y; break;
        default: node.values[at] = x / y - (x % y < 0 ? 1 : 0); break;
      }
    }
    check(node, text(a) + " (op " + std::to_string(static_cast<int>(op)) + ") " + text(b));
    return node;
  }
  void keep(const Node& node) {
    ++expressions;
    // Beyond some size expressions are like no index, and numbers large.
    if (node.steps < 12) nodes_.push_back(node);
  }
  void check(const Node& node, const std::string& origin) const {
    const Interval range = table.range(node.sym);
    for (int at = 0; at < kPlaces; ++at) {
      EXPECT_EQ(table.evaluate(node.sym, places_[at]), node.values[at])
          << origin << " became " << text(node) << " at " << place(at);
      EXPECT_TRUE(range.min <= node.values[at] && node.values[at] <= range.max)
          << origin << " at " << place(at);
    }
  }

  std::string text(const Node& node) const { return table.to_string(node.sym); }
  std::string place(int at) const {
    std::string text;
    for (size_t s = 0; s < table.symbols().size(); ++s)
      text += table.symbols()[s].name + " = " + std::to_string(places_[at][s]) + " ";
    return text;
  }

  std::mt19937_64& random_;
  std::vector<int64_t> places_[kPlaces];  // values of the symbols
  std::vector<Node> sizes_, loops_, nodes_;
  std::unordered_map<uint32_t, Node> loop_bounds_;
};

TEST(IndexAlgebraRandom, AgreesWithPlainArithmetic) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::cout << "seed " << seed << '\n';
  std::mt19937_64 random(seed);
  RandomLoops::expressions = RandomLoops::questions = RandomLoops::answers = 0;
  while (RandomLoops::expressions < 100000 && !testing::Test::HasFailure()) {
    RandomLoops loops(random);
    for (int i = 0; i < 40; ++i) {
      loops.grow();
      loops.ask();
      if (i % 4 == 0) loops.replace();
    }
  }
  std::cout << RandomLoops::expressions << " expressions, " << RandomLoops::answers << " of "
            << RandomLoops::questions << " questions answered\n";
  EXPECT_GE(RandomLoops::answers, 25000);
}

}  // namespace
}  // namespace weft::compiler
