// SymGuardProgram: the facts about symbolic sizes that a trace relied on, as checks that a call runs through.
// Needs shape_env and scalar_table. Made once for a path; outlives its ShapeEnv. guards.h runs it after the flat checks.
#pragma once

#include "compiler/trace/scalar_table.h"
#include "compiler/trace/shape_env.h"

namespace weft::compiler {

class SymGuardProgram {
 public:
  SymGuardProgram() = default;
  // `tables` holds the table of `env`.
  // Only the facts whose last symbol lies in [first, end): results of data-dependent ops have symbols that come later than
  // those of the arguments.
  SymGuardProgram(const ShapeEnv& env, std::shared_ptr<const Expressions> tables, uint32_t first = 0,
                  uint32_t end = ~uint32_t{0});

  // Values by number of the symbol; only those of symbols() are read. 1-2 ns for a bound, a comparison of two symbols, a
  // divisor or a product of sizes; a walk over the expression for others. No allocation. An expression without a value
  // (overflow, division by zero) fails.
  bool check(std::span<const int64_t> values) const;
  // In the order in which the trace relied on them.
  std::optional<size_t> first_failure(std::span<const int64_t> values) const;

  // Facts: the range promised for each symbol, then what the program asked.
  size_t size() const { return facts_.size(); }
  // "s0 % 8 == 0, asked by view at net.cpp:12"
  std::string to_string(size_t fact) const;
  // With the values that broke it: "…; s0 is 9".
  std::string explain(size_t fact, std::span<const int64_t> values) const;
  const std::vector<uint32_t>& symbols() const { return symbols_; }

 private:
  struct Fact {
    SymCompare op;
    Sym a, b;
    Place place;
    std::optional<Interval> promised;  // a alone lies in it; nothing else counts
  };
  // One symbol in [min, max]; the facts of a symbol are joined.
  struct Bound {
    uint32_t symbol;
    int64_t min;
    uint64_t width;
  };
  struct Pair {
    uint32_t a, b;
    SymCompare op;
  };
  struct Unequal {
    uint32_t symbol;
    int64_t value;
  };
  // symbol % divisor == rest, for symbols that are not negative.
  struct Divisor {
    uint32_t symbol;
    uint64_t divisor, rest;
  };
  // symbol == factor * others
  struct Product {
    uint32_t symbol, count;
    uint32_t others[3];
    int64_t factor;
  };
  void compile(const Fact& fact);
  bool compile_simple(SymCompare op, Sym a, Sym b);
  void add_bound(uint32_t symbol, Interval range);
  bool holds_now(const Fact& fact, std::span<const int64_t> values) const;

  std::shared_ptr<const Expressions> tables_;
  std::vector<Fact> facts_;
  std::vector<uint32_t> symbols_;
  size_t num_values_ = 0;

  std::vector<Bound> bounds_;
  std::vector<Pair> pairs_;
  std::vector<Unequal> unequal_;
  std::vector<Divisor> divisors_;
  std::vector<Product> products_;
  std::vector<uint32_t> others_;  // facts that are evaluated as they are
};

}  // namespace weft::compiler
