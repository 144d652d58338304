// Cutting segments into blocks and keeping what is freed.
// Place: the out-of-line half of tensor/cuda/allocator.h.
#include "tensor/cuda/allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>
#include <vector>

namespace weft::cuda {
namespace {

constexpr size_t kGrain = 512;  // sizes and addresses of blocks
constexpr size_t kSmallLimit = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleLimit = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;
constexpr size_t kLargeGrain = size_t{2} << 20;

size_t rounded(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

size_t segment_size(size_t block) {
  if (block <= kSmallLimit) return kSmallSegment;
  if (block <= kMiddleLimit) return kMiddleSegment;
  return rounded(block, kLargeGrain);
}

struct Block {
  char* memory = nullptr;
  size_t size = 0;
  Stream stream = nullptr;
  bool is_small = false, is_used = false;
  Block *previous = nullptr, *next = nullptr;  // neighbours in the segment
  const char* what = nullptr;
  std::vector<Stream> other_streams = {};
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return std::less<Stream>()(a->stream, b->stream);
    if (a->size != b->size) return a->size < b->size;
    return a->memory < b->memory;
  }
};
using FreeBlocks = std::set<Block*, BySize>;

std::string in_words(int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  std::ostringstream out;
  out.precision(unit == 0 ? 0 : 2);
  out << std::fixed << value << ' ' << units[unit];
  return std::move(out).str();
}

}  // namespace

struct CachingAllocator::Impl {
  const Driver& driver;
  const int device;
  mutable std::mutex mutex = {};
  FreeBlocks free_small = {}, free_large = {};
  std::unordered_map<void*, Block*> used = {};
  // Freed, but other streams have yet to come past their events.
  struct Waiting {
    Block* block;
    std::vector<Event> events;
  };
  std::vector<Waiting> waiting = {};
  MemoryStats stats = {};

  FreeBlocks& pool(bool is_small) { return is_small ? free_small : free_large; }

  Block* find(size_t size, Stream stream, bool is_small) {
    Block wanted;
    wanted.size = size;
    wanted.stream = stream;
    FreeBlocks& blocks = pool(is_small);
    const auto found = blocks.lower_bound(&wanted);
    if (found == blocks.end() || (*found)->stream != stream) return nullptr;
    // A segment of its own is not cut: half of a large block would be kept by a small tensor.
    if (size > kMiddleLimit && (*found)->size >= 2 * size) return nullptr;
    Block* const block = *found;
    blocks.erase(found);
    return block;
  }

  Block* take_segment(size_t size, Stream stream, bool is_small) {
    const size_t bytes = segment_size(size);
    void* memory = nullptr;
    const Status status = driver.allocate(&memory, bytes);
    if (status == Status::OutOfMemory) return nullptr;
    check(driver, status, "allocate");
    ++stats.segments;
    ++stats.device_allocations;
    stats.reserved_bytes += static_cast<int64_t>(bytes);
    stats.peak_reserved_bytes = std::max(stats.peak_reserved_bytes, stats.reserved_bytes);
    return new Block{static_cast<char*>(memory), bytes, stream, is_small};
  }

  // Leaves `size` bytes and frees the rest, where that is worth a block.
  void cut(Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < (block->is_small ? kGrain : kSmallLimit + 1)) return;
    auto* const behind = new Block{block->memory + size, rest, block->stream, block->is_small};
    behind->previous = block;
    behind->next = block->next;
    if (block->next != nullptr) block->next->previous = behind;
    block->next = behind;
    block->size = size;
    pool(block->is_small).insert(behind);
  }

  void join(Block* block, Block* behind) {
    block->size += behind->size;
    block->next = behind->next;
    if (behind->next != nullptr) behind->next->previous = block;
    delete behind;
  }

  // A neighbour that may be joined is free and not waiting: it stands in the pool.
  bool is_free(Block* block) { return block != nullptr && pool(block->is_small).contains(block); }

  void put_back(Block* block) {
    FreeBlocks& blocks = pool(block->is_small);
    if (is_free(block->next)) {
      blocks.erase(block->next);
      join(block, block->next);
    }
    if (is_free(block->previous)) {
      Block* const before = block->previous;
      blocks.erase(before);
      join(before, block);
      block = before;
    }
    blocks.insert(block);
  }

  void look_at_waiting() {
    for (size_t i = 0; i < waiting.size();) {
      std::vector<Event>& events = waiting[i].events;
      while (!events.empty() && driver.query_event(events.back()) == Status::Ok) {
        driver.destroy_event(events.back());
        events.pop_back();
      }
      if (!events.empty()) {
        ++i;
        continue;
      }
      put_back(waiting[i].block);
      waiting[i] = std::move(waiting.back());
      waiting.pop_back();
    }
  }

  void give_back() {
    if (!waiting.empty()) {
      driver.synchronize();
      look_at_waiting();
    }
    for (const bool is_small : {true, false}) {
      FreeBlocks& blocks = pool(is_small);
      for (auto at = blocks.begin(); at != blocks.end();) {
        Block* const block = *at;
        if (block->previous != nullptr || block->next != nullptr) {
          ++at;
          continue;
        }
        at = blocks.erase(at);
        driver.free(block->memory);
        --stats.segments;
        ++stats.device_frees;
        stats.reserved_bytes -= static_cast<int64_t>(block->size);
        delete block;
      }
    }
  }

  std::string holders(size_t most) const {
    struct Share {
      int64_t bytes = 0, blocks = 0;
    };
    std::map<std::string, Share> shares;
    for (const auto& [memory, block] : used) {
      Share& share = shares[block->what != nullptr ? block->what : "others"];
      share.bytes += static_cast<int64_t>(block->size);
      ++share.blocks;
    }
    std::vector<std::pair<std::string, Share>> sorted(shares.begin(), shares.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    std::string text;
    for (size_t i = 0; i < std::min(most, sorted.size()); ++i)
      text += "\n  " + sorted[i].first + ": " + in_words(sorted[i].second.bytes) + " in " +
              std::to_string(sorted[i].second.blocks) + (sorted[i].second.blocks == 1 ? " block" : " blocks");
    return text;
  }

  [[noreturn]] void throw_out_of_memory(size_t bytes, const char* what) const {
    size_t free_bytes = 0, total_bytes = 0;
    if (driver.memory_info(&free_bytes, &total_bytes) != Status::Ok) free_bytes = total_bytes = 0;
    const auto size = [](size_t n) { return in_words(static_cast<int64_t>(n)); };
    weft::detail::throw_error(
        weft::detail::concat("cuda: out of memory: ", what != nullptr ? what : "a tensor", " needs ",
                             size(bytes), " on cuda:", device, ", which has ", size(total_bytes), ", ",
                             size(free_bytes), " of them free. This process holds ",
                             in_words(stats.reserved_bytes), ": ", in_words(stats.allocated_bytes),
                             " in tensors and ", in_words(stats.reserved_bytes - stats.allocated_bytes),
                             " in pieces between them. Let go of tensors, take smaller batches, or keep "
                             "gradients off where none are "
                             "needed. The largest, by what made them:",
                             holders(8)));
  }
};

CachingAllocator::CachingAllocator(const Driver& driver, int device) : impl_(new Impl{driver, device}) {}

CachingAllocator::~CachingAllocator() {
  for (const auto& [memory, block] : impl_->used) impl_->waiting.push_back({block, {}});
  impl_->used.clear();
  impl_->give_back();
}

void* CachingAllocator::allocate(size_t bytes, Stream stream, const char* what) {
  if (bytes == 0) return nullptr;
  Impl& a = *impl_;
  constexpr size_t kMost = size_t{1} << 47;
  if (bytes > kMost) {
    const std::lock_guard lock(a.mutex);
    a.throw_out_of_memory(bytes, what);
  }
  const size_t size = rounded(bytes, kGrain);
  const bool is_small = size <= kSmallLimit;
  if (KeptMemory* const kept = KeptMemory::current(); kept != nullptr) [[unlikely]] {
    std::vector<KeptMemory::Piece>& pieces = kept->pieces_;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].allocator != this || pieces[i].bytes < size || pieces[i].bytes >= 2 * size) continue;
      void* const memory = pieces[i].memory;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
      return memory;
    }
  }
  const std::lock_guard lock(a.mutex);
  if (!a.waiting.empty()) a.look_at_waiting();
  Block* block = a.find(size, stream, is_small);
  if (block == nullptr) {
    const DeviceGuard guard(a.device);
    block = a.take_segment(size, stream, is_small);
    if (block == nullptr) {
      ++a.stats.out_of_memory;
      a.give_back();
      block = a.take_segment(size, stream, is_small);
    }
    if (block == nullptr) a.throw_out_of_memory(bytes, what);
  }
  a.cut(block, size);
  block->is_used = true;
  block->what = what;
  a.used.emplace(block->memory, block);
  ++a.stats.allocations;
  a.stats.allocated_bytes += static_cast<int64_t>(block->size);
  a.stats.peak_allocated_bytes = std::max(a.stats.peak_allocated_bytes, a.stats.allocated_bytes);
  return block->memory;
}

void CachingAllocator::deallocate(void* memory) noexcept {
  if (memory == nullptr) return;
  Impl& a = *impl_;
  const std::lock_guard lock(a.mutex);
  const auto found = a.used.find(memory);
  if (found == a.used.end()) return;
  Block* const block = found->second;
  if (KeptMemory* const kept = KeptMemory::current(); kept != nullptr) [[unlikely]] {
    kept->pieces_.push_back({this, memory, block->size});
    return;
  }
  a.used.erase(found);
  block->is_used = false;
  ++a.stats.frees;
  a.stats.allocated_bytes -= static_cast<int64_t>(block->size);
  if (block->other_streams.empty()) {
    a.put_back(block);
    return;
  }
  Impl::Waiting waiting{block, {}};
  for (const Stream stream : block->other_streams) {
    Event event = nullptr;
    if (a.driver.create_event(&event, false) != Status::Ok) continue;
    a.driver.record_event(event, stream);
    waiting.events.push_back(event);
  }
  block->other_streams.clear();
  a.waiting.push_back(std::move(waiting));
}

void CachingAllocator::record_use(void* memory, Stream stream) {
  Impl& a = *impl_;
  const std::lock_guard lock(a.mutex);
  const auto found = a.used.find(memory);
  if (found == a.used.end() || found->second->stream == stream) return;
  std::vector<Stream>& streams = found->second->other_streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(impl_->mutex);
  const DeviceGuard guard(impl_->device);
  impl_->give_back();
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stats.peak_allocated_bytes = impl_->stats.allocated_bytes;
  impl_->stats.peak_reserved_bytes = impl_->stats.reserved_bytes;
}

std::string CachingAllocator::holders(size_t most) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->holders(most);
}

CachingAllocator& allocator_of(int device) {
  constexpr size_t kMostDevices = 64;
  static std::mutex mutex;
  static auto& allocators = *new std::array<std::atomic<CachingAllocator*>, kMostDevices>{};
  WEFT_CHECK(device >= 0 && static_cast<size_t>(device) < kMostDevices,
             "cuda: there is no device cuda:", device);
  std::atomic<CachingAllocator*>& own = allocators[static_cast<size_t>(device)];
  if (CachingAllocator* const known = own.load(std::memory_order_acquire)) [[likely]]
    return *known;
  const std::lock_guard lock(mutex);
  if (own.load() == nullptr) own.store(new CachingAllocator(driver(), device), std::memory_order_release);
  return *own.load();
}

KeptMemory::~KeptMemory() {
  for (const Piece& piece : pieces_) piece.allocator->deallocate(piece.memory);
}
KeptMemory::Scope::Scope(KeptMemory& kept) : before_(current()) { current() = &kept; }
KeptMemory::Scope::~Scope() { current() = before_; }
KeptMemory*& KeptMemory::current() {
  static thread_local KeptMemory* kept = nullptr;
  return kept;
}

const char*& AllocationScope::current() {
  static thread_local const char* what = nullptr;
  return what;
}

}  // namespace weft::cuda
