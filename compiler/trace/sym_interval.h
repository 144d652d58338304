// Saturating arithmetic on bounds: what a range [min, max] becomes under the operations of Sym.
// Needs sym_table. INT64_MIN and INT64_MAX stand for "unbounded" as lower and as upper bound.
#pragma once

#include <algorithm>

#include "compiler/trace/sym_table.h"

namespace weft::compiler::interval {

inline constexpr int64_t kLow = INT64_MIN, kHigh = INT64_MAX;

constexpr bool is_point(const Interval& x) { return x.min == x.max; }
constexpr bool contains(const Interval& x, int64_t value) { return x.min <= value && value <= x.max; }
constexpr Interval intersect(const Interval& x, const Interval& y) {
  return {std::max(x.min, y.min), std::min(x.max, y.max)};
}

// An unbounded operand keeps the sum unbounded; of two different ones the first wins, so the caller puts the bound of
// its own side first: an upper bound asks with kHigh, a lower one with kLow.
constexpr int64_t add_towards(int64_t unbounded, int64_t a, int64_t b) {
  if (a == unbounded || b == unbounded) return unbounded;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? kLow : kHigh;
  return sum;
}
constexpr int64_t multiply_bounds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const bool is_negative = (a < 0) != (b < 0);
  int64_t product = 0;
  if (a == kLow || a == kHigh || b == kLow || b == kHigh || __builtin_mul_overflow(a, b, &product))
    return is_negative ? kLow : kHigh;
  return product;
}
constexpr int64_t negate_bound(int64_t a) { return a == kLow ? kHigh : a == kHigh ? kLow : -a; }

constexpr Interval add(const Interval& x, const Interval& y) {
  return {add_towards(kLow, x.min, y.min), add_towards(kHigh, x.max, y.max)};
}
constexpr Interval negate(const Interval& x) { return {negate_bound(x.max), negate_bound(x.min)}; }
constexpr Interval multiply(const Interval& x, const Interval& y) {
  const int64_t p = multiply_bounds(x.min, y.min), q = multiply_bounds(x.min, y.max),
                r = multiply_bounds(x.max, y.min), s = multiply_bounds(x.max, y.max);
  return {std::min(std::min(p, q), std::min(r, s)), std::max(std::max(p, q), std::max(r, s))};
}
constexpr Interval scale(const Interval& x, int64_t factor) {
  if (factor == 1) return x;
  const int64_t p = multiply_bounds(x.min, factor), q = multiply_bounds(x.max, factor);
  return {std::min(p, q), std::max(p, q)};
}

// The larger of -x.min and x.max.
constexpr int64_t magnitude(const Interval& x) {
  return std::max(x.min < 0 ? negate_bound(x.min) : x.min, x.max < 0 ? negate_bound(x.max) : x.max);
}

constexpr int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// One bound of x / y for y > 0.
constexpr int64_t divide_bound(bool floors, int64_t a, int64_t b) {
  if (a == kLow || a == kHigh) return a;
  if (b == kHigh) return floors && a < 0 ? -1 : 0;
  return floors ? floor_div(a, b) : a / b;
}
constexpr Interval divide(bool floors, const Interval& x, const Interval& y) {
  if (y.max < 0) return divide(floors, negate(x), negate(y));
  if (y.min <= 0) {  // |x / y| <= |x|
    const int64_t most = magnitude(x);
    return {negate_bound(most), most};
  }
  return {divide_bound(floors, x.min, x.min >= 0 ? y.max : y.min),
          divide_bound(floors, x.max, x.max >= 0 ? y.min : y.max)};
}
// The sign of x is that of the remainder.
constexpr Interval remainder(const Interval& x, const Interval& y) {
  const int64_t divisor = magnitude(y), most = divisor == kHigh ? kHigh : std::max<int64_t>(divisor - 1, 0);
  return {x.min >= 0 ? 0 : std::max(x.min, negate_bound(most)), x.max <= 0 ? 0 : std::min(x.max, most)};
}

}  // namespace weft::compiler::interval
