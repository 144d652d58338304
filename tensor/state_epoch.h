// The state epoch: one word of the process that moves when state changes which C++ code branches on.
// Needs nothing of Weft. Modules, optimizers and the tape bump it; compiled functions compare it.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

namespace detail {
inline std::atomic<uint64_t> state_epoch{0};
}  // namespace detail

// Where it stands. While it does not move, no train()/eval(), replaced parameter, requires_grad or layer option changed,
// so that what a trace read of them still holds.
inline uint64_t state_epoch() { return detail::state_epoch.load(std::memory_order_acquire); }

inline void bump_state_epoch() { detail::state_epoch.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace weft
