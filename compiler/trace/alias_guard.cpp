// AliasGuard: shared memory is ruled out by whole storages first, which is cheap, and looked at closely only then.
#include "compiler/trace/alias_guard.h"

#include <algorithm>
#include <bit>

#include "tensor/dispatch.h"

namespace weft::compiler {
namespace {

// Up to here comparing every pair is as cheap as a table.
constexpr size_t kFewParts = 8;
// The table of more tensors than half of this would not fit a small piece of the stack.
constexpr size_t kMostSlots = 4096;

const char* begin_of(const Storage& storage) { return static_cast<const char*>(storage.data()); }
const char* end_of(const Storage& storage) { return begin_of(storage) + storage.bytes(); }
const Storage& storage_of(GuardedTensors tensors, uint32_t leaf) { return *tensors[leaf]->impl()->storage; }

struct Item {
  const char *begin, *end;  // of the elements
  const TensorImpl* tensor;
  uint32_t index;
  bool is_captured, is_written, is_grad_written;
};

// Nothing where the tensor has no elements.
void add_item(std::vector<Item>& items, const TensorImpl& x, uint32_t index, bool is_captured,
              bool is_written, bool is_grad_written) {
  const Extent reach = extent(x.layout);
  if (x.storage == nullptr || reach.begin == reach.end) return;
  const int64_t bytes = static_cast<int64_t>(size_of(x.dtype));
  const char* base = begin_of(*x.storage);
  items.push_back({base + reach.begin * bytes, base + reach.end * bytes, &x, index, is_captured, is_written,
                   is_grad_written});
}

int64_t distance(const TensorImpl& a, const TensorImpl& b) {
  const auto first = [](const TensorImpl& x) {
    return begin_of(*x.storage) +
           static_cast<int64_t>(x.layout.offset) * static_cast<int64_t>(size_of(x.dtype));
  };
  return first(b) - first(a);
}

}  // namespace

std::vector<Overlap> find_overlaps(const GuardFacts& facts, GuardedTensors tensors) {
  std::vector<Item> items;
  for (uint32_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorFacts& x = facts.tensors[i];
    if (x.is_used && tensors[i]->defined())
      add_item(items, *tensors[i]->impl(), i, false, x.is_written, x.is_grad_written);
  }
  for (size_t i = 0; i < facts.captured.size(); ++i) {
    const CapturedFacts& x = facts.captured[i];
    add_item(items, *x.tensor, static_cast<uint32_t>(facts.tensors.size() + i), true, x.is_written,
             x.is_grad_written);
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.begin < b.begin; });
  std::vector<Overlap> overlaps;
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t j = i + 1; j < items.size() && items[j].begin < items[i].end; ++j) {
      const Item& a = items[i].index < items[j].index ? items[i] : items[j];
      const Item& b = items[i].index < items[j].index ? items[j] : items[i];
      const bool counts =
          a.is_written || b.is_written || ((a.is_grad_written || b.is_grad_written) && a.tensor == b.tensor);
      // What captured tensors share among themselves does not change between calls.
      if (counts && !(a.is_captured && b.is_captured))
        overlaps.push_back({a.index, b.index, distance(*a.tensor, *b.tensor)});
    }
  }
  std::sort(overlaps.begin(), overlaps.end(),
            [](const Overlap& a, const Overlap& b) { return std::pair(a.a, a.b) < std::pair(b.a, b.b); });
  return overlaps;
}

AliasGuard::AliasGuard(const GuardFacts& facts) {
  bool writes_captured = false;
  for (uint32_t i = 0; i < facts.tensors.size(); ++i) {
    const TensorFacts& x = facts.tensors[i];
    if (!x.is_used || !x.is_defined) continue;
    parts_.push_back({i, x.is_written || x.is_grad_written});
    writes_argument_ |= parts_.back().is_written;
  }
  for (const CapturedFacts& x : facts.captured) {
    if (x.tensor->storage == nullptr || x.tensor->storage->bytes() == 0) continue;
    const Storage& storage = *x.tensor->storage;
    captured_.push_back({begin_of(storage), end_of(storage), x.is_written || x.is_grad_written});
    writes_captured |= captured_.back().is_written;
  }
  if (!writes_argument_ && !writes_captured) {
    parts_.clear();
    captured_.clear();
  }
  std::sort(captured_.begin(), captured_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Range& range : captured_) {
    if (kept > 0 && range.begin < captured_[kept - 1].end) {
      Range& last = captured_[kept - 1];
      last.end = std::max(last.end, range.end);
      last.is_written |= range.is_written;
    } else {
      captured_[kept++] = range;
    }
  }
  captured_.resize(kept);
}

bool AliasGuard::check(const GuardFacts& facts, GuardedTensors tensors) const {
  if (parts_.empty()) return true;
  if (facts.overlaps.empty() && !may_overlap(tensors)) return true;
  return find_overlaps(facts, tensors) == facts.overlaps;
}

bool AliasGuard::may_overlap(GuardedTensors tensors) const {
  if (!captured_.empty()) {
    for (const Part& part : parts_) {
      const Storage& storage = storage_of(tensors, part.leaf);
      const char *begin = begin_of(storage), *end = end_of(storage);
      auto range = std::partition_point(captured_.begin(), captured_.end(),
                                        [&](const Range& each) { return each.end <= begin; });
      for (; range != captured_.end() && range->begin < end; ++range)
        if (part.is_written || range->is_written) return true;
    }
  }
  return writes_argument_ && may_overlap_each_other(tensors);
}

bool AliasGuard::may_overlap_each_other(GuardedTensors tensors) const {
  const size_t count = parts_.size();
  if (count <= kFewParts) {
    Range ranges[kFewParts];
    for (size_t i = 0; i < count; ++i) {
      const Storage& storage = storage_of(tensors, parts_[i].leaf);
      const Range range = {begin_of(storage), end_of(storage), parts_[i].is_written};
      for (size_t j = 0; j < i; ++j)
        if ((range.is_written | ranges[j].is_written) && range.begin < ranges[j].end &&
            ranges[j].begin < range.end)
          return true;
      ranges[i] = range;
    }
    return false;
  }
  const size_t num_slots = std::bit_ceil(count * 2);
  if (num_slots > kMostSlots) return true;
  const int shift = 64 - std::countr_zero(num_slots);
  uintptr_t slots[kMostSlots];  // a storage, with 1 added if it is written
  std::fill_n(slots, num_slots, 0);
  for (const Part& part : parts_) {
    const Storage& storage = storage_of(tensors, part.leaf);
    if (storage.is_wrapped()) return true;  // it may lie on the memory of another one
    const auto key = reinterpret_cast<uintptr_t>(&storage);
    size_t at = key * 0x9E3779B97F4A7C15u >> shift;
    while (slots[at] != 0 && (slots[at] & ~uintptr_t{1}) != key) at = (at + 1) & (num_slots - 1);
    if (slots[at] != 0 && (part.is_written || (slots[at] & 1) != 0)) return true;
    slots[at] |= key | static_cast<uintptr_t>(part.is_written);
  }
  return false;
}

}  // namespace weft::compiler
