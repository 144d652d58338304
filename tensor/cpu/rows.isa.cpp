// The row kernels of one instruction set.
// Place: compiled once per set; rows.h chooses. Every expression is that of the op's decomposition, in its order.
#include "tensor/cpu/rows.h"

#include <limits>

#include "tensor/cpu/reduce.h"
#include "tensor/cpu/vec_math.h"
#include "tensor/cpu/vec_memory.h"

// The bodies of the loops below, which must not become calls.
#define WEFT_INLINE_LAMBDA __attribute__((always_inline))

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

// Sixteen elements, the first `count` of them real.
template <class C, class S>
WEFT_INLINE Vec<C> load_row(const S* p, int count) {
  return count == kLanes ? load_as<C>(p) : load_partial<C>(p, count, C(0));
}
template <class S, class C>
WEFT_INLINE void store_row(S* p, Vec<C> x, int count) {
  if (count == kLanes) store_as(p, x);
  else store_partial(p, x, count);
}

// f(i, count) for each vector of a row; the count is known to be kLanes where it is.
template <class F>
WEFT_INLINE void for_each_vector(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, static_cast<int>(n - i));
}

// Σ value(i, count) over a row, by the inner tree. Four values are in flight; `value` may also store what it made.
template <class C, class F>
WEFT_INLINE C sum_row(int64_t n, F value) {
  using V = Vec<C>;
  const auto plus = [](V a, V b) { return a + b; };
  C total = 0;
  for (int64_t begin = 0; begin < n; begin += kInnerBlock) {
    const int64_t end = n - begin < kInnerBlock ? n : begin + kInnerBlock;
    V a0(C(0)), a1(C(0)), a2(C(0)), a3(C(0));
    int64_t i = begin;
    for (; i + 64 <= end; i += 64) {
      a0 += value(i, kLanes);
      a1 += value(i + 16, kLanes);
      a2 += value(i + 32, kLanes);
      a3 += value(i + 48, kLanes);
    }
    V* const rows[4] = {&a0, &a1, &a2, &a3};
    for (int row = 0; i < end; i += kLanes, ++row) {
      const int count = static_cast<int>(end - i < kLanes ? end - i : kLanes);
      const V next = value(i, count);
      *rows[row] += count == kLanes ? next : where(Mask<C>::from_bits((1u << count) - 1), next, V(C(0)));
    }
    total += reduce((a0 + a1) + (a2 + a3), plus);
  }
  return total;
}

template <class C, class S>
C max_row(const S* x, int64_t n) {
  using V = Vec<C>;
  const V lowest(-std::numeric_limits<C>::infinity());
  V a0 = lowest, a1 = lowest, a2 = lowest, a3 = lowest;
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    a0 = maximum(a0, load_as<C>(x + i));
    a1 = maximum(a1, load_as<C>(x + i + 16));
    a2 = maximum(a2, load_as<C>(x + i + 32));
    a3 = maximum(a3, load_as<C>(x + i + 48));
  }
  for (; i < n; i += kLanes) {
    const int count = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    a0 = maximum(a0, count == kLanes ? load_as<C>(x + i)
                                     : load_partial<C>(x + i, count, -std::numeric_limits<C>::infinity()));
  }
  return reduce(maximum(maximum(a0, a1), maximum(a2, a3)), [](V a, V b) { return maximum(a, b); });
}

template <class C>
WEFT_INLINE C rsqrt_of(C x) {
  return rsqrt(Vec<C>(x))[0];
}

template <class S>
struct Rows {
  using C = ComputeType<S>;
  using V = Vec<C>;
  static constexpr bool kHalf = !std::is_same_v<S, C>;

  struct Row {
    const S *x, *dy, *weight, *bias;
    S* out;
    int64_t n;

    WEFT_INLINE V at(int64_t i, int count) const { return load_row<C>(x + i, count); }
    WEFT_INLINE V dy_at(int64_t i, int count) const { return load_row<C>(dy + i, count); }
    WEFT_INLINE V weight_at(int64_t i, int count) const { return load_row<C>(weight + i, count); }
    // dy · weight, or dy.
    template <bool kWeight>
    WEFT_INLINE V scaled_dy(int64_t i, int count) const {
      if constexpr (kWeight) return dy_at(i, count) * weight_at(i, count);
      else return dy_at(i, count);
    }
    // Asks for the same place of the next row while this one is worked on: memory and arithmetic then overlap
    // (softmax of 4096 x 4096 floats, one thread: 5.6 ms with, 8.0 ms without; a copy takes 3.1 ms).
    WEFT_INLINE void prefetch(int64_t i) const {
      __builtin_prefetch(reinterpret_cast<const char*>(x + n + i));
    }
    WEFT_INLINE void prefetch_dy(int64_t i) const {
      __builtin_prefetch(reinterpret_cast<const char*>(dy + n + i));
    }
    // Pays where the arithmetic of a row outweighs its memory: softmax, not the norms.
    WEFT_INLINE void prefetch_out(int64_t i) const {
      __builtin_prefetch(reinterpret_cast<const char*>(out + n + i), 1);
    }
  };

  template <class F>
  static void each_row(const RowCall& call, F f) {
    Row row{static_cast<const S*>(call.x),      static_cast<const S*>(call.dy),
            static_cast<const S*>(call.weight), static_cast<const S*>(call.bias),
            static_cast<S*>(call.out),          call.n};
    for (int64_t r = 0; r < call.rows; ++r) {
      f(row);
      row.x += call.n;
      if (row.dy != nullptr) row.dy += call.n;
      if (row.out != nullptr) row.out += call.n;
    }
  }

  // ---- Softmax

  static void softmax(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      C* const e = kHalf ? static_cast<C*>(call.scratch) : reinterpret_cast<C*>(row.out);
      const V top(max_row<C>(row.x, row.n));
      const V total(sum_row<C>(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        row.prefetch(i);
        row.prefetch_out(i);
        const V value = exp(row.at(i, count) - top);
        store_row(e + i, value, count);
        return value;
      }));
      for_each_vector(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        store_row(row.out + i, load_row<C>(static_cast<const C*>(e) + i, count) / total, count);
      });
    });
  }
  static void log_softmax(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      const V top(max_row<C>(row.x, row.n));
      const V total(sum_row<C>(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        row.prefetch(i);
        row.prefetch_out(i);
        return exp(row.at(i, count) - top);
      }));
      const V shift = log(total);
      for_each_vector(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        store_row(row.out + i, (row.at(i, count) - top) - shift, count);
      });
    });
  }
  static void softmax_backward(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      const V total(sum_row<C>(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        return row.dy_at(i, count) * row.at(i, count);
      }));
      for_each_vector(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        store_row(row.out + i, row.at(i, count) * (row.dy_at(i, count) - total), count);
      });
    });
  }
  static void log_softmax_backward(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      const V total(
          sum_row<C>(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA { return row.dy_at(i, count); }));
      for_each_vector(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        store_row(row.out + i, row.dy_at(i, count) - exp(row.at(i, count)) * total, count);
      });
    });
  }

  // ---- Norms

  // What normalises a row: (x - mean) · rstd; the mean is 0 and not taken off for rms_norm.
  struct Scale {
    V mean, rstd;
  };
  static Scale layer_scale(const Row& row, double eps) {
    const C count(static_cast<C>(row.n));
    const V mean(sum_row<C>(row.n, [&](int64_t i, int k) WEFT_INLINE_LAMBDA { return row.at(i, k); }) /
                 count);
    const C variance = sum_row<C>(row.n,
                                  [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
                                    row.prefetch(i);
                                    const V d = row.at(i, k) - mean;
                                    return d * d;
                                  }) /
                       count;
    return {mean, V(rsqrt_of<C>(variance + static_cast<C>(eps)))};
  }
  static void variance(const RowCall& call) {
    RowCall inputs = call;
    inputs.out = nullptr;
    S* out = static_cast<S*>(call.out);
    each_row(inputs, [&](const Row& row) {
      const V mean(sum_row<C>(row.n, [&](int64_t i, int k) WEFT_INLINE_LAMBDA { return row.at(i, k); }) /
                   static_cast<C>(row.n));
      const C total = sum_row<C>(row.n, [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
        row.prefetch(i);
        const V d = row.at(i, k) - mean;
        return d * d;
      });
      store_partial(out++, V(total / static_cast<C>(call.divisor)), 1);
    });
  }
  static Scale rms_scale(const Row& row, double eps) {
    const C mean_square = sum_row<C>(row.n,
                                     [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
                                       row.prefetch(i);
                                       const V x = row.at(i, k);
                                       return x * x;
                                     }) /
                          static_cast<C>(row.n);
    return {V(C(0)), V(rsqrt_of<C>(mean_square + static_cast<C>(eps)))};
  }
  template <bool kLayer>
  static Scale scale_of(const Row& row, double eps) {
    if constexpr (kLayer) return layer_scale(row, eps);
    else return rms_scale(row, eps);
  }
  template <bool kLayer>
  WEFT_INLINE static V normalised(const Row& row, const Scale& scale, int64_t i, int count) {
    if constexpr (kLayer) return (row.at(i, count) - scale.mean) * scale.rstd;
    else return row.at(i, count) * scale.rstd;
  }

  template <bool kLayer, bool kWeight, bool kBias>
  static void norm_rows(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      const Scale scale = scale_of<kLayer>(row, call.eps);
      for_each_vector(row.n, [&](int64_t i, int count) WEFT_INLINE_LAMBDA {
        V y = normalised<kLayer>(row, scale, i, count);
        if constexpr (kWeight) y = y * row.weight_at(i, count);
        if constexpr (kBias) y = y + load_row<C>(row.bias + i, count);
        store_row(row.out + i, y, count);
      });
    });
  }
  template <bool kLayer>
  static void norm(const RowCall& call) {
    if constexpr (kLayer) {
      if (call.bias != nullptr) {
        if (call.weight != nullptr) norm_rows<kLayer, true, true>(call);
        else norm_rows<kLayer, false, true>(call);
        return;
      }
    }
    if (call.weight != nullptr) norm_rows<kLayer, true, false>(call);
    else norm_rows<kLayer, false, false>(call);
  }

  // g = dy · weight, y = the normalised x: dx = (g - mean(g) - y · mean(g · y)) · rstd, without mean(g) for rms_norm.
  template <bool kLayer, bool kWeight>
  static void norm_backward_rows(const RowCall& call) {
    each_row(call, [&](const Row& row) {
      const Scale scale = scale_of<kLayer>(row, call.eps);
      const C count(static_cast<C>(row.n));
      V mean_g(C(0));
      if constexpr (kLayer) {
        mean_g =
            V(sum_row<C>(row.n, [&](int64_t i, int k)
                                    WEFT_INLINE_LAMBDA { return row.template scaled_dy<kWeight>(i, k); }) /
              count);
      }
      const V mean_gy(sum_row<C>(row.n,
                                 [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
                                   return row.template scaled_dy<kWeight>(i, k) *
                                          normalised<kLayer>(row, scale, i, k);
                                 }) /
                      count);
      for_each_vector(row.n, [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
        V g = row.template scaled_dy<kWeight>(i, k);
        if constexpr (kLayer) g = g - mean_g;
        store_row(row.out + i, (g - normalised<kLayer>(row, scale, i, k) * mean_gy) * scale.rstd, k);
      });
    });
  }
  template <bool kLayer>
  static void norm_backward(const RowCall& call) {
    if (call.weight != nullptr) norm_backward_rows<kLayer, true>(call);
    else norm_backward_rows<kLayer, false>(call);
  }

  template <bool kLayer>
  static void norm_backward_weight(const RowCall& call) {
    C* const totals = static_cast<C*>(call.out);
    RowCall inputs = call;
    inputs.out = nullptr;
    each_row(inputs, [&](const Row& row) {
      const Scale scale = scale_of<kLayer>(row, call.eps);
      for_each_vector(row.n, [&](int64_t i, int k) WEFT_INLINE_LAMBDA {
        const V old = load_row<C>(static_cast<const C*>(totals) + i, k);
        store_row(totals + i, old + row.dy_at(i, k) * normalised<kLayer>(row, scale, i, k), k);
      });
    });
  }

  static constexpr RowKernels kernels() {
    return {softmax,
            log_softmax,
            softmax_backward,
            log_softmax_backward,
            norm<true>,
            norm<false>,
            norm_backward<true>,
            norm_backward<false>,
            norm_backward_weight<true>,
            norm_backward_weight<false>,
            variance};
  }
};

}  // namespace

const RowKernels* row_kernels() {
  static constexpr RowKernels kernels[kNumDTypes] = {Rows<float>::kernels(), Rows<double>::kernels(),
                                                     Rows<BFloat16>::kernels(), Rows<Float16>::kernels()};
  static_assert(static_cast<int>(DType::Float16) == 3);
  return kernels;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
