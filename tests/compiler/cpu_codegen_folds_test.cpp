// Folds in generated CPU kernels: the trees of eager reductions along columns, rows and both, at any number of threads.
// Beside cpu_codegen_test.cpp, which holds single values.
#include <gtest/gtest.h>

#include "tensor/cpu/reduce.h"
#include "tests/compiler/compiled_bodies.h"
#include "tests/support/compare.h"
#include "tests/tensor/tensor_values.h"
#include "weft.h"

namespace weft::compiler::tests {
namespace {

using namespace weft::tests;
using testing_values::random_tensor;
using Axis = BodyBuilder::Axis;
using Each = BodyBuilder::Each;
using weft::Expr;

TEST(CpuCode, SoftmaxEqualsTheOp) {
  const DType dtypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16};
  CompiledBodies kernels;
  for (DType dtype : dtypes) {
    BodyBuilder& b = kernels.add("softmax");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
    b.loops(Sym::from_int(1), rows, columns);
    const Expr x = cast(b.load(b.in(dtype), element(b)), compute_dtype(dtype));
    const Expr e = exp(x - b.fold(cpu::Fold::Max, Axis::Columns, x));
    b.store(b.out(dtype), element(b), cast(e / b.sum(Axis::Columns, e), dtype));
  }
  // The same with sizes that are known.
  BodyBuilder& fixed = kernels.add("softmax_known");
  const TableEnvironment environment = fixed.arithmetic();
  fixed.loops(Sym::from_int(1), Sym::from_int(5), Sym::from_int(200));
  const Expr x = fixed.load(fixed.in(DType::Float32), element(fixed));
  const Expr e = exp(x - fixed.fold(cpu::Fold::Max, Axis::Columns, x));
  fixed.store(fixed.out(DType::Float32), element(fixed), e / fixed.sum(Axis::Columns, e));
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    for (size_t k = 0; k < std::size(dtypes); ++k) {
      for (int64_t columns : {1, 2, 15, 16, 17, 63, 64, 65, 127, 200, 4095, 4096, 4097, 9000}) {
        for (int64_t rows : {1, 3, 16}) {
          const Tensor x = random_tensor({rows, columns}, dtypes[k], 5, -9, 9);
          const Tensor want = softmax(x, -1);
          for (int threads : {1, 3}) {
            const Tensor got = empty_of({rows, columns}, dtypes[k]);
            kernels.run(k, isa, {x, got}, {rows, columns}, {}, threads);
            EXPECT_EQ(difference_of_bits(got, want), "") << rows << " x " << columns << ' ' << dtypes[k];
          }
        }
      }
    }
    const Tensor x = random_tensor({5, 200}, DType::Float32, 5, -9, 9),
                 got = empty_of({5, 200}, DType::Float32);
    kernels.run(std::size(dtypes), isa, {x, got}, {});
    EXPECT_EQ(difference_of_bits(got, softmax(x, -1)), "");
  }
}

// Every fold, every dtype, and most pairs of them.
struct FoldCase {
  DType dtype;
  cpu::Fold fold;
};
constexpr FoldCase kFoldCases[] = {
    {DType::Float32, cpu::Fold::Sum}, {DType::Float32, cpu::Fold::Prod}, {DType::Float32, cpu::Fold::Max},
    {DType::Float32, cpu::Fold::Min}, {DType::Float64, cpu::Fold::Sum},  {DType::Float64, cpu::Fold::Max},
    {DType::Int32, cpu::Fold::Sum},   {DType::Int32, cpu::Fold::Min},    {DType::Int64, cpu::Fold::Sum},
    {DType::Int64, cpu::Fold::Prod},  {DType::Int64, cpu::Fold::Max},
};

// The fold of a dense tensor along some dimensions, by the library.
Tensor folded(cpu::Fold fold, const Tensor& x, std::vector<bool> along) {
  std::vector<int64_t> sizes, strides, kept;
  for (int64_t d = 0; d < x.dim(); ++d) {
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
    if (!along[static_cast<size_t>(d)]) kept.push_back(x.size(d));
  }
  const Tensor out = empty_of(kept, x.dtype());
  const std::unique_ptr<bool[]> flags(new bool[along.size()]);
  std::copy(along.begin(), along.end(), flags.get());
  cpu::run_reduce({fold,
                   compute_dtype(x.dtype()),
                   {},
                   {},
                   bytes_of(x),
                   x.dtype(),
                   sizes,
                   strides,
                   {flags.get(), along.size()},
                   bytes_of(out),
                   x.dtype()});
  return out;
}

// Values of a fold that do not all vanish or overflow, with a NaN and zeros of both signs now and then.
Tensor fold_values(std::vector<int64_t> sizes, DType dtype, cpu::Fold fold, unsigned seed,
                   bool has_specials) {
  Tensor x = random_tensor(sizes, dtype, seed, fold == cpu::Fold::Prod ? 0.9 : -2,
                           fold == cpu::Fold::Prod ? 1.1 : 2);
  if (!has_specials || !is_floating(dtype) || int_numel(x) == 0) return x;
  std::mt19937_64 random(seed);
  std::vector<double> values = doubles_of(x);
  for (int i = 0; i < 3; ++i) values[random() % values.size()] = i == 0 ? -0.0 : i == 1 ? 0.0 : NAN;
  return testing_values::from_values(values, sizes, dtype);
}

TEST(CpuCode, FoldsAlongTheColumns) {
  CompiledBodies kernels;
  for (const auto& [dtype, fold] : kFoldCases) {
    BodyBuilder& b = kernels.add(std::string("fold_") + short_name_of(dtype));
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100, 0);
    b.loops(Sym::from_int(1), rows, columns);
    const Expr x = b.load(b.in(dtype), element(b));
    b.store(b.out(dtype), b.r, b.fold(fold, Axis::Columns, x), Each::Row);
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  std::vector<int64_t> lengths = {0, 4095, 4096, 4097, 4160, 9000};
  for (int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (int64_t n : lengths) {
    size_t k = 0;
    for (const auto& [dtype, fold] : kFoldCases) {
      const Tensor x = fold_values({3, n}, dtype, fold, static_cast<unsigned>(n), n % 3 == 0);
      const Tensor want = folded(fold, x, {false, true});
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        const Tensor got = empty_of({3}, dtype);
        kernels.run(k, isa, {x, got}, {3, n}, {}, n == 65 ? 2 : 1);
        EXPECT_EQ(difference_of_bits(got, want), "") << dtype << ", fold " << int(fold) << " of " << n;
      }
      ++k;
    }
  }
}

TEST(CpuCode, FoldsAlongTheRows) {
  CompiledBodies kernels;
  for (const auto& [dtype, fold] : kFoldCases) {
    BodyBuilder& b = kernels.add(std::string("fold_") + short_name_of(dtype));
    const TableEnvironment environment = b.arithmetic();
    const Sym batches = b.size("batches", 2, 0), rows = b.size("rows", 8, 0),
              columns = b.size("columns", 100, 0);
    b.loops(batches, rows, columns);
    const Expr x = b.load(b.in(dtype), element(b));
    b.store(b.out(dtype), b.b * columns + b.c, b.fold(fold, Axis::Rows, x), Each::Column);
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  std::vector<std::array<int64_t, 3>> shapes;
  for (int64_t rows : {0, 1, 2, 5, 63, 64, 65, 128, 129, 200})
    for (int64_t columns : {2, 7, 16, 40}) shapes.push_back({rows % 2 + 1, rows, columns});
  shapes.push_back({1, 200, 2500});
  shapes.push_back({3, 70, 1024});
  shapes.push_back({0, 10, 10});
  shapes.push_back({2, 10, 0});
  for (const auto& [batches, rows, columns] : shapes) {
    size_t k = 0;
    for (const auto& [dtype, fold] : kFoldCases) {
      const Tensor x =
          fold_values({batches, rows, columns}, dtype, fold, static_cast<unsigned>(rows), rows % 2 == 0);
      const Tensor want = folded(fold, x, {false, true, false});
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 3}) {
          if (threads > 1 && rows % 64 != 0 && rows != 70) continue;  // threads are slow to start
          const Tensor got = empty_of({batches, columns}, dtype);
          kernels.run(k, isa, {x, got}, {batches, rows, columns}, {}, threads);
          EXPECT_EQ(difference_of_bits(got, want), "")
              << dtype << ", fold " << int(fold) << " of " << batches << " x " << rows << " x " << columns;
        }
      }
      ++k;
    }
  }
}

// Both gradients of an RMSNorm in one kernel: folds along columns and rows, values of rows folded too.
TEST(CpuCode, NormBackwardInOnePass) {
  CompiledBodies kernels;
  BodyBuilder& b = kernels.add("norm_backward");
  const TableEnvironment environment = b.arithmetic();
  const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
  b.loops(Sym::from_int(1), rows, columns);
  const uint32_t dy_in = b.in(DType::Float32), x_in = b.in(DType::Float32), w_in = b.in(DType::Float32),
                 dx_out = b.out(DType::Float32), dw_out = b.out(DType::Float32),
                 scales_out = b.out(DType::Float32), total_out = b.out(DType::Float32),
                 sum_out = b.out(DType::Float32);
  const Expr x = b.load(x_in, element(b)), dy = b.load(dy_in, element(b)), w = b.load(w_in, b.c);
  const Expr n = b.number(DType::Float32);
  const Expr scale = rsqrt(b.sum(Axis::Columns, x * x) / n + 1e-5f), y = x * scale, g = dy * w;
  const Expr mean = b.sum(Axis::Columns, g * y) / n;
  b.store(dx_out, element(b), (g - y * mean) * scale);
  b.store(scales_out, b.r, scale, Each::Row);
  b.store(dw_out, b.c, b.sum(Axis::Rows, dy * y), Each::Column);
  b.store(total_out, Sym::from_int(0), b.sum(Axis::RowValues, scale * mean) * 2, Each::Batch);
  b.store(sum_out, Sym::from_int(0), b.sum(Axis::Rows, scale), Each::Batch);
  WEFT_COMPILE_OR_SKIP(kernels);
  for (const auto& [r, c] :
       {std::pair<int64_t, int64_t>{1, 5}, {70, 33}, {200, 64}, {129, 1000}, {5000, 3}}) {
    const Tensor x = random_tensor({r, c}, DType::Float32, 1), dy = random_tensor({r, c}, DType::Float32, 2),
                 w = random_tensor({c}, DType::Float32, 3);
    const float n = static_cast<float>(c);
    const Tensor scale = rsqrt(folded(cpu::Fold::Sum, x * x, {false, true}) / n + 1e-5f);
    const Tensor y = x * scale.unsqueeze(1), g = dy * w;
    const Tensor mean = folded(cpu::Fold::Sum, g * y, {false, true}) / n;
    const Tensor dx = (g - y * mean.unsqueeze(1)) * scale.unsqueeze(1),
                 dw = folded(cpu::Fold::Sum, dy * y, {true, false});
    const Tensor total = folded(cpu::Fold::Sum, scale * mean, {true}) * 2,
                 sum = folded(cpu::Fold::Sum, scale.unsqueeze(1), {true, true});
    for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
      for (int threads : {1, 2, 4}) {
        const Tensor got[] = {empty_of({r, c}, DType::Float32), empty_of({c}, DType::Float32),
                              empty_of({r}, DType::Float32), empty_of({}, DType::Float32),
                              empty_of({}, DType::Float32)};
        kernels.run(0, isa, {dy, x, w, got[0], got[1], got[2], got[3], got[4]}, {r, c}, {slot(n)}, threads);
        EXPECT_EQ(difference_of_bits(got[0], dx), "") << r << " x " << c;
        EXPECT_EQ(difference_of_bits(got[1], dw), "") << r << " x " << c;
        EXPECT_EQ(difference_of_bits(got[2], scale), "") << r << " x " << c;
        EXPECT_EQ(difference_of_bits(got[3], total), "") << r << " x " << c;
        // Along the rows, the values of rows are folded by the outer tree.
        float want = 0;
        for (int64_t begin = 0; begin < r; begin += 64) {
          float block = 0;
          for (int64_t i = begin; i < std::min(r, begin + 64); ++i) block += data_of<float>(scale)[i];
          want += block;
        }
        EXPECT_EQ(data_of<float>(got[4])[0], want) << r << " x " << c;
      }
    }
  }
}

TEST(CpuCode, OneRowIsSharedByThreads) {
  CompiledBodies kernels;
  {
    BodyBuilder& b = kernels.add("sum");
    b.loops(Sym::from_int(1), Sym::from_int(1), b.size("columns", 100, 0));
    const Expr x = b.load(b.in(DType::Float32), b.c);
    b.store(b.out(DType::Float32), Sym::from_int(0), b.sum(Axis::Columns, x), Each::Batch);
  }
  {
    BodyBuilder& b = kernels.add("softmax");
    b.loops(Sym::from_int(1), Sym::from_int(1), b.size("columns", 100));
    const Expr x = b.load(b.in(DType::Float32), b.c), e = exp(x - b.fold(cpu::Fold::Max, Axis::Columns, x));
    const Expr total = b.sum(Axis::Columns, e);
    b.store(b.out(DType::Float32), b.c, e / total);
    b.store(b.out(DType::Float32), Sym::from_int(0), log(total), Each::Row);
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (int64_t n : {0, 1, 16, 100, 4096, 4097, 50000, 300001}) {
    const Tensor x = random_tensor({n}, DType::Float32, 3, -5, 5);
    for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
      for (int threads : {1, 2, 5}) {
        const Tensor total = empty_of({}, DType::Float32);
        kernels.run(0, isa, {x, total}, {n}, {}, threads);
        EXPECT_EQ(difference_of_bits(total, folded(cpu::Fold::Sum, x, {true})), "") << n;
        if (n == 0) continue;
        const Tensor y = empty_of({n}, DType::Float32), logarithm = empty_of({}, DType::Float32);
        kernels.run(1, isa, {x, y, logarithm}, {n}, {}, threads);
        EXPECT_EQ(difference_of_bits(y, softmax(x, 0)), "") << n;
        const Tensor top = folded(cpu::Fold::Max, x, {true});
        EXPECT_EQ(difference_of_bits(logarithm, log(folded(cpu::Fold::Sum, exp(x - top), {true}))), "") << n;
      }
    }
  }
}

// Folds along a single row: each is its value, but for the sign of a zero.
TEST(CpuCode, FoldsAlongOneRow) {
  CompiledBodies kernels;
  BodyBuilder& b = kernels.add("one_row");
  b.loops(Sym::from_int(1), Sym::from_int(1), b.size("columns", 100));
  const Expr x = b.load(b.in(DType::Float32), b.c);
  b.store(b.out(DType::Float32), b.c, b.sum(Axis::Rows, x) * 3, Each::Column);
  b.store(b.out(DType::Float32), b.c, b.fold(cpu::Fold::Max, Axis::Rows, x), Each::Column);
  WEFT_COMPILE_OR_SKIP(kernels);
  const Tensor x_of = testing_values::from_values({-0.0, 1, -2, NAN}, {4}, DType::Float32);
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    const Tensor sum = empty_of({4}, DType::Float32), top = empty_of({4}, DType::Float32);
    kernels.run(0, isa, {x_of, sum, top}, {4});
    EXPECT_EQ(difference_of_bits(sum, (x_of + 0) * 3), "");
    EXPECT_EQ(difference_of_bits(top, x_of), "");
  }
}

}  // namespace
}  // namespace weft::compiler::tests
