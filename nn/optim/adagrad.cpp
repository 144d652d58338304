// Adagrad, in the order of torch.optim's single-tensor form.
// Place: the out-of-line half of nn/optim/adagrad.h.
#include "nn/optim/adagrad.h"

namespace weft::optim {

void AdagradOptions::visit_state(StateVisitor& visitor, const std::string& prefix) {
  visitor.cell(prefix + ".lr", lr_);
  visitor.fact(prefix + ".lr_decay", lr_decay_);
  visitor.fact(prefix + ".weight_decay", weight_decay_);
  visitor.fact(prefix + ".initial_accumulator_value", initial_accumulator_value_);
  visitor.fact(prefix + ".eps", eps_);
}

Adagrad::Adagrad(std::vector<OptimizerParamGroup> groups, AdagradOptions defaults)
    : Optimizer(std::make_unique<AdagradOptions>(defaults)) {
  add_param_groups(std::move(groups));
}

void Adagrad::check(const OptimizerOptions& base) const {
  const auto& options = static_cast<const AdagradOptions&>(base);
  WEFT_CHECK(options.lr() >= 0, "adagrad: lr is ", options.lr(), "; it must not be negative");
  WEFT_CHECK(options.lr_decay() >= 0, "adagrad: lr_decay is ", options.lr_decay(),
             "; it must not be negative");
  WEFT_CHECK(options.weight_decay() >= 0, "adagrad: weight_decay is ", options.weight_decay(),
             "; it must not be negative");
  WEFT_CHECK(options.initial_accumulator_value() >= 0, "adagrad: initial_accumulator_value is ",
             options.initial_accumulator_value(), "; it must not be negative");
  WEFT_CHECK(options.eps() >= 0, "adagrad: eps is ", options.eps(), "; it must not be negative");
}

std::vector<Tensor> Adagrad::make_slots(const Tensor& param, const OptimizerOptions& base) const {
  return {full_like(param, static_cast<const AdagradOptions&>(base).initial_accumulator_value())};
}

void Adagrad::update(Tensor& param, const Tensor& gradient, const OptimizerOptions& base, ParamState& state,
                     SourceLocation where) {
  const auto& options = static_cast<const AdagradOptions&>(base);
  Tensor grad = gradient;
  if (options.weight_decay() != 0) grad = add(grad, param, options.weight_decay(), where);
  Scalar rate = options.read_lr();
  if (options.lr_decay() != 0) rate = rate / (1.0 + (state.step.read() - 1.0) * options.lr_decay());
  Tensor& total = state.slots[0];
  total.addcmul_(grad, grad, 1, where);
  Tensor denominator = sqrt(total, where);
  denominator.add_(options.eps(), 1, where);
  param.addcdiv_(grad, denominator, -rate, where);
}

}  // namespace weft::optim
