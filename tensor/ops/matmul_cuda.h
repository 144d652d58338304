// The matrix products of the table on a GPU, by cuBLASLt.
// Needs dispatch. matmul.cpp's entries name these as their kernels there.
#pragma once

#include "tensor/dispatch.h"
#include "tensor/ops/product_epilogue.h"

namespace weft {

// mm, bmm, mv and dot: outputs[0] is made, row-major.  Dtypes: floating; integers take the kernels of the CPU.
void run_product_on_cuda(const Call& call, std::span<Tensor> outputs);
// addmm and baddbmm: the product is rounded once with what is added, as cuBLASLt does it.
void run_added_on_cuda(const Call& call, std::span<Tensor> outputs);
// mm_epilogue in one call of cuBLASLt. False, with nothing done, where that has no algorithm for it.
bool finish_product_on_cuda(const Call& call, const Tensor& out, Activation activation);

}  // namespace weft
