// Cutting matrix products into blocks and spreading them over threads.
// Place: the plain half of gemm.h; gemm.isa.cpp computes the blocks.
#include "tensor/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/workspace.h"

namespace weft::cpu {
namespace {

// Below so many multiplications a second thread costs more than it saves: about 10 µs of one core's work.
constexpr int64_t kWorthThread = 1 << 18;
// Blocks of c: the packed pass of b (256 terms of so many columns) and the sums of half types stay in the L2 cache.
constexpr int64_t kBlockRows = 512, kBlockCols = 528;

int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t round_up(int64_t n, int64_t to) { return divide_up(n, to) * to; }

size_t accumulator_bytes(DType dtype) { return size_of(compute_dtype(dtype)); }

char* element(const void* data, int64_t index, DType dtype) {
  return static_cast<char*>(const_cast<void*>(data)) + index * static_cast<int64_t>(size_of(dtype));
}

// m or n is 1: the other operand's matrix times a vector.
void run_vector(const Gemm& g) {
  const GemmKernels& kernels = gemm_kernels(g.dtype);
  const bool is_column = g.n == 1;
  const int64_t rows = is_column ? g.m : g.n, width = static_cast<int64_t>(accumulator_bytes(g.dtype));
  const int64_t vector_bytes = round_up(round_up(g.k, 16) * width, 64);
  // A column of c is dense only if its rows are adjacent.
  const bool dense = rows == 1 || !is_column || g.c_row == 1;
  const bool in_place = dense && compute_dtype(g.dtype) == g.dtype;
  const int64_t sums_bytes = in_place ? 0 : round_up(rows * width, 64);
  const Workspace workspace(g.batch * (vector_bytes + sums_bytes) + 64);

  const auto run = [&](int64_t batch, int64_t begin, int64_t end) {
    char* memory = workspace.get() + batch * (vector_bytes + sums_bytes);
    const char* matrix =
        is_column ? element(g.a, batch * g.a_batch, g.dtype) : element(g.b, batch * g.b_batch, g.dtype);
    const Gemv gemv{matrix, is_column ? g.a_row : g.b_col, is_column ? g.a_col : g.b_row, g.k, memory};
    char* c = element(g.c, batch * g.c_batch, g.dtype);
    char* sums = in_place ? c : memory + vector_bytes;
    kernels.gemv(gemv, begin, end, sums);
    if (in_place && g.epilogue.is_plain()) return;
    const int64_t x_stride = is_column ? g.epilogue.x_row : g.epilogue.x_col;
    const void* x = g.epilogue.x == nullptr
                        ? nullptr
                        : element(g.epilogue.x, batch * g.epilogue.x_batch + begin * x_stride, g.dtype);
    if (dense) {
      kernels.finish(end - begin, sums + begin * width, g.epilogue, x, x_stride, element(c, begin, g.dtype));
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      kernels.finish(1, sums + i * width, g.epilogue, x, x_stride, element(c, i * g.c_row, g.dtype));
      if (x != nullptr) x = element(x, x_stride, g.dtype);
    }
  };
  const auto widen = [&](int64_t batch) {
    const void* from =
        is_column ? element(g.b, batch * g.b_batch, g.dtype) : element(g.a, batch * g.a_batch, g.dtype);
    kernels.widen(from, is_column ? g.b_row : g.a_col, g.k,
                  workspace.get() + batch * (vector_bytes + sums_bytes));
  };
  // Reading a matrix once is bound by memory: a thread is worth it from some 100 KB on.
  const int64_t grain = std::max<int64_t>(1, kWorthThread / 8 / std::max<int64_t>(1, g.k));
  if (g.batch == 1) {
    widen(0);
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) { run(0, begin, end); });
    return;
  }
  parallel_for(
      g.batch, std::max<int64_t>(1, grain / rows),
      [&](int64_t begin, int64_t end) {
        for (int64_t batch = begin; batch < end; ++batch) {
          widen(batch);
          run(batch, 0, rows);
        }
      },
      1);
}

}  // namespace

void own_gemm(const Gemm& g) {
  if (g.batch == 0 || g.m == 0 || g.n == 0) return;
  if (g.m == 1 || g.n == 1) return run_vector(g);
  const GemmKernels& kernels = gemm_kernels(g.dtype);
  const double work = static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) *
                      static_cast<double>(std::max<int64_t>(g.k, 1));
  const int64_t worth = static_cast<int64_t>(std::min(work / kWorthThread, 1e6));
  const int64_t threads = in_parallel_region() ? 1 : std::clamp<int64_t>(worth, 1, num_threads());
  // As many blocks as the caches ask for, and more until every thread has one; neither changes a result.
  const int64_t most_rows = divide_up(g.m, kernels.tile_rows), most_cols = divide_up(g.n, kernels.tile_cols);
  int64_t row_blocks = divide_up(g.m, kBlockRows), col_blocks = divide_up(g.n, kBlockCols);
  const int64_t outer = g.batch * col_blocks;
  row_blocks = std::min(most_rows, std::max(row_blocks, divide_up(threads, outer)));
  // The last round of blocks should occupy every thread.
  while (row_blocks < most_rows && row_blocks * outer % threads != 0 && row_blocks * outer < 4 * threads)
    ++row_blocks;
  col_blocks = std::min(most_cols, std::max(col_blocks, divide_up(threads, g.batch * row_blocks)));
  const int64_t block_rows = round_up(divide_up(g.m, row_blocks), kernels.tile_rows);
  const int64_t block_cols = round_up(divide_up(g.n, col_blocks), kernels.tile_cols);
  row_blocks = divide_up(g.m, block_rows), col_blocks = divide_up(g.n, block_cols);

  const int64_t tasks = g.batch * row_blocks * col_blocks;
  parallel_for(
      tasks, threads == 1 ? tasks : 1,
      [&](int64_t begin, int64_t end) {
        const Workspace workspace(
            kernels.workspace_bytes(std::min(block_rows, g.m), std::min(block_cols, g.n), g.k));
        for (int64_t task = begin; task < end; ++task) {
          const int64_t row = task / col_blocks % row_blocks * block_rows,
                        col = task % col_blocks * block_cols;
          kernels.block(g,
                        {task / (col_blocks * row_blocks), row, std::min(g.m, row + block_rows), col,
                         std::min(g.n, col + block_cols)},
                        workspace.get());
        }
      },
      1);
}

void own_dot(DType dtype, int64_t n, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
             void* c) {
  const GemmKernels& kernels = gemm_kernels(dtype);
  constexpr int64_t kBlock = 65536;
  const int64_t blocks = std::max<int64_t>(1, divide_up(n, kBlock));
  const int64_t width = static_cast<int64_t>(accumulator_bytes(dtype));
  const Workspace partial(blocks * width);
  parallel_for(
      blocks, 1,
      [&](int64_t begin, int64_t end) {
        const Workspace vector((std::min(n, kBlock) + 16) * width);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i * kBlock, count = std::min(kBlock, n - first);
          kernels.widen(element(b, first * b_stride, dtype), b_stride, count, vector.get());
          const Gemv row{element(a, first * a_stride, dtype), 0, a_stride, count, vector.get()};
          kernels.gemv(row, 0, 1, partial.get() + i * width);
        }
      },
      1);
  visit(compute_dtype(dtype), [&](auto zero) {
    using C = decltype(zero);
    if constexpr (std::is_floating_point_v<C> || std::is_same_v<C, int32_t> || std::is_same_v<C, int64_t>) {
      C sum{};
      for (int64_t i = 0; i < blocks; ++i) {
        C value;
        std::memcpy(&value, partial.get() + i * width, sizeof(C));
        if (i == 0) sum = value;
        else if constexpr (std::is_floating_point_v<C>) sum += value;
        else sum = static_cast<C>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value));
      }
      kernels.finish(1, &sum, Epilogue(), nullptr, 0, c);
    }
  });
}

}  // namespace weft::cpu
