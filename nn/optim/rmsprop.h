// RMSprop.
// Needs optimizer.
#pragma once

#include "nn/optim/optimizer.h"

namespace weft::optim {

class RMSpropOptions : public OptimizerCloneableOptions<RMSpropOptions> {
 public:
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT
  WEFT_CELL_OPTION(lr, 1e-2)
  WEFT_CELL_OPTION(momentum, 0)
  WEFT_OPTION(double, alpha, 0.99)
  WEFT_OPTION(double, eps, 1e-8)
  WEFT_OPTION(double, weight_decay, 0)
  WEFT_OPTION(bool, centered, false)
  std::optional<double> get_momentum() const override { return momentum(); }
  void set_momentum(double value) override { momentum(value); }
  void visit_state(StateVisitor& visitor, const std::string& prefix) override;
};

// v = αv + (1 - α)g²;  p -= lr · g / (√v + eps), through a momentum buffer where there is one; centered subtracts the
// squared mean gradient from v.  Source: torch.optim.RMSprop; Hinton 2012, Graves 2013.
// Whether there is momentum is decided when the group is added.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<OptimizerParamGroup> groups, RMSpropOptions defaults = {});
  explicit RMSprop(std::vector<Tensor> params, RMSpropOptions defaults = {})
      : RMSprop(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))},
                std::move(defaults)) {}
  const char* name() const override { return "rmsprop"; }
  std::vector<std::string> slot_names() const override {
    return {"square_avg", "momentum_buffer", "grad_avg"};
  }

 protected:
  std::vector<Tensor> make_slots(const Tensor& param, const OptimizerOptions& options) const override;
  void check(const OptimizerOptions& options) const override;
  void update(Tensor& param, const Tensor& grad, const OptimizerOptions& options, ParamState& state,
              SourceLocation where) override;
};

}  // namespace weft::optim
