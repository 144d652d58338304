// The index ops of the table.
// Place: register.cpp calls register_index_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_index_ops(OpTable&) {}

}  // namespace weft
