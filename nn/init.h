// Initial values of parameters: PyTorch's torch.nn.init. Each fills the tensor in place, outside the tape, and returns it.
// Needs tensor and options (for the keywords).
#pragma once

#include "nn/options.h"
#include "tensor/tensor.h"

namespace weft::nn::init {

Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
// Normal values outside [low, high] are drawn again.  Source: torch.nn.init.trunc_normal_.
Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double low = -2, double high = 2);
Tensor constant_(Tensor tensor, const Scalar& value);
Tensor zeros_(Tensor tensor);
Tensor ones_(Tensor tensor);
// A matrix with ones on its diagonal.
Tensor eye_(Tensor tensor);
// Rows (or columns, whichever are fewer) of length gain at right angles. Dimensions beyond the first count as one.
Tensor orthogonal_(Tensor tensor, double gain = 1);

// The numbers of values that one output reads and one input reaches: x [out, in, *] has in·* and out·*.
// Error for fewer than two dimensions.
std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor);
// The factor by which a nonlinearity shrinks a unit variance. param: leaky_relu's slope.
double calculate_gain(Keyword nonlinearity, double param = 0.01);

// Variance 2 · gain² / (fan_in + fan_out).  Glorot and Bengio 2010.
Tensor xavier_uniform_(Tensor tensor, double gain = 1);
Tensor xavier_normal_(Tensor tensor, double gain = 1);
// Variance gain² / fan.  He et al. 2015. a: leaky_relu's slope; mode: kFanIn or kFanOut.
Tensor kaiming_uniform_(Tensor tensor, double a = 0, Keyword mode = kFanIn,
                        Keyword nonlinearity = kLeakyReLU);
Tensor kaiming_normal_(Tensor tensor, double a = 0, Keyword mode = kFanIn, Keyword nonlinearity = kLeakyReLU);

}  // namespace weft::nn::init
