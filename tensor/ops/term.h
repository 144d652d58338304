// Term: a tensor or a number as a value of a generic body; running a body on terms calls the ops it is made of.
// Needs dispatch. This is how an op's decomposition follows from its one body.
#pragma once

#include "tensor/dispatch.h"
#include "tensor/expr/expr.h"

namespace weft {

class Term {
 public:
  // Explicit, so that the operations below are not those of tensors too.
  explicit Term(Tensor tensor) : tensor_(std::move(tensor)) {}
  Term(Scalar number) : number_(number), is_number_(true) {}  // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> Term(T number) : Term(Scalar(number)) {}  // NOLINT
  explicit Term(const Operand& operand) {
    if (operand.is_tensor()) tensor_ = *operand.tensor;
    else number_ = operand.scalar, is_number_ = true;
  }

  bool is_number() const { return is_number_; }
  const Tensor& tensor() const { return tensor_; }
  Scalar number() const { return number_; }
  Operand operand() const { return is_number_ ? Operand(number_) : Operand(tensor_); }

 private:
  Tensor tensor_;
  Scalar number_;
  bool is_number_ = false;
};

// The dtype that a body computes in while it runs on terms: that of operations on numbers alone.
class TermScope {
 public:
  explicit TermScope(DType compute);
  ~TermScope();
  TermScope(const TermScope&) = delete;
  TermScope& operator=(const TermScope&) = delete;

 private:
  std::optional<DType> outer_;
};

namespace detail {
Term term_call(const Op& op, std::initializer_list<Term> args);
template <class A, class B>
concept TermPair = (std::is_same_v<A, Term> && (std::is_same_v<B, Term> || std::is_arithmetic_v<B>)) ||
                   (std::is_arithmetic_v<A> && std::is_same_v<B, Term>);
}  // namespace detail

// Each operation of a body is the op of this name, so that it is taped and traced like a user's call.
#define WEFT_TERM_BINARY(function, op)                                    \
  template <class A, class B>                                             \
  requires detail::TermPair<A, B> Term function(const A& a, const B& b) { \
    return detail::term_call(WEFT_OP(op), {Term(a), Term(b)});            \
  }
WEFT_TERM_BINARY(operator*, "mul")
WEFT_TERM_BINARY(operator/, "true_divide")
WEFT_TERM_BINARY(operator&, "bitwise_and")
WEFT_TERM_BINARY(operator|, "bitwise_or")
WEFT_TERM_BINARY(operator^, "bitwise_xor")
WEFT_TERM_BINARY(operator<<, "bitwise_left_shift")
WEFT_TERM_BINARY(operator>>, "bitwise_right_shift")
WEFT_TERM_BINARY(operator<, "lt")
WEFT_TERM_BINARY(operator<=, "le")
WEFT_TERM_BINARY(operator>, "gt")
WEFT_TERM_BINARY(operator>=, "ge")
WEFT_TERM_BINARY(operator==, "eq")
WEFT_TERM_BINARY(operator!=, "ne")
WEFT_TERM_BINARY(minimum, "minimum")
WEFT_TERM_BINARY(maximum, "maximum")
WEFT_TERM_BINARY(copysign, "copysign")
WEFT_TERM_BINARY(pow, "pow")
WEFT_TERM_BINARY(atan2, "atan2")
WEFT_TERM_BINARY(floor_div, "floor_divide")
WEFT_TERM_BINARY(floor_mod, "remainder")
WEFT_TERM_BINARY(trunc_mod, "fmod")
WEFT_TERM_BINARY(trunc_div, "trunc_divide")
#undef WEFT_TERM_BINARY
template <class A, class B>
requires detail::TermPair<A, B> Term operator+(const A& a, const B& b) {
  return detail::term_call(WEFT_OP("add"), {Term(a), Term(b), Term(1)});
}
template <class A, class B>
requires detail::TermPair<A, B> Term operator-(const A& a, const B& b) {
  return detail::term_call(WEFT_OP("sub"), {Term(a), Term(b), Term(1)});
}
inline Term operator-(const Term& x) { return detail::term_call(WEFT_OP("neg"), {x}); }
inline Term operator!(const Term& x) { return detail::term_call(WEFT_OP("logical_not"), {x}); }
inline Term operator&&(const Term& a, const Term& b) {
  return detail::term_call(WEFT_OP("logical_and"), {a, b});
}
inline Term operator||(const Term& a, const Term& b) {
  return detail::term_call(WEFT_OP("logical_or"), {a, b});
}
template <class A, class B>
Term where(const Term& condition, const A& a, const B& b) {
  return detail::term_call(WEFT_OP("where"), {condition, Term(a), Term(b)});
}
template <class B, class C>
Term fma(const Term& a, const B& b, const C& c) {
  return detail::term_call(WEFT_OP("fma"), {a, Term(b), Term(c)});
}
#define WEFT_TERM_UNARY(function, op) \
  inline Term function(const Term& x) { return detail::term_call(WEFT_OP(op), {x}); }
WEFT_TERM_UNARY(abs, "abs")
WEFT_TERM_UNARY(floor, "floor")
WEFT_TERM_UNARY(ceil, "ceil")
WEFT_TERM_UNARY(trunc, "trunc")
WEFT_TERM_UNARY(round_even, "round")
WEFT_TERM_UNARY(sqrt, "sqrt")
WEFT_TERM_UNARY(is_nan, "isnan")
#undef WEFT_TERM_UNARY
#define WEFT_TERM_MATH_1(function) \
  inline Term function(const Term& x) { return detail::term_call(WEFT_OP(#function), {x}); }
#define WEFT_TERM_MATH_2(function)
#define WEFT_PRIM(name, function, arity) WEFT_TERM_MATH_##arity(function)
WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
#undef WEFT_TERM_MATH_1
#undef WEFT_TERM_MATH_2

// As the one for expressions in expr.h: a 0-d tensor, so that numbers alone do not decide the dtype.
Term constant_like(const Term& x, double value);

}  // namespace weft
