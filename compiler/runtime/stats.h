// What compiled functions have done: counters of the process and of each one, and why calls were not simply hits.
// Needs base. The call path counts; report.h shows.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tensor/base/error.h"

namespace weft {

struct CompileStats {
  uint64_t hits = 0;          // calls that ran without entering the function
  uint64_t misses = 0;        // calls that did not, for whatever reason
  uint64_t traces = 0;        // calls that added a program or a branch of one
  uint64_t compilations = 0;  // graphs made runnable, backward ones too
  uint64_t extern_calls = 0;  // nodes of these graphs that call a library or an eager kernel
  uint64_t kernels = 0;       // loops that were generated for these graphs
  uint64_t interpreted = 0;   // loops that run without generated code, though the backend generates some
  uint64_t audits = 0;        // hits that were traced again, to find hidden state
  uint64_t refreshes = 0;     // calls traced again because state that the library knows of had moved
  uint64_t followed = 0;      // calls of functions in follow mode
  uint64_t breaks = 0;        // points where a trace needed a value
  uint64_t evictions = 0;
  uint64_t eager_calls = 0;  // calls that ran as they were written
  uint64_t host_trips =
      0;  // calls on a GPU whose op is computed by the CPU, on copies: it has no kernel there
  uint64_t graph_replays = 0;  // runs of plans that were one launch of a CUDA graph
  uint64_t saved_bytes = 0;    // that the compiled forwards keep for backward, for the sizes of their traces
};

// Of the whole process since it started, or since the last reset.
CompileStats compile_stats();
void reset_compile_stats();

namespace compiler {

enum class Count : uint8_t {
  Hit,
  Miss,
  Trace,
  Compilation,
  ExternCall,
  Kernel,
  Interpreted,
  Audit,
  Refresh,
  Followed,
  Break,
  Eviction,
  EagerCall,
  HostTrip,
  GraphReplay,
  SavedBytes
};
inline constexpr size_t kNumCounts = 16;
void count(Count what, uint64_t times = 1);

// Why something happened, where, and what was done.
struct Event {
  enum class Kind : uint8_t { Recompile, Break, Follow, Eager, Limit, Storm };
  Kind kind;
  std::string text;
  SourceLocation where = {};
};

// Of one compiled function. Thread-safe; a hit costs one relaxed increment.
class FunctionStats {
 public:
  void add(Count what, uint64_t times = 1) {
    counts_[static_cast<size_t>(what)].fetch_add(times, std::memory_order_relaxed);
    count(what, times);
  }
  CompileStats stats() const;
  // Keeps the first ones; a function that goes on and on says what it is about early.
  void record(Event event);
  std::vector<Event> events() const;

 private:
  std::array<std::atomic<uint64_t>, kNumCounts> counts_{};
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace compiler
}  // namespace weft
