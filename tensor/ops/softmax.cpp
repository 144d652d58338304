// Softmax and its logarithm, with their backward ops: along the last dimension by row kernels, elsewhere by their parts.
// Place: register_reduction_ops calls register_softmax_ops.
#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/ops/rows.h"

namespace weft {

Tensor converted(const Tensor& x, DType dtype) {
  if (x->dtype == dtype && x->is_contiguous) return x;
  const Tensor result = make_tensor(x->layout.sizes, dtype, x->device);
  copy_data(x, result);
  return result;
}

void run_rows(cpu::RowKernels::Kernel cpu::RowKernels::*kernel, const cpu::RowCall& call, DType dtype) {
  const auto run = cpu::row_kernels()[static_cast<int>(dtype)].*kernel;
  WEFT_ASSERT(run != nullptr, "no row kernel for ", dtype);
  const int64_t row_bytes = call.n * static_cast<int64_t>(size_of(dtype));
  // A row costs some ten additions an element, which is what a thread must be worth (see elementwise.cpp).
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, call.n));
  parallel_for(
      call.rows, grain,
      [&](int64_t begin, int64_t end) {
        cpu::RowCall part = call;
        part.x = static_cast<const char*>(call.x) + begin * row_bytes;
        if (call.dy != nullptr) part.dy = static_cast<const char*>(call.dy) + begin * row_bytes;
        part.out = static_cast<char*>(call.out) + begin * row_bytes;
        part.rows = end - begin;
        std::vector<float> scratch;
        if (is_half(dtype)) scratch.resize(static_cast<size_t>(call.n));
        part.scratch = scratch.data();
        run(part);
      },
      1);
}

namespace {

int64_t softmax_dim_of(const Call& call, const Tensor& x, size_t attr) {
  return normalize_dim(call.attr(attr).as_int(), x.dim(), call.name());
}

// True if nothing but dimensions of size 1 follows dim: the elements along it are neighbours.
bool is_innermost(const Tensor& x, int64_t dim) {
  for (int64_t d = dim + 1; d < x.dim(); ++d)
    if (x.size(d) != 1) return false;
  return true;
}
int64_t row_length(const Tensor& x, int64_t dim) { return x.dim() == 0 ? 1 : int64_t{x.size(dim)}; }

// ---- Forward: (x, dim, dtype)

OutputSpecs infer_softmax(const Call& call) {
  const Tensor& x = call.tensor(0);
  softmax_dim_of(call, x, 0);
  const DType result = call.attr(1).is_none() ? x.dtype() : call.attr(1).as_dtype();
  WEFT_CHECK(is_floating(result), call.name(), ": x is ", describe(x),
             ", but probabilities need a floating dtype; pass dtype=kFloat32 or convert x");
  OutputSpecs specs;
  specs.push_back({x->layout.sizes, result, x->device});
  return specs;
}

Tensor softmax_of(const Tensor& x, int64_t dim, SourceLocation where) {
  const Tensor e = exp(sub(x, amax(x, dim, true, where), 1, where), where);
  return div(e, sum(e, dim, true, {}, where), {}, where);
}
Tensor log_softmax_of(const Tensor& x, int64_t dim, SourceLocation where) {
  const Tensor shifted = sub(x, amax(x, dim, true, where), 1, where);
  return sub(shifted, log(sum(exp(shifted, where), dim, true, {}, where), where), 1, where);
}

template <Tensor (*kParts)(const Tensor&, int64_t, SourceLocation)>
Tensor decompose_softmax(const Call& call) {
  const Tensor& x = call.tensor(0);
  const DType result = infer_softmax(call)[0].dtype;
  const Tensor typed = x.to(result, false, false, call.where);
  if (statically_known(SymCompare::Eq, x.numel(), Sym::from_int(0))) return clone(typed, call.where);
  return in_compute_dtype(typed, result, call.where, [&](const Tensor& wide) {
    return kParts(wide, call.attr(0).as_int(), call.where);
  });
}

template <Tensor (*kParts)(const Tensor&, int64_t, SourceLocation),
          cpu::RowKernels::Kernel cpu::RowKernels::*kKernel>
void run_softmax(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  const Tensor& x = call.tensor(0);
  if (int_numel(out) == 0) return;
  const int64_t dim = softmax_dim_of(call, x, 0);
  if (!is_innermost(x, dim)) {
    run_decomposed(out, [&] {
      return kParts(converted(x->dtype == out->dtype ? x : converted(x, out->dtype), wide_dtype(out->dtype)),
                    dim, call.where);
    });
    return;
  }
  const Tensor rows = converted(x, out->dtype);
  const int64_t n = row_length(x, dim);
  cpu::RowCall run;
  run.x = bytes_of(rows);
  run.out = bytes_of(out);
  run.n = n;
  run.rows = int_numel(out) / n;
  run_rows(kKernel, run, out->dtype);
}

// ---- Backward: (dy, y, dim)

OutputSpecs infer_like_first(const Call& call) {
  const Tensor& dy = call.tensor(0);
  WEFT_CHECK(is_floating(dy.dtype()), call.name(), ": takes floating tensors, not ", dy.dtype());
  WEFT_CHECK(dy.sizes() == call.tensor(1).sizes(), call.name(), ": dy is ", describe(dy), " and the result ",
             describe(call.tensor(1)), "; both must have the same sizes");
  WEFT_CHECK(dy.dtype() == call.tensor(1).dtype(), call.name(), ": dy is ", describe(dy), " and the result ",
             describe(call.tensor(1)), "; both must have the same dtype");
  softmax_dim_of(call, dy, 0);
  OutputSpecs specs;
  specs.push_back({dy->layout.sizes, dy->dtype, dy->device});
  return specs;
}

Tensor softmax_backward_of(const Tensor& dy, const Tensor& y, int64_t dim, SourceLocation where) {
  return mul(y, sub(dy, sum(mul(dy, y, where), dim, true, {}, where), 1, where), where);
}
Tensor log_softmax_backward_of(const Tensor& dy, const Tensor& y, int64_t dim, SourceLocation where) {
  return sub(dy, mul(exp(y, where), sum(dy, dim, true, {}, where), where), 1, where);
}

template <Tensor (*kParts)(const Tensor&, const Tensor&, int64_t, SourceLocation)>
Tensor decompose_backward(const Call& call) {
  const Tensor& dy = call.tensor(0);
  return in_compute_dtype(dy, dy.dtype(), call.where, [&](const Tensor& wide) {
    return kParts(wide, call.tensor(1).to(wide.dtype(), false, false, call.where), call.attr(0).as_int(),
                  call.where);
  });
}
template <Tensor (*kParts)(const Tensor&, const Tensor&, int64_t, SourceLocation),
          cpu::RowKernels::Kernel cpu::RowKernels::*kKernel>
void run_backward(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  const Tensor &dy = call.tensor(0), &y = call.tensor(1);
  if (int_numel(out) == 0) return;
  const int64_t dim = softmax_dim_of(call, y, 0);
  if (!is_innermost(y, dim)) {
    const DType wide = wide_dtype(out->dtype);
    run_decomposed(out, [&] { return kParts(converted(dy, wide), converted(y, wide), dim, call.where); });
    return;
  }
  const Tensor dy_rows = converted(dy, out->dtype), y_rows = converted(y, out->dtype);
  cpu::RowCall run;
  run.x = bytes_of(y_rows);
  run.dy = bytes_of(dy_rows);
  run.out = bytes_of(out);
  run.n = row_length(y, dim);
  run.rows = int_numel(out) / run.n;
  run_rows(kKernel, run, out->dtype);
}

Tensor backward_through(const Op& op, const Tensor& dy, const Tensor& y, const Attrs& attrs,
                        const OutputSpec& x) {
  return call(op, {dy, y}, Attrs{attrs[0]}, SourceLocation::current()).to(x.dtype);
}

}  // namespace

void register_softmax_ops(OpTable& table) {
  using cpu::RowKernels;
  entry(table, "softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor", Kind::Reduction)
      .infer(infer_like_first)
      .cpu(run_backward<softmax_backward_of, &RowKernels::softmax_backward>)
      .decompose(decompose_backward<softmax_backward_of>);
  entry(table, "log_softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor", Kind::Reduction)
      .infer(infer_like_first)
      .cpu(run_backward<log_softmax_backward_of, &RowKernels::log_softmax_backward>)
      .decompose(decompose_backward<log_softmax_backward_of>);
  // eˣ / Σ eˣ, shifted by the maximum. A row of -inf gives NaN.
  entry(table, "softmax(Tensor x, int dim, ScalarType? dtype=None) -> Tensor", Kind::Reduction)
      .infer(infer_softmax)
      .cpu(run_softmax<softmax_of, &RowKernels::softmax>)
      .grad([](Dy<> dy, Out<0> y, InSpec<0> x, const Attrs& attrs) {
        return backward_through(WEFT_OP("softmax_backward"), dy, y, attrs, x.spec);
      })
      .decompose(decompose_softmax<softmax_of>);
  entry(table, "log_softmax(Tensor x, int dim, ScalarType? dtype=None) -> Tensor", Kind::Reduction)
      .infer(infer_softmax)
      .cpu(run_softmax<log_softmax_of, &RowKernels::log_softmax>)
      .grad([](Dy<> dy, Out<0> y, InSpec<0> x, const Attrs& attrs) {
        return backward_through(WEFT_OP("log_softmax_backward"), dy, y, attrs, x.spec);
      })
      .decompose(decompose_softmax<log_softmax_of>);
}

Tensor softmax(const Tensor& x, int64_t dim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("softmax"), {x}, {dim, dtype}, where);
}
Tensor log_softmax(const Tensor& x, int64_t dim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("log_softmax"), {x}, {dim, dtype}, where);
}

}  // namespace weft
