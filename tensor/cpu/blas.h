// The matrix product that ops call: f32 and f64 by OpenBLAS where it is there and fast, all else by the own kernels.
// Needs gemm.
#pragma once

#include "tensor/cpu/gemm.h"

namespace weft::cpu {

void run_gemm(const Gemm& gemm);

// Auto takes OpenBLAS unless it has no kernels for vectors as wide as this machine's; OpenBlas takes it regardless.
enum class GemmBackend : uint8_t { Auto, Own, OpenBlas };
// From the next product on; for tests. The environment says the same: WEFT_GEMM=auto|own|openblas.
void set_gemm_backend(GemmBackend backend);
// True if f32 and f64 products go to OpenBLAS now.
bool uses_openblas();

}  // namespace weft::cpu
