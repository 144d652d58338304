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
  entry.graphs = {{"forward", "x: [120] float32\nmul(x, 2)\n", 1}, {"backward", "…", 40}};
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
            "step (train.cpp:38), backend aot_eager: 4 programs, 2 graphs, 41 nodes\n"
            "57 hits, 2 misses, 2 traces, 2 compiled graphs, 1 break\n"
            "program 1: 1 hit, dynamic\n"
            "  graph forward: 1 node\n"
            "    x: [120] float32\n"
            "    mul(x, 2)\n"
            "  graph backward: 40 nodes\n"
            "  break at net.cpp:31 by item: the function reads a value\n"
            "  guard: dim 0 of x0 fixed at 120\n");
  EXPECT_EQ(text.substr(text.find("  and 2")),
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
