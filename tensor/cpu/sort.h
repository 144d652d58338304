// Stable sorting of the rows of a strided array, and their k first elements.
// Needs base and parallel; knows no ops.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/base/dtype.h"

namespace weft::cpu {

// Sorts along one dimension. Equal elements keep their order in both directions; -0 equals +0; NaN is the largest and all
// NaN are equal.
struct SortCall {
  DType dtype;
  const void* x;
  std::span<const int64_t> sizes, strides;  // of x, in elements
  size_t dim;
  bool descending;
  int64_t count;  // how many elements of each sorted row come out; at most sizes[dim]
  // Row-major, with `count` as the size of dim.
  void* values;
  int64_t* indices;
};
void sort_rows(const SortCall& call);

}  // namespace weft::cpu
