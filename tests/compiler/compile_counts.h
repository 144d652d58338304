// Counts of what compile() did in a part of a test.
// Needs compiler/runtime/stats.h.
#pragma once

#include "weft.h"

namespace weft::testing {

// What all compiled functions did since this object was made.
class Counts {
 public:
  // Programs, or branches of one, that were made; a backward that is made later belongs to its program.
  uint64_t traces() const { return compile_stats().traces - start_.traces; }
  uint64_t misses() const { return compile_stats().misses - start_.misses; }
  uint64_t hits() const { return compile_stats().hits - start_.hits; }
  uint64_t audits() const { return compile_stats().audits - start_.audits; }
  uint64_t breaks() const { return compile_stats().breaks - start_.breaks; }
  uint64_t eager_calls() const { return compile_stats().eager_calls - start_.eager_calls; }

 private:
  CompileStats start_ = compile_stats();
};

}  // namespace weft::testing
