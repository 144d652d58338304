// Tests of in-place ops and views under the tape: whose history changes, what is refused, what still has its gradient.
#include "autograd/gradcheck.h"

#include <cmath>

#include "tensor/allocator.h"
#include "tensor/tensor_data.h"
#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;
std::optional<Sym> at(int64_t i) { return Sym::from_int(i); }

Tensor matrix(const std::vector<double>& numbers, int64_t rows, int64_t columns) {
  return values(numbers, {rows, columns});
}

TEST(InPlace, ALeafThatRequiresGradIsRefused) {
  Tensor x = leaf({1, 2});
  const std::string text = error_of([&] { x.mul_(2); });
  expect_contains(text, "mul_: self is a leaf that requires grad");
  expect_contains(text, "inplace_test.cpp");
  Tensor row = x.slice(0, at(0), at(1));
  expect_contains(error_of([&] { row.mul_(2); }), "mul_: self is a view of a leaf that requires grad");
  EXPECT_EQ(list(x), (List{1, 2}));
}

// However the view was made and whatever writes.
TEST(InPlace, AViewOfALeafThatRequiresGradIsRefused) {
  const Tensor x = values({1, 2, 3, 4}, {2, 2}).requires_grad_();
  using indexing::Slice;
  const std::vector<std::function<Tensor()>> views = {
      [&] { return x[0]; },
      [&] { return x[0][1]; },
      [&] { return x.t(); },
      [&] { return x.view({4}).narrow(0, 1, 2); },
      [&] {
        return x.index({Slice(), 1});
      },
      [&] { return x.unsqueeze(0).diagonal(0, 1, 2); },
      [&] { return x.alias(); },
      [&] { return x.unbind()[1]; },
  };
  for (size_t i = 0; i < views.size(); ++i) {
    SCOPED_TRACE(i);
    Tensor view = views[i]();
    for (const auto& write : std::vector<std::function<void()>>{
             [&] { view.add_(1); }, [&] { view.zero_(); }, [&] { view.copy_(view.detach()); },
             [&] { view.masked_fill_(ones({}, kBool), 1); }, [&] { view *= 2; }, [&] { view.uniform_(); }}) {
      const std::string text = error_of(write);
      expect_contains(text, "self is a view of a leaf that requires grad");
      expect_contains(text, "inplace_test.cpp");
    }
    const NoGradGuard guard;  // an initialiser's
    view.add_(0);
  }
  Tensor y = x;
  expect_contains(error_of([&] { y.index_put_({0}, 5); }), "leaf that requires grad");
  expect_contains(error_of([&] { y.index_put_({Slice(), tensor({0})}, 5); }), "leaf that requires grad");
  EXPECT_EQ(list(x), (List{1, 2, 3, 4}));
  Tensor z = x * 1;
  z[0].add_(1);
  EXPECT_EQ(list(z), (List{2, 3, 3, 4}));
}

TEST(InPlace, AnOptimizersWriteIntoALeafIsAllowedAndSeen) {
  Tensor x = leaf({1, 2});
  Tensor y = x * x;
  const uint32_t version = x.version();
  {
    const NoGradGuard guard;
    x.sub_(vector({1, 1}));
  }
  EXPECT_EQ(list(x), (List{0, 1}));
  EXPECT_TRUE(x.is_leaf());
  EXPECT_GT(x.version(), version);
  const std::string text = error_of([&] { y.backward(vector({1, 1})); });
  expect_contains(text, "mul (inplace_test.cpp");
  expect_contains(text, "the last was sub_ (inplace_test.cpp");
  expect_contains(text, "clone()");
}

TEST(InPlace, IsAStepOfTheHistory) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3;
  y.mul_(y.detach() * 0 + 5);
  y.add_(x);
  y.exp_();
  y.backward(vector({1, 1}));
  EXPECT_EQ(list(x.grad()), (List{std::exp(16.0) * 16, std::exp(32.0) * 16}));
}

TEST(InPlace, TheOldValueIsKeptWhereAGradientNeedsIt) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor y = x * 1;
  y.mul_(w);  // dw needs the old y
  y.backward(vector({1, 1}));
  EXPECT_EQ(list(w.grad()), (List{1, 2}));
  EXPECT_EQ(list(x.grad()), (List{3, 4}));
}

TEST(InPlace, ByItself) {
  Tensor x = leaf({3});
  Tensor y = x * 1;
  y.mul_(y);
  y.backward(vector({1}));
  EXPECT_EQ(list(x.grad()), (List{6}));
}

TEST(InPlace, MakesATensorWithoutHistoryRequireGrad) {
  Tensor y = vector({1, 2}), w = leaf({3, 4});
  Tensor view = y.slice(0, at(1), at(2));
  EXPECT_FALSE(view.requires_grad());
  y.mul_(w);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_TRUE(view.requires_grad());
  EXPECT_FALSE(view.is_leaf());
  (view * 10).backward(vector({1}));
  EXPECT_EQ(list(w.grad()), (List{0, 20}));
}

TEST(InPlace, FillCutsTheGradient) {
  Tensor x = leaf({1, 2, 3});
  Tensor y = x * 2;
  y.slice(0, at(0), at(2)).zero_();
  EXPECT_EQ(list(y), (List{0, 0, 6}));
  y.backward(vector({1, 1, 1}));
  EXPECT_EQ(list(x.grad()), (List{0, 0, 2}));
  Tensor z = x * 2;
  z.fill_(7);
  x.mutable_grad().reset();
  z.backward(vector({1, 1, 1}));
  EXPECT_EQ(list(x.grad()), (List{0, 0, 0}));
}

TEST(InPlace, CopyIsDifferentiableToItsSource) {
  Tensor x = leaf({1, 2}), s = leaf({5});
  Tensor y = x * 2;
  y.copy_(s);
  y.backward(vector({1, 10}));
  EXPECT_EQ(list(s.grad()), (List{11}));
  EXPECT_EQ(list(x.grad()), (List{0, 0}));
}

TEST(Views, AWriteThroughAViewIsAStepOfTheBase) {
  Tensor x = leaf({1, 2, 3, 4}), w = leaf({10, 20});
  Tensor y = x * 1;
  y.slice(0, at(1), at(3)).mul_(w);
  EXPECT_EQ(list(y), (List{1, 20, 60, 4}));
  y.backward(vector({1, 1, 1, 1}));
  EXPECT_EQ(list(x.grad()), (List{1, 10, 20, 1}));
  EXPECT_EQ(list(w.grad()), (List{2, 3}));
}

TEST(Views, SeeAWriteThroughTheirBaseAndEachOther) {
  Tensor x = leaf({1, 2, 3, 4});
  Tensor y = x * 1;
  Tensor a = y.slice(0, at(0), at(2)), b = y.slice(0, at(1), at(3)), whole = y.view({2, 2});
  b.mul_(5);
  // a sees the write to its second element.
  autograd::backward({a}, {vector({1, 1})}, true);
  EXPECT_EQ(list(x.grad()), (List{1, 5, 0, 0}));
  y.mul_(2);
  x.mutable_grad().reset();
  whole.backward(matrix({1, 1, 1, 1}, 2, 2));
  EXPECT_EQ(list(whole), (List{2, 20, 30, 8}));
  EXPECT_EQ(list(x.grad()), (List{2, 10, 10, 2}));
}

TEST(Views, ChainsOfEveryKindTakeAWrite) {
  Tensor x = values({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4}).requires_grad_();
  using View = Tensor (*)(const Tensor&);
  const std::vector<std::pair<const char*, View>> chains = {
      {"view",
       [](const Tensor& t) {
         return t.view({4, 3});
       }},
      {"transpose", [](const Tensor& t) { return t.transpose(0, 1); }},
      {"select", [](const Tensor& t) { return t.select(1, 2); }},
      {"slice", [](const Tensor& t) { return t.slice(1, at(0), at(4), 2); }},
      {"diagonal", [](const Tensor& t) { return t.diagonal(1); }},
      {"as_strided",
       [](const Tensor& t) {
         return t.as_strided({2, 3}, {5, 1}, at(2));
       }},
      {"unfold", [](const Tensor& t) { return t.unfold(1, 2, 2); }},
      {"permute.slice.select",
       [](const Tensor& t) {
         return t.permute({1, 0}).slice(0, at(1), at(4)).select(1, 2);
       }},
      {"view.transpose.diagonal",
       [](const Tensor& t) {
         return t.view({2, 6}).transpose(0, 1).diagonal();
       }},
      {"unsqueeze.squeeze.alias", [](const Tensor& t) { return t.unsqueeze(1).squeeze(1).alias(); }},
      {"slice.as_strided",
       [](const Tensor& t) {
         return t.slice(0, at(1), at(3)).as_strided({2, 2}, {4, 1});
       }},
  };
  for (const auto& [name, make] : chains) {
    SCOPED_TRACE(name);
    const auto write = [make = make](const variable_list& in) {
      Tensor y = in[0] * in[0];
      Tensor before = y.slice(0, at(0), at(2));
      Tensor part = make(y);
      part.mul_(in[1]);
      part.sin_();
      return variable_list{y, part * 2, before, make(y)};
    };
    Tensor scale = number(1.25).requires_grad_();
    EXPECT_EQ(error_of([&] { autograd::gradcheck(write, {x, scale}, {.atol = 1e-4}); }), "no error");
    EXPECT_EQ(error_of([&] { autograd::gradgradcheck(write, {x, scale}, {.atol = 1e-3}); }), "no error");
  }
}

TEST(Views, OfATransposedBase) {
  Tensor x = values({1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
  const auto write = [](const variable_list& in) {
    Tensor y = in[0].transpose(0, 1) * in[0].transpose(0, 1);  // strides (1, 3)
    y.select(0, 1).mul_(y.select(0, 2));
    y.as_strided({2}, {3}).sin_();
    return y;
  };
  EXPECT_EQ(error_of([&] { autograd::gradcheck(write, {x}, {.atol = 1e-4}); }), "no error");
}

TEST(Views, ALongChainOfViewsStaysSmall) {
  Tensor x = values({1, 2, 3, 4, 5, 6}, {2, 3}).requires_grad_();
  Tensor y = x * 1;
  Tensor v = y;
  for (int i = 0; i < 1001; ++i) v = v.transpose(0, 1);
  v.select(0, 2).mul_(10);
  y.backward(values(List(6, 1.0), {2, 3}));
  EXPECT_EQ(list(x.grad()), (List{1, 1, 10, 1, 1, 10}));
}

TEST(Views, MadeUnderNoGradOfATensorWithHistoryCannotBeWrittenWithGrad) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2, v;
  {
    const NoGradGuard guard;
    v = y.slice(0, at(0), at(1));
  }
  EXPECT_FALSE(v.requires_grad());
  expect_contains(error_of([&] { v.mul_(leaf({3})); }), "made while grad mode was off");
  v.mul_(3);  // data only
  EXPECT_EQ(list(y), (List{6, 4}));
}

TEST(Views, ReinterpretedBytesShareDataAndVersion) {
  Tensor x = vector({0, 0, 0, 0}, kFloat32);
  x.view(kFloat32).copy_(vector({1, 1, 1, 1}, kFloat32));  // C38
  EXPECT_EQ(list(x), (List{1, 1, 1, 1}));
  Tensor y = leaf({1, 1}, kFloat32);
  Tensor z = y * y;
  {
    const NoGradGuard guard;
    y.view(kInt32).zero_();
  }
  expect_contains(error_of([&] { z.backward(vector({1, 1}, kFloat32)); }), "in-place ops");
}

// C46: what is written after a detach still has its gradient; the detached handle shares the data.
TEST(Detach, AnAliasThatIsMutatedKeepsTheHistory) {
  Tensor inp = leaf({1, 1});
  Tensor a = inp * 3;
  Tensor t = a.detach();
  a.mul_(5);
  EXPECT_EQ(list(a), (List{15, 15}));
  EXPECT_EQ(list(t), (List{15, 15}));
  EXPECT_FALSE(t.requires_grad());
  a.backward(vector({1, 1}));
  EXPECT_EQ(list(inp.grad()), (List{15, 15}));
}

TEST(Detach, AWriteIntoADetachedAliasIsNoticed) {
  Tensor x = leaf({1, 2});
  Tensor y = exp(x);
  y.detach().zero_();
  expect_contains(error_of([&] { y.backward(vector({1, 1})); }), "exp (inplace_test.cpp");
}

TEST(Detach, InPlaceMakesALeaf) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.detach_();
  EXPECT_TRUE(y.is_leaf());
  EXPECT_FALSE(y.requires_grad());
  Tensor v = (x * 2).slice(0, at(0), at(1));
  expect_contains(error_of([&] { v.detach_(); }), "use detach()");
}

// C48: the op that made y needs nothing from x, so writing x afterwards is no conflict.
TEST(InPlace, IsNotReportedWhereNothingWasSaved) {
  Tensor base = leaf({1, 2, 3}), m = number(1).requires_grad_(), s = number(2).requires_grad_();
  Tensor x = base * 1;
  Tensor y = x.slice(0, at(0), at(2)).sum();
  x -= m;
  x /= s;
  Tensor loss = y + x.sum();
  loss.backward();
  EXPECT_EQ(list(base.grad()), (List{1.5, 1.5, 0.5}));
  EXPECT_EQ(list(m.grad()), (List{-1.5}));
  EXPECT_EQ(list(s.grad()), (List{-0.75}));
}

// C50: backward through each view output separately, without retaining the graph.
TEST(Views, BackwardThroughEachRowNeedsNoRetain) {
  Tensor x = matrix({1, 2, 3, 4}, 2, 2).requires_grad_();
  Tensor a = x.select(0, 0), b = x.select(0, 1);
  a.sum().backward();
  b.sum().backward();
  EXPECT_EQ(list(x.grad()), (List{1, 1, 1, 1}));
}

// C42: a write to all of x is noticed by what saved it.
TEST(InPlace, AssigningAllOfASavedTensorIsNoticed) {
  Tensor x = leaf({1, 2});
  Tensor a = x * 1;
  Tensor y = a * a;
  const uint32_t version = a.version();
  a.slice(0).fill_(0);
  EXPECT_GT(a.version(), version);
  expect_contains(error_of([&] { y.backward(vector({1, 1})); }), "fill_");
}

// C32
TEST(InPlace, AFreshDimensionAndThenAWrite) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.unsqueeze_(0);
  y.mul_(2);
  EXPECT_EQ(list(y), (List{4, 8}));
  y.sum().backward();
  EXPECT_EQ(list(x.grad()), (List{4, 4}));
}

TEST(InPlace, AFreshShapeKeepsTheHistoryWithoutGradModeToo) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  {
    const NoGradGuard guard;
    y.unsqueeze_(1).t_();
  }
  y.backward(matrix({1, 10}, 1, 2));
  EXPECT_EQ(list(x.grad()), (List{2, 20}));
  expect_contains(error_of([&] { x.unsqueeze_(0); }), "unsqueeze_: self is a leaf that requires grad");
}

TEST(InPlace, AViewThatMissedAFreshShapeOfItsBaseIsRefused) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  Tensor part = y.slice(0, at(0), at(1));
  y.unsqueeze_(0);
  expect_contains(error_of([&] { part.mul_(3); }), "whose sizes were changed in place");
}

// C22
TEST(Views, OverlappingOperandsOfAWrite) {
  Tensor base = vector({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Tensor x = base.slice(0, at(0), at(5)), y = base.slice(0, at(3), at(8));
  x.mul_(3);
  EXPECT_EQ(list(x + y), (List{15, 21, 15, 19, 23}));
  EXPECT_EQ(list(base), (List{3, 6, 9, 12, 15, 6, 7, 8, 9}));
}

// C44
TEST(Grad, OfAGradientPenalty) {
  Tensor x = matrix({1, 1}, 1, 2).requires_grad_(), w = matrix({1, 0, 0, 2}, 2, 2).requires_grad_();
  Tensor y = relu(x.matmul(w)).sum();
  Tensor g = autograd::grad({y}, {x}, {}, {}, true)[0];
  EXPECT_EQ(list(g), (List{1, 2}));
  EXPECT_TRUE(g.requires_grad());
  (g * g).sum().backward();
  EXPECT_EQ(list(w.grad()), (List{2, 2, 4, 4}));
}

TEST(Hooks, ARetainedGradientFollowsAWrite) {
  Tensor x = leaf({2});
  Tensor y = x * 2;
  y.retain_grad();
  y.mul_(3);
  (y * 5).backward(vector({1}));
  EXPECT_EQ(list(y.grad()), (List{5}));
  EXPECT_EQ(list(x.grad()), (List{30}));
}

// A history that was written into a tensor must not hold that tensor, though a step in it saved it as an operand.
TEST(InPlace, AHistoryThatReadItsOwnTensorIsLetGo) {
  const auto run = [](const auto& body) {
    body(leaf({1, 2}), values({3, 4}, {2}));
    const int64_t live = allocator_stats().live_bytes;
    for (int i = 0; i < 3; ++i) body(leaf({1, 2}), values({3, 4}, {2}));
    EXPECT_EQ(allocator_stats().live_bytes, live);
  };
  run([](Tensor a, Tensor b) { b.add_(a * b); });
  run([](Tensor a, Tensor b) {
    Tensor made = a * 2;
    made.mul_((made * b).exp());
  });
  run([](Tensor a, Tensor b) { b.slice(0, at(0), at(1)).add_((a * b).sum()); });
  run([](Tensor a, Tensor b) {
    Tensor part = b.slice(0, at(1), at(2));
    b.sub_(a * part.sin());
  });
  run([](Tensor a, Tensor b) { b.copy_(cat({a * b, b}).slice(0, at(0), at(2))); });
}

// What was saved keeps the history that it had, and the value is checked as before.
TEST(InPlace, WhatWasSavedBeforeAWriteIsRefusedAndWithoutOneIsDifferentiable) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3;
  const Tensor z = (y * y).sum();
  const Tensor g = autograd::grad({z}, {x}, {}, true, true)[0];
  EXPECT_EQ(list(g), (List{18, 36}));
  EXPECT_EQ(list(autograd::grad({g.sum()}, {x})[0]), (List{18, 18}));
  y.add_(1);
  expect_contains(error_of([&] { z.backward(); }), "saved a [2]");
}

TEST(InPlace, AKernelThatThrowsLeavesTheHistoryAlone) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  EXPECT_THROW(y.mul_(vector({1, 2, 3})), Error);
  y.backward(vector({1, 1}));
  EXPECT_EQ(list(x.grad()), (List{2, 2}));
}

}  // namespace
}  // namespace weft
