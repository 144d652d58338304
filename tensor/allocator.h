// The CPU's caching allocator: memory of tensors on the host, reused without asking the system again.
// Needs error.h. Storage stands on it; the CUDA side has an allocator of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// Every block is aligned to a cache line, which is also the widest vector.
inline constexpr size_t kAllocationAlignment = 64;

// Returns at least `bytes` bytes of uninitialised memory, aligned to 64 bytes; nullptr for 0 bytes.
// Errors: Error when the system has no more memory, even after the cache was emptied, or no machine could
// have as much.
void* allocate(size_t bytes);

// Gives back what allocate(bytes) returned, with the same number of bytes. Any thread may do so, also while
// the process ends.
void deallocate(void* ptr, size_t bytes) noexcept;

// Returns cached blocks over 4 KB to the system. Smaller ones stay: they share pages with living ones.
void empty_cache() noexcept;

struct AllocatorStats {
  // Handed out, rounded up to size classes: by at most 64 bytes, a third, or 12.5 % over 4 KB.
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;    // highest live_bytes since the start or the last reset; see Note [Peak]
  int64_t cached_bytes = 0;  // free blocks over 4 KB, kept for reuse; bounded by WEFT_CPU_CACHE_MB
  int64_t slab_bytes = 0;    // taken from the system for blocks of up to 4 KB, live or free; never returned
  int64_t allocations = 0;   // calls of allocate with bytes > 0 since the start
};
AllocatorStats allocator_stats();

// Lets peak_bytes start again at the present live_bytes.
void reset_peak_stats();

// Environment, read at the first allocation: WEFT_CPU_CACHE_MB=n keeps at most n MiB of free blocks over 4 KB, by default a
// quarter of the memory that this process may use; WEFT_ALLOC_POISON=1 fills fresh and freed memory with 0xCB, so that a
// read of either shows.
// Built with AddressSanitizer, every block comes from the system's new and nothing is cached.

}  // namespace weft
