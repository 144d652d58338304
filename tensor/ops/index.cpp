// The index ops that read: gather, index_select, embedding, x[i, j, …], nonzero; and index_put.
// Place: register.cpp calls register_index_ops. scatter.cpp writes, rearrange.cpp moves.
#include "tensor/ops/index_operands.h"

#include "tensor/cpu/index.h"
#include "tensor/ops/check.h"
#include "tensor/ops/element.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/register.h"
#include "tensor/ops/view.h"

namespace weft {
namespace {

using namespace index_ops;
using Loop = cpu::IndexedLoop;

// ---- gather ---------------------------------------------------------------------------------------------------------

OutputSpecs infer_gather(const Call& call) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const int64_t dim = dim_of(call, x);
  check_index_dtype(call, index, IndexTypes::Int64);
  if (rank_of(index) != rank_of(x)) {
    WEFT_CHECK(index->numel == 0, call.name(), ": the index ", index.sizes(), " and x ", x.sizes(),
               " must have equally many dimensions");
  } else {
    for (int64_t d = 0; d < rank_of(x); ++d) {
      WEFT_CHECK(d == dim || size_at(index, d) <= size_at(x, d), call.name(), ": the index ", index.sizes(),
                 " is larger than x ", x.sizes(), " in dimension ", d, "; only in the gathered dimension ",
                 dim, " may it be");
    }
  }
  return {{index->layout.sizes, x->dtype, x->device}};
}

void run_gather(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  if (int_numel(index) == 0) return;
  const int64_t dim = dim_of(call, x);
  if (!cpu::gather(loop_along(x, dim, index, outputs[0]), x.itemsize(), bytes_of(x), data_of<int64_t>(index),
                   bytes_of(outputs[0])))
    check_range(call, index, 0, x, dim);
}

// Where the index holds nothing, the kernel still checks sizes. The ops below check an index too that takes slices without
// elements, where no loop would read it.
Expr gather_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                    std::span<const Sym> place) {
  const Tensor& x = call.tensor(0);
  if (element::is_known_empty(result.sizes) || rank_of(call.tensor(1)) != rank_of(x)) return {};
  const auto dim = static_cast<size_t>(dim_of(call, x));
  const Sym index = loop.index_from_start(loop.load(1, place), size_at(x, static_cast<int64_t>(dim)));
  element::Place at(static_cast<size_t>(x.dim()), index);
  for (size_t d = 0; d < at.size(); ++d)
    if (d != dim) at[d] = place[d];
  return loop.load(0, {at.data(), at.size()});
}

// ---- index_select, embedding ----------------------------------------------------------------------------------------

OutputSpecs infer_index_select(const Call& call) {
  const Tensor& x = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const int64_t dim = dim_of(call, x);
  check_index_dtype(call, index, IndexTypes::Int64OrInt32);
  WEFT_CHECK(index.dim() <= 1, call.name(), ": the index ", index.sizes(), " must have one dimension");
  Sizes sizes = x->layout.sizes;
  if (x.dim() > 0) sizes[static_cast<size_t>(dim)] = index->numel;
  else
    WEFT_CHECK(index->numel == 1, call.name(), ": x has no dimensions, so that the index ", index.sizes(),
               " must hold one number");
  return {{sizes, x->dtype, x->device}};
}

void run_index_select(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const int64_t dim = dim_of(call, x);
  const Tensor index = as_int64(call.tensor(1));
  if (!cpu::gather(loop_over_slices(x, dim, index, outputs[0]), x.itemsize(), bytes_of(x),
                   data_of<int64_t>(index), bytes_of(outputs[0])) ||
      int_numel(outputs[0]) == 0)
    check_range(call, index, 0, x, dim);
}

Expr index_select_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                          std::span<const Sym> place) {
  const Tensor& x = call.tensor(0);
  const auto dim = static_cast<size_t>(dim_of(call, x));
  if (element::may_be_empty_beside(result.sizes, dim, 1)) return {};
  const Sym which = x.dim() > 0 ? place[dim] : Sym::from_int(0);
  const std::span<const Sym> index_place(&which, static_cast<size_t>(call.tensor(1).dim()));
  element::Place at = element::copy_of(place);
  const Sym index = loop.index_from_start(loop.load(1, index_place), size_at(x, static_cast<int64_t>(dim)));
  if (x.dim() > 0) at[dim] = index;
  return loop.load(0, {at.data(), at.size()});
}

OutputSpecs infer_embedding(const Call& call) {
  const Tensor& index = call.tensor(0);
  const Tensor& weight = call.tensor(1);
  check_index_dtype(call, index, IndexTypes::Int64OrInt32);
  WEFT_CHECK(weight.dim() == 2, call.name(), ": weight ", weight.sizes(),
             " must have two dimensions, [rows, width]");
  Sizes sizes = index->layout.sizes;
  sizes.push_back(weight->layout.sizes[1]);
  return {{sizes, weight->dtype, weight->device}};
}

void run_embedding(const Call& call, std::span<Tensor> outputs) {
  const Tensor index = as_int64(call.tensor(0));
  const Tensor& weight = call.tensor(1);
  Loop loop;
  loop.box.sizes = sizes_of(outputs[0]);
  cpu::IndexList at(int_strides(index), int_strides(index) + index.dim()), row(at.size(), 0);
  at.push_back(0);
  row.push_back(int_strides(weight)[1]);
  loop.box.strides = {row, at, strides_of(outputs[0])};
  loop.scale = int_strides(weight)[0];
  loop.range = int_sizes(weight)[0];
  if (!cpu::gather(loop, weight.itemsize(), bytes_of(weight), data_of<int64_t>(index),
                   bytes_of(outputs[0])) ||
      int_numel(outputs[0]) == 0)
    check_range(call, index, 0, weight, 0);
}

Expr embedding_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                       std::span<const Sym> place) {
  if (element::may_be_empty_beside(result.sizes, 0, place.size() - 1)) return {};
  const Expr row = loop.load(0, place.first(place.size() - 1));
  const Sym at[] = {loop.index_from_start(row, call.tensor(1)->layout.sizes[0]), place.back()};
  return loop.load(1, at);
}

// ---- x[i, j, …] -----------------------------------------------------------------------------------------------------

bool is_mask(const Tensor& index) {
  return index.defined() && (index->dtype == DType::Bool || index->dtype == DType::UInt8);
}

void check_mask(const char* op, const Tensor& x, size_t dim, const Tensor& mask) {
  const auto rank = static_cast<size_t>(mask.dim());
  if (dim + rank > static_cast<size_t>(x.dim()))
    throw IndexError(detail::concat(op, ": too many indices: the mask ", mask.sizes(), " at dimension ", dim,
                                    " goes beyond x ", x.sizes()));
  for (size_t d = 0; d < rank; ++d) {
    if (mask->layout.sizes[d] != x->layout.sizes[dim + d])
      throw IndexError(detail::concat(op, ": the mask ", mask.sizes(), " at dimension ", dim,
                                      " does not match x ", x.sizes(), ": its dimension ", d, " must be ",
                                      x->layout.sizes[dim + d]));
  }
}

// How an index takes from x: result dimensions are those of x that stay whole, with those of the broadcast index tensors
// in the place of the first indexed one where the indexed ones are neighbours, and in front otherwise.
struct IndexPlan {
  Sizes index_sizes;  // what the index tensors broadcast to
  SmallVector<size_t, kInlineRank> kept;
  size_t before = 0;  // how many kept dimensions come before those of the index
  Sizes result;
};

// `indices` by dimension of x, without masks; undefined ones, and those missing at the end, keep their dimension.
IndexPlan plan_index(const Call& call, const Tensor& x, std::span<const Tensor> indices) {
  IndexPlan plan;
  const auto rank = static_cast<size_t>(x.dim());
  if (indices.size() > rank)
    throw IndexError(
        detail::concat(call.name(), ": too many indices: ", indices.size(), " for x ", x.sizes()));
  bool any = false, ended = false, adjacent = true;
  for (size_t d = 0; d < rank; ++d) {
    if (d >= indices.size() || !indices[d].defined()) {
      plan.kept.push_back(d);
      ended = any;
      continue;
    }
    check_index_dtype(call, indices[d], IndexTypes::Int64OrInt32);
    plan.index_sizes = any ? broadcast_sizes(plan.index_sizes, indices[d]->layout.sizes, call.name())
                           : indices[d]->layout.sizes;
    if (!any) plan.before = plan.kept.size();
    if (ended) adjacent = false;
    any = true;
  }
  if (!adjacent) plan.before = 0;
  for (size_t k = 0; k <= plan.kept.size(); ++k) {
    if (k == plan.before)
      plan.result.insert(plan.result.end(), plan.index_sizes.begin(), plan.index_sizes.end());
    if (k < plan.kept.size()) plan.result.push_back(x->layout.sizes[plan.kept[k]]);
  }
  return plan;
}

struct IndexOffsets {
  Tensor table;  // for each place of the broadcast index tensors, the offset in x
  Loop loop;     // without the strides of the dense array
};

// Checks every index before anything is read or written.
IndexOffsets make_offsets(const Call& call, const Tensor& x, std::span<const Tensor> indices,
                          const IndexPlan& plan) {
  IndexOffsets result{make_tensor(plan.index_sizes, DType::Int64), {}};
  const int64_t n = int_numel(result.table);
  int64_t* const table = data_of<int64_t>(result.table);
  std::fill_n(table, n, 0);
  result.loop.range = n == 0 ? 0 : 1;
  const cpu::IndexList box_sizes = sizes_of(result.table);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const Tensor index = as_int64(indices[d]);
    const int64_t size = int_sizes(x)[d], stride = int_strides(x)[d];
    check_range(call, index, -size, x, static_cast<int64_t>(d));
    if (n == 0) continue;
    cpu::Box<1> box{box_sizes, {cpu::IndexList(box_sizes.size(), 0)}};
    const auto index_rank = static_cast<size_t>(index.dim());
    for (size_t k = 0; k < index_rank; ++k)
      if (int_sizes(index)[k] != 1) box.strides[0][box_sizes.size() - index_rank + k] = int_strides(index)[k];
    cpu::add_offsets(box, data_of<int64_t>(index), size, stride, table);
    result.loop.range += (size - 1) * stride;
  }
  cpu::Box<3>& box = result.loop.box;
  for (size_t k = 0; k <= plan.kept.size(); ++k) {
    if (k == plan.before) {
      for (int64_t d = 0; d < result.table.dim(); ++d) {
        box.sizes.push_back(int_sizes(result.table)[d]);
        box.strides[Loop::kIndexed].push_back(0);
        box.strides[Loop::kIndex].push_back(int_strides(result.table)[d]);
      }
    }
    if (k == plan.kept.size()) break;
    box.sizes.push_back(int_sizes(x)[plan.kept[k]]);
    box.strides[Loop::kIndexed].push_back(int_strides(x)[plan.kept[k]]);
    box.strides[Loop::kIndex].push_back(0);
  }
  return result;
}

std::vector<Tensor> tensors_from(const Call& call, size_t first) {
  std::vector<Tensor> result;
  for (size_t i = first; i < call.operands.size(); ++i)
    result.push_back(call.has_tensor(i) ? call.tensor(i) : Tensor());
  return result;
}

OutputSpecs infer_index_tensors(const Call& call) {
  const Tensor& x = call.tensor(0);
  return {{plan_index(call, x, tensors_from(call, 1)).result, x->dtype, x->device}};
}

void run_index_tensors(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const std::vector<Tensor> indices = tensors_from(call, 1);
  IndexOffsets offsets = make_offsets(call, x, indices, plan_index(call, x, indices));
  offsets.loop.box.strides[Loop::kDense] = {int_strides(outputs[0]),
                                            int_strides(outputs[0]) + outputs[0].dim()};
  cpu::gather(std::move(offsets.loop), x.itemsize(), bytes_of(x), data_of<int64_t>(offsets.table),
              bytes_of(outputs[0]));
}

Expr index_tensors_element(LoopReader& loop, const Call& call, const OutputSpec& result,
                           std::span<const Sym> place) {
  const Tensor& x = call.tensor(0);
  const std::vector<Tensor> indices = tensors_from(call, 1);
  const IndexPlan plan = plan_index(call, x, indices);
  if (element::may_be_empty_beside(result.sizes, plan.before, plan.index_sizes.size())) return {};
  const std::span<const Sym> index_place = place.subspan(plan.before, plan.index_sizes.size());
  element::Place at(static_cast<size_t>(x.dim()), Sym());
  for (size_t k = 0; k < plan.kept.size(); ++k)
    at[plan.kept[k]] = place[k < plan.before ? k : k + index_place.size()];
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const Sizes& sizes = indices[d]->layout.sizes;
    const std::span<const Sym> last = index_place.last(sizes.size());
    const size_t added = plan.index_sizes.size() - sizes.size();
    element::Place own = element::copy_of(last);
    for (size_t k = 0; k < plan.index_sizes.size(); ++k) {
      const Sym whole = plan.index_sizes[k];
      const bool is_there = k >= added;
      if (is_there && element::is_known(sizes[k - added], 1)) own[k - added] = Sym::from_int(0);
      // What is repeated is not read at all if another index tensor is empty.
      const bool is_own = is_there && statically_known(SymCompare::Eq, sizes[k - added], whole);
      if (!is_own && !statically_known(SymCompare::Gt, whole, Sym::from_int(0))) return {};
    }
    at[d] = loop.index(loop.load(1 + d, {own.data(), own.size()}), x->layout.sizes[d]);
  }
  return loop.load(0, {at.data(), at.size()});
}

// ---- nonzero --------------------------------------------------------------------------------------------------------

Tensor nonzero_places(const Tensor& x) {
  Tensor dense = x;
  if (!x.is_contiguous()) {
    dense = make_tensor(x->layout.sizes, x->dtype, x->device);
    copy_data(x, dense);
  }
  const int64_t n = int_numel(x);
  std::vector<int64_t> starts(static_cast<size_t>((n + cpu::kNonzeroBlock - 1) / cpu::kNonzeroBlock));
  cpu::count_nonzero_blocks(x->dtype, bytes_of(dense), n, starts.data());
  int64_t total = 0;
  for (int64_t& start : starts) total += std::exchange(start, total);
  Tensor places = make_tensor({Sym::from_int(total), Sym::from_int(x.dim())}, DType::Int64, x->device);
  cpu::write_nonzero(x->dtype, bytes_of(dense), {int_sizes(x), static_cast<size_t>(x.dim())}, starts.data(),
                     data_of<int64_t>(places));
  return places;
}

void run_nonzero(const Call& call, std::span<Tensor> outputs) { outputs[0] = nonzero_places(call.tensor(0)); }

// ---- index_put ------------------------------------------------------------------------------------------------------

// x with a mask turned into the index tensors of its true places; a mask without dimensions adds one of size 1 to x.
std::vector<Tensor> without_masks(const Call& call, Tensor& x, std::span<const Tensor> indices) {
  std::vector<Tensor> result;
  for (const Tensor& index : indices) {
    if (!is_mask(index)) {
      result.push_back(index);
      continue;
    }
    check_mask(call.name(), x, result.size(), index);
    Tensor places = nonzero_places(index);
    Layout<Sym> column{{places->layout.sizes[0]}, {Sym::from_int(std::max<int64_t>(1, index.dim()))}, {}};
    if (index.dim() == 0) {
      Layout<Sym> layout = x->layout;
      layout.sizes.insert(layout.sizes.begin() + result.size(), Sym::from_int(1));
      layout.strides.insert(layout.strides.begin() + result.size(), Sym::from_int(0));
      x = make_view(x, std::move(layout));
      places = make_tensor(column.sizes, DType::Int64);
      std::fill_n(data_of<int64_t>(places), int_numel(places), 0);
      result.push_back(places);
    }
    for (int64_t d = 0; d < index.dim(); ++d) {
      column.offset = Sym::from_int(d);
      result.push_back(make_view(places, column));
    }
  }
  return result;
}

// The value stretches to the indexed part, never the other way round; dimensions in front that the part lacks are 1.
void check_put_value(const Call& call, const IndexPlan& plan) {
  if (!call.has_tensor(1)) return;
  const Sizes& value = call.tensor(1)->layout.sizes;
  const size_t rank = plan.result.size(), leading = value.size() > rank ? value.size() - rank : 0;
  bool fits = true;
  for (size_t d = 0; fits && d < value.size(); ++d) {
    const auto is_whole = [&] { return value[d] == plan.result[rank + d - value.size()]; };
    fits = value[d] == 1 || (d >= leading && is_whole());
  }
  WEFT_CHECK(fits, call.name(), ": the value ", SizesView(value), " does not broadcast to the indexed part ",
             plan.result, " of x ", call.tensor(0).sizes());
}

void check_put_dtype(const Call& call) {
  const Tensor& x = call.tensor(0);
  WEFT_CHECK(!call.has_tensor(1) || call.tensor(1)->dtype == x->dtype, call.name(), ": the value is ",
             call.tensor(1)->dtype, ", but x is ", x->dtype, "; convert the value with to()");
}

OutputSpecs infer_index_put(const Call& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<Tensor> indices = tensors_from(call, 2);
  bool has_mask = false;
  for (const Tensor& index : indices) has_mask = has_mask || is_mask(index);
  check_put_dtype(call);
  if (!has_mask) check_put_value(call, plan_index(call, x, indices));
  return like_operand_0(call);
}

void put(const Call& call, const Tensor& target) {
  Tensor view = target;
  const std::vector<Tensor> indices = without_masks(call, view, tensors_from(call, 2));
  const IndexPlan plan = plan_index(call, view, indices);
  Tensor value = call.has_tensor(1) ? call.tensor(1)
                                    : number_tensor(call.operands[1].scalar, target->dtype, call.name());
  check_put_dtype(call);
  check_put_value(call, plan);
  value = unaliased(value, target);
  const size_t rank = plan.result.size(), value_rank = static_cast<size_t>(value.dim());
  cpu::IndexList strides(rank, 0);
  for (size_t d = value_rank > rank ? value_rank - rank : 0; d < value_rank; ++d)
    if (int_sizes(value)[d] != 1) strides[rank + d - value_rank] = int_strides(value)[d];
  const bool accumulate = call.attr(0).as_bool();
  // A sum of halves is made in float32 and rounded once.
  const bool widens = accumulate && is_half(target->dtype);
  Tensor work = view;
  if (widens) {
    work = make_tensor(view->layout.sizes, DType::Float32);
    copy_data(view, work);
  }
  IndexOffsets offsets = make_offsets(call, work, indices, plan);
  offsets.loop.box.strides[Loop::kDense] = strides;
  cpu::scatter(std::move(offsets.loop), accumulate ? cpu::ScatterOp::Add : cpu::ScatterOp::Assign,
               work->dtype, bytes_of(work), data_of<int64_t>(offsets.table), value->dtype, bytes_of(value));
  if (widens) copy_data(work, view);
}

SmallVector<Operand, 8> operands_of(std::initializer_list<Operand> first, const std::vector<Tensor>& list) {
  SmallVector<Operand, 8> operands(first.begin(), first.end());
  for (const Tensor& tensor : list) operands.push_back(Operand(tensor));
  return operands;
}

}  // namespace

void register_index_ops(OpTable& table) {
  register_rearrange_ops(table);

  // result[i][j] = x[index[i][j]][j] for dim 0.  Shapes: x, index: equal rank, index no larger but along dim.
  entry(table, "gather(Tensor x, int dim, Tensor index) -> Tensor", Kind::Index)
      .infer(infer_gather)
      .cpu(run_gather)
      .element(gather_element)
      .grad([](Dy<> dy, InSpec<0> x, In<1> index, const Attrs& attrs) {
        return scatter_add(zeros(x.sizes(), x.options()), attrs[0].as_int(), index, dy);
      })
      .samples({.calls = {"x=[3,4] dim=1 index=[3,2]:i64<4", "x=[5,3] dim=0 index=[2,3]:i64<5",
                          "x=[2,3,4] dim=1 index=[2,5,4]:i64<3", "x=[3,4] dim=0 index=[0,4]:i64<3",
                          "x=[1] dim=-1 index=[4]:i64<1", "x=[4] dim=0 index=[]:i64<4",
                          "x=[] dim=0 index=[1]:i64<1"}});
  entry(table, "index_select(Tensor x, int dim, Tensor index) -> Tensor", Kind::Index)
      .infer(infer_index_select)
      .cpu(run_index_select)
      .element(index_select_element)
      .grad([](Dy<> dy, InSpec<0> x, In<1> index, const Attrs& attrs) {
        return index_add(zeros(x.sizes(), x.options()), attrs[0].as_int(), index, dy);
      })
      .samples({.calls = {"x=[5,4] dim=0 index=[3]:i64<5", "x=[2,3,4] dim=-1 index=[6]:i32<4",
                          "x=[3,0] dim=0 index=[2]:i64<3", "x=[] dim=0 index=[1]:i64<1"}});
  composite(table, "take_along_dim(Tensor x, Tensor index, int dim) -> Tensor", &take_along_dim)
      .samples({.calls = {"x=[3,4] index=[3,2]:i64<4 dim=1", "x=[3,1] index=[1,5]:i64<3 dim=0"}});
  // The rows of weight.  Shapes: index [*], weight [rows, width] -> [*, width].
  entry(table, "embedding(Tensor index, Tensor weight) -> Tensor", Kind::Index)
      .infer(infer_embedding)
      .cpu(run_embedding)
      .element(embedding_element)
      .grad(nullptr,
            [](Dy<> dy, In<0> index, InSpec<1> weight) {
              return index_add(zeros(weight.sizes(), weight.options()), 0, reshape(index, {-1}),
                               reshape(dy, {index.numel(), weight.spec.sizes[1]}));
            })
      .samples({.calls = {"index=[2,3]:i64<7 weight=[7,4]", "index=[4]:i32<3 weight=[3,5]",
                          "index=[0]:i64<3 weight=[3,2]", "index=[]:i64<3 weight=[3,2]"}});

  // index turns masks into index tensors; this is what stays. Negative ones count from the end.
  entry(table, "index_tensors(Tensor x, Tensor?[] indices) -> Tensor", Kind::Index)
      .infer(infer_index_tensors)
      .cpu(run_index_tensors)
      .element(index_tensors_element)
      .grad(
          [](Dy<> dy, InSpec<0> x, InList<1> indices) {
            return index_put(zeros(x.sizes(), x.options()), indices.tensors, dy, true);
          },
          nullptr)
      .samples({.calls = {"x=[5,4] indices=[[3]:i64<5]", "x=[5,4,3] indices=[[2,1]:i64<5,[3]:i64<4]",
                          "x=[4] indices=[[]:i64<4]", "x=[4,2] indices=[[0]:i64<4]",
                          "x=[5,3,4] indices=[None,[2,1]:i32<3,[2]:i64<4]",
                          "x=[5,3,4] indices=[[2,1]:i64<5,None,[3]:i64<4]"}});
  composite(table, "index(Tensor x, Tensor?[] indices) -> Tensor", &index)
      .samples({.calls = {"x=[4,3] indices=[[2]:i64<4]", "x=[3,4] indices=[[3,4]:bool]",
                          "x=[3,4] indices=[[3]:bool]"}});
  // x with value at x[indices]; equal places: the last one in row-major order stays, or all add up in that order.
  // Halves add up in float32. The value may share memory with x: it is read before anything is written.
  entry(table, "index_put(Tensor x, Tensor?[] indices, Value value, bool accumulate=False) -> Tensor",
        Kind::Index)
      .infer(infer_index_put)
      .cpu(run_on_copy<put>)
      .grad(
          [](Dy<> dy, InList<2> indices, const Attrs& attrs) -> Tensor {
            return attrs[0].as_bool() ? dy : index_put(dy, indices.tensors, 0, false);
          },
          [](Dy<> dy, InSpec<1> value, InList<2> indices) {
            return sum_to(index(dy, indices.tensors), value.sizes());
          },
          nullptr)
      .samples({.calls = {"x=[5,3] indices=[[4]:i64<5] value=[4,3] accumulate=True",
                          "x=[5,3] indices=[[2]:i64<5] value=[3]", "x=[3,4] indices=[[3,4]:bool] value=2",
                          "x=[5,4,3] indices=[[2,1]:i64<5,[3]:i64<4] value=[2,3,3] accumulate=True",
                          "x=[5,2] indices=[[0]:i64<5] value=[1,2]"}});
  mutation(table, "index_put_", "index_put", put);

  composite(table, "masked_select(Tensor x, Tensor mask) -> Tensor", &masked_select)
      .samples({.calls = {"x=[3,4] mask=[3,4]:bool", "x=[3,1] mask=[4]:bool", "x=[] mask=[]:bool"}});
  entry(table, "nonzero(Tensor x) -> Tensor", Kind::Index)
      .cpu_whole(run_nonzero)
      .data_dependent()
      .samples({.calls = {"x=[3,4]", "x=[2,3,5]", "x=[0,3]", "x=[]"}});

  register_scatter_ops(table);
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, SourceLocation where) {
  return call(WEFT_OP("gather"), {x, index}, {dim}, where);
}
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, SourceLocation where) {
  return call(WEFT_OP("index_select"), {x, index}, {dim}, where);
}
Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("take_along_dim"), where, {x, index});
  WEFT_CHECK_AT(where, x.dim() == index.dim(), "take_along_dim: the index ", index.sizes(), " and x ",
                x.sizes(), " must have equally many dimensions");
  const auto d = static_cast<size_t>(normalize_dim(dim, x.dim(), "take_along_dim"));
  if (x.dim() == 0) return gather(x, dim, index, where);
  // All dimensions but one broadcast.
  Sizes x_sizes = x->layout.sizes, index_sizes = index->layout.sizes;
  x_sizes[d] = index_sizes[d] = Sym::from_int(1);
  Sizes sizes = broadcast_sizes(x_sizes, index_sizes, "take_along_dim");
  sizes[d] = x->layout.sizes[d];
  const Tensor wide_x = expand(x, sizes, where);
  sizes[d] = index->layout.sizes[d];
  return gather(wide_x, dim, expand(index, sizes, where), where);
}
Tensor embedding(const Tensor& weight, const Tensor& index, SourceLocation where) {
  return call(WEFT_OP("embedding"), {index, weight}, where);
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("index"), where, {x});
  Tensor base = x;
  std::vector<Tensor> tensors;
  for (const Tensor& given : indices) {
    if (!is_mask(given)) {
      tensors.push_back(given);
      continue;
    }
    const auto dim = static_cast<int64_t>(tensors.size());
    Tensor mask = given;
    if (mask.dim() == 0) {
      mask = reshape(mask, {1}, where);
      base = unsqueeze(base, dim, where);
    }
    check_mask("index", base, tensors.size(), mask);
    const Tensor places = nonzero(mask, where);
    for (int64_t d = 0; d < mask.dim(); ++d) tensors.push_back(select(places, 1, d, where));
  }
  const SmallVector<Operand, 8> operands = operands_of({base}, tensors);
  return call(WEFT_OP("index_tensors"), operands, {}, where);
}
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& value, bool accumulate,
                 SourceLocation where) {
  const SmallVector<Operand, 8> operands = operands_of({x, value}, indices);
  return call(WEFT_OP("index_put"), operands, {accumulate}, where);
}
Tensor& Tensor::index_put_(const std::vector<Tensor>& indices, const Operand& value, bool accumulate,
                           SourceLocation where) {
  const SmallVector<Operand, 8> operands = operands_of({*this, value}, indices);
  call_mutation(WEFT_OP("index_put_"), operands, {accumulate}, where);
  return *this;
}

Tensor masked_select(const Tensor& x, const Tensor& mask, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("masked_select"), where, {x, mask});
  WEFT_CHECK_AT(where, mask.dtype() == DType::Bool, "masked_select: the mask is ", mask.dtype(),
                "; it must be bool");
  Sizes sizes = broadcast_sizes(x.sizes(), mask.sizes(), "masked_select");
  if (sizes.empty()) sizes.push_back(Sym::from_int(1));
  return index(expand(x, sizes, where), {expand(mask, sizes, where)}, where);
}
Tensor nonzero(const Tensor& x, SourceLocation where) { return call(WEFT_OP("nonzero"), {x}, where); }

}  // namespace weft
