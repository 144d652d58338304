// The view ops of the table: their rules, gradients and functions. Composites of views are in view_composite.cpp.
// Place: register.cpp calls register_view_ops; the rules are those of tensor/view_rules.h.
#include "tensor/ops/view.h"

#include "tensor/cpu/fill.h"
#include "tensor/ops/element.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/ops/register.h"
#include "tensor/ops/view_composite.h"
#include "tensor/view_rules.h"

namespace weft {
namespace {

using ViewRule = Layout<Sym> (*)(const Layout<Sym>&, const Attrs&, DType from);

std::optional<Sym> optional_size(const Attr& attr) {
  if (attr.is_none()) return std::nullopt;
  return attr.as_int();
}

// ---- Writing through a view: <view>.scatter(Tensor? x, Tensor source, SymInt[] sizes, …the view's attributes) --------

Attrs view_attrs(const Attrs& scatter_attrs) { return Attrs(scatter_attrs.begin() + 1, scatter_attrs.end()); }

Layout<Sym> scattered_layout(const Call& call, const Layout<Sym>& whole) {
  return call.op.base->view(whole, view_attrs(call.attrs), call.tensor(1)->dtype);
}

OutputSpecs infer_view_scatter(const Call& call) {
  const Tensor& source = call.tensor(1);
  OutputSpec spec{call.attr(0).as_sizes(), source->dtype, source->device};
  if (call.has_tensor(0)) {
    const Tensor& x = call.tensor(0);
    WEFT_CHECK(x->dtype == source->dtype, call.name(), ": x is ", x->dtype, ", the source ", source->dtype,
               "; they must be the same");
    WEFT_CHECK(x.sizes() == SizesView(spec.sizes), call.name(), ": x has sizes ", x.sizes(), ", not ",
               spec.sizes);
  }
  const Layout<Sym> part = scattered_layout(call, contiguous_layout<Sym>(spec.sizes));
  WEFT_CHECK(SizesView(part.sizes) == source.sizes(), call.name(), ": the view of sizes ", part.sizes,
             " takes no source of sizes ", source.sizes());
  OutputSpecs specs;
  specs.push_back(std::move(spec));
  return specs;
}

// into += source, in the order of the elements where places coincide.
void accumulate(const Tensor& into, const Tensor& source, SourceLocation where) {
  const Layout<Sym>& layout = into->layout;
  if (!may_self_overlap(layout)) {
    const Operand operands[] = {into, source, 1};
    static const Attrs none = {};
    run_pointwise_into(Call{WEFT_OP("add"), operands, none, where}, into);
    return;
  }
  // One dimension is walked, the rest added as a whole: the shortest that leaves no overlap, else the shortest.
  int64_t chosen = -1, shortest = -1;
  for (int64_t d = 0; d < layout.rank(); ++d) {
    if (layout.sizes[d] == 1) continue;
    if (shortest < 0 || layout.sizes[d] < layout.sizes[shortest]) shortest = d;
    if ((chosen < 0 || layout.sizes[d] < layout.sizes[chosen]) &&
        !may_self_overlap(view_rules::select(layout, d, Sym::from_int(0))))
      chosen = d;
  }
  if (chosen < 0) chosen = shortest;
  const int64_t count = layout.sizes[chosen];
  for (int64_t i = 0; i < count; ++i) {
    const Sym at = Sym::from_int(i);
    accumulate(make_view(into, view_rules::select(layout, chosen, at)),
               make_view(source, view_rules::select(source->layout, chosen, at)), where);
  }
}

void run_scatter(const Call& call, std::span<Tensor> outputs) {
  Tensor& out = outputs[0];
  const Tensor& source = call.tensor(1);
  for (Sym size : out.sizes())
    WEFT_CHECK(size >= 0, call.name(), ": sizes ", out.sizes(), " hold the negative size ", size);
  const Layout<Sym> part = scattered_layout(call, out->layout);
  const Extent reach = extent(part);
  WEFT_CHECK(reach.begin >= 0 && reach.end <= int_numel(out), call.name(), ": the view reaches the places ",
             reach.begin, " to ", reach.end - 1, " of ", int_numel(out), " elements");
  const bool overlaps = may_self_overlap(part);
  if (call.has_tensor(0)) {
    WEFT_CHECK(!overlaps, call.name(), ": the view of sizes ", part.sizes, " and strides ", part.strides,
               " has several elements at one place, so it cannot be written through");
    copy_data(call.tensor(0), out);
    copy_data(source, make_view(out, part));
    return;
  }
  // A half sum rounds once, at its end.
  const bool is_wide = overlaps && is_half(out->dtype);
  const Tensor sum = is_wide ? make_tensor(out->layout.sizes, DType::Float32) : out;
  cpu::fill_zero(bytes_of(sum), static_cast<size_t>(int_numel(sum)) * size_of(sum->dtype));
  if (overlaps) accumulate(make_view(sum, part), source, call.where);
  else copy_data(source, make_view(out, part));
  if (is_wide) copy_data(sum, out);
}

// The rule of the view, asked along each dimension of the whole alone, says how places of the source become places of the
// whole: place d is offset + Σ strides[k] · (place k of the source). Where that can be undone, an element of the whole is
// the source's if it lies at such a place. Where sources overlap there is no rule.
Expr scatter_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                     std::span<const Sym> place) {
  using element::is_known;
  const Sizes& sizes = result.sizes;
  const Sizes source_sizes = scattered_layout(call, contiguous_layout<Sym>(sizes)).sizes;
  SmallVector<Layout<Sym>, kInlineRank> along;
  for (size_t d = 0; d < sizes.size(); ++d) {
    Layout<Sym> alone{sizes, Sizes(sizes.size(), Sym()), Sym()};
    alone.strides[d] = Sym::from_int(1);
    along.push_back(scattered_layout(call, alone));
  }

  element::Place at(source_sizes.size(), Sym());
  SmallVector<bool, kInlineRank> is_found;  // by dimension of the source: `at` is its place
  for (const Sym size : source_sizes) is_found.push_back(is_known(size, 1));
  Expr is_written;  // without graph: everywhere
  const auto require = [&](const Expr& condition) { is_written = element::both(is_written, condition); };
  const auto uses = [&](size_t d, size_t k) { return !is_known(along[d].strides[k], 0); };

  // The places that one dimension of the whole is the sum of are its digits, if none reaches the stride of the one before.
  for (size_t d = 0; d < sizes.size(); ++d) {
    SmallVector<size_t, kInlineRank> digits;
    bool are_digits = true;
    for (size_t k = 0; k < at.size(); ++k) {
      if (is_known(source_sizes[k], 1) || !uses(d, k)) continue;
      const Sym stride = along[d].strides[k];
      are_digits = are_digits && !is_found[k] && statically_known(SymCompare::Gt, stride, Sym()) &&
                   (digits.empty() || statically_known(SymCompare::Ge, along[d].strides[digits.back()],
                                                       stride * source_sizes[k]));
      digits.push_back(k);
    }
    if (digits.empty() || !are_digits) {
      if (is_known(sizes[d], 1)) continue;
      Sym written = along[d].offset;
      for (const size_t k : digits) {
        if (!is_found[k]) return {};
        written = written + along[d].strides[k] * at[k];
      }
      require(loop.place(place[d]) == loop.place(written));
      continue;
    }
    Sym rest = place[d] - along[d].offset;
    Expr value = loop.place(rest);
    if (!is_known(along[d].offset, 0)) require(value >= 0);
    Sym bound = sizes[d] - along[d].offset;  // of rest
    for (const size_t k : digits) {
      const Sym stride = along[d].strides[k], end = source_sizes[k] * stride;
      if (!statically_known(SymCompare::Ge, end, bound)) require(value < loop.place(end));
      bound = stride;
      is_found[k] = true;
      at[k] = is_known(stride, 1) ? rest : rest / stride;
      if (is_known(stride, 1)) break;
      rest = rest % stride;
      value = floor_mod(value, loop.place(stride));
      if (k == digits.back()) require(value == 0);
    }
  }
  for (const bool found : is_found)
    if (!found) return {};

  const std::span<const Sym> from(at.data(), at.size());
  if (is_written.is_number()) return loop.load(1, from);
  return element::choose(is_written, loop.load_where(is_written, 1, from),
                         call.has_tensor(0) ? loop.load(0, place) : element::number(loop, 0, result.dtype));
}

// A view that leaves out elements or meets some twice: it comes with its scatter.
Entry partial_view(OpTable& table, const char* schema, ViewRule rule, std::vector<std::string> calls,
                   std::vector<std::string> scatter_calls, bool views_storage = false) {
  Entry result = entry(table, schema, Kind::View).view(rule);
  result.op().views_storage = views_storage;
  const Op& view_op = result.op();
  Schema scatter = view_op.schema;
  scatter.name += ".scatter";
  const auto param = [](const char* name, ParamType type) {
    Param made{};
    made.name = name;
    made.type = type;
    return made;
  };
  scatter.params[0] = param("x", ParamType::OptionalTensor);
  scatter.params.insert(scatter.params.begin() + 1,
                        {param("source", ParamType::Tensor), param("sizes", ParamType::Sizes)});
  Op& op = table.add(std::make_unique<Op>(std::move(scatter), Kind::Index));
  op.base = &view_op;
  result.op().scatter = &op;
  result.samples({.calls = std::move(calls)});
  Entry(op)
      .samples({.calls = std::move(scatter_calls)})
      .infer(infer_view_scatter)
      .cpu(run_scatter)
      .element(views_storage ? nullptr : scatter_element)
      .grad(
          [&view_op](Dy<> dy, InSpec<0> x, InSpec<1> source, const Attrs& attrs, const GradCall& grad) {
            return scatter_through_view(view_op, view_attrs(attrs), x.sizes(),
                                        zeros(source.sizes(), source.options(), grad.where), dy, grad.where);
          },
          [&view_op](Dy<> dy, const Attrs& attrs, const GradCall& grad) {
            return call(view_op, {dy}, view_attrs(attrs), grad.where);
          });
  return result;
}

// The gradient of a partial view but as_strided.
auto scatter_gradient(Entry& view_entry) {
  const Op* op = &view_entry.op();
  return [op](Dy<> dy, InSpec<0> x, const Attrs& attrs, const GradCall& grad) {
    return scatter_through_view(*op, attrs, x.sizes(), dy, Tensor(), grad.where);
  };
}

// ---- as_strided -------------------------------------------------------------------------------------------------------

void run_as_strided(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  Layout<Sym> layout = call.op.view(x->layout, call.attrs, x->dtype);
  const Extent reach = extent(layout);
  const int64_t available = static_cast<int64_t>(x->storage->bytes() / size_of(x->dtype));
  WEFT_CHECK(reach.end <= available, "as_strided: sizes ", layout.sizes, " with strides ", layout.strides,
             " and offset ", layout.offset, " reach element ", reach.end - 1, " of a storage of ", available,
             " elements");
  outputs[0] = make_view(x, std::move(layout));
}

// One past the last place of a layout without empty dimensions.
Sym span_of(const Sizes& sizes, const Sizes& strides, Sym offset) {
  Sym span = offset + 1;
  for (size_t d = 0; d < sizes.size(); ++d) span = span + (sizes[d] - 1) * strides[d];
  return span;
}

// The gradient lands in a line of memory like the storage of x, through the view, and is read back through the layout of x.
// Where x itself has several elements at one place (it was expanded), each gets its share.
Tensor as_strided_gradient(const Tensor& given, const OutputSpec& x, const Attrs& attrs,
                           SourceLocation where) {
  const TensorOptions options = TensorOptions(given.dtype()).device(given.device());
  SymList sizes = attrs[0].as_sizes();
  const SymList& strides = attrs[1].as_sizes();
  for (const Sizes* list : {static_cast<const Sizes*>(&sizes), &x.sizes})
    for (Sym size : *list)
      if (size == 0) return zeros(SymList(x.sizes), options, where);
  Tensor dy = given;
  DimList repeated;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] != 0 || sizes[d] == 1) continue;
    repeated.push_back(static_cast<int64_t>(d));
    sizes[d] = Sym::from_int(1);
  }
  if (!repeated.empty()) dy = sum(dy, repeated, true, {}, where);

  const Sizes own_strides = x.strides ? *x.strides : contiguous_strides<Sym>(x.sizes);
  Sym offset = attrs[2].is_none() ? x.offset : attrs[2].as_int(), own_offset = x.offset;
  const Sym shared = own_offset < offset ? own_offset : offset;
  offset = offset - shared;
  own_offset = own_offset - shared;
  const Sym span = span_of(sizes, strides, offset), own_span = span_of(x.sizes, own_strides, own_offset);
  const SymList memory = {span < own_span ? own_span : span};
  const Op& op = WEFT_OP("as_strided");
  const Attrs own = {SymList(x.sizes), SymList(own_strides), own_offset};
  Tensor landed = scatter_through_view(op, {sizes, strides, offset}, memory, dy, Tensor(), where);
  const Layout<Sym> own_layout{x.sizes, own_strides, own_offset};
  if (!is_contiguous(own_layout) && may_self_overlap(own_layout)) {
    const Tensor count =
        scatter_through_view(op, own, memory, ones(SymList(x.sizes), options, where), Tensor(), where);
    landed = div(landed, count, {}, where);
  }
  return call(op, {landed}, own, where);
}

}  // namespace

Tensor scatter_through_view(const Op& view_op, const Attrs& attrs, const SymList& sizes, const Tensor& source,
                            const Tensor& x, SourceLocation where) {
  Attrs all = {sizes};
  for (const Attr& attr : attrs) all.push_back(attr);
  return call(*view_op.scatter, {x, source}, all, where);
}

Tensor sum_to(const Tensor& x, const SymList& sizes, SourceLocation where) {
  const int64_t lead = x.dim() - static_cast<int64_t>(sizes.size());
  DimList dims;
  for (int64_t d = 0; d < x.dim(); ++d) {
    const bool is_new = d < lead;
    if (is_new ||
        (x.size(d) != sizes[static_cast<size_t>(d - lead)] && sizes[static_cast<size_t>(d - lead)] == 1))
      dims.push_back(d);
  }
  const Tensor result = dims.empty() ? x : sum(x, dims, true, {}, where);
  return lead == 0 ? result : reshape(result, sizes, where);
}

void register_view_ops(OpTable& table) {
  const auto reshape_back = [](Dy<> dy, InSpec<0> x, const GradCall& grad) {
    return reshape(dy, x.sizes(), grad.where);
  };

  entry(table, "view(Tensor x, SymInt[] size) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::view<Sym>(x, attrs[0].as_sizes());
      })
      .grad(reshape_back)
      .samples(
          {.calls = {"x=[3,4] size=[2,6]", "x=[2,3,4] size=[-1,2]", "x=[1] size=[]", "x=[0,3] size=[3,0]"}});
  Entry reinterpret = entry(table, "view_dtype(Tensor x, ScalarType dtype) -> Tensor", Kind::View);
  reinterpret.view([](const Layout<Sym>& x, const Attrs& attrs, DType from) {
    return view_rules::reinterpret(x, static_cast<int64_t>(size_of(from)),
                                   static_cast<int64_t>(size_of(attrs[0].as_dtype())));
  });
  reinterpret.samples(
      {.specials = false, .calls = {"x=[3,4] dtype=i16", "x=[2,8] dtype=u8", "x=[0,4] dtype=i8"}});
  reinterpret.op().view_dtype = [](const Attrs& attrs, DType) { return attrs[0].as_dtype(); };
  entry(table, "transpose(Tensor x, int dim0, int dim1) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::transpose(x, attrs[0].as_int(), attrs[1].as_int(),
                                     called_name(WEFT_OP("transpose")));
      })
      .grad([](Dy<> dy, const Attrs& attrs, const GradCall& grad) {
        return transpose(dy, attrs[0].as_int(), attrs[1].as_int(), grad.where);
      })
      .samples({.calls = {"x=[3,4] dim0=0 dim1=1", "x=[2,3,4] dim0=-1 dim1=0", "x=[] dim0=0 dim1=-1"}});
  entry(table, "permute(Tensor x, int[] dims) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::permute(x, attrs[0].as_dims());
      })
      .grad([](Dy<> dy, const Attrs& attrs, const GradCall& grad) {
        const DimList& dims = attrs[0].as_dims();
        const int64_t rank = static_cast<int64_t>(dims.size());
        DimList inverse = dims;
        for (int64_t d = 0; d < rank; ++d) inverse[static_cast<size_t>((dims[d] + rank) % rank)] = d;
        return permute(dy, inverse, grad.where);
      })
      .samples({.calls = {"x=[3,4] dims=[1,0]", "x=[2,3,4] dims=[-1,0,1]", "x=[] dims=[]"}});
  entry(table, "expand(Tensor x, SymInt[] size) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::expand<Sym>(x, attrs[0].as_sizes(), called_name(WEFT_OP("expand")));
      })
      .grad([](Dy<> dy, InSpec<0> x, const GradCall& grad) { return sum_to(dy, x.sizes(), grad.where); })
      .samples({.calls = {"x=[3,1] size=[3,4]", "x=[4] size=[2,3,-1]", "x=[] size=[2,2]", "x=[1] size=[0]"}});
  entry(table, "squeeze(Tensor x, int[]? dim=None) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::squeeze(x, attrs[0].is_none() ? nullptr : &attrs[0].as_dims(),
                                   called_name(WEFT_OP("squeeze")));
      })
      .grad(reshape_back);
  entry(table, "unsqueeze(Tensor x, int dim) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::unsqueeze(x, attrs[0].as_int(), called_name(WEFT_OP("unsqueeze")));
      })
      .grad(reshape_back);
  // The same data under another handle.
  entry(table, "alias(Tensor x) -> Tensor", Kind::View)
      .view([](const Layout<Sym>& x, const Attrs&, DType) { return x; })
      .grad([](Dy<> dy) -> Tensor { return dy; });

  Entry slices = partial_view(
      table, "slice(Tensor x, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
      [](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::slice(x, attrs[0].as_int(), optional_size(attrs[1]), optional_size(attrs[2]),
                                 attrs[3].as_int());
      },
      {"x=[5,4] start=1 end=-1", "x=[3,7] dim=1 step=3", "x=[3] start=2 end=1"},
      {"source=[3,4] sizes=[5,4] dim=0 start=1 end=-1 step=1",
       "x=[3,7] source=[3,3] sizes=[3,7] dim=1 step=3", "source=[2] sizes=[6] dim=0 start=1 end=-1 step=2",
       "x=[3] source=[0] sizes=[3] dim=0 start=2 end=1"});
  slices.grad(scatter_gradient(slices));
  Entry selects =
      partial_view(table, "select(Tensor x, int dim, SymInt index) -> Tensor",
                   [](const Layout<Sym>& x, const Attrs& attrs, DType) {
                     return view_rules::select(x, attrs[0].as_int(), attrs[1].as_int());
                   },
                   {"x=[3,4] dim=0 index=-1", "x=[2,3,4] dim=1 index=2", "x=[2] dim=0 index=0"},
                   {"source=[4] sizes=[3,4] dim=0 index=-1", "x=[2,3] source=[2] sizes=[2,3] dim=1 index=2"});
  selects.grad(scatter_gradient(selects));
  Entry diagonals =
      partial_view(table, "diagonal(Tensor x, int offset=0, int dim1=0, int dim2=1) -> Tensor",
                   [](const Layout<Sym>& x, const Attrs& attrs, DType) {
                     return view_rules::diagonal(x, attrs[0].as_int(), attrs[1].as_int(), attrs[2].as_int());
                   },
                   {"x=[3,4]", "x=[2,3,4] offset=-1 dim1=2 dim2=1", "x=[2,2] offset=5"},
                   {"source=[3] sizes=[3,4] offset=0 dim1=0 dim2=1",
                    "x=[2,3] source=[2] sizes=[2,3] offset=1 dim1=0 dim2=1",
                    "x=[2,3,4] source=[3,1] sizes=[2,3,4] offset=-1 dim1=0 dim2=2"});
  diagonals.grad(scatter_gradient(diagonals));
  Entry windows = partial_view(
      table, "unfold(Tensor x, int dim, SymInt size, SymInt step) -> Tensor",
      [](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::unfold(x, attrs[0].as_int(), attrs[1].as_int(), attrs[2].as_int());
      },
      {"x=[7] dim=0 size=3 step=2", "x=[2,5] dim=1 size=2 step=3", "x=[3] dim=0 size=0 step=1"},
      {"source=[3,3] sizes=[7] dim=0 size=3 step=2", "source=[4,2] sizes=[5] dim=0 size=2 step=1",
       "x=[2,8] source=[2,2,3] sizes=[2,8] dim=1 size=3 step=3",
       "source=[2,4,2] sizes=[8,4] dim=0 size=2 step=4", "source=[2,4] sizes=[8] dim=0 size=4 step=4"});
  windows.grad(scatter_gradient(windows));
  Entry strided = partial_view(
      table, "as_strided(Tensor x, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
      [](const Layout<Sym>& x, const Attrs& attrs, DType) {
        return view_rules::as_strided<Sym>(x, attrs[0].as_sizes(), attrs[1].as_sizes(),
                                           optional_size(attrs[2]));
      },
      {"x=[12] size=[3,2] stride=[4,1] storage_offset=1", "x=[5] size=[2,3] stride=[1,1]"},
      {"source=[3,2] sizes=[12] size=[3,2] stride=[4,1] storage_offset=1",
       "source=[2,3] sizes=[5] size=[2,3] stride=[1,1]"},
      true);
  strided.cpu_whole(run_as_strided).grad([](Dy<> dy, InSpec<0> x, const Attrs& attrs, const GradCall& grad) {
    return as_strided_gradient(dy, x.spec, attrs, grad.where);
  });

  register_view_composites(table);
}

// ---- The functions --------------------------------------------------------------------------------------------------

namespace {
Attr size_or_none(const std::optional<SymArg>& size) { return size ? Attr(Sym(*size)) : Attr(); }
}  // namespace

Tensor view(const Tensor& x, const SymList& sizes, SourceLocation where) {
  return call(WEFT_OP("view"), {x}, {sizes}, where);
}
Tensor view(const Tensor& x, DType dtype, SourceLocation where) {
  return dtype == x.dtype() ? alias(x, where) : call(WEFT_OP("view_dtype"), {x}, {dtype}, where);
}
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, SourceLocation where) {
  return call(WEFT_OP("transpose"), {x}, {dim0, dim1}, where);
}
Tensor permute(const Tensor& x, const DimList& dims, SourceLocation where) {
  return call(WEFT_OP("permute"), {x}, {dims}, where);
}
Tensor expand(const Tensor& x, const SymList& sizes, SourceLocation where) {
  return call(WEFT_OP("expand"), {x}, {sizes}, where);
}
Tensor squeeze(const Tensor& x, SourceLocation where) {
  return call(WEFT_OP("squeeze"), {x}, {Attr()}, where);
}
Tensor squeeze(const Tensor& x, const DimList& dims, SourceLocation where) {
  return call(WEFT_OP("squeeze"), {x}, {dims}, where);
}
Tensor unsqueeze(const Tensor& x, int64_t dim, SourceLocation where) {
  return call(WEFT_OP("unsqueeze"), {x}, {dim}, where);
}
Tensor alias(const Tensor& x, SourceLocation where) { return call(WEFT_OP("alias"), {x}, where); }
Tensor slice(const Tensor& x, int64_t dim, std::optional<SymArg> start, std::optional<SymArg> end,
             SymArg step, SourceLocation where) {
  return call(WEFT_OP("slice"), {x}, {dim, size_or_none(start), size_or_none(end), Sym(step)}, where);
}
Tensor select(const Tensor& x, int64_t dim, SymArg index, SourceLocation where) {
  return call(WEFT_OP("select"), {x}, {dim, Sym(index)}, where);
}
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2, SourceLocation where) {
  return call(WEFT_OP("diagonal"), {x}, {offset, dim1, dim2}, where);
}
Tensor unfold(const Tensor& x, int64_t dim, SymArg size, SymArg step, SourceLocation where) {
  return call(WEFT_OP("unfold"), {x}, {dim, Sym(size), Sym(step)}, where);
}
Tensor as_strided(const Tensor& x, const SymList& sizes, const SymList& strides, std::optional<SymArg> offset,
                  SourceLocation where) {
  return call(WEFT_OP("as_strided"), {x}, {sizes, strides, size_or_none(offset)}, where);
}

}  // namespace weft
