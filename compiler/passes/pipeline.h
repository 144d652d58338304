// The pass pipeline: everything that happens to a graph between the trace and a backend, in one list.
// Needs the passes. The runtime calls it once for each graph that it compiles.
#pragma once

#include "compiler/passes/decompose.h"
#include "compiler/passes/partition.h"

namespace weft::compiler {

// A pass of the user's, or a name for one of ours.
struct Pass {
  std::string name;
  std::function<Graph(const Graph&)> run;
};

struct PipelineOptions {
  DecompositionSet decompositions;
  // A joint graph of forward and backward nodes, to be cut. Without it the graph is one half.
  std::optional<PartitionOptions> joint;
  std::vector<Pass> before_cut, after_cut;  // the user's
  // Checks the graph after each pass, and names the pass that broke it.
#ifdef NDEBUG
  bool verify = false;
#else
  bool verify = true;
#endif
  // Called with each graph and what made it; for logs.
  std::function<void(const std::string& pass, const Graph&)> watch;
};

// `backward` and `saved` are empty where nothing was cut. `cut` takes the graph that was.
Partition run_pipeline(const Graph& graph, const PipelineOptions& options, Graph* cut = nullptr);

// How far a graph is changed before a backend gets it.
enum class Stage : uint8_t {
  Captured,    // as it was traced, without what nobody reads
  Lowered,     // ops taken apart down to those that loops compute, folds and one body each, and library calls
  Decomposed,  // ops taken apart down to primitives
};
// `watch` as in PipelineOptions.
Graph prepare(const Graph& graph, Stage stage,
              std::function<void(const std::string& pass, const Graph&)> watch = {});
// The same for a joint graph, which is cut then; `cut` takes the graph whose values the parts name. What is only captured saves
// whatever backward reads.
Partition prepare_joint(const Graph& graph, Stage stage, PartitionOptions options, Graph& cut);

}  // namespace weft::compiler
