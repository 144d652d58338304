// Statistics made of folds: var, std, var_mean, logsumexp, norm. One node each; the kernel is the decomposition.
// Place: register_reduction_ops calls register_variance_ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/ops/rows.h"

namespace weft {
namespace {

// Longer single rows are left to folds, which share one row among threads.
constexpr int64_t kLongRow = 65536;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sizes and dtype of a floating fold whose dims are attribute kVarDims and keepdim attribute kKeepdim.
template <size_t kVarDims, size_t kKeepdim>
OutputSpecs infer_statistic(const Call& call) {
  const Tensor& x = call.tensor(0);
  WEFT_CHECK(is_floating(x.dtype()), call.name(), ": x is ", describe(x),
             ", but a floating dtype is needed; convert x");
  const FoldedDims folded = folded_dims(call.attr(kVarDims).as_dims(), x.dim(), call.name());
  OutputSpecs specs;
  specs.push_back(
      {folded_sizes(x->layout.sizes, folded, call.attr(kKeepdim).as_bool()), x->dtype, x->device});
  return specs;
}

// Runs in float for half types, on real and on traced tensors, and rounds once.
template <Tensor (*kParts)(const Tensor& wide, const Call&)>
Tensor decompose(const Call& call) {
  const Tensor& x = call.tensor(0);
  return in_compute_dtype(x, x.dtype(), call.where, [&](const Tensor& wide) { return kParts(wide, call); });
}
template <Tensor (*kParts)(const Tensor& wide, const Call&)>
void run(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  run_decomposed(outputs[0],
                 [&] { return kParts(is_half(x->dtype) ? converted(x, DType::Float32) : x, call); });
}

// ---- var, std: (dims, correction, keepdim) --------------------------------------------------------------------------

constexpr size_t kVarDims = 0, kCorrection = 1, kVarKeepdim = 2;

// n - correction, and not below 0. Asked as a question about a size, which a trace may answer without knowing it.
Scalar degrees_of_freedom(std::span<const Sym> sizes, const Attrs& attrs) {
  const FoldedDims folded = folded_dims(attrs[kVarDims].as_dims(), static_cast<int64_t>(sizes.size()), "var");
  const Sym count = folded_count(sizes, folded);
  const double correction = attrs[kCorrection].as_double();
  if (correction > 0x1p62 || (correction > 0 && count < static_cast<int64_t>(std::ceil(correction))))
    return 0.0;
  return Scalar(count) * 1.0 - correction;
}

// Σ (x - mean)² / (n - correction): two passes, because Σx² - (Σx)²/n cancels.
Tensor var_of(const Tensor& x, const Call& call) {
  const DimList& dims = call.attr(kVarDims).as_dims();
  const Tensor d = sub(x, mean(x, dims, true, {}, call.where), 1, call.where);
  return div(sum(mul(d, d, call.where), dims, call.attr(kVarKeepdim).as_bool(), {}, call.where),
             degrees_of_freedom(x.sizes(), call.attrs), {}, call.where);
}
// One pass over rows where the folded dimensions are the last ones.
void run_var(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const FoldedDims folded = folded_dims(call.attr(kVarDims).as_dims(), x.dim(), call.name());
  int64_t n = 1, d = x.dim();
  for (; d > 0 && (folded[static_cast<size_t>(d - 1)] || x.size(d - 1) == 1); --d)
    n *= int64_t{x.size(d - 1)};
  for (int64_t k = 0; k < d; ++k)
    if (folded[static_cast<size_t>(k)] && x.size(k) != 1) n = 0;
  if (n <= 1 || int_numel(x) == 0 || (int_numel(x) == n && n > kLongRow)) return run<var_of>(call, outputs);
  const Tensor rows = converted(x, x->dtype);
  cpu::RowCall part;
  part.n = n;
  part.divisor = degrees_of_freedom(x.sizes(), call.attrs).to_double();
  const auto kernel = cpu::row_kernels()[static_cast<int>(x->dtype)].variance;
  const int64_t bytes = static_cast<int64_t>(size_of(x->dtype));
  parallel_for(
      int_numel(x) / n, std::max<int64_t>(1, 8192 / n),
      [&](int64_t begin, int64_t end) {
        cpu::RowCall own = part;
        own.x = bytes_of(rows) + begin * n * bytes;
        own.out = bytes_of(outputs[0]) + begin * bytes;
        own.rows = end - begin;
        kernel(own);
      },
      1);
}

Tensor std_of(const Tensor& x, const Call& call) { return sqrt(var_of(x, call), call.where); }

Tensor var_gradient(const Tensor& dy, const Tensor& x, const Attrs& attrs) {
  const DimList& dims = attrs[kVarDims].as_dims();
  const Tensor full = unfold_to(dy, dims, attrs[kVarKeepdim].as_bool(), x.sizes(), SourceLocation::current());
  return full * ((x - mean(x, dims, true)) * (2.0 / degrees_of_freedom(x.sizes(), attrs)));
}

// ---- logsumexp: (dims, keepdim) ---------------------------------------------------------------------------------------

// log Σ exp(x - m) + m; an infinite maximum is not taken off, so that -inf stays -inf and inf stays inf.
Tensor logsumexp_of(const Tensor& x, const Call& call) {
  const DimList& dims = call.attr(0).as_dims();
  const bool keepdim = call.attr(1).as_bool();
  const FoldedDims folded = folded_dims(dims, x.dim(), call.name());
  if (statically_known(SymCompare::Eq, folded_count(x.sizes(), folded), Sym::from_int(0)))
    return log(sum(x, dims, keepdim, {}, call.where), call.where);
  const Tensor top = amax(x, dims, true, call.where);
  const Tensor shift = where(isinf(top, call.where), 0, top, call.where);
  const Tensor total =
      log(sum(exp(sub(x, shift, 1, call.where), call.where), dims, keepdim, {}, call.where), call.where);
  return add(total, keepdim ? shift : reshape(shift, total.sizes(), call.where), 1, call.where);
}

// ---- norm: (p, dims, keepdim) -----------------------------------------------------------------------------------------

Tensor norm_of(const Tensor& x, const Call& call) {
  const double p = call.attr(0).as_double();
  const DimList& dims = call.attr(1).as_dims();
  const bool keepdim = call.attr(2).as_bool();
  const SourceLocation at = call.where;
  const auto total = [&](const Tensor& t) { return sum(t, dims, keepdim, {}, at); };
  if (p == 2) return sqrt(total(mul(x, x, at)), at);
  const Tensor size = abs(x, at);
  if (p == 1) return total(size);
  if (p == kInfinity) return amax(size, dims, keepdim, at);
  if (p == -kInfinity) return amin(size, dims, keepdim, at);
  if (p == 0) return total(ne(x, 0, at).to(x.dtype(), false, false, at));
  return pow(total(pow(size, p, at)), 1 / p, at);
}
// x / |x| shared among equal extremes, or sign(x) · (|x| / norm)^(p-1); 0 where the norm is 0.
Tensor norm_gradient(const Tensor& dy, const Tensor& x, const Tensor& out, const Attrs& attrs) {
  const double p = attrs[0].as_double();
  const DimList& dims = attrs[1].as_dims();
  const bool keepdim = attrs[2].as_bool();
  const auto full = [&](const Tensor& t) {
    return unfold_to(t, dims, keepdim, x.sizes(), SourceLocation::current());
  };
  if (p == 0) return zeros_like(x);
  if (p == 1) return sign(x) * full(dy);
  const Tensor norm = full(out);
  if (std::isinf(p)) {
    const Tensor hit = eq(abs(x), norm).to(x.dtype());
    return sign(x) * hit * full(dy / sum(hit, dims, keepdim));
  }
  const Tensor is_zero = eq(norm, 0);
  const Tensor safe = where(is_zero, 1, norm);
  if (p == 2) return where(is_zero, 0, x * (full(dy) / safe));
  return where(eq(x, 0) | is_zero, 0, sign(x) * pow(abs(x) / safe, p - 1) * full(dy));
}

}  // namespace

void register_variance_ops(OpTable& table) {
  entry(table, "var(Tensor x, int[] dim=[], float correction=1, bool keepdim=False) -> Tensor",
        Kind::Reduction)
      .infer(infer_statistic<kVarDims, kVarKeepdim>)
      .cpu(run_var)
      .grad([](Dy<> dy, In<0> x, const Attrs& attrs) { return var_gradient(dy, x, attrs); })
      .decompose(decompose<var_of>);
  // The square root of var; its gradient is 0 where it is 0.
  entry(table, "std(Tensor x, int[] dim=[], float correction=1, bool keepdim=False) -> Tensor",
        Kind::Reduction)
      .infer(infer_statistic<kVarDims, kVarKeepdim>)
      .cpu(run<std_of>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, const Attrs& attrs) {
        const Tensor is_zero = eq(out, 0);
        return var_gradient(where(is_zero, 0, dy / (2 * where(is_zero, 1, out))), x, attrs);
      })
      .decompose(decompose<std_of>);
  composite(table,
            "var_mean(Tensor x, int[] dim=[], float correction=1, bool keepdim=False) -> (Tensor, Tensor)",
            static_cast<std::tuple<Tensor, Tensor> (*)(const Tensor&, const DimList&, double, bool,
                                                       SourceLocation)>(var_mean));
  entry(table, "logsumexp(Tensor x, int[] dim, bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_statistic<0, 1>)
      .cpu(run<logsumexp_of>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, const Attrs& attrs) {
        const auto full = [&](const Tensor& t) {
          return unfold_to(t, attrs[0].as_dims(), attrs[1].as_bool(), x.sizes(), SourceLocation::current());
        };
        // exp(x - out), which is 1 for an element that equals it, and 0 in a group of -inf alone.
        const Tensor result = full(out);
        const Tensor weight = exp(where(eq(x, result), 0, x - result));
        return full(dy) * where(eq(result, -kInfinity), 0, weight);
      })
      .decompose(decompose<logsumexp_of>);
  // (Σ |x|ᵖ)^(1/p); p may be 0 (a count), inf or -inf.
  entry(table, "norm(Tensor x, float p=2, int[] dim=[], bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_statistic<1, 2>)
      .cpu(run<norm_of>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, const Attrs& attrs) { return norm_gradient(dy, x, out, attrs); })
      .decompose(decompose<norm_of>);
}

Tensor var(const Tensor& x, const DimList& dims, double correction, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("var"), {x}, {dims, correction, keepdim}, where);
}
Tensor std(const Tensor& x, const DimList& dims, double correction, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("std"), {x}, {dims, correction, keepdim}, where);
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const DimList& dims, double correction, bool keepdim,
                                    SourceLocation where) {
  const CompositeScope scope(WEFT_OP("var_mean"), where, {x});
  return {var(x, dims, correction, keepdim, where), mean(x, dims, keepdim, {}, where)};
}
Tensor logsumexp(const Tensor& x, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("logsumexp"), {x}, {dims, keepdim}, where);
}
Tensor norm(const Tensor& x, double p, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("norm"), {x}, {p, dims, keepdim}, where);
}

}  // namespace weft
