// Cells: the trace's environment.
// Place: the out-of-line half of tensor/cell.h.
#include "tensor/cell.h"

namespace weft {

CellEnvironment*& current_cell_environment() {
  static thread_local CellEnvironment* environment = nullptr;
  return environment;
}

Scalar pow(const Scalar& base, const Scalar& exponent) {
  return detail::scalar_binary(ScalarOp::Pow, base, exponent);
}

}  // namespace weft
