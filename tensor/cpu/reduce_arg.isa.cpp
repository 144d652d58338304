// Arg-extremes and scans of one instruction set.
// Place: compiled once per set; reduce_arg.h chooses.
#include "tensor/cpu/reduce_arg.h"

#include "tensor/cpu/vec_memory.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

// Rows lie pages apart: no hardware prefetcher follows.
constexpr int64_t kRowsAhead = 16;

template <class S>
struct Args {
  using C = ComputeType<S>;
  using V = Vec<C>;
  using I = typename V::Int;

  static V load(const S* p, int64_t left) {
    return left >= kLanes ? load_as<C>(p) : load_partial<C>(p, static_cast<int>(left), C(0));
  }

  static int64_t find(const void* x, int64_t n, const void* value) {
    const S* p = static_cast<const S*>(x);
    const V wanted(*static_cast<const C*>(value));
    const bool want_nan = is_nan(wanted)[0];
    for (int64_t i = 0; i < n; i += kLanes) {
      const V v = load(p + i, n - i);
      uint32_t hits = (want_nan ? is_nan(v) : v == wanted).bits();
      if (n - i < kLanes) hits &= (1u << (n - i)) - 1;
      if (hits != 0) return i + __builtin_ctz(hits);
    }
    return n;
  }

  template <bool kMax>
  static void columns(const void* x, int64_t row_stride, int64_t n, int64_t width, int64_t* index) {
    const S* p = static_cast<const S*>(x);
    const int64_t vectors = (width + kLanes - 1) / kLanes;
    V best[kArgColumns / kLanes];
    Vec<I> place[kArgColumns / kLanes];
    int64_t base[kArgColumns] = {};
    // Places are counted in integers of the element's width: restarted before they overflow.
    constexpr int64_t kMost = int64_t{1} << 30;
    for (int64_t k = 0; k < vectors; ++k) {
      best[k] = load(p + k * kLanes, width - k * kLanes);
      place[k] = Vec<I>(I(0));
    }
    for (int64_t start = 0; start < n; start += kMost) {
      const int64_t end = n - start < kMost ? n : start + kMost;
      for (int64_t k = 0; start > 0 && k < vectors; ++k) place[k] = Vec<I>(I(-1));
      for (int64_t r = start; r < end; ++r) {
        const S* row = p + r * row_stride;
        for (int64_t k = 0; k < vectors; ++k) {
          __builtin_prefetch(reinterpret_cast<const char*>(row + kRowsAhead * row_stride + k * kLanes));
          const V v = load(row + k * kLanes, width - k * kLanes);
          const auto better = kMax ? v > best[k] : v < best[k];
          const auto take = better | (is_nan(v) & !is_nan(best[k]));
          best[k] = where(take, v, best[k]);
          place[k] = as_place(take, static_cast<I>(r - start), place[k]);
        }
      }
      for (int64_t k = 0; k < vectors; ++k) {
        I found[kLanes];
        place[k].store(found);
        for (int64_t lane = 0; lane < kLanes; ++lane)
          if (found[lane] >= 0) base[k * kLanes + lane] = start + found[lane];
      }
    }
    for (int64_t c = 0; c < width; ++c) index[c] = base[c];
  }
  static Vec<I> as_place(Mask<C> take, I place, Vec<I> old) {
    if constexpr (std::is_same_v<I, C>) return where(take, Vec<I>(place), old);
    else return as_int(where(take, bitcast<C>(Vec<I>(place)), bitcast<C>(old)));
  }

  template <bool kSum>
  static void scan(const void* x, void* out, int64_t row_stride, int64_t n, int64_t width) {
    const S* p = static_cast<const S*>(x);
    S* to = static_cast<S*>(out);
    const auto fold = [](V a, V b) { return kSum ? a + b : a * b; };
    const C identity = kSum ? C(0) : C(1);
    if constexpr (std::is_same_v<S, C>) {
      if (width == 1) {  // one addition after the other, on plain numbers
        using U = std::conditional_t<std::is_same_v<C, int64_t>, uint64_t, C>;
        U total = static_cast<U>(identity);
        for (int64_t r = 0; r < n; ++r) {
          const U next = static_cast<U>(p[r * row_stride]);
          total = kSum ? total + next : total * next;
          to[r * row_stride] = static_cast<C>(total);
        }
        return;
      }
    }
    const int64_t vectors = (width + kLanes - 1) / kLanes;
    V totals[kArgColumns / kLanes];
    for (int64_t k = 0; k < vectors; ++k) totals[k] = V(identity);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t k = 0; k < vectors; ++k) {
        const int64_t at = r * row_stride + k * kLanes, left = width - k * kLanes;
        totals[k] = fold(totals[k], load(p + at, left));
        if (left >= kLanes) store_as(to + at, totals[k]);
        else store_partial(to + at, totals[k], static_cast<int>(left));
      }
    }
  }

  static ArgKernels kernels() { return {find, columns<true>, columns<false>, scan<true>, scan<false>}; }
};

}  // namespace

const ArgKernels* arg_kernels() {
  struct Table {
    ArgKernels kernels[kNumDTypes];
    Table() {
      kernels[static_cast<int>(DType::Float32)] = Args<float>::kernels();
      kernels[static_cast<int>(DType::Float64)] = Args<double>::kernels();
      kernels[static_cast<int>(DType::BFloat16)] = Args<BFloat16>::kernels();
      kernels[static_cast<int>(DType::Float16)] = Args<Float16>::kernels();
      kernels[static_cast<int>(DType::Int64)] = Args<int64_t>::kernels();
      kernels[static_cast<int>(DType::Int32)] = Args<int32_t>::kernels();
    }
  };
  static const Table table;
  return table.kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
