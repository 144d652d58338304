// ScalarTable: hash-consing, text and evaluation of numbers that are known only when the program runs.
// Place: the out-of-line half of scalar_table.h.
#include "compiler/trace/scalar_table.h"

#include <algorithm>
#include <bit>

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

// Beyond so many steps the values of parts are kept, which chains of updates share.
constexpr uint32_t kScalarSharingCost = 128;
constexpr uint32_t kMaxScalarCost = 1u << 30;
constexpr size_t kMaxText = 4000;

uint64_t identity_bits(const Scalar& number) {
  if (number.is_symbolic()) return number.sym().id();
  if (number.is_traced()) return number.trace_id();
  return number.is_floating() ? std::bit_cast<uint64_t>(number.to_double())
                              : static_cast<uint64_t>(number.to_int());
}

bool is_same(const Scalar& a, const Scalar& b) {
  return a.category() == b.category() && a.is_symbolic() == b.is_symbolic() &&
         a.is_traced() == b.is_traced() && identity_bits(a) == identity_bits(b);
}

bool is_same(const ScalarExpr& a, const ScalarExpr& b) {
  if (a.kind != b.kind || a.category != b.category) return false;
  switch (a.kind) {
    case ScalarExpr::Kind::Constant: return is_same(a.constant, b.constant);
    case ScalarExpr::Kind::Input:
    case ScalarExpr::Kind::Item: return a.index == b.index;
    case ScalarExpr::Kind::Binary: return a.op == b.op && a.a == b.a && a.b == b.b;
  }
  return false;
}

uint64_t hash_of(const ScalarExpr& expr) {
  uint64_t hash = static_cast<uint64_t>(expr.kind) * 8 + static_cast<uint64_t>(expr.category);
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  switch (expr.kind) {
    case ScalarExpr::Kind::Constant:
      mix(identity_bits(expr.constant));
      mix(static_cast<uint64_t>(expr.constant.is_symbolic()));
      break;
    case ScalarExpr::Kind::Input:
    case ScalarExpr::Kind::Item: mix(expr.index); break;
    case ScalarExpr::Kind::Binary:
      mix(static_cast<uint64_t>(expr.op));
      mix(expr.a);
      mix(expr.b);
      break;
  }
  return hash;
}

Scalar leaf(const Expressions& tables, const ScalarExpr& expr, const RunValues& values,
            const ItemReader& item) {
  switch (expr.kind) {
    case ScalarExpr::Kind::Constant:
      if (!expr.constant.is_symbolic()) return expr.constant;
      return tables.syms.evaluate(expr.constant.sym(), values.symbols);
    case ScalarExpr::Kind::Input:
      WEFT_ASSERT(expr.index < values.numbers.size(), "number ", expr.index, " of ", values.numbers.size());
      return values.numbers[expr.index];
    case ScalarExpr::Kind::Item: return item(expr.index);
    case ScalarExpr::Kind::Binary: break;
  }
  return {};
}

Scalar walk(const Expressions& tables, ScalarId id, const RunValues& values, const ItemReader& item) {
  const ScalarExpr& expr = tables.scalars[id];
  if (expr.kind != ScalarExpr::Kind::Binary) return leaf(tables, expr, values, item);
  const Scalar a = walk(tables, expr.a, values, item);
  return weft::detail::scalar_binary(expr.op, a, walk(tables, expr.b, values, item));
}

// Operands have smaller ids: what is needed is marked downwards and computed upwards, without recursion.
Scalar walk_shared(const Expressions& tables, ScalarId id, const RunValues& values, const ItemReader& item) {
  struct Part {
    Scalar value;
    bool is_needed;
  };
  static thread_local std::vector<Part> parts;
  parts.assign(id + 1, {Scalar(), false});
  parts[id].is_needed = true;
  for (ScalarId i = id + 1; i-- > 0;) {
    const ScalarExpr& expr = tables.scalars[i];
    if (parts[i].is_needed && expr.kind == ScalarExpr::Kind::Binary)
      parts[expr.a].is_needed = parts[expr.b].is_needed = true;
  }
  for (ScalarId i = 0; i <= id; ++i) {
    if (!parts[i].is_needed) continue;
    const ScalarExpr& expr = tables.scalars[i];
    parts[i].value = expr.kind == ScalarExpr::Kind::Binary
                         ? weft::detail::scalar_binary(expr.op, parts[expr.a].value, parts[expr.b].value)
                         : leaf(tables, expr, values, item);
  }
  return parts[id].value;
}

}  // namespace

ScalarId ScalarTable::add(const ScalarExpr& expr) {
  const uint64_t hash = hash_of(expr);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (is_same(exprs_[at->second], expr)) return at->second;
  const auto id = static_cast<ScalarId>(exprs_.size());
  uint32_t cost = 1;
  if (expr.kind == ScalarExpr::Kind::Binary) {
    WEFT_ASSERT(expr.a < id && expr.b < id, "operands ", expr.a, " and ", expr.b, " of number ", id);
    cost = std::min(costs_[expr.a] + costs_[expr.b] + 1, kMaxScalarCost);
  }
  exprs_.push_back(expr);
  costs_.push_back(cost);
  by_hash_.emplace(hash, id);
  return id;
}

void ScalarTable::print(ScalarId id, const SymTable& syms, size_t limit, std::string& text) const {
  const ScalarExpr& expr = exprs_[id];
  if (text.size() > limit) {
    text += "...";
    return;
  }
  switch (expr.kind) {
    case ScalarExpr::Kind::Constant:
      text += expr.constant.is_symbolic() ? syms.to_string(expr.constant.sym())
                                          : weft::detail::concat(expr.constant);
      return;
    case ScalarExpr::Kind::Input: text += "%in" + std::to_string(expr.index); return;
    case ScalarExpr::Kind::Item: text += "%item" + std::to_string(expr.index); return;
    case ScalarExpr::Kind::Binary: break;
  }
  static constexpr const char* signs[] = {" + ", " - ", " * ", " / ", " ** "};
  text += '(';
  print(expr.a, syms, limit, text);
  text += signs[static_cast<size_t>(expr.op)];
  print(expr.b, syms, limit, text);
  text += ')';
}

std::string ScalarTable::to_string(ScalarId id, const SymTable& syms) const {
  std::string text;
  print(id, syms, kMaxText, text);
  return text;
}

Scalar evaluate(const Expressions& tables, ScalarId id, const RunValues& values, const ItemReader& item) {
  return tables.scalars.cost(id) <= kScalarSharingCost ? walk(tables, id, values, item)
                                                       : walk_shared(tables, id, values, item);
}

Scalar evaluate(const Expressions& tables, const Scalar& number, const RunValues& values,
                const ItemReader& item) {
  if (number.is_traced()) return evaluate(tables, number.trace_id(), values, item);
  if (number.is_symbolic()) return tables.syms.evaluate(number.sym(), values.symbols);
  return number;
}

}  // namespace weft::compiler
