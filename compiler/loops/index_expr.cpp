// Substitution in index expressions, part by part.
// Place: the out-of-line half of index_expr.h.
#include "compiler/loops/index_expr.h"

#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

void Substitution::replace(Sym symbol, Sym by) {
  const std::optional<uint32_t> number = table_.as_symbol(symbol);
  WEFT_ASSERT(number.has_value(), table_.to_string(symbol), " is no symbol");
  replacements_.insert_or_assign(*number, by);
  rebuilt_.clear();
}

Sym Substitution::apply(Sym a) {
  a = table_.current(a);
  if (!a.is_symbolic()) return a;
  if (const auto found = rebuilt_.find(a.id()); found != rebuilt_.end()) return found->second;
  const Sym result = rebuild(a.id());
  rebuilt_.emplace(a.id(), result);
  return result;
}

// The arenas of the table grow meanwhile: nothing of them is held across an operation.
Sym Substitution::rebuild(uint32_t expr) {
  const SymStore& store = table_.store();
  const uint32_t num_terms = store.exprs[expr].num_terms, first = store.exprs[expr].first;
  // Atoms of unchanged parts stay: most of an index does.
  const auto same = [](Sym x, Sym y) { return __builtin_memcmp(&x, &y, sizeof x) == 0; };
  bool is_changed = false;
  const auto of_atom = [&](AtomId id) -> Sym {
    const Atom atom = store.atoms[id];
    if (atom.symbol != kNone) {
      const auto found = replacements_.find(atom.symbol);
      if (found == replacements_.end()) return Sym::from_id(atom.self);
      is_changed = true;
      return found->second;
    }
    const Sym a = apply(atom.a), b = apply(atom.b);
    if (same(a, table_.current(atom.a)) && same(b, table_.current(atom.b))) return Sym::from_id(atom.self);
    is_changed = true;
    return table_.binary(atom.op, a, b);
  };
  Sym sum = Sym::from_int(store.exprs[expr].constant);
  for (uint32_t t = 0; t < num_terms; ++t) {
    const Term term = store.terms[first + t];
    const uint32_t degree = store.monomials[term.monomial].degree, at = store.monomials[term.monomial].first;
    Sym product = Sym::from_int(term.coefficient);
    for (uint32_t f = 0; f < degree; ++f)
      product = table_.binary(SymOp::Mul, product, of_atom(store.factors[at + f]));
    sum = table_.binary(SymOp::Add, sum, product);
  }
  return is_changed ? sum : Sym::from_id(expr);
}

Sym substitute(SymTable& table, Sym a, std::span<const std::pair<Sym, Sym>> replacements) {
  Substitution substitution(table);
  for (const auto& [symbol, by] : replacements) substitution.replace(symbol, by);
  return substitution.apply(a);
}

Sym substitute(SymTable& table, Sym a, Sym symbol, Sym by) {
  const std::pair<Sym, Sym> replacement(symbol, by);
  return substitute(table, a, std::span(&replacement, 1));
}

}  // namespace weft::compiler
