// shrink_program: a small program that fails like a given one.
// Needs program.h.
#pragma once

#include "tests/fuzz/program.h"

namespace weft::tests {

// How a program fails; empty if it does not.
using FailureOf = std::function<std::string(const Program&)>;

// Leaves out calls, steps, operands and properties of inputs, puts inputs in the place of values and makes sizes smaller, for
// as long as the program fails; tries so many changes at most.
Program shrink_program(Program program, const FailureOf& failure_of, int max_tries = 600);

}  // namespace weft::tests
