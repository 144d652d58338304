// What the element rules of several entries share: choices between elements, numbers as elements, the rule of all moves.
// Needs loop_rule. Used by the create, index, view and random entries.
#pragma once

#include "tensor/loop_rule.h"

namespace weft::element {

using Place = SmallVector<Sym, kInlineRank>;
inline Place copy_of(std::span<const Sym> place) { return {place.begin(), place.end()}; }

// Equal in every call.
inline bool is_known(Sym a, int64_t b) { return statically_known(SymCompare::Eq, a, Sym::from_int(b)); }
bool is_known_empty(const Sizes& sizes);
// A size may be 0 in some call, `count` of them from `first` apart.
bool may_be_empty_beside(const Sizes& sizes, size_t first, size_t count);

// where() for elements of any dtype.
Expr choose(const Expr& condition, const Expr& a, const Expr& b);
// Both where both are there; an Expr without graph is no condition.
Expr both(const Expr& a, const Expr& b);

// A number as an element; one outside the dtype saturates.
Expr number(LoopReader& loop, const Scalar& value, DType dtype);
// The same checked as Element checks it. Without graph where only the kernel can tell whether the number fits.
Expr checked_number(LoopReader& loop, const Scalar& value, DType dtype, const char* op);

// The number of the element at `place` in row-major order.
Sym row_major(const Sizes& sizes, std::span<const Sym> place);

// The rule of every op with Op::move. Operand 1, where it is a number, fills.
Expr of_move(LoopReader& loop, const Call& call, const OutputSpec& result, std::span<const Sym> place);

}  // namespace weft::element
