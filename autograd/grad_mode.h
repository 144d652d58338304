// Grad mode: whether this thread records what it computes, and the guards that switch it for a scope.
// Needs tensor/grad_flag.h, where the flag lives. Names are libtorch's.
#pragma once

#include "tensor/grad_flag.h"

namespace weft {

struct GradMode {
  static bool is_enabled() { return grad_mode_enabled(); }
  static void set_enabled(bool enabled) { set_grad_mode(enabled); }
};

// Sets grad mode until the end of the scope.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : before_(GradMode::is_enabled()) { GradMode::set_enabled(enabled); }
  ~AutoGradMode() { GradMode::set_enabled(before_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
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
