// SymStore: quotients and remainders of expressions, brought to as few and as small atoms as their signs allow.
// Place: behind SymTable, after sym_expr.cpp.
#include <numeric>

#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

using namespace interval;

namespace {

int64_t gcd_of_coefficients(const Polynomial& polynomial) {
  int64_t common = 0;
  for (const Term& term : polynomial.terms) common = std::gcd(common, term.coefficient);
  return common;
}

void divide_exactly(Polynomial& polynomial, int64_t divisor) {
  for (Term& term : polynomial.terms) term.coefficient /= divisor;
  polynomial.constant /= divisor;
}

SmallVector<AtomId, 8> copy_of(std::span<const AtomId> factors) {
  SmallVector<AtomId, 8> copy;
  copy.append(factors.begin(), factors.end());
  return copy;
}

}  // namespace

// (g·x) op (g·y) for a g that is never 0 is x op y, times g for a remainder: the signs of both quotients agree.
bool SymStore::cancel_common_factors(Polynomial& a, Polynomial& b, Polynomial& factor) {
  factor = {};
  factor.constant = 1;
  const int64_t number =
      std::gcd(std::gcd(gcd_of_coefficients(a), a.constant), std::gcd(gcd_of_coefficients(b), b.constant));
  if (number > 1) {
    divide_exactly(a, number);
    divide_exactly(b, number);
    factor.constant = number;
  }
  SmallVector<AtomId, 8> shared;
  const auto in_a = common_factors(a), in_b = common_factors(b);
  std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::back_inserter(shared));
  shared.erase(std::remove_if(shared.begin(), shared.end(),
                              [&](AtomId atom) { return !is_never_zero(Sym::from_id(atoms[atom].self)); }),
               shared.end());
  if (shared.empty()) return number > 1;
  const MonomialId common = monomial({shared.data(), shared.size()});
  for (Polynomial* side : {&a, &b}) {
    Polynomial rest;
    for (const Term& term : side->terms) {
      const auto left = *quotient_factors(term.monomial, common);
      if (left.empty()) rest.constant = term.coefficient;
      else rest.terms.push_back({monomial({left.data(), left.size()}), term.coefficient});
    }
    *side = std::move(rest);
  }
  factor = {{Term{common, factor.constant}}, 0};
  return true;
}

// a = quotient * b + rest, term by term, for a constant b > 0 or one that is a single term; of a sum b those multiples go
// that stand in a with all their terms. The constant of the rest lies in [0, b) for a constant b.
void SymStore::split_multiples(const Polynomial& a, const Polynomial& b, Polynomial& quotient,
                               Polynomial& rest) {
  quotient = rest = {};
  const bool is_number = b.is_constant();
  if (!is_number && (b.terms.size() != 1 || b.constant != 0)) {
    rest = a;
    for (size_t t = 0; t < rest.terms.size();) {
      const Term top = rest.terms[t];
      const auto left = quotient_factors(top.monomial, b.terms[0].monomial);
      Polynomial step, taken, next = rest;
      if (left && top.coefficient % b.terms[0].coefficient == 0) {
        const int64_t coefficient = top.coefficient / b.terms[0].coefficient;
        if (left->empty()) step.constant = coefficient;
        else step.terms.push_back({monomial({left->data(), left->size()}), coefficient});
      }
      const bool is_multiple =
          multiply(step, b, taken) && !taken.is_constant() && add_scaled(next, taken, -1) &&
          next.terms.size() + taken.terms.size() == rest.terms.size() && add_scaled(quotient, step, 1);
      if (is_multiple) rest = std::move(next);
      else ++t;
    }
    return;
  }
  const int64_t divisor = is_number ? b.constant : b.terms[0].coefficient;
  for (const Term& term : a.terms) {
    if (term.coefficient % divisor != 0) {
      rest.terms.push_back(term);
    } else if (is_number) {
      quotient.terms.push_back({term.monomial, term.coefficient / divisor});
    } else if (const auto left = quotient_factors(term.monomial, b.terms[0].monomial); !left) {
      rest.terms.push_back(term);
    } else if (left->empty()) {
      quotient.constant += term.coefficient / divisor;
    } else {
      quotient.terms.push_back({monomial({left->data(), left->size()}), term.coefficient / divisor});
    }
  }
  if (is_number) {
    quotient.constant = floor_div(a.constant, divisor);
    rest.constant = a.constant - quotient.constant * divisor;
  } else {
    rest.constant = a.constant;
  }
}

Sym SymStore::simplify_division(SymOp op, Sym a, Sym b) {
  if (!b.is_symbolic()) {
    const int64_t divisor = b.concrete();
    if (divisor == 0) weft::detail::throw_size_overflow(op == SymOp::Mod ? "%" : "/", exprs[a.id()].hint, 0);
    if (divisor == 1) return op == SymOp::Mod ? Sym::from_int(0) : a;
    if (divisor < 0) {  // a remainder has the sign of a, a truncated quotient that of a / -b turned round
      const Sym positive = Sym::from_int(-divisor);
      if (op == SymOp::Mod) return binary(op, a, positive);
      if (op == SymOp::FloorDiv) return binary(op, binary(SymOp::Mul, a, Sym::from_int(-1)), positive);
      return binary(SymOp::Mul, binary(op, a, positive), Sym::from_int(-1));
    }
  }
  if (!a.is_symbolic() && a.concrete() == 0 && is_never_zero(b)) return a;
  return divide_polynomials(op, polynomial_of(a), polynomial_of(b));
}

Sym SymStore::divide_polynomials(SymOp op, Polynomial a, Polynomial b) {
  const bool is_mod = op == SymOp::Mod;
  const auto scaled = [&](Sym value, const Polynomial& factor) {
    return is_mod ? binary(SymOp::Mul, value, make(factor)) : value;
  };
  Polynomial factor;
  if (cancel_common_factors(a, b, factor)) {
    const Sym x = make(a), y = make(b);
    return scaled(binary(op, x, y), factor);
  }
  const Sym divisor = make(b);
  const Interval b_range = range(divisor);
  const Interval a_range = range(make(a));
  if (is_never_zero(divisor)) {
    if (auto exact = exact_quotient(a, b)) return is_mod ? Sym::from_int(0) : make(*exact);
  }
  const int64_t least = std::min(b_range.min < 0 ? negate_bound(b_range.min) : b_range.min,
                                 b_range.max < 0 ? negate_bound(b_range.max) : b_range.max);
  if (is_mod && (b_range.min > 0 || b_range.max < 0) && magnitude(a_range) < least) return make(a);
  if (is_mod && b.is_constant() && multiple_of(a) % b.constant == 0) return Sym::from_int(0);

  // Where nothing is negative truncation is floor (for 0 both are errors), and a remainder keeps its value when multiples of b go.
  const bool is_positive = b_range.min >= 0 && is_not_negative(a);
  if (op == SymOp::TruncDiv && is_positive) op = SymOp::FloorDiv;
  if (op == SymOp::TruncDiv || (is_mod && !is_positive)) return make_atom(op, make(a), divisor);

  Polynomial quotient, rest;
  split_multiples(a, b, quotient, rest);
  const bool loses_error = rest.is_constant() && rest.constant == 0 && contains(b_range, 0);
  if (loses_error || (is_mod && !is_not_negative(rest))) quotient = {}, rest = a;
  // (g·x + c) // (g·d) is (x + c // g) // d; the remainder is g·((x + c // g) % d) + c % g.
  if (b.is_constant() && !rest.is_constant()) {
    const int64_t common = std::gcd(gcd_of_coefficients(rest), b.constant);
    if (common > 1) {
      const int64_t low = rest.constant - floor_div(rest.constant, common) * common;
      rest.constant -= low;
      divide_exactly(rest, common);
      const Sym part = binary(op, make(rest), Sym::from_int(b.constant / common));
      if (!is_mod) return sum_of(make(quotient), part);
      return sum_of(binary(SymOp::Mul, part, Sym::from_int(common)), Sym::from_int(low));
    }
  }
  const Sym left = make(rest);
  const Interval left_range = range(left);
  const bool is_below =
      b_range.min > 0 && is_not_negative(rest) && decide(SymCompare::Lt, left, divisor) == true;
  if (is_below) return is_mod ? left : make(quotient);
  if (b_range.min > 0) {
    if (const auto simpler = divide_without_remainders(op, rest, b))
      return is_mod ? *simpler : sum_of(make(quotient), *simpler);
    if (const auto simpler = divide_without_small_part(op, rest, b))
      return is_mod ? *simpler : sum_of(make(quotient), *simpler);
  }
  if (is_mod) return make_atom(op, left, divisor);
  const Interval of_rest = divide(true, left_range, b_range);
  if (is_point(of_rest) && (b_range.min > 0 || b_range.max < 0))
    return sum_of(make(quotient), Sym::from_int(of_rest.min));
  // (x // y + c) // z is (x + c·y) // (y·z) for positive y and z.
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1 &&
      monomials[rest.terms[0].monomial].degree == 1 && b_range.min > 0) {
    const Atom inner = atoms[factors_of(rest.terms[0].monomial)[0]];
    if (inner.symbol == kNone && inner.op == SymOp::FloorDiv && range(inner.b).min > 0) {
      const Sym shifted = sum_of(inner.a, binary(SymOp::Mul, inner.b, Sym::from_int(rest.constant)));
      const Sym whole = binary(SymOp::FloorDiv, shifted, binary(SymOp::Mul, inner.b, divisor));
      return sum_of(make(quotient), whole);
    }
  }
  return sum_of(make(quotient), make_atom(op, left, divisor));
}

bool SymStore::is_not_negative(const Polynomial& polynomial) const {
  return range(polynomial).min >= 0 || bounds(polynomial, 2).min >= 0;
}

// Remainders in the dividend: a multiple of b that y % k lacks does not change the remainder by b, and (y % (b·d)) // b is
// (y // b) % d.
std::optional<Sym> SymStore::divide_without_remainders(SymOp op, const Polynomial& a, const Polynomial& b) {
  const auto is_remainder = [&](AtomId id) {
    const Atom& atom = atoms[id];
    return atom.symbol == kNone && atom.op == SymOp::Mod && range(atom.a).min >= 0 && range(atom.b).min > 0;
  };
  for (const Term& term : a.terms) {
    const SmallVector<AtomId, 8> factors = copy_of(factors_of(term.monomial));
    for (size_t f = 0; f < factors.size(); ++f) {
      if (!is_remainder(factors[f])) continue;
      const Sym dividend = atoms[factors[f]].a, modulus = atoms[factors[f]].b;
      SmallVector<AtomId, 8> others;
      for (size_t o = 0; o < factors.size(); ++o)
        if (o != f) others.push_back(factors[o]);
      Polynomial scale;
      if (others.empty()) scale.constant = term.coefficient;
      else scale.terms.push_back({monomial({others.data(), others.size()}), term.coefficient});
      if (op == SymOp::Mod) {
        Polynomial lost, gained, next = a;
        if (range(scale).min < 0 || !multiply(scale, polynomial_of(modulus), lost) ||
            !exact_quotient(lost, b))
          continue;
        next.terms.erase(std::remove(next.terms.begin(), next.terms.end(), term), next.terms.end());
        if (!multiply(scale, polynomial_of(dividend), gained) || !add_scaled(next, gained, 1)) continue;
        return binary(op, make(next), make(b));
      }
      if (a.terms.size() != 1 || a.constant != 0 || !others.empty() || term.coefficient != 1) continue;
      const auto left = exact_quotient(polynomial_of(modulus), b);
      if (!left) continue;
      return binary(SymOp::Mod, binary(SymOp::FloorDiv, dividend, make(b)), make(*left));
    }
  }
  return std::nullopt;
}

// (g·x + v) // (g·y) is x // y for 0 <= v < g, and the remainder is g·(x % y) + v: g is what a term of a shares with b.
std::optional<Sym> SymStore::divide_without_small_part(SymOp op, const Polynomial& a, const Polynomial& b) {
  if (!b.is_constant() && (b.terms.size() != 1 || b.constant != 0)) return std::nullopt;
  const Term whole = b.is_constant() ? Term{monomial({}), b.constant} : b.terms[0];
  SmallVector<Term, 4> tried;
  for (const Term& term : a.terms) {
    const auto x = factors_of(term.monomial), y = factors_of(whole.monomial);
    SmallVector<AtomId, 8> shared;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(shared));
    const Term unit = {monomial({shared.data(), shared.size()}),
                       std::gcd(term.coefficient, whole.coefficient)};
    if ((shared.empty() && unit.coefficient == 1) || unit == whole) continue;
    if (std::find(tried.begin(), tried.end(), unit) != tried.end()) continue;
    tried.push_back(unit);
    Polynomial divisor, high, low, of_whole, none;
    if (shared.empty()) divisor.constant = unit.coefficient;
    else divisor.terms.push_back(unit);
    split_multiples(a, divisor, high, low);
    if (high.is_constant() || !is_not_negative(low) || range(divisor).min <= 0 ||
        decide(SymCompare::Lt, make(low), make(divisor)) != true)
      continue;
    split_multiples(b, divisor, of_whole, none);
    const Sym part = binary(op, make(high), make(of_whole));
    if (op != SymOp::Mod) return part;
    return sum_of(binary(SymOp::Mul, part, make(divisor)), make(low));
  }
  return std::nullopt;
}

// What a division took apart: c·(y % b) + c·b·(y // b) is c·y, and c·(y % b) + c·b·((y // b) % d) is c·(y % (b·d)). What
// stands for y // b is found by dividing again.
bool SymStore::join_remainder(Polynomial& sum) {
  const auto is_division = [&](AtomId id, SymOp op) {
    return atoms[id].symbol == kNone && atoms[id].op == op;
  };
  int divisions = 0;
  for (const Term& term : sum.terms) {
    const auto factors = factors_of(term.monomial);
    divisions += std::any_of(factors.begin(), factors.end(), [&](AtomId id) {
      return is_division(id, SymOp::Mod) || is_division(id, SymOp::FloorDiv);
    });
  }
  if (divisions < 2) return false;
  for (const Term& term : sum.terms) {
    const SmallVector<AtomId, 8> factors = copy_of(factors_of(term.monomial));
    for (size_t f = 0; f < factors.size(); ++f) {
      if (!is_division(factors[f], SymOp::Mod)) continue;
      const Sym y = atoms[factors[f]].a, b = atoms[factors[f]].b;
      if (range(y).min < 0 || range(b).min <= 0) continue;
      SmallVector<AtomId, 8> others;
      for (size_t o = 0; o < factors.size(); ++o)
        if (o != f) others.push_back(factors[o]);
      Polynomial scale, step, without = sum;
      if (others.empty()) scale.constant = term.coefficient;
      else scale.terms.push_back({monomial({others.data(), others.size()}), term.coefficient});
      without.terms.erase(std::remove(without.terms.begin(), without.terms.end(), term), without.terms.end());
      const Sym quotient = binary(SymOp::FloorDiv, y, b);
      if (!quotient.is_symbolic() || !multiply(scale, polynomial_of(b), step)) continue;
      const auto take = [&](Sym high, Sym joint) {
        Polynomial gone, next = without, gained;
        const size_t count = polynomial_of(high).terms.size();
        if (!multiply(step, polynomial_of(high), gone) || !add_scaled(next, gone, -1) ||
            next.terms.size() + count != without.terms.size() || gone.terms.size() != count ||
            !multiply(scale, polynomial_of(joint), gained) || !add_scaled(next, gained, 1))
          return false;
        sum = std::move(next);
        return true;
      };
      if (take(quotient, y)) return true;
      for (const Term& other : without.terms) {
        const SmallVector<AtomId, 8> candidates = copy_of(factors_of(other.monomial));
        for (AtomId id : candidates) {
          if (!is_division(id, SymOp::Mod) || range(atoms[id].b).min <= 0) continue;
          const Sym inner = current(atoms[id].a), modulus = atoms[id].b;
          if (!inner.is_symbolic() || inner.id() != quotient.id()) continue;
          const Sym joint = binary(SymOp::Mod, y, binary(SymOp::Mul, b, modulus));
          if (take(Sym::from_id(atoms[id].self), joint)) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace weft::compiler
