// Whether this thread records what it computes: the flag that dispatch asks, and the scope that switches it.
// Needs nothing. autograd/grad_mode.h gives users the other guards.
#pragma once

namespace weft {

bool grad_mode_enabled();
void set_grad_mode(bool enabled);
// Sets it as code that wants it so does: a trace notes that what follows records whatever the caller's mode was. Returns
// what it was.
bool enter_grad_mode(bool enabled);

// Sets grad mode until the end of the scope.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : before_(enter_grad_mode(enabled)) {}
  ~AutoGradMode() { set_grad_mode(before_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
};

}  // namespace weft
