// The matrix product that ops call: OpenBLAS for f32 and f64 where the build has it, else the library's own kernels.
// Needs gemm.
#pragma once

#include "tensor/cpu/gemm.h"

namespace weft::cpu {

void run_gemm(const Gemm& gemm);

enum class GemmBackend : uint8_t { Auto, Own };
// WEFT_GEMM=own in the environment, or this call (for tests), keeps OpenBLAS out; from the next product on.
void set_gemm_backend(GemmBackend backend);
// True if f32 and f64 products go to OpenBLAS now.
bool uses_openblas();

}  // namespace weft::cpu
