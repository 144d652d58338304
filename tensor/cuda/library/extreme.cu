// The largest and smallest elements of rows and where they stand: a warp, a block or several blocks a row.
// Place: part of libweft_cuda.so, compiled by nvcc.
//
// The best element is the same in whatever order elements are compared, so rows are shared out as it suits the device.
#include <algorithm>

#include "tensor/cuda/library/keys.h"
#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr unsigned kAll = 0xFFFFFFFFu;
// A part of a row is worth a block from this length on, and this many blocks keep a device busy.
constexpr int64_t kPart = 4096, kBusy = 1024;

struct Best {
  uint64_t key;
  int64_t place;
};
__device__ Best none() { return {0, INT64_MAX}; }
__device__ Best better(const Best& a, const Best& b) {
  return a.key > b.key || (a.key == b.key && a.place < b.place) ? a : b;
}

__device__ Best best_of_lanes(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    const Best other{__shfl_xor_sync(kAll, best.key, step), __shfl_xor_sync(kAll, best.place, step)};
    best = better(best, other);
  }
  return best;
}

struct Extreme {
  Element element;
  int bytes;
  bool is_min;
  uint64_t nan;  // its key
  int64_t rows, n, inner, parts;

  explicit Extreme(const RowExtreme& what)
      : element(what.element),
        bytes(bytes_of(what.element)),
        is_min(what.is_min),
        nan(what.element >= Element::Float16 ? ~uint64_t{0} >> (64 - 8 * bytes) : 0),
        rows(what.outer * what.inner),
        n(what.n),
        inner(what.inner),
        parts(1) {
    const int64_t blocks = inner > 1 ? what.outer * ((inner + 31) / 32) : rows;
    const int64_t longest = inner > 1 ? kPart / 32 : kPart;
    if (n > longest && blocks < kBusy)
      parts = std::min({(n + longest - 1) / longest, kBusy / blocks, int64_t{65535}});
  }
  __device__ int64_t place_of(int64_t row, int64_t i) const {
    return (row / inner * n + i) * inner + row % inner;
  }
  // The first NaN is the extreme either way.
  __device__ Best at(const void* x, int64_t row, int64_t i) const {
    const uint64_t key = key_at(x, element, place_of(row, i));
    const uint64_t all = ~uint64_t{0} >> (64 - 8 * bytes);
    return {is_min && (nan == 0 || key != nan) ? key ^ all : key, i};
  }
  __device__ int64_t part_begin(int64_t part) const { return n / parts * part + min(part, n % parts); }
  // `partial` has the parts' answers where there are several.
  __device__ void write(const void* x, int64_t row, int64_t part, Best best, void* values, int64_t* places,
                        Best* partial) const {
    if (partial != nullptr) {
      partial[row * parts + part] = best;
      return;
    }
    places[row] = best.place;
    if (values != nullptr) copy_element(x, place_of(row, best.place), values, row, bytes);
  }
};

// Threads of a block share a row, or those of a warp where rows are short.
template <bool kIsWarp>
__global__ void __launch_bounds__(kThreads)
    find_in_rows(Extreme what, const void* x, void* values, int64_t* places, Best* partial) {
  __shared__ Best found[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = kIsWarp ? int64_t{blockIdx.x} * kWarps + warp : int64_t{blockIdx.x};
  if (row >= what.rows) return;
  const int64_t end = what.part_begin(blockIdx.y + 1);
  Best best = none();
#pragma unroll 4
  for (int64_t i = what.part_begin(blockIdx.y) + (kIsWarp ? lane : threadIdx.x); i < end;
       i += kIsWarp ? 32 : kThreads)
    best = better(best, what.at(x, row, i));
  best = best_of_lanes(best);
  if constexpr (!kIsWarp) {
    if (lane == 0) found[warp] = best;
    __syncthreads();
    if (warp != 0) return;
    best = best_of_lanes(lane < kWarps ? found[lane] : none());
  }
  if (lane == 0) what.write(x, row, blockIdx.y, best, values, places, partial);
}

// 32 rows side by side, 8 threads each.
__global__ void __launch_bounds__(kThreads)
    find_in_columns(Extreme what, const void* x, void* values, int64_t* places, Best* partial) {
  __shared__ Best found[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t groups = (what.inner + 31) / 32, column = blockIdx.x % groups * 32 + lane;
  const int64_t row = blockIdx.x / groups * what.inner + column;
  const int64_t end = what.part_begin(blockIdx.y + 1);
  Best best = none();
  if (column < what.inner) {
#pragma unroll 4
    for (int64_t i = what.part_begin(blockIdx.y) + warp; i < end; i += kWarps)
      best = better(best, what.at(x, row, i));
  }
  found[warp][lane] = best;
  __syncthreads();
  if (warp != 0 || column >= what.inner) return;
  for (int w = 1; w < kWarps; ++w) best = better(best, found[w][lane]);
  what.write(x, row, blockIdx.y, best, values, places, partial);
}

// A warp for the parts of a row.
__global__ void __launch_bounds__(kThreads)
    join_parts(Extreme what, const void* x, const Best* partial, void* values, int64_t* places) {
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= what.rows) return;
  Best best = none();
  for (int64_t part = lane; part < what.parts; part += 32)
    best = better(best, partial[row * what.parts + part]);
  best = best_of_lanes(best);
  if (lane == 0) what.write(x, row, 0, best, values, places, nullptr);
}

Status extreme_workspace(const RowExtreme* what, size_t* bytes) {
  const Extreme known(*what);
  *bytes = known.parts > 1 ? static_cast<size_t>(known.rows * known.parts) * sizeof(Best) : 0;
  return Status::Ok;
}

Status extreme(const RowExtreme* what, const void* x, void* values, int64_t* places, void* workspace,
               Stream on) {
  auto* const stream = reinterpret_cast<cudaStream_t>(on);
  const Extreme known(*what);
  auto* const partial = known.parts > 1 ? static_cast<Best*>(workspace) : nullptr;
  const auto blocks = [](int64_t rows, int64_t each) {
    return static_cast<unsigned>((rows + each - 1) / each);
  };
  const auto parts = static_cast<unsigned>(known.parts);
  if (known.inner > 1) {
    const dim3 grid(static_cast<unsigned>(what->outer) * blocks(known.inner, 32), parts);
    find_in_columns<<<grid, kThreads, 0, stream>>>(known, x, values, places, partial);
  } else if (known.n <= kThreads) {
    find_in_rows<true>
        <<<blocks(known.rows, kWarps), kThreads, 0, stream>>>(known, x, values, places, partial);
  } else {
    find_in_rows<false><<<dim3(static_cast<unsigned>(known.rows), parts), kThreads, 0, stream>>>(
        known, x, values, places, partial);
  }
  if (partial != nullptr)
    join_parts<<<blocks(known.rows, kWarps), kThreads, 0, stream>>>(known, x, partial, values, places);
  return keep(cudaGetLastError(), "find_in_rows");
}

}  // namespace

void fill_extreme(Driver& driver) {
  driver.extreme_workspace = extreme_workspace;
  driver.extreme = extreme;
}

}  // namespace weft::cuda
