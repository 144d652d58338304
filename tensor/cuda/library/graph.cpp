// CUDA graphs of explicit nodes.
// Place: part of libweft_cuda.so.
#include <cstring>

#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

cudaGraph_t in(Graph graph) { return reinterpret_cast<cudaGraph_t>(graph); }
cudaGraphExec_t in(GraphExec exec) { return reinterpret_cast<cudaGraphExec_t>(exec); }
cudaGraphNode_t in(GraphNode node) { return reinterpret_cast<cudaGraphNode_t>(node); }
cudaGraphNode_t* in(GraphNode* node) { return reinterpret_cast<cudaGraphNode_t*>(node); }
const cudaGraphNode_t* in(const GraphNode* nodes) { return reinterpret_cast<const cudaGraphNode_t*>(nodes); }

constexpr cudaMemcpyKind kCopyKinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                         cudaMemcpyDeviceToDevice};

cudaKernelNodeParams parameters_of(Function function, const LaunchConfig& config, void** parameters) {
  cudaKernelNodeParams node{};
  node.func = reinterpret_cast<void*>(function);
  node.gridDim = dim3(config.grid[0], config.grid[1], config.grid[2]);
  node.blockDim = dim3(config.block[0], config.block[1], config.block[2]);
  node.sharedMemBytes = config.shared_bytes;
  node.kernelParams = parameters;
  return node;
}

Status create_graph(Graph* graph) {
  return WEFT_CUDA(cudaGraphCreate, reinterpret_cast<cudaGraph_t*>(graph), 0);
}
Status destroy_graph(Graph graph) { return WEFT_CUDA(cudaGraphDestroy, in(graph)); }

// Kernel follows kernel by a programmatic edge, where the second waits for itself.
Status add_edge(Graph graph, GraphNode from, GraphNode to, bool is_dependent) {
  cudaGraphEdgeData edge{};
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  if (is_dependent) {
    if (const Status status = WEFT_CUDA(cudaGraphNodeGetType, in(from), &type); status != Status::Ok)
      return status;
    if (type == cudaGraphNodeTypeKernel) {
      edge.from_port = cudaGraphKernelNodePortProgrammatic;
      edge.type = cudaGraphDependencyTypeProgrammatic;
    }
  }
  const cudaGraphNode_t first = in(from), second = in(to);
#if CUDART_VERSION >= 13000
  return WEFT_CUDA(cudaGraphAddDependencies, in(graph), &first, &second, &edge, 1);
#else
  return WEFT_CUDA(cudaGraphAddDependencies_v2, in(graph), &first, &second, &edge, 1);
#endif
}

Status add_kernel(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, Function function,
                  const LaunchConfig* config, void** parameters) {
  const cudaKernelNodeParams given = parameters_of(function, *config, parameters);
  Status status = WEFT_CUDA(cudaGraphAddKernelNode, in(node), in(graph), nullptr, 0, &given);
  if (status == Status::Ok && config->cluster > 1) {
    cudaLaunchAttributeValue value{};
    value.clusterDim = {config->cluster, 1, 1};
    status =
        WEFT_CUDA(cudaGraphKernelNodeSetAttribute, in(*node), cudaLaunchAttributeClusterDimension, &value);
  }
  for (size_t i = 0; i < num_after && status == Status::Ok; ++i)
    status = add_edge(graph, after[i], *node, config->is_dependent);
  return status;
}

Status add_copy(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, void* to,
                const void* from, size_t bytes, CopyKind kind) {
  return WEFT_CUDA(cudaGraphAddMemcpyNode1D, in(node), in(graph), in(after), num_after, to, from, bytes,
                   kCopyKinds[static_cast<int>(kind)]);
}

cudaMemsetParams memset_of(void* memory, int value, size_t bytes) {
  cudaMemsetParams given{};
  given.dst = memory;
  given.elementSize = 1;
  given.width = bytes;
  given.height = 1;
  given.value = static_cast<unsigned>(value) & 0xff;
  return given;
}

Status add_memset(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, void* memory,
                  int value, size_t bytes) {
  const cudaMemsetParams given = memset_of(memory, value, bytes);
  return WEFT_CUDA(cudaGraphAddMemsetNode, in(node), in(graph), in(after), num_after, &given);
}

Status add_graph(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, Graph child) {
  return WEFT_CUDA(cudaGraphAddChildGraphNode, in(node), in(graph), in(after), num_after, in(child));
}

Status begin_capture(Stream stream) {
  return WEFT_CUDA(cudaStreamBeginCapture, reinterpret_cast<cudaStream_t>(stream),
                   cudaStreamCaptureModeRelaxed);
}
Status end_capture(Stream stream, Graph* graph) {
  return WEFT_CUDA(cudaStreamEndCapture, reinterpret_cast<cudaStream_t>(stream),
                   reinterpret_cast<cudaGraph_t*>(graph));
}
Status is_capturing(Stream stream, bool* answer) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const Status status = WEFT_CUDA(cudaStreamIsCapturing, reinterpret_cast<cudaStream_t>(stream), &capture);
  *answer = capture != cudaStreamCaptureStatusNone;
  return status;
}

Status instantiate(GraphExec* exec, Graph graph) {
  return WEFT_CUDA(cudaGraphInstantiate, reinterpret_cast<cudaGraphExec_t*>(exec), in(graph), 0);
}
Status destroy_exec(GraphExec exec) { return WEFT_CUDA(cudaGraphExecDestroy, in(exec)); }

Status set_kernel(GraphExec exec, GraphNode node, Function function, const LaunchConfig* config,
                  void** parameters) {
  const cudaKernelNodeParams given = parameters_of(function, *config, parameters);
  return WEFT_CUDA(cudaGraphExecKernelNodeSetParams, in(exec), in(node), &given);
}
Status set_copy(GraphExec exec, GraphNode node, void* to, const void* from, size_t bytes, CopyKind kind) {
  return WEFT_CUDA(cudaGraphExecMemcpyNodeSetParams1D, in(exec), in(node), to, from, bytes,
                   kCopyKinds[static_cast<int>(kind)]);
}
Status set_memset(GraphExec exec, GraphNode node, void* memory, int value, size_t bytes) {
  const cudaMemsetParams given = memset_of(memory, value, bytes);
  return WEFT_CUDA(cudaGraphExecMemsetNodeSetParams, in(exec), in(node), &given);
}
Status set_graph(GraphExec exec, GraphNode node, Graph child) {
  return WEFT_CUDA(cudaGraphExecChildGraphNodeSetParams, in(exec), in(node), in(child));
}
Status launch_graph(GraphExec exec, Stream stream) {
  return WEFT_CUDA(cudaGraphLaunch, in(exec), reinterpret_cast<cudaStream_t>(stream));
}

}  // namespace

void fill_graph(Driver& driver) {
  driver.create_graph = create_graph;
  driver.destroy_graph = destroy_graph;
  driver.add_kernel = add_kernel;
  driver.add_copy = add_copy;
  driver.add_memset = add_memset;
  driver.add_graph = add_graph;
  driver.begin_capture = begin_capture;
  driver.end_capture = end_capture;
  driver.is_capturing = is_capturing;
  driver.instantiate = instantiate;
  driver.destroy_exec = destroy_exec;
  driver.set_kernel = set_kernel;
  driver.set_copy = set_copy;
  driver.set_memset = set_memset;
  driver.set_graph = set_graph;
  driver.launch_graph = launch_graph;
}

}  // namespace weft::cuda
