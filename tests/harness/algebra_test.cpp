// The facts of struct Algebra hold bit for bit, in every dtype, with -0, infinities and NaN among the values.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/sample.h"
#include "tests/support/compare.h"

namespace weft::tests {
namespace {

constexpr DType kAllDTypes[] = {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16, DType::Int64,
                                DType::Int32,   DType::Int16,   DType::Int8,     DType::UInt8,   DType::Bool};

std::vector<const Op*> ops_where(bool (*holds)(const Algebra&)) {
  std::vector<const Op*> ops;
  for (const Op* op : OpTable::instance().all())
    if (op->kind == Kind::Pointwise && holds(op->algebra)) ops.push_back(op);
  return ops;
}

// A tensor of every kind of value.
Tensor values(DType dtype, size_t which = 0) {
  static const Op& op = OpTable::instance().get("mul");
  Sample sample = samples_of(op).front();
  for (Sample::Entry& entry : sample.entries)
    for (TensorSpec& spec : entry.tensors) spec.sizes = {20, 20};
  return make_tensors(op, sample, dtype, Fill::Specials).at(which);
}

// The defaults of all slots; a slot without one holds nothing.
std::vector<Operand> defaults_of(const Op& op) {
  std::vector<Operand> operands;
  for (const Param& param : op.schema.params) {
    if (!param.is_operand()) continue;
    operands.push_back(param.has_default ? Operand(param.default_value.as_scalar()) : Operand());
  }
  return operands;
}

std::optional<Tensor> result_of(const Op& op, std::span<const Operand> operands) {
  try {
    return call(op, operands, {}, SourceLocation::current());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A number that does not change the dtype.
Scalar number_like(double number, DType dtype) {
  if (dtype == DType::Bool && (number == 0 || number == 1)) return number != 0;
  if (is_floating(dtype) || std::trunc(number) != number || std::isinf(number)) return number;
  return static_cast<int64_t>(number);
}

TEST(Algebra, IdentityNumbersGiveTheOtherOperand) {
  for (const Op* op : ops_where([](const Algebra& a) { return !a.identities.empty(); })) {
    for (const Algebra::Identity& identity : op->algebra.identities) {
      int held = 0;
      for (DType dtype : kAllDTypes) {
        const Tensor x = values(dtype);
        std::vector<Operand> operands = defaults_of(*op);
        operands.at(static_cast<size_t>(identity.slot)) = number_like(identity.number, dtype);
        operands.at(static_cast<size_t>(identity.gives)) = x;
        const std::optional<Tensor> result = result_of(*op, operands);
        if (!result || result->dtype() != dtype) continue;
        ++held;
        EXPECT_EQ(difference_of_bits(*result, x), "")
            << op->name() << " with " << identity.number << " in slot " << identity.slot << ", " << dtype;
      }
      EXPECT_GT(held, 0) << op->name();
    }
  }
}

TEST(Algebra, CommutativeOpsTakeTheirOperandsInEitherOrder) {
  const auto ops = ops_where([](const Algebra& a) { return a.is_commutative; });
  ASSERT_FALSE(ops.empty());
  for (const Op* op : ops) {
    for (DType dtype : kAllDTypes) {
      const Tensor x = values(dtype), y = values(dtype, 1);
      const std::optional<Tensor> a = result_of(*op, std::vector<Operand>{x, y}),
                                  b = result_of(*op, std::vector<Operand>{y, x});
      ASSERT_EQ(a.has_value(), b.has_value());
      if (!a) continue;
      EXPECT_EQ(difference_of_bits(*a, *b), "") << op->name() << ' ' << dtype;
    }
  }
}

TEST(Algebra, InvolutionsUndoThemselves) {
  const auto ops = ops_where([](const Algebra& a) { return a.is_involution; });
  ASSERT_FALSE(ops.empty());
  for (const Op* op : ops) {
    int held = 0;
    for (DType dtype : kAllDTypes) {
      const Tensor x = values(dtype);
      const std::optional<Tensor> once = result_of(*op, std::vector<Operand>{x});
      if (!once || once->dtype() != dtype) continue;
      ++held;
      EXPECT_EQ(difference_of_bits(*result_of(*op, std::vector<Operand>{*once}), x), "")
          << op->name() << ' ' << dtype;
    }
    EXPECT_GT(held, 0) << op->name();
  }
}

TEST(Algebra, IdempotentOpsChangeNothingTheSecondTime) {
  const auto ops = ops_where([](const Algebra& a) { return a.is_idempotent; });
  ASSERT_FALSE(ops.empty());
  for (const Op* op : ops) {
    int held = 0;
    for (DType dtype : kAllDTypes) {
      std::vector<Operand> operands = defaults_of(*op);
      const Tensor x = values(dtype), y = values(dtype, 1), z = mul(y, y);
      operands[0] = x;
      // Bounds that lie among the values, in either order.
      if (operands.size() > 1 && operands[1].is_none()) operands[1] = y;
      if (operands.size() > 2 && operands[2].is_none()) operands[2] = z;
      const std::optional<Tensor> once = result_of(*op, operands);
      if (!once || once->dtype() != dtype) continue;
      operands[0] = *once;
      ++held;
      EXPECT_EQ(difference_of_bits(*result_of(*op, operands), *once), "") << op->name() << ' ' << dtype;
    }
    EXPECT_GT(held, 0) << op->name();
  }
}

TEST(Algebra, AChoiceTakesOneOfItsOperands) {
  const auto ops = ops_where([](const Algebra& a) { return a.is_choice; });
  ASSERT_FALSE(ops.empty());
  for (const Op* op : ops) {
    for (DType dtype : kAllDTypes) {
      const Tensor x = values(dtype), y = values(dtype, 1);
      for (const bool condition : {false, true}) {
        const Tensor all = full(x.sizes(), condition);
        EXPECT_EQ(difference_of_bits(*result_of(*op, std::vector<Operand>{all, x, y}), condition ? x : y), "")
            << op->name() << ' ' << dtype;
      }
    }
  }
}

TEST(Algebra, AFillIsItsNumberEverywhere) {
  int found = 0;
  for (const Op* op : OpTable::instance().all()) {
    if (!op->algebra.is_fill) continue;
    ++found;
    EXPECT_EQ(op->kind, Kind::Create);
    const BoundCall call = bind_call(*op, {}, {{"size", Arg::List{2, 3}}, {"fill_value", 2.5}});
    EXPECT_EQ(difference_of_bits(call.run()[0], mul(ones({2, 3}), 2.5)), "");
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace weft::tests
