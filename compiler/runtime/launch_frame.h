// LaunchPlan::Frame: the sizes, memory and addresses of one run of a launch plan.
// Needs launch_plan. Private to launch_plan.cpp and launch_replay.cpp.
#pragma once

#include "compiler/runtime/launch_plan.h"
#include "tensor/cuda/context.h"

namespace weft::compiler {

// What one run needs of its own. Frames go back with sizes, memory and pointers in place, for a call of the same sizes.
struct LaunchPlan::Frame {
  std::vector<int64_t> symbols;  // for which everything below holds
  std::vector<int64_t> sizes;
  bool has_sizes = false;

  cuda::Stream stream = nullptr;  // on which the arena was last used
  Tensor arena;                   // bytes
  std::vector<void*> pointers;    // by buffer
  std::vector<Tensor>
      tensors;  // by buffer: inputs, outputs, what extern ops made and, once asked for, the others
  std::vector<Layout<Sym>> layouts;           // by buffer: of those with memory of their own
  std::vector<std::vector<void*>> arguments;  // by kernel step
  std::vector<std::vector<uint64_t>> numbers;
  std::vector<std::vector<int64_t>> body_sizes;
  std::vector<int> threads;  // by kernel step: how many it is worth
};

}  // namespace weft::compiler
