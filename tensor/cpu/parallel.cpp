// The thread count and the OpenMP region of parallel_for.
// The only place of the CPU kernels that speaks OpenMP: without it every loop is serial.
#include "tensor/cpu/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <thread>

#include "tensor/base/error.h"

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace weft {
namespace {

// The affinity mask is what containers and taskset narrow.
int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1,
                  static_cast<int>(std::thread::hardware_concurrency()));  // more cores than the mask holds
}

int default_num_threads() {
  if (const char* value = std::getenv("OMP_NUM_THREADS")) {
    const int n = std::atoi(value);  // "4,2" lists nesting levels: the first one counts
    if (n > 0) return n;
  }
  return usable_cores();
}

// 0 until someone asks.
std::atomic<int> thread_count{0};

}  // namespace

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n == 0) [[unlikely]] {
    // Of several first callers, and a set_num_threads() in between, the first to store wins.
    const int wanted = default_num_threads();
    if (thread_count.compare_exchange_strong(n, wanted, std::memory_order_relaxed)) n = wanted;
  }
  return n;
}

void set_num_threads(int n) {
  WEFT_CHECK(n >= 1, "set_num_threads: got ", n, ", but the number of threads is at least 1");
  thread_count.store(n, std::memory_order_relaxed);
}

#ifdef _OPENMP

bool in_parallel_region() { return omp_in_parallel() != 0; }

bool detail::runs_serially(int64_t n, int64_t grain) {
  return n <= grain || num_threads() == 1 || in_parallel_region();
}

void detail::run_chunks(int64_t n, int64_t grain, int64_t alignment, ParallelBody body, const void* f) {
  // Written so that no sum overflows with any grain, nor with any n up to 2^62.
  grain = std::max<int64_t>(grain, 1);
  const int64_t worth = n / grain + (n % grain != 0);
  const int64_t threads = std::min<int64_t>(num_threads(), worth);
  const int64_t even = n / threads + (n % threads != 0);
  const int64_t units = even / alignment + (even % alignment != 0);
  if (units > n / alignment) return body(f, 0, n);  // a single chunk
  const int64_t chunk = units * alignment;

  std::atomic<bool> failed{false};
  std::exception_ptr failure;
#  pragma omp parallel num_threads(static_cast <int>(threads))
  {
    // OpenMP may give fewer threads than asked for; the chunks stay the same.
    const int64_t stride = omp_get_num_threads();
    for (int64_t i = omp_get_thread_num(); i < threads && i * chunk < n; i += stride) {
      try {
        body(f, i * chunk, std::min(n, (i + 1) * chunk));
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
        break;
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

#else

bool in_parallel_region() { return false; }
bool detail::runs_serially(int64_t, int64_t) { return true; }
void detail::run_chunks(int64_t n, int64_t, int64_t, ParallelBody body, const void* f) { body(f, 0, n); }

#endif

}  // namespace weft
