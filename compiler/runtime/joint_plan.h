// JointPlan: the last segment of a path and its backward graphs, cut by the partition and made runnable.
// Needs plan. Segments and the steps of the tape share one for equal joint graphs; backward is compiled when it first runs.
#pragma once

#include "compiler/passes/partition.h"
#include "compiler/runtime/plan.h"

namespace weft::compiler {

class JointPlan {
 public:
  // What forward keeps for backward.
  struct Saved {
    bool is_primal;    // else an output of forward
    uint32_t index;    // among the primals, or the outputs of forward
    bool is_copied;    // somebody may write it
    double bytes;      // that it takes, for the sizes of the trace; 0 for what is kept anyway
    std::string text;  // "rsqrt f32[4096, 1] (net.cpp:12)"
  };
  // An input of a backward graph.
  struct Read {
    bool is_tangent;
    uint32_t index;  // among the tangents of the joint graph, or among saved()
  };
  struct Program {
    Graph graph;
    std::vector<Read> reads;                     // by input of `graph`
    std::shared_ptr<const Plan> plan = nullptr;  // of `graph`, made at the first backward
    std::shared_ptr<const Plan> summed_plan = nullptr;
    std::vector<bool> joins = {};  // of summed_plan
  };

  // Cuts the joint graph, with inputs primals ++ tangents, as the backend's kernels want it.
  JointPlan(Graph joint, PartitionOptions options, const Backend& backend);

  const Graph& traced() const { return traced_; }
  const PartitionOptions& options() const { return options_; }
  // The graph of forward, until somebody has made a plan of it; and the primals that it reads, by its inputs.
  Graph take_forward() { return std::move(forward_); }
  const std::vector<uint32_t>& forward_reads() const { return forward_reads_; }
  const std::vector<Saved>& saved() const { return saved_; }
  const std::vector<Program>& programs() const { return programs_; }
  // Compiles the program at the first call. Thread-safe.
  const Plan& plan_of(size_t program, const Backend& backend);
  // The same with sums for outputs: output k is added to those before it where joins[k].
  std::shared_ptr<const Plan> summed_plan_of(size_t program, const std::vector<bool>& joins,
                                             const Backend& backend);
  // The plan of a program that has run, or null. Thread-safe.
  std::shared_ptr<const Plan> compiled(size_t program) const;

  std::shared_ptr<const Plan> forward = nullptr;  // null where there is nothing to compute

 private:
  Graph traced_;
  PartitionOptions options_;
  Graph forward_;
  std::vector<uint32_t> forward_reads_;
  std::vector<Saved> saved_;
  std::vector<Program> programs_;
  mutable std::mutex mutex_;  // of the programs' plans
};

// The joint plans of one function. Thread-safe.
class JointPlanCache {
 public:
  // That of an equal graph with equal options, or a new one, whose forward is compiled with `plans`; `is_new` says whether that
  // was not there before.
  std::shared_ptr<JointPlan> get(Graph joint, const PartitionOptions& options, PlanCache& plans,
                                 bool& is_new);

 private:
  static constexpr size_t kMaxPlans = 256;
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::shared_ptr<JointPlan>> plans_;
};

}  // namespace weft::compiler
