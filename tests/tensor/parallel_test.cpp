// Tests of parallel_for: full and disjoint cover, aligned chunks, nesting, exceptions.
#include "tensor/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/base/error.h"

namespace weft {
namespace {

class ParallelFor : public testing::Test {
 protected:
  void SetUp() override { set_num_threads(4); }
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

std::set<std::pair<int64_t, int64_t>> chunks_of(int64_t n, int64_t grain,
                                                int64_t alignment = kChunkAlignment) {
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> chunks;
  parallel_for(
      n, grain,
      [&](int64_t begin, int64_t end) {
        const std::lock_guard lock(mutex);
        chunks.emplace(begin, end);
      },
      alignment);
  return chunks;
}

TEST_F(ParallelFor, CoversEachElementOnceInAlignedChunks) {
  for (int threads : {1, 2, 3, 4, 7}) {
    set_num_threads(threads);
    for (int64_t n : {1, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
      for (int64_t alignment : {1, 16, 64}) {
        int64_t next = 0;
        const auto chunks = chunks_of(n, 1, alignment);
        EXPECT_LE(chunks.size(), static_cast<size_t>(threads));
        for (const auto& [begin, end] : chunks) {
          EXPECT_EQ(begin, next);
          EXPECT_EQ(begin % alignment, 0);
          EXPECT_LT(begin, end);
          next = end;
        }
        EXPECT_EQ(next, n);
      }
    }
  }
}

TEST_F(ParallelFor, AnEmptyRangeCallsNothing) {
  EXPECT_TRUE(chunks_of(0, 1).empty());
  EXPECT_TRUE(chunks_of(-5, 1).empty());
}

TEST_F(ParallelFor, SmallRangesStayOnTheCallersThread) {
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  parallel_for(1000, 1000, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_FALSE(in_parallel_region());
    EXPECT_EQ(end - begin, 1000);
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(ParallelFor, NoThreadGetsLessThanTheGrainAsksFor) { EXPECT_LE(chunks_of(1000, 400).size(), 3u); }

TEST_F(ParallelFor, HugeRangesDoNotOverflow) {
  const int64_t n = (int64_t{1} << 62) - 1;
  int64_t covered = 0;
  for (const auto& [begin, end] : chunks_of(n, 1)) covered += end - begin;
  EXPECT_EQ(covered, n);
}

TEST_F(ParallelFor, ANestedLoopRunsSerially) {
  std::atomic<int64_t> sum{0};
  parallel_for(256, 1, [&](int64_t begin, int64_t end) {
    const auto mine = std::this_thread::get_id();
    parallel_for(end - begin, 1, [&](int64_t inner_begin, int64_t inner_end) {
      EXPECT_EQ(std::this_thread::get_id(), mine);
      sum += inner_end - inner_begin;
    });
  });
  EXPECT_EQ(sum, 256);
  EXPECT_FALSE(in_parallel_region());
}

TEST_F(ParallelFor, AnExceptionReachesTheCaller) {
  for (int64_t where : {int64_t{0}, int64_t{999}}) {
    try {
      parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
        if (begin <= where && where < end) throw Error("element " + std::to_string(where));
      });
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "element " + std::to_string(where));
    }
  }
  EXPECT_THROW(parallel_for(1000, 1, [](int64_t, int64_t) { throw 7; }), int);
  EXPECT_EQ(chunks_of(64, 1, 16).begin()->first, 0);  // the threads are usable afterwards
}

TEST_F(ParallelFor, ThreadCountMustBePositive) {
  try {
    set_num_threads(0);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "set_num_threads: got 0, but the number of threads is at least 1");
  }
  EXPECT_EQ(num_threads(), 4);
}

}  // namespace
}  // namespace weft
