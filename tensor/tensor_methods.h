// The methods of Tensor that are ops: included inside the class, one line each.
// Place: tensor.h includes it; the functions are those of functions.h.
// No #pragma once and no includes: this is a part of the class body.

#define WEFT_UNARY_METHOD(name) \
  Tensor name(WEFT_HERE) const { return weft::name(*this, where); }
WEFT_FOR_EACH_UNARY(WEFT_UNARY_METHOD)
#undef WEFT_UNARY_METHOD
#define WEFT_BINARY_METHOD(name) \
  Tensor name(const Operand& other, WEFT_HERE) const { return weft::name(*this, other, where); }
WEFT_FOR_EACH_BINARY(WEFT_BINARY_METHOD)
#undef WEFT_BINARY_METHOD

Tensor add(const Operand& other, const Scalar& alpha = 1, WEFT_HERE) const {
  return weft::add(*this, other, alpha, where);
}
Tensor sub(const Operand& other, const Scalar& alpha = 1, WEFT_HERE) const {
  return weft::sub(*this, other, alpha, where);
}
Tensor div(const Operand& other, std::string_view rounding_mode = {}, WEFT_HERE) const {
  return weft::div(*this, other, rounding_mode, where);
}
Tensor clamp(const Operand& min, const Operand& max = {}, WEFT_HERE) const {
  return weft::clamp(*this, min, max, where);
}
Tensor clamp_min(const Operand& min, WEFT_HERE) const { return weft::clamp_min(*this, min, where); }
Tensor clamp_max(const Operand& max, WEFT_HERE) const { return weft::clamp_max(*this, max, where); }
// x.where(condition, other): x where the condition holds.
Tensor where(const Tensor& condition, const Operand& other,
             SourceLocation here = SourceLocation::current()) const {
  return weft::where(condition, *this, other, here);
}
Tensor lerp(const Tensor& end, const Operand& weight, WEFT_HERE) const {
  return weft::lerp(*this, end, weight, where);
}
Tensor addcmul(const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE) const {
  return weft::addcmul(*this, a, b, value, where);
}
Tensor addcdiv(const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE) const {
  return weft::addcdiv(*this, a, b, value, where);
}
Tensor masked_fill(const Tensor& mask, const Operand& value, WEFT_HERE) const {
  return weft::masked_fill(*this, mask, value, where);
}
bool equal(const Tensor& other, WEFT_HERE) const { return weft::equal(*this, other, where); }
bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
              WEFT_HERE) const {
  return weft::allclose(*this, other, rtol, atol, equal_nan, where);
}

Tensor sum(const DimList& dims = {}, bool keepdim = false, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::sum(*this, dims, keepdim, dtype, where);
}
Tensor sum(DType dtype, WEFT_HERE) const { return weft::sum(*this, dtype, where); }
Tensor mean(const DimList& dims = {}, bool keepdim = false, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::mean(*this, dims, keepdim, dtype, where);
}
Tensor prod(std::optional<int64_t> dim = {}, bool keepdim = false, OptionalDType dtype = {},
            WEFT_HERE) const {
  return weft::prod(*this, dim, keepdim, dtype, where);
}
Tensor amax(const DimList& dims = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::amax(*this, dims, keepdim, where);
}
Tensor amin(const DimList& dims = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::amin(*this, dims, keepdim, where);
}
Tensor argmax(std::optional<int64_t> dim = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::argmax(*this, dim, keepdim, where);
}
Tensor argmin(std::optional<int64_t> dim = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::argmin(*this, dim, keepdim, where);
}
Tensor any(const DimList& dims = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::any(*this, dims, keepdim, where);
}
Tensor all(const DimList& dims = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::all(*this, dims, keepdim, where);
}
Tensor var(const DimList& dims = {}, double correction = 1, bool keepdim = false, WEFT_HERE) const {
  return weft::var(*this, dims, correction, keepdim, where);
}
Tensor std(const DimList& dims = {}, double correction = 1, bool keepdim = false, WEFT_HERE) const {
  return weft::std(*this, dims, correction, keepdim, where);
}
Tensor logsumexp(const DimList& dims, bool keepdim = false, WEFT_HERE) const {
  return weft::logsumexp(*this, dims, keepdim, where);
}
Tensor norm(double p = 2, const DimList& dims = {}, bool keepdim = false, WEFT_HERE) const {
  return weft::norm(*this, p, dims, keepdim, where);
}
Tensor max(WEFT_HERE) const { return weft::max(*this, where); }
Tensor min(WEFT_HERE) const { return weft::min(*this, where); }
std::tuple<Tensor, Tensor> max(int64_t dim, bool keepdim = false, WEFT_HERE) const;
std::tuple<Tensor, Tensor> min(int64_t dim, bool keepdim = false, WEFT_HERE) const;
std::tuple<Tensor, Tensor> sort(int64_t dim = -1, bool descending = false, WEFT_HERE) const;
std::tuple<Tensor, Tensor> topk(int64_t k, int64_t dim = -1, bool largest = true, bool sorted = true,
                                WEFT_HERE) const;
Tensor argsort(int64_t dim = -1, bool descending = false, WEFT_HERE) const {
  return weft::argsort(*this, dim, descending, where);
}
Tensor cumsum(int64_t dim, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::cumsum(*this, dim, dtype, where);
}
Tensor cumprod(int64_t dim, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::cumprod(*this, dim, dtype, where);
}
Tensor softmax(int64_t dim, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::softmax(*this, dim, dtype, where);
}
Tensor log_softmax(int64_t dim, OptionalDType dtype = {}, WEFT_HERE) const {
  return weft::log_softmax(*this, dim, dtype, where);
}

Tensor view(const SymList& sizes, WEFT_HERE) const { return weft::view(*this, sizes, where); }
Tensor view(DType dtype, WEFT_HERE) const { return weft::view(*this, dtype, where); }
Tensor view_as(const Tensor& other, WEFT_HERE) const {
  return weft::view(*this, SymList(other.sizes()), where);
}
Tensor reshape(const SymList& sizes, WEFT_HERE) const { return weft::reshape(*this, sizes, where); }
Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1, WEFT_HERE) const {
  return weft::flatten(*this, start_dim, end_dim, where);
}
Tensor unflatten(int64_t dim, const SymList& sizes, WEFT_HERE) const {
  return weft::unflatten(*this, dim, sizes, where);
}
Tensor transpose(int64_t dim0, int64_t dim1, WEFT_HERE) const {
  return weft::transpose(*this, dim0, dim1, where);
}
Tensor t(WEFT_HERE) const { return weft::t(*this, where); }
Tensor permute(const DimList& dims, WEFT_HERE) const { return weft::permute(*this, dims, where); }
Tensor movedim(const DimList& source, const DimList& destination, WEFT_HERE) const {
  return weft::movedim(*this, source, destination, where);
}
Tensor expand(const SymList& sizes, WEFT_HERE) const { return weft::expand(*this, sizes, where); }
Tensor expand_as(const Tensor& other, WEFT_HERE) const {
  return weft::expand(*this, SymList(other.sizes()), where);
}
Tensor broadcast_to(const SymList& sizes, WEFT_HERE) const { return weft::broadcast_to(*this, sizes, where); }
Tensor squeeze(WEFT_HERE) const { return weft::squeeze(*this, where); }
Tensor squeeze(const DimList& dims, WEFT_HERE) const { return weft::squeeze(*this, dims, where); }
Tensor unsqueeze(int64_t dim, WEFT_HERE) const { return weft::unsqueeze(*this, dim, where); }
Tensor slice(int64_t dim, std::optional<SymArg> start = {}, std::optional<SymArg> end = {}, SymArg step = 1,
             WEFT_HERE) const {
  return weft::slice(*this, dim, start, end, step, where);
}
Tensor narrow(int64_t dim, SymArg start, SymArg length, WEFT_HERE) const {
  return weft::narrow(*this, dim, start, length, where);
}
Tensor select(int64_t dim, SymArg index, WEFT_HERE) const { return weft::select(*this, dim, index, where); }
Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, WEFT_HERE) const {
  return weft::diagonal(*this, offset, dim1, dim2, where);
}
Tensor as_strided(const SymList& sizes, const SymList& strides, std::optional<SymArg> offset = {},
                  WEFT_HERE) const {
  return weft::as_strided(*this, sizes, strides, offset, where);
}
Tensor unfold(int64_t dim, SymArg size, SymArg step, WEFT_HERE) const {
  return weft::unfold(*this, dim, size, step, where);
}
Tensor alias(WEFT_HERE) const { return weft::alias(*this, where); }
std::vector<Tensor> split(SymArg size, int64_t dim = 0, WEFT_HERE) const;
std::vector<Tensor> split(const SymList& sizes, int64_t dim = 0, WEFT_HERE) const;
std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0, WEFT_HERE) const;
std::vector<Tensor> unbind(int64_t dim = 0, WEFT_HERE) const;

Tensor clone(WEFT_HERE) const { return weft::clone(*this, where); }
Tensor contiguous(WEFT_HERE) const { return weft::contiguous(*this, where); }
Tensor flip(const DimList& dims, WEFT_HERE) const { return weft::flip(*this, dims, where); }
Tensor roll(const SymList& shifts, const DimList& dims = {}, WEFT_HERE) const {
  return weft::roll(*this, shifts, dims, where);
}
Tensor repeat(const SymList& repeats, WEFT_HERE) const { return weft::repeat(*this, repeats, where); }
Tensor repeat_interleave(SymArg repeats, std::optional<int64_t> dim = {}, WEFT_HERE) const {
  return weft::repeat_interleave(*this, repeats, dim, where);
}
Tensor tril(int64_t diagonal = 0, WEFT_HERE) const { return weft::tril(*this, diagonal, where); }
Tensor triu(int64_t diagonal = 0, WEFT_HERE) const { return weft::triu(*this, diagonal, where); }
Tensor diag(int64_t diagonal = 0, WEFT_HERE) const { return weft::diag(*this, diagonal, where); }

Tensor gather(int64_t dim, const Tensor& index, WEFT_HERE) const {
  return weft::gather(*this, dim, index, where);
}
Tensor index_select(int64_t dim, const Tensor& index, WEFT_HERE) const {
  return weft::index_select(*this, dim, index, where);
}
Tensor scatter(int64_t dim, const Tensor& index, const Operand& source, WEFT_HERE) const {
  return weft::scatter(*this, dim, index, source, where);
}
Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE) const {
  return weft::scatter_add(*this, dim, index, source, where);
}
Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                      bool include_self = true, WEFT_HERE) const {
  return weft::scatter_reduce(*this, dim, index, source, reduce, include_self, where);
}
Tensor index_add(int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha = 1,
                 WEFT_HERE) const {
  return weft::index_add(*this, dim, index, source, alpha, where);
}
Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE) const {
  return weft::index_copy(*this, dim, index, source, where);
}
Tensor index_fill(int64_t dim, const Tensor& index, const Scalar& value, WEFT_HERE) const {
  return weft::index_fill(*this, dim, index, value, where);
}
Tensor masked_select(const Tensor& mask, WEFT_HERE) const { return weft::masked_select(*this, mask, where); }
Tensor nonzero(WEFT_HERE) const { return weft::nonzero(*this, where); }

Tensor matmul(const Tensor& other, WEFT_HERE) const { return weft::matmul(*this, other, where); }
Tensor mm(const Tensor& other, WEFT_HERE) const { return weft::mm(*this, other, where); }
Tensor bmm(const Tensor& other, WEFT_HERE) const { return weft::bmm(*this, other, where); }
Tensor mv(const Tensor& other, WEFT_HERE) const { return weft::mv(*this, other, where); }
Tensor dot(const Tensor& other, WEFT_HERE) const { return weft::dot(*this, other, where); }
Tensor outer(const Tensor& other, WEFT_HERE) const { return weft::outer(*this, other, where); }
Tensor addmm(const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1,
             WEFT_HERE) const {
  return weft::addmm(*this, a, b, beta, alpha, where);
}

// ---- In place: write into this tensor's data and return it. The result must fit: same sizes, no lossy category
// (a floating result into an integer tensor is an Error). Error on an expanded view or a leaf that requires grad.
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_UNARY_IN_PLACE(F) \
  F(abs) F(acos) F(asin) F(atan) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp) F(exp2) F(expm1) F(floor) \
  F(frac) F(log) F(log10) F(log1p) F(log2) F(neg) F(reciprocal) F(relu) F(round) F(rsqrt) F(sigmoid) \
  F(sign) F(silu) F(sin) F(sinh) F(sqrt) F(square) F(tan) F(tanh) F(trunc) F(bitwise_not) F(logical_not)
// clang-format on
#define WEFT_UNARY_METHOD(name) Tensor& name##_(WEFT_HERE);
WEFT_FOR_EACH_UNARY_IN_PLACE(WEFT_UNARY_METHOD)
#undef WEFT_UNARY_METHOD
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_BINARY_IN_PLACE(F) \
  F(atan2) F(bitwise_and) F(bitwise_or) F(bitwise_xor) F(eq) F(floor_divide) F(fmod) F(ge) F(gt) F(le) \
  F(lt) F(mul) F(ne) F(pow) F(remainder)
// clang-format on
#define WEFT_BINARY_METHOD(name) Tensor& name##_(const Operand& other, WEFT_HERE);
WEFT_FOR_EACH_BINARY_IN_PLACE(WEFT_BINARY_METHOD)
#undef WEFT_BINARY_METHOD
Tensor& add_(const Operand& other, const Scalar& alpha = 1, WEFT_HERE);
Tensor& sub_(const Operand& other, const Scalar& alpha = 1, WEFT_HERE);
Tensor& div_(const Operand& other, std::string_view rounding_mode = {}, WEFT_HERE);
Tensor& clamp_(const Operand& min, const Operand& max = {}, WEFT_HERE);
Tensor& clamp_min_(const Operand& min, WEFT_HERE);
Tensor& clamp_max_(const Operand& max, WEFT_HERE);
Tensor& lerp_(const Tensor& end, const Operand& weight, WEFT_HERE);
Tensor& addcmul_(const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE);
Tensor& addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value = 1, WEFT_HERE);
Tensor& leaky_relu_(const Scalar& negative_slope = 0.01, WEFT_HERE);
Tensor& masked_fill_(const Tensor& mask, const Operand& value, WEFT_HERE);
Tensor& copy_(const Tensor& source, bool non_blocking = false, WEFT_HERE);
Tensor& fill_(const Operand& value, WEFT_HERE);
Tensor& zero_(WEFT_HERE);
Tensor& scatter_(int64_t dim, const Tensor& index, const Operand& source, WEFT_HERE);
Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE);
Tensor& scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                        bool include_self = true, WEFT_HERE);
Tensor& index_add_(int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha = 1,
                   WEFT_HERE);
Tensor& index_copy_(int64_t dim, const Tensor& index, const Tensor& source, WEFT_HERE);
Tensor& index_fill_(int64_t dim, const Tensor& index, const Scalar& value, WEFT_HERE);
Tensor& index_put_(const std::vector<Tensor>& indices, const Operand& value, bool accumulate = false,
                   WEFT_HERE);
Tensor& tril_(int64_t diagonal = 0, WEFT_HERE);
Tensor& triu_(int64_t diagonal = 0, WEFT_HERE);
Tensor& uniform_(double low = 0, double high = 1, WEFT_HERE);
Tensor& normal_(double mean = 0, double std = 1, WEFT_HERE);
Tensor& bernoulli_(double p = 0.5, WEFT_HERE);
Tensor& random_(int64_t low, int64_t high, WEFT_HERE);
// Metadata only: this handle gets the new shape, the data stays.
Tensor& unsqueeze_(int64_t dim, WEFT_HERE);
Tensor& squeeze_(int64_t dim, WEFT_HERE);
Tensor& transpose_(int64_t dim0, int64_t dim1, WEFT_HERE);
Tensor& t_(WEFT_HERE);
