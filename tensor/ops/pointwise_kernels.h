// The kernels of all pointwise entries, in the order of their declarations: a body, then its gradient bodies.
// Needs isa and elementwise; pointwise.isa.cpp makes them, pointwise.cpp takes them.
#pragma once

#include <span>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/isa.h"
#include "tensor/ops/pointwise_ops.h"

namespace weft::cpu {

WEFT_PER_ISA(std::span<const ElementwiseKernels>, pointwise_kernels)

}  // namespace weft::cpu
