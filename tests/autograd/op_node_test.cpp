// Tests of how ops of the table are recorded: what is saved, and ops that are taped through what they are made of.
#include "autograd/op_node.h"

#include <cmath>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "tensor/allocator.h"
#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;

int64_t held_by(const std::function<Tensor()>& make) {
  const int64_t before = allocator_stats().live_bytes;
  const Tensor y = make();
  return allocator_stats().live_bytes - before - static_cast<int64_t>(y.nbytes());
}

TEST(SavedSet, FollowsFromTheFormulasOfTheOperandsThatRequireGrad) {
  const int64_t n = 1 << 16, bytes = n * 8;
  Tensor x = values(List(n, 0.5), {n}).requires_grad_(), plain = values(List(n, 0.5), {n});
  // Neither operand of an addition, nor a result that no formula reads, outlives its expression.
  EXPECT_LT(held_by([&] { return (plain + 1) + (x + 1); }), bytes / 2);
  // d(x·c) needs c and not x: the intermediate x + 1 is not kept.
  EXPECT_LT(held_by([&] { return (x + 1) * plain; }), bytes / 2);
  // Both require grad: both are kept.
  EXPECT_GT(held_by([&] { return (x + 1) * (x + 2); }), 2 * bytes - 1);
  // exp keeps its result, which is there anyway, and not its operand.
  EXPECT_LT(held_by([&] { return exp(x + 1); }), bytes / 2);
}

TEST(SavedSet, AnOwnResultMakesNoCycle) {
  Tensor x = leaf({1, 2});
  const int64_t before = allocator_stats().live_bytes;
  for (int i = 0; i < 100; ++i) Tensor y = exp(tanh(exp(x)));
  EXPECT_EQ(allocator_stats().live_bytes, before);
}

TEST(SavedSet, IsFreedByBackward) {
  const int64_t n = 1 << 16, bytes = n * 8;
  Tensor x = values(List(n, 0.5), {n}).requires_grad_();
  Tensor seed = values(List(n, 1.0), {n});
  Tensor y = sin(x + 1);
  for (int i = 0; i < 8; ++i) y = sin(y);
  x.mutable_grad() = values(List(n, 0.0), {n});
  const int64_t before = allocator_stats().live_bytes;
  y.backward(seed);
  EXPECT_LT(allocator_stats().live_bytes, before - 8 * bytes);
}

// A gradient that is differentiated again has a history of its own: its errors must not name the library's lines.
TEST(OpNode, AGradientNamesTheLineOfTheForwardOp) {
  Tensor a = values({1, 2, 3, 4}, {2, 2}).requires_grad_();
  const Tensor y = mm(a, a);
  const auto line = y->made_at.line();
  const Tensor gradient = autograd::grad({sum(y)}, {a}, {}, true, true)[0];
  const Tensor rows = softmax(gradient, 1);
  const Tensor twice = autograd::grad({sum(rows * rows)}, {a}, {}, true, true)[0];
  // A sum of two contributions of mm, and one of softmax's backward, which is taped through its parts.
  for (const Tensor& x : {gradient, twice}) {
    EXPECT_NE(std::string(x->made_at.file_name()).find("op_node_test.cpp"), std::string::npos)
        << x->made_at.file_name() << ":" << x->made_at.line();
  }
  EXPECT_EQ(gradient->made_at.line(), line);
}

// Under a trace an op without formula stays one node, whose gradient is that of its decomposition.
TEST(OpNode, TapesADecomposition) {
  const Op& op = OpTable::instance().get("mul.grad0");
  ASSERT_EQ(op.grad_state, GradState::Decomposition);
  Tensor dy = leaf({1.5, 2}), b = leaf({3, 4});
  const Operand operands[] = {dy, Scalar(0), b, Scalar(0)};
  static const Attrs none = {};
  const auto record = [&] {
    Tensor y;
    {
      const NoGradGuard off;
      y = call(op, operands, none, SourceLocation::current());
    }
    auto node = make_intrusive<autograd::OpNode>(op, Call{op, operands, none, SourceLocation::current()});
    node->finish({&y, 1});
    autograd::set_producer(y, node, 0);
    return y;
  };
  record().backward(vector({1, 1}));
  EXPECT_EQ(list(dy.grad()), (List{3, 4}));
  EXPECT_EQ(list(b.grad()), (List{1.5, 2}));
  const variable_list g = autograd::grad({record()}, {b}, {vector({1, 1})}, {}, true);
  EXPECT_EQ(list(autograd::grad({g[0]}, {dy}, {vector({1, 1})})[0]), (List{1, 1}));
}

TEST(Anomaly, NamesTheForwardOpOfTheFirstNan) {
  Tensor x = leaf({0, 1});
  Tensor y = sqrt(x) * 0;
  const DetectAnomalyGuard guard;
  const std::string text = error_of([&] { y.backward(vector({1, 1})); });
  expect_contains(text, "sqrt (op_node_test.cpp");
  expect_contains(text, "NaN at element 0");
}

TEST(Recording, AMixtureOfDtypesGivesEachOperandItsOwn) {
  Tensor a = leaf({1, 2}, kFloat32), b = leaf({3, 4}, kFloat64);
  (a * b).backward(vector({1, 1}, kFloat64));
  EXPECT_EQ(a.grad().dtype(), kFloat32);
  EXPECT_EQ(b.grad().dtype(), kFloat64);
  EXPECT_EQ(list(a.grad()), (List{3, 4}));
}

TEST(Recording, AnIndexResultHasNoGradient) {
  Tensor x = leaf({3, 1, 2});
  const auto [top, where] = x.max(0);
  EXPECT_TRUE(top.requires_grad());
  EXPECT_FALSE(where.requires_grad());
  top.backward();
  EXPECT_EQ(list(x.grad()), (List{1, 0, 0}));
}

}  // namespace
}  // namespace weft
