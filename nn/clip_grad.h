// nn::utils: clipping of gradients before an optimizer step.
// Needs tensor.
#pragma once

#include "tensor/tensor.h"

namespace weft::nn::utils {

// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm_type-norm of all of them together,
// and returns it as it was before. Parameters without a gradient do not count; without any the norm is 0.
// Errors: a norm that is NaN or infinite where error_if_nonfinite.  Source: torch.nn.utils.clip_grad_norm_.
Scalar clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false, WEFT_HERE);
// The same as a 0-d tensor, which does not end a traced segment.
Tensor clip_grad_norm_tensor_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                              WEFT_HERE);
// Puts every element of every gradient into [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value, WEFT_HERE);

}  // namespace weft::nn::utils
