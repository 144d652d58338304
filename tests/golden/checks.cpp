// Checks of one run: against the stored results, and against what eager gave.
// Place: beside program.h; main.cpp calls them.
#include "tests/golden/checks.h"

#include <set>
#include <sstream>

#include "tests/support/compare.h"

namespace weft::tests {
namespace {

// Tolerances beyond those of the README, each with its reason.
struct Wider {
  const char* program;
  Tolerance tolerance;
  const char* reason;
};
const std::vector<Wider> kWider = {};

Tolerance tolerance_of(const Program& program, DType dtype) {
  static const std::set<std::string> pointwise = {"pointwise", "special", "binary", "promotion",
                                                  "integer",   "ternary", "cast"};
  for (const Wider& wider : kWider)
    if (wider.program == program.group + "/" + program.id) return wider.tolerance;
  return golden_tolerance(dtype, pointwise.contains(program.group) ? 1 : 8);
}

// PyTorch's vectorised fmod and remainder give NaN where the quotient overflows, its scalar ones (and CUDA) the exact
// remainder. Ours is exact everywhere, so a stored NaN of that kind gives way to the mathematical value.
Tensor without_overflowed_quotients(const Program& program, const RunResult& run, const Tensor& want) {
  const bool is_remainder = program.id == "remainder_special";
  if (program.group != "special" || (program.id != "fmod_special" && !is_remainder)) return want;
  const std::vector<double> x = doubles_of(run.values.at("x")), y = doubles_of(run.values.at("y"));
  Tensor exact = copy_of(want);
  auto* values = data_of<float>(exact);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(values[i]) || !std::isfinite(x[i]) || !std::isfinite(y[i]) || y[i] == 0) continue;
    const double mod = std::fmod(x[i], y[i]);
    values[i] = static_cast<float>(is_remainder && mod != 0 && (mod < 0) != (y[i] < 0) ? mod + y[i] : mod);
  }
  return exact;
}

}  // namespace

std::string check_outputs(const Program& program, const InputSet& set, const NamedTensors& tensors,
                          const RunResult& run) {
  for (const auto& [name, key] : set.outputs) {
    const Tensor &got = run.values.at(name),
                 want = without_overflowed_quotients(program, run, tensors.at(key));
    if (std::string text = difference(got, want, tolerance_of(program, want.dtype())); !text.empty())
      return name + ": " + text;
  }
  for (const auto& [name, view] : set.views) {
    const Tensor &output = run.values.at(name), &input = run.values.at(view.of);
    if (output->storage != input->storage) return name + ": is a copy, not a view of " + view.of;
    if (output.strides() != view.strides || output.storage_offset() != view.offset) {
      std::ostringstream text;
      text << name << ": strides " << output.strides() << " and offset " << output.storage_offset()
           << " instead of " << SizesView(SymList(view.strides)) << " and " << view.offset;
      return text.str();
    }
  }
  for (const std::string& name : program.outputs) {
    // An empty view is not told from an empty copy.
    const Tensor& output = run.values.at(name);
    if (set.views.contains(name) || run.leaves.contains(name) || int_numel(output) == 0) continue;
    for (const auto& [input, leaf] : run.leaves) {
      if (output->storage == run.values.at(input)->storage)
        return name + ": shares the storage of " + input + "; it must be a copy";
    }
  }
  return {};
}

std::string check_gradients(const Program& program, const InputSet& set, const NamedTensors& tensors,
                            const Gradients& gradients) {
  for (const auto& [name, gradient] : gradients) {
    const auto expected = set.grads.find(name);
    if (expected == set.grads.end()) {
      if (gradient.defined()) return "grad of " + name + ": " + describe(gradient) + "; none may arrive";
      continue;
    }
    const Tensor& want = tensors.at(expected->second);
    if (std::string text = difference(gradient, want, tolerance_of(program, want.dtype())); !text.empty())
      return "grad of " + name + ": " + text;
  }
  return {};
}

std::string check_same_as_eager(const RunResult& run, const RunResult& eager, bool has_equal_bits) {
  for (const auto& [name, got] : run.values) {
    const Tensor& want = eager.values.at(name);
    if (std::string text = has_equal_bits ? difference_of_bits(got, want) : ""; !text.empty())
      return name + ": not as eager: " + text;
    if (std::string text = difference_of_strides(got, want); !text.empty())
      return name + ": not as eager: " + text;
    if (got.requires_grad() != want.requires_grad())
      return name + (want.requires_grad() ? ": requires no grad, unlike eager's"
                                          : ": requires grad, unlike eager's");
    for (const auto& [other, sharer] : run.values) {
      const bool shares = got->storage == sharer->storage,
                 eager_shares = want->storage == eager.values.at(other)->storage;
      if (int_numel(got) == 0 || int_numel(sharer) == 0) continue;
      if (shares != eager_shares)
        return name +
               (shares ? ": shares the storage of " : ": is a copy, in eager it shares the storage of ") +
               other;
      if (shares && eager.leaves.contains(other) && got.storage_offset() != want.storage_offset())
        return name + ": not at the offset of eager";
    }
  }
  return {};
}

std::string check_same_gradients(const Gradients& gradients, const Gradients& eager) {
  for (const auto& [name, want] : eager)
    if (std::string text = difference_of_bits(gradients.at(name), want); !text.empty())
      return "grad of " + name + ": not as eager: " + text;
  return {};
}

}  // namespace weft::tests
