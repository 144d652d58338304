// The search for NaN after a step of backward.
#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "tensor/dispatch.h"

#include <atomic>
#include <cmath>

namespace weft {
namespace {
std::atomic<bool> enabled{false};
}  // namespace

bool AnomalyMode::is_enabled() { return enabled.load(std::memory_order_relaxed); }
void AnomalyMode::set_enabled(bool value) { enabled.store(value, std::memory_order_relaxed); }

namespace autograd {

void check_finite(const Node& node, const Step& step) {
  for (size_t i = 0; i < step.results.size(); ++i) {
    const Tensor& gradient = step.results[i];
    if (!gradient.defined() || gradient->is_fake || !is_floating(gradient->dtype)) continue;
    const std::vector<double> values = gradient.to_vector<double>();
    for (size_t k = 0; k < values.size(); ++k) {
      WEFT_CHECK(!std::isnan(values[k]), "backward: the gradient that ", describe(node),
                 " gives its operand ", i, " is NaN at element ", k, " of ", values.size(),
                 " (anomaly mode)");
    }
  }
}

}  // namespace autograd
}  // namespace weft
