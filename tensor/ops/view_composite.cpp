// The functions that are made of views, and their entries.
// Place: the composite half of view.cpp.
#include "tensor/ops/view_composite.h"

#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/view_rules.h"

namespace weft {
namespace {

constexpr int64_t kMaxEmptyChunks = 1 << 20;

int64_t checked_dim(const Tensor& x, int64_t dim, const char* op) { return normalize_dim(dim, x.dim(), op); }

}  // namespace

Tensor reshape(const Tensor& x, const SymList& sizes, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("reshape"), where, {x});
  const Sizes inferred = view_rules::infer_sizes<Sym>(sizes, x.numel(), x->layout.sizes, "reshape");
  const bool fits = view_rules::view_strides(x->layout, inferred).has_value();
  return view(fits ? x : call(WEFT_OP("clone"), {x}, {true}, where), SymList(inferred), where);
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("flatten"), where, {x});
  const int64_t start = checked_dim(x, start_dim, "flatten"), end = checked_dim(x, end_dim, "flatten");
  WEFT_CHECK_AT(where, start <= end, "flatten: start_dim ", start_dim, " comes after end_dim ", end_dim,
                " in ", x.sizes());
  if (x.dim() == 0) return reshape(x, {1}, where);
  if (start == end) return x;
  SymList sizes;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d > start && d <= end) sizes.back() *= x.size(d);
    else sizes.push_back(x.size(d));
  }
  return reshape(x, sizes, where);
}

Tensor unflatten(const Tensor& x, int64_t dim, const SymList& sizes, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("unflatten"), where, {x});
  const int64_t at = checked_dim(x, dim, "unflatten");
  WEFT_CHECK_AT(where, x.dim() > 0 && !sizes.empty(), "unflatten: sizes ", SizesView(sizes),
                " for dimension ", dim, " of ", x.sizes(), "; one dimension becomes one or more");
  Sizes whole = {x.size(at)};
  const Sizes inner = view_rules::infer_sizes<Sym>(sizes, x.size(at), whole, "unflatten");
  SymList result;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d != at) result.push_back(x.size(d));
    else
      for (Sym size : inner) result.push_back(size);
  }
  return view(x, result, where);
}

Tensor t(const Tensor& x, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("t"), where, {x});
  WEFT_CHECK_AT(where, x.dim() <= 2, "t: the tensor ", x.sizes(), " has ", x.dim(),
                " dimensions; it takes up to 2: use transpose() or permute()");
  return transpose(x, 0, x.dim() < 2 ? 0 : 1, where);
}

Tensor movedim(const Tensor& x, const DimList& source, const DimList& destination, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("movedim"), where, {x});
  WEFT_CHECK_AT(where, source.size() == destination.size(), "movedim: ", source.size(), " sources and ",
                destination.size(), " destinations are given; each dimension needs both");
  const size_t rank = static_cast<size_t>(x.dim());
  DimList order(std::vector<int64_t>(rank, -1));
  SmallVector<bool, 8> moved(rank, false);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(checked_dim(x, source[i], "movedim"));
    const auto to = static_cast<size_t>(checked_dim(x, destination[i], "movedim"));
    if (rank == 0) continue;
    WEFT_CHECK_AT(where, !moved[from], "movedim: source dimension ", source[i], " is named twice");
    WEFT_CHECK_AT(where, order[to] < 0, "movedim: destination dimension ", destination[i], " is named twice");
    moved[from] = true;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (moved[next]) ++next;
    place = static_cast<int64_t>(next++);
  }
  return permute(x, order, where);
}

Tensor broadcast_to(const Tensor& x, const SymList& sizes, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("broadcast_to"), where, {x});
  return expand(x, sizes, where);
}

Tensor narrow(const Tensor& x, int64_t dim, SymArg start_arg, SymArg length_arg, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("narrow"), where, {x});
  WEFT_CHECK_AT(where, x.dim() > 0, "narrow: a tensor without dimensions cannot be narrowed");
  const Sym start = start_arg, length = length_arg;
  const Sym size = x.size(checked_dim(x, dim, "narrow"));
  WEFT_CHECK_AT(where, length >= 0, "narrow: the length ", length, " is negative");
  WEFT_CHECK_AT(where, start >= -size && start <= size, "narrow: start ", start,
                " is out of range for dimension ", dim, " of ", x.sizes(), "; it takes ", -size, " to ",
                size);
  const Sym from = start < 0 ? start + size : start;
  WEFT_CHECK_AT(where, from + length <= size, "narrow: start ", start, " and length ", length,
                " reach beyond dimension ", dim, " of ", x.sizes());
  return slice(x, dim, from, from + length, 1, where);
}

namespace {

// Pieces of `size` elements, the last one with what is left.
std::vector<Tensor> pieces_of(const Tensor& x, Sym size, int64_t count, int64_t dim, SourceLocation where) {
  std::vector<Tensor> pieces;
  const Sym whole = x.size(dim);
  for (int64_t i = 0; i < count; ++i) {
    const Sym start = size * i;
    pieces.push_back(slice(x, dim, start, i + 1 == count ? whole : start + size, 1, where));
  }
  return pieces;
}

}  // namespace

std::vector<Tensor> split(const Tensor& x, SymArg size_arg, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("split"), where, {x});
  WEFT_CHECK_AT(where, x.dim() > 0, "split: a tensor without dimensions cannot be split");
  const Sym size = size_arg, whole = x.size(checked_dim(x, dim, "split"));
  WEFT_CHECK_AT(where, size > 0 || (size == 0 && whole == 0), "split: pieces of ", size, " of dimension ",
                dim, " of ", x.sizes(), "; a piece needs 1 element or more");
  const int64_t count = size == 0 || whole == 0 ? 1 : int64_t{(whole - 1) / size + 1};
  return pieces_of(x, size, count, dim, where);
}

std::vector<Tensor> split(const Tensor& x, const SymList& sizes, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("split"), where, {x});
  WEFT_CHECK_AT(where, x.dim() > 0, "split: a tensor without dimensions cannot be split");
  const Sym whole = x.size(checked_dim(x, dim, "split"));
  Sym sum = Sym::from_int(0);
  for (Sym size : sizes) {
    WEFT_CHECK_AT(where, size >= 0, "split: sizes ", SizesView(sizes), " hold the negative size ", size);
    sum += size;
  }
  WEFT_CHECK_AT(where, sum == whole, "split: sizes ", SizesView(sizes), " add up to ", sum,
                ", but dimension ", dim, " of ", x.sizes(), " has ", whole);
  std::vector<Tensor> pieces;
  Sym start = Sym::from_int(0);
  for (Sym size : sizes) {
    pieces.push_back(slice(x, dim, start, start + size, 1, where));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("chunk"), where, {x});
  WEFT_CHECK_AT(where, x.dim() > 0, "chunk: a tensor without dimensions cannot be cut");
  WEFT_CHECK_AT(where, chunks > 0, "chunk: ", chunks, " chunks are wanted; it takes 1 or more");
  const Sym whole = x.size(checked_dim(x, dim, "chunk"));
  // An empty dimension has no size from which the number of pieces would follow.
  if (whole == 0) {
    // One handle each: far more of them than anyone means would take the memory before the error.
    WEFT_CHECK_AT(where, chunks <= kMaxEmptyChunks, "chunk: ", chunks, " empty chunks of ", x.sizes(),
                  " are wanted; at most ", kMaxEmptyChunks, " can be made");
    return split(x, SymList(std::vector<int64_t>(static_cast<size_t>(chunks), 0)), dim, where);
  }
  const Sym size = (whole - 1) / chunks + 1;
  // Whether there are as many as wanted is an easier question than how many there are.
  const int64_t count = whole > size * (chunks - 1) ? chunks : int64_t{(whole - 1) / size + 1};
  return pieces_of(x, size, count, dim, where);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("unbind"), where, {x});
  WEFT_CHECK_AT(where, x.dim() > 0, "unbind: a tensor without dimensions cannot be taken apart");
  const int64_t count = x.size(checked_dim(x, dim, "unbind"));
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < count; ++i) pieces.push_back(select(x, dim, i, where));
  return pieces;
}

namespace {

// By name, one number is a size and a longer list the sizes.
std::vector<Tensor> split_by_name(const Tensor& x, const SymList& sizes, int64_t dim, SourceLocation where) {
  return sizes.size() == 1 ? split(x, sizes[0], dim, where) : split(x, sizes, dim, where);
}

}  // namespace

void register_view_composites(OpTable& table) {
  composite(table, "reshape(Tensor x, SymInt[] shape) -> Tensor", &reshape)
      .samples({.calls = {"x=[3,4] shape=[2,-1]", "x=[2,3,4] shape=[24]", "x=[0,3] shape=[3,0]"}});
  composite(table, "flatten(Tensor x, int start_dim=0, int end_dim=-1) -> Tensor", &flatten);
  composite(table, "unflatten(Tensor x, int dim, SymInt[] sizes) -> Tensor", &unflatten)
      .samples({.calls = {"x=[2,6] dim=1 sizes=[2,3]", "x=[4] dim=-1 sizes=[-1,2]"}});
  composite(table, "t(Tensor x) -> Tensor", &t);
  composite(table, "movedim(Tensor x, int[] source, int[] destination) -> Tensor", &movedim)
      .samples(
          {.calls = {"x=[2,3,4] source=[0] destination=[2]", "x=[2,3] source=[0,1] destination=[-1,0]"}});
  composite(table, "broadcast_to(Tensor x, SymInt[] size) -> Tensor", &broadcast_to)
      .samples({.calls = {"x=[3,1] size=[2,3,4]", "x=[4] size=[4]"}});
  composite(table, "narrow(Tensor x, int dim, SymInt start, SymInt length) -> Tensor", &narrow)
      .samples({.calls = {"x=[5,4] dim=0 start=1 length=3", "x=[2,7] dim=-1 start=-4 length=4",
                          "x=[3] dim=0 start=3 length=0"}});
  composite(table, "split(Tensor x, SymInt[] split_size, int dim=0) -> Tensor[]", &split_by_name)
      .samples({.calls = {"x=[7,2] split_size=[3]", "x=[2,7] split_size=[1,4,2] dim=1"}});
  composite(table, "chunk(Tensor x, int chunks, int dim=0) -> Tensor[]", &chunk)
      .samples({.calls = {"x=[7,2] chunks=3", "x=[2,4] chunks=2 dim=-1"}});
  composite(table, "unbind(Tensor x, int dim=0) -> Tensor[]", &unbind);
}

}  // namespace weft
