// Grad mode: whether this thread records what it computes, and the guards that switch it for a scope.
// Needs tensor/grad_flag.h, where the flag and AutoGradMode live. Names are libtorch's.
#pragma once

#include "tensor/grad_flag.h"

namespace weft {

// For users: a trace notes that C++ code may branch on the answer. The library asks grad_mode_enabled().
struct GradMode {
  static bool is_enabled();
  static void set_enabled(bool enabled) { enter_grad_mode(enabled); }
};

struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};
// Inside a NoGradGuard: records again.
struct EnableGradGuard : AutoGradMode {
  EnableGradGuard() : AutoGradMode(true) {}
};

// libtorch's faster no_grad; here it is the same thing.
struct InferenceMode : AutoGradMode {
  explicit InferenceMode(bool enabled = true) : AutoGradMode(!enabled) {}
};

}  // namespace weft
