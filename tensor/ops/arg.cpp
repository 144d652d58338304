// argmax, argmin, max and min along a dimension with their places.
// Place: register_reduction_ops calls register_arg_ops.
#include <algorithm>
#include <vector>

#include "tensor/cpu/reduce_arg.h"
#include "tensor/cuda/rows.h"
#include "tensor/ops/rows.h"

namespace weft {
namespace {

// x as [outer, n, inner] in row-major order, in a dtype that has kernels.
struct Block {
  Tensor x;
  int64_t outer = 1, n = 1, inner = 1;

  // All elements as one run where dim is not given.
  Block(const Tensor& from, std::optional<int64_t> dim) {
    const bool has_kernels = is_floating(from->dtype) || from->dtype == DType::Int64;
    x = converted(from, has_kernels ? from->dtype : DType::Int32);
    if (!dim) {
      n = int_numel(from);
      return;
    }
    const int64_t* sizes = int_sizes(from);
    for (int64_t d = 0; d < from.dim(); ++d) (d < *dim ? outer : d == *dim ? n : inner) *= sizes[d];
  }
};

// In pieces of cache size: only the one that holds the extreme is read a second time.
template <bool kMax>
int64_t arg_of_run(const char* x, DType dtype, int64_t n) {
  const DType compute = compute_dtype(dtype);
  const cpu::FoldKernels& fold = cpu::fold_kernels(kMax ? cpu::Fold::Max : cpu::Fold::Min, dtype);
  const int64_t bytes = static_cast<int64_t>(size_of(dtype));
  const auto better = [&](auto a, auto b) { return kMax ? a > b : a < b; };
  constexpr int64_t kPiece = cpu::kInnerBlock;
  alignas(8) char best[8], value[8];
  int64_t at = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    fold.run(x + i * bytes, std::min(kPiece, n - i), value);
    const bool take = visit(compute, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_arithmetic_v<T>) {
        const T a = *reinterpret_cast<const T*>(value), b = *reinterpret_cast<const T*>(best);
        return i == 0 || better(a, b) || (a != a && b == b);
      } else {
        return false;
      }
    });
    if (!take) continue;
    std::copy_n(value, 8, best);
    at = i;
  }
  const auto find = cpu::arg_kernels()[static_cast<int>(dtype)].find;
  return at + find(x + at * bytes, std::min(kPiece, n - at), best);
}

template <bool kMax>
void run_arg(const Block& block, int64_t* index) {
  const DType dtype = block.x->dtype;
  const int64_t bytes = static_cast<int64_t>(size_of(dtype));
  const char* x = bytes_of(block.x);
  if (block.inner == 1) {
    parallel_for(
        block.outer, std::max<int64_t>(1, 16384 / block.n),
        [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o)
            index[o] = arg_of_run<kMax>(x + o * block.n * bytes, dtype, block.n);
        },
        1);
    return;
  }
  const cpu::ArgKernels& kernels = cpu::arg_kernels()[static_cast<int>(dtype)];
  const auto columns = kMax ? kernels.max_columns : kernels.min_columns;
  const int64_t chunks = (block.inner + cpu::kArgColumns - 1) / cpu::kArgColumns;
  parallel_for(
      block.outer * chunks, std::max<int64_t>(1, 16384 / (block.n * std::min(block.inner, cpu::kArgColumns))),
      [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t o = unit / chunks, column = unit % chunks * cpu::kArgColumns;
          columns(x + (o * block.n * block.inner + column) * bytes, block.inner, block.n,
                  std::min(cpu::kArgColumns, block.inner - column), index + o * block.inner + column);
        }
      },
      1);
}

// One long run in as many pieces as there are threads, compared in order.
template <bool kMax>
int64_t arg_of_all(const Block& block) {
  const DType dtype = block.x->dtype;
  const int64_t pieces = std::min<int64_t>(num_threads(), (block.n + 65535) / 65536);
  if (pieces <= 1) return arg_of_run<kMax>(bytes_of(block.x), dtype, block.n);
  const int64_t length = (block.n + pieces - 1) / pieces, bytes = static_cast<int64_t>(size_of(dtype));
  std::vector<int64_t> places(static_cast<size_t>(pieces), -1);
  parallel_for(
      pieces, 1,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i * length, count = std::min(length, block.n - first);
          if (count > 0)
            places[static_cast<size_t>(i)] =
                first + arg_of_run<kMax>(bytes_of(block.x) + first * bytes, dtype, count);
        }
      },
      1);
  // The winners, one after the other, are a short run of their own.
  const Tensor winners = make_tensor(SymList{pieces}, dtype);
  int64_t count = 0;
  for (int64_t place : places)
    if (place >= 0)
      std::copy_n(bytes_of(block.x) + place * bytes, bytes, bytes_of(winners) + count++ * bytes);
  return places[static_cast<size_t>(arg_of_run<kMax>(bytes_of(winners), dtype, count))];
}

std::optional<int64_t> optional_dim_of(const Call& call) {
  if (call.attr(0).is_none()) return std::nullopt;
  return normalize_dim(call.attr(0).as_int(), call.tensor(0).dim(), call.name());
}

OutputSpec infer_places(const Call& call) {
  const Tensor& x = call.tensor(0);
  const std::optional<int64_t> dim = optional_dim_of(call);
  const DimList dims = dim ? DimList(*dim) : DimList();
  const FoldedDims folded = folded_dims(dims, x.dim(), call.name());
  for (size_t d = 0; d < folded.size(); ++d) {
    WEFT_CHECK(!folded[d] || x.sizes()[d] != 0, call.name(), ": x is ", describe(x), ", and dimension ", d,
               " of size 0 has no extreme; take it along a dimension that is not empty");
  }
  return {folded_sizes(x->layout.sizes, folded, call.attr(1).as_bool()), DType::Int64, x->device};
}

OutputSpecs infer_arg(const Call& call) {
  OutputSpecs specs;
  specs.push_back(infer_places(call));
  return specs;
}
template <bool kMax>
void run_arg_op(const Call& call, std::span<Tensor> outputs) {
  if (int_numel(outputs[0]) == 0) return;
  const Block block(call.tensor(0), optional_dim_of(call));
  if (block.outer == 1 && block.inner == 1) *data_of<int64_t>(outputs[0]) = arg_of_all<kMax>(block);
  else run_arg<kMax>(block, data_of<int64_t>(outputs[0]));
}

OutputSpecs infer_extreme_with_place(const Call& call) {
  OutputSpecs specs;
  specs.push_back(infer_places(call));
  specs.push_back(specs[0]);
  specs[0].dtype = call.tensor(0).dtype();
  return specs;
}
template <bool kMax>
void run_extreme_with_place(const Call& call, std::span<Tensor> outputs) {
  const int64_t count = int_numel(outputs[1]);
  if (count == 0) return;
  const Block block(call.tensor(0), optional_dim_of(call));
  int64_t* index = data_of<int64_t>(outputs[1]);
  if (block.outer == 1 && block.inner == 1) *index = arg_of_all<kMax>(block);
  else run_arg<kMax>(block, index);
  // Picked from the tensor of the kernels' dtype, then converted back.
  const Tensor values = block.x->dtype == outputs[0]->dtype
                            ? outputs[0]
                            : make_tensor(outputs[0]->layout.sizes, block.x->dtype);
  const size_t bytes = size_of(block.x->dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t o = i / block.inner, c = i % block.inner;
    const int64_t from = (o * block.n + index[i]) * block.inner + c;
    std::copy_n(bytes_of(block.x) + static_cast<size_t>(from) * bytes, bytes,
                bytes_of(values) + static_cast<size_t>(i) * bytes);
  }
  if (!values.is_same(outputs[0])) copy_data(values, outputs[0]);
}

// With the values in front of the places where there are two results.
template <bool kMax>
void find_on_cuda(const Call& call, std::span<Tensor> outputs) {
  const Tensor& places = outputs.back();
  if (int_numel(places) == 0) return;
  const Tensor x = converted(call.tensor(0), call.tensor(0).dtype());
  const std::optional<int64_t> dim = optional_dim_of(call);
  cuda::RowExtreme what{.element = cuda::element_of(x.dtype()), .is_min = !kMax};
  if (!dim) what.n = int_numel(x);
  for (int64_t d = 0; dim && d < x.dim(); ++d)
    (d < *dim ? what.outer : d == *dim ? what.n : what.inner) *= int_sizes(x)[d];
  cuda::find_extremes(what, bytes_of(x), outputs.size() > 1 ? bytes_of(outputs[0]) : nullptr,
                      data_of<int64_t>(places));
}

// dy at the places that were chosen, 0 elsewhere.
Tensor place_gradient(const Tensor& dy, const Tensor& places, const OutputSpec& x, const Attrs& attrs) {
  const int64_t rank = static_cast<int64_t>(x.sizes.size());
  if (rank == 0) return dy;
  const int64_t dim = normalize_dim(attrs[0].as_int(), rank, "max");
  const bool keepdim = attrs[1].as_bool();
  SymList along;
  for (int64_t d = 0; d < rank; ++d)
    along.push_back(d == dim ? x.sizes[static_cast<size_t>(d)] : Sym::from_int(1));
  const Tensor counter = reshape(
      arange(Scalar(x.sizes[static_cast<size_t>(dim)]), TensorOptions(kInt64).device(x.device)), along);
  return where(eq(keepdim ? places : unsqueeze(places, dim), counter), keepdim ? dy : unsqueeze(dy, dim), 0);
}

}  // namespace

void register_arg_ops(OpTable& table) {
  // The place of the first extreme, in logical order when dim is not given; the first NaN counts as one.
  entry(table, "argmax(Tensor x, int? dim=None, bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_arg)
      .cpu(run_arg_op<true>)
      .cuda(find_on_cuda<true>);
  entry(table, "argmin(Tensor x, int? dim=None, bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_arg)
      .cpu(run_arg_op<false>)
      .cuda(find_on_cuda<false>);
  const auto gradient = [](Dy<0> dy, Out<1> places, InSpec<0> x, const Attrs& attrs) {
    return place_gradient(dy, places, x.spec, attrs);
  };
  entry(table, "max_dim(Tensor x, int dim, bool keepdim=False) -> (Tensor, Tensor)", Kind::Reduction)
      .infer(infer_extreme_with_place)
      .cpu(run_extreme_with_place<true>)
      .cuda(find_on_cuda<true>)
      .grad(gradient)
      .samples({.distinct = true});
  entry(table, "min_dim(Tensor x, int dim, bool keepdim=False) -> (Tensor, Tensor)", Kind::Reduction)
      .infer(infer_extreme_with_place)
      .cpu(run_extreme_with_place<false>)
      .cuda(find_on_cuda<false>)
      .grad(gradient)
      .samples({.distinct = true});
  composite(table, "max(Tensor x) -> Tensor", static_cast<Tensor (*)(const Tensor&, SourceLocation)>(max));
  composite(table, "min(Tensor x) -> Tensor", static_cast<Tensor (*)(const Tensor&, SourceLocation)>(min));
}

Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("argmax"), {x}, {dim, keepdim}, where);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("argmin"), {x}, {dim, keepdim}, where);
}
Tensor max(const Tensor& x, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("max"), where, {x});
  return amax(x, {}, false, where);
}
Tensor min(const Tensor& x, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("min"), where, {x});
  return amin(x, {}, false, where);
}
std::tuple<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keepdim, SourceLocation where) {
  auto [values, places] = call_many<2>(WEFT_OP("max_dim"), {x}, {dim, keepdim}, where);
  return {std::move(values), std::move(places)};
}
std::tuple<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keepdim, SourceLocation where) {
  auto [values, places] = call_many<2>(WEFT_OP("min_dim"), {x}, {dim, keepdim}, where);
  return {std::move(values), std::move(places)};
}

}  // namespace weft
