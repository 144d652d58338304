// partition: cuts the joint graph into forward and backward, and decides what forward saves for backward.
// Before: joint graph is functional, decomposed, free of dead code. Its inputs are primals ++ tangents, its outputs the
//         forward outputs ++ gradients; no forward output depends on a tangent.
// After:  forward (primals) returns outputs ++ saved; backward takes saved ++ tangents and returns the gradients. A value
//         that depends on a tangent, or that backward alone needs, is computed in backward. Views are not saved but
//         made again from their base. Random ops are functions of seed and counter, which both halves are given.
// Here:   after simplify (a folded cast changes what is cheap to save), before layout (layouts differ per half).
// Method: every value of forward that backward reads is saved.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

struct PartitionOptions {
  size_t num_primals = 0;  // of the joint inputs; the others are tangents
  size_t num_outputs = 0;  // of the joint outputs; the others are gradients
};

struct Partition {
  Graph forward, backward;
  // Values of the joint graph, in the order in which forward returns them and backward takes them. A primal among them
  // costs no memory: it is there anyway.
  std::vector<ValueId> saved;
};

Partition partition(const Graph& joint, const PartitionOptions& options);

}  // namespace weft::compiler
