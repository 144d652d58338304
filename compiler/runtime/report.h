// Explanation: what compile() made of a function, as data and as one screen of text; and the lines of WEFT_LOGS.
// Needs stats. Part of weft.h; report_tree.h fills it in.
#pragma once

#include "compiler/runtime/stats.h"

namespace weft {

// What explain() tells. Everything is text or a number, so that it outlives the function.
struct Explanation {
  // At the sizes of the call that was traced.
  struct Bytes {
    int64_t read = 0, written = 0;
    int64_t total() const { return read + written; }
  };
  // One generated function that a call runs, and what was fused into it.
  struct Kernel {
    std::string name;                  // "kernel_softmax"
    std::vector<std::string> origins;  // "net.cpp:12 softmax"
    Bytes bytes;                       // each element that it touches once
    std::string loops;                 // its listing
    std::string code;                  // its function, as it was compiled; empty where it is interpreted
    std::string source;                // all that was compiled with it: other kernels, and what they call
  };
  struct Graph {
    std::string name;  // "forward"
    std::string text;  // its listing
    size_t nodes = 0;
    std::vector<Kernel> kernels = {};             // in order; none where eager kernels run the graph
    size_t extern_calls = 0;                      // of libraries and eager kernels
    std::vector<std::string> library_calls = {};  // these, in order: "net.cpp:12 matmul"
    std::vector<std::string> refusals = {};  // "sum and mul (net.cpp:12): …": why they are not one kernel
    Bytes bytes = {};    // of all kernels and calls; nothing where eager kernels run the graph
    Bytes unfused = {};  // of the traced ops one by one, each reading its operands and writing its result
    size_t stored_writes = 0;  // inputs that kernels write where they lie
    size_t copied_writes = 0;  // others, which take a copy after the kernels
    int64_t copied_bytes = 0;  // of these, read and written
    double compile_seconds = 0;
    std::string replay = {};  // of a graph that may be replayed as a CUDA graph: what came of that
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
  // The functions of all kernels, in C++.
  std::string code() const;
};
std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

namespace compiler {

// "1.5 MB", "640 B": three digits, by powers of 1000.
std::string bytes_text(int64_t bytes);
// "a.cpp:3 mul, add ×2; b.cpp:7 sum", of origins in the order of their first lines.
std::vector<std::string> lines_of_origins(const std::vector<std::string>& origins);

// "step (train.cpp:38)", or "the function compiled at train.cpp:38" where it has no name.
std::string name_of_function(const std::string& name, SourceLocation where);

// ---- Lines of WEFT_LOGS. Cheap where the channel is off, as long as the arguments are.

// "recompiled step (train.cpp:38), 3rd version: x.size(0) was 64, is 17 -> dimension 0 is now dynamic. 4 kernels, 0.21 s"
void log_recompile(const std::string& function, size_t version, const std::string& failure,
                   const std::string& consequence, const std::string& cost);
// All kernels with what they move and where they come from, the calls, and every pair that stayed apart.
std::string fusion_text(const Explanation::Graph& graph);
void log_graph(const std::string& function, const Explanation::Graph& graph);
void log_guards(const std::string& function, const std::vector<std::string>& guards);
void log_break(const std::string& function, const Explanation::Break& stop);

}  // namespace compiler
}  // namespace weft
