// Anomaly mode: backward stops at the first NaN and names the forward op and line whose gradient it is.
// Needs nothing. The engine asks after every step; it reads every gradient, so it is slow: for debugging.
#pragma once

namespace weft {

struct AnomalyMode {
  static bool is_enabled();
  static void set_enabled(bool enabled);
};

// torch::autograd::AnomalyMode as a scope.
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool enabled = true) : before_(AnomalyMode::is_enabled()) {
    AnomalyMode::set_enabled(enabled);
  }
  ~DetectAnomalyGuard() { AnomalyMode::set_enabled(before_); }
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool before_;
};

namespace autograd {
class Node;
struct Step;
// Error if a result of the step holds NaN.
void check_finite(const Node& node, const Step& step);
}  // namespace autograd

}  // namespace weft
