// The list of passes.
// Place: the out-of-line half of compiler/passes/pipeline.h.
#include "compiler/passes/pipeline.h"

#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/fuse_epilogues.h"
#include "compiler/passes/simplify.h"

namespace weft::compiler {
namespace {

// Takes a graph from pass to pass.
class Steps {
 public:
  explicit Steps(const PipelineOptions& options) : options_(options) {}

  void operator()(Graph& graph, const std::string& pass,
                  const std::function<Graph(const Graph&)>& run) const {
    graph = run(graph);
    done(graph, pass);
  }
  void operator()(Graph& graph, const std::vector<Pass>& passes) const {
    for (const Pass& pass : passes) (*this)(graph, pass.name, pass.run);
  }
  void done(const Graph& graph, const std::string& pass) const {
    if (options_.watch) options_.watch(pass, graph);
    if (!options_.verify) return;
    try {
      verify(graph);
    } catch (Error& error) {
      error.add_context("after " + pass);
      throw;
    }
  }

 private:
  const PipelineOptions& options_;
};

}  // namespace

Partition run_pipeline(const Graph& given, const PipelineOptions& options, Graph* cut) {
  const Steps step(options);
  step.done(given, "trace");
  Graph graph = given;

  step(graph, "dce", dce);  // much of a trace is computed for nothing
  step(graph, "decompose", [&](const Graph& g) { return decompose(g, options.decompositions); });
  step(graph, "simplify", simplify);  // what decompositions leave: casts, ones, views of views
  step(graph, "cse", cse);
  step(graph, options.before_cut);
  step(graph, "dce", dce);

  Partition halves;
  if (options.joint) {
    halves = partition(graph, *options.joint);
    step.done(halves.forward, "partition");
    for (const Partition::Backward& backward : halves.backward) step.done(backward.graph, "partition");
    if (cut != nullptr) *cut = std::move(graph);
  } else {
    halves.forward = std::move(graph);
  }

  step(halves.forward, options.after_cut);
  for (Partition::Backward& backward : halves.backward) step(backward.graph, options.after_cut);
  return halves;
}

namespace {

PipelineOptions options_for(Stage stage) {
  PipelineOptions options;
  if (stage == Stage::Lowered) {
    options.decompositions = DecompositionSet().remove(Kind::Pointwise);
    options.after_cut.push_back({"fuse_epilogues", fuse_epilogues});
  }
  return options;
}

}  // namespace

Graph prepare(const Graph& graph, Stage stage,
              std::function<void(const std::string& pass, const Graph&)> watch) {
  if (stage == Stage::Captured) {
    Graph result = dce(graph);
    if (watch) watch("dce", result);
    return result;
  }
  PipelineOptions options = options_for(stage);
  options.watch = std::move(watch);
  return run_pipeline(graph, options).forward;
}

Partition prepare_joint(const Graph& graph, Stage stage, PartitionOptions joint, Graph& cut) {
  if (stage == Stage::Captured) {
    cut = dce(graph);
    joint.recompute = false;
    return partition(cut, joint);
  }
  PipelineOptions options = options_for(stage);
  options.joint = std::move(joint);
  return run_pipeline(graph, options, &cut);
}

}  // namespace weft::compiler
