// Recorder: appends what ops are called on its tensors to a graph; for code that is run to see what it is made of.
// Needs graph. Decompositions and replacements run under it; user functions, which also write and draw, under the tracer.
#pragma once

#include "compiler/trace/graph.h"

namespace weft::compiler {

// This thread's trace from construction to the end of the scope, with grad mode off. Functional ops only: one that
// writes in place, draws or reads a value is an Error that names `purpose`, as is a tensor that is not the recorder's.
class Recorder final : public TraceHook {
 public:
  Recorder(Graph& graph, std::string purpose);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // What the nodes say of where they come from, beside the scopes that are open.
  void set_origin(const Node& node) { origin_ = &node; }

  // A tensor that stands for a value of the graph, and back.
  Tensor tensor_of(ValueId value) const;
  ValueId value_of(const Tensor& x) const;

  void record(const Call& call, std::span<Tensor> outputs) override;
  void mutate(const Call& call, const Tensor& self) override;
  Scalar read(const Tensor& x, SourceLocation where) override;
  const Tensor& stand_in(const Tensor& x) override;
  Tensor constant(const Tensor& data, SourceLocation where) override;
  RandomStream draw(Sym counters) override;

 private:
  Graph& graph_;
  std::string purpose_;
  const Node* origin_ = nullptr;
  TraceHook* outer_;
  AutoGradMode grad_mode_;
};

}  // namespace weft::compiler
