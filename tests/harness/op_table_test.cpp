// The table harness: every op × dtype × layout, held against itself on contiguous copies, its shape rule, its
// decomposition, one element alone, one thread, its in-place form and finite differences.
// One test per op, so that a failure names it. An op that the harness cannot call by itself must bring Samples::calls.
#include <gtest/gtest.h>

#include <set>

#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/pointwise_rule.h"
#include "tests/harness/sample.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

using Tensors = std::vector<Tensor>;

struct Exception {
  const char* op;
  const char* reason;
};
// Ops whose results are not a function of their operands' values alone.
constexpr Exception kNoFixedValue[] = {
    {"empty", "its data are not initialised"},
    {"empty_like", "its data are not initialised"},
    {"as_strided", "it reads the storage, whatever the operand's layout"},
};

template <size_t N>
bool is_in(const Exception (&list)[N], const Op& op) {
  return std::any_of(std::begin(list), std::end(list), [&](const Exception& e) { return op.name() == e.op; });
}

// In place on the shape alone: nothing is written.
constexpr Exception kMetadataOnly[] = {
    {"unsqueeze_", "shape"}, {"squeeze_", "shape"}, {"transpose_", "shape"}, {"t_", "shape"}};

constexpr DType kAllDTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Int64,
                                DType::Int32,   DType::Int16,   DType::Int8,     DType::UInt8,   DType::Bool};

// What a call gave: results, or the text of its Error.
struct Outcome {
  Tensors results;
  std::optional<std::string> error;
};

// A mutation works on a copy of operand 0 in the same layout.
Outcome run(const Op& op, const Sample& sample, Tensors tensors) {
  Outcome outcome;
  try {
    const BoundCall call = sample.call(op, tensors);
    outcome.results = call.run();
  } catch (const InternalError& error) {
    ADD_FAILURE() << op.name() << '(' << sample.text << "): " << error.what();
    outcome.error = error.what();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

Outcome run_without_tape(const Op& op, const Sample& sample, const Tensors& tensors) {
  Tensors copies;
  for (const Tensor& x : tensors) copies.push_back(copy_of(x));
  return run(op, sample, copies);
}

std::string difference_of_all(const Tensors& got, const Tensors& want) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " results instead of " + std::to_string(want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (const std::string text = difference_of_bits(got[i], want[i]); !text.empty())
      return "result " + std::to_string(i) + ": " + text;
  }
  return {};
}

class Harness : public ::testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  bool is_in_place() const { return op().name().ends_with('_'); }
  // The op that an in-place form is derived from or named after.
  const Op* base() const {
    return op().base != nullptr ? op().base
                                : OpTable::instance().find(op().name().substr(0, op().name().size() - 1));
  }
  bool has_fixed_value() const { return !op().is_random && !is_in(kNoFixedValue, op()); }

  void check_sample(const Sample& sample, DType dtype);
  void check_infer(const Sample& sample, const Tensors& tensors, const Outcome& outcome);
  void check_layouts(const Sample& sample, const Tensors& tensors, const Outcome& contiguous);
  void check_decomposition(const Sample& sample, const Tensors& tensors, const Outcome& outcome);
  void check_conversion(const Sample& sample, const Tensors& tensors, const Outcome& outcome);
  void check_in_place(const Sample& sample, const Tensors& tensors);
  void check_overlap(DType dtype);
  void check_single_elements(DType dtype);
  void check_threads();
  void check_gradients(const Sample& sample);

  std::set<std::string> worked_;  // texts of samples
};

// ---- Results and shape rules ----------------------------------------------------------------------------------------

void Harness::check_infer(const Sample& sample, const Tensors& tensors, const Outcome& outcome) {
  const BoundCall call = sample.call(op(), tensors);
  if (op().kind == Kind::View) {
    const Layout<Sym> layout = op().view(tensors[0]->layout, call.attrs(), tensors[0].dtype());
    EXPECT_EQ(outcome.results[0].sizes(), SizesView(layout.sizes));
    EXPECT_EQ(outcome.results[0].strides(), SizesView(layout.strides));
    EXPECT_TRUE(outcome.results[0]->storage == tensors[0]->storage) << "a view that copies";
    return;
  }
  if (op().infer == nullptr) return;
  const OutputSpecs specs = op().infer(call.call());
  ASSERT_EQ(specs.size(), outcome.results.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor& got = outcome.results[i];
    EXPECT_TRUE(got.sizes() == SizesView(specs[i].sizes) && got.dtype() == specs[i].dtype)
        << "infer says " << specs[i].sizes << ' ' << specs[i].dtype << ", the kernel gives " << describe(got);
    if (specs[i].strides) {
      EXPECT_EQ(got.strides(), SizesView(*specs[i].strides)) << "infer and kernel disagree on strides";
    }
  }
}

void Harness::check_layouts(const Sample& sample, const Tensors& tensors, const Outcome& contiguous) {
  using enum Arrangement;
  for (int pattern = 0; pattern < 5; ++pattern) {
    Tensors views, copies;
    for (size_t k = 0; k < tensors.size(); ++k) {
      // All alike, then each different from its neighbour.
      Arrangement how = pattern == 0   ? Transposed
                        : pattern == 1 ? Gaps
                        : pattern == 2 ? Expanded
                        : pattern == 3 ? (k % 2 == 0 ? Transposed : Contiguous)
                                       : (k % 2 == 0 ? Contiguous : Gaps);
      // Nothing is written into an expanded tensor; repeated indices are another call.
      if (how == Expanded && ((is_in_place() && k == 0) || sample.tensors()[k].dtype)) how = Gaps;
      views.push_back(arranged(tensors[k], how));
      copies.push_back(copy_of(views.back()));
    }
    SCOPED_TRACE("layout pattern " + std::to_string(pattern));
    const Outcome got = run(op(), sample, views),
                  want = pattern == 2 ? run(op(), sample, copies) : contiguous;
    if (got.error || want.error) {
      // A view may not exist for every layout.
      if (op().kind == Kind::View && !want.error) continue;
      EXPECT_EQ(got.error.has_value(), want.error.has_value()) << got.error.value_or(*want.error);
      continue;
    }
    if (has_fixed_value()) {
      EXPECT_EQ(difference_of_all(got.results, want.results), "");
    }
    check_infer(sample, views, got);
  }
}

void Harness::check_sample(const Sample& sample, DType dtype) {
  SCOPED_TRACE(op().name() + "(" + sample.text + ") in " + std::string(short_name_of(dtype)));
  const Tensors tensors = make_tensors(op(), sample, dtype, Fill::Specials);
  Tensors copies;
  for (const Tensor& x : tensors) copies.push_back(copy_of(x));
  const Outcome outcome = run(op(), sample, tensors);
  if (!is_in_place()) {
    for (size_t k = 0; k < tensors.size(); ++k)
      EXPECT_EQ(difference_of_bits(tensors[k], copies[k]), "") << "operand " << k << " was written";
  }
  if (outcome.error) return;
  worked_.insert(sample.text);
  if (is_in_place()) return check_in_place(sample, copies);
  check_infer(sample, tensors, outcome);
  check_layouts(sample, tensors, outcome);
  if (!has_fixed_value()) return;
  EXPECT_EQ(difference_of_all(run(op(), sample, copies).results, outcome.results), "")
      << "a second run differs";
  check_decomposition(sample, tensors, outcome);
  if (op().kind == Kind::Pointwise) check_conversion(sample, tensors, outcome);
}

// ---- Other ways to the same value -----------------------------------------------------------------------------------

void Harness::check_decomposition(const Sample& sample, const Tensors& tensors, const Outcome& outcome) {
  if (!op().decompose) return;
  const DType dtype = tensors.empty() ? DType::Float32 : tensors[0].dtype();
  if (dtype != DType::Float32 && dtype != DType::Float64) return;
  const BoundCall call = sample.call(op(), tensors);
  try {
    EXPECT_EQ(difference_of_bits(op().decompose(call.call()), outcome.results[0]), "")
        << "decomposition against kernel";
  } catch (const Error& error) {
    ADD_FAILURE() << "decomposition: " << error.what();
  }
}

// Half types compute in float and round once; small integers compute in int32 and wrap.
void Harness::check_conversion(const Sample& sample, const Tensors& tensors, const Outcome& outcome) {
  const DType dtype = tensors[0].dtype(), wide = compute_dtype(dtype);
  const DType result = outcome.results[0].dtype();
  if (wide == dtype || dtype == DType::Bool || (result != dtype && result != DType::Bool)) return;
  Tensors widened;
  for (const Tensor& x : tensors) {
    widened.push_back(make_tensor(x->layout.sizes, x.dtype() == dtype ? wide : x.dtype()));
    copy_data(x, widened.back());
  }
  const Outcome exact = run(op(), sample, widened);
  ASSERT_FALSE(exact.error) << *exact.error;
  const Tensor rounded = make_tensor(exact.results[0]->layout.sizes, result);
  copy_data(exact.results[0], rounded);
  EXPECT_EQ(difference_of_bits(outcome.results[0], rounded), "")
      << "computed in " << wide << " and rounded once";
}

void Harness::check_in_place(const Sample& sample, const Tensors& tensors) {
  using enum Arrangement;
  for (const Arrangement how : {Contiguous, Transposed, Gaps}) {
    SCOPED_TRACE(name_of(how));
    Tensors operands = {arranged(tensors[0], how)};
    for (size_t k = 1; k < tensors.size(); ++k) operands.push_back(copy_of(tensors[k]));
    const Tensor self = operands[0];
    const uint32_t version = self.version();
    Tensors before;
    for (const Tensor& x : operands) before.push_back(copy_of(x));
    const Outcome got = run(op(), sample, operands);
    ASSERT_FALSE(got.error) << *got.error;
    EXPECT_TRUE(got.results[0].is_same(self));
    if (!is_in(kMetadataOnly, op())) {
      EXPECT_NE(self.version(), version) << "the version must change";
    }
    if (!has_fixed_value() || base() == nullptr || base()->is_random) continue;
    const Outcome want = run(*base(), sample, before);  // the same parameters under the same numbers
    ASSERT_FALSE(want.error) << *want.error;
    const Tensor expected = make_tensor(self->layout.sizes, self.dtype());
    ASSERT_EQ(want.results[0].sizes(), self.sizes());
    copy_data(want.results[0], expected);
    EXPECT_EQ(difference_of_bits(self, expected), "") << base()->name();
  }
}

// An operand that shares memory with the target, but not element for element, is read before anything is written.
void Harness::check_overlap(DType dtype) {
  if (op().kind != Kind::Mutation || !has_fixed_value() || !op().samples.calls.empty() ||
      op().base->is_random)
    return;
  Sample sample = samples_of(op()).front();
  if (sample.tensors().size() < 2) return;
  SCOPED_TRACE("overlapping operands in " + std::string(short_name_of(dtype)));
  for (Sample::Entry& entry : sample.entries)
    for (TensorSpec& spec : entry.tensors) spec.sizes = {9, 8};
  for (const bool is_shifted : {true, false}) {
    Tensors operands = make_tensors(op(), sample, dtype, Fill::Plain);
    // The other operand lies one row above the target, or is the target mirrored along its diagonal.
    Layout<Sym> target = operands[0]->layout, other = target;
    target.sizes[0] = other.sizes[0] = Sym::from_int(8);
    if (is_shifted) target.offset = Sym::from_int(8);
    else std::swap(other.strides[0], other.strides[1]);
    const Tensor memory = operands[0];
    for (size_t k = 1; k < operands.size(); ++k) operands[k] = make_view(memory, other);
    operands[0] = make_view(memory, target);
    Tensors copies;
    for (const Tensor& x : operands) copies.push_back(copy_of(x));
    const Tensor self = operands[0];
    if (run(op(), sample, operands).error) return;
    const Outcome want = run(*op().base, sample, copies);
    ASSERT_FALSE(want.error) << *want.error;
    const Tensor expected = make_tensor(self->layout.sizes, self.dtype());
    copy_data(want.results[0], expected);
    EXPECT_EQ(difference_of_bits(self, expected), "") << (is_shifted ? "shifted" : "mirrored");
  }
}

// An element's value depends neither on its place nor on the length of the tensor or the alignment of its data.
void Harness::check_single_elements(DType dtype) {
  if (op().kind != Kind::Pointwise || !has_fixed_value()) return;
  Sample sample = samples_of(op()).front();
  constexpr int64_t kLength = 48;
  for (Sample::Entry& entry : sample.entries)
    for (TensorSpec& spec : entry.tensors) spec.sizes = {kLength};
  SCOPED_TRACE(std::string(short_name_of(dtype)));
  const Tensors whole = make_tensors(op(), sample, dtype, Fill::Specials);
  const Outcome expected = run(op(), sample, whole);
  if (expected.error) return;
  const auto part = [](const Tensor& x, int64_t from, int64_t length) {
    Layout<Sym> layout = x->layout;
    layout.sizes[0] = Sym::from_int(length);
    layout.offset = Sym::from_int(from);
    return make_view(x, layout);
  };
  for (int64_t length = 1; length <= 40; ++length) {
    const int64_t from = length * 5 % (kLength - length + 1);
    Tensors parts;
    for (const Tensor& x : whole) parts.push_back(part(x, from, length));
    const Outcome got = run(op(), sample, parts);
    ASSERT_EQ(difference_of_bits(got.results[0], part(expected.results[0], from, length)), "")
        << "elements " << from << " to " << from + length;
  }
}

void Harness::check_threads() {
  if (!has_fixed_value() || !op().samples.calls.empty()) return;
  Sample sample = samples_of(op()).front();
  for (Sample::Entry& entry : sample.entries)
    for (TensorSpec& spec : entry.tensors) spec.sizes = {257, 300};
  const int threads = num_threads();
  Outcome outcomes[2];
  for (int i = 0; i < 2; ++i) {
    set_num_threads(i + 1);
    outcomes[i] = run(op(), sample, make_tensors(op(), sample, DType::Float32, Fill::Specials));
  }
  set_num_threads(threads);
  EXPECT_EQ(difference_of_all(outcomes[1].results, outcomes[0].results), "") << "two threads against one";
}

// ---- Gradients ------------------------------------------------------------------------------------------------------

void Harness::check_gradients(const Sample& sample) {
  if (!has_fixed_value() || !op().samples.check_gradient) return;
  SCOPED_TRACE("gradients of " + op().name() + "(" + sample.text + ")");
  Tensors tensors = make_tensors(op(), sample, DType::Float64, Fill::Gradients);
  Tensors inputs;
  std::vector<size_t> slots;
  const std::vector<TensorSpec> specs = sample.tensors();
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (specs[k].dtype || int_numel(tensors[k]) == 0) continue;
    slots.push_back(k);
    inputs.push_back(tensors[k].requires_grad_());
  }
  const auto function = [&](const Tensors& values) {
    Tensors operands = tensors;
    for (size_t i = 0; i < slots.size(); ++i) operands[slots[i]] = values[i];
    // A leaf may not be written in place.
    if (is_in_place()) operands[0] = mul(operands[0], 1);
    Tensors differentiable;
    for (const Tensor& result : sample.call(op(), operands).run())
      // Differences through a rounding to a smaller type measure the rounding; autograd's tests have the casts.
      if (result.dtype() == DType::Float64 && result.requires_grad()) differentiable.push_back(result);
    return differentiable;
  };
  if (inputs.empty() || run_without_tape(op(), sample, tensors).error) return;  // no op of float64
  try {
    if (function(inputs).empty()) return;
    autograd::gradcheck(function, inputs);
    autograd::gradgradcheck(function, inputs);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

// ---- The tests ------------------------------------------------------------------------------------------------------

TEST_P(Harness, HoldsForEveryDTypeAndLayout) {
  const std::vector<Sample> samples = samples_of(op());
  ASSERT_FALSE(samples.empty()) << op().name() << " has no call to try: give its entry Samples::calls";
  for (const Sample& sample : samples)
    for (DType dtype : kAllDTypes) check_sample(sample, dtype);
  for (const Sample& sample : samples) {
    if (!sample.must_work) continue;
    EXPECT_TRUE(worked_.contains(sample.text))
        << sample.text << " works with no dtype: "
        << run(op(), sample, make_tensors(op(), sample, DType::Float32, Fill::Plain)).error.value_or("");
  }
  for (DType dtype : kAllDTypes) {
    check_single_elements(dtype);
    check_overlap(dtype);
  }
  check_threads();
}

TEST_P(Harness, GradientsAgreeWithFiniteDifferences) {
  for (const Sample& sample : samples_of(op()))
    if (worked_.contains(sample.text) || sample.must_work) check_gradients(sample);
}

INSTANTIATE_TEST_SUITE_P(OpTable, Harness, ::testing::ValuesIn(OpTable::instance().all()),
                         [](const auto& info) { return test_name_of(*info.param); });

// What a formula does not read must not be kept alive until backward.
TEST(SavedForBackward, OnlyWhatTheFormulaReads) {
  struct Row {
    const char* op;
    size_t operand;
    uint32_t inputs, outputs;
  };
  constexpr Row rows[] = {
      {"add", 0, 0, 0},       {"mul", 0, 0b10, 0},   {"mul", 1, 0b01, 0},         {"relu", 0, 0, 1},
      {"exp", 0, 0, 1},       {"sigmoid", 0, 0, 1},  {"silu", 0, 1, 0},           {"sin", 0, 1, 0},
      {"where", 1, 0b001, 0}, {"lerp", 0, 0b100, 0}, {"true_divide", 0, 0b10, 0},
  };
  for (const Row& row : rows) {
    const GradRule& rule = OpTable::instance().get(row.op).grads.at(row.operand);
    EXPECT_EQ(rule.saved_inputs, row.inputs) << row.op << " operand " << row.operand;
    EXPECT_EQ(rule.saved_outputs, row.outputs) << row.op << " operand " << row.operand;
  }
}

}  // namespace
}  // namespace weft::tests
