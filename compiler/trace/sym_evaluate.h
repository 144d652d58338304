// Values of expressions for given symbols, in T: int64_t, and __int128 where int64_t overflowed on the way.
// Needs sym_expr. Private to sym_*.cpp.
#pragma once

#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

// Expressions that take more steps than this keep the values of their parts, which they share.
inline constexpr uint32_t kSharingCost = 256;

// A failed evaluation leaves the atom that failed, or kNone for a sum or product of atoms.
template <class T>
class SymEvaluator {
 public:
  SymEvaluator(const SymStore& store, std::span<const int64_t> values) : store_(store), values_(values) {}

  bool run(ExprId e, T& result) {
    if (store_.exprs[e].cost <= kSharingCost) [[likely]]
      return expr<false>(e, result);
    Memo& memo = thread_memo();
    if (memo.entries.size() < store_.atoms.size()) memo.entries.resize(store_.atoms.size());
    ++memo.round;
    return expr<true>(e, result);
  }
  AtomId failed() const { return failed_; }

 private:
  struct Memo {
    struct Entry {
      uint64_t round = 0;
      T value = 0;
    };
    std::vector<Entry> entries;
    uint64_t round = 0;
  };
  static Memo& thread_memo() {
    static thread_local Memo memo;
    return memo;
  }

  template <bool kShares>
  bool expr(ExprId e, T& result) {
    const Expr& made = store_.exprs[e];
    T sum = made.constant;
    const Term* term = store_.terms.data() + made.first;
    for (const Term* end = term + made.num_terms; term != end; ++term) {
      T product = term->coefficient;
      const Monomial& monomial = store_.monomials[term->monomial];
      const AtomId* factor = store_.factors.data() + monomial.first;
      for (const AtomId* last = factor + monomial.degree; factor != last; ++factor) {
        T value;
        if (!atom<kShares>(*factor, value)) return false;
        if (__builtin_mul_overflow(product, value, &product)) [[unlikely]]
          return false;
      }
      if (__builtin_add_overflow(sum, product, &sum)) [[unlikely]]
        return false;
    }
    result = sum;
    return true;
  }

  template <bool kShares>
  bool atom(AtomId id, T& result) {
    const Atom& made = store_.atoms[id];
    if (made.symbol != kNone) {
      WEFT_ASSERT(made.symbol < values_.size(), store_.symbols[made.symbol].name, " has no value");
      result = values_[made.symbol];
      return true;
    }
    if constexpr (kShares) {
      const auto& entry = thread_memo().entries[id];
      if (entry.round == thread_memo().round) {
        result = entry.value;
        return true;
      }
    }
    T a, b;
    if (!operand<kShares>(made.a, a) || !operand<kShares>(made.b, b)) return false;
    if (!apply<T>(made.op, a, b, result)) {
      failed_ = id;
      return false;
    }
    if constexpr (kShares) thread_memo().entries[id] = {thread_memo().round, result};
    return true;
  }

  template <bool kShares>
  bool operand(Sym a, T& result) {
    if (a.is_symbolic()) return expr<kShares>(a.id(), result);
    result = a.concrete();
    return true;
  }

  const SymStore& store_;
  std::span<const int64_t> values_;
  AtomId failed_ = kNone;
};

}  // namespace weft::compiler
