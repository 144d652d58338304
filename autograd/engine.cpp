// One walk: how many gradients each step waits for, the steps in order, and what reaches them.
#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/grad_mode.h"
#include "tensor/dispatch.h"
#include "tensor/quiet_handles.h"

namespace weft::autograd {
namespace {

// From nodes to small numbers, in the order in which they were met. Open addressing: a walk asks once per edge.
class NodeIndex {
 public:
  NodeIndex() : slots_(64) {}

  struct Answer {
    uint32_t index;
    bool is_new;
  };
  Answer insert(Node* node) {
    if ((nodes_.size() + 1) * 2 > slots_.size()) grow();
    const size_t at = find_slot(node);
    if (slots_[at].node != nullptr) return {slots_[at].index, false};
    slots_[at] = {node, static_cast<uint32_t>(nodes_.size())};
    nodes_.push_back(node);
    return {slots_[at].index, true};
  }
  // The node must be there.
  uint32_t at(Node* node) const { return slots_[find_slot(node)].index; }
  // Its number, or -1.
  int64_t find(Node* node) const {
    const auto& slot = slots_[find_slot(node)];
    return slot.node == nullptr ? -1 : static_cast<int64_t>(slot.index);
  }
  const std::vector<Node*>& nodes() const { return nodes_; }

 private:
  struct Slot {
    Node* node = nullptr;
    uint32_t index = 0;
  };
  size_t find_slot(Node* node) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15u >> 32 & mask;
    while (slots_[at].node != nullptr && slots_[at].node != node) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.node != nullptr) slots_[find_slot(slot.node)] = slot;
  }

  std::vector<Slot> slots_;
  std::vector<Node*> nodes_;
};

// What has reached a step so far.
struct Pending {
  int waits_for = 0;  // edges that have not delivered
  bool runs = true;   // leads to a target, or there are none
  SmallVector<Tensor, 1> grads;
  uint64_t is_sum = 0;  // bit: the engine made this gradient by adding, so that it may add in place
};

void add_to(Pending& pending, uint32_t slot, Tensor gradient, SourceLocation where) {
  if (pending.grads.size() <= slot) pending.grads.resize(slot + 1);
  Tensor& sum = pending.grads[slot];
  const uint64_t bit = slot < 64 ? uint64_t{1} << slot : 0;
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if ((pending.is_sum & bit) != 0 && !grad_mode_enabled() && current_trace() == nullptr) {
    sum.add_(gradient, 1, where);
  } else {
    sum = add(sum, gradient, 1, where);
    pending.is_sum |= bit;
  }
}

class Walk {
 public:
  Walk(std::span<Root> roots, std::span<Target> targets, const WalkOptions& options)
      : targets_(targets), options_(options), mode_(options.create_graph) {
    discover(roots);
    if (!targets.empty()) mark_leading_to_targets();
    for (Root& root : roots) {
      Pending& pending = pending_[index_.at(root.edge.node.get())];
      if (options_.keeps_parts) keep_part(root.edge, root.gradient);
      add_to(pending, root.edge.slot, std::move(root.gradient), root.edge.node->where);
    }
    for (const Root& root : roots) {
      Pending& pending = pending_[index_.at(root.edge.node.get())];
      if (pending.waits_for != 0) continue;
      pending.waits_for = -1;  // several roots may share a node
      ready_.push(root.edge.node.get());
    }
  }

  void run() {
    const Within within(this);
    while (!ready_.empty()) {
      Node* node = ready_.top();
      ready_.pop();
      run_node(*node);
    }
  }

  static bool is_untouched(const Edge& edge) {
    const Walk* const walk = current();
    if (walk == nullptr || walk->options_.keeps_parts) return false;
    const int64_t at = walk->index_.find(edge.node.get());
    if (at < 0) return false;
    const SmallVector<Tensor, 1>& grads = walk->pending_[static_cast<size_t>(at)].grads;
    return edge.slot >= grads.size() || !grads[edge.slot].defined();
  }

 private:
  // The innermost walk of the thread.
  static Walk*& current() {
    thread_local Walk* walk = nullptr;
    return walk;
  }
  struct Within {
    explicit Within(Walk* walk) : outer(std::exchange(current(), walk)) {}
    ~Within() { current() = outer; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    Walk* outer;
  };
  struct Earlier {
    bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
  };

  void discover(std::span<Root> roots) {
    for (const Root& root : roots) index_.insert(root.edge.node.get());
    // The list of nodes grows while it is read: every node is visited once, without recursion.
    for (size_t i = 0; i < index_.nodes().size(); ++i) {
      pending_.resize(index_.nodes().size());
      Node& node = *index_.nodes()[i];
      if (node.lacks_edges.load(std::memory_order_acquire)) node.add_edges();
      for (const Edge& edge : node.edges) {
        if (!edge) continue;
        const uint32_t next = index_.insert(edge.node.get()).index;
        if (next >= pending_.size()) pending_.resize(next + 1);
        ++pending_[next].waits_for;
      }
    }
    pending_.resize(index_.nodes().size());
  }

  // In an order in which every node comes before those that its edges lead to; read backwards, a node runs if it is a
  // target or leads to a node that runs.
  void mark_leading_to_targets() {
    const std::vector<Node*>& nodes = index_.nodes();
    std::vector<uint32_t> order;
    std::vector<int> waits(nodes.size());
    order.reserve(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      waits[i] = pending_[i].waits_for;
      if (waits[i] == 0) order.push_back(static_cast<uint32_t>(i));
    }
    for (size_t k = 0; k < order.size(); ++k) {
      for (const Edge& edge : nodes[order[k]]->edges) {
        if (!edge) continue;
        const uint32_t next = index_.at(edge.node.get());
        if (--waits[next] == 0) order.push_back(next);
      }
    }
    is_reached_.assign(nodes.size(), false);
    is_target_.assign(nodes.size(), false);
    for (Pending& pending : pending_) pending.runs = false;
    for (const Target& target : targets_) {
      const int64_t at = index_.find(target.edge.node.get());
      if (at < 0) continue;
      is_target_[static_cast<size_t>(at)] = is_reached_[static_cast<size_t>(at)] = true;
      if (target.edge.node->cell() != nullptr) pending_[static_cast<size_t>(at)].runs = options_.accumulate;
    }
    for (size_t k = order.size(); k-- > 0;) {
      const uint32_t i = order[k];
      for (const Edge& edge : nodes[i]->edges) {
        if (!edge || !is_reached_[index_.at(edge.node.get())]) continue;
        is_reached_[i] = true;
        pending_[i].runs = true;
      }
    }
  }

  void keep_part(const Edge& edge, const Tensor& gradient) {
    for (Target& target : targets_)
      if (target.edge.node == edge.node && target.edge.slot == edge.slot) target.parts.push_back(gradient);
  }

  static Tensor call_hook(const Hook& hook, const Tensor& gradient) {
    const QuietHandles heard(false);
    return hook(gradient);
  }

  void run_hooks(Node& node, std::span<Tensor> grads) {
    const auto at = [&](uint32_t slot) { return slot < grads.size() && grads[slot].defined(); };
    // By index: a hook may add or remove hooks.
    for (size_t i = 0; i < node.hooks->entries.size(); ++i) {
      const uint32_t slot = node.hooks->entries[i].slot;
      if (!at(slot)) continue;
      const Hook hook = node.hooks->entries[i].hook;
      Tensor replaced = call_hook(hook, grads[slot]);
      if (replaced.defined()) grads[slot] = fit(std::move(replaced), node.results[slot], node);
    }
    for (const Hooks::Retain& retain : node.hooks->retains)
      if (at(retain.slot)) retain.cell->add(grads[retain.slot], false);
  }

  void run_node(Node& node) {
    const uint32_t index = index_.at(&node);
    SmallVector<Tensor, 1> grads = std::move(pending_[index].grads);
    if (grads.size() < node.results.size()) grads.resize(node.results.size());
    if (node.hooks != nullptr) run_hooks(node, {grads.data(), grads.size()});
    if (!is_target_.empty() && is_target_[index]) {
      for (Target& target : targets_)
        if (target.edge.node.get() == &node && target.edge.slot < grads.size())
          target.gradient = grads[target.edge.slot];
    }
    const bool runs = pending_[index].runs;
    SmallVector<Tensor, 3> results(node.edges.size());
    const bool any = std::any_of(grads.begin(), grads.end(), [](const Tensor& x) { return x.defined(); });
    if (runs && any) {
      SmallVector<bool, 3> wanted(node.edges.size(), false);
      for (size_t i = 0; i < node.edges.size(); ++i)
        wanted[i] =
            node.edges[i] && (is_reached_.empty() || is_reached_[index_.at(node.edges[i].node.get())]);
      Step step{
          {grads.data(), grads.size()}, {results.data(), results.size()}, {wanted.data(), wanted.size()}};
      node.apply(step);
      if (AnomalyMode::is_enabled()) check_finite(node, step);
      if (!options_.retain_graph) node.release();
    }
    grads.clear();
    for (size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!edge) continue;
      const uint32_t next = index_.at(edge.node.get());
      if (results[i].defined() && (is_reached_.empty() || is_reached_[next])) {
        Tensor gradient = std::move(results[i]);
        const Meta& meta = edge.node->results[edge.slot];
        if (!meta.fits(gradient)) gradient = fit(std::move(gradient), meta, node);
        if (options_.keeps_parts && is_target_[next]) keep_part(edge, gradient);
        add_to(pending_[next], edge.slot, std::move(gradient), node.where);
      }
      if (--pending_[next].waits_for == 0) {
        pending_[next].waits_for = -1;
        if (is_reached_.empty() || is_reached_[next]) ready_.push(edge.node.get());
      }
    }
  }

  std::span<Target> targets_;
  const WalkOptions& options_;
  AutoGradMode mode_;
  NodeIndex index_;
  std::vector<Pending> pending_;              // by number
  std::vector<bool> is_reached_, is_target_;  // by number; empty without targets
  std::priority_queue<Node*, std::vector<Node*>, Earlier> ready_;
};

}  // namespace

Tensor fit(Tensor gradient, const Meta& meta, const Node& from) {
  if (gradient.sizes() != SizesView(meta.sizes)) {
    const size_t rank = meta.sizes.size();
    const size_t extra =
        static_cast<size_t>(gradient.dim()) - std::min<size_t>(rank, static_cast<size_t>(gradient.dim()));
    bool is_broadcast = static_cast<size_t>(gradient.dim()) >= rank;
    DimList dims;
    for (size_t d = 0; d < extra; ++d) dims.push_back(static_cast<int64_t>(d));
    for (size_t d = 0; is_broadcast && d < rank; ++d) {
      const Sym have = gradient.sizes()[d + extra];
      if (have == meta.sizes[d]) continue;
      is_broadcast = meta.sizes[d] == 1;
      dims.push_back(static_cast<int64_t>(d + extra));
    }
    WEFT_CHECK(is_broadcast, "backward: ", describe(from), " gave a gradient of sizes ", gradient.sizes(),
               " for a tensor of sizes ", meta.sizes, "; a gradient has the sizes of its tensor");
    const bool keepdim = extra == 0;
    gradient = sum(gradient, dims, keepdim, {}, from.where);
    if (!keepdim && gradient.sizes() != SizesView(meta.sizes))
      gradient = view(gradient, meta.sizes, from.where);
  }
  if (gradient->dtype != meta.dtype) gradient = gradient.to(meta.dtype, false, false, from.where);
  return gradient;
}

void walk(std::span<Root> roots, std::span<Target> targets, const WalkOptions& options) {
  const QuietHandles quiet;
  Walk(roots, targets, options).run();
}

bool is_untouched(const Edge& edge) { return Walk::is_untouched(edge); }

}  // namespace weft::autograd
