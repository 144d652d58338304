// saved_values: chooses what forward saves for backward: a minimum cut of the joint graph, with a budget of memory.
// Needs joint_graph. A part of partition.
#pragma once

#include "compiler/passes/joint_graph.h"
#include "compiler/passes/partition.h"

namespace weft::compiler {

// By value of the joint graph, views excepted: whether it is saved. From what is saved and the tangents, the gradients can
// be computed by ops that backward may run.
std::vector<bool> saved_values(const JointGraph& joint, const PartitionOptions& options);

// The cheapest set of values, by the costs of saving them, from which backward can be computed without computing a banned
// value again; of equally cheap ones that which lies nearest to backward. A cost of MaxFlow::kUnlimited: is never saved.
// InternalError if there is none.
std::vector<bool> minimum_cut(const JointGraph& joint, std::span<const int64_t> costs,
                              const std::vector<bool>& banned);

// What saving a value is to the caller: of a primal or an output, or of what shares memory with one.
SavedAs saved_as(const JointGraph& joint, const PartitionOptions& options, ValueId value);
// The memory that saving it takes. 0 for what is kept anyway.
double bytes_to_save(const JointGraph& joint, const PartitionOptions& options, ValueId value);

}  // namespace weft::compiler
