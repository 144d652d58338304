// CompiledNode: the one step of the tape that a call of a compiled function is, and the backward program behind it.
// Needs plan and autograd/node. Note [Backward of a path]
#pragma once

#include "autograd/node.h"
#include "compiler/runtime/joint_plan.h"
#include "compiler/runtime/trace_tree.h"

namespace weft::compiler {

class Frame;

// What backward of one path needs. Shared by the calls that took the path; thread-safe.
struct PathBackward {
  std::string name;
  SourceLocation where;
  std::shared_ptr<const Graph> path;  // for gradients of gradients
  NodeId forward_end = 0;
  std::vector<ValueId> outputs;       // of the path, by differentiable
  std::vector<uint32_t> path_inputs;  // by input of `path`: the path input, or kNoInput where it is not kept
  std::vector<Root> differentiable;   // by tangent
  std::vector<uint32_t> wanted;       // by gradient: path input
  bool has_functions = false;         // user-defined ones
  struct Program {
    std::vector<bool> mask;          // by tangent: it is there
    std::vector<bool> has_gradient;  // by wanted
    std::optional<Error> error;      // what backward raises
    // By program: eager code would have freed what that one needs. What the compiled ones read may differ.
    std::vector<bool> shares_saved;
  };
  // Captured leaves, kNoInput for what is none: what a call would keep of each is the same for all calls, but for its version.
  std::vector<const Tensor*> leaves;
  std::vector<uint32_t> wanted_leaves, saved_leaves,
      input_leaves;  // by wanted, saved, path_inputs: which of them
  std::vector<std::shared_ptr<const std::vector<Tensor>>> leaf_owners;
  // What a call keeps itself, by index: all, or what is no leaf.
  struct Own {
    std::vector<uint32_t> wanted, saved, inputs;
  };
  Own own[2];
  // Where their gradients go. Good for one state epoch, for whatever changes that moves it.
  struct LeafEdges : RefCounted<LeafEdges> {
    uint64_t epoch;
    std::vector<autograd::Edge> edges;  // by leaf
  };
  // Those of now; null where there are no leaves, or they are none any more. Thread-safe.
  Intrusive<const LeafEdges> leaf_edges();
  // Of steps that add their edges.
  std::mutex& mutex() { return mutex_; }

  std::vector<Program> programs;
  std::shared_ptr<JointPlan> joint;  // has a graph for each program; null where there is none
  std::vector<Slot> saved;           // by JointPlan::saved
  std::vector<uint32_t> tangents;    // by tangent of the joint graph: which of `differentiable`
  Backend backend;  // its own: backward is compiled when it runs, and the function may be gone by then

 private:
  std::mutex mutex_;
  Intrusive<const LeafEdges> leaf_edges_;
};

// Whether x is a leaf that requires grad, asked of the tensor itself also inside of a trace.
bool is_leaf_with_grad(const Tensor& x);

// The step of the tape for a call, with what it saves; the outputs of the path have it as their history. To be called before
// anything is overwritten.
Intrusive<autograd::Node> connect(Frame& frame, const SegmentNode& node);
// The same for the results that are views of inputs, when they have been made.
void connect_views(const SegmentNode& node, const Intrusive<autograd::Node>& step,
                   std::span<const Tensor> results);

}  // namespace weft::compiler
