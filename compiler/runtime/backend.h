// Backend: what makes a callable program of a graph, by name or as a lambda; and the registry of the names.
// Needs tensor; graph.h only where a backend looks at the graph.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft {
namespace compiler {
struct Graph;
struct RunValues;
}  // namespace compiler

// Runs a graph on the tensors of one call; the values are those of its symbols and numbers.
using GraphProgram = std::function<std::vector<Tensor>(std::span<const Tensor>, const compiler::RunValues&)>;
// Makes it. The examples are the inputs of the first call: fake tensors, with sizes but without data.
using BackendFunction = std::function<GraphProgram(const compiler::Graph&, std::span<const Tensor> examples)>;

namespace compiler::detail {
template <class R>
GraphProgram adapt_runner(R runner) {
  if constexpr (std::is_invocable_v<R&, std::span<const Tensor>, const RunValues&>) return runner;
  else
    return [runner = std::move(runner)](std::span<const Tensor> inputs, const RunValues&) mutable {
      return runner(inputs);
    };
}
}  // namespace compiler::detail

// "aot_eager", or [](const compiler::Graph& graph, std::span<const Tensor> examples) { return a callable; }, where the
// callable takes the input tensors, and RunValues if it wants them, and gives a std::vector<Tensor>.
class Backend {
 public:
  Backend() = default;                                   // the default: "weft"
  Backend(std::string name) : name_(std::move(name)) {}  // NOLINT
  Backend(const char* name) : name_(name) {}             // NOLINT
  template <class F>
  requires std::is_invocable_v<F&, const compiler::Graph&, std::span<const Tensor>> Backend(
      F function)  // NOLINT
      : name_("custom"),
        function_([function = std::move(function)](const compiler::Graph& graph,
                                                   std::span<const Tensor> examples) mutable {
          return compiler::detail::adapt_runner(function(graph, examples));
        }) {}

  const std::string& name() const { return name_; }
  // The function, looked up by name where it is none of the user's; empty for those of the library, which run graphs by
  // eager kernels. Error naming what there is for an unknown name.
  BackendFunction function() const;
  // Whether what runs on one GPU is recorded as CUDA graphs: in mode reduce-overhead, and by "cudagraphs".
  bool replays() const { return replays_; }
  void set_replays(bool replays) { replays_ = replays; }

 private:
  std::string name_ = "weft";
  bool replays_ = false;
  BackendFunction function_;
};

// Runs the graph by the kernels of eager mode: what a backend gives that only looks at the graph, or does not want this one.
GraphProgram eager_program(const compiler::Graph& graph);

// Makes a backend known by this name; a later one of the same name replaces it for functions compiled from then on.
void register_backend(const std::string& name, BackendFunction function);
template <class F>
requires(!std::is_same_v<std::remove_cvref_t<F>, BackendFunction>) void register_backend(
    const std::string& name, F function) {
  register_backend(name, Backend(std::move(function)).function());
}
// In alphabetical order.
std::vector<std::string> backend_names();

}  // namespace weft
