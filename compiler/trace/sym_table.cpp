// SymTable: evaluation and text of expressions; the rest is SymStore's.
// Place: the out-of-line half of sym_table.h.
#include "compiler/trace/sym_table.h"

#include <algorithm>
#include <utility>

#include "compiler/trace/sym_evaluate.h"

namespace weft::compiler {

bool holds(SymCompare op, int64_t a, int64_t b) { return statically_known(op, a, b); }

SymCompare negated(SymCompare op) {
  switch (op) {
    case SymCompare::Eq: return SymCompare::Ne;
    case SymCompare::Ne: return SymCompare::Eq;
    case SymCompare::Lt: return SymCompare::Ge;
    case SymCompare::Le: return SymCompare::Gt;
    case SymCompare::Gt: return SymCompare::Le;
    case SymCompare::Ge: return SymCompare::Lt;
  }
  return op;
}

SymCompare mirrored(SymCompare op) {
  switch (op) {
    case SymCompare::Lt: return SymCompare::Gt;
    case SymCompare::Le: return SymCompare::Ge;
    case SymCompare::Gt: return SymCompare::Lt;
    case SymCompare::Ge: return SymCompare::Le;
    case SymCompare::Eq:
    case SymCompare::Ne: break;
  }
  return op;
}

const char* name_of(SymCompare op) {
  switch (op) {
    case SymCompare::Eq: return "==";
    case SymCompare::Ne: return "!=";
    case SymCompare::Lt: return "<";
    case SymCompare::Le: return "<=";
    case SymCompare::Gt: return ">";
    case SymCompare::Ge: return ">=";
  }
  return "?";
}

namespace {

// The text of one expression. Terms and factors are ordered by what they are made of, not by when they were made.
class SymPrinter {
 public:
  explicit SymPrinter(const SymStore& store) : store_(store) {}

  // Parenthesised, when asked, unless it is a single symbol, call or number.
  std::string expr(Sym a, bool parenthesised) {
    if (!a.is_symbolic()) {
      const std::string digits = std::to_string(a.concrete());
      return parenthesised && a.concrete() < 0 ? "(" + digits + ")" : digits;
    }
    if (++parts_ > kMaxParts) return "...";
    const Expr& made = store_.exprs[a.id()];
    if (made.atom != kNone) return atom(made.atom, parenthesised);
    std::vector<Term> terms(store_.terms_of(a.id()).begin(), store_.terms_of(a.id()).end());
    std::sort(terms.begin(), terms.end(), [&](const Term& x, const Term& y) {
      const std::vector<AtomId> p = sorted_factors(x.monomial), q = sorted_factors(y.monomial);
      if (p.size() != q.size()) return p.size() > q.size();
      return std::lexicographical_compare(p.begin(), p.end(), q.begin(), q.end(),
                                          [&](AtomId i, AtomId j) { return key(i) < key(j); });
    });
    std::string text;
    for (const Term& term : terms) append(text, term);
    if (made.constant != 0) {
      text += made.constant < 0 ? " - " : " + ";
      text += std::to_string(magnitude_of(made.constant));
    }
    return parenthesised ? "(" + text + ")" : text;
  }

 private:
  static constexpr int kMaxParts = 300;

  static uint64_t magnitude_of(int64_t value) {
    return value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  }
  // Symbols by number, then the others.
  std::pair<bool, uint64_t> key(AtomId id) const {
    const Atom& atom = store_.atoms[id];
    return atom.symbol != kNone ? std::pair{false, uint64_t{atom.symbol}} : std::pair{true, atom.hash};
  }
  std::vector<AtomId> sorted_factors(MonomialId m) const {
    std::vector<AtomId> sorted(store_.factors_of(m).begin(), store_.factors_of(m).end());
    std::sort(sorted.begin(), sorted.end(), [&](AtomId i, AtomId j) { return key(i) < key(j); });
    return sorted;
  }

  void append(std::string& text, const Term& term) {
    if (!text.empty()) text += term.coefficient < 0 ? " - " : " + ";
    else if (term.coefficient < 0) text += '-';
    const char* separator = "";
    const auto factors = sorted_factors(term.monomial);
    for (AtomId factor : factors) {
      text += separator;
      text += atom(factor, factors.size() > 1 || magnitude_of(term.coefficient) != 1);
      separator = "*";
    }
    if (magnitude_of(term.coefficient) != 1) text += "*" + std::to_string(magnitude_of(term.coefficient));
  }

  std::string atom(AtomId id, bool parenthesised) {
    const Atom& atom = store_.atoms[id];
    if (atom.symbol != kNone) return store_.symbols[atom.symbol].name;
    if (++parts_ > kMaxParts) return "...";
    if (atom.op == SymOp::Min || atom.op == SymOp::Max) {
      const std::string first = expr(atom.a, false);
      return (atom.op == SymOp::Min ? "min(" : "max(") + first + ", " + expr(atom.b, false) + ")";
    }
    const char* sign = atom.op == SymOp::Add        ? " + "
                       : atom.op == SymOp::Sub      ? " - "
                       : atom.op == SymOp::Mul      ? "*"
                       : atom.op == SymOp::FloorDiv ? " // "
                       : atom.op == SymOp::TruncDiv ? " / "
                                                    : " % ";
    std::string text = expr(atom.a, true) + sign;
    text += expr(atom.b, true);
    return parenthesised ? "(" + text + ")" : text;
  }

  const SymStore& store_;
  int parts_ = 0;
};

[[noreturn]] void throw_no_value(const SymStore& store, Sym a, AtomId failed,
                                 const std::vector<uint32_t>& symbols, std::span<const int64_t> values) {
  const bool is_division =
      failed != kNone && (store.atoms[failed].op == SymOp::FloorDiv ||
                          store.atoms[failed].op == SymOp::TruncDiv || store.atoms[failed].op == SymOp::Mod);
  std::string text = "size: ";
  text += SymPrinter(store).expr(is_division ? Sym::from_id(store.atoms[failed].self) : a, false);
  text += is_division ? " divides by zero" : " does not fit in 64 bits";
  const char* separator = " for ";
  for (uint32_t symbol : symbols) {
    text += separator + store.symbols[symbol].name + " = " + std::to_string(values[symbol]);
    separator = ", ";
  }
  weft::detail::throw_error(std::move(text));
}

bool is_division(SymOp op) { return op == SymOp::FloorDiv || op == SymOp::TruncDiv || op == SymOp::Mod; }

bool divides_by_zero(const SymStore& store, Sym a, std::span<const int64_t> values) {
  __int128 value;
  SymEvaluator<__int128> evaluator(store, values);
  return !evaluator.run(a.id(), value) && evaluator.failed() != kNone &&
         is_division(store.atoms[evaluator.failed()].op);
}

std::vector<int64_t> hints_of(const SymStore& store) {
  std::vector<int64_t> hints;
  for (const Symbol& symbol : store.symbols) hints.push_back(symbol.hint);
  return hints;
}

}  // namespace

SymTable::SymTable() : store_(std::make_unique<SymStore>()) {}
SymTable::SymTable(const SymTable& other) : store_(std::make_unique<SymStore>(*other.store_)) {}
SymTable::~SymTable() = default;

Sym SymTable::add_symbol(Symbol symbol) { return store_->add_symbol(std::move(symbol)); }
const std::vector<Symbol>& SymTable::symbols() const { return store_->symbols; }

std::optional<uint32_t> SymTable::as_symbol(Sym a) const {
  if (!a.is_symbolic()) return std::nullopt;
  const AtomId atom = store_->exprs[a.id()].atom;
  if (atom == kNone || store_->atoms[atom].symbol == kNone) return std::nullopt;
  return store_->atoms[atom].symbol;
}

void SymTable::set_range(uint32_t symbol, Interval range) {
  store_->tighten(Sym::from_id(store_->symbol_exprs.at(symbol)), range);
}

void SymTable::check_hint(Sym a) const { evaluate(a, hints_of(*store_)); }

Sym SymTable::binary(SymOp op, Sym a, Sym b) {
  const Sym result = store_->binary(op, a, b);
  if (result.is_symbolic() && !store_->exprs[result.id()].has_hint) [[unlikely]] {
    const std::vector<int64_t> hints = hints_of(*store_);
    // Loops that do not run may divide their indices by nothing. Who wants a value asks check_hint().
    store_->exprs[result.id()].hint = divides_by_zero(*store_, result, hints) ? 0 : evaluate(result, hints);
    store_->exprs[result.id()].has_hint = true;
  }
  return result;
}

std::optional<bool> SymTable::decide(SymCompare op, Sym a, Sym b) const { return store_->decide(op, a, b); }
Interval SymTable::range(Sym a) const { return store_->range(a); }
void SymTable::assume(SymCompare op, Sym a, Sym b) { store_->assume(op, a, b); }
Relation SymTable::simplified(SymCompare op, Sym a, Sym b) { return store_->simplified(op, a, b); }
Sym SymTable::current(Sym a) const { return store_->current(a); }

std::vector<uint32_t> SymTable::symbols_of(Sym a) const {
  std::vector<uint32_t> found;
  if (!a.is_symbolic()) return found;
  // Parts are older than what they are parts of. A heap gives the newest first, so that equal ones follow one another.
  SmallVector<ExprId, 16> open = {a.id()};
  for (ExprId last = kNone; !open.empty();) {
    std::pop_heap(open.begin(), open.end());
    const ExprId e = open.back();
    open.pop_back();
    if (std::exchange(last, e) == e) continue;
    for (const Term& term : store_->terms_of(e)) {
      for (AtomId id : store_->factors_of(term.monomial)) {
        const Atom& atom = store_->atoms[id];
        if (atom.symbol != kNone) {
          found.push_back(atom.symbol);
          continue;
        }
        for (Sym part : {atom.a, atom.b}) {
          if (!part.is_symbolic()) continue;
          open.push_back(part.id());
          std::push_heap(open.begin(), open.end());
        }
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int64_t SymTable::evaluate(Sym a, std::span<const int64_t> values) const {
  if (!a.is_symbolic()) return a.concrete();
  int64_t result;
  if (SymEvaluator<int64_t>(*store_, values).run(a.id(), result)) [[likely]]
    return result;
  __int128 wide;
  SymEvaluator<__int128> evaluator(*store_, values);
  if (!evaluator.run(a.id(), wide) || wide < INT64_MIN || wide > INT64_MAX)
    throw_no_value(*store_, a, evaluator.failed(), symbols_of(a), values);
  return static_cast<int64_t>(wide);
}

std::optional<int64_t> SymTable::try_evaluate(Sym a, std::span<const int64_t> values) const {
  if (!a.is_symbolic()) return a.concrete();
  int64_t result;
  if (SymEvaluator<int64_t>(*store_, values).run(a.id(), result)) [[likely]]
    return result;
  __int128 wide;
  if (!SymEvaluator<__int128>(*store_, values).run(a.id(), wide) || wide < INT64_MIN || wide > INT64_MAX)
    return std::nullopt;
  return static_cast<int64_t>(wide);
}

int64_t SymTable::hint(Sym a) const { return a.is_symbolic() ? store_->exprs[a.id()].hint : a.concrete(); }
std::string SymTable::to_string(Sym a) const { return SymPrinter(*store_).expr(a, false); }
uint64_t SymTable::hash(Sym a) const {
  return a.is_symbolic() ? store_->exprs[a.id()].hash : mix_bits(static_cast<uint64_t>(a.concrete()));
}
uint32_t SymTable::depth(Sym a) const { return a.is_symbolic() ? store_->exprs[a.id()].depth : 0; }

}  // namespace weft::compiler
