// Limits of one compiled object: which entry goes when there are too many, when calls miss too often, and which shape of
// a dynamic entry deserves a program of its own. Needs trace/guards. The call path keeps one of each.
#pragma once

#include <atomic>

#include "compiler/trace/guards.h"

namespace weft::compiler {

inline constexpr int kDefaultGenerations = 8;

// How many generations the options allow; nothing: no limit, which dynamic = false asks for where every size is a program.
std::optional<size_t> generation_limit(std::optional<int> limit, std::optional<bool> dynamic);

struct EntryAge {
  uint64_t last_used = 0;  // MissRate::calls() at its last hit
  bool is_fully_dynamic = false;
  friend bool operator==(const EntryAge&, const EntryAge&) = default;
};
// The entry that goes: the least recently used, but of the fully dynamic ones the last stays. Not for an empty list.
size_t choose_victim(std::span<const EntryAge> entries);

// Whether more than a fifth of the last 100 calls missed: compiling then costs more than it gains, and calls run eagerly
// until fewer would miss. A hit costs one relaxed load and store; misses come under the lock of the compiled object.
class MissRate {
 public:
  void hit() { calls_.store(calls() + 1, std::memory_order_relaxed); }  // a lost count does not matter
  void miss();
  bool is_storm() const;
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kWindow = 100, kAllowed = kWindow / 5;
  std::atomic<uint64_t> calls_{0};
  uint64_t misses_[kAllowed + 1] = {};  // when the last ones were, as a ring
  size_t count_ = 0;
};

// While a function runs eagerly because too many calls missed: whether a call is like a recent one, so that it would have
// hit a program by now. Under the lock of the compiled object.
class RecentCalls {
 public:
  // Takes in the call. `state` stands for what else it depends on.
  bool has_seen(const ArgumentLeaves& leaves, uint64_t state);

 private:
  uint64_t hashes_[16] = {};
  size_t next_ = 0;
};

// Finds the exact shape that makes up half of the last 256 calls under a dynamic entry: blocks of 256 calls elect a
// candidate by majority vote, and the next block counts it. A hit costs a hash of the symbols and a few relaxed loads and
// stores; calls of several threads at once may lose counts.
class HotShape {
 public:
  // Takes in the symbols of a call. True once for a shape that has become hot; it is that of this call.
  bool note(std::span<const int64_t> symbols);

 private:
  static constexpr uint32_t kBlock = 256;
  std::atomic<uint64_t> candidate_{0}, elected_{0};
  std::atomic<uint32_t> votes_{0}, matches_{0}, calls_{0};
  std::atomic<bool> is_hot_{false};  // candidate_ is, and nobody has been told yet
  std::atomic<uint64_t> told_{0};    // the shape that was reported last
};

// ---- What is said about them, once for each compiled object

// "generations of step (train.cpp:38) are at their limit of 8: …"
void say_limit(const std::string& function, size_t limit, const GuardFailure& failure);
void say_storm(const std::string& function, const GuardFailure& failure);

}  // namespace weft::compiler
