// Walks a trace tree for explain().
#include "compiler/runtime/report_tree.h"

#include <algorithm>

#include "compiler/loops/traffic.h"
#include "compiler/runtime/compiled_node.h"

namespace weft::compiler {
namespace {

std::string origin_of(const Node& node) {
  const std::string place = weft::to_string(node.where);
  const Op& op = node.composite != nullptr ? *node.composite : *node.op;
  return place.empty() ? op.name() : place + " " + op.name();
}

// What stayed apart, by the names of the ops that ran into it.
std::string refusal_text(const Graph& graph, const Refusal& refusal) {
  const Node &first = graph.nodes[refusal.first], &second = graph.nodes[refusal.second];
  const std::string a = weft::to_string(first.where), b = weft::to_string(second.where);
  const auto at = [](const std::string& place) { return place.empty() ? "" : " (" + place + ")"; };
  return first.op->name() + (a == b ? "" : at(a)) + " and " + second.op->name() + at(b) + ": " +
         refusal.reason;
}

void add_new(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

Explanation::Graph graph_of(const Graph& graph, std::string name) {
  return {std::move(name), to_string(graph), graph.nodes.size()};
}

Explanation::Bytes bytes_of(const TrafficCounter& counter, const Traffic& traffic) {
  return {counter.hint(traffic.read), counter.hint(traffic.written)};
}

// A kernel writes the value where an input lies that it replaces.
bool is_stored_over_input(const SegmentNode& node, Slot slot) {
  const LaunchPlan* launch = node.plan->launch_plan();
  if (launch == nullptr || !slot.is_carried || slot.index < node.first_carried) return false;
  const Schedule& schedule = launch->schedule();
  const size_t output = slot.index - node.first_carried;
  if (output >= schedule.graph.outputs.size()) return false;
  const std::optional<MemoryPlace>& place = schedule.places[schedule.graph.outputs[output]];
  return place && std::any_of(schedule.stored_over.begin(), schedule.stored_over.end(),
                              [&](const StoredOver& each) { return each.buffer == place->buffer; });
}

// What a call does beside running the plan: copies into inputs.
void add_memory(Explanation::Graph& result, const SegmentNode& node) {
  if (node.plan == nullptr) return;
  const Graph& graph = node.plan->graph();
  TrafficCounter counter(*graph.expressions);
  const auto bytes_of_carried = [&](Slot slot) -> int64_t {
    if (!slot.is_carried || slot.index < node.first_carried) return 0;
    const size_t output = slot.index - node.first_carried;
    if (output >= graph.outputs.size()) return 0;
    return counter.hint(counter.bytes_of(graph[graph.outputs[output]]));
  };
  for (const InputWrite& write : node.effects.writes) {
    const Slot slot = node.outputs[write.output];
    if (is_stored_over_input(node, slot)) {
      ++result.stored_writes;
    } else {
      ++result.copied_writes;
      result.copied_bytes += 2 * bytes_of_carried(slot);
    }
  }
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
  if (node.plan != nullptr) {
    entry.graphs.push_back(explain_graph(*node.plan, node.plan->graph().name + suffix));
    add_memory(entry.graphs.back(), node);
  }
  if (node.backward != nullptr && node.backward->joint != nullptr) {
    const JointPlan& joint = *node.backward->joint;
    for (size_t p = 0; p < joint.programs().size(); ++p) {
      const std::shared_ptr<const Plan> plan = joint.compiled(p);
      entry.graphs.push_back(plan != nullptr ? explain_graph(*plan, "backward" + suffix)
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

Explanation::Graph explain_graph(const Plan& plan, std::string name) {
  Explanation::Graph result = graph_of(plan.graph(), std::move(name));
  result.compile_seconds = plan.compile_seconds();
  const LaunchPlan* launch = plan.launch_plan();
  if (launch == nullptr) return result;
  const Schedule& schedule = launch->schedule();
  TrafficCounter counter(*schedule.expressions);
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    const KernelProgram& program = launch->programs()[k];
    Explanation::Kernel kernel;
    kernel.name = program.entry;
    kernel.code = program.text;
    kernel.source = *program.source;
    kernel.bytes = bytes_of(counter, counter.of(schedule, schedule.kernels[k]));
    for (const LoopBody& body : schedule.kernels[k].bodies) {
      kernel.loops += to_string(body);
      for (const std::string& origin : body.origins) add_new(kernel.origins, origin);
    }
    result.kernels.push_back(std::move(kernel));
  }
  result.replay = launch->replay_note();
  result.extern_calls = schedule.externs.size();
  for (const ExternStep& step : schedule.externs)
    result.library_calls.push_back(origin_of(schedule.graph.nodes[step.node]));
  for (const Refusal& refusal : schedule.refusals)
    add_new(result.refusals, refusal_text(plan.graph(), refusal));
  result.bytes = bytes_of(counter, counter.of(schedule));
  result.unfused = bytes_of(counter, counter.of(plan.traced()));
  return result;
}

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
