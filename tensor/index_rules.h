// MoveRule<S>: which element of its input stands at each place of a rearranged tensor, over plain integers or Sym.
// Needs shape. Rules of flip, roll and pad; shared by shapes, eager kernels and loops.
//
// Along each dimension alone the place in the result decides the place in the input, by pieces of i -> start + step · i:
// a loop turns a dimension into `where`s over its pieces, a kernel into copies of stretches.
#pragma once

#include "tensor/layout.h"

namespace weft {

template <class S>
struct Piece {
  S length;              // how many places of the result, from the end of the piece before; may be 0
  S start{};             // the input's place for the first of them
  int step = 1;          // 1, -1 or 0 (one element repeated)
  bool is_fill = false;  // no input: the fill value
};
template <class S>
using Pieces = SmallVector<Piece<S>, 3>;

template <class S>
struct MoveRule {
  SmallVector<Pieces<S>, kInlineRank> dims;

  // The result's size in dimension d.
  S size(size_t d) const {
    S total = detail::size_of_int<S>(0);
    for (const Piece<S>& piece : dims[d]) total = total + piece.length;
    return total;
  }
};

namespace index_rules {

template <class S>
S zero() {
  return detail::size_of_int<S>(0);
}

template <class S>
Pieces<S> kept(S n) {
  return {{n, zero<S>()}};
}

template <class S>
Pieces<S> flipped(S n) {
  return {{n, n - 1, -1}};
}

// result[i] = x[(i - shift) mod n]
template <class S>
Pieces<S> rolled(S n, S shift) {
  if (n == 0) return kept(n);
  const S first = (shift % n + n) % n;
  return {{first, n - first}, {n - first, zero<S>()}};
}

enum class PadMode : uint8_t { Constant, Reflect, Replicate, Circular };

// `low` places before and `high` after; negative ones cut instead. Reflect needs low, high < n; circular low, high <= n.
template <class S>
Pieces<S> padded(S n, S low, S high, PadMode mode) {
  Pieces<S> pieces;
  S start = zero<S>(), kept_length = n;
  if (low > 0) {
    switch (mode) {
      case PadMode::Constant: pieces.push_back({low, zero<S>(), 0, true}); break;
      case PadMode::Reflect: pieces.push_back({low, low, -1}); break;
      case PadMode::Replicate: pieces.push_back({low, zero<S>(), 0}); break;
      case PadMode::Circular: pieces.push_back({low, n - low}); break;
    }
  } else {
    start = -low;
    kept_length = kept_length + low;
  }
  if (high < 0) kept_length = kept_length + high;
  pieces.push_back({kept_length, start});
  if (high > 0) {
    switch (mode) {
      case PadMode::Constant: pieces.push_back({high, zero<S>(), 0, true}); break;
      case PadMode::Reflect: pieces.push_back({high, n - 2, -1}); break;
      case PadMode::Replicate: pieces.push_back({high, n - 1, 0}); break;
      case PadMode::Circular: pieces.push_back({high, zero<S>()}); break;
    }
  }
  return pieces;
}

}  // namespace index_rules
}  // namespace weft
