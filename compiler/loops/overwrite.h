// Which results of a schedule may be stored straight into the inputs that they replace.
// Needs schedule. The scheduler asks when all kernels stand; the launch plan lends the memory.
#pragma once

#include "compiler/loops/schedule.h"

namespace weft::compiler {

// Note [Stores into inputs]
// A graph says which output each of its inputs is to hold after the call (Graph::overwrites). The kernel that makes the
// output may write it there at once if nobody can tell the difference:
// - it lies as the input does, and nothing else that leaves the graph lies in either;
// - whoever else reads the input runs before that kernel. The scheduler puts them before it where it can;
// - within the kernel every element is read at the place at which it is written, before it is written;
// - no check can fail from that kernel on: after an error the input must be what it was.
// All others are copied after the call.

// A Kernel buffer that lies in the memory of an input.
std::vector<StoredOver> find_stores_over_inputs(const Schedule& schedule);

}  // namespace weft::compiler
