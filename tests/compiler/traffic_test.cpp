// Bytes that kernels move: what is worked out from their indices is what the interpreter counts, and how much fusion saves.
#include "compiler/loops/traffic.h"

#include <gtest/gtest.h>
#include <weft.h>

#include "compiler/runtime/launch_plan.h"
#include "tests/compiler/graph_builder.h"

namespace weft::compiler::tests {
namespace {

// Of everything that a function made run: what kernels and the ops one by one move, for the sizes of the calls.
struct Moved {
  int64_t read = 0, written = 0;
  int64_t unfused_read = 0, unfused_written = 0;
  size_t kernels = 0;
};

// For each kernel that runs, each buffer's bytes are those that the interpreter counts.
void expect_counted(const Schedule& schedule, TrafficCounter& counter, std::span<const int64_t> symbols,
                    const std::vector<std::vector<BufferTraffic>>& counted) {
  ASSERT_EQ(counted.size(), schedule.kernels.size());
  for (size_t k = 0; k < counted.size(); ++k) {
    const KernelStep& kernel = schedule.kernels[k];
    std::vector<BufferId> params;
    for (const std::vector<BufferId>& buffers : kernel.buffers)
      params.insert(params.end(), buffers.begin(), buffers.end());
    for (const auto& [buffer, traffic] : counter.by_buffer(schedule, kernel)) {
      int64_t loaded = 0, stored = 0;
      for (size_t p = 0; p < params.size(); ++p) {
        if (params[p] != buffer) continue;
        // Bodies that run as one kernel may read the same elements.
        loaded = std::max(loaded, counted[k][p].distinct_loaded);
        stored = std::max(stored, counted[k][p].distinct_stored);
      }
      EXPECT_EQ(counter.evaluate(traffic.read, symbols), loaded)
          << "buffer " << buffer << " of " << to_string(kernel.bodies[0]);
      EXPECT_EQ(counter.evaluate(traffic.written, symbols), stored)
          << "buffer " << buffer << " of " << to_string(kernel.bodies[0]);
    }
  }
}

Backend counting(Moved& moved) {
  return Backend([&moved](const Graph& graph, std::span<const Tensor>) {
    auto plan = std::make_shared<LaunchPlan>(schedule(graph), KernelOptions{.interpret = true});
    auto counter = std::make_shared<TrafficCounter>(*plan->schedule().expressions);
    return [&moved, plan, counter](std::span<const Tensor> inputs, const RunValues& values) {
      std::vector<const Tensor*> pointers;
      for (const Tensor& input : inputs) pointers.push_back(&input);
      const Schedule& schedule = plan->schedule();
      std::vector<Tensor> outputs(schedule.graph.outputs.size());
      const auto counted = plan->count_traffic(pointers, values, outputs);
      expect_counted(schedule, *counter, values.symbols, counted);
      const Traffic fused = counter->of(schedule), unfused = counter->of(schedule.graph);
      moved.read += counter->evaluate(fused.read, values.symbols);
      moved.written += counter->evaluate(fused.written, values.symbols);
      moved.unfused_read += counter->evaluate(unfused.read, values.symbols);
      moved.unfused_written += counter->evaluate(unfused.written, values.symbols);
      moved.kernels += schedule.kernels.size();
      return outputs;
    };
  });
}

template <class F, class... Args>
Moved moved_by(F function, Args... args) {
  Moved moved;
  compile(function, {.backend = counting(moved)})(args...);
  return moved;
}

TEST(Traffic, OfRmsNormAndSiluIsEachElementOnce) {
  const auto norm = [](Tensor x, Tensor w) { return silu(x * rsqrt(mean(x * x, {-1}, true) + 1e-5) * w); };
  // Rows of one tile, of several rows a tile, and of several tiles a row.
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 128}, {40, 5}, {3, 9000}}) {
    const Moved moved = moved_by(norm, randn({rows, columns}), randn({columns}));
    const int64_t n = rows * columns;
    EXPECT_EQ(moved.kernels, 1u);
    EXPECT_EQ(moved.read, 4 * (n + columns));
    EXPECT_EQ(moved.written, 4 * n);
    // mul, sum, true_divide, add, rsqrt, mul, mul, silu.
    EXPECT_GT(moved.unfused_read + moved.unfused_written, 4 * 7 * n);
  }
}

TEST(Traffic, OfSoftmaxAndLayerNormIsEachElementOnce) {
  const int64_t n = 20 * 300;
  const Moved soft = moved_by([](Tensor x) { return softmax(x, -1); }, randn({20, 300}));
  EXPECT_EQ(soft.read, 4 * n);
  EXPECT_EQ(soft.written, 4 * n);
  const Moved layer = moved_by([](Tensor x, Tensor w, Tensor b) { return layer_norm(x, {300}, w, b); },
                               randn({20, 300}), randn({300}), randn({300}));
  EXPECT_EQ(layer.read, 4 * (n + 600));
  EXPECT_EQ(layer.written, 4 * n);
}

TEST(Traffic, OfATrainingStepIsCounted) {
  const auto net = nn::Sequential(nn::Linear(12, 16), nn::ReLU(), nn::Linear(16, 5));
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(1e-2));
  const Moved moved = moved_by(
      [&](Tensor x, Tensor y) {
        Tensor loss = cross_entropy(net->forward(x), y);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss;
      },
      randn({8, 12}), randint(0, 5, {8}, TensorOptions(kInt64)));
  EXPECT_GT(moved.kernels, 0u);
  EXPECT_LT(moved.read + moved.written, moved.unfused_read + moved.unfused_written);
}

TEST(Traffic, OfForwardAndBackwardIsCounted) {
  Tensor x = randn({16, 200}).requires_grad_(), w = randn({200}).requires_grad_();
  Moved moved;
  const auto f = compile([](Tensor x, Tensor w) { return silu(rms_norm(x, {200}, w, 1e-6)); },
                         {.backend = counting(moved)});
  f(x, w).sum().backward();
  EXPECT_GE(moved.kernels, 2u);
}

TEST(Traffic, OfViewsIsWhatTheyShow) {
  // Half the columns, each second row, and a padded one; a broadcast row counts once.
  const Moved half = moved_by([](Tensor x) { return x.narrow(1, 0, 10) * 2; }, randn({6, 20}));
  EXPECT_EQ(half.read, 4 * 60);
  EXPECT_EQ(half.written, 4 * 60);
  const Moved steps =
      moved_by([](Tensor x) { return x.index({indexing::Slice(0, 6, 2)}) + 1; }, randn({6, 20}));
  EXPECT_EQ(steps.read, 4 * 60);
  const Moved both = moved_by([](Tensor x) { return cat({x, x * 2}, 0); }, randn({6, 20}));
  EXPECT_EQ(both.read, 4 * 120);
  EXPECT_EQ(both.written, 4 * 240);
  const Moved row = moved_by([](Tensor x, Tensor r) { return x + r; }, randn({6, 20}), randn({20}));
  EXPECT_EQ(row.read, 4 * (120 + 20));
  const Moved turned = moved_by([](Tensor x) { return x.t() + 1; }, randn({6, 20}));
  EXPECT_EQ(turned.read, 4 * 120);
}

TEST(Traffic, GrowsWithSymbolicSizes) {
  Moved moved;
  const auto f = compile([](Tensor x) { return softmax(x * 2, -1); },
                         {.backend = counting(moved), .dynamic = true, .audit = false});
  f(randn({5, 30}));
  EXPECT_EQ(moved.read + moved.written, 2 * 4 * 150);
  moved = {};
  f(randn({7, 40}));
  EXPECT_EQ(moved.read + moved.written, 2 * 4 * 280);
}

TEST(Traffic, OfAGatherIsAtMostTheTable) {
  // Three rows are picked, one of them twice.
  GraphBuilder b;
  const ValueId table = b.input({100, 8}), rows = b.input({3}, DType::Int64);
  const ValueId picked = b.add("embedding", {value(rows), value(table)});
  const Graph& graph = b.returns({picked});
  const LaunchPlan plan(schedule(graph), {.interpret = true});
  TrafficCounter counter(*plan.schedule().expressions);
  const Traffic fused = counter.of(plan.schedule()), unfused = counter.of(graph);
  EXPECT_EQ(counter.hint(fused.read), 3 * 8 + 4 * 3 * 8);
  EXPECT_EQ(counter.hint(unfused.read), 3 * 8 + 4 * 3 * 8);
}

}  // namespace
}  // namespace weft::compiler::tests
