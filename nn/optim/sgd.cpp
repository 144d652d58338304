// SGD.
// Place: the out-of-line half of nn/optim/sgd.h.
#include "nn/optim/sgd.h"

namespace weft::optim {

void SGDOptions::visit_state(StateVisitor& visitor, const std::string& prefix) {
  visitor.cell(prefix + ".lr", lr_);
  visitor.cell(prefix + ".momentum", momentum_);
  visitor.fact(prefix + ".dampening", dampening_);
  visitor.fact(prefix + ".weight_decay", weight_decay_);
  visitor.fact(prefix + ".nesterov", nesterov_);
  visitor.fact(prefix + ".maximize", maximize_);
}

SGD::SGD(std::vector<OptimizerParamGroup> groups, SGDOptions defaults)
    : Optimizer(std::make_unique<SGDOptions>(defaults)) {
  add_param_groups(std::move(groups));
}

void SGD::check(const OptimizerOptions& base) const {
  const auto& options = static_cast<const SGDOptions&>(base);
  WEFT_CHECK(options.lr() >= 0, "sgd: lr is ", options.lr(), "; it must not be negative");
  WEFT_CHECK(options.momentum() >= 0, "sgd: momentum is ", options.momentum(), "; it must not be negative");
  WEFT_CHECK(options.weight_decay() >= 0, "sgd: weight_decay is ", options.weight_decay(),
             "; it must not be negative");
  WEFT_CHECK(!options.nesterov() || (options.momentum() > 0 && options.dampening() == 0),
             "sgd: nesterov needs a momentum above 0 and no dampening; momentum is ", options.momentum(),
             " and dampening ", options.dampening());
}

std::vector<Tensor> SGD::make_slots(const Tensor& param, const OptimizerOptions& base) const {
  const auto& options = static_cast<const SGDOptions&>(base);
  return {options.momentum() != 0 ? zeros_like(param) : Tensor()};
}

void SGD::update(Tensor& param, const Tensor& gradient, const OptimizerOptions& base, ParamState& state,
                 SourceLocation where) {
  const auto& options = static_cast<const SGDOptions&>(base);
  Tensor grad = options.maximize() ? neg(gradient, where) : gradient;
  if (options.weight_decay() != 0) grad = add(grad, param, options.weight_decay(), where);
  if (Tensor& velocity = state.slots[0]; velocity.defined()) {
    const Scalar momentum = options.read_momentum();
    // The buffer starts at zero, so that the first step gives v = g without a case of its own.
    velocity.mul_(momentum, where);
    Scalar weight = 1;
    if (options.dampening() != 0) {
      // PyTorch does not dampen the first gradient. 0 to the power of (step - 1) is 1 at step 1 and 0 after it: no branch.
      const Scalar is_first = pow(Scalar(0.0), state.step.read() - 1.0);
      weight = is_first + (1.0 - is_first) * (1 - options.dampening());
    }
    velocity.add_(grad, weight, where);
    grad = options.nesterov() ? add(grad, velocity, momentum, where) : velocity;
  }
  param.add_(grad, -options.read_lr(), where);
}

}  // namespace weft::optim
