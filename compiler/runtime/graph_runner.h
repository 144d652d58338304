// GraphRunner: runs a graph by the eager kernels, node by node.
// Needs graph. The backends "eager" and "aot_eager" run graphs with it; passes are tested against it.
#pragma once

#include <mutex>

#include "compiler/trace/graph.h"

namespace weft::compiler {

// Everything that does not depend on the call is prepared once: operands point to the places of their values, attributes
// are read where the graph holds them. What depends on sizes or numbers of the call is put in before its node; what
// depends on sizes alone stays in until they change. A value is let go after its last use. Views share memory as in
// eager code, also among outputs and inputs.
//
// Any number of threads may run one GraphRunner at once, and it may be run while it runs.
class GraphRunner {
 public:
  explicit GraphRunner(Graph graph);
  ~GraphRunner();
  GraphRunner(const GraphRunner&) = delete;
  GraphRunner& operator=(const GraphRunner&) = delete;

  // One defined tensor for each input and each output of the graph. No tape is recorded. Must not be called while this
  // thread traces. Errors of an op name the line of the user that called it.
  void run(std::span<const Tensor* const> inputs, RunValues values, std::span<Tensor> outputs) const;
  // The same with the tape on, where it is on for the caller and was on when the node was recorded.
  void run_differentiable(std::span<const Tensor* const> inputs, RunValues values,
                          std::span<Tensor> outputs) const;

  const Graph& graph() const { return graph_; }

 private:
  struct Frame;
  class FrameLease;

  // A number of the call that a node needs: the steps stand in an order in which they can be computed.
  struct NumberStep {
    ScalarExpr::Kind kind = ScalarExpr::Kind::Constant;
    Scalar::Category category = Scalar::Category::Floating;
    ScalarOp op = ScalarOp::Add;
    uint32_t a = 0, b = 0;   // Binary: other steps
    uint32_t index = 0;      // Input: which number of the call; Item: which value
    Scalar constant;         // Constant
    uint32_t size = kFixed;  // Constant: the size that it is, if it is one
  };
  // What stands in an operand slot or an attribute of a node. An attribute that is a list of sizes is put in whole.
  struct Patch {
    bool is_attribute = false;
    uint32_t place = 0;        // the operand among all of the frame, or the attribute of the node
    uint32_t number = kFixed;  // the step; or
    uint32_t size = kFixed;    // the size; or neither: all sizes of the list
  };
  struct Instruction {
    const Op* op = nullptr;
    const Attrs* attrs = nullptr;  // null: the frame has its own
    uint32_t own_attrs = 0;        // which
    uint32_t first_operand = 0, num_operands = 0;
    uint32_t first_output = 0, num_outputs = 0;
    uint32_t end_releases = 0;  // from the end of the instruction before
    uint32_t end_steps = 0, end_size_patches = 0, end_number_patches = 0;
    SourceLocation where;
    const Op* composite = nullptr;  // in whose name errors speak
    bool grad_mode = true;
  };
  static constexpr uint32_t kFixed = ~uint32_t{0};

  void prepare_node(const Node& node);
  uint32_t step_for(ScalarId id);
  uint32_t size_for(Sym a);
  std::unique_ptr<Frame> make_frame() const;
  template <bool kDifferentiable>
  void run_in(Frame& frame, std::span<const Tensor* const> inputs, RunValues values,
              std::span<Tensor> outputs) const;
  void set_sizes(Frame& frame, std::span<const int64_t> symbols) const;
  void put(Frame& frame, const Instruction& instruction, const Patch& patch) const;
  Scalar compute(const Frame& frame, const NumberStep& step, std::span<const Tensor* const> inputs,
                 RunValues values) const;

  Graph graph_;
  std::vector<Instruction> instructions_;
  std::vector<ValueId> releases_;
  std::vector<Operand> operands_;        // `scalar` set; the frame adds the tensors
  std::vector<ValueId> operand_values_;  // kNoValue: none
  // Operands that are inputs point to the caller's tensors, which are put in at each run.
  struct InputUse {
    uint32_t operand, input;
  };
  std::vector<InputUse> input_uses_;
  std::vector<uint32_t> input_of_value_;  // kFixed: none
  std::vector<const Attrs*> own_attrs_;   // what the frames' own attributes are made from
  std::vector<Sym> sizes_;                // that nodes need, each once
  std::vector<NumberStep> steps_;
  std::vector<Patch> size_patches_, number_patches_;
  std::unordered_map<ScalarId, uint32_t> step_of_;
  std::unordered_map<uint32_t, uint32_t> size_of_;
  std::vector<bool> is_moved_out_;  // by output: no later output is the same value

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> free_frames_;
};

}  // namespace weft::compiler
