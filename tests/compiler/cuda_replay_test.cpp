// Plans replayed as CUDA graphs: what is launched, with which addresses and numbers, and when it is not a graph.
// CudaReplay stands in for a GPU: its products are computed, its kernels are listed. CudaReplayed needs one.
#include <gtest/gtest.h>
#include <weft.h>

#include <bit>

#include "compiler/runtime/stats.h"
#include "tensor/cuda/products.h"
#include "tests/support/compare.h"
#include "tests/support/fake_kernels.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference;
using weft::tests::difference_of_bits;
using weft::tests::fake_kernels;
using weft::tests::FakeKernelsScope;
using weft::tests::Tolerance;

const Device kGpu = kCUDA;

CompileOptions replayed(std::optional<bool> dynamic = {}) {
  return {.dynamic = dynamic, .audit = false, .mode = "reduce-overhead"};
}
template <class F>
std::string told(const F& f) {
  return f.core().explanation().to_string();
}
template <class Words>
bool holds(const Words& words, uint64_t word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
uint64_t address_of(const Tensor& x) { return reinterpret_cast<uint64_t>(bytes_of(x)); }

// ---- Without a GPU ------------------------------------------------------------------------------------------------------

class CudaReplay : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::is_available()) GTEST_SKIP() << "there is a GPU: CudaReplayed runs on it";
    scope_.emplace();
    manual_seed(5);
  }

 private:
  std::optional<FakeKernelsScope> scope_;
};

TEST_F(CudaReplay, ResultsAreThoseOfTheInputsOfEachCall) {
  const auto twice = [](Tensor x, Tensor w) { return x.mm(w).mm(w); };
  const auto f = compile(twice, replayed());
  const Tensor w = randn({8, 8});
  const Tensor there = w.to(kGpu);
  constexpr int kCalls = 12;
  std::vector<Tensor> inputs, results;  // all of them held
  for (int i = 0; i < kCalls; ++i) {
    inputs.push_back(randn({4, 8}));
    results.push_back(f(inputs.back().to(kGpu), there));
  }
  // The first call traces and runs the plan; the second records it.
  EXPECT_EQ(fake_kernels().graph_launches, kCalls - 1);
  for (int i = 0; i < kCalls; ++i)
    EXPECT_EQ(difference(results[i].cpu(), twice(inputs[i], w), Tolerance{1e-5, 1e-5}), "") << i;
  EXPECT_NE(told(f).find("replayed as a CUDA graph of 2 nodes"), std::string::npos) << told(f);
}

TEST_F(CudaReplay, NumbersAndAddressesOfTheCallReachTheKernels) {
  const auto f = compile([](Tensor x, Scalar s) { return x.mm(x) * s; }, replayed());
  std::vector<Tensor> results;
  for (int i = 0; i < 6; ++i) {
    const float number = 0.5F + static_cast<float>(i);
    results.push_back(f(ones({8, 8}).to(kGpu), number));
    ASSERT_FALSE(fake_kernels().launches.empty());
    const std::vector<uint64_t>& words = fake_kernels().launches.back().words;
    EXPECT_TRUE(holds(words, address_of(results.back()))) << i;
    EXPECT_TRUE(holds(words, std::bit_cast<uint32_t>(number))) << i;
    for (int k = 0; k < i; ++k) EXPECT_FALSE(holds(words, address_of(results[k]))) << "written over: " << k;
  }
  EXPECT_EQ(fake_kernels().graph_launches, 5);
  EXPECT_EQ(fake_kernels().kernel_updates, 4) << "one for each replay after the recording";
}

// Rows that are held in shared memory ask for it, whoever launches them.
TEST_F(CudaReplay, NodesAreLaunchedAsKernelsAre) {
  const auto f = compile([](Tensor x, Tensor w) { return softmax(x.mm(w), -1); }, replayed());
  const Tensor x = randn({140, 2}).to(kGpu), w = randn({2, 17000}).to(kGpu);
  for (int i = 0; i < 4; ++i) f(x, w);
  ASSERT_GT(fake_kernels().graph_launches, 0);
  ASSERT_EQ(fake_kernels().launches.size(), 4u);
  const auto& launches = fake_kernels().launches;
  const cuda::LaunchConfig& own = launches.front().config;
  EXPECT_EQ(own.shared_bytes, 17000 * sizeof(float));
  for (const auto& launch : launches) {
    EXPECT_EQ(launch.kernel, launches.front().kernel);
    EXPECT_EQ(launch.config.shared_bytes, own.shared_bytes);
    EXPECT_EQ(launch.config.grid[0], own.grid[0]);
    EXPECT_EQ(launch.config.block[0], own.block[0]);
  }
}

TEST_F(CudaReplay, EqualCallsChangeNothing) {
  const auto f = compile([](Tensor x) { return (x.mm(x) * 2).mm(x); }, replayed());
  const Tensor x = ones({8, 8}).to(kGpu);
  for (int i = 0; i < 4; ++i) f(x);
  const int updates = fake_kernels().kernel_updates + fake_kernels().call_updates;
  const int captures = fake_kernels().captures, graphs = fake_kernels().graphs;
  const int64_t memory = cuda::memory_allocated();
  for (int i = 0; i < 100; ++i) f(x);
  EXPECT_EQ(fake_kernels().kernel_updates + fake_kernels().call_updates, updates);
  EXPECT_EQ(fake_kernels().captures, captures);
  EXPECT_EQ(fake_kernels().graphs, graphs);
  EXPECT_EQ(cuda::memory_allocated(), memory);
  EXPECT_EQ(fake_kernels().graph_launches, 103);
}

// A library call cannot store into an input: a node copies what it gives.
TEST_F(CudaReplay, WritesToInputsAreNodes) {
  const auto f = compile([](Tensor x, Tensor w) { x.copy_(x.mm(w)); }, replayed());
  const Tensor w = randn({8, 8}) * 0.3;
  const Tensor there = w.to(kGpu);
  const Tensor a = randn({4, 8}), b = randn({4, 8});
  Tensor x = a.to(kGpu), y = b.to(kGpu);
  for (int i = 0; i < 6; ++i) f(i < 3 ? x : y, there);
  EXPECT_EQ(difference(x.cpu(), a.mm(w).mm(w).mm(w), Tolerance{1e-5, 1e-5}), "");
  EXPECT_EQ(difference(y.cpu(), b.mm(w).mm(w).mm(w), Tolerance{1e-5, 1e-5}), "");
  EXPECT_EQ(fake_kernels().graph_launches, 5);
  EXPECT_NE(told(f).find("replayed as a CUDA graph of 2 nodes"), std::string::npos) << told(f);
}

TEST_F(CudaReplay, NodesWaitForWhatTheyShareAlone) {
  const auto f = compile(
      [](Tensor x, Tensor a, Tensor b) {
        const Tensor chain = x.mm(a).mm(b);
        return exp(chain) * sin(x.mm(b));
      },
      replayed());
  const Tensor x = ones({8, 8}).to(kGpu), a = ones({8, 8}).to(kGpu), b = ones({8, 8}).to(kGpu);
  for (int i = 0; i < 2; ++i) f(x, a, b);
  ASSERT_EQ(fake_kernels().waits.size(), 4u) << told(f);
  // In the order of the ops: the second product reads the first, the third takes the workspace of the first after it, and
  // the kernel reads both.
  EXPECT_EQ(fake_kernels().waits, (std::vector<size_t>{0, 1, 1, 2})) << told(f);
}

TEST_F(CudaReplay, GraphsAreBySizesAndBounded) {
  const auto f = compile([](Tensor x, Tensor w) { return x.mm(w).mm(w); }, replayed(true));
  const Tensor w = randn({8, 8});
  const Tensor there = w.to(kGpu);
  for (int round = 0; round < 3; ++round) {
    for (int64_t rows = 2; rows < 22; ++rows) {
      const Tensor x = randn({rows, 8});
      EXPECT_EQ(difference(f(x.to(kGpu), there).cpu(), x.mm(w).mm(w), Tolerance{1e-5, 1e-5}), "") << rows;
    }
  }
  EXPECT_GT(fake_kernels().graph_launches, 20);
  EXPECT_LE(fake_kernels().execs, 16);
  EXPECT_NE(told(f).find("16 of them, by sizes"), std::string::npos) << told(f);
}

TEST_F(CudaReplay, SaysWhyThereIsNoGraph) {
  const auto one = compile([](Tensor x) { return x * 2 + 1; }, replayed());
  const auto integers = compile([](Tensor x) { return x.mm(x).mm(x); }, replayed());
  const auto host = compile([](Tensor x) { return x * 2; }, replayed());
  for (int i = 0; i < 3; ++i) {
    one(ones({8, 8}).to(kGpu));
    integers(ones({8, 8}, kInt64).to(kGpu));
    host(ones({8, 8}));
  }
  EXPECT_EQ(fake_kernels().graph_launches, 0);
  EXPECT_NE(told(one).find("no CUDA graph: it is one launch"), std::string::npos) << told(one);
  EXPECT_NE(told(integers).find("no CUDA graph: mm at"), std::string::npos) << told(integers);
  EXPECT_NE(told(host).find("no CUDA graph: nothing of it runs on a GPU"), std::string::npos) << told(host);
}

TEST_F(CudaReplay, RunsAsItIsWhereRecordingFails) {
  const auto f = compile([](Tensor x) { return x.mm(x).mm(x); }, replayed());
  fake_kernels().refuses_captures = true;
  const Tensor x = randn({8, 8});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(difference(f(x.to(kGpu)).cpu(), x.mm(x).mm(x), Tolerance{1e-5, 1e-5}), "") << i;
  EXPECT_NE(told(f).find("cudaStreamBeginCapture: refused"), std::string::npos) << told(f);
}

TEST_F(CudaReplay, IsABackendOfItsOwn) {
  const auto f = compile([](Tensor x) { return x / sum(x, {1}, true); },
                         CompileOptions{.backend = "cudagraphs", .audit = false});
  for (int i = 0; i < 3; ++i) f(ones({8, 8}).to(kGpu));
  EXPECT_NE(told(f).find("replayed as a CUDA graph of 2 nodes"), std::string::npos) << told(f);
}

// ---- With one -----------------------------------------------------------------------------------------------------------

class CudaReplayed : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << cuda::why_unavailable();
    manual_seed(5);
  }
};

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(24, 32));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({32})));
  nn::Linear fc2 = register_module("fc2", nn::Linear(32, 5));
  Tensor forward(const Tensor& x) { return fc2(dropout(silu(norm(fc1(x))), 0.25, true)); }
};

TEST_F(CudaReplayed, TrainingStepsGiveTheBitsOfEagerCode) {
  const auto train = [](bool is_compiled) {
    manual_seed(11);
    const auto net = std::make_shared<Net>();
    net->to(kGpu);
    auto optimizer = std::make_shared<optim::AdamW>(net->parameters(), optim::AdamWOptions(1e-2));
    std::function<Tensor(Tensor, Tensor)> step = [net, optimizer](Tensor x, Tensor y) {
      Tensor loss = nn::functional::cross_entropy(net->forward(x), y);
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
      return loss;
    };
    if (is_compiled) step = compile(step, replayed());
    std::vector<Tensor> losses, batches;
    for (int i = 0; i < 12; ++i) {
      const Tensor x = randn({16, 24}).to(kGpu), y = randint(0, 5, {16}).to(kGpu);
      if (i % 3 == 0) batches.push_back(x);  // so that addresses change
      if (i == 6) optimizer->param_groups()[0].options().set_lr(3e-3);
      losses.push_back(step(x, y));
    }
    for (const Tensor& parameter : net->parameters()) losses.push_back(parameter.detach());
    return losses;
  };
  const uint64_t before = compile_stats().graph_replays;
  const std::vector<Tensor> got = train(true);
  EXPECT_GE(compile_stats().graph_replays - before, 9u);
  const std::vector<Tensor> want = train(false);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(difference_of_bits(got[i], want[i]), "") << i;
}

TEST_F(CudaReplayed, ResultsThatAreHeldStay) {
  const auto chain = [](Tensor x, Tensor w) {
    const Tensor y = softmax(x.mm(w), -1);
    return std::make_tuple(y, y.mm(w), sum(y.t(), {0}));
  };
  const auto f = compile(chain, replayed());
  const Tensor w = randn({96, 96}).to(kGpu);
  std::vector<std::tuple<Tensor, Tensor, Tensor>> got;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 8; ++i) {
    inputs.push_back(randn({64, 96}).to(kGpu));
    got.push_back(f(inputs.back(), w));
  }
  // These products are large enough to be timed in plans: eager code takes the same algorithms here.
  const cuda::TimedProductsScope timed;
  for (int i = 0; i < 8; ++i) {
    const auto [a, b, c] = chain(inputs[i], w);
    EXPECT_EQ(difference_of_bits(std::get<0>(got[i]), a), "") << i;
    EXPECT_EQ(difference_of_bits(std::get<1>(got[i]), b), "") << i;
    EXPECT_EQ(difference_of_bits(std::get<2>(got[i]), c), "") << i;
  }
}

TEST_F(CudaReplayed, IndicesOutOfRangeAreTold) {
  const auto f = compile([](Tensor x, Tensor i) { return x.index_select(0, i).mm(x) * 2; }, replayed());
  const Tensor x = randn({5, 5}).to(kGpu), good = tensor({4, 0}).to(kGpu);
  for (int i = 0; i < 3; ++i) f(x, good);
  cuda::synchronize();
  EXPECT_THROW(
      {
        static_cast<void>(f(x, tensor({4, 5}).to(kGpu)));
        cuda::synchronize();
      },
      IndexError);
  f(x, good);
  cuda::synchronize();
}

TEST_F(CudaReplayed, ManyStepsLeaveMemoryFlat) {
  const auto f = compile([](Tensor x, Tensor w) { return softmax(x.mm(w), -1).mm(w); }, replayed());
  const Tensor w = randn({64, 64}).to(kGpu);
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) f(randn({32, 64}, kGpu), w);
    cuda::synchronize();
  };
  run(100);
  const int64_t memory = cuda::memory_allocated(), reserved = cuda::memory_reserved();
  run(2000);
  EXPECT_EQ(cuda::memory_allocated(), memory);
  EXPECT_EQ(cuda::memory_reserved(), reserved);
}

}  // namespace
}  // namespace weft::compiler::tests
