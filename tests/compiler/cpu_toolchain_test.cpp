// The system's compiler: found or not, of another version, refusing a source, and with steps that do not work.
#include "compiler/codegen/cpu_toolchain.h"

#include "tests/compiler/kernel_compilation.h"

namespace weft::compiler {
namespace {

using namespace testing;
using CpuToolchainTest = CpuCompilerTest;

TEST_F(CpuToolchainTest, ARefusedSourceIsKeptAndTheOthersAreCompiled) {
  CpuCompiler compiler(options());
  const CpuSource bad = {"extern \"C\" int broken() {\n  return not_declared;\n}\n", {"broken"}};
  const std::vector<CpuSource> sources = {adds(1), bad, adds(2)};
  const fs::path kept = base_ / "debug";
  ::setenv("WEFT_DEBUG_DIR", kept.c_str(), 1);
  const std::string text = error_of([&] { compiler.compile(sources); });
  ::unsetenv("WEFT_DEBUG_DIR");
  EXPECT_EQ(text.find("the compiler refused the code of broken ("), 0u) << text;
  EXPECT_NE(text.find("'not_declared' was not declared"), std::string::npos) << text;
  EXPECT_NE(text.find("<stdin>:2:10"), std::string::npos) << text;
  const size_t at = text.find("its source is in ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string path = text.substr(at + 17);
  EXPECT_EQ(fs::path(path).parent_path(), kept);
  EXPECT_EQ(read_file(path), bad.text);
  EXPECT_EQ(compiler.stats().failed, 1u);
  EXPECT_EQ(libraries_on_disk().size(), 2u);
  // Refused again, not remembered.
  EXPECT_NE(error_of([&] { compiler.compile({&bad, 1}); }).find("not_declared"), std::string::npos);
}

TEST_F(CpuToolchainTest, MessagesAreCutAndTheKeptSourceGoesToTheTemporaryDirectory) {
  CpuCompiler compiler(options());
  CpuSource bad = {"", {"f"}};
  for (int i = 0; i < 50; ++i) bad.text += "int f() { return none" + std::to_string(i) + "; }\n";
  const std::string text = error_of([&] { compiler.compile({&bad, 1}); });
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 10);
  const std::string path = text.substr(text.find("its source is in ") + 17);
  EXPECT_EQ(fs::path(path).parent_path(), fs::temp_directory_path());
  EXPECT_TRUE(fs::remove(path));
}

TEST_F(CpuToolchainTest, WithoutACompilerItSaysWhy) {
  {
    CpuCompiler compiler(options("/nowhere/g++ -m64"));
    EXPECT_FALSE(compiler.is_available());
    EXPECT_EQ(compiler.why_unavailable(), "WEFT_CXX=/nowhere/g++ -m64: there is no such program");
    const CpuSource source = adds(1);
    EXPECT_EQ(error_of([&] {
                compiler.compile({&source, 1});
              }),
              "kernels cannot be compiled: WEFT_CXX=/nowhere/g++ -m64: there is no such program");
  }
  CpuCompiler other(options(script("other", "echo 'something else 1.0' >&2\n")));
  EXPECT_FALSE(other.is_available());
  EXPECT_NE(other.why_unavailable().find("is neither g++ nor clang++"), std::string::npos);
  EXPECT_NE(other.why_unavailable().find("something else 1.0"), std::string::npos);
  EXPECT_TRUE(in_child([&] {
    ::setenv("PATH", base_.c_str(), 1);
    CpuCompilerOptions without = options();
    without.command.clear();
    CpuCompiler compiler(without);
    return !compiler.is_available() && compiler.why_unavailable().find("no C++ compiler is on PATH") == 0;
  }));
}

TEST_F(CpuToolchainTest, AnotherVersionOfTheCompilerMisses) {
  const std::string real = CpuCompilerOptions::of_environment().command;
  const std::string compiler = real.empty() ? "c++" : real;
  const auto of_version = [&](const std::string& version) {
    return filter("s/^gcc version .*/gcc version " + version + "/", compiler);
  };
  const std::string path = script("cxx", of_version("98.1"));
  {
    CpuCompiler before(options(path));
    EXPECT_TRUE(adds_well(before, 2));
    EXPECT_EQ(before.stats().compiled, 2u);
    EXPECT_NE(before.version().find("98.1"), std::string::npos);
    CpuCompiler same(options(path));
    EXPECT_TRUE(adds_well(same, 2));
    EXPECT_EQ(same.stats().programs, 0u);
  }
  script("cxx", of_version("98.2"));  // of the same length: the time of its change tells
  CpuCompiler updated(options(path));
  EXPECT_TRUE(adds_well(updated, 2));
  EXPECT_EQ(updated.stats().compiled, 2u);
  EXPECT_NE(updated.version().find("98.2"), std::string::npos);
  EXPECT_NE(cache_->miss_records().back().find("differs from an earlier one in compiler"), std::string::npos);
  script("cxx", of_version("98.1"));
  CpuCompiler downgraded(options(path));
  EXPECT_TRUE(adds_well(downgraded, 2));
  EXPECT_EQ(downgraded.stats().compiled, 0u);
}

TEST_F(CpuToolchainTest, ArgumentsOfTheCommandArePassedOn) {
  CpuCompiler compiler(options(find_program("c++") + " -DFROM_COMMAND=7"));
  const CpuSource source = {"extern \"C\" int value() { return FROM_COMMAND; }", {"value"}};
  EXPECT_EQ(reinterpret_cast<int (*)()>(compiler.compile({&source, 1})[0]->entry("value"))(), 7);
}

TEST_F(CpuToolchainTest, ADriverThatDoesNotTellItsStepsIsRunItself) {
  CpuCompiler compiler(
      options(script("cxx", "for a in \"$@\"; do [ \"$a\" = '-###' ] && exit 1; done\nexec c++ \"$@\"\n")));
  EXPECT_TRUE(adds_well(compiler, 2));
  const CpuSource bad = {"extern \"C\" int broken() { return not_declared; }", {"broken"}};
  EXPECT_NE(error_of([&] {
              compiler.compile({&bad, 1});
            }).find("'not_declared' was not declared"),
            std::string::npos);
}

TEST_F(CpuToolchainTest, WhereAStepFailsTheDriverIsRun) {
  script("bin/as", "cat >/dev/null; exit 1\n");
  script("bin/ld", "exit 1\n");
  const std::string path = script("cxx", filter("s#^ as # " + (base_ / "bin/as").string() + " #", "c++"));
  CpuCompiler compiler(options(path));
  EXPECT_TRUE(adds_well(compiler, 1));
  uint64_t started = 0;
  const CpuToolchain tools = find_cpu_toolchain(path, cpu::current_isa(), *cache_, started);
  if (tools.compile.empty()) GTEST_SKIP() << "this compiler has no steps of its own";
  EXPECT_EQ(tools.assemble.front(), (base_ / "bin/as").string());
}

TEST_F(CpuToolchainTest, ClangIsUsedWhereItIs) {
  const std::string clang = find_program("clang++");
  if (clang.empty()) GTEST_SKIP() << "clang++ is not installed";
  CpuCompiler compiler(options(clang));
  ASSERT_TRUE(compiler.is_available()) << compiler.why_unavailable();
  EXPECT_NE(compiler.version().find("clang version"), std::string::npos);
  EXPECT_TRUE(adds_well(compiler, 2));
#ifdef __GNUC__
#  ifndef __clang__
#    ifdef _OPENMP
  EXPECT_NE(compiler.note().find("kernels use one thread"),
            std::string::npos);  // libgomp has nothing for clang's code
#    endif
#  endif
#endif
}

}  // namespace
}  // namespace weft::compiler
