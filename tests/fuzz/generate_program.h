// generate_program: a random program of the op table.
// Needs program.h. Ops are picked by kind and called as their schema and samples say; no op is named here.
#pragma once

#include "tests/fuzz/program.h"

namespace weft::tests {

// The same seed gives the same program. Steps were tried eagerly at the first batch size; now and then the last one throws.
Program generate_program(uint32_t seed);

}  // namespace weft::tests
