// Arms: functions of tensors that are traced inside a trace, as graphs of their own, and the routine that runs them.
// Needs plan and tracer. cond and while_loop are made of them. Note [Arms]
#pragma once

#include "compiler/runtime/graph_runner.h"
#include "compiler/trace/tracer.h"

namespace weft::compiler {

// Where an input of an arm's graph comes from.
struct ArmRead {
  bool is_parameter;
  uint32_t index;  // of the parameter, or among Arm::captured
};

struct Arm {
  std::string name;  // "true_fn of cond"
  Graph graph;
  std::vector<ArmRead> reads;       // by input of the graph
  std::vector<Tensor> captured;     // tensors of the trace around it, with their history
  std::vector<ValueId> values;      // by captured: its value there
  std::vector<bool> requires_grad;  // by output
  bool has_effect = false;          // prints or calls the host
  bool has_functions = false;       // applies a user-defined Function of the tape
};

// Traces `body` on parameters with these specs. The results are new tensors in row-major order, whatever the body gives. Error
// unless it is pure and what it made stays inside.
using ArmBody = std::function<std::vector<Tensor>(std::span<const Tensor> parameters)>;
Arm trace_arm(Tracer& around, std::string name, std::span<const OutputSpec> parameters, const ArmBody& body);

// Records the nodes of a graph once more, but for its effects, with the tape on where it was on: for differentiating it.
std::vector<Tensor> replay(Tracer& tracer, const Graph& graph, std::span<const Tensor> inputs);

// The graph without what happens on the host: that has happened when it is computed again.
Graph without_effects(Graph graph);

// What stands in a node: graphs, and which of the node's tensors each reads. The node lists parameters, what the arms
// captured, and numbers of the path, which it brings as tensors of one element.
class Arms : public Routine {
 public:
  struct Part {
    std::string name;
    Graph graph;
    std::vector<uint32_t> reads;  // by input of the graph: which of the node's tensors
  };
  struct Number {
    uint32_t index, tensor;  // of ScalarExpr::Input; which of the node's tensors brings it
  };

  std::string identity() const override;
  void print(std::ostream& out) const override;
  // The same without effects, and the op to call it with.
  virtual std::pair<const Op*, RoutinePtr> without_effects() const = 0;
  // Records such a node once more, so that the tape may follow it. `self` is this.
  virtual std::vector<Tensor> record_again(const RoutinePtr& self, const Call& node,
                                           size_t num_outputs) const = 0;

  std::vector<Part> parts;
  std::vector<uint32_t> symbols;  // that the graphs name: the node brings their values, in this order
  std::vector<Number> numbers;

 protected:
  // One call of the node: what every run of a part needs.
  class Values {
   public:
    Values(const Arms& arms, std::span<const Operand> tensors, const SymList& symbols);
    RunValues get() const { return {symbols_, numbers_}; }

   private:
    std::vector<int64_t> symbols_;
    std::vector<Scalar> numbers_;
  };
  // With the tape on where it is on for the caller.
  void run_part(size_t part, std::span<const Tensor* const> tensors, const Values& values,
                std::span<Tensor> outputs) const;
  OutputSpecs specs_of(size_t part) const;
  // Becomes the other one without effects.
  void take_silent(const Arms& other);

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const GraphRunner>> runners_;  // by part, made when first run
};

// What a node of some arms reads, and its attributes.
struct ArmsCall {
  std::vector<Tensor> tensors;    // without history: as they are now
  std::vector<Tensor> histories;  // by tensor: the tensor itself; undefined for numbers
  SymList symbols;
  bool has_effect = false;
};
// Fills `routine` from the arms. The parameters come first among the tensors.
ArmsCall assemble(Tracer& around, std::vector<Arm> arms, std::span<const Tensor> parameters, Arms& routine);

}  // namespace weft::compiler
