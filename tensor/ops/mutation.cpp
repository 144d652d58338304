// The mutation ops of the table that follow from pointwise ops, and their methods.
// Place: register.cpp calls register_mutation_ops, last. Other rooms of ops register their own in-place forms.
#include "tensor/ops/check.h"
#include "tensor/ops/copy.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

Tensor bitwise_not_by_name(const Tensor& x, SourceLocation where) {
  Tensor self = x;
  return self.bitwise_not_(where);
}
Tensor div_by_name(const Tensor& x, const Operand& other, std::string_view rounding_mode,
                   SourceLocation where) {
  Tensor self = x;
  return self.div_(other, rounding_mode, where);
}
Tensor clamp_by_name(const Tensor& x, const Operand& min, const Operand& max, SourceLocation where) {
  Tensor self = x;
  return self.clamp_(min, max, where);
}
Tensor masked_fill_by_name(const Tensor& x, const Tensor& mask, const Operand& value, SourceLocation where) {
  Tensor self = x;
  return self.masked_fill_(mask, value, where);
}

}  // namespace

void register_mutation_ops(OpTable& table) {
  register_copy_ops(table);
  register_copy_mutations(table);
  for (const Op* op : table.all()) {
    if (op->kind != Kind::Pointwise || op->pointwise->promote == Promote::Move) continue;
    // Gradient formulas are named after their op with a dot.
    if (op->name().find('.') != std::string::npos) continue;
    const ParamType first = op->schema.params[0].type;
    if (first != ParamType::Tensor && first != ParamType::Value) continue;
    mutation(table, (op->name() + "_").c_str(), op->c_name(), run_pointwise_in_place);
  }
  composite(table, "bitwise_not_(Tensor self) -> Tensor", &bitwise_not_by_name);
  composite(table, "div_(Tensor self, Value other, *, str? rounding_mode=None) -> Tensor", &div_by_name);
  composite(table, "clamp_(Tensor self, Value? min=None, Value? max=None) -> Tensor", &clamp_by_name)
      .samples({.distinct = true, .calls = {"self=[3,4] min=-1", "self=[3,4] min=[4] max=[3,1]"}});
  composite(table, "masked_fill_(Tensor self, Tensor mask, Value value) -> Tensor", &masked_fill_by_name)
      .samples({.calls = {"self=[3,4] mask=[3,4]:bool value=2", "self=[3,4] mask=[4]:bool value=[]"}});
}

// ---- The methods ----------------------------------------------------------------------------------------------------

#define WEFT_UNARY_METHOD(name)                            \
  Tensor& Tensor::name##_(SourceLocation where) {          \
    call_mutation(WEFT_OP(#name "_"), {*this}, {}, where); \
    return *this;                                          \
  }
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_PLAIN_UNARY_IN_PLACE(F) \
  F(abs) F(acos) F(asin) F(atan) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp) F(exp2) F(expm1) F(floor) \
  F(frac) F(log) F(log10) F(log1p) F(log2) F(neg) F(reciprocal) F(relu) F(round) F(rsqrt) F(sigmoid) \
  F(sign) F(silu) F(sin) F(sinh) F(sqrt) F(square) F(tan) F(tanh) F(trunc) F(logical_not)
// clang-format on
WEFT_FOR_EACH_PLAIN_UNARY_IN_PLACE(WEFT_UNARY_METHOD)
#undef WEFT_UNARY_METHOD

#define WEFT_BINARY_METHOD(name)                                        \
  Tensor& Tensor::name##_(const Operand& other, SourceLocation where) { \
    call_mutation(WEFT_OP(#name "_"), {*this, other}, {}, where);       \
    return *this;                                                       \
  }
WEFT_FOR_EACH_BINARY_IN_PLACE(WEFT_BINARY_METHOD)
#undef WEFT_BINARY_METHOD

// For bools logical_not is what bitwise_not means.
Tensor& Tensor::bitwise_not_(SourceLocation where) {
  if (dtype() == DType::Bool) return logical_not_(where);
  return bitwise_xor_(-1, where);
}

Tensor& Tensor::add_(const Operand& other, const Scalar& alpha, SourceLocation where) {
  call_mutation(WEFT_OP("add_"), {*this, other, alpha}, {}, where);
  return *this;
}
Tensor& Tensor::sub_(const Operand& other, const Scalar& alpha, SourceLocation where) {
  call_mutation(WEFT_OP("sub_"), {*this, other, alpha}, {}, where);
  return *this;
}
Tensor& Tensor::div_(const Operand& other, std::string_view rounding_mode, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("div_"), where, {*this, other});
  if (rounding_mode.empty()) {
    call_mutation(WEFT_OP("true_divide_"), {*this, other}, {}, where);
  } else if (rounding_mode == "trunc") {
    call_mutation(WEFT_OP("trunc_divide_"), {*this, other}, {}, where);
  } else {
    WEFT_CHECK_AT(where, rounding_mode == "floor", "div_: rounding_mode is \"", rounding_mode,
                  "\"; it may be \"trunc\", \"floor\" or none for true division");
    call_mutation(WEFT_OP("floor_divide_"), {*this, other}, {}, where);
  }
  return *this;
}
Tensor& Tensor::clamp_(const Operand& min, const Operand& max, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("clamp_"), where, {*this, min, max});
  WEFT_CHECK_AT(where, !min.is_none() || !max.is_none(),
                "clamp_: neither min nor max is given; one of them is needed");
  if (max.is_none()) return clamp_min_(min, where);
  if (min.is_none()) return clamp_max_(max, where);
  call_mutation(WEFT_OP("clamp_both_"), {*this, min, max}, {}, where);
  return *this;
}
Tensor& Tensor::clamp_min_(const Operand& min, SourceLocation where) {
  call_mutation(WEFT_OP("clamp_min_"), {*this, min}, {}, where);
  return *this;
}
Tensor& Tensor::clamp_max_(const Operand& max, SourceLocation where) {
  call_mutation(WEFT_OP("clamp_max_"), {*this, max}, {}, where);
  return *this;
}
Tensor& Tensor::lerp_(const Tensor& end, const Operand& weight, SourceLocation where) {
  call_mutation(WEFT_OP("lerp_"), {*this, end, weight}, {}, where);
  return *this;
}
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, const Scalar& value, SourceLocation where) {
  call_mutation(WEFT_OP("addcmul_"), {*this, a, b, value}, {}, where);
  return *this;
}
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value, SourceLocation where) {
  call_mutation(WEFT_OP("addcdiv_"), {*this, a, b, value}, {}, where);
  return *this;
}
Tensor& Tensor::leaky_relu_(const Scalar& negative_slope, SourceLocation where) {
  call_mutation(WEFT_OP("leaky_relu_"), {*this, negative_slope}, {}, where);
  return *this;
}
Tensor& Tensor::masked_fill_(const Tensor& mask, const Operand& value, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("masked_fill_"), where, {*this, mask, value});
  return copy_(weft::masked_fill(*this, mask, value, where), false, where);
}

}  // namespace weft
