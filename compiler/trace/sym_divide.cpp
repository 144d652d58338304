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

// a = quotient * b + rest, term by term, for a constant b > 0 or one that is a single term. The constant of the rest lies
// in [0, b) for a constant b.
void SymStore::split_multiples(const Polynomial& a, const Polynomial& b, Polynomial& quotient,
                               Polynomial& rest) {
  quotient = rest = {};
  const bool is_number = b.is_constant();
  if (!is_number && (b.terms.size() != 1 || b.constant != 0)) {
    rest = a;
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
    if (divisor == 0) detail::throw_size_overflow(op == SymOp::Mod ? "%" : "/", exprs[a.id()].hint, 0);
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
  const bool is_positive = a_range.min >= 0 && b_range.min >= 0;
  if (op == SymOp::TruncDiv && is_positive) op = SymOp::FloorDiv;
  if (op == SymOp::TruncDiv || (is_mod && !is_positive)) return make_atom(op, make(a), divisor);

  Polynomial quotient, rest;
  split_multiples(a, b, quotient, rest);
  const bool loses_error = rest.is_constant() && rest.constant == 0 && contains(b_range, 0);
  if (loses_error || (is_mod && range(rest).min < 0)) quotient = {}, rest = a;
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
      left_range.min >= 0 && b_range.min > 0 && decide(SymCompare::Lt, left, divisor) == true;
  if (is_mod) return is_below ? left : make_atom(op, left, divisor);
  if (is_below) return make(quotient);
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

}  // namespace weft::compiler
