// partition: which half computes what, what is saved and what is computed again, and that both halves together give what the
// joint graph gives.
#include "compiler/passes/partition.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "compiler/passes/max_flow.h"
#include "compiler/passes/saved_values.h"
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

std::vector<Tensor> inputs_of(const Graph& joint) {
  std::vector<Tensor> inputs;
  int seed = 1;
  for (ValueId id : joint.inputs) {
    const SymList sizes = SymList(joint[id].sizes);
    const int64_t n = product({sizes.data(), sizes.size()}).concrete();
    inputs.push_back(sin(add(arange(n), 10 * seed++)).view(sizes).to(joint[id].dtype));
  }
  return inputs;
}

std::vector<ValueId> saved_of(const Partition& halves) {
  std::vector<ValueId> values;
  for (const Partition::Saved& saved : halves.saved) values.push_back(saved.value);
  return values;
}
double bytes_saved(const Partition& halves) {
  double bytes = 0;
  for (const Partition::Saved& saved : halves.saved) bytes += saved.bytes;
  return bytes;
}

void expect_same_results(const Graph& joint, const PartitionOptions& options, const Partition& halves) {
  verify(halves.forward);
  const std::vector<Tensor> inputs = inputs_of(joint);
  const std::vector<Tensor> want = run(joint, inputs),
                            forward = run(halves.forward, {inputs.data(), options.num_primals});
  for (size_t i = 0; i < options.num_outputs; ++i) EXPECT_EQ(difference_of_bits(forward[i], want[i]), "");
  std::unordered_map<ValueId, Tensor> there;
  for (size_t i = 0; i < inputs.size(); ++i) there[joint.inputs[i]] = inputs[i];
  size_t next = options.num_outputs, gradient = options.num_outputs;
  for (const ValueId value : saved_of(halves))
    if (joint[value].node != kNoNode) there[value] = forward[next++];
  EXPECT_EQ(next, forward.size());
  for (const Partition::Backward& backward : halves.backward) {
    verify(backward.graph);
    std::vector<Tensor> given;
    for (const ValueId value : backward.reads) given.push_back(there.at(value));
    for (const Tensor& got : run(backward.graph, given)) {
      EXPECT_EQ(difference_of_bits(got, want[gradient]), "") << "gradient " << gradient - options.num_outputs;
      ++gradient;
    }
  }
  EXPECT_EQ(gradient, want.size());
}

PartitionOptions save_all(PartitionOptions options) {
  options.recompute = false;
  return options;
}

TEST(Partition, SavesWhatBackwardReadsAndMakesViewsAgain) {
  TanhLayer g;
  g.returns({g.y, g.dx, g.dw});
  const PartitionOptions options = save_all({2, 1});
  const Partition halves = partition(g.graph, options);
  EXPECT_EQ(to_string(halves.forward),
            "forward(%0 x: f32[5, 3], %1 w: f32[3, 4]) {\n"
            "  %2: f32[5, 4] = mm(%0, %1)\n"
            "  %3: f32[5, 4] = tanh(%2)\n"
            "  return %3, %2, %3\n"
            "}\n");
  EXPECT_EQ(to_string(halves.backward[0].graph),
            "backward(%0 x: f32[5, 3], %1 w: f32[3, 4], %2 saved2: f32[5, 4], %3 saved3: f32[5, 4], "
            "%4 tangent0: f32[5, 4]) {\n"
            "  %5: f32[5, 4] = tanh.grad0(%4, %2, %3)\n"
            "  %6: f32[4, 3] strides [1, 4] = transpose(%1, dim0=0, dim1=1)\n"
            "  %7: f32[5, 3] = mm(%5, %6)\n"
            "  %8: f32[3, 5] strides [1, 3] = transpose(%0, dim0=0, dim1=1)\n"
            "  %9: f32[3, 4] = mm(%8, %5)\n"
            "  return %7, %9\n"
            "}\n");
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{g.x, g.w, g.product, g.y}));
  expect_same_results(g.graph, options, halves);
}

TEST(Partition, WhatOnlyBackwardNeedsIsComputedThere) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  const ValueId y = b.add("sin", {value(x)}), slope = b.add("cos", {value(x)});
  const ValueId ones = b.add("full", {number(1)}, {SymList{4}, DType::Float32, Device(kCPU), Attr()});
  const ValueId dx = b.add("mul", {value(dy), value(slope)});
  b.returns({y, dx, ones});
  for (const bool recompute : {false, true}) {
    PartitionOptions options{1, 1};
    options.recompute = recompute;
    const Partition halves = partition(b.graph, options);
    EXPECT_EQ(halves.forward.nodes.size(), 1u);
    EXPECT_EQ(halves.backward[0].graph.nodes.size(), 3u);
    EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{x})) << "a primal costs nothing";
    expect_same_results(b.graph, options, halves);
  }
}

TEST(Partition, AGradientMayBeAForwardValueOrAnInput) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  const ValueId y = b.add("exp", {value(x)});
  b.returns({y, y, x, dy});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{x, y}));
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, WhatIsReadThroughAViewIsSavedByItsBase) {
  GraphBuilder b;
  const ValueId x = b.input({100, 4}), dy = b.input({1, 4});
  const ValueId y = b.add("exp", {value(x)});
  const ValueId row = b.add("slice", {value(y)}, {0, 3, 4, 1});
  const ValueId z = b.add("neg", {value(row)});
  b.returns({z, b.add("mul", {value(dy), value(row)})});
  const PartitionOptions options = save_all({1, 1});
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{y}));
  expect_same_results(b.graph, options, halves);
  const Partition again = partition(b.graph, {1, 1});
  EXPECT_EQ(saved_of(again), (std::vector<ValueId>{x})) << "exp fuses with what reads the row";
  expect_same_results(b.graph, {1, 1}, again);
}

TEST(Partition, RefusesAnOutputThatDependsOnATangent) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  b.returns({b.add("mul", {value(x), value(dy)}), x});
  EXPECT_THROW(partition(b.graph, {1, 1}), InternalError);
}

// ---- What is computed again

TEST(Partition, AProductIsSavedAndWhatFollowsIsComputedAgain) {
  TanhLayer g;
  const ValueId z = g.add("exp", {value(g.product)});
  g.returns({z, g.add("mul", {value(g.dp), value(z)}), g.dx, g.dw});
  const PartitionOptions options{2, 1};
  const Partition halves = partition(g.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{g.x, g.w, g.product}));
  EXPECT_EQ(halves.forward.nodes.size(), 2u) << halves.forward;
  EXPECT_EQ(bytes_saved(halves), 5 * 4 * 4);
  expect_same_results(g.graph, options, halves);
}

TEST(Partition, OfANormOnlyOneNumberForEachRowIsSaved) {
  GraphBuilder b;
  const ValueId x = b.input({64, 32}), dy = b.input({64, 32});
  const ValueId squares = b.add("mul", {value(x), value(x)});
  const ValueId mean = b.add("sum", {value(squares)}, {DimList{1}, true, Attr()});
  const ValueId shifted = b.add("add", {value(mean), number(1e-5), number(1)});
  const ValueId scale = b.add("rsqrt", {value(shifted)});
  const ValueId normal = b.add("mul", {value(x), value(scale)});
  const ValueId y = b.add("sin", {value(normal)});
  const ValueId dn = b.add("mul", {value(dy), value(b.add("cos", {value(normal)}))});
  const ValueId dx = b.add("mul", {value(dn), value(scale)});
  b.returns({y, dx});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{x, scale})) << b.graph;
  EXPECT_EQ(bytes_saved(halves), 64 * 4);
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, WhatALibraryCallOfBackwardReadsIsSaved) {
  GraphBuilder b;
  const ValueId x = b.input({8, 8}), w = b.input({8, 8}), dy = b.input({8, 8});
  const ValueId h = b.add("exp", {value(x)});
  const ValueId y = b.add("mm", {value(h), value(w)});
  const ValueId ht = b.add("transpose", {value(h)}, {0, 1});
  b.returns({y, b.add("mm", {value(ht), value(dy)})});
  const PartitionOptions options{2, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{h}));
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, WhoMayWriteAValueDecidesWhetherItIsSaved) {
  GraphBuilder b;
  const ValueId x = b.input({8}), dy = b.input({8});
  const ValueId y = b.add("exp", {value(x)});
  b.returns({y, b.add("mul", {value(dy), value(y)})});
  PartitionOptions options{1, 1};
  EXPECT_EQ(saved_of(partition(b.graph, options)), (std::vector<ValueId>{y})) << "less work, and there too";
  options.outputs = {SavedAs::Copy};
  EXPECT_EQ(saved_of(partition(b.graph, options)), (std::vector<ValueId>{x}));
  options.primals = {SavedAs::Exposed};
  EXPECT_EQ(saved_of(partition(b.graph, options)), (std::vector<ValueId>{x}));
  options.outputs = {SavedAs::Itself};
  EXPECT_EQ(saved_of(partition(b.graph, options)), (std::vector<ValueId>{y}));
  options.outputs = {SavedAs::Copy};
  options.primals = {SavedAs::Copy};
  const Partition halves = partition(b.graph, options);
  ASSERT_EQ(halves.saved.size(), 1u);
  EXPECT_TRUE(halves.saved[0].is_copied);
}

TEST(Partition, ALongChainIsSavedOnTheWay) {
  GraphBuilder b;
  const ValueId x = b.input({1000}), dy = b.input({1000});
  ValueId y = x, dx = dy;
  std::vector<ValueId> chain;
  for (int i = 0; i < 400; ++i) {
    chain.push_back(y);
    y = b.add("sin", {value(y)});
  }
  for (size_t i = chain.size(); i-- > 0;)
    dx = b.add("mul", {value(dx), value(b.add("cos", {value(chain[i])}))});
  b.returns({y, dx});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_GT(halves.saved.size(), 3u);
  EXPECT_LT(halves.saved.size(), 200u);
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, RandomNumbersAreDrawnAgain) {
  GraphBuilder b;
  const ValueId x = b.input({64}), dy = b.input({64});
  const ValueId draws =
      b.add("rand", {}, {SymList{64}, DType::Float32, Device(kCPU), Scalar(int64_t{7}), Scalar(int64_t{5})});
  const ValueId mask = b.add("lt", {value(draws), number(0.5)});
  const ValueId y = b.add("mul", {value(x), value(mask)});
  b.returns({y, b.add("mul", {value(dy), value(mask)})});
  const PartitionOptions options{1, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_TRUE(halves.saved.empty());
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, ACheckpointIsComputedAgainProductsIncluded) {
  GraphBuilder b;
  const ValueId x = b.input({8, 8}), w = b.input({8, 8}), dy = b.input({8, 8});
  const ValueId inner = b.add("mm", {value(x), value(w)});
  const ValueId act = b.add("exp", {value(inner)});
  const ValueId left = b.add("mm", {value(act), value(w)});
  for (Node& node : b.graph.nodes) node.checkpoint = 1;
  const ValueId y = b.add("mm", {value(left), value(w)});
  const ValueId da = b.add("mul", {value(dy), value(act)});
  const ValueId lt = b.add("transpose", {value(left)}, {0, 1});
  b.returns({y, da, b.add("mm", {value(lt), value(dy)})});
  const PartitionOptions options{2, 1};
  const Partition halves = partition(b.graph, options);
  EXPECT_EQ(saved_of(halves), (std::vector<ValueId>{x, w, left}))
      << "what leaves the checkpoint may be saved";
  expect_same_results(b.graph, options, halves);
}

TEST(Partition, EachGroupOfGradientsHasAGraph) {
  GraphBuilder b;
  const ValueId x = b.input({8}), y = b.input({8}), d0 = b.input({8}), d1 = b.input({8});
  const ValueId p = b.add("sin", {value(x)}), q = b.add("exp", {value(y)});
  const ValueId dx = b.add("mul", {value(d0), value(b.add("cos", {value(x)}))});
  const ValueId dy = b.add("mul", {value(d1), value(q)});
  b.returns({p, q, dx, dy, dx, dy});
  PartitionOptions options{2, 2};
  options.gradients_of = {2, 1, 1};
  const Partition halves = partition(b.graph, options);
  ASSERT_EQ(halves.backward.size(), 3u);
  EXPECT_EQ(halves.backward[0].reads, (std::vector<ValueId>{x, q, d0, d1}));
  EXPECT_EQ(halves.backward[1].reads, (std::vector<ValueId>{x, d0}));
  EXPECT_EQ(halves.backward[2].reads, (std::vector<ValueId>{q, d1}));
  expect_same_results(b.graph, options, halves);
}

// ---- The cheapest cut

// Whether what backward reads can be computed from these values, and what it takes to save them.
std::optional<int64_t> cost_of_cut(const JointGraph& joint, const std::vector<bool>& saved,
                                   const std::vector<int64_t>& costs, const std::vector<bool>& banned) {
  const Graph& graph = joint.graph;
  std::vector<bool> there = saved;
  int64_t cost = 0;
  for (ValueId v = 0; v < saved.size(); ++v)
    if (saved[v]) cost += costs[v];
  for (NodeId n = 0; n < graph.nodes.size(); ++n) {
    const ValueId v = graph.nodes[n].first_output;
    const auto& reads = joint.reads[n];
    const bool can = std::all_of(reads.begin(), reads.end(), [&](ValueId read) { return there[read]; });
    if (!joint.needs_tangent[n] && !banned[v] && can) there[v] = true;
    if (!joint.needs_tangent[n]) continue;
    for (const ValueId read : reads)
      if (!joint.depends_on_tangent[read] && !there[read]) return std::nullopt;
  }
  for (const ValueId gradient : joint.gradients())
    if (!joint.depends_on_tangent[gradient] && !there[gradient]) return std::nullopt;
  return cost;
}

TEST(MinimumCut, IsAsCheapAsTheBestOfAllSets) {
  constexpr uint32_t kGraphs = 400;
  constexpr size_t kOpen = 11;  // values that may be saved: 2^11 sets
  size_t not_all = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    GraphBuilder b;
    std::vector<ValueId> open, closed;
    const size_t num_primals = 1 + below(3);
    for (size_t i = 0; i < num_primals; ++i) open.push_back(b.input({4}));
    closed.push_back(b.input({4}));
    const auto any = [&](const std::vector<ValueId>& list) { return value(list[below(list.size())]); };
    while (open.size() < kOpen)
      open.push_back(below(2) == 0 ? b.add("sin", {any(open)}) : b.add("mul", {any(open), any(open)}));
    for (size_t i = 0, n = 1 + below(5); i < n; ++i)
      closed.push_back(b.add("mul", {any(closed), any(below(4) == 0 ? closed : open)}));
    b.returns({open.back(), closed.back(), closed[below(closed.size())], open[below(open.size())]});
    const JointGraph joint(b.graph, num_primals, 1);
    std::vector<int64_t> costs(b.graph.values.size());
    std::vector<bool> banned(b.graph.values.size());
    for (const ValueId v : open) {
      costs[v] = static_cast<int64_t>(below(6));
      banned[v] = b.graph[v].node != kNoNode && below(3) == 0;
    }
    const std::vector<bool> found = minimum_cut(joint, costs, banned);
    const std::optional<int64_t> cost = cost_of_cut(joint, found, costs, banned);
    ASSERT_TRUE(cost) << "backward lacks something\n" << b.graph;
    std::optional<int64_t> best;
    for (uint32_t set = 0; set < 1u << kOpen; ++set) {
      std::vector<bool> saved(b.graph.values.size());
      for (size_t i = 0; i < kOpen; ++i) saved[open[i]] = (set >> i & 1) != 0;
      if (const auto other = cost_of_cut(joint, saved, costs, banned))
        best = std::min(best.value_or(*other), *other);
    }
    ASSERT_EQ(*cost, *best) << b.graph;
    not_all += std::any_of(open.begin(), open.end(),
                           [&](ValueId v) { return !found[v] && (banned[v] || b.graph[v].node == kNoNode); });
  }
  EXPECT_GT(not_all, kGraphs / 2) << "cuts that are more than everything banned";
}

TEST(MinimumCut, OfEquallyCheapOnesTheNearestToBackward) {
  GraphBuilder b;
  const ValueId x = b.input({4}), dy = b.input({4});
  const ValueId p = b.add("sin", {value(x)}), q = b.add("sin", {value(p)});
  b.returns({q, b.add("mul", {value(dy), value(q)})});
  const JointGraph joint(b.graph, 1, 1);
  EXPECT_EQ(minimum_cut(joint, std::vector<int64_t>(5, 3), std::vector<bool>(5)),
            (std::vector<bool>{false, false, false, true, false}));
}

TEST(MaxFlow, FindsTheKnownFlowOfATextbookNetwork) {
  // Cormen et al., figure 26.1: 23.
  MaxFlow network(6);
  const int edges[][3] = {{0, 1, 16}, {0, 2, 13}, {1, 3, 12}, {2, 1, 4}, {3, 2, 9},
                          {2, 4, 14}, {4, 3, 7},  {3, 5, 20}, {4, 5, 4}};
  for (const auto& [from, to, capacity] : edges)
    network.add_edge(static_cast<uint32_t>(from), static_cast<uint32_t>(to), capacity);
  EXPECT_EQ(network.run(0, 5), 23);
  EXPECT_EQ(network.sink_side(), (std::vector<bool>{false, false, false, true, false, true}));
}

// ---- The budget

// A chain of layers, products and what follows them, with its gradients.
struct Layers : GraphBuilder {
  ValueId x = input({32, 16}, DType::Float32, "x");
  std::vector<ValueId> weights;
  ValueId tangent;
  explicit Layers(int count) {
    for (int i = 0; i < count; ++i) weights.push_back(input({16, 16}));
    tangent = input({32, 16});
    std::vector<ValueId> before, products, after;
    ValueId h = x;
    for (const ValueId w : weights) {
      before.push_back(h);
      products.push_back(add("mm", {value(h), value(w)}));
      const ValueId scaled = add("mul", {value(products.back()), number(0.5)});
      const ValueId total = add("sum", {value(scaled)}, {DimList{1}, true, Attr()});
      h = add("tanh", {value(add("sub", {value(scaled), value(total), number(1)}))});
      after.push_back(h);
    }
    std::vector<ValueId> outputs = {h};
    ValueId d = tangent;
    for (size_t i = weights.size(); i-- > 0;) {
      d = add("tanh.grad0", {value(d), value(products[i]), value(after[i])});
      const ValueId ht = add("transpose", {value(before[i])}, {0, 1});
      outputs.push_back(add("mm", {value(ht), value(d)}));
      const ValueId wt = add("transpose", {value(weights[i])}, {0, 1});
      d = add("mm", {value(d), value(wt)});
    }
    outputs.push_back(d);
    graph.outputs = outputs;
  }
};

TEST(PartitionBudget, ASmallerBudgetNeverSavesMoreAndIsKept) {
  Layers g(6);
  PartitionOptions options{7, 1};
  const double most = bytes_saved(partition(g.graph, options));
  ASSERT_GT(most, 0);
  double before = most;
  std::set<double> different;
  for (int tenth = 10; tenth >= 0; --tenth) {
    options.memory_budget = tenth / 10.0;
    const Partition halves = partition(g.graph, options);
    const double bytes = bytes_saved(halves);
    EXPECT_LE(bytes, before) << options.memory_budget;
    EXPECT_LE(bytes, options.memory_budget * most) << options.memory_budget;
    expect_same_results(g.graph, options, halves);
    before = bytes;
    different.insert(bytes);
  }
  EXPECT_EQ(before, 0) << "inputs alone";
  EXPECT_GE(different.size(), 4u);
}

TEST(PartitionBudget, WhatIsCheapToComputeAgainGoesFirst) {
  Layers g(6);
  PartitionOptions options{7, 1};
  options.memory_budget = 0.9;
  const Partition halves = partition(g.graph, options);
  const auto products_in = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const Node& node) { return node.op->kind == Kind::Extern; });
  };
  EXPECT_EQ(products_in(halves.backward[0].graph), 12) << "two for each layer, none of forward";
  options.memory_budget = 0;
  EXPECT_GT(products_in(partition(g.graph, options).backward[0].graph), 12);
}

}  // namespace
}  // namespace weft::compiler::tests
