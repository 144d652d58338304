// What random programs have found, one by one: compiled code does and says what eager code does.
// Needs weft.h and tests/support.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/error_text.h"
#include "weft.h"

namespace weft::tests {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// Equal results and arguments afterwards, or equal errors; twice, so that the second call is a hit.
void expect_as_eager(const Function& function, const std::function<Tensors()>& make) {
  const auto run = [&](const auto& callee, Tensors& left) {
    return error_of([&] {
      const Tensors inputs = make();
      left = callee(inputs);
      left.insert(left.end(), inputs.begin(), inputs.end());
    });
  };
  Tensors want;
  const std::string wanted = run(function, want);
  for (const char* backend : {"eager", "aot_eager", "interpret"}) {
    const auto compiled = compile(function, CompileOptions{.backend = backend, .audit = false});
    for (const char* round : {"first", "second"}) {
      SCOPED_TRACE(std::string(backend) + ", " + round + " call");
      Tensors got;
      EXPECT_EQ(run(compiled, got), wanted);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(difference_of_bits(got[i], want[i]), "") << i;
        EXPECT_EQ(difference_of_strides(got[i], want[i]), "") << i;
        for (size_t j = 0; j < i; ++j)
          EXPECT_EQ(got[i].is_same(got[j]), want[i].is_same(want[j])) << i << ' ' << j;
      }
    }
  }
}

TEST(FoundPrograms, LoopsOverNothingReadNothing) {
  expect_as_eager([](const Tensors& x) { return Tensors{maximum(x[0], x[1])}; },
                  [] {
                    return Tensors{zeros({0, 1, 1}), zeros({0, 2})};
                  });
}

TEST(FoundPrograms, AnIndexOfADimensionWithoutElementsIsAnError) {
  const Function select = [](const Tensors& x) { return Tensors{index_select(x[0], 0, x[1])}; };
  EXPECT_ERROR("the index holds 0 at [], but dimension 0 of [0] is empty",
               compile(select, "interpret")({zeros({0}), zeros({}, kInt64)}));
  expect_as_eager(select, [] { return Tensors{zeros({0}), zeros({}, kInt64)}; });
}

TEST(FoundPrograms, AnIndexThatDecidesNoPlaceIsChecked) {
  const Function select = [](const Tensors& x) { return Tensors{index_select(x[0], 0, x[1])}; };
  EXPECT_ERROR("the index holds 4 at [], but dimension 0 of [1] takes 0 to 0",
               compile(select, "interpret")({zeros({1}), full({}, 4, kInt64)}));
  expect_as_eager(select, [] { return Tensors{zeros({1}), full({}, 4, kInt64)}; });
  expect_as_eager(select, [] { return Tensors{zeros({}), full({}, 4, kInt64)}; });
  expect_as_eager([](const Tensors& x) { return Tensors{cross_entropy(x[0], x[1])}; },
                  [] {
                    return Tensors{zeros({3, 1}), full({3}, 2, kInt64)};
                  });
}

TEST(FoundPrograms, WritingToNothingIsNoWrite) {
  const auto make = [] { return Tensors{full({1}, 5)}; };
  expect_as_eager(
      [](const Tensors& x) {
        x[0].expand({0, 1}).lt_(2);
        return Tensors{x[0] + 1};
      },
      make);
  const auto f = compile([](Tensor x) { x.lt_(2); }, "interpret");
  const Tensor x = zeros({0});
  f(x);
  EXPECT_EQ(x.version(), 1u);
}

TEST(FoundPrograms, WritingToNothingOfAnExpandedInputIsNoWrite) {
  expect_as_eager(
      [](const Tensors& x) {
        x[0].narrow(1, 2, 0).sin_();
        return Tensors{};
      },
      [] {
        return Tensors{ones({2}).expand({2, 2})};
      });
}

TEST(FoundPrograms, InputsThatShareMemoryTakeOtherLayouts) {
  expect_as_eager(
      [](const Tensors& x) {
        Tensor(x[1]).sin_();
        Tensor(x[0]).t_();
        return Tensors{};
      },
      [] {
        const Tensor x = arange(2, kFloat32).view({1, 2});
        return Tensors{x, x.t()};
      });
}

TEST(FoundPrograms, AResultGivenTwiceIsOneTensor) {
  expect_as_eager(
      [](const Tensors& x) {
        const Tensor row = x[0].select(0, 1), twice = x[0] * 2;
        return Tensors{row, row, twice, twice, twice.select(0, 0), x[0]};
      },
      [] {
        return Tensors{ones({2, 3})};
      });
}

TEST(FoundPrograms, AnInputWithAnotherLayoutIsGivenAsItself) {
  expect_as_eager(
      [](const Tensors& x) {
        const Tensor row = x[0].select(0, 1);
        Tensor(x[0]).unsqueeze_(0);
        return Tensors{x[0], row};
      },
      [] {
        return Tensors{arange(6, kFloat32).view({2, 3})};
      });
}

TEST(FoundPrograms, ErrorsNameTheOpInPlace) {
  const Function set = [](const Tensors& x) {
    Tensor(x[0]).scatter_(0, x[1], 1);
    return Tensors{};
  };
  EXPECT_ERROR("scatter_: the index holds 5", compile(set, "interpret")({zeros({2}), full({1}, 5, kInt64)}));
  expect_as_eager(set, [] { return Tensors{zeros({2}), full({1}, 5, kInt64)}; });
  expect_as_eager(
      [](const Tensors& x) {
        Tensor(x[0]).fmod_(x[1]);
        return Tensors{};
      },
      [] {
        return Tensors{ones({2}, kInt64), zeros({2}, kInt64)};
      });
  // Two rules are broken: eager code says the same of them.
  expect_as_eager(
      [](const Tensors& x) {
        Tensor(x[0]).mul_(x[1]);
        return Tensors{};
      },
      [] {
        return Tensors{ones({2}, kUInt8), ones({3})};
      });
}

TEST(FoundPrograms, ClassesThatDoNotExistAreSaidByOneHot) {
  const Function encode = [](const Tensors& x) { return Tensors{one_hot(x[0], 3)}; };
  EXPECT_ERROR("one_hot: x holds class 7 at [1], but num_classes is 3: classes count from 0",
               encode({full({2}, 7, kInt64) - eye(2, kInt64).select(0, 0) * 7}));
  expect_as_eager(encode, [] { return Tensors{full({2}, 7, kInt64)}; });
}

TEST(FoundPrograms, BackwardErrorsNameTheirLineOnce) {
  const Function write = [](const Tensors& x) {
    Tensor y = exp(x[0] * 1);
    y.sin_();
    return Tensors{y};
  };
  const auto backward = [&](const Function& f) {
    return error_of([&] { f({ones({2}).requires_grad_()})[0].sum().backward(); });
  };
  EXPECT_NE(backward(write).find("saved a [2] float32 tensor"), std::string::npos) << backward(write);
  EXPECT_EQ(backward(compile(write, "eager")), backward(write));
}

TEST(FoundPrograms, AGradientLeftBehindIsRowMajor) {
  const auto gradient = [](const auto& f) {
    const Tensor x = rand({3, 2}).t().requires_grad_();
    f(x);
    return x.grad().strides().vec();
  };
  const auto f = [](Tensor x) { (x * sin(x.detach())).sum().backward(); };
  EXPECT_EQ(gradient(f), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(gradient(compile(f, "eager")), (std::vector<int64_t>{3, 1}));
}

TEST(FoundPrograms, BackwardOutlivesTheCompiledFunction) {
  const Tensor x = ones({3}).requires_grad_();
  compile([](Tensor x) { return exp(x) * x; }, "interpret")(x).sum().backward();
  EXPECT_EQ(difference_of_bits(x.grad(), exp(ones({3})) * 2), "");
}

// Each outcome of a data-dependent size is a branch, traced by a call that may number its sizes in another way.
TEST(FoundPrograms, ABranchThatDoesNotFitLeavesTheSizesOfACallAlone) {
  const auto f = compile([](Tensor, Tensor mask, Tensor x,
                            Tensor y) { return eq(masked_select(mask, mask), 0).sum() + mm(x, y); },
                         CompileOptions{.backend = "interpret", .dynamic = true, .audit = false});
  const Tensor x = ones({3, 4}), y = ones({4, 5});
  for (const int64_t n : {8, 0, 8, 0}) {
    const Tensor mask = full({}, n > 0, kBool);
    EXPECT_EQ(difference_of_bits(f(ones({n, n}), mask, x, y), full({3, 5}, 4.0)), "") << n;
  }
}

TEST(FoundPrograms, AnIndexThatCountsInAPartOfALineAloneIsChecked) {
  const auto make = [] { return Tensors{arange(6, kFloat32).view({2, 3})}; };
  for (const char* backend : {"interpret", "weft"}) {
    const Function turn = [](const Tensors& x) {
      return Tensors{roll(sin(roll(x[0], {-4, 1}, {1, 0})), {4, -1}, {1, 0})};
    };
    EXPECT_EQ(difference_of_bits(compile(turn, backend)(make())[0], turn(make())[0]), "") << backend;
  }
}

TEST(FoundPrograms, ASizeOfDataThatIsOneIsReadAtItsFirstPlace) {
  const auto f =
      compile([](Tensor x, Tensor mask, Tensor y) { return masked_select(x, mask) + y; }, "interpret");
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(difference_of_bits(f(ones({}), full({}, true, kBool), arange(64, kFloat32)),
                                 arange(64, kFloat32) + 1),
              "");
}

TEST(FoundPrograms, NothingIsDividedWhereThereIsNothing) {
  for (const DType dtype : {kInt64, kInt8}) {
    const auto make = [dtype] { return Tensors{zeros({0, 3}, dtype), zeros({3}, dtype)}; };
    expect_as_eager(
        [](const Tensors& x) {
          return Tensors{floor_divide(x[0], x[1]), remainder(x[0], x[1]), fmod(x[0], x[1]),
                         floor_divide(x[0], 0), remainder(x[0], 0)};
        },
        make);
    expect_as_eager(
        [](const Tensors& x) {
          Tensor(x[0]).floor_divide_(x[1]);
          return Tensors{cat({floor_divide(x[0], x[1]), x[1].unsqueeze(0)})};
        },
        make);
    EXPECT_EQ(floor_divide(zeros({0, 3}, dtype), zeros({3}, dtype)).numel(), 0);
  }
}

// PyTorch checks some of these and not others; here all are checked, in every mode.
TEST(FoundPrograms, IndicesOfSlicesWithoutElementsAreChecked) {
  const auto make = [](int64_t width) {
    return [width] { return Tensors{ones({3, width}), full({1}, 7, kInt64)}; };
  };
  const Function functions[] = {
      [](const Tensors& x) { return Tensors{index_select(x[0], 0, x[1])}; },
      [](const Tensors& x) { return Tensors{embedding(x[0], x[1])}; },
      [](const Tensors& x) { return Tensors{x[0].index({x[1]})}; },
      [](const Tensors& x) { return Tensors{index_fill(x[0], 0, x[1], 1)}; },
      [](const Tensors& x) { return Tensors{index_select(x[0].slice(1, 2), 0, x[1])}; }};
  for (const Function& function : functions) {
    SCOPED_TRACE(&function - functions);
    for (const int64_t width : {0, 2}) {
      EXPECT_THROW(function(make(width)()), IndexError);
      expect_as_eager(function, make(width));
    }
    // A width that is 0 in some calls.
    const auto f = compile(function, CompileOptions{.backend = "interpret", .audit = false});
    for (const int64_t width : {2, 0, 5, 2}) {
      Tensors x = make(width)();
      mark_dynamic(x[0], 1, {0, 16});
      EXPECT_THROW(f(x), IndexError) << width;
      x[1].fill_(2);
      EXPECT_NO_THROW(f(x)) << width;
    }
  }
}

TEST(FoundPrograms, SizesOfDataMayBeZero) {
  expect_as_eager([](const Tensors& x) { return Tensors{cumprod(exp2(nonzero(x[0])), 1)}; },
                  [] { return Tensors{full({}, 2.0)}; });
}

TEST(FoundPrograms, RulesHoldUnderTheTape) {
  const Tensor y = ones({2, 2}).requires_grad_();
  const Op& op = OpTable::instance().get("softmax_backward");
  EXPECT_ERROR("both must have the same sizes", call(op, {ones({}), y}, {Attr(0)}, {}));
  EXPECT_ERROR("both must have the same dtype",
               call(op, {ones({2, 2}, kFloat16), y.detach()}, {Attr(0)}, {}));
  EXPECT_ERROR("dimension 2 is out of range", call(op, {ones({0}), ones({0})}, {Attr(2)}, {}));
}

TEST(FoundPrograms, OpsOfNumbersAloneTakeTheirDTypes) {
  const auto f = [](Tensor x) { return call(OpTable::instance().get("relu6.grad0"), {2, 3}, {}) + x; };
  EXPECT_ERROR("relu6.grad0: does not take int64 tensors", f(ones({})));
  EXPECT_ERROR("relu6.grad0: does not take int64 tensors", compile(f, "interpret")(ones({})));
}

TEST(FoundPrograms, TopkOfANumberIsTheNumber) {
  EXPECT_ERROR("topk: k is 0, but x has no dimensions", topk(ones({}), 0));
  EXPECT_EQ(std::get<0>(topk(full({}, 3.0), 1)).item<float>(), 3);
}

TEST(FoundPrograms, ErrorsSayTheValueOfANumberArgument) {
  const auto f = compile([](Tensor x, Scalar end) { return x + arange(end, -1, 1).sum(); }, "interpret");
  for (const double end : {2.5, 3.5})
    EXPECT_ERROR("arange: from " + std::to_string(end).substr(0, 3) + " to -1 in steps of 1",
                 f(ones({}), end));
}

}  // namespace
}  // namespace weft::tests
