// Hollow tensors and what shape rules say of them.
// Place: the out-of-line half of compiler/trace/infer.h.
#include "compiler/trace/infer.h"

namespace weft::compiler {

Tensor make_hollow(const OutputSpec& spec) {
  Layout<Sym> layout{spec.sizes, spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes),
                     spec.offset};
  Tensor hollow(make_intrusive<TensorImpl>(Intrusive<Storage>(), std::move(layout), spec.dtype, spec.device));
  hollow->is_fake = true;
  return hollow;
}

std::optional<OutputSpecs> infer_results(const Call& call) {
  const Op& op = call.op;
  if (op.kind == Kind::View) {
    const Tensor& base = call.tensor(0);
    Layout<Sym> layout = op.view(base->layout, call.attrs, base->dtype);
    const DType dtype = op.view_dtype != nullptr ? op.view_dtype(call.attrs, base->dtype) : base->dtype;
    OutputSpecs specs;
    specs.push_back({std::move(layout.sizes), dtype, base->device, std::move(layout.strides), layout.offset});
    return specs;
  }
  if (op.infer == nullptr) return std::nullopt;
  return op.infer(call);
}

const Tensor& HollowValues::operator[](ValueId id) {
  if (tensors_.size() < graph_.values.size()) tensors_.resize(graph_.values.size());
  Tensor& tensor = tensors_[id];
  if (!tensor.defined()) tensor = make_hollow(graph_[id].spec());
  return tensor;
}

std::span<const Operand> HollowValues::operands(const Node& node) {
  operands_.clear();
  for (const Argument& argument : node.operands) {
    switch (argument.kind) {
      case Argument::Kind::None: operands_.emplace_back(); break;
      case Argument::Kind::Value: operands_.emplace_back((*this)[argument.value]); break;
      case Argument::Kind::Number: operands_.emplace_back(argument.number); break;
    }
  }
  return operands_;
}

}  // namespace weft::compiler
