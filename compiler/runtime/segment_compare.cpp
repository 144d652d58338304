// Segments compared by what they read, compute and leave behind.
// Place: the out-of-line half of segment_compare.h.
#include "compiler/runtime/segment_compare.h"

#include <bit>
#include <cstring>

namespace weft::compiler {
namespace {

bool is_same_data(const Tensor& a, const Tensor& b) {
  if (a->dtype != b->dtype || a->device != b->device || a.sizes() != b.sizes()) return false;
  const Tensor x = a.cpu(), y = b.cpu();
  return std::memcmp(bytes_of(x), bytes_of(y), x.nbytes()) == 0;
}

// How a segment ends, and what it leaves behind, as a text that two segments over different tables share exactly if it is the
// same. Numbers stand by their bits, symbols by their numbers.
class EndText {
 public:
  explicit EndText(const SegmentNode& node) : node_(node), tables_(*node.expressions) {}

  std::string write() {
    for (const Slot slot : node_.reads) add(slot);
    if (node_.stop) add(*node_.stop);
    else add(node_.effects);
    return std::move(text_);
  }

 private:
  void add(uint64_t number) { text_ += std::to_string(number) + ','; }
  void add(Slot slot) {
    text_ += slot.is_carried ? 'c' : 'i';
    add(slot.index);
  }
  void add(Sym size) {
    size = tables_.syms.current(size);
    if (size.is_symbolic()) text_ += 's' + std::to_string(tables_.syms.hash(size)) + ',';
    else text_ += std::to_string(size.concrete()) + ',';
  }
  void add(const Scalar& number) {
    text_ += "bif"[static_cast<int>(number.category())];
    if (number.is_traced()) add_expression(number.trace_id());
    else if (number.is_symbolic()) add(number.sym());
    else if (number.is_floating()) add(std::bit_cast<uint64_t>(number.to_double()));
    else add(static_cast<uint64_t>(number.to_int()));
  }
  void add_expression(ScalarId root) {
    std::vector<ScalarId> open = {root};
    while (!open.empty()) {
      const ScalarExpr& expr = tables_.scalars[open.back()];
      open.pop_back();
      switch (expr.kind) {
        case ScalarExpr::Kind::Constant: add(expr.constant); break;
        case ScalarExpr::Kind::Input: text_ += "in" + std::to_string(expr.index) + ','; break;
        case ScalarExpr::Kind::Item: text_ += "item" + std::to_string(expr.index) + ','; break;
        case ScalarExpr::Kind::Binary:
          text_ += "+-*/^"[static_cast<int>(expr.op)];
          open.push_back(expr.b);
          open.push_back(expr.a);
          break;
      }
    }
  }
  void add(const Attr& attr) {
    if (attr.is<Sym>()) add(attr.as_int());
    else if (attr.is<Scalar>()) add(attr.as<Scalar>());
    else if (attr.is<double>()) add(Scalar(attr.as<double>()));
    else if (attr.is<SymList>())
      for (const Sym size : attr.as_sizes()) add(size);
    else if (attr.is<RoutinePtr>()) text_ += attr.as_routine().identity();
    else text_ += weft::detail::concat(attr);
    text_ += '|';
  }
  void add(const std::vector<ViewStep>& steps) {
    for (const ViewStep& step : steps) {
      text_ += step.op->name() + '(';
      for (const Attr& attr : step.attrs) add(attr);
      text_ += ')';
    }
  }
  void add(const Break& stop) {
    text_ += "stop";
    add(static_cast<uint64_t>(stop.kind));
    add(stop.end);
    for (const ValueId value : stop.live) add(value);
    switch (stop.kind) {
      case Break::Kind::Compare:
        add(static_cast<uint64_t>(stop.compare));
        add_expression(stop.a);
        text_ += '?';
        add_expression(stop.b);
        break;
      case Break::Kind::Double:
      case Break::Kind::Integer: add_expression(stop.a); break;
      case Break::Kind::Result:
        text_ += stop.node.op->name();
        for (const Slot slot : node_.operands) add(slot);
        for (const Argument& operand : stop.node.operands)
          if (operand.kind == Argument::Kind::Number) add(operand.number);
        for (const Attr& attr : stop.node.attrs) add(attr);
        break;
    }
  }
  void add(const OutputPlan& plan) {
    text_ += "plan";
    add(static_cast<uint64_t>(plan.kind));
    add(plan.index);
    add(static_cast<uint64_t>(plan.requires_grad));
    add(plan.steps);
  }
  void add(const Effects& effects) {
    for (const OutputPlan& plan : effects.tensors) add(plan);
    for (const NumberLeaf& number : effects.numbers) add(number.value);
    for (const Slot slot : node_.outputs) add(slot);
    for (const InputWrite& write : effects.writes) {
      text_ += write.is_recorded ? "record" : "write";
      add(write.input);
      add(write.output);
    }
    for (const GradWrite& write : effects.grad_writes) {
      text_ += "grad";
      add(write.input);
      add(write.value);
    }
    for (const LayoutWrite& write : effects.layout_writes) {
      text_ += "layout";
      add(write.input);
      add(write.steps);
    }
    // A cell is what it is at its address.
    for (const Tracer::CellWrite& write : effects.cell_writes) {
      text_ += "cell";
      add(reinterpret_cast<uintptr_t>(write.cell.get()));
      add_expression(write.value);
    }
    text_ += "pullbacks";
    add(effects.pullbacks.size());
  }

  const SegmentNode& node_;
  const Expressions& tables_;
  std::string text_;
};

}  // namespace

bool is_same_node(const SegmentNode& a, const SegmentNode& b) {
  if (a.plan != b.plan || a.stop.has_value() != b.stop.has_value() || a.inputs.size() != b.inputs.size())
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const SegmentNode::Input &x = a.inputs[i], &y = b.inputs[i];
    if (x.source.kind != y.source.kind || x.source.index != y.source.index) return false;
    if (x.source.kind == InputSource::Kind::Captured && !x.held->is_same(*y.held)) return false;
    if (x.source.kind == InputSource::Kind::Constant && !is_same_data(*x.held, *y.held)) return false;
  }
  const auto is_same_need = [](const SegmentNode::GradNeed& x, const SegmentNode::GradNeed& y) {
    return x.captured == y.captured && x.needs_grad == y.needs_grad;
  };
  if (!std::equal(a.grad_needs.begin(), a.grad_needs.end(), b.grad_needs.begin(), b.grad_needs.end(),
                  is_same_need))
    return false;
  return a.numbers.size() == b.numbers.size() && EndText(a).write() == EndText(b).write();
}

}  // namespace weft::compiler
