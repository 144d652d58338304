// OutputSpec: sizes, dtype, device and strides of a tensor that is not there yet, or of one that need not be kept.
// Needs shape and device.
#pragma once

#include "tensor/device.h"
#include "tensor/shape.h"

namespace weft {

// What an op will give, before it is computed.
struct OutputSpec {
  Sizes sizes;
  DType dtype;
  Device device = kCPU;
  std::optional<Sizes> strides = {};  // row-major without
  Sym offset = {};                    // of an operand: where its first element lies in its storage
};
using OutputSpecs = SmallVector<OutputSpec, 2>;

}  // namespace weft
