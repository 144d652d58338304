// CompiledFunction: what stands behind one compiled object, without its types: entries, guards, plans.
// Needs backend, report and trace/callee. compile.h gives it the user's calls.
#pragma once

#include "compiler/runtime/backend.h"
#include "compiler/runtime/report.h"
#include "compiler/trace/callee.h"

namespace weft {

struct CompileOptions {
  Backend backend = {};
  std::optional<bool> dynamic =
      {};                  // sizes as symbols from the first call, or never; unset: at the second value
  bool fullgraph = false;  // a break of the graph is an error that names file and line
  std::optional<int> limit = {};  // of generations; 8 unless set, none with dynamic = false
  bool audit = true;              // hits 1, 10, 100, … are traced again, to find hidden state
  // What may be kept for backward, as a share of what is best for speed; the rest is computed again. 0: all that can be is.
  double activation_memory_budget = 1;
  std::string mode = "default";  // or "reduce-overhead", "max-autotune"
  std::string name = {};         // in messages; the place of compile() unless set
  std::vector<std::string> arguments =
      {};  // names of the parameters in messages; "x", or "x0", "x1", … unless set
};

namespace compiler {

// Thread-safe: calls from several threads share entries.
class CompiledFunction {
 public:
  // Error if the options name a mode or backend that does not exist.
  CompiledFunction(CompileOptions options, SourceLocation where);
  ~CompiledFunction();

  // One call. Afterwards the callee holds the result.
  void call(const ArgumentLeaves& leaves, Callee& callee);

  // What was compiled so far, the most recently used first.
  Explanation explanation() const;
  CompileStats stats() const;

  const CompileOptions& options() const { return options_; }
  SourceLocation where() const { return where_; }

 private:
  const CompileOptions options_;
  const SourceLocation where_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compiler
}  // namespace weft
