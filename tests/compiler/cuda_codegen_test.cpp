// Generated CUDA code: NVRTC takes every primitive, layout, fold and class of kernels; its text is what the sizes ask for.
// No GPU is needed; compiling skips where there is no CUDA toolkit.
#include "compiler/codegen/cuda_codegen.h"

#include <gtest/gtest.h>

#include "compiler/codegen/cuda_stages.h"
#include "compiler/loops/schedule.h"
#include "compiler/passes/pipeline.h"
#include "tensor/op.h"
#include "tensor/ops/pointwise_rule.h"
#include "tests/compiler/nvrtc.h"
#include "tests/compiler/random_graph.h"
#include "tests/compiler/run_body.h"

namespace weft::compiler::tests {
namespace {

using weft::Expr;
using Class = CudaVariant::Class;

constexpr DType bf16 = DType::BFloat16;
const std::vector<const char*> kOptions = {"-std=c++17", "-default-device", "--fmad=false", "-minimal"};

#define WEFT_NVRTC_OR_SKIP() \
  if (!Nvrtc::instance().is_there()) GTEST_SKIP() << "no libnvrtc: the CUDA toolkit is not installed"

void expect_compiles(const CudaCode& code, Nvrtc::Make make = Nvrtc::Make::Cubin) {
  std::string log;
  const std::string cubin = Nvrtc::instance().compile(code.text, kOptions, log, make);
  ASSERT_FALSE(cubin.empty()) << log.substr(0, 3000) << code.text.substr(code.text.find("struct w_params"));
}

CudaCode generate(const LoopBody& body) {
  verify(body);
  const LoopBody* const one = &body;
  return generate_cuda(std::span(&one, 1), CudaTarget{});
}
CudaVariant variant_of(const LoopBody& body) {
  const CudaBody own(body);
  return own.variant(own.traced_sizes(), nullptr, CudaTarget{});
}

// x * rsqrt(mean(x^2)) of each row.
void normalize(BodyBuilder& b, Sym rows, Sym columns, DType dtype) {
  const auto arithmetic = b.arithmetic();
  b.loops(Sym::from_int(1), rows, columns);
  const uint32_t in = b.in(dtype), out = b.out(dtype);
  const Sym at = b.r * columns + b.c;
  const Expr x = cast(b.load(in, at), f32);
  const Expr scale = rsqrt(b.sum(BodyBuilder::Axis::Columns, x * x) * 0.25);
  b.store(out, at, cast(x * scale, dtype));
}

TEST(CudaCode, EveryPointwiseOpCompiles) {
  WEFT_NVRTC_OR_SKIP();
  // Without arithmetic on sizes, which is installed for a thread and goes in the order of scopes.
  std::vector<std::unique_ptr<BodyBuilder>> bodies;
  std::vector<const LoopBody*> pointers;
  for (const Op* op : OpTable::instance().all()) {
    if (op->pointwise == nullptr) continue;
    for (const DType dtype : {f32, f64, i64, i32}) {
      const PointwiseRule& rule = *op->pointwise;
      auto b = std::make_unique<BodyBuilder>(1, 1, 1000);
      b->body.values.set_number_dtype(dtype);
      Expr value;
      std::vector<Expr> inputs;
      try {
        for (int k = 0; k < rule.arity; ++k) inputs.push_back(b->load(b->in(dtype), b->c));
        value = rule.expr(inputs);
        b->store(b->out(value.dtype()), b->c, value);
        b->body.name = std::string("f") + std::to_string(bodies.size());
        verify(b->body);
      } catch (const std::exception&) {
        continue;  // not of this dtype
      }
      bodies.push_back(std::move(b));
      pointers.push_back(&bodies.back()->body);
    }
  }
  ASSERT_GT(pointers.size(), 200u);
  // Parts that NVRTC takes in a moment each, to PTX: what types and names can break is found there.
  constexpr size_t kPart = 60;
  for (size_t first = 0; first < pointers.size(); first += kPart) {
    const auto part = std::span(pointers).subspan(first, std::min(kPart, pointers.size() - first));
    ASSERT_NO_FATAL_FAILURE(expect_compiles(generate_cuda(part, CudaTarget{}), Nvrtc::Make::Ptx));
  }
}

TEST(CudaCode, EveryCastCompiles) {
  WEFT_NVRTC_OR_SKIP();
  Body b(1, 3, 64);
  const auto arithmetic = b.arithmetic();
  b.body.name = "casts";
  for (int from = 0; from < kNumDTypes; ++from) {
    const Expr x = b.load(b.in(static_cast<DType>(from)), b.dense());
    for (int to = 0; to < kNumDTypes; ++to)
      b.store(b.out(static_cast<DType>(to)), b.dense(), cast(x, static_cast<DType>(to)));
  }
  expect_compiles(generate(b.body));
}

TEST(CudaCode, RandomGraphsCompile) {
  WEFT_NVRTC_OR_SKIP();
  size_t kernels = 0;
  for (uint32_t seed = 2000; seed < 2012; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(seed, 60);
    for (size_t i = 0; i < 6; ++i)
      random.graph.outputs.push_back(static_cast<ValueId>(random.below(random.graph.values.size())));
    const Schedule made = schedule(prepare(random.graph, Stage::Lowered));
    for (const KernelStep& kernel : made.kernels) {
      std::vector<const LoopBody*> bodies;
      for (const LoopBody& body : kernel.bodies) bodies.push_back(&body);
      ASSERT_NO_FATAL_FAILURE(expect_compiles(generate_cuda(bodies, CudaTarget{})));
      ++kernels;
    }
  }
  EXPECT_GT(kernels, 10u);
}

// A fold along the columns, one along the rows and a store of each kind, in every class that takes them.
TEST(CudaCode, EveryClassCompiles) {
  WEFT_NVRTC_OR_SKIP();
  struct Shape {
    int64_t batches, rows, columns;
    bool along_columns, along_rows;
    Class want;
  };
  for (const Shape& s :
       {Shape{1, 64, 4096, true, false, Class::Rows}, Shape{1, 64, 50257, true, false, Class::Split},
        Shape{1, 4096, 50257, true, false, Class::Rows}, Shape{1, 1, 1 << 22, true, false, Class::Split},
        Shape{3, 4096, 100, false, true, Class::Outer}, Shape{1, 4096, 4096, true, true, Class::RowsOuter},
        Shape{1, 4096, 4095, true, true, Class::RowsOuter},
        Shape{2, 300, 20000, true, true, Class::RowsThenOuter}}) {
    Body b(s.batches, s.rows, s.columns);
    const auto arithmetic = b.arithmetic();
    b.body.name = "body";
    const Expr x = b.load(b.in(f32), b.dense());
    Expr y = x;
    if (s.along_columns) {
      const Expr row = b.sum(Body::Axis::Columns, x * x);
      y = x * row;
      b.store(b.out(f32), b.b * b.body.rows + b.r, row, Body::Each::Row);
    }
    if (s.along_rows) {
      const Expr column = b.fold(cpu::Fold::Max, Body::Axis::Rows, y);
      b.store(b.out(f32), b.b * b.body.columns + b.c, column + 1, Body::Each::Column);
      if (s.along_columns) {
        const Expr all = b.sum(Body::Axis::RowValues, b.sum(Body::Axis::Columns, x));
        b.store(b.out(f32), b.b, all, Body::Each::Batch);
      }
    }
    b.store(b.out(f32), b.dense(), y);
    EXPECT_EQ(variant_of(b.body).kind, s.want) << s.rows << " x " << s.columns;
    ASSERT_NO_FATAL_FAILURE(expect_compiles(generate(b.body)));
  }
}

TEST(CudaCode, RowsStayInRegistersAndMoveSixteenBytes) {
  BodyBuilder b;
  normalize(b, Sym::from_int(8192), Sym::from_int(4096), f32);
  const CudaVariant v = variant_of(b.body);
  EXPECT_EQ(v.kind, Class::Rows);
  EXPECT_TRUE(v.is_persistent);
  EXPECT_FALSE(v.is_wide);
  EXPECT_EQ(v.vector, 4);
  EXPECT_EQ(v.packs, 4);
  const CudaCode code = generate(b.body);
  ASSERT_EQ(code.kernels.size(), 1u);
  // Read once.
  size_t loads = 0;
  const size_t kernel = code.text.find("struct w_params");
  for (size_t at = kernel; (at = code.text.find("w_load<", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 1u);
  EXPECT_EQ(code.text.find("w_over(", kernel), std::string::npos) << "a division where none is needed";

  BodyBuilder h;
  normalize(h, Sym::from_int(8192), Sym::from_int(4096), bf16);
  EXPECT_EQ(variant_of(h.body).vector, 8);
}

// What ptxas says of the kernels: registers of a thread, and bytes that did not fit into them.
struct Resources {
  int registers = 0, spilled = 0;
};
Resources resources_of(const CudaCode& code) {
  std::vector<const char*> options = kOptions;
  options.push_back("--ptxas-options=-v");
  std::string log;
  EXPECT_FALSE(Nvrtc::instance().compile(code.text, options, log).empty()) << log.substr(0, 3000);
  Resources most;
  const auto most_of = [&](const std::string& before, const std::string& after) {
    int found = 0;
    for (size_t at = 0; (at = log.find(after, at)) != std::string::npos; ++at) {
      const size_t start = log.rfind(before, at);
      if (start != std::string::npos) found = std::max(found, std::stoi(log.substr(start + before.size())));
    }
    return found;
  };
  most.registers = most_of("Used ", " registers");
  most.spilled = most_of(", ", " bytes spill stores");
  return most;
}

TEST(CudaCode, LongRowsAreHeldInSharedMemory) {
  WEFT_NVRTC_OR_SKIP();
  BodyBuilder b;
  normalize(b, Sym::from_int(4096), Sym::from_int(50257), f32);
  const CudaBody body(b.body);
  const CudaVariant v = variant_of(b.body);
  EXPECT_EQ(v.kind, Class::Rows);
  EXPECT_TRUE(v.is_held);
  const CudaSizes sizes = body.traced_sizes();
  ASSERT_EQ(body.held_sources(v).size(), 1u);
  const CudaGeometry geometry = body.geometry({CudaStage::Kind::Rows}, v, sizes, CudaTarget{});
  EXPECT_EQ(geometry.blocks, CudaTarget{}.sms) << "one row of 201 KB fits into an SM";
  EXPECT_EQ(geometry.shared_bytes, 50257 * 4 + 12);
  const CudaCode code = generate(b.body);
  // Memory is read by the copies alone.
  const size_t kernel = code.text.find("struct w_params");
  EXPECT_NE(code.text.find("w_ask_at<1, 2048>(to0, from0)", kernel), std::string::npos);
  EXPECT_EQ(code.text.find(", b0 +", code.text.find("for (w_int line", kernel)), std::string::npos);
  const Resources used = resources_of(code);
  EXPECT_EQ(used.spilled, 0);
  EXPECT_LE(used.registers, 128) << "512 threads fill an SM's registers";

  // More columns than shared memory has room for, few rows, and rows of halves that no copy of words reaches.
  for (const auto& [rows, columns, dtype] :
       {std::tuple(4096, 60000, f32), std::tuple(64, 20000, f32), std::tuple(4096, 50257, bf16)}) {
    BodyBuilder other;
    normalize(other, Sym::from_int(rows), Sym::from_int(columns), dtype);
    EXPECT_FALSE(variant_of(other.body).is_held) << rows << " x " << columns;
  }
}

// What is asked of a row, in long rows whose elements come one by one, is asked once; the threads stay together.
TEST(CudaCode, LongOddRowsWithoutFoldsAreHeld) {
  WEFT_NVRTC_OR_SKIP();
  const auto subtract = [](BodyBuilder& b, int64_t columns) {
    const auto arithmetic = b.arithmetic();
    b.loops(Sym::from_int(1), Sym::from_int(4096), Sym::from_int(columns));
    const Sym at = b.r * Sym::from_int(columns) + b.c;
    b.store(b.out(f32), at, b.load(b.in(f32), at) - b.load(b.in(f32), b.r));
  };
  BodyBuilder b;
  subtract(b, 50257);
  const CudaVariant v = variant_of(b.body);
  EXPECT_EQ(v.kind, Class::Rows);
  EXPECT_TRUE(v.is_held);
  const CudaCode code = generate(b.body);
  EXPECT_NE(code.text.find("__syncthreads();\n    ask(line + stride"), std::string::npos);
  expect_compiles(code);
  for (const int64_t columns : {50256, 4097}) {
    BodyBuilder other;
    subtract(other, columns);
    EXPECT_EQ(variant_of(other.body).kind, Class::Flat) << columns;
  }
}

// Backward of a norm: folds both ways, with the next row on its way while this one is computed.
TEST(CudaCode, FoldsBothWaysReadAhead) {
  WEFT_NVRTC_OR_SKIP();
  BodyBuilder b;
  const auto arithmetic = b.arithmetic();
  b.loops(Sym::from_int(1), Sym::from_int(8192), Sym::from_int(4096));
  const Sym at = b.r * Sym::from_int(4096) + b.c;
  const Expr x = b.load(b.in(f32), at), g = b.load(b.in(f32), at);
  const Expr row = b.sum(BodyBuilder::Axis::Columns, x * g);
  b.store(b.out(f32), at, g - x * row);
  b.store(b.out(f32), b.c, b.sum(BodyBuilder::Axis::Rows, x * g), BodyStore::Each::Column);
  const CudaVariant v = variant_of(b.body);
  EXPECT_EQ(v.kind, Class::RowsOuter);
  EXPECT_TRUE(v.is_held);
  const CudaCode code = generate(b.body);
  EXPECT_NE(code.text.find("ask(i + 1)"), std::string::npos);
  const Resources used = resources_of(code);
  EXPECT_EQ(used.spilled, 0);
  EXPECT_LE(used.registers, 128) << "two blocks on an SM";
}

// Products and sums of halves come two at a time; what is not rounded at once does not.
TEST(CudaCode, HalvesArePaired) {
  for (const DType half : {bf16, DType::Float16}) {
    BodyBuilder b;
    const auto arithmetic = b.arithmetic();
    b.loops(Sym::from_int(1), Sym::from_int(1), Sym::from_int(1 << 20));
    const Expr x = cast(b.load(b.in(half), b.c), f32), y = cast(b.load(b.in(half), b.c), f32);
    const Expr product = cast(x * y, half);
    b.store(b.out(half), b.c, cast(cast(product, f32) + x, half));
    b.store(b.out(f32), b.c, x - y);
    const CudaCode code = generate(b.body);
    const std::string text = code.text.substr(code.text.find("struct w_params"));
    EXPECT_NE(text.find(">::mul(load0[k].w[e / 2], load1[k].w[e / 2])"), std::string::npos) << text;
    EXPECT_NE(text.find(">::add("), std::string::npos) << text;
    EXPECT_EQ(text.find(">::sub("), std::string::npos) << text;
    WEFT_NVRTC_OR_SKIP();
    expect_compiles(code);
  }
}

// A column of a matrix, as select() reads it: no loop over rows has a symbol.
TEST(CudaCode, OneRowIsReadWithAStride) {
  Body b(1, 1, 1000);
  const uint32_t from = b.in(f32), to = b.out(f32);
  b.store(to, b.c, b.load(from, b.c * 7 + 3));
  const CudaVariant v = variant_of(b.body);
  EXPECT_EQ(v.kind, Class::Flat);
  EXPECT_FALSE(CudaBody(b.body).is_turned(b.body.sources[0]));
  EXPECT_NE(generate(b.body).text.find("b0 + (c * 7 + 3)"), std::string::npos) << generate(b.body).text;
}

TEST(CudaCode, SizesAndAddressesChooseTheVariant) {
  BodyBuilder b;
  const Sym n = b.size("n", 4096);
  normalize(b, b.size("m", 100), n, f32);
  const CudaBody body(b.body);
  const auto variant = [&](int64_t columns, int64_t rows, std::vector<void*> addresses = {}) {
    const int64_t sizes[] = {columns, rows};
    return body.variant(body.sizes_of(sizes), addresses.empty() ? nullptr : addresses.data(), CudaTarget{});
  };
  EXPECT_EQ(variant(4096, 100).vector, 4);
  EXPECT_TRUE(variant(4096, 100).aligned[0]);
  EXPECT_EQ(variant(4095, 100).vector, 1);
  EXPECT_FALSE(variant(100000, 100).is_persistent);
  EXPECT_FALSE(variant(4096, 100).is_wide);
  EXPECT_TRUE(variant(4096, 1 << 20).is_wide);
  // Equal texts for sizes of a kind.
  EXPECT_EQ(variant(4096, 100), variant(2048, 200));
  char* const memory = nullptr;
  const CudaVariant shifted = variant(4096, 100, {memory + 1028, memory + 1024});
  EXPECT_FALSE(shifted.aligned[0]);
  EXPECT_EQ(shifted.vector, 4) << "the tree of the fold depends on the size alone";
}

}  // namespace
}  // namespace weft::compiler::tests
