// Tensor: construction, reading values on the host, and indexing in libtorch's spelling.
#include "tensor/tensor.h"

#include <cstring>

#include "tensor/allocator.h"
#include "tensor/base/half.h"
#include "tensor/cuda/context.h"
#include "tensor/dispatch.h"
#include "tensor/quiet_handles.h"
#include "tensor/state_epoch.h"

namespace weft {

TensorImpl::TensorImpl(Intrusive<Storage> s, Layout<Sym> l, DType t, Device d)
    : storage(std::move(s)), layout(std::move(l)), dtype(t), device(d), numel(product(layout.sizes)) {
  if (storage && !numel.is_symbolic()) is_contiguous = weft::is_contiguous(layout);
}
// Out of line: the slots are complete only to their owners.
TensorImpl::~TensorImpl() = default;

void* TensorImpl::operator new(size_t bytes) { return allocate(bytes); }
void TensorImpl::operator delete(void* memory, size_t bytes) { deallocate(memory, bytes); }

void Tensor::throw_undefined() {
  const CompositeScope* scope = CompositeScope::current();
  detail::throw_message({scope != nullptr ? scope->called().c_name() : "tensor",
                         ": a tensor is undefined (default constructed or reset); assign one to it first"});
}

// Note [Handles that change]
// A compiled function that reads a tensor without being given it (a parameter, a captured variable) runs on that tensor, and
// cannot see that the handle it was read from names another one by now. So handles tell: one that lets go of a tensor
// which some compiled function holds moves the state epoch when it is assigned or reset. Destroyed handles tell nothing,
// for most are copies that come and go; nor do handles inside of a trace, or those of the library while it runs a program.
namespace {
thread_local bool handles_are_quiet = false;
}  // namespace

QuietHandles::QuietHandles(bool quiet) : before_(std::exchange(handles_are_quiet, quiet)) {}
QuietHandles::~QuietHandles() { handles_are_quiet = before_; }

void Tensor::tell_change() noexcept {
  if (current_trace() == nullptr && !handles_are_quiet) bump_state_epoch();
}

void Tensor::note_grad_asked() const {
  if (TraceHook* trace = current_trace()) trace->note_grad_asked(*this);
}

bool Tensor::is_contiguous() const {
  const TensorImpl& x = checked();
  return x.is_fake ? weft::is_contiguous(x.layout) : x.is_contiguous;
}

uint32_t Tensor::version() const {
  const TensorImpl& x = checked();
  return x.storage ? x.storage->version() : 0;
}

void* Tensor::data_ptr(DType expected) const {
  const TensorImpl& x = checked();
  WEFT_CHECK(!x.is_fake && current_trace() == nullptr,
             "data_ptr: memory cannot be read inside a compiled function, which runs later and with other "
             "data; read it "
             "outside, or use host_call(fn, tensors), which runs fn on the data at every call");
  WEFT_CHECK(x.dtype == expected, "data_ptr: asked for ", expected, ", but the tensor is ", x.dtype);
  return bytes_of(*this);
}

Scalar Tensor::item(SourceLocation where) const {
  const TensorImpl& x = checked();
  if (TraceHook* trace = current_trace()) return trace->read(trace->stand_in(*this), where);
  if (x.is_fake) throw_outlived_trace("item", *this);
  WEFT_CHECK(x.numel == 1, "item: the tensor has ", x.numel, " elements (sizes ", sizes(),
             "), not one; reduce or index it first");
  const char* at = bytes_of(*this);
  char from_gpu[8];
  if (x.device.is_cuda()) {
    cuda::copy_to_host(from_gpu, at, size_of(x.dtype), x.device.index);
    at = from_gpu;
  }
  return visit(x.dtype, [&](auto zero) -> Scalar {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, at, sizeof(T));
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
      return static_cast<double>(to_float(value));
    else return value;
  });
}

bool Tensor::is_true() const {
  WEFT_CHECK(numel() == 1, "bool: the truth of a tensor of sizes ", sizes(),
             " is ambiguous; use any() or all()");
  return item(checked().made_at).to_bool();
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const TensorImpl& x = checked();
  WEFT_CHECK(!x.is_fake && current_trace() == nullptr,
             "to_vector: values cannot be copied out of a compiled function, which runs later and with other "
             "data; return "
             "the tensor, or use host_call(fn, tensors), which runs fn on the data at every call");
  std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>> values(
      static_cast<size_t>(x.numel.concrete()));
  Tensor target = from_blob(values.data(), SymList(x.layout.sizes), TensorOptions(dtype_of<T>));
  copy_data(*this, target);
  if constexpr (std::is_same_v<T, bool>) return {values.begin(), values.end()};
  else return values;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<int64_t> Tensor::to_vector<int64_t>() const;
template std::vector<int32_t> Tensor::to_vector<int32_t>() const;
template std::vector<int16_t> Tensor::to_vector<int16_t>() const;
template std::vector<int8_t> Tensor::to_vector<int8_t>() const;
template std::vector<uint8_t> Tensor::to_vector<uint8_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

std::tuple<Tensor, Tensor> Tensor::max(int64_t dim, bool keepdim, SourceLocation where) const {
  return weft::max(*this, dim, keepdim, where);
}
std::tuple<Tensor, Tensor> Tensor::min(int64_t dim, bool keepdim, SourceLocation where) const {
  return weft::min(*this, dim, keepdim, where);
}
std::tuple<Tensor, Tensor> Tensor::sort(int64_t dim, bool descending, SourceLocation where) const {
  return weft::sort(*this, dim, descending, where);
}
std::tuple<Tensor, Tensor> Tensor::topk(int64_t k, int64_t dim, bool largest, bool sorted,
                                        SourceLocation where) const {
  return weft::topk(*this, k, dim, largest, sorted, where);
}
std::vector<Tensor> Tensor::split(SymArg size, int64_t dim, SourceLocation where) const {
  return weft::split(*this, size, dim, where);
}
std::vector<Tensor> Tensor::split(const SymList& sizes, int64_t dim, SourceLocation where) const {
  return weft::split(*this, sizes, dim, where);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim, SourceLocation where) const {
  return weft::chunk(*this, chunks, dim, where);
}
std::vector<Tensor> Tensor::unbind(int64_t dim, SourceLocation where) const {
  return weft::unbind(*this, dim, where);
}

Tensor& Tensor::operator+=(Rhs other) { return add_(other.operand, 1, other.where); }
Tensor& Tensor::operator-=(Rhs other) { return sub_(other.operand, 1, other.where); }
Tensor& Tensor::operator*=(Rhs other) { return mul_(other.operand, other.where); }
Tensor& Tensor::operator/=(Rhs other) { return div_(other.operand, {}, other.where); }

Tensor Tensor::operator[](indexing::At i) const {
  return i.tensor != nullptr ? index({*i.tensor}, i.where) : weft::select(*this, 0, i.integer, i.where);
}

}  // namespace weft
