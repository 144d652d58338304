// Tile kernels: one primitive over a dense tile, from which an interpreter makes up any expression.
// Needs isa, elementwise and expr; tile.isa.cpp and tile_math.isa.cpp hold the kernels.
#pragma once

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/isa.h"
#include "tensor/expr/expr.h"

namespace weft::cpu {

// Tiles hold whole vectors: a kernel computes kVectorLanes lanes at a time, and what stands beyond n may be anything. So arrays
// are padded to a multiple of them, and a number is a vector of equal lanes that is read with step 0. A Bool is a byte, 0 or 1.
// Lookup takes an index and the table, in one piece of which every index lies.
inline constexpr int kNumTileDTypes = 5;  // f32, f64, i64, i32 and Bool
inline constexpr int kNumPrims = static_cast<int>(Prim::Atan2) + 1;

struct TileKernels {
  ElementwiseKernel kernels[kNumPrims][kNumTileDTypes] = {};
};
WEFT_PER_ISA(const TileKernels&, tile_kernels)

constexpr int tile_dtype_index(DType dtype) {
  switch (dtype) {
    case DType::Float32: return 0;
    case DType::Float64: return 1;
    case DType::Int64: return 2;
    case DType::Int32: return 3;
    case DType::Bool: return 4;
    default: return -1;
  }
}

// By the dtype of the operands: of the two that Where chooses from, of the elements of a Lookup's table. Null for Input, Constant,
// Cast and Bitcast, and where a primitive does not take the dtype.
inline ElementwiseKernel tile_kernel(Prim prim, DType operands) {
  const int dtype = tile_dtype_index(operands);
  return dtype < 0 ? nullptr : tile_kernels().kernels[static_cast<int>(prim)][dtype];
}

#ifdef WEFT_ISA_NAMESPACE
inline namespace WEFT_ISA_NAMESPACE {
namespace detail {
void add_math_tile_kernels(TileKernels& table);
}
}  // namespace WEFT_ISA_NAMESPACE
#endif

}  // namespace weft::cpu
