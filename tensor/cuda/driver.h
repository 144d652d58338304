// Driver: the functions of CUDA that Weft uses, as a plain struct that the library libweft_cuda.so fills when it is loaded.
// Needs error.h. No header of CUDA is included here, so that one build of Weft runs with and without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/base/error.h"

namespace weft::cuda {

// Handles of CUDA, known to libweft_cuda.so only.
using Stream = struct StreamObject*;  // null: the default stream, with which every other one is in step
using Event = struct EventObject*;
using Module = struct ModuleObject*;      // loaded code, for all devices
using Function = struct FunctionObject*;  // a kernel of a module
using Graph = struct GraphObject*;
using GraphNode = struct GraphNodeObject*;
using GraphExec = struct GraphExecObject*;
using Product = struct ProductObject*;  // a matrix product that cuBLASLt has been told of, on one device

// How a call of the driver ended. The text of a failure is Driver::last_error() of the same thread.
enum class Status : int32_t {
  Ok,
  OutOfMemory,
  NotReady,  // of queries: the work is still under way
  Failed,
};

struct DeviceProperties {
  char name[256] = {};
  int compute_major = 0, compute_minor = 0;  // 9, 0 for the H200
  int num_sms = 0;
  int threads_per_sm = 0, threads_per_block = 0;
  int registers_per_sm = 0;
  size_t shared_per_sm = 0;
  size_t shared_per_block = 0;  // the most that a kernel may ask for with set_max_shared()
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
};

enum class CopyKind : int32_t { HostToDevice, DeviceToHost, DeviceToDevice };

// A launch: sizes are those of CUDA. Parameters are given as the addresses of their values.
struct LaunchConfig {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster = 1;       // blocks along x that form a cluster
  uint32_t shared_bytes = 0;  // dynamic shared memory
  // The kernel may begin while the one before it on the stream still runs; it waits itself (griddepcontrol.wait) before it
  // reads what that one writes.
  bool is_dependent = false;
};

// A result of a compilation, released with Driver::release().
struct CompiledCode {
  char* cubin = nullptr;  // null where the compiler refused
  size_t cubin_bytes = 0;
  char* log = nullptr;  // what the compiler says, ends in 0
};

// D = epilogue(alpha * op(A) op(B) + beta * C), in column-major order as BLAS has it: op(A) [m, k], op(B) [k, n], D [m, n].
struct Matmul {
  enum class Type : uint8_t { F32, F64, BF16, F16 };
  enum class Compute : uint8_t { F32, TF32, F64 };
  enum class Epilogue : uint8_t {
    None,
    Bias,  // + bias [m]
    Relu,
    ReluBias,
    Gelu,  // by its tanh form
    GeluBias,
    ReluAuxBias,  // also writes the mask of positive elements to aux
    GeluAuxBias,  // also writes what went into GELU to aux
    DReluBgrad,   // times the derivative of ReLU by aux; bias takes the sums over n
    DGeluBgrad,
    DRelu,
    DGelu,
    BgradA,  // bias takes the sums of A over k
    BgradB,  // bias takes the sums of B over k
  };
  Type type = Type::F32;      // of A, B, bias and aux
  Type out_type = Type::F32;  // of C and D
  Compute compute = Compute::F32;
  Epilogue epilogue = Epilogue::None;
  bool transpose_a = false, transpose_b = false;
  bool reads_c = false;    // beta is not 0
  uint8_t alignment = 16;  // bytes that divide all addresses, at most 16
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0, ld_aux = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements from one matrix of a batch to the next

  friend bool operator==(const Matmul&, const Matmul&) = default;
};

// One way in which cuBLASLt computes a product: words that mean something to it alone, of one version and device.
struct ProductAlgorithm {
  uint64_t words[8] = {};
  uint64_t workspace_bytes = 0;  // that it needs
};

// What an element of a row is; a bool is a UInt8.
enum class Element : uint8_t { UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64 };

// Sorts rows of a row-major array [outer, n, inner], of fewer than 2^31 elements; a row is what lies along n. Stable; NaN is the
// largest, all NaN and both zeros are equal.
struct RowSort {
  Element element = Element::Float32;
  bool is_descending = false;
  int64_t outer = 1, n = 1, inner = 1;
  int64_t count = 1;  // how many elements of each sorted row are written, to arrays [outer, count, inner]
};

// Running sums or products along n of a row-major array [outer, n, inner]; halves are accumulated in float.
struct RowScan {
  Element element = Element::Float32;  // Int64, Float16, BFloat16, Float32 or Float64
  bool is_product = false;
  int64_t outer = 1, n = 1, inner = 1;
};

// The first of the largest or smallest elements of each row of a row-major array [outer, n, inner], n > 0; a NaN is one.
struct RowExtreme {
  Element element = Element::Float32;
  bool is_min = false;
  int64_t outer = 1, n = 1, inner = 1;
};

// Every function may be called by any thread. Those that name no device work on the thread's current one.
struct Driver {
  static constexpr uint32_t kVersion = 4;
  uint32_t version;
  uint32_t bytes;  // sizeof(Driver): both must be those of the caller

  // What went wrong last in this thread: "cudaMalloc: out of memory".
  const char* (*last_error)();
  // Null if there is a usable GPU; else why not.
  const char* (*why_unavailable)();
  // 13000 for CUDA 13.0: of the installed driver and of the toolkit built against.
  int (*driver_version)();
  int (*toolkit_version)();

  // ---- Devices
  Status (*device_count)(int* count);
  Status (*get_device)(int* device);
  Status (*set_device)(int device);
  Status (*device_properties)(int device, DeviceProperties* properties);
  Status (*synchronize)();

  // ---- Memory. free() waits for the device's work.
  Status (*allocate)(void** memory, size_t bytes);
  Status (*free)(void* memory);
  Status (*allocate_pinned)(void** memory, size_t bytes);
  Status (*free_pinned)(void* memory);
  Status (*memory_info)(size_t* free_bytes, size_t* total_bytes);
  // In the order of the stream. Of pageable host memory: returns when the host memory may be used again.
  Status (*copy)(void* to, const void* from, size_t bytes, CopyKind kind, Stream stream);
  Status (*copy_peer)(void* to, int to_device, const void* from, int from_device, size_t bytes,
                      Stream stream);
  Status (*memset)(void* memory, int value, size_t bytes, Stream stream);

  // ---- Streams and events
  Status (*create_stream)(Stream* stream, bool high_priority);
  Status (*destroy_stream)(Stream stream);
  Status (*synchronize_stream)(Stream stream);
  Status (*query_stream)(Stream stream);
  Status (*create_event)(Event* event, bool timing);
  Status (*destroy_event)(Event event);
  Status (*record_event)(Event event, Stream stream);
  Status (*wait_event)(Stream stream, Event event);
  Status (*synchronize_event)(Event event);
  Status (*query_event)(Event event);
  Status (*elapsed)(float* milliseconds, Event start, Event stop);

  // ---- Code. compile() needs no GPU; options are NVRTC's, without the architecture ("sm_90").
  Status (*compile)(const char* text, const char* name, const char* architecture, const char* const* options,
                    int num_options, CompiledCode* code);
  void (*release)(void* memory);
  Status (*load_module)(Module* module, const void* cubin);
  Status (*unload_module)(Module module);
  Status (*get_function)(Function* function, Module module, const char* name);
  // Lets the kernel ask for so much dynamic shared memory, on the current device.
  Status (*set_max_shared)(Function function, size_t bytes);
  Status (*launch)(Function function, const LaunchConfig* config, void** parameters, Stream stream);

  // ---- cuBLASLt. A product belongs to the device that was current, and is never given back.
  Status (*create_product)(Product* product, const Matmul* what);
  // What the heuristic of cuBLASLt offers, the most promising first: none where it cannot compute the product. Takes 0.1 to
  // 0.3 ms, more where code must be loaded.
  Status (*offered_algorithms)(Product product, size_t most_workspace_bytes, ProductAlgorithm* algorithms,
                               int most, int* count);
  // Whether an algorithm that was kept elsewhere can compute the product here; takes what it needs from cuBLASLt.
  Status (*check_algorithm)(Product product, ProductAlgorithm* algorithm, bool* is_usable);
  // `workspace` has the bytes that the algorithm needs.
  Status (*multiply)(Product product, const ProductAlgorithm* algorithm, const void* a, const void* b,
                     const void* c, void* d, const void* bias, void* aux, double alpha, double beta,
                     void* workspace, Stream stream);
  // 130000 for cuBLASLt 13.0.0; 0 where it cannot be loaded.
  size_t (*product_version)();

  // ---- Rows. What the kernels work in is asked for first; the same sizes give the same bits.
  Status (*sort_workspace)(const RowSort* what, size_t* bytes);
  Status (*sort)(const RowSort* what, const void* x, void* values, int64_t* indices, void* workspace,
                 size_t workspace_bytes, Stream stream);
  Status (*scan_workspace)(const RowScan* what, size_t* bytes);
  Status (*scan)(const RowScan* what, const void* x, void* out, void* workspace, Stream stream);
  Status (*extreme_workspace)(const RowExtreme* what, size_t* bytes);
  // `values` may be null; results are arrays [outer, inner].
  Status (*extreme)(const RowExtreme* what, const void* x, void* values, int64_t* places, void* workspace,
                    Stream stream);

  // ---- Graphs. Nodes are added one after another or with the nodes that they wait for.
  Status (*create_graph)(Graph* graph);
  Status (*destroy_graph)(Graph graph);
  Status (*add_kernel)(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after,
                       Function function, const LaunchConfig* config, void** parameters);
  Status (*add_copy)(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, void* to,
                     const void* from, size_t bytes, CopyKind kind);
  Status (*add_memset)(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, void* memory,
                       int value, size_t bytes);
  Status (*add_graph)(GraphNode* node, Graph graph, const GraphNode* after, size_t num_after, Graph child);
  // What is launched on the stream in between becomes nodes of a new graph. Memory may be allocated meanwhile, but nothing
  // may be waited for.
  Status (*begin_capture)(Stream stream);
  Status (*end_capture)(Stream stream, Graph* graph);
  Status (*is_capturing)(Stream stream, bool* answer);
  Status (*instantiate)(GraphExec* exec, Graph graph);
  Status (*destroy_exec)(GraphExec exec);
  Status (*set_kernel)(GraphExec exec, GraphNode node, Function function, const LaunchConfig* config,
                       void** parameters);
  Status (*set_copy)(GraphExec exec, GraphNode node, void* to, const void* from, size_t bytes, CopyKind kind);
  Status (*set_memset)(GraphExec exec, GraphNode node, void* memory, int value, size_t bytes);
  Status (*set_graph)(GraphExec exec, GraphNode node, Graph child);
  Status (*launch_graph)(GraphExec exec, Stream stream);
};

// The driver, loaded on first use. Null where there is no library.
const Driver* find_driver();
// What is missing and what to do: no library, no NVIDIA driver, no GPU. Empty where a GPU can be used.
std::string why_unavailable();
// The driver, of a machine with a GPU. Error that says what is missing otherwise.
const Driver& driver();
// The driver for what needs no GPU, which is compiling. Error where there is no library.
const Driver& compiling_driver();

// Throws what the driver says of a failure. `what` names the op or the step: "launch of kernel_softmax".
[[noreturn]] void throw_failure(const Driver& driver, const char* what);
inline void check(const Driver& driver, Status status, const char* what) {
  if (status != Status::Ok) [[unlikely]]
    throw_failure(driver, what);
}

// For tests: another driver in place of the loaded one; null brings that back.
void replace_driver(const Driver* driver);

}  // namespace weft::cuda

// The one symbol of libweft_cuda.so.
extern "C" const weft::cuda::Driver* weft_cuda_driver();
