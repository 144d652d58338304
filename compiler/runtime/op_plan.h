// OpPlan: a call of one op as a plan of kernels, made once for all calls of its kind. How GPUs compute eager ops.
// Needs launch_plan and trace/guards. eager_device.cpp looks plans up and runs them.
#pragma once

#include "tensor/dispatch.h"

namespace weft::compiler {

// Note [Plans of one op]
// A call whose op loops can compute is made a graph of one node and goes the way of every graph: passes, schedule, kernels.
// So eager and compiled code compute an op by the same body, and an op needs nothing for the GPU but its entry. A plan holds
// for a kind of call: the op, its attributes, ranks, dtypes, the pattern of strides and of sizes that are 0, 1 or equal.
// Sizes and numbers are read at each call. Where an op's rules ask more of them than a symbol can answer, the plan holds for
// these numbers, or for these sizes alone.

enum class PlanTarget : uint8_t {
  Outputs,  // new tensors
  InPlace,  // base(self, …) is written into self, operand 0
  Copy,     // operand 1 is written into operand 0, of the same sizes
};

// Runs the call by its plan, which is made if there is none yet. False, with nothing done, if loops do not compute it, or not
// as the target asks. `where` of errors is the call's.
bool run_by_plan(const Call& call, PlanTarget target, std::span<Tensor> outputs);

// How many plans there are; for tests.
size_t num_op_plans();

}  // namespace weft::compiler
