// Counting the elements that indices meet.
// Place: the out-of-line half of compiler/loops/traffic.h.
#include "compiler/loops/traffic.h"

#include <algorithm>
#include <set>

#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

Sym width_of(DType dtype) { return Sym::from_int(static_cast<int64_t>(size_of(dtype))); }

// What tells accesses of one buffer apart: the expression, and where it is masked.
using Access = std::pair<uint64_t, BodyValue>;

}  // namespace

// Dimensions of stride 0 show the same elements again.
Sym TrafficCounter::elements_of(std::span<const Sym> sizes, std::span<const Sym> strides) {
  Sym count = Sym::from_int(1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_repeated = d < strides.size() && !strides[d].is_symbolic() && strides[d].concrete() == 0;
    if (!is_repeated) count = count * sizes[d];
  }
  return count;
}

// How many elements an index meets at most: one for each turn of the loops that it depends on, and none out of its range.
Sym TrafficCounter::points(const LoopBody& body, const IndexUse& use, Sym index) {
  Sym count = Sym::from_int(1);
  if (use.batch) count = count * body.batches;
  if (use.row) count = count * body.rows;
  if (use.column) count = count * body.columns;
  const Interval range = syms().range(index);
  if (range.min > INT64_MIN / 2 && range.max < INT64_MAX / 2 && range.max >= range.min)
    count = min(count, Sym::from_int(range.max - range.min + 1));
  return count;
}

std::vector<std::pair<BufferId, Traffic>> TrafficCounter::by_buffer(const Schedule& schedule,
                                                                    const KernelStep& kernel) {
  const TableEnvironment environment(expressions_);
  std::vector<std::pair<BufferId, Traffic>> result;
  std::set<std::pair<BufferId, Access>> seen_reads, seen_writes;
  const auto traffic_of = [&](BufferId buffer) -> Traffic& {
    for (auto& [id, traffic] : result)
      if (id == buffer) return traffic;
    return result.emplace_back(buffer, Traffic()).second;
  };
  for (size_t b = 0; b < kernel.bodies.size(); ++b) {
    const LoopBody& body = kernel.bodies[b];
    const std::vector<BufferId>& buffers = kernel.buffers[b];
    for (const BufferId buffer : buffers) traffic_of(buffer);
    const LoopLevels levels = levels_of(body);
    for (const Source& source : body.sources) {
      if (source.kind != Source::Kind::Load) continue;
      const BufferId buffer = buffers[source.param];
      if (!seen_reads.insert({buffer, {key_of(source.index), source.mask}}).second) continue;
      Traffic& traffic = traffic_of(buffer);
      traffic.read = traffic.read + points(body, use_of(body, levels, source.index), source.index);
    }
    for (const BodyStore& store : body.stores) {
      const BufferId buffer = buffers[store.param];
      IndexUse use = use_of(body, levels, store.index);
      const Sym count = points(body, use, store.index);
      Traffic& traffic = traffic_of(buffer);
      if (seen_writes.insert({buffer, {key_of(store.index), store.mask}}).second)
        traffic.written = traffic.written + count;
      if (store.mode == BodyStore::Mode::Add &&
          seen_reads.insert({buffer, {key_of(store.index), store.mask}}).second)
        traffic.read = traffic.read + count;
    }
  }
  for (auto& [id, traffic] : result) {
    const Buffer& buffer = schedule.buffers[id];
    const Sym whole = elements_of({buffer.sizes.data(), buffer.sizes.size()},
                                  {buffer.strides.data(), buffer.strides.size()});
    traffic.read = min(traffic.read, whole) * width_of(buffer.dtype);
    traffic.written = min(traffic.written, whole) * width_of(buffer.dtype);
  }
  return result;
}

Sym TrafficCounter::bytes_of(const Value& value) {
  const TableEnvironment environment(expressions_);
  return elements_of({value.sizes.data(), value.sizes.size()}, {}) * width_of(value.dtype);
}

Traffic TrafficCounter::of(const Schedule& schedule, const KernelStep& kernel) {
  const std::vector<std::pair<BufferId, Traffic>> buffers = by_buffer(schedule, kernel);
  const TableEnvironment environment(expressions_);
  Traffic result;
  for (const auto& [buffer, traffic] : buffers) {
    result.read = result.read + traffic.read;
    result.written = result.written + traffic.written;
  }
  return result;
}

Traffic TrafficCounter::of(const Graph& graph, const Node& node) {
  Traffic result;
  if (node.op->kind == Kind::View) return result;
  const TableEnvironment environment(expressions_);
  Sym results = Sym::from_int(0);
  for (uint32_t k = 0; k < node.num_outputs; ++k) {
    const Value& value = graph[node.first_output + k];
    const Sym count = elements_of({value.sizes.data(), value.sizes.size()}, {});
    results = results + count;
    result.written = result.written + count * width_of(value.dtype);
  }
  for (const ValueId id : values_read_by(graph, node)) {
    const Value& value = graph[id];
    Sym count =
        elements_of({value.sizes.data(), value.sizes.size()}, {value.strides.data(), value.strides.size()});
    // What computes its elements one by one picks no more elements than it makes.
    if (node.op->element != nullptr) count = min(count, results);
    result.read = result.read + count * width_of(value.dtype);
  }
  return result;
}

Traffic TrafficCounter::of(const Graph& graph) {
  const TableEnvironment environment(expressions_);
  Traffic result;
  for (const Node& node : graph.nodes) {
    const Traffic traffic = of(graph, node);
    result.read = result.read + traffic.read;
    result.written = result.written + traffic.written;
  }
  return result;
}

Traffic TrafficCounter::of(const Schedule& schedule) {
  const TableEnvironment environment(expressions_);
  Traffic result;
  const auto add = [&](const Traffic& traffic) {
    result.read = result.read + traffic.read;
    result.written = result.written + traffic.written;
  };
  for (const KernelStep& kernel : schedule.kernels) add(of(schedule, kernel));
  for (const ExternStep& step : schedule.externs) add(of(schedule.graph, schedule.graph.nodes[step.node]));
  return result;
}

}  // namespace weft::compiler
