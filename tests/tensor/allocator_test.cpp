// Tests of the caching allocator: reuse, limits, statistics, threads, and freeing while the process ends.
#include "tensor/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#  define SKIP_WITHOUT_CACHE() GTEST_SKIP() << "nothing is cached under AddressSanitizer"
#else
#  define SKIP_WITHOUT_CACHE()
#endif

namespace weft {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool is_aligned(const void* ptr, size_t alignment) {
  return reinterpret_cast<uintptr_t>(ptr) % alignment == 0;
}

// Owns a block until its destructor, wherever that runs.
struct Holder {
  void* ptr = nullptr;
  size_t bytes = 0;
  void hold(size_t n) {
    ptr = allocate(n);
    bytes = n;
    std::memset(ptr, 1, n);
  }
  ~Holder() { deallocate(ptr, bytes); }
};
Holder freed_at_exit_small, freed_at_exit_large;

TEST(Allocator, BlocksAreAlignedAndDisjoint) {
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  for (size_t bytes : {1, 63, 64, 65, 200, 1000, 4095, 4096, 4097, 5000, 100000, 2097151, 2097152, 3000000}) {
    for (int copy = 0; copy < 3; ++copy) {
      auto* ptr = static_cast<unsigned char*>(allocate(bytes));
      ASSERT_TRUE(is_aligned(ptr, kAllocationAlignment)) << bytes;
      std::memset(ptr, static_cast<int>(blocks.size()), bytes);
      blocks.emplace_back(ptr, bytes);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [ptr, bytes] = blocks[i];
    EXPECT_TRUE(std::all_of(ptr, ptr + bytes, [&](unsigned char byte) { return byte == i; })) << bytes;
    deallocate(ptr, bytes);
  }
}

TEST(Allocator, ZeroBytesAreNoBlock) {
  const AllocatorStats before = allocator_stats();
  EXPECT_EQ(allocate(0), nullptr);
  deallocate(nullptr, 0);
  EXPECT_EQ(allocator_stats().allocations, before.allocations);
}

TEST(Allocator, AFreedBlockIsTheNextOfItsSize) {
  SKIP_WITHOUT_CACHE();
  for (size_t bytes : {size_t{100}, size_t{4096}, size_t{10000}, 5 * kMiB}) {
    void* first = allocate(bytes);
    deallocate(first, bytes);
    void* second = allocate(bytes);
    EXPECT_EQ(first, second) << bytes;
    deallocate(second, bytes);
  }
}

TEST(Allocator, LargeBlocksLieOnHugePages) {
  SKIP_WITHOUT_CACHE();
  for (size_t bytes : {2 * kMiB, 2 * kMiB + 1, 9 * kMiB}) {
    void* ptr = allocate(bytes);
    EXPECT_TRUE(is_aligned(ptr, 2 * kMiB));
    deallocate(ptr, bytes);
  }
}

TEST(Allocator, RoundsUpByAtMostAnEighthAboveFourKilobytes) {
  for (size_t bytes = 4097; bytes < 100 * kMiB; bytes += bytes / 7) {
    const int64_t before = allocator_stats().live_bytes;
    void* ptr = allocate(bytes);
    const int64_t taken = allocator_stats().live_bytes - before;
    EXPECT_GE(taken, static_cast<int64_t>(bytes));
    EXPECT_LE(taken, static_cast<int64_t>(bytes + bytes / 8));
    deallocate(ptr, bytes);
    EXPECT_EQ(allocator_stats().live_bytes, before);
  }
  empty_cache();
}

TEST(Allocator, ALargerCachedBlockServesUpToHalfItsSize) {
  SKIP_WITHOUT_CACHE();
  empty_cache();
  void* large = allocate(16 * kMiB);
  deallocate(large, 16 * kMiB);
  void* tiny = allocate(7 * kMiB);
  EXPECT_NE(tiny, large);
  void* half = allocate(8 * kMiB);
  EXPECT_EQ(half, large);
  EXPECT_EQ(allocator_stats().cached_bytes, 0);
  deallocate(half, 8 * kMiB);
  EXPECT_EQ(allocator_stats().cached_bytes,
            static_cast<int64_t>(16 * kMiB));  // it is known by its full size again
  deallocate(tiny, 7 * kMiB);
  void* again = allocate(16 * kMiB);
  EXPECT_EQ(again, large);
  deallocate(again, 16 * kMiB);
  empty_cache();
}

TEST(Allocator, EmptyCacheReturnsLargeBlocks) {
  SKIP_WITHOUT_CACHE();
  for (size_t bytes : {size_t{5000}, 3 * kMiB}) deallocate(allocate(bytes), bytes);
  EXPECT_GT(allocator_stats().cached_bytes, 0);
  empty_cache();
  EXPECT_EQ(allocator_stats().cached_bytes, 0);
}

TEST(Allocator, StatisticsFollowASingleThreadExactly) {
  const AllocatorStats start = allocator_stats();
  reset_peak_stats();
  EXPECT_EQ(allocator_stats().peak_bytes, start.live_bytes);
  std::vector<void*> blocks;
  for (int i = 0; i < 300; ++i) blocks.push_back(allocate(1024));
  EXPECT_EQ(allocator_stats().live_bytes, start.live_bytes + 300 * 1024);
  for (void* ptr : blocks) deallocate(ptr, 1024);
  void* large = allocate(kMiB / 8);
  const AllocatorStats end = allocator_stats();
  EXPECT_EQ(end.peak_bytes, start.live_bytes + 300 * 1024);
  EXPECT_EQ(end.live_bytes, start.live_bytes + static_cast<int64_t>(kMiB / 8));
  EXPECT_EQ(end.allocations, start.allocations + 301);
  deallocate(large, kMiB / 8);
  reset_peak_stats();
  EXPECT_EQ(allocator_stats().peak_bytes, start.live_bytes);
}

TEST(Allocator, AnImpossibleSizeIsTheCallersError) {
  for (size_t bytes : {~size_t{0}, size_t{1} << 48}) {
    try {
      allocate(bytes);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "allocate: asked for " + std::to_string(bytes) +
                                               " bytes, more than an address space of 140737488355328 bytes "
                                               "holds; a size was negative or overflowed");
    }
  }
}

TEST(Allocator, OutOfMemorySaysWhatIsLiveAndEmptiesTheCacheFirst) {
  SKIP_WITHOUT_CACHE();
  empty_cache();
  deallocate(allocate(4 * kMiB), 4 * kMiB);
  void* live = allocate(1000);
  const AllocatorStats before = allocator_stats();
  constexpr size_t kNearlyAll = (size_t{1} << 47) - 1;
  try {
    allocate(kNearlyAll);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "allocate: out of memory: asked for 140737488355327 bytes (134217727 MiB); " +
                  std::to_string(before.live_bytes) + " bytes (" + std::to_string(before.live_bytes >> 20) +
                  " MiB) are live and 4194304 bytes (4 MiB) were cached, but returning those to the system "
                  "did not suffice");
  }
  EXPECT_EQ(allocator_stats().cached_bytes, 0);
  EXPECT_EQ(allocator_stats().live_bytes, before.live_bytes);
  deallocate(live, 1000);
}

TEST(Allocator, BlocksMayBeFreedOnOtherThreads) {
  const int64_t before = allocator_stats().live_bytes;
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, size_t>> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 3000; ++i) {
      size_t bytes = i % 50 == 0 ? 4097 + random() % 100000 : 1 + random() % 4096;
      auto* ptr = static_cast<unsigned char*>(allocate(bytes));
      std::memset(ptr, static_cast<int>(bytes % 251), bytes);
      const std::lock_guard lock(mutex);
      shared.emplace_back(ptr, bytes);
      if (shared.size() < 100) continue;
      std::swap(shared[random() % shared.size()], shared.back());
      std::tie(ptr, bytes) = shared.back();
      EXPECT_EQ(ptr[0], bytes % 251);
      EXPECT_EQ(ptr[bytes - 1], bytes % 251);
      shared.pop_back();
      deallocate(ptr, bytes);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  for (const auto& [ptr, bytes] : shared) deallocate(ptr, bytes);
  EXPECT_EQ(allocator_stats().live_bytes, before);
}

TEST(Allocator, AThreadThatEndsLeavesItsBlocksToTheOthers) {
  SKIP_WITHOUT_CACHE();
  const auto churn = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 20000; ++i) blocks.push_back(allocate(512));
    for (void* ptr : blocks) deallocate(ptr, 512);
  };
  std::thread(churn).join();
  const int64_t slabs = allocator_stats().slab_bytes;
  for (int i = 0; i < 5; ++i) std::thread(churn).join();
  EXPECT_EQ(allocator_stats().slab_bytes, slabs);
}

TEST(Allocator, ThreadLocalsMayFreeAfterTheThreadsCacheIsGone) {
  const int64_t before = allocator_stats().live_bytes;
  std::thread([] {
    // Made before the thread's cache, so destroyed after it.
    static thread_local Holder small, large;
    small.hold(128);
    large.hold(9000);
  }).join();
  EXPECT_EQ(allocator_stats().live_bytes, before);
}

TEST(Allocator, StaticsMayFreeWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    static Holder small, large;
    small.hold(100);
    large.hold(3 * kMiB);
    freed_at_exit_small.hold(64);
    freed_at_exit_large.hold(20000);
    std::exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(Allocator, PoisonFillsFreshAndFreedMemory) {
  SKIP_WITHOUT_CACHE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    setenv("WEFT_ALLOC_POISON", "1", 1);
    int wrong = 0;
    for (size_t bytes : {size_t{256}, size_t{70000}}) {
      auto* ptr = static_cast<volatile unsigned char*>(allocate(bytes));
      for (size_t i = 0; i < bytes; ++i) wrong += ptr[i] != 0xCB;
      for (size_t i = 0; i < bytes; ++i) ptr[i] = 0;
      deallocate(const_cast<unsigned char*>(ptr), bytes);
      for (size_t i = 64; i < bytes; ++i) wrong += ptr[i] != 0xCB;  // a free block's links come first
    }
    std::_Exit(wrong == 0 ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(Allocator, TheCacheKeepsTheNewestWithinItsLimit) {
  SKIP_WITHOUT_CACHE();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    setenv("WEFT_CPU_CACHE_MB", "8", 1);
    void* oldest = allocate(4 * kMiB);
    void* middle = allocate(4 * kMiB);
    void* newest = allocate(4 * kMiB);
    deallocate(oldest, 4 * kMiB);
    deallocate(middle, 4 * kMiB);
    deallocate(newest, 4 * kMiB);
    bool right = allocator_stats().cached_bytes == static_cast<int64_t>(8 * kMiB);
    right = right && allocate(4 * kMiB) == newest && allocate(4 * kMiB) == middle;
    right = right && allocator_stats().cached_bytes == 0;
    deallocate(allocate(16 * kMiB), 16 * kMiB);  // larger than the limit
    right = right && allocator_stats().cached_bytes == 0;
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
