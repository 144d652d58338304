// The registry of backends by name.
#include "compiler/runtime/backend.h"

#include <map>
#include <mutex>

#include "compiler/runtime/graph_runner.h"

namespace weft {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, BackendFunction> functions;
};

// Never destroyed: compiled functions of static life look names up too.
Registry& registry() {
  static auto* const all = [] {
    auto* r = new Registry;
    // "weft" names the default, which is the best there is.
    for (const char* name : {"eager", "aot_eager", "interpret", "weft", "cudagraphs"})
      r->functions.emplace(name, BackendFunction());
    return r;
  }();
  return *all;
}

std::vector<std::string> names_in(const Registry& r) {
  std::vector<std::string> names;
  for (const auto& [name, function] : r.functions) names.push_back(name);
  return names;
}

}  // namespace

GraphProgram eager_program(const compiler::Graph& graph) {
  const auto runner = std::make_shared<const compiler::GraphRunner>(graph);
  return [runner](std::span<const Tensor> inputs, const compiler::RunValues& values) {
    std::vector<const Tensor*> tensors;
    for (const Tensor& input : inputs) tensors.push_back(&input);
    std::vector<Tensor> outputs(runner->graph().outputs.size());
    runner->run(tensors, values, outputs);
    return outputs;
  };
}

void register_backend(const std::string& name, BackendFunction function) {
  WEFT_CHECK(!name.empty() && function, "register_backend: a name and a function are needed");
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.functions[name] = std::move(function);
}

std::vector<std::string> backend_names() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return names_in(r);
}

BackendFunction Backend::function() const {
  if (function_) return function_;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (const auto found = r.functions.find(name_); found != r.functions.end()) return found->second;
  std::string known;
  for (const std::string& name : names_in(r)) known += (known.empty() ? "" : ", ") + name;
  weft::detail::throw_error("compile: there is no backend \"" + name_ + "\"; there are " + known);
}

}  // namespace weft
