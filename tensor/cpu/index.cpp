// Reading at computed places: gather, offsets from several indices, the check of bounds.
// Place: the out-of-line half of tensor/cpu/index.h, with index_scatter.cpp and index_move.cpp.
#include "tensor/cpu/index.h"

#include <atomic>
#include <cstring>

#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

using Array = IndexedLoop::Array;

template <class T>
void copy_row(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t j = 0; j < n; ++j) to[j * to_step] = from[j * from_step];
}

template <class T>
bool gather_places(const IndexedLoop& loop, const T* indexed, const int64_t* index, T* dense, int64_t begin,
                   int64_t end) {
  const size_t last = loop.box.sizes.size() - 1;
  const int64_t indexed_step = loop.box.strides[Array::kIndexed][last],
                index_step = loop.box.strides[Array::kIndex][last],
                dense_step = loop.box.strides[Array::kDense][last];
  const int64_t scale = loop.scale;
  const auto range = static_cast<uint64_t>(loop.range);
  bool in_range = true;
  loop.box.walk(begin, end, [&](const std::array<int64_t, 3>& offsets, int64_t n) {
    const T* from = indexed + offsets[Array::kIndexed];
    const int64_t* at = index + offsets[Array::kIndex];
    T* to = dense + offsets[Array::kDense];
    if (index_step == 0) {
      if (static_cast<uint64_t>(*at) >= range) in_range = false;
      else copy_row(from + *at * scale, indexed_step, to, dense_step, n);
      return;
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t i = at[j * index_step];
      if (static_cast<uint64_t>(i) >= range) {
        in_range = false;
        return;
      }
      to[j * dense_step] = from[j * indexed_step + i * scale];
    }
  });
  return in_range;
}

}  // namespace

bool gather(IndexedLoop loop, size_t element_size, const void* indexed, const int64_t* index, void* dense) {
  const int64_t n = loop.box.numel();
  if (n == 0) return true;
  loop.box.coalesce();
  std::atomic<bool> in_range{true};
  visit_bytes(element_size, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(n, kMoveGrain, [&](int64_t begin, int64_t end) {
      if (!gather_places(loop, static_cast<const T*>(indexed), index, static_cast<T*>(dense), begin, end))
        in_range = false;
    });
  });
  return in_range;
}

int64_t find_out_of_range(Box<1> box, const int64_t* index, int64_t low, int64_t high) {
  const int64_t n = box.numel();
  if (n == 0) return -1;
  box.coalesce();
  const int64_t step = box.strides[0].back();
  const auto range = static_cast<uint64_t>(high - low);
  std::atomic<int64_t> first{n};
  parallel_for(n, 4 * kMoveGrain, [&](int64_t begin, int64_t end) {
    int64_t place = begin;
    box.walk(begin, end, [&](const std::array<int64_t, 1>& offsets, int64_t count) {
      const int64_t* at = index + offsets[0];
      for (int64_t j = 0; j < count; ++j) {
        if (static_cast<uint64_t>(at[j * step]) - static_cast<uint64_t>(low) < range) continue;
        int64_t known = first;
        while (place + j < known && !first.compare_exchange_weak(known, place + j)) {
        }
        break;
      }
      place += count;
    });
  });
  return first == n ? -1 : first.load();
}

void add_offsets(const Box<1>& box, const int64_t* index, int64_t size, int64_t scale, int64_t* sum) {
  const int64_t n = box.numel(), step = box.strides[0].back();
  parallel_for(n, kMoveGrain, [&](int64_t begin, int64_t end) {
    int64_t* to = sum + begin;
    box.walk(begin, end, [&](const std::array<int64_t, 1>& offsets, int64_t count) {
      const int64_t* at = index + offsets[0];
      for (int64_t j = 0; j < count; ++j) {
        const int64_t i = at[j * step];
        to[j] += scale * (i < 0 ? i + size : i);
      }
      to += count;
    });
  });
}

}  // namespace weft::cpu
