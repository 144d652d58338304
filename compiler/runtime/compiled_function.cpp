// The call path: entries, the walk through the trace tree, and how the tree grows.
// Place: the out-of-line half of compiled_function.h; calls that enter the function are in call_misses.cpp.
#include "compiler/runtime/compiled_function.h"

#include <algorithm>

#include "compiler/runtime/compiled_function_impl.h"
#include "compiler/runtime/path_guards.h"
#include "compiler/runtime/report_tree.h"
#include "compiler/runtime/segment_compare.h"
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

constexpr size_t kMaxOutcomes = 4;  // of one break

CompileOptions with_replays(CompileOptions options) {
  options.backend.set_replays(options.mode == "reduce-overhead" || options.backend.name() == "cudagraphs");
  return options;
}

}  // namespace

CompiledFunction::CompiledFunction(CompileOptions options, SourceLocation where)
    : options_(with_replays(std::move(options))), where_(where) {
  WEFT_CHECK(
      options_.mode == "default" || options_.mode == "reduce-overhead" || options_.mode == "max-autotune",
      "compile: there is no mode \"", options_.mode,
      "\"; the modes are default, reduce-overhead and max-autotune");
  WEFT_CHECK(options_.activation_memory_budget >= 0 && options_.activation_memory_budget <= 1,
             "compile: activation_memory_budget is ", options_.activation_memory_budget,
             "; it is a share, from 0 (compute again whatever can be) to 1 (what is best for speed)");
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
    if (entry == nullptr) {
      if (impl.run_refused(leaves, callee, word)) return;
      return impl.miss(leaves, callee, word);
    }
    if (is_stale) return impl.refresh(leaves, callee, entry);
    const uint64_t hit = entry->hits.fetch_add(1, std::memory_order_relaxed) + 1;
    impl.misses.hit();
    entry->last_used.store(impl.misses.calls(), std::memory_order_relaxed);
    if (options_.audit && is_audited(hit)) [[unlikely]]
      return impl.audit(entry, leaves, callee);
    impl.walk(entry, frame, callee, word);
  } catch (const CannotCapture& reason) {
    impl.run_eagerly(reason, callee);
  }
}

void CompiledFunction::Impl::run_eagerly(const CannotCapture& reason, Callee& callee) {
  WEFT_CHECK(!options.fullgraph, "compile: ", name, " cannot be one graph: ", reason.reason);
  stats.add(Count::EagerCall);
  stats.record({Event::Kind::Eager, reason.reason, reason.where});
  warn_once(name + reason.reason, weft::detail::concat(name, " runs eagerly: ", reason.reason));
  callee.run_eager();
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
  const std::shared_ptr<SegmentNode>& node = entry->branch.node;
  frame.run(*node);
  if (!node->stop) return frame.finish(*node, callee);
  Way way{{node}, {}};
  if (!walk_on(entry, frame, callee, word, way)) grow(entry, frame, callee, word, std::move(way));
}

// From a segment that has run and stops to the end. False at an outcome that has not been seen before.
bool CompiledFunction::Impl::walk_on(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word,
                                     Way& way) {
  try {
    while (way.segments.back()->stop) {
      const SegmentNode& node = *way.segments.back();
      if (way.outcomes.size() < way.segments.size()) way.outcomes.push_back(frame.outcome(node));
      const std::shared_ptr<SegmentNode> following = next(node, way.outcomes.back(), frame, word);
      if (following == nullptr) return false;
      if (following->refusal) {
        frame.return_draws();
        throw *following->refusal;
      }
      frame.run(*following);
      way.segments.push_back(following);
    }
  } catch (const CannotCapture&) {
    throw;
  } catch (...) {
    const std::lock_guard lock(tracing);
    way.outcomes.resize(way.segments.size());
    TraceRun(plans, joint_plans, options, name, where)
        .carry_out(frame.leaves(), callee, entry->policies, frame, *entry->host, way.segments, way.outcomes,
                   nullptr);
    throw;
  }
  frame.finish(*way.segments.back(), callee);
  return true;
}

// An outcome that was not seen before: the function is entered, and follows what has run to that point.
void CompiledFunction::Impl::grow(const EntryPtr& entry, Frame& frame, Callee& callee, uint64_t word,
                                  Way way) {
  std::unique_lock lock(tracing);
  // Another thread may have been here first.
  while (next(*way.segments.back(), way.outcomes.back(), frame, word) != nullptr) {
    lock.unlock();
    if (walk_on(entry, frame, callee, word, way)) return;
    lock.lock();
  }
  const auto add_branch = [&](Branch branch) {
    branch.outcome = way.outcomes.back();
    const std::unique_lock writing(way.segments.back()->mutex);
    std::vector<Branch>& branches = way.segments.back()->branches;
    branches.insert(branches.begin(), std::move(branch));
    return branches.size();
  };
  try {
    const TracedPath path = trace(frame.leaves(), callee, entry->policies, frame, *entry->host, way.segments,
                                  way.outcomes, nullptr);
    stats.add(Count::Trace);
    if (path.nodes.size() > kMaxDepth)
      start_following(weft::detail::concat("its path has ", path.nodes.size(), " segments"));
    Branch branch = make_branch(path, path.num_bound, frame.leaves(), callee);
    if (path.num_bound == 0) {
      // Another program from the start: its tensors share memory that it writes.
      add_program(path, std::move(branch), *entry, entry->epoch);
      return;
    }
    link(path, path.num_bound);
    if (add_branch(std::move(branch)) > kMaxOutcomes)
      start_following(weft::detail::concat("a value at ",
                                           weft::to_string(way.segments.back()->stop->place.where),
                                           " has had more than ", kMaxOutcomes, " outcomes"));
  } catch (const CannotCapture& reason) {
    auto refused = std::make_shared<SegmentNode>();
    refused->refusal = reason;
    Branch branch;
    branch.guards.emplace(exact_facts(frame.leaves(), callee));
    branch.node = std::move(refused);
    add_branch(std::move(branch));
    throw;
  } catch (const PathDiffers& difference) {
    lock.unlock();
    start_following(weft::detail::concat("it went another way than before at ",
                                         weft::to_string(difference.where),
                                         ": it depends on state that the compiler cannot see"));
    follow(frame.leaves(), callee);
  }
}

// ---- The tree -------------------------------------------------------------------------------------------------------

void CompiledFunction::Impl::link(const TracedPath& path, size_t first) {
  for (size_t i = first; i + 1 < path.nodes.size(); ++i) {
    Branch branch;
    branch.outcome = path.outcomes[i];
    branch.node = path.nodes[i + 1];
    branch.sizes = size_guards(*path.tracer, *branch.node, false);
    path.nodes[i]->branches.push_back(std::move(branch));
  }
}

Branch CompiledFunction::Impl::make_branch(const TracedPath& path, size_t first, const ArgumentLeaves& leaves,
                                           const Callee& callee) const {
  Branch branch;
  branch.node = path.nodes[first];
  branch.guards.emplace(argument_facts(path, leaves, callee));
  branch.grad_facts = path.grad_facts;
  branch.sizes = size_guards(*path.tracer, *branch.node, true);
  return branch;
}

// Whether an entry's segments are those of a path that was traced anew. Where the path comes to an outcome that the entry has
// not seen, the entry takes in what follows.
bool CompiledFunction::Impl::take_in(const Entry& entry, const TracedPath& path, const ArgumentLeaves& leaves,
                                     const Callee& callee) const {
  std::shared_ptr<SegmentNode> node = entry.branch.node;
  if (!is_same_node(*node, *path.nodes[0])) return false;
  const uint64_t word = current_global_word();
  for (size_t i = 0; node->stop; ++i) {
    std::shared_ptr<SegmentNode> following;
    bool is_seen = false;
    {
      const std::shared_lock lock(node->mutex);
      for (const Branch& branch : node->branches) {
        if (branch.outcome != path.outcomes[i]) continue;
        if (is_same_node(*branch.node, *path.nodes[i + 1])) {
          following = branch.node;
          break;
        }
        // Others may be of other sizes.
        std::vector<int64_t> symbols(branch.guards ? branch.guards->num_symbols() : 0);
        is_seen =
            is_seen || (!branch.sizes && (!branch.guards || branch.guards->check(leaves, word, symbols)));
      }
    }
    if (following == nullptr) {
      if (is_seen) return false;
      link(path, i + 1);
      Branch branch = make_branch(path, i + 1, leaves, callee);
      branch.outcome = path.outcomes[i];
      const std::unique_lock writing(node->mutex);
      node->branches.insert(node->branches.begin(), std::move(branch));
      return true;
    }
    node = following;
  }
  return true;
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
