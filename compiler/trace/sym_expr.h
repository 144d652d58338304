// SymStore: the arenas behind SymTable, and arithmetic on the polynomials that expressions are.
// Needs sym_table. For sym_*.cpp, and what compiles expressions.
#pragma once

#include <unordered_map>

#include "compiler/trace/sym_interval.h"
#include "tensor/base/small_vector.h"

namespace weft::compiler {

// Beyond these an expression goes on as one opaque atom, so that repeated products do not explode.
inline constexpr size_t kMaxTerms = 48, kMaxDegree = 8;
// Nested quotients, minima and opaque parts; functions on expressions recurse this deep.
inline constexpr uint32_t kMaxDepth = 400;

using AtomId = uint32_t;
using MonomialId = uint32_t;
using ExprId = uint32_t;
inline constexpr uint32_t kNone = ~uint32_t{0};

// Ids by the hash of what they stand for; equality is the caller's.
class HashIndex {
 public:
  HashIndex() : slots_(64) {}
  template <class Equal>
  uint32_t find(uint64_t hash, Equal equal) const {
    for (size_t at = hash & (slots_.size() - 1); slots_[at].id != kNone; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == hash && equal(slots_[at].id)) return slots_[at].id;
    return kNone;
  }
  void insert(uint64_t hash, uint32_t id);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t id = kNone;
  };
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// A symbol, or an operation that no polynomial expresses. Add, Sub and Mul occur where a polynomial grew too large.
struct Atom {
  uint32_t symbol = kNone;
  SymOp op = SymOp::Add;
  Sym a, b;
  ExprId self = kNone;  // the expression that is this atom alone
  uint32_t depth = 0;
  uint32_t cost = 1;        // reads of symbols and operations that an evaluation takes, without sharing
  uint64_t hash = 0;        // of the structure: the same in every table
  int64_t multiple_of = 1;  // divides every value
  int64_t hint = 0;
  bool has_hint = true;  // false where it overflows or divides by zero
  Interval range;
  std::optional<Sym> replacement;  // an expression known to be equal, which stands for it from now on
};

// A product of atoms in ascending order, repeated for powers.
struct Monomial {
  uint32_t first = 0, degree = 0;  // in SymStore::factors
  uint64_t hash = 0;
  int64_t multiple_of = 1;
  Interval range;
};

struct Term {
  MonomialId monomial;
  int64_t coefficient;
  friend bool operator==(const Term&, const Term&) = default;
};

// Terms in descending graded-lexicographic order, no coefficient 0.
struct Polynomial {
  SmallVector<Term, 8> terms;
  int64_t constant = 0;

  bool is_constant() const { return terms.empty(); }
};

struct Expr {
  uint32_t first = 0, num_terms = 0;  // in SymStore::terms
  int64_t constant = 0;
  AtomId atom = kNone;  // it is this atom alone
  uint32_t depth = 0;
  uint32_t cost = 1;
  uint64_t hash = 0;
  int64_t hint = 0;
  bool has_hint = true;
  Interval fact;   // what assumptions say of it as a whole
  Interval range;  // with what follows from its parts
  Sym current;     // itself, or the expression that stands for it by what was assumed since
};

class SymStore {
 public:
  SymStore();

  // ---- Making expressions. All give current ones.
  Sym add_symbol(Symbol symbol);
  Sym make(const Polynomial& polynomial);
  Sym make_atom(SymOp op, Sym a, Sym b);
  Sym binary(SymOp op, Sym a, Sym b);

  // What stands for the expression now: an integer where only one value is left.
  Sym current(Sym a) const {
    if (!a.is_symbolic()) return a;
    a = exprs[a.id()].current;
    if (!a.is_symbolic()) return a;
    const Interval& range = exprs[a.id()].range;
    return range.min == range.max && range.min >= INT64_MIN / 2 ? Sym::from_int(range.min) : a;
  }
  Polynomial polynomial_of(Sym a) const;
  Interval range(Sym a) const;
  bool is_never_zero(Sym a) const;
  // Divides every value; 0 if the only value is 0.
  int64_t multiple_of(const Polynomial& polynomial) const;

  // ---- Decisions and assumptions (sym_decide.cpp)
  std::optional<bool> decide(SymCompare op, Sym a, Sym b) const;
  Relation simplified(SymCompare op, Sym a, Sym b);
  void assume(SymCompare op, Sym a, Sym b);
  void tighten(Sym a, Interval range);

  // ---- Polynomial arithmetic. False or nothing: the result would be too large, or there is none.
  bool add_scaled(Polynomial& sum, const Polynomial& other, int64_t factor) const;
  bool multiply(const Polynomial& a, const Polynomial& b, Polynomial& product);
  // a = quotient * b exactly.
  std::optional<Polynomial> exact_quotient(const Polynomial& a, const Polynomial& b);
  Interval range(const Polynomial& polynomial) const;

  std::span<const AtomId> factors_of(MonomialId m) const {
    return {factors.data() + monomials[m].first, monomials[m].degree};
  }
  std::span<const Term> terms_of(ExprId e) const {
    return {terms.data() + exprs[e].first, exprs[e].num_terms};
  }
  // Earlier in the order of terms.
  bool precedes(MonomialId a, MonomialId b) const;
  MonomialId monomial(std::span<const AtomId> sorted);
  MonomialId find_monomial(std::span<const AtomId> sorted) const;
  MonomialId product(MonomialId a, MonomialId b);
  // The factors of a that b leaves; nothing if b does not divide a.
  std::optional<SmallVector<AtomId, 8>> quotient_factors(MonomialId a, MonomialId b) const;
  // The factors that all terms share; none for a polynomial with a constant.
  SmallVector<AtomId, 8> common_factors(const Polynomial& polynomial) const;
  Interval range_of_product(std::span<const AtomId> sorted) const;

  std::vector<Symbol> symbols;
  std::vector<ExprId> symbol_exprs;  // by number of the symbol
  std::vector<Atom> atoms;
  std::vector<Monomial> monomials;  // the first is the empty product
  std::vector<AtomId> factors;
  std::vector<Term> terms;
  std::vector<Expr> exprs;

 private:
  Sym simplify_sum(SymOp op, Sym a, Sym b);
  Sym sum_of(Sym a, Sym b) { return binary(SymOp::Add, a, b); }
  Sym simplify_product(Sym a, Sym b);
  std::optional<Sym> cancel_quotient(Sym quotient, Sym other);
  Sym simplify_extremum(SymOp op, Sym a, Sym b);
  // sym_divide.cpp
  Sym simplify_division(SymOp op, Sym a, Sym b);
  Sym divide_polynomials(SymOp op, Polynomial a, Polynomial b);
  bool cancel_common_factors(Polynomial& a, Polynomial& b, Polynomial& factor);
  void split_multiples(const Polynomial& a, const Polynomial& b, Polynomial& quotient, Polynomial& rest);
  bool is_not_negative(const Polynomial& polynomial) const;
  std::optional<Sym> divide_without_remainders(SymOp op, const Polynomial& a, const Polynomial& b);
  std::optional<Sym> divide_without_small_part(SymOp op, const Polynomial& a, const Polynomial& b);
  bool join_remainder(Polynomial& sum);

  uint64_t hash_of(Sym a) const;
  uint64_t hash_of(const Polynomial& polynomial) const;
  uint64_t hash_of_product(std::span<const AtomId> sorted) const;
  ExprId find(const Polynomial& polynomial, uint64_t hash) const;
  Sym add_expr(const Polynomial& polynomial, uint64_t hash, AtomId atom);
  // What follows from the parts, again.
  void refresh(Atom& atom) const;
  void refresh(Monomial& monomial) const;
  void refresh(Expr& expr) const;
  void refresh_all();

  // sym_decide.cpp
  Interval bounds(const Polynomial& polynomial, int effort) const;
  Interval bounds_by_facts(const Polynomial& polynomial) const;
  // sym_bounds.cpp: a lower bound that sets terms against each other, and one that uses assumptions beside.
  int64_t dominated_minimum(const Polynomial& polynomial) const;
  int64_t least_by_elimination(const Polynomial& polynomial) const;
  bool replace_quotients(Polynomial& polynomial, Interval& slack) const;
  bool is_excluded(const Polynomial& difference) const;
  void assume_polynomial(SymCompare op, Polynomial difference);
  void bound_dividend(AtomId quotient, const Interval& fact);
  void learn_divisor(AtomId remainder);
  bool substitute_in_equation(const Polynomial& left, int64_t right);
  void substitute(AtomId atom, Sym by);
  Sym rebuilt(Sym a, std::vector<uint8_t>& done);
  Sym sum_of_replacements(ExprId id);
  void rebuild(AtomId atom, std::vector<uint8_t>& done);
  bool depends_on(Sym a, AtomId atom, std::vector<uint8_t>& seen) const;
  bool depends_on(const Polynomial& polynomial, AtomId atom) const;

  HashIndex atom_index_, monomial_index_, expr_index_;
  enum class Part : uint8_t { Atom, Monomial, Expr };
  std::vector<std::pair<Part, uint32_t>> made_;  // in order: parts before what they are parts of
  std::vector<ExprId> with_facts_;
  // Values that an expression without constant never has.
  std::unordered_map<ExprId, SmallVector<int64_t, 2>> excluded_;

  // Answers of binary(), direct-mapped, valid while nothing new is assumed.
  struct Remembered {
    Sym a, b, result;
    uint32_t version = 0;
    SymOp op = SymOp::Add;
  };
  std::vector<Remembered> remembered_ = std::vector<Remembered>(1024);
  uint32_t version_ = 1;
};

constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// An operation on plain integers; nothing where it overflows T or divides by zero.
template <class T>
constexpr bool apply(SymOp op, T a, T b, T& result) {
  switch (op) {
    case SymOp::Add: return !__builtin_add_overflow(a, b, &result);
    case SymOp::Sub: return !__builtin_sub_overflow(a, b, &result);
    case SymOp::Mul: return !__builtin_mul_overflow(a, b, &result);
    case SymOp::Min: result = a < b ? a : b; return true;
    case SymOp::Max: result = a < b ? b : a; return true;
    case SymOp::FloorDiv:
    case SymOp::TruncDiv:
    case SymOp::Mod: break;
  }
  if (b == 0) return false;
  if (b == -1) {  // the one quotient that may overflow
    result = 0;
    return op == SymOp::Mod || !__builtin_sub_overflow(T{0}, a, &result);
  }
  result = op == SymOp::Mod ? a % b : a / b;
  if (op == SymOp::FloorDiv && a % b != 0 && (a < 0) != (b < 0)) --result;
  return true;
}

}  // namespace weft::compiler
