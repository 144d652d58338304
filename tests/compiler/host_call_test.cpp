// print() and host_call(): they happen at every call, in order, with the values of that call.
#include <gtest/gtest.h>

#include <weft.h>
#include <sstream>

#include "tests/support/error_text.h"

namespace weft {
namespace {

using tests::error_of;

class CaptureOutput {
 public:
  CaptureOutput() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~CaptureOutput() { std::cout.rdbuf(before_); }
  std::string take() {
    std::string text = text_.str();
    text_.str({});
    return text;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

TEST(PrintOp, ShowsTheValuesOfEachCall) {
  CaptureOutput output;
  auto f = compile(
      [](Tensor x) {
        print(x);
        Tensor y = x * 2;
        print("y", y.sum());
        return y + 1;
      },
      {.fullgraph = true});
  for (const double value : {1.0, 2.0, 3.0, 4.0}) {
    f(full({2}, value));
    const std::string one = detail::concat(value, '.'), sum = detail::concat(value * 4, '.');
    EXPECT_EQ(output.take(), "tensor([" + one + ", " + one + "])\ny tensor(" + sum + ")\n");
  }
}

TEST(PrintOp, PrintsEagerlyWhatItPrintsCompiled) {
  CaptureOutput output;
  const auto f = [](Tensor x) {
    print("matrix", x);
    print("scaled", x * 2);
    return x.sum();
  };
  auto compiled = compile(f);
  const Tensor x = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  f(x);
  const std::string eager = output.take();
  EXPECT_EQ(eager,
            "matrix\ntensor([[1., 2.],\n        [3., 4.]])\nscaled\ntensor([[2., 4.],\n        [6., 8.]])\n");
  for (int i = 0; i < 3; ++i) {
    compiled(x);
    EXPECT_EQ(output.take(), eager);
  }
}

TEST(PrintOp, KeepsItsPlaceWhateverIsFusedAroundIt) {
  CaptureOutput output;
  // Both sums are one kernel, which stands behind the second print if kernels stand where their last op does.
  const auto f = [](Tensor x) {
    const Tensor squares = sum(x * x, {0});
    print("squares", squares);
    print("x", x);
    return sum(x, {0}) + squares;
  };
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  f(x);
  const std::string eager = output.take();
  for (const char* backend : {"weft", "interpret", "aot_eager"}) {
    auto compiled = compile(f, backend);
    for (int i = 0; i < 3; ++i) {
      compiled(x);
      EXPECT_EQ(output.take(), eager) << backend;
    }
  }
}

TEST(HostCall, HappensOnceBeforeAnIndexError) {
  for (const char* backend : {"weft", "interpret", "aot_eager"}) {
    int calls = 0;
    auto f = compile(
        [&calls](Tensor x, Tensor index) {
          host_call([&calls](const Tensor&) { ++calls; }, x);
          return x.index_select(0, index) * 2;
        },
        backend);
    const Tensor x = tensor({1., 2., 3.});
    f(x, tensor({0, 2}));
    EXPECT_EQ(calls, 1) << backend;
    EXPECT_THROW(f(x, tensor({0, 3})), IndexError) << backend;
    EXPECT_LE(calls, 2) << backend;
  }
}

TEST(PrintOp, HappensInAFunctionThatGivesNothing) {
  CaptureOutput output;
  auto f = compile([](Tensor x) { print(x + 1); });
  for (int i = 0; i < 3; ++i) {
    f(zeros({}));
    EXPECT_EQ(output.take(), "tensor(1.)\n");
  }
}

TEST(PrintOp, HappensOnceOnEachSideOfABreak) {
  CaptureOutput output;
  auto f = compile([](Tensor x) {
    print("before", x);
    if ((x > 0).item<bool>()) print("positive", x);
    else print("negative", x);
    print("after", x);
    return x * 2;
  });
  for (const double value : {1.0, -1.0, 1.0, -1.0}) {
    f(full({}, value));
    const std::string shown = value > 0 ? " tensor(1.)\n" : " tensor(-1.)\n";
    EXPECT_EQ(output.take(),
              "before" + shown + (value > 0 ? "positive" : "negative") + shown + "after" + shown);
  }
}

TEST(PrintOp, SeesTheValueOfItsPlaceInTheProgram) {
  CaptureOutput output;
  auto f = compile([](Tensor& x) {
    x.add_(1);
    print(x);
    x.mul_(10);
    print(x);
  });
  for (int i = 0; i < 2; ++i) {
    Tensor x = zeros({});
    f(x);
    EXPECT_EQ(output.take(), "tensor(1.)\ntensor(10.)\n");
    EXPECT_EQ(x.item<float>(), 10);
  }
}

TEST(PrintOp, HappensOnceForGradientsOfGradients) {
  CaptureOutput output;
  auto f = compile([](Tensor x) {
    print(x);
    return (x * x * x).sum();
  });
  const Tensor x = tensor({2.}).requires_grad_();
  const Tensor first = autograd::grad({f(x)}, {x}, {}, true, true)[0];
  EXPECT_EQ(autograd::grad({first.sum()}, {x})[0].item<float>(), 12);
  EXPECT_EQ(output.take(), "tensor([2.])\n");
}

TEST(HostCall, IsCalledWithTheValuesOfEachCall) {
  std::vector<float> losses;
  auto f = compile(
      [&](Tensor x) {
        Tensor loss = (x * x).sum();
        host_call([&](const Tensor& value) { losses.push_back(value.item<float>()); }, loss);
        return loss * 2;
      },
      {.fullgraph = true});
  for (int i = 1; i <= 12; ++i) f(full({1}, i));
  ASSERT_EQ(losses.size(), 12u);
  for (int i = 1; i <= 12; ++i) EXPECT_EQ(losses[static_cast<size_t>(i - 1)], static_cast<float>(i * i));
}

TEST(HostCall, TakesSeveralTensorsAndNoHistory) {
  Tensor seen;
  const auto f = [&](Tensor x) {
    host_call([&](const std::vector<Tensor>& all) { seen = all.at(0) + all.at(1); }, {x, x * 2});
    return x.sum();
  };
  auto compiled = compile(f);
  const Tensor x = ones({3}).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    if (i == 0) f(x);
    else compiled(x);
    EXPECT_EQ(seen.sum().item<float>(), 9);
    EXPECT_FALSE(seen.requires_grad());
  }
}

TEST(HostCall, ItsExceptionReachesTheCaller) {
  auto f = compile([](Tensor x) {
    host_call(
        [](const Tensor& value) {
          if (value.item<float>() > 2) throw std::runtime_error("too large");
        },
        x);
    return x + 1;
  });
  for (const double value : {1.0, 3.0, 2.0, 5.0}) {
    const std::string error = error_of([&] { EXPECT_EQ(f(full({}, value)).item<double>(), value + 1); });
    EXPECT_EQ(error, value > 2 ? "too large" : "no error");
  }
  // Also at the first call.
  auto g = compile([](Tensor x) {
    host_call([](const Tensor&) { throw std::runtime_error("always"); }, x);
    return x;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { g(ones({1})); }), "always");
}

TEST(HostCall, MayNotWrite) {
  const auto f = [](Tensor x) {
    host_call([](const Tensor& value) { Tensor(value).add_(1); }, x);
    return x * 2;
  };
  const std::string expected =
      "host_call: the function wrote into tensor 0 ([2] float32), which it may only read; "
      "let it work on a clone()";
  EXPECT_EQ(error_of([&] { f(ones({2})); }).substr(0, expected.size()), expected);
  auto compiled = compile(f);
  EXPECT_EQ(error_of([&] { compiled(ones({2})); }).substr(0, expected.size()), expected);
}

TEST(HostCall, PathsAndArgumentsKeepTheirOwnClosures) {
  std::vector<int> tags;
  auto f = compile([&](Tensor x, int tag) {
    const int side = (x > 0).item<bool>() ? 1 : -1;
    host_call([&tags, value = tag * side](const Tensor&) { tags.push_back(value); }, x);
    return x;
  });
  const Tensor plus = ones({}), minus = -ones({});
  for (int i = 0; i < 2; ++i) {
    f(plus, 5), f(minus, 5), f(plus, 7), f(minus, 7);
  }
  EXPECT_EQ(tags, (std::vector<int>{5, -5, 7, -7, 5, -5, 7, -7}));
}

TEST(HostCall, RetracesFindTheSameProgramAndCallTheLatestClosure) {
  std::vector<int> calls;
  int made = 0;
  auto f = compile([&](Tensor x) {
    const int number = ++made;
    for (int i = 0; i < 2; ++i)
      host_call([&calls, number, i](const Tensor&) { calls.push_back(10 * number + i); }, x);
    return x + 1;
  });
  reset_compile_stats();
  f(ones({1}));  // traced
  f(ones({1}));  // hit 1: audited
  for (int i = 0; i < 3; ++i) f(ones({1}));
  EXPECT_EQ(calls, (std::vector<int>{10, 11, 20, 21, 20, 21, 20, 21, 20, 21}));
  EXPECT_EQ(compile_stats().compilations, 1u);
  EXPECT_EQ(compile_stats().audits, 1u);
  EXPECT_EQ(compile_stats().followed, 0u);
  auto layer = nn::Linear(1, 1);
  layer->eval();  // moves the state epoch: traced again
  f(ones({1}));
  EXPECT_EQ(compile_stats().compilations, 1u);
  EXPECT_EQ(calls.back(), 31);
}

TEST(HostCall, TwoCompiledFunctionsWithOnePlaceKeepApart) {
  std::vector<std::string> names;
  const auto make = [&](std::string name) {
    return compile([&names, name](Tensor x) {
      host_call([&names, name](const Tensor&) { names.push_back(name); }, x);
      return x + 1;
    });
  };
  auto a = make("a"), b = make("b");
  a(ones({1})), b(ones({1})), a(ones({1})), b(ones({1})), a(ones({1}));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "a", "b", "a"}));
}

TEST(HostCall, HappensInFollowModeToo) {
  std::vector<float> seen;
  auto f = compile([&](Tensor x) {
    const float scale = x.sum().item<float>();  // a native number
    host_call([&seen, scale](const Tensor& value) { seen.push_back(value.item<float>() * scale); }, x.max());
    return x * scale;
  });
  for (int i = 1; i <= 4; ++i) f(full({2}, i));
  EXPECT_EQ(seen, (std::vector<float>{2, 8, 18, 32}));
}

TEST(HostCall, RefusesWhatItCannotCall) {
  EXPECT_NE(error_of([] {
              host_call(std::function<void(const std::vector<Tensor>&)>(), {ones({1})});
            }).find("host_call: the function is empty"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              host_call([](const std::vector<Tensor>&) {}, {Tensor()});
            }).find("host_call: tensor 0 is undefined; leave it out"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
