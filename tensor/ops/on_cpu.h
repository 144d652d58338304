// run_on_cpu: for kernels of a GPU, what they leave to the CPU.
// Needs dispatch.
#pragma once

#include "tensor/dispatch.h"

namespace weft {

// Computes the call on copies of its operands and copies what comes out into the outputs.
void run_on_cpu(const Call& call, std::span<Tensor> outputs);

}  // namespace weft
