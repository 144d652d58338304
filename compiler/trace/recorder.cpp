// The trace that only appends.
// Place: the out-of-line half of compiler/trace/recorder.h.
#include "compiler/trace/recorder.h"

#include <utility>

#include "compiler/trace/infer.h"

namespace weft::compiler {
namespace {

class RecordedSlot final : public TraceSlot {
 public:
  RecordedSlot(const Recorder& owner, ValueId value) : owner_(owner), value_(value) {}
  std::unique_ptr<TraceSlot> share(TensorImpl&) const override {
    return std::make_unique<RecordedSlot>(owner_, value_);
  }
  bool is_of(const Recorder& recorder) const { return &owner_ == &recorder; }
  ValueId value() const { return value_; }

 private:
  const Recorder& owner_;
  ValueId value_;
};

}  // namespace

Recorder::Recorder(Graph& graph, std::string purpose)
    : graph_(graph),
      purpose_(std::move(purpose)),
      outer_(std::exchange(current_trace(), this)),
      grad_mode_(false) {}

Recorder::~Recorder() { current_trace() = outer_; }

Tensor Recorder::tensor_of(ValueId value) const {
  Tensor tensor = make_hollow(graph_[value].spec());
  tensor->trace = std::make_unique<RecordedSlot>(*this, value);
  return tensor;
}

ValueId Recorder::value_of(const Tensor& x) const {
  const auto* slot = x.defined() ? dynamic_cast<const RecordedSlot*>(x->trace.get()) : nullptr;
  WEFT_CHECK(slot != nullptr && slot->is_of(*this), purpose_, ": uses ", describe(x),
             ", which is not one of its operands nor made of them");
  return slot->value();
}

const Tensor& Recorder::stand_in(const Tensor& x) {
  static_cast<void>(value_of(x));
  return x;
}

void Recorder::record(const Call& call, std::span<Tensor> outputs) {
  Node node;
  node.op = &call.op;
  node.attrs = call.attrs;
  node.where = call.where;
  for (const CompositeScope* scope = CompositeScope::current(); scope != nullptr; scope = scope->outer())
    node.composite = &scope->op();
  if (origin_ != nullptr) {
    node.where = origin_->where;
    node.composite = origin_->composite != nullptr ? origin_->composite : origin_->op;
    node.grad_mode = origin_->grad_mode;
    node.checkpoint = origin_->checkpoint;
  }
  for (const Operand& operand : call.operands) {
    if (operand.tensor != nullptr) node.operands.push_back(Argument::of(value_of(*operand.tensor)));
    else if (operand.is_scalar) node.operands.push_back(Argument::of(operand.scalar));
    else node.operands.push_back({});
  }
  const std::optional<OutputSpecs> specs = infer_results(call);
  WEFT_CHECK(specs && !call.op.data_dependent, purpose_, ": calls ", call.op.name(),
             ", whose sizes depend on values");
  WEFT_ASSERT(specs->size() == outputs.size(), call.name());
  const ValueId first = graph_.add_node(std::move(node), {specs->data(), specs->size()});
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k] = tensor_of(first + static_cast<ValueId>(k));
    outputs[k]->made_by = &call.op;
    outputs[k]->made_at = call.where;
  }
}

void Recorder::mutate(const Call& call, const Tensor&) {
  WEFT_CHECK(false, purpose_, ": calls ", call.op.name(),
             ", which writes in place; use the op that gives a new tensor");
}
Scalar Recorder::read(const Tensor& x, SourceLocation) {
  WEFT_CHECK(false, purpose_, ": reads the value of ", describe(x), ", which is not known before it runs");
}
Tensor Recorder::constant(const Tensor& data, SourceLocation) {
  WEFT_CHECK(false, purpose_, ": makes ", describe(data), " of host data; use full() or arange()");
}
RandomStream Recorder::draw(Sym) {
  WEFT_CHECK(false, purpose_, ": draws random numbers; take seed and counter as attributes");
}

}  // namespace weft::compiler
