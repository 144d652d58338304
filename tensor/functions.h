// The ops as functions: weft::softmax(x, -1). Names, order of arguments and results are PyTorch's.
// Needs shape, scalar, device; tensor.h includes it before the class so that methods can call it.
//
// Every function takes the place of its caller as last argument, by default; errors, traces and explain() name it.
// Unless a line says otherwise: any shape, any strides; floating results for integer inputs have the default dtype;
// half types compute in float and round once. An Error names what was given and what would be right.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/device.h"
#include "tensor/shape.h"

#define WEFT_HERE ::weft::SourceLocation where = ::weft::SourceLocation::current()

namespace weft {

class Tensor;
class Generator;
using TensorList = std::span<const Tensor>;

// What stands in one slot of a call: a tensor or a number. Borrowed: it must not outlive the tensor.
struct Operand {
  Operand() = default;
  Operand(const Tensor& t);  // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Sym> || std::same_as<T, Scalar> Operand(T value)
      : scalar(value), is_scalar(true) {}  // NOLINT

  bool is_tensor() const;
  bool is_none() const { return tensor == nullptr && !is_scalar; }

  const Tensor* tensor = nullptr;
  Scalar scalar;
  bool is_scalar = false;
};

using OptionalDType = std::optional<DType>;

// ---- Making tensors -------------------------------------------------------------------------------------------------
Tensor empty(const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor zeros(const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor ones(const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
// Without a dtype in the options the value's category decides: bool, int64 or the default float.
Tensor full(const SymList& sizes, const Scalar& value, const TensorOptions& options = {}, WEFT_HERE);
Tensor empty_like(const Tensor& x, const TensorOptions& options = {}, WEFT_HERE);
Tensor zeros_like(const Tensor& x, const TensorOptions& options = {}, WEFT_HERE);
Tensor ones_like(const Tensor& x, const TensorOptions& options = {}, WEFT_HERE);
Tensor full_like(const Tensor& x, const Scalar& value, const TensorOptions& options = {}, WEFT_HERE);
// [start, end) in steps; int64 when all three are integers, as in PyTorch.
Tensor arange(const Scalar& end, const TensorOptions& options = {}, WEFT_HERE);
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options = {}, WEFT_HERE);
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options = {},
              WEFT_HERE);
// `steps` numbers from start to end, both among them.
Tensor linspace(const Scalar& start, const Scalar& end, SymArg steps, const TensorOptions& options = {},
                WEFT_HERE);
// Ones on the diagonal of [n, m], else zeros; m is n unless given.
Tensor eye(SymArg n, const TensorOptions& options = {}, WEFT_HERE);
Tensor eye(SymArg n, SymArg m, const TensorOptions& options = {}, WEFT_HERE);
// A tensor without dimensions.
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {}, WEFT_HERE);
// A copy of host numbers: tensor(3.5), tensor({1, 2, 3}), tensor({{1., 2.}, {3., 4.}}, kFloat64). See tensor_data.h.
// Wraps memory that the caller owns. `sizes` in elements; strides row-major unless given.
Tensor from_blob(void* data, const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor from_blob(void* data, const SymList& sizes, const SymList& strides, const TensorOptions& options = {},
                 WEFT_HERE);
Tensor from_blob(void* data, const SymList& sizes, std::function<void(void*)> deleter,
                 const TensorOptions& options = {}, WEFT_HERE);
// Shapes: x [*] -> [*, num_classes].  Dtypes: int64 -> int64.  -1: the largest value plus one.
// Errors: IndexError for a negative value or one from num_classes on.
Tensor one_hot(const Tensor& x, int64_t num_classes = -1, WEFT_HERE);

// ---- Random numbers: element i draws from Philox at the generator's offset + i/4, lane i%4 --------------------------
void manual_seed(uint64_t seed);
// Uniform on [0, 1); below, the standard normal distribution.  Dtypes: floating, the default float unless given.
Tensor rand(const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor randn(const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor rand_like(const Tensor& x, const TensorOptions& options = {}, WEFT_HERE);
Tensor randn_like(const Tensor& x, const TensorOptions& options = {}, WEFT_HERE);
// Integers of [low, high), low 0 unless given; int64 unless the options say otherwise. Error if the dtype lacks them.
Tensor randint(int64_t high, const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
Tensor randint(int64_t low, int64_t high, const SymList& sizes, const TensorOptions& options = {}, WEFT_HERE);
// 0 to n - 1 in random order; int64 unless the options say otherwise.
Tensor randperm(SymArg n, const TensorOptions& options = {}, WEFT_HERE);
// 1 with the chance that each element holds, or with chance p in the shape of x, else 0. Error for a chance outside [0, 1].
Tensor bernoulli(const Tensor& probabilities, WEFT_HERE);
Tensor bernoulli(const Tensor& x, double p, WEFT_HERE);
// Class numbers drawn by weight.  Shapes: [n] -> [count], [rows, n] -> [rows, count].  Dtypes: floating -> int64.
// Errors: a weight that is negative or not finite, fewer positive weights than draws without replacement.
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false, WEFT_HERE);
// 0 with chance p, else x / (1 - p); x itself unless `train`.
Tensor dropout(const Tensor& x, double p = 0.5, bool train = true, WEFT_HERE);

// ---- Pointwise, one operand -----------------------------------------------------------------------------------------
#define WEFT_UNARY_FUNCTION(name) Tensor name(const Tensor& x, WEFT_HERE);
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_UNARY(F) \
  F(abs) F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(bitwise_not) F(ceil) F(cos) F(cosh) \
  F(digamma) F(erf) F(erfc) F(erfinv) F(exp) F(exp2) F(expm1) F(floor) F(frac) F(hardsigmoid) F(hardswish) \
  F(isfinite) F(isinf) F(isnan) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(log_sigmoid) F(logical_not) \
  F(mish) F(neg) F(reciprocal) F(relu) F(relu6) F(round) F(rsqrt) F(selu) F(sigmoid) F(sign) F(signbit) \
  F(silu) F(sin) F(sinh) F(softsign) F(sqrt) F(square) F(tan) F(tanh) F(tanhshrink) F(trunc)
// clang-format on
WEFT_FOR_EACH_UNARY(WEFT_UNARY_FUNCTION)
#undef WEFT_UNARY_FUNCTION
Tensor positive(const Tensor& x, WEFT_HERE);
// approximate: "none" (erf) or "tanh".
Tensor gelu(const Tensor& x, std::string_view approximate = "none", WEFT_HERE);
Tensor elu(const Tensor& x, const Scalar& alpha = 1.0, WEFT_HERE);
Tensor celu(const Tensor& x, const Scalar& alpha = 1.0, WEFT_HERE);
Tensor leaky_relu(const Tensor& x, const Scalar& negative_slope = 0.01, WEFT_HERE);
Tensor hardtanh(const Tensor& x, const Scalar& min_val = -1.0, const Scalar& max_val = 1.0, WEFT_HERE);
Tensor softplus(const Tensor& x, const Scalar& beta = 1.0, const Scalar& threshold = 20.0, WEFT_HERE);
Tensor softshrink(const Tensor& x, const Scalar& lambda = 0.5, WEFT_HERE);
Tensor hardshrink(const Tensor& x, const Scalar& lambda = 0.5, WEFT_HERE);
Tensor threshold(const Tensor& x, const Scalar& threshold, const Scalar& value, WEFT_HERE);
Tensor logit(const Tensor& x, WEFT_HERE);
Tensor nan_to_num(const Tensor& x, double nan = 0.0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {}, WEFT_HERE);
// min and max are tensors or numbers; either may be absent (pass {}).
Tensor clamp(const Tensor& x, const Operand& min, const Operand& max = {}, WEFT_HERE);
Tensor clamp_min(const Tensor& x, const Operand& min, WEFT_HERE);
Tensor clamp_max(const Tensor& x, const Operand& max, WEFT_HERE);
Tensor clip(const Tensor& x, const Operand& min, const Operand& max = {}, WEFT_HERE);

// ---- Pointwise, two operands and more: they broadcast and promote as in PyTorch -------------------------------------
Tensor add(const Operand& a, const Operand& b, const Scalar& alpha = 1, WEFT_HERE);
Tensor sub(const Operand& a, const Operand& b, const Scalar& alpha = 1, WEFT_HERE);
Tensor rsub(const Operand& a, const Operand& b, const Scalar& alpha = 1, WEFT_HERE);
// rounding_mode: "" (true division), "trunc" or "floor".
Tensor div(const Operand& a, const Operand& b, std::string_view rounding_mode = {}, WEFT_HERE);
#define WEFT_BINARY_FUNCTION(name) Tensor name(const Operand& a, const Operand& b, WEFT_HERE);
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_BINARY(F) \
  F(atan2) F(bitwise_and) F(bitwise_left_shift) F(bitwise_or) F(bitwise_right_shift) F(bitwise_xor) \
  F(copysign) F(eq) F(floor_divide) F(fmax) F(fmin) F(fmod) F(ge) F(gt) F(hypot) F(le) F(logaddexp) \
  F(logical_and) F(logical_or) F(logical_xor) F(lt) F(maximum) F(minimum) F(mul) F(ne) F(pow) F(remainder) \
  F(xlogy)
// clang-format on
WEFT_FOR_EACH_BINARY(WEFT_BINARY_FUNCTION)
#undef WEFT_BINARY_FUNCTION
// a where the condition holds (is not 0), else b.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b,
             SourceLocation here = SourceLocation::current());
// start + weight · (end - start); below, x + value · a · b and x + value · a / b.
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight, WEFT_HERE);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE);
// x with the value, a number or a 0-d tensor, where the bool mask holds.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, WEFT_HERE);
// Equal sizes and elements. Error if the dtypes differ, here and for isclose: |a - b| <= atol + rtol · |b|.
bool equal(const Tensor& a, const Tensor& b, WEFT_HERE);
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false, WEFT_HERE);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false, WEFT_HERE);

// ---- Reductions: no dims means all of them --------------------------------------------------------------------------
// Integer and bool sums are int64. A half sum accumulates in float and rounds once.
Tensor sum(const Tensor& x, const DimList& dims = {}, bool keepdim = false, OptionalDType dtype = {},
           WEFT_HERE);
Tensor sum(const Tensor& x, DType dtype, WEFT_HERE);
Tensor mean(const Tensor& x, const DimList& dims = {}, bool keepdim = false, OptionalDType dtype = {},
            WEFT_HERE);
Tensor prod(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false, OptionalDType dtype = {},
            WEFT_HERE);
// NaN if any element is NaN; the gradient is shared evenly among equal extremes.
Tensor amax(const Tensor& x, const DimList& dims = {}, bool keepdim = false, WEFT_HERE);
Tensor amin(const Tensor& x, const DimList& dims = {}, bool keepdim = false, WEFT_HERE);
// int64: the place of the first extreme along dim, or in row-major order of all; the first NaN counts as one.
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false, WEFT_HERE);
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = {}, bool keepdim = false, WEFT_HERE);
Tensor any(const Tensor& x, const DimList& dims = {}, bool keepdim = false, WEFT_HERE);
Tensor all(const Tensor& x, const DimList& dims = {}, bool keepdim = false, WEFT_HERE);
Tensor count_nonzero(const Tensor& x, const DimList& dims = {}, WEFT_HERE);
// correction 1 is the unbiased estimate, 0 the population's.
Tensor var(const Tensor& x, const DimList& dims = {}, double correction = 1, bool keepdim = false, WEFT_HERE);
Tensor std(const Tensor& x, const DimList& dims = {}, double correction = 1, bool keepdim = false, WEFT_HERE);
std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const DimList& dims = {}, double correction = 1,
                                    bool keepdim = false, WEFT_HERE);
// log Σ exp(x), and (Σ |x|^p)^(1/p), where p may be 0 (a count), inf or -inf.  Dtypes: floating.
Tensor logsumexp(const Tensor& x, const DimList& dims, bool keepdim = false, WEFT_HERE);
Tensor norm(const Tensor& x, double p = 2, const DimList& dims = {}, bool keepdim = false, WEFT_HERE);
Tensor max(const Tensor& x, WEFT_HERE);
Tensor min(const Tensor& x, WEFT_HERE);
// (values, int64 indices) along dim; the first of equal extremes.
std::tuple<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keepdim = false, WEFT_HERE);
std::tuple<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keepdim = false, WEFT_HERE);
Tensor cumsum(const Tensor& x, int64_t dim, OptionalDType dtype = {}, WEFT_HERE);
Tensor cumprod(const Tensor& x, int64_t dim, OptionalDType dtype = {}, WEFT_HERE);
// dtype: what x is converted to first; integers need one.
Tensor softmax(const Tensor& x, int64_t dim, OptionalDType dtype = {}, WEFT_HERE);
Tensor log_softmax(const Tensor& x, int64_t dim, OptionalDType dtype = {}, WEFT_HERE);

// ---- Order ----------------------------------------------------------------------------------------------------------
// (values, int64 indices); stable; NaN counts as the largest.
std::tuple<Tensor, Tensor> sort(const Tensor& x, int64_t dim = -1, bool descending = false, WEFT_HERE);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false, WEFT_HERE);
std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true,
                                bool sorted = true, WEFT_HERE);

// ---- Views: share the data of x -------------------------------------------------------------------------------------
Tensor view(const Tensor& x, const SymList& sizes, WEFT_HERE);
// The same bytes as another dtype; the last dimension scales with the ratio of element sizes.
Tensor view(const Tensor& x, DType dtype, WEFT_HERE);
// A view where the strides allow it, otherwise a copy.
Tensor reshape(const Tensor& x, const SymList& sizes, WEFT_HERE);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1, WEFT_HERE);
Tensor unflatten(const Tensor& x, int64_t dim, const SymList& sizes, WEFT_HERE);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, WEFT_HERE);
Tensor t(const Tensor& x, WEFT_HERE);
Tensor permute(const Tensor& x, const DimList& dims, WEFT_HERE);
Tensor movedim(const Tensor& x, const DimList& source, const DimList& destination, WEFT_HERE);
Tensor expand(const Tensor& x, const SymList& sizes, WEFT_HERE);
Tensor broadcast_to(const Tensor& x, const SymList& sizes, WEFT_HERE);
Tensor squeeze(const Tensor& x, WEFT_HERE);
Tensor squeeze(const Tensor& x, const DimList& dims, WEFT_HERE);
Tensor unsqueeze(const Tensor& x, int64_t dim, WEFT_HERE);
Tensor slice(const Tensor& x, int64_t dim, std::optional<SymArg> start = {}, std::optional<SymArg> end = {},
             SymArg step = 1, WEFT_HERE);
Tensor narrow(const Tensor& x, int64_t dim, SymArg start, SymArg length, WEFT_HERE);
Tensor select(const Tensor& x, int64_t dim, SymArg index, WEFT_HERE);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, WEFT_HERE);
// `offset` counts from the start of the storage, in elements; that of x unless given. Error if it leaves the storage.
Tensor as_strided(const Tensor& x, const SymList& sizes, const SymList& strides,
                  std::optional<SymArg> offset = {}, WEFT_HERE);
// Windows of `size` every `step` along dim; the places within a window become a new last dimension.
Tensor unfold(const Tensor& x, int64_t dim, SymArg size, SymArg step, WEFT_HERE);
// The same data under another handle, with a history of its own.
Tensor alias(const Tensor& x, WEFT_HERE);
// Pieces of a size (the last may be smaller), of given sizes, so many pieces, or each index with the dimension taken away.
std::vector<Tensor> split(const Tensor& x, SymArg size, int64_t dim = 0, WEFT_HERE);
std::vector<Tensor> split(const Tensor& x, const SymList& sizes, int64_t dim = 0, WEFT_HERE);
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0, WEFT_HERE);
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0, WEFT_HERE);

// ---- Rearranging into new data --------------------------------------------------------------------------------------
Tensor clone(const Tensor& x, WEFT_HERE);
// x itself where it is contiguous.
Tensor contiguous(const Tensor& x, WEFT_HERE);
// Along dim, or along a new one for stack; dtypes promote. Sizes agree but in dim; tensors of sizes [0] are skipped by cat.
Tensor cat(TensorList tensors, int64_t dim = 0, WEFT_HERE);
Tensor cat(std::initializer_list<Tensor> tensors, int64_t dim = 0, WEFT_HERE);
Tensor stack(TensorList tensors, int64_t dim = 0, WEFT_HERE);
Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim = 0, WEFT_HERE);
Tensor flip(const Tensor& x, const DimList& dims, WEFT_HERE);
Tensor roll(const Tensor& x, const SymList& shifts, const DimList& dims = {}, WEFT_HERE);
Tensor repeat(const Tensor& x, const SymList& repeats, WEFT_HERE);
Tensor tile(const Tensor& x, const SymList& repeats, WEFT_HERE);
Tensor repeat_interleave(const Tensor& x, SymArg repeats, std::optional<int64_t> dim = {}, WEFT_HERE);
// pads: {last low, last high, second-last low, …}, negative ones cut. mode: "constant", "reflect", "replicate", "circular".
Tensor pad(const Tensor& x, const SymList& pads, std::string_view mode = "constant", const Scalar& value = 0,
           WEFT_HERE);
// What lies on and below (triu: above) the diagonal of the last two dimensions, else 0; a positive diagonal lies above.
Tensor tril(const Tensor& x, int64_t diagonal = 0, WEFT_HERE);
Tensor triu(const Tensor& x, int64_t diagonal = 0, WEFT_HERE);
// A matrix with x [n] on its diagonal, or a copy of the diagonal of x [n, m].
Tensor diag(const Tensor& x, int64_t diagonal = 0, WEFT_HERE);

// ---- Gather and scatter: an index out of range is an IndexError that names value and place --------------------------
// The index is int64, or int32 too where it has one dimension. A source has the dtype of x.
// result[i][j] = x[index[i][j]][j] for dim 0.  Shapes: x and index of one rank, index no larger than x but along dim.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, WEFT_HERE);
// The slices that the index names.  Shapes: index [n] -> sizes of x with n in dim.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, WEFT_HERE);
Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim, WEFT_HERE);
// Rows of a table.  Shapes: weight [rows, width], index [*] -> [*, width].
Tensor embedding(const Tensor& weight, const Tensor& index, WEFT_HERE);
// x[i0, i1, …] with index tensors (undefined = the whole dimension); a bool mask counts for as many dims as it has.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices, WEFT_HERE);
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& value,
                 bool accumulate = false, WEFT_HERE);
// x with slices added, replaced or filled.  Shapes: source as x, but as long as index [n] in dim.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha = 1, WEFT_HERE);
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Scalar& value, WEFT_HERE);
// result = x with result[index[i][j]][j] = source[i][j] for dim 0; of several writes to one place the last stays.
// Shapes: index no larger than source, nor than x but along dim.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Operand& source, WEFT_HERE);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE);
// reduce: "sum", "prod", "mean", "amax", "amin".
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self = true, WEFT_HERE);
// The elements where the bool mask holds, [n]; the places of those other than 0, [n, dimensions] in int64.
Tensor masked_select(const Tensor& x, const Tensor& mask, WEFT_HERE);
Tensor nonzero(const Tensor& x, WEFT_HERE);

// ---- Matrices -------------------------------------------------------------------------------------------------------
// Both operands have the same dtype, which may not be bool; half types accumulate in float and round once.
// All PyTorch forms: vectors, matrices, batches with broadcasting.
Tensor matmul(const Tensor& a, const Tensor& b, WEFT_HERE);
// Shapes: [m, k], [k, n] -> [m, n]; bmm [b, m, k], [b, k, n] -> [b, m, n]; mv [m, k], [k] -> [m]; dot [k], [k] -> [].
Tensor mm(const Tensor& a, const Tensor& b, WEFT_HERE);
Tensor bmm(const Tensor& a, const Tensor& b, WEFT_HERE);
Tensor mv(const Tensor& a, const Tensor& x, WEFT_HERE);
Tensor dot(const Tensor& a, const Tensor& b, WEFT_HERE);
// Shapes: [m], [n] -> [m, n].
Tensor outer(const Tensor& a, const Tensor& b, WEFT_HERE);
// beta · x + alpha · (a · b), where x broadcasts to the product; with beta 0 x does not count, not even its NaN.
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
             const Scalar& alpha = 1, WEFT_HERE);
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
               const Scalar& alpha = 1, WEFT_HERE);
// x·wᵀ + b.  Shapes: x [*, in], w [out, in], b [out] -> [*, out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, WEFT_HERE);

// ---- Norms and losses -----------------------------------------------------------------------------------------------
// (x - mean) / √(var + eps) · weight + bias over the last dimensions, whose sizes are `shape`; weight and bias have these
// sizes or are undefined.  Dtypes: floating; the result has that of x.  Source: Ba et al. 2016, eq. 4.
Tensor layer_norm(const Tensor& x, const SymList& shape, const Tensor& weight, const Tensor& bias,
                  double eps = 1e-5, WEFT_HERE);
// x / √(mean(x²) + eps) · weight, likewise; without eps the machine epsilon of the dtype.  Zhang and Sennrich 2019, eq. 4.
Tensor rms_norm(const Tensor& x, const SymList& shape, const Tensor& weight, std::optional<double> eps = {},
                WEFT_HERE);
// Over each group of channels, and over all but the channels.  Shapes: x [batch, channels, *]; the others [channels] or
// undefined. Training updates the running values in place: running · (1 - momentum) + batch · momentum.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps = 1e-5, WEFT_HERE);
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training = false, double momentum = 0.1,
                  double eps = 1e-5, WEFT_HERE);
// reduction: "none", "mean" or "sum". Where sizes of x and target differ they broadcast, with a warning.
Tensor mse_loss(const Tensor& x, const Tensor& target, std::string_view reduction = "mean", WEFT_HERE);
Tensor l1_loss(const Tensor& x, const Tensor& target, std::string_view reduction = "mean", WEFT_HERE);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, std::string_view reduction = "mean",
                      double beta = 1, WEFT_HERE);
Tensor huber_loss(const Tensor& x, const Tensor& target, std::string_view reduction = "mean",
                  double delta = 1, WEFT_HERE);
// reduction "batchmean" divides by the first dimension. x holds log-probabilities.
Tensor kl_div(const Tensor& x, const Tensor& target, std::string_view reduction = "mean",
              bool log_target = false, WEFT_HERE);
// x holds logits; target, of equal sizes, chances. pos_weight multiplies the loss of positive targets; weight and it may
// be undefined.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, std::string_view reduction = "mean",
                                        WEFT_HERE);
// Log-probabilities and class numbers as below; weight is [classes] or undefined. A mean is weighted by class and leaves
// out ignored targets. Error naming row and class for a class out of range.
Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                std::string_view reduction = "mean", int64_t ignore_index = -100, WEFT_HERE);
// Logits [*, classes] or [batch, classes, …]; target: class numbers, or probabilities of the logits' shape.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     std::string_view reduction = "mean", int64_t ignore_index = -100,
                     double label_smoothing = 0.0, WEFT_HERE);
Tensor cross_entropy(const Tensor& logits, const Tensor& target, WEFT_HERE);

}  // namespace weft
