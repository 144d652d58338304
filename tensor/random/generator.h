// Generator: a seed and the next free counter of its Philox stream.
// Needs philox.h. Random ops reserve counters here, then draw as philox.h says.
#pragma once

#include <cstdint>
#include <mutex>

#include "tensor/random/philox.h"

namespace weft {

// PyTorch's default seed. Programs that never seed get the same numbers in every run.
inline constexpr uint64_t kDefaultSeed = 67280421310721;

struct GeneratorState {
  uint64_t seed = kDefaultSeed;
  uint64_t offset = 0;  // in counters
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

// Threads may share one; which of them gets which counters is then up to them.
class Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed) : state_{seed, 0} {}

  // The first of so many counters that nobody else gets.
  uint64_t reserve(uint64_t counters) { return draw(counters).offset; }
  // The same together with the seed that belongs to them.
  GeneratorState draw(uint64_t counters);

  // Restarts the stream of this seed at its beginning.
  void manual_seed(uint64_t seed) { set_state({seed, 0}); }
  uint64_t seed() const { return get_state().seed; }
  uint64_t offset() const { return get_state().offset; }

  GeneratorState get_state() const;
  void set_state(GeneratorState state);

 private:
  mutable std::mutex mutex_;
  GeneratorState state_;
};

// The generator of ops that are given none.
Generator& default_generator();

// Seeds the default generator.
void manual_seed(uint64_t seed);

}  // namespace weft
