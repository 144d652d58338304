// Tests of gradcheck, and by it of the gradients of pointwise ops.
#include "autograd/gradcheck.h"

#include <cmath>
#include <random>

#include "autograd/function.h"
#include "tensor/op.h"
#include "tests/autograd/tensors.h"

namespace weft {
namespace {

using namespace weft::testing;

struct WrongSquare : autograd::Function<WrongSquare> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(autograd::AutogradContext* ctx, variable_list dy) {
    return {dy[0] * ctx->get_saved_variables()[0]};
  }
};

TEST(Gradcheck, FindsAWrongGradient) {
  Tensor x = leaf({1, 2, 3});
  const auto wrong = [](const variable_list& in) { return WrongSquare::apply(in[0]); };
  EXPECT_FALSE(autograd::gradcheck(wrong, {x}, {.raise = false}));
  expect_contains(error_of([&] { autograd::gradcheck(wrong, {x}); }), "d output 0[0] / d input 0[0] is 1");
  EXPECT_TRUE(autograd::gradcheck([](const variable_list& in) { return in[0] * in[0]; }, {x}));
}

TEST(Gradcheck, FindsAWrongSecondGradient) {
  Tensor x = leaf({1, 2, 3});
  EXPECT_TRUE(autograd::gradgradcheck([](const variable_list& in) { return in[0] * in[0] * in[0]; }, {x}));
  EXPECT_TRUE(autograd::gradgradcheck([](const variable_list& in) { return exp(in[0]) * in[1]; },
                                      {x, leaf({3, 2, 1})}));
}

// Every pointwise op of the table: first and second derivatives, operands that broadcast, and numbers in their places.
TEST(Gradcheck, PointwiseOps) {
  std::mt19937 random(7);
  int count = 0;
  for (const Op* op : OpTable::instance().all()) {
    if (op->kind != Kind::Pointwise || op->grad_state != GradState::Formula || !op->samples.check_gradient)
      continue;
    if (op->grads[0].body && !op->grads[0].derived && op->schema.params.size() > 1)
      continue;  // fill: its own shape
    SCOPED_TRACE(op->name());
    const Samples& samples = op->samples;
    std::uniform_real_distribution<double> uniform(samples.low, samples.high);
    const auto sample = [&](const std::vector<int64_t>& sizes, bool nonzero) {
      int64_t n = 1;
      for (int64_t size : sizes) n *= size;
      List numbers;
      while (static_cast<int64_t>(numbers.size()) < n) {
        const double x = uniform(random);
        // Away from kinks, steps and poles.
        const double to_integer = std::abs(x - std::round(x)), to_half = std::abs(x - std::round(x * 2) / 2);
        if (to_integer < 0.02 || to_half < 0.02 || (nonzero && std::abs(x) < 0.3)) continue;
        numbers.push_back(x);
      }
      return values(numbers, sizes);
    };
    for (const bool broadcast : {false, true}) {
      variable_list tensors;
      std::vector<Scalar> numbers;
      std::vector<bool> is_number;
      size_t slot = 0;
      for (const Param& param : op->schema.params) {
        const bool number = param.type == ParamType::Number;
        is_number.push_back(number);
        if (number) {
          numbers.push_back(param.has_default ? param.default_value.as_scalar() : Scalar(0.7));
          tensors.push_back({});
          continue;
        }
        numbers.push_back(0);
        const std::vector<int64_t> sizes = !broadcast  ? std::vector<int64_t>{2, 3}
                                           : slot == 0 ? std::vector<int64_t>{2, 1}
                                                       : std::vector<int64_t>{3};
        Tensor x = sample(sizes, samples.nonzero_second && slot > 0);
        if (op->name() == "where" && slot == 0) x = values({1, 0}, {2, 1});
        if (slot < op->grads.size() && (op->grads[slot].derived != nullptr || op->grads[slot].body))
          x.requires_grad_();
        tensors.push_back(x);
        ++slot;
      }
      if (broadcast && slot < 2) continue;
      const auto function = [&](const variable_list& in) {
        SmallVector<Operand, 4> operands;
        for (size_t i = 0; i < in.size(); ++i)
          operands.push_back(is_number[i] ? Operand(numbers[i]) : Operand(in[i]));
        static const Attrs none = {};
        return call(*op, {operands.data(), operands.size()}, none, SourceLocation::current());
      };
      ++count;
      const std::string first = error_of([&] { autograd::gradcheck(function, tensors); });
      EXPECT_EQ(first, "no error");
      if (op->name() == "lgamma") continue;  // its gradient is digamma, which has none
      const std::string second =
          error_of([&] { autograd::gradgradcheck(function, tensors, {.atol = 1e-4}); });
      EXPECT_EQ(second, "no error");
    }
  }
  EXPECT_GT(count, 60);
}

}  // namespace
}  // namespace weft
