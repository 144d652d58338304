// Adam and AdamW.
// Place: the out-of-line half of nn/optim/adam.h.
#include "nn/optim/adam.h"

namespace weft::optim {
namespace {

template <class Options>
constexpr bool kDecoupled = std::is_same_v<Options, AdamWOptions>;

}  // namespace

template <class Options>
AdamOf<Options>::AdamOf(std::vector<OptimizerParamGroup> groups, Options defaults)
    : Optimizer(std::make_unique<Options>(defaults)) {
  add_param_groups(std::move(groups));
}

template <class Options>
const char* AdamOf<Options>::name() const {
  return kDecoupled<Options> ? "adamw" : "adam";
}

template <class Options>
void AdamOf<Options>::check(const OptimizerOptions& base) const {
  const auto& options = static_cast<const Options&>(base);
  const auto [beta1, beta2] = options.betas();
  WEFT_CHECK(options.lr() >= 0, name(), ": lr is ", options.lr(), "; it must not be negative");
  WEFT_CHECK(options.eps() >= 0, name(), ": eps is ", options.eps(), "; it must not be negative");
  WEFT_CHECK(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, name(), ": betas are ", beta1, " and ",
             beta2, "; both must be at least 0 and below 1");
  WEFT_CHECK(options.weight_decay() >= 0, name(), ": weight_decay is ", options.weight_decay(),
             "; it must not be negative");
}

template <class Options>
std::vector<Tensor> AdamOf<Options>::make_slots(const Tensor& param, const OptimizerOptions& base) const {
  const bool amsgrad = static_cast<const Options&>(base).amsgrad();
  return {zeros_like(param), zeros_like(param), amsgrad ? zeros_like(param) : Tensor()};
}

// In the order of torch.optim's single-tensor form, so that roundings agree.
template <class Options>
void AdamOf<Options>::update(Tensor& param, const Tensor& gradient, const OptimizerOptions& base,
                             ParamState& state, SourceLocation where) {
  const auto& options = static_cast<const Options&>(base);
  const Scalar lr = options.read_lr(), step = state.step.read();
  const Scalar beta1 = options.read_beta1(), beta2 = options.read_beta2();
  Tensor grad = options.maximize() ? neg(gradient, where) : gradient;
  if (options.weight_decay() != 0) {
    if constexpr (kDecoupled<Options>) param.mul_(1.0 - lr * options.weight_decay(), where);
    else grad = add(grad, param, options.weight_decay(), where);
  }
  Tensor &mean = state.slots[0], &square = state.slots[1], &largest = state.slots[2];
  mean.lerp_(grad, 1.0 - beta1, where);
  square.mul_(beta2, where);
  square.addcmul_(grad, grad, 1.0 - beta2, where);
  if (largest.defined()) largest.copy_(maximum(largest, square, where), false, where);

  const Scalar step_size = lr / (1.0 - pow(beta1, step));
  Tensor denominator = sqrt(largest.defined() ? largest : square, where);
  denominator.div_(pow(1.0 - pow(beta2, step), 0.5), {}, where);
  denominator.add_(options.eps(), 1, where);
  param.addcdiv_(mean, denominator, -step_size, where);
}

template class AdamOf<AdamOptions>;
template class AdamOf<AdamWOptions>;

}  // namespace weft::optim
