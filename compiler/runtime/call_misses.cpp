// Calls that enter the function: misses, entries that are out of date, audits, follow mode; and calls that run eagerly.
// Place: the slow half of compiled_function.cpp.
#include <algorithm>

#include "compiler/runtime/compile_log.h"
#include "compiler/runtime/compiled_function_impl.h"
#include "compiler/runtime/path_guards.h"
#include "compiler/runtime/report_tree.h"
#include "tensor/base/log.h"
#include "tensor/state_epoch.h"

namespace weft::compiler {
namespace {

// A captured tensor that nobody else holds any more.
bool reads_dead_tensor(const SegmentNode& node) {
  return std::any_of(node.captured.begin(), node.captured.end(),
                     [](const TensorImpl* captured) { return captured->use_count() == 1; });
}

constexpr size_t kMaxRefusals = 16;  // that are remembered

}  // namespace

// ---- Traces ---------------------------------------------------------------------------------------------------------

TracedPath CompiledFunction::Impl::trace(const ArgumentLeaves& leaves, Callee& callee,
                                         const ArgumentPolicies& policies, Frame& frame, HostFunctions& host,
                                         std::span<const std::shared_ptr<SegmentNode>> prefix,
                                         std::span<const uint64_t> outcomes, FollowState* following) {
  TracedPath path = TraceRun(plans, joint_plans, options, name, where)
                        .run(leaves, callee, policies, frame, host, prefix, outcomes, following);
  stats.add(Count::Compilation, path.num_compiled);
  stats.add(Count::ExternCall, path.num_extern_calls);
  stats.add(Count::SavedBytes, path.saved_bytes);
  for (size_t i = path.num_bound; i + 1 < path.nodes.size(); ++i) {
    const Break& stop = *path.nodes[i]->stop;
    stats.add(Count::Break);
    stats.record(
        {Event::Kind::Break, stop.place.op != nullptr ? stop.place.op->name() : "a value", stop.place.where});
  }
  return path;
}

// Whether too many of the last calls missed, this one counted in as far as it would not have hit by now.
bool CompiledFunction::Impl::is_stormy(const ArgumentLeaves& leaves) {
  if (!misses.is_storm()) return false;
  if (recent.has_seen(leaves, state_epoch())) misses.hit();
  else misses.miss();
  return misses.is_storm();
}

void CompiledFunction::Impl::run_in_storm(Callee& callee, const std::optional<GuardFailure>& failure,
                                          std::unique_lock<std::mutex>& lock) {
  stats.add(Count::EagerCall);
  if (failure) {
    say_storm(name, *failure);
    if (!std::exchange(has_stormed, true))
      stats.record(
          {Event::Kind::Storm, "ran eagerly while more than a fifth of its calls missed: " + failure->text});
  }
  lock.unlock();
  callee.run_eager();
}

// Whether such a call could not be captured before.
bool CompiledFunction::Impl::run_refused(const ArgumentLeaves& leaves, Callee& callee, uint64_t word) {
  std::optional<CannotCapture> reason;
  {
    const std::shared_lock lock(mutex);
    for (const Refusal& refusal : refusals)
      if (refusal.epoch == state_epoch() && refusal.guards.check(leaves, word, {})) reason = refusal.reason;
  }
  if (reason) run_eagerly(*reason, callee);
  return reason.has_value();
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
  dynamic.observe(leaves);
  if (is_stormy(leaves)) return run_in_storm(callee, failure, lock);
  misses.miss();
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
  TracedPath path;
  try {
    path = trace(leaves, callee, entry->policies, frame, *entry->host, {}, {}, nullptr);
  } catch (const CannotCapture& reason) {
    const std::unique_lock writing(mutex);
    if (refusals.size() == kMaxRefusals) refusals.erase(refusals.begin());
    refusals.push_back({GuardBlock(exact_facts(leaves, callee)), entry->epoch, reason});
    throw;
  }
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
  if (failure.field == GuardFailure::Field::Size && failure.leaf < policies.sizes.size() &&
      policies.sizes[failure.leaf][failure.dim].kind != DimPolicy::Kind::Static)
    consequence = weft::detail::concat("dimension ", failure.dim, " is now dynamic");
  compiler::log_recompile(
      name_of_function(options.name, where), versions, failure.text, consequence,
      weft::detail::concat(path.num_compiled, path.num_compiled == 1 ? " graph" : " graphs", " compiled"));
}

void CompiledFunction::Impl::log_program(const Branch& branch) const {
  if (!log_enabled(LogChannel::Graph) && !log_enabled(LogChannel::Guards) &&
      !log_enabled(LogChannel::Breaks) && !has_debug_directory())
    return;
  const std::string function = name_of_function(options.name, where);
  const Explanation::Entry entry = explain_entry(branch);
  for (const Explanation::Graph& graph : entry.graphs) log_graph(function, graph);
  for (const Explanation::Break& stop : entry.breaks) log_break(function, stop);
  log_guards(function, entry.guards);
  write_guards(name, entry.guards);
}

// State that the library knows of has moved since the entry was traced.
void CompiledFunction::Impl::refresh(const ArgumentLeaves& leaves, Callee& callee, const EntryPtr& stale) {
  std::unique_lock lock(tracing);
  const uint64_t epoch = state_epoch();
  if (is_stormy(leaves)) {
    GuardFailure failure;
    failure.text = "state outside of the function (a parameter, a captured handle) was another tensor";
    return run_in_storm(callee, failure, lock);
  }
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, stale->policies, frame, *stale->host, {}, {}, nullptr);
  stats.add(Count::Refresh);
  if (const EntryPtr entry = take_in_by_any(path, leaves, callee)) {
    entry->epoch = epoch;
    return misses.hit();
  }
  misses.miss();
  {
    // What only an entry holds nobody will come back to.
    const std::unique_lock writing(mutex);
    std::erase_if(entries, [](const EntryPtr& each) { return reads_dead_tensor(*each->branch.node); });
  }
  add_program(path, make_branch(path, 0, leaves, callee), *stale, epoch);
}

// An entry whose segments are those of the path, after which it has what the path has.
CompiledFunction::Impl::EntryPtr CompiledFunction::Impl::take_in_by_any(const TracedPath& path,
                                                                        const ArgumentLeaves& leaves,
                                                                        const Callee& callee) {
  const std::shared_lock reading(mutex);
  for (const EntryPtr& entry : entries)
    if (take_in(*entry, path, leaves, callee)) return entry;
  return nullptr;
}

// Makes an entry of a path that was traced in a call of another one.
void CompiledFunction::Impl::add_program(const TracedPath& path, Branch branch, const Entry& traced_for,
                                         uint64_t epoch) {
  auto entry = std::make_shared<Entry>();
  entry->policies = traced_for.policies;
  entry->host = traced_for.host;  // what was traced calls it
  entry->epoch = epoch;
  link(path, path.num_bound);
  entry->branch = std::move(branch);
  add(std::move(entry), std::nullopt);
}

void CompiledFunction::Impl::audit(const EntryPtr& entry, const ArgumentLeaves& leaves, Callee& callee) {
  std::unique_lock lock(tracing);
  const uint64_t epoch = state_epoch();
  Frame frame(leaves);
  const TracedPath path = trace(leaves, callee, entry->policies, frame, *entry->host, {}, {}, nullptr);
  stats.add(Count::Audit);
  if (take_in(*entry, path, leaves, callee)) return;
  // Where tensors that the entry tells apart are one in this call, both programs are right.
  Branch branch = make_branch(path, 0, leaves, callee);
  if (branch.guards->facts().same.size() > entry->branch.guards->facts().same.size()) {
    if (take_in_by_any(path, leaves, callee) != nullptr) return;
    return add_program(path, std::move(branch), *entry, epoch);
  }
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

}  // namespace weft::compiler
