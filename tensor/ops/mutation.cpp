// The mutation ops of the table.
// Place: register.cpp calls register_mutation_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_mutation_ops(OpTable&) {}

}  // namespace weft
