// The index ops that rearrange: cat, flip, roll, pad, triangles; and the composites stack, repeat, diag, one_hot.
// Place: register_index_ops calls register_rearrange_ops.
#include <algorithm>

#include "tensor/index_rules.h"
#include "tensor/ops/check.h"
#include "tensor/ops/element.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/index_operands.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

using namespace index_ops;

// ---- cat ------------------------------------------------------------------------------------------------------------

// PyTorch's old form of "nothing": a tensor of sizes [0] goes with any others.
bool is_skipped(size_t rank, const Sizes& sizes) { return rank != 1 && sizes.size() == 1; }

template <class SizesOf>
size_t cat_rank(size_t count, const SizesOf& sizes_of_part) {
  for (size_t i = 0; i < count; ++i)
    if (sizes_of_part(i).size() != 1) return sizes_of_part(i).size();
  return 1;
}

size_t cat_rank(const Call& call) {
  return cat_rank(call.operands.size(),
                  [&](size_t i) -> const Sizes& { return call.tensor(i)->layout.sizes; });
}

OutputSpecs infer_cat(const Call& call) {
  WEFT_CHECK(!call.operands.empty(), call.name(), ": the list of tensors is empty");
  const size_t rank = cat_rank(call);
  WEFT_CHECK(rank > 0, call.name(),
             ": a tensor without dimensions cannot be joined; stack() makes a new dimension");
  const auto dim =
      static_cast<size_t>(normalize_dim(call.attr(0).as_int(), static_cast<int64_t>(rank), call.name()));
  const Tensor* first = nullptr;
  Sizes sizes;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Tensor& part = call.tensor(i);
    const Sizes& part_sizes = part->layout.sizes;
    if (is_skipped(rank, part_sizes) && part_sizes[0] == 0) continue;
    WEFT_CHECK(part_sizes.size() == rank, call.name(), ": tensor ", i, " is ", part.sizes(),
               "; all must have ", rank, " dimensions");
    if (first == nullptr) {
      first = &part;
      sizes = part_sizes;
      continue;
    }
    for (size_t d = 0; d < rank; ++d) {
      WEFT_CHECK(d == dim || part_sizes[d] == sizes[d], call.name(), ": tensor ", i, " is ", part.sizes(),
                 " and an earlier one ", first->sizes(), "; they may differ in dimension ", dim, " alone");
    }
    sizes[dim] += part_sizes[dim];
  }
  if (first == nullptr) sizes = {Sym::from_int(0)};
  return {{sizes, result_type(call.operands), call.tensor(0)->device}};
}

void run_cat(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  if (int_numel(out) == 0) return;
  const size_t rank = cat_rank(call);
  const auto dim =
      static_cast<size_t>(normalize_dim(call.attr(0).as_int(), static_cast<int64_t>(rank), call.name()));
  std::vector<const Tensor*> parts;
  int64_t rows = 1;
  for (size_t d = 0; d < dim; ++d) rows *= int_sizes(out)[d];
  bool joins = rows > 1;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Tensor& part = call.tensor(i);
    if (is_skipped(rank, part->layout.sizes) || int_numel(part) == 0) continue;
    parts.push_back(&part);
    joins = joins && part.is_contiguous() && part->dtype == out->dtype;
  }
  if (joins) {
    std::vector<cpu::RowPart> row_parts;
    for (const Tensor* part : parts)
      row_parts.push_back({bytes_of(*part), static_cast<int64_t>(part->nbytes()) / rows});
    cpu::join_rows(row_parts, rows, bytes_of(out));
    return;
  }
  Layout<Sym> layout = out->layout;
  for (const Tensor* part : parts) {
    layout.sizes[dim] = (*part)->layout.sizes[dim];
    copy_data(*part, make_view(out, layout));
    layout.offset += layout.sizes[dim] * layout.strides[dim];
  }
}

Expr cat_element(LoopReader& loop, const Call& call, const OutputSpec& result, std::span<const Sym> place) {
  struct Part {
    size_t operand;
    Sym begin, end;
  };
  SmallVector<Part, 8> parts;
  const size_t rank = cat_rank(call);
  const auto dim =
      static_cast<size_t>(normalize_dim(call.attr(0).as_int(), static_cast<int64_t>(rank), call.name()));
  Sym begin = Sym::from_int(0);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Sizes& sizes = call.tensor(i)->layout.sizes;
    if (is_skipped(rank, sizes) || element::is_known(sizes[dim], 0)) continue;
    parts.push_back({i, begin, begin + sizes[dim]});
    begin = begin + sizes[dim];
  }
  if (parts.empty()) return {};
  const Sym along = place[dim];
  const DType compute = compute_dtype(result.dtype);
  Expr value;
  for (size_t k = parts.size(); k-- > 0;) {
    Expr inside;
    if (k > 0) inside = loop.place(along) >= loop.place(parts[k].begin);
    if (k + 1 < parts.size()) inside = element::both(inside, loop.place(along) < loop.place(parts[k].end));
    element::Place at = element::copy_of(place);
    at[dim] = along - parts[k].begin;
    const std::span<const Sym> from(at.data(), at.size());
    const Expr read = inside.is_number() ? loop.load(parts[k].operand, from)
                                         : loop.load_where(inside, parts[k].operand, from);
    const Expr part = cast(cast(read, result.dtype), compute);
    value = value.is_number() ? part : where(loop.place(along) < loop.place(parts[k].end), part, value);
  }
  return cast(value, result.dtype);
}

Tensor cat_grad(Dy<> dy, const GradCall& g, Which which, const Attrs& attrs) {
  const OutputSpec& part = g.input_specs[which.index];
  const size_t rank =
      cat_rank(g.input_specs.size(), [&](size_t i) -> const Sizes& { return g.input_specs[i].sizes; });
  if (is_skipped(rank, part.sizes))
    return zeros(SymList(part.sizes), TensorOptions(part.dtype).device(part.device));
  const int64_t dim = normalize_dim(attrs[0].as_int(), static_cast<int64_t>(rank), "cat");
  Sym start = Sym::from_int(0);
  for (size_t i = 0; i < which.index; ++i) {
    const Sizes& sizes = g.input_specs[i].sizes;
    if (!is_skipped(rank, sizes)) start += sizes[static_cast<size_t>(dim)];
  }
  return narrow(dy, dim, start, part.sizes[static_cast<size_t>(dim)]).to(part.dtype);
}

// ---- Ops made of pieces: index_rules.h says where each element comes from -----------------------------------------------

OutputSpecs infer_move(const Call& call) {
  const Tensor& x = call.tensor(0);
  const MoveRule<Sym> rule = call.op.move(call);
  Sizes sizes;
  for (size_t d = 0; d < rule.dims.size(); ++d) sizes.push_back(rule.size(d));
  return {{sizes, x->dtype, x->device}};
}

void run_move(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  MoveRule<int64_t> rule;
  for (const Pieces<Sym>& pieces : call.op.move(call).dims) {
    Pieces<int64_t> real;
    for (const Piece<Sym>& piece : pieces)
      real.push_back({piece.length.concrete(), piece.start.concrete(), piece.step, piece.is_fill});
    rule.dims.push_back(std::move(real));
  }
  const bool has_fill = call.operands.size() > 1 && call.operands[1].is_scalar;
  const Tensor fill = number_tensor(has_fill ? call.operands[1].scalar : Scalar(0), x->dtype, call.name());
  const auto rank = static_cast<size_t>(x.dim());
  cpu::move(rule, {int_sizes(x), rank}, {int_strides(x), rank}, x.itemsize(), bytes_of(x), bytes_of(fill),
            bytes_of(outputs[0]));
}

// What flows back through the pieces of dimension `dim`, whose input has n places: each place of the input gets the sum
// of those it was copied to.
Tensor move_back(const Tensor& dy, const Pieces<Sym>& pieces, int64_t dim, Sym n) {
  Tensor dx;
  Sym at = Sym::from_int(0);
  for (const Piece<Sym>& piece : pieces) {
    if (!piece.is_fill) {
      Tensor part = narrow(dy, dim, at, piece.length);
      Sym first = piece.start, length = piece.length;
      if (piece.step == -1) {
        part = flip(part, {dim});
        first = piece.start - piece.length + 1;
      } else if (piece.step == 0) {
        part = sum(part, {dim}, true);
        length = Sym::from_int(1);
      }
      SymList pads;
      for (int64_t d = dy.dim() - 1; d > dim; --d) pads.insert(pads.end(), {Sym(), Sym()});
      pads.push_back(first);
      pads.push_back(n - first - length);
      part = pad(part, pads);
      dx = dx.defined() ? dx + part : part;
    }
    at += piece.length;
  }
  return dx;
}

MoveRule<Sym> rule_that_keeps(const Sizes& sizes) {
  MoveRule<Sym> rule;
  for (Sym size : sizes) rule.dims.push_back(index_rules::kept(size));
  return rule;
}

MoveRule<Sym> flip_rule(const Call& call) {
  const Tensor& x = call.tensor(0);
  MoveRule<Sym> rule = rule_that_keeps(x->layout.sizes);
  SmallVector<bool, 8> seen(static_cast<size_t>(rank_of(x)), false);
  for (int64_t given : call.attr(0).as_dims()) {
    const auto d = static_cast<size_t>(normalize_dim(given, x.dim(), call.name()));
    WEFT_CHECK(!seen[d], call.name(), ": dimension ", given, " occurs twice in ", call.attr(0).as_dims());
    seen[d] = true;
    if (x.dim() > 0) rule.dims[d] = index_rules::flipped(x->layout.sizes[d]);
  }
  return rule;
}

MoveRule<Sym> roll_rule(const Call& call) {
  const Tensor& x = call.tensor(0);
  const SymList& shifts = call.attr(0).as_sizes();
  const DimList& dims = call.attr(1).as_dims();
  WEFT_CHECK(shifts.size() == dims.size(), call.name(), ": ", shifts.size(), " shifts for ", dims.size(),
             " dimensions; there must be one for each");
  Sizes total(static_cast<size_t>(x.dim()), Sym());
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<size_t>(normalize_dim(dims[i], x.dim(), call.name()));
    if (x.dim() == 0) continue;
    // Whole turns fall away first, so that shifts of one dimension may add up beyond 64 bits.
    const Sym n = x->layout.sizes[d];
    const bool is_plain = !shifts[i].is_symbolic() && !n.is_symbolic();
    total[d] += !is_plain ? shifts[i] : n == 0 ? Sym() : shifts[i] % n;
  }
  MoveRule<Sym> rule;
  for (size_t d = 0; d < total.size(); ++d)
    rule.dims.push_back(statically_known(SymCompare::Eq, total[d], Sym())
                            ? index_rules::kept(x->layout.sizes[d])
                            : index_rules::rolled(x->layout.sizes[d], total[d]));
  return rule;
}

index_rules::PadMode pad_mode(const char* op, const std::string& mode) {
  using index_rules::PadMode;
  if (mode == "constant") return PadMode::Constant;
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "replicate") return PadMode::Replicate;
  if (mode == "circular") return PadMode::Circular;
  WEFT_CHECK(false, op, ": mode is \"", mode, "\"; it must be constant, reflect, replicate or circular");
}

MoveRule<Sym> pad_rule(const char* op, const Sizes& sizes, const Attrs& attrs) {
  using index_rules::PadMode;
  const SymList& pads = attrs[0].as_sizes();
  const PadMode mode = pad_mode(op, attrs[1].as_string());
  WEFT_CHECK(pads.size() % 2 == 0 && pads.size() <= 2 * sizes.size(), op, ": pads are ", SizesView(pads),
             "; x ", SizesView(sizes), " takes a pair for each dimension from the last on, at most ",
             sizes.size());
  MoveRule<Sym> rule = rule_that_keeps(sizes);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const size_t d = sizes.size() - 1 - i;
    const Sym n = sizes[d], low = pads[2 * i], high = pads[2 * i + 1];
    if (statically_known(SymCompare::Eq, low, Sym()) && statically_known(SymCompare::Eq, high, Sym()))
      continue;
    const Sym cut_low = low < 0 ? -low : Sym(), cut_high = high < 0 ? -high : Sym();
    WEFT_CHECK(cut_low + cut_high <= n, op, ": pads ", low, " and ", high, " cut more than dimension ", d,
               " of x ", SizesView(sizes), " has");
    if (mode != PadMode::Constant) {
      const Sym most = mode == PadMode::Reflect ? n - 1 : n;
      const bool fits =
          mode == PadMode::Replicate ? n > 0 || (low <= 0 && high <= 0) : low <= most && high <= most;
      WEFT_CHECK(fits, op, ": mode ", attrs[1].as_string(), " cannot add ", low, " and ", high,
                 " to dimension ", d, " of x ", SizesView(sizes), ": there is too little to copy");
    }
    rule.dims[d] = index_rules::padded(n, low, high, mode);
  }
  return rule;
}

MoveRule<Sym> pad_rule_of(const Call& call) {
  return pad_rule(call.name(), call.tensor(0)->layout.sizes, call.attrs);
}

// By size.  A shift by n and more is one by what is left; as it stands, its negative need not be a Sym.
SymList turned_back(const SymList& shifts, const DimList& dims, const Sizes& sizes) {
  SymList result;
  for (size_t i = 0; i < shifts.size(); ++i) {
    if (sizes.empty()) {
      result.push_back(Sym());
      continue;
    }
    const Sym n =
        sizes[static_cast<size_t>(normalize_dim(dims[i], static_cast<int64_t>(sizes.size()), "roll"))];
    result.push_back(statically_known(SymCompare::Eq, n, Sym()) ? Sym() : -(shifts[i] % n));
  }
  return result;
}

SymList negated(const SymList& values) {
  SymList result;
  for (Sym value : values) result.push_back(-value);
  return result;
}

Tensor pad_grad(Dy<> dy, InSpec<0> x, const Attrs& attrs) {
  if (attrs[1].as_string() == "constant") return pad(dy, negated(attrs[0].as_sizes()));
  const MoveRule<Sym> rule = pad_rule("pad", x.spec.sizes, attrs);
  Tensor dx = dy;
  for (size_t d = 0; d < rule.dims.size(); ++d) {
    if (2 * (rule.dims.size() - d) > attrs[0].as_sizes().size()) continue;
    dx = move_back(dx, rule.dims[d], static_cast<int64_t>(d), x.spec.sizes[d]);
  }
  return dx;
}

Entry move_op(OpTable& table, const char* schema, MoveRule<Sym> (*rule)(const Call&)) {
  Entry result = entry(table, schema, Kind::Index);
  result.op().move = rule;
  return result.infer(infer_move).cpu(run_move).element(element::of_move);
}

// ---- Triangles ------------------------------------------------------------------------------------------------------

OutputSpecs infer_triangle(const Call& call) {
  const Tensor& x = call.tensor(0);
  WEFT_CHECK(x.dim() >= 2, call.name(), ": x ", x.sizes(), " must have at least two dimensions");
  return like_operand_0(call);
}

template <bool lower>
void clear_other_triangle(const Call& call, const Tensor& x) {
  infer_triangle(call);
  const int64_t* end = int_sizes(x) + x.dim();
  const int64_t diagonal = std::clamp(static_cast<int64_t>(call.attr(0).as_int()), -end[-2] - 1, end[-1] + 1);
  cpu::clear_triangle({sizes_of(x), {strides_of(x)}}, x.itemsize(), diagonal, lower, bytes_of(x));
}

template <bool lower>
Expr triangle_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                      std::span<const Sym> place) {
  const Expr row = loop.place(place[place.size() - 2]), column = loop.place(place[place.size() - 1]);
  const Expr diagonal = loop.place(call.attr(0).as_int());
  const Expr kept = lower ? column - row <= diagonal : column - row >= diagonal;
  return element::choose(kept, loop.load_where(kept, 0, place), element::number(loop, 0, result.dtype));
}

}  // namespace

void register_rearrange_ops(OpTable& table) {
  // Promotes as PyTorch does; tensors of sizes [0] are skipped.
  entry(table, "cat(Tensor[] tensors, int dim=0) -> Tensor", Kind::Index)
      .infer(infer_cat)
      .cpu(run_cat)
      .element(cat_element)
      .grad([](Dy<> dy, const GradCall& g, Which which, const Attrs& attrs) {
        return cat_grad(dy, g, which, attrs);
      })
      .samples({.calls = {"tensors=[[2,3],[4,3]]", "tensors=[[2,3],[2,1],[2,0]] dim=1", "tensors=[[0],[2,3]]",
                          "tensors=[[3],[2]] dim=-1", "tensors=[[2,3,2],[2,1,2]] dim=-2",
                          "tensors=[[2,3],[3,3]:i8,[1,3]:f16] dim=0", "tensors=[[2]:i64,[3]:f16]"}});
  composite(table, "stack(Tensor[] tensors, int dim=0) -> Tensor",
            static_cast<Tensor (*)(TensorList, int64_t, SourceLocation)>(&stack))
      .samples({.calls = {"tensors=[[2,3],[2,3]] dim=1", "tensors=[[],[]]", "tensors=[[3]] dim=-1"}});

  move_op(table, "flip(Tensor x, int[] dims) -> Tensor", flip_rule).grad([](Dy<> dy, const Attrs& attrs) {
    return flip(dy, attrs[0].as_dims());
  });
  // roll turns "no dims" into the flat form; this is what stays.
  move_op(table, "roll_along(Tensor x, SymInt[] shifts, int[] dims) -> Tensor", roll_rule)
      .grad([](Dy<> dy, const Attrs& attrs) {
        const DimList& dims = attrs[1].as_dims();
        return roll(dy, turned_back(attrs[0].as_sizes(), dims, dy->layout.sizes), dims);
      })
      .samples({.calls = {"x=[3,5] shifts=[2] dims=[1]", "x=[3,5] shifts=[-4,1] dims=[1,0]",
                          "x=[0,5] shifts=[2] dims=[0]"}});
  composite(table, "roll(Tensor x, SymInt[] shifts, int[] dims=[]) -> Tensor", &roll)
      .samples({.calls = {"x=[3,5] shifts=[2] dims=[1]", "x=[3,5] shifts=[7]"}});
  move_op(table, "pad(Tensor x, SymInt[] pads, str mode=\"constant\", Number value=0) -> Tensor", pad_rule_of)
      .grad([](Dy<> dy, InSpec<0> x, const Attrs& attrs) { return pad_grad(dy, x, attrs); })
      .samples({.calls = {"x=[3,4] pads=[1,2]", "x=[3,4] pads=[-1,2,0,-1] value=3",
                          "x=[3,4] pads=[2,3] mode=reflect", "x=[3,4] pads=[2,3,1,1] mode=replicate",
                          "x=[3,4] pads=[2,4,-1,1] mode=circular", "x=[2,0] pads=[1,1]",
                          "x=[3] pads=[1,1] value=1.000488281715661"}});

  // What lies on and below (above) the diagonal; the rest is 0.
  entry(table, "tril(Tensor x, int diagonal=0) -> Tensor", Kind::Index)
      .infer(infer_triangle)
      .cpu(run_on_copy<clear_other_triangle<true>>)
      .element(triangle_element<true>)
      .grad([](Dy<> dy, const Attrs& attrs) { return tril(dy, attrs[0].as_int()); })
      .samples({.calls = {"x=[3,4]", "x=[2,4,3] diagonal=1", "x=[4,4] diagonal=-1", "x=[2,0]"}});
  mutation(table, "tril_", "tril", clear_other_triangle<true>);
  entry(table, "triu(Tensor x, int diagonal=0) -> Tensor", Kind::Index)
      .infer(infer_triangle)
      .cpu(run_on_copy<clear_other_triangle<false>>)
      .element(triangle_element<false>)
      .grad([](Dy<> dy, const Attrs& attrs) { return triu(dy, attrs[0].as_int()); })
      .samples({.calls = {"x=[3,4]", "x=[2,4,3] diagonal=1", "x=[4,4] diagonal=-1", "x=[2,0]"}});
  mutation(table, "triu_", "triu", clear_other_triangle<false>);

  composite(table, "repeat(Tensor x, SymInt[] repeats) -> Tensor", &repeat)
      .samples({.calls = {"x=[2,3] repeats=[2,1,2]", "x=[3] repeats=[1]", "x=[2,3] repeats=[0,2]"}});
  composite(table, "tile(Tensor x, SymInt[] repeats) -> Tensor", &tile)
      .samples({.calls = {"x=[2,3] repeats=[2]", "x=[2,3] repeats=[2,1,3]"}});
  composite(table, "repeat_interleave(Tensor x, SymInt repeats, int? dim=None) -> Tensor", &repeat_interleave)
      .samples({.calls = {"x=[2,3] repeats=2 dim=1", "x=[2,3] repeats=3"}});
  composite(table, "diag(Tensor x, int diagonal=0) -> Tensor", &diag)
      .samples({.calls = {"x=[3]", "x=[3] diagonal=-1", "x=[2] diagonal=2", "x=[3,4] diagonal=1"}});
  composite(table, "one_hot(Tensor x, int num_classes=-1) -> Tensor", &one_hot)
      .index_error([](const Call& set, int64_t place, int64_t value) {
        Sizes at(set.tensor(1)->layout.sizes);  // of the classes, with one dimension more
        for (size_t d = at.size(); d-- > 0;) {
          const int64_t size = at[d].concrete();
          at[d] = Sym::from_int(place % size);
          place /= size;
        }
        if (!at.empty()) at.pop_back();
        return detail::concat("one_hot: x holds class ", value, " at ", at, ", but num_classes is ",
                              set.tensor(0).size(-1), ": classes count from 0");
      })
      .samples({.calls = {"x=[3]:i64<4 num_classes=5", "x=[2,2]:i64<3"}});
}

// ---- Functions and methods --------------------------------------------------------------------------------------------

Tensor cat(TensorList tensors, int64_t dim, SourceLocation where) {
  SmallVector<Operand, 8> operands;
  for (const Tensor& tensor : tensors) operands.push_back(Operand(tensor));
  return call(WEFT_OP("cat"), operands, {dim}, where);
}
Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim, SourceLocation where) {
  return cat(TensorList(tensors.begin(), tensors.size()), dim, where);
}

Tensor stack(TensorList tensors, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("stack"), where);
  WEFT_CHECK_AT(where, !tensors.empty(), "stack: the list of tensors is empty");
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    WEFT_CHECK_AT(where, tensor.sizes() == tensors[0].sizes(), "stack: tensor ", parts.size(), " is ",
                  tensor.sizes(), " and the first ", tensors[0].sizes(), "; all must have equal sizes");
    parts.push_back(unsqueeze(tensor, dim, where));
  }
  return cat(parts, dim, where);
}
Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim, SourceLocation where) {
  return stack(TensorList(tensors.begin(), tensors.size()), dim, where);
}

Tensor flip(const Tensor& x, const DimList& dims, SourceLocation where) {
  return call(WEFT_OP("flip"), {x}, {dims}, where);
}

Tensor roll(const Tensor& x, const SymList& shifts, const DimList& dims, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("roll"), where, {x});
  if (!dims.empty()) return call(WEFT_OP("roll_along"), {x}, {shifts, dims}, where);
  WEFT_CHECK_AT(where, shifts.size() == 1, "roll: ", shifts.size(),
                " shifts without dims; one rolls the flattened tensor");
  return reshape(call(WEFT_OP("roll_along"), {flatten(x, 0, -1, where)}, {shifts, DimList{0}}, where),
                 x.sizes(), where);
}

Tensor pad(const Tensor& x, const SymList& pads, std::string_view mode, const Scalar& value,
           SourceLocation where) {
  return call(WEFT_OP("pad"), {x, value}, {pads, mode}, where);
}

namespace {
// Diagonals beyond any tensor are all alike, and an attribute does not hold the lowest integers.
int64_t near_diagonal(int64_t diagonal) {
  constexpr int64_t far = int64_t{1} << 61;
  return std::clamp(diagonal, -far, far);
}
}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal, SourceLocation where) {
  return call(WEFT_OP("tril"), {x}, {near_diagonal(diagonal)}, where);
}
Tensor triu(const Tensor& x, int64_t diagonal, SourceLocation where) {
  return call(WEFT_OP("triu"), {x}, {near_diagonal(diagonal)}, where);
}
Tensor& Tensor::tril_(int64_t diagonal, SourceLocation where) {
  call_mutation(WEFT_OP("tril_"), {*this}, {near_diagonal(diagonal)}, where);
  return *this;
}
Tensor& Tensor::triu_(int64_t diagonal, SourceLocation where) {
  call_mutation(WEFT_OP("triu_"), {*this}, {near_diagonal(diagonal)}, where);
  return *this;
}

// A repeated dimension is two: an expanded one and that of x. Copied, both become one.
Tensor repeat(const Tensor& x, const SymList& repeats, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("repeat"), where, {x});
  const auto rank = static_cast<size_t>(x.dim());
  WEFT_CHECK_AT(where, repeats.size() >= rank, "repeat: ", SizesView(repeats), " has fewer numbers than x ",
                x.sizes(), " has dimensions");
  const size_t added = repeats.size() - rank;
  SymList single, twofold, result;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const Sym size = d < added ? Sym::from_int(1) : x->layout.sizes[d - added];
    WEFT_CHECK_AT(where, repeats[d] >= 0, "repeat: ", SizesView(repeats), " has a negative number");
    if (d >= added) {
      single.insert(single.end(), {Sym::from_int(1), size});
      twofold.insert(twofold.end(), {repeats[d], size});
    } else {
      single.push_back(size);
      twofold.push_back(repeats[d]);
    }
    result.push_back(repeats[d] * size);
  }
  return reshape(clone(expand(reshape(x, single, where), twofold, where), where), result, where);
}

Tensor tile(const Tensor& x, const SymList& repeats, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("tile"), where, {x});
  SymList all;
  for (size_t d = repeats.size(); d < static_cast<size_t>(x.dim()); ++d) all.push_back(Sym::from_int(1));
  all.insert(all.end(), repeats.begin(), repeats.end());
  return repeat(x, all, where);
}

Tensor repeat_interleave(const Tensor& x, SymArg repeats, std::optional<int64_t> dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("repeat_interleave"), where, {x});
  if (!dim) return repeat_interleave(flatten(x, 0, -1, where), repeats, 0, where);
  const Sym times = repeats;
  WEFT_CHECK_AT(where, times >= 0, "repeat_interleave: repeats is ", times, "; it must not be negative");
  if (x.dim() == 0) return repeat_interleave(reshape(x, {1}, where), repeats, *dim, where);
  const int64_t d = normalize_dim(*dim, x.dim(), "repeat_interleave");
  SymList twofold(x.sizes()), result(x.sizes());
  twofold.insert(twofold.begin() + d + 1, times);
  result[static_cast<size_t>(d)] *= times;
  return reshape(clone(expand(unsqueeze(x, d + 1, where), twofold, where), where), result, where);
}

Tensor diag(const Tensor& x, int64_t diagonal, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("diag"), where, {x});
  if (x.dim() == 2) return clone(weft::diagonal(x, diagonal, 0, 1, where), where);
  WEFT_CHECK_AT(where, x.dim() == 1, "diag: x ", x.sizes(), " must have one or two dimensions");
  // Rows [x_i, 0 … 0] of n + 1: read as rows of n, x_i has moved to column i.
  const Sym n = x.size(0);
  const Tensor rows = pad(reshape(x, {n, 1}, where), {0, n}, "constant", 0, where);
  const Tensor square =
      reshape(narrow(reshape(rows, {n * (n + 1)}, where), 0, 0, n * n, where), {n, n}, where);
  if (diagonal == 0) return clone(square, where);
  return diagonal > 0 ? pad(square, {diagonal, 0, 0, diagonal}, "constant", 0, where)
                      : pad(square, {0, -diagonal, -diagonal, 0}, "constant", 0, where);
}

Tensor one_hot(const Tensor& x, int64_t num_classes, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("one_hot"), where, {x});
  WEFT_CHECK_AT(where, x.dtype() == DType::Int64, "one_hot: x is ", x.dtype(), "; it must be int64");
  WEFT_CHECK_AT(where, num_classes >= -1, "one_hot: num_classes is ", num_classes,
                "; it must be positive, or -1 for the largest value plus one");
  if (num_classes == -1) {
    WEFT_CHECK_AT(where, x.numel() > 0, "one_hot: x ", x.sizes(),
                  " is empty, so that num_classes cannot be found out; pass it");
    num_classes = max(x, where).item<int64_t>(where) + 1;
  }
  SymList sizes(x.sizes());
  sizes.push_back(Sym::from_int(num_classes));
  return scatter(zeros(sizes, TensorOptions(DType::Int64).device(x.device()), where), -1,
                 unsqueeze(x, -1, where), 1, where);
}

}  // namespace weft
