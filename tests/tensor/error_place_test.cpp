// Errors name what the user called and the line that called it, however deep inside they arise.
#include <weft.h>

#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using testing::error_of;
using testing::expect_contains;

struct Mistake {
  const char* op;
  int line;
  std::function<void()> call;
};
// The call and its line stand on one line.
#define MISTAKE(op, ...)               \
  Mistake {                            \
    op, __LINE__, [&] { __VA_ARGS__; } \
  }

void expect_named(const std::vector<Mistake>& mistakes, const std::string& what = "") {
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.op);
    const std::string text = error_of(mistake.call);
    EXPECT_EQ(text.find(std::string(mistake.op) + ": "), 0u) << text;
    expect_contains(text, "error_place_test.cpp:" + std::to_string(mistake.line));
    expect_contains(text, what);
  }
}

TEST(ErrorPlace, UndefinedTensorsAreNamedByOpParameterAndLine) {
  const Tensor none, x = ones({2, 3}), mask = ones({2, 3}, kBool);
  // clang-format off
  expect_named({
      MISTAKE("reshape", none.reshape({6})),
      MISTAKE("flatten", flatten(none)),
      MISTAKE("t", none.t()),
      MISTAKE("narrow", none.narrow(0, 0, 1)),
      MISTAKE("chunk", none.chunk(2)),
      MISTAKE("matmul", matmul(none, x)),
      MISTAKE("matmul", matmul(x, none)),
      MISTAKE("linear", linear(x, none, none)),
      MISTAKE("masked_fill", masked_fill(x, none, 1)),
      MISTAKE("masked_fill", masked_fill(x, mask, none)),
      MISTAKE("masked_select", masked_select(x, none)),
      MISTAKE("take_along_dim", take_along_dim(x, none, 0)),
      MISTAKE("clamp", clamp(none, 0, 1)),
      MISTAKE("clip", clip(none, 0, 1)),
      MISTAKE("gelu", gelu(none)),
      MISTAKE("div", div(x, none)),
      MISTAKE("bitwise_not", ~none),
      MISTAKE("positive", positive(none)),
      MISTAKE("isclose", isclose(x, none)),
      MISTAKE("repeat", repeat(none, {2})),
      MISTAKE("roll", roll(none, {1})),
      MISTAKE("diag", diag(none)),
      MISTAKE("one_hot", one_hot(none)),
      MISTAKE("outer", outer(x, none)),
      MISTAKE("max", none.max()),
      MISTAKE("argsort", none.argsort()),
      MISTAKE("var_mean", var_mean(none)),
      MISTAKE("dropout", dropout(none, 0.5, true)),
      MISTAKE("rand_like", rand_like(none)),
      MISTAKE("zeros_like", zeros_like(none)),
      MISTAKE("full_like", full_like(none, 1)),
      MISTAKE("cross_entropy", cross_entropy(none, x)),
      MISTAKE("cross_entropy", cross_entropy(x, none)),
      MISTAKE("mse_loss", mse_loss(x, none)),
      MISTAKE("batch_norm", batch_norm(none, none, none, none, none)),
      MISTAKE("add", x + none),
      MISTAKE("silu", silu(none)),
      MISTAKE("stack", stack({x, none})),
      MISTAKE("cat", cat({x, none})),
      MISTAKE("equal", equal(x, none)),
      MISTAKE("allclose", allclose(none, x)),
      MISTAKE("index", none.index({0})),
  }, "undefined");
  // clang-format on
  expect_contains(error_of([&] { masked_fill(x, none, 1); }), "mask is an undefined tensor");
  expect_contains(error_of([&] { mse_loss(x, none); }), "target is an undefined tensor");
  // What may be absent may be absent.
  EXPECT_NO_THROW(linear(ones({2, 3}), ones({4, 3}), none));
  EXPECT_NO_THROW(clamp(x, none, 1));
}

TEST(ErrorPlace, AnOpInsideACompositeSpeaksInItsName) {
  Tensor x = ones({2, 3}), whole = ones({2}, kInt64);
  const Tensor mask = ones({5}, kBool), labels = tensor({0, 7});
  // clang-format off
  expect_named({
      MISTAKE("broadcast_to", x.broadcast_to({4, 3})),
      MISTAKE("masked_fill", x.masked_fill(mask, 0)),
      MISTAKE("masked_fill_", x.masked_fill_(mask, 0)),
      MISTAKE("masked_select", masked_select(x, mask)),
      MISTAKE("div", div(whole, 0, "floor")),
      MISTAKE("div_", whole.div_(0, "trunc")),
      MISTAKE("linear", linear(x, ones({4, 5}), Tensor())),
      MISTAKE("matmul", matmul(x, x)),
      MISTAKE("cross_entropy", cross_entropy(x, labels)),
      MISTAKE("take_along_dim", take_along_dim(x, tensor({{9}}), 1)),
      MISTAKE("index", x.index({tensor({5})})),
      MISTAKE("stack", stack({x, x}, 7)),
      MISTAKE("clamp", clamp(x, ones({4}), ones({3}))),
      MISTAKE("add_", x.add_(ones({4}))),
      MISTAKE("add_", whole.add_(0.5)),
      MISTAKE("index_put_", x.index_put_({tensor({5})}, 0)),
  });
  // clang-format on
}

// Before the first op inside is called: the rules for dimensions and sizes know no line themselves.
TEST(ErrorPlace, WhatACompositeFindsItselfHasTheLineToo) {
  const Tensor x = ones({2, 3});
  // clang-format off
  expect_named({
      MISTAKE("flatten", x.flatten(0, 5)),
      MISTAKE("reshape", x.reshape({4, -1})),
      MISTAKE("unflatten", x.unflatten(1, {2, 2})),
      MISTAKE("movedim", x.movedim({5}, {0})),
      MISTAKE("narrow", x.narrow(4, 0, 1)),
      MISTAKE("split", x.split(1, 9)),
      MISTAKE("take_along_dim", take_along_dim(x, ones({2, 5}, kInt64), 3)),
      MISTAKE("repeat_interleave", x.repeat_interleave(2, 4)),
      MISTAKE("isclose", isclose(x, ones({2, 3}, kFloat64))),
      MISTAKE("equal", equal(x, ones({2, 3}, kFloat64))),
      MISTAKE("index", x.index({0, 0, 0})),
      MISTAKE("transpose_", Tensor(x).transpose_(0, 5)),
  });
  // clang-format on
}

TEST(ErrorPlace, XOfICarriesItsLine) {
  const Tensor x = ones({2, 3}), y = tensor(5);
  const int64_t i = 4;
  // clang-format off
  expect_named({
      MISTAKE("select", x[2]),
      MISTAKE("select", x[i]),
      MISTAKE("select", x[x.size(0)]),
      MISTAKE("select", x[0][-4]),
      MISTAKE("index", x[tensor({0, 2})]),
  });
  // clang-format on
  expect_contains(error_of([&] { x[y]; }), "error_place_test.cpp:" + std::to_string(__LINE__));
  EXPECT_EQ(x[1].sizes(), (std::vector<int64_t>{3}));
  EXPECT_EQ(x[tensor(1)][2].item<float>(), 1);
}

// In backward the line is that of the op whose gradient it is.
TEST(ErrorPlace, ABackwardNamesTheForwardOp) {
  const Tensor x = ones({2}, requires_grad());
  Tensor y;
  const int line = __LINE__ + 1;
  y = exp(x);
  y.detach().add_(1);
  const std::string text = error_of([&] { y.sum().backward(); });
  expect_contains(text, "exp");
  expect_contains(text, "error_place_test.cpp:" + std::to_string(line));
}

}  // namespace
}  // namespace weft
