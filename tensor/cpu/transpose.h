// Transposing a block of memory: the copy whose two sides run along different axes.
// Needs nothing of Weft; elementwise.cpp splits larger arrays into such blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::cpu {

// to[r · to_stride + c] = from[c · from_stride + r] for r < rows and c < columns; strides in elements of 1, 2, 4 or 8 bytes.
// The two must not overlap. `streams`: write past the caches, for results that are larger than these.
void transpose(size_t element_bytes, const char* from, int64_t from_stride, char* to, int64_t to_stride,
               int64_t rows, int64_t columns, bool streams);

// Elements of a cache line: rows and columns that are a multiple of it make whole lines.
constexpr int64_t transpose_tile(size_t element_bytes) { return 64 / static_cast<int64_t>(element_bytes); }

}  // namespace weft::cpu
