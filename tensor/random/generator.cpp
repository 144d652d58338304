// The state of a generator, guarded, and the default one.
// Needs generator.h only; the numbers themselves come from philox.h.
#include "tensor/random/generator.h"

namespace weft {

GeneratorState Generator::draw(uint64_t counters) {
  const std::lock_guard lock(mutex_);
  const GeneratorState drawn = state_;
  state_.offset += counters;
  return drawn;
}

GeneratorState Generator::get_state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(GeneratorState state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

Generator& default_generator() {
  static auto* const generator =
      new Generator;  // never destroyed: static objects may draw while the process ends
  return *generator;
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace weft
