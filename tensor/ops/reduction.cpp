// Folds along dimensions: sum, mean, prod, amax, amin, any, all, count_nonzero, with their gradients.
// Place: register.cpp calls register_reduction_ops, which calls the other files of this kind.
#include "tensor/ops/reduction.h"

#include <algorithm>

#include "tensor/loop_rule.h"
#include "tensor/ops/register.h"

namespace weft {

FoldedDims folded_dims(const DimList& dims, int64_t rank, const char* op) {
  FoldedDims folded(static_cast<size_t>(rank), dims.empty());
  for (int64_t dim : dims) {
    const int64_t d = normalize_dim(dim, rank, op);
    if (rank == 0) continue;
    WEFT_CHECK(!folded[static_cast<size_t>(d)], op, ": dims ", dims, " name dimension ", d,
               " twice; each may be named once");
    folded[static_cast<size_t>(d)] = true;
  }
  return folded;
}

Sizes folded_sizes(const Sizes& sizes, const FoldedDims& folded, bool keepdim) {
  Sizes result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!folded[d]) result.push_back(sizes[d]);
    else if (keepdim) result.push_back(Sym::from_int(1));
  }
  return result;
}

Sym folded_count(std::span<const Sym> sizes, const FoldedDims& folded) {
  Sym count = Sym::from_int(1);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (folded[d]) count = count * sizes[d];
  return count;
}

Tensor unfold_to(const Tensor& result, const DimList& dims, bool keepdim, const SymList& sizes,
                 SourceLocation where) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  Tensor full = result;
  if (!keepdim) {
    const FoldedDims folded = folded_dims(dims, rank, "reduction");
    for (int64_t d = 0; d < rank; ++d)
      if (folded[static_cast<size_t>(d)]) full = unsqueeze(full, d, where);
  }
  return expand(full, sizes, where);
}

void run_fold(const Tensor& x, const FoldedDims& folded, cpu::Fold fold, DType compute, const Tensor& out,
              std::optional<DType> via, std::optional<double> divisor) {
  const size_t rank = static_cast<size_t>(x.dim());
  cpu::run_reduce({fold,
                   compute,
                   via,
                   divisor,
                   bytes_of(x),
                   x->dtype,
                   {int_sizes(x), rank},
                   {int_strides(x), rank},
                   {folded.data(), rank},
                   bytes_of(out),
                   out->dtype});
}

namespace {

// Attributes of most folds.
constexpr size_t kDims = 0, kKeepdim = 1, kDType = 2;

FoldedDims folded_of(const Call& call) {
  return folded_dims(call.attr(kDims).as_dims(), call.tensor(0).dim(), call.name());
}

OutputSpecs one_output(const Call& call, const FoldedDims& folded, bool keepdim, DType dtype) {
  const Tensor& x = call.tensor(0);
  OutputSpecs specs;
  specs.push_back({folded_sizes(x->layout.sizes, folded, keepdim), dtype, x->device});
  return specs;
}

DType requested(const Attr& dtype, DType otherwise) { return dtype.is_none() ? otherwise : dtype.as_dtype(); }

// Integers and bool add up in int64.
DType sum_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::Int64; }
// In which dtype a sum or product with this result folds, and what elements become first.
DType accumulator(DType result) { return is_floating(result) ? compute_dtype(result) : DType::Int64; }
std::optional<DType> cast_first(const Tensor& x, DType result) {
  return x->dtype != result && is_half(result) ? std::optional(result) : std::nullopt;
}

// A fold as its rule says, into the contiguous result.
void run_rule(const Call& call, const FoldRule& rule, const Tensor& out) {
  const Tensor& x = call.tensor(0);
  run_fold(x, rule.folded, rule.fold, rule.compute, out, rule.via);
}

// ---- sum, mean --------------------------------------------------------------------------------------------------

OutputSpecs infer_sum(const Call& call) {
  return one_output(call, folded_of(call), call.attr(kKeepdim).as_bool(),
                    requested(call.attr(kDType), sum_dtype(call.tensor(0).dtype())));
}
std::optional<FoldRule> fold_sum(const Call& call) {
  const Tensor& x = call.tensor(0);
  const DType result = requested(call.attr(kDType), sum_dtype(x.dtype()));
  return FoldRule{cpu::Fold::Sum, folded_of(call), accumulator(result), cast_first(x, result)};
}
void run_sum(const Call& call, std::span<Tensor> outputs) { run_rule(call, *fold_sum(call), outputs[0]); }

OutputSpecs infer_mean(const Call& call) {
  const DType result = requested(call.attr(kDType), call.tensor(0).dtype());
  WEFT_CHECK(is_floating(result), "mean: x is ", describe(call.tensor(0)),
             ", but a mean needs a floating dtype; pass dtype=kFloat32 or convert x");
  return one_output(call, folded_of(call), call.attr(kKeepdim).as_bool(), result);
}
void run_mean(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const FoldedDims folded = folded_of(call);
  const int64_t count = folded_count(x.sizes(), folded);
  run_fold(x, folded, cpu::Fold::Sum, accumulator(outputs[0]->dtype), outputs[0],
           cast_first(x, outputs[0]->dtype), static_cast<double>(count));
}
Tensor decompose_mean(const Call& call) {
  const Tensor& x = call.tensor(0);
  const DimList& dims = call.attr(kDims).as_dims();
  const DType result = requested(call.attr(kDType), x.dtype());
  const Sym count = folded_count(x.sizes(), folded_dims(dims, x.dim(), "mean"));
  const Tensor typed = x.to(result, false, false, call.where);
  return in_compute_dtype(typed, result, call.where, [&](const Tensor& wide) {
    return div(sum(wide, dims, call.attr(kKeepdim).as_bool(), {}, call.where), Scalar(count) * 1.0, {},
               call.where);
  });
}

// ---- prod -------------------------------------------------------------------------------------------------------

DimList optional_dim(const Attr& dim) { return dim.is_none() ? DimList() : DimList(int64_t{dim.as_int()}); }

OutputSpecs infer_prod(const Call& call) {
  const Tensor& x = call.tensor(0);
  return one_output(call, folded_dims(optional_dim(call.attr(0)), x.dim(), "prod"),
                    call.attr(kKeepdim).as_bool(), requested(call.attr(kDType), sum_dtype(x.dtype())));
}
std::optional<FoldRule> fold_prod(const Call& call) {
  const Tensor& x = call.tensor(0);
  const DType result = requested(call.attr(kDType), sum_dtype(x.dtype()));
  return FoldRule{cpu::Fold::Prod, folded_dims(optional_dim(call.attr(0)), x.dim(), "prod"),
                  accumulator(result), cast_first(x, result)};
}
void run_prod(const Call& call, std::span<Tensor> outputs) { run_rule(call, *fold_prod(call), outputs[0]); }
// dy · the product of all others: out / x where no element is 0; beside a single 0 only its own gradient remains.
Tensor prod_gradient(const Tensor& dy, const Tensor& x, const Tensor& out, const Attrs& attrs,
                     const OutputSpec& spec) {
  const DimList dims = optional_dim(attrs[0]);
  const bool keepdim = attrs[kKeepdim].as_bool();
  const SourceLocation here = SourceLocation::current();
  const auto full = [&](const Tensor& t) { return unfold_to(t, dims, keepdim, spec.sizes, here); };
  const Tensor is_zero = eq(x, 0);
  const Tensor zeros = sum(is_zero, dims, keepdim);
  const Tensor others =
      prod(where(is_zero, 1, x), attrs[0].is_none() ? std::optional<int64_t>() : int64_t{dims[0]}, keepdim);
  const Tensor gradient = where(is_zero, where(eq(full(zeros), 1), full(others), 0),
                                where(eq(full(zeros), 0), full(out) / where(is_zero, 1, x), 0));
  return (full(dy) * gradient).to(spec.dtype);
}

// ---- amax, amin, any, all -----------------------------------------------------------------------------------------

OutputSpecs infer_extreme(const Call& call) {
  const Tensor& x = call.tensor(0);
  const FoldedDims folded = folded_of(call);
  for (size_t d = 0; d < folded.size(); ++d) {
    WEFT_CHECK(!folded[d] || x.size(static_cast<int64_t>(d)) != 0, call.name(), ": x is ", describe(x),
               ", and dimension ", d,
               " of size 0 has no extreme; take it along a dimension that is not empty");
  }
  return one_output(call, folded, call.attr(kKeepdim).as_bool(), x.dtype());
}
template <cpu::Fold kFold>
std::optional<FoldRule> fold_extreme(const Call& call) {
  return FoldRule{kFold, folded_of(call), compute_dtype(call.tensor(0).dtype())};
}
template <cpu::Fold kFold>
void run_extreme(const Call& call, std::span<Tensor> outputs) {
  run_rule(call, *fold_extreme<kFold>(call), outputs[0]);
}
// Shared evenly among the elements that equal the extreme.
Tensor extreme_gradient(const Tensor& dy, const Tensor& x, const Tensor& out, const DimList& dims,
                        bool keepdim, const OutputSpec& spec) {
  const SourceLocation here = SourceLocation::current();
  const Tensor hit = eq(x, unfold_to(out, dims, keepdim, spec.sizes, here)).to(spec.dtype);
  const Tensor share = dy / sum(hit, dims, keepdim);
  return hit * unfold_to(share, dims, keepdim, spec.sizes, here);
}

// bool, and uint8 for uint8, as in PyTorch.
OutputSpecs infer_truth(const Call& call) {
  return one_output(call, folded_of(call), call.attr(kKeepdim).as_bool(),
                    call.tensor(0).dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool);
}
template <cpu::Fold kFold>
std::optional<FoldRule> fold_truth(const Call& call) {
  return FoldRule{kFold, folded_of(call), DType::Int32, DType::Bool, true};
}
template <cpu::Fold kFold>
void run_truth(const Call& call, std::span<Tensor> outputs) {
  const Tensor& x = call.tensor(0);
  const FoldedDims folded = folded_of(call);
  // The identities of max and min over no elements are not those of any and all.
  if (folded_count(x.sizes(), folded) == 0) {
    std::fill_n(data_of<uint8_t>(outputs[0]), int_numel(outputs[0]), uint8_t{kFold == cpu::Fold::Min});
    return;
  }
  run_rule(call, *fold_truth<kFold>(call), outputs[0]);
}

OutputSpecs infer_count(const Call& call) { return one_output(call, folded_of(call), false, DType::Int64); }
std::optional<FoldRule> fold_count(const Call& call) {
  return FoldRule{cpu::Fold::Sum, folded_of(call), DType::Int64, DType::Bool};
}
void run_count(const Call& call, std::span<Tensor> outputs) { run_rule(call, *fold_count(call), outputs[0]); }

}  // namespace

void register_reduction_ops(OpTable& table) {
  // Σ x. Integers and bool give int64.
  entry(table, "sum(Tensor x, int[] dim=[], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Kind::Reduction)
      .infer(infer_sum)
      .cpu(run_sum)
      .fold(fold_sum)
      .grad([](Dy<> dy, InSpec<0> x, const Attrs& attrs) {
        return unfold_to(dy.to(x.spec.dtype), attrs[kDims].as_dims(), attrs[kKeepdim].as_bool(), x.sizes(),
                         SourceLocation::current());
      });
  // Σ x / n; a half mean is divided in float and rounds once.
  entry(table, "mean(Tensor x, int[] dim=[], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Kind::Reduction)
      .infer(infer_mean)
      .cpu(run_mean)
      .grad([](Dy<> dy, InSpec<0> x, const Attrs& attrs) {
        const DimList& dims = attrs[kDims].as_dims();
        const Sym count =
            folded_count(x.spec.sizes, folded_dims(dims, static_cast<int64_t>(x.spec.sizes.size()), "mean"));
        return unfold_to(dy.to(x.spec.dtype) / (Scalar(count) * 1.0), dims, attrs[kKeepdim].as_bool(),
                         x.sizes(), SourceLocation::current());
      })
      .decompose(decompose_mean);
  entry(table, "prod(Tensor x, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        Kind::Reduction)
      .infer(infer_prod)
      .cpu(run_prod)
      .fold(fold_prod)
      .grad([](Dy<> dy, In<0> x, Out<0> out, InSpec<0> spec, const Attrs& attrs) {
        return prod_gradient(dy, x, out, attrs, spec.spec);
      });
  entry(table, "amax(Tensor x, int[] dim=[], bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_extreme)
      .cpu(run_extreme<cpu::Fold::Max>)
      .fold(fold_extreme<cpu::Fold::Max>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, InSpec<0> spec, const Attrs& attrs) {
        return extreme_gradient(dy, x, out, attrs[kDims].as_dims(), attrs[kKeepdim].as_bool(), spec.spec);
      })
      .samples({.distinct = true});
  entry(table, "amin(Tensor x, int[] dim=[], bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_extreme)
      .cpu(run_extreme<cpu::Fold::Min>)
      .fold(fold_extreme<cpu::Fold::Min>)
      .grad([](Dy<> dy, In<0> x, Out<0> out, InSpec<0> spec, const Attrs& attrs) {
        return extreme_gradient(dy, x, out, attrs[kDims].as_dims(), attrs[kKeepdim].as_bool(), spec.spec);
      })
      .samples({.distinct = true});
  // Is any element, are all elements other than 0; NaN counts as true.
  entry(table, "any(Tensor x, int[] dim=[], bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_truth)
      .cpu(run_truth<cpu::Fold::Max>)
      .fold(fold_truth<cpu::Fold::Max>);
  entry(table, "all(Tensor x, int[] dim=[], bool keepdim=False) -> Tensor", Kind::Reduction)
      .infer(infer_truth)
      .cpu(run_truth<cpu::Fold::Min>)
      .fold(fold_truth<cpu::Fold::Min>);
  entry(table, "count_nonzero(Tensor x, int[] dim=[]) -> Tensor", Kind::Reduction)
      .infer(infer_count)
      .cpu(run_count)
      .fold(fold_count);
  register_arg_ops(table);
  register_variance_ops(table);
  register_scan_ops(table);
  register_softmax_ops(table);
  register_normalization_ops(table);
}

// ---- The functions --------------------------------------------------------------------------------------------------

Tensor sum(const Tensor& x, const DimList& dims, bool keepdim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("sum"), {x}, {dims, keepdim, dtype}, where);
}
Tensor sum(const Tensor& x, DType dtype, SourceLocation where) {
  return call(WEFT_OP("sum"), {x}, {DimList(), false, dtype}, where);
}
Tensor mean(const Tensor& x, const DimList& dims, bool keepdim, OptionalDType dtype, SourceLocation where) {
  return call(WEFT_OP("mean"), {x}, {dims, keepdim, dtype}, where);
}
Tensor prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, OptionalDType dtype,
            SourceLocation where) {
  return call(WEFT_OP("prod"), {x}, {dim, keepdim, dtype}, where);
}
Tensor amax(const Tensor& x, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("amax"), {x}, {dims, keepdim}, where);
}
Tensor amin(const Tensor& x, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("amin"), {x}, {dims, keepdim}, where);
}
Tensor any(const Tensor& x, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("any"), {x}, {dims, keepdim}, where);
}
Tensor all(const Tensor& x, const DimList& dims, bool keepdim, SourceLocation where) {
  return call(WEFT_OP("all"), {x}, {dims, keepdim}, where);
}
Tensor count_nonzero(const Tensor& x, const DimList& dims, SourceLocation where) {
  return call(WEFT_OP("count_nonzero"), {x}, {dims}, where);
}

}  // namespace weft
