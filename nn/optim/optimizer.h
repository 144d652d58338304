// Optimizer: parameters in groups with their own options, state made at construction, a step that applies the update.
// Needs tensor, cell and state_visitor. The optimizers of nn/optim/ derive from it; the API is libtorch's.
#pragma once

#include <functional>
#include <memory>

#include "nn/options.h"
#include "tensor/state_visitor.h"

namespace weft::optim {

// The options of one group. Rates are cells: changing one never recompiles.
class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
  // The momentum, or Adam's beta1: what a one-cycle schedule moves against the rate. Nothing where there is none.
  virtual std::optional<double> get_momentum() const { return {}; }
  virtual void set_momentum(double) {}
  // The rates and the facts, for state dictionaries and tools.
  virtual void visit_state(StateVisitor& visitor, const std::string& prefix) = 0;
};

template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
};

// A rate among the options: options.lr(0.1) sets it, options.lr() reads it (and `options.lr() *= 0.5` changes it).
#define WEFT_CELL_OPTION(name, default_value)                   \
 public:                                                        \
  auto name(double value)->decltype(*this) {                    \
    name##_ = value;                                            \
    return *this;                                               \
  }                                                             \
  double name() const { return name##_.value(); }               \
  ::weft::Cell& name() { return name##_; }                      \
  ::weft::Scalar read_##name() const { return name##_.read(); } \
                                                                \
 private:                                                       \
  ::weft::Cell name##_ = default_value;                         \
                                                                \
 public:

// What an optimizer remembers of one parameter.
struct ParamState {
  Cell step;                  // how many updates it has had
  std::vector<Tensor> slots;  // by Optimizer::slot_names(); undefined where the options do not use one
};

class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}  // NOLINT
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other)
      : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) = default;

  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) {
    bump_state_epoch();
    options_ = std::move(options);
  }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }
  // By position in params().
  std::vector<ParamState>& states() { return states_; }
  const std::vector<ParamState>& states() const { return states_; }

 private:
  friend class Optimizer;
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
  std::vector<ParamState> states_;
};

class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;

  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Errors: a parameter given twice, one that is not a leaf or not floating.
  void add_param_group(OptimizerParamGroup group);
  // Updates every parameter that has a gradient. A closure is called first, with grad mode on; its loss is returned.
  Tensor step(WEFT_HERE) { return step(nullptr, where); }
  Tensor step(const LossClosure& closure, WEFT_HERE);
  void zero_grad(bool set_to_none = true);

  std::vector<OptimizerParamGroup>& param_groups() { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return groups_; }
  OptimizerOptions& defaults() { return *defaults_; }
  // All parameters, in the order of the groups.
  std::vector<Tensor> parameters() const;
  size_t size() const;

  // "adamw"
  virtual const char* name() const = 0;
  // The names of ParamState::slots: "exp_avg", "exp_avg_sq", …
  virtual std::vector<std::string> slot_names() const = 0;
  // The state under "state.<parameter>.<slot>" and "state.<parameter>.step", the options under "group.<group>.<option>":
  // what a checkpoint holds and a compiled function reads.
  void visit_state(StateVisitor& visitor);
  void visit_state(StateVisitor& visitor, const std::string& prefix);

 protected:
  explicit Optimizer(std::unique_ptr<OptimizerOptions> defaults) : defaults_(std::move(defaults)) {}
  // Called by the constructors of derived classes, whose make_slots it needs. Error if there are no parameters.
  void add_param_groups(std::vector<OptimizerParamGroup> groups);

  // The values before the first step; undefined tensors for slots that the options do not use.
  virtual std::vector<Tensor> make_slots(const Tensor& param, const OptimizerOptions& options) const = 0;
  // Errors about options that make no sense.
  virtual void check(const OptimizerOptions& options) const = 0;
  // One parameter's update, outside the tape; state.step has been counted up.
  virtual void update(Tensor& param, const Tensor& grad, const OptimizerOptions& options, ParamState& state,
                      SourceLocation where) = 0;

 private:
  std::vector<OptimizerParamGroup> groups_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

}  // namespace weft::optim
