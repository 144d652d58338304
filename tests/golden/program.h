// A stored reference program: its statements, inputs and expected results, and running it on ops found by name.
// Needs tests/support. The format is that of tests/data/golden/README.md.
#pragma once

#include <functional>
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
  Device device = kCPU;  // where it runs
};

std::vector<Program> read_programs(const std::string& manifest);

// A program as a function: of the inputs in the order of InputSet::inputs, giving Program::outputs in their order.
using ProgramFunction = std::function<std::vector<Tensor>(std::vector<Tensor>)>;
// The one that runs the statements. The program must outlive it. Errors: those of the ops; Error for an op that is not
// there.
ProgramFunction function_of(const Program& program);

// What one run of a program gave.
struct RunResult {
  std::map<std::string, Tensor> values;  // inputs after the run and outputs, by name
  std::map<std::string, Tensor> leaves;  // the inputs' leaves, by name
  Device device = kCPU;
};

// Calls the function, eager or compiled, with fresh copies of the inputs.
RunResult run_program(const Program& program, const ProgramFunction& function, const InputSet& set,
                      const NamedTensors& tensors);

enum class Pullback { Grad, Backward };
// The gradients of the leaves named in set.grads and of the others that require one, by name; undefined where none arrived.
std::map<std::string, Tensor> gradients_of(const RunResult& run, const InputSet& set,
                                           const NamedTensors& tensors, Pullback how);

}  // namespace weft::tests
