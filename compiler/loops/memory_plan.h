// Memory plan: which buffers of a schedule live in its arena, from which step to which, and where in it.
// Needs schedule. The launch plan packs it for the sizes of a call and keeps the result while they stay.
#pragma once

#include "compiler/loops/schedule.h"

namespace weft::compiler {

// The steps between which a buffer holds something: made in `first`, last read in `last`.
struct Lifetime {
  BufferId buffer = kNoBuffer;
  uint32_t first = 0, last = 0;
};

struct MemoryLifetimes {
  std::vector<Lifetime> arena;  // buffers that nobody outside the plan sees
  std::vector<bool> in_arena;   // by buffer
  Device device = kCPU;         // of the arena: a GPU, if kernels run on one; buffers elsewhere are not in it
};

MemoryLifetimes lifetimes_of(const Schedule& schedule);

struct MemoryPlan {
  std::vector<size_t> offsets;  // by position in MemoryLifetimes::arena
  size_t bytes = 0;             // of the arena
  size_t unpacked_bytes = 0;    // what the buffers would take side by side
};

// Offsets are multiples of this: a cache line, which is also the widest vector.
inline constexpr size_t kArenaAlignment = 64;

// Buffers that live at the same time do not overlap. Largest first, each into the tightest gap that takes it; `gap` bytes
// are kept free behind each, for tests that poison them.
MemoryPlan pack(const MemoryLifetimes& lifetimes, std::span<const size_t> bytes, size_t gap = 0);

// InternalError unless buffers that live at the same time lie apart and within the arena.
void verify(const MemoryPlan& plan, const MemoryLifetimes& lifetimes, std::span<const size_t> bytes);

}  // namespace weft::compiler
