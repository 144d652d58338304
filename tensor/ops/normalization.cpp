// layer_norm and rms_norm with their backward ops, as row kernels and as their parts; group_norm and batch_norm of them.
// Place: register_reduction_ops calls register_normalization_ops.
#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/ops/check.h"
#include "tensor/ops/rows.h"

namespace weft {
namespace {

// ---- The parts, for real and traced tensors; all floating operands have one dtype -----------------------------------

DimList last_dims(int64_t count) {
  DimList dims;
  for (int64_t d = -count; d < 0; ++d) dims.push_back(d);
  return dims;
}
DimList first_dims(int64_t count) {
  DimList dims;
  for (int64_t d = 0; d < count; ++d) dims.push_back(d);
  return dims;
}

struct Normalised {
  Tensor y, rstd;
};
// (x - mean) · rsqrt(var + eps) over the last `count` dimensions; without the mean for rms_norm.
template <bool kLayer>
Normalised normalise(const Tensor& x, int64_t count, double eps, SourceLocation where) {
  const DimList dims = last_dims(count);
  const Tensor centred = kLayer ? sub(x, mean(x, dims, true, {}, where), 1, where) : x;
  const Tensor variance = mean(mul(centred, centred, where), dims, true, {}, where);
  const Tensor rstd = rsqrt(add(variance, eps, 1, where), where);
  return {mul(centred, rstd, where), rstd};
}

template <bool kLayer>
Tensor norm_of(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t count, double eps,
               SourceLocation where) {
  Tensor y = normalise<kLayer>(x, count, eps, where).y;
  if (weight.defined()) y = mul(y, weight, where);
  if (bias.defined()) y = add(y, bias, 1, where);
  return y;
}

template <bool kLayer>
Tensor norm_backward_of(const Tensor& dy, const Tensor& x, const Tensor& weight, int64_t count, double eps,
                        SourceLocation where) {
  const DimList dims = last_dims(count);
  const Normalised normal = normalise<kLayer>(x, count, eps, where);
  const Tensor g = weight.defined() ? mul(dy, weight, where) : dy;
  const Tensor mean_gy = mean(mul(g, normal.y, where), dims, true, {}, where);
  const Tensor centred = kLayer ? sub(g, mean(g, dims, true, {}, where), 1, where) : g;
  return mul(sub(centred, mul(normal.y, mean_gy, where), 1, where), normal.rstd, where);
}

// Σ over the leading dimensions; a tensor without any is its own sum.
Tensor sum_leading(const Tensor& x, int64_t leading, SourceLocation where) {
  return leading == 0 ? x : sum(x, first_dims(leading), false, {}, where);
}

template <bool kLayer>
Tensor norm_backward_weight_of(const Tensor& dy, const Tensor& x, int64_t count, double eps,
                               SourceLocation where) {
  return sum_leading(mul(dy, normalise<kLayer>(x, count, eps, where).y, where), x.dim() - count, where);
}

// ---- Calls: operands, then (shape, eps) -----------------------------------------------------------------------------

constexpr size_t kShape = 0, kEps = 1;

int64_t shape_rank(const Attrs& attrs) { return static_cast<int64_t>(attrs[kShape].as_sizes().size()); }

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::Float64: return std::numeric_limits<double>::epsilon();
    case DType::BFloat16: return 0x1p-7;
    case DType::Float16: return 0x1p-10;
    default: return std::numeric_limits<float>::epsilon();
  }
}
double eps_of(const Attrs& attrs, DType dtype) {
  return attrs[kEps].is_none() ? epsilon_of(dtype) : attrs[kEps].as_double();
}

// x is operand kX; weight and bias, where they are given, follow in slots kX+1 ….
void check_norm(const Call& call, size_t slot) {
  const Tensor& x = call.tensor(slot);
  const SymList& shape = call.attr(kShape).as_sizes();
  WEFT_CHECK(is_floating(x.dtype()), call.name(), ": x is ", describe(x),
             ", but a norm needs a floating dtype");
  WEFT_CHECK(!shape.empty(), call.name(),
             ": shape is empty; give the sizes of the dimensions to normalise over");
  const int64_t leading = x.dim() - static_cast<int64_t>(shape.size());
  bool fits = leading >= 0;
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = x.sizes()[static_cast<size_t>(leading) + d] == shape[d];
  WEFT_CHECK(fits, call.name(), ": shape ", shape, " is not the end of x's sizes ", x.sizes());
  for (size_t k = slot + 1; k < call.operands.size(); ++k) {
    if (!call.has_tensor(k)) continue;
    const Tensor& parameter = call.tensor(k);
    WEFT_CHECK(parameter.sizes() == SizesView(shape), call.name(), ": ", call.op.schema.params[k].name,
               " is ", describe(parameter), ", but must have the sizes of shape ", shape);
    WEFT_CHECK(is_floating(parameter.dtype()), call.name(), ": ", call.op.schema.params[k].name, " is ",
               describe(parameter), ", but must be floating");
  }
}

OutputSpecs infer_norm(const Call& call) {
  check_norm(call, 0);
  const Tensor& x = call.tensor(0);
  OutputSpecs specs;
  specs.push_back({x->layout.sizes, x->dtype, x->device});
  return specs;
}
void check_norm_backward(const Call& call) {
  check_norm(call, 1);
  const Tensor &dy = call.tensor(0), &x = call.tensor(1);
  WEFT_CHECK(dy.sizes() == x.sizes(), call.name(), ": dy is ", describe(dy), " and x ", describe(x),
             "; both must have the same sizes");
}
// (dy, x, weight?)
OutputSpecs infer_norm_backward(const Call& call) {
  check_norm_backward(call);
  const Tensor& x = call.tensor(1);
  OutputSpecs specs;
  specs.push_back({x->layout.sizes, x->dtype, x->device});
  return specs;
}
OutputSpecs infer_norm_backward_weight(const Call& call) {
  check_norm_backward(call);
  OutputSpecs specs;
  specs.push_back({call.attr(kShape).as_sizes(), call.tensor(1)->dtype, call.tensor(1)->device});
  return specs;
}

Tensor operand_or_none(const Call& call, size_t k) { return call.has_tensor(k) ? call.tensor(k) : Tensor(); }

// An operand in the dtype of the computation; for decompositions.
Tensor widen(const Tensor& x, DType dtype, SourceLocation where) {
  return x.defined() ? x.to(dtype, false, false, where) : x;
}

template <bool kLayer>
Tensor decompose_norm(const Call& call) {
  const Tensor& x = call.tensor(0);
  const double eps = eps_of(call.attrs, x.dtype());
  return in_compute_dtype(x, x.dtype(), call.where, [&](const Tensor& wide) {
    return norm_of<kLayer>(wide, widen(operand_or_none(call, 1), wide.dtype(), call.where),
                           widen(operand_or_none(call, 2), wide.dtype(), call.where), shape_rank(call.attrs),
                           eps, call.where);
  });
}
template <bool kLayer>
Tensor decompose_norm_backward(const Call& call) {
  const Tensor& x = call.tensor(1);
  return in_compute_dtype(x, x.dtype(), call.where, [&](const Tensor& wide) {
    return norm_backward_of<kLayer>(widen(call.tensor(0), wide.dtype(), call.where), wide,
                                    widen(operand_or_none(call, 2), wide.dtype(), call.where),
                                    shape_rank(call.attrs), eps_of(call.attrs, x.dtype()), call.where);
  });
}
template <bool kLayer>
Tensor decompose_norm_backward_weight(const Call& call) {
  const Tensor& x = call.tensor(1);
  return in_compute_dtype(x, x.dtype(), call.where, [&](const Tensor& wide) {
    return norm_backward_weight_of<kLayer>(widen(call.tensor(0), wide.dtype(), call.where), wide,
                                           shape_rank(call.attrs), eps_of(call.attrs, x.dtype()), call.where);
  });
}

// The row call of operands dy (may be -1), x, weight and bias; the tensors it reads are kept in `held`.
struct NormRows {
  cpu::RowCall rows;
  SmallVector<Tensor, 4> held;

  NormRows(const Call& call, int dy, size_t x, const Tensor& out) {
    const Tensor& first = call.tensor(x);
    rows.n = product(call.attr(kShape).as_sizes()).concrete();
    rows.rows = rows.n == 0 ? 0 : int_numel(first) / rows.n;
    rows.eps = eps_of(call.attrs, first->dtype);
    rows.x = hold(first, first->dtype);
    if (dy >= 0) rows.dy = hold(call.tensor(static_cast<size_t>(dy)), first->dtype);
    if (call.has_tensor(x + 1)) rows.weight = hold(call.tensor(x + 1), first->dtype);
    if (call.has_tensor(x + 2)) rows.bias = hold(call.tensor(x + 2), first->dtype);
    rows.out = bytes_of(out);
  }
  const void* hold(const Tensor& x, DType dtype) {
    held.push_back(converted(x, dtype));
    return bytes_of(held.back());
  }
};

// Row kernels read all operands in x's dtype; wider parameters beside a half x would lose digits there.
bool parameters_fit(const Call& call, size_t x) {
  for (size_t k = 0; k < call.operands.size(); ++k)
    if (call.has_tensor(k) && call.tensor(k).dtype() != call.tensor(x).dtype()) return false;
  return true;
}

template <bool kLayer>
void run_norm(const Call& call, std::span<Tensor> outputs) {
  if (int_numel(outputs[0]) == 0) return;
  if (!parameters_fit(call, 0))
    return run_decomposed(outputs[0], [&] { return decompose_norm<kLayer>(call); });
  const NormRows rows(call, -1, 0, outputs[0]);
  run_rows(kLayer ? &cpu::RowKernels::layer_norm : &cpu::RowKernels::rms_norm, rows.rows, outputs[0]->dtype);
}
template <bool kLayer>
void run_norm_backward(const Call& call, std::span<Tensor> outputs) {
  if (int_numel(outputs[0]) == 0) return;
  if (!parameters_fit(call, 1))
    return run_decomposed(outputs[0], [&] { return decompose_norm_backward<kLayer>(call); });
  const NormRows rows(call, 0, 1, outputs[0]);
  run_rows(kLayer ? &cpu::RowKernels::layer_norm_backward : &cpu::RowKernels::rms_norm_backward, rows.rows,
           outputs[0]->dtype);
}
// The outer tree of Note [Reduction tree] over the rows: blocks of 64, each into its own partial, then in order.
template <bool kLayer>
void run_norm_backward_weight(const Call& call, std::span<Tensor> outputs) {
  const Tensor& out = outputs[0];
  const Tensor& x = call.tensor(1);
  const bool has_rows = x.dim() > shape_rank(call.attrs) && int_numel(x) > 0;
  if (int_numel(out) <= 1 || !has_rows || !parameters_fit(call, 1))
    return run_decomposed(out, [&] { return decompose_norm_backward_weight<kLayer>(call); });
  const DType dtype = out->dtype, wide = wide_dtype(dtype);
  const NormRows rows(call, 0, 1, out);
  const int64_t n = rows.rows.n, blocks = (rows.rows.rows + cpu::kOuterBlock - 1) / cpu::kOuterBlock;
  const Tensor partials = make_tensor(SymList{blocks, n}, wide);
  const cpu::FoldKernels& fold = cpu::fold_kernels(cpu::Fold::Sum, wide);
  const auto kernel =
      cpu::row_kernels()[static_cast<int>(dtype)].*
      (kLayer ? &cpu::RowKernels::layer_norm_backward_weight : &cpu::RowKernels::rms_norm_backward_weight);
  const int64_t partial_bytes = n * static_cast<int64_t>(size_of(wide));
  fold.fill_identity(bytes_of(partials), blocks * n);
  parallel_for(
      blocks, std::max<int64_t>(1, 4096 / (n * cpu::kOuterBlock)),
      [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          cpu::RowCall part = rows.rows;
          const int64_t first = b * cpu::kOuterBlock, skip = first * n * static_cast<int64_t>(size_of(dtype));
          part.x = static_cast<const char*>(part.x) + skip;
          part.dy = static_cast<const char*>(part.dy) + skip;
          part.weight = nullptr;
          part.rows = std::min(rows.rows.rows - first, cpu::kOuterBlock);
          part.out = bytes_of(partials) + b * partial_bytes;
          kernel(part);
        }
      },
      1);
  const Tensor totals = make_tensor(SymList{n}, wide);
  fold.fill_identity(bytes_of(totals), n);
  fold.rows(bytes_of(totals), bytes_of(partials), n, blocks, n);
  copy_data(make_view(totals, contiguous_layout<Sym>(out->layout.sizes)), out);
}

// Σ dy over the leading dimensions: the bias gradient.
Tensor bias_gradient(const Tensor& dy, const OutputSpec& bias) {
  return sum_leading(dy, dy.dim() - static_cast<int64_t>(bias.sizes.size()), SourceLocation::current())
      .to(bias.dtype);
}

template <bool kLayer>
void register_norm_backward(OpTable& table, const char* schema, const char* weight_schema) {
  entry(table, schema, Kind::Reduction)
      .infer(infer_norm_backward)
      .cpu(run_norm_backward<kLayer>)
      .decompose(decompose_norm_backward<kLayer>)
      .samples({.specials = false,
                .calls = {"dy=[3,5] x=[3,5] weight=[5] normalized_shape=[5] eps=1e-05",
                          "dy=[2,3,4] x=[2,3,4] normalized_shape=[3,4] eps=1e-05"}});
  entry(table, weight_schema, Kind::Reduction)
      .infer(infer_norm_backward_weight)
      .cpu(run_norm_backward_weight<kLayer>)
      .decompose(decompose_norm_backward_weight<kLayer>)
      .samples({.specials = false,
                .calls = {"dy=[3,5] x=[3,5] normalized_shape=[5] eps=1e-05",
                          "dy=[70,4] x=[70,4] normalized_shape=[4] eps=1e-05",
                          "dy=[2,3,4] x=[2,3,4] normalized_shape=[3,4] eps=1e-05"}});
}

}  // namespace

void register_normalization_ops(OpTable& table) {
  register_norm_backward<true>(
      table,
      "layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, SymInt[] normalized_shape, float? eps) -> "
      "Tensor",
      "layer_norm_backward_weight(Tensor dy, Tensor x, SymInt[] normalized_shape, float? eps) -> Tensor");
  register_norm_backward<false>(
      table,
      "rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, SymInt[] normalized_shape, float? eps) -> "
      "Tensor",
      "rms_norm_backward_weight(Tensor dy, Tensor x, SymInt[] normalized_shape, float? eps) -> Tensor");

  // (x - mean) / √(var + eps) · weight + bias over the last dimensions.                 Ba et al. 2016, eq. 4
  entry(table,
        "layer_norm(Tensor x, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float? "
        "eps=1e-05) -> "
        "Tensor",
        Kind::Reduction)
      .infer(infer_norm)
      .cpu(run_norm<true>)
      .grad(
          [](Dy<> dy, In<0> x, In<1> weight, const Attrs& attrs) {
            return call(WEFT_OP("layer_norm_backward"), {dy, x, weight}, attrs, SourceLocation::current());
          },
          [](Dy<> dy, In<0> x, InSpec<1> weight, const Attrs& attrs) {
            return call(WEFT_OP("layer_norm_backward_weight"), {dy, x}, attrs, SourceLocation::current())
                .to(weight.spec.dtype);
          },
          [](Dy<> dy, InSpec<2> bias) { return bias_gradient(dy, bias.spec); })
      .decompose(decompose_norm<true>)
      .samples(
          {.specials = false,
           .calls = {"x=[3,5] normalized_shape=[5] weight=[5] bias=[5]", "x=[2,3,4] normalized_shape=[3,4]",
                     "x=[3,1] normalized_shape=[1]", "x=[0,4] normalized_shape=[4] weight=[4]"}});
  // x / √(mean(x²) + eps) · weight; without eps the machine epsilon of x's dtype.        Zhang and Sennrich 2019, eq. 4
  entry(table,
        "rms_norm(Tensor x, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        Kind::Reduction)
      .infer(infer_norm)
      .cpu(run_norm<false>)
      .grad(
          [](Dy<> dy, In<0> x, In<1> weight, const Attrs& attrs) {
            return call(WEFT_OP("rms_norm_backward"), {dy, x, weight}, attrs, SourceLocation::current());
          },
          [](Dy<> dy, In<0> x, InSpec<1> weight, const Attrs& attrs) {
            return call(WEFT_OP("rms_norm_backward_weight"), {dy, x}, attrs, SourceLocation::current())
                .to(weight.spec.dtype);
          })
      .decompose(decompose_norm<false>)
      .samples(
          {.specials = false,
           .calls = {"x=[3,5] normalized_shape=[5] weight=[5]", "x=[2,3,4] normalized_shape=[3,4] eps=1e-06",
                     "x=[3,1] normalized_shape=[1]", "x=[0,4] normalized_shape=[4] weight=[4]"}});
  composite(
      table,
      "group_norm(Tensor x, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
      "Tensor",
      static_cast<Tensor (*)(const Tensor&, int64_t, const Tensor&, const Tensor&, double, SourceLocation)>(
          group_norm))
      .samples({.specials = false,
                .calls = {"x=[2,4,3] num_groups=2 weight=[4] bias=[4]", "x=[2,4] num_groups=4"}});
  composite(table,
            "batch_norm(Tensor x, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? "
            "bias=None, bool "
            "training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
            static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   bool, double, double, SourceLocation)>(batch_norm))
      .samples({.low = 0.1,
                .specials = false,
                .calls = {"x=[4,3] running_mean=[3] running_var=[3] weight=[3] bias=[3]",
                          "x=[4,3,2] weight=[3] bias=[3] training=True"}});
}

Tensor layer_norm(const Tensor& x, const SymList& shape, const Tensor& weight, const Tensor& bias, double eps,
                  SourceLocation where) {
  return call(WEFT_OP("layer_norm"), {x, weight, bias}, {shape, eps}, where);
}
Tensor rms_norm(const Tensor& x, const SymList& shape, const Tensor& weight, std::optional<double> eps,
                SourceLocation where) {
  return call(WEFT_OP("rms_norm"), {x, weight}, {shape, eps}, where);
}

namespace {

// A parameter of one value per channel, shaped to broadcast over x [batch, channels, …].
Tensor per_channel(const Tensor& parameter, const Tensor& x, DType dtype, SourceLocation where) {
  SymList sizes;
  for (int64_t d = 0; d < x.dim(); ++d) sizes.push_back(d == 1 ? x.size(1) : Sym::from_int(1));
  return reshape(widen(parameter, dtype, where), sizes, where);
}

void check_channels(const char* op, const char* name, const Tensor& parameter, const Tensor& x,
                    SourceLocation where) {
  if (!parameter.defined()) return;
  WEFT_CHECK_AT(where, parameter.dim() == 1 && parameter.size(0) == x.size(1), op, ": ", name, " is ",
                describe(parameter), ", but x ", x.sizes(), " has ", x.size(1), " channels in dimension 1");
}

}  // namespace

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  SourceLocation where) {
  const CompositeScope scope(WEFT_OP("group_norm"), where, {x, weight, bias});
  WEFT_CHECK_AT(where, x.dim() >= 2 && is_floating(x.dtype()), "group_norm: x is ", describe(x),
                ", but must be floating with at least 2 dimensions: [batch, channels, …]");
  WEFT_CHECK_AT(where, groups > 0 && x.size(1) % groups == 0, "group_norm: the ", x.size(1),
                " channels of x ", x.sizes(), " do not divide into ", groups, " groups");
  check_channels("group_norm", "weight", weight, x, where);
  check_channels("group_norm", "bias", bias, x, where);
  const DType wide = wide_dtype(x.dtype());
  Sym inner = x.size(1) / groups;
  for (int64_t d = 2; d < x.dim(); ++d) inner = inner * x.size(d);
  const Tensor rows = reshape(widen(x, wide, where), {x.size(0), groups, inner}, where);
  Tensor y = reshape(layer_norm(rows, {inner}, {}, {}, eps, where), x.sizes(), where);
  if (weight.defined()) y = mul(y, per_channel(weight, x, wide, where), where);
  if (bias.defined()) y = add(y, per_channel(bias, x, wide, where), 1, where);
  return widen(y, x.dtype(), where);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum, double eps,
                  SourceLocation where) {
  const CompositeScope scope(WEFT_OP("batch_norm"), where, {x, running_mean, running_var, weight, bias});
  WEFT_CHECK_AT(where, x.dim() >= 2 && is_floating(x.dtype()), "batch_norm: x is ", describe(x),
                ", but must be floating with at least 2 dimensions: [batch, channels, …]");
  WEFT_CHECK_AT(where, training || (running_mean.defined() && running_var.defined()),
                "batch_norm: running_mean and running_var are needed unless training");
  check_channels("batch_norm", "running_mean", running_mean, x, where);
  check_channels("batch_norm", "running_var", running_var, x, where);
  check_channels("batch_norm", "weight", weight, x, where);
  check_channels("batch_norm", "bias", bias, x, where);
  const DType wide = wide_dtype(x.dtype());
  const Tensor values = widen(x, wide, where);
  Tensor centre, variance;
  if (training) {
    DimList dims;
    for (int64_t d = 0; d < x.dim(); ++d)
      if (d != 1) dims.push_back(d);
    Sym count = x.size(0);
    for (int64_t d = 2; d < x.dim(); ++d) count = count * x.size(d);
    WEFT_CHECK_AT(where, count > 1, "batch_norm: x is ", describe(x),
                  ": one value per channel has no variance to train with; use a larger batch or eval()");
    centre = mean(values, dims, true, {}, where);
    const Tensor d = sub(values, centre, 1, where);
    variance = mean(mul(d, d, where), dims, true, {}, where);
    // The running variance is the unbiased one, as in PyTorch.
    const auto update = [&](const Tensor& running, const Tensor& value, const Scalar& factor) {
      if (!running.defined()) return;
      Tensor target = running;
      const Tensor flat = reshape(value.detach(where), {x.size(1)}, where);
      target.mul_(1 - momentum, where);
      target.add_(widen(mul(flat, factor, where), running.dtype(), where), momentum, where);
    };
    update(running_mean, centre, 1.0);
    update(running_var, variance, Scalar(count) / Scalar(count - 1));
  } else {
    centre = per_channel(running_mean, x, wide, where);
    variance = per_channel(running_var, x, wide, where);
  }
  const Tensor rstd = rsqrt(add(variance, eps, 1, where), where);
  Tensor y = mul(sub(values, centre, 1, where), rstd, where);
  if (weight.defined()) y = mul(y, per_channel(weight, x, wide, where), where);
  if (bias.defined()) y = add(y, per_channel(bias, x, wide, where), 1, where);
  return widen(y, x.dtype(), where);
}

}  // namespace weft
