// Counters and events.
// Place: the out-of-line half of compiler/runtime/stats.h.
#include "compiler/runtime/stats.h"

namespace weft {
namespace compiler {
namespace {

constexpr size_t kMaxEvents = 256;
std::array<std::atomic<uint64_t>, kNumCounts> process_counts{};

CompileStats stats_of(const std::array<std::atomic<uint64_t>, kNumCounts>& counts) {
  const auto at = [&](Count what) {
    return counts[static_cast<size_t>(what)].load(std::memory_order_relaxed);
  };
  return {.hits = at(Count::Hit),
          .misses = at(Count::Miss),
          .traces = at(Count::Trace),
          .compilations = at(Count::Compilation),
          .extern_calls = at(Count::ExternCall),
          .kernels = at(Count::Kernel),
          .interpreted = at(Count::Interpreted),
          .audits = at(Count::Audit),
          .refreshes = at(Count::Refresh),
          .followed = at(Count::Followed),
          .breaks = at(Count::Break),
          .evictions = at(Count::Eviction),
          .eager_calls = at(Count::EagerCall),
          .host_trips = at(Count::HostTrip),
          .graph_replays = at(Count::GraphReplay),
          .saved_bytes = at(Count::SavedBytes)};
}

}  // namespace

void count(Count what, uint64_t times) {
  process_counts[static_cast<size_t>(what)].fetch_add(times, std::memory_order_relaxed);
}

CompileStats FunctionStats::stats() const { return stats_of(counts_); }

void FunctionStats::record(Event event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() < kMaxEvents) events_.push_back(std::move(event));
}

std::vector<Event> FunctionStats::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

}  // namespace compiler

CompileStats compile_stats() { return compiler::stats_of(compiler::process_counts); }
void reset_compile_stats() {
  for (auto& counter : compiler::process_counts) counter.store(0, std::memory_order_relaxed);
}

}  // namespace weft
