// SymGuardProgram: sorts facts by the cheapest check that decides them.
// Place: the out-of-line half of sym_guards.h.
#include "compiler/trace/sym_guards.h"

#include <algorithm>

#include "compiler/trace/sym_expr.h"
#include "tensor/op.h"

namespace weft::compiler {

SymGuardProgram::SymGuardProgram(const ShapeEnv& env, std::shared_ptr<const Expressions> tables,
                                 uint32_t first, uint32_t end)
    : tables_(std::move(tables)) {
  WEFT_ASSERT(&tables_->syms == &env.table(), "another table");
  for (uint32_t symbol : env.live_symbols())
    if (const Interval range = env.promised(symbol); range.min != INT64_MIN || range.max != INT64_MAX)
      facts_.push_back({SymCompare::Ge, env.symbol(symbol), Sym::from_int(0), {}, range});
  for (const SymGuard& guard : env.guards()) facts_.push_back({guard.op, guard.a, guard.b, guard.place, {}});
  for (const FixedValue& fixed : env.fixed()) {
    // Those of placeholders are checked where sizes are; a symbol that became a number is one of ours.
    for (uint32_t symbol : env.live_symbols())
      if (env.sources()[symbol] == fixed.source)
        facts_.push_back({SymCompare::Eq, env.symbol(symbol), Sym::from_int(fixed.value), fixed.place, {}});
  }
  std::erase_if(facts_, [&](const Fact& fact) {
    uint32_t last = 0;
    for (Sym side : {fact.a, fact.b})
      for (const uint32_t symbol : tables_->syms.symbols_of(side)) last = std::max(last, symbol);
    return last < first || last >= end;
  });
  for (const Fact& fact : facts_) {
    for (Sym side : {fact.a, fact.b}) {
      const auto read = tables_->syms.symbols_of(side);
      symbols_.insert(symbols_.end(), read.begin(), read.end());
    }
    compile(fact);
  }
  std::sort(symbols_.begin(), symbols_.end());
  symbols_.erase(std::unique(symbols_.begin(), symbols_.end()), symbols_.end());
  if (!symbols_.empty()) num_values_ = symbols_.back() + 1;
}

void SymGuardProgram::add_bound(uint32_t symbol, Interval range) {
  for (Bound& bound : bounds_) {
    if (bound.symbol != symbol) continue;
    const int64_t max = static_cast<int64_t>(static_cast<uint64_t>(bound.min) + bound.width);
    range = {std::max(range.min, bound.min), std::min(range.max, max)};
    bound = {symbol, range.min, static_cast<uint64_t>(range.max) - static_cast<uint64_t>(range.min)};
    return;
  }
  bounds_.push_back({symbol, range.min, static_cast<uint64_t>(range.max) - static_cast<uint64_t>(range.min)});
}

void SymGuardProgram::compile(const Fact& fact) {
  if (fact.promised) add_bound(*tables_->syms.as_symbol(fact.a), *fact.promised);
  else if (!compile_simple(fact.op, fact.a, fact.b))
    others_.push_back(static_cast<uint32_t>(&fact - facts_.data()));
}

bool SymGuardProgram::compile_simple(SymCompare op, Sym a, Sym b) {
  const SymStore& store = tables_->syms.store();
  if (!a.is_symbolic()) {
    if (!b.is_symbolic()) return holds(op, a.concrete(), b.concrete());
    return compile_simple(mirrored(op), b, a);
  }
  const auto x = tables_->syms.as_symbol(a), y = tables_->syms.as_symbol(b);
  if (x && y) {
    pairs_.push_back({*x, *y, op});
    return true;
  }
  if (x && !b.is_symbolic()) {
    const int64_t value = b.concrete();
    switch (op) {
      case SymCompare::Eq: add_bound(*x, {value, value}); break;
      case SymCompare::Ne: unequal_.push_back({*x, value}); break;
      case SymCompare::Lt: add_bound(*x, {INT64_MIN, value - 1}); break;
      case SymCompare::Le: add_bound(*x, {INT64_MIN, value}); break;
      case SymCompare::Gt: add_bound(*x, {value + 1, INT64_MAX}); break;
      case SymCompare::Ge: add_bound(*x, {value, INT64_MAX}); break;
    }
    return true;
  }
  if (op != SymCompare::Eq) return false;
  if (y) std::swap(a, b);
  if (!x && !y) {  // s0 % 8 == 0
    const AtomId id = store.exprs[a.id()].atom;
    if (b.is_symbolic() || id == kNone) return false;
    const Atom& atom = store.atoms[id];
    if (atom.symbol != kNone || atom.op != SymOp::Mod || atom.b.is_symbolic()) return false;
    const auto dividend = tables_->syms.as_symbol(atom.a);
    if (!dividend || atom.b.concrete() <= 0 || b.concrete() < 0 || store.symbols[*dividend].min < 0)
      return false;
    divisors_.push_back(
        {*dividend, static_cast<uint64_t>(atom.b.concrete()), static_cast<uint64_t>(b.concrete())});
    return true;
  }
  const Expr& other = store.exprs[b.id()];  // s0 == 8*s1*s2
  if (other.num_terms != 1 || other.constant != 0) return false;
  const Term& term = store.terms[other.first];
  const auto factors = store.factors_of(term.monomial);
  if (factors.size() > std::size(Product{}.others)) return false;
  Product product = {x ? *x : *y, 0, {}, term.coefficient};
  for (AtomId factor : factors) {
    if (store.atoms[factor].symbol == kNone) return false;
    product.others[product.count++] = store.atoms[factor].symbol;
  }
  products_.push_back(product);
  return true;
}

bool SymGuardProgram::check(std::span<const int64_t> values) const {
  WEFT_ASSERT(values.size() >= num_values_, values.size(), " of ", num_values_, " values");
  const int64_t* v = values.data();
  bool fails = false;
  for (const Bound& bound : bounds_)
    fails |= static_cast<uint64_t>(v[bound.symbol]) - static_cast<uint64_t>(bound.min) > bound.width;
  for (const Unequal& fact : unequal_) fails |= v[fact.symbol] == fact.value;
  if (fails) return false;
  for (const Pair& pair : pairs_) fails |= !holds(pair.op, v[pair.a], v[pair.b]);
  for (const Divisor& fact : divisors_)
    fails |= static_cast<uint64_t>(v[fact.symbol]) % fact.divisor != fact.rest;
  for (const Product& fact : products_) {
    int64_t product = fact.factor;
    for (uint32_t i = 0; i < fact.count; ++i)
      fails |= __builtin_mul_overflow(product, v[fact.others[i]], &product);
    fails |= product != v[fact.symbol];
  }
  if (fails) return false;
  for (uint32_t fact : others_)
    if (!holds_now(facts_[fact], values)) return false;
  return true;
}

bool SymGuardProgram::holds_now(const Fact& fact, std::span<const int64_t> values) const {
  const auto a = tables_->syms.try_evaluate(fact.a, values);
  if (!a) return false;
  if (fact.promised) return fact.promised->min <= *a && *a <= fact.promised->max;
  const auto b = tables_->syms.try_evaluate(fact.b, values);
  return b && holds(fact.op, *a, *b);
}

std::optional<size_t> SymGuardProgram::first_failure(std::span<const int64_t> values) const {
  for (size_t i = 0; i < facts_.size(); ++i)
    if (!holds_now(facts_[i], values)) return i;
  return std::nullopt;
}

std::string SymGuardProgram::to_string(size_t index) const {
  const Fact& fact = facts_[index];
  const SymTable& syms = tables_->syms;
  if (fact.promised) {
    const Interval& range = *fact.promised;
    const std::string name = syms.to_string(fact.a);
    if (range.min == 2 && range.max == INT64_MAX)
      return name + " >= 2, because the sizes 0 and 1 are programs of their own";
    if (range.max == -1) return name + " < 0, because the sign of a number is fixed";
    return weft::detail::concat(name, " in [", range.min, ", ", range.max, "], as declared");
  }
  std::string text = syms.to_string(fact.a) + " " + name_of(fact.op) + " " + syms.to_string(fact.b);
  const std::string where = weft::to_string(fact.place.where);
  if (fact.place.op != nullptr) text += ", asked by " + fact.place.op->name();
  if (!where.empty()) text += (fact.place.op != nullptr ? " at " : ", asked at ") + where;
  return text;
}

std::string SymGuardProgram::explain(size_t index, std::span<const int64_t> values) const {
  const Fact& fact = facts_[index];
  std::vector<uint32_t> read = tables_->syms.symbols_of(fact.a);
  for (uint32_t symbol : tables_->syms.symbols_of(fact.b))
    if (std::find(read.begin(), read.end(), symbol) == read.end()) read.push_back(symbol);
  std::string text = to_string(index);
  const char* separator = "; ";
  for (uint32_t symbol : read) {
    text += weft::detail::concat(separator, tables_->syms.symbols()[symbol].name, " is ", values[symbol]);
    separator = ", ";
  }
  return text;
}

}  // namespace weft::compiler
