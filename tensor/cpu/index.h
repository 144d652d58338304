// Kernels that read or write elements at computed places: gather, scatter, rearranging by pieces, nonzero, triangles.
// Needs parallel, index_walk and base; knows no ops and no tensors. Results do not depend on the number of threads.
#pragma once

#include <span>

#include "tensor/base/dtype.h"
#include "tensor/cpu/index_walk.h"
#include "tensor/index_rules.h"

namespace weft::cpu {

// At each place of the box meet one element of an indexed array, at its own offset plus scale · index, and one of a dense
// array. Where the index decides the place, the indexed array's own stride is 0.
struct IndexedLoop {
  enum Array { kIndexed, kIndex, kDense };
  Box<3> box;
  int64_t scale = 1;
  int64_t range = 0;  // an index lies in [0, range)
};

// dense = indexed[index]. False if an index was out of range; what was read then is unspecified, but nothing outside.
bool gather(IndexedLoop loop, size_t element_size, const void* indexed, const int64_t* index, void* dense);

enum class ScatterOp : uint8_t { Assign, Add, Multiply, Max, Min };

// indexed[index] op= dense: each target meets its places in row-major order, whatever the number of threads. Integers
// wrap, bools add as `or`, Max and Min carry NaN. All indices must be in range. The dtypes are equal, but that a float32
// target adds or multiplies halves; a target of a half type does neither (round once, at the end: accumulate in float32).
void scatter(IndexedLoop loop, ScatterOp op, DType target, void* indexed, const int64_t* index, DType source,
             const void* dense);

// x /= count where that is above 1; integers round down. Arrays of the box: x, counts. Not for halves and bool.
void divide_by_counts(Box<2> box, DType dtype, void* x, const int64_t* counts);

// The first place in row-major order whose index is not in [low, high), or -1.
int64_t find_out_of_range(Box<1> box, const int64_t* index, int64_t low, int64_t high);

// sum[place] += scale · (index < 0 ? index + size : index); sum is dense, row-major over the box.
void add_offsets(const Box<1>& box, const int64_t* index, int64_t size, int64_t scale, int64_t* sum);

// out, dense and row-major, from x by the pieces of each dimension; `fill` is one element.
void move(const MoveRule<int64_t>& rule, std::span<const int64_t> x_sizes, std::span<const int64_t> x_strides,
          size_t element_size, const void* x, const void* fill, void* out);

// Rows one after the other: out row r is the rows r of all parts. Sizes in bytes.
struct RowPart {
  const void* data;
  int64_t row_bytes;
};
void join_rows(std::span<const RowPart> parts, int64_t rows, void* out);

// How many elements of a dense array are not zero in each of the blocks of kNonzeroBlock; then the coordinates of these,
// a row for each.
inline constexpr int64_t kNonzeroBlock = 16384;
void count_nonzero_blocks(DType dtype, const void* x, int64_t n, int64_t* counts);
void write_nonzero(DType dtype, const void* x, std::span<const int64_t> sizes, const int64_t* block_starts,
                   int64_t* coordinates);

// Sets to zero what lies above (lower = true) or below the diagonal in each matrix of the last two dimensions.
void clear_triangle(Box<1> box, size_t element_size, int64_t diagonal, bool lower, void* x);

}  // namespace weft::cpu
