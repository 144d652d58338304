// Plans whose tensors lie on a GPU: which steps run where, what kernels report, and results against eager code on the GPU.
// What needs a GPU skips without one and says so; the rest runs on a GPU that is host memory.
#include <gtest/gtest.h>
#include <weft.h>

#include <functional>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/device_errors.h"
#include "compiler/runtime/launch_plan.h"
#include "compiler/runtime/op_plan.h"
#include "tests/compiler/compile_counts.h"
#include "tests/compiler/random_graph.h"
#include "tests/support/compare.h"
#include "tests/support/gpu.h"

namespace weft::compiler::tests {
namespace {

using indexing::Slice;
using weft::testing::Counts;
using weft::tests::difference;
using weft::tests::difference_of_bits;
using weft::tests::Tolerance;

#define WEFT_GPU_OR_SKIP() \
  if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable()

const Device kGpu = kCUDA;

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ---- Without a GPU ------------------------------------------------------------------------------------------------------

// Two sums of squares that could be one kernel, on two devices.
TEST(CudaPlan, KernelsStayOnTheirDevice) {
  GraphBuilder b;
  std::vector<ValueId> sums;
  for (const Device device : {Device(kCPU), kGpu}) {
    const ValueId x =
        b.graph.add_input({{Sym::from_int(64), Sym::from_int(64)}, DType::Float32, device}, "x");
    const ValueId square = b.add("mul", {value(x), value(x)});
    EXPECT_EQ(b.graph[square].device, device);
    // The reader asks for all of it in memory, so that there is an arena.
    sums.push_back(b.add("mm", {value(b.add("exp", {value(square)})), value(square)}));
  }
  const Schedule made = schedule(b.returns({sums[0], sums[1]}));
  size_t on_gpu = 0;
  for (const KernelStep& kernel : made.kernels) {
    on_gpu += kernel.device.is_cuda();
    for (const std::vector<BufferId>& buffers : kernel.buffers)
      for (const BufferId buffer : buffers) EXPECT_EQ(made.buffers[buffer].device, kernel.device);
  }
  EXPECT_GT(on_gpu, 0u);
  EXPECT_LT(on_gpu, made.kernels.size());
  const MemoryLifetimes lifetimes = lifetimes_of(made);
  EXPECT_EQ(lifetimes.device, kGpu);
  ASSERT_FALSE(lifetimes.arena.empty());
  for (const Lifetime& lifetime : lifetimes.arena)
    EXPECT_EQ(made.buffers[lifetime.buffer].device, kGpu) << "memory of the host in the arena of a GPU";
}

TEST(CudaPlan, WhatGoesBetweenDevicesIsNoLoop) {
  GraphBuilder b;
  const ValueId x = b.graph.add_input({{Sym::from_int(8)}, DType::Float32, kGpu}, "x");
  const ValueId number = b.graph.add_input({{}, DType::Float32, kCPU}, "number");
  const Schedule made = schedule(b.returns({b.add("add", {value(x), value(number)}, {Scalar(1)})}));
  EXPECT_EQ(made.kernels.size(), 0u) << to_string(made);
  EXPECT_EQ(made.externs.size(), 1u) << to_string(made);
}

// The order of loads and stores of what folds is another one on a GPU.
TEST(CudaPlan, OnlyKernelsWithoutFoldsStoreOverInputs) {
  for (const bool folds : {false, true}) {
    for (const Device device : {Device(kCPU), kGpu}) {
      GraphBuilder b;
      const ValueId x =
          b.graph.add_input({{Sym::from_int(16), Sym::from_int(32)}, DType::Float32, device}, "x");
      ValueId y = b.add("exp", {value(x)});
      if (folds) y = b.add("mul", {value(y), value(b.add("sum", {value(y)}, {DimList{1}, true, Attr()}))});
      b.returns({y});
      b.graph.overwrites.push_back({0, 0});
      const Schedule made = schedule(b.graph);
      ASSERT_EQ(made.kernels.size(), 1u) << to_string(made);
      EXPECT_EQ(made.stored_over.size(), folds && device.is_cuda() ? 0u : 1u) << to_string(made);
    }
  }
}

// What a kernel would do.
void set_record(KernelError* record, const KernelError& error) {
  const cuda::Driver& driver = cuda::driver();
  cuda::check(driver, driver.copy(record, &error, sizeof(error), cuda::CopyKind::HostToDevice, nullptr),
              "test");
}

TEST(CudaPlan, ErrorRecordsAreToldAtTheNextWaitAndOnce) {
  const weft::tests::Gpu gpu;
  const auto fail = [](const KernelError& error) {
    throw IndexError("index " + std::to_string(error.value) + " of " + std::to_string(error.size));
  };
  const DeviceError first(0, fail), second(0, fail);
  EXPECT_NE(first.for_launch(), second.for_launch());
  cuda::synchronize(0);
  KernelError error;
  error.check = 1;
  error.value = 7;
  error.size = 5;
  set_record(second.for_launch(), error);
  EXPECT_EQ(message_of([] { cuda::synchronize(0); }).substr(0, 12), "index 7 of 5");
  cuda::synchronize(0);  // it was cleared for later launches
  // A copy to the host waits too.
  const Tensor x = ones({2}).to(kGpu);
  error.value = 8;
  set_record(first.for_launch(), error);
  EXPECT_EQ(message_of([&] { static_cast<void>(x.cpu()); }).substr(0, 12), "index 8 of 5");
  EXPECT_EQ(x.cpu().sum().item<double>(), 2);
}

// ---- With one -----------------------------------------------------------------------------------------------------------

class CudaCompiled : public ::testing::Test {
 protected:
  void SetUp() override {
    WEFT_GPU_OR_SKIP();
    manual_seed(5);
  }
};

uint64_t host_trips() { return compile_stats().host_trips; }

TEST_F(CudaCompiled, LoopsRunOnTheGpuAlone) {
  const auto f = [](Tensor x, Tensor w) {
    const Tensor y = silu(x * rsqrt(mean(x * x, {-1}, true) + 1e-5) * w);
    return std::make_tuple(softmax(y, -1), sum(y, {0}), y.t() + 1);
  };
  const auto g = compile(f);
  for (const int64_t rows : {64, 64, 7, 500}) {
    const Tensor x = randn({rows, 96}).to(kGpu), w = randn({96}).to(kGpu);
    const uint64_t before = host_trips();
    const auto [soft, sums, turned] = g(x, w);
    EXPECT_EQ(host_trips(), before) << rows;
    const auto [soft_want, sums_want, turned_want] = f(x, w);
    EXPECT_EQ(host_trips(), before) << "eager, " << rows;
    EXPECT_TRUE(soft.is_cuda());
    EXPECT_EQ(difference_of_bits(soft, soft_want), "") << rows;
    EXPECT_EQ(difference_of_bits(sums, sums_want), "") << rows;
    EXPECT_EQ(difference_of_bits(turned, turned_want), "") << rows;
    const auto [soft_host, sums_host, turned_host] = f(x.cpu(), w.cpu());
    EXPECT_EQ(difference(sums.cpu(), sums_host, Tolerance{1e-5, 1e-4}), "") << rows;
    EXPECT_EQ(difference(soft.cpu(), soft_host, Tolerance{1e-5, 1e-6}), "") << rows;
  }
}

TEST_F(CudaCompiled, IndicesOutOfRangeAreToldByTheFirstWait) {
  const auto take = [](Tensor x, Tensor i) { return x.index_select(0, i) * 2; };
  const auto f = compile(take);
  const Tensor x = randn({5, 3}).to(kGpu);
  EXPECT_EQ(difference_of_bits(f(x, tensor({4, 0}).to(kGpu)), take(x, tensor({4, 0}).to(kGpu))), "");
  const std::string message = message_of([&] {
    static_cast<void>(f(x, tensor({4, 5}).to(kGpu)));
    cuda::synchronize();
  });
  EXPECT_NE(message.find("index 5 is out of range for a dimension of size 5"), std::string::npos) << message;
  // Nothing is left behind.
  EXPECT_EQ(difference_of_bits(f(x, tensor({1, 2}).to(kGpu)), take(x, tensor({1, 2}).to(kGpu))), "");
  cuda::synchronize();
}

TEST_F(CudaCompiled, TrainingStepsAreHits) {
  Tensor w = randn({32, 32}).to(kGpu).requires_grad_();
  Tensor v = w.detach().clone().requires_grad_();
  const auto step_of = [](Tensor& weight) {
    return [&weight](Tensor x) {
      Tensor loss = (silu(x.mm(weight)) * 0.5).sum();
      loss.backward();
      const NoGradGuard no_grad;
      weight.sub_(weight.grad() * 0.01);
      weight.mutable_grad().reset();
      return loss;
    };
  };
  const auto step = compile(step_of(w));
  const auto eager = step_of(v);
  const Counts counts;
  const uint64_t before = host_trips();
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({16, 32}).to(kGpu);
    EXPECT_EQ(difference_of_bits(step(x), eager(x)), "") << i;
    EXPECT_EQ(difference_of_bits(w.detach(), v.detach()), "") << i;
  }
  EXPECT_GE(counts.hits(), 4u);
  EXPECT_EQ(counts.eager_calls(), 0u);
  EXPECT_EQ(host_trips(), before);
}

// Eager ops make no plan anew for sizes and numbers that come, nor do they move the state that compiled functions watch.
TEST_F(CudaCompiled, OpsFindTheirPlansAgain) {
  const std::vector<std::pair<const char*, std::function<Tensor(Tensor, int64_t)>>> ops = {
      {"ones",
       [](const Tensor&, int64_t n) {
         return ones({n, 24}, kGpu);
       }},
      {"add_", [](Tensor x, int64_t n) { return x.add_(0.5 * static_cast<double>(n)); }},
      {"mul_", [](Tensor x, int64_t) { return x.mul_(2); }},
      {"fill_ of a view",
       [](Tensor x, int64_t n) {
         x.index({Slice(0, 3)}).fill_(static_cast<double>(n));
         return x;
       }},
      {"mul", [](const Tensor& x, int64_t) { return x * 3 + 1; }},
      {"sum", [](const Tensor& x, int64_t) { return x.sum({1}); }},
      {"select", [](const Tensor& x, int64_t) { return x.index({0}); }}};
  size_t first = 0;
  for (const int64_t n : {40, 41, 50, 63}) {
    Tensor x;
    for (const auto& [name, op] : ops) {
      const size_t before = num_op_plans();
      x = op(x, n);
      EXPECT_TRUE(first == 0 || num_op_plans() == before) << name << " of " << n << " rows";
    }
    EXPECT_EQ(x.item<double>(), 24 * (3.0 * static_cast<double>(n) + 1)) << n;
    first = num_op_plans();
  }
}

// The graph, with everything on the GPU.
Graph on_gpu(const Graph& graph) {
  Graph moved = graph;
  for (Value& value : moved.values) value.device = kGpu;
  for (Node& node : moved.nodes) {
    size_t a = 0;
    for (const Param& param : node.op->schema.params) {
      if (param.is_operand()) continue;
      if (param.type == ParamType::Device) node.attrs[a] = Attr(kGpu);
      ++a;
    }
  }
  return moved;
}

std::vector<Tensor> run_plan(const LaunchPlan& plan, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  std::vector<Tensor> outputs(plan.schedule().graph.outputs.size());
  plan.run(pointers, {}, outputs);
  return outputs;
}

TEST_F(CudaCompiled, RandomGraphsGiveTheBitsOfEagerCode) {
  size_t kernels = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(seed, 40);
    for (size_t i = 0, n = 1 + random.below(12); i < n; ++i)
      random.graph.outputs.push_back(static_cast<ValueId>(random.below(random.graph.values.size())));
    const Graph graph = on_gpu(prepare(random.graph, Stage::Lowered));
    std::vector<Tensor> inputs;
    for (const Tensor& input : random.inputs) inputs.push_back(input.to(kGpu));
    const std::vector<Tensor> want = run(GraphRunner(graph), inputs);
    const LaunchPlan plan(schedule(graph));
    for (const KernelProgram& program : plan.programs()) kernels += program.cuda != nullptr;
    for (const char* round : {"first", "second"}) {
      SCOPED_TRACE(round);
      const std::vector<Tensor> got = run_plan(plan, inputs);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(difference_of_bits(got[i], want[i]), "")
            << "output " << i << " of " << graph << to_string(plan.schedule());
        ASSERT_EQ(got[i].strides(), want[i].strides()) << "output " << i << " of " << graph;
      }
    }
  }
  EXPECT_GT(kernels, 40u);
}

}  // namespace
}  // namespace weft::compiler::tests
