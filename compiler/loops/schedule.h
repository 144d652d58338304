// Schedule: which ops of a graph become kernels, fused into which loops, in which order, over which buffers. The third IR.
// Needs graph and loop_body. Made by schedule(); the launch plan runs it.
#pragma once

#include "compiler/loops/loop_body.h"
#include "compiler/trace/graph.h"

namespace weft::compiler {

using BufferId = uint32_t;
inline constexpr BufferId kNoBuffer = ~BufferId{0};

// Memory that holds a value of the graph: an input, or what a step makes.
struct Buffer {
  enum class Origin : uint8_t {
    Input,   // the caller's
    Kernel,  // written by a kernel: allocated before it
    Extern,  // given by an extern step: allocated for it, or by the op itself
    Shared,  // a view that an extern step makes of other memory: owns nothing
  };
  Origin origin = Origin::Kernel;
  ValueId value = kNoValue;  // whose sizes, strides and dtype it has; kNoValue for a partial result
  Sizes sizes, strides;
  DType dtype = DType::Float32;
  Device device = kCPU;
  bool is_output = false;  // leaves the graph, by itself or through views
};

// A kernel: one loop nest, or several that do not depend on one another and are run as one.
struct KernelStep {
  std::vector<LoopBody> bodies;
  std::vector<std::vector<BufferId>> buffers;  // by body, by its buffer params
  std::vector<std::vector<Scalar>> numbers;    // by body, by its number params
  std::vector<NodeId> nodes;                   // the ops that it computes
  Device device = kCPU;                        // where everything that it touches lies
};

// An op run by its own kernel.
struct ExternStep {
  NodeId node = kNoNode;
};

struct Step {
  enum class Kind : uint8_t { Kernel, Extern };
  Kind kind = Kind::Kernel;
  uint32_t index = 0;  // into kernels or externs
};

// Why two things that share data did not become one kernel.
struct Refusal {
  NodeId first = kNoNode, second = kNoNode;
  std::string reason;
};

// Where a value that is in memory lies: a buffer, or a view of one.
struct MemoryPlace {
  BufferId buffer = kNoBuffer;
  bool is_whole = true;  // the buffer itself
  Layout<Sym> layout;    // otherwise; the offset counts from element 0 of the buffer
};

// A buffer that lies in the memory of an input, which it replaces (overwrite.h).
struct StoredOver {
  BufferId buffer = kNoBuffer, input = kNoBuffer;
};

struct Schedule {
  Graph graph;
  // A copy of the graph's tables with the loop symbols added: the kernels' expressions.
  std::shared_ptr<Expressions> expressions;
  std::vector<Buffer> buffers;
  // By value: outputs, items, what extern steps read and give. Others have no place.
  std::vector<std::optional<MemoryPlace>> places;
  std::vector<Step> steps;
  std::vector<KernelStep> kernels;
  std::vector<ExternStep> externs;
  std::vector<Refusal> refusals;
  std::vector<StoredOver> stored_over;
};

struct ScheduleOptions {
  bool fuse = true;         // false: a kernel for each unit (units.h), to see what sharing loops does
  size_t max_units = 64;    // results, folds included, in one kernel
  size_t max_buffers = 40;  // that one kernel reads or writes
};

Schedule schedule(const Graph& graph, const ScheduleOptions& options = {});

std::string to_string(const Schedule& schedule);

}  // namespace weft::compiler
