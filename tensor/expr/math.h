// The math functions, one definition for eager kernels and for printed code: name_f32(v) and name_f64(v).
// Needs nothing; tensor/cpu/vec_math.h runs them over Vec, the printers over a symbolic value.
//
// A value type V supplies, found by its arguments: + - * / unary-, scalars on either side, V(scalar), comparisons,
// & | ! on their masks, where(mask, a, b), fma(a, b, c), exact_fma(a, b, c) (an fma that stays exact for error terms on
// machines without one; printers print it as fma), sqrt, abs, floor, trunc, round_even, maximum, minimum, is_nan,
// copysign, as_int and as_float (bits), to_int and to_float (values known to fit, integer < 2^51), to_f32 and to_f64,
// + - * & | ^ << >> on integer values and lookup(table, index).
#pragma once

#include "tensor/expr/math_division.h"
#include "tensor/expr/math_exponential.h"
#include "tensor/expr/math_gamma.h"
#include "tensor/expr/math_power.h"
#include "tensor/expr/math_special.h"
#include "tensor/expr/math_trigonometric.h"
