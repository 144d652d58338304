// Scans along a dimension: cumsum and cumprod; on the CPU serial along it, vectors and threads across the others.
// Place: register_reduction_ops calls register_scan_ops. The kernels of GPUs are behind tensor/cuda/rows.h.
#include <algorithm>

#include "tensor/cpu/reduce_arg.h"
#include "tensor/cuda/rows.h"
#include "tensor/ops/rows.h"

namespace weft {
namespace {

OutputSpecs infer_scan(const Call& call) {
  const Tensor& x = call.tensor(0);
  normalize_dim(call.attr(0).as_int(), x.dim(), call.name());
  const DType own = is_floating(x.dtype()) ? x.dtype() : DType::Int64;
  OutputSpecs specs;
  specs.push_back({x->layout.sizes, call.attr(1).is_none() ? own : call.attr(1).as_dtype(), x->device});
  return specs;
}

template <bool kSum>
void run_scan(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  if (int_numel(out) == 0) return;
  const DType compute = is_floating(out->dtype) ? out->dtype : DType::Int64;
  const Tensor x = converted(call.tensor(0), compute);
  const Tensor result = out->dtype == compute ? out : make_tensor(out->layout.sizes, compute);
  const int64_t dim = normalize_dim(call.attr(0).as_int(), x.dim(), call.name());
  int64_t outer = 1, n = 1, inner = 1;
  for (int64_t d = 0; d < x.dim(); ++d) (d < dim ? outer : d == dim ? n : inner) *= int_sizes(x)[d];
  const cpu::ArgKernels& kernels = cpu::arg_kernels()[static_cast<int>(compute)];
  const auto scan = kSum ? kernels.cumsum : kernels.cumprod;
  const int64_t bytes = static_cast<int64_t>(size_of(compute));
  const int64_t width = std::min(inner, cpu::kArgColumns), chunks = (inner + width - 1) / width;
  parallel_for(
      outer * chunks, std::max<int64_t>(1, 16384 / (n * width)),
      [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t column = unit % chunks * width;
          const int64_t at = (unit / chunks * n * inner + column) * bytes;
          scan(bytes_of(x) + at, bytes_of(result) + at, inner, n, std::min(width, inner - column));
        }
      },
      1);
  if (!result.is_same(out)) copy_data(result, out);
}

template <bool kSum>
void run_scan_on_cuda(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  if (int_numel(out) == 0) return;
  const DType compute = is_floating(out->dtype) ? out->dtype : DType::Int64;
  const Tensor x = converted(call.tensor(0), compute);
  const Tensor result = out->dtype == compute ? out : make_tensor(out->layout.sizes, compute, out->device);
  const int64_t dim = normalize_dim(call.attr(0).as_int(), x.dim(), call.name());
  cuda::RowScan what{.element = cuda::element_of(compute), .is_product = !kSum};
  for (int64_t d = 0; d < x.dim(); ++d)
    (d < dim ? what.outer : d == dim ? what.n : what.inner) *= int_sizes(x)[d];
  cuda::scan_rows(what, bytes_of(x), bytes_of(result));
  if (!result.is_same(out)) copy_data(result, out);
}

// Σ of each element and all that follow it.
Tensor reverse_cumsum(const Tensor& x, int64_t dim) {
  if (x.dim() == 0) return x;
  return flip(cumsum(flip(x, dim), dim), dim);
}

// out / x sums up the elements before the first 0; at the first 0 the product of the others counts; beyond it nothing.
Tensor cumprod_gradient(const Tensor& dy, const Tensor& x, const Tensor& out, int64_t dim) {
  const Tensor is_zero = eq(x, 0);
  const Tensor zeros = cumsum(is_zero, dim);
  const Tensor is_first = logical_and(is_zero, eq(zeros, 1));
  const Tensor others = cumprod(where(is_first, 1, x), dim);
  const Tensor before = reverse_cumsum(dy * out, dim) / where(is_zero, 1, x);
  const Tensor at_first = reverse_cumsum(where(eq(zeros, 0), 0, dy * others), dim);
  return where(eq(zeros, 0), before, where(is_first, at_first, 0));
}

}  // namespace

void register_scan_ops(OpTable& table) {
  entry(table, "cumsum(Tensor x, int dim, *, ScalarType? dtype=None) -> Tensor", Kind::Reduction)
      .infer(infer_scan)
      .cpu(run_scan<true>)
      .cuda(run_scan_on_cuda<true>)
      .grad([](Dy<> dy, InSpec<0> x, const Attrs& attrs) {
        return reverse_cumsum(dy, attrs[0].as_int()).to(x.spec.dtype);
      });
  entry(table, "cumprod(Tensor x, int dim, *, ScalarType? dtype=None) -> Tensor", Kind::Reduction)
      .infer(infer_scan)
      .cpu(run_scan<false>)
      .cuda(run_scan_on_cuda<false>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, InSpec<0> spec, const Attrs& attrs) {
        return cumprod_gradient(dy, x.to(out.dtype()), out, attrs[0].as_int()).to(spec.spec.dtype);
      });
}

Tensor cumsum(const Tensor& x, int64_t dim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("cumsum"), {x}, {dim, dtype}, where);
}
Tensor cumprod(const Tensor& x, int64_t dim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("cumprod"), {x}, {dim, dtype}, where);
}

}  // namespace weft
