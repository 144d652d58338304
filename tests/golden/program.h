// A stored reference program: its statements, inputs and expected results, and running it on ops found by name.
// Needs tests/support. The format is that of tests/data/golden/README.md.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/support/boxed_call.h"
#include "tests/support/safetensors_file.h"

namespace weft::tests {

struct Statement {
  std::vector<std::string> results;  // none: an in-place op, which writes into its first argument
  std::string op;
  nlohmann::json args, kwargs;
};

// How an output shares storage with an input.
struct SharedView {
  std::string of;
  std::vector<int64_t> strides;
  int64_t offset;
};

struct InputSet {
  struct Input {
    std::string name, tensor;
    bool requires_grad = false, is_transposed = false, is_times_one = false;
  };
  std::vector<Input> inputs;
  std::map<std::string, std::string> outputs, grad_outputs, grads;  // name -> key of the tensor
  std::map<std::string, SharedView> views;
};

struct Program {
  std::string group, id;
  std::vector<Statement> statements;
  std::vector<std::string> outputs;
  std::vector<InputSet> sets;
};

std::vector<Program> read_programs(const std::string& manifest);

// What one run of a program gave.
struct RunResult {
  std::map<std::string, Tensor> values;  // inputs after the run and all results, by name
  std::map<std::string, Tensor> leaves;  // the inputs' leaves, by name
  std::vector<std::string> outputs;      // names, in the program's order
};

// Fresh copies of the inputs, then the statements. Errors: those of the ops; Error for an op that is not there.
RunResult run_program(const Program& program, const InputSet& set, const NamedTensors& tensors);

enum class Pullback { Grad, Backward };
// The gradients of the leaves named in set.grads and of the others that require one, by name; undefined where none arrived.
std::map<std::string, Tensor> gradients_of(const RunResult& run, const InputSet& set,
                                           const NamedTensors& tensors, Pullback how);

}  // namespace weft::tests
