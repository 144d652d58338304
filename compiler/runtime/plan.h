// Plan: one graph made runnable by a backend; and the plans of one function, shared by equal graphs.
// Needs backend, graph_runner and passes. Segments of the trace tree hold plans.
#pragma once

#include <mutex>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/backend.h"
#include "compiler/runtime/graph_runner.h"
#include "compiler/runtime/launch_plan.h"

namespace weft::compiler {

class Plan {
 public:
  // Runs the passes that the backend asks for and hands it the graph.
  Plan(Graph graph, const Backend& backend);

  // One call: inputs by Graph::inputs of the traced graph, outputs by its outputs.
  void run(std::span<const Tensor* const> inputs, const RunValues& values, std::span<Tensor> outputs) const;

  // As it was traced, before any pass.
  const Graph& traced() const { return traced_; }
  // As the backend got it.
  const Graph& graph() const { return graph_; }
  uint64_t hash() const { return hash_; }
  double compile_seconds() const { return seconds_; }
  // Ops that run by a library or an eager kernel.
  size_t num_extern_calls() const {
    return launch_plan_ != nullptr ? launch_plan_->schedule().externs.size() : graph_.nodes.size();
  }
  // Null for backends that have no loops.
  const LaunchPlan* launch_plan() const { return launch_plan_.get(); }

 private:
  Graph traced_, graph_;
  uint64_t hash_;
  std::unique_ptr<LaunchPlan> launch_plan_;  // of "weft"
  std::unique_ptr<GraphRunner> runner_;      // of the others of the library
  GraphProgram program_;                     // of the user's
  double seconds_ = 0;
};

// Whether the graph becomes loops by this backend, and how far the passes take it.
bool has_loops(const Backend& backend, const Graph& graph);
Stage stage_of(const Backend& backend, const Graph& graph);

// Thread-safe.
class PlanCache {
 public:
  explicit PlanCache(const Backend& backend) : backend_(backend) {}
  // The plan of an equal graph, or a new one; `is_new` says which.
  std::shared_ptr<const Plan> get(Graph graph, bool& is_new);
  const Backend& backend() const { return backend_; }

 private:
  static constexpr size_t kMaxPlans = 256;
  const Backend& backend_;
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::shared_ptr<const Plan>> plans_;
};

// The nodes [begin, end) of a path as a graph of their own. `inputs` takes the values of the path that it reads, in the order
// of the graph's inputs.
Graph extract(const Graph& path, NodeId begin, NodeId end, std::span<const ValueId> outputs,
              std::vector<ValueId>& inputs);

}  // namespace weft::compiler
