// backward() and grad(): gradients of some tensors with respect to others, in libtorch's spelling.
// Needs tensor. Tensor::backward is the same for one tensor.
#pragma once

#include "tensor/tensor.h"

namespace weft {

using Variable = Tensor;
using variable_list = std::vector<Tensor>;

namespace autograd {
using weft::Variable;
using weft::variable_list;

// Adds the gradients of the tensors to the .grad of the leaves they were made from; with `inputs` to those only.
// grad_tensors: what to pull back, by tensor; may be left out for tensors of one element. create_graph makes the gradients
// differentiable; retain_graph (by default = create_graph) lets backward walk the same graph again.
// Source: torch.autograd.backward. Errors: nothing requires grad; a gradient is missing or of other sizes.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              std::optional<bool> retain_graph = {}, bool create_graph = false,
              const variable_list& inputs = {}, WEFT_HERE);

// The gradients of `outputs` with respect to `inputs`; nothing is written to .grad. An input that the outputs do not depend
// on is an Error, or an undefined tensor with allow_unused.
// Source: torch.autograd.grad.
variable_list grad(const variable_list& outputs, const variable_list& inputs,
                   const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = {},
                   bool create_graph = false, bool allow_unused = false, WEFT_HERE);

}  // namespace autograd
}  // namespace weft
