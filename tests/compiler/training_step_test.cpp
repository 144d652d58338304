// Whole training steps as one compiled function: forward, backward, clipping, optimizer; and random numbers inside.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(6, 8));
  nn::RMSNorm norm = register_module("norm", nn::RMSNorm(8));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.25));
  nn::Linear fc2 = register_module("fc2", nn::Linear(8, 3));
  Tensor forward(const Tensor& x) { return fc2(dropout(norm(silu(fc1(x))))); }
};

std::shared_ptr<Net> make_net() {
  auto net = std::make_shared<Net>();
  const NoGradGuard off;
  int seed = 1;
  for (Tensor& parameter : net->parameters())
    parameter.copy_(numbers(SymList(parameter.sizes()), seed++) * 0.5);
  return net;
}

struct Batch {
  Tensor x, y;
};
Batch batch(int step, int64_t size = 5) {
  return {numbers({size, 6}, step), (counting({size}, kInt64) + step).remainder(3)};
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;
const std::vector<std::pair<const char*, MakeOptimizer>>& optimizers() {
  using namespace optim;
  static const std::vector<std::pair<const char*, MakeOptimizer>> all = {
      {"SGD", [](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.1)); }},
      {"SGD with momentum",
       [](const auto& p) {
         return std::make_unique<SGD>(p, SGDOptions(0.05).momentum(0.9).dampening(0.1).weight_decay(1e-3));
       }},
      {"SGD with Nesterov momentum",
       [](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.05).momentum(0.9).nesterov(true)); }},
      {"Adam",
       [](const auto& p) {
         return std::make_unique<Adam>(p, AdamOptions(1e-2).betas({0.9, 0.99}));
       }},
      {"Adam with amsgrad",
       [](const auto& p) {
         return std::make_unique<Adam>(p, AdamOptions(1e-2).weight_decay(0.01).amsgrad(true));
       }},
      {"AdamW",
       [](const auto& p) { return std::make_unique<AdamW>(p, AdamWOptions(1e-2).weight_decay(0.1)); }},
      {"RMSprop", [](const auto& p) { return std::make_unique<RMSprop>(p, RMSpropOptions(1e-3)); }},
      {"RMSprop, centered",
       [](const auto& p) {
         return std::make_unique<RMSprop>(p, RMSpropOptions(1e-3).centered(true).momentum(0.5));
       }},
      {"Adagrad",
       [](const auto& p) { return std::make_unique<Adagrad>(p, AdagradOptions(1e-2).lr_decay(0.01)); }},
  };
  return all;
}

enum class Clip { None, Scalar, Tensor, Value };

// A run of a net: losses, norms and weights after each step, and the optimizer's state at the end.
struct Trainer {
  std::shared_ptr<Net> net = make_net();
  std::unique_ptr<optim::Optimizer> optimizer;
  Clip clip;
  Trainer(const MakeOptimizer& make, Clip c) : optimizer(make(net->parameters())), clip(c) {}

  std::tuple<Tensor, Scalar> step(const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net->forward(x), y);
    loss.backward();
    Scalar norm = 0.0;
    if (clip == Clip::Scalar) norm = nn::utils::clip_grad_norm_(net->parameters(), 0.1);
    if (clip == Clip::Tensor) norm = nn::utils::clip_grad_norm_tensor_(net->parameters(), 0.1).item();
    if (clip == Clip::Value) nn::utils::clip_grad_value_(net->parameters(), 0.05);
    optimizer->step();
    optimizer->zero_grad();
    return {loss.detach(), norm};
  }

  Results run(const std::function<std::tuple<Tensor, Scalar>(Tensor, Tensor)>& step, int steps) {
    manual_seed(11);
    Results results;
    for (int i = 0; i < steps; ++i) {
      const auto [x, y] = batch(i);
      const auto [loss, norm] = step(x, y);
      results.push_back(loss);
      results.push_back(tensor(norm.to_double(), kFloat64));
      for (const Tensor& parameter : net->parameters()) {
        EXPECT_FALSE(parameter.grad().defined());
        results.push_back(parameter.detach().clone());
      }
    }
    for (const auto& group : optimizer->param_groups())
      for (const auto& state : group.states()) {
        results.push_back(tensor(state.step.value(), kFloat64));
        for (const Tensor& slot : state.slots)
          if (slot.defined()) results.push_back(slot.clone());
      }
    results.push_back(tensor(static_cast<double>(default_generator().offset()), kFloat64));
    return results;
  }
};

TEST(TrainingStep, EqualsEagerBitForBitWithEveryOptimizer) {
  for (const auto& [name, make] : optimizers()) {
    for (const Clip clip : {Clip::None, Clip::Scalar}) {
      SCOPED_TRACE(std::string(name) + (clip == Clip::None ? "" : ", clipped"));
      Trainer eager(make, clip), compiled(make, clip);
      const Results want = eager.run([&](Tensor x, Tensor y) { return eager.step(x, y); }, 20);
      const Counts counts;
      const auto step = compile([&](Tensor x, Tensor y) { return compiled.step(x, y); }, without_audits());
      expect_same(compiled.run(step, 20), want);
      EXPECT_LE(counts.traces(), 2u);
      EXPECT_EQ(counts.eager_calls(), 0u);
      EXPECT_GE(counts.hits(), 18u);
    }
  }
}

// Large and small parameters, biases beside the sums that are their gradients, a norm.
TEST(TrainingStep, ReplacesAllParametersByOneKernel) {
  struct Wide : nn::Module {
    nn::Linear fc1 = register_module("fc1", nn::Linear(64, 700));
    nn::RMSNorm norm = register_module("norm", nn::RMSNorm(700));
    nn::Linear fc2 = register_module("fc2", nn::Linear(700, 10));
    Tensor forward(const Tensor& x) { return fc2(norm(relu(fc1(x)))); }
  };
  const auto run = [](auto make_step) {
    manual_seed(1);
    auto net = std::make_shared<Wide>();
    optim::Adam optimizer(net->parameters(), optim::AdamOptions(1e-3));
    const auto step = make_step([&](Tensor x, Tensor y) {
      const Tensor loss = cross_entropy(net->forward(x), y);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    });
    const Tensor x = numbers({32, 64}, 1), y = counting({32}, kInt64).remainder(10);
    for (int i = 0; i < 3; ++i) step(x, y);
    if constexpr (requires { step.core(); }) {
      const Explanation e = explain(step, x, y);
      const Explanation::Graph& graph = e.entries.at(0).graphs.at(0);
      EXPECT_EQ(graph.stored_writes, 15u) << e;  // five parameters with two moments each
      EXPECT_EQ(std::count_if(graph.kernels.begin(), graph.kernels.end(),
                              [](const Explanation::Kernel& kernel) {
                                return kernel.code.find("sqrt_div") != std::string::npos;
                              }),
                1)
          << e;
    }
    return net->parameters();
  };
  const std::vector<Tensor> expected = run([](auto f) { return f; });
  const std::vector<Tensor> got = run([](auto f) { return compile(f); });
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], expected[i])) << i;
}

TEST(TrainingStep, EqualsEagerInAllModesAndClippings) {
  const MakeOptimizer& make = optimizers()[3].second;
  for (const Clip clip : {Clip::None, Clip::Scalar, Clip::Tensor, Clip::Value}) {
    Trainer eager(make, clip);
    const Results want = eager.run([&](Tensor x, Tensor y) { return eager.step(x, y); }, 6);
    for (const Way& way : compiled_ways()) {
      SCOPED_TRACE(way.name);
      Trainer compiled(make, clip);
      const auto step = compile([&](Tensor x, Tensor y) { return compiled.step(x, y); }, way.options);
      expect_same(compiled.run(step, 6), want);
    }
  }
}

TEST(TrainingStep, EqualsEagerWithBatchesOfSeveralSizes) {
  const MakeOptimizer& make = optimizers()[4].second;
  Trainer eager(make, Clip::Scalar), compiled(make, Clip::Scalar);
  const auto step = compile([&](Tensor x, Tensor y) { return compiled.step(x, y); }, without_audits());
  const Counts counts;
  int i = 0;
  for (const int64_t size : {5, 5, 8, 3, 16, 1, 7, 5, 2, 1}) {
    const auto [x, y] = batch(++i, size);
    manual_seed(static_cast<uint64_t>(i));
    const auto [want, want_norm] = eager.step(x, y);
    manual_seed(static_cast<uint64_t>(i));
    const auto [loss, norm] = step(x, y);
    EXPECT_EQ(tests::difference_of_bits(loss, want), "") << size;
    EXPECT_EQ(norm.to_double(), want_norm.to_double()) << size;
  }
  EXPECT_LE(counts.traces(), 3u);  // the first size, any size, a batch of one
  for (const auto& item : eager.net->named_parameters())
    EXPECT_EQ(tests::difference_of_bits(compiled.net->get_parameter(item.key()), item.value()), "")
        << item.key();
}

TEST(TrainingStep, EqualsEagerWhenOnlyPartsAreCompiled) {
  const MakeOptimizer& make = optimizers()[3].second;
  Trainer eager(make, Clip::Scalar);
  const Results want = eager.run([&](Tensor x, Tensor y) { return eager.step(x, y); }, 6);
  {
    SCOPED_TRACE("the loss");
    Trainer parts(make, Clip::Scalar);
    const auto loss_of = compile([&](Tensor x, Tensor y) { return cross_entropy(parts.net->forward(x), y); },
                                 without_audits());
    expect_same(parts.run(
                    [&](Tensor x, Tensor y) {
                      const Tensor loss = loss_of(x, y);
                      loss.backward();
                      const Scalar norm = nn::utils::clip_grad_norm_(parts.net->parameters(), 0.1);
                      parts.optimizer->step();
                      parts.optimizer->zero_grad();
                      return std::make_tuple(loss.detach(), norm);
                    },
                    6),
                want);
  }
  {
    SCOPED_TRACE("the optimizer's step");
    Trainer parts(make, Clip::Scalar);
    const auto update = compile(
        [&] {
          const Scalar norm = nn::utils::clip_grad_norm_(parts.net->parameters(), 0.1);
          parts.optimizer->step();
          return norm;
        },
        without_audits());
    expect_same(parts.run(
                    [&](Tensor x, Tensor y) {
                      const Tensor loss = cross_entropy(parts.net->forward(x), y);
                      loss.backward();
                      const Scalar norm = update();
                      parts.optimizer->zero_grad();
                      return std::make_tuple(loss.detach(), norm);
                    },
                    6),
                want);
  }
  {
    SCOPED_TRACE("forward and backward, with gradients left behind");
    Trainer parts(make, Clip::Scalar);
    const auto differentiate = compile(
        [&](Tensor x, Tensor y) {
          const Tensor loss = cross_entropy(parts.net->forward(x), y);
          loss.backward();
          return loss;
        },
        without_audits());
    expect_same(parts.run(
                    [&](Tensor x, Tensor y) {
                      const Tensor loss = differentiate(x, y);
                      const Scalar norm = nn::utils::clip_grad_norm_(parts.net->parameters(), 0.1);
                      parts.optimizer->step();
                      parts.optimizer->zero_grad();
                      return std::make_tuple(loss.detach(), norm);
                    },
                    6),
                want);
  }
}

TEST(TrainingStep, EqualsEagerWhenGradientsAreClearedFirstOrNever) {
  for (const bool clears : {true, false}) {
    SCOPED_TRACE(clears);
    const auto run = [&](bool is_compiled) {
      const auto net = make_net();
      net->eval();
      optim::SGD sgd(net->parameters(), optim::SGDOptions(0.05).momentum(0.5));
      std::function<Tensor(Tensor, Tensor)> step = [&](Tensor x, Tensor y) {
        if (clears) sgd.zero_grad();
        const Tensor loss = cross_entropy(net->forward(x), y);
        loss.backward();
        sgd.step();
        return loss.detach();
      };
      if (is_compiled) step = compile(step, without_audits());
      Results results;
      for (int i = 0; i < 8; ++i) {
        const auto [x, y] = batch(i);
        results.push_back(step(x, y));
        for (const Tensor& parameter : net->parameters()) {
          results.push_back(parameter.detach().clone());
          results.push_back(parameter.grad().clone());
        }
      }
      return results;
    };
    const Results want = run(false);
    const Counts counts;
    expect_same(run(true), want);
    EXPECT_LE(counts.traces(), 2u);
  }
}

TEST(TrainingStep, EqualsEagerWithGradientsSummedOverMicroBatches) {
  const auto run = [](bool is_compiled) {
    const auto net = make_net();
    optim::AdamW adam(net->parameters(), optim::AdamWOptions(1e-2));
    std::function<Tensor(Tensor, Tensor)> step = [&](Tensor x, Tensor y) {
      Tensor total = zeros({});
      for (int part = 0; part < 2; ++part) {
        const Tensor loss = cross_entropy(net->forward(x.chunk(2)[static_cast<size_t>(part)]),
                                          y.chunk(2)[static_cast<size_t>(part)]) /
                            2;
        loss.backward();
        total.add_(loss.detach());
      }
      adam.step();
      adam.zero_grad();
      return total;
    };
    if (is_compiled) step = compile(step, without_audits());
    manual_seed(1);
    Results results;
    for (int i = 0; i < 6; ++i) {
      const auto [x, y] = batch(i, 6);
      results.push_back(step(x, y));
      for (const Tensor& parameter : net->parameters()) results.push_back(parameter.detach().clone());
    }
    return results;
  };
  expect_same(run(true), run(false));
}

// ---- Random numbers -----------------------------------------------------------------------------------------------------

TEST(RandomInside, MasksEqualEagersAndTheGeneratorStandsWhereEagerLeavesIt) {
  const auto f = [](Tensor x) {
    const Tensor large = dropout(x.expand({64, -1}).contiguous(), 0.5), small = dropout(x, 0.1);
    return std::make_tuple(large.sum(0) + small, randn({3}), bernoulli(x.sigmoid()), randint(0, 10, {4}),
                           dropout(x, 0.5, false), rand_like(x) + randperm(x.size(0)));
  };
  hold_in_all_modes(f, [](const auto& call) {
    Results results;
    manual_seed(42);
    for (const int64_t n : {5, 5, 7, 1, 9}) {
      const auto outputs = call(counting({n}) / 10);
      std::apply([&](const auto&... t) { results.insert(results.end(), {t...}); }, outputs);
      results.push_back(rand({2}));  // drawn outside, in between
      results.push_back(tensor(static_cast<double>(default_generator().offset()), kFloat64));
    }
    return results;
  });
}

TEST(RandomInside, IsDrawnAnewAtEachCallAndAgainAfterTheSameSeed) {
  const auto f = compile([] { return rand({8}); }, without_audits());
  manual_seed(1);
  const Tensor a = f(), b = f();
  EXPECT_FALSE(equal(a, b));
  manual_seed(1);
  EXPECT_TRUE(equal(f(), a));
  EXPECT_TRUE(equal(f(), b));
  manual_seed(2);
  EXPECT_FALSE(equal(f(), a));
}

TEST(RandomInside, GradientsUseTheMaskOfTheirForward) {
  hold_in_all_modes([](Tensor x) { return dropout(x, 0.5) * dropout(x, 0.25); },
                    [](const auto& call) {
                      manual_seed(9);
                      const Tensor x = (counting({50}) + 1).requires_grad_();
                      const Tensor a = call(x), b = call(x);
                      b.sum().backward();
                      const Tensor of_b = x.grad().clone();
                      a.sum().backward();
                      EXPECT_TRUE(equal((of_b != 0), (b != 0)));
                      return Results{a, b, of_b, x.grad()};
                    });
}

TEST(RandomInside, AnErrorHalfwayDrawsNothing) {
  const auto f = compile(
      [](Tensor x, Tensor y) {
        const Tensor noise = rand({4});
        return (x + noise).matmul(y);
      },
      without_audits());
  manual_seed(3);
  const uint64_t before = default_generator().offset();
  EXPECT_NE(error_of([&] { f(ones({4}), ones({5})); }), "no error");
  EXPECT_EQ(default_generator().offset(), before);
  const Tensor got = f(ones({4}), ones({4}));
  manual_seed(3);
  EXPECT_EQ(tests::difference_of_bits(got, (ones({4}) + rand({4})).matmul(ones({4}))), "");
}

TEST(RandomInside, InPlaceDrawsFillTheirTensors) {
  hold_in_all_modes(
      [](Tensor x) {
        x.slice(0, 1, 4).uniform_(-1, 1);
        x.slice(0, 4).normal_(2, 0.5);
        return x.clone().bernoulli_(0.5);
      },
      [](const auto& call) {
        manual_seed(5);
        Results results;
        for (int i = 0; i < 2; ++i) {
          const Tensor x = zeros({9});
          results.push_back(call(x));
          results.push_back(x);
        }
        return results;
      });
}

}  // namespace
}  // namespace weft
