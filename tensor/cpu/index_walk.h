// Walking several strided arrays over the places of one box.
// Needs base. Used by the kernels that move elements by index.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/base/small_vector.h"

namespace weft::cpu {

using IndexList = SmallVector<int64_t, 6>;

// The places of a box in row-major order, and where K arrays stand at each of them. Strides in elements.
template <int K>
struct Box {
  IndexList sizes;
  std::array<IndexList, K> strides;

  int64_t numel() const {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
  }

  // Drops dimensions of size 1 and joins neighbours that every array crosses evenly; at least one dimension stays.
  void coalesce() {
    size_t kept = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      bool joins = kept > 0;
      for (const IndexList& stride : strides) joins = joins && stride[kept - 1] == stride[d] * sizes[d];
      if (!joins) ++kept;
      sizes[kept - 1] = joins ? sizes[kept - 1] * sizes[d] : sizes[d];
      for (IndexList& stride : strides) stride[kept - 1] = stride[d];
    }
    if (kept == 0) {
      sizes = {1};
      for (IndexList& stride : strides) stride = {0};
      return;
    }
    sizes.resize(kept);
    for (IndexList& stride : strides) stride.resize(kept);
  }

  // Calls f(offsets, n) for the places [begin, end): n of them along the last dimension, the arrays starting at `offsets`.
  template <class F>
  void walk(int64_t begin, int64_t end, const F& f) const {
    const size_t last = sizes.size() - 1;
    IndexList at(sizes.size(), 0);
    std::array<int64_t, K> offsets{};
    int64_t rest = begin;
    for (size_t d = sizes.size(); d-- > 0;) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int k = 0; k < K; ++k) offsets[k] += at[d] * strides[k][d];
    }
    while (begin < end) {
      const int64_t n = std::min(end - begin, sizes[last] - at[last]);
      f(offsets, n);
      begin += n;
      if (begin >= end) return;
      for (int k = 0; k < K; ++k) offsets[k] -= at[last] * strides[k][last];
      at[last] = 0;
      for (size_t d = last; d-- > 0;) {
        for (int k = 0; k < K; ++k) offsets[k] += strides[k][d];
        if (++at[d] < sizes[d]) break;
        for (int k = 0; k < K; ++k) offsets[k] -= at[d] * strides[k][d];
        at[d] = 0;
      }
    }
  }
};

// A thread's start costs about as much as moving this many elements.
inline constexpr int64_t kMoveGrain = 8192;

// Calls f with an unsigned zero of that many bytes.
template <class F>
decltype(auto) visit_bytes(size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

}  // namespace weft::cpu
