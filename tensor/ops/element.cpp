// Shared element rules.
// Place: the out-of-line half of tensor/ops/element.h.
#include "tensor/ops/element.h"

#include "tensor/cpu/convert.h"
#include "tensor/index_rules.h"
#include "tensor/ops/fill.h"

namespace weft::element {
namespace {

// An element as a constant.
Expr constant(ExprGraph& graph, const void* bytes, DType dtype) {
  const DType compute = compute_dtype(dtype);
  uint64_t bits = 0;
  cpu::convert_kernel(dtype, compute)(bytes, 1, &bits, 1, 1);
  return cast(graph.make(Prim::Constant, compute, {}, bits), dtype);
}

bool is_plain(const Scalar& value) { return !value.is_traced() && !value.is_symbolic(); }
DType wide_dtype(const Scalar& value) { return value.is_floating() ? DType::Float64 : DType::Int64; }

// Whether every number of the category lies within the dtype.
bool holds_all(DType dtype, Scalar::Category category) {
  if (dtype == DType::Bool || dtype == DType::Float64 || category == Scalar::Category::Bool) return true;
  if (category == Scalar::Category::Floating) return false;
  return dtype == DType::Int64 || dtype == DType::Float32 || dtype == DType::BFloat16;
}

}  // namespace

bool is_known_empty(const Sizes& sizes) {
  for (const Sym size : sizes)
    if (is_known(size, 0)) return true;
  return false;
}

bool may_be_empty_beside(const Sizes& sizes, size_t first, size_t count) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if ((d < first || d >= first + count) && !statically_known(SymCompare::Gt, sizes[d], Sym::from_int(0)))
      return true;
  return false;
}

Expr choose(const Expr& condition, const Expr& a, const Expr& b) {
  const DType dtype = a.dtype(), compute = compute_dtype(dtype);
  return cast(where(condition, cast(a, compute), cast(b, compute)), dtype);
}

Expr both(const Expr& a, const Expr& b) {
  if (a.is_number()) return b;
  return b.is_number() ? a : a & b;
}

Expr number(LoopReader& loop, const Scalar& value, DType dtype) {
  const DType wide = wide_dtype(value);
  if (!is_plain(value)) return cast(loop.number(value, wide), dtype);
  alignas(8) char bytes[8] = {};
  const double floating = value.is_floating() ? value.to_double() : 0;
  const int64_t integer = value.is_floating() ? 0 : value.to_int();
  cpu::convert_kernel(wide, dtype)(value.is_floating() ? static_cast<const void*>(&floating) : &integer, 1,
                                   bytes, 1, 1);
  return constant(loop.graph(), bytes, dtype);
}

Expr checked_number(LoopReader& loop, const Scalar& value, DType dtype, const char* op) {
  if (!is_plain(value)) return holds_all(dtype, value.category()) ? number(loop, value, dtype) : Expr();
  try {
    return constant(loop.graph(), Element(value, dtype, op).bytes, dtype);
  } catch (const Error&) {
    return {};  // the kernel says so when it runs
  }
}

Sym row_major(const Sizes& sizes, std::span<const Sym> place) {
  Sym index = Sym::from_int(0);
  for (size_t d = 0; d < sizes.size(); ++d) index = index * sizes[d] + place[d];
  return index;
}

// ---- Moves ----------------------------------------------------------------------------------------------------------

namespace {

// A piece that is not known to be empty, and where it lies in the result.
struct Stretch {
  Piece<Sym> piece;
  Sym begin, end;
  bool is_first, is_last;

  Sym source(Sym place) const { return piece.start + piece.step * (place - begin); }
  // Without graph where the stretch is all there is.
  Expr holds(LoopReader& loop, Sym place) const {
    Expr inside;
    if (!is_first) inside = loop.place(place) >= loop.place(begin);
    if (!is_last) inside = both(inside, loop.place(place) < loop.place(end));
    return inside;
  }
};
using Stretches = SmallVector<Stretch, 3>;

Stretches stretches_of(const Pieces<Sym>& pieces) {
  Stretches stretches;
  Sym begin = Sym::from_int(0);
  for (const Piece<Sym>& piece : pieces) {
    if (is_known(piece.length, 0)) continue;
    stretches.push_back({piece, begin, begin + piece.length, stretches.empty(), false});
    begin = begin + piece.length;
  }
  if (!stretches.empty()) stretches.back().is_last = true;
  return stretches;
}

// The first of the choices whose stretch ends beyond `place`, the last one otherwise.
Expr first_beyond(LoopReader& loop, const Stretches& stretches, Sym place, std::span<const Expr> choices) {
  Expr value = choices.back();
  for (size_t k = choices.size() - 1; k-- > 0;)
    value = where(loop.place(place) < loop.place(stretches[k].end), choices[k], value);
  return value;
}

}  // namespace

// Where several stretches of a dimension are copied, the innermost such dimension chooses between loads, whose places move
// evenly; the others choose the index, which is the same along whole rows.
Expr of_move(LoopReader& loop, const Call& call, const OutputSpec& result, std::span<const Sym> place) {
  const MoveRule<Sym> rule = call.op.move(call);
  const bool has_fill = call.operands.size() > 1 && call.operands[1].is_scalar;
  const Expr fill =
      checked_number(loop, has_fill ? call.operands[1].scalar : Scalar(0), result.dtype, call.name());
  if (fill.graph == nullptr) return fill;
  const DType compute = compute_dtype(result.dtype);

  Place at = copy_of(place);
  Expr inside;  // no dimension is in a fill
  Stretches by_load;
  size_t load_dim = 0;
  for (size_t d = rule.dims.size(); d-- > 0;) {
    Stretches copies;
    Expr copied;
    for (const Stretch& stretch : stretches_of(rule.dims[d])) {
      if (!stretch.piece.is_fill) {
        copies.push_back(stretch);
        continue;
      }
      const Expr filled = stretch.holds(loop, place[d]);
      if (filled.is_number()) return fill;
      copied = both(copied, !filled);
    }
    if (copies.empty()) return fill;
    inside = both(inside, copied);
    if (copies.size() == 1) {
      at[d] = copies[0].source(place[d]);
    } else if (by_load.empty()) {
      by_load = copies;
      load_dim = d;
    } else {
      SmallVector<Expr, 3> sources;
      for (const Stretch& copy : copies) sources.push_back(loop.place(copy.source(place[d])));
      Expr source = first_beyond(loop, copies, place[d], {sources.data(), sources.size()});
      if (!copied.is_number()) source = where(copied, source, 0);
      at[d] = loop.index(source, call.tensor(0)->layout.sizes[d]);
    }
  }

  const auto read = [&](const Expr& condition) {
    const std::span<const Sym> from(at.data(), at.size());
    return cast(condition.is_number() ? loop.load(0, from) : loop.load_where(condition, 0, from), compute);
  };
  Expr value;
  if (by_load.empty()) {
    value = read(inside);
  } else {
    SmallVector<Expr, 3> reads;
    for (const Stretch& copy : by_load) {
      at[load_dim] = copy.source(place[load_dim]);
      reads.push_back(read(both(inside, copy.holds(loop, place[load_dim]))));
    }
    value = first_beyond(loop, by_load, place[load_dim], {reads.data(), reads.size()});
  }
  if (!inside.is_number()) value = where(inside, value, cast(fill, compute));
  return cast(value, result.dtype);
}

}  // namespace weft::element
