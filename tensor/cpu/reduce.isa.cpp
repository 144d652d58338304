// The fold kernels of one instruction set.
// Place: compiled once per set; reduce.h chooses. The order of every fold is Note [Reduction tree].
#include "tensor/cpu/reduce.h"

#include <limits>

#include "tensor/cpu/vec_memory.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

struct SumFold {
  template <class V>
  WEFT_INLINE V operator()(V a, V b) const {
    return a + b;
  }
  template <class C>
  static constexpr C identity() {
    return C(0);
  }
};
struct ProdFold {
  template <class V>
  WEFT_INLINE V operator()(V a, V b) const {
    return a * b;
  }
  template <class C>
  static constexpr C identity() {
    return C(1);
  }
};
struct MaxFold {
  template <class V>
  WEFT_INLINE V operator()(V a, V b) const {
    return maximum(a, b);
  }
  template <class C>
  static constexpr C identity() {
    if constexpr (std::is_floating_point_v<C>) return -std::numeric_limits<C>::infinity();
    else return std::numeric_limits<C>::lowest();
  }
};
struct MinFold {
  template <class V>
  WEFT_INLINE V operator()(V a, V b) const {
    return minimum(a, b);
  }
  template <class C>
  static constexpr C identity() {
    if constexpr (std::is_floating_point_v<C>) return std::numeric_limits<C>::infinity();
    else return std::numeric_limits<C>::max();
  }
};

constexpr int64_t kRowsAhead = 16;

template <class F, class S>
struct Folds {
  using C = ComputeType<S>;
  using V = Vec<C>;
  static constexpr F fold{};
  static V identity() { return V(F::template identity<C>()); }
  // Two lone numbers meet as lane 0.
  static C fold_two(C a, C b) { return fold(V(a), V(b))[0]; }

  static C block(const S* x, int64_t n) {
    V a0 = identity(), a1 = a0, a2 = a0, a3 = a0;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
      a0 = fold(a0, load_as<C>(x + i));
      a1 = fold(a1, load_as<C>(x + i + 16));
      a2 = fold(a2, load_as<C>(x + i + 32));
      a3 = fold(a3, load_as<C>(x + i + 48));
    }
    V* const rows[4] = {&a0, &a1, &a2, &a3};
    for (int row = 0; i < n; i += kLanes, ++row) {
      const V next = i + kLanes <= n
                         ? load_as<C>(x + i)
                         : load_partial<C>(x + i, static_cast<int>(n - i), F::template identity<C>());
      *rows[row] = fold(*rows[row], next);
    }
    return reduce(fold(fold(a0, a1), fold(a2, a3)), fold);
  }

  static void run(const void* x, int64_t n, void* value) {
    const S* p = static_cast<const S*>(x);
    C total = F::template identity<C>();
    for (int64_t i = 0; i < n; i += kInnerBlock)
      total = fold_two(total, block(p + i, n - i < kInnerBlock ? n - i : kInnerBlock));
    *static_cast<C*>(value) = total;
  }

  static void columns(const void* x, int64_t row_stride, int64_t n, int64_t width, void* values) {
    alignas(64) C slots[kInnerSlots * kColumns];
    C* const totals = static_cast<C*>(values);
    fill_identity(totals, width);
    const int64_t vectors = (width + kLanes - 1) / kLanes;
    const int64_t whole = width / kLanes;
    const int rest = static_cast<int>(width % kLanes);
    for (int64_t begin = 0; begin < n; begin += kInnerBlock) {
      const int64_t end = n - begin < kInnerBlock ? n : begin + kInnerBlock;
      fill_identity(slots, kInnerSlots * kColumns);
      for (int64_t i = begin; i < end; ++i) {
        const S* row = static_cast<const S*>(x) + i * row_stride;
        C* slot = slots + (i - begin) % kInnerSlots * kColumns;
        // Rows lie pages apart: no hardware prefetcher follows.
        for (int64_t k = 0; k < vectors; ++k)
          __builtin_prefetch(reinterpret_cast<const char*>(row + kRowsAhead * row_stride + k * kLanes));
        for (int64_t k = 0; k < whole; ++k)
          fold(V::load(slot + k * kLanes), load_as<C>(row + k * kLanes)).store(slot + k * kLanes);
        if (rest != 0) {
          C* last = slot + whole * kLanes;
          fold(V::load(last), load_partial<C>(row + whole * kLanes, rest, C(0))).store(last);
        }
      }
      // The lanes of the tree lie in rows here: rows 0-3 of 16, then lane with lane.
      for (int64_t k = 0; k < vectors; ++k) {
        V lane[kLanes];
        const auto at = [&](int64_t slot) { return V::load(slots + slot * kColumns + k * kLanes); };
        for (int l = 0; l < kLanes; ++l)
          lane[l] = fold(fold(at(l), at(l + 16)), fold(at(l + 32), at(l + 48)));
        for (int step = 8; step > 0; step /= 2)
          for (int l = 0; l < step; ++l) lane[l] = fold(lane[l], lane[l + step]);
        const int64_t c = k * kLanes;
        if (k < whole) fold(V::load(totals + c), lane[0]).store(totals + c);
        else
          store_partial(totals + c,
                        fold(load_partial<C>(static_cast<const C*>(totals + c), rest, C(0)), lane[0]), rest);
      }
    }
  }

  static void rows(void* totals, const void* x, int64_t row_stride, int64_t rows, int64_t width) {
    C* const total = static_cast<C*>(totals);
    const S* row = static_cast<const S*>(x);
    int64_t r = 0;
    // Eight rows for each pass over the totals.
    for (; r + 8 <= rows; r += 8, row += 8 * row_stride) {
      int64_t c = 0;
      for (; c + kLanes <= width; c += kLanes) {
        V a = V::load(total + c);
        detail::each<8>([&](int k) { a = fold(a, load_as<C>(row + k * row_stride + c)); });
        a.store(total + c);
      }
      if (c < width) {
        const int rest = static_cast<int>(width - c);
        V a = load_partial<C>(static_cast<const C*>(total + c), rest, C(0));
        for (int k = 0; k < 8; ++k) a = fold(a, load_partial<C>(row + k * row_stride + c, rest, C(0)));
        store_partial(total + c, a, rest);
      }
    }
    for (; r < rows; ++r, row += row_stride) {
      int64_t c = 0;
      for (; c + kLanes <= width; c += kLanes) fold(V::load(total + c), load_as<C>(row + c)).store(total + c);
      if (c < width) {
        const int rest = static_cast<int>(width - c);
        store_partial(total + c,
                      fold(load_partial<C>(static_cast<const C*>(total + c), rest, C(0)),
                           load_partial<C>(row + c, rest, C(0))),
                      rest);
      }
    }
  }

  static void serial(void* total, const void* values, int64_t n) {
    const C* value = static_cast<const C*>(values);
    V a(*static_cast<C*>(total));
    for (int64_t i = 0; i < n; ++i) a = fold(a, V(value[i]));
    *static_cast<C*>(total) = a[0];
  }

  static void fill_identity(void* totals, int64_t n) {
    C* const total = static_cast<C*>(totals);
    for (int64_t i = 0; i < n; ++i) total[i] = F::template identity<C>();
  }
};

template <class F, class S>
constexpr FoldKernels kernels_of() {
  using K = Folds<F, S>;
  return {K::run, K::columns, K::rows, K::serial, K::fill_identity};
}

template <class F>
void fill_fold(FoldKernels* row) {
  row[static_cast<int>(DType::Float32)] = kernels_of<F, float>();
  row[static_cast<int>(DType::Float64)] = kernels_of<F, double>();
  row[static_cast<int>(DType::BFloat16)] = kernels_of<F, BFloat16>();
  row[static_cast<int>(DType::Float16)] = kernels_of<F, Float16>();
  row[static_cast<int>(DType::Int64)] = kernels_of<F, int64_t>();
  row[static_cast<int>(DType::Int32)] = kernels_of<F, int32_t>();
}

}  // namespace

const ReduceKernels& reduce_kernels() {
  static const ReduceKernels kernels = [] {
    ReduceKernels result;
    fill_fold<SumFold>(result.kernels[static_cast<int>(Fold::Sum)]);
    fill_fold<ProdFold>(result.kernels[static_cast<int>(Fold::Prod)]);
    fill_fold<MaxFold>(result.kernels[static_cast<int>(Fold::Max)]);
    fill_fold<MinFold>(result.kernels[static_cast<int>(Fold::Min)]);
    return result;
  }();
  return kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
