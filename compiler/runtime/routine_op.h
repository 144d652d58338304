// Ops whose calls bring their own program (Routine): host_call, cond, while_loop.
// Needs tensor/op. They are declared where they are called: no table entry, since nobody can call them by name.
#pragma once

#include "tensor/op.h"

namespace weft::compiler {

// The schema has one attribute of type Routine, which gives the specs of the results and runs.
Op routine_op(const char* schema, bool has_effect);

}  // namespace weft::compiler
