// The numbers of a trace: arguments, values of tensors, cells, random streams, and plain numbers that turn out to change.
// Place: the part of Tracer that is the thread's environment of scalars and cells.
#include <algorithm>
#include <bit>

#include "compiler/trace/tracer.h"
#include "tensor/ops/check.h"

namespace weft::compiler {

uint32_t Tracer::add_number_source(NumberSource source, double hint) {
  numbers_.push_back(std::move(source));
  number_hints_.push_back(hint);
  return static_cast<uint32_t>(numbers_.size() - 1);
}

Scalar Tracer::traced(Scalar::Category category, const ScalarExpr& given) {
  ScalarExpr expr = given;
  expr.category = category;
  return Scalar::from_trace(category, graph_.expressions->scalars.add(expr));
}

Scalar Tracer::add_number(uint32_t leaf, Scalar::Category category) {
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index = add_number_source({NumberSource::Kind::Argument, leaf, {}}, 0);
  return traced(category, expr);
}

ScalarId Tracer::scalar_id(const Scalar& number) {
  if (number.is_traced()) return number.trace_id();
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Constant;
  expr.category = number.category();
  expr.constant = settle(number);
  return graph_.expressions->scalars.add(expr);
}

Scalar Tracer::binary(ScalarOp op, const Scalar& a, const Scalar& b) {
  if (!a.is_traced() && !b.is_traced()) {
    // Sizes: they stay sizes while that is exact.
    const Scalar x = settle(a), y = settle(b);
    if (!x.is_symbolic() && !y.is_symbolic()) return weft::detail::scalar_binary(op, x, y);
    if (x.is_integer() && y.is_integer() && op <= ScalarOp::Mul) {
      const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
      const SymOp ops[] = {SymOp::Add, SymOp::Sub, SymOp::Mul};
      return Scalar(shapes_.binary(ops[static_cast<size_t>(op)], sym(x), sym(y)));
    }
  }
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Binary;
  expr.op = op;
  expr.a = scalar_id(a);
  expr.b = scalar_id(b);
  const bool is_floating = op == ScalarOp::Div || a.is_floating() || b.is_floating();
  return traced(is_floating ? Scalar::Category::Floating : Scalar::Category::Integer, expr);
}

bool Tracer::compare(SymCompare op, const Scalar& a, const Scalar& b) {
  if (!a.is_traced() && !b.is_traced()) {
    const Scalar x = settle(a), y = settle(b);
    if (!x.is_symbolic() && !y.is_symbolic()) return weft::detail::scalar_compare(op, x, y);
    if (x.is_integer() && y.is_integer()) {
      const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
      return shapes_.compare(op, sym(x), sym(y));
    }
  }
  Break stop;
  stop.kind = Break::Kind::Compare;
  stop.compare = op;
  stop.a = scalar_id(a);
  stop.b = scalar_id(b);
  return decide(std::move(stop)) != 0;
}

double Tracer::read_double(const Scalar& a) {
  Break stop;
  stop.kind = Break::Kind::Double;
  stop.a = scalar_id(a);
  return std::bit_cast<double>(decide(std::move(stop)));
}

int64_t Tracer::read_int(const Scalar& a) {
  Break stop;
  stop.kind = Break::Kind::Integer;
  stop.a = scalar_id(a);
  return static_cast<int64_t>(decide(std::move(stop)));
}

Scalar Tracer::read(const Tensor& x, SourceLocation where) {
  WEFT_CHECK_AT(where, x.numel() == 1, "item: the tensor has ", x.numel(), " elements (sizes ", x.sizes(),
                "), not one; reduce or index it first");
  place_ = {where, x->made_by};
  if (FakeSlot& slot = FakeSlot::of(x); slot.input != kNoInput) used_[slot.input] = true;
  const ValueId value = value_of(x);
  const auto known = std::find(graph_.items.begin(), graph_.items.end(), value);
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Item;
  expr.index = static_cast<uint32_t>(known - graph_.items.begin());
  if (known == graph_.items.end()) {
    // Numbered throughout the path.
    expr.index = static_cast<uint32_t>(root().graph_.items.size());
    set_item(expr.index, value);
  }
  const Scalar::Category category = x->dtype == DType::Bool ? Scalar::Category::Bool
                                    : is_floating(x->dtype) ? Scalar::Category::Floating
                                                            : Scalar::Category::Integer;
  return traced(category, expr);
}

Scalar Tracer::read(const Intrusive<CellImpl>& cell) {
  if (options_.around != nullptr) return options_.around->read(cell);
  const auto known = cells_.find(cell.get());
  if (known != cells_.end()) return known->second;
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index = add_number_source({NumberSource::Kind::Cell, 0, cell}, cell->value);
  const Scalar number = traced(Scalar::Category::Floating, expr);
  cells_.emplace(cell.get(), number);
  return number;
}

void Tracer::write(const Intrusive<CellImpl>& cell, const Scalar& value) {
  refuse_in_arm("a number that outlives the call (a rate, a step count) is changed", place_.where);
  static_cast<void>(read(cell));  // holds the cell
  const Scalar number = settle(value);
  cells_[cell.get()] = number;
  const auto known = std::find_if(cell_writes_.begin(), cell_writes_.end(),
                                  [&](const CellWrite& write) { return write.cell == cell; });
  if (known != cell_writes_.end()) known->value = scalar_id(number);
  else cell_writes_.push_back({cell, scalar_id(number)});
}

RandomStream Tracer::draw(Sym given) {
  refuse_in_arm("random numbers are drawn, and how many were drawn must not depend on which arm runs",
                place_.where);
  const Sym counters = shapes_.settle(given);
  if (!stream_) {
    const uint32_t segment = static_cast<uint32_t>(breaks_.size());
    ScalarExpr seed, counter;
    seed.kind = counter.kind = ScalarExpr::Kind::Input;
    seed.index = add_number_source({NumberSource::Kind::Seed, segment, {}}, 0);
    counter.index = add_number_source({NumberSource::Kind::Counter, segment, {}}, 0);
    stream_ =
        RandomStream{traced(Scalar::Category::Integer, seed), traced(Scalar::Category::Integer, counter)};
  }
  const RandomStream result{stream_->seed, binary(ScalarOp::Add, stream_->offset, Scalar(counters_))};
  counters_ = counters_ + counters;
  return result;
}

void Tracer::note_grad_asked(const Tensor& x) {
  const FakeSlot& slot = FakeSlot::of(x);
  // What the function made requires grad by what it was made of.
  if (slot.input == kNoInput || options_.around != nullptr) note_grad_mode_asked();
  else inputs_[slot.input].is_grad_asked = true;
}

// ---- Plain numbers --------------------------------------------------------------------------------------------------

Scalar Tracer::settle(const Scalar& number) {
  return number.is_symbolic() ? Scalar(shapes_.settle(number.sym())) : number;
}

// In follow mode the plain numbers that differ between calls are read anew at each.
Scalar Tracer::lifted(const Scalar& number) {
  if (number.is_traced() && root().has_arm_items_) check_values_are_there(number);
  // Only where sizes cannot depend on it.
  if (place_.op == nullptr || place_.op->kind != Kind::Pointwise) return number;
  if (number.is_bool() || number.is_traced() || number.is_symbolic()) return number;
  if (options_.around != nullptr) return options_.around->lifted(number);
  const size_t ordinal = plain_numbers_.size();
  plain_numbers_.push_back(number);
  number_uses_.push_back({});
  if (options_.lifted == nullptr || ordinal >= options_.lifted->size() || !(*options_.lifted)[ordinal])
    return number;
  return lifted_input(ordinal);
}

// What is read at each call instead of the plain number.
Scalar Tracer::lifted_input(size_t ordinal) {
  const Scalar& number = plain_numbers_[ordinal];
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index =
      add_number_source({NumberSource::Kind::Lifted, static_cast<uint32_t>(ordinal), {}}, number.to_double());
  return traced(number.category(), expr);
}

bool Tracer::lift(size_t ordinal, NodeId first) {
  const NumberUse use = number_uses_[ordinal];
  if (use.node == kNoNode || use.node < first) return false;
  Node& node = graph_.nodes[use.node];
  if (use.is_attr) node.attrs[use.slot] = Attr(lifted_input(ordinal));
  else node.operands[use.slot].number = lifted_input(ordinal);
  return true;
}

}  // namespace weft::compiler
