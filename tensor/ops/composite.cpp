// The composite ops of the table.
// Place: register.cpp calls register_composite_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_composite_ops(OpTable&) {}

}  // namespace weft
