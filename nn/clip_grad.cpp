// Clipping of gradients.
// Place: the out-of-line half of nn/clip_grad.h.
#include "nn/clip_grad.h"

#include <cmath>

#include "autograd/grad_mode.h"

namespace weft::nn::utils {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(std::move(gradient));
  return gradients;
}

}  // namespace

Tensor clip_grad_norm_tensor_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                              SourceLocation where) {
  WEFT_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm is ", max_norm, "; it must not be negative");
  const NoGradGuard no_grad;
  std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return zeros({}, {}, where);
  std::vector<Tensor> norms;
  for (const Tensor& gradient : gradients) norms.push_back(norm(gradient, norm_type, {}, false, where));
  const Tensor total =
      norms.size() == 1 ? norms[0] : norm(stack(norms, 0, where), norm_type, {}, false, where);
  const Tensor factor = clamp_max(div(max_norm, add(total, 1e-6, 1, where), {}, where), 1.0, where);
  for (Tensor& gradient : gradients) gradient.mul_(factor, where);
  return total;
}

Scalar clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite, SourceLocation where) {
  if (!error_if_nonfinite) return clip_grad_norm_tensor_(parameters, max_norm, norm_type, where).item(where);
  // Judged before anything is scaled, so that an error changes nothing.
  const NoGradGuard no_grad;
  std::vector<Tensor> norms;
  for (const Tensor& gradient : gradients_of(parameters))
    norms.push_back(norm(gradient, norm_type, {}, false, where));
  if (!norms.empty()) {
    const double total = norm(stack(norms, 0, where), norm_type, {}, false, where).item(where).to_double();
    WEFT_CHECK(std::isfinite(total), "clip_grad_norm_: the norm of all gradients is ", total,
               "; pass error_if_nonfinite false to go on");
  }
  return clip_grad_norm_tensor_(parameters, max_norm, norm_type, where).item(where);
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value, SourceLocation where) {
  WEFT_CHECK(clip_value >= 0, "clip_grad_value_: clip_value is ", clip_value, "; it must not be negative");
  const NoGradGuard no_grad;
  for (Tensor& gradient : gradients_of(parameters)) gradient.clamp_(-clip_value, clip_value, where);
}

}  // namespace weft::nn::utils
