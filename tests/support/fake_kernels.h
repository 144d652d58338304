// FakeKernels: a GPU of the tests that takes kernels and CUDA graphs, and keeps a list of what was launched in place of doing it.
// Needs fake_driver.h. Products are computed; kernels compute nothing, so that memory holds what it held.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_driver.h"

namespace weft::tests {

// A kernel that ran, with the words of its parameter.
struct FakeLaunch {
  std::string kernel;
  cuda::LaunchConfig config = {};
  std::vector<uint64_t> words;
};

struct FakeNode {
  FakeLaunch launch = {};
  std::function<void()> work = {};   // of what is no kernel
  std::vector<FakeNode> child = {};  // of a recorded call
  std::vector<const FakeNode*> after = {};
};

// As a driver's handle: nodes keep their addresses.
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};

struct FakeKernelsState {
  std::vector<FakeLaunch> launches;  // in order, by themselves and in graphs
  int graph_launches = 0, kernel_updates = 0, call_updates = 0, captures = 0;
  int graphs = 0, execs = 0;  // living
  std::vector<size_t> waits;  // by node of the last graph that was made: how many others it waits for
  bool refuses_captures = false;
  FakeGraph* capturing = nullptr;
  cuda::Stream capture_stream = nullptr;
};

inline FakeKernelsState& fake_kernels() {
  static FakeKernelsState state;
  return state;
}

namespace detail {

// What loaded code knows: its text.
struct FakeFunction {
  std::string name;
  size_t num_words = 0;
};

// Words of the parameter, by the arrays in its declaration: void* buffers[3];
inline size_t words_in(const std::string& text) {
  size_t words = 3;  // error record, scratch memory, counters
  size_t at = text.find("struct w_params");
  const size_t end = text.find("};", at);
  while ((at = text.find('[', at)) < end) words += std::stoul(text.substr(++at));
  return words;
}

inline FakeLaunch launch_of(cuda::Function function, const cuda::LaunchConfig& config, void** parameters) {
  const auto* const own = reinterpret_cast<const FakeFunction*>(function);
  const auto* const words = static_cast<const uint64_t*>(parameters[0]);
  return {own->name, config, {words, words + own->num_words}};
}

inline void run(const FakeNode& node) {
  if (!node.launch.kernel.empty()) fake_kernels().launches.push_back(node.launch);
  if (node.work) node.work();
  for (const FakeNode& each : node.child) run(each);
}

// At once, or into the graph that is being captured.
inline cuda::Status carry_out(FakeNode node, cuda::Stream stream) {
  FakeKernelsState& state = fake_kernels();
  if (state.capturing != nullptr && stream == state.capture_stream)
    state.capturing->nodes.push_back(std::make_unique<FakeNode>(std::move(node)));
  else run(node);
  return cuda::Status::Ok;
}

inline FakeGraph* graph_of(cuda::Graph graph) { return reinterpret_cast<FakeGraph*>(graph); }
// An instantiated graph is a list of the nodes as they are now.
struct FakeExec {
  std::vector<std::pair<const FakeNode*, FakeNode>> nodes;
  FakeNode& at(cuda::GraphNode node) {
    return std::find_if(
               nodes.begin(), nodes.end(),
               [&](const auto& each) { return each.first == reinterpret_cast<const FakeNode*>(node); })
        ->second;
  }
};
inline FakeExec* exec_of(cuda::GraphExec exec) { return reinterpret_cast<FakeExec*>(exec); }

inline void add(cuda::GraphNode* node, cuda::Graph graph, const cuda::GraphNode* after, size_t num_after,
                FakeNode made) {
  for (size_t i = 0; i < num_after; ++i) made.after.push_back(reinterpret_cast<const FakeNode*>(after[i]));
  auto& nodes = graph_of(graph)->nodes;
  nodes.push_back(std::make_unique<FakeNode>(std::move(made)));
  *node = reinterpret_cast<cuda::GraphNode>(nodes.back().get());
}

inline std::vector<FakeNode> copies_of(const FakeGraph& graph) {
  std::vector<FakeNode> nodes;
  for (const auto& node : graph.nodes) nodes.push_back(*node);
  return nodes;
}

}  // namespace detail

inline const cuda::Driver& fake_kernels_driver() {
  using cuda::Status;
  static const cuda::Driver driver = [] {
    cuda::Driver d = fake_driver();
    d.get_device = [](int* device) {
      *device = 0;
      return Status::Ok;
    };
    d.toolkit_version = [] { return 13000; };
    d.device_properties = [](int, cuda::DeviceProperties* properties) {
      properties->compute_major = 9;
      properties->num_sms = 132;
      return Status::Ok;
    };
    d.create_stream = [](cuda::Stream* stream, bool) {
      *stream = reinterpret_cast<cuda::Stream>(fake_gpu().next_event++ + (uintptr_t{1} << 20));
      return Status::Ok;
    };
    d.compile = [](const char* text, const char*, const char*, const char* const*, int,
                   cuda::CompiledCode* code) {
      code->cubin = strdup(text);
      code->cubin_bytes = std::strlen(text) + 1;
      code->log = strdup("");
      return Status::Ok;
    };
    d.release = [](void* memory) { std::free(memory); };
    // Code that is loaded is kept, as are functions: few tests load any.
    d.load_module = [](cuda::Module* module, const void* cubin) {
      *module = reinterpret_cast<cuda::Module>(new std::string(static_cast<const char*>(cubin)));
      return Status::Ok;
    };
    d.unload_module = [](cuda::Module module) {
      delete reinterpret_cast<std::string*>(module);
      return Status::Ok;
    };
    d.get_function = [](cuda::Function* function, cuda::Module module, const char* name) {
      static auto& functions = *new std::vector<std::unique_ptr<detail::FakeFunction>>;
      functions.push_back(std::make_unique<detail::FakeFunction>(
          detail::FakeFunction{name, detail::words_in(*reinterpret_cast<const std::string*>(module))}));
      *function = reinterpret_cast<cuda::Function>(functions.back().get());
      return Status::Ok;
    };
    d.set_max_shared = [](cuda::Function, size_t) { return Status::Ok; };
    d.launch = [](cuda::Function function, const cuda::LaunchConfig* config, void** parameters,
                  cuda::Stream stream) {
      return detail::carry_out({.launch = detail::launch_of(function, *config, parameters)}, stream);
    };
    d.multiply = [](cuda::Product product, const cuda::ProductAlgorithm* algorithm, const void* a,
                    const void* b, const void* c, void* to, const void* bias, void* aux, double alpha,
                    double beta, void* workspace, cuda::Stream stream) {
      return detail::carry_out({.work =
                                    [=, algorithm = *algorithm] {
                                      fake_multiply(product, &algorithm, a, b, c, to, bias, aux, alpha, beta,
                                                    workspace, stream);
                                    }},
                               stream);
    };
    d.sort = [](const cuda::RowSort* what, const void* x, void* values, int64_t* indices, void* workspace,
                size_t bytes, cuda::Stream stream) {
      return detail::carry_out(
          {.work = [=, what = *what] { fake_sort(&what, x, values, indices, workspace, bytes, stream); }},
          stream);
    };
    d.scan = [](const cuda::RowScan* what, const void* x, void* out, void* workspace, cuda::Stream stream) {
      return detail::carry_out({.work = [=, what = *what] { fake_scan(&what, x, out, workspace, stream); }},
                               stream);
    };
    d.extreme = [](const cuda::RowExtreme* what, const void* x, void* values, int64_t* places,
                   void* workspace, cuda::Stream stream) {
      return detail::carry_out(
          {.work = [=, what = *what] { fake_extreme(&what, x, values, places, workspace, stream); }}, stream);
    };
    d.is_capturing = [](cuda::Stream stream, bool* answer) {
      *answer = fake_kernels().capturing != nullptr && fake_kernels().capture_stream == stream;
      return Status::Ok;
    };
    d.create_graph = [](cuda::Graph* graph) {
      ++fake_kernels().graphs;
      *graph = reinterpret_cast<cuda::Graph>(new FakeGraph);
      return Status::Ok;
    };
    d.destroy_graph = [](cuda::Graph graph) {
      --fake_kernels().graphs;
      delete detail::graph_of(graph);
      return Status::Ok;
    };
    d.add_kernel = [](cuda::GraphNode* node, cuda::Graph graph, const cuda::GraphNode* after,
                      size_t num_after, cuda::Function function, const cuda::LaunchConfig* config,
                      void** parameters) {
      detail::add(node, graph, after, num_after,
                  {.launch = detail::launch_of(function, *config, parameters)});
      return Status::Ok;
    };
    d.add_graph = [](cuda::GraphNode* node, cuda::Graph graph, const cuda::GraphNode* after, size_t num_after,
                     cuda::Graph child) {
      detail::add(node, graph, after, num_after, {.child = detail::copies_of(*detail::graph_of(child))});
      return Status::Ok;
    };
    d.add_copy = [](cuda::GraphNode* node, cuda::Graph graph, const cuda::GraphNode* after, size_t num_after,
                    void* to, const void* from, size_t bytes, cuda::CopyKind) {
      detail::add(node, graph, after, num_after, {.work = [=] { std::memcpy(to, from, bytes); }});
      return Status::Ok;
    };
    d.set_copy = [](cuda::GraphExec exec, cuda::GraphNode node, void* to, const void* from, size_t bytes,
                    cuda::CopyKind) {
      detail::exec_of(exec)->at(node).work = [=] { std::memcpy(to, from, bytes); };
      return Status::Ok;
    };
    d.begin_capture = [](cuda::Stream stream) {
      if (fake_kernels().refuses_captures) {
        fake_gpu().error = "cudaStreamBeginCapture: refused";
        return Status::Failed;
      }
      ++fake_kernels().captures;
      ++fake_kernels().graphs;
      fake_kernels().capturing = new FakeGraph;
      fake_kernels().capture_stream = stream;
      return Status::Ok;
    };
    d.end_capture = [](cuda::Stream, cuda::Graph* graph) {
      *graph = reinterpret_cast<cuda::Graph>(std::exchange(fake_kernels().capturing, nullptr));
      return Status::Ok;
    };
    d.instantiate = [](cuda::GraphExec* exec, cuda::Graph graph) {
      ++fake_kernels().execs;
      auto* const made = new detail::FakeExec;
      fake_kernels().waits.clear();
      for (const auto& node : detail::graph_of(graph)->nodes) {
        made->nodes.emplace_back(node.get(), *node);
        fake_kernels().waits.push_back(node->after.size());
      }
      *exec = reinterpret_cast<cuda::GraphExec>(made);
      return Status::Ok;
    };
    d.destroy_exec = [](cuda::GraphExec exec) {
      --fake_kernels().execs;
      delete detail::exec_of(exec);
      return Status::Ok;
    };
    d.set_kernel = [](cuda::GraphExec exec, cuda::GraphNode node, cuda::Function function,
                      const cuda::LaunchConfig* config, void** parameters) {
      ++fake_kernels().kernel_updates;
      detail::exec_of(exec)->at(node).launch = detail::launch_of(function, *config, parameters);
      return Status::Ok;
    };
    d.set_graph = [](cuda::GraphExec exec, cuda::GraphNode node, cuda::Graph child) {
      ++fake_kernels().call_updates;
      detail::exec_of(exec)->at(node).child = detail::copies_of(*detail::graph_of(child));
      return Status::Ok;
    };
    d.launch_graph = [](cuda::GraphExec exec, cuda::Stream) {
      ++fake_kernels().graph_launches;
      for (const auto& [handle, node] : detail::exec_of(exec)->nodes) detail::run(node);
      return Status::Ok;
    };
    return d;
  }();
  return driver;
}

// The process uses it until the end of the scope.
class FakeKernelsScope {
 public:
  FakeKernelsScope() {
    fake_gpu().memory = size_t{1} << 30;
    fake_kernels() = {};
    cuda::replace_driver(&fake_kernels_driver());
  }
  ~FakeKernelsScope() { cuda::replace_driver(nullptr); }
};

}  // namespace weft::tests
