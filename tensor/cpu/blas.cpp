// Calls of OpenBLAS: which products it takes, operands as it wants them, its threads.
// Place: behind blas.h; the only file that includes cblas.h.
#include "tensor/cpu/blas.h"

#include <strings.h>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tensor/base/error.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/workspace.h"

#ifdef WEFT_HAS_OPENBLAS
#  include <cblas.h>
#endif
#ifdef _OPENMP
#  include <omp.h>
#endif

namespace weft::cpu {
namespace {

GemmBackend backend_of_environment() {
  const char* value = std::getenv("WEFT_GEMM");
  if (value == nullptr || *value == '\0' || std::strcmp(value, "auto") == 0) return GemmBackend::Auto;
  if (std::strcmp(value, "openblas") == 0) return GemmBackend::OpenBlas;
  WEFT_CHECK(std::strcmp(value, "own") == 0, "WEFT_GEMM: got '", value, "'; it may be auto, own or openblas");
  return GemmBackend::Own;
}
std::atomic<GemmBackend>& backend() {
  static std::atomic<GemmBackend> value{backend_of_environment()};
  return value;
}

#ifdef WEFT_HAS_OPENBLAS

// OpenBLAS's OpenMP build takes as many threads as OpenMP would give, and one inside a parallel region.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) {
#  ifdef _OPENMP
    before_ = omp_get_max_threads();
    if (before_ != threads) omp_set_num_threads(threads);
    changed_ = before_ != threads;
#  else
    openblas_set_num_threads(threads);
#  endif
  }
  ~ThreadScope() {
#  ifdef _OPENMP
    if (changed_) omp_set_num_threads(before_);
#  endif
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_ = 1;
  bool changed_ = false;
};

// A matrix as BLAS takes it: row-major, or its transpose is. Others are copied.
struct BlasMatrix {
  const void* data;
  int64_t ld;
  bool transposed;
};
bool as_blas(const void* data, int64_t rows, int64_t cols, int64_t row, int64_t col, BlasMatrix& out) {
  const auto leads = [](int64_t stride, int64_t least) {
    return stride >= std::max<int64_t>(least, 1) && stride <= INT32_MAX;
  };
  // The stride of a single row or column carries no information.
  if ((col == 1 || cols == 1) && (rows == 1 || leads(row, cols))) {
    out = {data, rows == 1 ? std::max<int64_t>(cols, 1) : row, false};
    return true;
  }
  if ((row == 1 || rows == 1) && (cols == 1 || leads(col, rows))) {
    out = {data, cols == 1 ? std::max<int64_t>(rows, 1) : col, true};
    return true;
  }
  return false;
}

// The operand of one batch element, copied into `copy` if BLAS cannot read it where it is.
BlasMatrix operand(const void* data, DType dtype, int64_t rows, int64_t cols, int64_t row, int64_t col,
                   std::optional<Workspace>& copy) {
  BlasMatrix result;
  if (as_blas(data, rows, cols, row, col, result)) return result;
  if (!copy) copy.emplace(rows * cols * static_cast<int64_t>(size_of(dtype)));
  const int64_t sizes[] = {rows, cols};
  copy_strided(sizes, {const_cast<void*>(data), dtype, {row, col}}, {copy->get(), dtype, {cols, 1}});
  return {copy->get(), std::max<int64_t>(cols, 1), false};
}

void call_blas(const Gemm& g, const BlasMatrix& a, const BlasMatrix& b, void* c) {
  const auto order = [](const BlasMatrix& matrix) { return matrix.transposed ? CblasTrans : CblasNoTrans; };
  const auto m = static_cast<blasint>(g.m), n = static_cast<blasint>(g.n), k = static_cast<blasint>(g.k),
             lda = static_cast<blasint>(a.ld), ldb = static_cast<blasint>(b.ld),
             ldc = static_cast<blasint>(g.c_row);
  if (g.dtype == DType::Float32)
    cblas_sgemm(CblasRowMajor, order(a), order(b), m, n, k, 1.0f, static_cast<const float*>(a.data), lda,
                static_cast<const float*>(b.data), ldb, 0.0f, static_cast<float*>(c), ldc);
  else
    cblas_dgemm(CblasRowMajor, order(a), order(b), m, n, k, 1.0, static_cast<const double*>(a.data), lda,
                static_cast<const double*>(b.data), ldb, 0.0, static_cast<double*>(c), ldc);
}

void* at(const void* data, int64_t index, DType dtype) {
  return static_cast<char*>(const_cast<void*>(data)) + index * static_cast<int64_t>(size_of(dtype));
}

// Applies the epilogue to rows that hold plain products.
void finish_rows(const Gemm& g, int64_t batch, int64_t begin, int64_t end) {
  const GemmKernels& kernels = gemm_kernels(g.dtype);
  const Epilogue& e = g.epilogue;
  for (int64_t i = begin; i < end; ++i) {
    void* row = at(g.c, batch * g.c_batch + i * g.c_row, g.dtype);
    const void* x = e.x == nullptr ? nullptr : at(e.x, batch * e.x_batch + i * e.x_row, g.dtype);
    kernels.finish(g.n, row, e, x, e.x_col, row);
  }
}

void run_batch(const Gemm& g, int64_t begin, int64_t end, bool inner_threads) {
  std::optional<Workspace> copy_a, copy_b;
  for (int64_t i = begin; i < end; ++i) {
    const BlasMatrix a =
        operand(at(g.a, i * g.a_batch, g.dtype), g.dtype, g.m, g.k, g.a_row, g.a_col, copy_a);
    const BlasMatrix b =
        operand(at(g.b, i * g.b_batch, g.dtype), g.dtype, g.k, g.n, g.b_row, g.b_col, copy_b);
    call_blas(g, a, b, at(g.c, i * g.c_batch, g.dtype));
    if (g.epilogue.is_plain()) continue;
    const int64_t grain = std::max<int64_t>(1, 32768 / g.n);
    if (inner_threads)
      parallel_for(g.m, grain, [&](int64_t from, int64_t to) { finish_rows(g, i, from, to); });
    else finish_rows(g, i, 0, g.m);
  }
}

// Multiplications from which a second thread pays. bench: matmul 64x512x256 (8.4 M of them).
constexpr double kWorthBlasThread = 1 << 19;

void run_openblas(const Gemm& g) {
  const double each = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const int threads = in_parallel_region() ? 1 : num_threads();
  if (threads > 1 && g.batch > 1 && (g.batch >= 4 * threads || each < kWorthBlasThread)) {
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kWorthBlasThread / (each + 1)));
    ThreadScope scope(threads);
    parallel_for(
        g.batch, grain,
        [&](int64_t begin, int64_t end) {
          ThreadScope inner(1);
          run_batch(g, begin, end, false);
        },
        1);
    return;
  }
  ThreadScope scope(each < kWorthBlasThread ? 1 : threads);
  run_batch(g, 0, g.batch, true);
}

// OpenBLAS takes a processor younger than itself for an old one: 0.3.21 runs its Haswell kernels on a Zen 5, at half the
// speed of ours (512³, one thread: 123 GFLOP/s against 233; its AVX-512 kernels reach 239).
bool openblas_knows_this_machine() {
  static const bool knows = [] {
    if (current_isa() != Isa::AVX512) return true;
    const char* core = openblas_get_corename();
    for (const char* wide : {"SkylakeX", "Cooperlake", "SapphireRapids"})
      if (strcasecmp(core, wide) == 0) return true;
    return false;
  }();
  return knows;
}

bool fits_openblas(const Gemm& g) {
  return (g.dtype == DType::Float32 || g.dtype == DType::Float64) && g.m > 1 && g.n > 1 && g.k > 0 &&
         std::max({g.m, g.n, g.k, g.c_row}) <= INT32_MAX;
}

#endif

}  // namespace

void set_gemm_backend(GemmBackend value) { backend().store(value, std::memory_order_relaxed); }

bool uses_openblas() {
#ifdef WEFT_HAS_OPENBLAS
  return backend().load(std::memory_order_relaxed) == GemmBackend::OpenBlas ||
         (backend().load(std::memory_order_relaxed) == GemmBackend::Auto && openblas_knows_this_machine());
#else
  return false;
#endif
}

void run_gemm(const Gemm& g) {
  if (g.batch == 0 || g.m == 0 || g.n == 0) return;
#ifdef WEFT_HAS_OPENBLAS
  if (uses_openblas() && fits_openblas(g)) return run_openblas(g);
#endif
  own_gemm(g);
}

}  // namespace weft::cpu
