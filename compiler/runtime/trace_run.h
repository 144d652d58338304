// TraceRun: one call that enters the user's function on fake tensors and runs each segment as it ends.
// Needs frame. First calls, unseen outcomes, audits and follow mode are all made this way.
#pragma once

#include "compiler/runtime/compiled_function.h"
#include "compiler/runtime/frame.h"
#include "compiler/runtime/joint_plan.h"

namespace weft::compiler {

// How the arguments are to be traced.
struct ArgumentPolicies {
  std::vector<std::vector<DimPolicy>> sizes;  // by tensor leaf and dimension
  std::vector<uint64_t> dynamic_strides;      // by tensor leaf: bit d
  std::vector<DimPolicy> numbers;             // by number leaf; for Size leaves
};

// What came out of a trace.
struct TracedPath {
  std::vector<std::shared_ptr<SegmentNode>> nodes;  // from the first segment to the return
  std::vector<uint64_t> outcomes;                   // by break
  size_t num_bound = 0;            // nodes that were in the tree before; all, or none of its prefix
  size_t num_compiled = 0;         // plans that did not exist before
  size_t num_extern_calls = 0;     // nodes of these
  uint64_t saved_bytes = 0;        // that these keep for backward
  std::shared_ptr<Tracer> tracer;  // for guards and reports
  std::vector<GradFact> grad_facts;
  bool needs_follow = false;  // a native floating number was read
};

// What a function in follow mode keeps of its last call.
struct FollowState {
  std::vector<bool> lifted;     // by ordinal: plain numbers of the body that differ between calls
  std::vector<Scalar> numbers;  // all of them
};

// Thrown inside a trace that was to follow a prefix of the tree and went another way: hidden state has changed.
struct PathDiffers {
  SourceLocation where;
};

class TraceRun final : public BreakHandler {
 public:
  TraceRun(PlanCache& plans, JointPlanCache& joint_plans, const CompileOptions& options,
           const std::string& name, SourceLocation where)
      : plans_(plans), joint_plans_(joint_plans), options_(options), name_(name), where_(where) {}

  // Runs the call to its end: the callee has its result, effects have happened. `prefix` are segments that `frame` has run
  // already, with their outcomes; they are followed, not run again.
  TracedPath run(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies, Frame& frame,
                 HostFunctions& host, std::span<const std::shared_ptr<SegmentNode>> prefix,
                 std::span<const uint64_t> outcomes, FollowState* following);

  // Carries out what the function has done until the last break of these segments, all of which `frame` has run: what comes
  // next has failed. Note [Calls that throw]
  void carry_out(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies, Frame& frame,
                 HostFunctions& host, std::span<const std::shared_ptr<SegmentNode>> segments,
                 std::span<const uint64_t> outcomes, const FollowState* following);

  uint64_t decide(size_t index, std::vector<Tensor>& results) override;

 private:
  enum class Failure : uint8_t {
    Function,  // what is thrown comes from the function, or from an op while it is traced,
    Segment,   // from a segment that ran,
    Capture,   // or from the compiler
  };
  void begin(const ArgumentLeaves& leaves, std::vector<Intrusive<Storage>> lines, HostFunctions& host,
             const FollowState* following);
  bool reads_storage(const Storage& storage) const;
  void carry_out_trace();
  void run_segment(const std::shared_ptr<SegmentNode>& node);
  void lift_what_differs(FollowState& following);
  void enter(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies, Frame* frame);
  std::shared_ptr<SegmentNode> begin_segment();
  struct Replaced {
    ValueId value;
    uint32_t input;  // of the path, which is to hold the value
  };
  void close_segment(SegmentNode& node, NodeId begin, NodeId end, std::vector<ValueId> outputs,
                     std::span<const Replaced> replaced = {});
  void find_leaves(const SegmentNode& last, PathBackward& backward) const;
  void close_joint(SegmentNode& node, const Effects& effects, const std::vector<ValueId>& outputs,
                   std::span<const Replaced> replaced);
  void add_read(SegmentNode& node, Slot slot) const;
  std::vector<Replaced> replaced_inputs(const SegmentNode& node, const Effects& effects) const;
  Slot slot_of(ValueId value) const;
  std::vector<ValueId> not_carried(std::span<const ValueId> values) const;
  void close_path(Effects effects, std::shared_ptr<const void> structure);
  bool is_written_memory(ValueId value, const Effects& effects) const;
  std::shared_ptr<PathBackward> make_backward(const Effects& effects,
                                              std::shared_ptr<const Graph> path) const;
  ValueId root_of(ValueId value) const;

  PlanCache& plans_;
  JointPlanCache& joint_plans_;
  const CompileOptions& options_;
  const std::string& name_;
  SourceLocation where_;

  std::shared_ptr<Tracer> tracer_;
  Frame* frame_ = nullptr;
  std::span<const std::shared_ptr<SegmentNode>> prefix_;
  std::span<const uint64_t> known_;
  TracedPath path_;
  uint32_t next_input_ = 0, next_number_ = 0, next_carried_ = 0;
  NodeId next_node_ = 0;
  std::unordered_map<ValueId, uint32_t> carried_;
  Failure failure_ = Failure::Function;
  bool stops_ = false;  // at the last break of the prefix
};

}  // namespace weft::compiler
