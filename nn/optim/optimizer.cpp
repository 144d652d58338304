// Optimizer: groups, checks, the loop of a step.
// Place: the out-of-line half of nn/optim/optimizer.h.
#include "nn/optim/optimizer.h"

#include <unordered_set>

#include "autograd/grad_mode.h"
#include "nn/module.h"
#include "tensor/dispatch.h"

namespace weft::optim {

void Optimizer::add_param_groups(std::vector<OptimizerParamGroup> groups) {
  size_t count = 0;
  for (const OptimizerParamGroup& group : groups) count += group.params().size();
  WEFT_CHECK(count > 0, name(),
             ": there are no parameters to optimize; was the list taken before they were registered?");
  for (OptimizerParamGroup& group : groups) add_param_group(std::move(group));
}

void Optimizer::add_param_group(OptimizerParamGroup group) {
  if (!group.has_options()) group.set_options(defaults_->clone());
  check(group.options());
  const std::vector<Tensor>& params = group.params();
  std::unordered_set<const TensorImpl*> known;
  for (const OptimizerParamGroup& other : groups_)
    for (const Tensor& param : other.params()) known.insert(param.impl());
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    WEFT_CHECK(param.defined(), name(), ": parameter ", i, " is undefined");
    WEFT_CHECK(param.is_floating_point(), name(), ": parameter ", i, " is ", param.dtype(),
               "; only floating tensors can be optimized");
    WEFT_CHECK(param.is_leaf(), name(), ": parameter ", i, " of sizes ", param.sizes(),
               " was made by an op; optimize the tensors that it was made from");
    WEFT_CHECK(known.insert(param.impl()).second, name(), ": parameter ", i, " of sizes ", param.sizes(),
               " is given twice; each may be in one group once");
  }
  const NoGradGuard no_grad;
  for (const Tensor& param : params) group.states_.push_back({Cell(), make_slots(param, group.options())});
  bump_state_epoch();
  groups_.push_back(std::move(group));
}

Tensor Optimizer::step(const LossClosure& closure, SourceLocation where) {
  Tensor loss;
  if (closure) {
    const EnableGradGuard grad;
    loss = closure();
  }
  const NoGradGuard no_grad;
  for (OptimizerParamGroup& group : groups_) {
    for (size_t i = 0; i < group.params_.size(); ++i) {
      Tensor& param = group.params_[i];
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      ParamState& state = group.states_[i];
      for (Tensor& slot : state.slots) {
        if (!slot.defined() || (slot.dtype() == param.dtype() && slot.device() == param.device())) continue;
        // The model was converted after the optimizer was made: its state follows.
        WEFT_CHECK(current_trace() == nullptr, name(), ": parameter ", i, " is ", param.dtype(), " on ",
                   param.device(), ", but its state is ", slot.dtype(), " on ", slot.device(),
                   "; make the optimizer after converting the model");
        slot = slot.to(param.options(), where);
      }
      state.step += 1;
      update(param, grad, group.options(), state, where);
    }
  }
  return loss;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (OptimizerParamGroup& group : groups_)
    for (Tensor& param : group.params_) nn::clear_grad(param, set_to_none);
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> result;
  for (const OptimizerParamGroup& group : groups_)
    result.insert(result.end(), group.params_.begin(), group.params_.end());
  return result;
}

size_t Optimizer::size() const {
  size_t count = 0;
  for (const OptimizerParamGroup& group : groups_) count += group.params_.size();
  return count;
}

void Optimizer::visit_state(StateVisitor& visitor) { visit_state(visitor, {}); }
void Optimizer::visit_state(StateVisitor& visitor, const std::string& prefix) {
  const std::string front = prefix.empty() ? prefix : prefix + '.';
  const std::vector<std::string> names = slot_names();
  size_t number = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    OptimizerParamGroup& group = groups_[g];
    group.options().visit_state(visitor, front + "group." + std::to_string(g));
    for (ParamState& state : group.states_) {
      const std::string at = front + "state." + std::to_string(number++) + '.';
      visitor.cell(at + "step", state.step);
      for (size_t k = 0; k < names.size(); ++k)
        if (state.slots[k].defined()) visitor.tensor(at + names[k], state.slots[k], StateRole::Optimizer);
    }
  }
}

}  // namespace weft::optim
