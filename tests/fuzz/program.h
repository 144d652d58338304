// Program: what a function of a user might do, as data: ops on its arguments, writes in place, gradients. Runs and prints.
// Needs the table and the samples of the harness. Values are numbered once and keep their numbers when others go.
#pragma once

#include "tests/harness/sample.h"
#include "weft.h"

namespace weft::tests {

using ValueName = uint32_t;

// A size or another integer: a plain one, or one that follows the batch size of the call or the size of a value.
struct Extent {
  enum class Of : uint8_t { Nothing, Batch, Size, Numel };
  Of of = Of::Nothing;
  ValueName value = 0;
  int64_t dim = 0;
  int64_t plus = 0;
};

struct ProgramInput {
  ValueName name = 0;
  std::vector<Extent> sizes;  // plain or of the batch
  DType dtype = DType::Float32;
  double low = -3, high = 3;
  bool specials = false;
  int64_t below = 0;  // integers from 0 to below - 1, unless 0
  Arrangement layout = Arrangement::Contiguous;
  bool requires_grad = false;
  // Memory of an earlier input instead of its own.
  enum class Shares : uint8_t { Nothing, Itself, Transposed, Tail, EverySecond };
  Shares shares = Shares::Nothing;
  ValueName with = 0;
};

struct ProgramOperand {
  enum class Kind : uint8_t { None, Value, Number, Argument };
  Kind kind = Kind::None;
  ValueName value = 0;
  Scalar number;
  uint32_t argument = 0;  // among the numbers that a call is given
};

using ProgramAttr = std::variant<Attr, Extent, std::vector<Extent>>;

struct ProgramStep {
  const Op* op = nullptr;
  std::vector<ProgramOperand> operands;  // as a Call has them
  std::vector<ProgramAttr> attrs;
  std::vector<ValueName> results;  // none of an op in place; the first few of a list
};

// What is asked for beside results. Inside: the function itself asks for gradients of a sum over its results.
enum class Backward : uint8_t { None, Outside, GradInside, BackwardInside };

struct Program {
  uint32_t seed = 0;
  std::vector<ProgramInput> inputs;
  uint32_t num_numbers = 0;
  std::vector<ProgramStep> steps;
  std::vector<ValueName> results;
  Backward backward = Backward::None;
  bool dynamic = false;
  std::vector<int64_t> batches;  // a call each
};

bool is_in_place(const Op& op);

// As a short function with its calls.
std::string to_string(const Program& program);

// ---- Running --------------------------------------------------------------------------------------------------------

using Tensors = std::vector<Tensor>;
using Numbers = std::vector<Scalar>;
using ProgramFunction = std::function<Tensors(const Tensors&, const Numbers&)>;

// The place of a step in messages: a line of the printed program.
SourceLocation line_of_step(size_t step);
constexpr size_t kMostSteps = 24;

// A program whose results are no function of its arguments: an op shows the bits of a NaN.
struct NotComparable {};

// The values of a running program by name.
class ProgramValues {
 public:
  Tensor& operator[](ValueName name) {
    if (name >= values_.size()) values_.resize(name + 1);
    return values_[name];
  }

 private:
  Tensors values_;
};

// The arguments of a call, made anew.
Tensors make_inputs(const Program& program, size_t call);
Numbers make_numbers(const Program& program, size_t call);

// Runs one step and gives all its results. Throws NotComparable, if it is asked to look.
Tensors run_step(const Program& program, size_t step, ProgramValues& values, const Numbers& numbers,
                 bool look);

// The program as a C++ function; copies the program. It looks for what cannot be compared only if asked.
ProgramFunction function_of(const Program& program, bool look = false);

// What a call left behind.
struct Outcome {
  std::string error;       // what it threw
  bool is_defect = false;  // InternalError, or no Error at all
  Tensors results, inputs, gradients;
  std::vector<bool> written;  // by input: whether its version moved
};
// Calls the function with the arguments of a call; the generator of random numbers begins anew.
Outcome call_program(const Program& program, const ProgramFunction& function, size_t call);

// How an outcome differs from that of eager code; empty if it does not. Note [Errors of programs] in program.cpp.
std::string difference_of(const Program& program, const Outcome& got, const Outcome& want);

}  // namespace weft::tests
