// Arguments, steps, and what a call leaves behind.
// Place: the out-of-line half of program.h.
#include "tests/fuzz/program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "tensor/base/half.h"
#include "tests/support/compare.h"

namespace weft::tests {

bool is_in_place(const Op& op) { return op.name().ends_with('_'); }

// ---- Arguments ------------------------------------------------------------------------------------------------------

namespace {

int64_t evaluate(const Extent& extent, int64_t batch) {
  return extent.plus + (extent.of == Extent::Of::Batch ? batch : 0);
}

Tensor make_values(const ProgramInput& input, const SymList& sizes, std::mt19937& random) {
  const double inf = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0, -0.0, 1, -1, inf, -inf, std::numeric_limits<double>::quiet_NaN(),
                             0.5, 1e-40};
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  Tensor x = make_tensor(sizes, input.dtype);
  const int64_t n = int_numel(x);
  visit(input.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = data_of<T>(x);
    for (int64_t i = 0; i < n; ++i) {
      const bool special = input.specials && below(5) == 0;
      const double value = special ? specials[below(std::size(specials))]
                                   : std::uniform_real_distribution<double>(input.low, input.high)(random);
      if constexpr (std::is_same_v<T, bool>) to[i] = below(2) != 0;
      else if constexpr (std::is_same_v<T, BFloat16>) to[i] = to_bfloat16(value);
      else if constexpr (std::is_same_v<T, Float16>) to[i] = to_float16(value);
      else if constexpr (std::is_floating_point_v<T>) to[i] = static_cast<T>(value);
      else if (input.below > 0) to[i] = static_cast<T>(below(static_cast<size_t>(input.below)));
      else if (special) to[i] = below(2) != 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
      else to[i] = static_cast<T>(std::lround(std::is_unsigned_v<T> ? std::abs(value) * 2 : value * 2));
    }
  });
  return x;
}

Tensor shared(const Tensor& x, ProgramInput::Shares how) {
  switch (how) {
    case ProgramInput::Shares::Transposed: return x.dim() < 2 ? x.alias() : x.transpose(0, 1);
    case ProgramInput::Shares::Tail: return x.dim() == 0 || x.size(0) == 0 ? x.alias() : x.slice(0, 1);
    case ProgramInput::Shares::EverySecond: return x.dim() == 0 ? x.alias() : x.slice(0, 0, {}, 2);
    default: return x;
  }
}

}  // namespace

Tensors make_inputs(const Program& program, size_t call) {
  const AutoGradMode off(false);
  ProgramValues made;
  Tensors inputs;
  for (const ProgramInput& input : program.inputs) {
    Tensor& x = made[input.name];
    if (input.shares != ProgramInput::Shares::Nothing) {
      x = shared(made[input.with], input.shares);
    } else {
      std::mt19937 random(program.seed * 7919 + input.name * 131 + static_cast<uint32_t>(call));
      SymList sizes;
      for (const Extent& size : input.sizes)
        sizes.push_back(Sym::from_int(std::max<int64_t>(evaluate(size, program.batches[call]), 0)));
      x = arranged(make_values(input, sizes, random), input.layout);
    }
    if (input.requires_grad) x.requires_grad_();
    inputs.push_back(x);
  }
  return inputs;
}

Numbers make_numbers(const Program& program, size_t call) {
  std::mt19937 random(program.seed * 104729 + static_cast<uint32_t>(call));
  Numbers numbers;
  for (uint32_t i = 0; i < program.num_numbers; ++i) {
    const double value = std::uniform_real_distribution<double>(-3, 3)(random);
    numbers.push_back(i % 2 == 0 ? Scalar(value) : Scalar(static_cast<int64_t>(std::lround(value))));
  }
  return numbers;
}

// ---- Steps ----------------------------------------------------------------------------------------------------------

namespace {

Sym evaluate(const Extent& extent, ProgramValues& values) {
  switch (extent.of) {
    case Extent::Of::Size: return values[extent.value].size(extent.dim) + extent.plus;
    case Extent::Of::Numel: return values[extent.value].numel() + extent.plus;
    default: return Sym::from_int(extent.plus);
  }
}

Attr evaluate(const ProgramAttr& attr, ProgramValues& values) {
  if (const auto* plain = std::get_if<Attr>(&attr)) return *plain;
  if (const auto* extent = std::get_if<Extent>(&attr)) return evaluate(*extent, values);
  SymList sizes;
  for (const Extent& extent : std::get<std::vector<Extent>>(attr)) sizes.push_back(evaluate(extent, values));
  return sizes;
}

// The sign and the digits of a NaN are nobody's.
bool shows_nan_bits(const Op& op) {
  return op.view_dtype != nullptr || op.name().starts_with("signbit") || op.name().starts_with("copysign");
}
bool has_nan(const Tensor& x) {
  const AutoGradMode off(false);
  return is_floating(x.dtype()) && any(isnan(x)).item<bool>();
}

}  // namespace

Tensors run_step(const Program& program, size_t step_index, ProgramValues& values, const Numbers& numbers,
                 bool look) {
  const ProgramStep& step = program.steps[step_index];
  std::vector<Operand> operands;
  for (const ProgramOperand& operand : step.operands) {
    switch (operand.kind) {
      case ProgramOperand::Kind::None: operands.emplace_back(); break;
      case ProgramOperand::Kind::Value: operands.emplace_back(values[operand.value]); break;
      case ProgramOperand::Kind::Number: operands.emplace_back(operand.number); break;
      case ProgramOperand::Kind::Argument: operands.emplace_back(numbers[operand.argument]); break;
    }
  }
  if (look && shows_nan_bits(*step.op)) {
    for (const Operand& operand : operands)
      if (operand.is_tensor() && has_nan(*operand.tensor)) throw NotComparable();
  }
  Attrs attrs;
  for (const ProgramAttr& attr : step.attrs) attrs.push_back(evaluate(attr, values));
  Tensors results = call_boxed(*step.op, operands, attrs, line_of_step(step_index));
  WEFT_CHECK(results.size() >= step.results.size(), "the program wants ", step.results.size(), " results of ",
             step.op->name(), ", which gave ", results.size());
  for (size_t i = 0; i < step.results.size(); ++i) values[step.results[i]] = results[i];
  return results;
}

ProgramFunction function_of(const Program& given, bool look) {
  return [program = given, look](const Tensors& inputs, const Numbers& numbers) {
    ProgramValues values;
    for (size_t i = 0; i < inputs.size(); ++i) values[program.inputs[i].name] = inputs[i];
    for (size_t step = 0; step < program.steps.size(); ++step) run_step(program, step, values, numbers, look);
    Tensors results;
    for (const ValueName name : program.results) results.push_back(values[name]);
    if (program.backward == Backward::None || program.backward == Backward::Outside) return results;
    Tensor loss;
    for (const Tensor& result : Tensors(results)) {
      if (!is_floating(result.dtype()) || !result.requires_grad()) continue;
      const Tensor part = (result * sin(result.detach())).sum();
      loss = loss.defined() ? loss + part : part;
    }
    if (!loss.defined()) return results;
    if (program.backward == Backward::BackwardInside) {
      loss.backward();
      return results;
    }
    Tensors leaves;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (program.inputs[i].requires_grad) leaves.push_back(inputs[i]);
    for (const Tensor& gradient : autograd::grad({loss}, leaves, {}, {}, false, true))
      if (gradient.defined()) results.push_back(gradient);
    return results;
  };
}

// ---- Outcomes -------------------------------------------------------------------------------------------------------

Outcome call_program(const Program& program, const ProgramFunction& function, size_t call) {
  Outcome outcome;
  outcome.inputs = make_inputs(program, call);
  const Numbers numbers = make_numbers(program, call);
  std::vector<uint32_t> versions;
  for (const Tensor& x : outcome.inputs) versions.push_back(x.version());
  manual_seed(program.seed + 1);
  try {
    outcome.results = function(outcome.inputs, numbers);
    if (program.backward == Backward::Outside) {
      Tensors roots, tangents;
      for (const Tensor& result : outcome.results) {
        if (!is_floating(result.dtype()) || !result.requires_grad()) continue;
        roots.push_back(result);
        const AutoGradMode off(false);
        tangents.push_back(
            sin(arange(result.numel(), kFloat32) * 1.7 + 1).view(result.sizes()).to(result.dtype()));
      }
      if (!roots.empty()) autograd::backward(roots, tangents);
    }
  } catch (const InternalError& error) {
    outcome.error = error.what();
    outcome.is_defect = true;
  } catch (const Error& error) {
    outcome.error = error.what();
  } catch (const std::exception& error) {
    outcome.error = error.what();
    outcome.is_defect = true;
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    outcome.written.push_back(outcome.inputs[i].version() != versions[i]);
    if (program.inputs[i].requires_grad) outcome.gradients.push_back(outcome.inputs[i].grad());
  }
  return outcome;
}

namespace {

// The step whose line an error names; beyond all where there is none.
size_t step_of_error(const std::string& text) {
  const size_t at = text.rfind("program:");
  return at == std::string::npos ? kMostSteps : static_cast<size_t>(std::atoi(text.c_str() + at + 8)) - 1;
}

std::string without_sizes(const std::string& text) {
  std::string rest;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[';
    if (depth == 0) rest += c;
    depth -= c == ']';
  }
  return rest;
}

// Which tensors are one, and which share memory.
std::string difference_of_sharing(const Tensors& got, const Tensors& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!want[i].defined() || !want[j].defined()) continue;
      std::ostringstream text;
      if (got[i].is_same(got[j]) != want[i].is_same(want[j]))
        text << "tensors " << j << " and " << i << " of inputs, results and gradients are "
             << (want[i].is_same(want[j]) ? "one tensor in eager code only" : "two tensors in eager code");
      else if (int_numel(got[i]) > 0 && int_numel(got[j]) > 0 &&
               (got[i]->storage == got[j]->storage) != (want[i]->storage == want[j]->storage))
        text << "tensors " << j << " and " << i << " of inputs, results and gradients share memory "
             << (want[i]->storage == want[j]->storage ? "in eager code only" : "but not in eager code");
      if (!text.str().empty()) return text.str();
    }
  }
  return {};
}

std::string difference_of_tensors(const char* what, const Tensors& got, const Tensors& want) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " " + what + "s instead of " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string name = std::string(what) + " " + std::to_string(i) + ": ";
    if (std::string text = difference_of_bits(got[i], want[i]); !text.empty()) return name + text;
    if (!got[i].defined()) continue;
    if (std::string text = difference_of_strides(got[i], want[i]); !text.empty()) return name + text;
    if (got[i].requires_grad() != want[i].requires_grad())
      return name + (want[i].requires_grad() ? "requires no grad" : "requires grad");
  }
  return {};
}

// Note [Errors of programs]
// The text and the line are those of eager code. But what nobody reads is not computed, so that its error need not come;
// and an error in sizes and dtypes comes while the function is traced, before one that depends on values.
// What backward would raise is known when it is traced, with the sizes of that call.
bool may_differ(const Program& program, const std::string& got, const std::string& want) {
  if (got.starts_with("backward: ") && without_sizes(got) == without_sizes(want)) return true;
  const size_t wanted = step_of_error(want), came = step_of_error(got);
  if (wanted >= program.steps.size() || came <= wanted) return false;
  if (!got.empty()) return true;
  const std::vector<ValueName>& given = program.steps[wanted].results;
  return std::none_of(program.results.begin(), program.results.end(), [&](ValueName result) {
    return std::find(given.begin(), given.end(), result) != given.end();
  });
}

}  // namespace

std::string difference_of(const Program& program, const Outcome& got, const Outcome& want) {
  if (got.is_defect) return "defect: " + got.error;
  if (got.error != want.error && !may_differ(program, got.error, want.error))
    return "error: " + (got.error.empty() ? "none" : got.error) +
           "\n  instead of: " + (want.error.empty() ? "none" : want.error);
  if (!want.error.empty()) return {};  // eager code has done half by then
  if (std::string text = difference_of_tensors("result", got.results, want.results); !text.empty())
    return text;
  if (std::string text = difference_of_tensors("input", got.inputs, want.inputs); !text.empty()) return text;
  if (std::string text = difference_of_tensors("gradient", got.gradients, want.gradients); !text.empty())
    return text;
  for (size_t i = 0; i < want.written.size(); ++i)
    if (got.written[i] != want.written[i])
      return "input " + std::to_string(i) + ": its version " + (want.written[i] ? "has not" : "has") +
             " moved";
  Tensors all_got = got.inputs, all_want = want.inputs;
  for (const auto part : {&Outcome::results, &Outcome::gradients}) {
    all_got.insert(all_got.end(), (got.*part).begin(), (got.*part).end());
    all_want.insert(all_want.end(), (want.*part).begin(), (want.*part).end());
  }
  return difference_of_sharing(all_got, all_want);
}

// ---- Lines ----------------------------------------------------------------------------------------------------------

// Steps have lines of their own, so that what is said of one names it.
// clang-format off
namespace {
const SourceLocation kLines[kMostSteps] = {
#line 1 "program"
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
    SourceLocation::current(),
};
}  // namespace
// clang-format on

SourceLocation line_of_step(size_t step) { return kLines[step]; }

}  // namespace weft::tests
