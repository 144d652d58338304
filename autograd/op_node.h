// OpNode: the step of the tape for an op of the table, made from its gradient rules.
// Needs node and op. The tape makes them; what they save follows from the rules of the operands that require grad.
#pragma once

#include "autograd/node.h"
#include "tensor/dispatch.h"

namespace weft::autograd {

// The rule of one operand, or null if it has no gradient. A list operand's rule serves all of its tensors.
const GradRule* rule_of(const Op& op, size_t operand);

// True if recording the call would lead a gradient anywhere.
bool has_gradient(const Op& op, std::span<const Operand> operands);

class OpNode final : public Node {
 public:
  // Takes the edges of the operands and saves those that the rules read. `overwritten`: the operand 0 of an in-place op,
  // whose memory the kernel is about to change; what is saved from there is copied.
  OpNode(const Op& op, const Call& call, const Tensor* overwritten = nullptr);

  // After the kernel: the results are known.
  void finish(std::span<const Tensor> outputs);

  const char* name() const override { return called_.c_name(); }
  void apply(Step& step) override;
  void release() override;

 private:
  struct Slot {
    SavedTensor saved;
    Scalar number;
    bool is_tensor = false;
  };
  // What only ops with a written gradient need, or those that are taped through their decomposition.
  struct Extra {
    Attrs attrs;
    SmallVector<OutputSpec, 3> specs;  // by operand
  };

  Tensor apply_formula(const GradRule& rule, const Tensor& dy);
  void apply_decomposition(Step& step);
  Tensor unpack(size_t operand);

  const Op& op_;                // whose rules these are
  const Op& called_;            // what the user called: another one for in-place ops
  SmallVector<Slot, 3> slots_;  // by operand
  SmallVector<SavedTensor, 1> saved_outputs_;
  std::unique_ptr<Extra> extra_;
  uint32_t saved_output_mask_ = 0;
  bool has_saved_ = false, is_released_ = false;
};

}  // namespace weft::autograd
