// Small blocks from per-thread magazines over slabs, large ones from a cache of size classes over the system.
// Allocating and freeing a small block touches the thread's own memory only, with no lock and no atomic
// read-modify-write.
#include "tensor/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#  define WEFT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WEFT_ADDRESS_SANITIZER 1
#  endif
#endif
#ifndef WEFT_ADDRESS_SANITIZER
#  define WEFT_ADDRESS_SANITIZER 0
#endif

namespace weft {
namespace {

constexpr bool kCaching = WEFT_ADDRESS_SANITIZER == 0;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMaxBytes = size_t{1} << 47;  // the address space of a process
constexpr int kPoison = 0xCB;

// Size classes of small blocks: powers of two and the halves between them, in whole cache lines.
constexpr size_t kSmallLimit = 4096;
constexpr std::array<uint32_t, 12> kSmallSizes = {64,  128,  192,  256,  384,  512,
                                                  768, 1024, 1536, 2048, 3072, 4096};
constexpr int kNumSmall = static_cast<int>(kSmallSizes.size());

// The class of each number of cache lines.
constexpr auto kSmallClasses = [] {
  std::array<uint8_t, kSmallLimit / 64 + 1> classes{};
  for (size_t lines = 0; lines < classes.size(); ++lines) {
    while (kSmallSizes[classes[lines]] < lines * 64) ++classes[lines];
  }
  return classes;
}();
int small_class(size_t bytes) { return kSmallClasses[(bytes + 63) / 64]; }

// Blocks that move between a thread and the global lists at once: 16 KB, but some at least.
uint32_t batch_of(int cls) { return std::clamp<uint32_t>(16384 / kSmallSizes[cls], 8, 64); }

// Size classes of large blocks: eight to each doubling, so at most an eighth is waste.
constexpr int kFirstDoubling = 12;
constexpr int kNumLarge = (47 - kFirstDoubling) * 8;
int large_class(size_t bytes) {
  const int doubling = static_cast<int>(std::bit_width(bytes - 1)) - 1;
  return (doubling - kFirstDoubling) * 8 + static_cast<int>((bytes - 1) >> (doubling - 3)) - 8;
}
size_t large_size(int cls) {
  return size_t{static_cast<unsigned>(cls % 8 + 9)} << (cls / 8 + kFirstDoubling - 3);
}

size_t class_size(size_t bytes) {
  return bytes <= kSmallLimit ? kSmallSizes[small_class(bytes)] : large_size(large_class(bytes));
}

// Memory of the system.

void* map_huge(size_t bytes) noexcept {
  // Mapped with room to spare, then cut to the alignment that huge pages need.
  void* const mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) munmap(start, before);
  munmap(start + before + bytes, kHugePage - before);
  // A wish: where the system has no huge pages, small ones do.
  madvise(start + before, bytes, MADV_HUGEPAGE);
  return start + before;
}

void* take_from_system(size_t bytes) noexcept {
  if (kCaching && bytes >= kHugePage) return map_huge(bytes);
  return ::operator new(bytes, std::align_val_t(kAllocationAlignment), std::nothrow);
}

void return_to_system(void* ptr, size_t bytes) noexcept {
  if (kCaching && bytes >= kHugePage) {
    munmap(ptr, bytes);
  } else {
    ::operator delete(ptr, std::align_val_t(kAllocationAlignment));
  }
}

// Physical memory, or less where a control group says so.
size_t usable_memory() {
  size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  size_t limit = 0;
  // The word "max", for no limit, does not parse.
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

size_t cache_limit() {
  if (const char* value = std::getenv("WEFT_CPU_CACHE_MB")) return std::strtoull(value, nullptr, 10) << 20;
  return usable_memory() / 4;
}

// Small blocks.

// A free block holds the list it is on. The first block of a full list also links whole lists.
struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_list;
  uint32_t list_length;
};

struct BlockList {
  FreeBlock* head = nullptr;
  uint32_t length = 0;

  void push(void* ptr) {
    auto* block = static_cast<FreeBlock*>(ptr);
    block->next = head;
    head = block;
    ++length;
  }
  void* pop() {
    FreeBlock* const block = head;
    head = block->next;
    --length;
    return block;
  }
};

// Note [Peak]
// A shared counter would cost more than the rest of a small allocation. Each thread counts its own balance
// and its highest value since it was last added to the global one, which happens at kReportBytes and whenever
// statistics are read. With one thread the peak is exact; each further thread can hide up to kReportBytes.
constexpr int64_t kReportBytes = 64 << 10;

// Written by one thread, read by those that ask for statistics: a plain store is enough, but must be atomic.
class Counter {
 public:
  int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Two magazines a class: a thread that allocates and frees around the end of one does not go to the global
// lists each time.
struct ThreadCache {
  struct Magazines {
    BlockList current, spare;
    uint32_t batch = 0;
  };
  Counter balance, highest, allocations;
  const bool poisons;
  std::array<Magazines, kNumSmall> classes;

  explicit ThreadCache(bool poison) : poisons(poison) {
    for (int cls = 0; cls < kNumSmall; ++cls) classes[cls].batch = batch_of(cls);
  }
};

class Allocator {
 public:
  static Allocator& get() {
    static auto* const allocator =
        new Allocator;  // never destroyed: tensors in static storage are freed late
    return *allocator;
  }

  bool poisons() const { return poisons_; }

  // A list of at least one free block.
  BlockList take_list(int cls) {
    const std::lock_guard lock(small_mutex_);
    if (FreeBlock* const head = lists_[cls]) {
      lists_[cls] = head->next_list;
      return {head, head->list_length};
    }
    return carve(cls);
  }
  void give_list(int cls, BlockList list) {
    if (list.head == nullptr) return;
    const std::lock_guard lock(small_mutex_);
    list.head->list_length = list.length;
    list.head->next_list = lists_[cls];
    lists_[cls] = list.head;
  }

  void* take_large(size_t bytes) {
    const int wanted = large_class(bytes);
    {
      const std::lock_guard lock(large_mutex_);
      // A block of up to twice the size is better than fresh pages.
      for (int cls = wanted; cls <= std::min(wanted + 8, kNumLarge - 1); ++cls) {
        LargeBlock* const block = newest_[cls];
        if (block == nullptr) continue;
        if (cls != wanted) oversized_.emplace(block, cls);
        unlink(block);
        return block;
      }
    }
    return take_or_throw(large_size(wanted), bytes);
  }

  void give_large(void* ptr, size_t bytes) noexcept {
    LargeBlock* evicted = nullptr;
    {
      const std::lock_guard lock(large_mutex_);
      int cls = large_class(bytes);
      if (!oversized_.empty()) {
        if (const auto found = oversized_.find(ptr); found != oversized_.end()) {
          cls = found->second;
          oversized_.erase(found);
        }
      }
      link(static_cast<LargeBlock*>(ptr), cls);
      while (cached_bytes_ > cache_limit_) evict_oldest(evicted);
    }
    return_list(evicted);  // unmapping may take milliseconds: not under the lock
  }

  void empty_cache() noexcept {
    LargeBlock* evicted = nullptr;
    {
      const std::lock_guard lock(large_mutex_);
      while (oldest_ != nullptr) evict_oldest(evicted);
    }
    return_list(evicted);
  }

  void* take_or_throw(size_t size, size_t asked) {
    if (void* const ptr = take_from_system(size)) return ptr;
    const AllocatorStats before = stats();
    empty_cache();
    if (void* const ptr = take_from_system(size)) return ptr;
    throw Error(detail::concat(
        "allocate: out of memory: asked for ", asked, " bytes (", asked >> 20, " MiB); ", before.live_bytes,
        " bytes (", before.live_bytes >> 20, " MiB) are live and ", before.cached_bytes, " bytes (",
        before.cached_bytes >> 20, " MiB) were cached, but returning those to the system did not suffice"));
  }

  // Statistics.

  void enlist(ThreadCache* cache) {
    const std::lock_guard lock(stats_mutex_);
    threads_.push_back(cache);
  }
  void retire(ThreadCache* cache) {
    const std::lock_guard lock(stats_mutex_);
    fold(*cache);
    allocations_ += cache->allocations.get();
    std::erase(threads_, cache);
  }
  // Adds the thread's balance to the global one; the thread itself calls.
  void report(ThreadCache& cache) {
    const std::lock_guard lock(stats_mutex_);
    fold(cache);
  }
  // For threads that have no cache any more.
  void report(int64_t bytes) {
    const std::lock_guard lock(stats_mutex_);
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    if (bytes > 0) ++allocations_;
  }

  AllocatorStats stats() {
    AllocatorStats result;
    {
      const std::lock_guard lock(stats_mutex_);
      result.live_bytes = live_;
      result.allocations = allocations_;
      for (const ThreadCache* cache : threads_) {
        result.live_bytes += cache->balance.get();
        result.allocations += cache->allocations.get();
      }
      result.peak_bytes = std::max(peak_, result.live_bytes);
      for (const ThreadCache* cache : threads_) {
        result.peak_bytes =
            std::max(result.peak_bytes, result.live_bytes - cache->balance.get() + cache->highest.get());
      }
    }
    result.cached_bytes = static_cast<int64_t>(cached_bytes_.load(std::memory_order_relaxed));
    result.slab_bytes = static_cast<int64_t>(slab_bytes_.load(std::memory_order_relaxed));
    return result;
  }

  void reset_peak() {
    const std::lock_guard lock(stats_mutex_);
    int64_t live = live_;
    for (ThreadCache* cache : threads_) {
      live += cache->balance.get();
      cache->highest.set(cache->balance.get());
    }
    peak_ = live;
  }

 private:
  // A free large block: on the list of its class, newest first, and on the list of all by age.
  struct LargeBlock {
    LargeBlock *older, *newer;
    LargeBlock *older_of_class, *newer_of_class;
    int cls;
  };

  Allocator() {
    const char* poison = std::getenv("WEFT_ALLOC_POISON");
    poisons_ = poison != nullptr && std::strcmp(poison, "1") == 0;
    cache_limit_ = cache_limit();
  }

  BlockList carve(int cls) {
    const size_t size = kSmallSizes[cls];
    if (slab_left_ < size) {
      // What is left, under 4 KB, is given up.
      slab_ = static_cast<char*>(take_or_throw(kHugePage, size));
      slab_left_ = kHugePage;
      slab_bytes_.fetch_add(kHugePage, std::memory_order_relaxed);
    }
    const size_t count = std::min<size_t>(batch_of(cls), slab_left_ / size);
    BlockList list;
    for (size_t i = count; i-- > 0;) list.push(slab_ + i * size);  // handed out in the order of addresses
    slab_ += count * size;
    slab_left_ -= count * size;
    return list;
  }

  void link(LargeBlock* block, int cls) {
    LargeBlock*& newest_of_class = newest_[cls];
    *block = {.older = newest_of_all_,
              .newer = nullptr,
              .older_of_class = newest_of_class,
              .newer_of_class = nullptr,
              .cls = cls};
    (newest_of_all_ != nullptr ? newest_of_all_->newer : oldest_) = block;
    newest_of_all_ = block;
    if (newest_of_class != nullptr) newest_of_class->newer_of_class = block;
    newest_of_class = block;
    cached_bytes_.fetch_add(large_size(cls), std::memory_order_relaxed);
  }
  void unlink(LargeBlock* block) {
    (block->newer != nullptr ? block->newer->older : newest_of_all_) = block->older;
    (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
    (block->newer_of_class != nullptr ? block->newer_of_class->older_of_class : newest_[block->cls]) =
        block->older_of_class;
    if (block->older_of_class != nullptr) block->older_of_class->newer_of_class = block->newer_of_class;
    cached_bytes_.fetch_sub(large_size(block->cls), std::memory_order_relaxed);
  }
  void evict_oldest(LargeBlock*& evicted) {
    LargeBlock* const block = oldest_;
    unlink(block);
    block->newer = evicted;
    evicted = block;
  }
  static void return_list(LargeBlock* block) noexcept {
    while (block != nullptr) {
      LargeBlock* const rest = block->newer;
      return_to_system(block, large_size(block->cls));
      block = rest;
    }
  }

  void fold(ThreadCache& cache) {
    peak_ = std::max(peak_, live_ + cache.highest.get());
    live_ += cache.balance.get();
    cache.balance.set(0);
    cache.highest.set(0);
  }

  bool poisons_ = false;
  size_t cache_limit_ = 0;

  std::mutex small_mutex_;  // the next four
  std::array<FreeBlock*, kNumSmall> lists_{};
  char* slab_ = nullptr;
  size_t slab_left_ = 0;
  std::atomic<size_t> slab_bytes_{0};

  std::mutex large_mutex_;  // the next five
  std::array<LargeBlock*, kNumLarge> newest_{};
  LargeBlock* newest_of_all_ = nullptr;
  LargeBlock* oldest_ = nullptr;
  // Living blocks that are larger than their size says, and their classes.
  std::unordered_map<void*, int> oversized_;
  std::atomic<size_t> cached_bytes_{0};

  std::mutex stats_mutex_;  // the rest
  std::vector<ThreadCache*> threads_;
  int64_t live_ = 0, peak_ = 0, allocations_ = 0;
};

// A bare pointer costs no guard when it is read; the object with the destructor stands beside it.
constinit thread_local ThreadCache* thread_cache __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool thread_ended = false;

// Hands the thread's blocks to the others when it ends. Whatever the thread still frees later goes to the
// global lists.
struct ThreadEnd {
  ~ThreadEnd() {
    ThreadCache* const cache = std::exchange(thread_cache, nullptr);
    thread_ended = true;
    if (cache == nullptr) return;
    Allocator& allocator = Allocator::get();
    for (int cls = 0; cls < kNumSmall; ++cls) {
      allocator.give_list(cls, cache->classes[cls].current);
      allocator.give_list(cls, cache->classes[cls].spare);
    }
    allocator.retire(cache);
    delete cache;
  }
  void arm() const {}
};

// The thread's cache, made at its first use; nullptr when the thread is ending or memory is short.
ThreadCache* find_thread_cache() noexcept {
  if (thread_cache != nullptr || thread_ended) return thread_cache;
  try {
    auto cache = std::make_unique<ThreadCache>(Allocator::get().poisons());
    Allocator::get().enlist(cache.get());
    thread_cache = cache.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  static thread_local const ThreadEnd end;
  end.arm();
  return thread_cache;
}

inline void count_allocation(ThreadCache& cache, int64_t bytes) {
  cache.allocations.set(cache.allocations.get() + 1);
  const int64_t balance = cache.balance.get() + bytes;
  cache.balance.set(balance);
  if (balance > cache.highest.get()) {
    cache.highest.set(balance);
    if (balance > kReportBytes) [[unlikely]]
      Allocator::get().report(cache);
  }
}

inline void count_deallocation(ThreadCache& cache, int64_t bytes) {
  const int64_t balance = cache.balance.get() - bytes;
  cache.balance.set(balance);
  if (balance < -kReportBytes) [[unlikely]]
    Allocator::get().report(cache);
}

[[gnu::noinline]] void* allocate_small_slowly(int cls) {
  Allocator& allocator = Allocator::get();
  ThreadCache* const cache = find_thread_cache();
  void* ptr = nullptr;
  if (cache != nullptr) {
    auto& [current, spare, batch] = cache->classes[cls];
    if (current.head == nullptr) std::swap(current, spare);
    if (current.head == nullptr) current = allocator.take_list(cls);
    ptr = current.pop();
    count_allocation(*cache, kSmallSizes[cls]);
  } else {
    BlockList list = allocator.take_list(cls);
    ptr = list.pop();
    allocator.give_list(cls, list);
    allocator.report(kSmallSizes[cls]);
  }
  if (allocator.poisons()) std::memset(ptr, kPoison, kSmallSizes[cls]);
  return ptr;
}

[[gnu::noinline]] void deallocate_small_slowly(void* ptr, int cls) noexcept {
  Allocator& allocator = Allocator::get();
  if (allocator.poisons()) std::memset(ptr, kPoison, kSmallSizes[cls]);
  if (ThreadCache* const cache = find_thread_cache()) {
    auto& [current, spare, batch] = cache->classes[cls];
    if (current.length >= batch) {
      allocator.give_list(cls, spare);
      spare = std::exchange(current, BlockList());
    }
    current.push(ptr);
    count_deallocation(*cache, kSmallSizes[cls]);
  } else {
    BlockList list;
    list.push(ptr);
    allocator.give_list(cls, list);
    allocator.report(-int64_t{kSmallSizes[cls]});
  }
}

[[gnu::noinline]] void* allocate_large(size_t bytes) {
  WEFT_CHECK(bytes <= kMaxBytes, "allocate: asked for ", bytes, " bytes, more than an address space of ",
             kMaxBytes, " bytes holds; a size was negative or overflowed");
  Allocator& allocator = Allocator::get();
  void* const ptr = kCaching ? allocator.take_large(bytes) : allocator.take_or_throw(bytes, bytes);
  const auto size = static_cast<int64_t>(class_size(bytes));
  if (ThreadCache* const cache = find_thread_cache()) {
    count_allocation(*cache, size);
  } else {
    allocator.report(size);
  }
  if (allocator.poisons()) std::memset(ptr, kPoison, bytes);
  return ptr;
}

[[gnu::noinline]] void deallocate_large(void* ptr, size_t bytes) noexcept {
  Allocator& allocator = Allocator::get();
  if (allocator.poisons()) std::memset(ptr, kPoison, bytes);
  const auto size = static_cast<int64_t>(class_size(bytes));
  if (ThreadCache* const cache = find_thread_cache()) {
    count_deallocation(*cache, size);
  } else {
    allocator.report(-size);
  }
  if constexpr (kCaching) {
    allocator.give_large(ptr, bytes);
  } else {
    return_to_system(ptr, bytes);
  }
}

}  // namespace

void* allocate(size_t bytes) {
  if (bytes > kSmallLimit || !kCaching) [[unlikely]]
    return bytes == 0 ? nullptr : allocate_large(bytes);
  if (bytes == 0) [[unlikely]]
    return nullptr;
  const int cls = small_class(bytes);
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr || cache->poisons) [[unlikely]]
    return allocate_small_slowly(cls);
  BlockList& blocks = cache->classes[cls].current;
  if (blocks.head == nullptr) [[unlikely]]
    return allocate_small_slowly(cls);
  count_allocation(*cache, kSmallSizes[cls]);
  return blocks.pop();
}

void deallocate(void* ptr, size_t bytes) noexcept {
  if (ptr == nullptr) [[unlikely]]
    return;
  if (bytes > kSmallLimit || !kCaching) [[unlikely]]
    return deallocate_large(ptr, bytes);
  const int cls = small_class(bytes);
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr || cache->poisons) [[unlikely]]
    return deallocate_small_slowly(ptr, cls);
  ThreadCache::Magazines& blocks = cache->classes[cls];
  if (blocks.current.length >= blocks.batch) [[unlikely]]
    return deallocate_small_slowly(ptr, cls);
  blocks.current.push(ptr);
  count_deallocation(*cache, kSmallSizes[cls]);
}

void empty_cache() noexcept { Allocator::get().empty_cache(); }
AllocatorStats allocator_stats() { return Allocator::get().stats(); }
void reset_peak_stats() { Allocator::get().reset_peak(); }

}  // namespace weft
