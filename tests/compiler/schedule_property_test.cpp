// Scheduled graphs give the bits, strides and shared memory of eager code: on random graphs, interpreted and compiled.
#include <gtest/gtest.h>

#include <iostream>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/launch_plan.h"
#include "tests/compiler/random_graph.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;
using Tensors = std::vector<Tensor>;

constexpr int kNodes = 60;

Tensors run(const LaunchPlan& plan, const Tensors& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  Tensors outputs(plan.schedule().graph.outputs.size());
  plan.run(pointers, {}, outputs);
  return outputs;
}

std::string sharing_of(const Tensors& inputs, const Tensors& outputs) {
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) text += all[i]->storage == all[j]->storage ? '~' : '.';
  return text;
}

// Runs the plan twice, so that its frame is used again.
void expect_eager_results(const LaunchPlan& plan, const Graph& graph, const Tensors& inputs,
                          const Tensors& want) {
  for (const char* round : {"first", "second"}) {
    SCOPED_TRACE(round);
    const Tensors got = run(plan, inputs);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(difference_of_bits(got[i], want[i]), "")
          << "output " << i << " of " << graph << to_string(plan.schedule());
      ASSERT_EQ(got[i].strides(), want[i].strides()) << "output " << i << " of " << graph;
    }
    ASSERT_EQ(sharing_of(inputs, got), sharing_of(inputs, want)) << graph << to_string(plan.schedule());
  }
}

// The graph that the default backend gets of a random one, with outputs.
struct Program {
  explicit Program(uint32_t seed) : random(seed, kNodes) {
    for (size_t i = 0, n = 1 + random.below(12); i < n; ++i)
      random.graph.outputs.push_back(static_cast<ValueId>(random.below(random.graph.values.size())));
    for (const ValueId output : random.graph.outputs) want.push_back(random.values[output]);
    graph = prepare(random.graph, Stage::Lowered);
  }
  RandomGraph random;
  Graph graph;
  Tensors want;
};

TEST(Schedule, GivesEagerResultsForRandomGraphs) {
  size_t nodes = 0, fused = 0, apart = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(seed);
    nodes += program.graph.nodes.size();
    for (const bool fuse : {true, false}) {
      Schedule made = schedule(program.graph, {.fuse = fuse});
      (fuse ? fused : apart) += made.kernels.size();
      for (const KernelStep& kernel : made.kernels)
        for (const LoopBody& body : kernel.bodies) verify(body);
      const LaunchPlan plan(std::move(made), {.interpret = true});
      ASSERT_NO_FATAL_FAILURE(expect_eager_results(plan, program.graph, program.random.inputs, program.want));
    }
  }
  std::cout << nodes << " nodes; " << fused << " kernels, " << apart << " without fusion\n";
  EXPECT_LT(fused, apart);
}

TEST(Schedule, GivesEagerResultsForRandomGraphsInCode) {
  if (!can_generate_code()) GTEST_SKIP() << "no C++ compiler";
  for (uint32_t seed = 1000; seed < 1040; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(seed);
    const LaunchPlan plan(schedule(program.graph));
    ASSERT_NO_FATAL_FAILURE(expect_eager_results(plan, program.graph, program.random.inputs, program.want));
  }
}

}  // namespace
}  // namespace weft::compiler::tests
