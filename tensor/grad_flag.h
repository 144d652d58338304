// Whether this thread records what it computes: the flag that dispatch asks and the guards of autograd switch.
// Needs nothing.
#pragma once

namespace weft {

bool grad_mode_enabled();
void set_grad_mode(bool enabled);

}  // namespace weft
