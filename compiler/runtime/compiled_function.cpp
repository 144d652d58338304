// The call path: entries, the walk through the trace tree, misses, audits and follow mode.
// Place: the out-of-line half of compiled_function.h.
#include "compiler/runtime/compiled_function.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#include "compiler/runtime/dynamic.h"
#include "compiler/runtime/limits.h"
#include "compiler/runtime/path_guards.h"
#include "compiler/runtime/report_tree.h"
#include "compiler/runtime/trace_run.h"
#include "tensor/base/log.h"
#include "tensor/state_epoch.h"

namespace weft::compiler {

// Note [Walking the tree]
// A call looks for a branch whose guards it meets, runs its segment, and where the function asked for a value there, looks for
// the branch of that outcome, until a segment returns: the user's function is not entered. Where no branch fits, the
// function is entered on fakes; segments that have run already are followed, not run again, and what comes after becomes a
// new branch. State of the user's that the library knows of moves the state epoch: an entry whose epoch is behind is traced
// again, and where the same segments come out it is good for the new epoch. State that it does not know of is what
// audits look for: at hits 1, 10, 100, … the call is traced instead, and compared. A function whose traces differ, or that
// reads native numbers, is followed from then on: each call is traced, and runs the plans of equal segments.

namespace {

// Hits 1, 10, 100, 1000, …
bool is_audited(uint64_t hit) {
  while (hit >= 10 && hit % 10 == 0) hit /= 10;
  return hit == 1;
}

bool is_same_data(const Tensor& a, const Tensor& b) {
  return a->dtype == b->dtype && a.sizes() == b.sizes() &&
         std::memcmp(bytes_of(a), bytes_of(b), a.nbytes()) == 0;
}

bool is_same_slot(Slot a, Slot b) { return a.is_carried == b.is_carried && a.index == b.index; }

bool is_same_steps(const std::vector<ViewStep>& a, const std::vector<ViewStep>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ViewStep& x, const ViewStep& y) {
    return x.op == y.op && weft::detail::concat(x.op->name()) == weft::detail::concat(y.op->name());
  });
}

bool is_same_plan(const OutputPlan& a, const OutputPlan& b) {
  return a.kind == b.kind && a.index == b.index && a.requires_grad == b.requires_grad &&
         is_same_steps(a.steps, b.steps);
}

// Numbers that leave the function: constants by value, others by how they are made.
bool is_same_numbers(const SegmentNode& a, const SegmentNode& b) {
  const auto text = [](const SegmentNode& node, const Scalar& number) {
    const Expressions& tables = *node.expressions;
    if (number.is_traced()) return tables.scalars.to_string(number.trace_id(), tables.syms);
    if (number.is_symbolic()) return tables.syms.to_string(number.sym());
    return weft::detail::concat(number);
  };
  for (size_t i = 0; i < a.effects.numbers.size(); ++i)
    if (text(a, a.effects.numbers[i].value) != text(b, b.effects.numbers[i].value)) return false;
  for (size_t i = 0; i < a.effects.cell_writes.size(); ++i) {
    const Tracer::CellWrite &x = a.effects.cell_writes[i], &y = b.effects.cell_writes[i];
    if (x.cell != y.cell || a.expressions->scalars.to_string(x.value, a.expressions->syms) !=
                                b.expressions->scalars.to_string(y.value, b.expressions->syms))
      return false;
  }
  return true;
}

// Two segments end alike: at the same question, or with the same effects.
bool is_same_end(const SegmentNode& a, const SegmentNode& b) {
  if (!std::equal(a.reads.begin(), a.reads.end(), b.reads.begin(), b.reads.end(), is_same_slot)) return false;
  if (a.stop)
    return a.stop->kind == b.stop->kind && a.stop->end == b.stop->end && a.stop->live == b.stop->live;
  const Effects &x = a.effects, &y = b.effects;
  return std::equal(x.tensors.begin(), x.tensors.end(), y.tensors.begin(), y.tensors.end(), is_same_plan) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), is_same_slot) &&
         x.writes.size() == y.writes.size() && x.cell_writes.size() == y.cell_writes.size() &&
         x.grad_writes.size() == y.grad_writes.size() && x.layout_writes.size() == y.layout_writes.size() &&
         x.numbers.size() == y.numbers.size() && x.pullbacks.size() == y.pullbacks.size() &&
         is_same_numbers(a, b);
}

// The paths compute the same: equal segments share their plan.
bool is_same_node(const SegmentNode& a, const SegmentNode& b) {
  if (a.plan != b.plan || a.stop.has_value() != b.stop.has_value() || a.inputs.size() != b.inputs.size())
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const SegmentNode::Input &x = a.inputs[i], &y = b.inputs[i];
    if (x.source.kind != y.source.kind || x.source.index != y.source.index) return false;
    if (x.source.kind == InputSource::Kind::Captured && !x.held.is_same(y.held)) return false;
    if (x.source.kind == InputSource::Kind::Constant && !is_same_data(x.held, y.held)) return false;
  }
  return a.numbers.size() == b.numbers.size() && is_same_end(a, b);
}

constexpr size_t kMaxDepth = 64;  // segments of one path; a longer one (a loop over a tensor) is followed

}  // namespace

struct CompiledFunction::Impl {
  struct Entry {
    Branch branch;
    ArgumentPolicies policies;                                                // of every trace below it
    std::shared_ptr<HostFunctions> host = std::make_shared<HostFunctions>();  // of these traces
    std::atomic<uint64_t> epoch{0}, hits{0}, last_used{0};
    bool is_fully_dynamic = false;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  Impl(const CompileOptions& o, SourceLocation w, std::string n)
      : options(o),
        where(w),
        name(std::move(n)),
        plans(o.backend),
        dynamic(o.dynamic),
        limit(generation_limit(o.limit, o.dynamic)) {}

  // ---- Looking up
  EntryPtr find(Frame& frame, uint64_t word, bool& is_stale);
  static std::shared_ptr<SegmentNode> next(const SegmentNode& node, uint64_t outcome, Frame& frame,
                                           uint64_t word);

  // ---- The ways a call can go
  void walk(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word);
  void grow(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word,
            std::vector<std::shared_ptr<SegmentNode>> prefix, std::vector<uint64_t> outcomes);
  void miss(const ArgumentLeaves& leaves, Callee& callee, uint64_t word);
  void refresh(const ArgumentLeaves& leaves, Callee& callee, const EntryPtr& stale);
  void audit(const EntryPtr& entry, const ArgumentLeaves& leaves, Callee& callee);
  void follow(const ArgumentLeaves& leaves, Callee& callee);

  TracedPath trace(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies,
                   Frame& frame, HostFunctions& host, std::span<const std::shared_ptr<SegmentNode>> prefix,
                   std::span<const uint64_t> outcomes, FollowState* following);
  Branch make_branch(const TracedPath& path, size_t first, const ArgumentLeaves& leaves,
                     const Callee& callee) const;
  static void link(const TracedPath& path, size_t first);
  bool is_path_of(const Entry& entry, const TracedPath& path) const;
  ArgumentPolicies policies(const ArgumentLeaves& leaves) const;
  bool is_fully_dynamic(const ArgumentPolicies& policies) const;
  void add(EntryPtr entry, const std::optional<GuardFailure>& failure);
  void start_following(const std::string& reason);
  void log_recompile(const TracedPath& path, const GuardFailure& failure, const ArgumentPolicies& policies);
  void log_program(const Branch& branch) const;

  const CompileOptions& options;
  const SourceLocation where;
  const std::string name;
  PlanCache plans;
  DynamicState dynamic;  // under `tracing`
  MissRate misses;
  std::optional<size_t> limit;
  FunctionStats stats;
  // Under `tracing`.
  size_t versions = 1;
  bool has_stormed = false, has_met_limit = false;

  std::mutex tracing;             // one trace at a time
  std::shared_mutex mutex;        // of the entries
  std::vector<EntryPtr> entries;  // the most recent first
  std::atomic<bool> follows{false};
  std::mutex follow_mutex;
  FollowState followed;
  HostFunctions followed_host{/*by_path=*/false};
};

CompiledFunction::CompiledFunction(CompileOptions options, SourceLocation where)
    : options_(std::move(options)), where_(where) {
  WEFT_CHECK(
      options_.mode == "default" || options_.mode == "reduce-overhead" || options_.mode == "max-autotune",
      "compile: there is no mode \"", options_.mode,
      "\"; the modes are default, reduce-overhead and max-autotune");
  options_.backend.function();
  impl_ = std::make_unique<Impl>(options_, where_,
                                 options_.name.empty() ? weft::to_string(where_) : options_.name);
}
CompiledFunction::~CompiledFunction() = default;

void CompiledFunction::call(const ArgumentLeaves& leaves, Callee& callee) {
  if (current_trace() != nullptr) return callee.run_eager();  // part of the function that is being traced
  Impl& impl = *impl_;
  try {
    if (impl.follows.load(std::memory_order_acquire)) return impl.follow(leaves, callee);
    const uint64_t word = current_global_word();
    Frame frame(leaves);
    bool is_stale = false;
    const Impl::EntryPtr entry = impl.find(frame, word, is_stale);
    if (entry == nullptr) return impl.miss(leaves, callee, word);
    if (is_stale) return impl.refresh(leaves, callee, entry);
    const uint64_t hit = entry->hits.fetch_add(1, std::memory_order_relaxed) + 1;
    impl.misses.hit();
    entry->last_used.store(impl.misses.calls(), std::memory_order_relaxed);
    if (options_.audit && is_audited(hit)) [[unlikely]]
      return impl.audit(entry, leaves, callee);
    impl.walk(entry, frame, callee, word);
  } catch (const CannotCapture& reason) {
    WEFT_CHECK(!options_.fullgraph, "compile: ", impl.name, " cannot be one graph: ", reason.reason);
    impl.stats.add(Count::EagerCall);
    impl.stats.record({Event::Kind::Eager, reason.reason, reason.where});
    warn_once(impl.name + reason.reason, weft::detail::concat(impl.name, " runs eagerly: ", reason.reason));
    callee.run_eager();
  }
}

CompileStats CompiledFunction::stats() const { return impl_->stats.stats(); }

Explanation CompiledFunction::explanation() const {
  Explanation result;
  result.function = name_of_function(options_.name, where_);
  result.backend = options_.backend.name();
  result.stats = stats();
  add_events(result, impl_->stats.events());
  const std::shared_lock lock(impl_->mutex);
  std::vector<Impl::EntryPtr> entries = impl_->entries;
  std::stable_sort(entries.begin(), entries.end(), [](const Impl::EntryPtr& a, const Impl::EntryPtr& b) {
    return a->last_used.load(std::memory_order_relaxed) > b->last_used.load(std::memory_order_relaxed);
  });
  for (const Impl::EntryPtr& entry : entries) {
    result.entries.push_back(explain_entry(entry->branch));
    result.entries.back().hits = entry->hits.load(std::memory_order_relaxed);
  }
  return result;
}

// ---- Looking up -----------------------------------------------------------------------------------------------------

CompiledFunction::Impl::EntryPtr CompiledFunction::Impl::find(Frame& frame, uint64_t word, bool& is_stale) {
  const std::shared_lock lock(mutex);
  const uint64_t epoch = state_epoch();
  EntryPtr stale;
  for (const EntryPtr& entry : entries) {
    const bool is_current = entry->epoch.load(std::memory_order_relaxed) == epoch;
    if (!is_current && stale != nullptr) continue;
    if (!frame.fits(entry->branch, word)) continue;
    if (is_current) return entry;
    stale = entry;
  }
  is_stale = stale != nullptr;
  return stale;
}

std::shared_ptr<SegmentNode> CompiledFunction::Impl::next(const SegmentNode& node, uint64_t outcome,
                                                          Frame& frame, uint64_t word) {
  const std::shared_lock lock(node.mutex);
  for (const Branch& branch : node.branches)
    if (branch.outcome == outcome && frame.fits(branch, word)) return branch.node;
  return nullptr;
}

// ---- Hits -----------------------------------------------------------------------------------------------------------

void CompiledFunction::Impl::walk(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word) {
  stats.add(Count::Hit);
  std::shared_ptr<SegmentNode> node = entry->branch.node;
  frame.run(*node);
  if (!node->stop) return frame.finish(*node, callee);
  std::vector<std::shared_ptr<SegmentNode>> prefix;
  std::vector<uint64_t> outcomes;
  while (node->stop) {
    const uint64_t outcome = frame.outcome(*node);
    prefix.push_back(node);
    outcomes.push_back(outcome);
    node = next(*node, outcome, frame, word);
    if (node == nullptr) return grow(entry, frame, callee, word, std::move(prefix), std::move(outcomes));
    frame.run(*node);
  }
  frame.finish(*node, callee);
}

// An outcome that was not seen before: the function is entered, and follows what has run to that point.
void CompiledFunction::Impl::grow(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word,
                                  std::vector<std::shared_ptr<SegmentNode>> prefix,
                                  std::vector<uint64_t> outcomes) {
  std::unique_lock lock(tracing);
  // Another thread may have been here first.
  if (std::shared_ptr<SegmentNode> node = next(*prefix.back(), outcomes.back(), frame, word)) {
    lock.unlock();
    frame.run(*node);
    while (node->stop) {
      const uint64_t outcome = frame.outcome(*node);
      prefix.push_back(node);
      outcomes.push_back(outcome);
      node = next(*node, outcome, frame, word);
      if (node == nullptr) return grow(entry, frame, callee, word, std::move(prefix), std::move(outcomes));
      frame.run(*node);
    }
    return frame.finish(*node, callee);
  }
  try {
    const TracedPath path =
        trace(frame.leaves(), callee, entry->policies, frame, *entry->host, prefix, outcomes, nullptr);
    if (path.nodes.size() > kMaxDepth)
      start_following(weft::detail::concat("its path has ", path.nodes.size(), " segments"));
    stats.add(Count::Trace);
    link(path, path.num_bound);
    Branch branch = make_branch(path, path.num_bound, frame.leaves(), callee);
    branch.outcome = outcomes.back();
    const std::unique_lock writing(prefix.back()->mutex);
    std::vector<Branch>& branches = prefix.back()->branches;
    branches.insert(branches.begin(), std::move(branch));
    if (branches.size() > 4)
      start_following(weft::detail::concat("a value at ", weft::to_string(prefix.back()->stop->place.where),
                                           " has had more than four outcomes"));
  } catch (const PathDiffers& difference) {
    lock.unlock();
    start_following(weft::detail::concat("it went another way than before at ",
                                         weft::to_string(difference.where),
                                         ": it depends on state that the compiler cannot see"));
    follow(frame.leaves(), callee);
  }
}

// ---- Traces ---------------------------------------------------------------------------------------------------------

TracedPath CompiledFunction::Impl::trace(const ArgumentLeaves& leaves, Callee& callee,
                                         const ArgumentPolicies& policies, Frame& frame, HostFunctions& host,
                                         std::span<const std::shared_ptr<SegmentNode>> prefix,
                                         std::span<const uint64_t> outcomes, FollowState* following) {
  TracedPath path = TraceRun(plans, options, name, where)
                        .run(leaves, callee, policies, frame, host, prefix, outcomes, following);
  stats.add(Count::Compilation, path.num_compiled);
  stats.add(Count::ExternCall, path.num_extern_calls);
  for (size_t i = path.num_bound; i + 1 < path.nodes.size(); ++i) {
    const Break& stop = *path.nodes[i]->stop;
    stats.add(Count::Break);
    stats.record(
        {Event::Kind::Break, stop.place.op != nullptr ? stop.place.op->name() : "a value", stop.place.where});
  }
  return path;
}

void CompiledFunction::Impl::miss(const ArgumentLeaves& leaves, Callee& callee, uint64_t word) {
  std::unique_lock lock(tracing);
  {
    // Another thread may have traced this meanwhile.
    Frame frame(leaves);
    bool is_stale = false;
    const EntryPtr entry = find(frame, word, is_stale);
    if (entry != nullptr && !is_stale) {
      lock.unlock();
      entry->hits.fetch_add(1, std::memory_order_relaxed);
      return walk(entry, frame, callee, word);
    }
  }
  stats.add(Count::Miss);
  std::optional<GuardFailure> failure;
  {
    const std::shared_lock reading(mutex);
    if (!entries.empty()) failure = entries.front()->branch.guards->first_failure(leaves, word);
  }
  misses.miss();
  dynamic.observe(leaves);
  if (misses.is_storm()) {
    stats.add(Count::EagerCall);
    if (failure) {
      say_storm(name, *failure);
      if (!std::exchange(has_stormed, true))
        stats.record({Event::Kind::Storm,
                      "ran eagerly while more than a fifth of its calls missed: " + failure->text});
    }
    lock.unlock();
    return callee.run_eager();
  }
  if (failure && dynamic.is_fixed_too_often(*failure, leaves))
    start_following(weft::detail::concat(failure->text, ": the function fixes this size again and again"));
  for (uint32_t i = 0; i < leaves.numbers.size(); ++i)
    if (dynamic.number_policy(i) == NumberPolicy::Lifted)
      start_following(weft::detail::concat(
          callee.number_name(i),
          " is a plain number that changes; pass a Scalar to have it read at each call"));
  if (follows) {
    lock.unlock();
    return follow(leaves, callee);
  }
  auto entry = std::make_shared<Entry>();
  entry->policies = policies(leaves);
  entry->is_fully_dynamic = is_fully_dynamic(entry->policies);
  entry->epoch = state_epoch();
  entry->last_used = misses.calls();
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, entry->policies, frame, *entry->host, {}, {}, nullptr);
  stats.add(Count::Trace);
  if (failure) {
    stats.record({Event::Kind::Recompile, failure->text, failure->place.where});
    log_recompile(path, *failure, entry->policies);
  }
  if (path.needs_follow) start_following("it reads a native floating number, which may differ at each call");
  if (path.nodes.size() > kMaxDepth)
    start_following(weft::detail::concat("its path has ", path.nodes.size(), " segments"));
  {
    const std::lock_guard numbers(follow_mutex);
    followed.numbers = path.tracer->plain_numbers();
  }
  link(path, 0);
  entry->branch = make_branch(path, 0, leaves, callee);
  log_program(entry->branch);
  add(std::move(entry), failure);
}

void CompiledFunction::Impl::log_recompile(const TracedPath& path, const GuardFailure& failure,
                                           const ArgumentPolicies& policies) {
  ++versions;
  if (!log_enabled(LogChannel::Recompiles)) return;
  std::string consequence;
  if (failure.field == GuardFailure::Field::Size &&
      policies.sizes[failure.leaf][failure.dim].kind != DimPolicy::Kind::Static)
    consequence = weft::detail::concat("dimension ", failure.dim, " is now dynamic");
  compiler::log_recompile(
      name_of_function(options.name, where), versions, failure.text, consequence,
      weft::detail::concat(path.num_compiled, path.num_compiled == 1 ? " graph" : " graphs", " compiled"));
}

void CompiledFunction::Impl::log_program(const Branch& branch) const {
  if (!log_enabled(LogChannel::Graph) && !log_enabled(LogChannel::Guards) && !log_enabled(LogChannel::Breaks))
    return;
  const std::string function = name_of_function(options.name, where);
  const Explanation::Entry entry = explain_entry(branch);
  for (const Explanation::Graph& graph : entry.graphs) log_graph(function, graph);
  for (const Explanation::Break& stop : entry.breaks) log_break(function, stop);
  log_guards(function, entry.guards);
}

// State that the library knows of has moved since the entry was traced.
void CompiledFunction::Impl::refresh(const ArgumentLeaves& leaves, Callee& callee, const EntryPtr& stale) {
  const std::unique_lock lock(tracing);
  const uint64_t epoch = state_epoch();
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, stale->policies, frame, *stale->host, {}, {}, nullptr);
  stats.add(Count::Refresh);
  {
    const std::shared_lock reading(mutex);
    for (const EntryPtr& entry : entries) {
      if (!is_path_of(*entry, path)) continue;
      entry->epoch = epoch;
      return;
    }
  }
  auto entry = std::make_shared<Entry>();
  entry->policies = stale->policies;
  entry->host = stale->host;  // what was traced calls it
  entry->epoch = epoch;
  link(path, 0);
  entry->branch = make_branch(path, 0, leaves, callee);
  add(std::move(entry), std::nullopt);
}

void CompiledFunction::Impl::audit(const EntryPtr& entry, const ArgumentLeaves& leaves, Callee& callee) {
  std::unique_lock lock(tracing);
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, entry->policies, frame, *entry->host, {}, {}, nullptr);
  stats.add(Count::Audit);
  if (is_path_of(*entry, path)) return;
  start_following(
      "an audit found that it computes something else than when it was traced: it depends on state that the "
      "compiler cannot see (a plain variable that it captures); pass that as an argument");
}

// ---- Following ------------------------------------------------------------------------------------------------------

void CompiledFunction::Impl::start_following(const std::string& reason) {
  if (follows.exchange(true)) return;
  stats.record({Event::Kind::Follow, reason, where});
  warn_once(name + " follows", weft::detail::concat(name, " is entered at each call from now on: ", reason));
}

void CompiledFunction::Impl::follow(const ArgumentLeaves& leaves, Callee& callee) {
  FollowState state;
  ArgumentPolicies wanted;
  {
    const std::lock_guard lock(tracing);
    dynamic.observe(leaves);
    wanted = policies(leaves);
  }
  stats.add(Count::Followed);
  {
    const std::lock_guard lock(follow_mutex);
    state = followed;
  }
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, wanted, frame, followed_host, {}, {}, &state);
  if (path.num_compiled != 0) stats.add(Count::Trace);
  const std::lock_guard lock(follow_mutex);
  // Another thread may have found other numbers to differ.
  if (followed.lifted.size() == state.lifted.size())
    for (size_t i = 0; i < state.lifted.size(); ++i) state.lifted[i] = state.lifted[i] || followed.lifted[i];
  followed = std::move(state);
}

// ---- The tree -------------------------------------------------------------------------------------------------------

void CompiledFunction::Impl::link(const TracedPath& path, size_t first) {
  for (size_t i = first; i + 1 < path.nodes.size(); ++i) {
    Branch branch;
    branch.outcome = path.outcomes[i];
    branch.node = path.nodes[i + 1];
    branch.sizes = size_guards(*path.tracer, *branch.node);
    path.nodes[i]->branches.push_back(std::move(branch));
  }
}

Branch CompiledFunction::Impl::make_branch(const TracedPath& path, size_t first, const ArgumentLeaves& leaves,
                                           const Callee& callee) const {
  Branch branch;
  branch.node = path.nodes[first];
  branch.guards.emplace(argument_facts(path, leaves, callee));
  branch.grad_facts = path.grad_facts;
  branch.sizes = size_guards(*path.tracer, *branch.node);
  return branch;
}

bool CompiledFunction::Impl::is_path_of(const Entry& entry, const TracedPath& path) const {
  std::shared_ptr<SegmentNode> node = entry.branch.node;
  for (size_t i = 0;; ++i) {
    if (!is_same_node(*node, *path.nodes[i])) return false;
    if (!node->stop) return true;
    const std::shared_lock lock(node->mutex);
    const auto branch = std::find_if(node->branches.begin(), node->branches.end(),
                                     [&](const Branch& b) { return b.outcome == path.outcomes[i]; });
    if (branch == node->branches.end()) return true;  // an outcome that the entry has not seen
    const std::shared_ptr<SegmentNode> following = branch->node;
    node = following;
  }
}

ArgumentPolicies CompiledFunction::Impl::policies(const ArgumentLeaves& leaves) const {
  ArgumentPolicies result;
  for (uint32_t i = 0; i < leaves.tensors.size(); ++i) {
    const Tensor& x = *leaves.tensors[i];
    result.sizes.push_back(x.defined() ? dynamic.policies(i, x) : std::vector<DimPolicy>());
    result.dynamic_strides.push_back(x.defined() ? dynamic.dynamic_strides(i, x) : 0);
  }
  for (uint32_t i = 0; i < leaves.numbers.size(); ++i)
    result.numbers.push_back(leaves.numbers[i].kind == NumberLeaf::Kind::Size ? dynamic.size_policy(i)
                                                                              : DimPolicy());
  return result;
}

bool CompiledFunction::Impl::is_fully_dynamic(const ArgumentPolicies& policies) const {
  for (const std::vector<DimPolicy>& sizes : policies.sizes)
    for (const DimPolicy& size : sizes)
      if (size.kind != DimPolicy::Kind::Static) return true;
  return false;
}

void CompiledFunction::Impl::add(EntryPtr entry, const std::optional<GuardFailure>& failure) {
  const std::unique_lock lock(mutex);
  entries.insert(entries.begin(), std::move(entry));
  if (!limit || entries.size() <= *limit) return;
  std::vector<EntryAge> ages;
  for (const EntryPtr& each : entries) ages.push_back({each->last_used, each->is_fully_dynamic});
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(choose_victim(ages)));
  stats.add(Count::Eviction);
  if (!failure) return;
  say_limit(name, *limit, *failure);
  if (!std::exchange(has_met_limit, true))
    stats.record(
        {Event::Kind::Limit, weft::detail::concat("at its limit of ", *limit, " programs: ", failure->text)});
}

}  // namespace weft::compiler
