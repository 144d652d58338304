// Walks a trace tree for explain().
#include "compiler/runtime/report_tree.h"

#include <algorithm>

#include "compiler/runtime/compiled_node.h"

namespace weft::compiler {
namespace {

Explanation::Graph graph_of(const Graph& graph, std::string name) {
  return {std::move(name), to_string(graph), graph.nodes.size()};
}

// With what runs it, where that is generated code.
Explanation::Graph graph_of(const Plan& plan, std::string name) {
  Explanation::Graph result = graph_of(plan.graph(), std::move(name));
  const LaunchPlan* launch = plan.launch_plan();
  if (launch == nullptr) return result;
  const Schedule& schedule = launch->schedule();
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    const KernelProgram& program = launch->programs()[k];
    Explanation::Kernel kernel;
    kernel.name = program.entry;
    kernel.source = *program.source;
    for (const LoopBody& body : schedule.kernels[k].bodies) {
      kernel.loops += to_string(body);
      for (const std::string& origin : body.origins)
        if (std::find(kernel.origins.begin(), kernel.origins.end(), origin) == kernel.origins.end())
          kernel.origins.push_back(origin);
    }
    result.kernels.push_back(std::move(kernel));
  }
  result.extern_calls = schedule.externs.size();
  const Graph& graph = plan.graph();
  for (const Refusal& refusal : schedule.refusals) {
    std::string text = graph.nodes[refusal.first].op->name() + " and " +
                       graph.nodes[refusal.second].op->name() + " stay apart: " + refusal.reason;
    if (std::find(result.refusals.begin(), result.refusals.end(), text) == result.refusals.end())
      result.refusals.push_back(std::move(text));
  }
  return result;
}

std::string outcome_text(const Break& stop, uint64_t outcome) {
  switch (stop.kind) {
    case Break::Kind::Compare: return outcome != 0 ? "true" : "false";
    case Break::Kind::Integer: return std::to_string(static_cast<int64_t>(outcome));
    case Break::Kind::Double:
    case Break::Kind::Result: break;
  }
  return "";
}

// `path` names the way to this node: "", "true", "true.3".
void add_node(Explanation::Entry& entry, const SegmentNode& node, const std::string& path) {
  const std::string suffix = path.empty() ? "" : " after " + path;
  if (node.plan != nullptr) entry.graphs.push_back(graph_of(*node.plan, node.plan->graph().name + suffix));
  if (node.backward != nullptr && node.backward->joint != nullptr) {
    const JointPlan& joint = *node.backward->joint;
    for (size_t p = 0; p < joint.programs().size(); ++p) {
      const std::shared_ptr<const Plan> plan = joint.compiled(p);
      entry.graphs.push_back(plan != nullptr ? graph_of(*plan, "backward" + suffix)
                                             : graph_of(joint.programs()[p].graph, "backward" + suffix));
    }
    for (const JointPlan::Saved& saved : joint.saved())
      if (saved.bytes > 0) entry.activations.push_back({saved.text, static_cast<uint64_t>(saved.bytes)});
  }
  if (!node.stop) return;
  const Explanation::Break stop = explain_break(*node.stop);
  const auto is_same = [&](const Explanation::Break& each) {
    return each.where == stop.where && each.op == stop.op && each.reason == stop.reason;
  };
  // Arms of one condition meet the same question again further on.
  if (std::none_of(entry.breaks.begin(), entry.breaks.end(), is_same)) entry.breaks.push_back(stop);
  const std::shared_lock lock(node.mutex);
  for (const Branch& branch : node.branches) {
    const std::string outcome = outcome_text(*node.stop, branch.outcome);
    const std::string next = path.empty() || outcome.empty() ? path + outcome : path + "." + outcome;
    if (branch.guards)
      for (const std::string& guard : branch.guards->facts().describe())
        if (std::find(entry.guards.begin(), entry.guards.end(), guard) == entry.guards.end())
          entry.guards.push_back(guard);
    add_node(entry, *branch.node, next);
  }
}

}  // namespace

Explanation::Break explain_break(const Break& stop) {
  Explanation::Break result;
  result.where = weft::to_string(stop.place.where);
  if (stop.place.op != nullptr) result.op = stop.place.op->name();
  switch (stop.kind) {
    case Break::Kind::Compare:
      result.reason = "a condition depends on a value; each outcome has a path of its own";
      break;
    case Break::Kind::Integer: result.reason = "an integer is read; each value has a path of its own"; break;
    case Break::Kind::Double:
      result.reason = "a native floating number is read; item() gives a Scalar that stays in the graph";
      break;
    case Break::Kind::Result: result.reason = "the sizes of a result depend on data"; break;
  }
  return result;
}

Explanation::Entry explain_entry(const Branch& branch) {
  Explanation::Entry entry;
  if (branch.guards) {
    entry.guards = branch.guards->facts().describe();
    entry.is_dynamic = !branch.guards->facts().reads.empty();
  }
  add_node(entry, *branch.node, "");
  return entry;
}

void add_events(Explanation& explanation, const std::vector<Event>& events) {
  for (const Event& event : events) {
    switch (event.kind) {
      case Event::Kind::Recompile: explanation.recompiles.push_back(event.text); break;
      case Event::Kind::Break: break;
      case Event::Kind::Follow: explanation.notes.push_back("entered at each call: " + event.text); break;
      case Event::Kind::Eager: explanation.notes.push_back("runs eagerly: " + event.text); break;
      case Event::Kind::Limit:
      case Event::Kind::Storm: explanation.notes.push_back(event.text); break;
    }
  }
}

}  // namespace weft::compiler
