// The graph: its listing, what verify() refuses, hashes, users.
#include <gtest/gtest.h>

#include "tests/compiler/graph_builder.h"

namespace weft::compiler::tests {
namespace {

// x [3, 4] and w [4, 2]: relu(x·w + 1), its largest elements, and their sum without gradients.
Graph sample() {
  GraphBuilder b;
  b.graph.name = "forward";
  const ValueId x = b.input({3, 4}, DType::Float32, "x"), w = b.input({4, 2}, DType::Float32, "w");
  const ValueId product = b.add("mm", {value(x), value(w)});
  b.graph.nodes.back().composite = &OpTable::instance().get("linear");
  const ValueId shifted = b.add("add", {value(product), number(1), number(1)});
  const ValueId y = b.add("relu", {value(shifted)});
  const ValueId best = b.add("max_dim", {value(y)}, {1, false});
  const ValueId turned = b.add("transpose", {value(y)}, {0, 1});
  const ValueId total = b.add("sum", {value(turned)}, {DimList{1}, true, Attr()});
  b.graph.nodes.back().grad_mode = false;
  b.returns({turned, total, best + 1, x});
  return std::move(b.graph);
}

std::string failure_of(const Graph& graph) {
  try {
    verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

#define EXPECT_REFUSED(graph, text) \
  EXPECT_NE(failure_of(graph).find(text), std::string::npos) << failure_of(graph)

TEST(Graph, ListingShowsTypesAttributesAndTags) {
  EXPECT_EQ(to_string(sample()),
            "forward(%0 x: f32[3, 4], %1 w: f32[4, 2]) {\n"
            "  %2: f32[3, 2] = mm(%0, %1)   # linear\n"
            "  %3: f32[3, 2] = add(%2, b=1)\n"
            "  %4: f32[3, 2] = relu(%3)\n"
            "  %5: f32[3], %6: i64[3] = max_dim(%4, dim=1)\n"
            "  %7: f32[2, 3] strides [1, 2] = transpose(%4, dim0=0, dim1=1)\n"
            "  %8: f32[2, 1] = sum(%7, dim=[1], keepdim=True)   # no_grad\n"
            "  return %7, %8, %6, %0\n"
            "}\n");
}

TEST(Graph, ListingShowsTheUsersLineListsAndNumbers) {
  GraphBuilder b;
  const ValueId x = b.input({2}, DType::Float64);
  const SourceLocation here = SourceLocation::current();
  const ValueId both = b.add("cat", {value(x), value(x)}, {0}, here);
  b.returns({b.add("leaky_relu", {value(both), number(0.3)})});
  EXPECT_EQ(to_string(b.graph), weft::detail::concat("graph(%0: f64[2]) {\n"
                                                     "  %1: f64[4] = cat([%0, %0])   # graph_test.cpp:",
                                                     here.line(),
                                                     "\n"
                                                     "  %2: f64[4] = leaky_relu(%1, negative_slope=0.3)\n"
                                                     "  return %2\n"
                                                     "}\n"));
}

TEST(Verify, AcceptsWhatTheShapeRulesGive) { EXPECT_EQ(failure_of(sample()), "nothing"); }

TEST(Verify, RefusesAValueReadBeforeItIsThere) {
  Graph g = sample();
  std::swap(g.nodes[1], g.nodes[2]);
  EXPECT_REFUSED(g, "is not the result of its node");
  Graph later = sample();
  later.nodes[0].operands[0].value = 4;
  EXPECT_REFUSED(later, "%4 is read before it is there");
}

TEST(Verify, RefusesSpecsThatTheRuleDoesNotGive) {
  Graph g = sample();
  g.values[3].sizes[0] = Sym::from_int(4);
  EXPECT_REFUSED(g, "node 1 (add): result 0 has sizes [4, 2]; its rule gives [3, 2]");
  g = sample();
  g.values[7].strides[0] = Sym::from_int(3);
  EXPECT_REFUSED(g, "node 4 (transpose): result 0 has strides [3, 2]; its rule gives [1, 2]");
  g = sample();
  g.values[6].dtype = DType::Int32;
  EXPECT_REFUSED(g, "node 3 (max_dim): result 1 is int32");
}

TEST(Verify, RefusesOperandsAndAttributesThatDoNotFitTheSchema) {
  Graph g = sample();
  g.nodes[1].operands[2] = value(0);
  EXPECT_REFUSED(g, "slot 2 (alpha) holds a tensor, which it does not take");
  g = sample();
  g.nodes[0].operands[1] = number(2);
  EXPECT_REFUSED(g, "slot 1 (b) holds a number, which it does not take");
  g = sample();
  g.nodes[5].attrs[0] = Attr(1);
  EXPECT_REFUSED(g, "attribute dim is of another type");
  g = sample();
  g.nodes[3].attrs.clear();
  EXPECT_REFUSED(g, "attribute dim is missing");
}

TEST(Verify, RefusesMutationsCompositesAndBrokenIds) {
  Graph g = sample();
  g.nodes[2].op = &OpTable::instance().get("relu_");
  EXPECT_REFUSED(g, "a mutation is left");
  g = sample();
  g.outputs.push_back(99);
  EXPECT_REFUSED(g, "output 4 is %99, which does not exist");
  g = sample();
  g.inputs.pop_back();
  g.input_names.pop_back();
  EXPECT_REFUSED(g, "%1 has neither a node nor a place among the inputs");
}

TEST(Verify, PrintsTheListing) {
  Graph g = sample();
  g.values[3].dtype = DType::Float64;
  EXPECT_REFUSED(g, "%3: f64[3, 2] = add(%2, b=1)");
}

TEST(GraphHash, NamesAndLinesDoNotCount) {
  Graph a = sample(), b = sample();
  b.name = "other";
  b.input_names.clear();
  b.nodes[1].where = SourceLocation::current();
  b.nodes[0].composite = nullptr;
  EXPECT_TRUE(is_same(a, b));
  EXPECT_EQ(hash_of(a), hash_of(b));
}

TEST(GraphHash, EverythingThatIsComputedCounts) {
  const Graph a = sample();
  const auto differs = [&](auto change) {
    Graph b = sample();
    change(b);
    return !is_same(a, b) && hash_of(a) != hash_of(b);
  };
  EXPECT_TRUE(differs([](Graph& g) { g.nodes[1].operands[1].number = Scalar(1.0); }))
      << "a number's category";
  EXPECT_TRUE(differs([](Graph& g) { g.nodes[1].operands[1].number = Scalar(-1); }));
  EXPECT_TRUE(differs([](Graph& g) { g.nodes[2].op = &OpTable::instance().get("abs"); }));
  EXPECT_TRUE(differs([](Graph& g) { g.nodes[5].attrs[1] = Attr(false); }));
  EXPECT_TRUE(differs([](Graph& g) { g.nodes[0].operands[0].value = 1; }));
  EXPECT_TRUE(differs([](Graph& g) { g.values[0].dtype = DType::Float64; }));
  EXPECT_TRUE(differs([](Graph& g) { g.values[0].offset = Sym::from_int(1); }));
  EXPECT_TRUE(differs([](Graph& g) { std::swap(g.outputs[0], g.outputs[1]); }));
  EXPECT_TRUE(differs([](Graph& g) { g.outputs.pop_back(); }));
}

TEST(GraphHash, ZeroAndMinusZeroDiffer) {
  Graph a = sample(), b = sample();
  a.nodes[1].operands[1].number = Scalar(0.0);
  b.nodes[1].operands[1].number = Scalar(-0.0);
  EXPECT_FALSE(is_same(a, b));
}

TEST(UsersOf, CountsOperandsItemsAndOutputs) {
  Graph g = sample();
  ScalarExpr item;
  item.kind = ScalarExpr::Kind::Item;
  item.category = Scalar::Category::Floating;
  item.index = 0;
  g.items = {0};
  const ScalarId id = g.expressions->scalars.add(item);
  ScalarExpr twice;
  twice.kind = ScalarExpr::Kind::Binary;
  twice.category = Scalar::Category::Floating;
  twice.op = ScalarOp::Add;
  twice.a = twice.b = id;
  g.nodes[1].operands[1].number =
      Scalar::from_trace(Scalar::Category::Floating, g.expressions->scalars.add(twice));
  const std::vector<std::vector<NodeId>> users = users_of(g);
  EXPECT_EQ(users[0], (std::vector<NodeId>{0, 1, kNoNode}));
  EXPECT_EQ(users[1], (std::vector<NodeId>{0}));
  EXPECT_EQ(users[4], (std::vector<NodeId>{3, 4}));
  EXPECT_EQ(users[5], (std::vector<NodeId>{}));
  EXPECT_EQ(users[7], (std::vector<NodeId>{5, kNoNode}));
}

}  // namespace
}  // namespace weft::compiler::tests
