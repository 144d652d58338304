// The caching allocator of GPUs, over a GPU that is host memory: reuse, streams, joining, and what it says when memory is out.
#include <gtest/gtest.h>

#include <random>

#include "tensor/cuda/allocator.h"
#include "tests/support/fake_driver.h"

namespace weft {
namespace {

using cuda::CachingAllocator;
using cuda::Stream;
using tests::fake_driver;
using tests::fake_gpu;

constexpr size_t kMiB = size_t{1} << 20;
const Stream kDefault = nullptr;
const Stream kOther = reinterpret_cast<Stream>(uintptr_t{16});

class CudaAllocator : public testing::Test {
 protected:
  tests::FakeDriverScope scope;
  CachingAllocator allocator{fake_driver(), 0};
};

TEST_F(CudaAllocator, NothingIsNull) {
  EXPECT_EQ(allocator.allocate(0, kDefault, "x"), nullptr);
  allocator.deallocate(nullptr);
  EXPECT_EQ(allocator.stats().allocations, 0);
}

TEST_F(CudaAllocator, AFreedBlockIsHandedOutAgainWithoutAskingTheDevice) {
  void* const first = allocator.allocate(1000, kDefault, "x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 512, 0u);
  allocator.deallocate(first);
  EXPECT_EQ(allocator.allocate(900, kDefault, "x"), first);
  EXPECT_EQ(allocator.stats().device_allocations, 1);
  EXPECT_EQ(allocator.stats().allocated_bytes, 1024);
  EXPECT_EQ(allocator.stats().reserved_bytes, static_cast<int64_t>(2 * kMiB));
}

TEST_F(CudaAllocator, SmallBlocksShareASegment) {
  void* const a = allocator.allocate(512, kDefault, "x");
  void* const b = allocator.allocate(513, kDefault, "x");
  EXPECT_EQ(static_cast<char*>(b) - static_cast<char*>(a), 512);
  EXPECT_EQ(allocator.stats().segments, 1);
  allocator.allocate(3 * kMiB, kDefault, "x");
  EXPECT_EQ(allocator.stats().reserved_bytes, static_cast<int64_t>(22 * kMiB));
  allocator.allocate(18 * kMiB + 1, kDefault, "x");
  EXPECT_EQ(allocator.stats().reserved_bytes, static_cast<int64_t>(42 * kMiB));
}

TEST_F(CudaAllocator, FreeNeighboursBecomeOneBlock) {
  void* const a = allocator.allocate(4 * kMiB, kDefault, "x");
  void* const b = allocator.allocate(4 * kMiB, kDefault, "x");
  void* const c = allocator.allocate(4 * kMiB, kDefault, "x");
  allocator.deallocate(a);
  allocator.deallocate(c);
  allocator.deallocate(b);
  // Twenty in one piece again.
  EXPECT_EQ(allocator.allocate(10 * kMiB, kDefault, "x"), a);
  EXPECT_EQ(allocator.stats().segments, 1);
}

TEST_F(CudaAllocator, KeptMemoryIsHandedOutInItsScopesAlone) {
  void* first = nullptr;
  {
    cuda::KeptMemory kept;
    {
      const cuda::KeptMemory::Scope in(kept);
      first = allocator.allocate(4 * kMiB, kDefault, "x");
      allocator.deallocate(first);
      EXPECT_EQ(allocator.allocate(3 * kMiB, kDefault, "x"), first);
      allocator.deallocate(first);
    }
    // To others it is taken, also where the cache goes back.
    void* const other = allocator.allocate(4 * kMiB, kDefault, "x");
    EXPECT_NE(other, first);
    allocator.deallocate(other);
    allocator.empty_cache();
    const cuda::KeptMemory::Scope again(kept);
    EXPECT_EQ(allocator.allocate(4 * kMiB, kDefault, "x"), first);
    allocator.deallocate(first);
  }
  EXPECT_EQ(allocator.stats().allocated_bytes, 0);
  EXPECT_EQ(allocator.allocate(4 * kMiB, kDefault, "x"), first);
}

TEST_F(CudaAllocator, AStreamDoesNotGetWhatAnotherMayStillUse) {
  void* const a = allocator.allocate(kMiB, kDefault, "x");
  allocator.deallocate(a);
  EXPECT_NE(allocator.allocate(kMiB, kOther, "x"), a);
  EXPECT_EQ(allocator.allocate(kMiB, kDefault, "x"), a);
}

TEST_F(CudaAllocator, ABlockThatAnotherStreamUsesWaitsForIt) {
  void* const a = allocator.allocate(kMiB, kDefault, "x");
  allocator.record_use(a, kOther);
  allocator.deallocate(a);
  void* const b = allocator.allocate(kMiB, kDefault, "x");
  EXPECT_NE(b, a);
  allocator.deallocate(b);
  fake_gpu().pending.clear();  // the other stream has come past
  void* const c = allocator.allocate(2 * kMiB - 512, kDefault, "x");
  static_cast<void>(c);
  void* const again = allocator.allocate(kMiB, kDefault, "x");
  EXPECT_EQ(again, a);
}

TEST_F(CudaAllocator, EmptyCacheGivesBackWholeSegmentsOnly) {
  void* const a = allocator.allocate(30 * kMiB, kDefault, "x");
  void* const b = allocator.allocate(1000, kDefault, "x");
  allocator.deallocate(a);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved_bytes, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(fake_gpu().segments.size(), 1u);
  allocator.deallocate(b);
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved_bytes, 0);
}

TEST_F(CudaAllocator, WithoutMemoryTheCacheIsGivenBackFirst) {
  fake_gpu().memory = 64 * kMiB;
  void* const a = allocator.allocate(40 * kMiB, kDefault, "x");
  allocator.deallocate(a);
  EXPECT_NE(allocator.allocate(50 * kMiB, kDefault, "x"), nullptr);
  EXPECT_EQ(allocator.stats().out_of_memory, 1);
  EXPECT_EQ(allocator.stats().segments, 1);
}

TEST_F(CudaAllocator, TheErrorSaysWhoHoldsWhat) {
  fake_gpu().memory = 64 * kMiB;
  allocator.allocate(30 * kMiB, kDefault, "relu");
  allocator.allocate(8 * kMiB, kDefault, "mm");
  allocator.allocate(4 * kMiB, kDefault, "mm");
  try {
    allocator.allocate(20 * kMiB, kDefault, "add");
    FAIL() << "there is no such memory";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "cuda: out of memory: add needs 20.00 MiB on cuda:0, which has 64.00 MiB, 14.00 MiB of them free. "
        "This "
        "process holds 50.00 MiB: 42.00 MiB in tensors and 8.00 MiB in pieces between them. Let go of "
        "tensors, "
        "take smaller batches, or keep gradients off where none are needed. The largest, by what made them:\n"
        "  relu: 30.00 MiB in 1 block\n"
        "  mm: 12.00 MiB in 2 blocks");
  }
  // Nothing is broken by it.
  EXPECT_NE(allocator.allocate(1000, kDefault, "x"), nullptr);
}

// Random calls against what they must keep: living blocks never overlap, and everything comes back in the end.
TEST_F(CudaAllocator, RandomCallsNeverHandOutTwice) {
  fake_gpu().memory = 256 * kMiB;
  std::mt19937 random(7);
  std::map<char*, size_t> living;
  int refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (living.size() > 40 || (!living.empty() && random() % 2 == 0)) {
      auto at = living.begin();
      std::advance(at, random() % living.size());
      if (random() % 8 == 0) allocator.record_use(at->first, kOther);
      allocator.deallocate(at->first);
      living.erase(at);
      if (random() % 4 == 0) fake_gpu().pending.clear();
      continue;
    }
    const size_t bytes = size_t{1} << (random() % 25);
    const size_t size = bytes + random() % bytes;
    char* memory = nullptr;
    try {
      memory = static_cast<char*>(allocator.allocate(size, random() % 3 == 0 ? kOther : kDefault, "x"));
    } catch (const Error&) {
      ++refused;
      continue;
    }
    const auto above = living.lower_bound(memory);
    ASSERT_TRUE(above == living.end() || memory + size <= above->first);
    ASSERT_TRUE(above == living.begin() || std::prev(above)->first + std::prev(above)->second <= memory);
    living.emplace(memory, size);
  }
  EXPECT_LT(refused, 2000);
  for (const auto& [memory, size] : living) allocator.deallocate(memory);
  fake_gpu().pending.clear();
  allocator.empty_cache();
  EXPECT_EQ(allocator.stats().reserved_bytes, 0);
  EXPECT_EQ(allocator.stats().allocated_bytes, 0);
  EXPECT_EQ(fake_gpu().taken, 0u);
}

}  // namespace
}  // namespace weft
