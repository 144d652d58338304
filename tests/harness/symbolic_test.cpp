// Every op on symbolic sizes: its shape rule agrees with eager, it fixes no size without a reason, and whatever sizes its
// guards let through get the shapes that eager gives them.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <random>

#include "autograd/grad_mode.h"
#include "tests/harness/sample.h"
#include "tests/support/shape_trace.h"

namespace weft::tests {
namespace {

using Tensors = std::vector<Tensor>;
using compiler::SymbolSource;

struct Exception {
  const char* op;
  const char* reason;
};
// Ops that fix sizes of 2 and more.
constexpr Exception kFixes[] = {
    {"unbind", "there is one result for each index"},
    {"split", "the pieces that are given add up to the size"},
    {"unflatten", "the sizes that are given multiply to the size"},
    {"expand", "sizes are given"},
    {"broadcast_to", "sizes are given"},
    {"view", "sizes are given"},
    {"reshape", "sizes are given"},
    {"layer_norm", "the normalized sizes are given"},
    {"layer_norm_backward", "the normalized sizes are given"},
    {"layer_norm_backward_weight", "the normalized sizes are given"},
    {"rms_norm", "the normalized sizes are given"},
    {"rms_norm_backward", "the normalized sizes are given"},
    {"rms_norm_backward_weight", "the normalized sizes are given"},
    {"group_norm", "the number of groups is given, here as many as channels"},
    {"as_strided.scatter", "sizes are given"},
    {"diagonal.scatter", "sizes are given"},
    {"select.scatter", "sizes are given"},
    {"slice.scatter", "sizes are given"},
    {"unfold.scatter", "sizes are given"},
};
// Ops whose results have sizes that depend on values; a trace ends a segment there.
constexpr Exception kReadsValues[] = {
    {"one_hot", "the number of classes is read from the data unless it is given"},
    {"index", "a mask selects as many as it holds"},
    {"masked_select", "likewise"},
};

template <size_t N>
bool is_in(const Exception (&list)[N], const Op& op) {
  return std::any_of(std::begin(list), std::end(list), [&](const Exception& e) { return op.name() == e.op; });
}

// A sample in one layout for which eager gives a result.
struct Case {
  const Op& op;
  Sample sample;
  Arrangement how;
  DType dtype;

  Tensors inputs() const {
    Tensors tensors = make_tensors(op, sample, dtype, Fill::Plain);
    for (Tensor& x : tensors) x = arranged(x, how);
    return tensors;
  }
  std::string name() const { return op.name() + "(" + sample.text + ") " + name_of(how); }
};

std::optional<Tensors> eager(const Case& c, const Tensors& inputs) {
  try {
    return c.sample.call(c.op, inputs).run();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "[2, 3] float32"
std::string shape_of(const Tensor& x) { return describe(x); }
std::string shape_of(const Tensor& x, const compiler::SymTable& syms, std::span<const int64_t> values) {
  SymList sizes;
  for (Sym size : x.sizes()) sizes.push_back(Sym::from_int(syms.evaluate(size, values)));
  return weft::detail::concat(SizesView(sizes), ' ', x.dtype());
}
// Strides of dimensions with more than one index.
std::vector<int64_t> strides_of(const Tensor& x, const compiler::SymTable& syms,
                                std::span<const int64_t> values) {
  std::vector<int64_t> strides;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (syms.evaluate(x.size(d), values) > 1) strides.push_back(syms.evaluate(x.stride(d), values));
  return strides;
}

class SymbolicOps : public ::testing::Test {
 protected:
  void check(const Case& c);
  void check_other_sizes(const Case& c, const ShapeTrace& trace, const compiler::SymGuardProgram& program,
                         const Tensors& traced);
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  int64_t cases_ = 0, other_sizes_ = 0;
};

void SymbolicOps::check(const Case& c) {
  const Tensors inputs = c.inputs();
  const std::optional<Tensors> expected = eager(c, c.inputs());
  if (!expected) return;
  SCOPED_TRACE(c.name());
  ++cases_;
  ShapeTrace trace;
  Tensors fakes, traced;
  for (const Tensor& x : inputs) fakes.push_back(trace.argument(x));
  try {
    traced = c.sample.call(c.op, fakes).run();
  } catch (const Error& error) {
    EXPECT_TRUE(is_in(kReadsValues, c.op)) << error.what();
    return;
  }
  trace.pause();
  if (!is_in(kFixes, c.op)) EXPECT_EQ(trace.fixed(), "");
  const compiler::SymTable& syms = trace.tables->syms;
  std::vector<int64_t> hints;
  for (const compiler::Symbol& symbol : syms.symbols()) hints.push_back(symbol.hint);
  const compiler::SymGuardProgram program(trace.env, trace.tables);
  EXPECT_TRUE(program.check(hints)) << program.explain(program.first_failure(hints).value_or(0), hints);
  ASSERT_EQ(traced.size(), expected->size());
  for (size_t i = 0; i < traced.size(); ++i) {
    const Tensor& want = (*expected)[i];
    EXPECT_EQ(shape_of(traced[i], syms, hints), shape_of(want));
    if (int_numel(want) > 0) EXPECT_EQ(strides_of(traced[i], syms, hints), strides_of(want, syms, hints));
  }
  check_other_sizes(c, trace, program, traced);
}

// The same call with other sizes, as a cache of compiled functions would meet it.
void SymbolicOps::check_other_sizes(const Case& c, const ShapeTrace& trace,
                                    const compiler::SymGuardProgram& program, const Tensors& traced) {
  for (int round = 0; round < 6; ++round) {
    Case other = c;
    // Mostly sizes that were equal stay equal, or little would pass the guards.
    const bool keeps_equal = pick(4) != 0;
    std::map<int64_t, int64_t> larger;
    for (Sample::Entry& entry : other.sample.entries) {
      for (TensorSpec& spec : entry.tensors) {
        for (int64_t& size : spec.sizes) {
          if (size < 2) continue;
          const auto [at, is_new] = larger.emplace(size, size + pick(4));
          size = keeps_equal ? at->second : size + pick(4);
        }
      }
    }
    const Tensors inputs = other.inputs();
    std::vector<int64_t> values(trace.tables->syms.symbols().size());
    const auto value_at = [&](const SymbolSource& source) {
      const Tensor& x = inputs[source.leaf];
      return source.kind == SymbolSource::Kind::Size ? int_sizes(x)[source.dim] : int_strides(x)[source.dim];
    };
    for (size_t s = 0; s < values.size(); ++s) values[s] = value_at(trace.env.sources()[s]);
    const auto& fixed = trace.env.fixed();
    if (!std::all_of(fixed.begin(), fixed.end(),
                     [&](const auto& f) { return value_at(f.source) == f.value; }))
      continue;
    EXPECT_EQ(program.check(values), !program.first_failure(values).has_value());
    if (!program.check(values)) continue;
    ++other_sizes_;
    std::string text;
    for (const Tensor& x : inputs) text += describe(x) + " ";
    const std::optional<Tensors> expected = eager(other, inputs);
    EXPECT_TRUE(expected.has_value())
        << "the guards let " << text << "through, which eager refuses: " << trace.guards();
    if (!expected) continue;
    ASSERT_EQ(traced.size(), expected->size()) << text;
    for (size_t i = 0; i < traced.size(); ++i) {
      EXPECT_EQ(shape_of(traced[i], trace.tables->syms, values), shape_of((*expected)[i])) << text;
      if (int_numel((*expected)[i]) > 0)
        EXPECT_EQ(strides_of(traced[i], trace.tables->syms, values),
                  strides_of((*expected)[i], trace.tables->syms, values))
            << text;
    }
  }
}

TEST_F(SymbolicOps, AgreeWithEager) {
  std::cout << "seed " << seed_ << '\n';
  SCOPED_TRACE("seed " + std::to_string(seed_));
  const AutoGradMode off(false);
  for (const Op* op : OpTable::instance().all()) {
    if (op->data_dependent) continue;
    for (const Sample& sample : samples_of(*op))
      for (Arrangement how : {Arrangement::Contiguous, Arrangement::Transposed, Arrangement::Gaps})
        for (DType dtype : {DType::Float32, DType::Int64, DType::Bool}) {
          check({*op, sample, how, dtype});
          if (testing::Test::HasFatalFailure()) return;
        }
  }
  std::cout << cases_ << " calls, " << other_sizes_ << " with other sizes\n";
  EXPECT_GE(cases_, 2000);
  EXPECT_GE(other_sizes_, 5000);
}

}  // namespace
}  // namespace weft::tests
