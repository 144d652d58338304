// gradcheck: holds the gradients of a function against central differences in float64.
// Needs grad. For tests of ops, of user-defined functions and of whole models.
#pragma once

#include "autograd/grad.h"

namespace weft::autograd {

struct GradcheckOptions {
  double eps = 1e-6;   // the step to both sides
  double atol = 1e-5;  // |analytic - numeric| <= atol + rtol·|numeric|
  double rtol = 1e-3;
  bool raise = true;  // throw an Error that names the worst element, instead of returning false
};

using GradcheckFunction = std::function<variable_list(const variable_list&)>;

namespace detail {
bool check_first(const GradcheckFunction& function, const variable_list& inputs,
                 const GradcheckOptions& options, SourceLocation where);
bool check_second(const GradcheckFunction& function, const variable_list& inputs,
                  const GradcheckOptions& options, SourceLocation where);
// A function of tensors that returns one, or a list of them.
template <class F>
GradcheckFunction as_list(F function) {
  if constexpr (std::is_convertible_v<std::invoke_result_t<F, const variable_list&>, variable_list>)
    return function;
  else return [function](const variable_list& inputs) { return variable_list{function(inputs)}; };
}
}  // namespace detail

// True if for each input that requires grad, which must be float64, every entry of the Jacobian agrees. The function takes the
// list of inputs and must give the same result for the same input; it is called twice per element.
// Source: torch.autograd.gradcheck (slow mode).
template <class F>
bool gradcheck(F function, const variable_list& inputs, const GradcheckOptions& options = {}, WEFT_HERE) {
  return detail::check_first(detail::as_list(std::move(function)), inputs, options, where);
}
// The same for the gradient as a function of the inputs and of the gradients of the results.
// Source: torch.autograd.gradgradcheck.
template <class F>
bool gradgradcheck(F function, const variable_list& inputs, const GradcheckOptions& options = {}, WEFT_HERE) {
  return detail::check_second(detail::as_list(std::move(function)), inputs, options, where);
}

}  // namespace weft::autograd
