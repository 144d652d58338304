// KernelBatch: kernels of many plans compiled together, in a few sources with each kernel once.
// Needs loops and codegen. make_programs leaves kernels to the batch of its thread; for tests that make thousands of plans.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/cpu_compiler.h"
#include "compiler/loops/kernel_call.h"
#include "compiler/loops/loop_body.h"

namespace weft::compiler {

// The functions of a kernel that may come after the plan: by its bodies.
struct LateFunctions {
  std::atomic<bool> are_there{false};
  std::vector<KernelFunction> functions;
  std::vector<CpuLibraryPtr> libraries;
};

// From its making to its end plans that this thread makes interpret their kernels, until compile() gives these functions.
class KernelBatch {
 public:
  KernelBatch();
  ~KernelBatch();
  KernelBatch(const KernelBatch&) = delete;
  KernelBatch& operator=(const KernelBatch&) = delete;

  // The innermost one of this thread, or null.
  static KernelBatch* current();

  // The bodies of a kernel, which are only looked at.
  std::shared_ptr<const LateFunctions> add(const std::vector<LoopBody>& bodies);
  // Kernels that have no functions yet.
  size_t num_waiting() const { return waiting_.size(); }
  // Kernels that were compiled, equal ones once.
  size_t num_distinct() const { return compiled_.size(); }
  // Compiles what waits. Errors: those of CpuCompiler::compile; then everything goes on waiting.
  void compile();

 private:
  struct Function {
    KernelFunction function = nullptr;
    CpuLibraryPtr library;
  };
  struct Waiting {
    std::shared_ptr<LateFunctions> kernel;
    std::vector<std::string> texts;  // of its bodies
  };

  KernelBatch* outer_;
  std::vector<Waiting> waiting_;
  std::unordered_map<std::string, std::shared_ptr<const LoopBody>> bodies_;  // that wait, by their code
  std::unordered_map<std::string, Function> compiled_;                       // by their code
};

}  // namespace weft::compiler
