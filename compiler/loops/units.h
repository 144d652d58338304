// Units: the values of a graph that a kernel computes as a whole; all others are computed where they are read.
// Needs body_builder. The first step of a schedule.
#pragma once

#include "compiler/loops/body_builder.h"

namespace weft::compiler {

struct ChosenUnits {
  // By value: an output, an operand of an extern op, or a number that is read, somewhere along its views.
  std::vector<bool> stored;
  std::vector<NodeId> externs;  // nodes that no loop computes
};

// Fills the units of the lowering.
ChosenUnits choose_units(Lowering& lowering);

}  // namespace weft::compiler
