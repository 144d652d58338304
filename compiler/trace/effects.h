// Effects: what a traced function does beside computing: what it returns, writes, and what gradients it can give.
// Needs tracer and callee. Collected when the function has returned; the runtime carries them out at each call.
#pragma once

#include "compiler/trace/callee.h"
#include "compiler/trace/tracer.h"

namespace weft::compiler {

// A view op, to be run on a real tensor.
struct ViewStep {
  const Op* op;
  Attrs attrs;
};

// How a tensor that the function returns is made.
struct OutputPlan {
  enum class Kind : uint8_t {
    Undefined,
    Fresh,  // output `index` of the path
    Input,  // path input `index` itself
    View,   // `steps` on path input `index`
    Part,   // `steps` on output `index` of the path, which is a result too
    Again,  // tensor leaf `index` of the result
  };
  Kind kind = Kind::Undefined;
  uint32_t index = 0;
  std::vector<ViewStep> steps;
  bool requires_grad = false;
  const Op* made_by = nullptr;
  SourceLocation made_at;
};

// Output `output` is written into path input `input`.
struct InputWrite {
  uint32_t input, output;
  bool is_recorded;  // the input takes the history of what is written
  // What is written may be the memory of an input that is written too, and is copied before any of that.
  bool is_at_risk = false;
  SourceLocation where;
  bool is_unchanged = false;  // only a part without elements was written: nothing is copied
};

// The .grad of a path input as the function leaves it.
struct GradWrite {
  uint32_t input;
  OutputPlan value;  // Undefined: cleared
};

// The path input takes the layout of a view of itself (unsqueeze_).
struct LayoutWrite {
  uint32_t input;
  std::vector<ViewStep> steps;
  SourceLocation where;
};

// The program relies on the .grad of this path input being defined, or not.
struct GradFact {
  uint32_t input;
  bool is_defined;
};

// The backward from some of the differentiable outputs: nodes [begin, end) of the path.
struct Pullback {
  std::vector<bool> mask;  // by differentiable: its gradient arrives
  NodeId begin = 0, end = 0;
  std::vector<ValueId> gradients;  // by wanted; kNoValue: none reaches it
  std::optional<Error> error;      // what backward raises
};

// A tensor that has a gradient from outside.
struct Root {
  bool is_result;  // the view that tensor leaf `index` of the result is; otherwise output `index` of the path
  uint32_t index;
};

struct Effects {
  std::vector<OutputPlan> tensors;  // by tensor leaf of the result
  std::vector<NumberLeaf> numbers;  // by number leaf; values may be traced or symbolic
  std::vector<ValueId> outputs;     // what the path computes for the plans
  std::vector<ValueId> views;  // by tensor leaf: the value of a view that has a gradient; kNoValue for others
  std::vector<InputWrite> writes;
  std::vector<GradWrite> grad_writes;
  std::vector<LayoutWrite> layout_writes;
  std::vector<Tracer::CellWrite> cell_writes;
  std::vector<GradFact> grad_facts;

  // ---- Gradients from outside.
  std::vector<Root> differentiable;
  std::vector<uint32_t> wanted;     // the path inputs that it leads to
  std::vector<ValueId> tangents;    // by differentiable
  std::vector<Pullback> pullbacks;  // the one of all tangents first
  bool has_functions = false;       // user-defined ones, whose backward the graph alone does not know
  NodeId forward_end = 0;           // nodes behind it belong to pullbacks
};

// To be called inside the trace, after the function has returned these leaves. Records the backward of everything that
// can be differentiated from outside. Error if backward() inside the function reached a history that lies outside.
Effects collect_effects(Tracer& tracer, const ResultLeaves& results);

// To be called when results and fakes of the inputs have been dropped. Error naming the op and line that made a tensor
// which something outside still holds.
void check_nothing_escaped(const Tracer& tracer);

}  // namespace weft::compiler
