// The list of passes.
// Place: the out-of-line half of compiler/passes/pipeline.h.
#include "compiler/passes/pipeline.h"

#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
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

Partition run_pipeline(const Graph& given, const PipelineOptions& options) {
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
    step.done(halves.backward, "partition");
  } else {
    halves.forward = std::move(graph);
  }

  step(halves.forward, options.after_cut);
  if (options.joint) step(halves.backward, options.after_cut);
  return halves;
}

Graph prepare(const Graph& graph, Stage stage) {
  if (stage == Stage::Captured) return dce(graph);
  PipelineOptions options;
  if (stage == Stage::Lowered) options.decompositions = DecompositionSet().remove(Kind::Pointwise);
  return run_pipeline(graph, options).forward;
}

}  // namespace weft::compiler
