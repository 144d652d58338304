// Running one scenario eagerly and compiled in several ways, and holding all of them to the same results.
// Needs GoogleTest, weft.h, tests/support and the tensors of tests/autograd.
#pragma once

#include <gtest/gtest.h>

#include "tests/autograd/tensors.h"
#include "tests/compiler/compile_counts.h"
#include "tests/support/compare.h"
#include "weft.h"

namespace weft::testing {

// What a scenario leaves behind: results, inputs it wrote to, gradients.
using Results = std::vector<Tensor>;

struct Way {
  const char* name;
  CompileOptions options;
};
inline std::vector<Way> compiled_ways() {
  return {{"captured only", {.backend = "eager", .audit = false}},
          {"aot_eager", {.backend = "aot_eager", .audit = false}},
          {"sizes as symbols", {.backend = "aot_eager", .dynamic = true, .audit = false}},
          {"default, with audits", {}}};
}

// Equal bits, sizes, strides and requires_grad.
inline void expect_same(const Results& got, const Results& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    EXPECT_EQ(tests::difference_of_bits(got[i], want[i]), "");
    if (!got[i].defined() || !want[i].defined() || got[i].sizes() != want[i].sizes()) continue;
    EXPECT_EQ(tests::difference_of_strides(got[i], want[i]), "");
    EXPECT_EQ(got[i].requires_grad(), want[i].requires_grad());
  }
}

// Calls scenario(f) with the function as it is, then with it compiled, three times each way: a first call and hits. The
// scenario makes fresh inputs, calls f as often as it likes, checks values and returns what must be the same in all modes.
// f is a std::function both times, so that a scenario is compiled once.
// Capture::IfPossible: the function may also run eagerly, because it does what the documentation says cannot be captured.
enum class Capture { Always, IfPossible };
template <class F, class Scenario>
void hold_in_all_modes(const F& f, const Scenario& scenario, Capture capture = Capture::Always) {
  const std::function function(f);
  using Function = std::remove_const_t<decltype(function)>;
  Results expected;
  {
    SCOPED_TRACE("eager");
    expected = scenario(function);
  }
  for (const Way& way : compiled_ways()) {
    const Counts counts;
    const Function compiled = compile(function, way.options);
    for (int round = 1; round <= 3; ++round) {
      SCOPED_TRACE(std::string(way.name) + ", round " + std::to_string(round));
      try {
        expect_same(scenario(compiled), expected);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
    if (capture == Capture::Always) {
      EXPECT_EQ(counts.eager_calls(), 0u) << way.name;
    }
  }
}

// Options under which a hit never enters the function.
inline CompileOptions without_audits(std::string backend = "aot_eager") {
  return {.backend = std::move(backend), .audit = false};
}

// f32 numbers 0, 1, 2, … in these sizes.
inline Tensor counting(const SymList& sizes, const TensorOptions& options = kFloat32) {
  int64_t n = 1;
  for (const Sym size : sizes) n *= size;
  return arange(n, options).view(sizes);
}
// Repeatable numbers around 0 that are no round ones.
inline Tensor numbers(const SymList& sizes, int seed = 1, const TensorOptions& options = kFloat32) {
  return sin(counting(sizes, options.has_dtype() ? options : options.dtype(kFloat32)) * 1.7 + seed);
}

using Ints = std::vector<int64_t>;
inline Ints sizes_of(const Tensor& x) { return x.sizes().vec(); }
inline Ints strides_of(const Tensor& x) { return x.strides().vec(); }
inline bool shares_memory(const Tensor& a, const Tensor& b) { return a->storage == b->storage; }

}  // namespace weft::testing
