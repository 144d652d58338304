// Every pass leaves what a graph computes, to the bit, and what its outputs share; on random graphs.
#include <gtest/gtest.h>

#include <iostream>

#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/simplify.h"
#include "tests/compiler/random_graph.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;
using Tensors = std::vector<Tensor>;

constexpr uint32_t kGraphs = 300;
constexpr int kNodes = 40;

// Which tensors are one, and which share memory.
std::string sharing_of(const Tensors& inputs, const Tensors& outputs) {
  std::string text;
  Tensors all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      text += all[i].is_same(all[j]) ? '=' : all[i]->storage == all[j]->storage ? '~' : '.';
  return text;
}

void expect_same(const Graph& graph, const Graph& given, const Tensors& inputs, const Tensors& want) {
  verify(graph);
  const Tensors got = run(graph, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(difference_of_bits(got[i], want[i]), "")
        << "output " << i << "\nbefore " << given << "after " << graph;
    ASSERT_EQ(got[i].strides(), want[i].strides())
        << "output " << i << "\nbefore " << given << "after " << graph;
  }
  ASSERT_EQ(sharing_of(inputs, got), sharing_of(inputs, want)) << "before " << given << "after " << graph;
}

TEST(Passes, KeepBitsStridesAndSharing) {
  const Pass passes[] = {{"dce", dce},
                         {"cse", cse},
                         {"simplify", simplify},
                         {"decompose", [](const Graph& g) { return decompose(g); }},
                         {"decompose, simplify, cse, simplify, dce",
                          [](const Graph& g) { return dce(simplify(cse(simplify(decompose(g))))); }}};
  size_t before = 0, after[std::size(passes)] = {};
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(seed, kNodes);
    Graph& graph = random.graph;
    for (size_t i = 0, n = 1 + random.below(8); i < n; ++i)
      graph.outputs.push_back(static_cast<ValueId>(random.chance(0.1) ? random.below(graph.inputs.size())
                                                                      : random.below(graph.values.size())));
    verify(graph);
    const Tensors want = run(graph, random.inputs);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(difference_of_bits(want[i], random.values[graph.outputs[i]]), "") << "the runner itself\n"
                                                                                  << graph;
    before += dce(graph).nodes.size();
    for (size_t p = 0; p < std::size(passes); ++p) {
      SCOPED_TRACE(passes[p].name);
      try {
        const Graph changed = passes[p].run(graph);
        ASSERT_NO_FATAL_FAILURE(expect_same(changed, graph, random.inputs, want));
        EXPECT_TRUE(is_same(changed, passes[p].run(graph))) << "not deterministic";
        after[p] += dce(changed).nodes.size();
      } catch (const Error& error) {
        FAIL() << error.what() << "\nof " << graph;
      }
    }
  }
  std::cout << before << " live nodes";
  for (size_t p = 0; p < std::size(passes); ++p) std::cout << "; after " << passes[p].name << ' ' << after[p];
  std::cout << '\n';
  EXPECT_LT(after[1], before);
  EXPECT_LT(after[2], before);
}

TEST(Passes, BothHalvesOfAPartitionGiveTheJointResults) {
  size_t saved = 0;
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(1000 + seed, kNodes);
    Graph& graph = random.graph;
    PartitionOptions options;
    options.num_primals = 1 + random.below(graph.inputs.size() - 1);
    std::vector<bool> depends(graph.values.size());
    for (size_t i = options.num_primals; i < graph.inputs.size(); ++i) depends[graph.inputs[i]] = true;
    std::vector<ValueId> primal, other;
    for (const Node& node : graph.nodes)
      for (uint32_t k = 0; k < node.num_outputs; ++k)
        for (ValueId read : values_read_by(graph, node))
          if (depends[read]) depends[node.first_output + k] = true;
    for (ValueId id = 0; id < graph.values.size(); ++id) (depends[id] ? other : primal).push_back(id);
    options.num_outputs = random.below(4);
    for (size_t i = 0; i < options.num_outputs; ++i)
      graph.outputs.push_back(primal[random.below(primal.size())]);
    for (size_t i = 0, n = 1 + random.below(4); i < n; ++i) {
      const std::vector<ValueId>& from = random.chance(0.2) || other.empty() ? primal : other;
      graph.outputs.push_back(from[random.below(from.size())]);
    }
    const Tensors want = run(graph, random.inputs);
    if (random.chance(0.3)) {
      options.gradients_of = {1, graph.outputs.size() - options.num_outputs - 1};
    }
    for (Node& node : graph.nodes) node.checkpoint = random.chance(0.1) ? 1 : 0;
    for (const double budget : {1.0, 0.5, 0.0}) {
      options.recompute = !random.chance(0.2);
      options.memory_budget = budget;
      const Partition halves = partition(graph, options);
      verify(halves.forward);
      const auto cut = static_cast<std::ptrdiff_t>(options.num_primals);
      const Tensors forward =
          run(halves.forward, Tensors(random.inputs.begin(), random.inputs.begin() + cut));
      std::unordered_map<ValueId, Tensor> there;
      for (size_t i = 0; i < graph.inputs.size(); ++i) there[graph.inputs[i]] = random.inputs[i];
      size_t next = options.num_outputs;
      for (const Partition::Saved& each : halves.saved)
        if (graph[each.value].node != kNoNode) there[each.value] = forward[next++];
      ASSERT_EQ(next, forward.size());
      Tensors got(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(options.num_outputs));
      for (const Partition::Backward& backward : halves.backward) {
        verify(backward.graph);
        Tensors given;
        for (const ValueId value : backward.reads) given.push_back(there.at(value));
        const Tensors gradients = run(backward.graph, given);
        got.insert(got.end(), gradients.begin(), gradients.end());
      }
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(difference_of_bits(got[i], want[i]), "") << i << '\n' << graph << halves.forward;
      saved += halves.saved.size();
    }
  }
  EXPECT_GT(saved, kGraphs);
}

}  // namespace
}  // namespace weft::compiler::tests
