// partition: cuts the joint graph into forward and backward, and decides what forward saves for backward.
// Before: joint graph is functional, decomposed, free of dead code. Its inputs are primals ++ tangents, its outputs the
//         forward outputs ++ gradients; no forward output depends on a tangent.
// After:  forward (primals) returns outputs ++ those saved that are no primals; a backward graph takes what it reads of
//         saved ++ tangents and returns its gradients. A value that depends on a tangent, or that backward alone needs and
//         nobody saves, is computed in backward; so is again what was not saved. Views are not saved but made again from
//         their base. Random ops are functions of seed and counter, which both halves are given.
// Here:   after simplify (a folded cast changes what is cheap to save), before layout (layouts differ per half).
// Method: Note [What forward saves] in saved_values.cpp.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

// What it takes to save a value that lives outside of the graph.
enum class SavedAs : uint8_t {
  Itself,   // it is kept anyway, as it is
  Exposed,  // likewise, but whoever writes it before backward gets an error that eager code would not raise
  Memory,   // like a value of the graph: by its bytes
  Copy,     // someone may write it: it has to be copied
};

struct PartitionOptions {
  size_t num_primals = 0;  // of the joint inputs; the others are tangents
  size_t num_outputs = 0;  // of the joint outputs; the others are gradients
  // How many gradients each backward graph gives, in order: for a function of several outputs, of which not all may receive a
  // gradient. Empty: one graph gives all of them.
  std::vector<size_t> gradients_of = {};
  // By primal and by forward output; Itself where a list ends.
  std::vector<SavedAs> primals = {}, outputs = {};
  // Where fused kernels run the halves, much is cheaper to compute again than to read. False: what backward reads is saved.
  bool recompute = true;
  // The share of the bytes of the default cut that may be saved; 0: everything that can be is computed again.
  double memory_budget = 1;
};

struct Partition {
  struct Backward {
    Graph graph;
    std::vector<ValueId> reads;  // values of the joint graph: by input
  };
  struct Saved {
    ValueId value;   // of the joint graph. A primal among them costs no memory: it is there anyway
    bool is_copied;  // the caller has to copy it: it shares memory with what somebody may write
    double bytes;    // that it takes, for the sizes of the trace
  };
  Graph forward;
  std::vector<Backward> backward;
  std::vector<Saved> saved;  // in the order of the joint graph
};

Partition partition(const Graph& joint, const PartitionOptions& options);

}  // namespace weft::compiler
