// Schedules: which ops become one kernel, along which loops, and what must stay apart.
#include <gtest/gtest.h>
#include <weft.h>

#include <algorithm>

#include "compiler/loops/memory_plan.h"
#include "compiler/loops/schedule.h"
#include "compiler/runtime/graph_runner.h"

namespace weft::compiler::tests {
namespace {

// The schedule of the first graph that compiling the function gives: a backend that looks and runs nothing.
template <class F, class... Args>
Schedule schedule_of(F function, Args... args) {
  std::optional<Schedule> result;
  const Backend look([&result](const Graph& graph, std::span<const Tensor>) {
    if (!result) result = schedule(graph);
    return [runner = std::make_shared<GraphRunner>(graph)](std::span<const Tensor> inputs,
                                                           const RunValues& values) {
      std::vector<const Tensor*> pointers;
      for (const Tensor& input : inputs) pointers.push_back(&input);
      std::vector<Tensor> outputs(runner->graph().outputs.size());
      runner->run(pointers, values, outputs);
      return outputs;
    };
  });
  compile(function, {.backend = look})(args...);
  for (const KernelStep& kernel : result->kernels)
    for (const LoopBody& body : kernel.bodies) verify(body);
  return std::move(*result);
}

size_t loads_of(const LoopBody& body) {
  return static_cast<size_t>(std::count_if(body.sources.begin(), body.sources.end(),
                                           [](const Source& s) { return s.kind == Source::Kind::Load; }));
}
const LoopBody& only_body(const Schedule& schedule) {
  EXPECT_EQ(schedule.kernels.size(), 1u) << to_string(schedule);
  EXPECT_EQ(schedule.externs.size(), 0u) << to_string(schedule);
  return schedule.kernels.at(0).bodies.at(0);
}

TEST(Schedule, PutsNormsAndSoftmaxIntoOneKernel) {
  const Tensor x = randn({64, 128}), w = randn({128});
  const Schedule norm = schedule_of(
      [](Tensor a, Tensor b) { return silu(a * rsqrt(mean(a * a, {-1}, true) + 1e-5) * b); }, x, w);
  const LoopBody& body = only_body(norm);
  EXPECT_EQ(body.rows.concrete(), 64);
  EXPECT_EQ(body.columns.concrete(), 128);
  EXPECT_EQ(loads_of(body), 2u) << to_string(body);
  EXPECT_EQ(body.stores.size(), 1u) << to_string(body);

  const Schedule soft = schedule_of([](Tensor a) { return softmax(a, -1); }, x);
  EXPECT_EQ(only_body(soft).folds.size(), 2u);
  const Schedule layer = schedule_of([](Tensor a, Tensor b) { return layer_norm(a, {128}, b, b); }, x, w);
  EXPECT_EQ(only_body(layer).folds.size(), 2u);
}

// The sum of what is 0 but where a checked index says is that one value; where an index may lie outside, it is a sum.
TEST(Schedule, SumsOneElementWithoutFold) {
  const Tensor x = randn({8, 50}), index = randint(0, 50, {8, 1}, TensorOptions(kInt64)), v = randn({8, 1});
  const auto scattered = [](Tensor a, Tensor i, Tensor g) {
    Tensor y = a.detach().requires_grad_();
    gather(y, 1, i).backward(g);
    return sum(y.grad(), {1});
  };
  const Schedule one = schedule_of(scattered, x, index, v);
  for (const KernelStep& kernel : one.kernels)
    for (const LoopBody& body : kernel.bodies) EXPECT_EQ(body.folds.size(), 0u) << to_string(body);
  EXPECT_TRUE(equal(compile(scattered)(x, index, v), v.squeeze(1)));
  const auto selected = [](Tensor i, Tensor g) { return sum(where(arange(0, 50) == i, g, zeros({1})), {1}); };
  EXPECT_EQ(only_body(schedule_of(selected, index, v)).folds.size(), 1u);
  EXPECT_TRUE(equal(compile(selected)(full({8, 1}, 50, TensorOptions(kInt64)), v), zeros({8})));
}

TEST(Schedule, FlattensWhatIsContiguous) {
  const Tensor x = randn({4, 5, 6});
  const Schedule flat = schedule_of([](Tensor a) { return exp(a) * 2 + a; }, x);
  EXPECT_EQ(only_body(flat).columns.concrete(), 120);
  // Both lie in memory as x does, whatever the order of their dimensions.
  const Schedule turned = schedule_of([](Tensor a) { return exp(a.permute({2, 0, 1})) + 1; }, x);
  EXPECT_EQ(only_body(turned).columns.concrete(), 120);
  // The row is the same for all rows, so that dimension stays apart.
  const Schedule broadcast = schedule_of([](Tensor a, Tensor b) { return a + b; }, x, randn({6}));
  EXPECT_EQ(only_body(broadcast).rows.concrete(), 20);
  EXPECT_EQ(only_body(broadcast).columns.concrete(), 6);
}

TEST(Schedule, FoldsRowsAndColumnsOfOneReadTogether) {
  const Tensor x = randn({64, 32});
  const Schedule both =
      schedule_of([](Tensor a) { return std::make_tuple(sum(a * a, {1}), sum(a, {1})); }, x);
  EXPECT_EQ(only_body(both).folds.size(), 2u);
  EXPECT_EQ(loads_of(only_body(both)), 1u);
  const Schedule columns = schedule_of([](Tensor a) { return sum(a * a, {0}) / 64; }, x);
  EXPECT_EQ(only_body(columns).folds.at(0).axis, BodyFold::Axis::Rows);
}

TEST(Schedule, KeepsApartWhatNeedsAllOfTheOther) {
  const Tensor x = randn({8, 8});
  // The second product reads rows where the first is columns, after the library call between them.
  const Schedule apart = schedule_of([](Tensor a) { return silu(a.mm(a) + 1).mm(a) * 2; }, x);
  EXPECT_EQ(apart.kernels.size(), 2u) << to_string(apart);
  EXPECT_EQ(apart.externs.size(), 2u) << to_string(apart);
  // Every element needs the sum of all.
  const Schedule whole = schedule_of([](Tensor a) { return a / sum(a, {0}, true); }, x);
  EXPECT_EQ(whole.kernels.size(), 2u) << to_string(whole);
  EXPECT_FALSE(whole.refusals.empty());
}

// Divisors are checked by the kernel that divides; the error is that of eager code, and nothing has been written.
TEST(Schedule, DividesIntegersInLoops) {
  const auto divide = [](Tensor a, Tensor b, Tensor out) {
    const Tensor down = floor_divide(a * 2, b), rest = remainder(a, b), cut = fmod(a, b.slice(0, 0, 1));
    out.copy_(down + rest);
    return std::vector<Tensor>{down + 1, rest * 3, cut};
  };
  const Tensor a = randint(-50, 50, {37, 21}, kInt64);
  Tensor b = randint(1, 9, {37, 21}, kInt64).to(kInt32);
  const Schedule made = schedule_of(divide, a, b, zeros({37, 21}, kInt64));
  EXPECT_EQ(made.kernels.size(), 1u) << to_string(made);
  EXPECT_EQ(made.externs.size(), 0u) << to_string(made);
  for (const char* backend : {"weft", "interpret"}) {
    const auto f = compile(divide, {.backend = Backend(backend)});
    Tensor out = zeros({37, 21}, kInt64), want_out = zeros({37, 21}, kInt64);
    const std::vector<Tensor> got = f(a, b, out), want = divide(a, b, want_out);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(equal(got[i], want[i])) << backend << i;
    EXPECT_TRUE(equal(out, want_out)) << backend;
    Tensor with_zero = b.clone();
    with_zero.select(0, 36).select(0, 20).fill_(0);
    out.fill_(7);
    try {
      f(a, with_zero, out);
      ADD_FAILURE() << backend << ": no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("floor_divide: the divisor holds 0"), std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(equal(out, full({37, 21}, 7, kInt64))) << backend;
  }
}

// A result that is a few elements is computed again by who reads other parts of it: no kernel waits for another.
TEST(Schedule, ComputesSmallValuesAgainRatherThanCallAnotherKernel) {
  const auto reads_a_part = [](Tensor a) {
    const Tensor y = sigmoid(a);
    return std::vector<Tensor>{y, cos(y.narrow(1, 0, 2))};
  };
  const Schedule small = schedule_of(reads_a_part, randn({4, 6}));
  EXPECT_EQ(small.kernels.size(), 1u) << to_string(small);
  for (const LoopBody& body : small.kernels[0].bodies)
    for (const BufferParam& buffer : body.buffers) EXPECT_NE(buffer.is_read, buffer.is_written);
  EXPECT_EQ(schedule_of(reads_a_part, randn({400, 600})).kernels.size(), 2u);
}

TEST(Schedule, ReadsViewsOfMemoryWhereTheyLie) {
  const Tensor x = randn({6, 8});
  const Schedule views = schedule_of(
      [](Tensor a) {
        return a.t().index({indexing::Slice(1, 5)}) * 2 + a.view({8, 6}).index({indexing::Slice(0, 4)});
      },
      x);
  EXPECT_EQ(only_body(views).buffers.size(), 2u);  // x and the result
}

TEST(MemoryPlan, PacksWhatDoesNotLiveTogetherIntoOnePlace) {
  MemoryLifetimes lifetimes;
  lifetimes.arena = {{0, 0, 1}, {1, 1, 2}, {2, 2, 3}, {3, 0, 3}};
  const std::vector<size_t> bytes = {1000, 500, 1000, 64};
  const MemoryPlan plan = pack(lifetimes, bytes);
  verify(plan, lifetimes, bytes);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, 1024u + 512 + 64);
  MemoryPlan wrong = plan;
  wrong.offsets[1] = wrong.offsets[0];
  EXPECT_THROW(verify(wrong, lifetimes, bytes), Error);
}

TEST(MemoryPlan, HoldsForRandomLifetimes) {
  uint64_t state = 1;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 200; ++round) {
    MemoryLifetimes lifetimes;
    std::vector<size_t> bytes;
    for (uint32_t b = 0; b < 30; ++b) {
      const auto first = static_cast<uint32_t>(next(20));
      lifetimes.arena.push_back({b, first, first + static_cast<uint32_t>(next(6))});
      bytes.push_back(next(5) == 0 ? 0 : next(5000));
    }
    const MemoryPlan plan = pack(lifetimes, bytes, round % 2 == 0 ? 0 : 64);
    verify(plan, lifetimes, bytes);
    EXPECT_LE(plan.bytes, plan.unpacked_bytes + 30 * 64);
  }
}

}  // namespace
}  // namespace weft::compiler::tests
