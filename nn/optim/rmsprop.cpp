// RMSprop, in the order of torch.optim's single-tensor form.
// Place: the out-of-line half of nn/optim/rmsprop.h.
#include "nn/optim/rmsprop.h"

namespace weft::optim {

void RMSpropOptions::visit_state(StateVisitor& visitor, const std::string& prefix) {
  visitor.cell(prefix + ".lr", lr_);
  visitor.cell(prefix + ".momentum", momentum_);
  visitor.fact(prefix + ".alpha", alpha_);
  visitor.fact(prefix + ".eps", eps_);
  visitor.fact(prefix + ".weight_decay", weight_decay_);
  visitor.fact(prefix + ".centered", centered_);
}

RMSprop::RMSprop(std::vector<OptimizerParamGroup> groups, RMSpropOptions defaults)
    : Optimizer(std::make_unique<RMSpropOptions>(defaults)) {
  add_param_groups(std::move(groups));
}

void RMSprop::check(const OptimizerOptions& base) const {
  const auto& options = static_cast<const RMSpropOptions&>(base);
  WEFT_CHECK(options.lr() >= 0, "rmsprop: lr is ", options.lr(), "; it must not be negative");
  WEFT_CHECK(options.eps() >= 0, "rmsprop: eps is ", options.eps(), "; it must not be negative");
  WEFT_CHECK(options.momentum() >= 0, "rmsprop: momentum is ", options.momentum(),
             "; it must not be negative");
  WEFT_CHECK(options.alpha() >= 0, "rmsprop: alpha is ", options.alpha(), "; it must not be negative");
  WEFT_CHECK(options.weight_decay() >= 0, "rmsprop: weight_decay is ", options.weight_decay(),
             "; it must not be negative");
}

std::vector<Tensor> RMSprop::make_slots(const Tensor& param, const OptimizerOptions& base) const {
  const auto& options = static_cast<const RMSpropOptions&>(base);
  return {zeros_like(param), options.momentum() > 0 ? zeros_like(param) : Tensor(),
          options.centered() ? zeros_like(param) : Tensor()};
}

void RMSprop::update(Tensor& param, const Tensor& gradient, const OptimizerOptions& base, ParamState& state,
                     SourceLocation where) {
  const auto& options = static_cast<const RMSpropOptions&>(base);
  Tensor grad = gradient;
  if (options.weight_decay() != 0) grad = add(grad, param, options.weight_decay(), where);
  Tensor &square = state.slots[0], &velocity = state.slots[1], &mean = state.slots[2];
  square.mul_(options.alpha(), where);
  square.addcmul_(grad, grad, 1 - options.alpha(), where);
  Tensor denominator;
  if (mean.defined()) {
    mean.lerp_(grad, 1 - options.alpha(), where);
    denominator = sqrt(addcmul(square, mean, mean, -1, where), where);
  } else {
    denominator = sqrt(square, where);
  }
  denominator.add_(options.eps(), 1, where);
  if (velocity.defined()) {
    velocity.mul_(options.read_momentum(), where);
    velocity.addcdiv_(grad, denominator, 1, where);
    param.add_(velocity, -options.read_lr(), where);
  } else {
    param.addcdiv_(grad, denominator, -options.read_lr(), where);
  }
}

}  // namespace weft::optim
