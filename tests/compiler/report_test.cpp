// Counters, the screen of explain(), and the lines of WEFT_LOGS.
#include "compiler/runtime/report.h"

#include <gtest/gtest.h>

#include "tensor/base/log.h"
#include "weft.h"

namespace weft {
namespace {

Explanation example() {
  Explanation e;
  e.function = "step (train.cpp:38)";
  e.backend = "aot_eager";
  e.stats.traces = e.stats.compilations = e.stats.misses = 2;
  e.stats.hits = 57;
  e.stats.breaks = 1;
  Explanation::Entry entry;
  Explanation::Graph forward{"forward", "x: [120] float32\nmul(x, 2)\n", 1};
  forward.kernels = {
      {"kernel_mul", {"net.cpp:12 mul", "net.cpp:13 add", "net.cpp:12 exp"}, {1000, 480}, "", "", ""}};
  forward.extern_calls = 3;
  forward.library_calls = {"net.cpp:14 addmm", "net.cpp:14 addmm", "net.cpp:15 sort"};
  forward.bytes = {61'440'000, 2'500'000};
  forward.unfused = {1'999'600'000, 0};
  forward.stored_writes = 4;
  forward.copied_writes = 1;
  forward.copied_bytes = 96;
  forward.refusals = {"sum and mul (net.cpp:12): a reason", "b", "c", "d", "e", "f"};
  forward.compile_seconds = 0.0844;
  entry.graphs = {forward, {"backward", "…", 40}};
  entry.activations = {{"exp f32[30] (net.cpp:12)", 120}, {"addmm f32[4] (net.cpp:14)", 123'336}};
  entry.breaks = {{"net.cpp:31", "item", "the function reads a value"}};
  for (int i = 0; i < 14; ++i) entry.guards.push_back("dim 0 of x" + std::to_string(i) + " fixed at 120");
  entry.hits = 1;
  entry.is_dynamic = true;
  e.entries = {entry, {}, {}, {}};
  e.recompiles = {"x.size(0) was 64, is 17"};
  e.notes = {"runs eagerly: a reason"};
  return e;
}

TEST(Report, ExplanationIsOneScreen) {
  const std::string text = example().to_string();
  EXPECT_EQ(text.substr(0, text.find("  guard: dim 0 of x1 ")),
            "step (train.cpp:38), backend aot_eager: 4 programs, 2 graphs, 41 nodes, 1 kernel\n"
            "57 hits, 2 misses, 2 traces, 2 compiled graphs, 1 break\n"
            "program 1: 1 hit, dynamic\n"
            "  graph forward: 1 node -> 1 kernel, 3 library or eager calls; 63.9 MB moved, 2.00 GB unfused; "
            "compiled in 84 ms\n"
            "    x: [120] float32\n"
            "    mul(x, 2)\n"
            "    kernel_mul: reads 1.00 KB, writes 480 B\n"
            "      net.cpp:12 mul, exp\n"
            "      net.cpp:13 add\n"
            "    library and eager calls:\n"
            "      net.cpp:14 addmm x2\n"
            "      net.cpp:15 sort\n"
            "    stored over inputs: 4 tensors\n"
            "    copied into inputs after the kernels: 1 tensor, 96 B moved\n"
            "    not fused:\n"
            "      sum and mul (net.cpp:12): a reason\n"
            "      b\n"
            "      c\n"
            "      d\n"
            "      and 2 more (WEFT_LOGS=fusion lists them)\n"
            "  graph backward: 40 nodes\n"
            "  saved for backward: 2 tensors, 123 KB\n"
            "    exp f32[30] (net.cpp:12): 120 B\n"
            "    addmm f32[4] (net.cpp:14): 123 KB\n"
            "  break at net.cpp:31 by item: the function reads a value\n"
            "  guard: dim 0 of x0 fixed at 120\n");
  EXPECT_EQ(text.substr(text.find("  and 2 more guards")),
            "  and 2 more guards (WEFT_LOGS=guards lists them)\n"
            "program 2: 0 hits\n"
            "program 3: 0 hits\n"
            "and 1 more, used longer ago\n"
            "recompiled: x.size(0) was 64, is 17\n"
            "note: runs eagerly: a reason\n");
}

std::string logged(const char* channels, const std::function<void()>& f) {
  testing::internal::CaptureStderr();
  set_logs(channels);
  f();
  set_logs("");
  return testing::internal::GetCapturedStderr();
}

TEST(Report, LogLinesComeWithTheirChannelOnly) {
  const auto log = [] {
    compiler::log_recompile("step (train.cpp:38)", 3, "x.size(0) was 64, is 17", "dimension 0 is now dynamic",
                            "4 kernels, 0.21 s");
    compiler::log_break("step", {"net.cpp:31", "", "the function reads a value"});
    compiler::log_guards("step", {"a", "b"});
    compiler::log_graph("step", {"forward", "mul(x, 2)", 1});
  };
  EXPECT_EQ(logged("recompiles", log),
            "weft: recompiled step (train.cpp:38), 3rd version: x.size(0) was 64, is 17 -> dimension 0 is "
            "now dynamic. 4 "
            "kernels, 0.21 s.\n");
  EXPECT_EQ(logged("breaks", log), "weft: step breaks at net.cpp:31: the function reads a value\n");
  EXPECT_EQ(logged("guards", log), "weft: guards of step:\n  a\n  b\n");
  EXPECT_EQ(logged("graph", log), "weft: graph forward of step:\nmul(x, 2)\n");
  EXPECT_EQ(logged("", log), "");
}

TEST(Report, ExplainTakesCompiledAndPlainFunctions) {
  const Tensor x = ones({2});
  const auto f = compile([](Tensor t) { return t * 2; }, {.name = "twice"});
  const Explanation of_compiled = explain(f, x);
  EXPECT_EQ(of_compiled.function.substr(0, 6), "twice ");
  EXPECT_EQ(of_compiled.backend, "weft");
  ASSERT_EQ(of_compiled.entries.size(), 1u);
  ASSERT_EQ(of_compiled.entries[0].graphs.size(), 1u);
  EXPECT_EQ(of_compiled.entries[0].graphs[0].nodes, 1u);
  EXPECT_EQ(of_compiled.stats.misses, 1u);
  EXPECT_EQ(explain(f, x).stats.misses, 1u);  // it does not run again
  const Explanation of_plain = explain([](Tensor t) { return t * 2; }, x);
  EXPECT_EQ(of_plain.function, "a compiled function");
  EXPECT_EQ(of_plain.entries.size(), 1u);
}

TEST(Report, KernelsTellWhatTheyMoveAndShowTheirCode) {
  const auto f =
      compile([](Tensor x, Tensor w) { return silu(x * rsqrt(mean(x * x, {-1}, true) + 1e-6) * w); },
              {.name = "norm", .arguments = {"x", "w"}});
  const Explanation e = explain(f, randn({40, 64}), randn({64}));
  ASSERT_EQ(e.entries.size(), 1u);
  ASSERT_EQ(e.entries[0].graphs.size(), 1u);
  const Explanation::Graph& graph = e.entries[0].graphs[0];
  ASSERT_EQ(graph.kernels.size(), 1u) << e;
  const Explanation::Kernel& kernel = graph.kernels[0];
  EXPECT_EQ(kernel.bytes.read, 4 * (40 * 64 + 64));
  EXPECT_EQ(kernel.bytes.written, 4 * 40 * 64);
  EXPECT_EQ(graph.bytes.total(), kernel.bytes.total());
  // mul, mean, add, rsqrt, mul, mul, silu; an operand that stands twice is read once.
  EXPECT_EQ(graph.unfused.read, 4 * (40 * 64 + 40 * 64 + 2 * 40 + (40 * 64 + 40) + (40 * 64 + 64) + 40 * 64));
  EXPECT_EQ(graph.unfused.written, 4 * (4 * 40 * 64 + 3 * 40));
  EXPECT_GT(graph.compile_seconds, 0);
  EXPECT_EQ(graph.extern_calls, 0u);
  EXPECT_TRUE(graph.library_calls.empty());
  if (!kernel.code.empty()) {  // there is a compiler
    EXPECT_NE(kernel.code.find("extern \"C\" void " + kernel.name + "("), std::string::npos);
    EXPECT_NE(kernel.source.find(kernel.code), std::string::npos);
    EXPECT_EQ(e.code(), kernel.code + "\n");
  }
}

TEST(Report, TellsOfCopiesIntoInputsAndOfWhatBackwardKeeps) {
  const auto add = compile([](Tensor x) { x.add_(1); });
  Explanation e = explain(add, ones({100}));
  EXPECT_EQ(e.entries[0].graphs[0].stored_writes, 1u) << e;
  EXPECT_EQ(e.entries[0].graphs[0].copied_writes, 0u) << e;
  // Each element is read at another place than it is written at.
  const auto turn = compile([](Tensor x) { x.copy_(x.flip({0}) * 2); });
  e = explain(turn, ones({100}));
  EXPECT_EQ(e.entries[0].graphs[0].stored_writes, 0u) << e;
  EXPECT_EQ(e.entries[0].graphs[0].copied_writes, 1u) << e;
  EXPECT_EQ(e.entries[0].graphs[0].copied_bytes, 2 * 400) << e;
  const Tensor x = ones({30, 50}).requires_grad_();
  const auto loss = compile([](Tensor t, Tensor w) { return exp(t.matmul(w)).sum(); });
  const Tensor result = loss(x, ones({50, 20}));
  e = loss.core().explanation();
  ASSERT_EQ(e.entries[0].activations.size(), 1u) << e;  // exp needs its result, or what it was made of
  EXPECT_EQ(e.entries[0].activations[0].bytes, 4u * 30 * 20) << e;
  EXPECT_EQ(e.entries[0].graphs.size(), 2u) << e;
}

TEST(Report, OriginsAreGroupedByLine) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(compiler::lines_of_origins({"a.cpp:1 mul", "b.cpp:2 add", "a.cpp:1 exp", "a.cpp:1 mul", "neg"}),
            (Lines{"a.cpp:1 mul x2, exp", "b.cpp:2 add", "neg"}));
  EXPECT_EQ(compiler::lines_of_origins({}), Lines{});
}

TEST(Report, BytesHaveThreeDigits) {
  EXPECT_EQ(compiler::bytes_text(0), "0 B");
  EXPECT_EQ(compiler::bytes_text(999), "999 B");
  EXPECT_EQ(compiler::bytes_text(1000), "1.00 KB");
  EXPECT_EQ(compiler::bytes_text(9'994), "9.99 KB");
  EXPECT_EQ(compiler::bytes_text(9'996), "10.0 KB");
  EXPECT_EQ(compiler::bytes_text(99'960), "100 KB");
  EXPECT_EQ(compiler::bytes_text(999'499), "999 KB");
  EXPECT_EQ(compiler::bytes_text(999'500), "1.00 MB");
  EXPECT_EQ(compiler::bytes_text(INT64_MAX), "9223372 TB");
}

// The lines of `text` that begin with `start`.
std::vector<std::string> lines_from(const std::vector<std::string>& lines, const std::string& start) {
  std::vector<std::string> found;
  for (const std::string& line : lines)
    if (line.starts_with(start)) found.push_back(line);
  return found;
}

TEST(Report, SaysWhichLineFixedADimension) {
  unsigned line = 0;
  const auto f = compile([&](Tensor x) {
    line = std::source_location::current().line() + 1;
    return x.view({12, 10}) + 1;
  });
  f(ones({120}));
  const Explanation before = f.core().explanation();
  const auto fixed = lines_from(before.entries[0].guards, "dim 0 of x fixed at 120");
  ASSERT_EQ(fixed.size(), 1u) << before;
  EXPECT_EQ(fixed[0], "dim 0 of x fixed at 120 by view at report_test.cpp:" + std::to_string(line));
  EXPECT_THROW(f(ones({121})), Error);
}

TEST(Report, RepeatsTheLineThatFixedADimensionWhereItRecompiles) {
  unsigned line = 0;
  const auto f = compile(
      [&](Tensor x) {
        line = std::source_location::current().line() + 1;
        return x + arange(120).slice(0, 0, x.size(0)).sum();
      },
      {.dynamic = false});
  f(ones({120}));
  const std::string by = " by slice at report_test.cpp:" + std::to_string(line);
  const auto fixed = lines_from(f.core().explanation().entries[0].guards, "dim 0 of x fixed at 120");
  ASSERT_EQ(fixed.size(), 1u);
  EXPECT_EQ(fixed[0], "dim 0 of x fixed at 120" + by);
  f(ones({119}));
  ASSERT_EQ(f.core().explanation().recompiles.size(), 1u);
  EXPECT_EQ(f.core().explanation().recompiles[0], "x.size(0) was 120, is 119 (fixed" + by + ")");
}

TEST(Report, KeepsReasonsOfRecompilations) {
  const auto f = compile([](Tensor x) { return x * 2; }, {.name = "twice"});
  const std::string said = logged("recompiles", [&] {
    f(ones({64}));
    f(ones({17}));
    f(ones({17}, kFloat64));
  });
  const Explanation explanation = f.core().explanation();
  ASSERT_EQ(explanation.recompiles.size(), 2u) << explanation;
  EXPECT_EQ(explanation.recompiles[0].substr(0, 25), "x.size(0) was 64, is 17 (");
  EXPECT_EQ(explanation.recompiles[1], "x.dtype() was float32, is float64");
  ASSERT_EQ(explanation.entries.size(), 3u);
  EXPECT_TRUE(explanation.entries[1].is_dynamic);
  EXPECT_NE(said.find(", 2nd version: x.size(0) was 64, is 17"), std::string::npos) << said;
  EXPECT_NE(said.find("-> dimension 0 is now dynamic. 1 graph compiled.\n"), std::string::npos) << said;
  EXPECT_NE(said.find(", 3rd version: x.dtype() was float32, is float64."), std::string::npos) << said;
}

TEST(Report, ShowsPathsAndBreaksOfConditions) {
  const auto f = compile([](Tensor x) { return (x.sum() > 0) ? x * 2 : x - 1; });
  f(ones({3}));
  f(-ones({3}));
  const Explanation explanation = f.core().explanation();
  ASSERT_EQ(explanation.entries.size(), 1u);
  const Explanation::Entry& entry = explanation.entries[0];
  ASSERT_EQ(entry.breaks.size(), 1u) << explanation;
  EXPECT_TRUE(entry.breaks[0].where.starts_with("report_test.cpp:")) << explanation;
  EXPECT_EQ(entry.graphs.size(), 3u) << explanation;
}

}  // namespace
}  // namespace weft
