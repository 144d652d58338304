// The functions of functions.h that are one pointwise op each, and the operators.
// Place: beside pointwise.cpp, which holds their entries.
#include "tensor/dispatch.h"

namespace weft {

#define WEFT_UNARY_FUNCTION(name) \
  Tensor name(const Tensor& x, SourceLocation where) { return call(WEFT_OP(#name), {x}, where); }
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_PLAIN_UNARY(F) \
  F(abs) F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(ceil) F(cos) F(cosh) F(digamma) F(erf) \
  F(erfc) F(erfinv) F(exp) F(exp2) F(expm1) F(floor) F(frac) F(hardsigmoid) F(hardswish) F(isfinite) \
  F(isinf) F(isnan) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(log_sigmoid) F(logical_not) F(mish) \
  F(neg) F(reciprocal) F(relu) F(relu6) F(round) F(rsqrt) F(selu) F(sigmoid) F(sign) F(signbit) F(silu) \
  F(sin) F(sinh) F(softsign) F(sqrt) F(square) F(tan) F(tanh) F(tanhshrink) F(trunc)
// clang-format on
WEFT_FOR_EACH_PLAIN_UNARY(WEFT_UNARY_FUNCTION)
#undef WEFT_UNARY_FUNCTION

#define WEFT_BINARY_FUNCTION(name)                                        \
  Tensor name(const Operand& a, const Operand& b, SourceLocation where) { \
    return call(WEFT_OP(#name), {a, b}, where);                           \
  }
WEFT_FOR_EACH_BINARY(WEFT_BINARY_FUNCTION)
#undef WEFT_BINARY_FUNCTION

Tensor add(const Operand& a, const Operand& b, const Scalar& alpha, SourceLocation where) {
  return call(WEFT_OP("add"), {a, b, alpha}, where);
}
Tensor sub(const Operand& a, const Operand& b, const Scalar& alpha, SourceLocation where) {
  return call(WEFT_OP("sub"), {a, b, alpha}, where);
}
Tensor where(const Tensor& condition, const Operand& a, const Operand& b, SourceLocation here) {
  return call(WEFT_OP("where"), {condition, a, b}, here);
}
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight, SourceLocation where) {
  return call(WEFT_OP("lerp"), {start, end, weight}, where);
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value, SourceLocation where) {
  return call(WEFT_OP("addcmul"), {x, a, b, value}, where);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value, SourceLocation where) {
  return call(WEFT_OP("addcdiv"), {x, a, b, value}, where);
}
Tensor clamp_min(const Tensor& x, const Operand& min, SourceLocation where) {
  return call(WEFT_OP("clamp_min"), {x, min}, where);
}
Tensor clamp_max(const Tensor& x, const Operand& max, SourceLocation where) {
  return call(WEFT_OP("clamp_max"), {x, max}, where);
}
Tensor elu(const Tensor& x, const Scalar& alpha, SourceLocation where) {
  return call(WEFT_OP("elu"), {x, alpha}, where);
}
Tensor celu(const Tensor& x, const Scalar& alpha, SourceLocation where) {
  return call(WEFT_OP("celu"), {x, alpha}, where);
}
Tensor leaky_relu(const Tensor& x, const Scalar& negative_slope, SourceLocation where) {
  return call(WEFT_OP("leaky_relu"), {x, negative_slope}, where);
}
Tensor hardtanh(const Tensor& x, const Scalar& min_val, const Scalar& max_val, SourceLocation where) {
  return call(WEFT_OP("hardtanh"), {x, min_val, max_val}, where);
}
Tensor softplus(const Tensor& x, const Scalar& beta, const Scalar& threshold, SourceLocation where) {
  return call(WEFT_OP("softplus"), {x, beta, threshold}, where);
}
Tensor softshrink(const Tensor& x, const Scalar& lambda, SourceLocation where) {
  return call(WEFT_OP("softshrink"), {x, lambda}, where);
}
Tensor hardshrink(const Tensor& x, const Scalar& lambda, SourceLocation where) {
  return call(WEFT_OP("hardshrink"), {x, lambda}, where);
}
Tensor threshold(const Tensor& x, const Scalar& limit, const Scalar& value, SourceLocation where) {
  return call(WEFT_OP("threshold"), {x, limit, value}, where);
}
Tensor logit(const Tensor& x, SourceLocation where) { return call(WEFT_OP("logit"), {x}, where); }

namespace {
const Tensor& only_tensor(const Rhs& x) {
  static const Tensor undefined;
  return x.operand.is_tensor() ? *x.operand.tensor : undefined;
}
}  // namespace
Tensor operator-(Rhs x) { return neg(only_tensor(x), x.where); }
Tensor operator~(Rhs x) { return bitwise_not(only_tensor(x), x.where); }
#define WEFT_BINARY_OPERATOR(symbol, function)                                               \
  Tensor operator symbol(const Tensor& a, Rhs b) { return function(a, b.operand, b.where); } \
  Tensor operator symbol(Lhs a, const Tensor& b) { return function(a.operand, b, a.where); }
Tensor operator+(const Tensor& a, Rhs b) { return add(a, b.operand, 1, b.where); }
Tensor operator+(Lhs a, const Tensor& b) { return add(a.operand, b, 1, a.where); }
Tensor operator-(const Tensor& a, Rhs b) { return sub(a, b.operand, 1, b.where); }
Tensor operator-(Lhs a, const Tensor& b) { return sub(a.operand, b, 1, a.where); }
Tensor operator/(const Tensor& a, Rhs b) { return div(a, b.operand, {}, b.where); }
Tensor operator/(Lhs a, const Tensor& b) { return div(a.operand, b, {}, a.where); }
WEFT_BINARY_OPERATOR(*, mul)
WEFT_BINARY_OPERATOR(%, remainder)
WEFT_BINARY_OPERATOR(&, bitwise_and)
WEFT_BINARY_OPERATOR(|, bitwise_or)
WEFT_BINARY_OPERATOR(^, bitwise_xor)
WEFT_BINARY_OPERATOR(<<, bitwise_left_shift)
WEFT_BINARY_OPERATOR(>>, bitwise_right_shift)
WEFT_BINARY_OPERATOR(==, eq)
WEFT_BINARY_OPERATOR(!=, ne)
WEFT_BINARY_OPERATOR(<, lt)
WEFT_BINARY_OPERATOR(<=, le)
WEFT_BINARY_OPERATOR(>, gt)
WEFT_BINARY_OPERATOR(>=, ge)
#undef WEFT_BINARY_OPERATOR

}  // namespace weft
