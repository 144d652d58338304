// The create ops of the table.
// Place: register.cpp calls register_create_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_create_ops(OpTable&) {}

}  // namespace weft
