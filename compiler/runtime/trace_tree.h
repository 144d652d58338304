// The trace tree: segments of a function between the points where it asked for a value, and what each outcome leads to.
// Needs plan, effects and guards. A call walks it; a trace adds to it. Note [Walking the tree]
#pragma once

#include <shared_mutex>

#include "compiler/runtime/plan.h"
#include "compiler/trace/effects.h"
#include "compiler/trace/guards.h"

namespace weft::compiler {

// A tensor that a segment reads: path input `index`, or carried value `index`.
struct Slot {
  bool is_carried = false;
  uint32_t index = 0;
};

struct SegmentNode;
struct PathBackward;  // compiled_node.h

// What may follow a break, or begin a call.
struct Branch {
  uint64_t outcome = 0;
  std::optional<GuardBlock> guards =
      {};  // on the arguments; none where an earlier branch of the same trace had them
  std::vector<GradFact> grad_facts;
  std::optional<SymGuardProgram> sizes;  // on the sizes of data-dependent results
  std::shared_ptr<SegmentNode> node;
};

// One segment. Immutable once it is in the tree, but for its branches.
struct SegmentNode {
  // ---- What the segment brings into the call.
  struct Input {
    InputSource source;
    const Tensor* held = nullptr;  // captured tensors and constants: one of the below
    std::string name;
  };
  struct ResultSize {
    uint32_t symbol, input, dim;
  };
  uint32_t first_input = 0;
  std::vector<Input> inputs;
  std::vector<Tensor> held;
  // Captured leaves that require grad. Steps of the tape keep all of them at once, see PathBackward::leaves. Others are not
  // among them: their history may lead to such a step.
  std::shared_ptr<std::vector<Tensor>> held_leaves;
  std::vector<const TensorImpl*> captured;  // among them
  // Of these, what no leaf that requires grad is: in-place ops may change whether it needs grad, and move no epoch.
  struct GradNeed {
    const TensorImpl* captured;
    bool needs_grad;
  };
  std::vector<GradNeed> grad_needs;
  bool enables_grad = false;  // though it was off when the function was called
  uint32_t num_results = 0;   // likewise: results of a data-dependent op
  uint32_t first_number = 0;
  std::vector<NumberSource> numbers;
  std::vector<ResultSize> result_sizes;
  size_t num_symbols = 0;
  std::shared_ptr<Expressions> expressions;  // of the path that was traced through here
  Sym counters = Sym::from_int(0);

  // ---- What it computes.
  std::shared_ptr<const Plan> plan;       // null: nothing
  std::vector<Slot> reads;                // by input of the plan
  std::vector<const Tensor*> held_reads;  // likewise: those that the segment itself holds; null for others,
  std::vector<uint32_t> other_reads;      // which are these
  uint32_t first_carried = 0;             // its outputs are the carried values from here on
  std::vector<Slot> items;                // by item number: where its tensor is after the segment

  // ---- How it ends.
  std::optional<Break> stop;   // none: the function returns
  std::vector<Slot> operands;  // Result: the tensors of the data-dependent op
  mutable std::shared_mutex mutex;
  std::vector<Branch> branches;  // the most recent first

  // Nothing of the above, but: the call starts again and runs eagerly, for this reason.
  std::optional<CannotCapture> refusal;

  Effects effects;                  // of a return
  std::vector<Slot> outputs;        // by Effects::outputs
  std::vector<bool> only_replaces;  // likewise: it goes into an input and nowhere else
  std::shared_ptr<const void> structure;
  std::shared_ptr<PathBackward> backward;  // null: nothing is differentiable
};

}  // namespace weft::compiler
