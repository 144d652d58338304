// The ops that order elements: sort, topk and argsort.
// Place: extern.cpp calls register_sort_ops; the kernels are in tensor/cpu/sort.h and behind tensor/cuda/rows.h.
#include "tensor/cpu/sort.h"

#include <algorithm>
#include <limits>

#include "tensor/cuda/rows.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/on_cpu.h"
#include "tensor/ops/register.h"
#include "tensor/ops/rows.h"

namespace weft {
namespace {

// Attributes of sort: dim, descending; of topk: k, dim, largest, sorted.
OutputSpecs infer_sort(const Call& call) {
  const Tensor& x = call.tensor(0);
  normalize_dim(call.attr(0).as_int(), x.dim(), call.name());
  return {OutputSpec{x->layout.sizes, x.dtype(), x.device()},
          OutputSpec{x->layout.sizes, DType::Int64, x.device()}};
}

OutputSpecs infer_topk(const Call& call) {
  const Tensor& x = call.tensor(0);
  const Sym k = call.attr(0).as_int();
  const int64_t dim = normalize_dim(call.attr(1).as_int(), x.dim(), call.name());
  const Sym size = x.dim() == 0 ? Sym::from_int(1) : x.size(dim);
  WEFT_CHECK(k >= 0 && k <= size, call.name(), ": k is ", static_cast<int64_t>(k), ", but dimension ", dim,
             " of ", x.sizes(), " has ", static_cast<int64_t>(size), " elements: k may be 0 to ",
             static_cast<int64_t>(size));
  Sizes sizes = x->layout.sizes;
  if (x.dim() > 0) sizes[static_cast<size_t>(dim)] = k;
  else
    WEFT_CHECK(k == 1, call.name(), ": k is 0, but x has no dimensions, and so has the result: k must be 1");
  return {OutputSpec{sizes, x.dtype(), x.device()}, OutputSpec{sizes, DType::Int64, x.device()}};
}

void run(const Call& call, std::span<Tensor> outputs, int64_t wanted_dim, bool descending, int64_t count) {
  const Tensor& x = call.tensor(0);
  if (int_numel(outputs[0]) == 0) return;
  static constexpr int64_t one = 1;
  const auto rank = static_cast<size_t>(x.dim());
  const auto dim = static_cast<size_t>(normalize_dim(wanted_dim, x.dim(), call.name()));
  cpu::sort_rows({.dtype = x.dtype(),
                  .x = bytes_of(x),
                  .sizes = rank == 0 ? std::span(&one, 1) : std::span(int_sizes(x), rank),
                  .strides = rank == 0 ? std::span(&one, 1) : std::span(int_strides(x), rank),
                  .dim = dim,
                  .descending = descending,
                  .count = count,
                  .values = bytes_of(outputs[0]),
                  .indices = data_of<int64_t>(outputs[1])});
}

void run_sort(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const int64_t dim = call.attr(0).as_int();
  run(call, outputs, dim, call.attr(1).as_bool(), x.dim() == 0 ? 1 : int64_t{x.size(dim)});
}

// Always in order: sorting k elements is little beside finding them.
void run_topk(const Call& call, std::span<Tensor> outputs) {
  run(call, outputs, call.attr(1).as_int(), call.attr(2).as_bool(), call.attr(0).as_int());
}

// ---- On a GPU: the driver's kernels

void sort_on_cuda(const Call& call, std::span<Tensor> outputs, int64_t wanted_dim, bool descending,
                  int64_t count) {
  if (int_numel(outputs[0]) == 0) return;
  const Tensor x = converted(call.tensor(0), call.tensor(0).dtype());
  const int64_t dim = normalize_dim(wanted_dim, x.dim(), call.name());
  cuda::RowSort what{.element = cuda::element_of(x.dtype()), .is_descending = descending, .count = count};
  for (int64_t d = 0; d < x.dim(); ++d)
    (d < dim ? what.outer : d == dim ? what.n : what.inner) *= int_sizes(x)[d];
  // Places of elements are numbers of 31 bits: so many of the outer rows at once as have them.
  const int64_t slice = what.n * what.inner, outer = what.outer;
  const int64_t most = std::numeric_limits<int32_t>::max() / slice;
  if (most == 0) return run_on_cpu(call, outputs);
  const int64_t bytes = static_cast<int64_t>(size_of(x.dtype()));
  for (int64_t at = 0; at < outer; at += most) {
    what.outer = std::min(most, outer - at);
    const int64_t to = at * count * what.inner;
    cuda::sort_rows(what, bytes_of(x) + at * slice * bytes, bytes_of(outputs[0]) + to * bytes,
                    data_of<int64_t>(outputs[1]) + to);
  }
}

void run_sort_on_cuda(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const int64_t dim = call.attr(0).as_int();
  sort_on_cuda(call, outputs, dim, call.attr(1).as_bool(), x.dim() == 0 ? 1 : int64_t{x.size(dim)});
}
void run_topk_on_cuda(const Call& call, std::span<Tensor> outputs) {
  sort_on_cuda(call, outputs, call.attr(1).as_int(), call.attr(2).as_bool(), call.attr(0).as_int());
}

// Each value's gradient goes back to where the value stood.
Tensor scatter_back(const Tensor& dy, const InSpec<0>& x, const Tensor& index, int64_t dim) {
  if (!dy.defined()) return {};
  if (x.spec.sizes.empty()) return dy;
  return scatter(zeros(x.sizes(), x.options()), dim, index, dy);
}

}  // namespace

std::tuple<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending, SourceLocation where) {
  auto [values, indices] = call_many<2>(WEFT_OP("sort"), {x}, {Attr(dim), Attr(descending)}, where);
  return {std::move(values), std::move(indices)};
}

std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted,
                                SourceLocation where) {
  auto [values, indices] =
      call_many<2>(WEFT_OP("topk"), {x}, {Attr(k), Attr(dim), Attr(largest), Attr(sorted)}, where);
  return {std::move(values), std::move(indices)};
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("argsort"), where, {x});
  return std::get<1>(sort(x, dim, descending));
}

void register_sort_ops(OpTable& table) {
  // (values, indices), stable; NaN counts as the largest.  Shapes: x [*] -> [*], [*].  Dtypes: all; indices are int64.
  entry(table, "sort(Tensor x, int dim=-1, bool descending=False) -> (Tensor, Tensor)", Kind::Extern)
      .infer(infer_sort)
      .cpu(run_sort)
      .cuda(run_sort_on_cuda)
      .grad([](Dy<0> dy, InSpec<0> x, Out<1> index, const Attrs& attrs) {
        return scatter_back(dy, x, index, attrs[0].as_int());
      })
      .samples({.distinct = true,
                .calls = {"x=[5]", "x=[3,4] dim=0", "x=[2,3,4] dim=1 descending=True", "x=[]", "x=[0,3]"}});
  // The k largest or smallest along dim, in order; of equal ones the first.
  entry(table, "topk(Tensor x, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)",
        Kind::Extern)
      .infer(infer_topk)
      .cpu(run_topk)
      .cuda(run_topk_on_cuda)
      .grad([](Dy<0> dy, InSpec<0> x, Out<1> index, const Attrs& attrs) {
        return scatter_back(dy, x, index, attrs[1].as_int());
      })
      .samples({.distinct = true, .calls = {"x=[5] k=2", "x=[3,4] k=3 dim=0 largest=False", "x=[2,3] k=0"}});
  composite(table, "argsort(Tensor x, int dim=-1, bool descending=False) -> Tensor", argsort)
      .samples({.distinct = true, .calls = {"x=[5]", "x=[3,4] dim=0 descending=True"}});
}

}  // namespace weft
