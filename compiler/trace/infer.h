// Asking shape rules about the nodes of a graph, with tensors that have sizes but no data.
// Needs graph. verify, the recorder and passes use it.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

// A tensor of these sizes without data. Needs an environment for sizes while any is symbolic.
Tensor make_hollow(const OutputSpec& spec);

// What the op gives: the answer of its shape or view rule. Nothing for an op without one (its sizes depend on data).
std::optional<OutputSpecs> infer_results(const Call& call);

// A hollow tensor for each value of a graph, made when it is asked for, and operands for its nodes.
class HollowValues {
 public:
  explicit HollowValues(const Graph& graph) : graph_(graph), tensors_(graph.values.size()) {}

  const Tensor& operator[](ValueId id);
  // Valid until the next call.
  std::span<const Operand> operands(const Node& node);

 private:
  const Graph& graph_;
  std::vector<Tensor> tensors_;
  std::vector<Operand> operands_;
};

}  // namespace weft::compiler
