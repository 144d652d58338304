// LaunchPlan::Replays: a launch plan recorded as CUDA graphs, one for each sizes that come again, and replayed at later calls.
// Needs launch_plan, launch_frame and cuda_graph. Private to the launch plan, which asks it first; Note [Replaying plans].
#pragma once

#include <atomic>

#include "compiler/runtime/launch_plan.h"

namespace weft::compiler {

class LaunchPlan::Replays {
 public:
  explicit Replays(const LaunchPlan& plan);
  ~Replays();

  // As LaunchPlan::run. False where nothing has been done: the plan is to be run as it is.
  bool run(std::span<const Tensor* const> inputs, const RunValues& values, std::span<Tensor> outputs);
  std::string note() const;

 private:
  struct Capture;
  struct RecordedCall;
  struct Recording;
  using RecordingPtr = std::shared_ptr<Recording>;
  class Hazards;

  void find_replacing();
  std::string why_never() const;
  bool is_recordable(const Extern& step, std::string& reason) const;
  bool reads_item(const Scalar& number) const;
  RecordingPtr find(std::span<const int64_t> symbols, cuda::Stream stream);
  bool has_come(std::span<const int64_t> symbols, cuda::Stream stream);
  RecordingPtr record(std::span<const Tensor* const> inputs, const RunValues& values,
                      cuda::Stream stream) const;
  void record_kernel(Recording& recording, Hazards& hazards, uint32_t index, const RunValues& values) const;
  void record_extern(Recording& recording, Hazards& hazards, uint32_t index) const;
  Capture capture(Frame& frame, const RecordedCall& call) const;
  std::pair<const void*, size_t> reach_of(const Frame& frame, BufferId buffer) const;
  bool update(Recording& recording, const RunValues& values) const;
  void make_outputs(Frame& frame) const;
  void turn_off(const std::string& reason);
  void forget(const RecordingPtr& recording, const std::string& reason);

  const LaunchPlan& plan_;
  std::optional<Device> device_;  // where all of it runs
  std::vector<bool> moves_;       // by buffer: its address may be another at each call
  std::vector<BufferId> fresh_;   // outputs, in memory of their own at each call
  // Outputs that are copied into the inputs that they replace, and are those then.
  struct Replacing {
    uint32_t output, input;
    BufferId buffer;
  };
  std::vector<Replacing> replacing_;
  std::atomic<bool> is_off_{false};

  mutable std::mutex mutex_;
  std::string reason_;  // of being off
  size_t num_failures_ = 0;
  struct Seen {
    std::vector<int64_t> symbols;
    cuda::Stream stream;
  };
  std::vector<Seen> seen_;                // calls that may come again, the latest first
  std::vector<RecordingPtr> recordings_;  // likewise
};

}  // namespace weft::compiler
