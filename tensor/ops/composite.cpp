// Composites of pointwise ops: division by rounding mode, clamp, gelu, masked_fill, comparisons of whole tensors.
// Place: the functions of functions.h that only choose among entries of pointwise_ops.h; register.cpp calls the entry list.
#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/fill.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

// The largest finite value of a floating dtype.
double largest_of(DType dtype) {
  switch (dtype) {
    case DType::Float64: return 1.7976931348623157e308;
    case DType::BFloat16: return 0x1.FEp127;
    case DType::Float16: return 65504;
    default: return 0x1.FFFFFEp127;
  }
}

// The number as an element of that dtype would hold it, as far as the category goes: so that it does not promote.
Scalar in_category_of(DType dtype, const Scalar& value) {
  if (category_of(value.dtype()) <= category_of(dtype)) return value;
  if (dtype == DType::Bool) return value.to_bool();
  return value.to_int();
}

// equal and allclose are no ops of the table, which would see to it.
void check_both(const char* name, const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.defined() && b.defined(), name, ": ", a.defined() ? "b" : "a",
             " is an undefined tensor; a tensor is needed");
}

}  // namespace

Tensor div(const Operand& a, const Operand& b, std::string_view rounding_mode, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("div"), where, {a, b});
  if (rounding_mode.empty()) return call(WEFT_OP("true_divide"), {a, b}, where);
  if (rounding_mode == "trunc") return call(WEFT_OP("trunc_divide"), {a, b}, where);
  WEFT_CHECK_AT(where, rounding_mode == "floor", "div: rounding_mode is \"", rounding_mode,
                "\"; it may be \"trunc\", \"floor\" or none for true division");
  return call(WEFT_OP("floor_divide"), {a, b}, where);
}

Tensor rsub(const Operand& a, const Operand& b, const Scalar& alpha, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("rsub"), where, {a, b});
  return sub(b, a, alpha, where);
}

Tensor clamp(const Tensor& x, const Operand& min, const Operand& max, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("clamp"), where, {x, min, max});
  WEFT_CHECK_AT(where, !min.is_none() || !max.is_none(),
                "clamp: neither min nor max is given; one of them is needed");
  if (max.is_none()) return call(WEFT_OP("clamp_min"), {x, min}, where);
  if (min.is_none()) return call(WEFT_OP("clamp_max"), {x, max}, where);
  return call(WEFT_OP("clamp_both"), {x, min, max}, where);
}
Tensor clip(const Tensor& x, const Operand& min, const Operand& max, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("clip"), where, {x, min, max});
  return clamp(x, min, max, where);
}

Tensor gelu(const Tensor& x, std::string_view approximate, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("gelu"), where, {x});
  if (approximate == "none") return call(WEFT_OP("gelu_erf"), {x}, where);
  WEFT_CHECK_AT(where, approximate == "tanh", "gelu: approximate is \"", approximate,
                "\"; it may be \"none\" or \"tanh\"");
  return call(WEFT_OP("gelu_tanh"), {x}, where);
}

Tensor bitwise_not(const Tensor& x, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("bitwise_not"), where, {x});
  if (x.dtype() == DType::Bool) return logical_not(x, where);
  WEFT_CHECK_AT(where, !is_floating(x.dtype()), "bitwise_not: takes integers or bools, not ", x.dtype());
  return bitwise_xor(x, -1, where);
}

Tensor positive(const Tensor& x, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("positive"), where, {x});
  WEFT_CHECK_AT(where, x.dtype() != DType::Bool,
                "positive: a bool tensor has no sign; convert it to a number first");
  return x;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("masked_fill"), where, {x, mask, value});
  const char* const op = scope.called().c_name();
  WEFT_CHECK_AT(where, mask.dtype() == DType::Bool, op, ": the mask is ", mask.dtype(),
                "; it must be bool (mask != 0 makes one)");
  WEFT_CHECK_AT(where, !value.is_none(), op, ": the value is undefined; a number or a 0-d tensor is needed");
  check_element(value, x.dtype(), op);
  if (value.is_scalar) return weft::where(mask, in_category_of(x.dtype(), value.scalar), x, where);
  const Tensor& fill = *value.tensor;
  WEFT_CHECK_AT(where, fill.dim() == 0, op, ": the value has sizes ", fill.sizes(),
                "; a number or a 0-d tensor is needed (where() takes more)");
  return weft::where(mask, fill.to(x.dtype(), false, false, where), x, where);
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf,
                  SourceLocation where) {
  const CompositeScope scope(WEFT_OP("nan_to_num"), where, {x});
  if (!is_floating(x.dtype())) return clone(x, where);
  const double largest = largest_of(x.dtype());
  return call(WEFT_OP("nan_to_num_values"), {x, nan, posinf.value_or(largest), neginf.value_or(-largest)},
              where);
}

// |a - b| <= atol + rtol · |b|, with equal infinities near each other and, if asked for, NaN near NaN.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan,
               SourceLocation where) {
  const CompositeScope scope(WEFT_OP("isclose"), where, {a, b});
  WEFT_CHECK_AT(where, a.dtype() == b.dtype(), "isclose: a is ", a.dtype(), " and b is ", b.dtype(),
                "; both must have one dtype");
  WEFT_CHECK_AT(where, rtol >= 0 && atol >= 0, "isclose: rtol is ", rtol, " and atol ", atol,
                "; neither may be negative");
  Tensor close = eq(a, b, where);
  if (equal_nan && is_floating(a.dtype()))
    close = logical_or(close, logical_and(isnan(a, where), isnan(b, where), where), where);
  if (rtol == 0 && atol == 0) return close;
  const Tensor other = is_floating(b.dtype()) ? b : b.to(default_dtype(), false, false, where);
  const Tensor allowed = add(abs(mul(other, rtol, where), where), atol, 1, where);
  const Tensor error = abs(sub(a, other, 1, where), where);
  return logical_or(close, logical_and(isfinite(error, where), le(error, allowed, where), where), where);
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan,
              SourceLocation where) {
  const PlaceScope place(where);
  check_both("allclose", a, b);
  return all(isclose(a, b, rtol, atol, equal_nan, where), {}, false, where).item(where).to_bool();
}

// False for tensors of different sizes; different dtypes are an Error, as in PyTorch.
bool equal(const Tensor& a, const Tensor& b, SourceLocation where) {
  const PlaceScope place(where);
  check_both("equal", a, b);
  WEFT_CHECK_AT(where, a.dtype() == b.dtype(), "equal: a is ", a.dtype(), " and b is ", b.dtype(),
                "; both must have one dtype");
  if (!(a.sizes() == b.sizes())) return false;
  return all(eq(a, b, where), {}, false, where).item(where).to_bool();
}

void register_composite_ops(OpTable& table) {
  composite(table, "div(Value a, Value b, *, str? rounding_mode=None) -> Tensor", &div);
  composite(table, "rsub(Value a, Value b, *, Scalar alpha=1) -> Tensor", &rsub);
  composite(table, "clamp(Tensor x, Value? min=None, Value? max=None) -> Tensor", &clamp)
      .samples(
          {.distinct = true,
           .calls = {"x=[3,4] min=[3,4] max=[4]", "x=[3,4] min=-1", "x=[5] max=[]", "x=[5] min=-1 max=1"}});
  composite(table, "clip(Tensor x, Value? min=None, Value? max=None) -> Tensor", &clip)
      .samples({.distinct = true, .calls = {"x=[3,4] min=-1 max=1"}});
  composite(table, "gelu(Tensor x, *, str approximate='none') -> Tensor", &gelu);
  composite(table, "bitwise_not(Tensor x) -> Tensor", &bitwise_not);
  composite(table, "positive(Tensor x) -> Tensor", &positive);
  composite(table, "masked_fill(Tensor x, Tensor mask, Value value) -> Tensor", &masked_fill)
      .samples({.calls = {"x=[3,4] mask=[3,4]:bool value=2", "x=[3,4] mask=[4]:bool value=[]"}});
  composite(table, "nan_to_num(Tensor x, float nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
            &nan_to_num);
  composite(table,
            "isclose(Tensor a, Tensor b, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
            &isclose);
}

}  // namespace weft
