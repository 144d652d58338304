// For tests that compile kernels: sources that add a number, a cache that goes with the test, scripts in a compiler's place.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/cpu_compiler.h"
#include "tensor/base/error.h"
#include "tests/compiler/child_of_test.h"
#include "tests/support/error_text.h"

namespace weft::compiler::testing {

using namespace ::testing;

namespace fs = std::filesystem;
using weft::testing::child_is_well;
using weft::testing::in_child;
using weft::testing::in_children;
using weft::testing::start_child;
using weft::tests::error_of;

// A function that adds the number.
inline CpuSource adds(int number) {
  const std::string n = std::to_string(number);
  return {"extern \"C\" int add_" + n + "(int x) { return x + " + n + "; }\n", {"add_" + n}};
}
inline int call(const CpuLibraryPtr& library, const std::string& name, int x) {
  return reinterpret_cast<int (*)(int)>(library->entry(name))(x);
}

// Compiles add_0 … add_(count - 1) and calls them.
inline bool adds_well(CpuCompiler& compiler, int count) {
  std::vector<CpuSource> sources;
  for (int i = 0; i < count; ++i) sources.push_back(adds(i));
  const auto libraries = compiler.compile(sources);
  for (int i = 0; i < count; ++i) {
    if (call(libraries[static_cast<size_t>(i)], sources[static_cast<size_t>(i)].entries[0], 40) != 40 + i)
      return false;
  }
  return true;
}

class CpuCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft_cpu_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    directory_ = pattern + "/cache";
    cache_ = std::make_unique<DiskCache>(DiskCacheOptions{directory_, uint64_t{1} << 30});
    if (!CpuCompiler(options()).is_available()) GTEST_SKIP() << CpuCompiler(options()).why_unavailable();
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(base_, ignored);
  }

  CpuCompilerOptions options(const std::string& command = "") const {
    CpuCompilerOptions options = CpuCompilerOptions::of_environment();
    if (!command.empty()) options.command = command;
    options.cache = cache_.get();
    return options;
  }
  // As another process would see the disk.
  void forget() { cache_ = std::make_unique<DiskCache>(DiskCacheOptions{directory_, uint64_t{1} << 30}); }

  std::vector<fs::path> libraries_on_disk() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::string start(4, ' ');
      if (entry.is_regular_file() && file.read(start.data(), 4) &&
          start ==
              "\x7f"
              "ELF")
        found.push_back(entry.path());
    }
    return found;
  }
  size_t num_temporaries() const {
    std::error_code ignored;
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory_ + "/v1/tmp", ignored), fs::directory_iterator()));
  }

  // A program in the way of the compiler.
  std::string script(const std::string& name, const std::string& text) const {
    const std::string path = (base_ / name).string();
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  // The text of one that changes what the compiler says.
  std::string filter(const std::string& sed, const std::string& compiler) const {
    const std::string said = (base_ / "said.$$").string();
    return compiler + " \"$@\" 2>" + said + "\nstatus=$?\nsed '" + sed + "' " + said + " >&2\nexit $status\n";
  }

  fs::path base_;
  std::string directory_;
  std::unique_ptr<DiskCache> cache_;
};

}  // namespace weft::compiler::testing
