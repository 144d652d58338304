// Stores over inputs: results go straight into the inputs that they replace, and only where nobody can tell.
#include <gtest/gtest.h>
#include <weft.h>

#include <cstring>
#include <iostream>

#include "compiler/passes/pipeline.h"
#include "compiler/runtime/launch_plan.h"
#include "tests/compiler/random_graph.h"
#include "tests/support/compare.h"

namespace weft::compiler::tests {
namespace {

using weft::tests::difference_of_bits;
using Tensors = std::vector<Tensor>;

// What a compiled function stores over its inputs, by the program of its first call.
template <class F, class... Args>
size_t stores_over(const F& function, const Args&... args) {
  size_t count = 0;
  const Backend look([&count](const Graph& graph, std::span<const Tensor>) {
    count += schedule(graph).stored_over.size();
    return [runner = std::make_shared<GraphRunner>(graph)](std::span<const Tensor> inputs,
                                                           const RunValues& values) {
      std::vector<const Tensor*> pointers;
      for (const Tensor& input : inputs) pointers.push_back(&input);
      Tensors outputs(runner->graph().outputs.size());
      runner->run(pointers, values, outputs);
      return outputs;
    };
  });
  compile(function, {.backend = look})(args...);
  return count;
}

// Calls eagerly and compiled, three times each, on arguments of equal values: everything must be equal afterwards.
template <class F, class... Args>
void expect_equal(const F& function, const Args&... args) {
  for (const char* backend : {"weft", "interpret", "aot_eager"}) {
    SCOPED_TRACE(backend);
    std::tuple eager{args.clone()...}, own{args.clone()...};
    const auto compiled = compile(function, {.backend = backend});
    for (int round = 0; round < 3; ++round) {
      const Tensor want = std::apply(function, eager), got = std::apply(compiled, own);
      EXPECT_EQ(difference_of_bits(got, want), "") << "round " << round;
      const auto list = [](const auto&... tensors) { return Tensors{tensors...}; };
      const Tensors ours = std::apply(list, own), theirs = std::apply(list, eager);
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_EQ(difference_of_bits(ours[i], theirs[i]), "") << "argument " << i;
    }
  }
}

TEST(StoresOverInputs, OfAnUpdate) {
  const auto update = [](Tensor p, Tensor m, Tensor g) {
    m.mul_(0.9).add_(g, 0.1);
    p.sub_(m * 0.01);
    return sum(p);
  };
  const Tensor p = randn({37}), m = randn({37}), g = randn({37});
  EXPECT_EQ(stores_over(update, p.clone(), m.clone(), g), 2u);
  expect_equal(update, p, m, g);
}

TEST(StoresOverInputs, LeaveTheTensorWhereItIs) {
  Tensor p = ones({64});
  const void* const place = p.data_ptr();
  const auto f = compile([](Tensor x) {
    x.mul_(2);
    return x.sum();
  });
  for (int i = 0; i < 3; ++i) {
    const uint32_t before = p->storage->version();
    f(p);
    EXPECT_EQ(p->storage->version(), before + 1);
  }
  EXPECT_EQ(p.data_ptr(), place);
  EXPECT_EQ(p[0].item<float>(), 8.0f);
}

TEST(StoresOverInputs, WaitForReaders) {
  // The product reads what the update replaces.
  const auto f = [](Tensor w, Tensor x) {
    const Tensor y = mm(x, w);
    w.add_(1);
    return y + mm(x, w);
  };
  EXPECT_EQ(stores_over(f, randn({8, 8}), randn({4, 8})), 1u);
  expect_equal(f, randn({8, 8}), randn({4, 8}));
}

TEST(StoresOverInputs, NotWhereAnElementIsReadElsewhere) {
  const auto turned = [](Tensor x) {
    x.copy_(x.t() + 1);
    return x.sum();
  };
  EXPECT_EQ(stores_over(turned, randn({6, 6})), 0u);
  expect_equal(turned, randn({6, 6}));
  const auto summed = [](Tensor x) {
    x.sub_(x.mean({0}, true));
    return x.sum({1});
  };
  expect_equal(summed, randn({70, 33}));
  const auto by_row = [](Tensor x) {
    x.copy_(softmax(x, -1));
    return x.sum({1});
  };
  EXPECT_EQ(stores_over(by_row, randn({16, 40})), 1u);
  expect_equal(by_row, randn({16, 40}));
}

TEST(StoresOverInputs, WhenTwoAreExchanged) {
  const auto exchange = [](Tensor a, Tensor b) {
    const Tensor kept = a * 1.5;
    a.copy_(b * 1.5);
    b.copy_(kept);
    return a + b;
  };
  EXPECT_LE(stores_over(exchange, randn({50}), randn({50})), 1u);
  expect_equal(exchange, randn({50}), randn({50}));
}

TEST(StoresOverInputs, NotOfWhatIsReturnedToo) {
  const auto f = [](Tensor x) {
    const Tensor y = x * 2;
    x.copy_(y);
    return y;
  };
  expect_equal(f, randn({20}));
  Tensor x = ones({20});
  const Tensor y = compile(f)(x);
  x.zero_();
  EXPECT_EQ(y.sum().item<float>(), 40.0f);
}

TEST(StoresOverInputs, OfPartsAndOtherDtypes) {
  expect_equal(
      [](Tensor x) {
        x.narrow(0, 1, 3).mul_(3);
        return x.select(1, 0) + 0;
      },
      randn({5, 7}));
  expect_equal(
      [](Tensor x) {
        x.add_(x.to(kFloat64) * 0.5);
        return x.sum();
      },
      randn({5, 7}));
  expect_equal(
      [](Tensor x) {
        x.t().mul_(3);
        return x.sum();
      },
      randn({5, 7}));
}

TEST(StoresOverInputs, NothingIsLostWhenAnIndexIsWrong) {
  const auto f = compile([](Tensor x, Tensor table, Tensor index) {
    x.mul_(2);
    return table.index_select(0, index) + x;
  });
  Tensor x = ones({3});
  const Tensor table = ones({4, 3}), good = tensor({1, 2, 3}), wrong = tensor({1, 9, 3});
  f(x, table, good);
  EXPECT_EQ(x[0].item<float>(), 2.0f);
  // Eager code has written x when it meets the index.
  EXPECT_THROW(f(x, table, wrong), IndexError);
  const float after = x[0].item<float>();
  EXPECT_TRUE(after == 2.0f || after == 4.0f) << after;
  f(x, table, good);
  EXPECT_EQ(x[0].item<float>(), 2 * after);
}

TEST(StoresOverInputs, OfAWholeStep) {
  nn::Sequential net(nn::Linear(12, 20), nn::SiLU(), nn::RMSNorm(20), nn::Linear(20, 5));
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(1e-2));
  const Tensor x = randn({9, 12}), y = randint(0, 5, {9});
  const auto step = [&](Tensor a, Tensor b) {
    Tensor loss = cross_entropy(net->forward(a), b);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  };
  // The last bias is updated by the kernel that makes its gradient, which looks up the classes: it may find a wrong one when
  // some is stored. So its value and two averages are copied.
  EXPECT_EQ(stores_over(step, x, y), 3 * (net->parameters().size() - 1));
}

// ---- Random graphs ------------------------------------------------------------------------------------------------------

std::vector<std::string> bytes_of_all(const Tensors& tensors) {
  std::vector<std::string> result;
  for (const Tensor& x : tensors)
    result.emplace_back(static_cast<const char*>(x->storage->data()), x->storage->bytes());
  return result;
}

// Outputs that may go over inputs: of one type, where the input shares its memory with no other.
std::vector<Overwrite> choose_overwrites(RandomGraph& random) {
  std::vector<Overwrite> chosen;
  std::vector<bool> is_taken(random.graph.outputs.size());
  for (uint32_t i = 0; i < random.inputs.size(); ++i) {
    const Tensor& input = random.inputs[i];
    const bool is_shared =
        std::count_if(random.inputs.begin(), random.inputs.end(),
                      [&](const Tensor& other) { return other->storage == input->storage; }) != 1;
    if (is_shared) continue;
    for (uint32_t k = 0; k < random.graph.outputs.size(); ++k) {
      const Tensor& output = random.values[random.graph.outputs[k]];
      if (is_taken[k] || output->dtype != input->dtype || output.sizes() != input.sizes()) continue;
      is_taken[k] = true;
      chosen.push_back({k, i});
      break;
    }
  }
  return chosen;
}

size_t check_random_graph(uint32_t seed, const KernelOptions& options) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomGraph random(seed, 40);
  for (size_t i = 0; i < 16; ++i)
    random.graph.outputs.push_back(static_cast<ValueId>(random.below(random.graph.values.size())));
  random.graph.overwrites = choose_overwrites(random);
  Tensors want;
  for (const ValueId output : random.graph.outputs) want.push_back(random.values[output].clone());
  const std::vector<std::string> before = bytes_of_all(random.inputs);

  const LaunchPlan plan(schedule(prepare(random.graph, Stage::Lowered)), options);
  std::vector<bool> is_stored(random.inputs.size());
  for (const StoredOver& pair : plan.schedule().stored_over) is_stored[pair.input] = true;
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : random.inputs) pointers.push_back(&input);
  for (const char* round : {"first", "second"}) {
    SCOPED_TRACE(round);
    Tensors got(want.size());
    plan.run(pointers, {}, got);
    for (const Overwrite& pair : random.graph.overwrites) {
      if (!is_stored[pair.input]) continue;
      EXPECT_TRUE(got[pair.output].is_same(random.inputs[pair.input])) << to_string(plan.schedule());
    }
    for (size_t i = 0; i < got.size(); ++i) {
      // Views of an input show what it holds now; what replaces it has been judged by itself.
      const bool sees_new = std::any_of(random.inputs.begin(), random.inputs.end(), [&](const Tensor& input) {
        return input->storage == got[i]->storage &&
               is_stored[static_cast<size_t>(&input - random.inputs.data())] && !got[i].is_same(input);
      });
      EXPECT_FALSE(sees_new) << "output " << i << to_string(plan.schedule());
      EXPECT_EQ(difference_of_bits(got[i], want[i]), "")
          << "output " << i << " of " << random.graph << to_string(plan.schedule());
    }
    for (size_t i = 0; i < random.inputs.size(); ++i) {
      const auto& storage = random.inputs[i]->storage;
      if (!is_stored[i]) {
        EXPECT_EQ(std::memcmp(storage->data(), before[i].data(), before[i].size()), 0) << "input " << i;
      }
      std::memcpy(storage->data(), before[i].data(), before[i].size());
    }
    if (::testing::Test::HasFailure()) break;
  }
  return plan.schedule().stored_over.size();
}

TEST(StoresOverInputs, OfRandomGraphs) {
  size_t stored = 0;
  for (uint32_t seed = 0; seed < 500 && !HasFailure(); ++seed)
    stored += check_random_graph(seed, {.interpret = true});
  std::cout << stored << " results stored over inputs\n";
  EXPECT_GT(stored, 50u);
}

TEST(StoresOverInputs, OfRandomGraphsInCode) {
  if (!can_generate_code()) GTEST_SKIP() << "no C++ compiler";
  size_t stored = 0;
  for (uint32_t seed = 500; seed < 530 && !HasFailure(); ++seed) stored += check_random_graph(seed, {});
  std::cout << stored << " results stored over inputs\n";
  EXPECT_GT(stored, 2u);
}

}  // namespace
}  // namespace weft::compiler::tests
