// Learning rate schedules: StepLR, CosineAnnealingLR, LinearLR, OneCycleLR, …, with PyTorch's names and numbers.
// Needs optimizer. They write the rates between steps: outside of compiled functions, which read the cells at each call.
#pragma once

#include "nn/optim/optimizer.h"

namespace weft::optim {

// The base of all: made before the first optimizer step, it sets the rates of step 0; step() those of the next.
class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  // Error inside a compiled function, where the count would be baked in.
  void step();
  // The rates as they are set, by group.
  std::vector<double> get_last_lr() const;
  // How many steps there have been. Setting it (from a checkpoint) sets the rates, too.
  int64_t last_epoch() const { return epoch_; }
  void set_last_epoch(int64_t epoch);

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  // The rate of a group whose rate was `base` when the schedule was made.
  virtual double rate(int64_t epoch, double base) const = 0;
  // Sets what else a schedule moves.
  virtual void set_others(int64_t /*epoch*/) {}
  Optimizer& optimizer() { return optimizer_; }

 private:
  Optimizer& optimizer_;
  std::vector<double> base_;
  int64_t epoch_ = 0;
};

// base · gamma^⌊t / step_size⌋
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  int64_t step_size_;
  double gamma_;
};

// base · gamma^(number of milestones reached)
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  std::vector<int64_t> milestones_;
  double gamma_;
};

// base · gamma^t
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  double gamma_;
};

// Half a cosine from base to eta_min in t_max steps, and back.  Loshchilov and Hutter 2017.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  int64_t t_max_;
  double eta_min_;
};

// From base · start_factor to base · end_factor in total_iters steps: a warm-up.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1.0,
                    int64_t total_iters = 5);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  double start_, end_;
  int64_t total_;
};

// base · factor(t)
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor);

 protected:
  double rate(int64_t epoch, double base) const override;

 private:
  std::function<double(int64_t)> factor_;
};

struct OneCycleLROptions {
  OneCycleLROptions(double max_lr, int64_t total_steps) : max_lr_(max_lr), total_steps_(total_steps) {}
  WEFT_CALL_OPTION(double, max_lr, 0)
  WEFT_CALL_OPTION(int64_t, total_steps, 0)
  // The share of the steps that goes up.
  WEFT_CALL_OPTION(double, pct_start, 0.3)
  WEFT_CALL_OPTION(bool, linear, false)  // straight lines instead of cosines
  WEFT_CALL_OPTION(bool, cycle_momentum, true)
  WEFT_CALL_OPTION(double, base_momentum, 0.85)
  WEFT_CALL_OPTION(double, max_momentum, 0.95)
  WEFT_CALL_OPTION(double, div_factor, 25)
  WEFT_CALL_OPTION(double, final_div_factor, 1e4)
};

// From max_lr / div_factor up to max_lr and down to that start / final_div_factor, with momentum (or Adam's beta1) going the
// other way between max_momentum and base_momentum.  Smith and Topin 2018; torch.optim.lr_scheduler.OneCycleLR.
// Errors: a step beyond total_steps.
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  OneCycleLR(Optimizer& optimizer, double max_lr, int64_t total_steps)
      : OneCycleLR(optimizer, OneCycleLROptions(max_lr, total_steps)) {}

 protected:
  double rate(int64_t epoch, double base) const override;
  void set_others(int64_t epoch) override;

 private:
  // Between three values at the start, the top and the end.
  double along(int64_t epoch, double start, double top, double end) const;
  OneCycleLROptions options_;
};

}  // namespace weft::optim
