// Random graphs of the op table, with the tensors they compute: for properties that every pass must keep.
// Needs graph_builder. The same seed gives the same graph.
#pragma once

#include <random>

#include "tests/compiler/graph_builder.h"

namespace weft::compiler::tests {

class RandomGraph {
 public:
  RandomGraph(uint32_t seed, int nodes);

  Graph graph;
  std::vector<Tensor> inputs;
  std::vector<Tensor> values;  // by value, computed by eager calls

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

 private:
  void add_inputs();
  bool try_add_node();
  void repeat_node();
  bool run_and_add(Node node);
  ValueId any_value() { return static_cast<ValueId>(below(values.size())); }
  Scalar any_number();
  Attr any_attr(const Param& param, const Tensor* first);

  std::mt19937 random_;
  std::vector<const Op*> ops_;
};

}  // namespace weft::compiler::tests
