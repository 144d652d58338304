// Numbers as elements of a tensor: checked conversion, and filling a tensor of any strides.
// Needs dispatch; the create, copy and index entries use it.
#pragma once

#include "tensor/dispatch.h"

namespace weft {

// One element of a dtype. Error, naming the op, if the number lies outside the dtype (a negative number wraps into an
// unsigned type, as in PyTorch).
struct Element {
  Element(const Scalar& value, DType dtype, const char* op);
  alignas(8) char bytes[8] = {};
};

// The Error alone. A number that is known only when the program runs passes: the kernel checks it.
void check_element(const Operand& value, DType dtype, const char* op);

// For real tensors on the CPU; no tape, no version.
void fill_data(const Tensor& x, const Element& element);

}  // namespace weft
