// LayerNorm and RMSNorm.
// Place: the out-of-line half of nn/norm.h.
#include "nn/norm.h"

#include "nn/init.h"

namespace weft::nn {
namespace {

// "48", or "[3, 9]"
std::string shape_text(const std::vector<int64_t>& shape) {
  if (shape.size() == 1) return std::to_string(shape[0]);
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

void check_shape(const char* layer, const std::vector<int64_t>& shape) {
  WEFT_CHECK(!shape.empty(), layer, ": normalized_shape is empty; it names the sizes of the last dimensions");
}

void check_input(const char* layer, const Tensor& x, const std::vector<int64_t>& shape,
                 SourceLocation where) {
  bool fits = x.dim() >= static_cast<int64_t>(shape.size());
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = x.size(static_cast<int64_t>(d) - static_cast<int64_t>(shape.size())) == shape[d];
  if (fits) [[likely]]
    return;
  Error error(weft::detail::concat(layer, ": x has sizes ", x.sizes(),
                                   ", but the layer normalises the last dimensions ",
                                   SizesView(SymList(shape))));
  error.add_place(where);
  throw error;
}

}  // namespace

LayerNormImpl::LayerNormImpl(const LayerNormOptions& o) : options(o) { reset(); }

void LayerNormImpl::reset() {
  check_shape("LayerNorm", options.normalized_shape());
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? weft::empty(options.normalized_shape()) : Tensor(), affine);
  const bool has_bias = affine && options.bias();
  bias = register_parameter("bias", has_bias ? weft::empty(options.normalized_shape()) : Tensor(), has_bias);
  reset_parameters();
}

void LayerNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor LayerNormImpl::forward(const Tensor& x, SourceLocation where) {
  check_input("LayerNorm", x, options.normalized_shape(), where);
  return layer_norm(x, options.normalized_shape(), weight, bias, options.eps(), where);
}

std::string LayerNormImpl::describe() const {
  return weft::detail::concat("LayerNorm(", shape_text(options.normalized_shape()), ", eps=", options.eps(),
                              ", elementwise_affine=", options.elementwise_affine() ? "true" : "false", ")");
}

void LayerNormImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".eps", options.eps());
}

RMSNormImpl::RMSNormImpl(const RMSNormOptions& o) : options(o) { reset(); }

void RMSNormImpl::reset() {
  check_shape("RMSNorm", options.normalized_shape());
  const bool affine = options.elementwise_affine();
  weight = register_parameter("weight", affine ? weft::empty(options.normalized_shape()) : Tensor(), affine);
  reset_parameters();
}

void RMSNormImpl::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}

Tensor RMSNormImpl::forward(const Tensor& x, SourceLocation where) {
  check_input("RMSNorm", x, options.normalized_shape(), where);
  return rms_norm(x, options.normalized_shape(), weight, options.eps(), where);
}

std::string RMSNormImpl::describe() const {
  return weft::detail::concat("RMSNorm(", shape_text(options.normalized_shape()), ", eps=",
                              options.eps() ? weft::detail::concat(*options.eps()) : std::string("none"),
                              ", elementwise_affine=", options.elementwise_affine() ? "true" : "false", ")");
}

void RMSNormImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".eps", options.eps().value_or(-1));
}

}  // namespace weft::nn
