// The view ops of the table.
// Place: register.cpp calls register_view_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_view_ops(OpTable&) {}

}  // namespace weft
