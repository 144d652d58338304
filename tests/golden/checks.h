// Checks of one run of a reference program: against the stored results, and against what eager gave.
// Needs program. Answers are texts: empty when all is as it must be, otherwise what is not.
#pragma once

#include "tests/golden/program.h"

namespace weft::tests {

using Gradients = std::map<std::string, Tensor>;

// Values within the tolerances of the README; views that share the storage of their input, and copies that do not.
std::string check_outputs(const Program& program, const InputSet& set, const NamedTensors& tensors,
                          const RunResult& run);
std::string check_gradients(const Program& program, const InputSet& set, const NamedTensors& tensors,
                            const Gradients& gradients);

// Equal bits in all outputs and inputs, equal strides, and memory shared by the same ones. Not the bits where cuBLASLt took
// part: its algorithm and its epilogues are chosen by the plan, so that values are held to the stored ones alone.
std::string check_same_as_eager(const RunResult& run, const RunResult& eager, bool has_equal_bits);
std::string check_same_gradients(const Gradients& gradients, const Gradients& eager);

}  // namespace weft::tests
