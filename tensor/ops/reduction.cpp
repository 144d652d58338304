// The reduction ops of the table.
// Place: register.cpp calls register_reduction_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_reduction_ops(OpTable&) {}

}  // namespace weft
