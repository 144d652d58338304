// SymStore: what follows from ranges and assumptions, and what a new assumption changes.
// Place: behind SymTable, after sym_expr.cpp.
#include <numeric>

#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

using namespace interval;

namespace {

// What a value in the range says about `value op 0`.
std::optional<bool> decide_by_sign(SymCompare op, const Interval& range) {
  const bool is_positive = range.min > 0, is_negative = range.max < 0;
  const bool is_zero = range.min == 0 && range.max == 0;
  switch (op) {
    case SymCompare::Eq:
    case SymCompare::Ne:
      if (is_zero) return op == SymCompare::Eq;
      if (is_positive || is_negative) return op == SymCompare::Ne;
      return std::nullopt;
    case SymCompare::Lt:
    case SymCompare::Ge:
      if (is_negative) return op == SymCompare::Lt;
      if (range.min >= 0) return op == SymCompare::Ge;
      return std::nullopt;
    case SymCompare::Gt:
    case SymCompare::Le:
      if (is_positive) return op == SymCompare::Gt;
      if (range.max <= 0) return op == SymCompare::Le;
      return std::nullopt;
  }
  return std::nullopt;
}

// What the ranges of both sides say; exact where a difference would saturate.
std::optional<bool> decide_by_ranges(SymCompare op, const Interval& a, const Interval& b) {
  const bool less = a.max<b.min, more = a.min> b.max, at_most = a.max <= b.min, at_least = a.min >= b.max;
  switch (op) {
    case SymCompare::Eq:
    case SymCompare::Ne:
      if (less || more) return op == SymCompare::Ne;
      if (is_point(a) && is_point(b)) return op == SymCompare::Eq;
      return std::nullopt;
    case SymCompare::Lt: return less ? std::optional(true) : at_least ? std::optional(false) : std::nullopt;
    case SymCompare::Ge: return less ? std::optional(false) : at_least ? std::optional(true) : std::nullopt;
    case SymCompare::Gt: return more ? std::optional(true) : at_most ? std::optional(false) : std::nullopt;
    case SymCompare::Le: return more ? std::optional(false) : at_most ? std::optional(true) : std::nullopt;
  }
  return std::nullopt;
}

// The polynomial without its constant, divided by the greatest factor that leaves a positive first coefficient.
struct Primitive {
  Polynomial polynomial;
  int64_t factor = 1;  // what it was divided by, with its sign
};

Primitive primitive_of(const Polynomial& polynomial) {
  Primitive result;
  int64_t common = 0;
  for (const Term& term : polynomial.terms) common = std::gcd(common, term.coefficient);
  result.factor = polynomial.terms[0].coefficient < 0 ? -common : common;
  result.polynomial.terms = polynomial.terms;
  for (Term& term : result.polynomial.terms) term.coefficient /= result.factor;
  return result;
}

}  // namespace

// ---- Deciding

// With k·(x // k) written as x - x % k: the polynomial becomes a positive multiple of itself, up to a value in `slack`.
bool SymStore::replace_quotients(Polynomial& polynomial, Interval& slack) const {
  slack = {0, 0};
  bool is_changed = false;
  for (int round = 0; round < 4; ++round) {
    const Atom* quotient = nullptr;
    Term found = {0, 0};
    for (const Term& term : polynomial.terms) {
      if (monomials[term.monomial].degree != 1) continue;
      const Atom& atom = atoms[factors_of(term.monomial)[0]];
      if (atom.symbol != kNone || atom.op != SymOp::FloorDiv || atom.b.is_symbolic() ||
          atom.b.concrete() <= 0)
        continue;
      quotient = &atom;
      found = term;
    }
    if (quotient == nullptr) break;
    const int64_t divisor = quotient->b.concrete();
    const int64_t common = std::gcd(divisor, found.coefficient), times = divisor / common;
    const Polynomial dividend = polynomial_of(quotient->a);
    Polynomial next, without = polynomial;
    without.terms.erase(std::remove(without.terms.begin(), without.terms.end(), found), without.terms.end());
    // times·coefficient·(x // k) = (coefficient/common)·(x - x % k)
    const int64_t factor = found.coefficient / common;
    if (!add_scaled(next, without, times) || !add_scaled(next, dividend, factor)) return is_changed;
    const bool is_multiple = multiple_of(dividend) % divisor == 0;
    slack = interval::add(scale(slack, times), scale({0, is_multiple ? 0 : divisor - 1}, -factor));
    polynomial = std::move(next);
    is_changed = true;
  }
  return is_changed;
}

// With one assumed bound: p = f + (p - f) for an f that is bounded as a whole.
Interval SymStore::bounds_by_facts(const Polynomial& polynomial) const {
  Interval result;
  size_t tried = 0;
  for (ExprId e : with_facts_) {
    if (++tried > 16) break;
    const Polynomial fact = polynomial_of(Sym::from_id(e));
    for (const int64_t factor : {1, -1}) {
      Polynomial rest = polynomial;
      if (!add_scaled(rest, fact, -factor) || rest.terms.size() > polynomial.terms.size()) continue;
      result = intersect(result, interval::add(interval::scale(exprs[e].fact, factor), bounds(rest, 1)));
    }
  }
  return result;
}

Interval SymStore::bounds(const Polynomial& polynomial, int effort) const {
  Interval result = range(polynomial);
  if (polynomial.is_constant()) return result;
  const Primitive primitive = primitive_of(polynomial);
  const ExprId known = find(primitive.polynomial, hash_of(primitive.polynomial));
  if (known != kNone) {
    const Interval whole = interval::scale(exprs[known].range, primitive.factor);
    result = intersect(result, interval::add(whole, {polynomial.constant, polynomial.constant}));
  }
  if (effort == 0 || result.min > 0 || result.max < 0) return result;
  result.min = std::max(result.min, dominated_minimum(polynomial));
  Polynomial negated;
  if (add_scaled(negated, polynomial, -1))
    result.max = std::min(result.max, negate_bound(dominated_minimum(negated)));
  // m·p has the sign of p where m is positive.
  if (const auto common = common_factors(polynomial); !common.empty() && polynomial.terms.size() > 1) {
    Polynomial rest;
    bool is_known = true;
    for (const Term& term : polynomial.terms) {
      SmallVector<AtomId, 8> left;
      const auto all = factors_of(term.monomial);
      std::set_difference(all.begin(), all.end(), common.begin(), common.end(), std::back_inserter(left));
      if (left.empty()) {
        rest.constant += term.coefficient;
        continue;
      }
      const MonomialId m = find_monomial({left.data(), left.size()});
      if (m == kNone) is_known = false;
      else rest.terms.push_back({m, term.coefficient});
    }
    if (is_known)
      result = intersect(
          result, interval::multiply(range_of_product({common.data(), common.size()}), bounds(rest, effort)));
  }
  if (effort >= 2 && !(result.min > 0 || result.max < 0))
    result = intersect(result, bounds_by_facts(polynomial));
  if (effort >= 2 && !(result.min > 0 || result.max < 0)) {
    result.min = std::max(result.min, least_by_elimination(polynomial));
    if (result.min <= 0 && add_scaled(negated = {}, polynomial, -1))
      result.max = std::min(result.max, negate_bound(least_by_elimination(negated)));
  }
  if (effort >= 2 && !(result.min > 0 || result.max < 0)) {
    Polynomial without = polynomial;
    Interval slack;
    if (replace_quotients(without, slack)) {  // only the signs of its bounds carry over
      const Interval multiple = interval::add(bounds(without, 1), slack);
      if (multiple.min >= 0) result.min = std::max<int64_t>(result.min, multiple.min > 0 ? 1 : 0);
      if (multiple.max <= 0) result.max = std::min<int64_t>(result.max, multiple.max < 0 ? -1 : 0);
    }
  }
  return result;
}

// True if the difference cannot be 0 for reasons that bounds do not show.
bool SymStore::is_excluded(const Polynomial& difference) const {
  Polynomial varying = difference;
  varying.constant = 0;
  const int64_t divisor = multiple_of(varying);
  if (divisor != 0 && difference.constant % divisor != 0) return true;
  const Primitive primitive = primitive_of(difference);
  if (difference.constant % primitive.factor != 0) return true;
  const ExprId known = find(primitive.polynomial, hash_of(primitive.polynomial));
  const auto values = known == kNone ? excluded_.end() : excluded_.find(known);
  if (values != excluded_.end()) {
    const int64_t value = -(difference.constant / primitive.factor);
    if (std::find(values->second.begin(), values->second.end(), value) != values->second.end()) return true;
  }
  return false;
}

std::optional<bool> SymStore::decide(SymCompare op, Sym a, Sym b) const {
  a = current(a);
  b = current(b);
  if (!a.is_symbolic() && !b.is_symbolic()) return holds(op, a.concrete(), b.concrete());
  if (a.is_symbolic() && b.is_symbolic() && a.id() == b.id()) return holds(op, 0, 0);
  std::optional<bool> answer = decide_by_ranges(op, range(a), range(b));
  if (answer) return answer;
  Polynomial difference = polynomial_of(a);
  if (!add_scaled(difference, polynomial_of(b), -1)) return std::nullopt;
  if (difference.is_constant()) return holds(op, difference.constant, 0);
  answer = decide_by_sign(op, bounds(difference, 0));
  if (answer) return answer;
  const bool asks_equality = op == SymCompare::Eq || op == SymCompare::Ne;
  if (asks_equality && is_excluded(difference)) return op == SymCompare::Ne;
  return decide_by_sign(op, bounds(difference, 2));
}

Relation SymStore::simplified(SymCompare op, Sym a, Sym b) {
  const Relation given = {op, current(a), current(b)};
  Polynomial difference = polynomial_of(a);
  if (!add_scaled(difference, polynomial_of(b), -1) || difference.is_constant()) return given;
  const Primitive primitive = primitive_of(difference);
  if (primitive.factor < 0) op = mirrored(op);
  const int64_t factor = std::abs(primitive.factor);
  const int64_t constant = primitive.factor < 0 ? -difference.constant : difference.constant;
  if (constant <= kLow / 2 || constant >= kHigh / 2) return given;
  int64_t bound = 0;  // of the varying part
  switch (op) {
    case SymCompare::Eq:
    case SymCompare::Ne:
      if (constant % factor != 0) return given;
      bound = -constant / factor;
      break;
    case SymCompare::Lt: op = SymCompare::Le, bound = floor_div(-constant - 1, factor); break;
    case SymCompare::Le: bound = floor_div(-constant, factor); break;
    case SymCompare::Gt: op = SymCompare::Ge, bound = -floor_div(constant - 1, factor); break;
    case SymCompare::Ge: bound = -floor_div(constant, factor); break;
  }
  Polynomial left, right;
  for (const Term& term : primitive.polynomial.terms) {
    if (term.coefficient > 0) left.terms.push_back(term);
    else right.terms.push_back({term.monomial, -term.coefficient});
  }
  if (!right.is_constant() && op == SymCompare::Le && bound == -1) op = SymCompare::Lt, bound = 0;
  if (!right.is_constant() && op == SymCompare::Ge && bound == 1) op = SymCompare::Gt, bound = 0;
  if (bound < 0 && !right.is_constant()) left.constant = -bound;
  else right.constant = bound;
  const Sym x = make(left), y = make(right);
  const bool is_alone =
      x.is_symbolic() && exprs[x.id()].atom != kNone && atoms[exprs[x.id()].atom].symbol != kNone;
  const bool other_is =
      y.is_symbolic() && exprs[y.id()].atom != kNone && atoms[exprs[y.id()].atom].symbol != kNone;
  if (other_is && !is_alone) return {mirrored(op), y, x};
  return {op, x, y};
}

// ---- Assuming

void SymStore::tighten(Sym a, Interval range) {
  if (range.min != kLow) assume(SymCompare::Ge, a, Sym::from_int(std::max(range.min, kLow / 2)));
  if (range.max != kHigh) assume(SymCompare::Le, a, Sym::from_int(std::max(range.max, kLow / 2)));
}

void SymStore::assume(SymCompare op, Sym a, Sym b) {
  Polynomial difference = polynomial_of(a);
  if (!add_scaled(difference, polynomial_of(b), -1)) return;
  assume_polynomial(op, std::move(difference));
}

void SymStore::assume_polynomial(SymCompare op, Polynomial difference) {
  // m·p op 0 says p op 0 for a positive m.
  if (const auto common = common_factors(difference);
      !common.empty() && difference.terms.size() > 1 &&
      range_of_product({common.data(), common.size()}).min > 0) {
    const MonomialId factor = monomial({common.data(), common.size()});
    Polynomial rest;
    for (const Term& term : difference.terms) {
      const auto left = *quotient_factors(term.monomial, factor);
      if (left.empty()) rest.constant += term.coefficient;
      else rest.terms.push_back({monomial({left.data(), left.size()}), term.coefficient});
    }
    difference = std::move(rest);
  }
  if (difference.is_constant()) return;
  const Primitive primitive = primitive_of(difference);
  if (primitive.factor < 0) op = mirrored(op);
  const Sym whole = make(primitive.polynomial);
  if (!whole.is_symbolic()) return;
  const ExprId id = whole.id();
  // factor·p + constant op 0
  const int64_t factor = std::abs(primitive.factor);
  const int64_t constant = primitive.factor < 0 ? -difference.constant : difference.constant;
  if (constant <= kLow / 2 || constant >= kHigh / 2) return;
  const bool is_exact = constant % factor == 0;
  const Interval before = exprs[id].range;
  Interval fact = before;
  switch (op) {
    case SymCompare::Eq:
      if (!is_exact) return;
      fact = {-constant / factor, -constant / factor};
      break;
    case SymCompare::Ne:
      if (!is_exact) return;
      if (before.min == -constant / factor) ++fact.min;
      else if (before.max == -constant / factor) --fact.max;
      else excluded_[id].push_back(-constant / factor);
      break;
    case SymCompare::Le: fact.max = floor_div(-constant, factor); break;
    case SymCompare::Lt: fact.max = floor_div(-constant - 1, factor); break;
    case SymCompare::Ge: fact.min = -floor_div(constant, factor); break;
    case SymCompare::Gt: fact.min = -floor_div(constant - 1, factor); break;
  }
  ++version_;
  fact = intersect(fact, before);
  if (fact.min > fact.max) return;  // contradicts what is known: whoever relies on it finds out by its guard
  if (fact.min == before.min && fact.max == before.max && !is_point(fact)) return;

  exprs[id].fact = intersect(exprs[id].fact, fact);
  if (const AtomId atom = exprs[id].atom; atom != kNone && atoms[atom].symbol != kNone) {
    Symbol& symbol = symbols[atoms[atom].symbol];
    symbol.min = std::max(symbol.min, fact.min);
    symbol.max = std::min(symbol.max, fact.max);
  } else {
    with_facts_.push_back(id);
  }
  refresh_all();
  bound_dividend(exprs[id].atom, fact);
  if (!is_point(fact)) return;
  if (exprs[id].atom != kNone && fact.min == 0) learn_divisor(exprs[id].atom);
  substitute_in_equation(primitive.polynomial, fact.min);
}

// x // k in [min, max]: x in [min·k, max·k + k - 1].
void SymStore::bound_dividend(AtomId quotient, const Interval& fact) {
  if (quotient == kNone || atoms[quotient].symbol != kNone || atoms[quotient].op != SymOp::FloorDiv) return;
  const Sym dividend = atoms[quotient].a, divisor = atoms[quotient].b;
  if (divisor.is_symbolic() || divisor.concrete() <= 0) return;
  const Interval low = interval::scale({fact.min, fact.max}, divisor.concrete());
  tighten(dividend, {low.min, add_towards(kHigh, low.max, divisor.concrete() - 1)});
}

// x % k is 0: x is a multiple of k.
void SymStore::learn_divisor(AtomId remainder) {
  const Atom& atom = atoms[remainder];
  if (atom.symbol != kNone || atom.op != SymOp::Mod || atom.b.is_symbolic()) return;
  const Polynomial dividend = polynomial_of(atom.a);
  if (dividend.terms.size() != 1 || dividend.constant != 0 ||
      monomials[dividend.terms[0].monomial].degree != 1)
    return;
  const int64_t divisor = std::abs(atom.b.concrete());
  Atom& base = atoms[factors_of(dividend.terms[0].monomial)[0]];
  const int64_t own = divisor / std::gcd(divisor, dividend.terms[0].coefficient);
  int64_t common;
  if (!__builtin_mul_overflow(base.multiple_of / std::gcd(base.multiple_of, own), own, &common))
    base.multiple_of = common;
  refresh_all();
}

bool SymStore::depends_on(Sym a, AtomId atom, std::vector<uint8_t>& seen) const {
  if (!a.is_symbolic() || seen[a.id()]) return false;
  seen[a.id()] = 1;
  for (const Term& term : terms_of(a.id())) {
    for (AtomId factor : factors_of(term.monomial)) {
      if (factor == atom) return true;
      if (atoms[factor].symbol == kNone &&
          (depends_on(atoms[factor].a, atom, seen) || depends_on(atoms[factor].b, atom, seen)))
        return true;
    }
  }
  return false;
}

bool SymStore::depends_on(const Polynomial& polynomial, AtomId atom) const {
  std::vector<uint8_t> seen(exprs.size(), 0);
  for (const Term& term : polynomial.terms)
    for (AtomId factor : factors_of(term.monomial))
      if (depends_on(Sym::from_id(atoms[factor].self), atom, seen)) return true;
  return false;
}

// left = right: the youngest symbol that stands alone on the left is written by the others from now on, or else the
// youngest quotient or remainder.
bool SymStore::substitute_in_equation(const Polynomial& left, int64_t right) {
  AtomId best = kNone;
  Term chosen = {0, 0};
  for (const Term& term : left.terms) {
    if (monomials[term.monomial].degree != 1 || std::abs(term.coefficient) != 1) continue;
    const AtomId atom = factors_of(term.monomial)[0];
    const bool is_symbol = atoms[atom].symbol != kNone;
    if (best != kNone) {
      const bool best_is_symbol = atoms[best].symbol != kNone;
      if (best_is_symbol != is_symbol ? best_is_symbol : atom < best) continue;
    }
    Polynomial others = left;
    others.terms.erase(std::remove(others.terms.begin(), others.terms.end(), term), others.terms.end());
    if (depends_on(others, atom)) continue;
    if (!is_symbol && others.terms.size() > 1) continue;  // no gain in a longer expression for a quotient
    best = atom;
    chosen = term;
  }
  if (best == kNone) return false;
  Polynomial by;
  by.constant = right;
  Polynomial others = left;
  others.terms.erase(std::remove(others.terms.begin(), others.terms.end(), chosen), others.terms.end());
  if (!add_scaled(by, others, -1)) return false;
  Polynomial signed_by;
  if (!add_scaled(signed_by, by, chosen.coefficient)) return false;
  const Interval known = atoms[best].range;
  const int64_t divisor = atoms[best].multiple_of;
  const Sym value = make(signed_by);
  substitute(best, value);
  tighten(value, known);
  if (divisor > 1 && value.is_symbolic())
    assume(SymCompare::Eq, binary(SymOp::Mod, value, Sym::from_int(divisor)), Sym::from_int(0));
  return true;
}

// Whether an atom has a replacement; brings those of its parts up to date first.
void SymStore::rebuild(AtomId atom, std::vector<uint8_t>& done) {
  if (atoms[atom].replacement) {
    const Sym by = rebuilt(*atoms[atom].replacement, done);
    atoms[atom].replacement = by;
    return;
  }
  if (atoms[atom].symbol != kNone) return;
  const Sym a = atoms[atom].a, b = atoms[atom].b;
  const Sym x = rebuilt(a, done), y = rebuilt(b, done);
  const auto same = [](Sym p, Sym q) { return __builtin_memcmp(&p, &q, sizeof p) == 0; };
  if (same(a, x) && same(b, y)) return;
  try {
    const Sym by = binary(atoms[atom].op, x, y);
    atoms[atom].replacement = by;
  } catch (const Error&) {  // has no value any more: whoever evaluates it gets the error
  }
}

Sym SymStore::rebuilt(Sym a, std::vector<uint8_t>& done) {
  if (!a.is_symbolic() || a.id() >= done.size()) return current(a);
  const ExprId id = a.id();
  if (done[id]) return exprs[id].current;
  done[id] = 1;
  bool is_changed = false;
  for (uint32_t t = 0; t < exprs[id].num_terms; ++t) {
    const MonomialId m = terms[exprs[id].first + t].monomial;
    for (uint32_t f = 0; f < monomials[m].degree; ++f) {
      const AtomId atom = factors[monomials[m].first + f];
      rebuild(atom, done);
      is_changed = is_changed || atoms[atom].replacement.has_value();
    }
  }
  if (!is_changed) return exprs[id].current;
  try {
    exprs[id].current = sum_of_replacements(id);
  } catch (const Error&) {  // likewise
  }
  return exprs[id].current;
}

Sym SymStore::sum_of_replacements(ExprId id) {
  Sym sum = Sym::from_int(exprs[id].constant);
  for (uint32_t t = 0; t < exprs[id].num_terms; ++t) {
    const Term term = terms[exprs[id].first + t];
    Sym product = Sym::from_int(term.coefficient);
    for (uint32_t f = 0; f < monomials[term.monomial].degree; ++f) {
      const AtomId atom = factors[monomials[term.monomial].first + f];
      const Sym by = atoms[atom].replacement ? *atoms[atom].replacement : Sym::from_id(atoms[atom].self);
      product = binary(SymOp::Mul, product, by);
    }
    sum = binary(SymOp::Add, sum, product);
  }
  return sum;
}

void SymStore::substitute(AtomId atom, Sym by) {
  ++version_;
  atoms[atom].replacement = by;
  std::vector<uint8_t> done(exprs.size(), 0);
  for (ExprId e = 0; e < done.size(); ++e) rebuilt(Sym::from_id(e), done);
  ++version_;
  // What was known of the expressions that changed holds for those that stand for them.
  const std::vector<ExprId> facts = std::move(with_facts_);
  with_facts_.clear();
  for (ExprId e : facts) {
    const Sym now = exprs[e].current;
    if (now.is_symbolic() && now.id() == e) with_facts_.push_back(e);
    else tighten(now, exprs[e].fact);
  }
  std::vector<ExprId> excluded;
  for (const auto& [e, values] : excluded_)
    if (const Sym now = exprs[e].current; !now.is_symbolic() || now.id() != e) excluded.push_back(e);
  std::sort(excluded.begin(), excluded.end());
  for (ExprId e : excluded) {
    const auto values = excluded_.at(e);
    excluded_.erase(e);
    for (int64_t value : values) assume(SymCompare::Ne, exprs[e].current, Sym::from_int(value));
  }
}

}  // namespace weft::compiler
