// Questions to the tables, answered for every size where possible and by hint elsewhere.
// Place: the out-of-line half of compiler/trace/table_environment.h.
#include "compiler/trace/table_environment.h"

#include <algorithm>
#include <utility>

namespace weft::compiler {

TableEnvironment::TableEnvironment(Expressions& tables)
    : tables_(tables),
      outer_sizes_(std::exchange(current_sym_environment(), this)),
      outer_numbers_(std::exchange(current_scalar_environment(), this)) {}

TableEnvironment::~TableEnvironment() {
  WEFT_ASSERT(current_sym_environment() == this && current_scalar_environment() == this,
              "environments end in another order than that of scopes");
  current_sym_environment() = outer_sizes_;
  current_scalar_environment() = outer_numbers_;
}

// ---- Sizes ----------------------------------------------------------------------------------------------------------

Sym TableEnvironment::binary(SymOp op, Sym a, Sym b) { return tables_.syms.binary(op, a, b); }

bool TableEnvironment::compare(SymCompare op, Sym a, Sym b) {
  if (const std::optional<bool> answer = tables_.syms.decide(op, a, b)) return *answer;
  has_guessed_ = true;
  return holds(op, tables_.syms.hint(a), tables_.syms.hint(b));
}

bool TableEnvironment::known(SymCompare op, Sym a, Sym b) {
  return tables_.syms.decide(op, a, b).value_or(false);
}

int64_t TableEnvironment::specialize(Sym a) {
  const Interval range = tables_.syms.range(a);
  if (range.min == range.max) return range.min;
  has_guessed_ = true;
  return tables_.syms.hint(a);
}

int64_t TableEnvironment::hint(Sym a) const { return tables_.syms.hint(a); }
std::string TableEnvironment::to_string(Sym a) const { return tables_.syms.to_string(a); }

// ---- Numbers --------------------------------------------------------------------------------------------------------

namespace {

Scalar::Category category_of(ScalarOp op, const Scalar& a, const Scalar& b) {
  const bool is_floating = op == ScalarOp::Div || op == ScalarOp::Pow || a.is_floating() || b.is_floating();
  return is_floating ? Scalar::Category::Floating : Scalar::Category::Integer;
}

ScalarId id_of(ScalarTable& table, const Scalar& a) {
  if (a.is_traced()) return a.trace_id();
  ScalarExpr constant;
  constant.category = a.category();
  constant.constant = a;
  return table.add(constant);
}

}  // namespace

Scalar TableEnvironment::binary(ScalarOp op, const Scalar& a, const Scalar& b) {
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Binary;
  expr.category = category_of(op, a, b);
  expr.op = op;
  expr.a = id_of(tables_.scalars, a);
  expr.b = id_of(tables_.scalars, b);
  return Scalar::from_trace(expr.category, tables_.scalars.add(expr));
}

std::optional<TableEnvironment::Range> TableEnvironment::range_of(const Scalar& a) const {
  if (a.is_traced()) {
    const ScalarExpr& expr = tables_.scalars[a.trace_id()];
    if (expr.kind == ScalarExpr::Kind::Constant) return range_of(expr.constant);
    if (expr.kind != ScalarExpr::Kind::Binary) return std::nullopt;
    const auto operand = [&](ScalarId id) {
      return range_of(Scalar::from_trace(tables_.scalars[id].category, id));
    };
    const std::optional<Range> x = operand(expr.a), y = operand(expr.b);
    if (!x || !y) return std::nullopt;
    switch (expr.op) {
      case ScalarOp::Add: return Range{x->min + y->min, x->max + y->max};
      case ScalarOp::Sub: return Range{x->min - y->max, x->max - y->min};
      case ScalarOp::Mul: {
        const auto [low, high] =
            std::minmax({x->min * y->min, x->min * y->max, x->max * y->min, x->max * y->max});
        return Range{low, high};
      }
      default: return std::nullopt;
    }
  }
  if (a.is_symbolic()) {
    const Interval range = tables_.syms.range(a.sym());
    return Range{static_cast<double>(range.min), static_cast<double>(range.max)};
  }
  const double value = a.to_double();
  return Range{value, value};
}

bool TableEnvironment::compare(SymCompare op, const Scalar& a, const Scalar& b) {
  const std::optional<Range> x = range_of(a), y = range_of(b);
  if (!x || !y) throw UnknownNumber();
  switch (op) {
    case SymCompare::Lt:
      if (x->max < y->min) return true;
      if (x->min >= y->max) return false;
      break;
    case SymCompare::Le:
      if (x->max <= y->min) return true;
      if (x->min > y->max) return false;
      break;
    case SymCompare::Gt: return compare(SymCompare::Lt, b, a);
    case SymCompare::Ge: return compare(SymCompare::Le, b, a);
    case SymCompare::Eq:
    case SymCompare::Ne:
      if (x->max < y->min || y->max < x->min) return op == SymCompare::Ne;
      if (x->min == x->max && y->min == y->max) return (x->min == y->min) == (op == SymCompare::Eq);
      break;
  }
  throw UnknownNumber();
}

double TableEnvironment::read_double(const Scalar& a) {
  const std::optional<Range> range = range_of(a);
  if (!range || range->min != range->max) throw UnknownNumber();
  return range->min;
}
int64_t TableEnvironment::read_int(const Scalar& a) { return static_cast<int64_t>(read_double(a)); }

}  // namespace weft::compiler
