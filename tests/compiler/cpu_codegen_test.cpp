// Generated CPU kernels give the bits of eager ops: every primitive, conversion, fold, layout and pass, with any tail and any
// number of threads, on AVX2 and AVX-512. Bodies are written by hand; one compilation for each test.
#include "compiler/codegen/cpu_codegen.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <sstream>

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
using weft::Expr;

constexpr DType kComputeDTypes[] = {DType::Float32, DType::Float64, DType::Int32, DType::Int64};

// ---- The vocabulary

// What was asked before decides nothing: a source has one text, by which it is found on disk.
TEST(CpuVocabulary, TextsDoNotDependOnEarlierOnes) {
  for (const cpu::Isa isa : {cpu::Isa::SSE4, cpu::Isa::AVX2, cpu::Isa::AVX512}) {
    const CpuTarget target{isa};
    const std::string text =
        "f32 a = w_whole_f32(p); m32 m = w_lt_f32(a, w_splat_f32(0)); w_run_sum_f32(x, n);";
    const std::string first = definitions_for(target, text);
    EXPECT_NE(first.find(" f32"), std::string::npos);
    EXPECT_NE(first.find(" w_run_sum_f32("), std::string::npos);
    EXPECT_EQ(first.find("w_run_sum_f64("), std::string::npos);
    const std::string other = definitions_for(target, "w_run_sum_f64(x, n)");
    EXPECT_NE(other.find(" w_run_sum_f64("), std::string::npos);
    EXPECT_EQ(other.find("w_lt_f32("), std::string::npos);
    EXPECT_EQ(definitions_for(target, text + " w_run_sum_f32 f32"), first);
    EXPECT_EQ(definitions_for(target, "w_32 long w"), definitions_for(target, ""));
  }
}

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

}  // namespace
}  // namespace weft::compiler::tests
