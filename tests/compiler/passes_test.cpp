// dce, cse, simplify and the pipeline: what they change, and what they must leave because the caller would see it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/simplify.h"
#include "tensor/tensor_data.h"
#include "tests/compiler/graph_builder.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;

// The lines between the head and the end, without indentation.
std::string body_of(const Graph& graph) {
  verify(graph);
  const std::string text = to_string(graph);
  std::string body;
  size_t at = text.find('\n') + 1;
  while (at < text.size() && text[at] != '}') {
    const size_t end = text.find('\n', at);
    body += text.substr(at + 2, end - at - 1);
    at = end + 1;
  }
  return body;
}
Graph simplified(const Graph& graph) { return dce(simplify(graph)); }

Scalar read_of(Graph& graph, ValueId tensor) {
  ScalarExpr item;
  item.kind = ScalarExpr::Kind::Item;
  item.index = static_cast<uint32_t>(graph.items.size());
  graph.items.push_back(tensor);
  return Scalar::from_trace(Scalar::Category::Floating, graph.expressions->scalars.add(item));
}

// An op that must run although it gives nothing.
const Op& shout() {
  static const Op& op = [&]() -> const Op& {
    auto made = std::make_unique<Op>(Schema("shout_for_tests(Tensor x) -> ()"), Kind::Extern);
    made->infer = [](const Call&) { return OutputSpecs(); };
    made->cpu = [](const Call&, std::span<Tensor>) {};
    made->has_effect = true;
    return OpTable::instance().add(std::move(made));
  }();
  return op;
}

// ---- dce --------------------------------------------------------------------------------------------------------------

TEST(Dce, DropsWhatNobodyReads) {
  GraphBuilder b;
  const ValueId x = b.input({2}), unused = b.input({2});
  const ValueId y = b.add("exp", {value(x)});
  b.add("neg", {value(b.add("sin", {value(unused)}))});
  b.returns({y});
  EXPECT_EQ(body_of(dce(b.graph)), "%2: f32[2] = exp(%0)\nreturn %2\n");
  EXPECT_EQ(dce(b.graph).inputs.size(), 2u) << "a call brings the same tensors";
}

TEST(Dce, KeepsEffectsAndWhatNumbersRead) {
  GraphBuilder b;
  const ValueId x = b.input({2});
  const ValueId total = b.add("sum", {value(x)}, {DimList(), false, Attr()});
  const ValueId dead = b.add("sum", {value(x)}, {DimList(), true, Attr()});
  const Scalar read = read_of(b.graph, total);
  read_of(b.graph, dead);
  const ValueId y = b.add("mul", {value(x), number(read)});
  Node heard;
  heard.op = &shout();
  heard.operands = {value(b.add("neg", {value(x)}))};
  b.graph.add_node(heard, {});
  b.returns({y});
  const Graph kept = dce(b.graph);
  EXPECT_EQ(kept.nodes.size(), 4u);
  EXPECT_EQ(kept.items, (std::vector<ValueId>{1, kNoValue}));
  verify(kept);
}

// ---- cse --------------------------------------------------------------------------------------------------------------

TEST(Cse, ComputesEqualNodesOnce) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3}), y = b.input({2, 3});
  const ValueId a = b.add("mul", {value(x), value(y)}), c = b.add("mul", {value(y), value(x)});
  const ValueId d = b.add("sub", {value(a), value(x), number(1)}),
                e = b.add("sub", {value(c), value(x), number(1)}),
                f = b.add("sub", {value(x), value(c), number(1)}),
                g = b.add("sub", {value(c), value(x), number(1.0)});
  b.returns({b.add("cat", {value(d), value(e), value(f), value(g)}, {0})});
  EXPECT_EQ(body_of(dce(cse(b.graph))),
            "%2: f32[2, 3] = mul(%0, %1)\n"
            "%3: f32[2, 3] = sub(%2, %0)\n"
            "%4: f32[2, 3] = sub(%0, %2)\n"
            "%5: f32[2, 3] = sub(%2, %0)\n"  // alpha is 1.0: another number
            "%6: f32[8, 3] = cat([%3, %3, %4, %5])\n"
            "return %6\n");
}

TEST(Cse, KeepsDrawsWithDifferentCountersApart) {
  GraphBuilder b;
  const ValueId x = b.input({4});
  const auto drop = [&](int64_t offset) {
    return b.add("dropout_with_offset", {value(x)}, {0.5, Scalar(1), Scalar(offset)});
  };
  const ValueId first = drop(0), again = drop(0), next = drop(1);
  b.returns({b.add("cat", {value(first), value(again), value(next)}, {0})});
  EXPECT_EQ(dce(cse(b.graph)).nodes.size(), 3u);
}

TEST(Cse, TwoOutputsStayTwoTensors) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3});
  const ValueId a = b.add("exp", {value(x)}), c = b.add("exp", {value(x)}), d = b.add("exp", {value(x)});
  // The caller may write to one and look at the other; d is seen through a view.
  b.returns({a, c, b.add("transpose", {value(d)}, {0, 1})});
  EXPECT_EQ(cse(b.graph).nodes.size(), 4u);
  // Where one of them is not seen they are one.
  GraphBuilder inner;
  const ValueId y = inner.input({2, 3});
  const ValueId e = inner.add("exp", {value(y)}), f = inner.add("exp", {value(y)});
  inner.returns({e, inner.add("neg", {value(f)})});
  EXPECT_EQ(body_of(dce(cse(inner.graph))),
            "%1: f32[2, 3] = exp(%0)\n%2: f32[2, 3] = neg(%1)\nreturn %1, %2\n");
}

TEST(Cse, ViewsThatAreOutputsStayTwoTensorsOfOneMemory) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3});
  const ValueId a = b.add("transpose", {value(x)}, {0, 1}), c = b.add("transpose", {value(x)}, {0, 1});
  b.returns({a, c});
  EXPECT_EQ(cse(b.graph).nodes.size(), 2u);
}

TEST(Cse, EffectsHappenAsOftenAsTheyStand) {
  GraphBuilder b;
  const ValueId x = b.input({2});
  Node heard;
  heard.op = &shout();
  heard.operands = {value(x)};
  b.graph.add_node(heard, {});
  b.graph.add_node(heard, {});
  b.returns({x});
  EXPECT_EQ(dce(cse(b.graph)).nodes.size(), 2u);
}

// ---- simplify ---------------------------------------------------------------------------------------------------------

// One op on x [2, 3], f32 unless said otherwise.
struct OneOp : GraphBuilder {
  ValueId x;
  explicit OneOp(DType dtype = DType::Float32) : x(input({2, 3}, dtype)) {}
  // What is left where the value is an inner one.
  std::string left(ValueId y) {
    returns({add("exp", {value(y)})});
    return body_of(simplified(graph));
  }
};
constexpr const char* kOnlyExp = "%1: f32[2, 3] = exp(%0)\nreturn %1\n";

TEST(Simplify, IdentityNumbers) {
  OneOp m;
  EXPECT_EQ(m.left(m.add("mul", {value(m.x), number(1)})), kOnlyExp);
  OneOp d;
  EXPECT_EQ(d.left(d.add("true_divide", {value(d.x), number(1.0)})), kOnlyExp);
  OneOp s;
  EXPECT_EQ(s.left(s.add("sub", {value(s.x), number(0), number(1)})), kOnlyExp);
  OneOp a;
  EXPECT_EQ(a.left(a.add("add", {value(a.x), number(-0.0), number(1)})), kOnlyExp);
}

TEST(Simplify, AddingZeroIsNoIdentity) {  // -0 + 0 is 0
  OneOp a;
  EXPECT_EQ(a.left(a.add("add", {value(a.x), number(0), number(1)})),
            "%1: f32[2, 3] = add(%0, b=0)\n%2: f32[2, 3] = exp(%1)\nreturn %2\n");
  OneOp s;
  s.left(s.add("sub", {value(s.x), number(-0.0), number(1)}));
  EXPECT_EQ(simplified(s.graph).nodes.size(), 2u);
  OneOp scaled;
  scaled.left(scaled.add("sub", {value(scaled.x), number(0), number(-1)}));
  EXPECT_EQ(simplified(scaled.graph).nodes.size(), 2u);
}

TEST(Simplify, AnIdentityThatChangesTheTypeStays) {
  OneOp i(DType::Int64);
  EXPECT_EQ(i.left(i.add("true_divide", {value(i.x), number(1)})),
            "%1: f32[2, 3] = true_divide(%0, b=1)\n%2: f32[2, 3] = exp(%1)\nreturn %2\n");
  GraphBuilder b;
  const ValueId x = b.input({3}), y = b.input({2, 3});
  const ValueId one = b.add("full", {number(1)}, {SymList{2, 3}, DType::Float32, Device(kCPU), Attr()});
  b.returns({b.add("neg", {value(b.add("mul", {value(x), value(one)}))}), y});
  EXPECT_EQ(simplified(b.graph).nodes.size(), 3u) << "x is stretched";
}

TEST(Simplify, InvolutionsAndRepetitions) {
  OneOp n;
  EXPECT_EQ(n.left(n.add("neg", {value(n.add("neg", {value(n.x)}))})), kOnlyExp);
  OneOp r;
  EXPECT_EQ(r.left(r.add("relu", {value(r.add("relu", {value(r.x)}))})),
            "%1: f32[2, 3] = relu(%0)\n%2: f32[2, 3] = exp(%1)\nreturn %2\n");
  OneOp c;
  const ValueId once = c.add("clamp_min", {value(c.x), number(2)});
  EXPECT_EQ(c.left(c.add("clamp_min", {value(once), number(3)})),
            "%1: f32[2, 3] = clamp_min(%0, min=2)\n%2: f32[2, 3] = clamp_min(%1, min=3)\n"
            "%3: f32[2, 3] = exp(%2)\nreturn %3\n");
}

TEST(Simplify, Choices) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3}), y = b.input({2, 3}), c = b.input({2, 3}, DType::Bool);
  const ValueId yes = b.add("full", {number(true)}, {SymList{2, 3}, DType::Bool, Device(kCPU), Attr()});
  const ValueId no = b.add("logical_not", {value(yes)});
  static_cast<void>(no);
  const ValueId picked = b.add("where", {value(yes), value(x), value(y)});
  const ValueId same = b.add("where", {value(c), value(y), value(y)});
  b.returns({b.add("add", {value(picked), value(same), number(1)})});
  EXPECT_EQ(body_of(simplified(b.graph)), "%3: f32[2, 3] = add(%0, %1)\nreturn %3\n");
}

TEST(Simplify, UniformTensorsBecomeNumbers) {
  OneOp h(DType::BFloat16);
  const ValueId tenth = h.add("full", {number(0.1)}, {SymList(), DType::BFloat16, Device(kCPU), Attr()});
  const ValueId wide = h.add("expand", {value(tenth)}, {SymList{2, 3}});
  EXPECT_EQ(h.left(h.add("mul", {value(h.x), value(wide)})),
            // 0.1 as the tensor held it
            "%1: bf16[2, 3] = mul(%0, b=0.10009765625)\n%2: bf16[2, 3] = exp(%1)\nreturn %2\n");
  OneOp ones;
  const ValueId one = ones.add("full", {number(1)}, {SymList{3}, DType::Float32, Device(kCPU), Attr()});
  EXPECT_EQ(ones.left(ones.add("mul", {value(ones.x), value(one)})), kOnlyExp);
  // A float64 tensor turns the result to float64, a number would not.
  OneOp d;
  const ValueId two = d.add("full", {number(2)}, {SymList{3}, DType::Float64, Device(kCPU), Attr()});
  EXPECT_EQ(d.left(d.add("mul", {value(d.x), value(two)})),
            "%1: f64[3] = full(size=[3], fill_value=2, dtype=float64, device=cpu)\n"
            "%2: f64[2, 3] = mul(%0, %1)\n%3: f64[2, 3] = exp(%2)\nreturn %3\n");
}

TEST(Simplify, Casts) {
  OneOp own;
  EXPECT_EQ(own.left(own.add("to_dtype", {value(own.x)}, {DType::Float32})), kOnlyExp);
  OneOp wide;
  const ValueId f64 = wide.add("to_dtype", {value(wide.x)}, {DType::Float64});
  EXPECT_EQ(wide.left(wide.add("to_dtype", {value(f64)}, {DType::Float32})), kOnlyExp);
  OneOp narrow;
  const ValueId bf16 = narrow.add("to_dtype", {value(narrow.x)}, {DType::BFloat16});
  narrow.left(narrow.add("to_dtype", {value(bf16)}, {DType::Float32}));
  EXPECT_EQ(simplified(narrow.graph).nodes.size(), 3u);
}

TEST(Simplify, ACastSaturatesWhereAFillRefuses) {
  GraphBuilder b;
  const ValueId below = b.add("full", {number(-1e9)}, {SymList{2}, DType::Float32, Device(kCPU), Attr()});
  b.returns({b.add("to_dtype", {value(below)}, {DType::Int16})});
  EXPECT_EQ(body_of(simplified(b.graph)),
            "%0: i16[2] = full(size=[2], fill_value=-32768, dtype=int16, device=cpu)\nreturn %0\n");
}

// Every third type after every lossless step: the rule takes the short way only where the bits are the same.
TEST(Simplify, CastsOfCastsKeepTheirBits) {
  int shortened = 0;
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int via = 0; via < kNumDTypes; ++via) {
      for (int to = 0; to < kNumDTypes; ++to) {
        GraphBuilder b;
        const ValueId x = b.input({41}, static_cast<DType>(from));
        const ValueId middle = b.add("to_dtype", {value(x)}, {static_cast<DType>(via)});
        const ValueId y = b.add("to_dtype", {value(middle)}, {static_cast<DType>(to)});
        b.returns({b.add("cat", {value(y), value(y)}, {0})});
        const Graph simple = simplified(b.graph);
        shortened += simple.nodes.size() < b.graph.nodes.size();
        const double inf = std::numeric_limits<double>::infinity();
        std::vector<double> values = {0.0,          -0.0,          1,          -1,           0.5,
                                      -0.5,         1e-40,         3e38,       -3e38,        inf,
                                      -inf,         std::nan(""),  1e-7,       65504,        65520,
                                      2049,         2051,          16777217,   33554435,     127.6,
                                      128,          255.5,         256,        -128.5,       -129,
                                      32767.5,      32768,         2147483647, 2147483648.0, -2147483649.0,
                                      9.3e18,       -9.3e18,       1e-8,       6e-8,         5.96e-8,
                                      1.0009765625, 1.00146484375, 1.00390625, 1.005859375,  3.14159265358979,
                                      300};
        ASSERT_EQ(values.size(), 41u);
        const Tensor input = tensor(values, kFloat64).to(static_cast<DType>(from));
        const std::vector<Tensor> want = run(b.graph, {&input, 1}), got = run(simple, {&input, 1});
        EXPECT_EQ(difference_of_bits(got[0], want[0]), "")
            << static_cast<DType>(from) << " -> " << static_cast<DType>(via) << " -> "
            << static_cast<DType>(to);
      }
    }
  }
  EXPECT_GT(shortened, 200);
}

TEST(Simplify, Views) {
  OneOp twice;
  EXPECT_EQ(
      twice.left(twice.add("transpose", {value(twice.add("transpose", {value(twice.x)}, {0, 1}))}, {0, 1})),
      kOnlyExp);
  OneOp own;
  EXPECT_EQ(own.left(own.add("expand", {value(own.x)}, {SymList{2, 3}})), kOnlyExp);
  OneOp viewed;
  const ValueId flat = viewed.add("view", {value(viewed.x)}, {SymList{6}});
  EXPECT_EQ(viewed.left(viewed.add("view", {value(flat)}, {SymList{3, 2}})),
            "%1: f32[3, 2] = view(%0, size=[3, 2])\n%2: f32[3, 2] = exp(%1)\nreturn %2\n");
  GraphBuilder b;
  const ValueId x = b.input({2, 3, 4});
  const ValueId once = b.add("permute", {value(x)}, {DimList{2, 0, 1}});
  const ValueId again = b.add("transpose", {value(once)}, {0, 1});
  b.returns({again});
  EXPECT_EQ(body_of(simplified(b.graph)),
            "%1: f32[2, 4, 3] strides [12, 1, 4] = permute(%0, dims=[0, 2, 1])\nreturn %1\n");
}

TEST(Simplify, ViewsOfSymbolicSizes) {
  GraphBuilder b;
  const Sym s = b.graph.expressions->syms.add_symbol({"s0", 6, 2});
  const ValueId x = b.input({s, Sym::from_int(4)});
  const ValueId turned = b.add("transpose", {value(x)}, {0, 1});
  const ValueId back = b.add("transpose", {value(turned)}, {0, 1});
  b.returns({b.add("exp", {value(back)})});
  EXPECT_EQ(body_of(simplified(b.graph)), "%1: f32[s0, 4] = exp(%0)\nreturn %1\n");
}

TEST(Simplify, Copies) {
  OneOp clone;
  EXPECT_EQ(clone.left(clone.add("clone", {value(clone.x)}, {false})), kOnlyExp);
  OneOp turned;
  const ValueId t = turned.add("transpose", {value(turned.x)}, {0, 1});
  EXPECT_EQ(turned.left(turned.add("clone", {value(t)}, {true})),
            "%1: f32[3, 2] strides [1, 3] = transpose(%0, dim0=0, dim1=1)\n"
            "%2: f32[3, 2] = clone(%1, contiguous=True)\n%3: f32[3, 2] = exp(%2)\nreturn %3\n");
  // What is written over is not read.
  OneOp filled;
  const ValueId old = filled.add("sin", {value(filled.x)});
  EXPECT_EQ(filled.left(filled.add("fill", {value(old), number(2)})),
            "%1: f32[2, 3] = full(size=[2, 3], fill_value=2, dtype=float32, device=cpu)\n"
            "%2: f32[2, 3] = exp(%1)\nreturn %2\n");
  GraphBuilder b;
  const ValueId x = b.input({2, 3}), y = b.input({2, 3}, DType::Float64);
  const ValueId before = b.add("sin", {value(x)});
  b.returns({b.add("copy", {value(before), value(y)}, {false})});
  EXPECT_EQ(body_of(simplified(b.graph)), "%2: f32[2, 3] = to_dtype(%1, dtype=float32)\nreturn %2\n");
}

TEST(Simplify, OutputsKeepMemoryOfTheirOwn) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3});
  const ValueId copy = b.add("clone", {value(x)}, {false});
  b.returns({copy});
  EXPECT_EQ(simplified(b.graph).nodes.size(), 1u) << "an output that is the input";

  GraphBuilder seen;
  const ValueId z = seen.input({2, 3});
  const ValueId cloned = seen.add("clone", {value(z)}, {false});
  seen.returns({seen.add("transpose", {value(cloned)}, {0, 1})});
  EXPECT_EQ(simplified(seen.graph).nodes.size(), 2u) << "an output that shows the input";

  GraphBuilder two;
  const ValueId y = two.input({2, 3});
  const ValueId first = two.add("exp", {value(y)});
  two.returns({first, two.add("clone", {value(first)}, {false}), two.add("mul", {value(first), number(1)})});
  EXPECT_EQ(simplified(two.graph).nodes.size(), 3u) << "three outputs of one memory";

  GraphBuilder views;
  const ValueId w = views.input({2, 3});
  views.returns({views.add("alias", {value(w)}), w});
  EXPECT_EQ(simplified(views.graph).nodes.size(), 1u) << "a view that is the input itself";

  GraphBuilder inner;
  const ValueId v = inner.input({2, 3});
  const ValueId made = inner.add("exp", {value(v)});
  inner.returns({inner.add("clone", {value(made)}, {false})});
  EXPECT_EQ(simplified(inner.graph).nodes.size(), 1u) << "a copy of what nobody else sees";
}

// ---- The pipeline -------------------------------------------------------------------------------------------------------

TEST(Pipeline, NamesThePassThatBreaksAGraph) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3});
  b.returns({b.add("exp", {value(x)})});
  PipelineOptions options;
  options.verify = true;
  std::string passes;
  options.watch = [&](const std::string& pass, const Graph&) { passes += pass + ' '; };
  options.before_cut.push_back({"spoil", [](const Graph& graph) {
                                  Graph bad = graph;
                                  bad.values.back().dtype = DType::Int8;
                                  return bad;
                                }});
  try {
    run_pipeline(b.graph, options);
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("after spoil"), std::string::npos) << error.what();
  }
  EXPECT_EQ(passes, "trace dce decompose simplify cse spoil ");
}

TEST(Pipeline, WithoutAJointGraphThereIsOneHalf) {
  GraphBuilder b;
  const ValueId x = b.input({2, 3});
  b.returns({b.add("silu", {value(x)})});
  PipelineOptions options;
  options.verify = true;
  const Partition result = run_pipeline(b.graph, options);
  EXPECT_EQ(body_of(result.forward),
            "%1: f32[2, 3] = sigmoid(%0)   # silu\n%2: f32[2, 3] = mul(%0, %1)   # silu\nreturn %2\n");
  EXPECT_TRUE(result.backward.empty() && result.saved.empty());
}

}  // namespace
}  // namespace weft::compiler::tests
