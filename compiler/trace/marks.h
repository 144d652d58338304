// mark_dynamic and mark_static: what the user says about the sizes of a tensor that a compiled function will be given.
// Needs tensor. Part of weft.h; dynamic.h reads the marks.
#pragma once

#include "tensor/tensor.h"

namespace weft {

struct DimRange {
  int64_t min = 0, max = INT64_MAX;
};

// Dimension `dim` will differ between calls: one compiled program serves every size in the range, 0 and 1 included where
// the function treats them alike. The mark belongs to the tensor object for its life, not to its views or results; a
// later mark of the same dimension replaces it. Error if the size now is outside the range.
void mark_dynamic(const Tensor& x, int64_t dim, DimRange range = {});
// Each size of the dimension gets a program of its own, whatever the options of compile() say.
void mark_static(const Tensor& x, int64_t dim);

namespace compiler {

struct DimMark {
  uint32_t dim = 0;
  bool is_static = false;
  DimRange range = {};
};
// None for most tensors; valid until the tensor is marked again.
std::span<const DimMark> marks_of(const Tensor& x);

}  // namespace compiler
}  // namespace weft
