// GraphRunner: values, sharing, lifetime, sizes and numbers of the call, errors, threads, the tape, cost.
#include "compiler/runtime/graph_runner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "autograd/grad_mode.h"
#include "tensor/allocator.h"
#include "tests/compiler/graph_builder.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;
using Tensors = std::vector<Tensor>;

Tensor counting(const SymList& sizes, double scale = 1) {
  return mul(weft::arange(product({sizes.data(), sizes.size()}).concrete()), scale).to(kFloat32).view(sizes);
}

ScalarId add_scalar(Graph& graph, ScalarExpr::Kind kind, uint32_t index) {
  ScalarExpr expr;
  expr.kind = kind;
  expr.index = index;
  return graph.expressions->scalars.add(expr);
}
Scalar traced(ScalarId id) { return Scalar::from_trace(Scalar::Category::Floating, id); }

TEST(GraphRunner, ComputesWhatTheOpsCompute) {
  GraphBuilder b;
  const ValueId x = b.input({3, 4}), w = b.input({4, 2});
  const ValueId y = b.add("relu", {value(b.add("mm", {value(x), value(w)}))});
  const ValueId best = b.add("max_dim", {value(y)}, {1, false});
  b.returns({y, best, best + 1});
  const GraphRunner runner(std::move(b.graph));
  const Tensor a = counting({3, 4}, 0.5), c = counting({4, 2}, -0.25);
  const Tensors got = run(runner, {a, c});
  const Tensor want = relu(mm(a, c));
  const auto [values, indices] = max(want, 1);
  EXPECT_EQ(difference_of_bits(got[0], want), "");
  EXPECT_EQ(difference_of_bits(got[1], values), "");
  EXPECT_EQ(difference_of_bits(got[2], indices), "");
}

TEST(GraphRunner, OutputsShareWhatTheyShareInEagerCode) {
  GraphBuilder b;
  const ValueId x = b.input({3, 4});
  const ValueId y = b.add("exp", {value(x)});
  const ValueId view = b.add("transpose", {value(y)}, {0, 1}), other = b.add("transpose", {value(y)}, {0, 1});
  const ValueId of_input = b.add("transpose", {value(x)}, {0, 1});
  b.returns({y, view, other, of_input, x, y});
  const GraphRunner runner(std::move(b.graph));
  const Tensor a = counting({3, 4});
  const Tensors got = run(runner, {a});
  EXPECT_TRUE(got[1]->storage == got[0]->storage);
  EXPECT_FALSE(got[1].is_same(got[2])) << "two calls give two tensors";
  EXPECT_TRUE(got[3]->storage == a->storage);
  EXPECT_TRUE(got[4].is_same(a));
  EXPECT_TRUE(got[5].is_same(got[0]));
}

TEST(GraphRunner, LetsValuesGoAfterTheirLastUse) {
  GraphBuilder b;
  const SymList sizes = {1 << 18};
  ValueId x = b.input(sizes);
  for (int i = 0; i < 20; ++i) x = b.add("neg", {value(x)});
  b.add("max_dim", {value(x)}, {0, false});  // nobody reads either result
  b.returns({x});
  const GraphRunner runner(std::move(b.graph));
  const Tensor a = counting(sizes);
  const int64_t bytes = 4 << 18, before = allocator_stats().live_bytes;
  reset_peak_stats();
  {
    const Tensors got = run(runner, {a});
    EXPECT_LT(allocator_stats().peak_bytes - before, 3 * bytes + bytes / 2);
    EXPECT_LT(allocator_stats().live_bytes - before, bytes + bytes / 2);
  }
  EXPECT_LT(allocator_stats().live_bytes - before, bytes / 2) << "the runner keeps tensors between runs";
}

TEST(GraphRunner, TakesSizesAndNumbersFromTheCall) {
  GraphBuilder b;
  SymTable& syms = b.graph.expressions->syms;
  const Sym s = syms.add_symbol({"s0", 3, 2});
  const ValueId x = b.input({s, Sym::from_int(4)}, DType::Float32, "x");
  const Sym total = syms.binary(SymOp::Mul, s, Sym::from_int(4));
  const ValueId flat = b.add("view", {value(x)}, {SymList{total}});
  const ScalarId rate = add_scalar(b.graph, ScalarExpr::Kind::Input, 0);
  ScalarExpr half;
  half.kind = ScalarExpr::Kind::Binary;
  half.op = ScalarOp::Mul;
  half.a = rate;
  ScalarExpr constant;
  constant.constant = Scalar(s);
  half.b = b.graph.expressions->scalars.add(constant);
  const ScalarId scaled = b.graph.expressions->scalars.add(half);
  const ValueId y = b.add("mul", {value(flat), number(traced(scaled))});
  const ValueId ramp = b.add("full", {number(Scalar(s))}, {SymList{s}, DType::Int64, Device(kCPU), Attr()});
  const ValueId dropped = b.add("dropout_with_offset", {value(y)}, {0.5, Scalar(7), traced(rate)});
  b.returns({y, ramp, dropped});
  EXPECT_NO_THROW(verify(b.graph));
  EXPECT_EQ(to_string(b.graph).substr(0, 40), "graph(%0 x: f32[s0, 4]) {\n  %1: f32[s0*4");
  const GraphRunner runner(std::move(b.graph));
  for (const int64_t n : {3, 5, 5, 2}) {
    for (const double lr : {0.5, 3.0}) {
      const int64_t symbols[] = {n};
      const Scalar numbers[] = {lr};
      const Tensor a = counting({n, 4});
      const Tensors got = run(runner, {a}, {symbols, numbers});
      const Tensor want = mul(a.view({n * 4}), Scalar(lr * static_cast<double>(n)));
      EXPECT_EQ(difference_of_bits(got[0], want), "");
      EXPECT_EQ(difference_of_bits(got[1], full({n}, n)), "");
      EXPECT_EQ(difference_of_bits(got[2], call(OpTable::instance().get("dropout_with_offset"), {want},
                                                {0.5, Scalar(7), Scalar(lr)}, {})),
                "");
    }
  }
}

TEST(GraphRunner, ReadsItemsWhenTheyAreThere) {
  GraphBuilder b;
  const ValueId x = b.input({4});
  const ValueId norm = b.add("sum", {value(x)}, {DimList(), false, Attr()});
  b.graph.items = {norm};
  const ScalarId item = add_scalar(b.graph, ScalarExpr::Kind::Item, 0);
  const ValueId y = b.add("true_divide", {value(x), number(traced(item))});
  b.returns({y});
  const GraphRunner runner(std::move(b.graph));
  const Tensor a = counting({4}, 0.3);
  EXPECT_EQ(difference_of_bits(run(runner, {a})[0], div(a, sum(a).item())), "");
}

TEST(GraphRunner, ErrorsNameTheUsersLine) {
  GraphBuilder b;
  const ValueId x = b.input({4}, DType::Int64), i = b.input({2}, DType::Int64);
  const SourceLocation here = SourceLocation::current();
  b.returns({b.add("gather", {value(x), value(i)}, {0}, here)});
  const GraphRunner runner(std::move(b.graph));
  const Tensor a = zeros({4}, kInt64), outside = full({2}, 9);
  for (int round = 0; round < 2; ++round) {  // the frame of a run that failed is used again
    try {
      run(runner, {a, outside});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(weft::detail::concat("graph_runner_test.cpp:", here.line())),
                std::string::npos)
          << error.what();
    }
    EXPECT_EQ(a.use_count(), 1);
  }
  EXPECT_EQ(difference_of_bits(run(runner, {a, zeros({2}, kInt64)})[0], zeros({2}, kInt64)), "");
}

TEST(GraphRunner, ManyThreadsRunOneGraph) {
  GraphBuilder b;
  const Sym s = b.graph.expressions->syms.add_symbol({"s0", 3, 2});
  ValueId x = b.input({s, Sym::from_int(8)});
  for (int i = 0; i < 10; ++i) {
    x = b.add("add", {value(x), number(traced(add_scalar(b.graph, ScalarExpr::Kind::Input, 0))), number(1)});
    x = b.add("expand", {value(x)}, {SymList{s, Sym::from_int(8)}});
  }
  b.returns({x});
  const GraphRunner runner(std::move(b.graph));
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 200 && failures[static_cast<size_t>(t)].empty(); ++round) {
        const int64_t symbols[] = {2 + (t + round) % 5};
        const Scalar numbers[] = {static_cast<double>(t)};
        const Tensor a = ones({symbols[0], 8});
        failures[static_cast<size_t>(t)] = difference_of_bits(run(runner, {a}, {symbols, numbers})[0],
                                                              full({symbols[0], 8}, 1.0 + 10.0 * t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(GraphRunner, RecordsTheTapeWhereTheNodeWasRecordedWithGradients) {
  GraphBuilder b;
  const ValueId x = b.input({3});
  const ValueId squared = b.add("mul", {value(x), value(x)});
  const ValueId frozen = b.add("exp", {value(x)});
  b.graph.nodes.back().grad_mode = false;
  b.returns({b.add("mul", {value(squared), value(frozen)})});
  const GraphRunner runner(std::move(b.graph));
  Tensor a = counting({3}, 0.5);
  a.requires_grad_();
  Tensors got(1);
  const Tensor* const given[] = {&a};
  runner.run_differentiable(given, {}, got);
  EXPECT_TRUE(GradMode::is_enabled());
  ASSERT_TRUE(got[0].requires_grad());
  got[0].backward(ones({3}));
  const NoGradGuard guard;
  EXPECT_EQ(difference_of_bits(a.grad(), mul(mul(exp(a), a), 2)), "");
  runner.run_differentiable(given, {}, got);
  EXPECT_FALSE(got[0].requires_grad()) << "the caller's no_grad holds inside";
  EXPECT_FALSE(run(runner, {a})[0].requires_grad());
}

// x + y + y + …
Graph chain_of_adds(int nodes) {
  GraphBuilder b;
  ValueId x = b.input({16});
  const ValueId y = b.input({16});
  Node add;
  add.op = &OpTable::instance().get("add");
  const OutputSpec spec = b.graph[x].spec();
  for (int i = 0; i < nodes; ++i) {
    add.operands = {value(x), value(y), number(1)};
    x = b.graph.add_node(add, {&spec, 1});
  }
  b.returns({x});
  return std::move(b.graph);
}

TEST(GraphRunner, RunsAHundredThousandNodes) {
  const GraphRunner runner(chain_of_adds(100000));
  EXPECT_EQ(run(runner, {ones({16}), ones({16})})[0].to_vector<float>()[0], 100001.0f);
}

TEST(GraphRunner, ANodeCostsLittleMoreThanItsOp) {
  constexpr int kNodes = 1000;
  const GraphRunner runner(chain_of_adds(kNodes));
  const Tensor a = ones({16}), c = ones({16});
  double graph = 1e9, eager = 1e9;
  const NoGradGuard guard;
  for (int round = 0; round < 200; ++round) {
    auto begin = std::chrono::steady_clock::now();
    const Tensors got = run(runner, {a, c});
    graph = std::min(
        graph, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    begin = std::chrono::steady_clock::now();
    Tensor z = a;
    for (int i = 0; i < kNodes; ++i) z = z + c;
    eager = std::min(
        eager, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  std::cout << "add of 16: eager " << eager / kNodes << " ns, as a node " << graph / kNodes << " ns\n";
  RecordProperty("node_ns", static_cast<int>(graph / kNodes));
  EXPECT_LT((graph - eager) / kNodes, 40);
}

}  // namespace
}  // namespace weft::compiler::tests
