// LaunchPlan: a schedule made runnable: kernels and extern ops in order, over memory that is planned ahead. The fourth IR.
// Needs loops, codegen and graph_runner. Plans of the default backend run one.
#pragma once

#include <atomic>
#include <mutex>

#include "compiler/loops/memory_plan.h"
#include "compiler/loops/schedule.h"
#include "compiler/runtime/device_errors.h"
#include "compiler/runtime/graph_runner.h"
#include "compiler/runtime/kernel_program.h"

namespace weft::compiler {

// A check that a kernel makes did not hold. What eager code says of it is found by running the ops one by one.
struct KernelFailed final : IndexError {
  using IndexError::IndexError;
};

class LaunchPlan {
 public:
  explicit LaunchPlan(Schedule schedule, const KernelOptions& options = {});
  ~LaunchPlan();
  LaunchPlan(const LaunchPlan&) = delete;
  LaunchPlan& operator=(const LaunchPlan&) = delete;

  // As GraphRunner::run. Any number of threads may run one plan at once. Errors: KernelFailed; those of extern ops. What a
  // kernel on a GPU reports is thrown by the first wait for the GPU.
  // With `into_given`, outputs are defined and written to: each is made by a kernel, and has its sizes, strides and dtype.
  // One may share memory with an input whose elements are read where they are written and nowhere else.
  void run(std::span<const Tensor* const> inputs, const RunValues& values, std::span<Tensor> outputs,
           bool into_given = false) const;
  // For tests: the same for an interpreted plan, and what each kernel touched, by the buffer parameters of its bodies one
  // after another.
  std::vector<std::vector<BufferTraffic>> count_traffic(std::span<const Tensor* const> inputs,
                                                        const RunValues& values,
                                                        std::span<Tensor> outputs) const;

  const Schedule& schedule() const { return schedule_; }
  const std::vector<KernelProgram>& programs() const { return programs_; }
  // Of a plan that may be replayed as a CUDA graph: what came of that, or why it is not. Else empty.
  std::string replay_note() const;

 private:
  struct Frame;
  class FrameLease;
  class Replays;

  // An extern op: run through a graph of one node, or directly where nothing in it depends on the call.
  struct Extern {
    const Node* node = nullptr;
    std::unique_ptr<GraphRunner> runner;  // null: direct
    std::vector<ValueId> inputs;          // of the runner
  };
  struct Sizes {  // positions in the frame's integers
    uint32_t first = 0, rank = 0;
  };

  // What an extern op is called with where nothing of it depends on the call.
  class ExternOperands {
   public:
    ExternOperands(const LaunchPlan& plan, Frame& frame, const Node& node);
    std::span<const Operand> operands() const { return {operands_.data(), operands_.size()}; }

   private:
    SmallVector<Tensor, 8> tensors_;
    SmallVector<Operand, 8> operands_;
  };

  uint32_t slot_of(Sym size);
  Sizes slots_of(std::span<const Sym> sizes);
  void find_handles();
  void prepare_extern(NodeId node);
  std::unique_ptr<Frame> make_frame() const;
  void set_sizes(Frame& frame, std::span<const int64_t> symbols) const;
  void prepare_memory(Frame& frame) const;
  bool has_own_memory(BufferId buffer) const;
  void bind(Frame& frame, std::span<const Tensor* const> inputs) const;
  Layout<Sym> layout_in(const Frame& frame, const Sizes& sizes, const Sizes& strides) const;
  const Tensor& tensor_of(Frame& frame, BufferId buffer) const;
  void* address_of(Frame& frame, BufferId buffer) const;
  Tensor tensor_at(Frame& frame, ValueId value) const;
  uint64_t number_bits(Frame& frame, uint32_t kernel, uint32_t i, const RunValues& values) const;
  using KernelTraffic = std::vector<std::vector<BufferTraffic>>;
  void run(std::span<const Tensor* const> inputs, const RunValues& values, std::span<Tensor> outputs,
           bool into_given, KernelTraffic* traffic) const;
  void run_kernel(Frame& frame, uint32_t index, const RunValues& values, KernelTraffic* traffic) const;
  void run_extern(Frame& frame, const Extern& step, const RunValues& values) const;
  [[noreturn]] void throw_failed(const LoopBody& body, const KernelError& error) const;
  Scalar item(Frame& frame, uint32_t index) const;

  Schedule schedule_;
  std::vector<KernelProgram> programs_;  // by kernel step
  std::vector<Extern> externs_;
  std::vector<Sym> sizes_;  // that a call must evaluate
  std::unordered_map<uint64_t, uint32_t> size_slots_;
  std::vector<Sizes> buffer_sizes_, buffer_strides_;  // by buffer
  std::vector<uint32_t> buffer_bytes_;                // by buffer: the slot of its bytes
  struct PlacedLayout {
    Sizes sizes, strides;
    uint32_t offset = 0;
  };
  std::vector<PlacedLayout> placed_;  // by value
  // The arguments of a kernel step: those of its bodies, one after another.
  struct Arguments {
    std::vector<BufferId> buffers;
    std::vector<Scalar> numbers;
    std::vector<DType> number_dtypes;
    std::vector<uint32_t> symbols;
    std::vector<uint32_t> work;  // by body: the slot of its iterations
  };
  std::vector<Arguments> arguments_;  // by kernel step
  std::vector<BufferId>
      handles_;  // inputs of which an extern op, an output or an item asks for the tensor itself
  std::vector<BufferId> held_;  // these, and what a run makes outside of the arena
  MemoryLifetimes lifetimes_;
  std::optional<Device> gpu_;                         // of the kernels that run on one
  std::vector<std::unique_ptr<DeviceError>> errors_;  // by kernel step on a GPU that checks something
  bool is_static_ = false;
  std::unique_ptr<Replays> replays_;  // null: not asked for

  // One frame changes hands without the lock: most plans are run by one thread at a time.
  mutable std::atomic<Frame*> spare_frame_{nullptr};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Frame>> free_frames_;
};

// Buffers with their places at the sizes of the traced call, and the steps of a call.
std::string to_string(const LaunchPlan& plan);

}  // namespace weft::compiler
