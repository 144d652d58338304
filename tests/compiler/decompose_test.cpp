// decompose: every decomposition of the table gives the bits of its op, through graphs; sets, registered decompositions.
#include "compiler/passes/decompose.h"

#include <gtest/gtest.h>

#include <iostream>

#include "compiler/passes/simplify.h"
#include "tests/compiler/graph_builder.h"
#include "tests/harness/sample.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::Arrangement;
using weft::tests::BoundCall;
using weft::tests::difference_of_bits;
using weft::tests::Sample;
using Tensors = std::vector<Tensor>;

constexpr DType kAllDTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Int64,
                                DType::Int32,   DType::Int16,   DType::Int8,     DType::UInt8,   DType::Bool};

// One node on inputs like the call's tensors, which `inputs` receives.
Graph graph_of(const Op& op, const BoundCall& call, Tensors& inputs) {
  GraphBuilder b;
  Node node;
  node.op = &op;
  node.attrs = call.attrs();
  for (const Operand& operand : call.operands()) {
    if (operand.is_tensor()) {
      inputs.push_back(*operand.tensor);
      node.operands.push_back(value(b.graph.add_input(spec_of(*operand.tensor))));
    } else {
      node.operands.push_back(operand.is_scalar ? number(operand.scalar) : Argument());
    }
  }
  b.returns({b.add(std::move(node))});
  return std::move(b.graph);
}

class Decompositions : public ::testing::TestWithParam<const Op*> {};

TEST_P(Decompositions, GiveTheBitsOfTheOp) {
  const Op& op = *GetParam();
  size_t compared = 0;
  for (const Sample& sample : weft::tests::samples_of(op)) {
    for (const DType dtype : kAllDTypes) {
      const Tensors plain = weft::tests::make_tensors(op, sample, dtype, weft::tests::Fill::Specials);
      for (const Arrangement how :
           {Arrangement::Contiguous, Arrangement::Transposed, Arrangement::Gaps, Arrangement::Expanded}) {
        Tensors tensors;
        for (size_t k = 0; k < plain.size(); ++k)
          tensors.push_back(how == Arrangement::Expanded && sample.tensors()[k].dtype
                                ? plain[k]
                                : arranged(plain[k], k % 2 == 0 ? how : Arrangement::Contiguous));
        const BoundCall call = sample.call(op, tensors);
        Tensors want;
        try {
          want = call.run();
        } catch (const Error&) {
          continue;
        }
        SCOPED_TRACE(weft::detail::concat(op.name(), '(', sample.text, ") in ", dtype, ' ', name_of(how)));
        Tensors inputs;
        const Graph graph = graph_of(op, call, inputs);
        const Graph parts = decompose(graph);
        verify(parts);
        Tensors got;
        ASSERT_NO_THROW(got = run(parts, inputs)) << parts;
        EXPECT_EQ(difference_of_bits(got[0], want[0]), "") << parts;
        EXPECT_EQ(got[0].strides(), want[0].strides()) << parts;
        const Graph simple = simplify(parts);
        verify(simple);
        got = run(simple, inputs);
        EXPECT_EQ(difference_of_bits(got[0], want[0]), "") << "simplified: " << simple;
        compared += parts.nodes.size() != 1 || parts.nodes[0].op != &op;
        if (HasFailure()) return;
      }
    }
  }
  // A primitive stays as it is.
  std::cout << op.name() << ": " << compared << " calls taken apart\n";
}

std::vector<const Op*> decomposed_ops() {
  std::vector<const Op*> ops;
  for (const Op* op : OpTable::instance().all())
    if (op->decompose && op->kind != Kind::Extern && !op->is_random) ops.push_back(op);
  return ops;
}
INSTANTIATE_TEST_SUITE_P(OpTable, Decompositions, ::testing::ValuesIn(decomposed_ops()),
                         [](const auto& info) {
                           std::string name = info.param->name();
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
                           return name;
                         });

Graph softmax_graph(const SymList& sizes = {2, 3}) {
  GraphBuilder b;
  const ValueId x = b.input(sizes);
  b.returns({b.add("softmax", {value(x)}, {-1, Attr()}, SourceLocation::current())});
  return std::move(b.graph);
}

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.op->name());
  return names;
}
using Names = std::vector<std::string>;

TEST(Decompose, GoesDownToPrimitivesAndKeepsTheOrigin) {
  const Graph parts = decompose(softmax_graph());
  EXPECT_EQ(names_of(parts), (Names{"amax", "sub", "exp", "sum", "true_divide"}));
  for (const Node& node : parts.nodes) {
    EXPECT_EQ(node.composite, &OpTable::instance().get("softmax"));
    EXPECT_NE(node.where.line(), 0u);
  }
}

TEST(Decompose, ASetNamesKindsAndOps) {
  const Graph graph = softmax_graph();
  EXPECT_EQ(names_of(decompose(graph, DecompositionSet::none())), Names{"softmax"});
  EXPECT_EQ(names_of(decompose(graph, DecompositionSet().remove("softmax"))), Names{"softmax"});
  EXPECT_EQ(names_of(decompose(graph, DecompositionSet().remove(Kind::Reduction))), Names{"softmax"});
  EXPECT_EQ(decompose(graph, DecompositionSet::none().add("softmax")).nodes.size(), 5u);
  GraphBuilder b;
  const ValueId x = b.input({3, 4});
  b.returns({b.add("mean", {value(b.add("silu", {value(x)}))}, {DimList{1}, false, Attr()})});
  EXPECT_EQ(names_of(decompose(b.graph, DecompositionSet().remove(Kind::Pointwise))),
            (Names{"silu", "sum", "true_divide"}));
}

TEST(Decompose, SymbolicSizesStaySymbolic) {
  GraphBuilder b;
  const Sym s = b.graph.expressions->syms.add_symbol({"s0", 5, 2});
  const ValueId x = b.input({Sym::from_int(3), s});
  b.returns({b.add("mean", {value(b.add("softmax", {value(x)}, {1, Attr()}))}, {DimList{1}, false, Attr()}),
             b.add("var", {value(x)}, {DimList{1}, 1.0, false})});
  const Graph parts = decompose(b.graph);
  verify(parts);
  for (const Node& node : parts.nodes)
    EXPECT_TRUE(node.op->name() != "softmax" && node.op->name() != "mean" && node.op->name() != "var")
        << parts;
  const GraphRunner whole(b.graph), taken_apart(parts);
  for (const int64_t n : {2, 7, 40}) {
    const int64_t symbols[] = {n};
    const Tensor input = sin(arange(3 * n)).view({3, n});
    const Tensors want = run(whole, {input}, {symbols, {}}), got = run(taken_apart, {input}, {symbols, {}});
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(difference_of_bits(got[i], want[i]), "") << n;
  }
}

TEST(Decompose, ARegisteredDecompositionReplacesTheTables) {
  const auto silly = [](const Call& call) { return mul(call.tensor(0), 2); };
  register_decomposition("mm", [](const Call& call) {
    return bmm(call.tensor(0).unsqueeze(0), call.tensor(1).unsqueeze(0)).squeeze(DimList{0});
  });
  register_decomposition("exp", silly);
  GraphBuilder b;
  const ValueId x = b.input({3, 3});
  b.returns({b.add("mm", {value(b.add("exp", {value(x)})), value(x)})});
  const Graph parts = decompose(b.graph, DecompositionSet().add(Kind::Extern).remove("bmm"));
  unregister_decomposition("mm");
  unregister_decomposition("exp");
  // The result of an op has memory of its own.
  EXPECT_EQ(names_of(parts), (Names{"mul", "unsqueeze", "unsqueeze", "bmm", "squeeze", "clone"}));
  EXPECT_EQ(names_of(decompose(b.graph)), (Names{"exp", "mm"}));
  EXPECT_THROW(register_decomposition("sort", silly), Error);
  EXPECT_THROW(register_decomposition("no_such_op", silly), Error);
}

TEST(Decompose, ErrorsOfADecompositionSayWhatIsWrong) {
  const auto message = [](Decomposition body) {
    register_decomposition("exp", std::move(body));
    GraphBuilder b;
    const ValueId x = b.input({3});
    b.returns({b.add("exp", {value(x)})});
    std::string text = "no error";
    try {
      decompose(b.graph);
    } catch (const Error& error) {
      text = error.what();
    }
    unregister_decomposition("exp");
    return text;
  };
  EXPECT_NE(message([](const Call& call) {
              return sum(call.tensor(0));
            }).find("decomposition of exp: it gives [] float32 instead of [3] float32"),
            std::string::npos);
  const Tensor outside = ones({3});
  EXPECT_NE(message([&](const Call& call) {
              return mul(call.tensor(0), outside);
            }).find("decomposition of exp: uses [3] float32, which is not one of its operands"),
            std::string::npos);
  EXPECT_NE(message([](const Call& call) {
              Tensor x = call.tensor(0);
              return x.add_(1);
            }).find("decomposition of exp: calls add_, which writes in place"),
            std::string::npos);
  EXPECT_NE(message([](const Call& call) {
              return mul(call.tensor(0), sum(call.tensor(0)).item());
            }).find("decomposition of exp: reads the value of [] float32"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::compiler::tests
