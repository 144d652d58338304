// The entries of copy.cpp.
// Needs op; mutation.cpp calls them.
#pragma once

#include "tensor/op.h"

namespace weft {

// clone, to_dtype, copy, fill and contiguous.
void register_copy_ops(OpTable& table);
// copy_, fill_ and zero_.
void register_copy_mutations(OpTable& table);

}  // namespace weft
