// The table harness, compiled: each op as a function of its own gives what eager code gives to the bit, with its loops
// interpreted and in generated code; layouts, writes in place, gradients and errors too.
// Needs sample and kernel_batch: the kernels of an op are collected and compiled together. Each sample is interpreted in one of
// its dtypes, and one sample of an op is compiled; WEFT_COMPILED_TABLE=whole compiles all samples in all dtypes, with unknown
// sizes beside known ones.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/runtime/kernel_batch.h"
#include "tests/harness/sample.h"
#include "tests/support/compare.h"
#include "weft.h"

namespace weft::tests {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

constexpr DType kAllDTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Int64,
                                DType::Int32,   DType::Int16,   DType::Int8,     DType::UInt8,   DType::Bool};

bool is_whole() {
  const char* text = std::getenv("WEFT_COMPILED_TABLE");
  return text != nullptr && std::string_view(text) == "whole";
}

uint32_t hash_of(const std::string& text) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash >> 4;
}

bool is_in_place(const Op& op) { return op.name().ends_with('_'); }
bool has_values(const Op& op) { return !op.name().starts_with("empty"); }  // or memory as it was found

// Which call of a function.
struct Variant {
  DType dtype = DType::Float32;
  int layouts = 0;  // row-major; all transposed; with gaps between others
  bool backward = false;
  bool dynamic = false;
};

std::string text_of(const Variant& v) {
  std::string text(short_name_of(v.dtype));
  text += v.layouts == 0 ? ", row-major" : v.layouts == 1 ? ", transposed" : ", with gaps";
  if (v.backward) text += ", with gradients";
  return text + (v.dynamic ? ", sizes unknown" : "");
}

Tensors make_inputs(const Op& op, const Sample& sample, const Variant& v) {
  const std::vector<TensorSpec> specs = sample.tensors();
  Tensors tensors = make_tensors(op, sample, v.dtype, v.backward ? Fill::Gradients : Fill::Specials);
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (v.layouts == 1) tensors[k] = arranged(tensors[k], Arrangement::Transposed);
    if (v.layouts == 2 && k % 2 == 0) tensors[k] = arranged(tensors[k], Arrangement::Gaps);
    if (v.backward && !specs[k].dtype) tensors[k].requires_grad_();
  }
  return tensors;
}

// A leaf may not be written in place.
Function function_of(const Op& op, const Sample& sample, bool backward) {
  return [&op, sample, backward](const Tensors& inputs) {
    Tensors operands = inputs;
    if (backward && is_in_place(op)) operands[0] = mul(operands[0], 1);
    return sample.call(op, operands).run();
  };
}

struct Outcome {
  std::string error;
  Tensors results, inputs, gradients;
};

Outcome call(const Op& op, const Sample& sample, const Variant& v, const Function& function) {
  Outcome outcome;
  outcome.inputs = make_inputs(op, sample, v);
  manual_seed(11);
  try {
    outcome.results = function(outcome.inputs);
    if (!v.backward) return outcome;
    Tensors roots, tangents;
    for (const Tensor& result : outcome.results) {
      if (!result.requires_grad()) continue;
      roots.push_back(result);
      const AutoGradMode off(false);
      tangents.push_back(
          sin(arange(result.numel(), kFloat32) * 1.7 + 1).view(result.sizes()).to(result.dtype()));
    }
    if (!roots.empty()) autograd::backward(roots, tangents);
    for (const Tensor& input : outcome.inputs) outcome.gradients.push_back(input.grad());
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
    outcome.error = error.what();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

std::string difference_of_all(const char* what, const Tensors& got, const Tensors& want, bool values) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " " + what + "s instead of " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    std::string text = values ? difference_of_bits(got[i], want[i]) : difference_of_types(got[i], want[i]);
    if (text.empty() && got[i].defined()) {
      text = difference_of_strides(got[i], want[i]);
      if (text.empty() && got[i].requires_grad() != want[i].requires_grad())
        text = want[i].requires_grad() ? "requires no grad" : "requires grad";
    }
    if (!text.empty()) return std::string(what) + " " + std::to_string(i) + ": " + text;
  }
  return {};
}

std::string difference(const Op& op, const Outcome& got, const Outcome& want) {
  if (got.error != want.error) return "error '" + got.error + "' instead of '" + want.error + "'";
  if (!want.error.empty()) return {};
  std::string text = difference_of_all("result", got.results, want.results, has_values(op));
  if (text.empty()) text = difference_of_all("input", got.inputs, want.inputs, true);
  if (text.empty()) text = difference_of_all("gradient", got.gradients, want.gradients, has_values(op));
  for (size_t i = 0; text.empty() && i < want.results.size(); ++i)
    for (size_t k = 0; k < want.inputs.size(); ++k)
      if (want.results[i].defined() &&
          got.results[i].is_same(got.inputs[k]) != want.results[i].is_same(want.inputs[k]))
        text = "result " + std::to_string(i) + " is input " + std::to_string(k) + " in one of the modes";
  return text;
}

class CompiledOp : public ::testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }

  struct Case {
    const Sample& sample;
    std::vector<Variant> calls;
    std::vector<Outcome> want;
    Function compiled;
  };

  // Eagerly, then compiled with the kernels interpreted. A function for all the calls.
  void add(const Sample& sample, const std::vector<Variant>& calls, const char* backend) {
    Case made{sample, calls, {}, {}};
    const Function function = function_of(op(), sample, calls[0].backward);
    CompileOptions options{.backend = backend, .audit = false};
    if (calls[0].dynamic) options.dynamic = true;
    made.compiled = compile(function, options);
    for (const Variant& v : calls) {
      SCOPED_TRACE(op().name() + "(" + sample.text + ") in " + text_of(v) + ", the first time");
      made.want.push_back(call(op(), sample, v, function));
      if (made.want.back().error.empty()) ++num_working_;
      EXPECT_EQ(difference(op(), call(op(), sample, v, made.compiled), made.want.back()), "");
    }
    cases_.push_back(std::move(made));
  }

  // Whether the sample works in this dtype, row-major.
  bool works(const Sample& sample, DType dtype) {
    return call(op(), sample, {.dtype = dtype}, function_of(op(), sample, false)).error.empty();
  }

  DType first_working(const Sample& sample) {
    return *std::find_if(std::begin(kAllDTypes), std::end(kAllDTypes),
                         [&](DType dtype) { return works(sample, dtype); });
  }

  compiler::KernelBatch batch_;
  std::vector<Case> cases_;
  size_t num_working_ = 0;
};

TEST_P(CompiledOp, GivesEagerResults) {
  const std::vector<Sample> samples = samples_of(op());
  const bool whole = is_whole();
  // The same in every process, and another for each op.
  const size_t turn = static_cast<size_t>(hash_of(op().name()));
  std::vector<size_t> usable;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<DType> working, refused;
    for (const DType dtype : kAllDTypes) (works(samples[i], dtype) ? working : refused).push_back(dtype);
    if (!working.empty()) usable.push_back(i);
    const size_t pick = turn + i;
    if (!whole) {
      if (!working.empty()) working = {working[pick % working.size()]};
      if (!refused.empty()) refused = {refused[pick % refused.size()]};
    }
    for (const DType dtype : refused) add(samples[i], {{.dtype = dtype}}, "weft");
    for (const DType dtype : working) {
      for (const bool dynamic : {false, true}) {
        if (!whole && dynamic != (pick % 2 == 0)) continue;
        add(samples[i],
            {{.dtype = dtype, .dynamic = dynamic},
             {.dtype = dtype, .layouts = 1, .dynamic = dynamic},
             {.dtype = dtype, .layouts = 2, .dynamic = dynamic}},
            whole ? "weft" : "interpret");
      }
      if (is_floating(dtype) && op().samples.check_gradient)
        add(samples[i], {{.dtype = dtype, .backward = true}}, whole ? "weft" : "interpret");
    }
  }
  ASSERT_FALSE(usable.empty());
  if (!whole) {
    const Sample& sample = samples[usable[turn % usable.size()]];
    const DType dtype = works(sample, DType::Float32) ? DType::Float32 : first_working(sample);
    add(sample, {{.dtype = dtype, .layouts = static_cast<int>(turn % 3), .dynamic = turn % 5 == 0}}, "weft");
    if (is_floating(dtype) && op().samples.check_gradient)
      add(sample, {{.dtype = dtype, .backward = true}}, "weft");
  }
  EXPECT_GT(num_working_, 0u);
  batch_.compile();
  for (const Case& made : cases_) {
    for (size_t i = 0; i < made.calls.size(); ++i) {
      SCOPED_TRACE(op().name() + "(" + made.sample.text + ") in " + text_of(made.calls[i]) + ", again");
      EXPECT_EQ(difference(op(), call(op(), made.sample, made.calls[i], made.compiled), made.want[i]), "");
    }
  }
  EXPECT_EQ(batch_.num_waiting(), 0u) << "calls that were made before compiled anew";
  // A pointwise op that is never a loop would pass without any.
  if (op().kind == Kind::Pointwise) {
    EXPECT_GT(batch_.num_distinct(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(OpTable, CompiledOp, ::testing::ValuesIn(OpTable::instance().all()),
                         [](const auto& info) { return test_name_of(*info.param); });

}  // namespace
}  // namespace weft::tests
