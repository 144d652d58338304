// Cutting joint graphs and compiling their halves.
// Place: the out-of-line half of compiler/runtime/joint_plan.h.
#include "compiler/runtime/joint_plan.h"

#include <algorithm>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/stats.h"
#include "compiler/trace/recorder.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

std::string describe(const Graph& graph, ValueId id) {
  const Value& value = graph[id];
  std::string text;
  const bool is_input = value.node == kNoNode;
  if (is_input && value.index < graph.input_names.size()) text = graph.input_names[value.index];
  if (!is_input) {
    const Node& node = graph.nodes[value.node];
    text = node.composite != nullptr ? node.op->name() + " of " + node.composite->name() : node.op->name();
  }
  text += (text.empty() ? "" : " ") + std::string(short_name_of(value.dtype)) +
          weft::detail::concat(SymList(value.sizes));
  if (!is_input && graph.nodes[value.node].where.line() != 0)
    text += " (" + weft::to_string(graph.nodes[value.node].where) + ")";
  return text;
}

}  // namespace

JointPlan::JointPlan(Graph joint, PartitionOptions options, const Backend& backend)
    : traced_(std::move(joint)), options_(std::move(options)) {
  // Values of the graph as it is cut, which the parts name.
  Graph cut;
  Partition parts = prepare_joint(traced_, stage_of(backend, traced_), options_, cut);

  std::vector<uint32_t> saved_at(cut.values.size());
  auto next = static_cast<uint32_t>(options_.num_outputs);
  for (const Partition::Saved& saved : parts.saved) {
    const bool is_primal = cut[saved.value].node == kNoNode;
    saved_at[saved.value] = static_cast<uint32_t>(saved_.size());
    saved_.push_back({is_primal, is_primal ? cut[saved.value].index : next++, saved.is_copied, saved.bytes,
                      describe(cut, saved.value)});
  }

  std::vector<ValueId> reads;
  forward_ = extract(parts.forward, 0, static_cast<NodeId>(parts.forward.nodes.size()), parts.forward.outputs,
                     reads);
  forward_.name = traced_.name;
  for (const ValueId value : reads) forward_reads_.push_back(parts.forward[value].index);
  // Backward asks for what a written input held: it is copied when forward has run.
  const bool asks_for_written = std::any_of(
      saved_.begin(), saved_.end(), [](const Saved& saved) { return saved.is_primal && saved.is_copied; });
  for (const auto& [output, input] : traced_.overwrites) {
    const auto read = std::find(forward_reads_.begin(), forward_reads_.end(), input);
    if (!asks_for_written && read != forward_reads_.end())
      forward_.overwrites.push_back({output, static_cast<uint32_t>(read - forward_reads_.begin())});
  }

  for (Partition::Backward& backward : parts.backward) {
    Program program;
    for (const ValueId value : backward.reads) {
      const bool is_tangent = cut[value].node == kNoNode && cut[value].index >= options_.num_primals;
      program.reads.push_back(
          {is_tangent,
           is_tangent ? cut[value].index - static_cast<uint32_t>(options_.num_primals) : saved_at[value]});
    }
    program.graph = std::move(backward.graph);
    program.graph.name = traced_.name + "_backward";
    programs_.push_back(std::move(program));
  }
}

const Plan& JointPlan::plan_of(size_t index, const Backend& backend) {
  const std::lock_guard lock(mutex_);
  Program& program = programs_[index];
  if (program.plan == nullptr) {
    // Passes add expressions, while other threads run forward graphs over the tables that this one shares.
    program.graph.expressions = std::make_shared<Expressions>(*program.graph.expressions);
    program.plan = std::make_shared<const Plan>(program.graph, backend);
    count(Count::Compilation);
  }
  return *program.plan;
}

std::shared_ptr<const Plan> JointPlan::summed_plan_of(size_t index, const std::vector<bool>& joins,
                                                      const Backend& backend) {
  const std::lock_guard lock(mutex_);
  Program& program = programs_[index];
  if (program.summed_plan != nullptr && program.joins == joins) return program.summed_plan;
  Graph graph = program.graph;
  graph.expressions = std::make_shared<Expressions>(*graph.expressions);
  const TableEnvironment environment(*graph.expressions);
  {
    Recorder recorder(graph, "the sum of the parts of a gradient");
    std::vector<ValueId> sums;
    for (size_t k = 0; k < program.graph.outputs.size(); ++k) {
      const ValueId part = program.graph.outputs[k];
      if (joins[k])
        sums.back() = recorder.value_of(recorder.tensor_of(sums.back()) + recorder.tensor_of(part));
      else sums.push_back(part);
    }
    graph.outputs = std::move(sums);
  }
  program.summed_plan = std::make_shared<const Plan>(std::move(graph), backend);
  program.joins = joins;
  count(Count::Compilation);
  return program.summed_plan;
}

std::shared_ptr<const Plan> JointPlan::compiled(size_t program) const {
  const std::lock_guard lock(mutex_);
  const Program& found = programs_[program];
  return found.plan != nullptr ? found.plan : found.summed_plan;
}

namespace {

bool is_same(const PartitionOptions& a, const PartitionOptions& b) {
  return a.num_primals == b.num_primals && a.num_outputs == b.num_outputs &&
         a.gradients_of == b.gradients_of && a.primals == b.primals && a.outputs == b.outputs;
}

}  // namespace

std::shared_ptr<JointPlan> JointPlanCache::get(Graph joint, const PartitionOptions& options, PlanCache& plans,
                                               bool& is_new) {
  const uint64_t hash = hash_of(joint);
  is_new = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto [at, last] = plans_.equal_range(hash); at != last; ++at)
      if (is_same(at->second->options(), options) && compiler::is_same(at->second->traced(), joint))
        return at->second;
  }
  auto plan = std::make_shared<JointPlan>(std::move(joint), options, plans.backend());
  Graph forward = plan->take_forward();
  const bool has_effect = std::any_of(forward.nodes.begin(), forward.nodes.end(),
                                      [](const Node& node) { return node.op->has_effect; });
  if (!forward.outputs.empty() || has_effect) plan->forward = plans.get(std::move(forward), is_new);
  const std::lock_guard lock(mutex_);
  if (plans_.size() >= kMaxPlans)
    std::erase_if(plans_, [](const auto& each) { return each.second.use_count() == 1; });
  plans_.emplace(hash, plan);
  return plan;
}

}  // namespace weft::compiler
