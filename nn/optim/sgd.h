// SGD with momentum, Nesterov's form, weight decay.
// Needs optimizer.
#pragma once

#include "nn/optim/optimizer.h"

namespace weft::optim {

class SGDOptions : public OptimizerCloneableOptions<SGDOptions> {
 public:
  SGDOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT
  WEFT_CELL_OPTION(lr, 1e-3)
  WEFT_CELL_OPTION(momentum, 0)
  WEFT_OPTION(double, dampening, 0)
  WEFT_OPTION(double, weight_decay, 0)
  WEFT_OPTION(bool, nesterov, false)
  WEFT_OPTION(bool, maximize, false)
  std::optional<double> get_momentum() const override { return momentum(); }
  void set_momentum(double value) override { momentum(value); }
  void visit_state(StateVisitor& visitor, const std::string& prefix) override;
};

// g += weight_decay · p;  v = momentum · v + (1 - dampening) · g (v = g at first);  p -= lr · v, or with nesterov
// p -= lr · (g + momentum · v).  Source: torch.optim.SGD; Sutskever et al. 2013.
// Whether there is momentum is decided when the group is added; its size may change.
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<OptimizerParamGroup> groups, SGDOptions defaults = {});
  explicit SGD(std::vector<Tensor> params, SGDOptions defaults = {})
      : SGD(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  const char* name() const override { return "sgd"; }
  std::vector<std::string> slot_names() const override { return {"momentum_buffer"}; }

 protected:
  std::vector<Tensor> make_slots(const Tensor& param, const OptimizerOptions& options) const override;
  void check(const OptimizerOptions& options) const override;
  void update(Tensor& param, const Tensor& grad, const OptimizerOptions& options, ParamState& state,
              SourceLocation where) override;
};

}  // namespace weft::optim
