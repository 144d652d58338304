// What WEFT_LOGS=fusion,output_code,timing says of a compile, and the files of WEFT_DEBUG_DIR.
#include <gtest/gtest.h>
#include <weft.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "compiler/runtime/debug_directory.h"
#include "compiler/runtime/kernel_program.h"
#include "tensor/base/log.h"

namespace weft::compiler::tests {
namespace {

namespace fs = std::filesystem;

std::string logged(const char* channels, const std::function<void()>& f) {
  testing::internal::CaptureStderr();
  set_logs(channels);
  f();
  set_logs("");
  return testing::internal::GetCapturedStderr();
}

size_t count_in(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// WEFT_DEBUG_DIR for the length of a test; the directory does not exist yet, and is removed afterwards.
class DebugDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft_debug_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    directory_ = home_ / "a" / "b";
    setenv("WEFT_DEBUG_DIR", directory_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("WEFT_DEBUG_DIR");
    fs::remove_all(home_);
  }
  std::vector<std::string> names_in(const fs::path& place) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_ / place))
      if (const std::string name = entry.path().filename().string(); !name.starts_with('.'))
        names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path home_, directory_;
};

// A norm next to a column sum: one pair that cannot become one kernel, and a library call.
Tensor norm_and_product(Tensor x, Tensor w) {
  const Tensor h = softmax(x, -1);
  return matmul(h * w, (h / h.sum(0, true)).t());
}

TEST(Logs, FusionNamesKernelsWithWhatTheyMoveAndWhatStaysApart) {
  const auto f = compile(norm_and_product, {.name = "norm"});
  const std::string said = logged("fusion", [&] { f(randn({8, 6}), randn({6})); });
  EXPECT_EQ(count_in(said, "weft: fusion of norm: "), 1u) << said;
  EXPECT_TRUE(std::regex_search(said, std::regex("kernel_\\w+: reads \\d+ B, writes \\d+ B"))) << said;
  EXPECT_NE(said.find("library and eager calls:"), std::string::npos) << said;
  EXPECT_NE(said.find("compile_log_test.cpp:"), std::string::npos) << said;
  EXPECT_NE(said.find("not fused:"), std::string::npos) << said;
  EXPECT_NE(said.find("a row needs what is known after all rows"), std::string::npos) << said;
  EXPECT_EQ(logged("fusion", [&] { f(randn({8, 6}), randn({6})); }), "");  // a hit says nothing
}

TEST(Logs, OutputCodeIsTheTextOfEachKernel) {
  if (!can_generate_code()) GTEST_SKIP() << "there is no C++ compiler";
  const auto f = compile([](Tensor x) { return softmax(x * 2, -1); }, {.name = "soft"});
  const Tensor x = randn({4, 5});
  const std::string said = logged("output_code", [&] { f(x); });
  const Explanation e = explain(f, x);
  ASSERT_EQ(e.entries[0].graphs[0].kernels.size(), 1u);
  const Explanation::Kernel& kernel = e.entries[0].graphs[0].kernels[0];
  EXPECT_EQ(said, "weft: code of " + kernel.name + " of soft:\n" + kernel.code + "\n");
  EXPECT_EQ(count_in(said, "extern \"C\" void " + kernel.name), 1u);
}

TEST(Logs, TimingSaysWhereACompileWent) {
  const auto f = compile([](Tensor x) { return exp(x).sum(); }, {.name = "total"});
  const std::string said = logged("timing", [&] { f(ones({3}).requires_grad_()).backward(); });
  const std::string time = "[0-9]+\\.[0-9] ms";
  EXPECT_TRUE(std::regex_search(said, std::regex("weft: compiled total: passes " + time + ", schedule " +
                                                 time + ", code " + time + "; in all " + time)))
      << said;
  EXPECT_EQ(count_in(said, "weft: compiled total, backward: "), 1u) << said;
}

TEST(Logs, CacheSaysWhatWasCompiled) {
  if (!can_generate_code()) GTEST_SKIP() << "there is no C++ compiler";
  // A number that no earlier run had, so that no cache has it.
  const double fresh =
      1 + 1e-9 * static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
  const auto f = compile([&](Tensor x) { return x * fresh; });
  const std::string said = logged("cache", [&] { f(ones({3}, kFloat64)); });
  EXPECT_NE(said.find("cache: 1 kernel sources: 1 compiled, 0 from disk"), std::string::npos) << said;
}

TEST(Logs, OfAnUnknownChannelAreAWarningThatNamesTheKnownOnes) {
  const std::string said = logged("fusion,fussion", [] {});
  EXPECT_TRUE(said.starts_with("weft: WEFT_LOGS: there is no channel \"fussion\"; the channels are graph, "))
      << said;
  for (const char* name : {"guards", "recompiles", "breaks", "fusion", "output_code", "cache", "timing"})
    EXPECT_NE(said.find(name), std::string::npos) << name;
}

TEST_F(DebugDirectory, HoldsEveryStageOfEveryCompile) {
  const auto f = compile(norm_and_product, {.name = "norm", .arguments = {"x", "w"}});
  f(randn({8, 6}), randn({6}));
  f(randn({9, 6}), randn({6}));
  EXPECT_EQ(names_in("norm"),
            (std::vector<std::string>{"001_graph", "002_guards.txt", "003_graph", "004_guards.txt"}));
  const fs::path place = directory_ / "norm" / "001_graph";
  EXPECT_NE(read(place / "traced.txt").find("softmax(%0"), std::string::npos);
  const std::string passes = read(place / "passes.txt");
  EXPECT_NE(passes.find("==== decompose: "), std::string::npos) << passes;
  EXPECT_NE(passes.find("==== in the end\n"), std::string::npos) << passes;
  const std::string summary = read(place / "summary.txt");
  EXPECT_NE(summary.find("not fused:"), std::string::npos) << summary;
  EXPECT_NE(summary.find("in all "), std::string::npos) << summary;
  EXPECT_NE(read(place / "loops.txt").find("for "), std::string::npos);
  const std::string plan = read(place / "launch_plan.txt");
  EXPECT_TRUE(plan.starts_with("arena: ")) << plan;
  EXPECT_NE(plan.find("b0: float32 [8, 6] input\n"), std::string::npos) << plan;
  EXPECT_NE(plan.find("call mm b"), std::string::npos) << plan;
  EXPECT_TRUE(std::regex_search(plan, std::regex("step \\d: kernel_\\w+.* \\(b0"))) << plan;
  EXPECT_NE(plan.find("outputs: b"), std::string::npos) << plan;
  if (can_generate_code()) {
    EXPECT_NE(read(place / "kernels_1.cpp").find("extern \"C\" void kernel_"), std::string::npos);
  }
  EXPECT_NE(read(directory_ / "norm" / "002_guards.txt").find("dim 0 of x fixed at 8"), std::string::npos);
  // The second program is of any number of rows.
  EXPECT_EQ(read(directory_ / "norm" / "004_guards.txt").find("dim 0 of x fixed"), std::string::npos);
}

TEST_F(DebugDirectory, TellsBackwardAndOtherFunctionsApart) {
  const auto f = compile([](Tensor x) { return exp(x).sum(); }, {.name = "total/of <it>"});
  f(ones({3}).requires_grad_()).backward();
  compile([](Tensor x) { return x + 1; }, {.name = "other"})(ones({2}));
  EXPECT_EQ(names_in(""), (std::vector<std::string>{"other", "report.html", "total_of__it_"}));
  EXPECT_EQ(names_in("total_of__it_"),
            (std::vector<std::string>{"001_graph", "002_guards.txt", "003_backward"}));
}

TEST_F(DebugDirectory, ReportIsOnePageOfAllCompiles) {
  const auto f = compile([](Tensor x) { return softmax(x, -1); }, {.name = "a"});
  f(randn({4, 5}));
  const std::string first = read(directory_ / "report.html");
  compile([](Tensor x) { return x < 2; }, {.name = "b"})(ones({2}));
  const std::string report = read(directory_ / "report.html");
  EXPECT_TRUE(report.starts_with(first));  // sections are added
  EXPECT_EQ(count_in(report, "<!DOCTYPE html>"), 1u);
  EXPECT_EQ(count_in(report, "<details"), count_in(report, "</details>"));
  for (const char* part :
       {"a/001_graph: ", "a/002_guards.txt: ", "b/001_graph: ", "launch_plan.txt", "loops.txt"})
    EXPECT_NE(report.find(part), std::string::npos) << part;
  // Self-contained, and text is text.
  EXPECT_EQ(report.find("http"), std::string::npos);
  EXPECT_EQ(report.find("src="), std::string::npos);
  EXPECT_EQ(report.find("-> return"), std::string::npos);
  EXPECT_EQ(count_in(report, "<pre>"), count_in(report, "</pre>"));
}

TEST_F(DebugDirectory, GoesOnWithTheNumbersThatAreFree) {
  write_debug_files("f", "graph", "", {{"a.txt", "1"}, {"b.txt", "2"}});
  write_debug_files("f", "guards", "", {{"guards.txt", "3"}});
  write_debug_files("f", "graph", "", {{"a.txt", "4"}, {"b.txt", "5"}});
  EXPECT_EQ(names_in("f"), (std::vector<std::string>{"001_graph", "002_guards.txt", "003_graph"}));
  EXPECT_EQ(read(directory_ / "f" / "003_graph" / "b.txt"), "5");
  EXPECT_EQ(read(directory_ / "f" / "002_guards.txt"), "3");
}

TEST_F(DebugDirectory, ThatCannotBeWrittenIsOneWarning) {
  std::ofstream(home_ / "file") << "no directory";
  setenv("WEFT_DEBUG_DIR", (home_ / "file" / "below").c_str(), 1);
  const auto f = compile([](Tensor x) { return x * 2 + 1; });
  testing::internal::CaptureStderr();
  const Tensor result = f(ones({2}));
  f(ones({2}, kFloat64));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(equal(result, full({2}, 3.f)));
  EXPECT_EQ(count_in(said, "WEFT_DEBUG_DIR: cannot write "), 1u) << said;
  EXPECT_NE(said.find((home_ / "file" / "below").string()), std::string::npos) << said;
  EXPECT_EQ(count_in(said, "\n"), 1u) << said;
}

}  // namespace
}  // namespace weft::compiler::tests
