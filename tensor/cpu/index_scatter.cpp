// Writing at computed places: assignment and accumulation in an order that threads do not change.
// Place: part of the out-of-line half of tensor/cpu/index.h.
#include <algorithm>
#include <type_traits>

#include "tensor/base/half.h"
#include "tensor/cpu/index.h"
#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

using Array = IndexedLoop::Array;

template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) return to_float(value);
  else if constexpr (std::is_unsigned_v<T> && sizeof(T) < sizeof(unsigned))
    return static_cast<unsigned>(value);
  else return value;
}
template <class T, class V>
T narrow_to(V value) {
  if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(value);
  else if constexpr (std::is_same_v<T, Float16>) return to_float16(value);
  else return static_cast<T>(value);
}

template <ScatterOp op, class T, class S>
T combine(T into, S value) {
  if constexpr (op == ScatterOp::Assign) {
    return value;
  } else if constexpr (std::is_same_v<T, bool>) {
    return op == ScatterOp::Add || op == ScatterOp::Max ? into || value : into && value;
  } else if constexpr (op == ScatterOp::Add) {
    return narrow_to<T>(widen(into) + widen(value));
  } else if constexpr (op == ScatterOp::Multiply) {
    return narrow_to<T>(widen(into) * widen(value));
  } else {
    static_assert(std::is_same_v<T, S>);
    const auto a = widen(into), b = widen(value);
    if (a != a) return into;
    if (b != b) return value;
    return (op == ScatterOp::Max ? b > a : b < a) ? value : into;
  }
}

// A row of targets that one index chose. Sixteen at a time, which the compiler turns into vectors.
template <ScatterOp op, class T, class S>
void combine_row(T* __restrict to, int64_t to_step, const S* __restrict from, int64_t from_step, int64_t n) {
  int64_t j = 0;
  if (to_step == 1 && from_step == 1) {
    for (; j + 16 <= n; j += 16)
      for (int64_t lane = 0; lane < 16; ++lane) to[j + lane] = combine<op>(to[j + lane], from[j + lane]);
  }
  for (; j < n; ++j) to[j * to_step] = combine<op>(to[j * to_step], from[j * from_step]);
}

// Only targets with an index in [first, first + count).
template <ScatterOp op, class T, class S>
void scatter_box(const Box<3>& box, int64_t scale, int64_t first, int64_t count, T* indexed,
                 const int64_t* index, const S* dense) {
  const size_t last = box.sizes.size() - 1;
  const int64_t indexed_step = box.strides[Array::kIndexed][last],
                index_step = box.strides[Array::kIndex][last], dense_step = box.strides[Array::kDense][last];
  box.walk(0, box.numel(), [&](const std::array<int64_t, 3>& offsets, int64_t n) {
    T* to = indexed + offsets[Array::kIndexed];
    const int64_t* at = index + offsets[Array::kIndex];
    const S* from = dense + offsets[Array::kDense];
    if (index_step == 0 && indexed_step != 0) {
      if (static_cast<uint64_t>(*at - first) < static_cast<uint64_t>(count))
        combine_row<op>(to + *at * scale, indexed_step, from, dense_step, n);
      return;
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t i = at[j * index_step];
      if (static_cast<uint64_t>(i - first) >= static_cast<uint64_t>(count)) continue;
      T& target = to[j * indexed_step + i * scale];
      target = combine<op>(target, from[j * dense_step]);
    }
  });
}

// Note [Deterministic scatter]
// Two places may have one target only if they differ along a dimension where the index decides (own stride 0). Threads
// therefore share out another dimension, where there is a long one, or else the targets: then each thread reads every
// index and keeps those of its own range. Either way each target sees its places in row-major order.
template <ScatterOp op, class T, class S>
void scatter_typed(const IndexedLoop& loop, T* indexed, const int64_t* index, const S* dense) {
  const Box<3>& box = loop.box;
  const int64_t n = box.numel(), threads = num_threads();
  if (n <= kMoveGrain || threads == 1 || in_parallel_region()) {
    scatter_box<op>(box, loop.scale, 0, loop.range, indexed, index, dense);
    return;
  }
  const size_t rank = box.sizes.size();
  for (size_t d = 0; d < rank; ++d) {
    const int64_t alignment = d + 1 == rank ? kChunkAlignment : 1;
    if (box.strides[Array::kIndexed][d] == 0 || box.sizes[d] < threads * alignment) continue;
    const int64_t grain = std::max<int64_t>(1, kMoveGrain / (n / box.sizes[d]));
    parallel_for(
        box.sizes[d], grain,
        [&](int64_t begin, int64_t end) {
          Box<3> part = box;
          part.sizes[d] = end - begin;
          scatter_box<op>(part, loop.scale, 0, loop.range, indexed + begin * box.strides[Array::kIndexed][d],
                          index + begin * box.strides[Array::kIndex][d],
                          dense + begin * box.strides[Array::kDense][d]);
        },
        alignment);
    return;
  }
  const int64_t parts = std::min(threads, loop.range);
  const int64_t length = (loop.range + parts - 1) / parts;
  parallel_for(
      parts, 1,
      [&](int64_t begin, int64_t end) {
        scatter_box<op>(box, loop.scale, begin * length, (end - begin) * length, indexed, index, dense);
      },
      1);
}

template <ScatterOp op, class T, class S = T>
void scatter_as(const IndexedLoop& loop, void* indexed, const int64_t* index, const void* dense) {
  scatter_typed<op>(loop, static_cast<T*>(indexed), index, static_cast<const S*>(dense));
}

// Sums and products of integers wrap, so that signed ones run as unsigned.
template <class T>
using Arithmetic = typename std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>,
                                               std::make_unsigned<T>, std::type_identity<T>>::type;

template <class T, class S = T>
void accumulate_as(ScatterOp op, const IndexedLoop& loop, void* indexed, const int64_t* index,
                   const void* dense) {
  if (op == ScatterOp::Add) scatter_as<ScatterOp::Add, T, S>(loop, indexed, index, dense);
  else scatter_as<ScatterOp::Multiply, T, S>(loop, indexed, index, dense);
}

template <class T>
T divide(T value, int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide = static_cast<int64_t>(value);
    return static_cast<T>(wide / count - (wide % count < 0));
  } else {
    return value / static_cast<T>(count);
  }
}

}  // namespace

void scatter(IndexedLoop loop, ScatterOp op, DType target, void* indexed, const int64_t* index, DType source,
             const void* dense) {
  if (loop.box.numel() == 0) return;
  loop.box.coalesce();
  if (op == ScatterOp::Assign) {
    visit_bytes(size_of(target), [&](auto zero) {
      scatter_as<ScatterOp::Assign, decltype(zero)>(loop, indexed, index, dense);
    });
  } else if (op == ScatterOp::Max || op == ScatterOp::Min) {
    visit(target, [&](auto zero) {
      using T = decltype(zero);
      if (op == ScatterOp::Max) scatter_as<ScatterOp::Max, T>(loop, indexed, index, dense);
      else scatter_as<ScatterOp::Min, T>(loop, indexed, index, dense);
    });
  } else if (target != source) {
    WEFT_ASSERT(target == DType::Float32 && is_half(source), target, " from ", source);
    if (source == DType::BFloat16) accumulate_as<float, BFloat16>(op, loop, indexed, index, dense);
    else accumulate_as<float, Float16>(op, loop, indexed, index, dense);
  } else {
    visit(target, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
        WEFT_ASSERT(false, "half types accumulate in float32");
      else accumulate_as<Arithmetic<T>>(op, loop, indexed, index, dense);
    });
  }
}

void divide_by_counts(Box<2> box, DType dtype, void* x, const int64_t* counts) {
  const int64_t n = box.numel();
  if (n == 0) return;
  box.coalesce();
  const int64_t x_step = box.strides[0].back(), count_step = box.strides[1].back();
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16> || std::is_same_v<T, bool>) {
      WEFT_ASSERT(false, "a mean of ", dtype);
    } else {
      parallel_for(n, kMoveGrain, [&](int64_t begin, int64_t end) {
        box.walk(begin, end, [&](const std::array<int64_t, 2>& offsets, int64_t length) {
          T* values = static_cast<T*>(x) + offsets[0];
          const int64_t* at = counts + offsets[1];
          for (int64_t j = 0; j < length; ++j) {
            const int64_t count = at[j * count_step];
            if (count > 1) values[j * x_step] = divide(values[j * x_step], count);
          }
        });
      });
    }
  });
}

}  // namespace weft::cpu
