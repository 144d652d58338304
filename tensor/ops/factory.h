// What all functions that make tensors end with.
// Needs tensor.
#pragma once

#include "tensor/tensor.h"

namespace weft {

// The result with what its options say beyond dtype and device, which it has.
inline Tensor with_options(Tensor result, const TensorOptions& options) {
  if (options.requires_grad()) result.requires_grad_(true);
  return result;
}

}  // namespace weft
