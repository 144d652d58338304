// Printing index expressions, and their strides over lanes.
// Place: the out-of-line half of cpu_index.h.
#include "compiler/codegen/cpu_index.h"

#include "compiler/codegen/cpu_prelude.h"
#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

CpuIndex::CpuIndex(const LoopBody& body, const LoopLevels& levels)
    : body_(body), levels_(levels), table_(body.expressions->syms) {
  group_ = table_.add_symbol({"group", 0, 0, INT64_MAX / kCpuLanes});
  lane_ = table_.add_symbol({"lane", 0, 0, kCpuLanes - 1});
}

std::vector<uint32_t> CpuIndex::indirects(Sym index) const {
  std::vector<uint32_t> found;
  for (uint32_t symbol : table_.symbols_of(index))
    for (uint32_t k = 0; k < body_.indirects.size(); ++k)
      if (table_.as_symbol(body_.indirects[k].symbol) == symbol) found.push_back(k);
  return found;
}

std::optional<LaneStride> CpuIndex::lanes(Sym index) {
  index = table_.current(index);
  if (!level(index).uses_column) return LaneStride{Sym::from_int(0), true, index};
  for (uint32_t k : indirects(index))
    if (levels_.values[body_.indirects[k].value].uses_column) return std::nullopt;
  if (const std::optional<Sym> stride = column_stride(body_, levels_, index))
    return LaneStride{*stride, true, substitute(table_, index, body_.column, Sym::from_int(0))};
  // Quotients and remainders by multiples of sixteen stand still over the lanes, or move by one.
  const Sym first = table_.binary(SymOp::Mul, group_, Sym::from_int(kCpuLanes));
  const Sym split = substitute(table_, index, body_.column, table_.binary(SymOp::Add, first, lane_));
  const Sym next = substitute(table_, split, lane_, table_.binary(SymOp::Add, lane_, Sym::from_int(1)));
  const Sym stride = table_.binary(SymOp::Sub, next, split);
  for (uint32_t symbol : table_.symbols_of(stride))
    if (symbol == *table_.as_symbol(lane_) || symbol == *table_.as_symbol(group_)) return std::nullopt;
  return LaneStride{stride, false, index};
}

std::string CpuIndex::text(Sym index, const SymbolText& name) const {
  index = table_.current(index);
  if (!index.is_symbolic())
    return std::to_string(index.concrete()) + (index.concrete() > INT32_MAX ? "l" : "");
  const SymStore& store = table_.store();
  const Expr& expr = store.exprs[index.id()];
  std::string text;
  for (const Term& term : store.terms_of(index.id())) {
    const bool is_negative = term.coefficient < 0;
    if (text.empty()) text += is_negative ? "-" : "";
    else text += is_negative ? " - " : " + ";
    std::string product;
    const auto factor = [&](const std::string& part) { product += (product.empty() ? "" : " * ") + part; };
    for (AtomId atom : store.factors_of(term.monomial)) factor(atom_text(atom, name));
    // Of the coefficient the sign is written; the smallest integer has none.
    if (term.coefficient == INT64_MIN) factor("(-0x7fffffffffffffffl - 1)");
    else if (term.coefficient != 1 && term.coefficient != -1)
      factor(std::to_string(is_negative ? -term.coefficient : term.coefficient) + "l");
    text += product;
  }
  if (expr.constant != 0 || text.empty())
    text += (text.empty()        ? ""
             : expr.constant < 0 ? " - "
                                 : " + ") +
            std::to_string(text.empty() || expr.constant > 0 ? expr.constant : -expr.constant) + "l";
  return text;
}

std::string CpuIndex::atom_text(uint32_t id, const SymbolText& name) const {
  const SymStore& store = table_.store();
  const Atom& atom = store.atoms[id];
  if (atom.symbol != kNone) return name(atom.symbol);
  const std::string a = text(atom.a, name), b = text(atom.b, name);
  const auto call = [&](const char* function) { return std::string(function) + "(" + a + ", " + b + ")"; };
  const auto infix = [&](const char* symbol) { return "((" + a + ") " + symbol + " (" + b + "))"; };
  const Interval range_a = table_.range(atom.a), range_b = table_.range(atom.b);
  const bool divides = range_b.min > 0, is_simple = divides && range_a.min >= 0;
  switch (atom.op) {
    case SymOp::Add: return infix("+");
    case SymOp::Sub: return infix("-");
    case SymOp::Mul: return infix("*");
    case SymOp::Min: return call("w_least");
    case SymOp::Max: return call("w_most");
    case SymOp::TruncDiv: return is_simple ? call("w_over") : divides ? infix("/") : call("w_quotient");
    case SymOp::Mod: return is_simple ? call("w_rest") : divides ? infix("%") : call("w_remainder");
    case SymOp::FloorDiv: return is_simple ? call("w_over") : call("w_floor_quotient");
  }
  WEFT_ASSERT(false, "unknown operation of an index");
}

}  // namespace weft::compiler
