// The state of a generator, guarded, and the default one.
// Needs generator.h only; the numbers themselves come from philox.h.
#include "tensor/random/generator.h"

#include "tensor/base/error.h"
#include "tensor/cell.h"

namespace weft {
namespace {

// A trace has an environment for cells.
void refuse_in_trace(const char* what) {
  WEFT_CHECK(current_cell_environment() == nullptr, what,
             ": inside a compiled function this would happen once, while it is traced, and not at each call; "
             "seed and "
             "save generators outside. Random ops inside draw anew at each call");
}

}  // namespace

GeneratorState Generator::draw(uint64_t counters) {
  refuse_in_trace("generator: numbers are drawn on the host");
  const std::lock_guard lock(mutex_);
  const GeneratorState drawn = state_;
  state_.offset += counters;
  return drawn;
}

GeneratorState Generator::get_state() const {
  refuse_in_trace("generator: get_state()");
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(GeneratorState state) {
  refuse_in_trace("generator: manual_seed() or set_state()");
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
