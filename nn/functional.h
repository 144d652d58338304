// nn::functional: libtorch's functions with option structs, `F::cross_entropy(x, y, F::CrossEntropyFuncOptions().…)`.
// Needs the option structs of nn/; every function is one call of the op of its name.
#pragma once

#include "nn/loss.h"

namespace weft::nn::functional {

// ---- Options ------------------------------------------------------------------------------------------------------
using MSELossFuncOptions = ReductionOptionsOf<CallOptions>;
using L1LossFuncOptions = ReductionOptionsOf<CallOptions>;
using CrossEntropyFuncOptions = CrossEntropyOptionsOf<CallOptions>;
using NLLLossFuncOptions = NLLOptionsOf<CallOptions>;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsOptionsOf<CallOptions>;
using SmoothL1LossFuncOptions = SmoothL1OptionsOf<CallOptions>;
using HuberLossFuncOptions = HuberOptionsOf<CallOptions>;
using KLDivFuncOptions = KLDivOptionsOf<CallOptions>;

struct ReLUFuncOptions {
  WEFT_CALL_OPTION(bool, inplace, false)
};
struct GELUFuncOptions {
  WEFT_CALL_OPTION(Keyword, approximate, kNone)
};
struct ELUFuncOptions {
  WEFT_CALL_OPTION(double, alpha, 1.0)
};
struct LeakyReLUFuncOptions {
  WEFT_CALL_OPTION(double, negative_slope, 0.01)
};
struct HardtanhFuncOptions {
  WEFT_CALL_OPTION(double, min_val, -1.0)
  WEFT_CALL_OPTION(double, max_val, 1.0)
};
struct SoftplusFuncOptions {
  WEFT_CALL_OPTION(double, beta, 1.0)
  WEFT_CALL_OPTION(double, threshold, 20.0)
};
struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}  // NOLINT
  WEFT_CALL_OPTION(int64_t, dim, -1)
  WEFT_CALL_OPTION(OptionalDType, dtype, {})
};
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
struct DropoutFuncOptions {
  WEFT_CALL_OPTION(double, p, 0.5)
  WEFT_CALL_OPTION(bool, training, true)
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}  // NOLINT
  WEFT_CALL_OPTION(std::vector<int64_t>, normalized_shape, {})
  WEFT_CALL_OPTION(Tensor, weight, {})
  WEFT_CALL_OPTION(Tensor, bias, {})
  WEFT_CALL_OPTION(double, eps, 1e-5)
};
struct RMSNormFuncOptions {
  RMSNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}  // NOLINT
  WEFT_CALL_OPTION(std::vector<int64_t>, normalized_shape, {})
  WEFT_CALL_OPTION(Tensor, weight, {})
  WEFT_CALL_OPTION(std::optional<double>, eps, {})
};
struct NormalizeFuncOptions {
  WEFT_CALL_OPTION(double, p, 2.0)
  WEFT_CALL_OPTION(int64_t, dim, 1)
  WEFT_CALL_OPTION(double, eps, 1e-12)
};
struct PadFuncOptions {
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}  // NOLINT
  WEFT_CALL_OPTION(std::vector<int64_t>, pad, {})
  WEFT_CALL_OPTION(Keyword, mode, "constant")
  WEFT_CALL_OPTION(double, value, 0.0)
};

// ---- Layers -------------------------------------------------------------------------------------------------------
inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, WEFT_HERE) {
  return weft::linear(x, weight, bias, where);
}
inline Tensor embedding(const Tensor& index, const Tensor& weight, WEFT_HERE) {
  return weft::embedding(weight, index, where);
}
inline Tensor one_hot(const Tensor& x, int64_t num_classes = -1, WEFT_HERE) {
  return weft::one_hot(x, num_classes, where);
}
inline Tensor dropout(const Tensor& x, const DropoutFuncOptions& options = {}, WEFT_HERE) {
  return weft::dropout(x, options.p(), options.training(), where);
}
inline Tensor layer_norm(const Tensor& x, const LayerNormFuncOptions& options, WEFT_HERE) {
  return weft::layer_norm(x, options.normalized_shape(), options.weight(), options.bias(), options.eps(),
                          where);
}
inline Tensor rms_norm(const Tensor& x, const RMSNormFuncOptions& options, WEFT_HERE) {
  return weft::rms_norm(x, options.normalized_shape(), options.weight(), options.eps(), where);
}
inline Tensor pad(const Tensor& x, const PadFuncOptions& options, WEFT_HERE) {
  return weft::pad(x, options.pad(), options.mode(), options.value(), where);
}
// x / max(|x|_p, eps), with the norm along one dimension.
inline Tensor normalize(const Tensor& x, const NormalizeFuncOptions& options = {}, WEFT_HERE) {
  return weft::div(
      x, weft::clamp_min(weft::norm(x, options.p(), options.dim(), true, where), options.eps(), where), {},
      where);
}

// ---- Activations --------------------------------------------------------------------------------------------------
inline Tensor relu(const Tensor& x, const ReLUFuncOptions& options = {}, WEFT_HERE) {
  Tensor handle = x;
  return options.inplace() ? handle.relu_(where) : weft::relu(x, where);
}
#define WEFT_FUNCTIONAL(name, function) \
  inline Tensor name(const Tensor& x, WEFT_HERE) { return weft::function(x, where); }
WEFT_FUNCTIONAL(relu6, relu6)
WEFT_FUNCTIONAL(selu, selu)
WEFT_FUNCTIONAL(silu, silu)
WEFT_FUNCTIONAL(mish, mish)
WEFT_FUNCTIONAL(tanh, tanh)
WEFT_FUNCTIONAL(sigmoid, sigmoid)
WEFT_FUNCTIONAL(logsigmoid, log_sigmoid)
WEFT_FUNCTIONAL(softsign, softsign)
WEFT_FUNCTIONAL(tanhshrink, tanhshrink)
WEFT_FUNCTIONAL(hardswish, hardswish)
WEFT_FUNCTIONAL(hardsigmoid, hardsigmoid)
#undef WEFT_FUNCTIONAL
inline Tensor gelu(const Tensor& x, const GELUFuncOptions& options = {}, WEFT_HERE) {
  return weft::gelu(x, options.approximate(), where);
}
inline Tensor elu(const Tensor& x, const ELUFuncOptions& options = {}, WEFT_HERE) {
  return weft::elu(x, options.alpha(), where);
}
inline Tensor leaky_relu(const Tensor& x, const LeakyReLUFuncOptions& options = {}, WEFT_HERE) {
  return weft::leaky_relu(x, options.negative_slope(), where);
}
inline Tensor hardtanh(const Tensor& x, const HardtanhFuncOptions& options = {}, WEFT_HERE) {
  return weft::hardtanh(x, options.min_val(), options.max_val(), where);
}
inline Tensor softplus(const Tensor& x, const SoftplusFuncOptions& options = {}, WEFT_HERE) {
  return weft::softplus(x, options.beta(), options.threshold(), where);
}
inline Tensor softmax(const Tensor& x, const SoftmaxFuncOptions& options, WEFT_HERE) {
  return weft::softmax(x, options.dim(), options.dtype(), where);
}
inline Tensor log_softmax(const Tensor& x, const LogSoftmaxFuncOptions& options, WEFT_HERE) {
  return weft::log_softmax(x, options.dim(), options.dtype(), where);
}

// ---- Losses -------------------------------------------------------------------------------------------------------
inline Tensor mse_loss(const Tensor& x, const Tensor& target, const MSELossFuncOptions& options = {},
                       WEFT_HERE) {
  return weft::mse_loss(x, target, options.reduction(), where);
}
inline Tensor l1_loss(const Tensor& x, const Tensor& target, const L1LossFuncOptions& options = {},
                      WEFT_HERE) {
  return weft::l1_loss(x, target, options.reduction(), where);
}
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                             const SmoothL1LossFuncOptions& options = {}, WEFT_HERE) {
  return weft::smooth_l1_loss(x, target, options.reduction(), options.beta(), where);
}
inline Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossFuncOptions& options = {},
                         WEFT_HERE) {
  return weft::huber_loss(x, target, options.reduction(), options.delta(), where);
}
inline Tensor kl_div(const Tensor& x, const Tensor& target, const KLDivFuncOptions& options = {}, WEFT_HERE) {
  return weft::kl_div(x, target, options.reduction(), options.log_target(), where);
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const BinaryCrossEntropyWithLogitsFuncOptions& options = {},
                                               WEFT_HERE) {
  return weft::binary_cross_entropy_with_logits(x, target, options.weight(), options.pos_weight(),
                                                options.reduction(), where);
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, const NLLLossFuncOptions& options = {},
                       WEFT_HERE) {
  return weft::nll_loss(x, target, options.weight(), options.reduction(), options.ignore_index(), where);
}
inline Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                            const CrossEntropyFuncOptions& options = {}, WEFT_HERE) {
  return weft::cross_entropy(logits, target, options.weight(), options.reduction(), options.ignore_index(),
                             options.label_smoothing(), where);
}

}  // namespace weft::nn::functional
