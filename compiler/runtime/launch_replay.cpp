// Recording launch plans as CUDA graphs and replaying them.
// Place: the out-of-line half of compiler/runtime/launch_replay.h.
#include "compiler/runtime/launch_replay.h"

#include <algorithm>
#include <map>

#include "compiler/passes/rewrite.h"
#include "compiler/runtime/cuda_graph.h"
#include "compiler/runtime/launch_frame.h"
#include "compiler/runtime/stats.h"
#include "compiler/trace/table_environment.h"
#include "tensor/base/log.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/matmul_precision.h"

namespace weft::compiler {

// Note [Replaying plans]
// A plan whose steps all run on one GPU is recorded when sizes come for the second time: each kernel becomes a node, each
// library call a graph of what it launches. The arena, scratch memory, workspaces and what library calls give to later steps
// belong to the recording and stay where they are. What comes from outside does not: inputs lie where the caller has them, and
// outputs are made anew at each call, so that none is overwritten while somebody holds it. Where such an address, or a number
// of the call (a learning rate, a step count, where a random stream stands), is another than at the last replay, the nodes
// that use it get new words before the launch. A library call cannot be given other addresses: it is captured again, and the
// last few captures are kept, as memory that is freed and taken comes back at the same few places.
//
// Nodes wait for those that they share memory with, at least one of them writing; others may run side by side. Replays of one
// recording follow one another on its stream, which is part of what it is found by.

namespace {

constexpr size_t kMostRecordings = 16;  // of one plan
constexpr size_t kMostSeen = 32;
constexpr size_t kMostFailures = 4;
constexpr size_t kMostCaptures = 4;  // of one library call
constexpr size_t kWorkspaces = 2;    // that library calls take in turn, so that two may run side by side

// What library calls take and give back. All recordings of a stream share it: their replays follow one another.
struct Workspaces {
  cuda::KeptMemory turns[kWorkspaces];
};
std::shared_ptr<Workspaces> workspaces_of(int device, cuda::Stream stream) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<int, cuda::Stream>, std::weak_ptr<Workspaces>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Workspaces>& own = known[{device, stream}];
  std::shared_ptr<Workspaces> found = own.lock();
  if (found == nullptr) own = found = std::make_shared<Workspaces>();
  return found;
}

}  // namespace

// A library call as it was captured for some addresses.
struct LaunchPlan::Replays::Capture {
  std::vector<void*> addresses;  // by RecordedCall::moving
  std::unique_ptr<CapturedCall> call;
};

struct LaunchPlan::Replays::RecordedCall {
  uint32_t index = 0;
  CudaGraph::Node node = 0;
  std::vector<BufferId> moving;   // what it touches whose address may change
  std::vector<Capture> captures;  // the first is in the graph
  cuda::KeptMemory* workspace = nullptr;
};

struct LaunchPlan::Replays::Recording {
  struct Kernel {
    uint32_t index = 0;
    std::vector<uint32_t> moving;    // arguments whose address may change
    std::vector<uint32_t> changing;  // numbers of the call
    std::vector<CudaGraph::Node> nodes;
    std::vector<CudaLaunch> launches;
  };
  struct Step {
    enum class Kind : uint8_t { Kernel, Call, View } kind = Kind::Kernel;
    uint32_t index = 0;  // into kernels or calls; of a view, into the plan's externs
  };

  cuda::Stream stream = nullptr;
  bool allows_tf32 = cuda::allows_tf32();  // which library calls look at
  std::mutex mutex = {};
  std::unique_ptr<Frame> frame = {};
  std::vector<Tensor> scratch = {};
  std::shared_ptr<Workspaces> workspaces = {};
  std::vector<Kernel> kernels = {};
  std::vector<RecordedCall> calls = {};
  std::vector<Step> steps = {};
  struct Copy {
    CudaGraph::Node node;
    void* to;
  };
  std::vector<Copy> copies = {};  // by Replays::replacing_
  CudaGraph graph = {};
};

// Which earlier nodes a node has to wait for.
class LaunchPlan::Replays::Hazards {
 public:
  void read(const void* begin, size_t bytes) { add(begin, bytes, false); }
  void write(const void* begin, size_t bytes) { add(begin, bytes, true); }

  // What the next node waits for, by what was named since the last one.
  std::vector<CudaGraph::Node> take() {
    const auto node = static_cast<CudaGraph::Node>(before_.size());
    std::vector<bool> is_before(node);  // reached from a node that is waited for
    std::vector<CudaGraph::Node> after;
    for (CudaGraph::Node other = node; other-- > 0;) {
      if (is_before[other] || !conflicts(other)) continue;
      after.push_back(other);
      is_before[other] = true;
      for (CudaGraph::Node i = 0; i < other; ++i) is_before[i] = is_before[i] || before_[other][i];
    }
    before_.push_back(std::move(is_before));
    accesses_.push_back(std::move(current_));
    current_.clear();
    return after;
  }
  // Of another launch of the step whose node is the last one.
  std::vector<CudaGraph::Node> take_next() {
    const auto last = static_cast<CudaGraph::Node>(before_.size() - 1);
    std::vector<bool> is_before = before_[last];
    is_before.push_back(true);
    before_.push_back(std::move(is_before));
    accesses_.push_back(accesses_[last]);
    return {last};
  }
  // Nothing is launched.
  void drop() { current_.clear(); }

 private:
  struct Access {
    uintptr_t begin, end;
    bool is_written;
  };
  void add(const void* begin, size_t bytes, bool is_written) {
    const auto at = reinterpret_cast<uintptr_t>(begin);
    if (bytes > 0) current_.push_back({at, at + bytes, is_written});
  }
  bool conflicts(CudaGraph::Node other) const {
    for (const Access& a : accesses_[other])
      for (const Access& b : current_)
        if ((a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end) return true;
    return false;
  }

  std::vector<Access> current_;
  std::vector<std::vector<Access>> accesses_;  // by node
  std::vector<std::vector<bool>> before_;      // by node: which nodes have ended when it begins
};

// ---- Whether ------------------------------------------------------------------------------------------------------------

LaunchPlan::Replays::Replays(const LaunchPlan& plan) : plan_(plan) {
  const Schedule& schedule = plan.schedule_;
  device_ = plan.gpu_;
  for (const Buffer& buffer : schedule.buffers)
    if (!device_ && buffer.device.is_cuda() && buffer.origin != Buffer::Origin::Input)
      device_ = buffer.device;
  moves_.resize(schedule.buffers.size());
  for (BufferId buffer = 0; buffer < schedule.buffers.size(); ++buffer) {
    const Buffer& b = schedule.buffers[buffer];
    const bool is_made = !plan.lifetimes_.in_arena[buffer] &&
                         (b.origin == Buffer::Origin::Kernel || b.origin == Buffer::Origin::Extern);
    if (is_made && b.is_output) fresh_.push_back(buffer);
    moves_[buffer] =
        b.origin == Buffer::Origin::Input || b.origin == Buffer::Origin::Shared || (is_made && b.is_output);
  }
  for (const auto& [buffer, input] : schedule.stored_over) {
    moves_[buffer] = true;
    std::erase(fresh_, buffer);
  }
  find_replacing();
  if (std::string reason = why_never(); !reason.empty()) turn_off(reason);
}

// Copies that follow a plan become nodes of its graph.
void LaunchPlan::Replays::find_replacing() {
  const Schedule& schedule = plan_.schedule_;
  const Graph& graph = schedule.graph;
  SymTable& syms = schedule.expressions->syms;
  const TableEnvironment environment(*schedule.expressions);
  const auto uses_of = [&](BufferId buffer) {
    return std::ranges::count_if(graph.outputs, [&](ValueId value) {
      return schedule.places[value] && schedule.places[value]->buffer == buffer;
    });
  };
  for (const auto& [output, input] : graph.overwrites) {
    const std::optional<MemoryPlace>& place = schedule.places[graph.outputs[output]];
    if (!place || !place->is_whole || std::ranges::find(fresh_, place->buffer) == fresh_.end()) continue;
    const Buffer &from = schedule.buffers[place->buffer], &to = schedule.buffers[input];
    // Nobody else may see either.
    if (uses_of(place->buffer) != 1 || uses_of(input) != 0 || from.dtype != to.dtype ||
        from.device != to.device)
      continue;
    const auto dense = contiguous_strides<Sym>(from.sizes);
    bool is_alike = from.sizes.size() == to.sizes.size();
    for (size_t d = 0; is_alike && d < dense.size(); ++d)
      is_alike = is_equal(syms, from.sizes[d], to.sizes[d]) && is_equal(syms, from.strides[d], dense[d]) &&
                 is_equal(syms, to.strides[d], dense[d]);
    if (!is_alike) continue;
    std::erase(fresh_, place->buffer);
    moves_[place->buffer] = false;
    replacing_.push_back({output, input, place->buffer});
  }
}

LaunchPlan::Replays::~Replays() = default;

bool LaunchPlan::Replays::reads_item(const Scalar& number) const {
  if (!number.is_traced()) return false;
  const ScalarTable& scalars = plan_.schedule_.expressions->scalars;
  std::vector<ScalarId> open = {number.trace_id()};
  while (!open.empty()) {
    const ScalarExpr& expr = scalars[open.back()];
    open.pop_back();
    if (expr.kind == ScalarExpr::Kind::Item) return true;
    if (expr.kind == ScalarExpr::Kind::Binary) open.insert(open.end(), {expr.a, expr.b});
  }
  return false;
}

bool LaunchPlan::Replays::is_recordable(const Extern& step, std::string& reason) const {
  const Node& node = *step.node;
  if (node.op->kind == Kind::View) return true;
  const Graph& graph = plan_.schedule_.graph;
  const std::string call = weft::detail::concat(
      node.op->name(), node.where.line() != 0 ? " at " + weft::to_string(node.where) : "");
  bool is_there = node.op->cuda != nullptr && is_floating(graph[node.first_output].dtype);
  for (const Argument& argument : node.operands)
    if (argument.is_value()) is_there = is_there && graph[argument.value].device == *device_;
  if (!is_there) reason = call + " is not computed on the GPU alone";
  else if (step.runner != nullptr) reason = call + " takes a number of the call";
  return reason.empty();
}

std::string LaunchPlan::Replays::why_never() const {
  if (!device_) return "nothing of it runs on a GPU";
  const Schedule& schedule = plan_.schedule_;
  for (const KernelStep& kernel : schedule.kernels) {
    if (kernel.device != *device_) return "a loop of it runs elsewhere";
    for (const std::vector<Scalar>& numbers : kernel.numbers)
      for (const Scalar& number : numbers)
        if (reads_item(number)) return "a number of it is read from a tensor while it runs";
  }
  std::string reason;
  size_t num_steps = schedule.kernels.size() + replacing_.size();
  for (const Extern& step : plan_.externs_) {
    if (!is_recordable(step, reason)) return reason;
    if (step.node->op->kind != Kind::View) ++num_steps;
  }
  if (num_steps < 2) return "it is one launch, which a graph makes no quicker";
  return {};
}

void LaunchPlan::Replays::turn_off(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    recordings_.clear();
  }
  is_off_.store(true, std::memory_order_release);
  if (log_enabled(LogChannel::Graph))
    log_line(LogChannel::Graph, "no CUDA graph of " + plan_.schedule_.graph.name + ": " + reason);
}

std::string LaunchPlan::Replays::note() const {
  const std::lock_guard lock(mutex_);
  if (is_off_) return "no CUDA graph: " + reason_;
  if (recordings_.empty()) return "a CUDA graph is made when sizes come for the second time";
  return weft::detail::concat(
      "replayed as a CUDA graph of ", recordings_[0]->graph.num_nodes(), " nodes",
      recordings_.size() > 1 ? weft::detail::concat("; ", recordings_.size(), " of them, by sizes") : "");
}

// ---- Finding ------------------------------------------------------------------------------------------------------------

LaunchPlan::Replays::RecordingPtr LaunchPlan::Replays::find(std::span<const int64_t> symbols,
                                                            cuda::Stream stream) {
  for (size_t i = 0; i < recordings_.size(); ++i) {
    const Recording& known = *recordings_[i];
    if (known.stream != stream || known.allows_tf32 != cuda::allows_tf32()) continue;
    if (!plan_.is_static_ && !std::ranges::equal(symbols, known.frame->symbols)) continue;
    if (i > 0)
      std::rotate(recordings_.begin(), recordings_.begin() + static_cast<std::ptrdiff_t>(i),
                  recordings_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return recordings_[0];
  }
  return nullptr;
}

// Whether such a call came before; from now on it did.
bool LaunchPlan::Replays::has_come(std::span<const int64_t> symbols, cuda::Stream stream) {
  for (const Seen& seen : seen_)
    if (seen.stream == stream && (plan_.is_static_ || std::ranges::equal(symbols, seen.symbols))) return true;
  if (seen_.size() >= kMostSeen) seen_.pop_back();
  seen_.insert(seen_.begin(), {{symbols.begin(), symbols.end()}, stream});
  return false;
}

// The recording went wrong or no longer fits; it is made again, but not without end.
void LaunchPlan::Replays::forget(const RecordingPtr& recording, const std::string& reason) {
  bool is_enough = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase(recordings_, recording);
    is_enough = ++num_failures_ >= kMostFailures;
  }
  if (is_enough) turn_off(reason);
}

// ---- Recording ----------------------------------------------------------------------------------------------------------

// Memory that each call has for itself.
void LaunchPlan::Replays::make_outputs(Frame& frame) const {
  for (const BufferId buffer : fresh_) {
    frame.tensors[buffer].reset();
    plan_.tensor_of(frame, buffer);
  }
}

// The memory that may be touched by way of a buffer: of memory outside of the arena all that belongs to it, as a strided part
// may be meant.
std::pair<const void*, size_t> LaunchPlan::Replays::reach_of(const Frame& frame, BufferId buffer) const {
  if (plan_.lifetimes_.in_arena[buffer])
    return {frame.pointers[buffer], static_cast<size_t>(frame.sizes[plan_.buffer_bytes_[buffer]])};
  const Storage& storage = *frame.tensors[buffer]->storage;
  return {storage.data(), storage.bytes()};
}

void LaunchPlan::Replays::record_kernel(Recording& recording, Hazards& hazards, uint32_t index,
                                        const RunValues& values) const {
  Frame& frame = *recording.frame;
  const Arguments& given = plan_.arguments_[index];
  const KernelStep& step = plan_.schedule_.kernels[index];
  Recording::Kernel kernel;
  kernel.index = index;
  std::vector<void*>& arguments = frame.arguments[index];
  std::vector<bool> is_written;
  for (const LoopBody& body : step.bodies)
    for (const BufferParam& param : body.buffers) is_written.push_back(param.is_written);
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    const BufferId buffer = given.buffers[i];
    arguments[i] = plan_.address_of(frame, buffer);
    if (moves_[buffer]) kernel.moving.push_back(i);
    const auto [begin, bytes] = reach_of(frame, buffer);
    is_written[i] ? hazards.write(begin, bytes) : hazards.read(begin, bytes);
  }
  for (uint32_t i = 0; i < given.numbers.size(); ++i) {
    frame.numbers[index][i] = plan_.number_bits(frame, index, i, values);
    if (given.numbers[i].is_traced()) kernel.changing.push_back(i);
  }

  CudaProgram& program = *plan_.programs_[index].cuda;
  const int64_t* const sizes = frame.body_sizes[index].data();
  const CudaMemory memory = program.memory(arguments.data(), sizes);
  const auto own = [&](size_t bytes) -> void* {
    if (bytes == 0) return nullptr;
    recording.scratch.push_back(
        make_tensor({Sym::from_int(static_cast<int64_t>(bytes))}, DType::UInt8, *device_));
    return bytes_of(recording.scratch.back());
  };
  void *const scratch = own(memory.scratch_bytes), *const counters = own(memory.counter_bytes);
  const cuda::Driver& driver = cuda::driver();
  if (counters != nullptr)
    cuda::check(driver, driver.memset(counters, 0, memory.counter_bytes, recording.stream),
                "clearing counters");
  const std::unique_ptr<DeviceError>& error = plan_.errors_[index];
  kernel.launches = program.launches(arguments.data(), frame.numbers[index].data(), sizes,
                                     error != nullptr ? error->for_launch() : nullptr, scratch, counters);
  for (const CudaLaunch& launch : kernel.launches) {
    const std::vector<CudaGraph::Node> after = kernel.nodes.empty() ? hazards.take() : hazards.take_next();
    kernel.nodes.push_back(recording.graph.add(launch, after));
  }
  if (kernel.launches.empty()) hazards.drop();
  recording.steps.push_back({Recording::Step::Kind::Kernel, static_cast<uint32_t>(recording.kernels.size())});
  recording.kernels.push_back(std::move(kernel));
}

void LaunchPlan::Replays::record_extern(Recording& recording, Hazards& hazards, uint32_t index) const {
  Frame& frame = *recording.frame;
  const Extern& step = plan_.externs_[index];
  const Node& node = *step.node;
  RecordedCall call;
  call.index = index;
  const size_t turn = recording.calls.size() % kWorkspaces;
  call.workspace = &recording.workspaces->turns[turn];
  hazards.write(call.workspace, 1);
  const auto touch = [&](ValueId value, bool is_written) {
    const BufferId buffer = plan_.schedule_.places[value]->buffer;
    if (moves_[buffer] && std::ranges::find(call.moving, buffer) == call.moving.end())
      call.moving.push_back(buffer);
    plan_.address_of(frame, buffer);
    const auto [begin, bytes] = reach_of(frame, buffer);
    is_written ? hazards.write(begin, bytes) : hazards.read(begin, bytes);
  };
  for (const Argument& argument : node.operands)
    if (argument.is_value()) touch(argument.value, false);
  for (uint32_t k = 0; k < node.num_outputs; ++k) touch(node.first_output + k, true);
  call.captures.push_back(capture(frame, call));
  call.node = recording.graph.add(*call.captures[0].call, hazards.take());
  recording.steps.push_back({Recording::Step::Kind::Call, static_cast<uint32_t>(recording.calls.size())});
  recording.calls.push_back(std::move(call));
}

// What the library launches for a call with the addresses of now. Everything else that it needs belongs to the recording.
LaunchPlan::Replays::Capture LaunchPlan::Replays::capture(Frame& frame, const RecordedCall& call) const {
  const Node& node = *plan_.externs_[call.index].node;
  Capture made;
  for (const BufferId buffer : call.moving) made.addresses.push_back(frame.pointers[buffer]);
  const ExternOperands given(plan_, frame, node);
  SmallVector<Tensor, 4> results;
  for (uint32_t k = 0; k < node.num_outputs; ++k)
    results.push_back(plan_.tensor_at(frame, node.first_output + k));
  made.call = std::make_unique<CapturedCall>(device_->index, [&] {
    const cuda::KeptMemory::Scope scope(*call.workspace);
    node.op->cuda(Call{*node.op, given.operands(), node.attrs, node.where}, {results.data(), results.size()});
  });
  return made;
}

LaunchPlan::Replays::RecordingPtr LaunchPlan::Replays::record(std::span<const Tensor* const> inputs,
                                                              const RunValues& values,
                                                              cuda::Stream stream) const {
  auto made = std::make_shared<Recording>();
  made->stream = stream;
  made->workspaces = workspaces_of(device_->index, stream);
  made->frame = plan_.make_frame();
  Frame& frame = *made->frame;
  plan_.set_sizes(frame, values.symbols);
  plan_.bind(frame, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) frame.tensors[i] = *inputs[i];
  make_outputs(frame);
  Hazards hazards;
  for (const weft::compiler::Step& step : plan_.schedule_.steps) {
    if (step.kind == weft::compiler::Step::Kind::Kernel) {
      record_kernel(*made, hazards, step.index, values);
    } else if (plan_.externs_[step.index].node->op->kind == Kind::View) {
      plan_.run_extern(frame, plan_.externs_[step.index], values);
      made->steps.push_back({Recording::Step::Kind::View, step.index});
    } else {
      record_extern(*made, hazards, step.index);
    }
  }
  for (const Replacing& each : replacing_) {
    const auto [from, bytes] = reach_of(frame, each.buffer);
    hazards.read(from, bytes);
    const auto [to, reach] = reach_of(frame, each.input);
    hazards.write(to, reach);
    void* const target = frame.pointers[each.input];
    const auto count = static_cast<size_t>(frame.sizes[plan_.buffer_bytes_[each.buffer]]);
    made->copies.push_back(
        {made->graph.add_copy(target, frame.pointers[each.buffer], count, hazards.take()), target});
  }
  if (made->graph.num_nodes() < 2) throw Error("it is one launch, which a graph makes no quicker");
  made->graph.instantiate();
  return made;
}

// ---- Replaying ----------------------------------------------------------------------------------------------------------

// Gives the nodes what is another than before. False where that cannot be.
bool LaunchPlan::Replays::update(Recording& recording, const RunValues& values) const {
  Frame& frame = *recording.frame;
  for (const Recording::Step& step : recording.steps) {
    switch (step.kind) {
      case Recording::Step::Kind::View: plan_.run_extern(frame, plan_.externs_[step.index], values); break;
      case Recording::Step::Kind::Kernel: {
        Recording::Kernel& kernel = recording.kernels[step.index];
        const Arguments& given = plan_.arguments_[kernel.index];
        std::vector<void*>& arguments = frame.arguments[kernel.index];
        bool is_other = false;
        for (const uint32_t i : kernel.moving) {
          void* const now = frame.pointers[given.buffers[i]];
          if (now == arguments[i]) continue;
          // Code is made for the alignment of what it reads and writes.
          constexpr uintptr_t kAlignment = 16;
          if ((reinterpret_cast<uintptr_t>(now) ^ reinterpret_cast<uintptr_t>(arguments[i])) % kAlignment !=
              0)
            return false;
          arguments[i] = now;
          is_other = true;
        }
        std::vector<uint64_t>& numbers = frame.numbers[kernel.index];
        for (const uint32_t i : kernel.changing) {
          const uint64_t now = plan_.number_bits(frame, kernel.index, i, values);
          is_other = is_other || now != numbers[i];
          numbers[i] = now;
        }
        if (const auto& error = plan_.errors_[kernel.index]; error != nullptr) error->for_launch();
        for (size_t l = 0; is_other && l < kernel.launches.size(); ++l) {
          uint64_t* const words = kernel.launches[l].words.data();
          std::copy(arguments.begin(), arguments.end(), reinterpret_cast<void**>(words));
          std::copy(numbers.begin(), numbers.end(), words + arguments.size());
          recording.graph.set(kernel.nodes[l], kernel.launches[l]);
        }
        break;
      }
      case Recording::Step::Kind::Call: {
        RecordedCall& call = recording.calls[step.index];
        const auto is_now = [&](const Capture& known) {
          for (size_t i = 0; i < call.moving.size(); ++i)
            if (known.addresses[i] != frame.pointers[call.moving[i]]) return false;
          return true;
        };
        if (is_now(call.captures[0])) break;
        auto found = std::ranges::find_if(call.captures, is_now);
        if (found == call.captures.end()) {
          if (call.captures.size() >= kMostCaptures) call.captures.pop_back();
          found = call.captures.insert(call.captures.end(), capture(frame, call));
        }
        std::rotate(call.captures.begin(), found, found + 1);
        recording.graph.set(call.node, *call.captures[0].call);
        break;
      }
    }
  }
  for (size_t i = 0; i < replacing_.size(); ++i) {
    Recording::Copy& copy = recording.copies[i];
    void* const now = frame.pointers[replacing_[i].input];
    if (now == copy.to) continue;
    copy.to = now;
    const BufferId from = replacing_[i].buffer;
    recording.graph.set_copy(copy.node, now, frame.pointers[from],
                             static_cast<size_t>(frame.sizes[plan_.buffer_bytes_[from]]));
  }
  return true;
}

bool LaunchPlan::Replays::run(std::span<const Tensor* const> inputs, const RunValues& values,
                              std::span<Tensor> outputs) {
  if (is_off_.load(std::memory_order_acquire)) return false;
  const cuda::DeviceGuard guard(device_->index);
  const cuda::Stream stream = cuda::current_stream(device_->index);
  RecordingPtr found;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    found = find(values.symbols, stream);
    if (found == nullptr && !has_come(values.symbols, stream)) return false;
  }
  if (found == nullptr) {
    try {
      found = record(inputs, values, stream);
      is_new = true;
    } catch (const Error& error) {
      turn_off(error.what());
      return false;
    }
  }
  // Another thread may replay it now; the plan as it is has memory for any number of them.
  const std::unique_lock own(found->mutex, std::try_to_lock);
  if (!own) return false;
  Frame& frame = *found->frame;
  // What is somebody else's.
  const auto let_go = [&] {
    for (const BufferId buffer : plan_.held_)
      if (moves_[buffer]) frame.tensors[buffer].reset();
  };
  try {
    if (!is_new) {
      plan_.bind(frame, inputs);
      make_outputs(frame);
      if (!update(*found, values)) {
        let_go();
        forget(found, "addresses come in ever other alignments");
        return false;
      }
    }
    found->graph.launch(stream);
  } catch (const Error& error) {
    let_go();
    forget(found, error.what());
    return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = plan_.tensor_at(frame, plan_.schedule_.graph.outputs[i]);
  for (const Replacing& each : replacing_) outputs[each.output] = *inputs[each.input];
  let_go();
  count(Count::GraphReplay);
  if (is_new) {
    for (size_t i = 0; i < inputs.size(); ++i) frame.tensors[i].reset();
    const std::lock_guard lock(mutex_);
    if (recordings_.size() >= kMostRecordings) recordings_.pop_back();
    recordings_.insert(recordings_.begin(), found);
  }
  return true;
}

}  // namespace weft::compiler
