// Running an elementwise kernel over strided operands of any dtype: coalescing, tiles, threads.
// Needs parallel, convert and base; knows no ops. The vector kernels themselves come from *.isa.cpp files.
#pragma once

#include <span>

#include "tensor/base/dtype.h"
#include "tensor/base/small_vector.h"

namespace weft::cpu {

// n elements. Operand k is read at in[k] + i * step[k], in elements of the compute dtype: step 1 is an array, step 0 one
// vector of equal lanes. The result has the compute dtype, or bool for a predicate. out may be one of the inputs.
using ElementwiseKernel = void (*)(int64_t n, const void* const* in, const int64_t* step, void* out);

// One kernel per compute dtype; null where the op has none.
struct ElementwiseKernels {
  ElementwiseKernel f32 = nullptr, f64 = nullptr, i64 = nullptr, i32 = nullptr;

  ElementwiseKernel of(DType compute) const {
    return compute == DType::Float32   ? f32
           : compute == DType::Float64 ? f64
           : compute == DType::Int64   ? i64
                                       : i32;
  }
};

inline constexpr int kMaxOperands = 8;
inline constexpr int kVectorLanes = 16;

// A strided array. Strides are in elements, one per dimension of the iteration, 0 where it broadcasts.
struct StridedArray {
  void* data;
  DType dtype;
  SmallVector<int64_t, 6> strides;
};

// One value repeated, in the compute dtype: what a kernel reads with step 0.
struct alignas(64) Splat {
  char bytes[kVectorLanes * 8];
  void set(DType compute, double floating, int64_t integer);
};

struct ElementwiseCall {
  ElementwiseKernel kernel;
  DType compute;      // f32, f64, i64 or i32
  bool is_predicate;  // the kernel writes bool
  double cost;        // arithmetic per element, in additions: decides from how many elements on threads pay
  SmallVector<int64_t, 6> sizes;
  // Operand k is inputs[k], or splats[k] where inputs[k].data is null.
  std::span<const StridedArray> inputs;
  std::span<const Splat> splats;
  StridedArray output;
};

// Elements may be visited in any order, so the output must not overlap an input but where both are the same array.
void run_elementwise(const ElementwiseCall& call);

// All operands contiguous, of the compute dtype and of n elements; in and step as the kernel takes them.
void run_contiguous(ElementwiseKernel kernel, int64_t n, int num_inputs, const void* const* in,
                    const int64_t* step, void* out, DType compute, DType output, double cost);

// Copies elements between strided arrays of equal sizes, converting the dtype.
void copy_strided(std::span<const int64_t> sizes, const StridedArray& from, const StridedArray& to);

}  // namespace weft::cpu
