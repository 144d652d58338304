// State that lives outside of a compiled function: rates, modes, parameters, plain variables, tensors kept by objects.

#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

struct Net : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(4, 5));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.5));
  nn::Linear fc2 = register_module("fc2", nn::Linear(5, 2));
  Tensor forward(const Tensor& x) { return fc2(dropout(tanh(fc1(x)))); }
};

std::shared_ptr<Net> make_net(int seed = 1) {
  auto net = std::make_shared<Net>();
  const NoGradGuard off;
  for (Tensor& parameter : net->parameters()) parameter.copy_(numbers(SymList(parameter.sizes()), seed++));
  return net;
}

// Runs the same calls and changes on two nets, one eager and one compiled, and holds them to the same results.
template <class Change>
void expect_seen(const Change& change) {
  const auto eager = make_net(), net = make_net();
  const auto compiled = compile(net, without_audits());
  const Tensor x = numbers({3, 4});
  const auto compare = [&](const char* when) {
    SCOPED_TRACE(when);
    for (int round = 0; round < 2; ++round) {
      for (const auto& one : {eager, net}) one->zero_grad();
      manual_seed(3);
      const Tensor want = eager->forward(x);
      manual_seed(3);
      const Tensor got = compiled(x);
      EXPECT_EQ(tests::difference_of_bits(got, want), "");
      EXPECT_EQ(got.requires_grad(), want.requires_grad());
      if (!want.requires_grad()) continue;
      want.square().sum().backward();
      got.square().sum().backward();
      const auto a = net->named_parameters(), b = eager->named_parameters();
      for (const auto& item : b) {
        const Tensor of_compiled = net->get_parameter(item.key()).grad();
        EXPECT_EQ(tests::difference_of_bits(of_compiled, item.value().grad()), "") << item.key();
      }
    }
  };
  compare("before");
  change(*eager);
  change(*net);
  compare("after");
}

TEST(SeenState, LayersSwitchedToEvaluation) {
  expect_seen([](Net& net) { net.eval(); });
  expect_seen([](Net& net) { net.dropout->eval(); });
  expect_seen([](Net& net) {
    net.eval();
    net.train();
  });
}

TEST(SeenState, ChangedLayerOptions) {
  expect_seen([](Net& net) { net.dropout->options.p(0.25); });
}

TEST(SeenState, ReplacedParameters) {
  expect_seen([](Net& net) { net.fc1->weight = numbers({5, 4}, 9).requires_grad_(); });
  expect_seen([](Net& net) {
    net.fc1->weight = numbers({7, 4}, 9).requires_grad_(), net.fc1->bias = zeros({7}).requires_grad_(),
    net.fc2->weight = numbers({2, 7}, 8).requires_grad_();
  });
  expect_seen([](Net& net) { net.fc2->bias.reset(); });
}

TEST(SeenState, ReplacedModules) {
  expect_seen([](Net& net) {
    nn::Linear other(5, 2);
    const NoGradGuard off;
    other->weight.copy_(numbers({2, 5}, 11));
    other->bias.copy_(numbers({2}, 12));
    net.fc2 = other;
  });
}

TEST(SeenState, FrozenParameters) {
  expect_seen([](Net& net) { net.fc1->weight.requires_grad_(false); });
  expect_seen([](Net& net) { net.requires_grad_(false); });
  expect_seen([](Net& net) {
    net.requires_grad_(false);
    net.fc2->requires_grad_(true);
  });
}

TEST(SeenState, HistoryThatACapturedTensorHasGotOrLost) {
  const auto holds = [](const auto& change) {
    Results results[2];
    for (const bool is_compiled : {false, true}) {
      Tensor w = numbers({3}).requires_grad_(), buffer = ones({3}), made = w * 2,
             leaf = numbers({3}, 5).requires_grad_(), memory = ones({6}), part = memory.slice(0, 1, 4);
      const std::function<Tensor(Tensor)> f = [&](Tensor x) { return x * buffer * made + leaf * part; };
      const std::function<Tensor(Tensor)> call = is_compiled ? compile(f, without_audits()) : f;
      for (int round = 0; round < 3; ++round) {
        if (round == 1) change(w, buffer, made, leaf, memory);
        const Tensor y = call(numbers({3}, 7));
        results[is_compiled].push_back(y);
        if (!y.requires_grad()) continue;
        for (Tensor x : {w, leaf}) x.set_grad({});
        y.sum().backward({}, true);
        for (const Tensor& x : {w, leaf}) results[is_compiled].push_back(x.grad());
      }
    }
    expect_same(results[1], results[0]);
  };
  holds([](Tensor w, Tensor buffer, Tensor, Tensor, Tensor) { buffer.mul_(w); });
  holds([](Tensor w, Tensor, Tensor, Tensor, Tensor memory) { memory.slice(0, 2, 5).mul_(w); });
  holds([](Tensor, Tensor, Tensor made, Tensor, Tensor) { made.detach_(); });
  holds([](Tensor, Tensor, Tensor, Tensor leaf, Tensor) { leaf.detach_(); });
  holds([](Tensor, Tensor, Tensor made, Tensor leaf, Tensor) {
    made.detach_();
    leaf.requires_grad_(false);
  });
  holds([](Tensor, Tensor, Tensor, Tensor leaf, Tensor) {
    leaf.requires_grad_(false);
    leaf.requires_grad_(true);
  });
}

TEST(SeenState, ParametersWrittenInPlace) {
  expect_seen([](Net& net) {
    const NoGradGuard off;
    for (Tensor& parameter : net.parameters()) parameter.mul_(0.5).add_(0.1);
  });
  expect_seen([](Net& net) { net.to(kFloat32); });
}

TEST(SeenState, AChangeOfNothingThatIsReadIsNoNewProgram) {
  const auto net = make_net(), other = make_net();
  const auto compiled = compile(net, without_audits());
  const Tensor x = numbers({3, 4});
  compiled(x);
  const Counts counts;
  other->eval();  // moves the epoch
  other->fc1->weight.requires_grad_(false);
  compiled(x);
  compiled(x);
  EXPECT_EQ(counts.traces(), 0u);
}

TEST(SeenState, TheLearningRateOfAnOptimizer) {
  const auto run = [](auto make_step) {
    Tensor w = numbers({4}).requires_grad_();
    optim::SGD sgd(std::vector<Tensor>{w}, optim::SGDOptions(0.1).momentum(0.5));
    const std::function<Tensor(Tensor)> step = make_step([&](Tensor x) {
      const Tensor loss = (w * x).square().sum();
      loss.backward();
      sgd.step();
      sgd.zero_grad();
      return loss.detach();
    });
    Results results;
    for (int i = 0; i < 12; ++i) {
      results.push_back(step(numbers({4}, i)));
      if (i % 3 == 0) sgd.param_groups()[0].options().set_lr(0.1 / (i + 2));
      if (i == 5) static_cast<optim::SGDOptions&>(sgd.param_groups()[0].options()).momentum(0.25);
      results.push_back(w.detach().clone());
    }
    return results;
  };
  const Results want = run([](auto step) { return step; });
  const Counts counts;
  expect_same(run([](auto step) { return compile(step, without_audits()); }), want);
  EXPECT_LE(counts.traces(), 2u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

// ---- What the library cannot see ----------------------------------------------------------------------------------------

TEST(Audits, CatchAPlainBoolThatFlips) {
  bool doubled = false;
  const Counts counts;
  const auto f = compile([&](Tensor x) { return doubled ? x * 2 : x * 3; });
  EXPECT_EQ(list(f(ones({1}))), List{3});
  doubled = true;
  EXPECT_EQ(list(f(ones({1}))), List{2});  // hit 1 is audited
  EXPECT_EQ(counts.audits(), 1u);
  for (int i = 0; i < 20; ++i) {
    doubled = i % 3 == 0;
    EXPECT_EQ(list(f(ones({1}))), List{doubled ? 2.0 : 3.0}) << i;
  }
}

TEST(Audits, CatchItAtOneOfTheHitsTenAndAHundred) {
  for (const int flip_at : {5, 50}) {
    double scale = 1;
    const auto f = compile([&](Tensor x) { return x * scale; });
    int wrong = 0, last_wrong = 0;
    for (int i = 0; i < 150; ++i) {
      if (i == flip_at) scale = 2;
      if (f(ones({1})).item<float>() != scale) ++wrong, last_wrong = i;
    }
    EXPECT_LE(last_wrong, flip_at == 5 ? 10 : 100);
    EXPECT_LE(wrong, 50);
  }
}

TEST(Audits, AreOnlyMadeAtTheirHits) {
  const Counts counts;
  int entered = 0;
  const auto f = compile([&](Tensor x) {
    ++entered;
    return x * 2;
  });
  for (int i = 0; i < 1001; ++i) f(ones({1}));
  EXPECT_EQ(counts.audits(), 4u);  // 1, 10, 100, 1000
  EXPECT_EQ(entered, 5);
  EXPECT_EQ(counts.traces(), 1u);
}

// Batches cut out of a table lie at another place in each call.
TEST(Audits, FindNothingWhereATensorLiesAtAnotherPlace) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return (x.slice(1, 1) * 2).sum(1) + x.select(1, 0); });
  const Tensor table = numbers({14, 3});
  for (int64_t i = 0; i < 12; ++i) {
    const Tensor x = table.slice(0, i, i + 2);
    EXPECT_EQ(tests::difference_of_bits(f(x), (x.slice(1, 1) * 2).sum(1) + x.select(1, 0)), "") << i;
  }
  EXPECT_EQ(counts.traces(), 1u);
  EXPECT_EQ(counts.audits(), 2u);
  EXPECT_EQ(counts.hits(), 9u);
}

TEST(Audits, FindNothingInFunctionsThatOnlyWriteAndDraw) {
  Tensor count = zeros({}, kInt64);
  const Counts counts;
  const auto f = compile([&](Tensor x) {
    count.add_(1);
    return x + rand({2});
  });
  manual_seed(5);
  Tensor sum = zeros({2});
  for (int i = 0; i < 30; ++i) sum += f(zeros({2}));
  EXPECT_EQ(count.item<int64_t>(), 30);
  manual_seed(5);
  Tensor want = zeros({2});
  for (int i = 0; i < 30; ++i) want += zeros({2}) + rand({2});
  EXPECT_EQ(tests::difference_of_bits(sum, want), "");
  EXPECT_EQ(counts.traces(), 1u);
}

// ---- Tensors that outlive the trace ---------------------------------------------------------------------------------------

struct Remembers {
  Tensor last;
  Tensor operator()(Tensor x) {
    last = x * 2;
    return last + 1;
  }
};

TEST(KeptTensors, StoredInAMemberFromInsideAreErrorsThatNameOpAndLine) {
  const auto kept = std::make_shared<Remembers>();
  const auto f = compile([kept](Tensor x) { return (*kept)(x); }, without_audits());
  for (int round = 0; round < 2; ++round) {
    const std::string text = error_of([&] { f(ones({2})); });
    expect_contains(text, "mul");
    expect_contains(text, "hidden_state_test.cpp:");
    // What was kept is no tensor to compute with, and says so.
    if (kept->last.defined()) {
      EXPECT_NE(error_of([&] { kept->last + 1; }), "no error");
      EXPECT_NE(error_of([&] { kept->last.item<float>(); }), "no error");
    }
    kept->last.reset();
  }
}

TEST(KeptTensors, CreatedOutsideAndWrittenInsideAreFine) {
  struct Counter {
    Tensor last = zeros({2});
    Tensor operator()(Tensor x) {
      last.copy_(x * 2);
      return last + 1;
    }
  };
  const auto kept = std::make_shared<Counter>();
  hold_in_all_modes([kept](Tensor x) { return (*kept)(x); },
                    [&](const auto& call) {
                      const Tensor y = call(tensor({1., 2.}));
                      EXPECT_EQ(list(kept->last), (List{2, 4}));
                      return Results{y, kept->last.clone()};
                    });
}

TEST(KeptTensors, SizesStoredFromInsideAreErrorsOrTrue) {
  Sym stored = Sym::from_int(0);
  const auto f = compile(
      [&](Tensor x) {
        stored = x.size(0);
        return x * 2;
      },
      {.dynamic = true, .audit = false});
  f(ones({3}));
  // It was a symbol of the trace, which stands for no number any more.
  const std::string text = error_of([&] { EXPECT_EQ(static_cast<int64_t>(stored), 3); });
  if (stored.is_symbolic()) {
    EXPECT_NE(text, "no error");
    EXPECT_NE(error_of([&] { zeros({stored}); }), "no error");
  }
  // C++ code runs once for many calls.
  stored = Sym::from_int(7);
  f(ones({5}));
  EXPECT_EQ(stored, 7);
}

TEST(KeptTensors, ADataPointerTakenInsideIsAnErrorOrRunsEagerly) {
  const auto f = compile([](Tensor x) { return x * x.data_ptr<float>()[0]; }, without_audits());
  for (const float value : {2.f, 3.f}) {
    Tensor y;
    const std::string text = error_of([&] { y = f(tensor({value})); });
    if (text == "no error") {
      EXPECT_EQ(y.item<float>(), value * value);
    } else {
      expect_contains(text, "data_ptr");
    }
  }
}

TEST(KeptTensors, HostDataMadeInsideIsAConstant) {
  hold_in_all_modes(
      [](Tensor x) {
        const std::vector<float> data{1, 2, 3};
        return x * tensor(data) + tensor({10., 20., 30.});
      },
      [](const auto& call) {
        const Results results{call(ones({3})), call(full({3}, 2.0))};
        EXPECT_EQ(list(results[1]), (List{12, 24, 36}));
        return results;
      });
}

}  // namespace
}  // namespace weft
