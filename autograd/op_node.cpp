// Recording an op, and running its gradient rules.
#include "autograd/op_node.h"

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "tensor/dispatch.h"

namespace weft::autograd {
namespace {

constexpr uint32_t kAll = ~0u;

// Bit of operand i in a mask; the last bit speaks for all operands beyond it, which are those of a list.
bool is_in(uint32_t mask, size_t i) { return ((mask >> std::min<size_t>(i, 31)) & 1) != 0; }

bool is_one(const Scalar& number) {
  return !number.is_traced() && !number.is_symbolic() && number.to_double() == 1;
}

}  // namespace

const GradRule* rule_of(const Op& op, size_t operand) {
  if (op.kind != Kind::Pointwise) {
    for (size_t p = 0; p < op.schema.params.size(); ++p) {
      const ParamType type = op.schema.params[p].type;
      if (type != ParamType::TensorList && type != ParamType::OptionalTensorList) continue;
      operand = std::min(operand, static_cast<size_t>(op.schema.operand_index(p)));
      break;
    }
  }
  if (operand >= op.grads.size()) return nullptr;
  const GradRule& rule = op.grads[operand];
  return rule.body || rule.derived != nullptr ? &rule : nullptr;
}

bool has_gradient(const Op& op, std::span<const Operand> operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].tensor == nullptr || !(*operands[i].tensor)->needs_grad()) continue;
    if (op.grad_state == GradState::Decomposition || rule_of(op, i) != nullptr) return true;
  }
  return false;
}

OpNode::OpNode(const Op& op, const Call& call, const Tensor* overwritten) : op_(op), called_(call.op) {
  where = call.where;
  const std::span<const Operand> operands = call.operands;
  uint32_t saved = 0;
  const bool decomposed = op.grad_state == GradState::Decomposition;
  bool needs_extra = decomposed;
  edges.resize(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].tensor == nullptr || !(*operands[i].tensor)->needs_grad()) continue;
    const GradRule* rule = decomposed ? nullptr : rule_of(op, i);
    // An overwritten operand that the new value does not depend on still gets its zero gradient.
    if (rule == nullptr && !decomposed && !(overwritten != nullptr && i == 0)) continue;
    edges[i] = gradient_edge(*operands[i].tensor);
    if (rule == nullptr) continue;
    needs_extra = needs_extra || rule->derived == nullptr;
    saved |= rule->saved_inputs;
    saved_output_mask_ |= rule->saved_outputs;
  }
  if (decomposed) saved = kAll;

  slots_.resize(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    Slot& slot = slots_[i];
    if (operands[i].tensor == nullptr) {
      slot.number = operands[i].scalar;
      continue;
    }
    slot.is_tensor = true;
    if (!is_in(saved, i)) continue;
    const Tensor& x = *operands[i].tensor;
    has_saved_ = true;
    if (overwritten == nullptr || x->storage == nullptr || x->storage != (*overwritten)->storage) {
      slot.saved = SavedTensor(x, false);
      continue;
    }
    // The old value, with the old history.
    const AutoGradMode off(false);
    Tensor copy = copy_of(x);
    if (x->needs_grad()) {
      if (Edge edge = gradient_edge(x)) set_producer(copy, std::move(edge.node), edge.slot);
    }
    slot.saved = SavedTensor(std::move(copy), false);
  }
  if (needs_extra) {
    extra_ = std::make_unique<Extra>();
    extra_->attrs = call.attrs;
    extra_->specs.reserve(operands.size());
    for (const Operand& operand : operands) {
      extra_->specs.push_back(operand.tensor != nullptr ? spec_of(*operand.tensor)
                                                        : OutputSpec{{}, DType::Float32, kCPU});
    }
  }
}

void OpNode::finish(std::span<const Tensor> outputs) {
  results.reserve(outputs.size());
  for (const Tensor& output : outputs) results.push_back(Meta(output));
  if (saved_output_mask_ == 0) return;
  saved_outputs_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_in(saved_output_mask_, i)) continue;
    // An index result has no history that could lead back here.
    saved_outputs_[i] = SavedTensor(share_data(outputs[i]), is_floating(outputs[i]->dtype));
    has_saved_ = true;
  }
}

void OpNode::release() {
  if (!has_saved_) return;
  is_released_ = true;
  for (Slot& slot : slots_) slot.saved = {};
  saved_outputs_.clear();
}

Tensor OpNode::unpack(size_t operand) {
  const SavedTensor& saved = slots_[operand].saved;
  return saved.defined() ? saved.unpack(*this, 0) : Tensor();
}

// The derived op over (dy, operands…, result), with 0 in the slots that its formula does not read.
Tensor OpNode::apply_formula(const GradRule& rule, const Tensor& dy) {
  const int scale = rule.derived_scale;
  if (scale == 0) return dy;
  if (scale > 0 && !slots_[static_cast<size_t>(scale - 1)].is_tensor &&
      is_one(slots_[static_cast<size_t>(scale - 1)].number))
    return dy;
  const size_t count = slots_.size();
  SmallVector<Tensor, 4> tensors(count + 2);
  SmallVector<Operand, 6> operands(count + 2, Operand(0));
  if ((rule.derived_uses & 1) != 0) operands[0] = Operand(dy);
  for (size_t i = 0; i <= count; ++i) {
    if (((rule.derived_uses >> (i + 1)) & 1) == 0) continue;
    if (i < count && !slots_[i].is_tensor) {
      operands[i + 1] = Operand(slots_[i].number);
      continue;
    }
    tensors[i] = i < count ? unpack(i) : saved_outputs_[0].unpack(*this, 0);
    operands[i + 1] = Operand(tensors[i]);
  }
  static const Attrs none = {};
  return call(*rule.derived, {operands.data(), operands.size()}, none, where);
}

void OpNode::apply(Step& step) {
  WEFT_CHECK(!is_released_, "backward: ", describe(*this),
             " was walked a second time, but what it had saved was freed by the first backward.\n  Pass "
             "retain_graph=true to the first one, or compute the result again.");
  // What a rule calls reports the line of the forward op.
  const CompositeScope scope(op_, where);
  if (op_.grad_state == GradState::Decomposition) return apply_decomposition(step);
  if (results.size() > 1) {
    for (size_t i = 0; i < results.size(); ++i) {
      const Meta& meta = results[i];
      if (!step.grads[i].defined() && is_floating(meta.dtype))
        step.grads[i] = zeros(meta.sizes, TensorOptions(meta.dtype).device(meta.device), where);
    }
  }
  SmallVector<Tensor, 3> inputs, outputs;  // unpacked for written gradients
  SmallVector<Scalar, 3> numbers;
  bool is_unpacked = false;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!step.wanted[i]) continue;
    const GradRule* rule = rule_of(op_, i);
    if (rule == nullptr) {
      const Meta& meta = edges[i].node->results[edges[i].slot];
      step.results[i] = zeros(meta.sizes, TensorOptions(meta.dtype).device(meta.device), where);
      continue;
    }
    if (rule->derived != nullptr) {
      step.results[i] = apply_formula(*rule, step.grads[0]);
      continue;
    }
    if (!is_unpacked) {
      is_unpacked = true;
      inputs.resize(slots_.size());
      for (size_t k = 0; k < slots_.size(); ++k) {
        inputs[k] = unpack(k);
        numbers.push_back(slots_[k].number);
      }
      outputs.resize(results.size());
      for (size_t k = 0; k < saved_outputs_.size(); ++k)
        if (saved_outputs_[k].defined())
          outputs[k] = saved_outputs_[k].unpack(*this, static_cast<uint32_t>(k));
    }
    const GradCall grad{{step.grads.data(), step.grads.size()},
                        {inputs.data(), inputs.size()},
                        {numbers.data(), numbers.size()},
                        {outputs.data(), outputs.size()},
                        {extra_->specs.data(), extra_->specs.size()},
                        extra_->attrs,
                        where};
    step.results[i] = rule->body(grad, i);
  }
}

// No formula: what the op is made of is run again with the tape on, and its gradient taken. With grad mode on the gradient
// is a function of the operands themselves, so that it can be differentiated again.
void OpNode::apply_decomposition(Step& step) {
  const bool create_graph = grad_mode_enabled();
  std::vector<Tensor> inputs(slots_.size()), wanted;
  SmallVector<Operand, 4> operands(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].is_tensor) {
      operands[i] = Operand(slots_[i].number);
      continue;
    }
    inputs[i] = unpack(i);
    if (step.wanted[i]) {
      // Handles of their own: one tensor may stand in two slots.
      inputs[i] = create_graph ? alias(inputs[i], where) : share_data(inputs[i]).requires_grad_();
      wanted.push_back(inputs[i]);
    }
    operands[i] = Operand(inputs[i]);
  }
  static const Attrs none = {};
  Tensor value;
  {
    const AutoGradMode on(true);
    value =
        op_.decompose(Call{op_, {operands.data(), operands.size()}, extra_ ? extra_->attrs : none, where});
  }
  std::vector<Tensor> gradients = grad({value}, wanted, {step.grads[0]}, create_graph, create_graph, true);
  size_t next = 0;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (step.wanted[i]) step.results[i] = std::move(gradients[next++]);
}

}  // namespace weft::autograd
