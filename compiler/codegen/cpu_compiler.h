// CpuCompiler: C++ text of kernels to functions that can be called, by the system's compiler and the disk cache.
// Needs cpu_toolchain, disk_cache. Place: after code generation; the launch plan keeps the libraries that it gets.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/cpu_toolchain.h"
#include "compiler/codegen/disk_cache.h"
#include "tensor/cpu/isa.h"

namespace weft::compiler {

// One translation unit, without headers, and the names of its functions that are asked for: extern "C" ones.
struct CpuSource {
  std::string text;
  std::vector<std::string> entries;
};

// A shared library of kernels; loaded as long as someone holds it.
class CpuLibrary {
 public:
  // Takes a handle of dlopen.
  explicit CpuLibrary(void* handle) : handle_(handle) {}
  ~CpuLibrary();
  CpuLibrary(const CpuLibrary&) = delete;
  CpuLibrary& operator=(const CpuLibrary&) = delete;

  // The function of this name, or null.
  void* find(const std::string& name) const;
  // The same. Error where there is none.
  void* entry(const std::string& name) const;

 private:
  void* handle_;
};
using CpuLibraryPtr = std::shared_ptr<const CpuLibrary>;

struct CpuCompilerStats {
  uint64_t compiled = 0;   // sources that a compiler was run for
  uint64_t from_disk = 0;  // found in the disk cache
  uint64_t shared = 0;     // that this process had loaded, or was compiling, or that stood twice in one call
  uint64_t failed = 0;
  uint64_t programs = 0;       // processes started: none on a warm start
  double compile_seconds = 0;  // spent in calls that compiled something
  double load_seconds = 0;     // spent in the other calls
};

struct CpuCompilerOptions {
  std::string command;  // the compiler; empty: c++, g++ or clang++ of PATH
  cpu::Isa isa = cpu::Isa::SSE4;
  DiskCache* cache = nullptr;  // empty: DiskCache::process()
  int jobs = 0;                // compilations at once; 0: the cores that this process may use

  // WEFT_CXX, and the instruction set in use.
  static CpuCompilerOptions of_environment();
};

// All functions may be called from several threads.
class CpuCompiler {
 public:
  explicit CpuCompiler(CpuCompilerOptions options);
  ~CpuCompiler();
  CpuCompiler(const CpuCompiler&) = delete;
  CpuCompiler& operator=(const CpuCompiler&) = delete;

  // The one of the environment; never destroyed.
  static CpuCompiler& process();

  // Whether there is a compiler; looked for at the first question.
  bool is_available();
  // Why there is none: "no C++ compiler is on PATH: …". Empty where there is one.
  const std::string& why_unavailable();
  // "gcc version 12.2.0 …", and what is amiss with it: that kernels will use one thread.
  const std::string& version();
  const std::string& note();

  // The library of each source, in their order. Equal texts share one; what is neither loaded nor in the disk cache is
  // compiled, several at a time. Errors: Error when there is no compiler; when one source is refused, with the first lines
  // of what the compiler says and the place where the source was kept; when a source lacks an entry.
  std::vector<CpuLibraryPtr> compile(std::span<const CpuSource> sources);

  CpuCompilerStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::compiler
