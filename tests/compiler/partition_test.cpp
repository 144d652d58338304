// partition: which half computes what, what is saved, and that both halves together give what the joint graph gives.
#include "compiler/passes/partition.h"

#include <gtest/gtest.h>

#include "tests/compiler/graph_builder.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;

// y = tanh(x · w) with the gradients of both, as a trace of forward and backward gives them.
struct TanhLayer : GraphBuilder {
  ValueId x = input({5, 3}, DType::Float32, "x"), w = input({3, 4}, DType::Float32, "w"),
          dy = input({5, 4}, DType::Float32, "tangent0");
  ValueId product = add("mm", {value(x), value(w)});
  ValueId y = add("tanh", {value(product)});
  ValueId dp = add("tanh.grad0", {value(dy), value(product), value(y)});
  ValueId wt = add("transpose", {value(w)}, {0, 1});
  ValueId dx = add("mm", {value(dp), value(wt)});
  ValueId xt = add("transpose", {value(x)}, {0, 1});
  ValueId dw = add("mm", {value(xt), value(dp)});
};

void expect_same_results(const Graph& joint, const PartitionOptions& options, const Partition& halves) {
  std::vector<Tensor> inputs;
  int seed = 1;
  for (ValueId id : joint.inputs) {
    const SymList sizes = SymList(joint[id].sizes);
    const int64_t n = product({sizes.data(), sizes.size()}).concrete();
    inputs.push_back(sin(add(arange(n), 10 * seed++)).view(sizes).to(joint[id].dtype));
  }
  const std::vector<Tensor> want = run(joint, inputs),
                            forward = run(halves.forward, {inputs.data(), options.num_primals});
  std::vector<Tensor> given(forward.begin() + static_cast<std::ptrdiff_t>(options.num_outputs),
                            forward.end());
  given.insert(given.end(), inputs.begin() + static_cast<std::ptrdiff_t>(options.num_primals), inputs.end());
  const std::vector<Tensor> got = run(halves.backward, given);
  for (size_t i = 0; i < options.num_outputs; ++i) EXPECT_EQ(difference_of_bits(forward[i], want[i]), "");
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(difference_of_bits(got[i], want[options.num_outputs + i]), "") << "gradient " << i;
}

TEST(Partition, SavesWhatBackwardReadsAndMakesViewsAgain) {
  TanhLayer g;
  g.returns({g.y, g.dx, g.dw});
  const PartitionOptions options{2, 1};
  const Partition halves = partition(g.graph, options);
  verify(halves.forward);
  verify(halves.backward);
  EXPECT_EQ(to_string(halves.forward),
            "forward(%0 x: f32[5, 3], %1 w: f32[3, 4]) {\n"
            "  %2: f32[5, 4] = mm(%0, %1)\n"
            "  %3: f32[5, 4] = tanh(%2)\n"
            "  return %3, %0, %1, %2, %3\n"
            "}\n");
  EXPECT_EQ(to_string(halves.backward),
            "backward(%0 x: f32[5, 3], %1 w: f32[3, 4], %2 saved2: f32[5, 4], %3 saved3: f32[5, 4], "
            "%4 tangent0: f32[5, 4]) {\n"
            "  %5: f32[5, 4] = tanh.grad0(%4, %2, %3)\n"
            "  %6: f32[4, 3] strides [1, 4] = transpose(%1, dim0=0, dim1=1)\n"
            "  %7: f32[5, 3] = mm(%5, %6)\n"
            "  %8: f32[3, 5] strides [1, 3] = transpose(%0, dim0=0, dim1=1)\n"
            "  %9: f32[3, 4] = mm(%8, %5)\n"
            "  return %7, %9\n"
            "}\n");
  EXPECT_EQ(halves.saved, (std::vector<ValueId>{g.x, g.w, g.product, g.y}));
  expect_same_results(g.graph, options, halves);
}

TEST(Partition, WhatOnlyBackwardNeedsIsComputedThere) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  const ValueId y = b.add("sin", {value(x)}), slope = b.add("cos", {value(x)});
  const ValueId ones = b.add("full", {number(1)}, {SymList{4}, DType::Float32, Device(kCPU), Attr()});
  const ValueId dx = b.add("mul", {value(dy), value(slope)});
  b.returns({y, dx, ones});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(halves.forward.nodes.size(), 1u);
  EXPECT_EQ(halves.backward.nodes.size(), 3u);
  EXPECT_EQ(halves.saved, (std::vector<ValueId>{x})) << "a primal costs nothing";
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, AGradientMayBeAForwardValueOrAnInput) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  const ValueId y = b.add("exp", {value(x)});
  b.returns({y, y, x, dy});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(halves.saved, (std::vector<ValueId>{x, y}));
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, APartOfAValueIsSavedAlone) {
  GraphBuilder b;
  const ValueId x = b.input({100, 4}), dy = b.input({1, 4});
  const ValueId y = b.add("exp", {value(x)});
  const ValueId row = b.add("slice", {value(y)}, {0, 3, 4, 1});
  const ValueId z = b.add("neg", {value(row)});
  b.returns({z, b.add("mul", {value(dy), value(row)})});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(halves.saved, (std::vector<ValueId>{row}));
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, RefusesAnOutputThatDependsOnATangent) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  b.returns({b.add("mul", {value(x), value(dy)}), x});
  EXPECT_THROW(partition(b.graph, {1, 1}), InternalError);
}

}  // namespace
}  // namespace weft::compiler::tests
