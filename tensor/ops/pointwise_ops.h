// THE TABLE, pointwise: each op's meaning and gradient as one generic body, run on vectors, expressions and terms.
// Place: included by pointwise.cpp (entries, decompositions, gradients) and by pointwise.isa.cpp (kernels per
// instruction set); `Table` decides which of these is built. Adding an op: its entry here, its declaration in functions.h.
//
// A gradient body takes (dy, operands…, result). What it does not read is not saved for backward. The facts of an op,
// identity(slot, number, gives) and the like, are those of struct Algebra.
#pragma once

#include <limits>

#include "tensor/ops/pointwise_table.h"

namespace weft {

template <class Table>
void declare_arithmetic_ops(Table& table) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  // a + alpha · b
  table.pointwise(
      "add(Value a, Value b, *, Number alpha=1) -> Tensor", common,
      [](auto a, auto b, auto alpha) { return a + alpha * b; },
      Grads{[](auto dy, auto, auto, auto, auto) { return dy; },
            [](auto dy, auto, auto, auto alpha, auto) { return dy * alpha; }});
  table.facts("add").identity(1, -0.0, 0);
  table
      .pointwise(
          "sub(Value a, Value b, *, Number alpha=1) -> Tensor", common,
          [](auto a, auto b, auto alpha) { return a - alpha * b; },
          Grads{[](auto dy, auto, auto, auto, auto) { return dy; },
                [](auto dy, auto, auto, auto alpha, auto) { return -(dy * alpha); }})
      .no_bool();
  table.facts("sub").identity(1, 0.0, 0);
  table.pointwise(
      "mul(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return a * b; },
      Grads{[](auto dy, auto, auto b, auto) { return dy * b; },
            [](auto dy, auto a, auto, auto) { return dy * a; }});
  table.facts("mul").identity(0, 1, 1).identity(1, 1, 0).commutative();
  // True division: integers give the default float.
  table
      .pointwise(
          "true_divide(Value a, Value b) -> Tensor", floating, [](auto a, auto b) { return a / b; },
          Grads{[](auto dy, auto, auto b, auto) { return dy / b; },
                [](auto dy, auto a, auto b, auto) { return -dy * (a / b / b); }})
      .nonzero();
  table.facts("true_divide").identity(1, 1, 0);
  // Toward minus infinity; a zero divisor is an Error for integers.
  table
      .pointwise(
          "floor_divide(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return floor_div(a, b); },
          Grads{zero_grad, zero_grad})
      .divisor(1);
  table
      .pointwise(
          "trunc_divide(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return trunc_div(a, b); },
          Grads{zero_grad, zero_grad})
      .divisor(1);
  // The result has the divisor's sign (Python's %).
  table
      .pointwise(
          "remainder(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return floor_mod(a, b); },
          Grads{[](auto dy, auto, auto, auto) { return dy; },
                [](auto dy, auto a, auto b, auto) { return -dy * floor_div(a, b); }})
      .divisor(1);
  // The result has the dividend's sign (C's fmod).
  table
      .pointwise(
          "fmod(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return trunc_mod(a, b); },
          Grads{[](auto dy, auto, auto, auto) { return dy; },
                [](auto dy, auto a, auto b, auto) { return -dy * trunc_div(a, b); }})
      .divisor(1);
  table
      .pointwise(
          "pow(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return pow(a, b); },
          Grads{[](auto dy, auto a, auto b, auto) { return where(b == 0, 0, dy * (b * pow(a, b - 1))); },
                [](auto dy, auto a, auto b, auto out) {
                  return where((a == 0) && (b >= 0), 0, dy * (out * log(a)));
                }},
          Samples{.low = 0.25, .high = 3})
      .exponent(1);
  // NaN in either operand gives NaN. At a tie each side gets half of the gradient.
  table.pointwise(
      "maximum(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return maximum(a, b); },
      Grads{[](auto dy, auto a, auto b, auto) { return where(a < b, 0, where(a == b, dy * 0.5, dy)); },
            [](auto dy, auto a, auto b, auto) { return where(b < a, 0, where(a == b, dy * 0.5, dy)); }},
      Samples{.distinct = true});
  table.facts("maximum").identity(0, -inf, 1).identity(1, -inf, 0);
  table.pointwise(
      "minimum(Value a, Value b) -> Tensor", common, [](auto a, auto b) { return minimum(a, b); },
      Grads{[](auto dy, auto a, auto b, auto) { return where(a > b, 0, where(a == b, dy * 0.5, dy)); },
            [](auto dy, auto a, auto b, auto) { return where(b > a, 0, where(a == b, dy * 0.5, dy)); }},
      Samples{.distinct = true});
  table.facts("minimum").identity(0, inf, 1).identity(1, inf, 0);
  // The other operand where one is NaN.
  table.pointwise(
      "fmax(Value a, Value b) -> Tensor", common,
      [](auto a, auto b) { return where(is_nan(b), a, where(is_nan(a), b, maximum(a, b))); },
      Grads{[](auto dy, auto a, auto b, auto) { return where((a >= b) || is_nan(b), dy, 0); },
            [](auto dy, auto a, auto b, auto) { return where((a >= b) || is_nan(b), 0, dy); }},
      Samples{.distinct = true});
  table.pointwise(
      "fmin(Value a, Value b) -> Tensor", common,
      [](auto a, auto b) { return where(is_nan(b), a, where(is_nan(a), b, minimum(a, b))); },
      Grads{[](auto dy, auto a, auto b, auto) { return where((a <= b) || is_nan(b), dy, 0); },
            [](auto dy, auto a, auto b, auto) { return where((a <= b) || is_nan(b), 0, dy); }},
      Samples{.distinct = true});
  table.pointwise(
      "atan2(Value a, Value b) -> Tensor", floating, [](auto a, auto b) { return atan2(a, b); },
      Grads{[](auto dy, auto a, auto b, auto) { return dy * b / (a * a + b * b); },
            [](auto dy, auto a, auto b, auto) { return -dy * a / (a * a + b * b); }});
  // sqrt(a² + b²) without overflow in between.
  table.pointwise(
      "hypot(Value a, Value b) -> Tensor", floating,
      [](auto a, auto b) {
        auto big = maximum(abs(a), abs(b)), small = minimum(abs(a), abs(b));
        auto ratio = small / big;
        return where((big == 0) || (big == big + big), big, big * sqrt(1 + ratio * ratio));
      },
      Grads{[](auto dy, auto a, auto, auto out) { return dy * (a / out); },
            [](auto dy, auto, auto b, auto out) { return dy * (b / out); }});
  table.pointwise(
      "copysign(Value a, Value b) -> Tensor", floating, [](auto a, auto b) { return copysign(a, b); },
      Grads{[](auto dy, auto a, auto, auto out) { return where(a == 0, 0, dy * (out / a)); }, zero_grad});
  // log(eᵃ + eᵇ)
  table.pointwise(
      "logaddexp(Value a, Value b) -> Tensor", floating,
      [](auto a, auto b) {
        auto top = maximum(a, b), gap = abs(a - b);
        return where((a == b) && is_nan(gap), a, top + log1p(exp(-gap)));
      },
      Grads{[](auto dy, auto a, auto, auto out) { return dy * exp(a - out); },
            [](auto dy, auto, auto b, auto out) { return dy * exp(b - out); }});
  // a · log(b), and 0 where a is 0.
  table.pointwise(
      "xlogy(Value a, Value b) -> Tensor", floating,
      [](auto a, auto b) { return where(is_nan(b), b, where(a == 0, 0, a * log(b))); },
      Grads{[](auto dy, auto a, auto b, auto) { return where((a == 0) && (b <= 0), 0, dy * log(b)); },
            [](auto dy, auto a, auto b, auto) { return dy * a / b; }},
      Samples{.low = 0.25, .high = 3});
  // a where the condition holds, else b.
  table.pointwise(
      "where(Tensor condition, Value a, Value b) -> Tensor", common,
      [](auto condition, auto a, auto b) { return where(condition != 0, a, b); },
      Grads{no_grad, [](auto dy, auto condition, auto, auto, auto) { return where(condition != 0, dy, 0); },
            [](auto dy, auto condition, auto, auto, auto) { return where(condition != 0, 0, dy); }});
  table.facts("where").choice();
  // start + weight · (end - start), from whichever end is nearer.
  table.pointwise(
      "lerp(Tensor start, Tensor end, Value weight) -> Tensor", floating,
      [](auto start, auto end, auto weight) {
        auto range = end - start;
        return where(abs(weight) < 0.5, start + weight * range, end - range * (1 - weight));
      },
      Grads{[](auto dy, auto, auto, auto weight, auto) { return dy * (1 - weight); },
            [](auto dy, auto, auto, auto weight, auto) { return dy * weight; },
            [](auto dy, auto start, auto end, auto, auto) { return dy * (end - start); }});
  // x + value · a · b
  table.pointwise(
      "addcmul(Tensor x, Tensor a, Tensor b, *, Number value=1) -> Tensor", common,
      [](auto x, auto a, auto b, auto value) { return x + value * a * b; },
      Grads{[](auto dy, auto, auto, auto, auto, auto) { return dy; },
            [](auto dy, auto, auto, auto b, auto value, auto) { return dy * (b * value); },
            [](auto dy, auto, auto a, auto, auto value, auto) { return dy * (a * value); }});
  // x + value · a / b
  table
      .pointwise(
          "addcdiv(Tensor x, Tensor a, Tensor b, *, Number value=1) -> Tensor", floating,
          [](auto x, auto a, auto b, auto value) { return x + value * a / b; },
          Grads{[](auto dy, auto, auto, auto, auto, auto) { return dy; },
                [](auto dy, auto, auto, auto b, auto value, auto) { return dy * (value / b); },
                [](auto dy, auto, auto a, auto b, auto value, auto) { return -dy * (value * a / (b * b)); }})
      .nonzero();
  // a · b + c, rounded once.
  table.pointwise(
      "fma(Value a, Value b, Value c) -> Tensor", common, [](auto a, auto b, auto c) { return fma(a, b, c); },
      Grads{[](auto dy, auto, auto b, auto, auto) { return dy * b; },
            [](auto dy, auto a, auto, auto, auto) { return dy * a; },
            [](auto dy, auto, auto, auto, auto) { return dy; }});
  table.pointwise(
      "clamp_min(Tensor x, Value min) -> Tensor", common, [](auto x, auto low) { return maximum(x, low); },
      Grads{[](auto dy, auto x, auto low, auto) { return where(x >= low, dy, 0); },
            [](auto dy, auto x, auto low, auto) { return where(x < low, dy, 0); }},
      Samples{.distinct = true});
  table.facts("clamp_min").identity(1, -inf, 0).idempotent();
  table.pointwise(
      "clamp_max(Tensor x, Value max) -> Tensor", common, [](auto x, auto high) { return minimum(x, high); },
      Grads{[](auto dy, auto x, auto high, auto) { return where(x <= high, dy, 0); },
            [](auto dy, auto x, auto high, auto) { return where(x > high, dy, 0); }},
      Samples{.distinct = true});
  table.facts("clamp_max").identity(1, inf, 0).idempotent();
  // Between both bounds; the upper one wins where they cross.
  table.pointwise(
      "clamp_both(Tensor x, Value min, Value max) -> Tensor", common,
      [](auto x, auto low, auto high) { return minimum(maximum(x, low), high); },
      Grads{
          [](auto dy, auto x, auto low, auto high, auto) { return where((x >= low) && (x <= high), dy, 0); },
          [](auto dy, auto x, auto low, auto high, auto) { return where((x < low) && (low < high), dy, 0); },
          [](auto dy, auto x, auto low, auto high, auto) {
            return where((x > high) || (high < low), dy, 0);
          }},
      Samples{.distinct = true});
  table.facts("clamp_both").idempotent();
}

template <class Table>
void declare_comparison_ops(Table& table) {
  table.pointwise("eq(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a == b; });
  table.facts("eq").identity(0, 1, 1).identity(1, 1, 0).commutative();
  table.pointwise("ne(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a != b; });
  table.facts("ne").identity(0, 0, 1).identity(1, 0, 0).commutative();
  table.pointwise("lt(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a < b; });
  table.pointwise("le(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a <= b; });
  table.pointwise("gt(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a > b; });
  table.pointwise("ge(Value a, Value b) -> Tensor", predicate, [](auto a, auto b) { return a >= b; });
  table.pointwise("logical_and(Value a, Value b) -> Tensor", predicate,
                  [](auto a, auto b) { return (a != 0) && (b != 0); });
  table.facts("logical_and").identity(0, 1, 1).identity(1, 1, 0).commutative();
  table.pointwise("logical_or(Value a, Value b) -> Tensor", predicate,
                  [](auto a, auto b) { return (a != 0) || (b != 0); });
  table.facts("logical_or").identity(0, 0, 1).identity(1, 0, 0).commutative();
  table.pointwise("logical_xor(Value a, Value b) -> Tensor", predicate,
                  [](auto a, auto b) { return ((a != 0) && (b == 0)) || ((a == 0) && (b != 0)); });
  table.facts("logical_xor").identity(0, 0, 1).identity(1, 0, 0).commutative();
  table.pointwise("logical_not(Tensor x) -> Tensor", predicate, [](auto x) { return x == 0; });
  table.facts("logical_not").involution();
  table.pointwise("isnan(Tensor x) -> Tensor", predicate, [](auto x) { return is_nan(x); });
  // x - x is NaN for an infinity and 0 for a finite number, integers included.
  table.pointwise("isinf(Tensor x) -> Tensor", predicate, [](auto x) { return is_nan(x - x) && (x == x); });
  table.pointwise("isfinite(Tensor x) -> Tensor", predicate, [](auto x) { return (x - x) == 0; });
  table.pointwise("signbit(Tensor x) -> Tensor", floating_predicate,
                  [](auto x) { return copysign(constant_like(x, 1), x) < 0; });

  table.pointwise("bitwise_and(Value a, Value b) -> Tensor", integral, [](auto a, auto b) { return a & b; });
  table.facts("bitwise_and").identity(0, -1, 1).identity(1, -1, 0).commutative();
  table.pointwise("bitwise_or(Value a, Value b) -> Tensor", integral, [](auto a, auto b) { return a | b; });
  table.facts("bitwise_or").identity(0, 0, 1).identity(1, 0, 0).commutative();
  table.pointwise("bitwise_xor(Value a, Value b) -> Tensor", integral, [](auto a, auto b) { return a ^ b; });
  table.facts("bitwise_xor").identity(0, 0, 1).identity(1, 0, 0).commutative();
  table.pointwise("bitwise_left_shift(Value a, Value b) -> Tensor", integral,
                  [](auto a, auto b) { return a << b; });
  table.facts("bitwise_left_shift").identity(1, 0, 0);
  table.pointwise("bitwise_right_shift(Value a, Value b) -> Tensor", integral,
                  [](auto a, auto b) { return a >> b; });
  table.facts("bitwise_right_shift").identity(1, 0, 0);
}

template <class Table>
void declare_math_ops(Table& table) {
  const Samples unit{.low = -0.9, .high = 0.9}, positive{.low = 0.1, .high = 8}, away{.distinct = true};
  table
      .pointwise(
          "neg(Tensor x) -> Tensor", common, [](auto x) { return -x; },
          Grads{[](auto dy, auto, auto) { return -dy; }})
      .no_bool();
  table.facts("neg").involution();
  table.pointwise(
      "abs(Tensor x) -> Tensor", common, [](auto x) { return abs(x); },
      Grads{[](auto dy, auto x, auto) { return where(x > 0, dy, where(x < 0, -dy, 0)); }});
  table.facts("abs").idempotent();
  // NaN has the sign 0, as in PyTorch.
  table.pointwise(
      "sign(Tensor x) -> Tensor", common,
      [](auto x) { return where(x > 0, constant_like(x, 1), where(x < 0, constant_like(x, -1), 0)); },
      Grads{zero_grad});
  table.facts("sign").idempotent();
  table.pointwise(
      "floor(Tensor x) -> Tensor", common, [](auto x) { return floor(x); }, Grads{zero_grad}, away);
  table.facts("floor").idempotent();
  table.pointwise(
      "ceil(Tensor x) -> Tensor", common, [](auto x) { return ceil(x); }, Grads{zero_grad}, away);
  table.facts("ceil").idempotent();
  table.pointwise(
      "trunc(Tensor x) -> Tensor", common, [](auto x) { return trunc(x); }, Grads{zero_grad}, away);
  table.facts("trunc").idempotent();
  // Half to even.
  table.pointwise(
      "round(Tensor x) -> Tensor", common, [](auto x) { return round_even(x); }, Grads{zero_grad}, away);
  table.facts("round").idempotent();
  table.pointwise(
      "frac(Tensor x) -> Tensor", common, [](auto x) { return x - trunc(x); },
      Grads{[](auto dy, auto, auto) { return dy; }}, away);
  table.pointwise(
      "square(Tensor x) -> Tensor", common, [](auto x) { return x * x; },
      Grads{[](auto dy, auto x, auto) { return dy * (2 * x); }});
  table.pointwise(
      "reciprocal(Tensor x) -> Tensor", floating, [](auto x) { return 1 / x; },
      Grads{[](auto dy, auto, auto out) { return -dy * (out * out); }});
  table.pointwise(
      "sqrt(Tensor x) -> Tensor", floating, [](auto x) { return sqrt(x); },
      Grads{[](auto dy, auto, auto out) { return dy / (2 * out); }}, positive);
  table.pointwise(
      "rsqrt(Tensor x) -> Tensor", floating, [](auto x) { return rsqrt(x); },
      Grads{[](auto dy, auto, auto out) { return -0.5 * dy * (out * out * out); }}, positive);
  table.pointwise(
      "exp(Tensor x) -> Tensor", floating, [](auto x) { return exp(x); },
      Grads{[](auto dy, auto, auto out) { return dy * out; }});
  table.pointwise(
      "exp2(Tensor x) -> Tensor", floating, [](auto x) { return exp2(x); },
      Grads{[](auto dy, auto, auto out) { return dy * out * 0.6931471805599453; }});
  table.pointwise(
      "expm1(Tensor x) -> Tensor", floating, [](auto x) { return expm1(x); },
      Grads{[](auto dy, auto, auto out) { return dy * (out + 1); }});
  table.pointwise(
      "log(Tensor x) -> Tensor", floating, [](auto x) { return log(x); },
      Grads{[](auto dy, auto x, auto) { return dy / x; }}, positive);
  table.pointwise(
      "log2(Tensor x) -> Tensor", floating, [](auto x) { return log2(x); },
      Grads{[](auto dy, auto x, auto) { return dy / (x * 0.6931471805599453); }}, positive);
  table.pointwise(
      "log10(Tensor x) -> Tensor", floating, [](auto x) { return log10(x); },
      Grads{[](auto dy, auto x, auto) { return dy / (x * 2.302585092994046); }}, positive);
  table.pointwise(
      "log1p(Tensor x) -> Tensor", floating, [](auto x) { return log1p(x); },
      Grads{[](auto dy, auto x, auto) { return dy / (x + 1); }}, unit);
  table.pointwise(
      "sin(Tensor x) -> Tensor", floating, [](auto x) { return sin(x); },
      Grads{[](auto dy, auto x, auto) { return dy * cos(x); }});
  table.pointwise(
      "cos(Tensor x) -> Tensor", floating, [](auto x) { return cos(x); },
      Grads{[](auto dy, auto x, auto) { return -dy * sin(x); }});
  table.pointwise(
      "tan(Tensor x) -> Tensor", floating, [](auto x) { return tan(x); },
      Grads{[](auto dy, auto, auto out) { return dy * (1 + out * out); }}, unit);
  table.pointwise(
      "asin(Tensor x) -> Tensor", floating, [](auto x) { return asin(x); },
      Grads{[](auto dy, auto x, auto) { return dy * rsqrt(1 - x * x); }}, unit);
  table.pointwise(
      "acos(Tensor x) -> Tensor", floating, [](auto x) { return acos(x); },
      Grads{[](auto dy, auto x, auto) { return -dy * rsqrt(1 - x * x); }}, unit);
  table.pointwise(
      "atan(Tensor x) -> Tensor", floating, [](auto x) { return atan(x); },
      Grads{[](auto dy, auto x, auto) { return dy / (x * x + 1); }});
  table.pointwise(
      "sinh(Tensor x) -> Tensor", floating, [](auto x) { return sinh(x); },
      Grads{[](auto dy, auto x, auto) { return dy * cosh(x); }});
  table.pointwise(
      "cosh(Tensor x) -> Tensor", floating, [](auto x) { return cosh(x); },
      Grads{[](auto dy, auto x, auto) { return dy * sinh(x); }});
  table.pointwise(
      "tanh(Tensor x) -> Tensor", floating, [](auto x) { return tanh(x); },
      Grads{[](auto dy, auto, auto out) { return dy * (1 - out * out); }});
  table.pointwise(
      "asinh(Tensor x) -> Tensor", floating, [](auto x) { return asinh(x); },
      Grads{[](auto dy, auto x, auto) { return dy * rsqrt(x * x + 1); }});
  table.pointwise(
      "acosh(Tensor x) -> Tensor", floating, [](auto x) { return acosh(x); },
      Grads{[](auto dy, auto x, auto) { return dy * rsqrt(x * x - 1); }}, Samples{.low = 1.1, .high = 8});
  table.pointwise(
      "atanh(Tensor x) -> Tensor", floating, [](auto x) { return atanh(x); },
      Grads{[](auto dy, auto x, auto) { return dy / (1 - x * x); }}, unit);
  // 2/√π
  table.pointwise(
      "erf(Tensor x) -> Tensor", floating, [](auto x) { return erf(x); },
      Grads{[](auto dy, auto x, auto) { return dy * (1.1283791670955126 * exp(-(x * x))); }});
  table.pointwise(
      "erfc(Tensor x) -> Tensor", floating, [](auto x) { return erfc(x); },
      Grads{[](auto dy, auto x, auto) { return -dy * (1.1283791670955126 * exp(-(x * x))); }});
  // √π/2
  table.pointwise(
      "erfinv(Tensor x) -> Tensor", floating, [](auto x) { return erfinv(x); },
      Grads{[](auto dy, auto, auto out) { return dy * (0.886226925452758 * exp(out * out)); }}, unit);
  table.pointwise(
      "lgamma(Tensor x) -> Tensor", floating, [](auto x) { return lgamma(x); },
      Grads{[](auto dy, auto x, auto) { return dy * digamma(x); }}, positive);
  // The trigamma function: π²/sin²(πx) - ψ₁(1-x) below 1/2, eight steps up by ψ₁(y) = ψ₁(y+1) + 1/y², then its series.
  table.pointwise(
      "digamma(Tensor x) -> Tensor", floating, [](auto x) { return digamma(x); },
      Grads{[](auto dy, auto x, auto) {
        auto y = where(x < 0.5, 1 - x, x);
        auto steps = 1 / (y * y);
        for (int k = 1; k < 8; ++k) steps = steps + 1 / ((y + k) * (y + k));
        auto r = 1 / (y + 8), q = r * r;
        auto series =
            r + q * 0.5 +
            r * q *
                (0.16666666666666666 +
                 q * (-0.03333333333333333 +
                      q * (0.023809523809523808 +
                           q * (-0.03333333333333333 + q * (0.07575757575757576 - q * 0.2531135531135531)))));
        auto above = steps + series;
        auto s = sin(3.141592653589793 * (x - round_even(x)));
        return dy * where(x < 0.5, 9.869604401089358 / (s * s) - above, above);
      }},
      positive);
  table.pointwise(
      "logit(Tensor x) -> Tensor", floating, [](auto x) { return log(x / (1 - x)); },
      Grads{[](auto dy, auto x, auto) { return dy / (x * (1 - x)); }}, Samples{.low = 0.1, .high = 0.9});
  // Replaces NaN, +inf and -inf.
  table.pointwise(
      "nan_to_num_values(Tensor x, Number nan, Number posinf, Number neginf) -> Tensor", common,
      [](auto x, auto nan, auto posinf, auto neginf) {
        auto infinite = is_nan(x - x);
        return where(is_nan(x), nan, where(infinite && (x > 0), posinf, where(infinite, neginf, x)));
      },
      Grads{[](auto dy, auto x, auto, auto, auto, auto) { return where(is_nan(x - x), 0, dy); }});
}

template <class Table>
void declare_activation_ops(Table& table) {
  const Samples smooth{.low = -4, .high = 4}, kinked{.low = -4, .high = 4, .distinct = true};
  // 1 / (1 + e⁻ˣ)
  table.pointwise(
      "sigmoid(Tensor x) -> Tensor", floating, [](auto x) { return sigmoid(x); },
      Grads{[](auto dy, auto, auto out) { return dy * (out * (1 - out)); }}, smooth);
  // log σ(x), stable for both signs.
  table.pointwise(
      "log_sigmoid(Tensor x) -> Tensor", floating, [](auto x) { return minimum(x, 0) - log1p(exp(-abs(x))); },
      Grads{[](auto dy, auto x, auto) { return dy * sigmoid(-x); }}, smooth);
  table.pointwise(
      "relu(Tensor x) -> Tensor", common, [](auto x) { return maximum(x, 0); },
      Grads{[](auto dy, auto, auto out) { return where(out <= 0, 0, dy); }}, kinked);
  table.facts("relu").idempotent();
  table.pointwise(
      "relu6(Tensor x) -> Tensor", common, [](auto x) { return minimum(maximum(x, 0), 6); },
      Grads{[](auto dy, auto x, auto) { return where((x <= 0) || (x >= 6), 0, dy); }}, kinked);
  table.facts("relu6").idempotent();
  table.pointwise(
      "hardtanh(Tensor x, Number min_val=-1.0, Number max_val=1.0) -> Tensor", common,
      [](auto x, auto low, auto high) { return minimum(maximum(x, low), high); },
      Grads{
          [](auto dy, auto x, auto low, auto high, auto) { return where((x <= low) || (x >= high), 0, dy); }},
      kinked);
  table.facts("hardtanh").idempotent();
  table.pointwise(
      "leaky_relu(Tensor x, Number negative_slope=0.01) -> Tensor", floating,
      [](auto x, auto slope) { return where(x > 0, x, x * slope); },
      Grads{[](auto dy, auto x, auto slope, auto) { return where(x > 0, dy, dy * slope); }}, kinked);
  // Clevert et al. 2016.
  table.pointwise(
      "elu(Tensor x, Number alpha=1.0) -> Tensor", floating,
      [](auto x, auto alpha) { return where(x > 0, x, alpha * expm1(x)); },
      Grads{[](auto dy, auto x, auto alpha, auto) { return where(x > 0, dy, dy * (alpha * exp(x))); }},
      kinked);
  table.pointwise(
      "celu(Tensor x, Number alpha=1.0) -> Tensor", floating,
      [](auto x, auto alpha) { return where(x > 0, x, alpha * expm1(x / alpha)); },
      Grads{[](auto dy, auto x, auto alpha, auto) { return where(x > 0, dy, dy * exp(x / alpha)); }}, kinked);
  // Klambauer et al. 2017; scale 1.0507…, alpha 1.6732….
  table.pointwise(
      "selu(Tensor x) -> Tensor", floating,
      [](auto x) { return 1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x)); },
      Grads{[](auto dy, auto x, auto) {
        return dy * (1.0507009873554805 * where(x > 0, constant_like(x, 1), 1.6732632423543772 * exp(x)));
      }},
      kinked);
  // x · σ(x).  Elfwing et al. 2017, eq. 1.
  table.pointwise(
      "silu(Tensor x) -> Tensor", floating, [](auto x) { return x * sigmoid(x); },
      Grads{[](auto dy, auto x, auto) {
        auto s = sigmoid(x);
        return dy * (s * (1 + x * (1 - s)));
      }},
      smooth);
  // x · tanh(softplus(x)).  Misra 2019.
  table.pointwise(
      "mish(Tensor x) -> Tensor", floating, [](auto x) { return x * tanh(where(x > 20, x, log1p(exp(x)))); },
      Grads{[](auto dy, auto x, auto) {
        auto t = tanh(where(x > 20, x, log1p(exp(x))));
        return dy * (t + x * sigmoid(x) * (1 - t * t));
      }},
      smooth);
  // x · Φ(x) with the normal distribution function.  Hendrycks and Gimpel 2016.
  table.pointwise(
      "gelu_erf(Tensor x) -> Tensor", floating,
      [](auto x) { return x * (0.5 * (1 + erf(x * 0.7071067811865476))); }, Grads{[](auto dy, auto x, auto) {
        auto cdf = 0.5 * (1 + erf(x * 0.7071067811865476));
        auto pdf = 0.3989422804014327 * exp(-0.5 * (x * x));
        return dy * (cdf + x * pdf);
      }},
      smooth);
  table.pointwise(
      "gelu_tanh(Tensor x) -> Tensor", floating,
      [](auto x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x)))); },
      Grads{[](auto dy, auto x, auto) {
        auto t = tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x)));
        auto inner = 0.7978845608028654 * (1 + 3 * 0.044715 * (x * x));
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
      }},
      smooth);
  // log(1 + e^(βx)) / β, linear above the threshold.
  table.pointwise(
      "softplus(Tensor x, Number beta=1.0, Number threshold=20.0) -> Tensor", floating,
      [](auto x, auto beta, auto limit) { return where(x * beta > limit, x, log1p(exp(x * beta)) / beta); },
      Grads{[](auto dy, auto x, auto beta, auto limit, auto) {
        return where(x * beta > limit, dy, dy * sigmoid(x * beta));
      }},
      smooth);
  table.pointwise(
      "softsign(Tensor x) -> Tensor", floating, [](auto x) { return x / (1 + abs(x)); },
      Grads{[](auto dy, auto x, auto) {
        auto d = 1 + abs(x);
        return dy / (d * d);
      }},
      smooth);
  table.pointwise(
      "tanhshrink(Tensor x) -> Tensor", floating, [](auto x) { return x - tanh(x); },
      Grads{[](auto dy, auto x, auto) {
        auto t = tanh(x);
        return dy * (t * t);
      }},
      smooth);
  table.pointwise(
      "softshrink(Tensor x, Number lambda=0.5) -> Tensor", floating,
      [](auto x, auto limit) { return where(x > limit, x - limit, where(x < -limit, x + limit, x * 0)); },
      Grads{[](auto dy, auto x, auto limit, auto) { return where((x >= -limit) && (x <= limit), 0, dy); }},
      kinked);
  table.pointwise(
      "hardshrink(Tensor x, Number lambda=0.5) -> Tensor", floating,
      [](auto x, auto limit) { return where((x >= -limit) && (x <= limit), 0, x); },
      Grads{[](auto dy, auto x, auto limit, auto) { return where((x >= -limit) && (x <= limit), 0, dy); }},
      kinked);
  table.pointwise(
      "threshold(Tensor x, Number threshold, Number value) -> Tensor", common,
      [](auto x, auto limit, auto value) { return where(x <= limit, value, x); },
      Grads{[](auto dy, auto x, auto limit, auto, auto) { return where(x <= limit, 0, dy); }}, kinked);
  table.pointwise(
      "hardsigmoid(Tensor x) -> Tensor", floating, [](auto x) { return minimum(maximum(x + 3, 0), 6) / 6; },
      Grads{[](auto dy, auto x, auto) { return where((x > -3) && (x < 3), dy / 6, 0); }}, kinked);
  table.pointwise(
      "hardswish(Tensor x) -> Tensor", floating, [](auto x) { return x * minimum(maximum(x + 3, 0), 6) / 6; },
      Grads{[](auto dy, auto x, auto) { return where(x <= -3, 0, where(x < 3, dy * (x / 3 + 0.5), dy)); }},
      kinked);
}

template <class Table>
void declare_pointwise_ops(Table& table) {
  declare_arithmetic_ops(table);
  declare_comparison_ops(table);
  declare_math_ops(table);
  declare_activation_ops(table);
}

}  // namespace weft
