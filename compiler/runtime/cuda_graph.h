// CudaGraph: nodes of the GPU's work with what each waits for, launched as one; their parameters can change between launches.
// Needs tensor/cuda/driver and codegen/cuda_program. launch_replay.h records plans in one.
#pragma once

#include <span>
#include <vector>

#include "compiler/codegen/cuda_program.h"

namespace weft::compiler {

// A graph of CUDA that is owned: what a call launched while it was captured.
class CapturedCall {
 public:
  // Runs `call` with launches captured instead of carried out, on a stream of its own that is the current one meanwhile.
  template <class F>
  CapturedCall(int device, const F& call)
      : CapturedCall(device, &call, [](const void* context) { (*static_cast<const F*>(context))(); }) {}
  ~CapturedCall();
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;
  cuda::Graph get() const { return graph_; }

 private:
  CapturedCall(int device, const void* context, void (*call)(const void*));

  const cuda::Driver& driver_;
  cuda::Graph graph_ = nullptr;
};

// Used by one thread at a time.
class CudaGraph {
 public:
  CudaGraph();
  // Waits for the stream of the last launch.
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Nodes are numbered as they are added; `after` names those that this one waits for.
  using Node = uint32_t;
  Node add(const CudaLaunch& launch, std::span<const Node> after);
  Node add(const CapturedCall& call, std::span<const Node> after);
  Node add_copy(void* to, const void* from, size_t bytes, std::span<const Node> after);
  // Once all nodes are there.
  void instantiate();

  // For later launches: other words of the same kernel and grid; a call that captured the same kernels.
  void set(Node node, const CudaLaunch& launch);
  void set(Node node, const CapturedCall& call);
  void set_copy(Node node, void* to, const void* from, size_t bytes);
  void launch(cuda::Stream stream);
  size_t num_nodes() const { return nodes_.size(); }

 private:
  std::vector<cuda::GraphNode> handles(std::span<const Node> nodes) const;

  const cuda::Driver& driver_;
  cuda::Graph graph_ = nullptr;
  cuda::GraphExec exec_ = nullptr;
  std::vector<cuda::GraphNode> nodes_;
  cuda::Stream last_ = nullptr;
};

}  // namespace weft::compiler
