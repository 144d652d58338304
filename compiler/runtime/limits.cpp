// Limits: counting, and the warnings that go with it.
#include "compiler/runtime/limits.h"

#include <algorithm>

#include "compiler/trace/guard_words.h"
#include "tensor/base/log.h"

namespace weft::compiler {

std::optional<size_t> generation_limit(std::optional<int> limit, std::optional<bool> dynamic) {
  WEFT_CHECK(!limit || *limit > 0, "compile: the limit is ", *limit,
             "; it counts programs and is at least 1");
  if (limit) return static_cast<size_t>(*limit);
  if (dynamic == false) return std::nullopt;
  return static_cast<size_t>(kDefaultGenerations);
}

size_t choose_victim(std::span<const EntryAge> entries) {
  WEFT_ASSERT(!entries.empty(), "no entry");
  size_t num_dynamic = 0;
  for (const EntryAge& each : entries) num_dynamic += each.is_fully_dynamic;
  std::optional<size_t> victim;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].is_fully_dynamic && num_dynamic == 1 && entries.size() > 1) continue;
    if (!victim || entries[i].last_used < entries[*victim].last_used) victim = i;
  }
  return *victim;
}

void MissRate::miss() {
  hit();
  misses_[count_++ % std::size(misses_)] = calls();
}

bool MissRate::is_storm() const {
  // The ring then holds more than are allowed, and its oldest is the next to be replaced.
  return count_ >= std::size(misses_) && calls() - misses_[count_ % std::size(misses_)] < kWindow;
}

bool RecentCalls::has_seen(const ArgumentLeaves& leaves, uint64_t state) {
  uint64_t hash = state;
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  mix(leaves.structure);
  for (const Tensor* tensor : leaves.tensors) {
    mix(tensor->defined());
    if (!tensor->defined()) continue;
    const TensorImpl& x = *tensor->impl();
    mix(static_cast<uint64_t>(x.dtype) << 1 | x.needs_grad());
    mix(x.layout.sizes.size());
    for (size_t d = 0; d < x.layout.sizes.size(); ++d) {
      mix(static_cast<uint64_t>(ints(x.layout.sizes)[d]));
      mix(static_cast<uint64_t>(ints(x.layout.strides)[d]));
    }
  }
  for (const NumberLeaf& number : leaves.numbers)
    if (number.kind != NumberLeaf::Kind::Scalar) mix(bits_of(number.value));
  if (std::find(std::begin(hashes_), std::end(hashes_), hash) != std::end(hashes_)) return true;
  hashes_[next_++ % std::size(hashes_)] = hash;
  return false;
}

bool HotShape::note(std::span<const int64_t> symbols) {
  constexpr auto relaxed = std::memory_order_relaxed;
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const int64_t value : symbols) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  // The vote for the next block.
  const uint32_t votes = votes_.load(relaxed);
  if (votes == 0) {
    elected_.store(hash, relaxed);
    votes_.store(1, relaxed);
  } else {
    votes_.store(elected_.load(relaxed) == hash ? votes + 1 : votes - 1, relaxed);
  }
  const bool matches = candidate_.load(relaxed) == hash;
  if (matches) matches_.store(matches_.load(relaxed) + 1, relaxed);
  const uint32_t calls = calls_.load(relaxed) + 1;
  calls_.store(calls % kBlock, relaxed);
  if (calls == kBlock) {
    is_hot_.store(matches_.load(relaxed) * 2 >= kBlock && candidate_.load(relaxed) != told_.load(relaxed),
                  relaxed);
    if (!is_hot_.load(relaxed)) candidate_.store(elected_.load(relaxed), relaxed);
    votes_.store(0, relaxed);
    matches_.store(0, relaxed);
  }
  if (!matches || !is_hot_.load(relaxed) || !is_hot_.exchange(false, relaxed)) return false;
  told_.store(hash, relaxed);
  return true;
}

void say_limit(const std::string& function, size_t limit, const GuardFailure& failure) {
  warn_once("limit " + function,
            weft::detail::concat(
                function, " has reached its limit of ", limit,
                " programs: from now on the least recently used one goes for each new one. Last: ",
                failure.text, ". Scalar arguments, mark_dynamic() or a higher CompileOptions::limit help"));
}

void say_storm(const std::string& function, const GuardFailure& failure) {
  warn_once(
      "storm " + function,
      weft::detail::concat(function,
                           " runs eagerly for now: more than a fifth of its last 100 calls fitted no program "
                           "that was compiled before. Last: ",
                           failure.text));
}

}  // namespace weft::compiler
