// Many calls and many threads, and letting go of what they made: flat memory, few traces, right numbers.

#include <malloc.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "tensor/allocator.h"
#include "tests/compiler/all_modes.h"

namespace weft {
namespace {

using namespace testing;

// Bytes that malloc has handed out.
size_t heap_bytes() { return mallinfo2().uordblks; }

// ---- Many calls ---------------------------------------------------------------------------------------------------------

// 100,000 calls take about a second; the same loop with 10^6 was measured by hand.
TEST(ManyCalls, OfBatchesOfAllSizesNeedThreeProgramsAndNoMemory) {
  const Counts counts;
  const auto f = compile([](Tensor x, Tensor w) { return silu(x.matmul(w)).sum(); });
  const Tensor rows = numbers({512, 4}), w = numbers({4, 3}, 2);
  std::vector<Tensor> batches, want;
  for (int64_t n = 2; n <= 512; ++n) {
    batches.push_back(rows.slice(0, 0, n));
    want.push_back(silu(batches.back().matmul(w)).sum());
  }
  const auto run = [&](size_t calls) {
    for (size_t i = 0; i < calls; ++i) {
      const size_t which = i * 389 % batches.size();
      const Tensor got = f(batches[which], w);
      if (i % 97 == 0) {
        ASSERT_EQ(tests::difference_of_bits(got, want[which]), "") << which + 2;
      }
    }
  };
  run(2000);
  const size_t heap = heap_bytes();
  const int64_t live = allocator_stats().live_bytes;
  run(100000);
  EXPECT_LT(heap_bytes(), heap + 16384);
  EXPECT_LE(allocator_stats().live_bytes, live);
  EXPECT_LE(counts.traces(), 3u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

TEST(ManyCalls, OfATrainingStepNeedNoMemory) {
  nn::Linear layer(6, 3);
  optim::Adam adam(layer->parameters(), optim::AdamOptions(1e-3));
  const auto step = compile([&](Tensor x, Tensor y) {
    const Tensor loss = cross_entropy(layer(x), y);
    loss.backward();
    adam.step();
    adam.zero_grad();
    return loss;
  });
  const Tensor x = numbers({8, 6}), y = counting({8}, kInt64).remainder(3);
  const auto run = [&](int calls) {
    for (int i = 0; i < calls; ++i) step(x, y);
  };
  run(200);
  const size_t heap = heap_bytes();
  const int64_t live = allocator_stats().live_bytes;
  run(2000);
  EXPECT_LT(heap_bytes(), heap + 16384);
  EXPECT_LE(allocator_stats().live_bytes, live);
}

TEST(ManyCalls, OfFollowedAndFailingFunctionsNeedNoMemory) {
  const auto f = compile([](Tensor x, double s) {
    if (s > 0.9) throw std::runtime_error("too large");
    return x * s + x.sum().item<float>();
  });
  const auto run = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      try {
        f(numbers({3}, i), (i % 100) / 100.0);
      } catch (const std::runtime_error&) {
      }
    }
  };
  run(1000);
  const size_t heap = heap_bytes();
  const int64_t live = allocator_stats().live_bytes;
  run(10000);
  EXPECT_LT(heap_bytes(), heap + 65536);
  EXPECT_LE(allocator_stats().live_bytes, live);
}

TEST(ManyCalls, OfFreshFunctionsGiveTheirMemoryBack) {
  const auto run = [](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const Tensor held = full({1000}, i);
      const auto f = compile([held](Tensor x) {
        const std::vector<Tensor> parts = (x + held).split(250);
        return (parts[0] * parts[1] + parts[2] * parts[3]).sum();
      });
      const Tensor x = ones({1000}).requires_grad_();
      f(x).backward();
      ASSERT_EQ(x.grad()[0].item<float>(), static_cast<float>(i + 1));
    }
  };
  run(20);
  const size_t heap = heap_bytes();
  const int64_t live = allocator_stats().live_bytes;
  run(200);
  EXPECT_LT(heap_bytes(), heap + 65536);
  EXPECT_LE(allocator_stats().live_bytes, live);
}

// ---- Limits ---------------------------------------------------------------------------------------------------------------

TEST(Limits, BeyondThemResultsStayRightAndItIsSaid) {
  const Counts counts;
  const auto f =
      compile([](Tensor w) { return w / sqrt(sum(w * w)); }, {.dynamic = false, .limit = 3, .audit = false});
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 2; n < 12; ++n) {
      const Tensor w = numbers({n, 3});
      EXPECT_EQ(tests::difference_of_bits(f(w), w / sqrt(sum(w * w))), "") << n;
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(compile_stats().evictions, 7u);
  expect_contains(said, "limit of 3");
  EXPECT_EQ(said.find("limit of 3"), said.rfind("limit of 3")) << said;
  EXPECT_GE(counts.traces(), 10u);
}

TEST(Limits, AFunctionThatMissesAgainAndAgainRunsEagerlyUntilItStops) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return x * 2 + 1; }, {.dynamic = false, .audit = false});
  for (int64_t n = 2; n < 202; ++n) {
    const Tensor x = numbers({n});
    EXPECT_EQ(tests::difference_of_bits(f(x), x * 2 + 1), "") << n;
  }
  EXPECT_GT(counts.eager_calls(), 100u);
  const Tensor x = numbers({2});
  for (int i = 0; i < 300; ++i) f(x);
  const uint64_t eager_calls = counts.eager_calls();
  for (int i = 0; i < 100; ++i) f(x);
  EXPECT_EQ(counts.eager_calls(), eager_calls);
}

TEST(Limits, AFunctionThatSettlesOnANewShapeIsCompiledAgain) {
  const Counts counts;
  const auto f = compile([](Tensor x) { return x * 2 + 1; }, {.dynamic = false, .audit = false});
  for (int64_t n = 2; n < 202; ++n) f(numbers({n}));
  EXPECT_GT(counts.eager_calls(), 100u);
  const Tensor x = numbers({500});
  for (int i = 0; i < 200; ++i) f(x);
  const uint64_t eager_calls = counts.eager_calls(), hits = counts.hits();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tests::difference_of_bits(f(x), x * 2 + 1), "");
  EXPECT_EQ(counts.eager_calls(), eager_calls);
  EXPECT_EQ(counts.hits(), hits + 100);
}

// ---- Letting go ---------------------------------------------------------------------------------------------------------

// What a scenario makes, one handle each, in an order that the test chooses.
using Kept = std::vector<std::shared_ptr<void>>;
template <class T>
std::shared_ptr<void> keep(T value) {
  return std::make_shared<T>(std::move(value));
}

// Lets go of what `make` gives in every order; the last round must leave as much memory in use as the first.
template <class Make>
void expect_nothing_left(const Make& make) {
  const size_t count = make().size();
  ASSERT_LE(count, 5u);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t live = allocator_stats().live_bytes;
  do {
    Kept kept = make();
    for (const size_t i : order) kept[i].reset();
    ASSERT_EQ(allocator_stats().live_bytes, live)
        << "after letting go in the order " << ::testing::PrintToString(order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(LettingGo, OfFunctionsGraphsAndTensorsInAnyOrder) {
  for (const bool create_graph : {false, true}) {
    expect_nothing_left([&] {
      const auto w = std::make_shared<Tensor>(numbers({4, 3}).requires_grad_());
      const auto f = compile([w](Tensor x) { return silu(x.matmul(*w)).square(); }, without_audits());
      const Tensor x = numbers({2, 4}, 2).requires_grad_();
      f(x);
      const Tensor y = f(x);
      const Tensor g = autograd::grad({y.sum()}, {x}, {}, true, create_graph)[0];
      return Kept{w, keep(f), keep(x), keep(y), keep(g)};
    });
  }
}

TEST(LettingGo, OfTensorsThatTheFunctionWrites) {
  expect_nothing_left([&] {
    const Tensor leaf = numbers({3}).requires_grad_(), x = leaf * 2;
    const auto state = std::make_shared<Tensor>(leaf + 1);
    const auto f = compile(
        [state](Tensor a) {
          a.mul_(*state);
          state->slice(0, 1).add_(a.slice(0, 1));
          return a.sum();
        },
        without_audits());
    f(x);
    const Tensor y = f(x);
    return Kept{state, keep(f), keep(x), keep(y), keep(leaf)};
  });
}

TEST(LettingGo, OfStepsWithTheirOptimizers) {
  expect_nothing_left([&] {
    const auto net = std::make_shared<nn::LinearImpl>(4, 3);
    const auto adam = std::make_shared<optim::Adam>(net->parameters(), optim::AdamOptions(1e-2));
    const auto step = compile(
        [net, adam](Tensor x) {
          const Tensor loss = net->forward(x).square().sum();
          loss.backward();
          adam->step();
          adam->zero_grad();
          return loss;
        },
        without_audits());
    const Tensor x = numbers({2, 4});
    step(x);
    return Kept{net, adam, keep(step), keep(x), keep(step(x))};
  });
}

TEST(LettingGo, OfTreesAndOfCallsThatThrow) {
  expect_nothing_left([&] {
    const Tensor w = numbers({3}).requires_grad_();
    const auto f = compile(
        [w](Tensor x, Tensor i) {
          const Tensor y = x * w;
          if ((x.sum() > 0).item<bool>()) return y.index_select(0, i).exp();
          return std::vector<Tensor>{cond(
              x.sum() < -1, [&] { return y * 2; }, [&] { return y - 1; })}[0];
        },
        without_audits());
    const Tensor x = ones({3}), i = tensor({0, 2});
    const Tensor y = f(x, i);
    static_cast<void>(f(-x, i));
    EXPECT_NE(error_of([&] { f(x, tensor({0, 3})); }), "no error");
    return Kept{keep(w), keep(f), keep(x), keep(y), keep(f(-x, i))};
  });
}

// Tensors hold what made them; what they leave behind when they go must be nothing.
TEST(LettingGo, OfHooksAndKeptGradients) {
  expect_nothing_left([&] {
    const Tensor w = numbers({3}).requires_grad_();
    const auto f = compile([w](Tensor x) { return std::make_tuple(x * w, x[0]); }, without_audits());
    const Tensor x = numbers({3}, 3).requires_grad_();
    const auto [y, part] = f(x);
    y.retain_grad();
    y.register_hook([w](const Tensor& g) { return g * w; });
    y.sum().backward({}, true, true);
    const Tensor gradient = w.grad();
    Tensor(w).set_grad({});
    Tensor(x).set_grad({});
    Tensor(y).set_grad({});
    return Kept{keep(w), keep(f), keep(x), keep(y), keep(std::make_pair(part, gradient))};
  });
}

// ---- Many threads -----------------------------------------------------------------------------------------------------------

constexpr int kThreads = 8;

// All threads start together; the first text that any of them returns is what went wrong.
template <class Body>
std::string run_on_threads(const Body& body) {
  std::atomic<int> waiting{kThreads};
  std::string wrong;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      std::string text;
      try {
        text = body(t);
      } catch (const std::exception& error) {
        text = error.what();
      }
      if (text.empty()) return;
      const std::lock_guard lock(mutex);
      if (wrong.empty()) wrong = text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(Threads, CallOneFunctionFromItsFirstCallOn) {
  const Counts counts;
  const auto f = compile([](Tensor x, Tensor w) { return silu(x.matmul(w)); });
  const Tensor w = numbers({4, 3}, 2);
  EXPECT_EQ(run_on_threads([&](int t) {
              for (int i = 0; i < 200; ++i) {
                const Tensor x = numbers({4 + (i + t) % 5, 4}, t);
                if (std::string text = tests::difference_of_bits(f(x, w), silu(x.matmul(w))); !text.empty())
                  return text;
              }
              return std::string();
            }),
            "");
  EXPECT_LE(counts.traces(), 3u);
  EXPECT_EQ(counts.eager_calls(), 0u);
}

TEST(Threads, CallOneModuleForwardAndBackward) {
  const auto net = std::make_shared<nn::LinearImpl>(4, 3);
  const auto f = compile(net);
  EXPECT_EQ(run_on_threads([&](int t) {
              for (int i = 0; i < 50; ++i) {
                const Tensor x = numbers({3, 4}, t + i).requires_grad_(), y = x.detach().requires_grad_();
                const Tensor got = autograd::grad({f(x).square().sum()}, {x})[0],
                             want = autograd::grad({net->forward(y).square().sum()}, {y})[0];
                if (std::string text = tests::difference_of_bits(got, want); !text.empty()) return text;
              }
              return std::string();
            }),
            "");
}

// Integers as floats: their sums do not depend on the order.
TEST(Threads, AddUpGradientsOfCapturedParameters) {
  const Tensor w = counting({4}).requires_grad_(), x = counting({4}) + 1;
  const auto f = compile([&](Tensor y) { return (y * w).square(); });
  EXPECT_EQ(run_on_threads([&](int t) {
              for (int i = 0; i < 20; ++i) (f(x) * (t + 1)).sum().backward();
              return std::string();
            }),
            "");
  // d/dw of (t+1)·(x·w)², 20 times for each t.
  EXPECT_EQ(
      tests::difference_of_bits(w.grad(), 2.0 * x * x * w.detach() * (20.0 * kThreads * (kThreads + 1) / 2)),
      "");
}

TEST(Threads, WalkOneRetainedGraph) {
  const Tensor w = numbers({4, 3}).requires_grad_();
  const auto f = compile([&](Tensor x) { return silu(x.matmul(w)); });
  for (int round = 0; round < 4; ++round) {
    const Tensor x = numbers({2, 4}, round).requires_grad_();
    const Tensor y = f(x).sum();
    const auto want = autograd::grad({silu(x.matmul(w)).sum()}, {x, w});
    EXPECT_EQ(run_on_threads([&](int t) {
                for (int i = 0; i < 5; ++i) {
                  const auto got = autograd::grad({y}, {x, w}, {}, true, t % 4 == 3);
                  for (size_t k = 0; k < 2; ++k)
                    if (std::string text = tests::difference_of_bits(got[k], want[k]); !text.empty())
                      return text;
                }
                return std::string();
              }),
              "");
  }
}

// Copies of a function are one function. The last of them goes while graphs that it made are walked.
TEST(Threads, DropCopiesOfOneFunctionBeforeTheirGraphs) {
  for (int round = 0; round < 5; ++round) {
    const auto w = std::make_shared<Tensor>(numbers({4}).requires_grad_());
    const Tensor same = w->detach().requires_grad_();
    const std::weak_ptr<Tensor> alive = w;
    std::vector<std::function<Tensor(Tensor)>> copies;
    {
      const auto body = [kept = w](Tensor x) { return (x * *kept).sin(); };
      const std::function<Tensor(Tensor)> f = compile(body);
      copies.assign(kThreads, f);
    }
    EXPECT_EQ(run_on_threads([&](int t) {
                std::vector<Tensor> xs, ys;
                for (int64_t i = 0; i < 3; ++i) {
                  xs.push_back(numbers({i + 1, 4}, t).requires_grad_());
                  ys.push_back(copies[static_cast<size_t>(t)](xs.back()));
                }
                copies[static_cast<size_t>(t)] = nullptr;
                for (size_t i = 0; i < 3; ++i) {
                  const Tensor x = xs[i].detach().requires_grad_();
                  const Tensor got = autograd::grad({ys[i].sum()}, {xs[i]})[0],
                               want = autograd::grad({(x * same).sin().sum()}, {x})[0];
                  if (std::string text = tests::difference_of_bits(got, want); !text.empty()) return text;
                }
                return std::string();
              }),
              "");
    EXPECT_EQ(alive.use_count(), 1) << "a copy of the function is left";
  }
}

// State that the function does not read moves the epoch meanwhile, so that calls trace again.
TEST(Threads, CallWhileStateOfOthersChanges) {
  const auto net = std::make_shared<nn::LinearImpl>(4, 3);
  const auto f = compile(net);
  EXPECT_EQ(run_on_threads([&](int t) {
              nn::Dropout other(0.5);
              for (int i = 0; i < 30; ++i) {
                if (t == 0) other->train(i % 2 == 0);
                const Tensor x = numbers({3, 4}, t + i);
                const Tensor got = f(x);
                if (std::string text = tests::difference_of_bits(got, net->forward(x)); !text.empty())
                  return text;
                got.sum().backward();
              }
              return std::string();
            }),
            "");
}

TEST(Threads, GrowOneTreeTogether) {
  const auto branchy = [](Tensor x) {
    if ((x.sum() > 0).item<bool>()) x = x * 2;
    else x = x - 1;
    if ((x.max() > 3).item<bool>()) return x.exp();
    return x.sin();
  };
  const auto f = compile(branchy);
  EXPECT_EQ(run_on_threads([&](int t) {
              for (int i = 0; i < 100; ++i) {
                const Tensor x = numbers({3}, t * 100 + i) * 4;
                if (std::string text = tests::difference_of_bits(f(x), branchy(x)); !text.empty())
                  return text;
              }
              return std::string();
            }),
            "");
}

TEST(Threads, FollowOneFunctionTogether) {
  const auto scaled = [](Tensor x, double s) { return x * s + s; };
  const auto f = compile(scaled);
  EXPECT_EQ(run_on_threads([&](int t) {
              for (int i = 0; i < 100; ++i) {
                const Tensor x = numbers({3}, i);
                const double s = 0.1 * t + i;
                if (std::string text = tests::difference_of_bits(f(x, s), scaled(x, s)); !text.empty())
                  return text;
              }
              return std::string();
            }),
            "");
}

TEST(Threads, CompileFunctionsOfTheirOwnWithTheirOwnOptions) {
  const auto square = [](Tensor x) { return x * x; };
  EXPECT_EQ(run_on_threads([&](int t) {
              int entered = 0;
              const auto f = compile(
                  [&](Tensor x) {
                    ++entered;
                    return square(x);
                  },
                  {.dynamic = t % 2 == 1, .limit = 100, .audit = false});
              for (int round = 0; round < 3; ++round) {
                for (int64_t n = 1; n <= 20; ++n) {
                  const Tensor x = numbers({n}, t);
                  if (std::string text = tests::difference_of_bits(f(x), square(x)); !text.empty())
                    return text;
                }
              }
              const int most = t % 2 == 1 ? 3 : 20;
              return entered <= most ? std::string() : "entered " + std::to_string(entered) + " times";
            }),
            "");
}

TEST(Threads, SwitchCompilingOffForThemselvesAlone) {
  std::atomic<int> entered{0};
  const auto f = compile(
      [&](Tensor x) {
        ++entered;
        return x * 2;
      },
      without_audits());
  f(ones({2}));
  entered = 0;
  EXPECT_EQ(run_on_threads([&](int t) {
              const CompileGuard guard(t != 0);
              for (int i = 0; i < 50; ++i)
                if (f(ones({2}))[0].item<float>() != 2) return std::string("wrong");
              return std::string();
            }),
            "");
  EXPECT_EQ(entered, 50);
}

}  // namespace
}  // namespace weft
