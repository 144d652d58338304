// SymTable: the integer expressions over symbolic sizes that one compiled path uses, hash-consed and simplified.
// Needs tensor/sym. ShapeEnv decides and guards with it; graphs, guards and plans evaluate with it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/sym.h"

namespace weft::compiler {

// One unknown: a size, stride or integer argument that differs between calls.
struct Symbol {
  std::string name;  // "s0", or what the user calls it
  int64_t hint = 0;  // its value in the call that was traced
  int64_t min = 0, max = INT64_MAX;
};

// Bounds that hold for every call.
struct Interval {
  int64_t min = INT64_MIN, max = INT64_MAX;  // saturating
};

// a `op` b
struct Relation {
  SymCompare op;
  Sym a, b;
};

class SymStore;  // sym_expr.h

// Expressions are immutable and equal expressions have equal ids, so that a Sym can be compared by its bits. Sums and
// products are kept in a normal form (a sorted polynomial over atoms; an atom is a symbol or a quotient, remainder,
// minimum or maximum of two expressions). Not thread-safe while expressions are added; evaluation is.
class SymTable {
 public:
  SymTable();
  ~SymTable();
  // The same expressions under the same ids, which may then differ: for whoever adds some while others evaluate.
  SymTable(const SymTable& other);
  SymTable& operator=(const SymTable&) = delete;

  // A new symbol, as an expression.
  Sym add_symbol(Symbol symbol);
  const std::vector<Symbol>& symbols() const;
  // Which symbol the expression is, if it is one.
  std::optional<uint32_t> as_symbol(Sym a) const;
  // Tightens what is known of a symbol, for decisions that come later.
  void set_range(uint32_t symbol, Interval range);

  // The simplified expression; a plain integer where it is one. Error where it overflows at the hints.
  Sym binary(SymOp op, Sym a, Sym b);
  // Error where plain integers would raise at the hints: it divides by zero.
  void check_hint(Sym a) const;
  // An answer that holds for every value within the ranges; nothing where none follows.
  std::optional<bool> decide(SymCompare op, Sym a, Sym b) const;
  Interval range(Sym a) const;
  // A relation that holds in every call, because a guard asks for it: decisions and simplifications use it from now on.
  // An equation replaces a symbol that stands alone in it (or a quotient or remainder) by the others.
  void assume(SymCompare op, Sym a, Sym b);
  // What stands for the expression now, by what was assumed since it was made: an integer where one value is left.
  Sym current(Sym a) const;
  // The same relation in the form that reads best and is checked fastest: s0 >= 3 for s0*2 - 1 > 4, s0 < s1 for s1 - s0 > 0.
  Relation simplified(SymCompare op, Sym a, Sym b);
  // The symbols that occur in it, in ascending order.
  std::vector<uint32_t> symbols_of(Sym a) const;

  // Its value for these values of the symbols (by number). Error naming the expression on overflow or division by zero.
  int64_t evaluate(Sym a, std::span<const int64_t> values) const;
  // Likewise, with nothing for the error: where guards ask.
  std::optional<int64_t> try_evaluate(Sym a, std::span<const int64_t> values) const;
  int64_t hint(Sym a) const;
  // "s0*4 + 1"; integers as they are. The same text in every table in which the symbols have these names and numbers, but
  // for expressions of hundreds of parts, of which it leaves out some.
  std::string to_string(Sym a) const;
  // Of its structure: equal in every table for the same operations on symbols of the same numbers.
  uint64_t hash(Sym a) const;
  // How deep quotients, remainders and the like nest in it.
  uint32_t depth(Sym a) const;
  // How expressions are made up, for what compiles them.
  const SymStore& store() const { return *store_; }

 private:
  std::unique_ptr<SymStore> store_;
};

bool holds(SymCompare op, int64_t a, int64_t b);
SymCompare negated(SymCompare op);   // !(a op b)
SymCompare mirrored(SymCompare op);  // b op a
const char* name_of(SymCompare op);

}  // namespace weft::compiler
