// Fusing the units of a graph into kernels.
// Place: the out-of-line half of compiler/loops/schedule.h.
#include "compiler/loops/schedule.h"

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "compiler/loops/body_builder.h"
#include "compiler/loops/index_expr.h"
#include "compiler/loops/overwrite.h"
#include "compiler/loops/units.h"

namespace weft::compiler {

namespace {

// How an index moves as a loop symbol grows by one; nothing where it is not affine in it, or computed.
std::optional<Sym> stride_along(SymTable& table, const LoopBody& body, Sym index, Sym symbol) {
  if (!index.is_symbolic()) return Sym::from_int(0);
  const std::vector<uint32_t> symbols = table.symbols_of(index);
  for (const Indirect& indirect : body.indirects)
    if (std::binary_search(symbols.begin(), symbols.end(), *table.as_symbol(indirect.symbol)))
      return std::nullopt;
  if (!std::binary_search(symbols.begin(), symbols.end(), *table.as_symbol(symbol))) return Sym::from_int(0);
  const Sym step = substitute(table, index, symbol, symbol + 1) - index;
  if (!step.is_symbolic()) return step;
  const std::vector<uint32_t> left = table.symbols_of(step);
  if (std::binary_search(left.begin(), left.end(), *table.as_symbol(symbol))) return std::nullopt;
  return step;
}

class Fuser {
 public:
  Fuser(Lowering& lowering, const ChosenUnits& units, const ScheduleOptions& options)
      : lowering_(lowering), graph_(lowering.graph), chosen_(units), options_(options) {
    // Tasks in the order of their nodes: units, and extern nodes.
    size_t next = 0;
    for (uint32_t u = 0; u < lowering.units.size(); ++u) {
      while (next < units.externs.size() && units.externs[next] < lowering.units[u].node)
        add_task(kNoUnit, units.externs[next++]);
      add_task(u, lowering.units[u].node);
    }
    while (next < units.externs.size()) add_task(kNoUnit, units.externs[next++]);
  }

  Schedule run() {
    wait_for_readers();
    group_all();
    gather_updates();
    return emit();
  }

 private:
  struct Task {
    uint32_t unit = kNoUnit;
    NodeId node = kNoNode;
    std::vector<ValueId> reads, recomputed;
    std::vector<uint32_t> needs, users;  // tasks
    uint32_t group = 0;
  };
  struct Group {
    std::vector<uint32_t> tasks;  // in order
    GroupLoops loops;
    bool is_extern = false;
    bool is_update = false;  // Note [One kernel for all updates]
  };

  void add_task(uint32_t unit, NodeId node) {
    Task task;
    task.unit = unit;
    task.node = node;
    const auto id = static_cast<uint32_t>(tasks_.size());
    task.reads = unit == kNoUnit ? reads_of(lowering_, node)
                                 : reads_of(lowering_, lowering_.units[unit], task.recomputed);
    for (const ValueId value : task.reads) {
      const auto made = maker_.find(value);
      if (made == maker_.end()) continue;  // an input
      task.needs.push_back(made->second);
      tasks_[made->second].users.push_back(id);
    }
    if (unit == kNoUnit) {
      const Node& n = graph_.nodes[node];
      // What is printed, or told to the host, comes in the order in which it was written.
      if (n.op->has_effect) {
        if (effect_) {
          task.needs.push_back(*effect_);
          tasks_[*effect_].users.push_back(id);
        }
        effect_ = id;
      }
      for (uint32_t k = 0; k < n.num_outputs; ++k) maker_[n.first_output + k] = id;
    } else {
      maker_[lowering_.units[unit].value] = id;
    }
    for (const ValueId value : task.reads) readers_[value].push_back(id);
    task.group = id;
    Group group;
    group.tasks = {id};
    group.is_extern = unit == kNoUnit;
    groups_.push_back(std::move(group));
    tasks_.push_back(std::move(task));
  }

  // What replaces an input waits for everybody who reads the input.
  void wait_for_readers() {
    for (const auto& [output, input] : graph_.overwrites) {
      const auto made = maker_.find(graph_.outputs[output]);
      const auto readers = readers_.find(graph_.inputs[input]);
      if (made == maker_.end() || readers == readers_.end()) continue;
      const uint32_t task = made->second;
      for (const uint32_t reader : readers->second) {
        // Who comes later may need what is made.
        if (reader >= task) continue;
        tasks_[task].needs.push_back(reader);
        tasks_[reader].users.push_back(task);
      }
    }
  }

  // ---- Grouping

  void group_all() {
    for (uint32_t t = 0; t < tasks_.size(); ++t) {
      newest_ = t;
      if (tasks_[t].unit == kNoUnit) continue;
      Group& own = groups_[t];
      const auto loops = choose_loops(own.tasks);
      WEFT_ASSERT(loops, "an op alone does not fit into loops");
      own.loops = *loops;
      if (!options_.fuse) continue;
      while (try_merge(tasks_[t].group)) {
      }
    }
  }

  // Merges the group with one that it shares data with: the one with most to save.
  bool try_merge(uint32_t group) {
    struct Candidate {
      uint32_t group;
      double bytes;
      bool is_producer = false;
    };
    std::vector<Candidate> candidates;
    const auto offer = [&](uint32_t other, double bytes, bool is_producer) {
      if (other == group || groups_[other].is_extern || groups_[other].tasks.empty()) return;
      for (Candidate& known : candidates) {
        if (known.group != other) continue;
        known.bytes += bytes;
        known.is_producer = known.is_producer || is_producer;
        return;
      }
      candidates.push_back({other, bytes, is_producer});
    };
    for (const uint32_t task : groups_[group].tasks) {
      // Who computes a value in its own loops as well has it from there.
      for (const ValueId value : tasks_[task].recomputed)
        offer(tasks_[maker_.at(value)].group, 2 * bytes_hint(value), true);
      for (const ValueId value : tasks_[task].reads) {
        const double bytes = bytes_hint(value);
        if (const auto made = maker_.find(value); made != maker_.end())
          offer(tasks_[made->second].group, 2 * bytes, true);
        // Others that read the same; of many, the nearest.
        const std::vector<uint32_t>& readers = readers_[value];
        constexpr size_t kNearest = 16;
        const auto at = std::lower_bound(readers.begin(), readers.end(), task);
        const auto begin = at - std::min<ptrdiff_t>(at - readers.begin(), kNearest);
        for (auto reader = begin; reader != at; ++reader) offer(tasks_[*reader].group, bytes, false);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bytes > b.bytes; });
    for (const Candidate& candidate : candidates)
      if (merge(candidate.group, group, candidate.is_producer, candidate.bytes)) return true;
    return false;
  }

  bool merge(uint32_t a, uint32_t b, bool is_producer, double bytes) {
    const uint64_t key = pair_key(a, b);
    if (refused_.contains(key)) return false;
    refused_.insert(key);
    std::vector<uint32_t> both;
    std::merge(groups_[a].tasks.begin(), groups_[a].tasks.end(), groups_[b].tasks.begin(),
               groups_[b].tasks.end(), std::back_inserter(both));
    const auto refuse = [&](std::string reason) {
      refusals_.push_back(
          {tasks_[groups_[a].tasks.back()].node, tasks_[groups_[b].tasks.front()].node, std::move(reason)});
      return false;
    };
    if (device_of(groups_[a]) != device_of(groups_[b])) return refuse("they are on different devices");
    if (both.size() > options_.max_units) return refuse("the kernel would have too many results");
    // To share a small operand alone saves nothing; a producer's result need not go through memory.
    double largest = 0;
    for (const uint32_t task : both) largest = std::max(largest, elements_hint(task) * 4);
    if (!is_producer && bytes * 8 < largest) return refuse("what they share is small");
    if (has_path(a, b) || has_path(b, a)) return refuse("another op stands between them");
    std::optional<GroupLoops> loops;
    try {
      loops = choose_loops(both);
      if (!loops) return refuse("their loops differ");
      const BuiltBody built = build(both, *loops);
      if (built.buffers.size() > options_.max_buffers)
        return refuse("the kernel would touch too many buffers");
    } catch (const Refused& refused) {
      return refuse(refused.reason);
    }
    for (const uint32_t task : both) tasks_[task].group = b;
    groups_[b].tasks = std::move(both);
    groups_[b].loops = std::move(*loops);
    groups_[a].tasks.clear();
    return true;
  }
  Device device_of(const Group& group) const {
    return lowering_.values[lowering_.units[tasks_[group.tasks[0]].unit].value].device;
  }
  static uint64_t pair_key(uint32_t a, uint32_t b) { return uint64_t{std::min(a, b)} << 32 | std::max(a, b); }

  // Whether something outside both must run between a and b.
  bool has_path(uint32_t a, uint32_t b) {
    std::vector<bool> seen(groups_.size());
    std::vector<uint32_t> open;
    const auto step = [&](uint32_t from) {
      for (const uint32_t task : groups_[from].tasks) {
        for (const uint32_t user : tasks_[task].users) {
          // What has not been looked at stands alone, and nothing before it needs it.
          if (user > newest_) continue;
          const uint32_t next = tasks_[user].group;
          if (next == from || seen[next] || next == a) continue;
          if (next == b) {
            if (from != a) return true;
            continue;
          }
          seen[next] = true;
          open.push_back(next);
        }
      }
      return false;
    };
    if (step(a)) return true;
    while (!open.empty()) {
      const uint32_t from = open.back();
      open.pop_back();
      if (step(from)) return true;
    }
    return false;
  }

  // Note [One kernel for all updates]
  // Loops that only replace inputs, such as parameters and the state of an optimizer, are one kernel, whatever their
  // sizes: nothing waits for them, and threads share each loop without meeting in between. What a kernel of folds replaces
  // after its rows, a bias by the sum of its gradient say, goes with them: that takes a write and a read of what was
  // folded, which is little beside the fold.
  static constexpr size_t kMostUpdates =
      128;  // parameters of a launch are 32 KB on a GPU, and each takes some 200 B
  void gather_updates() {
    if (!options_.fuse) return;
    replaces_input_.assign(lowering_.values.size(), false);
    for (const auto& [output, input] : graph_.overwrites) replaces_input_[graph_.outputs[output]] = true;
    std::vector<uint32_t> mixed;
    size_t count = 0;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].is_extern || groups_[g].tasks.empty()) continue;
      const std::vector<uint32_t> updates = updates_of(g);
      groups_[g].is_update = updates.size() == groups_[g].tasks.size();
      count += groups_[g].is_update;
      if (!groups_[g].is_update && !updates.empty()) mixed.push_back(g);
    }
    for (const uint32_t g : mixed) {
      if (count == 0) return;  // nobody to go with
      const std::vector<uint32_t> updates = updates_of(g);
      const auto loops = choose_loops(updates);
      if (!is_little_beside_folds(g, updates) || !loops) continue;
      std::erase_if(groups_[g].tasks, [&](uint32_t task) {
        return std::find(updates.begin(), updates.end(), task) != updates.end();
      });
      for (const uint32_t task : updates) tasks_[task].group = static_cast<uint32_t>(groups_.size());
      groups_.push_back({updates, *loops, false, true});
    }
  }
  // The pointwise tasks of a group that replace inputs, and those that only they read.
  std::vector<uint32_t> updates_of(uint32_t group) const {
    std::vector<uint32_t> updates;
    const auto is_update = [&](uint32_t task) {
      return std::find(updates.begin(), updates.end(), task) != updates.end();
    };
    const std::vector<uint32_t>& tasks = groups_[group].tasks;
    for (size_t k = tasks.size(); k-- > 0;) {
      const Task& task = tasks_[tasks[k]];
      const Unit& unit = lowering_.units[task.unit];
      const bool is_read_by_updates = std::all_of(task.users.begin(), task.users.end(), [&](uint32_t user) {
        return is_update(user) || tasks_[user].group != group;
      });
      const bool is_inner = !task.users.empty() && !chosen_.stored[unit.value] &&
                            std::all_of(task.users.begin(), task.users.end(), is_update);
      if (!unit.is_fold && is_read_by_updates && (replaces_input_[unit.value] || is_inner))
        updates.insert(updates.begin(), tasks[k]);
    }
    return updates;
  }
  bool is_little_beside_folds(uint32_t group, const std::vector<uint32_t>& updates) const {
    constexpr double kLittle = 16;
    double folded = 0, updated = 0;
    for (const uint32_t task : groups_[group].tasks)
      if (lowering_.units[tasks_[task].unit].is_fold) folded = std::max(folded, elements_hint(task));
    for (const uint32_t task : updates) updated = std::max(updated, elements_hint(task));
    return updated * kLittle <= folded;
  }

  double bytes_hint(ValueId value) const {
    double bytes = static_cast<double>(size_of(lowering_.values[value].dtype));
    for (const Sym size : lowering_.values[value].sizes) bytes *= static_cast<double>(hint_of(size));
    return bytes;
  }
  double elements_hint(uint32_t task) const {
    if (tasks_[task].unit == kNoUnit) return 0;
    const Unit& unit = lowering_.units[tasks_[task].unit];
    double count = 1;
    for (const Sym size : lowering_.values[unit.is_fold ? unit.source : unit.value].sizes)
      count *= static_cast<double>(hint_of(size));
    return count;
  }

  // ---- Loops of a group

  std::vector<uint32_t> units_of(const std::vector<uint32_t>& tasks) const {
    std::vector<uint32_t> units;
    for (const uint32_t task : tasks) units.push_back(tasks_[task].unit);
    return units;
  }
  BuiltBody build(const std::vector<uint32_t>& tasks, const GroupLoops& loops) {
    // Everything that more than this group might read: what is not stored in the end costs a trial nothing.
    const std::vector<bool> all(lowering_.units.size(), true);
    return build_body(lowering_, units_of(tasks), loops, all);
  }

  std::optional<GroupLoops> choose_loops(const std::vector<uint32_t>& tasks) {
    const Unit* widest = nullptr;
    const Unit* widest_fold = nullptr;
    double most = -1, most_folded = -1;
    for (const uint32_t task : tasks) {
      const Unit& unit = lowering_.units[tasks_[task].unit];
      const double elements = elements_hint(task);
      double& best = unit.is_fold ? most_folded : most;
      if (elements <= best) continue;
      best = elements;
      (unit.is_fold ? widest_fold : widest) = &unit;
    }
    GroupLoops loops;
    if (widest_fold != nullptr) {
      loops.batches = widest_fold->batches;
      loops.rows = widest_fold->rows;
      loops.columns = widest_fold->columns;
      return loops;
    }
    return pointwise_loops(tasks, *widest);
  }

  // How the accesses of a body move along each dimension: by index expression (stores first), then by dimension.
  using Moves = std::vector<SmallVector<std::optional<Sym>, kInlineRank>>;

  Moves moves_of(const std::vector<uint32_t>& tasks, const GroupLoops& trial) {
    BuiltBody built = build(tasks, trial);
    Moves moves;
    const auto add = [&](Sym index) {
      SmallVector<std::optional<Sym>, kInlineRank> strides;
      for (size_t d = 0; d < trial.sizes.size(); ++d) {
        const Sym symbol = lowering_.symbol(Lowering::kDimension + static_cast<uint32_t>(d), trial.sizes[d]);
        strides.push_back(symbol.is_symbolic() ? stride_along(lowering_.syms(), built.body, index, symbol)
                                               : std::optional<Sym>(Sym::from_int(0)));
      }
      moves.push_back(std::move(strides));
    };
    for (const BodyStore& store : built.body.stores) add(store.index);
    for (const Source& source : built.body.sources)
      if (source.kind != Source::Kind::Number && source.kind != Source::Kind::Fold) add(source.index);
    return moves;
  }

  // Note [Loops of pointwise kernels]
  // Dimensions go from the outermost to the innermost as the result lies in memory. The innermost ones along which every
  // access moves as along one become the columns, the others the rows; all of them, where nothing is broadcast or strided.
  GroupLoops pointwise_loops(const std::vector<uint32_t>& tasks, const Unit& widest) {
    const Sizes& sizes = lowering_.values[widest.value].sizes;
    GroupLoops flat;
    flat.columns = product_of({sizes.data(), sizes.size()});
    GroupLoops trial;
    trial.sizes = sizes;
    trial.by_dimension = true;
    Moves moves;
    try {
      moves = moves_of(tasks, trial);
    } catch (const Refused&) {
      return flat;  // results of other shapes: counted row-major
    }
    SmallVector<size_t, kInlineRank> order;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (!is_one(sizes[d])) order.push_back(d);
    const auto& first_store = moves[0];
    const auto distance = [&](size_t d) { return first_store[d] ? hint_of(*first_store[d]) : 0; };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return distance(a) > distance(b); });
    if (order.empty()) return flat;
    size_t num_columns = 1;
    Sym run = sizes[order.back()];
    for (size_t k = order.size() - 1; k-- > 0; ++num_columns) {
      const size_t outer = order[k], inner = order.back();
      const bool merges = std::all_of(moves.begin(), moves.end(), [&](const auto& strides) {
        return strides[outer] && strides[inner] &&
               is_same_size(lowering_, *strides[outer], *strides[inner] * run);
      });
      if (!merges) break;
      run = run * sizes[outer];
    }
    const bool in_order = std::is_sorted(order.begin(), order.end());
    if (num_columns == order.size() && in_order) return flat;
    GroupLoops loops;
    loops.columns = run;
    for (size_t k = 0; k + num_columns < order.size(); ++k) loops.rows = loops.rows * sizes[order[k]];
    if (in_order) return loops;
    loops.sizes = sizes;
    // Dimensions of size 1 go with the rows.
    for (size_t d = 0; d < sizes.size(); ++d)
      if (std::find(order.begin(), order.end(), d) == order.end()) loops.order.push_back(d);
    loops.order.insert(loops.order.end(), order.begin(), order.end());
    loops.num_columns = num_columns;
    return loops;
  }

  // ---- The schedule

  Schedule emit() {
    Schedule schedule;
    schedule.graph = graph_;
    schedule.expressions = lowering_.expressions;
    schedule.places.resize(graph_.values.size());
    buffer_of_.assign(lowering_.values.size(), kNoBuffer);
    schedule.refusals = std::move(refusals_);
    for (const ValueId input : graph_.inputs) add_buffer(schedule, input, Buffer::Origin::Input);

    const std::vector<bool> stored = find_stored();
    std::vector<uint32_t> step_of(groups_.size());  // by group
    std::optional<uint32_t> updates;                // step that replaces inputs
    for (const uint32_t group : ordered_groups()) {
      uint32_t first = 0;  // step in which everything that it needs is there
      for (const uint32_t task : groups_[group].tasks)
        for (const uint32_t need : tasks_[task].needs)
          if (tasks_[need].group != group) first = std::max(first, step_of[tasks_[need].group] + 1);
      step_of[group] = static_cast<uint32_t>(schedule.steps.size());
      Step step;
      if (groups_[group].is_extern) {
        const NodeId node = tasks_[groups_[group].tasks[0]].node;
        step.kind = Step::Kind::Extern;
        step.index = static_cast<uint32_t>(schedule.externs.size());
        const Node& n = graph_.nodes[node];
        for (uint32_t k = 0; k < n.num_outputs; ++k)
          add_buffer(schedule, n.first_output + k,
                     n.op->kind == Kind::View ? Buffer::Origin::Shared : Buffer::Origin::Extern);
        schedule.externs.push_back({node});
        schedule.steps.push_back(step);
        continue;
      }
      KernelStep kernel = kernel_of(schedule, groups_[group], stored);
      const bool is_update = groups_[group].is_update && kernel.bodies[0].checks.empty();
      const KernelStep* const so_far = updates ? &schedule.kernels[schedule.steps[*updates].index] : nullptr;
      const bool has_updates = updates && *updates >= first && so_far->device == kernel.device &&
                               so_far->bodies.size() < kMostUpdates;
      const auto other = is_update && has_updates ? updates : partner_of(schedule, kernel, first);
      if (is_update) updates = other.value_or(step_of[group]);
      if (other) {
        step_of[group] = *other;
        append(schedule.kernels[schedule.steps[*other].index], std::move(kernel));
        continue;
      }
      step.index = static_cast<uint32_t>(schedule.kernels.size());
      schedule.kernels.push_back(std::move(kernel));
      schedule.steps.push_back(step);
    }
    const auto place = [&](ValueId value) {
      if (value != kNoValue && !schedule.places[value]) schedule.places[value] = place_of(value);
    };
    for (const ExternStep& step : schedule.externs) {
      const Node& node = graph_.nodes[step.node];
      for (const ValueId value : values_read_by(graph_, node)) place(value);
      for (uint32_t k = 0; k < node.num_outputs; ++k) place(node.first_output + k);
    }
    for (const ValueId item : graph_.items) place(item);
    for (const ValueId output : graph_.outputs) {
      place(output);
      schedule.buffers[schedule.places[output]->buffer].is_output = true;
    }
    schedule.stored_over = find_stores_over_inputs(schedule);
    return schedule;
  }

  // Note [Combo kernels]
  // Small loops that do not depend on one another are run by one call: the updates of all parameters of a model, say. Each
  // would take less time than its launch. Loops that report errors stay alone, as the report does not say whose it is.
  bool is_small(const LoopBody& body) {
    constexpr double kSmallLoop = 32768;  // turns of the innermost loop
    const double turns = static_cast<double>(hint_of(body.batches)) *
                         static_cast<double>(hint_of(body.rows)) * static_cast<double>(hint_of(body.columns));
    return turns <= kSmallLoop && body.checks.empty();
  }
  // The earliest step, not before `first`, that takes the kernel too.
  std::optional<uint32_t> partner_of(const Schedule& schedule, const KernelStep& kernel, uint32_t first) {
    constexpr size_t kMostBodies = 32;
    if (!options_.fuse || !is_small(kernel.bodies[0])) return std::nullopt;
    for (uint32_t s = first; s < schedule.steps.size(); ++s) {
      if (schedule.steps[s].kind != Step::Kind::Kernel) continue;
      const KernelStep& other = schedule.kernels[schedule.steps[s].index];
      if (other.device == kernel.device && other.bodies.size() < kMostBodies && is_small(other.bodies[0]))
        return s;
    }
    return std::nullopt;
  }
  static void append(KernelStep& step, KernelStep kernel) {
    step.bodies.push_back(std::move(kernel.bodies[0]));
    step.buffers.push_back(std::move(kernel.buffers[0]));
    step.numbers.push_back(std::move(kernel.numbers[0]));
    step.nodes.insert(step.nodes.end(), kernel.nodes.begin(), kernel.nodes.end());
    std::sort(step.nodes.begin(), step.nodes.end());
  }

  MemoryPlace place_of(ValueId value) {
    MemoryPlace place;
    const ValueId root = lowering_.root_of(value);
    place.buffer = buffer_of_[root];
    place.is_whole = root == value;
    if (!place.is_whole) place.layout = *lowering_.layout_of(value);
    WEFT_ASSERT(place.buffer != kNoBuffer, "a value without memory is used");
    return place;
  }

  // By unit: something outside its kernel reads it.
  std::vector<bool> find_stored() const {
    std::vector<bool> stored(lowering_.units.size());
    for (const Task& task : tasks_) {
      if (task.unit == kNoUnit) continue;
      const ValueId value = lowering_.units[task.unit].value;
      stored[task.unit] = value < graph_.values.size() && chosen_.stored[value];
      for (const uint32_t user : task.users) {
        // Not who only waits.
        const std::vector<ValueId>& reads = tasks_[user].reads;
        if (tasks_[user].group != task.group && std::find(reads.begin(), reads.end(), value) != reads.end())
          stored[task.unit] = true;
      }
    }
    return stored;
  }

  std::vector<uint32_t> ordered_groups() const {
    std::vector<uint32_t> waiting(groups_.size()), order;
    std::vector<std::vector<uint32_t>> after(groups_.size());
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      for (const uint32_t task : groups_[g].tasks)
        for (const uint32_t need : tasks_[task].needs) {
          if (tasks_[need].group == g) continue;
          ++waiting[g];
          after[tasks_[need].group].push_back(g);
        }
    }
    // The one whose last task comes first, among those that can run.
    const auto later = [&](uint32_t a, uint32_t b) {
      return groups_[a].tasks.back() > groups_[b].tasks.back();
    };
    std::vector<uint32_t> ready;
    const auto add = [&](uint32_t g) {
      ready.push_back(g);
      std::push_heap(ready.begin(), ready.end(), later);
    };
    size_t count = 0;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].tasks.empty()) continue;
      ++count;
      if (waiting[g] == 0) add(g);
    }
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), later);
      const uint32_t g = ready.back();
      ready.pop_back();
      order.push_back(g);
      for (const uint32_t next : after[g])
        if (--waiting[next] == 0) add(next);
    }
    WEFT_ASSERT(order.size() == count, "kernels need one another in a circle");
    return order;
  }

  BufferId add_buffer(Schedule& schedule, ValueId value, Buffer::Origin origin) {
    const Value& v = lowering_.values[value];
    Buffer buffer;
    buffer.origin = origin;
    buffer.value = value < graph_.values.size() ? value : kNoValue;
    buffer.sizes = v.sizes;
    buffer.strides = v.strides;
    buffer.dtype = v.dtype;
    buffer.device = v.device;
    const auto id = static_cast<BufferId>(schedule.buffers.size());
    schedule.buffers.push_back(std::move(buffer));
    buffer_of_[value] = id;
    return id;
  }

  KernelStep kernel_of(Schedule& schedule, const Group& group, const std::vector<bool>& stored) {
    const std::vector<uint32_t> units = units_of(group.tasks);
    BuiltBody built = build_body(lowering_, units, group.loops, stored);
    KernelStep kernel;
    kernel.device = device_of(group);
    for (const uint32_t unit : units)
      if (stored[unit]) add_buffer(schedule, lowering_.units[unit].value, Buffer::Origin::Kernel);
    std::vector<BufferId> buffers;
    for (const ValueId value : built.buffers) buffers.push_back(buffer_of_[value]);
    name(built.body, units, kernel.nodes);
    kernel.bodies.push_back(std::move(built.body));
    kernel.buffers.push_back(std::move(buffers));
    kernel.numbers.push_back(std::move(built.numbers));
    return kernel;
  }

  // The ops that a kernel computes, and where the user wrote them.
  void name(LoopBody& body, const std::vector<uint32_t>& units, std::vector<NodeId>& nodes) const {
    std::vector<bool> seen(graph_.nodes.size());
    std::vector<NodeId> open;
    const auto add = [&](NodeId node) {
      if (node == kNoNode || seen[node]) return;
      seen[node] = true;
      open.push_back(node);
      nodes.push_back(node);
    };
    for (const uint32_t unit : units) add(lowering_.units[unit].node);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      for (const ValueId value : values_read_by(graph_, graph_.nodes[node]))
        if (!lowering_.in_memory[value] && lowering_.unit_of[value] == kNoUnit) add(graph_[value].node);
    }
    std::sort(nodes.begin(), nodes.end());
    constexpr size_t kLongest = 60;
    std::vector<std::string> parts, lines;
    for (const NodeId id : nodes) {
      const Node& node = graph_.nodes[id];
      const std::string& op = (node.composite != nullptr ? node.composite : node.op)->name();
      std::string word;
      for (const char c : op) word += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      if (node.op->kind != Kind::View && std::find(parts.begin(), parts.end(), word) == parts.end())
        parts.push_back(word);
      std::ostringstream line;
      line << weft::to_string(node.where) << ' ' << op;
      if (std::find(lines.begin(), lines.end(), line.str()) == lines.end()) lines.push_back(line.str());
    }
    for (const std::string& part : parts) {
      if (body.name.size() + part.size() > kLongest) break;
      body.name += (body.name.empty() ? "" : "_") + part;
    }
    if (body.name.empty()) body.name = "copy";
    body.origins = std::move(lines);
  }

  Lowering& lowering_;
  const Graph& graph_;
  const ChosenUnits& chosen_;
  ScheduleOptions options_;
  std::vector<Task> tasks_;
  std::vector<Group> groups_;
  uint32_t newest_ = 0;               // the last task that has been put into a group
  std::optional<uint32_t> effect_;    // the last task that does something to the world
  std::vector<bool> replaces_input_;  // by value
  std::unordered_map<ValueId, uint32_t> maker_;
  std::unordered_map<ValueId, std::vector<uint32_t>> readers_;
  std::unordered_set<uint64_t> refused_;
  std::vector<Refusal> refusals_;
  std::vector<BufferId> buffer_of_;  // by value
};

}  // namespace

Schedule schedule(const Graph& given, const ScheduleOptions& options) {
  // What guards have settled since a size was written down: that it is 1, say.
  Graph graph = given;
  const SymTable& syms = graph.expressions->syms;
  for (Value& value : graph.values) {
    for (Sym& size : value.sizes) size = syms.current(size);
    for (Sym& stride : value.strides) stride = syms.current(stride);
  }
  Lowering lowering(graph);
  const ChosenUnits units = choose_units(lowering);
  return Fuser(lowering, units, options).run();
}

std::string to_string(const Schedule& schedule) {
  std::ostringstream out;
  for (const Step& step : schedule.steps) {
    if (step.kind == Step::Kind::Extern) {
      const Node& node = schedule.graph.nodes[schedule.externs[step.index].node];
      out << "extern " << node.op->name() << "   # " << weft::to_string(node.where) << '\n';
      continue;
    }
    for (const LoopBody& body : schedule.kernels[step.index].bodies) out << to_string(body);
  }
  for (const auto& [buffer, input] : schedule.stored_over)
    out << "%" << schedule.buffers[buffer].value << " is stored over input " << input << '\n';
  return std::move(out).str();
}

}  // namespace weft::compiler
