// The index ops that write: scatter and its accumulating forms, index_add, index_copy, index_fill; in place too.
// Place: register_index_ops calls register_scatter_ops.
//
// Places with one target take effect in row-major order of the index, on any number of threads: the last assignment stays,
// sums add up in that order. Half types accumulate in float32 and round once. Sources may share memory with the target.
#include <limits>

#include "tensor/base/half.h"
#include "tensor/ops/element.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/index_operands.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

using namespace index_ops;
using cpu::ScatterOp;

// ---- scatter along a dimension --------------------------------------------------------------------------------------
// Operands: x, index, source; attribute 0: the dimension.

void check_scatter(const Call& call) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const int64_t dim = dim_of(call, x);
  check_index_dtype(call, index, IndexTypes::Int64);
  const bool has_source = call.has_tensor(2);
  if (has_source) {
    WEFT_CHECK(call.tensor(2)->dtype == x->dtype, call.name(), ": the source is ", call.tensor(2)->dtype,
               ", but x is ", x->dtype, "; convert the source with to()");
  }
  const int64_t rank = rank_of(x);
  if (rank_of(index) != rank || (has_source && rank_of(call.tensor(2)) != rank)) {
    WEFT_CHECK(index->numel == 0, call.name(), ": x ", x.sizes(), ", the index ", index.sizes(),
               has_source ? detail::concat(" and the source ", call.tensor(2).sizes()) : std::string(),
               " must have equally many dimensions");
    return;
  }
  for (int64_t d = 0; d < rank; ++d) {
    WEFT_CHECK(d == dim || size_at(index, d) <= size_at(x, d), call.name(), ": the index ", index.sizes(),
               " is larger than x ", x.sizes(), " in dimension ", d, "; only in the scattered dimension ",
               dim, " may it be");
    WEFT_CHECK(!has_source || size_at(index, d) <= size_at(call.tensor(2), d), call.name(), ": the index ",
               index.sizes(), " is larger than the source ", call.tensor(2).sizes(), " in dimension ", d);
  }
}

OutputSpecs infer_scatter(const Call& call) {
  check_scatter(call);
  return like_operand_0(call);
}

// A target in which sums are made: itself, or in float32 for a half type; finish() rounds these back.
struct Accumulator {
  explicit Accumulator(const Tensor& target) : target(target), work(target) {
    if (!is_half(target->dtype)) return;
    work = make_tensor(target->layout.sizes, DType::Float32, target->device);
    copy_data(target, work);
  }
  void finish() const {
    if (!work.is_same(target)) copy_data(work, target);
  }

  const Tensor& target;
  Tensor work;
};

// The index as int64, apart from the target and checked; undefined if it is empty.
Tensor checked_index(const Call& call, const Tensor& target, int64_t dim) {
  Tensor index = call.tensor(1);
  if (int_numel(index) == 0) return {};
  index = unaliased(as_int64(index), target);
  check_range(call, index, 0, target, dim);
  return index;
}

void scatter_along(ScatterOp op, const Tensor& target, int64_t dim, const Tensor& index,
                   const Tensor& source) {
  cpu::IndexedLoop loop = loop_along(target, dim, index, source);
  if (source.dim() == 0) loop.box.strides[cpu::IndexedLoop::kDense].assign(loop.box.sizes.size(), 0);
  cpu::scatter(std::move(loop), op, target->dtype, bytes_of(target), data_of<int64_t>(index), source->dtype,
               bytes_of(source));
}

void put_scatter(const Call& call, const Tensor& target) {
  check_scatter(call);
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  const Tensor source = call.has_tensor(2)
                            ? unaliased(call.tensor(2), target)
                            : number_tensor(call.operands[2].scalar, target->dtype, call.name());
  scatter_along(ScatterOp::Assign, target, dim, index, source);
}

void put_scatter_add(const Call& call, const Tensor& target) {
  check_scatter(call);
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  const Tensor source = unaliased(call.tensor(2), target);
  const Accumulator sums(target);
  scatter_along(ScatterOp::Add, sums.work, dim, index, source);
  sums.finish();
}

// One entry for each line of x along the dimension, as the gradient of a gathered class is: an element of the result compares
// its place with it. What is added to halves is added in float32, as the kernel does.
Expr scatter_add_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                         std::span<const Sym> place) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  if (element::is_known_empty(result.sizes) || x.dim() == 0 || rank_of(index) != rank_of(x) ||
      result.dtype == DType::Bool)
    return {};
  const auto dim = static_cast<size_t>(dim_of(call, x));
  for (size_t d = 0; d < place.size(); ++d) {
    const Sym size = index->layout.sizes[d];
    if (d == dim ? !element::is_known(size, 1) : !statically_known(SymCompare::Eq, size, x->layout.sizes[d]))
      return {};
  }
  element::Place at = element::copy_of(place);
  at[dim] = Sym::from_int(0);
  const std::span<const Sym> line(at.data(), at.size());
  const Expr is_named =
      loop.place(loop.index_from_start(loop.load(1, line), x->layout.sizes[dim])) == loop.place(place[dim]);
  const Expr value = loop.load(0, place);
  const DType compute = compute_dtype(result.dtype);
  const Expr sum = cast(cast(value, compute) + cast(loop.load(2, line), compute), result.dtype);
  return element::choose(is_named, sum, value);
}

// ---- scatter_reduce -------------------------------------------------------------------------------------------------

enum class Reduce : uint8_t { Sum, Prod, Mean, Max, Min };

Reduce reduce_of(const Call& call) {
  const std::string& name = call.attr(1).as_string();
  if (name == "sum") return Reduce::Sum;
  if (name == "prod") return Reduce::Prod;
  if (name == "mean") return Reduce::Mean;
  if (name == "amax") return Reduce::Max;
  if (name == "amin") return Reduce::Min;
  WEFT_CHECK(false, call.name(), ": reduce is \"", name, "\"; it must be sum, prod, mean, amax or amin");
}

OutputSpecs infer_scatter_reduce(const Call& call) {
  check_scatter(call);
  WEFT_CHECK(reduce_of(call) != Reduce::Mean || call.tensor(0)->dtype != DType::Bool, call.name(),
             ": a mean of bool has no value; convert with to()");
  return like_operand_0(call);
}

// What a reduction starts from where the old value does not count.
constexpr const char* kNeutral = "scatter_reduce";  // these numbers fit
Tensor neutral(Reduce reduce, DType dtype) {
  if (reduce == Reduce::Prod) return number_tensor(1, dtype, kNeutral);
  if (reduce == Reduce::Sum || reduce == Reduce::Mean) return number_tensor(0, dtype, kNeutral);
  const bool lowest = reduce == Reduce::Max;
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return number_tensor(lowest ? -infinity : infinity, dtype, kNeutral);
  }
  return visit(dtype, [&](auto zero) -> Tensor {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return number_tensor(
          static_cast<int64_t>(lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max()),
          dtype, kNeutral);
    else return {};
  });
}

void put_scatter_reduce(const Call& call, const Tensor& target) {
  infer_scatter_reduce(call);
  const Reduce reduce = reduce_of(call);
  const bool include_self = call.attr(2).as_bool();
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  const Tensor source = unaliased(call.tensor(2), target);
  if (!include_self) scatter_along(ScatterOp::Assign, target, dim, index, neutral(reduce, target->dtype));
  if (reduce == Reduce::Max || reduce == Reduce::Min) {
    scatter_along(reduce == Reduce::Max ? ScatterOp::Max : ScatterOp::Min, target, dim, index, source);
    return;
  }
  const Accumulator sums(target);
  scatter_along(reduce == Reduce::Prod ? ScatterOp::Multiply : ScatterOp::Add, sums.work, dim, index, source);
  if (reduce == Reduce::Mean) {
    const Tensor counts = make_tensor(target->layout.sizes, DType::Int64, target->device);
    std::fill_n(data_of<int64_t>(counts), int_numel(counts), include_self ? 1 : 0);
    scatter_along(ScatterOp::Add, counts, dim, index, number_tensor(1, DType::Int64, kNeutral));
    cpu::divide_by_counts({sizes_of(sums.work), {strides_of(sums.work), strides_of(counts)}},
                          sums.work->dtype, bytes_of(sums.work), data_of<int64_t>(counts));
  }
  sums.finish();
}

// ---- index_add, index_copy, index_fill: slices of x ---------------------------------------------------------------------
// Operands: x, index, source or value; attribute 0: the dimension.

void check_slices(const Call& call) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const int64_t dim = dim_of(call, x);
  check_index_dtype(call, index, IndexTypes::Int64OrInt32);
  WEFT_CHECK(index.dim() <= 1, call.name(), ": the index ", index.sizes(), " must have one dimension");
  if (!call.has_tensor(2)) return;
  const Tensor& source = call.tensor(2);
  WEFT_CHECK(source->dtype == x->dtype, call.name(), ": the source is ", source->dtype, ", but x is ",
             x->dtype, "; convert the source with to()");
  bool fits = rank_of(source) == rank_of(x);
  for (int64_t d = 0; fits && d < rank_of(x); ++d)
    fits = size_at(source, d) == (d == dim ? index->numel : size_at(x, d));
  WEFT_CHECK(fits, call.name(), ": the source ", source.sizes(), " does not match x ", x.sizes(),
             " with dimension ", dim, " of size ", index->numel, ", the length of the index");
}

OutputSpecs infer_slices(const Call& call) {
  check_slices(call);
  return like_operand_0(call);
}

void scatter_slices(ScatterOp op, const Tensor& target, int64_t dim, const Tensor& index,
                    const Tensor& source) {
  cpu::scatter(loop_over_slices(target, dim, index, source), op, target->dtype, bytes_of(target),
               data_of<int64_t>(index), source->dtype, bytes_of(source));
}

// The source times alpha, rounded to its dtype.
Tensor scaled(const Tensor& source, const Scalar& alpha, SourceLocation where) {
  if (alpha.to_double() == 1) return source;
  const AutoGradMode off(false);
  return mul(source, alpha, where);
}

void put_index_add(const Call& call, const Tensor& target) {
  check_slices(call);
  const Scalar alpha = call.operands.size() > 3 ? call.operands[3].scalar : Scalar(1);
  WEFT_CHECK(!alpha.is_floating() || is_floating(target->dtype), call.name(), ": alpha is ", alpha,
             ", but x is ", target->dtype, "; a floating alpha needs a floating x");
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  Tensor source = scaled(unaliased(call.tensor(2), target), alpha, call.where);
  if (source->dtype != target->dtype) {  // a bool times an integer
    const Tensor narrow = make_tensor(source->layout.sizes, target->dtype);
    copy_data(source, narrow);
    source = narrow;
  }
  const Accumulator sums(target);
  scatter_slices(ScatterOp::Add, sums.work, dim, index, source);
  sums.finish();
}

void put_index_copy(const Call& call, const Tensor& target) {
  check_slices(call);
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  scatter_slices(ScatterOp::Assign, target, dim, index, unaliased(call.tensor(2), target));
}

void put_index_fill(const Call& call, const Tensor& target) {
  check_slices(call);
  const int64_t dim = dim_of(call, target);
  const Tensor index = checked_index(call, target, dim);
  if (!index.defined()) return;
  const Tensor value = number_tensor(call.operands[2].scalar, target->dtype, call.name());
  // One number, seen as a source of the right size.
  Layout<Sym> layout = target->layout;
  layout.offset = Sym::from_int(0);
  for (Sym& stride : layout.strides) stride = Sym::from_int(0);
  if (target.dim() > 0) layout.sizes[static_cast<size_t>(dim)] = index->numel;
  scatter_slices(ScatterOp::Assign, target, dim, index, make_view(value, std::move(layout)));
}

// Up to this many comparisons with an element's place cost less than a pass of their own over memory.
constexpr int64_t kMostCompared = 16;

Expr index_fill_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                        std::span<const Sym> place) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const Sym count = index->numel;
  if (x.dim() == 0 || count.is_symbolic() || count.concrete() > kMostCompared) return {};
  const auto dim = static_cast<size_t>(dim_of(call, x));
  // The kernel checks an index of slices without elements too, which no loop would read.
  if (element::may_be_empty_beside(result.sizes, dim, 1)) return {};
  const Expr fill = element::checked_number(loop, call.operands[2].scalar, result.dtype, call.name());
  if (fill.graph == nullptr) return {};
  const Expr value = loop.load(0, place);
  Expr is_named;
  for (int64_t k = 0; k < count.concrete(); ++k) {
    const Sym at = Sym::from_int(k);
    const Expr entry = loop.load(1, std::span(&at, static_cast<size_t>(index.dim())));
    const Expr is_entry =
        loop.place(loop.index_from_start(entry, x->layout.sizes[dim])) == loop.place(place[dim]);
    is_named = is_named.is_number() ? is_entry : is_named | is_entry;
  }
  if (is_named.is_number()) return value;
  return element::choose(is_named, fill, value);
}

// ---- Gradients ------------------------------------------------------------------------------------------------------

// The gradient of a source of which the index used the first places alone: nothing flows to the rest.
Tensor padded_to(const Tensor& used, const OutputSpec& source) {
  if (used->layout.sizes.size() !=
      source.sizes.size()) {  // an empty index, or no dimensions beside one element
    if (used.numel() == 0)
      return zeros(SymList(source.sizes), TensorOptions(source.dtype).device(source.device));
    return reshape(used, SymList(source.sizes));
  }
  SymList pads;
  bool is_smaller = false;
  for (size_t d = source.sizes.size(); d-- > 0;) {
    const Sym missing = source.sizes[d] - used->layout.sizes[d];
    is_smaller = is_smaller || missing != 0;
    pads.push_back(Sym::from_int(0));
    pads.push_back(missing);
  }
  return is_smaller ? pad(used, pads) : used;
}
Tensor gathered(const Tensor& dy, int64_t dim, const Tensor& index, const OutputSpec& source) {
  return padded_to(gather(dy, dim, index), source);
}

// With include_self = false nothing flows to the elements of x that were replaced.
Tensor without_replaced(const Tensor& dx, int64_t dim, const Tensor& index, bool include_self) {
  return include_self ? dx : scatter(dx, dim, index, 0);
}

struct ReduceArgs {
  int64_t dim;
  std::string_view reduce;
  bool include_self;

  explicit ReduceArgs(const Attrs& attrs)
      : dim(attrs[0].as_int()), reduce(attrs[1].as_string()), include_self(attrs[2].as_bool()) {}
};

// How many values each result is the mean of.
Tensor mean_counts(const ReduceArgs& args, const Tensor& index, const OutputSpec& x,
                   const OutputSpec& source) {
  const TensorOptions options = TensorOptions(x.dtype).device(x.device);
  const Tensor start = args.include_self ? ones(SymList(x.sizes), options) : zeros(SymList(x.sizes), options);
  return clamp_min(scatter_add(start, args.dim, index, ones(SymList(source.sizes), options)), 1);
}

// Equal extremes share the gradient evenly, an included x among them. A NaN result passes nothing on.
struct Extremes {
  Tensor x_wins, source_wins, shares;

  Extremes(const ReduceArgs& args, const Tensor& x, const Tensor& index, const Tensor& source,
           const Tensor& y) {
    // Only what index reaches of the source takes part.
    x_wins = eq(x, y).to(x.dtype());
    if (!args.include_self) x_wins = scatter(x_wins, args.dim, index, 0);
    // An empty index may have other dimensions than the source, of which it reaches nothing.
    Tensor used = index.dim() == source.dim() ? source : gather(y, args.dim, index);
    for (int64_t d = 0; d < index.dim(); ++d)
      if (used.size(d) != index.size(d)) used = narrow(used, d, 0, index.size(d));
    source_wins = eq(used, gather(y, args.dim, index)).to(x.dtype());
    shares = clamp_min(scatter_add(x_wins, args.dim, index, source_wins), 1);
  }
};

Tensor scatter_reduce_grad_x(Dy<> dy, In<0> x, In<1> index, In<2> source, Out<> y, const Attrs& attrs) {
  const ReduceArgs args(attrs);
  Tensor dx = dy;
  if (args.reduce == "mean") {
    dx = dy / mean_counts(args, index, {x->layout.sizes, x->dtype, x->device},
                          {source->layout.sizes, source->dtype, source->device});
  } else if (args.reduce == "prod") {
    // The product of the others: with 1 in the place of a zero x.
    const Tensor safe = where(eq(x, 0), 1, x);
    dx = dy * scatter_reduce(safe, args.dim, index, source, "prod", args.include_self) / safe;
  } else if (args.reduce != "sum") {
    const Extremes extremes(args, x, index, source, y);
    dx = dy / extremes.shares * extremes.x_wins;
  }
  return without_replaced(dx, args.dim, index, args.include_self);
}

Tensor scatter_reduce_grad_source(Dy<> dy, In<0> x, In<1> index, In<2> source, Out<> y, const Attrs& attrs) {
  const ReduceArgs args(attrs);
  const OutputSpec x_spec{x->layout.sizes, x->dtype, x->device};
  const OutputSpec source_spec{source->layout.sizes, source->dtype, source->device};
  if (args.reduce == "sum") return gathered(dy, args.dim, index, source_spec);
  if (args.reduce == "mean")
    return gathered(dy / mean_counts(args, index, x_spec, source_spec), args.dim, index, source_spec);
  if (args.reduce == "prod") {
    // A single zero among a target's factors gets the product of the others, of which several leave nothing.
    const Tensor zero = eq(source, 0);
    const Tensor zeros_at = scatter_add(zeros_like(x), args.dim, index, zero.to(x.dtype()));
    const Tensor zero_count = gathered(zeros_at, args.dim, index, source_spec);
    const Tensor single = logical_and(zero, eq(zero_count, 1));
    const Tensor others =
        scatter_reduce(x, args.dim, index, where(single, 1, source), "prod", args.include_self);
    return where(single, gathered(dy * others, args.dim, index, source_spec),
                 gathered(dy * y, args.dim, index, source_spec) / where(zero, 1, source));
  }
  const Extremes extremes(args, x, index, source, y);
  return padded_to(gather(dy / extremes.shares, args.dim, index) * extremes.source_wins, source_spec);
}

}  // namespace

void register_scatter_ops(OpTable& table) {
  // result = x with result[index[i][j]][j] = source[i][j] for dim 0.  Shapes: index no larger than source, nor than x but
  // along dim.  Dtypes: index int64, source that of x.
  entry(table, "scatter(Tensor x, int dim, Tensor index, Value source) -> Tensor", Kind::Index)
      .infer(infer_scatter)
      .cpu(run_on_copy<put_scatter>)
      .grad([](Dy<> dy, In<1> index, const Attrs& attrs) { return scatter(dy, attrs[0].as_int(), index, 0); },
            nullptr,
            [](Dy<> dy, In<1> index, InSpec<2> source, const Attrs& attrs) {
              return gathered(dy, attrs[0].as_int(), index, source.spec);
            })
      .samples({.calls = {"x=[8,4] dim=0 index=[2,4]:i64<8 source=[2,4]",
                          "x=[8,4] dim=0 index=[2,4]:i64<8 source=[3,5]",
                          "x=[3,12] dim=1 index=[2,3]:i64<12 source=2",
                          "x=[3] dim=0 index=[0]:i64<3 source=[2]"}});
  mutation(table, "scatter_", "scatter", put_scatter);
  entry(table, "scatter_add(Tensor x, int dim, Tensor index, Tensor source) -> Tensor", Kind::Index)
      .infer(infer_scatter)
      .cpu(run_on_copy<put_scatter_add>)
      .element(scatter_add_element)
      .grad([](Dy<> dy) -> Tensor { return dy; }, nullptr,
            [](Dy<> dy, In<1> index, InSpec<2> source, const Attrs& attrs) {
              return gathered(dy, attrs[0].as_int(), index, source.spec);
            })
      .samples(
          {.calls = {"x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4]",
                     "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7]",
                     "x=[2,3,4] dim=1 index=[2,2,4]:i64<3 source=[2,2,4]",
                     "x=[6,5] dim=1 index=[6,1]:i64<5 source=[6,1]", "x=[5] dim=0 index=[1]:i64<5 source=[3]",
                     "x=[2,3,4] dim=-2 index=[2,1,4]:i64<3 source=[2,2,4]",
                     "x=[3] dim=0 index=[0]:i64<3 source=[0]"}});
  mutation(table, "scatter_add_", "scatter_add", put_scatter_add);
  // reduce: sum, prod, mean (integers round down), amax, amin; without include_self the old value of a target does not count.
  entry(
      table,
      "scatter_reduce(Tensor x, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) "
      "-> Tensor",
      Kind::Index)
      .infer(infer_scatter_reduce)
      .cpu(run_on_copy<put_scatter_reduce>)
      .grad([](Dy<> dy, In<0> x, In<1> index, In<2> source, Out<> y,
               const Attrs& attrs) { return scatter_reduce_grad_x(dy, x, index, source, y, attrs); },
            nullptr,
            [](Dy<> dy, In<0> x, In<1> index, In<2> source, Out<> y, const Attrs& attrs) {
              return scatter_reduce_grad_source(dy, x, index, source, y, attrs);
            })
      .samples({.calls = {"x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4] reduce=sum",
                          "x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4] reduce=prod",
                          "x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4] reduce=mean",
                          "x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4] reduce=amax",
                          "x=[3,4] dim=0 index=[5,4]:i64<3 source=[5,4] reduce=amin",
                          "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7] reduce=sum include_self=False",
                          "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7] reduce=prod include_self=False",
                          "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7] reduce=mean include_self=False",
                          "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7] reduce=amax include_self=False",
                          "x=[3,4] dim=1 index=[2,6]:i64<4 source=[3,7] reduce=amin include_self=False"}});
  mutation(table, "scatter_reduce_", "scatter_reduce", put_scatter_reduce);

  // x with alpha · source added to the slices that index names.  Shapes: source as x, but for dim: as long as index.
  entry(table, "index_add(Tensor x, int dim, Tensor index, Tensor source, *, Number alpha=1) -> Tensor",
        Kind::Index)
      .infer(infer_slices)
      .cpu(run_on_copy<put_index_add>)
      .grad([](Dy<> dy) -> Tensor { return dy; }, nullptr,
            [](Dy<> dy, In<1> index, InSpec<2> source, Number<3> alpha, const Attrs& attrs) {
              return mul(reshape(index_select(dy, attrs[0].as_int(), index), source.sizes()), Scalar(alpha));
            })
      .samples({.calls = {"x=[5,3] dim=0 index=[4]:i64<5 source=[4,3] alpha=2",
                          "x=[2,3,4] dim=1 index=[5]:i32<3 source=[2,5,4]",
                          "x=[3] dim=0 index=[0]:i64<3 source=[0]"}});
  mutation(table, "index_add_", "index_add", put_index_add);
  entry(table, "index_copy(Tensor x, int dim, Tensor index, Tensor source) -> Tensor", Kind::Index)
      .infer(infer_slices)
      .cpu(run_on_copy<put_index_copy>)
      .grad([](Dy<> dy, In<1> index,
               const Attrs& attrs) { return index_fill(dy, attrs[0].as_int(), index, 0); },
            nullptr,
            [](Dy<> dy, In<1> index, InSpec<2> source, const Attrs& attrs) {
              return reshape(index_select(dy, attrs[0].as_int(), index), source.sizes());
            })
      .samples({.calls = {"x=[5,3] dim=0 index=[4]:i64<5 source=[4,3]",
                          "x=[2,3,4] dim=-1 index=[2]:i32<4 source=[2,3,2]"}});
  mutation(table, "index_copy_", "index_copy", put_index_copy);
  entry(table, "index_fill(Tensor x, int dim, Tensor index, Number value) -> Tensor", Kind::Index)
      .infer(infer_slices)
      .cpu(run_on_copy<put_index_fill>)
      .element(index_fill_element)
      .grad([](Dy<> dy, In<1> index, const Attrs& attrs) {
        return index_fill(dy, attrs[0].as_int(), index, 0);
      })
      .samples({.calls = {"x=[5,3] dim=0 index=[2]:i64<5 value=2", "x=[2,3,4] dim=1 index=[2]:i32<3 value=-1",
                          "x=[4] dim=0 index=[]:i64<4 value=0.3"}});
  mutation(table, "index_fill_", "index_fill", put_index_fill);
}

// ---- Functions and methods --------------------------------------------------------------------------------------------

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Operand& source,
               SourceLocation where) {
  return call(WEFT_OP("scatter"), {x, index, source}, {dim}, where);
}
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                   SourceLocation where) {
  return call(WEFT_OP("scatter_add"), {x, index, source}, {dim}, where);
}
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self, SourceLocation where) {
  return call(WEFT_OP("scatter_reduce"), {x, index, source}, {dim, reduce, include_self}, where);
}
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                 SourceLocation where) {
  return call(WEFT_OP("index_add"), {x, index, source, alpha}, {dim}, where);
}
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  SourceLocation where) {
  return call(WEFT_OP("index_copy"), {x, index, source}, {dim}, where);
}
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value,
                  SourceLocation where) {
  return call(WEFT_OP("index_fill"), {x, index, value}, {dim}, where);
}

Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Operand& source, SourceLocation where) {
  call_mutation(WEFT_OP("scatter_"), {*this, index, source}, {dim}, where);
  return *this;
}
Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source, SourceLocation where) {
  call_mutation(WEFT_OP("scatter_add_"), {*this, index, source}, {dim}, where);
  return *this;
}
Tensor& Tensor::scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& source,
                                std::string_view reduce, bool include_self, SourceLocation where) {
  call_mutation(WEFT_OP("scatter_reduce_"), {*this, index, source}, {dim, reduce, include_self}, where);
  return *this;
}
Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                           SourceLocation where) {
  call_mutation(WEFT_OP("index_add_"), {*this, index, source, alpha}, {dim}, where);
  return *this;
}
Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& source, SourceLocation where) {
  call_mutation(WEFT_OP("index_copy_"), {*this, index, source}, {dim}, where);
  return *this;
}
Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, const Scalar& value, SourceLocation where) {
  call_mutation(WEFT_OP("index_fill_"), {*this, index, value}, {dim}, where);
  return *this;
}

}  // namespace weft
