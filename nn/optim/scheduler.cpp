// Learning rate schedules.
// Place: the out-of-line half of nn/optim/scheduler.h.
#include "nn/optim/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/dispatch.h"

namespace weft::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (const OptimizerParamGroup& group : optimizer.param_groups()) base_.push_back(group.options().get_lr());
}

void LRScheduler::step() {
  WEFT_CHECK(
      current_trace() == nullptr,
      "scheduler: step() inside a compiled function would bake its count in; call it between the calls, the "
      "function reads the new rate");
  set_last_epoch(epoch_ + 1);
}

void LRScheduler::set_last_epoch(int64_t epoch) {
  std::vector<OptimizerParamGroup>& groups = optimizer_.param_groups();
  WEFT_CHECK(groups.size() == base_.size(), "scheduler: the optimizer has ", groups.size(),
             " groups, but had ", base_.size(),
             " when the schedule was made; make the schedule after adding groups");
  for (size_t g = 0; g < groups.size(); ++g) groups[g].options().set_lr(rate(epoch, base_[g]));
  set_others(epoch);
  epoch_ = epoch;
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (const OptimizerParamGroup& group : optimizer_.param_groups())
    rates.push_back(group.options().get_lr());
  return rates;
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  WEFT_CHECK(step_size > 0, "StepLR: step_size is ", step_size, "; it must be positive");
  set_last_epoch(0);
}
double StepLR::rate(int64_t epoch, double base) const {
  return base * std::pow(gamma_, static_cast<double>(epoch / step_size_));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  std::sort(milestones_.begin(), milestones_.end());
  set_last_epoch(0);
}
double MultiStepLR::rate(int64_t epoch, double base) const {
  const auto reached = std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin();
  return base * std::pow(gamma_, static_cast<double>(reached));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {
  set_last_epoch(0);
}
double ExponentialLR::rate(int64_t epoch, double base) const {
  return base * std::pow(gamma_, static_cast<double>(epoch));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  WEFT_CHECK(t_max > 0, "CosineAnnealingLR: t_max is ", t_max, "; it must be positive");
  set_last_epoch(0);
}
double CosineAnnealingLR::rate(int64_t epoch, double base) const {
  const double angle = std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(t_max_);
  return eta_min_ + (base - eta_min_) * (1 + std::cos(angle)) / 2;
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor, int64_t total_iters)
    : LRScheduler(optimizer), start_(start_factor), end_(end_factor), total_(total_iters) {
  WEFT_CHECK(start_factor > 0 && start_factor <= 1, "LinearLR: start_factor is ", start_factor,
             "; it must be above 0 and at most 1");
  WEFT_CHECK(end_factor >= 0 && end_factor <= 1, "LinearLR: end_factor is ", end_factor,
             "; it must be between 0 and 1");
  WEFT_CHECK(total_iters > 0, "LinearLR: total_iters is ", total_iters, "; it must be positive");
  set_last_epoch(0);
}
double LinearLR::rate(int64_t epoch, double base) const {
  const double share = static_cast<double>(std::min(epoch, total_)) / static_cast<double>(total_);
  return base * (start_ + (end_ - start_) * share);
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  set_last_epoch(0);
}
double LambdaLR::rate(int64_t epoch, double base) const { return base * factor_(epoch); }

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(optimizer), options_(options) {
  WEFT_CHECK(options_.total_steps() > 0, "OneCycleLR: total_steps is ", options_.total_steps(),
             "; it must be positive");
  WEFT_CHECK(options_.pct_start() >= 0 && options_.pct_start() <= 1, "OneCycleLR: pct_start is ",
             options_.pct_start(), "; it must be between 0 and 1");
  if (options_.cycle_momentum()) {
    for (const OptimizerParamGroup& group : optimizer.param_groups())
      WEFT_CHECK(group.options().get_momentum().has_value(), "OneCycleLR: ", optimizer.name(),
                 " has neither momentum nor betas; set cycle_momentum(false)");
  }
  set_last_epoch(0);
}

double OneCycleLR::along(int64_t epoch, double start, double top, double end) const {
  const double total = static_cast<double>(options_.total_steps()), peak = options_.pct_start() * total - 1;
  const double at = static_cast<double>(epoch);
  const bool rising = at <= peak;
  const double from = rising ? start : top, to = rising ? top : end;
  const double share = rising ? (peak > 0 ? at / peak : 1) : (at - peak) / (total - 1 - peak);
  if (options_.linear()) return (to - from) * share + from;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double OneCycleLR::rate(int64_t epoch, double) const {
  WEFT_CHECK(epoch < options_.total_steps(), "OneCycleLR: step ", epoch, " of a cycle of ",
             options_.total_steps(), " steps");
  const double start = options_.max_lr() / options_.div_factor();
  return along(epoch, start, options_.max_lr(), start / options_.final_div_factor());
}

void OneCycleLR::set_others(int64_t epoch) {
  if (!options_.cycle_momentum()) return;
  const double momentum =
      along(epoch, options_.max_momentum(), options_.base_momentum(), options_.max_momentum());
  for (OptimizerParamGroup& group : optimizer().param_groups()) group.options().set_momentum(momentum);
}

}  // namespace weft::optim
