// The matrix product kernels of one instruction set: packed panels, a tile of sums in registers, matrix times vector.
// Place: compiled once per set; gemm.cpp cuts the work into blocks and spreads them over threads.
#include <cstring>
#include <utility>

#include "tensor/cpu/gemm.h"
#include "tensor/cpu/vec_memory.h"

namespace weft::cpu {
inline namespace WEFT_ISA_NAMESPACE {
namespace {

// f(0), f(1), … f(N-1) with constant arguments, so that arrays of registers stay in registers.
template <int N, class F>
WEFT_INLINE void unrolled(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

// The tile of sums held in registers: 24 of 32 registers with AVX-512, 12 of 16 with AVX2. Columns come in sixteens, the
// pieces in which the conversions work.
#if defined(__AVX512BW__)
constexpr int kTileRows = 8, kTileRegisters = 3;
#elif defined(__AVX2__)
constexpr int kTileRows = 6, kTileRegisters = 2;
#else
constexpr int kTileRows = 2, kTileRegisters = 4;
#endif
template <class C>
constexpr int kTileCols = kTileRegisters* kRegisterLanes<C>;

// Terms of k in one pass: a panel of b (256 × 48 floats) then fills an L1 cache of 48 KB and half of it fits 32 KB.
constexpr int64_t kPassTerms = 256;

template <class C>
WEFT_INLINE Register<C> multiply_add(Register<C> a, Register<C> b, Register<C> c) {
  if constexpr (std::is_floating_point_v<C>) {
    return detail::fma(a, b, c);
  } else {
    using Unsigned = detail::Native<UnsignedOf<C>>;
    return (typename Register<C>::register_type)((Unsigned)a.data * (Unsigned)b.data + (Unsigned)c.data);
  }
}
template <class C>
WEFT_INLINE Register<C> load_register(const C* p) {
  return Register<C>::load_unaligned(p);
}

// c += a · b for one tile of so many registers of columns and k terms; a at a[i * a_row + p * a_step], b at b[p * b_step + j].
// `fresh` starts from zero.
template <class C, int kTileRegisters>
[[gnu::noinline]] void multiply_columns(int64_t k, const C* a, int64_t a_row, int64_t a_step, const C* b,
                                        int64_t b_step, C* c, int64_t c_row, bool fresh) {
  Register<C> sums[kTileRows][kTileRegisters];
  if (fresh) {
    unrolled<kTileRows>(
        [&](auto i) { unrolled<kTileRegisters>([&](auto j) { sums[i][j] = Register<C>(C(0)); }); });
  } else {
    unrolled<kTileRows>([&](auto i) {
      unrolled<kTileRegisters>(
          [&](auto j) { sums[i][j] = load_register(c + i * c_row + j * kRegisterLanes<C>); });
    });
  }
  for (int64_t p = 0; p < k; ++p, a += a_step, b += b_step) {
    Register<C> row[kTileRegisters];
    unrolled<kTileRegisters>([&](auto j) { row[j] = load_register(b + j * kRegisterLanes<C>); });
    unrolled<kTileRows>([&](auto i) {
      const Register<C> factor(a[i * a_row]);
      unrolled<kTileRegisters>([&](auto j) { sums[i][j] = multiply_add<C>(factor, row[j], sums[i][j]); });
    });
  }
  unrolled<kTileRows>([&](auto i) {
    unrolled<kTileRegisters>(
        [&](auto j) { sums[i][j].store_unaligned(c + i * c_row + j * kRegisterLanes<C>); });
  });
}

// The registers of a tile that have any of its first `cols` columns; the others are left as they are.
template <class C>
WEFT_INLINE void multiply_tile(int64_t cols, int64_t k, const C* a, int64_t a_row, int64_t a_step, const C* b,
                               int64_t b_step, C* c, int64_t c_row, bool fresh) {
  unrolled<kTileRegisters>([&](auto last) {
    constexpr int before = last * kRegisterLanes<C>;
    if (cols > before && (cols <= before + kRegisterLanes<C> || last == kTileRegisters - 1))
      multiply_columns<C, last + 1>(k, a, a_row, a_step, b, b_step, c, c_row, fresh);
  });
}

// Sixteen elements or the first n of them, at any stride, in the accumulation type; the rest zero.
template <class S, class C>
WEFT_INLINE Vec<C> load_strided(const S* p, int64_t stride, int n) {
  if (stride == 1 && n == kLanes) return load_as<C>(p);
  S elements[kLanes];
  std::memset(static_cast<void*>(elements), 0, sizeof(elements));
  if (stride == 1) copy_few<S>(elements, p, n);
  else
    for (int i = 0; i < n; ++i) elements[i] = p[i * stride];
  return load_as<C>(static_cast<const S*>(elements));
}
WEFT_INLINE int lanes_left(int64_t n) { return n < kLanes ? int(n) : kLanes; }

// [k][kTileRows]: k terms of up to kTileRows rows, missing rows zero.
template <class S, class C>
void pack_rows(const S* a, int64_t a_row, int64_t a_col, int64_t rows, int64_t k, C* to) {
  if (rows < kTileRows) std::memset(static_cast<void*>(to), 0, sizeof(C) * size_t(k) * kTileRows);
  if (a_row == 1) {
    for (int64_t p = 0; p < k; ++p) {
      if constexpr (std::is_same_v<S, C>) {
        if (rows == kTileRows) {
          std::memcpy(to + p * kTileRows, a + p * a_col, sizeof(C) * kTileRows);
          continue;
        }
      }
      C lanes[kLanes];
      load_strided<S, C>(a + p * a_col, 1, int(rows)).store(lanes);
      for (int64_t i = 0; i < rows; ++i) to[p * kTileRows + i] = lanes[i];
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t p = 0; p < k; p += kLanes) {
      const int n = lanes_left(k - p);
      C lanes[kLanes];
      load_strided<S, C>(a + i * a_row + p * a_col, a_col, n).store(lanes);
      for (int q = 0; q < n; ++q) to[(p + q) * kTileRows + i] = lanes[q];
    }
  }
}

// [k][kTileCols]: k terms of up to kTileCols columns, missing columns zero.
template <class S, class C>
void pack_cols(const S* b, int64_t b_row, int64_t b_col, int64_t cols, int64_t k, C* to) {
  constexpr int width = kTileCols<C>;
  if (b_row == 1 && b_col != 1) {
    if (cols < width) std::memset(static_cast<void*>(to), 0, sizeof(C) * size_t(k) * width);
    for (int64_t p = 0; p < k; p += kLanes) {
      const int n = lanes_left(k - p);
      for (int64_t j = 0; j < cols; ++j) {
        C lanes[kLanes];
        load_strided<S, C>(b + p + j * b_col, 1, n).store(lanes);
        for (int q = 0; q < n; ++q) to[(p + q) * width + j] = lanes[q];
      }
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    const S* from = b + p * b_row;
    if constexpr (std::is_same_v<S, C>) {
      if (b_col == 1) {
        copy_few<C>(to + p * width, from, cols);
        if (cols < width)
          std::memset(static_cast<void*>(to + p * width + cols), 0, sizeof(C) * size_t(width - cols));
      } else {
        for (int64_t j = 0; j < width; ++j) to[p * width + j] = j < cols ? from[j * b_col] : C(0);
      }
    } else {
      static_assert(width % kLanes == 0);
      for (int64_t j = 0; j < width; j += kLanes) {
        const int n = j < cols ? lanes_left(cols - j) : 0;
        load_strided<S, C>(from + j * b_col, b_col, n).store(to + p * width + j);
      }
    }
  }
}

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Workspace of a block: one packed pass of b, one panel of a, a tile, and the sums where they are not c itself.
template <class S, class C>
int64_t workspace_bytes(int64_t rows, int64_t cols, int64_t k) {
  const int64_t terms = k < kPassTerms ? k : kPassTerms, width = round_up(cols, kTileCols<C>);
  int64_t elements = terms * width + round_up(terms * kTileRows, 16) + kTileRows * kTileCols<C>;
  if (!std::is_same_v<S, C>) elements += round_up(rows, kTileRows) * width;
  return elements * int64_t(sizeof(C)) + 4 * 64;
}

template <class S, class C>
void finish(int64_t n, const void* sums_ptr, const Epilogue& epilogue, const void* x_ptr, int64_t x_stride,
            void* out_ptr) {
  const C* sums = static_cast<const C*>(sums_ptr);
  const S* x = static_cast<const S*>(x_ptr);
  S* out = static_cast<S*>(out_ptr);
  C alpha, beta;
  if constexpr (std::is_floating_point_v<C>) alpha = C(epilogue.alpha), beta = C(epilogue.beta);
  else alpha = C(epilogue.int_alpha), beta = C(epilogue.int_beta);
  const Vec<C> alphas(alpha), betas(beta);
  const bool scale = alpha != 1, scale_x = beta != 1;
  Vec<C> same(C(0));
  if (x != nullptr && x_stride == 0) {
    S copies[kLanes];
    for (S& copy : copies) copy = *x;
    same = load_as<C>(static_cast<const S*>(copies));
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = lanes_left(n - i);
    Vec<C> value = load_strided<C, C>(sums + i, 1, count);
    if (scale) value = alphas * value;
    if (x != nullptr) {
      const Vec<C> summand = x_stride == 0 ? same : load_strided<S, C>(x + i * x_stride, x_stride, count);
      value = value + (scale_x ? betas * summand : summand);
    }
    if (count == kLanes) store_as(out + i, value);
    else store_partial(out + i, value, count);
  }
}

template <class C>
C* carve(char*& workspace, int64_t elements) {
  C* result = reinterpret_cast<C*>(workspace);
  workspace += round_up(elements * int64_t(sizeof(C)), 64);
  return result;
}

template <class S, class C>
void multiply_block(const Gemm& g, const GemmBlock& block, char* workspace) {
  constexpr bool same = std::is_same_v<S, C>;
  constexpr int width = kTileCols<C>;
  const int64_t rows = block.row_end - block.row, cols = block.col_end - block.col;
  const S* a = static_cast<const S*>(g.a) + block.batch * g.a_batch + block.row * g.a_row;
  const S* b = static_cast<const S*>(g.b) + block.batch * g.b_batch + block.col * g.b_col;
  S* c = static_cast<S*>(g.c) + block.batch * g.c_batch + block.row * g.c_row + block.col;

  const int64_t longest = g.k < kPassTerms ? g.k : kPassTerms;
  C* packed_b = carve<C>(workspace, longest * round_up(cols, width));
  C* packed_a = carve<C>(workspace, longest * kTileRows);
  C* tile = carve<C>(workspace, kTileRows * width);
  C* sums;
  int64_t sums_row;
  if constexpr (same) {
    sums = c, sums_row = g.c_row;
  } else {
    sums_row = round_up(cols, width);
    sums = carve<C>(workspace, round_up(rows, kTileRows) * sums_row);
  }
  // Few rows do not repay packing b.
  const bool read_b = same && g.b_col == 1 && rows <= 4 * kTileRows;
  if (g.k == 0) {
    for (int64_t i = 0; i < rows; ++i)
      std::memset(static_cast<void*>(sums + i * sums_row), 0, sizeof(C) * size_t(cols));
  }
  for (int64_t p = 0; p < g.k; p += kPassTerms) {
    const int64_t terms = g.k - p < kPassTerms ? g.k - p : kPassTerms;
    const bool fresh = p == 0;
    for (int64_t j = 0; j < cols; j += width) {
      const int64_t count = cols - j < width ? cols - j : width;
      if (read_b && count % kRegisterLanes<C> == 0) continue;
      pack_cols<S, C>(b + p * g.b_row + j * g.b_col, g.b_row, g.b_col, count, terms, packed_b + j * terms);
    }
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const int64_t row_count = rows - i < kTileRows ? rows - i : kTileRows;
      const S* rows_of_a = a + i * g.a_row + p * g.a_col;
      const C* from_a = packed_a;
      int64_t a_row = 1, a_step = kTileRows;
      bool packed = true;
      if constexpr (same) {
        if (g.a_col == 1 && row_count == kTileRows)
          from_a = rows_of_a, a_row = g.a_row, a_step = 1, packed = false;
      }
      if (packed) pack_rows<S, C>(rows_of_a, g.a_row, g.a_col, row_count, terms, packed_a);
      for (int64_t j = 0; j < cols; j += width) {
        const int64_t count = cols - j < width ? cols - j : width;
        const C* from_b = packed_b + j * terms;
        int64_t b_step = width;
        if constexpr (same) {
          if (read_b && count % kRegisterLanes<C> == 0) from_b = b + p * g.b_row + j, b_step = g.b_row;
        }
        C* target = sums + i * sums_row + j;
        if (!same || (row_count == kTileRows && count % kRegisterLanes<C> == 0)) {
          multiply_tile<C>(count, terms, from_a, a_row, a_step, from_b, b_step, target, sums_row, fresh);
          continue;
        }
        // A tile over the edge of c is computed aside.
        if (!fresh) {
          for (int64_t r = 0; r < row_count; ++r) copy_few<C>(tile + r * width, target + r * sums_row, count);
        }
        multiply_tile<C>(count, terms, from_a, a_row, a_step, from_b, b_step, tile, width, fresh);
        for (int64_t r = 0; r < row_count; ++r) copy_few<C>(target + r * sums_row, tile + r * width, count);
      }
    }
  }
  if (same && g.epilogue.is_plain()) return;
  const S* x = static_cast<const S*>(g.epilogue.x);
  for (int64_t i = 0; i < rows; ++i) {
    const S* x_row = x;
    if (x != nullptr)
      x_row = x + block.batch * g.epilogue.x_batch + (block.row + i) * g.epilogue.x_row +
              block.col * g.epilogue.x_col;
    finish<S, C>(cols, sums + i * sums_row, g.epilogue, x_row, g.epilogue.x_col, c + i * g.c_row);
  }
}

template <class C>
C combine_lanes(Vec<C> x) {
  return reduce(x, [](auto a, auto b) { return a + b; });
}

// Rows that lie next to each other: the sixteen lanes of k are sixteen vectors of rows.
template <class S, class C>
void multiply_adjacent_rows(const Gemv& g, const S* matrix, int64_t rows, C* sums) {
  const C* vector = static_cast<const C*>(g.vector);
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int count = lanes_left(rows - i);
    Vec<C> lanes[kLanes];
    for (auto& lane : lanes) lane = Vec<C>(C(0));
    for (int64_t p = 0; p < g.k; ++p) {
      Vec<C>& lane = lanes[p % kLanes];
      lane = fma(load_strided<S, C>(matrix + i + p * g.k_stride, 1, count), Vec<C>(vector[p]), lane);
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      for (int lane = 0; lane < step; ++lane) lanes[lane] = lanes[lane] + lanes[lane + step];
    }
    if (count == kLanes) lanes[0].store(sums + i);
    else store_partial(sums + i, lanes[0], count);
  }
}

template <class S, class C>
void multiply_vector(const Gemv& g, int64_t row, int64_t row_end, void* sums_ptr) {
  C* sums = static_cast<C*>(sums_ptr) + row;
  const S* matrix = static_cast<const S*>(g.matrix) + row * g.row_stride;
  const C* vector = static_cast<const C*>(g.vector);
  const int64_t rows = row_end - row, whole = g.k / kLanes * kLanes;
  const int rest = int(g.k - whole);
  if (g.row_stride == 1 && g.k_stride != 1) return multiply_adjacent_rows<S, C>(g, matrix, rows, sums);
  int64_t i = 0;
  // Four rows at a time hide the latency of the sums.
  for (; i + 4 <= rows; i += 4) {
    Vec<C> lanes[4];
    for (auto& lane : lanes) lane = Vec<C>(C(0));
    for (int64_t p = 0; p < whole; p += kLanes) {
      const Vec<C> factor = Vec<C>::load(vector + p);
      detail::each<4>([&](int r) {
        const S* from = matrix + (i + r) * g.row_stride + p * g.k_stride;
        lanes[r] = fma(load_strided<S, C>(from, g.k_stride, kLanes), factor, lanes[r]);
      });
    }
    for (int r = 0; r < 4; ++r) {
      const S* from = matrix + (i + r) * g.row_stride + whole * g.k_stride;
      if (rest > 0)
        lanes[r] = fma(load_strided<S, C>(from, g.k_stride, rest), Vec<C>::load(vector + whole), lanes[r]);
      sums[i + r] = combine_lanes(lanes[r]);
    }
  }
  for (; i < rows; ++i) {
    Vec<C> lanes(C(0));
    for (int64_t p = 0; p < g.k; p += kLanes) {
      const S* from = matrix + i * g.row_stride + p * g.k_stride;
      lanes = fma(load_strided<S, C>(from, g.k_stride, lanes_left(g.k - p)), Vec<C>::load(vector + p), lanes);
    }
    sums[i] = combine_lanes(lanes);
  }
}

template <class S, class C>
void widen(const void* from_ptr, int64_t stride, int64_t n, void* to_ptr) {
  const S* from = static_cast<const S*>(from_ptr);
  C* to = static_cast<C*>(to_ptr);
  for (int64_t i = 0; i < n; i += kLanes)
    load_strided<S, C>(from + i * stride, stride, lanes_left(n - i)).store(to + i);
}

template <class S>
GemmKernels kernels_of() {
  using C = ComputeType<S>;
  return {kTileRows,   kTileCols<C>, multiply_block<S, C>, workspace_bytes<S, C>, multiply_vector<S, C>,
          widen<S, C>, finish<S, C>};
}

GemmTable make_table() {
  GemmTable table{};
  for (int i = 0; i < kNumDTypes; ++i) {
    visit(static_cast<DType>(i), [&](auto zero) {
      using S = decltype(zero);
      if constexpr (!std::is_same_v<S, bool>) table.kernels[i] = kernels_of<S>();
    });
  }
  return table;
}

}  // namespace

const GemmTable& gemm_table() {
  static const GemmTable table = make_table();
  return table;
}

}  // namespace WEFT_ISA_NAMESPACE
}  // namespace weft::cpu
