// SymStore: hash-consing of atoms, monomials and polynomials, and sums, products and extrema of expressions.
// Place: behind SymTable; divisions are in sym_divide.cpp, decisions in sym_decide.cpp.
#include "compiler/trace/sym_expr.h"

#include <numeric>

#include "tensor/base/error.h"

namespace weft::compiler {

using namespace interval;

void HashIndex::insert(uint64_t hash, uint32_t id) {
  if (++count_ * 2 > slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id == kNone) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {hash, id};
}

namespace {

constexpr uint32_t kMaxCost = 1u << 30;

bool is_commutative(SymOp op) {
  return op == SymOp::Add || op == SymOp::Mul || op == SymOp::Min || op == SymOp::Max;
}

// Both divide every product or multiple; too large a number is left at a divisor of it.
int64_t multiply_divisors(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? a : product;
}

}  // namespace

SymStore::SymStore() { monomial({}); }

// ---- Hashes: of structure, so that they agree between tables

uint64_t SymStore::hash_of(Sym a) const {
  return a.is_symbolic() ? exprs[a.id()].hash : mix_bits(static_cast<uint64_t>(a.concrete()) + 0x51ed2701);
}

uint64_t SymStore::hash_of(const Polynomial& polynomial) const {
  uint64_t hash = mix_bits(static_cast<uint64_t>(polynomial.constant) + 0x2545f491);
  for (const Term& term : polynomial.terms)
    hash += mix_bits(monomials[term.monomial].hash ^ mix_bits(static_cast<uint64_t>(term.coefficient)));
  return mix_bits(hash);
}

// ---- Monomials

bool SymStore::precedes(MonomialId a, MonomialId b) const {
  const auto x = factors_of(a), y = factors_of(b);
  if (x.size() != y.size()) return x.size() > y.size();
  return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
}

uint64_t SymStore::hash_of_product(std::span<const AtomId> sorted) const {
  uint64_t hash = sorted.size();
  for (AtomId atom : sorted) hash += mix_bits(atoms[atom].hash);
  return mix_bits(hash);
}

MonomialId SymStore::find_monomial(std::span<const AtomId> sorted) const {
  return monomial_index_.find(hash_of_product(sorted), [&](MonomialId m) {
    const auto known = factors_of(m);
    return std::equal(known.begin(), known.end(), sorted.begin(), sorted.end());
  });
}

MonomialId SymStore::monomial(std::span<const AtomId> sorted) {
  const MonomialId found = find_monomial(sorted);
  if (found != kNone) return found;
  const uint64_t hash = hash_of_product(sorted);
  const auto id = static_cast<MonomialId>(monomials.size());
  Monomial made;
  made.first = static_cast<uint32_t>(factors.size());
  made.degree = static_cast<uint32_t>(sorted.size());
  made.hash = hash;
  factors.insert(factors.end(), sorted.begin(), sorted.end());
  monomials.push_back(made);
  refresh(monomials.back());
  made_.emplace_back(Part::Monomial, id);
  monomial_index_.insert(hash, id);
  return id;
}

MonomialId SymStore::product(MonomialId a, MonomialId b) {
  const auto x = factors_of(a), y = factors_of(b);
  SmallVector<AtomId, 2 * kMaxDegree> merged(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), merged.begin());
  return monomial({merged.data(), merged.size()});
}

std::optional<SmallVector<AtomId, 8>> SymStore::quotient_factors(MonomialId a, MonomialId b) const {
  const auto x = factors_of(a), y = factors_of(b);
  if (x.size() < y.size()) return std::nullopt;
  SmallVector<AtomId, 8> rest;
  size_t at = 0;
  for (AtomId atom : x) {
    if (at < y.size() && y[at] == atom) ++at;
    else rest.push_back(atom);
  }
  if (at != y.size()) return std::nullopt;
  return rest;
}

SmallVector<AtomId, 8> SymStore::common_factors(const Polynomial& polynomial) const {
  SmallVector<AtomId, 8> common;
  if (polynomial.constant != 0 || polynomial.terms.empty()) return common;
  for (AtomId atom : factors_of(polynomial.terms[0].monomial)) common.push_back(atom);
  for (size_t t = 1; t < polynomial.terms.size() && !common.empty(); ++t) {
    const auto other = factors_of(polynomial.terms[t].monomial);
    SmallVector<AtomId, 8> both;
    std::set_intersection(common.begin(), common.end(), other.begin(), other.end(), std::back_inserter(both));
    common = both;
  }
  return common;
}

// ---- What follows from the parts

Interval SymStore::range_of_product(std::span<const AtomId> sorted) const {
  Interval result = {1, 1};
  for (size_t i = 0; i < sorted.size();) {
    const Interval base = atoms[sorted[i]].range;
    Interval power = base;
    size_t exponent = 1;
    while (i + exponent < sorted.size() && sorted[i + exponent] == sorted[i]) {
      power = interval::multiply(power, base);
      ++exponent;
    }
    if (exponent % 2 == 0) power.min = std::max<int64_t>(power.min, 0);
    result = interval::multiply(result, power);
    i += exponent;
  }
  return result;
}

void SymStore::refresh(Monomial& made) const {
  const std::span<const AtomId> sorted(factors.data() + made.first, made.degree);
  made.range = range_of_product(sorted);
  made.multiple_of = 1;
  for (AtomId atom : sorted) made.multiple_of = multiply_divisors(made.multiple_of, atoms[atom].multiple_of);
}

void SymStore::refresh(Atom& atom) const {
  if (atom.symbol != kNone) {
    atom.range = {symbols[atom.symbol].min, symbols[atom.symbol].max};
    return;
  }
  const Interval x = range(atom.a), y = range(atom.b);
  switch (atom.op) {
    case SymOp::Add: atom.range = interval::add(x, y); break;
    case SymOp::Sub: atom.range = interval::add(x, negate(y)); break;
    case SymOp::Mul: atom.range = interval::multiply(x, y); break;
    case SymOp::FloorDiv: atom.range = divide(true, x, y); break;
    case SymOp::TruncDiv: atom.range = divide(false, x, y); break;
    case SymOp::Mod: atom.range = remainder(x, y); break;
    case SymOp::Min: atom.range = {std::min(x.min, y.min), std::min(x.max, y.max)}; break;
    case SymOp::Max: atom.range = {std::max(x.min, y.min), std::max(x.max, y.max)}; break;
  }
  if (atom.self != kNone) atom.range = intersect(atom.range, exprs[atom.self].fact);
}

void SymStore::refresh(Expr& expr) const {
  Interval sum = {expr.constant, expr.constant};
  for (const Term& term : std::span(terms).subspan(expr.first, expr.num_terms))
    sum = interval::add(sum, interval::scale(monomials[term.monomial].range, term.coefficient));
  expr.range = intersect(sum, expr.fact);
}

void SymStore::refresh_all() {
  for (const auto& [part, id] : made_) {
    switch (part) {
      case Part::Atom: refresh(atoms[id]); break;
      case Part::Monomial: refresh(monomials[id]); break;
      case Part::Expr: refresh(exprs[id]); break;
    }
  }
}

Interval SymStore::range(Sym a) const {
  a = current(a);
  if (!a.is_symbolic()) return {a.concrete(), a.concrete()};
  return exprs[a.id()].range;
}

Interval SymStore::range(const Polynomial& polynomial) const {
  Interval sum = {polynomial.constant, polynomial.constant};
  for (const Term& term : polynomial.terms)
    sum = interval::add(sum, interval::scale(monomials[term.monomial].range, term.coefficient));
  return sum;
}

bool SymStore::is_never_zero(Sym a) const { return decide(SymCompare::Ne, a, Sym::from_int(0)) == true; }

int64_t SymStore::multiple_of(const Polynomial& polynomial) const {
  int64_t common = polynomial.constant;
  for (const Term& term : polynomial.terms)
    common = std::gcd(common, multiply_divisors(term.coefficient, monomials[term.monomial].multiple_of));
  return common;
}

// ---- Expressions

ExprId SymStore::find(const Polynomial& polynomial, uint64_t hash) const {
  return expr_index_.find(hash, [&](ExprId e) {
    const auto known = terms_of(e);
    return exprs[e].constant == polynomial.constant &&
           std::equal(known.begin(), known.end(), polynomial.terms.begin(), polynomial.terms.end());
  });
}

Sym SymStore::add_expr(const Polynomial& polynomial, uint64_t hash, AtomId atom) {
  const auto id = static_cast<ExprId>(exprs.size());
  Expr made;
  made.first = static_cast<uint32_t>(terms.size());
  made.num_terms = static_cast<uint32_t>(polynomial.terms.size());
  made.constant = polynomial.constant;
  made.atom = atom;
  made.hash = hash;
  made.current = Sym::from_id(id);
  __int128 hint = made.constant;
  for (const Term& term : polynomial.terms) {
    __int128 product = term.coefficient;
    for (AtomId factor : factors_of(term.monomial)) {
      made.depth = std::max(made.depth, atoms[factor].depth);
      made.cost = std::min(made.cost + atoms[factor].cost, kMaxCost);
      made.has_hint = made.has_hint && atoms[factor].has_hint &&
                      !__builtin_mul_overflow(product, atoms[factor].hint, &product);
    }
    made.has_hint = made.has_hint && !__builtin_add_overflow(hint, product, &hint);
  }
  made.has_hint = made.has_hint && hint >= INT64_MIN && hint <= INT64_MAX;
  if (made.has_hint) made.hint = static_cast<int64_t>(hint);
  terms.insert(terms.end(), polynomial.terms.begin(), polynomial.terms.end());
  refresh(made);
  exprs.push_back(made);
  made_.emplace_back(Part::Expr, id);
  expr_index_.insert(hash, id);
  return current(Sym::from_id(id));
}

Sym SymStore::make(const Polynomial& polynomial) {
  if (polynomial.is_constant()) return Sym::from_int(polynomial.constant);
  const uint64_t hash = hash_of(polynomial);
  const ExprId found = find(polynomial, hash);
  return found != kNone ? current(Sym::from_id(found)) : add_expr(polynomial, hash, kNone);
}

Sym SymStore::add_symbol(Symbol symbol) {
  WEFT_ASSERT(symbol.min <= symbol.max, symbol.name);
  Atom atom;
  atom.symbol = static_cast<uint32_t>(symbols.size());
  atom.hash = mix_bits(atom.symbol + 0x9e3779b97f4a7c15);
  atom.hint = symbol.hint;
  atom.range = {symbol.min, symbol.max};
  symbols.push_back(std::move(symbol));
  symbol_exprs.push_back(static_cast<ExprId>(exprs.size()));
  const auto id = static_cast<AtomId>(atoms.size());
  atom.self = static_cast<ExprId>(exprs.size());
  atoms.push_back(atom);
  made_.emplace_back(Part::Atom, id);
  const Polynomial alone = {{Term{monomial({&id, 1}), 1}}, 0};
  add_expr(alone, hash_of(alone), id);
  return Sym::from_id(atoms[id].self);
}

Sym SymStore::make_atom(SymOp op, Sym a, Sym b) {
  if (is_commutative(op)) {
    const uint64_t x = hash_of(a), y = hash_of(b);
    if (y < x || (y == x && b.is_symbolic() && a.is_symbolic() && b.id() < a.id())) std::swap(a, b);
  }
  const uint64_t hash =
      mix_bits(mix_bits(hash_of(a) + static_cast<uint64_t>(op) + 1) + 3 * mix_bits(hash_of(b)));
  const auto same = [](Sym x, Sym y) {
    return x.is_symbolic() == y.is_symbolic() &&
           (x.is_symbolic() ? x.id() == y.id() : x.concrete() == y.concrete());
  };
  const uint32_t found = atom_index_.find(
      hash, [&](AtomId i) { return atoms[i].op == op && same(atoms[i].a, a) && same(atoms[i].b, b); });
  if (found != kNone) return current(Sym::from_id(atoms[found].self));

  Atom atom;
  atom.op = op;
  atom.a = a;
  atom.b = b;
  atom.hash = hash;
  const auto part = [&](Sym x, int64_t& hint) {
    hint = x.is_symbolic() ? exprs[x.id()].hint : x.concrete();
    if (!x.is_symbolic()) return;
    atom.depth = std::max(atom.depth, exprs[x.id()].depth);
    atom.cost = std::min(atom.cost + exprs[x.id()].cost, kMaxCost);
    atom.has_hint = atom.has_hint && exprs[x.id()].has_hint;
  };
  int64_t x, y;
  part(a, x);
  part(b, y);
  WEFT_CHECK(++atom.depth <= kMaxDepth, "size: an expression of sizes nests ", atom.depth,
             " quotients or minima; ", kMaxDepth, " are supported");
  atom.has_hint = atom.has_hint && apply<int64_t>(op, x, y, atom.hint);
  if (op == SymOp::FloorDiv && !b.is_symbolic()) {
    const int64_t divisor = multiple_of(polynomial_of(a));
    if (divisor % b.concrete() == 0)
      atom.multiple_of = std::max<int64_t>(std::abs(divisor / b.concrete()), 1);
  }
  refresh(atom);
  const auto id = static_cast<AtomId>(atoms.size());
  atom.self = static_cast<ExprId>(exprs.size());
  atoms.push_back(atom);
  made_.emplace_back(Part::Atom, id);
  atom_index_.insert(hash, id);
  const Polynomial alone = {{Term{monomial({&id, 1}), 1}}, 0};
  return add_expr(alone, hash_of(alone), id);
}

Polynomial SymStore::polynomial_of(Sym a) const {
  Polynomial result;
  a = current(a);
  if (!a.is_symbolic()) {
    result.constant = a.concrete();
    return result;
  }
  const auto known = terms_of(a.id());
  result.terms.append(known.begin(), known.end());
  result.constant = exprs[a.id()].constant;
  return result;
}

// ---- Polynomial arithmetic

bool SymStore::add_scaled(Polynomial& sum, const Polynomial& other, int64_t factor) const {
  int64_t constant;
  if (__builtin_mul_overflow(other.constant, factor, &constant) ||
      __builtin_add_overflow(sum.constant, constant, &constant))
    return false;
  SmallVector<Term, 8> merged;
  merged.reserve(sum.terms.size() + other.terms.size());
  size_t i = 0, j = 0;
  while (i < sum.terms.size() || j < other.terms.size()) {
    if (j == other.terms.size() ||
        (i < sum.terms.size() && sum.terms[i].monomial != other.terms[j].monomial &&
         precedes(sum.terms[i].monomial, other.terms[j].monomial))) {
      merged.push_back(sum.terms[i++]);
      continue;
    }
    Term term = other.terms[j++];
    if (__builtin_mul_overflow(term.coefficient, factor, &term.coefficient)) return false;
    if (i < sum.terms.size() && sum.terms[i].monomial == term.monomial &&
        __builtin_add_overflow(term.coefficient, sum.terms[i++].coefficient, &term.coefficient))
      return false;
    if (term.coefficient != 0) merged.push_back(term);
  }
  sum.constant = constant;
  sum.terms = std::move(merged);
  return true;
}

bool SymStore::multiply(const Polynomial& a, const Polynomial& b, Polynomial& product) {
  if ((a.terms.size() + 1) * (b.terms.size() + 1) > 4 * kMaxTerms) return false;
  product = {};
  if (!add_scaled(product, b, a.constant)) return false;
  for (const Term& x : a.terms) {
    Polynomial part;  // in order, because the order of terms is kept by products
    for (const Term& y : b.terms) {
      int64_t coefficient;
      if (monomials[x.monomial].degree + monomials[y.monomial].degree > kMaxDegree ||
          __builtin_mul_overflow(x.coefficient, y.coefficient, &coefficient))
        return false;
      part.terms.push_back({this->product(x.monomial, y.monomial), coefficient});
    }
    if (b.constant != 0) {
      int64_t coefficient;
      if (__builtin_mul_overflow(x.coefficient, b.constant, &coefficient)) return false;
      part.terms.push_back({x.monomial, coefficient});
    }
    if (!add_scaled(product, part, 1)) return false;
  }
  return product.terms.size() <= kMaxTerms;
}

std::optional<Polynomial> SymStore::exact_quotient(const Polynomial& a, const Polynomial& b) {
  Polynomial rest = a, quotient;
  if (b.is_constant()) {
    if (b.constant == 0 || rest.constant % b.constant != 0) return std::nullopt;
    for (Term& term : rest.terms) {
      if (term.coefficient % b.constant != 0) return std::nullopt;
      term.coefficient /= b.constant;
    }
    rest.constant /= b.constant;
    return rest;
  }
  // The last terms divide too where the whole does.
  if (a.constant != 0 ? b.constant == 0 || a.constant % b.constant != 0
                      : b.constant == 0 && !a.terms.empty() &&
                            !quotient_factors(a.terms.back().monomial, b.terms.back().monomial))
    return std::nullopt;
  const Term lead = b.terms[0];
  while (!rest.is_constant() && quotient.terms.size() < kMaxTerms) {
    const Term top = rest.terms[0];
    const auto left = quotient_factors(top.monomial, lead.monomial);
    if (!left || top.coefficient % lead.coefficient != 0) return std::nullopt;
    const int64_t coefficient = top.coefficient / lead.coefficient;
    Polynomial step, taken;
    if (left->empty()) step.constant = coefficient;
    else step.terms.push_back({monomial({left->data(), left->size()}), coefficient});
    if (!multiply(step, b, taken) || !add_scaled(rest, taken, -1) || !add_scaled(quotient, step, 1))
      return std::nullopt;
  }
  if (!rest.is_constant() || rest.constant != 0) return std::nullopt;
  return quotient;
}

// ---- Operations

Sym SymStore::simplify_sum(SymOp op, Sym a, Sym b) {
  Polynomial sum = polynomial_of(a);
  if (!add_scaled(sum, polynomial_of(b), op == SymOp::Add ? 1 : -1) || sum.terms.size() > kMaxTerms)
    return make_atom(op, a, b);
  while (join_remainder(sum)) {
  }
  return make(sum);
}

// (x // y)·(y·z) is x·z where y is known to divide x.
std::optional<Sym> SymStore::cancel_quotient(Sym quotient, Sym other) {
  if (!quotient.is_symbolic() || exprs[quotient.id()].atom == kNone) return std::nullopt;
  const Atom atom = atoms[exprs[quotient.id()].atom];
  if (atom.symbol != kNone || atom.op != SymOp::FloorDiv || !is_never_zero(atom.b)) return std::nullopt;
  const auto left = exact_quotient(polynomial_of(other), polynomial_of(atom.b));
  if (!left) return std::nullopt;
  const Sym remainder = binary(SymOp::Mod, atom.a, atom.b);
  if (remainder.is_symbolic() || remainder.concrete() != 0) return std::nullopt;
  return binary(SymOp::Mul, atom.a, make(*left));
}

Sym SymStore::simplify_product(Sym a, Sym b) {
  if (const auto whole = cancel_quotient(a, b)) return *whole;
  if (const auto whole = cancel_quotient(b, a)) return *whole;
  Polynomial product;
  if (!multiply(polynomial_of(a), polynomial_of(b), product)) return make_atom(SymOp::Mul, a, b);
  return make(product);
}

Sym SymStore::simplify_extremum(SymOp op, Sym a, Sym b) {
  const std::optional<bool> a_is_least = decide(SymCompare::Le, a, b);
  if (a_is_least) return (op == SymOp::Min) == *a_is_least ? a : b;
  const std::optional<bool> b_is_least = decide(SymCompare::Le, b, a);
  if (b_is_least) return (op == SymOp::Min) == *b_is_least ? b : a;
  // min(min(x, y), y) is min(x, y).
  const auto absorbs = [&](Sym outer, Sym part) {
    if (!outer.is_symbolic() || exprs[outer.id()].atom == kNone) return false;
    const Atom& atom = atoms[exprs[outer.id()].atom];
    return atom.symbol == kNone && atom.op == op &&
           (decide(SymCompare::Eq, atom.a, part) == true || decide(SymCompare::Eq, atom.b, part) == true);
  };
  if (absorbs(a, b)) return a;
  if (absorbs(b, a)) return b;
  return make_atom(op, a, b);
}

Sym SymStore::binary(SymOp op, Sym a, Sym b) {
  a = current(a);
  b = current(b);
  if (!a.is_symbolic() && !b.is_symbolic()) {
    switch (op) {
      case SymOp::Add: return a + b;
      case SymOp::Sub: return a - b;
      case SymOp::Mul: return a * b;
      case SymOp::TruncDiv: return a / b;
      case SymOp::Mod: return a % b;
      case SymOp::FloorDiv:
        if (b.concrete() == 0) weft::detail::throw_size_overflow("//", a.concrete(), 0);
        return Sym::from_int(floor_div(a.concrete(), b.concrete()));
      case SymOp::Min: return a.concrete() < b.concrete() ? a : b;
      case SymOp::Max: return a.concrete() < b.concrete() ? b : a;
    }
  }
  const auto bits = [](Sym x) {
    return x.is_symbolic() ? uint64_t{x.id()} << 32 : static_cast<uint64_t>(x.concrete());
  };
  const uint64_t key = mix_bits(bits(a) * 31 + bits(b) * 8 + static_cast<uint64_t>(op));
  const auto same = [](Sym x, Sym y) { return __builtin_memcmp(&x, &y, sizeof x) == 0; };
  {
    const Remembered& slot = remembered_[key % remembered_.size()];
    if (slot.version == version_ && slot.op == op && same(slot.a, a) && same(slot.b, b)) return slot.result;
  }
  Sym result;
  switch (op) {
    case SymOp::Add:
    case SymOp::Sub: result = simplify_sum(op, a, b); break;
    case SymOp::Mul: result = simplify_product(a, b); break;
    case SymOp::FloorDiv:
    case SymOp::TruncDiv:
    case SymOp::Mod: result = simplify_division(op, a, b); break;
    case SymOp::Min:
    case SymOp::Max: result = simplify_extremum(op, a, b); break;
  }
  remembered_[key % remembered_.size()] = {a, b, result, version_, op};
  return result;
}

}  // namespace weft::compiler
