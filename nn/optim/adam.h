// Adam and AdamW.
// Needs optimizer.
#pragma once

#include <tuple>

#include "nn/optim/optimizer.h"

namespace weft::optim {

// What both share: lr and betas are cells, and so is the step count.
template <class Derived>
class AdamOptionsOf : public OptimizerCloneableOptions<Derived> {
 public:
  AdamOptionsOf(double lr, double weight_decay) : lr_(lr), weight_decay_(weight_decay) {}
  Derived& lr(double value) {
    lr_ = value;
    return self();
  }
  double lr() const { return lr_.value(); }
  Cell& lr() { return lr_; }
  Derived& betas(const std::tuple<double, double>& value) {
    beta1_ = std::get<0>(value);
    beta2_ = std::get<1>(value);
    return self();
  }
  std::tuple<double, double> betas() const { return {beta1_.value(), beta2_.value()}; }
  Derived& eps(double value) { return set(eps_, value); }
  double eps() const { return eps_; }
  Derived& weight_decay(double value) { return set(weight_decay_, value); }
  double weight_decay() const { return weight_decay_; }
  // Divides by the largest second moment so far.  Reddi et al. 2018. Decided when the group is added.
  Derived& amsgrad(bool value) { return set(amsgrad_, value); }
  bool amsgrad() const { return amsgrad_; }
  Derived& maximize(bool value) { return set(maximize_, value); }
  bool maximize() const { return maximize_; }

  std::optional<double> get_momentum() const override { return beta1_.value(); }
  void set_momentum(double value) override { beta1_ = value; }
  Scalar read_lr() const { return lr_.read(); }
  Scalar read_beta1() const { return beta1_.read(); }
  Scalar read_beta2() const { return beta2_.read(); }
  void visit_state(StateVisitor& visitor, const std::string& prefix) override {
    visitor.cell(prefix + ".lr", lr_);
    visitor.cell(prefix + ".beta1", beta1_);
    visitor.cell(prefix + ".beta2", beta2_);
    visitor.fact(prefix + ".eps", eps_);
    visitor.fact(prefix + ".weight_decay", weight_decay_);
    visitor.fact(prefix + ".amsgrad", amsgrad_);
    visitor.fact(prefix + ".maximize", maximize_);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
  template <class T>
  Derived& set(T& field, T value) {
    bump_state_epoch();
    field = value;
    return self();
  }
  Cell lr_, beta1_ = 0.9, beta2_ = 0.999;
  double eps_ = 1e-8, weight_decay_;
  bool amsgrad_ = false, maximize_ = false;
};

class AdamOptions : public AdamOptionsOf<AdamOptions> {
 public:
  AdamOptions(double lr = 1e-3) : AdamOptionsOf(lr, 0) {}  // NOLINT
};
class AdamWOptions : public AdamOptionsOf<AdamWOptions> {
 public:
  AdamWOptions(double lr = 1e-3) : AdamOptionsOf(lr, 1e-2) {}  // NOLINT
};

// m += (1 - β₁)(g - m);  v = β₂v + (1 - β₂)g²;  p -= lr/(1 - β₁ᵗ) · m / (√v/√(1 - β₂ᵗ) + eps).
// Adam adds weight_decay · p to the gradient; AdamW multiplies p by 1 - lr · weight_decay first.
// Source: torch.optim.Adam, AdamW; Kingma and Ba 2015, Loshchilov and Hutter 2019.
template <class Options>
class AdamOf : public Optimizer {
 public:
  explicit AdamOf(std::vector<OptimizerParamGroup> groups, Options defaults = {});
  explicit AdamOf(std::vector<Tensor> params, Options defaults = {})
      : AdamOf(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))},
               std::move(defaults)) {}
  const char* name() const override;
  std::vector<std::string> slot_names() const override { return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}; }

 protected:
  std::vector<Tensor> make_slots(const Tensor& param, const OptimizerOptions& options) const override;
  void check(const OptimizerOptions& options) const override;
  void update(Tensor& param, const Tensor& grad, const OptimizerOptions& options, ParamState& state,
              SourceLocation where) override;
};
extern template class AdamOf<AdamOptions>;
extern template class AdamOf<AdamWOptions>;

class Adam : public AdamOf<AdamOptions> {
 public:
  using AdamOf::AdamOf;
};
class AdamW : public AdamOf<AdamWOptions> {
 public:
  using AdamOf::AdamOf;
};

}  // namespace weft::optim
