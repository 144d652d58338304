// The network of what can be saved and what can be computed again, and its cheapest cut.
// Place: the out-of-line half of compiler/passes/saved_values.h.
#include "compiler/passes/saved_values.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "compiler/passes/max_flow.h"
#include "tensor/ops/pointwise_rule.h"

namespace weft::compiler {
namespace {

// Note [What forward saves]
// Every value that does not depend on a tangent is an edge of a network, from `in` to `out`, as wide as it costs to save.
// What it is computed from leads into it, primals come from the source, and what backward reads leads to the sink. A cut is a set of values from which backward can compute
// what it needs; the cheapest one is saved. A value that must not be computed twice hangs on the source too: it is saved, or
// not needed. (The formulation is that of PyTorch's min_cut_rematerialization_partition; Chen et al. 2016 and Jain et al.
// 2020 pose the problem.)
//
// Computing again costs next to nothing where it happens in a loop that backward runs anyway. So these are not computed twice:
// - what loops cannot compute: library calls, and ops with effects;
// - what backward would have to write to memory: a library call reads it;
// - folds, which begin loops of their own;
// - what has far fewer elements than what it is computed from;
// - what forward reads again after something that ends its loop: to be fused at both places it would be computed three times;
// - what stands at the end of a long chain, or of much arithmetic: else backward would begin at the inputs for ever.
//
// A budget below 1 lifts these bans one after the other, in the order of time to compute again by byte saved, until what is
// saved fits. What a checkpoint() encloses is always computed again.

constexpr double kSmaller = 4;      // times
constexpr NodeId kLongChain = 100;  // nodes
constexpr double kMostWork =
    200;  // additions per element; more than reading four bytes and writing them costs
constexpr double kDistanceFactor =
    1.1;  // by step to backward: of equal values the later one, which saves more work
constexpr int kMostSteps = 100;

// The machine in which time is estimated; only ratios matter.
constexpr double kBytesPerSecond = 1e10, kAdditionsPerSecond = 3e10, kLibraryFlops = 1e11;

// Whether loops compute the op, and may compute it where it is read.
bool is_loop(const Node& node) {
  const Op& op = *node.op;
  if (op.has_effect || op.data_dependent || node.num_outputs != 1) return false;
  switch (op.kind) {
    case Kind::Pointwise: return op.pointwise != nullptr;
    case Kind::View: return true;
    case Kind::Reduction: return op.fold != nullptr;
    case Kind::Create:
    case Kind::Index: return op.element != nullptr;
    default: return false;
  }
}
// Whether it can be run twice at all.
bool is_repeatable(const Node& node) { return !node.op->has_effect && !node.op->data_dependent; }

double work_per_element(const Node& node) {
  if (node.op->kind == Kind::View) return 0;
  if (node.op->pointwise != nullptr) return node.op->pointwise->cost;
  return node.op->is_random ? 60 : 4;
}

class Chooser {
 public:
  Chooser(const JointGraph& joint, const PartitionOptions& options)
      : joint_(joint), graph_(joint.graph), options_(options), num_values_(graph_.values.size()) {
    find_recomputed();
    find_distances();
    find_bans();
  }

  std::vector<bool> choose() const {
    const std::vector<bool> by_default = cut(banned_, false);
    const double budget = options_.memory_budget;
    if (budget >= 1) return by_default;
    const double limit = std::max(budget, 0.0) * bytes_of(by_default);
    // Lifting a ban never makes the cheapest cut dearer, so that the first number of lifts that does can be searched for.
    const std::vector<ValueId> order = cheapest_to_recompute();
    const auto with_lifted = [&](size_t count) {
      std::vector<bool> banned = banned_;
      for (size_t i = 0; i < count; ++i) banned[order[i]] = false;
      return cut(banned, true);
    };
    size_t too_few = 0, enough = order.size();
    std::vector<bool> found = with_lifted(0);
    if (bytes_of(found) <= limit) return found;
    found = with_lifted(enough);
    while (enough - too_few > 1) {
      const size_t count = too_few + (enough - too_few) / 2;
      std::vector<bool> saved = with_lifted(count);
      if (bytes_of(saved) > limit) {
        too_few = count;
        continue;
      }
      enough = count;
      found = std::move(saved);
    }
    return found;
  }

 private:
  bool runs_forward(NodeId n) const { return joint_.runs_forward[n]; }

  double bytes_of(const std::vector<bool>& saved) const {
    double bytes = 0;
    for (ValueId value = 0; value < num_values_; ++value)
      if (saved[value]) bytes += bytes_to_save(joint_, options_, value);
    return bytes;
  }

  // Values inside of a checkpoint: those that forward reads outside of it may be saved.
  void find_recomputed() {
    must_recompute_.resize(num_values_);
    for (const Node& node : graph_.nodes) {
      if (node.checkpoint == 0 || !is_repeatable(node)) continue;
      for (uint32_t k = 0; k < node.num_outputs; ++k) {
        const ValueId value = node.first_output + k;
        const std::vector<NodeId> readers = joint_.readers_of(value);
        must_recompute_[value] = std::all_of(readers.begin(), readers.end(), [&](NodeId n) {
          return !runs_forward(n) || graph_.nodes[n].checkpoint == node.checkpoint;
        });
      }
    }
    for (const ValueId output : joint_.outputs()) must_recompute_[joint_.root_of(output)] = false;
  }

  // Steps to the nearest node of backward; views are none.
  void find_distances() {
    distance_.assign(num_values_, kMostSteps);
    for (const ValueId gradient : joint_.gradients()) distance_[gradient] = 1;
    for (NodeId n = static_cast<NodeId>(graph_.nodes.size()); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      int steps = 1;
      if (runs_forward(n)) {
        steps = kMostSteps;
        const int own = node.op->kind == Kind::View ? 0 : 1;
        for (uint32_t k = 0; k < node.num_outputs; ++k)
          steps = std::min(steps, distance_[node.first_output + k] + own);
      }
      for (const ValueId value : joint_.reads[n]) distance_[value] = std::min(distance_[value], steps);
    }
  }

  // ---- What is not computed twice

  bool is_fused(NodeId producer, NodeId user) const {
    return is_loop(graph_.nodes[producer]) && is_loop(graph_.nodes[user]);
  }
  // Applies to forward alone: what only backward needs is computed once wherever that is.
  bool may_ban(NodeId n) const { return runs_forward(n) && graph_.nodes[n].op->kind != Kind::View; }
  void ban(NodeId n) {
    const Node& node = graph_.nodes[n];
    for (uint32_t k = 0; k < node.num_outputs; ++k) banned_[node.first_output + k] = true;
  }
  bool is_banned(NodeId n) const { return banned_[graph_.nodes[n].first_output]; }

  void find_bans() {
    banned_.resize(num_values_);
    is_returned_.resize(num_values_);
    for (const ValueId output : joint_.outputs()) is_returned_[joint_.root_of(output)] = true;
    for (NodeId n = 0; n < graph_.nodes.size(); ++n)
      if (may_ban(n) && (!is_loop(graph_.nodes[n]) || graph_.nodes[n].op->fold != nullptr ||
                         backward_stores(n) || is_much_smaller(n)))
        ban(n);
    ban_what_is_used_far_apart();
    ban_long_chains();
    ban_much_work();
  }

  bool backward_stores(NodeId n) const {
    const ValueId value = graph_.nodes[n].first_output;
    for (const ValueId gradient : joint_.gradients())
      if (joint_.root_of(gradient) == value) return true;
    const std::vector<NodeId> readers = joint_.readers_of(value);
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return !runs_forward(reader) && !is_loop(graph_.nodes[reader]);
    });
  }

  bool is_much_smaller(NodeId n) const {
    double read = 0;
    for (const ValueId value : joint_.reads[n]) read = std::max(read, joint_.elements_of(value));
    return read > 0 && read >= kSmaller * joint_.elements_of(graph_.nodes[n].first_output);
  }

  template <class F>
  void for_each_forward_user(NodeId n, const F& f) const {
    const Node& node = graph_.nodes[n];
    for (uint32_t k = 0; k < node.num_outputs; ++k)
      for (const NodeId user : joint_.users[node.first_output + k])
        if (user != kNoNode && runs_forward(user)) f(user);
  }

  // The first node of forward, at most `last`, that what n begins cannot be fused with.
  NodeId first_not_fused(NodeId n, NodeId last) const {
    std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> open;
    std::vector<bool> seen(graph_.nodes.size());
    const auto add = [&](NodeId user) {
      if (!seen[user]) open.push(user);
      seen[user] = true;
    };
    for_each_forward_user(n, add);
    while (!open.empty()) {
      const NodeId next = open.top();
      open.pop();
      NodeId stop = kNoNode;
      for_each_forward_user(next, [&](NodeId user) {
        if (is_fused(next, user)) {
          if (user <= last) add(user);
        } else if (stop == kNoNode) {
          stop = user;
        }
      });
      if (stop != kNoNode) return std::min(stop, last);
    }
    return last;
  }

  void ban_what_is_used_far_apart() {
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      if (!runs_forward(n)) continue;
      NodeId last = 0;
      size_t count = 0;
      for_each_forward_user(n, [&](NodeId user) {
        last = std::max(last, user);
        ++count;
      });
      if (count < 2) continue;
      const NodeId end = first_not_fused(n, last);
      for_each_forward_user(n, [&](NodeId user) {
        if (user > end && is_fused(n, user) && may_ban(user)) ban(user);
      });
    }
  }

  void ban_long_chains() {
    std::vector<bool> seen(graph_.nodes.size());
    for (NodeId start = 0; start < graph_.nodes.size(); ++start) {
      if (!runs_forward(start)) continue;
      std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> open;
      open.push(start);
      while (!open.empty()) {
        const NodeId next = open.top();
        open.pop();
        if (seen[next]) continue;
        seen[next] = true;
        // Where one value carries the whole chain, that is saved.
        if (next > start + kLongChain && open.empty() && may_ban(next)) {
          ban(next);
          break;
        }
        for_each_forward_user(next, [&](NodeId user) {
          if (is_fused(next, user) && !is_banned(user)) open.push(user);
        });
      }
    }
  }

  // What it takes to compute an element from what is saved or given.
  void ban_much_work() {
    std::vector<double> work(num_values_);
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      if (!runs_forward(n) || is_banned(n)) continue;
      double sum = work_per_element(graph_.nodes[n]);
      for (const ValueId value : joint_.reads[n]) sum += work[value];
      if (sum > kMostWork && may_ban(n)) {
        ban(n);
        continue;
      }
      work[graph_.nodes[n].first_output] = sum;
    }
  }

  // ---- The network

  // Whether forward writes it to memory, saved or not.
  bool is_in_memory(ValueId value) const {
    if (joint_.is_input(value) || is_returned_[value] || !is_loop(joint_.node_of(value))) return true;
    const std::vector<NodeId> readers = joint_.readers_of(value);
    return std::any_of(readers.begin(), readers.end(),
                       [&](NodeId n) { return runs_forward(n) && !is_loop(graph_.nodes[n]); });
  }

  int64_t cost_of(ValueId value, bool counts_bytes) const {
    if (must_recompute_[value] || joint_.is_view(value)) return MaxFlow::kUnlimited;
    constexpr double kScale = 16, kMostBytes = 1e11;  // no sum of costs reaches kUnlimited
    double cost = 0;
    const double bytes = std::min(joint_.bytes_of(value), kMostBytes);
    switch (saved_as(joint_, options_, value)) {
      case SavedAs::Itself: break;
      // Where bytes are counted it takes none.
      case SavedAs::Exposed: cost = counts_bytes ? 0 : bytes; break;
      case SavedAs::Memory:
        cost = bytes;
        if (counts_bytes) break;
        cost *= std::pow(kDistanceFactor, std::min(distance_[value], kMostSteps));
        if (!is_in_memory(value)) cost *= 2;
        break;
      case SavedAs::Copy: cost = counts_bytes ? bytes : 3 * bytes; break;
    }
    // One unit for each, so that of equally cheap cuts the one with fewer values is found.
    return static_cast<int64_t>(kScale * cost) + 1;
  }

  std::vector<bool> cut(std::vector<bool> banned, bool counts_bytes) const {
    std::vector<int64_t> costs(num_values_);
    for (ValueId value = 0; value < num_values_; ++value) {
      costs[value] = cost_of(value, counts_bytes);
      if (must_recompute_[value]) banned[value] = false;
    }
    return minimum_cut(joint_, costs, banned);
  }

  // ---- The budget

  double seconds_to_compute(NodeId n) const {
    const Node& node = graph_.nodes[n];
    double bytes = 0, elements = 0, read_elements = 1;
    for (const ValueId value : joint_.reads[n]) {
      bytes += joint_.bytes_of(value);
      elements = std::max(elements, joint_.elements_of(value));
      read_elements *= joint_.elements_of(value);
    }
    double written = 0;
    for (uint32_t k = 0; k < node.num_outputs; ++k) {
      bytes += joint_.bytes_of(node.first_output + k);
      written += joint_.elements_of(node.first_output + k);
    }
    elements = std::max(elements, written);
    double arithmetic = elements * work_per_element(node) / kAdditionsPerSecond;
    // Of two operands of a product, m·k and k·n elements that give m·n, each result takes k steps.
    if (!is_loop(node) && joint_.reads[n].size() >= 2 && written > 0)
      arithmetic = 2 * written * std::sqrt(read_elements / written) / kLibraryFlops;
    return std::max(arithmetic, bytes / kBytesPerSecond);
  }

  // The banned values that can be computed again.
  std::vector<ValueId> cheapest_to_recompute() const {
    struct Candidate {
      ValueId value;
      double seconds_per_byte;
    };
    std::vector<Candidate> candidates;
    for (ValueId value = 0; value < num_values_; ++value) {
      if (!banned_[value] || !is_repeatable(joint_.node_of(value))) continue;
      const double bytes = std::max(1.0, joint_.bytes_of(value));
      candidates.push_back({value, seconds_to_compute(graph_[value].node) / bytes});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.seconds_per_byte < b.seconds_per_byte;
    });
    std::vector<ValueId> order;
    for (const Candidate& candidate : candidates) order.push_back(candidate.value);
    return order;
  }

  const JointGraph& joint_;
  const Graph& graph_;
  const PartitionOptions& options_;
  size_t num_values_;
  std::vector<bool> must_recompute_, banned_, is_returned_;  // by value
  std::vector<int> distance_;                                // likewise
};

// What backward reads, by the memory it is in.
std::vector<bool> all_that_is_read(const JointGraph& joint) {
  std::vector<bool> saved(joint.graph.values.size());
  const auto reach = [&](ValueId value) {
    if (joint.is_forward[value]) saved[joint.root_of(value)] = true;
  };
  for (const ValueId gradient : joint.gradients()) reach(gradient);
  for (NodeId n = 0; n < joint.graph.nodes.size(); ++n)
    if (!joint.runs_forward[n])
      for (const ValueId value : joint.reads[n]) reach(value);
  return saved;
}

}  // namespace

std::vector<bool> minimum_cut(const JointGraph& joint, std::span<const int64_t> costs,
                              const std::vector<bool>& banned) {
  const Graph& graph = joint.graph;
  const auto num_values = static_cast<ValueId>(graph.values.size());
  const auto is_open = [&](ValueId value) { return !joint.depends_on_tangent[value]; };
  constexpr MaxFlow::Vertex kSource = 0, kSink = 1;
  const auto in = [](ValueId value) { return 2 + 2 * value; };
  const auto out = [](ValueId value) { return 3 + 2 * value; };
  MaxFlow network(2 + 2 * size_t{num_values});
  for (ValueId value = 0; value < num_values; ++value) {
    if (!is_open(value)) continue;
    network.add_edge(in(value), out(value), costs[value]);
    if (joint.is_input(value) || banned[value]) {
      network.add_edge(kSource, in(value), MaxFlow::kUnlimited);
      continue;
    }
    for (const ValueId read : joint.reads[graph[value].node])
      network.add_edge(out(read), in(value), MaxFlow::kUnlimited);
  }
  for (NodeId n = 0; n < graph.nodes.size(); ++n)
    if (joint.needs_tangent[n])
      for (const ValueId value : joint.reads[n])
        if (is_open(value)) network.add_edge(out(value), kSink, MaxFlow::kUnlimited);
  for (const ValueId gradient : joint.gradients())
    if (is_open(gradient)) network.add_edge(out(gradient), kSink, MaxFlow::kUnlimited);
  WEFT_ASSERT(network.run(kSource, kSink) < MaxFlow::kUnlimited,
              "partition: nothing that can be saved gives backward what it needs\n", graph);
  const std::vector<bool> on_sink_side = network.sink_side();
  std::vector<bool> saved(num_values);
  for (ValueId value = 0; value < num_values; ++value)
    saved[value] = is_open(value) && on_sink_side[out(value)] && !on_sink_side[in(value)];
  return saved;
}

SavedAs saved_as(const JointGraph& joint, const PartitionOptions& options, ValueId value) {
  const auto at = [](const std::vector<SavedAs>& list, size_t i) {
    return i < list.size() ? list[i] : SavedAs::Itself;
  };
  if (joint.is_input(value)) return at(options.primals, joint.graph[value].index);
  // The dearest of the outputs in its memory.
  std::optional<SavedAs> found;
  for (size_t i = 0; i < joint.num_outputs; ++i)
    if (joint.root_of(joint.outputs()[i]) == value)
      found = std::max(found.value_or(SavedAs::Itself), at(options.outputs, i));
  return found.value_or(SavedAs::Memory);
}

double bytes_to_save(const JointGraph& joint, const PartitionOptions& options, ValueId value) {
  const SavedAs as = saved_as(joint, options, value);
  return as == SavedAs::Memory || as == SavedAs::Copy ? joint.bytes_of(value) : 0;
}

std::vector<bool> saved_values(const JointGraph& joint, const PartitionOptions& options) {
  if (!options.recompute) return all_that_is_read(joint);
  return Chooser(joint, options).choose();
}

}  // namespace weft::compiler
