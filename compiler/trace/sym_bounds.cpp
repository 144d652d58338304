// SymStore: lower bounds of polynomials by setting their terms against each other and against what was assumed.
// Place: behind SymTable, for sym_decide.cpp.
#include "compiler/trace/sym_expr.h"

namespace weft::compiler {

using namespace interval;

namespace {

// A term whose factors need not be a monomial of the store: bounds are asked of what will never be made.
struct LooseTerm {
  SmallVector<AtomId, 8> factors;  // ascending
  int64_t coefficient;
};

struct LoosePolynomial {
  std::vector<LooseTerm> terms;
  int64_t constant = 0;

  bool add(const LooseTerm& term) {
    if (term.coefficient == 0) return true;
    if (term.factors.empty()) return !__builtin_add_overflow(constant, term.coefficient, &constant);
    for (size_t t = 0; t < terms.size(); ++t) {
      if (terms[t].factors != term.factors) continue;
      if (__builtin_add_overflow(terms[t].coefficient, term.coefficient, &terms[t].coefficient)) return false;
      if (terms[t].coefficient == 0) terms.erase(terms.begin() + static_cast<int64_t>(t));
      return true;
    }
    terms.push_back(term);
    return true;
  }
};

using Factors = std::span<const AtomId>;

// The factors of a that b leaves; false if b does not divide a.
bool take_factors(Factors a, Factors b, SmallVector<AtomId, 8>& rest) {
  rest.clear();
  size_t at = 0;
  for (AtomId atom : a) {
    if (at < b.size() && b[at] == atom) ++at;
    else rest.push_back(atom);
  }
  return at == b.size();
}

Factors all(const SmallVector<AtomId, 8>& factors) { return {factors.data(), factors.size()}; }

// Note [Bounds by elimination]
// A negative term -c·m is replaced by something that is at most it and cancels against the rest: by an assumed relation, a
// multiple of which has this term (from i <= n - 1 follows -i·w >= -n·w + w for w >= 0), or by what bounds a quotient or
// remainder in m (x % n <= n - 1, n·(x // n) <= x). Then the next one, until the terms that are left are bounded by their
// ranges. A search over which relation to use, cut off after so many steps that indices of five loops are decided.
class Elimination {
 public:
  Elimination(const SymStore& store, const std::vector<ExprId>& facts) : store_(store), facts_(facts) {}

  LoosePolynomial loose(const Polynomial& polynomial) const {
    LoosePolynomial result;
    result.constant = polynomial.constant;
    for (const Term& term : polynomial.terms) {
      LooseTerm made{{}, term.coefficient};
      const auto factors = store_.factors_of(term.monomial);
      made.factors.append(factors.begin(), factors.end());
      result.terms.push_back(made);
    }
    return result;
  }

  // c·m·q - d·m >= (c·q - d)·m where that is not negative.
  int64_t dominated_minimum(const LoosePolynomial& polynomial) const {
    struct Part {
      Factors factors;
      int64_t coefficient;
    };
    SmallVector<Part, 8> positive, negative;
    for (const LooseTerm& term : polynomial.terms)
      (term.coefficient > 0 ? positive : negative).push_back({all(term.factors), term.coefficient});
    int64_t least = polynomial.constant;
    for (const Part& minus : negative) {
      const Interval common = store_.range_of_product(minus.factors);
      bool is_covered = false;
      for (Part& plus : positive) {
        if (is_covered || common.min < 0 || plus.coefficient == 0) continue;
        SmallVector<AtomId, 8> rest;
        if (!take_factors(plus.factors, minus.factors, rest)) continue;
        const int64_t least_rest = store_.range_of_product(all(rest)).min;
        if (least_rest <= 0 || least_rest >= kHigh / 2 || minus.coefficient <= kLow / 2) continue;
        const int64_t needed = (-minus.coefficient + least_rest - 1) / least_rest;
        if (needed > plus.coefficient) continue;
        plus.coefficient -= needed;
        least =
            add_towards(kLow, least, multiply_bounds(needed * least_rest + minus.coefficient, common.min));
        is_covered = true;
      }
      if (!is_covered) least = add_towards(kLow, least, scale(common, minus.coefficient).min);
    }
    for (const Part& plus : positive)
      least = add_towards(kLow, least, scale(store_.range_of_product(plus.factors), plus.coefficient).min);
    return least;
  }

  int64_t least(const LoosePolynomial& polynomial, int depth) {
    int64_t best = dominated_minimum(polynomial);
    if (best > 0 || depth == 0 || polynomial.terms.size() > kMostTerms) return best;
    for (const LooseTerm& term : polynomial.terms) {
      if (term.coefficient >= 0 || term.coefficient <= kLow / 2) continue;
      bool is_replaced = false;
      const auto consider = [&](const LoosePolynomial& next) {
        is_replaced = true;
        if (best <= 0 && ++steps_ <= kMostSteps) best = std::max(best, least(next, depth - 1));
      };
      by_assumptions(polynomial, term, consider);
      by_atoms(polynomial, term, consider);
      if (best <= 0) best = std::max(best, by_whole_quotient(polynomial, term, depth));
      if (is_replaced || best > 0) break;  // each term in turn: their order does not matter
    }
    return best;
  }

 private:
  static constexpr int kMostSteps = 96;
  static constexpr size_t kMostTerms = 12;

  // polynomial - scale·(other - floor), term by term.
  bool subtract(LoosePolynomial& polynomial, const LooseTerm& scale, const Polynomial& other, int64_t sign,
                int64_t floor) const {
    LooseTerm constant{scale.factors, 0};
    int64_t shift;
    if (__builtin_mul_overflow(other.constant, sign, &shift) ||
        __builtin_sub_overflow(floor, shift, &shift) ||
        __builtin_mul_overflow(shift, scale.coefficient, &constant.coefficient) || !polynomial.add(constant))
      return false;
    for (const Term& term : other.terms) {
      LooseTerm product{{}, 0};
      const auto factors = store_.factors_of(term.monomial);
      product.factors.resize(factors.size() + scale.factors.size());
      if (product.factors.size() > 2 * kMaxDegree) return false;
      std::merge(factors.begin(), factors.end(), scale.factors.begin(), scale.factors.end(),
                 product.factors.begin());
      if (__builtin_mul_overflow(term.coefficient, scale.coefficient, &product.coefficient) ||
          __builtin_mul_overflow(product.coefficient, -sign, &product.coefficient) ||
          !polynomial.add(product))
        return false;
    }
    return true;
  }

  // g = ±fact is at least `floor`: with a negative term -d·u of g, where -c·m = (c/d)·(m/u)·(-d·u), goes as much of the term.
  template <class F>
  void by_assumptions(const LoosePolynomial& polynomial, const LooseTerm& term, const F& consider) {
    for (ExprId e : facts_) {
      const auto terms = store_.terms_of(e);
      if (terms.size() < 2) continue;
      for (const Term& shared : terms) {
        LooseTerm scale{{}, 0};
        if (!take_factors(all(term.factors), store_.factors_of(shared.monomial), scale.factors)) continue;
        const int64_t sign = shared.coefficient < 0 ? 1 : -1, size = std::abs(shared.coefficient);
        const int64_t floor = sign > 0 ? store_.exprs[e].fact.min : negate_bound(store_.exprs[e].fact.max);
        if (floor == kLow || term.coefficient % size != 0) continue;
        if (store_.range_of_product(all(scale.factors)).min < 0) continue;
        scale.coefficient = -term.coefficient / size;
        LoosePolynomial next = polynomial;
        if (subtract(next, scale, store_.polynomial_of(Sym::from_id(e)), sign, floor)) consider(next);
      }
    }
  }

  // The atom is at most `bound`: -c·r·atom >= -c·r·bound for r >= 0.
  template <class F>
  void replace(const LoosePolynomial& polynomial, const LooseTerm& term, Factors taken, int64_t divisor,
               const Polynomial& bound, int64_t shift, const F& consider) {
    LooseTerm scale{{}, 0};
    if (!take_factors(all(term.factors), taken, scale.factors) || term.coefficient % divisor != 0 ||
        store_.range_of_product(all(scale.factors)).min < 0)
      return;
    LoosePolynomial next = polynomial;
    LooseTerm gone = term;
    gone.coefficient = -term.coefficient;
    scale.coefficient = -term.coefficient / divisor;
    if (next.add(gone) && subtract(next, scale, bound, 1, -shift)) consider(next);
  }

  template <class F>
  void by_atoms(const LoosePolynomial& polynomial, const LooseTerm& term, const F& consider) {
    for (size_t f = 0; f < term.factors.size(); ++f) {
      const AtomId id = term.factors[f];
      if (f > 0 && term.factors[f - 1] == id) continue;
      const Atom& atom = store_.atoms[id];
      if (atom.symbol != kNone) continue;
      const auto at_most = [&](Sym bound, int64_t shift) {
        replace(polynomial, term, Factors(&id, 1), 1, store_.polynomial_of(bound), shift, consider);
      };
      switch (atom.op) {
        case SymOp::Min:
          at_most(atom.a, 0);
          at_most(atom.b, 0);
          break;
        case SymOp::Mod:
          if (store_.range(atom.a).min < 0 || store_.range(atom.b).min <= 0) break;
          at_most(atom.b, -1);
          at_most(atom.a, 0);
          break;
        case SymOp::FloorDiv: {
          if (store_.range(atom.a).min < 0 || store_.range(atom.b).min <= 0) break;
          const Polynomial divisor = store_.polynomial_of(atom.b);
          SmallVector<AtomId, 8> taken;
          taken.push_back(id);
          int64_t coefficient = divisor.is_constant() ? divisor.constant : 0;
          if (divisor.terms.size() == 1 && divisor.constant == 0) {
            const auto factors = store_.factors_of(divisor.terms[0].monomial);
            taken.append(factors.begin(), factors.end());
            std::sort(taken.begin(), taken.end());
            coefficient = divisor.terms[0].coefficient;
          }
          if (coefficient > 0)
            replace(polynomial, term, all(taken), coefficient, store_.polynomial_of(atom.a), 0, consider);
          at_most(atom.a, 0);
          break;
        }
        default: break;
      }
    }
  }

  // p - x // y > 0 just where p·y - x > 0, for y > 0; and it is at least 0 where (p + 1)·y - x > 0.
  int64_t by_whole_quotient(const LoosePolynomial& polynomial, const LooseTerm& term, int depth) {
    if (term.coefficient != -1 || term.factors.size() != 1) return kLow;
    const Atom& atom = store_.atoms[term.factors[0]];
    if (atom.symbol != kNone || atom.op != SymOp::FloorDiv || store_.range(atom.b).min <= 0) return kLow;
    const Polynomial divisor = store_.polynomial_of(atom.b);
    for (const int64_t shift : {0, 1}) {
      LoosePolynomial product, rest = polynomial;
      LooseTerm gone = term;
      gone.coefficient = 1;
      if (!rest.add(gone) || __builtin_add_overflow(rest.constant, shift, &rest.constant)) return kLow;
      rest.terms.push_back({{}, rest.constant});
      bool is_known = true;
      for (LooseTerm scale : rest.terms) {
        is_known &= !__builtin_mul_overflow(scale.coefficient, -1, &scale.coefficient);
        is_known = is_known && subtract(product, scale, divisor, 1, 0);
      }
      is_known = is_known && subtract(product, {{}, 1}, store_.polynomial_of(atom.a), 1, 0);
      if (!is_known || ++steps_ > kMostSteps) return kLow;
      if (least(product, depth - 1) > 0) return 1 - shift;
    }
    return kLow;
  }

  const SymStore& store_;
  const std::vector<ExprId>& facts_;
  int steps_ = 0;
};

}  // namespace

int64_t SymStore::dominated_minimum(const Polynomial& polynomial) const {
  Elimination elimination(*this, with_facts_);
  return elimination.dominated_minimum(elimination.loose(polynomial));
}

int64_t SymStore::least_by_elimination(const Polynomial& polynomial) const {
  constexpr int kMostReplacements = 8;
  Elimination elimination(*this, with_facts_);
  return elimination.least(elimination.loose(polynomial), kMostReplacements);
}

}  // namespace weft::compiler
