// Sorting rows: short ones in shared memory, others by CUB's radix sort of keys that hold the row's number too.
// Place: part of libweft_cuda.so, compiled by nvcc.
//
// The sort of keys is stable, so that the order of equal elements is that of their places in memory.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "tensor/cuda/library/keys.h"
#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

constexpr uint32_t kThreads = 256;
// Rows up to this length are sorted by one block.
constexpr int64_t kShortRow = 2048;

// What the kernels know of a call. All places are below 2^31.
struct Sort {
  Element element;
  int bytes;
  uint64_t flip;  // of the keys, where the order is descending
  uint32_t rows, n, inner, count;

  explicit Sort(const RowSort& what)
      : element(what.element),
        bytes(bytes_of(what.element)),
        flip(what.is_descending ? ~uint64_t{0} >> (64 - 8 * bytes) : 0),
        rows(static_cast<uint32_t>(what.outer * what.inner)),
        n(static_cast<uint32_t>(what.n)),
        inner(static_cast<uint32_t>(what.inner)),
        count(static_cast<uint32_t>(what.count)) {}
  __device__ uint64_t key(const void* x, uint32_t place) const { return key_at(x, element, place) ^ flip; }
  __device__ uint32_t row_of(uint32_t place) const { return place / inner / n * inner + place % inner; }
  __device__ uint32_t place_of(uint32_t row, uint32_t i) const {
    return (row / inner * n + i) * inner + row % inner;
  }
  __device__ void write(const void* x, uint32_t row, uint32_t rank, uint32_t i, void* values,
                        int64_t* indices) const {
    const uint32_t to = (row / inner * count + rank) * inner + row % inner;
    copy_element(x, place_of(row, i), values, to, bytes);
    indices[to] = i;
  }
};

// ---- Short rows: a bitonic network over key and index together, of which no two are equal ----------------------------------

// Key and index in one word.
struct Narrow {
  uint64_t word;
  __device__ Narrow(uint64_t key, uint32_t i) : word(key << 32 | i) {}
  __device__ uint32_t index() const { return static_cast<uint32_t>(word); }
  __device__ bool operator<(const Narrow& other) const { return word < other.word; }
};
struct Wide {
  uint64_t key;
  uint32_t place;
  __device__ Wide(uint64_t key, uint32_t i) : key(key), place(i) {}
  __device__ uint32_t index() const { return place; }
  __device__ bool operator<(const Wide& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};

// `width` is n rounded up to a power of two from 2 on. Each row has width / 2 threads.
template <class Item>
__global__ void sort_short_rows(Sort sort, uint32_t width, const void* x, void* values, int64_t* indices) {
  extern __shared__ uint64_t shared[];
  const uint32_t half = width / 2, lane = threadIdx.x % half, own = threadIdx.x / half;
  const uint32_t row = blockIdx.x * (blockDim.x / half) + own;
  Item* const items = reinterpret_cast<Item*>(shared) + own * width;
  for (uint32_t i = lane; i < width; i += half)
    items[i] = row < sort.rows && i < sort.n ? Item(sort.key(x, sort.place_of(row, i)), i)
                                             : Item(sizeof(Item) == 8 ? 0xFFFFFFFFu : ~uint64_t{0}, ~0u);
  for (uint32_t size = 2; size <= width; size *= 2) {
    for (uint32_t step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const uint32_t i = lane / step * step * 2 + lane % step;
      const Item a = items[i], b = items[i + step];
      const bool is_rising = (i & size) == 0;
      if ((b < a) == is_rising) items[i] = b, items[i + step] = a;
    }
  }
  __syncthreads();
  if (row >= sort.rows) return;
  for (uint32_t rank = lane; rank < sort.count; rank += half)
    sort.write(x, row, rank, items[rank].index(), values, indices);
}

uint32_t width_of(const RowSort& what) {
  uint32_t width = 2;
  while (width < what.n) width *= 2;
  return width;
}

template <class Item>
void sort_short(const RowSort& what, const void* x, void* values, int64_t* indices, cudaStream_t stream) {
  const Sort sort(what);
  const uint32_t width = width_of(what), half = width / 2;
  const uint32_t own = std::max(1u, kThreads / half);
  sort_short_rows<Item><<<(sort.rows + own - 1) / own, own * half, own * width * sizeof(Item), stream>>>(
      sort, width, x, values, indices);
}

// ---- Long rows -----------------------------------------------------------------------------------------------------------

template <class Key>
__global__ void make_keys(Sort sort, const void* x, Key* keys, uint32_t* places) {
  const uint32_t place = blockIdx.x * kThreads + threadIdx.x;
  if (place >= sort.rows * sort.n) return;
  Key key = static_cast<Key>(sort.key(x, place));
  if (sort.rows > 1 && sizeof(Key) > sort.bytes)
    key |= static_cast<Key>(sort.row_of(place)) << 8 * sort.bytes;
  keys[place] = key;
  places[place] = place;
}

__global__ void make_row_keys(Sort sort, const uint32_t* places, uint32_t* keys) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < sort.rows * sort.n) keys[i] = sort.row_of(places[i]);
}

__global__ void write_sorted(Sort sort, const void* x, const uint32_t* places, void* values,
                             int64_t* indices) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= sort.rows * sort.count) return;
  const uint32_t row = i / sort.count, rank = i % sort.count;
  sort.write(x, row, rank, places[row * sort.n + rank] / sort.inner % sort.n, values, indices);
}

// How the keys of a call are made up, and where they lie in the workspace.
struct Plan {
  int row_bits = 0;
  bool is_wide = false;      // keys of 64 bits
  bool sorts_again = false;  // by rows: their numbers have no room in the keys
  uint32_t total;
  size_t keys_bytes, places_bytes, own_bytes;

  explicit Plan(const RowSort& what) {
    const int64_t rows = what.outer * what.inner;
    const int bits = 8 * bytes_of(what.element);
    while (rows - 1 >> row_bits != 0) ++row_bits;
    is_wide = bits + row_bits > 32;
    sorts_again = bits == 64 && rows > 1;
    total = static_cast<uint32_t>(rows * what.n);
    const auto padded = [](size_t bytes) { return (bytes + 511) / 512 * 512; };
    keys_bytes = padded(size_t{total} * (is_wide ? 8 : 4));
    places_bytes = padded(size_t{total} * 4);
    own_bytes = 2 * keys_bytes + 2 * places_bytes;
  }
};

template <class Key>
Status radix_sort(void* workspace, size_t* bytes, cub::DoubleBuffer<Key>& keys,
                  cub::DoubleBuffer<uint32_t>& places, uint32_t total, int bits, cudaStream_t stream) {
  return keep(cub::DeviceRadixSort::SortPairs(workspace, *bytes, keys, places, total, 0, bits, stream),
              "cub::DeviceRadixSort::SortPairs");
}

template <class Key>
Status sort_keys(const RowSort& what, const Plan& plan, const void* x, char* memory, size_t bytes,
                 uint32_t** places_at, cudaStream_t stream) {
  const Sort sort(what);
  const uint32_t blocks = (plan.total + kThreads - 1) / kThreads;
  auto* const first = reinterpret_cast<Key*>(memory);
  auto* const second = reinterpret_cast<Key*>(memory + plan.keys_bytes);
  char* const behind = memory + 2 * plan.keys_bytes;
  cub::DoubleBuffer<Key> keys(first, second);
  cub::DoubleBuffer<uint32_t> places(reinterpret_cast<uint32_t*>(behind),
                                     reinterpret_cast<uint32_t*>(behind + plan.places_bytes));
  make_keys<<<blocks, kThreads, 0, stream>>>(sort, x, first, places.Current());
  char* const rest = memory + plan.own_bytes;
  bytes -= plan.own_bytes;
  const int bits = 8 * sort.bytes + (plan.sorts_again ? 0 : plan.row_bits);
  if (const Status status = radix_sort(rest, &bytes, keys, places, plan.total, bits, stream);
      status != Status::Ok)
    return status;
  if (plan.sorts_again) {
    cub::DoubleBuffer<uint32_t> rows(reinterpret_cast<uint32_t*>(first), reinterpret_cast<uint32_t*>(second));
    make_row_keys<<<blocks, kThreads, 0, stream>>>(sort, places.Current(), rows.Current());
    if (const Status status = radix_sort(rest, &bytes, rows, places, plan.total, plan.row_bits, stream);
        status != Status::Ok)
      return status;
  }
  *places_at = places.Current();
  return Status::Ok;
}

template <class Key>
Status radix_bytes(const Plan& plan, int bits, size_t* bytes) {
  cub::DoubleBuffer<Key> keys;
  cub::DoubleBuffer<uint32_t> places;
  size_t own = 0;
  const Status status = radix_sort(nullptr, &own, keys, places, plan.total, bits, nullptr);
  *bytes = std::max(*bytes, own);
  return status;
}

Status sort_workspace(const RowSort* what, size_t* bytes) {
  *bytes = 0;
  if (what->n <= kShortRow) return Status::Ok;
  const Plan plan(*what);
  const int bits = 8 * bytes_of(what->element) + (plan.sorts_again ? 0 : plan.row_bits);
  Status status =
      plan.is_wide ? radix_bytes<uint64_t>(plan, bits, bytes) : radix_bytes<uint32_t>(plan, bits, bytes);
  if (status == Status::Ok && plan.sorts_again) status = radix_bytes<uint32_t>(plan, plan.row_bits, bytes);
  *bytes += plan.own_bytes;
  return status;
}

Status sort(const RowSort* what, const void* x, void* values, int64_t* indices, void* workspace,
            size_t workspace_bytes, Stream on) {
  auto* const stream = reinterpret_cast<cudaStream_t>(on);
  if (what->n <= kShortRow) {
    bytes_of(what->element) == 8 ? sort_short<Wide>(*what, x, values, indices, stream)
                                 : sort_short<Narrow>(*what, x, values, indices, stream);
    return keep(cudaGetLastError(), "sort_short_rows");
  }
  const Plan plan(*what);
  auto* const memory = static_cast<char*>(workspace);
  uint32_t* places = nullptr;
  const Status status = plan.is_wide
                            ? sort_keys<uint64_t>(*what, plan, x, memory, workspace_bytes, &places, stream)
                            : sort_keys<uint32_t>(*what, plan, x, memory, workspace_bytes, &places, stream);
  if (status != Status::Ok) return status;
  const Sort known(*what);
  write_sorted<<<(known.rows * known.count + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      known, x, places, values, indices);
  return keep(cudaGetLastError(), "write_sorted");
}

}  // namespace

void fill_sort(Driver& driver) {
  driver.sort_workspace = sort_workspace;
  driver.sort = sort;
}

}  // namespace weft::cuda
