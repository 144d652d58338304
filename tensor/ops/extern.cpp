// The extern ops of the table.
// Place: register.cpp calls register_extern_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_extern_ops(OpTable&) {}

}  // namespace weft
