// Adagrad.
// Needs optimizer.
#pragma once

#include "nn/optim/optimizer.h"

namespace weft::optim {

class AdagradOptions : public OptimizerCloneableOptions<AdagradOptions> {
 public:
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT
  WEFT_CELL_OPTION(lr, 1e-2)
  WEFT_OPTION(double, lr_decay, 0)
  WEFT_OPTION(double, weight_decay, 0)
  WEFT_OPTION(double, initial_accumulator_value, 0)
  WEFT_OPTION(double, eps, 1e-10)
  void visit_state(StateVisitor& visitor, const std::string& prefix) override;
};

// s += g²;  p -= lr / (1 + (t - 1) · lr_decay) · g / (√s + eps).  Source: torch.optim.Adagrad; Duchi et al. 2011.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<OptimizerParamGroup> groups, AdagradOptions defaults = {});
  explicit Adagrad(std::vector<Tensor> params, AdagradOptions defaults = {})
      : Adagrad(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))},
                std::move(defaults)) {}
  const char* name() const override { return "adagrad"; }
  std::vector<std::string> slot_names() const override { return {"sum"}; }

 protected:
  std::vector<Tensor> make_slots(const Tensor& param, const OptimizerOptions& options) const override;
  void check(const OptimizerOptions& options) const override;
  void update(Tensor& param, const Tensor& grad, const OptimizerOptions& options, ParamState& state,
              SourceLocation where) override;
};

}  // namespace weft::optim
