// Which values of a graph are computed as a whole, and how folds become loops.
// Place: the out-of-line half of compiler/loops/units.h.
#include "compiler/loops/units.h"

#include <algorithm>

namespace weft::compiler {
namespace {

// Note [What is computed where it is read]
// A pointwise value (and whatever else loops can compute) is no unit if nobody needs it in memory and either one reader has
// it, or it is so little work that each reader may do it again. It becomes a unit, which one kernel computes and others
// read, where it has several readers, where its one reader would do it for many elements, and where expressions would grow
// without bound.
// Of small values even much work is done again: a kernel of their own takes longer to call. Such a value that must be in
// memory is a unit which no other loop waits for, so that small loops which share it can be one kernel.
constexpr double kCheapCost = 3;  // for several readers: a cast, a product with a number
constexpr int kCheapLoads = 1;
constexpr double kSpreadCost = 4;  // for one reader that has more elements
constexpr double kLargestCost = 400;
constexpr int kLargestLoads = 12;
constexpr double kKernelCost = 4000;  // primitives in the time that it takes to call a kernel: 100 ns

struct Work {
  double cost = 0;
  int loads = 0;
};

class Units {
 public:
  explicit Units(Lowering& lowering)
      : lowering_(lowering), graph_(lowering.graph), work_(graph_.values.size()) {}

  ChosenUnits choose() {
    find_stored();
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) choose(n);
    return std::move(chosen_);
  }

 private:
  ValueId base_of_views(ValueId value) const {
    while (graph_[value].node != kNoNode && graph_.nodes[graph_[value].node].op->kind == Kind::View)
      value = graph_.nodes[graph_[value].node].operands[0].value;
    return value;
  }

  void find_stored() {
    chosen_.stored.resize(graph_.values.size());
    const auto store = [&](ValueId value) {
      if (value != kNoValue) chosen_.stored[base_of_views(value)] = true;
    };
    for (const ValueId output : graph_.outputs) store(output);
    for (const ValueId item : graph_.items) store(item);
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (is_loop(n)) continue;
      for (const ValueId value : values_read_by(graph_, node)) store(value);
    }
  }

  // The fold that a node is, where loops can do it.
  std::optional<FoldRule> fold_of(NodeId n) {
    const Node& node = graph_.nodes[n];
    if (node.op->fold == nullptr || node.num_outputs != 1) return std::nullopt;
    std::optional<FoldRule> rule =
        node.op->fold(Call{*node.op, lowering_.hollow.operands(node), node.attrs, node.where});
    if (!rule || !fits(*rule, lowering_.values[node.operands[0].value].sizes)) return std::nullopt;
    return rule;
  }
  // Eager folds drop dimensions of size 1, which decides the order of the fold: whether there are any must be known.
  bool fits(const FoldRule& rule, const Sizes& sizes) {
    for (size_t d = sizes.size(); d-- > 0;) {
      const Interval range = lowering_.syms().range(sizes[d]);
      if (rule.needs_elements && rule.folded[d] && range.min < 1) return false;
      if (range.min != range.max && range.min <= 1) return false;
    }
    return true;
  }

  bool is_loop(NodeId n) {
    return graph_.nodes[n].op->fold != nullptr ? fold_of(n).has_value() : lowering_.is_inlinable(n);
  }

  void choose(NodeId n) {
    const Node& node = graph_.nodes[n];
    if (node.op->kind == Kind::View && lowering_.is_inlinable(n)) {
      work_[node.first_output] = work_[node.operands[0].value];
      return;
    }
    if (const auto rule = fold_of(n)) {
      add_folds(n, *rule);
      return;
    }
    if (!lowering_.is_inlinable(n)) {
      chosen_.externs.push_back(n);
      for (uint32_t k = 0; k < node.num_outputs; ++k) lowering_.in_memory[node.first_output + k] = true;
      return;
    }
    const ValueId value = node.first_output;
    Work work{lowering_.own_cost(n), 0};
    for (const Argument& argument : node.operands) {
      if (!argument.is_value()) continue;
      const ValueId root = lowering_.root_of(argument.value);
      const bool is_read =
          lowering_.in_memory[root] || (lowering_.unit_of[root] != kNoUnit && !lowering_.is_recomputed(root));
      work.cost += is_read ? 0 : work_[argument.value].cost;
      work.loads += is_read ? 1 : work_[argument.value].loads;
    }
    work_[value] = work;
    const bool is_recomputed = is_small(value, work);
    if (!chosen_.stored[value] && (is_recomputed || !is_worth_a_unit(value, work))) return;
    Unit unit;
    unit.value = value;
    unit.node = n;
    unit.is_recomputed = is_recomputed;
    add(std::move(unit));
  }

  // Every reader computes it in less time than calling a kernel takes.
  bool is_small(ValueId value, const Work& work) {
    if (work.cost > kLargestCost / 4 || work.loads > kLargestLoads) return false;
    const double cost = std::max(work.cost, 1.0);
    if (count_hint(value) * cost > kKernelCost) return false;
    const std::vector<ValueId> readers = readers_of(value);
    return std::all_of(readers.begin(), readers.end(),
                       [&](ValueId reader) { return count_hint(reader) * cost <= kKernelCost; });
  }

  bool is_worth_a_unit(ValueId value, const Work& work) {
    const std::vector<ValueId> readers = readers_of(value);
    if (work.cost > kLargestCost || work.loads > kLargestLoads) return true;
    if (readers.size() > 1) return work.cost > kCheapCost || work.loads > kCheapLoads;
    if (readers.size() == 1 && work.cost > kSpreadCost) return count_hint(readers[0]) > 2 * count_hint(value);
    return false;
  }

  double count_hint(ValueId value) {
    double count = 1;
    const NodeId node = lowering_.values[value].node;
    // A fold works on the elements of its operand.
    if (node != kNoNode && graph_.nodes[node].op->fold != nullptr)
      value = graph_.nodes[node].operands[0].value;
    for (const Sym size : lowering_.values[value].sizes) count *= static_cast<double>(hint_of(size));
    return count;
  }

  // The nodes that read a value through any views, by their result.
  const std::vector<std::vector<NodeId>>& users() {
    if (users_.empty()) users_ = users_of(graph_);
    return users_;
  }
  std::vector<ValueId> readers_of(ValueId value) {
    std::vector<ValueId> readers, open = {value};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      for (const NodeId user : users()[next]) {
        // What is printed is read from memory, and gives nothing.
        if (user == kNoNode || graph_.nodes[user].num_outputs == 0) continue;
        const ValueId result = graph_.nodes[user].first_output;
        if (graph_.nodes[user].op->kind == Kind::View) open.push_back(result);
        else if (std::find(readers.begin(), readers.end(), result) == readers.end())
          readers.push_back(result);
      }
    }
    return readers;
  }

  void add(Unit unit) {
    lowering_.unit_of[unit.value] = static_cast<uint32_t>(lowering_.units.size());
    lowering_.units.push_back(std::move(unit));
  }

  // Note [Folds in two steps]
  // Eager folds the innermost run of folded dimensions by the inner tree, and what comes of it by the outer one
  // (tensor/cpu/reduce.h). A fold that has both becomes two units with a partial result between them.
  void add_folds(NodeId n, const FoldRule& rule) {
    using Role = Unit::Role;
    const Node& node = graph_.nodes[n];
    const ValueId source = node.operands[0].value, value = node.first_output;
    const Value& x = lowering_.values[source];
    const Sizes sizes = x.sizes;
    const size_t rank = sizes.size();
    const auto is_dropped = [&](size_t d) { return is_one(sizes[d]); };
    Unit unit;
    unit.value = value;
    unit.node = n;
    unit.is_fold = true;
    unit.source = source;
    unit.fold = rule.fold;
    unit.compute = rule.compute;
    unit.via = rule.via;
    unit.folded.assign(rule.folded.begin(), rule.folded.end());
    unit.keeps_dims = rank > 0 && lowering_.values[value].sizes.size() == rank;
    size_t inner = rank;
    while (inner > 0 && is_dropped(inner - 1)) --inner;
    const bool folds_inner = inner > 0 && rule.folded[inner - 1];
    size_t first = inner;  // of the innermost run
    while (first > 0 && (is_dropped(first - 1) || rule.folded[first - 1] == folds_inner)) --first;
    bool folds_outer = false;
    for (size_t d = 0; d < first; ++d) folds_outer = folds_outer || (rule.folded[d] && !is_dropped(d));

    if (inner == 0 || (folds_inner && !folds_outer)) {
      set_roles(unit, sizes,
                [&](size_t d) { return rule.folded[d] && d >= first ? Role::Column : Role::Row; });
      unit.axis = BodyFold::Axis::Columns;
      add(std::move(unit));
      return;
    }
    if (folds_inner) {
      Unit runs = unit;
      Value partial;
      partial.dtype = rule.compute;
      partial.device = x.device;
      partial.node = n;
      runs.folded.assign(rank, false);
      runs.keeps_dims = false;
      for (size_t d = 0; d < rank; ++d) {
        runs.folded[d] = d >= first && rule.folded[d];
        if (!runs.folded[d]) partial.sizes.push_back(sizes[d]);
      }
      partial.strides = contiguous_strides<Sym>(partial.sizes);
      set_roles(runs, sizes, [&](size_t d) { return d >= first ? Role::Column : Role::Row; });
      runs.axis = BodyFold::Axis::Columns;
      runs.value = lowering_.add_partial(partial);
      work_.emplace_back();
      const ValueId between = runs.value;
      add(std::move(runs));
      add_outer(std::move(unit), between, partial.sizes, rule.folded, first);
      return;
    }
    add_outer(std::move(unit), source, sizes, rule.folded, rank);
  }

  // The outer tree over the folded dimensions among the first `end` of the original ones.
  void add_outer(Unit unit, ValueId source, const Sizes& sizes,
                 const SmallVector<bool, 2 * kInlineRank>& folded, size_t end) {
    using Role = Unit::Role;
    unit.source = source;
    unit.folded.clear();
    for (size_t d = 0; d < sizes.size(); ++d) unit.folded.push_back(d < end && folded[d]);
    if (source >= graph_.values.size()) unit.via = std::nullopt;
    // With keepdim a partial result has lost the inner dimensions; the result's element is at 0 there.
    if (unit.keeps_dims && source >= graph_.values.size())
      unit.num_trailing_ones = folded.size() - sizes.size();
    size_t last_folded = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (unit.folded[d]) last_folded = d;
    set_roles(unit, sizes, [&](size_t d) {
      return unit.folded[d] ? Role::Row : d > last_folded ? Role::Column : Role::Batch;
    });
    unit.axis = BodyFold::Axis::Rows;
    add(std::move(unit));
  }

  template <class F>
  void set_roles(Unit& unit, const Sizes& sizes, const F& role_of) {
    using Role = Unit::Role;
    unit.roles.clear();
    unit.batches = unit.rows = unit.columns = Sym::from_int(1);
    for (size_t d = 0; d < sizes.size(); ++d) {
      Role role = role_of(d);
      if (is_one(sizes[d])) role = Role::None;
      unit.roles.push_back(role);
      Sym& loop = role == Role::Batch ? unit.batches : role == Role::Row ? unit.rows : unit.columns;
      if (role != Role::None) loop = loop * sizes[d];
    }
  }

  Lowering& lowering_;
  const Graph& graph_;
  ChosenUnits chosen_;
  std::vector<Work> work_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace

ChosenUnits choose_units(Lowering& lowering) { return Units(lowering).choose(); }

}  // namespace weft::compiler
