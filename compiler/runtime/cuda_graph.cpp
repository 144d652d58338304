// Adding, changing and launching nodes.
// Place: the out-of-line half of compiler/runtime/cuda_graph.h.
#include "compiler/runtime/cuda_graph.h"

#include <array>
#include <mutex>

#include "tensor/cuda/context.h"

namespace weft::compiler {
namespace {

constexpr size_t kMostDevices = 64;

struct CaptureStream {
  std::mutex mutex;  // one capture at a time
  const cuda::Driver* driver = nullptr;
  cuda::Stream stream = nullptr;
};

CaptureStream& capture_stream(int device) {
  static auto& streams = *new std::array<CaptureStream, kMostDevices>;
  return streams[static_cast<size_t>(device)];
}

// The driver copies the words.
void* words_of(const CudaLaunch& launch) { return const_cast<uint64_t*>(launch.words.data()); }

}  // namespace

CapturedCall::CapturedCall(int device, const void* context, void (*call)(const void*))
    : driver_(cuda::driver()) {
  CaptureStream& own = capture_stream(device);
  const std::lock_guard lock(own.mutex);
  if (own.driver != &driver_) {
    cuda::check(driver_, driver_.create_stream(&own.stream, false), "making a stream");
    own.driver = &driver_;
  }
  cuda::check(driver_, driver_.begin_capture(own.stream), "recording a call");
  try {
    const cuda::StreamGuard guard(device, own.stream);
    call(context);
  } catch (...) {
    // Ends the capture, whatever came of it.
    if (driver_.end_capture(own.stream, &graph_) == cuda::Status::Ok && graph_ != nullptr)
      driver_.destroy_graph(graph_);
    throw;
  }
  cuda::check(driver_, driver_.end_capture(own.stream, &graph_), "recording a call");
}

CapturedCall::~CapturedCall() {
  if (cuda::find_driver() == &driver_ && graph_ != nullptr) driver_.destroy_graph(graph_);
}

CudaGraph::CudaGraph() : driver_(cuda::driver()) {
  cuda::check(driver_, driver_.create_graph(&graph_), "making a CUDA graph");
}

CudaGraph::~CudaGraph() {
  // The driver of a test may be gone.
  if (cuda::find_driver() != &driver_) return;
  if (exec_ != nullptr) {
    driver_.synchronize_stream(last_);
    driver_.destroy_exec(exec_);
  }
  driver_.destroy_graph(graph_);
}

std::vector<cuda::GraphNode> CudaGraph::handles(std::span<const Node> nodes) const {
  std::vector<cuda::GraphNode> handles;
  for (const Node node : nodes) handles.push_back(nodes_[node]);
  return handles;
}

CudaGraph::Node CudaGraph::add(const CudaLaunch& launch, std::span<const Node> after) {
  const std::vector<cuda::GraphNode> before = handles(after);
  void* parameters[] = {words_of(launch)};
  cuda::GraphNode node = nullptr;
  cuda::check(driver_,
              driver_.add_kernel(&node, graph_, before.data(), before.size(), launch.function, &launch.config,
                                 parameters),
              launch.entry.c_str());
  nodes_.push_back(node);
  return static_cast<Node>(nodes_.size() - 1);
}

CudaGraph::Node CudaGraph::add(const CapturedCall& call, std::span<const Node> after) {
  const std::vector<cuda::GraphNode> before = handles(after);
  cuda::GraphNode node = nullptr;
  cuda::check(driver_, driver_.add_graph(&node, graph_, before.data(), before.size(), call.get()),
              "adding a recorded call to a CUDA graph");
  nodes_.push_back(node);
  return static_cast<Node>(nodes_.size() - 1);
}

CudaGraph::Node CudaGraph::add_copy(void* to, const void* from, size_t bytes, std::span<const Node> after) {
  const std::vector<cuda::GraphNode> before = handles(after);
  cuda::GraphNode node = nullptr;
  cuda::check(driver_,
              driver_.add_copy(&node, graph_, before.data(), before.size(), to, from, bytes,
                               cuda::CopyKind::DeviceToDevice),
              "adding a copy to a CUDA graph");
  nodes_.push_back(node);
  return static_cast<Node>(nodes_.size() - 1);
}

void CudaGraph::instantiate() {
  cuda::check(driver_, driver_.instantiate(&exec_, graph_), "making a CUDA graph");
}

void CudaGraph::set(Node node, const CudaLaunch& launch) {
  void* parameters[] = {words_of(launch)};
  cuda::check(driver_, driver_.set_kernel(exec_, nodes_[node], launch.function, &launch.config, parameters),
              launch.entry.c_str());
}

void CudaGraph::set(Node node, const CapturedCall& call) {
  cuda::check(driver_, driver_.set_graph(exec_, nodes_[node], call.get()), "changing a recorded call");
}

void CudaGraph::set_copy(Node node, void* to, const void* from, size_t bytes) {
  cuda::check(driver_, driver_.set_copy(exec_, nodes_[node], to, from, bytes, cuda::CopyKind::DeviceToDevice),
              "changing a copy");
}

void CudaGraph::launch(cuda::Stream stream) {
  last_ = stream;
  cuda::check(driver_, driver_.launch_graph(exec_, stream), "launching a CUDA graph");
}

}  // namespace weft::compiler
