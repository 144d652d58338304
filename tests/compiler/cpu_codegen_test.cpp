// Generated CPU kernels give the bits of eager ops: every primitive, conversion, fold, layout and pass, with any tail and any
// number of threads, on AVX2 and AVX-512. Bodies are written by hand; one compilation for each test.
#include "compiler/codegen/cpu_codegen.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tensor/cpu/convert.h"
#include "tensor/cpu/reduce.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/random/philox.h"
#include "tests/compiler/compiled_bodies.h"
#include "tests/support/boxed_call.h"
#include "tests/support/compare.h"
#include "tests/support/expr_cases.h"
#include "tests/tensor/tensor_values.h"
#include "weft.h"

namespace weft::compiler::tests {
namespace {

using namespace weft::tests;
using testing_values::random_tensor;
using Axis = BodyBuilder::Axis;
using Each = BodyBuilder::Each;
using weft::Expr;

constexpr DType kComputeDTypes[] = {DType::Float32, DType::Float64, DType::Int32, DType::Int64};

Tensor empty_of(std::vector<int64_t> sizes, DType dtype) {
  Tensor x = make_tensor(SymList(sizes), dtype);
  std::memset(bytes_of(x), 0x5a, x.nbytes());
  return x;
}
uint64_t slot(float x) { return std::bit_cast<uint32_t>(x); }

// ---- Primitives

// What the cases of the scalar printer leave out.
constexpr ExprCase kMoreCases[] = {
    {"exp2", true, false},   {"log", true, false},         {"log10", true, false},
    {"cos", true, false},    {"asin", true, false},        {"atan", true, false},
    {"sinh", true, false},   {"cosh", true, false},        {"acosh", true, false},
    {"atanh", true, false},  {"ceil", true, false},        {"floor", true, false},
    {"trunc", true, false},  {"logical_not", true, true},  {"sub", true, true},
    {"minimum", true, true}, {"eq", true, true},           {"le", true, true},
    {"ge", true, true},      {"bitwise_and", false, true}, {"bitwise_or", false, true},
    {"gt", true, true},      {"ne", true, true},
};

std::vector<ExprCase> all_cases() {
  std::vector<ExprCase> cases(std::begin(kExprCases), std::end(kExprCases));
  cases.insert(cases.end(), std::begin(kMoreCases), std::end(kMoreCases));
  return cases;
}

template <class T>
void compare_with_op(const CompiledBodies& kernels, size_t k, const char* name) {
  const Op& op = OpTable::instance().get(name);
  const bool is_integer = std::is_integral_v<T>;
  std::vector<std::vector<T>> inputs =
      inputs_for<T>(op.pointwise->arity, is_integer && op.pointwise->divisor >= 0);
  const auto n = static_cast<int64_t>(inputs[0].size());
  Args args;
  Kwargs kwargs;
  std::vector<Tensor> buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op.schema.params[i].type == ParamType::Number) {
      const double value = is_integer ? 3 : 0.75;
      inputs[i].assign(inputs[i].size(), static_cast<T>(value));
      kwargs.emplace_back(op.schema.params[i].name, is_integer ? Arg(3) : Arg(value));
    } else {
      args.push_back(tensor_of_bytes(inputs[i].data(), {n}, dtype_of<T>));
    }
    buffers.push_back(tensor_of_bytes(inputs[i].data(), {n}, dtype_of<T>));
  }
  const Tensor want = bind_call(op, args, kwargs).run()[0];
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    const Tensor got = empty_of({n}, want.dtype());
    std::vector<Tensor> all = buffers;
    all.push_back(got);
    kernels.run(k, isa, all, {n});
    const std::string text = difference_of_bits(got, want);
    if (text.empty()) continue;
    std::ostringstream message;
    message.precision(17);
    const auto a = doubles_of(got), b = doubles_of(want);
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] ? std::signbit(a[i]) == std::signbit(b[i]) : std::isnan(a[i]) && std::isnan(b[i]))
        continue;
      message << "; inputs";
      for (const auto& x : inputs) message << ' ' << x[i];
      break;
    }
    ADD_FAILURE() << name << ' ' << dtype_of<T> << ", " << cpu::name_of(kernels.isas()[isa]) << ": " << text
                  << message.str();
  }
}

TEST(CpuCode, PrimitivesEqualTheirKernels) {
  CompiledBodies kernels;
  std::set<Prim> seen;
  std::vector<std::pair<const char*, DType>> cases;
  for (const ExprCase& c : all_cases()) {
    ASSERT_NE(OpTable::instance().get(c.op).pointwise, nullptr) << c.op;
    const PointwiseRule& rule = *OpTable::instance().get(c.op).pointwise;
    for (DType dtype : kComputeDTypes) {
      if (!(is_floating(dtype) ? c.floats : c.integers)) continue;
      BodyBuilder& b = kernels.add(std::string(c.op) + "_" + short_name_of(dtype));
      b.loops(Sym::from_int(1), Sym::from_int(1), b.size("n", 100));
      b.body.values.set_number_dtype(dtype);
      std::vector<Expr> inputs;
      for (int k = 0; k < rule.arity; ++k) inputs.push_back(b.load(b.in(dtype), b.c));
      const Expr value = rule.expr(inputs);
      b.store(b.out(value.dtype()), b.c, value);
      for (const ExprGraph::Node& node : b.body.values.nodes()) seen.insert(node.prim);
      cases.emplace_back(c.op, dtype);
    }
  }
  // These occur in the bodies of functions, and in the tests below.
  seen.insert({Prim::Bitcast, Prim::ToInt, Prim::ToFloat, Prim::Lookup, Prim::Not, Prim::Cast});
#define WEFT_PRIM(name, arity) EXPECT_EQ(seen.count(Prim::name), 1u) << #name " is in no case";
  WEFT_FOR_EACH_ARITHMETIC_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
#define WEFT_PRIM(name, function, arity) EXPECT_EQ(seen.count(Prim::name), 1u) << #name " is in no case";
  WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < cases.size(); ++k) {
    const auto [op, dtype] = cases[k];
    if (dtype == DType::Float32) compare_with_op<float>(kernels, k, op);
    if (dtype == DType::Float64) compare_with_op<double>(kernels, k, op);
    if (dtype == DType::Int32) compare_with_op<int32_t>(kernels, k, op);
    if (dtype == DType::Int64) compare_with_op<int64_t>(kernels, k, op);
  }
}

// Truth values of elements of 4 and of 8 bytes, and of memory, meet.
TEST(CpuCode, TruthValuesOfAllWidthsMeet) {
  CompiledBodies kernels;
  BodyBuilder& b = kernels.add("logic");
  b.loops(Sym::from_int(1), Sym::from_int(1), b.size("n", 100));
  const Expr x = b.load(b.in(DType::Float32), b.c), y = b.load(b.in(DType::Float64), b.c),
             i = b.load(b.in(DType::Int64), b.c), flag = b.load(b.in(DType::Bool), b.c);
  const Expr narrow = x > 0, wide = y > 0, whole = i > 0;
  const Expr all[] = {narrow & wide,
                      wide | narrow,
                      flag ^ wide,
                      !narrow,
                      !wide,
                      wide == flag,
                      narrow != whole,
                      where(narrow, wide, flag),
                      where(wide, flag, narrow)};
  for (const Expr& value : all) b.store(b.out(DType::Bool), b.c, value);
  b.store(b.out(DType::Float64), b.c, where(narrow & flag, y, 2));
  b.store(b.out(DType::Float32), b.c, where(wide & flag, x, 2));
  b.store(b.out(DType::Int64), b.c, ~i);
  b.store(b.out(DType::Int64), b.c, cast(wide, DType::Int64) + cast(flag, DType::Int64));
  WEFT_COMPILE_OR_SKIP(kernels);
  const int64_t n = 77;
  const Tensor xs = random_tensor({n}, DType::Float32, 1), ys = random_tensor({n}, DType::Float64, 2),
               is = random_tensor({n}, DType::Int64, 3), flags = random_tensor({n}, DType::Bool, 4, 0, 0.6);
  for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
    std::vector<Tensor> buffers = {xs, ys, is, flags};
    for (size_t k = 0; k < std::size(all); ++k) buffers.push_back(empty_of({n}, DType::Bool));
    for (DType dtype : {DType::Float64, DType::Float32, DType::Int64, DType::Int64})
      buffers.push_back(empty_of({n}, dtype));
    kernels.run(0, isa, buffers, {n});
    for (int64_t at = 0; at < n; ++at) {
      const bool p = data_of<float>(xs)[at] > 0, q = data_of<double>(ys)[at] > 0,
                 r = data_of<int64_t>(is)[at] > 0, f = data_of<bool>(flags)[at];
      const bool want[] = {p && q, q || p, f != q, !p, !q, q == f, p != r, p ? q : f, q ? f : p};
      for (size_t k = 0; k < std::size(all); ++k)
        ASSERT_EQ(bytes_of(buffers[4 + k])[at], char{want[k]}) << k << ' ' << at;
      ASSERT_EQ(data_of<double>(buffers[13])[at], p && f ? data_of<double>(ys)[at] : 2);
      ASSERT_EQ(data_of<float>(buffers[14])[at], q && f ? data_of<float>(xs)[at] : 2);
      ASSERT_EQ(data_of<int64_t>(buffers[15])[at], ~data_of<int64_t>(is)[at]);
      ASSERT_EQ(data_of<int64_t>(buffers[16])[at], int64_t{q} + int64_t{f});
    }
  }
}

// ---- Conversions

// Everything that rounds, saturates or wraps.
Tensor conversion_values(DType dtype) {
  std::vector<double> values;
  for (double x : {0.0,
                   0.5,
                   1.0,
                   1.5,
                   2.5,
                   3.7,
                   127.0,
                   127.5,
                   128.0,
                   129.0,
                   200.0,
                   255.0,
                   255.5,
                   256.0,
                   300.0,
                   32767.0,
                   32768.0,
                   65504.0,
                   65519.99,
                   65520.0,
                   65535.0,
                   65536.0,
                   1e5,
                   2147483520.0,
                   2147483647.0,
                   2147483648.0,
                   4294967296.0,
                   9.2e18,
                   9.3e18,
                   1e20,
                   3e38,
                   3.4028235e38,
                   3.5e38,
                   1e300,
                   6e-8,
                   2.98e-8,
                   2.99e-8,
                   1e-40,
                   1e-45,
                   1e-310,
                   1.0 / 3,
                   1.00390625,
                   1.001953125,
                   1.0019531250001,
                   0x1.01p0 + 0x1p-40,
                   0x1.008p0 + 0x1p-45,
                   HUGE_VAL,
                   static_cast<double>(NAN)}) {
    values.push_back(x);
    values.push_back(-x);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i)
    values.push_back(
        std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 100) - 50) *
        (i % 2 == 0 ? 1 : -1));
  if (dtype == DType::Bool)
    for (double& x : values) x = x > 1 ? 1 : 0;
  return testing_values::from_values(values, {static_cast<int64_t>(values.size())}, dtype);
}

TEST(CpuCode, ConversionsEqualThoseOfMemory) {
  CompiledBodies kernels;
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      BodyBuilder& b =
          kernels.add(std::string(short_name_of(DType(from))) + "_to_" + short_name_of(DType(to)));
      b.loops(Sym::from_int(1), Sym::from_int(1), b.size("n", 100));
      const Expr x = b.load(b.in(DType(from)), b.c);
      b.store(b.out(DType(to)), b.c, cast(x, DType(to)));
      // Back again, from the register.
      b.store(b.out(DType(from)), b.c, cast(cast(x, DType(to)), DType(from)));
    }
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (int from = 0; from < kNumDTypes; ++from) {
    const Tensor x = conversion_values(DType(from));
    const int64_t n = int_numel(x);
    for (int to = 0; to < kNumDTypes; ++to) {
      const Tensor want = empty_of({n}, DType(to)), want_back = empty_of({n}, DType(from));
      cpu::convert_kernel(DType(from), DType(to))(bytes_of(x), 1, bytes_of(want), 1, n);
      cpu::convert_kernel(DType(to), DType(from))(bytes_of(want), 1, bytes_of(want_back), 1, n);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        const Tensor got = empty_of({n}, DType(to)), back = empty_of({n}, DType(from));
        kernels.run(static_cast<size_t>(from * kNumDTypes + to), isa, {x, got, back}, {n});
        EXPECT_EQ(difference_of_bits(got, want), "") << DType(from) << " to " << DType(to);
        EXPECT_EQ(difference_of_bits(back, want_back), "")
            << DType(from) << " to " << DType(to) << " and back";
      }
    }
  }
}

// ---- Tails

TEST(CpuCode, TailsReadAndWriteNothingBeyondTheirEnd) {
  CompiledBodies kernels;
  for (int k = 0; k < kNumDTypes; ++k) {
    BodyBuilder& b = kernels.add(std::string("copy_") + short_name_of(DType(k)));
    b.loops(Sym::from_int(1), Sym::from_int(1), b.size("n", 100));
    const Expr x = b.load(b.in(DType(k)), b.c);
    const DType compute = compute_dtype(DType(k));
    b.store(b.out(DType(k)), b.c,
            DType(k) == DType::Bool ? x ^ x ^ x
                                    : cast(cast(x, compute) + cast(x, compute) - cast(x, compute), DType(k)));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (int k = 0; k < kNumDTypes; ++k) {
    const DType dtype = DType(k);
    const auto bytes = static_cast<int64_t>(size_of(dtype));
    for (int64_t n = 1; n <= 33; ++n) {
      const Tensor x = random_tensor({n}, dtype, static_cast<unsigned>(n));
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        const Tensor out = empty_of({64}, dtype);
        kernels.run(static_cast<size_t>(k), isa, {x, out}, {n});
        EXPECT_EQ(std::memcmp(bytes_of(out), bytes_of(x), static_cast<size_t>(n * bytes)), 0)
            << dtype << ' ' << n;
        for (int64_t i = n * bytes; i < 64 * bytes; ++i)
          ASSERT_EQ(bytes_of(out)[i], 0x5a) << dtype << ' ' << n;
      }
    }
  }
}

// ---- Rows

// Elements of a matrix whose rows are dense, or one row of it.
Sym element(BodyBuilder& b) { return (b.b * b.body.rows + b.r) * b.body.columns + b.c; }

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
          for (int threads : {1, 2, 3}) {
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

constexpr cpu::Fold kFolds[] = {cpu::Fold::Sum, cpu::Fold::Prod, cpu::Fold::Max, cpu::Fold::Min};

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
  for (DType dtype : kComputeDTypes) {
    for (cpu::Fold fold : kFolds) {
      BodyBuilder& b = kernels.add(std::string("fold_") + short_name_of(dtype));
      const TableEnvironment environment = b.arithmetic();
      const Sym rows = b.size("rows", 8), columns = b.size("columns", 100, 0);
      b.loops(Sym::from_int(1), rows, columns);
      const Expr x = b.load(b.in(dtype), element(b));
      b.store(b.out(dtype), b.r, b.fold(fold, Axis::Columns, x), Each::Row);
    }
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  std::vector<int64_t> lengths = {0, 4095, 4096, 4097, 4160, 9000};
  for (int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (int64_t n : lengths) {
    size_t k = 0;
    for (DType dtype : kComputeDTypes) {
      for (cpu::Fold fold : kFolds) {
        const Tensor x = fold_values({3, n}, dtype, fold, static_cast<unsigned>(n), n % 3 == 0);
        const Tensor want = folded(fold, x, {false, true});
        for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
          const Tensor got = empty_of({3}, dtype);
          kernels.run(k, isa, {x, got}, {3, n}, {}, 2);
          EXPECT_EQ(difference_of_bits(got, want), "") << dtype << ", fold " << int(fold) << " of " << n;
        }
        ++k;
      }
    }
  }
}

TEST(CpuCode, FoldsAlongTheRows) {
  CompiledBodies kernels;
  for (DType dtype : kComputeDTypes) {
    for (cpu::Fold fold : kFolds) {
      BodyBuilder& b = kernels.add(std::string("fold_") + short_name_of(dtype));
      const TableEnvironment environment = b.arithmetic();
      const Sym batches = b.size("batches", 2, 0), rows = b.size("rows", 8, 0),
                columns = b.size("columns", 100, 0);
      b.loops(batches, rows, columns);
      const Expr x = b.load(b.in(dtype), element(b));
      b.store(b.out(dtype), b.b * columns + b.c, b.fold(fold, Axis::Rows, x), Each::Column);
    }
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
    for (DType dtype : kComputeDTypes) {
      for (cpu::Fold fold : kFolds) {
        const Tensor x =
            fold_values({batches, rows, columns}, dtype, fold, static_cast<unsigned>(rows), rows % 2 == 0);
        const Tensor want = folded(fold, x, {false, true, false});
        for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
          for (int threads : {1, 2, 3}) {
            const Tensor got = empty_of({batches, columns}, dtype);
            kernels.run(k, isa, {x, got}, {batches, rows, columns}, {}, threads);
            // A single row stays as it is in eager; the sum of one row here starts from +0 as well.
            EXPECT_EQ(difference_of_bits(got, want), "")
                << dtype << ", fold " << int(fold) << " of " << batches << " x " << rows << " x " << columns;
          }
        }
        ++k;
      }
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

// ---- Places in memory

TEST(CpuCode, StridedBroadcastAndTransposedLoads) {
  CompiledBodies kernels;
  const DType dtypes[] = {DType::Float32, DType::Float64, DType::BFloat16,
                          DType::Int8,    DType::Bool,    DType::Float16};
  for (DType dtype : dtypes) {
    BodyBuilder& b = kernels.add("transpose");
    const TableEnvironment environment = b.arithmetic();
    const Sym rows = b.size("rows", 8), columns = b.size("columns", 100);
    b.loops(Sym::from_int(1), rows, columns);
    const uint32_t turned = b.in(dtype), every_second = b.in(dtype), one_per_row = b.in(dtype);
    b.store(b.out(dtype), element(b), b.load(turned, b.c * rows + b.r));
    b.store(b.out(dtype), element(b), b.load(every_second, (b.r * columns + b.c) * 2));
    b.store(b.out(dtype), element(b), b.load(one_per_row, b.r));
    // Stores with strides: turned back, and every second element.
    b.store(b.out(dtype), b.c * rows + b.r, b.load(turned, b.c * rows + b.r));
    b.store(b.out(dtype), (b.r * columns + b.c) * 2, b.load(turned, b.c * rows + b.r));
    // Backwards.
    b.store(b.out(dtype), element(b), b.load(one_per_row, rows - 1 - b.r));
    b.store(b.out(dtype), element(b), b.load(turned, rows * columns - 1 - (b.r * columns + b.c)));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  for (size_t k = 0; k < std::size(dtypes); ++k) {
    const DType dtype = dtypes[k];
    const auto bytes = size_of(dtype);
    for (const auto& [r, c] : {std::pair<int64_t, int64_t>{3, 5}, {7, 40}, {33, 17}, {2, 100}}) {
      const Tensor turned = random_tensor({c, r}, dtype, 1), wide = random_tensor({r * c * 2}, dtype, 2),
                   column = random_tensor({r}, dtype, 3);
      for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
        for (int threads : {1, 2}) {
          std::vector<Tensor> all = {turned, wide, column};
          for (int o = 0; o < 7; ++o) all.push_back(empty_of({r * c * 2}, dtype));
          kernels.run(k, isa, all, {r, c}, {}, threads);
          for (int64_t i = 0; i < r; ++i) {
            for (int64_t j = 0; j < c; ++j) {
              const auto same_element = [&](size_t out, int64_t at, const Tensor& from, int64_t index) {
                return std::memcmp(bytes_of(all[3 + out]) + static_cast<size_t>(at) * bytes,
                                   bytes_of(from) + static_cast<size_t>(index) * bytes, bytes) == 0;
              };
              ASSERT_TRUE(same_element(0, i * c + j, turned, j * r + i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(1, i * c + j, wide, (i * c + j) * 2)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(2, i * c + j, column, i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(3, j * r + i, turned, j * r + i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(4, (i * c + j) * 2, turned, j * r + i))
                  << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(5, i * c + j, column, r - 1 - i)) << dtype << ' ' << i << ' ' << j;
              ASSERT_TRUE(same_element(6, i * c + j, turned, r * c - 1 - (i * c + j)))
                  << dtype << ' ' << i << ' ' << j;
            }
          }
        }
      }
    }
  }
}

// Quotients and remainders of the column: the heads of attention swapped with the sequence, and sizes that fit no vector.
TEST(CpuCode, IndicesThatAreNotAffine) {
  CompiledBodies kernels;
  const std::array<int64_t, 3> shapes[] = {{4, 8, 64}, {3, 5, 16}, {3, 5, 7}, {2, 3, 24}};
  for (const auto& [a, n, d] : shapes) {
    // x [n, a, d] read as [a, n, d], flattened.
    BodyBuilder& b = kernels.add("swap");
    const TableEnvironment environment = b.arithmetic();
    b.loops(Sym::from_int(1), Sym::from_int(1), Sym::from_int(a * n * d));
    SymTable& table = b.table();
    const auto quotient = [&](Sym x, int64_t y) {
      return table.binary(SymOp::FloorDiv, x, Sym::from_int(y));
    };
    const auto rest = [&](Sym x, int64_t y) { return table.binary(SymOp::Mod, x, Sym::from_int(y)); };
    const Sym i = quotient(b.c, n * d), j = rest(quotient(b.c, d), n), k = rest(b.c, d);
    const Sym at = (j * a + i) * d + k;
    const uint32_t from = b.in(DType::Float32);
    b.store(b.out(DType::Float32), b.c, b.load(from, at));
    b.store(b.out(DType::Float32), at, b.load(from, b.c));
    b.store(b.out(DType::Int64), b.c, b.place(at));
    b.store(b.out(DType::Int32), b.c, b.place(b.c * 3 + 1, DType::Int32));
  }
  WEFT_COMPILE_OR_SKIP(kernels);
  size_t kernel = 0;
  for (const auto& [a, n, d] : shapes) {
    const int64_t count = a * n * d;
    const Tensor x = random_tensor({count}, DType::Float32, 1);
    for (size_t isa = 0; isa < kernels.isas().size(); ++isa) {
      const Tensor to = empty_of({count}, DType::Float32), back = empty_of({count}, DType::Float32),
                   places = empty_of({count}, DType::Int64), thirds = empty_of({count}, DType::Int32);
      kernels.run(kernel, isa, {x, to, back, places, thirds}, {}, {}, 2);
      for (int64_t c = 0; c < count; ++c) {
        const int64_t at = (c / d % n * a + c / (n * d)) * d + c % d;
        ASSERT_EQ(data_of<float>(to)[c], data_of<float>(x)[at]);
        ASSERT_EQ(data_of<float>(back)[at], data_of<float>(x)[c]);
        ASSERT_EQ(data_of<int64_t>(places)[c], at);
        ASSERT_EQ(data_of<int32_t>(thirds)[c], c * 3 + 1);
      }
    }
    ++kernel;
  }
}

}  // namespace
}  // namespace weft::compiler::tests
