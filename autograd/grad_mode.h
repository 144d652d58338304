// Grad mode: whether this thread records what it computes, and the guards that switch it for a scope.
// Needs tensor/grad_flag.h, where the flag and AutoGradMode live. Names are libtorch's.
#pragma once

#include "tensor/grad_flag.h"

namespace weft {

struct GradMode {
  static bool is_enabled() { return grad_mode_enabled(); }
  static void set_enabled(bool enabled) { set_grad_mode(enabled); }
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
