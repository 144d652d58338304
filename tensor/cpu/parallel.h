// parallel_for: splits a range of elements over the CPU's threads.
// Needs the standard library only; OpenMP, where built with it, stays in the source file.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weft {

// The number of threads that a parallel_for may use: OMP_NUM_THREADS, else the cores this process may run on.
int num_threads();
// Errors: Error when n < 1. Holds for the process, from the next parallel_for on.
void set_num_threads(int n);

// True inside a body that runs on several threads; a parallel_for there runs serially.
bool in_parallel_region();

// Chunks start at multiples of this many elements, so the vector lane (of at most 16 virtual lanes) in which
// an element is computed depends on its index alone, and so, for 4-byte elements, does its place in a cache
// line.
inline constexpr int64_t kChunkAlignment = 16;

namespace detail {
using ParallelBody = void (*)(const void* f, int64_t begin, int64_t end);
bool runs_serially(int64_t n, int64_t grain);
void run_chunks(int64_t n, int64_t grain, int64_t alignment, ParallelBody body, const void* f);
}  // namespace detail

// Calls f(begin, end) on disjoint chunks that cover [0, n), several at a time; returns when all are done.
// `grain` is the least number of elements worth a thread: with n <= grain there is one call, on the caller's
// thread. Chunk sizes depend on the thread count: what must not, such as a reduction's tree, is fixed by the
// caller's own blocks. Errors: the first exception that a chunk throws is thrown again here, after all
// threads have finished.
template <class F>
void parallel_for(int64_t n, int64_t grain, const F& f, int64_t alignment = kChunkAlignment) {
  if (n <= 0) return;
  if (detail::runs_serially(n, grain)) {
    f(int64_t{0}, n);
    return;
  }
  detail::run_chunks(
      n, grain, alignment,
      [](const void* f_ptr, int64_t begin, int64_t end) { (*static_cast<const F*>(f_ptr))(begin, end); }, &f);
}

}  // namespace weft
