// The caching allocator of a GPU's memory: blocks are reused in the order of their stream, without asking CUDA or waiting.
// Needs context. Storage stands on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cuda/context.h"

namespace weft::cuda {

struct MemoryStats {
  int64_t allocated_bytes = 0, peak_allocated_bytes = 0;  // handed out, in whole blocks
  int64_t reserved_bytes = 0, peak_reserved_bytes = 0;    // taken from CUDA: handed out or kept
  int64_t allocations = 0, frees = 0;                     // of blocks
  int64_t segments = 0;                                   // living allocations of CUDA
  int64_t device_allocations = 0, device_frees = 0;       // calls of CUDA
  int64_t out_of_memory = 0;  // how often the cache was given back because CUDA had no more
};

// Note [Blocks of a GPU]
// Memory is taken from CUDA in segments and cut into blocks; a freed block joins its free neighbours. Blocks up to 1 MB come
// from segments of 2 MB, larger ones from segments of 20 MB or, over 10 MB, of their own in multiples of 2 MB. A free block
// belongs to the stream on which it was made: what that stream does next comes after all that it did before, so that the
// block may be handed out at once. A block that another stream used too (record_use) waits for an event of that stream.
class CachingAllocator {
 public:
  CachingAllocator(const Driver& driver, int device);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // At least `bytes` bytes, aligned to 512; null for 0. `what` (kept as a pointer) names the owner in reports.
  // Error that says who holds what where the device has no more, even after the cache was given back.
  void* allocate(size_t bytes, Stream stream, const char* what);
  // Any thread may free, also while the process ends. What is no block of this allocator is ignored.
  void deallocate(void* memory) noexcept;
  // The block is also used by another stream: it is not handed out again before that stream has come past this point.
  void record_use(void* memory, Stream stream);
  // Gives free segments back to CUDA, which waits for the device.
  void empty_cache();

  MemoryStats stats() const;
  void reset_peak();
  // Which owners hold how much, the largest first: a line each.
  std::string holders(size_t most = 8) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The allocator of a device, never destroyed.
CachingAllocator& allocator_of(int device);

// Memory that outlives its owners: what this thread frees in a scope is kept for what it allocates in that scope and later
// ones, and is freed with this. A recorded call reads and writes it again whenever it is replayed.
class KeptMemory {
 public:
  KeptMemory() = default;
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  class Scope {
   public:
    explicit Scope(KeptMemory& kept);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    KeptMemory* before_;
  };
  // That of this thread, or null.
  static KeptMemory*& current();

 private:
  friend class CachingAllocator;
  struct Piece {
    CachingAllocator* allocator;
    void* memory;
    size_t bytes;
  };
  std::vector<Piece> pieces_;
};

// Names what is allocated by this thread until the end of the scope: an op, "arena".
class AllocationScope {
 public:
  explicit AllocationScope(const char* what) : before_(current()) { current() = what; }
  ~AllocationScope() { current() = before_; }
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;
  static const char*& current();

 private:
  const char* before_;
};

}  // namespace weft::cuda
