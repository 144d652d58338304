// Lifetimes of buffers and the packing of the arena.
// Place: the out-of-line half of compiler/loops/memory_plan.h.
#include "compiler/loops/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace weft::compiler {

MemoryLifetimes lifetimes_of(const Schedule& schedule) {
  constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  const size_t count = schedule.buffers.size();
  std::vector<uint32_t> first(count, kNever), last(count, 0);
  const auto touch = [&](BufferId buffer, uint32_t step) {
    first[buffer] = std::min(first[buffer], step);
    last[buffer] = std::max(last[buffer], step);
  };
  for (uint32_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    if (step.kind == Step::Kind::Kernel) {
      const KernelStep& kernel = schedule.kernels[step.index];
      for (size_t b = 0; b < kernel.bodies.size(); ++b) {
        for (const BufferId buffer : kernel.buffers[b]) touch(buffer, s);
      }
      continue;
    }
    const Node& node = schedule.graph.nodes[schedule.externs[step.index].node];
    for (const ValueId value : values_read_by(schedule.graph, node)) touch(schedule.places[value]->buffer, s);
    for (uint32_t k = 0; k < node.num_outputs; ++k) touch(schedule.places[node.first_output + k]->buffer, s);
  }
  MemoryLifetimes result;
  result.in_arena.resize(count);
  // What is read as a number, or seen through a view that an extern op made, stays to the end.
  std::vector<bool> stays(count);
  for (const ValueId item : schedule.graph.items)
    if (item != kNoValue && schedule.places[item]) stays[schedule.places[item]->buffer] = true;
  for (const ExternStep& step : schedule.externs) {
    const Node& node = schedule.graph.nodes[step.node];
    if (node.op->kind == Kind::View) stays[schedule.places[node.operands[0].value]->buffer] = true;
  }
  for (const KernelStep& kernel : schedule.kernels)
    if (kernel.device.is_cuda() && result.device.is_cpu()) result.device = kernel.device;
  for (BufferId buffer = 0; buffer < count; ++buffer) {
    const Buffer& b = schedule.buffers[buffer];
    if (b.origin == Buffer::Origin::Input || b.origin == Buffer::Origin::Shared) continue;
    if (b.is_output || stays[buffer] || first[buffer] == kNever || b.device != result.device) continue;
    if (b.origin == Buffer::Origin::Extern) continue;  // the launch plan decides
    result.in_arena[buffer] = true;
    result.arena.push_back({buffer, first[buffer], last[buffer]});
  }
  return result;
}

namespace {
size_t aligned(size_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }
bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }
}  // namespace

MemoryPlan pack(const MemoryLifetimes& lifetimes, std::span<const size_t> bytes, size_t gap) {
  const std::vector<Lifetime>& all = lifetimes.arena;
  MemoryPlan plan;
  plan.offsets.assign(all.size(), 0);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<size_t> placed;  // by offset
  for (const size_t next : order) {
    const size_t need = aligned(bytes[next] + gap);
    plan.unpacked_bytes += aligned(bytes[next]);
    size_t end = 0, best = std::numeric_limits<size_t>::max(), best_room = best;
    for (const size_t other : placed) {
      if (!overlap(all[next], all[other])) continue;
      const size_t begin = plan.offsets[other];
      if (begin > end && begin - end >= need && begin - end < best_room) {
        best = end;
        best_room = begin - end;
      }
      end = std::max(end, begin + aligned(bytes[other] + gap));
    }
    if (best == std::numeric_limits<size_t>::max()) best = end;
    plan.offsets[next] = best;
    plan.bytes = std::max(plan.bytes, best + need);
    const auto at = std::upper_bound(placed.begin(), placed.end(), next,
                                     [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    placed.insert(at, next);
  }
  return plan;
}

void verify(const MemoryPlan& plan, const MemoryLifetimes& lifetimes, std::span<const size_t> bytes) {
  const std::vector<Lifetime>& all = lifetimes.arena;
  for (size_t a = 0; a < all.size(); ++a) {
    WEFT_ASSERT(plan.offsets[a] % kArenaAlignment == 0 && plan.offsets[a] + bytes[a] <= plan.bytes, "buffer ",
                all[a].buffer, " leaves the arena");
    for (size_t b = 0; b < a; ++b) {
      const bool apart =
          plan.offsets[a] + bytes[a] <= plan.offsets[b] || plan.offsets[b] + bytes[b] <= plan.offsets[a];
      WEFT_ASSERT(apart || bytes[a] == 0 || bytes[b] == 0 || !overlap(all[a], all[b]), "buffers ",
                  all[a].buffer, " and ", all[b].buffer, " share memory while both live");
    }
  }
}

}  // namespace weft::compiler
