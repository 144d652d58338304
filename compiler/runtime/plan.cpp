// Extracting segments and compiling them.
#include "compiler/runtime/plan.h"

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/compile_log.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/table_environment.h"
#include "tensor/grad_flag.h"
#include "tensor/quiet_handles.h"

namespace weft::compiler {

Graph extract(const Graph& path, NodeId begin, NodeId end, std::span<const ValueId> outputs,
              std::vector<ValueId>& inputs) {
  Graph graph(path.expressions);
  std::vector<ValueId> own(path.values.size(), kNoValue);
  const auto take = [&](ValueId value) {
    if (own[value] != kNoValue) return own[value];
    const Value& v = path[value];
    std::string name;
    if (v.node == kNoNode && v.index < path.input_names.size()) name = path.input_names[v.index];
    own[value] = graph.add_input(v.spec(), name);
    inputs.push_back(value);
    return own[value];
  };
  // Inputs come first, in the order in which they are read.
  const auto is_own = [&](ValueId value) { return path[value].node >= begin && path[value].node < end; };
  for (NodeId n = begin; n < end; ++n)
    for (const ValueId value : values_read_by(path, path.nodes[n]))
      if (!is_own(value)) take(value);
  for (const ValueId value : outputs)
    if (!is_own(value)) take(value);
  for (NodeId n = begin; n < end; ++n) {
    Node node = path.nodes[n];
    for (Argument& operand : node.operands)
      if (operand.is_value()) operand.value = own[operand.value];
    OutputSpecs specs;
    for (uint32_t i = 0; i < node.num_outputs; ++i) specs.push_back(path[node.first_output + i].spec());
    const ValueId first = path.nodes[n].first_output;
    const ValueId made = graph.add_node(std::move(node), {specs.data(), specs.size()});
    for (uint32_t i = 0; i < path.nodes[n].num_outputs; ++i) own[first + i] = made + i;
  }
  for (const ValueId item : path.items) graph.items.push_back(item == kNoValue ? kNoValue : own[item]);
  for (const ValueId value : outputs) graph.outputs.push_back(own[value]);
  return graph;
}

bool has_loops(const Backend& backend, const Graph& graph) {
  const bool on_gpu = std::any_of(graph.values.begin(), graph.values.end(),
                                  [](const Value& value) { return value.device.is_cuda(); });
  // Loops of a GPU are not interpreted: there the ops run by their eager kernels.
  if (on_gpu) return (backend.name() == "weft" || backend.name() == "cudagraphs") && can_generate_cuda();
  return backend.name() == "weft" || backend.name() == "interpret";
}

Stage stage_of(const Backend& backend, const Graph& graph) {
  if (has_loops(backend, graph)) return Stage::Lowered;
  return backend.name() == "eager" ? Stage::Captured : Stage::Decomposed;
}

Plan::Plan(Graph graph, const Backend& backend) : traced_(std::move(graph)) {
  CompileLog log(traced_);
  hash_ = hash_of(traced_);
  KernelOptions kernels;
  kernels.is_stand_in = backend.name() == "weft" && !can_generate_code();
  kernels.replay = backend.replays();
  kernels.interpret = backend.name() == "interpret" || kernels.is_stand_in;
  graph_ = prepare(traced_, stage_of(backend, traced_), log.watch());
  log.end_stage("passes");
  if (const BackendFunction function = backend.function(); !function) {
    if (has_loops(backend, traced_)) {
      // "cudagraphs" shows what replaying gives by itself.
      Schedule schedule = compiler::schedule(graph_, {.fuse = backend.name() != "cudagraphs"});
      log.end_stage("schedule");
      launch_plan_ = std::make_unique<LaunchPlan>(std::move(schedule), kernels);
      log.end_stage("code");
    } else {
      runner_ = std::make_unique<GraphRunner>(graph_);
    }
  } else {
    const TableEnvironment environment(*graph_.expressions);
    std::vector<Tensor> examples;
    for (const ValueId input : graph_.inputs) examples.push_back(make_hollow(graph_[input].spec()));
    program_ = function(graph_, examples);
  }
  seconds_ = log.seconds();
  log.finish(*this);
}

void Plan::run(std::span<const Tensor* const> inputs, const RunValues& values,
               std::span<Tensor> outputs) const {
  const QuietHandles quiet;
  if (launch_plan_ != nullptr) {
    try {
      return launch_plan_->run(inputs, values, outputs);
    } catch (const KernelFailed&) {
      // Nothing has been written yet, so that the ops as they were called raise what they raise; but what was printed, or
      // told to the host, would be so twice.
      const bool has_effects = std::any_of(traced_.nodes.begin(), traced_.nodes.end(),
                                           [](const Node& node) { return node.op->has_effect; });
      if (!has_effects) GraphRunner(prepare(traced_, Stage::Captured)).run(inputs, values, outputs);
      throw;
    }
  }
  if (runner_ != nullptr) return runner_->run(inputs, values, outputs);
  std::vector<Tensor> own;
  own.reserve(inputs.size());
  for (const Tensor* input : inputs) own.push_back(*input);
  const AutoGradMode off(false);
  std::vector<Tensor> results = program_(own, values);
  WEFT_CHECK(results.size() == outputs.size(), "compile: the backend's program gave ", results.size(),
             " tensors, but ", traced_.name, " has ", outputs.size(), " outputs");
  std::move(results.begin(), results.end(), outputs.begin());
}

std::shared_ptr<const Plan> PlanCache::get(Graph graph, bool& is_new) {
  const uint64_t hash = hash_of(graph);
  {
    const std::lock_guard lock(mutex_);
    for (auto [at, last] = plans_.equal_range(hash); at != last; ++at) {
      if (is_same(at->second->traced(), graph)) {
        is_new = false;
        return at->second;
      }
    }
  }
  is_new = true;
  auto plan = std::make_shared<const Plan>(std::move(graph), backend_);
  const std::lock_guard lock(mutex_);
  // A function that is followed through ever new programs does not keep those that no path uses any more.
  if (plans_.size() >= kMaxPlans)
    std::erase_if(plans_, [](const auto& each) { return each.second.use_count() == 1; });
  plans_.emplace(hash, plan);
  return plan;
}

}  // namespace weft::compiler
