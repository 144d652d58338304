// Which products take over what follows them, how they are described to cuBLASLt, and that they compute the same.
#include <gtest/gtest.h>

#include "compiler/passes/fuse_epilogues.h"
#include "compiler/passes/pattern.h"
#include "tensor/cuda/products.h"
#include "tensor/functions.h"
#include "tensor/ops/product_epilogue.h"
#include "tests/compiler/graph_builder.h"
#include "tests/support/compare.h"
#include "tests/support/fake_driver.h"

namespace weft::compiler::tests {
namespace {

using Epilogue = cuda::Matmul::Epilogue;
using weft::tests::fake_gpu;

// x [5] or another size, a [3, 4], b [4, 5] and r [3, 5].
struct Products : GraphBuilder {
  explicit Products(DType dtype = DType::Float32, Device device = kCUDA, SymList bias = {5}) {
    const auto input = [&](const SymList& sizes, const char* name) {
      return graph.add_input({Sizes(sizes.begin(), sizes.end()), dtype, device}, name);
    };
    x = input(bias, "x"), a = input({3, 4}, "a"), b = input({4, 5}, "b"), r = input({3, 5}, "r");
  }
  ValueId addmm() { return add("addmm", {value(x), value(a), value(b), number(1), number(1)}); }
  ValueId mm() { return add("mm", {value(a), value(b)}); }
  ValueId plus(ValueId left, ValueId right) { return add("add", {value(left), value(right), number(1)}); }
  ValueId x, a, b, r;
};

// The ops with their attributes: "mm_epilogue relu, exp".
std::string ops_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    text += (text.empty() ? "" : ", ") + node.op->name();
    if (node.op->kind != Kind::Extern) continue;
    for (const Attr& attr : node.attrs) text += " " + attr.as_string();
    for (size_t i = 2;
         i < node.operands.size() && node.op->schema.params[i].type == ParamType::OptionalTensor; ++i)
      if (node.operands[i].is_value()) text += " " + node.op->schema.params[i].name;
  }
  return text;
}

std::string fused(Graph graph) {
  const Graph result = fuse_epilogues(graph);
  verify(result);
  EXPECT_TRUE(is_same(result, fuse_epilogues(graph))) << "not deterministic";
  return ops_of(result);
}

TEST(FuseEpilogues, ProductsFinishTheirResults) {
  const auto with = [](const auto& make) {
    Products p;
    p.returns({make(p)});
    return fused(p.graph);
  };
  using P = Products;
  EXPECT_EQ(with([](P& p) { return p.add("relu", {value(p.addmm())}); }), "mm_epilogue relu bias");
  EXPECT_EQ(with([](P& p) { return p.add("gelu_tanh", {value(p.addmm())}); }), "mm_epilogue gelu_tanh bias");
  EXPECT_EQ(with([](P& p) { return p.add("relu", {value(p.mm())}); }), "mm_epilogue relu");
  EXPECT_EQ(with([](P& p) { return p.add("gelu_tanh", {value(p.plus(p.mm(), p.x))}); }),
            "mm_epilogue gelu_tanh bias");
  EXPECT_EQ(with([](P& p) { return p.add("relu", {value(p.plus(p.x, p.mm()))}); }), "mm_epilogue relu bias")
      << "a sum has no order";
  EXPECT_EQ(with([](P& p) { return p.plus(p.r, p.mm()); }), "mm_epilogue none addend");
  EXPECT_EQ(with([](P& p) { return p.plus(p.addmm(), p.r); }), "mm_epilogue none bias addend");
  EXPECT_EQ(with([](P& p) { return p.add("relu", {value(p.plus(p.addmm(), p.r))}); }),
            "mm_epilogue relu bias addend");
  // Two layers, one after the other.
  EXPECT_EQ(with([](P& p) {
              const ValueId hidden = p.add("relu", {value(p.addmm())});
              return p.add(
                  "gelu_tanh",
                  {value(p.plus(p.add("mm", {value(hidden), value(p.add("transpose", {value(p.b)}, {0, 1}))}),
                                p.a))});
            }),
            "mm_epilogue relu bias, transpose, mm_epilogue gelu_tanh addend");
}

TEST(FuseEpilogues, WhatOthersNeedOrLibrariesLackStays) {
  const auto stays = [](Products p, const auto& make) {
    make(p);
    EXPECT_EQ(fused(p.graph), ops_of(p.graph));
  };
  // The product itself leaves the graph, or somebody else reads it.
  stays(Products(), [](Products& p) {
    const ValueId product = p.addmm();
    p.returns({p.add("relu", {value(product)}), product});
  });
  stays(Products(), [](Products& p) {
    const ValueId product = p.addmm();
    p.returns({p.add("relu", {value(product)}), p.add("exp", {value(product)})});
  });
  stays(Products(DType::Float64), [](Products& p) { p.returns({p.add("relu", {value(p.addmm())})}); });
  stays(Products(DType::Float32, kCPU), [](Products& p) { p.returns({p.add("relu", {value(p.addmm())})}); });
  // The product is added to itself.
  stays(Products(), [](Products& p) {
    const ValueId product = p.mm();
    p.returns({p.plus(product, product)});
  });
  // Another activation; a column; twice the product.
  stays(Products(), [](Products& p) { p.returns({p.add("gelu_erf", {value(p.addmm())})}); });
  stays(Products(DType::Float32, kCUDA, {3, 1}),
        [](Products& p) { p.returns({p.add("relu", {value(p.addmm())})}); });
  stays(Products(), [](Products& p) {
    const ValueId twice = p.add("addmm", {value(p.x), value(p.a), value(p.b), number(1), number(2)});
    p.returns({p.add("relu", {value(twice)})});
  });
}

// linear() of three dimensions gives its result back the dimensions of x: what comes after goes before that.
TEST(FuseEpilogues, ViewsOfProductsComeLater) {
  const auto with = [](const auto& make) {
    Products p;
    p.returns({make(p, p.add("view", {value(p.addmm())}, {SymList({1, 3, 5})}))});
    const Graph result = fuse_epilogues(p.graph);
    verify(result);
    EXPECT_EQ(result[result.outputs[0]].sizes.size(), 3u);
    return ops_of(result);
  };
  EXPECT_EQ(with([](Products& p, ValueId view) { return p.add("gelu_tanh", {value(view)}); }),
            "mm_epilogue gelu_tanh bias, view");
  EXPECT_EQ(with([](Products& p, ValueId view) { return p.plus(view, view); }), "addmm, view, add")
      << "a value with two readers stays";
}

// cuBLASLt's GELU of float32 costs more than the loop where there are many elements.
TEST(FuseEpilogues, LargeFloatGeluStaysALoop) {
  const auto with = [](int64_t rows, DType dtype, const char* activation) {
    GraphBuilder g;
    const auto input = [&](const SymList& sizes) {
      return g.graph.add_input({Sizes(sizes.begin(), sizes.end()), dtype, kCUDA});
    };
    const ValueId x = input({1024}), a = input({rows, 16}), b = input({16, 1024});
    const ValueId product = g.add("add", {value(g.add("mm", {value(a), value(b)})), value(x), number(1)});
    g.returns({g.add(activation, {value(product)})});
    return fused(g.graph);
  };
  EXPECT_EQ(with(128, DType::Float32, "gelu_tanh"), "mm_epilogue gelu_tanh bias");
  EXPECT_EQ(with(4096, DType::Float32, "gelu_tanh"), "mm_epilogue none bias, gelu_tanh");
  EXPECT_EQ(with(4096, DType::BFloat16, "gelu_tanh"), "mm_epilogue gelu_tanh bias");
  EXPECT_EQ(with(4096, DType::Float32, "relu"), "mm_epilogue relu bias");
}

// Sizes that are not known: what rests on a guess is left alone.
TEST(FuseEpilogues, SizesMayBeUnknown) {
  GraphBuilder g;
  const Sym rows = g.graph.expressions->syms.add_symbol({.name = "s0", .hint = 3, .min = 2, .max = 100});
  const auto input = [&](Sizes sizes) {
    return g.graph.add_input({std::move(sizes), DType::Float32, kCUDA});
  };
  const Sym four = Sym::from_int(4), five = Sym::from_int(5);
  const ValueId x = input({five}), a = input({rows, four}), b = input({four, five}), r = input({rows, five});
  const ValueId product = g.add("addmm", {value(x), value(a), value(b), number(1), number(1)});
  g.returns({g.add("relu", {value(g.add("add", {value(product), value(r), number(1)}))})});
  EXPECT_EQ(fused(g.graph), "mm_epilogue relu bias addend");
}

// ---- The op, on a GPU that is host memory ----------------------------------------------------------------------------

class EpilogueOnGpu : public ::testing::TestWithParam<DType> {
 protected:
  EpilogueOnGpu() {
    cuda::forget_products();
    fake_gpu().products.clear();
  }
  ~EpilogueOnGpu() override {
    fake_gpu().refuses_epilogues = false;
    cuda::forget_products();
  }
  Tensor random(const SymList& sizes) const { return randn(sizes).to(GetParam()); }

  // On the CPU and on the GPU, which must have seen this epilogue.
  void expect_same(const std::function<Tensor(const std::function<Tensor(const Tensor&)>&)>& f,
                   Epilogue epilogue) const {
    const Tensor want = f([](const Tensor& x) { return x; });
    fake_gpu().products.clear();
    const Tensor got = f([](const Tensor& x) { return x.to(kCUDA); }).cpu();
    ASSERT_EQ(fake_gpu().products.size(), 1u);
    EXPECT_EQ(fake_gpu().products[0].what.epilogue, epilogue);
    EXPECT_EQ(weft::tests::difference(got, want, weft::tests::golden_tolerance(GetParam(), 8)), "");
  }
  weft::tests::FakeDriverScope scope;
};

TEST_P(EpilogueOnGpu, IsOneCallOfTheLibrary) {
  const Tensor a = random({3, 4}), b = random({5, 4}), x = random({5}), r = random({3, 5});
  const auto product = [&](bool has_bias, bool has_addend, Activation activation) {
    return [&, has_bias, has_addend, activation](const auto& on) {
      return mm_epilogue(on(a), on(b).t(), has_bias ? on(x) : Tensor(), has_addend ? on(r) : Tensor(),
                         activation);
    };
  };
  using A = Activation;
  expect_same(product(true, false, A::Relu), Epilogue::ReluBias);
  EXPECT_TRUE(fake_gpu().products[0].what.transpose_a) << "a transposed factor is a flag, not a copy";
  EXPECT_FALSE(fake_gpu().products[0].what.reads_c);
  expect_same(product(true, true, A::GeluTanh), Epilogue::GeluBias);
  EXPECT_TRUE(fake_gpu().products[0].what.reads_c);
  expect_same(product(false, false, A::Relu), Epilogue::Relu);
  expect_same(product(false, true, A::GeluTanh), Epilogue::Gelu);
  expect_same(product(false, true, A::None), Epilogue::None);
  expect_same(product(true, false, A::None), Epilogue::Bias);
}

TEST_P(EpilogueOnGpu, IsDoneByPartsWhereTheLibraryHasNone) {
  fake_gpu().refuses_epilogues = true;
  const Tensor a = random({3, 4}), b = random({4, 5}), x = random({5}), r = random({3, 5});
  const auto make = [&](const auto& on) {
    return mm_epilogue(on(a), on(b), on(x), on(r), Activation::GeluTanh);
  };
  expect_same(make, Epilogue::None);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EpilogueOnGpu,
                         ::testing::Values(DType::Float32, DType::BFloat16, DType::Float16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace weft::compiler::tests
