// Running sums and products: a warp or a block a row, blocks that share a long row, threads side by side where rows lie so.
// Place: part of libweft_cuda.so, compiled by nvcc.
//
// Note [Scans on a GPU]
// How a scan is made depends on sizes and the element alone, and no block waits for another: equal calls give equal bits. What
// is combined, and in which order:
// - inner > 1: a thread walks along the row. Where there are few rows, 8 or 32 threads share one: each finds the total of its
//   part, then scans it from the sum of the totals before it.
// - up to kShortRow elements: a warp a row, 32 elements at a time, scanned over the lanes and added to what came before.
// - else a block takes tiles of 256 threads with four packs of 16 bytes each: scanned in the thread, over the lanes, over warps
//   and packs, and added to what came before. A few long rows give a block one tile: one pass finds the tiles' totals, one scans
//   these, one makes the result.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kPacks = 4;
constexpr int64_t kShortRow = 256;
// Rows from this length on are shared by blocks if there are fewer of them than this.
constexpr int64_t kLongRow = 32768, kFewRows = 256;
constexpr unsigned kAll = 0xFFFFFFFFu;

template <class T>
struct Of {
  using Sum = T;
  static __device__ T widen(T x) { return x; }
  static __device__ T narrow(T x) { return x; }
};
template <>
struct Of<__half> {
  using Sum = float;
  static __device__ float widen(__half x) { return __half2float(x); }
  static __device__ __half narrow(float x) { return __float2half_rn(x); }
};
template <>
struct Of<__nv_bfloat16> {
  using Sum = float;
  static __device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
};

template <class Sum, bool kProduct>
__device__ Sum combine(Sum a, Sum b) {
  // Integers wrap.
  if constexpr (std::is_same_v<Sum, int64_t>)
    return static_cast<int64_t>(kProduct ? static_cast<uint64_t>(a) * static_cast<uint64_t>(b)
                                         : static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return kProduct ? a * b : a + b;
}

// Each lane gets what it and the lanes before it have.
template <bool kProduct, class Sum>
__device__ Sum scan_lanes(Sum x, int lane) {
  for (int step = 1; step < 32; step *= 2) {
    const Sum before = __shfl_up_sync(kAll, x, step);
    if (lane >= step) x = combine<Sum, kProduct>(before, x);
  }
  return x;
}

// Elements of a pack, with the neutral element where the row has ended.
template <class T>
constexpr int kPack = 16 / sizeof(T);
template <class T>
constexpr int64_t kTile = int64_t{kThreads} * kPacks* kPack<T>;

template <class T>
struct alignas(16) Pack {
  T elements[kPack<T>];
};

// Scans the tiles of one row from `carry` on and returns what the row comes to. `out` may be x, or null for the total alone.
template <class T, bool kProduct>
__device__ typename Of<T>::Sum scan_tiles(const T* x, T* out, int64_t n, typename Of<T>::Sum carry,
                                          bool is_aligned) {
  using Sum = typename Of<T>::Sum;
  constexpr Sum neutral = kProduct ? 1 : 0;
  __shared__ Sum totals[2][kPacks * kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int turn = 0;
  for (int64_t tile = 0; tile < n; tile += kTile<T>, turn ^= 1) {
    Sum sums[kPacks][kPack<T>];
    Sum before[kPacks];
    for (int p = 0; p < kPacks; ++p) {
      const int64_t at = tile + (p * kThreads + threadIdx.x) * kPack<T>;
      if (is_aligned && at + kPack<T> <= n) {
        const auto pack = *reinterpret_cast<const Pack<T>*>(x + at);
        for (int i = 0; i < kPack<T>; ++i) sums[p][i] = Of<T>::widen(pack.elements[i]);
      } else {
        for (int i = 0; i < kPack<T>; ++i) sums[p][i] = at + i < n ? Of<T>::widen(x[at + i]) : neutral;
      }
    }
    for (int p = 0; p < kPacks; ++p) {
      for (int i = 1; i < kPack<T>; ++i) sums[p][i] = combine<Sum, kProduct>(sums[p][i - 1], sums[p][i]);
      const Sum all = scan_lanes<kProduct>(sums[p][kPack<T> - 1], lane);
      before[p] = __shfl_up_sync(kAll, all, 1);
      if (lane == 0) before[p] = neutral;
      if (lane == 31) totals[turn][p * kWarps + warp] = all;
    }
    __syncthreads();
    // One lane for each pack of each warp, in their order.
    static_assert(kPacks * kWarps == 32);
    const Sum scanned = scan_lanes<kProduct>(totals[turn][lane], lane);
    for (int p = 0; p < kPacks; ++p) {
      const int own = p * kWarps + warp;
      Sum start = __shfl_sync(kAll, scanned, own == 0 ? 0 : own - 1);
      start = own == 0 ? before[p] : combine<Sum, kProduct>(start, before[p]);
      const int64_t at = tile + (p * kThreads + threadIdx.x) * kPack<T>;
      if (out == nullptr) continue;
      Pack<T> pack;
      for (int i = 0; i < kPack<T>; ++i)
        pack.elements[i] =
            Of<T>::narrow(combine<Sum, kProduct>(carry, combine<Sum, kProduct>(start, sums[p][i])));
      if (is_aligned && at + kPack<T> <= n) {
        *reinterpret_cast<Pack<T>*>(out + at) = pack;
      } else {
        for (int i = 0; i < kPack<T>; ++i)
          if (at + i < n) out[at + i] = pack.elements[i];
      }
    }
    carry = combine<Sum, kProduct>(carry, __shfl_sync(kAll, scanned, 31));
  }
  return carry;
}

template <class T, bool kProduct>
__global__ void __launch_bounds__(kThreads) scan_rows(const T* x, T* out, int64_t n, bool is_aligned) {
  const int64_t at = blockIdx.x * n;
  scan_tiles<T, kProduct>(x + at, out + at, n, kProduct ? 1 : 0, is_aligned);
}

// Block b of row r has one tile; totals [rows, tiles].
template <class T, bool kProduct>
__global__ void __launch_bounds__(kThreads)
    find_totals(const T* x, typename Of<T>::Sum* totals, int64_t n, bool is_aligned) {
  const int64_t begin = blockIdx.x * kTile<T>;
  const auto total = scan_tiles<T, kProduct>(x + blockIdx.y * n + begin, nullptr, min(kTile<T>, n - begin),
                                             kProduct ? 1 : 0, is_aligned);
  if (threadIdx.x == 0) totals[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = total;
}
template <class T, bool kProduct>
__global__ void __launch_bounds__(kThreads)
    scan_parts(const T* x, T* out, const typename Of<T>::Sum* totals, int64_t n, bool is_aligned) {
  const int64_t begin = blockIdx.x * kTile<T>, at = blockIdx.y * n + begin;
  const int64_t own = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  scan_tiles<T, kProduct>(x + at, out + at, min(kTile<T>, n - begin),
                          blockIdx.x == 0 ? typename Of<T>::Sum(kProduct ? 1 : 0) : totals[own - 1],
                          is_aligned);
}

template <class T, bool kProduct>
__global__ void __launch_bounds__(kThreads) scan_short_rows(const T* x, T* out, int64_t rows, int64_t n) {
  using Sum = typename Of<T>::Sum;
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  x += row * n, out += row * n;
  Sum carry = kProduct ? 1 : 0;
  for (int64_t begin = 0; begin < n; begin += 32) {
    const int64_t i = begin + lane;
    const Sum own = i < n ? Of<T>::widen(x[i]) : Sum(kProduct ? 1 : 0);
    const Sum sum = combine<Sum, kProduct>(carry, scan_lanes<kProduct>(own, lane));
    if (i < n) out[i] = Of<T>::narrow(sum);
    carry = __shfl_sync(kAll, sum, 31);
  }
}

// 32 rows side by side; blockDim.y threads share each.
template <class T, bool kProduct>
__global__ void scan_columns(const T* x, T* out, int64_t n, int64_t inner) {
  using Sum = typename Of<T>::Sum;
  constexpr Sum neutral = kProduct ? 1 : 0;
  constexpr int kAhead = 8;  // loads that are under way together
  __shared__ Sum totals[32][32];
  const int64_t groups = (inner + 31) / 32;
  const int64_t column = blockIdx.x % groups * 32 + threadIdx.x;
  const bool is_there = column < inner;
  const int64_t first = blockIdx.x / groups * n * inner + column;
  const int64_t part = (n + blockDim.y - 1) / blockDim.y;
  const int64_t begin = min(n, threadIdx.y * part), end = min(n, begin + part);
  Sum sum = neutral;
  const auto walk = [&](auto use) {
    for (int64_t i = begin; i < end; i += kAhead) {
      T loaded[kAhead];
      for (int k = 0; k < kAhead; ++k)
        if (i + k < end) loaded[k] = x[first + (i + k) * inner];
      for (int k = 0; k < kAhead; ++k) {
        if (i + k >= end) break;
        sum = combine<Sum, kProduct>(sum, Of<T>::widen(loaded[k]));
        use(i + k);
      }
    }
  };
  if (blockDim.y > 1) {
    if (is_there) walk([](int64_t) {});
    totals[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = neutral;
    for (unsigned y = 0; y < threadIdx.y; ++y) sum = combine<Sum, kProduct>(sum, totals[y][threadIdx.x]);
  }
  if (is_there) walk([&](int64_t i) { out[first + i * inner] = Of<T>::narrow(sum); });
}

unsigned shares_of(const RowScan& what) {
  const int64_t rows = what.outer * what.inner;
  if (what.n < 32 || rows >= 131072) return 1;
  return rows >= 16384 ? 8 : 32;
}

bool is_shared(const RowScan& what) { return what.inner == 1 && what.n >= kLongRow && what.outer < kFewRows; }

template <class T, bool kProduct>
Status run(const RowScan& what, const void* given, void* result, void* workspace, cudaStream_t stream) {
  using Sum = typename Of<T>::Sum;
  const auto* const x = static_cast<const T*>(given);
  auto* const out = static_cast<T*>(result);
  const int64_t rows = what.outer, n = what.n;
  const auto address = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out) |
                       (rows > 1 ? static_cast<uintptr_t>(n) * sizeof(T) : 0);
  const bool is_aligned = address % 16 == 0;
  if (what.inner > 1) {
    const int64_t groups = rows * ((what.inner + 31) / 32);
    scan_columns<T, kProduct>
        <<<static_cast<unsigned>(groups), dim3(32, shares_of(what)), 0, stream>>>(x, out, n, what.inner);
  } else if (is_shared(what)) {
    auto* const totals = static_cast<Sum*>(workspace);
    const int64_t tiles = (n + kTile<T> - 1) / kTile<T>;
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(rows));
    find_totals<T, kProduct><<<grid, kThreads, 0, stream>>>(x, totals, n, is_aligned);
    scan_rows<Sum, kProduct><<<grid.y, kThreads, 0, stream>>>(totals, totals, tiles, false);
    scan_parts<T, kProduct><<<grid, kThreads, 0, stream>>>(x, out, totals, n, is_aligned);
  } else if (n <= kShortRow) {
    scan_short_rows<T, kProduct>
        <<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(x, out, rows, n);
  } else {
    scan_rows<T, kProduct><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, out, n, is_aligned);
  }
  return keep(cudaGetLastError(), "scan_rows");
}

Status scan_workspace(const RowScan* what, size_t* bytes) {
  *bytes = 0;
  if (!is_shared(*what)) return Status::Ok;
  const bool is_double = what->element == Element::Float64 || what->element == Element::Int64;
  const bool is_half = what->element == Element::Float16 || what->element == Element::BFloat16;
  const int64_t tile = is_double ? kTile<double> : is_half ? kTile<__half> : kTile<float>;
  *bytes = static_cast<size_t>(what->outer * ((what->n + tile - 1) / tile)) * (is_double ? 8 : 4);
  return Status::Ok;
}

template <class T>
Status run_either(const RowScan& what, const void* x, void* out, void* workspace, cudaStream_t stream) {
  return what.is_product ? run<T, true>(what, x, out, workspace, stream)
                         : run<T, false>(what, x, out, workspace, stream);
}

Status scan(const RowScan* what, const void* x, void* out, void* workspace, Stream on) {
  auto* const stream = reinterpret_cast<cudaStream_t>(on);
  switch (what->element) {
    case Element::Int64: return run_either<int64_t>(*what, x, out, workspace, stream);
    case Element::Float16: return run_either<__half>(*what, x, out, workspace, stream);
    case Element::BFloat16: return run_either<__nv_bfloat16>(*what, x, out, workspace, stream);
    case Element::Float32: return run_either<float>(*what, x, out, workspace, stream);
    case Element::Float64: return run_either<double>(*what, x, out, workspace, stream);
    default: return fail("scan", "there is no kernel for such elements");
  }
}

}  // namespace

void fill_scan(Driver& driver) {
  driver.scan_workspace = scan_workspace;
  driver.scan = scan;
}

}  // namespace weft::cuda
