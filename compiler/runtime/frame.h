// Frame: one call on its way through the trace tree: its tensors, numbers and symbols, and what it does at the end.
// Needs trace_tree. Calls that hit and traces run the same code here.
#pragma once

#include <array>

#include "compiler/runtime/trace_tree.h"
#include "tensor/random/generator.h"

namespace weft::compiler {

class Frame {
 public:
  explicit Frame(const ArgumentLeaves& leaves) : leaves_(leaves) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // The values of the arguments' symbols, to be written by guards or by the trace that gave them.
  std::span<int64_t> symbols(size_t count) {
    if (count > symbols_.size()) symbols_.resize(count);
    return {symbols_.data(), symbols_.size()};
  }

  // Brings in what a segment reads and runs it. After an error the frame is as it was before.
  void run(const SegmentNode& node);
  // What the segment's break asks for, after run(). For a data-dependent op it runs the op.
  uint64_t outcome(const SegmentNode& node);
  // Carries out the effects of a segment that returns, after run(), and gives the callee its result.
  void finish(const SegmentNode& node, Callee& callee);
  // The effects alone: of a function that has thrown.
  void carry_out(const SegmentNode& node);
  // Begins the call anew. Its segments draw the random numbers that they have drawn before.
  void restart();
  // Gives back what was drawn, if nobody has drawn since: the call starts again elsewhere.
  void return_draws();

  // Whether a branch fits this call. `symbols` are its own until it is taken.
  bool fits(const Branch& branch, uint64_t global_word);

  const Tensor& tensor(Slot slot) const {
    return slot.is_carried ? *carried_[slot.index] : input(slot.index);
  }
  const Tensor& input(uint32_t index) const {
    return inputs_[index] != nullptr ? *inputs_[index] : fetch(index);
  }
  // Of the path that returns, by Effects::outputs; while finish() runs.
  const Tensor& output(uint32_t index) const { return *outputs_[index]; }
  size_t num_inputs() const { return inputs_.size(); }
  RunValues values() const {
    return {{symbols_.data(), symbols_.size()}, {numbers_.data(), numbers_.size()}};
  }
  const ArgumentLeaves& leaves() const { return leaves_; }
  std::vector<Tensor>& results() { return results_; }
  Scalar evaluate(const SegmentNode& node, const Scalar& number) const;
  void set_lifted(std::span<const Scalar> numbers) { lifted_ = numbers; }

 private:
  void bring(const SegmentNode& node);
  bool fits_sizes(const Branch& branch, std::span<const int64_t> of_arguments) const;
  const Tensor* keep(Tensor tensor) const;
  // Finds an input that nothing has asked for yet.
  const Tensor& fetch(uint32_t index) const;
  // `made`: the tensor leaves of the result so far.
  Tensor make(const SegmentNode& node, const OutputPlan& plan, std::span<const Tensor> made);
  Tensor view(const SegmentNode& node, const std::vector<ViewStep>& steps, Tensor x,
              SourceLocation where) const;

  struct Results {
    SmallVector<Tensor, 4> tensors;
    SmallVector<Scalar, 4> numbers;
  };
  Results carry_out_effects(const SegmentNode& node);
  GeneratorState draw(uint64_t counters);

  const ArgumentLeaves& leaves_;
  mutable SmallVector<const Tensor*, 16> inputs_;  // by path input; null: not fetched yet
  SmallVector<const SegmentNode*, 4> nodes_;       // that were run
  SmallVector<Tensor*, 16> carried_;               // by carried value
  SmallVector<int64_t, 8> symbols_;
  SmallVector<Scalar, 4> numbers_;
  SmallVector<const Tensor*, 8> outputs_;
  std::vector<Tensor> results_;  // of the last data-dependent op
  struct Draw {
    GeneratorState stream;
    uint64_t counters;
  };
  SmallVector<Draw, 2> draws_;
  size_t num_replayed_ = 0;         // of these, since restart()
  std::span<const Scalar> lifted_;  // plain numbers of the body, in follow mode
  // Tensors that the frame owns, in blocks that do not move.
  static constexpr size_t kFirst = 8;
  mutable std::array<Tensor, kFirst> first_;
  mutable size_t used_ = 0;
  mutable std::vector<std::unique_ptr<Tensor[]>> blocks_;
};

}  // namespace weft::compiler
