// The extern ops of the table: matrix products and sorting.
// Place: register.cpp calls register_extern_ops.
#include "tensor/ops/register.h"

namespace weft {

void register_extern_ops(OpTable& table) {
  register_matmul_ops(table);
  register_sort_ops(table);
}

}  // namespace weft
