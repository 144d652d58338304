// CompiledFunction::Impl: the state of one compiled object, for the sources that its calls go through.
// Needs trace_run, dynamic, limits and stats. Private to compiled_function.cpp and call_misses.cpp.
#pragma once

#include <atomic>
#include <mutex>

#include "compiler/runtime/dynamic.h"
#include "compiler/runtime/limits.h"
#include "compiler/runtime/trace_run.h"

namespace weft::compiler {

inline constexpr size_t kMaxDepth =
    64;  // segments of one path; a longer one (a loop over a tensor) is followed

struct CompiledFunction::Impl {
  struct Entry {
    Branch branch;
    ArgumentPolicies policies;                                                // of every trace below it
    std::shared_ptr<HostFunctions> host = std::make_shared<HostFunctions>();  // of these traces
    std::atomic<uint64_t> epoch{0}, hits{0}, last_used{0};
    bool is_fully_dynamic = false;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  Impl(const CompileOptions& o, SourceLocation w, std::string n)
      : options(o),
        where(w),
        name(std::move(n)),
        plans(o.backend),
        dynamic(o.dynamic),
        limit(generation_limit(o.limit, o.dynamic)) {}

  // ---- Looking up
  EntryPtr find(Frame& frame, uint64_t word, bool& is_stale);
  static std::shared_ptr<SegmentNode> next(const SegmentNode& node, uint64_t outcome, Frame& frame,
                                           uint64_t word);

  // ---- The ways a call can go
  void walk(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word);
  // The segments that a call has run, and their outcomes as far as they are known.
  struct Way {
    std::vector<std::shared_ptr<SegmentNode>> segments;
    std::vector<uint64_t> outcomes;
  };
  bool walk_on(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word, Way& way);
  void grow(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word, Way way);
  bool run_refused(const ArgumentLeaves& leaves, Callee& callee, uint64_t word);
  void run_eagerly(const CannotCapture& reason, Callee& callee);
  bool is_stormy(const ArgumentLeaves& leaves);
  void run_in_storm(Callee& callee, const std::optional<GuardFailure>& failure,
                    std::unique_lock<std::mutex>& lock);
  void miss(const ArgumentLeaves& leaves, Callee& callee, uint64_t word);
  void refresh(const ArgumentLeaves& leaves, Callee& callee, const EntryPtr& stale);
  void audit(const EntryPtr& entry, const ArgumentLeaves& leaves, Callee& callee);
  void follow(const ArgumentLeaves& leaves, Callee& callee);

  TracedPath trace(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies,
                   Frame& frame, HostFunctions& host, std::span<const std::shared_ptr<SegmentNode>> prefix,
                   std::span<const uint64_t> outcomes, FollowState* following);
  Branch make_branch(const TracedPath& path, size_t first, const ArgumentLeaves& leaves,
                     const Callee& callee) const;
  static void link(const TracedPath& path, size_t first);
  bool take_in(const Entry& entry, const TracedPath& path, const ArgumentLeaves& leaves,
               const Callee& callee) const;
  EntryPtr take_in_by_any(const TracedPath& path, const ArgumentLeaves& leaves, const Callee& callee);
  void add_program(const TracedPath& path, Branch branch, const Entry& traced_for, uint64_t epoch);
  ArgumentPolicies policies(const ArgumentLeaves& leaves) const;
  bool is_fully_dynamic(const ArgumentPolicies& policies) const;
  void add(EntryPtr entry, const std::optional<GuardFailure>& failure);
  void start_following(const std::string& reason);
  void log_recompile(const TracedPath& path, const GuardFailure& failure, const ArgumentPolicies& policies);
  void log_program(const Branch& branch) const;

  const CompileOptions& options;
  const SourceLocation where;
  const std::string name;
  PlanCache plans;
  JointPlanCache joint_plans;
  DynamicState dynamic;  // under `tracing`
  MissRate misses;
  std::optional<size_t> limit;
  FunctionStats stats;
  // Under `tracing`.
  size_t versions = 1;
  bool has_stormed = false, has_met_limit = false;
  RecentCalls recent;

  std::mutex tracing;             // one trace at a time
  std::shared_mutex mutex;        // of the entries
  std::vector<EntryPtr> entries;  // the most recent first
  struct Refusal {
    GuardBlock guards;
    uint64_t epoch;
    CannotCapture reason;
  };
  std::vector<Refusal> refusals;  // the last calls that could not be captured, so that not each of them tries
  std::atomic<bool> follows{false};
  std::mutex follow_mutex;
  FollowState followed;
  HostFunctions followed_host{/*by_path=*/false};
};

}  // namespace weft::compiler
