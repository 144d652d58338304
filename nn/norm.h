// Normalisation over trailing dimensions: LayerNorm and RMSNorm.
// Needs module_holder and options.
#pragma once

#include "nn/module_holder.h"
#include "nn/options.h"

namespace weft::nn {

struct LayerNormOptions {
  LayerNormOptions(int64_t size) : normalized_shape_{size} {}                            // NOLINT
  LayerNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}  // NOLINT
  WEFT_OPTION(std::vector<int64_t>, normalized_shape, {})
  WEFT_OPTION(double, eps, 1e-5)
  WEFT_OPTION(bool, elementwise_affine, true)
  WEFT_OPTION(bool, bias, true)
};

// (x - mean) / √(var + eps) · weight + bias over the last dimensions.
// Shapes: x [*, shape], weight and bias [shape] -> as x.  Statistics of half types are computed in float.
// Source: torch.nn.LayerNorm; Ba et al. 2016.
class LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(int64_t size) : LayerNormImpl(LayerNormOptions(size)) {}
  explicit LayerNormImpl(std::vector<int64_t> shape) : LayerNormImpl(LayerNormOptions(std::move(shape))) {}
  explicit LayerNormImpl(const LayerNormOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& x, WEFT_HERE);
  std::string describe() const override;

  LayerNormOptions options;
  Tensor weight, bias;  // undefined without elementwise_affine

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(LayerNorm);

struct RMSNormOptions {
  RMSNormOptions(int64_t size) : normalized_shape_{size} {}                            // NOLINT
  RMSNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}  // NOLINT
  WEFT_OPTION(std::vector<int64_t>, normalized_shape, {})
  // Without one: the machine epsilon of the input's dtype.
  WEFT_OPTION(std::optional<double>, eps, {})
  WEFT_OPTION(bool, elementwise_affine, true)
};

// x / √(mean(x²) + eps) · weight over the last dimensions.
// Shapes: x [*, shape], weight [shape] -> as x.  Source: torch.nn.RMSNorm; Zhang and Sennrich 2019.
class RMSNormImpl : public Cloneable<RMSNormImpl> {
 public:
  explicit RMSNormImpl(int64_t size) : RMSNormImpl(RMSNormOptions(size)) {}
  RMSNormImpl(int64_t size, double eps) : RMSNormImpl(RMSNormOptions(size).eps(eps)) {}
  explicit RMSNormImpl(std::vector<int64_t> shape) : RMSNormImpl(RMSNormOptions(std::move(shape))) {}
  explicit RMSNormImpl(const RMSNormOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& x, WEFT_HERE);
  std::string describe() const override;

  RMSNormOptions options;
  Tensor weight;  // undefined without elementwise_affine

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(RMSNorm);

}  // namespace weft::nn
