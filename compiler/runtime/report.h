// Explanation: what compile() made of a function, as data and as one screen of text; and the lines of WEFT_LOGS.
// Needs stats. Part of weft.h; report_tree.h fills it in.
#pragma once

#include "compiler/runtime/stats.h"

namespace weft {

// What explain() tells. Everything is text or a number, so that it outlives the function.
struct Explanation {
  // One generated function that a call runs, and what was fused into it.
  struct Kernel {
    std::string name;                  // "softmax"
    std::vector<std::string> origins;  // "net.cpp:12 softmax"
    std::string loops;                 // its listing
    std::string source;                // the generated text, with the kernels that were compiled with it
  };
  struct Graph {
    std::string name;  // "forward"
    std::string text;  // its listing
    size_t nodes = 0;
    std::vector<Kernel> kernels = {};        // in order; none where eager kernels run the graph
    size_t extern_calls = 0;                 // of libraries and eager kernels
    std::vector<std::string> refusals = {};  // "sum and mul stay apart: …"
  };
  struct Break {
    std::string where;   // "net.cpp:31"
    std::string op;      // what asked, or made what was asked for
    std::string reason;  // why the graph ends there
  };
  // A tensor that forward keeps for backward and that would not be there otherwise.
  struct Activation {
    std::string text;    // "rsqrt f32[4096, 1] (net.cpp:12)"
    uint64_t bytes = 0;  // for the sizes of the trace
  };
  // One program: what was compiled of the traces that share its guards; several paths where a value decides.
  struct Entry {
    std::vector<Graph> graphs;
    std::vector<Break> breaks;
    std::vector<Activation> activations;
    std::vector<std::string> guards;  // "dim 0 of x fixed at 120 by view at net.cpp:12"
    uint64_t hits = 0;
    bool is_dynamic = false;
  };
  std::string function;  // "step (train.cpp:38)"
  std::string backend;
  std::vector<Entry> entries;  // the most recently used first
  std::vector<std::string>
      recompiles;                  // why each program after the first was made: "x.size(0) was 64, is 17"
  std::vector<std::string> notes;  // fallbacks and refusals, each with its reason
  CompileStats stats;

  // One screen.
  std::string to_string() const;
};
std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

namespace compiler {

// "step (train.cpp:38)", or "the function compiled at train.cpp:38" where it has no name.
std::string name_of_function(const std::string& name, SourceLocation where);

// ---- Lines of WEFT_LOGS. Cheap where the channel is off, as long as the arguments are.

// "recompiled step (train.cpp:38), 3rd version: x.size(0) was 64, is 17 -> dimension 0 is now dynamic. 4 kernels, 0.21 s"
void log_recompile(const std::string& function, size_t version, const std::string& failure,
                   const std::string& consequence, const std::string& cost);
void log_graph(const std::string& function, const Explanation::Graph& graph);
void log_guards(const std::string& function, const std::vector<std::string>& guards);
void log_break(const std::string& function, const Explanation::Break& stop);

}  // namespace compiler
}  // namespace weft
