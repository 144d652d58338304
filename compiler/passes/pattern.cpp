// Finding groups of nodes that look like a pattern, and recording what replaces them.
// Place: compiler/passes/pattern.h says where it stands.
#include "compiler/passes/pattern.h"

#include <algorithm>
#include <deque>

#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/decompose.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/simplify.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/recorder.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {

CompiledRule::CompiledRule(PatternRule rule) : rule_(std::move(rule)) {
  Graph recorded;
  recorded.name = rule_.name;
  {
    const TableEnvironment environment(*recorded.expressions);
    for (const std::vector<int64_t>& example : rule_.examples) {
      Sizes sizes;
      for (const int64_t size : example) sizes.push_back(Sym::from_int(size));
      recorded.add_input({sizes, DType::Float32, kCPU});
    }
    const Recorder recorder(recorded, "pattern " + rule_.name);
    std::vector<Tensor> tensors;
    for (const ValueId input : recorded.inputs) tensors.push_back(recorder.tensor_of(input));
    for (const Tensor& output : rule_.pattern(tensors)) recorded.outputs.push_back(recorder.value_of(output));
  }
  pattern_ = dce(cse(simplify(decompose(recorded, DecompositionSet().remove(Kind::Pointwise)))));
  for (const ValueId output : pattern_.outputs) {
    const NodeId node = pattern_[output].node;
    WEFT_CHECK(node != kNoNode && pattern_.nodes[node].op->kind != Kind::View, "pattern ", rule_.name,
               ": what it gives must be made by an op that is no view");
  }
}

namespace {

// Nodes of the graph that stand for those of a pattern.
struct Group {
  const CompiledRule* rule = nullptr;
  std::vector<ValueId> values;  // by value of the pattern
  std::vector<NodeId> nodes;    // by node of the pattern
  Graph parts;                  // the replacement: inputs by those of the pattern, outputs likewise
  std::vector<NodeId> places;   // by node of the replacement: the node of the graph before which it goes
  std::vector<ValueId> now;     // by value of the replacement: its value in the new graph

  ValueId input(size_t i) const { return values[rule->pattern().inputs[i]]; }
  ValueId output(size_t i) const { return values[rule->pattern().outputs[i]]; }
};

class Matcher {
 public:
  Matcher(const Graph& graph, const std::vector<std::vector<NodeId>>& users) : graph_(graph), users_(users) {}

  // A group whose first output is made by the node.
  std::optional<Group> match(const CompiledRule& rule, NodeId node) {
    pattern_ = &rule.pattern();
    group_.rule = &rule;
    group_.values.assign(pattern_->values.size(), kNoValue);
    group_.nodes.assign(pattern_->nodes.size(), kNoNode);
    if (!matches_node((*pattern_)[pattern_->outputs[0]].node, node)) return std::nullopt;
    for (const ValueId output : pattern_->outputs)
      if (!reach((*pattern_)[output].node)) return std::nullopt;
    return std::move(group_);
  }

 private:
  bool matches_value(ValueId pattern, ValueId value) {
    if (group_.values[pattern] != kNoValue) return group_.values[pattern] == value;
    const NodeId node = (*pattern_)[pattern].node;
    if (node == kNoNode) {
      group_.values[pattern] = value;
      return true;
    }
    return graph_[value].node != kNoNode && (*pattern_)[pattern].index == graph_[value].index &&
           matches_node(node, graph_[value].node);
  }

  bool matches_argument(const Argument& pattern, const Argument& argument) {
    if (pattern.is_value()) return argument.is_value() && matches_value(pattern.value, argument.value);
    return is_same(pattern, argument);
  }

  bool matches_node(NodeId pattern, NodeId node) {
    if (group_.nodes[pattern] != kNoNode) return group_.nodes[pattern] == node;
    const Node &p = pattern_->nodes[pattern], &n = graph_.nodes[node];
    if (p.op != n.op || p.operands.size() != n.operands.size() || p.attrs.size() != n.attrs.size() ||
        n.op->has_effect ||
        !std::equal(p.attrs.begin(), p.attrs.end(), n.attrs.begin(),
                    [](const Attr& a, const Attr& b) { return is_same(a, b); }))
      return false;
    const std::vector<ValueId> values = group_.values;
    const std::vector<NodeId> nodes = group_.nodes;
    for (const bool is_swapped : {false, true}) {
      if (is_swapped && !(p.op->algebra.is_commutative && p.operands.size() >= 2)) break;
      group_.nodes[pattern] = node;
      for (uint32_t k = 0; k < p.num_outputs; ++k) group_.values[p.first_output + k] = n.first_output + k;
      bool matches = true;
      for (size_t i = 0; matches && i < p.operands.size(); ++i)
        matches = matches_argument(p.operands[i], n.operands[is_swapped && i < 2 ? 1 - i : i]);
      if (matches) return true;
      group_.values = values;
      group_.nodes = nodes;
    }
    return false;
  }

  // A node of the pattern that the first output does not need: found from an operand that is known.
  bool reach(NodeId pattern) {
    if (group_.nodes[pattern] != kNoNode) return true;
    for (const Argument& argument : pattern_->nodes[pattern].operands) {
      if (!argument.is_value() || group_.values[argument.value] == kNoValue) continue;
      for (const NodeId user : users_[group_.values[argument.value]])
        if (user != kNoNode && matches_node(pattern, user)) return true;
    }
    return false;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>>& users_;
  const Graph* pattern_ = nullptr;
  Group group_;
};

class Replacer {
 public:
  Replacer(const Graph& graph, std::span<const CompiledRule> rules)
      : graph_(graph),
        rules_(rules),
        users_(users_of(graph)),
        taken_(graph.nodes.size()),
        environment_(*graph.expressions) {
    for (const ValueId item : graph.items)
      if (item != kNoValue) users_[item].push_back(kNoNode);
  }

  Graph run() {
    std::deque<Group> groups;
    std::vector<std::vector<std::pair<Group*, NodeId>>> at(graph_.nodes.size());
    for (NodeId n = static_cast<NodeId>(graph_.nodes.size()); n-- > 0;) {
      if (taken_[n]) continue;
      if (std::optional<Group> group = find(n)) {
        for (const NodeId node : group->nodes) taken_[node] = true;
        Group& kept = groups.emplace_back(*std::move(group));
        for (NodeId part = 0; part < kept.places.size(); ++part)
          at[kept.places[part]].emplace_back(&kept, part);
      }
    }
    Rewriter rewriter(graph_);
    rewriter.copy_inputs();
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      for (const auto& [group, part] : at[n]) emit(rewriter, *group, part);
      if (!taken_[n]) rewriter.copy(n);
    }
    return rewriter.finish();
  }

 private:
  std::optional<Group> find(NodeId n) {
    if (graph_.nodes[n].op->kind == Kind::View) return std::nullopt;
    for (const CompiledRule& rule : rules_) {
      std::optional<Group> group = Matcher(graph_, users_).match(rule, n);
      if (group && is_free(*group) && record(*group) && find_places(*group)) return group;
    }
    return std::nullopt;
  }

  static bool contains(const Group& group, NodeId node) {
    return std::find(group.nodes.begin(), group.nodes.end(), node) != group.nodes.end();
  }

  // Nobody else has the nodes or reads what they keep to themselves.
  bool is_free(const Group& group) const {
    const Graph& pattern = group.rule->pattern();
    const auto is_output = [&](ValueId value) {
      return std::find(pattern.outputs.begin(), pattern.outputs.end(), value) != pattern.outputs.end();
    };
    for (NodeId p = 0; p < pattern.nodes.size(); ++p) {
      const NodeId node = group.nodes[p];
      if (node == kNoNode || taken_[node]) return false;
      for (uint32_t k = 0; k < pattern.nodes[p].num_outputs; ++k) {
        if (is_output(pattern.nodes[p].first_output + k)) continue;
        for (const NodeId user : users_[graph_.nodes[node].first_output + k])
          if (!contains(group, user)) return false;
      }
    }
    // What the group reads is not its own.
    for (size_t i = 0; i < pattern.inputs.size(); ++i) {
      const ValueId input = group.input(i);
      if (input == kNoValue || contains(group, graph_[input].node)) return false;
    }
    return true;
  }

  // Each node of the replacement goes where the first result that needs it was; its inputs must be there by then.
  bool find_places(Group& group) const {
    const Graph& parts = group.parts;
    std::vector<NodeId> needed(parts.values.size(), kNoNode), ready(parts.values.size(), 0);
    for (size_t i = 0; i < parts.outputs.size(); ++i) {
      NodeId& first = needed[parts.outputs[i]];
      first = std::min(first, graph_[group.output(i)].node);
    }
    for (size_t i = 0; i < parts.inputs.size(); ++i)
      if (const NodeId maker = graph_[group.input(i)].node; maker != kNoNode)
        ready[parts.inputs[i]] = maker + 1;
    group.places.assign(parts.nodes.size(), kNoNode);
    for (NodeId part = static_cast<NodeId>(parts.nodes.size()); part-- > 0;) {
      const Node& node = parts.nodes[part];
      NodeId& place = group.places[part];
      for (uint32_t k = 0; k < node.num_outputs; ++k) place = std::min(place, needed[node.first_output + k]);
      if (place == kNoNode) return false;  // nobody needs it
      for (const Argument& argument : node.operands)
        if (argument.is_value()) needed[argument.value] = std::min(needed[argument.value], place);
    }
    for (const ValueId input : parts.inputs)
      if (needed[input] != kNoNode && ready[input] > needed[input]) return false;
    return true;
  }

  bool record(Group& group) {
    const Graph& pattern = group.rule->pattern();
    group.parts = Graph(graph_.expressions);
    for (size_t i = 0; i < pattern.inputs.size(); ++i) group.parts.add_input(graph_[group.input(i)].spec());
    try {
      environment_.reset();
      Recorder recorder(group.parts, "replacement of " + group.rule->rule().name);
      recorder.set_origin(graph_.nodes[graph_[group.output(0)].node]);
      std::vector<Tensor> tensors;
      for (const ValueId input : group.parts.inputs) tensors.push_back(recorder.tensor_of(input));
      for (const Tensor& output : group.rule->rule().replacement(tensors))
        group.parts.outputs.push_back(recorder.value_of(output));
    } catch (const TableEnvironment::UnknownNumber&) {
      return false;
    }
    if (group.parts.outputs.empty() || environment_.has_guessed()) return false;
    WEFT_ASSERT(group.parts.outputs.size() == pattern.outputs.size(), group.rule->rule().name);
    for (size_t i = 0; i < pattern.outputs.size(); ++i) {
      const Value& made = group.parts[group.parts.outputs[i]];
      const bool is_fresh = made.node != kNoNode && group.parts.nodes[made.node].op->kind != Kind::View;
      if (!is_fresh || !has_same_spec(graph_.expressions->syms, made, graph_[group.output(i)])) return false;
    }
    return true;
  }

  void emit(Rewriter& rewriter, Group& group, NodeId part) const {
    const Graph& parts = group.parts;
    std::vector<ValueId>& now = group.now;
    if (now.empty()) now.assign(parts.values.size(), kNoValue);
    for (size_t i = 0; i < parts.inputs.size(); ++i)
      if (now[parts.inputs[i]] == kNoValue && rewriter.has(group.input(i)))
        now[parts.inputs[i]] = rewriter[group.input(i)];
    const Node& node = parts.nodes[part];
    Node copy = node;
    for (Argument& argument : copy.operands)
      if (argument.is_value()) argument.value = now[argument.value];
    OutputSpecs specs;
    for (uint32_t k = 0; k < node.num_outputs; ++k) specs.push_back(parts[node.first_output + k].spec());
    const ValueId first = rewriter.to().add_node(std::move(copy), {specs.data(), specs.size()});
    for (uint32_t k = 0; k < node.num_outputs; ++k) now[node.first_output + k] = first + k;
    for (size_t i = 0; i < parts.outputs.size(); ++i)
      if (parts[parts.outputs[i]].node == part) rewriter.set(group.output(i), now[parts.outputs[i]]);
  }

  const Graph& graph_;
  std::span<const CompiledRule> rules_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> taken_;
  TableEnvironment environment_;
};

}  // namespace

Graph replace_patterns(const Graph& graph, std::span<const CompiledRule> rules) {
  return Replacer(graph, rules).run();
}

}  // namespace weft::compiler
