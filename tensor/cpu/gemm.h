// Matrix products of strided matrices of any dtype but bool: c = alpha · (a · b) + beta · x, the library's own kernels.
// Needs isa and base; gemm.isa.cpp holds the kernels. blas.h decides between these and OpenBLAS.
#pragma once

#include <cstdint>

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"

namespace weft::cpu {

// What is done to the product before it is stored. Each step rounds to the type that the product accumulates in
// (halves: float), the result rounds to the dtype once.
struct Epilogue {
  double alpha = 1, beta = 1;
  int64_t int_alpha = 1, int_beta = 1;  // the same for integer dtypes
  // The summand; null without one. Strides in elements, 0 where it broadcasts.
  const void* x = nullptr;
  int64_t x_batch = 0, x_row = 0, x_col = 0;

  bool is_plain() const { return x == nullptr && alpha == 1 && int_alpha == 1; }
};

// `batch` products a [m, k] · b [k, n] -> c [m, n], all of one dtype. Strides in elements; the columns of c are adjacent.
// c may hold anything before and must not overlap a, b or x.
struct Gemm {
  DType dtype;
  int64_t batch = 1, m, n, k;
  const void* a;
  int64_t a_batch, a_row, a_col;
  const void* b;
  int64_t b_batch, b_row, b_col;
  void* c;
  int64_t c_batch, c_row;
  Epilogue epilogue = {};
};

// Note [Order of a product's sum]
// A matrix product adds the terms of an element one by one in the order of k, each by one fma (halves in float,
// integers modulo their range), so an element depends neither on blocks nor on threads, nor on AVX2 or AVX-512.
// With one row or one column it is a matrix times a vector: lane i of 16 takes the terms i, i + 16, …, and the lanes
// combine by the fixed tree of reduce() (vec.h).
void own_gemm(const Gemm& gemm);

// Σ aᵢ · bᵢ of n elements in blocks of 65536, by the lanes of the note above; one result of the dtype.
void own_dot(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
             void* c);

// ---- For gemm.cpp and blas.cpp ----------------------------------------------------------------------------------------

// Rows [row, row_end) and columns [col, col_end) of one product of the batch.
struct GemmBlock {
  int64_t batch, row, row_end, col, col_end;
};

// matrix [rows, k] times a vector of k elements: sums[i] in the accumulation type.
struct Gemv {
  const void* matrix;
  int64_t row_stride, k_stride, k;
  const void* vector;  // dense, in the accumulation type, padded with zeros to a multiple of 16
};

struct GemmKernels {
  int64_t tile_rows, tile_cols;  // of the register tile
  // Computes one block. `workspace` holds workspace_bytes(rows, cols) bytes, aligned to 64.
  void (*block)(const Gemm&, const GemmBlock&, char* workspace);
  int64_t (*workspace_bytes)(int64_t rows, int64_t cols, int64_t k);
  void (*gemv)(const Gemv&, int64_t row, int64_t row_end, void* sums);
  // n strided elements as a dense array of the accumulation type, padded with zeros to a multiple of 16.
  void (*widen)(const void* from, int64_t stride, int64_t n, void* to);
  // alpha · sums + beta · x, dense and of the dtype. x is read at x_stride. out may be sums.
  void (*finish)(int64_t n, const void* sums, const Epilogue&, const void* x, int64_t x_stride, void* out);
};
struct GemmTable {
  GemmKernels kernels[kNumDTypes];  // by dtype; bool has none
};
WEFT_PER_ISA(const GemmTable&, gemm_table)

inline const GemmKernels& gemm_kernels(DType dtype) { return gemm_table().kernels[static_cast<int>(dtype)]; }

}  // namespace weft::cpu
