// Tensor: an 8-byte handle to strided data, with PyTorch's methods.
// Needs storage, layout, scalar, device; the methods call the functions of functions.h.
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tensor/base/intrusive.h"
#include "tensor/functions.h"
#include "tensor/layout.h"
#include "tensor/storage.h"

namespace weft {

class Op;
struct Rhs;
struct TensorImpl;

// What the tape and the trace hang on a tensor; this floor only owns it.
class TapeSlot {
 public:
  virtual ~TapeSlot() = default;
};
class TraceSlot {
 public:
  virtual ~TraceSlot() = default;
  // For another tensor with the same value of the trace.
  virtual std::unique_ptr<TraceSlot> share(TensorImpl& owner) const = 0;
};

struct TensorImpl : RefCounted<TensorImpl> {
  TensorImpl(Intrusive<Storage> storage, Layout<Sym> layout, DType dtype, Device device);
  ~TensorImpl();
  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes);

  Intrusive<Storage> storage;  // of a fake tensor: without data
  Layout<Sym> layout;
  DType dtype;
  Device device;
  bool is_contiguous = false;  // kept for real tensors
  bool is_fake = false;        // a tensor of a trace: sizes without data
  // A compiled function holds it: changing what it is (not its values) moves the state epoch.
  std::atomic<bool> is_captured{false};
  // Kept by the tape. A gradient flows to or through this tensor; an in-place op gave it its history.
  bool requires_grad = false;
  bool is_rewritten = false;
  // Kept by the tape: the tensor that this view follows, if there is one; the tape slot owns it.
  const TensorImpl* base = nullptr;
  // A view takes over the history that an in-place op gave its base.
  bool needs_grad() const { return requires_grad || (base != nullptr && base->is_rewritten); }
  Sym numel;
  const Op* made_by = nullptr;  // the op that made it and its line, for messages about reads of its value
  SourceLocation made_at;
  std::unique_ptr<TapeSlot> tape;
  std::unique_ptr<TraceSlot> trace;
};

namespace indexing {
struct None_ {};
inline constexpr None_ None{};
struct Ellipsis_ {};
inline constexpr Ellipsis_ Ellipsis{};

// start:stop:step, each of which may be None.
struct Slice {
  Slice() = default;
  Slice(None_, None_ = {}, None_ = {}) {}                                             // NOLINT
  Slice(SymArg start_, None_ = {}, SymArg step_ = 1) : start(start_), step(step_) {}  // NOLINT
  Slice(None_, SymArg stop_, SymArg step_ = 1) : stop(stop_), step(step_) {}
  Slice(SymArg start_, SymArg stop_, SymArg step_ = 1) : start(start_), stop(stop_), step(step_) {}
  Slice(None_, None_, SymArg step_) : step(step_) {}

  std::optional<Sym> start, stop;
  Sym step = Sym::from_int(1);
};

// One entry of x.index({…}): None, Ellipsis, a number, a bool, a Slice or a tensor.
class TensorIndex;
// What stands in x[i]: a number or a tensor, with the line that wrote it.
struct At;
}  // namespace indexing

// A tensor is a reference: copies share data, and an in-place op shows through all of them. Not thread-safe for
// writes; any number of threads may read.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Intrusive<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  // A compiled function that read this handle is told that it names another tensor now. Note [Handles that change]
  Tensor& operator=(const Tensor& other) {
    if (!is_same(other)) note_change();
    impl_ = other.impl_;
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (!is_same(other)) {
      note_change();
      other.note_change();
    }
    impl_ = std::move(other.impl_);
    return *this;
  }
  // Exchanges what two handles name and tells nobody: for handles inside of the library.
  void exchange(Tensor& other) noexcept { impl_.swap(other.impl_); }

  bool defined() const { return impl_.get() != nullptr; }
  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* operator->() const { return impl_.get(); }
  void reset() {
    note_change();
    impl_ = {};
  }
  // True if both handles name the same tensor object.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  int64_t use_count() const { return impl_.use_count(); }

  // ---- What it is. All throw Error on an undefined tensor.
  SizesView sizes() const { return checked().layout.sizes; }
  SizesView strides() const { return checked().layout.strides; }
  Sym size(int64_t dim) const { return sizes()[normalize_dim(dim, this->dim(), "size")]; }
  Sym stride(int64_t dim) const { return strides()[normalize_dim(dim, this->dim(), "stride")]; }
  Sym storage_offset() const { return checked().layout.offset; }
  int64_t dim() const { return static_cast<int64_t>(sizes().size()); }
  int64_t ndimension() const { return dim(); }
  Sym numel() const { return checked().numel; }
  size_t nbytes() const { return static_cast<size_t>(static_cast<int64_t>(numel())) * itemsize(); }
  size_t itemsize() const { return size_of(dtype()); }
  DType dtype() const { return checked().dtype; }
  DType scalar_type() const { return dtype(); }
  Device device() const { return checked().device; }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_floating_point() const { return weft::is_floating(dtype()); }
  bool is_contiguous() const;
  bool is_fake() const { return checked().is_fake; }
  TensorOptions options() const { return TensorOptions(dtype()).device(device()); }
  // How often this tensor's data has been written in place, through any view.
  uint32_t version() const;
  uint32_t _version() const { return version(); }

  // ---- Its data. On the CPU only; a trace cannot read it.
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(data_ptr(dtype_of<T>));
  }
  void* data_ptr() const { return data_ptr(dtype()); }
  // The value of a tensor of one element. Error otherwise.
  Scalar item(WEFT_HERE) const;
  template <class T>
  T item(WEFT_HERE) const {
    return item(where).template to<T>();
  }
  // A 0-d bool in a condition: `if (loss > 3)`.
  explicit operator bool() const { return is_true(); }
  bool is_true() const;
  // The elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // ---- Gradients (defined by the autograd floor).
  bool requires_grad() const {
    const TensorImpl& x = checked();
    if (x.is_fake) [[unlikely]]
      note_grad_asked();
    return x.needs_grad();
  }
  Tensor& requires_grad_(bool value = true);
  Tensor& set_requires_grad(bool value) { return requires_grad_(value); }
  bool is_leaf() const;
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false,
                WEFT_HERE) const;
  // The accumulated gradient; undefined before the first backward.
  Tensor grad() const;
  Tensor& mutable_grad();
  void set_grad(const Tensor& gradient);
  void retain_grad() const;
  // Calls the hook with the gradient when it is known; the hook may return a replacement. Returns an id for remove_hook.
  unsigned register_hook(std::function<Tensor(const Tensor&)> hook) const;
  // A hook that only looks.
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, const Tensor&>>
  unsigned register_hook(F hook) const {
    return register_hook(
        std::function<Tensor(const Tensor&)>([hook = std::move(hook)](const Tensor& gradient) mutable {
          hook(gradient);
          return Tensor();
        }));
  }
  void remove_hook(unsigned id) const;
  // The same data without history.
  Tensor detach(WEFT_HERE) const;
  Tensor& detach_();

  // ---- Conversion.
  Tensor to(DType dtype, bool non_blocking = false, bool copy = false, WEFT_HERE) const;
  Tensor to(Device device, bool non_blocking = false, bool copy = false, WEFT_HERE) const;
  Tensor to(DeviceType device, WEFT_HERE) const { return to(Device(device), false, false, where); }
  Tensor to(const TensorOptions& options, WEFT_HERE) const;
  Tensor cpu(WEFT_HERE) const { return to(Device(kCPU), false, false, where); }
  Tensor cuda(WEFT_HERE) const { return to(Device(kCUDA), false, false, where); }

  // ---- Indexing in PyTorch's C++ spelling: x.index({Slice(0, 3), None, Ellipsis, 2, mask}).
  Tensor operator[](indexing::At i) const;
  Tensor index(const std::vector<indexing::TensorIndex>& indices, WEFT_HERE) const;
  Tensor& index_put_(const std::vector<indexing::TensorIndex>& indices, const Operand& value, WEFT_HERE);
  // Braces mean these indices, also where they hold tensors alone.
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Operand& value, WEFT_HERE);

  Tensor& operator+=(Rhs other);
  Tensor& operator-=(Rhs other);
  Tensor& operator*=(Rhs other);
  Tensor& operator/=(Rhs other);

#include "tensor/tensor_methods.h"

 private:
  TensorImpl& checked() const {
    if (!impl_.get()) [[unlikely]]
      throw_undefined();
    return *impl_.get();
  }
  [[noreturn]] static void throw_undefined();
  void note_change() const noexcept {
    if (impl_.get() != nullptr && impl_->is_captured.load(std::memory_order_relaxed)) [[unlikely]]
      tell_change();
  }
  static void tell_change() noexcept;
  void note_grad_asked() const;
  void* data_ptr(DType expected) const;

  Intrusive<TensorImpl> impl_;
};
static_assert(sizeof(Tensor) == 8);

namespace indexing {
class TensorIndex {
 public:
  enum class Kind : uint8_t { None, Ellipsis, Integer, Bool, Slice, Tensor };
  TensorIndex(None_) : kind(Kind::None) {}          // NOLINT
  TensorIndex(Ellipsis_) : kind(Kind::Ellipsis) {}  // NOLINT
  TensorIndex(const char* dots);                    // NOLINT: "..." as in libtorch
  template <std::integral T>
  requires(!std::same_as<T, bool>) TensorIndex(T i)
      : kind(Kind::Integer), integer(Sym::from_int(i)) {}  // NOLINT
  TensorIndex(Sym i) : kind(Kind::Integer), integer(i) {}  // NOLINT
  template <std::same_as<bool> T>
  TensorIndex(T b) : kind(Kind::Bool), integer(Sym::from_int(b)) {}          // NOLINT
  TensorIndex(indexing::Slice s) : kind(Kind::Slice), slice(s) {}            // NOLINT
  TensorIndex(weft::Tensor t) : kind(Kind::Tensor), tensor(std::move(t)) {}  // NOLINT

  Kind kind;
  Sym integer;
  indexing::Slice slice;
  weft::Tensor tensor;
};

// An operator has no parameters by default, so the line comes with its operand.
struct At {
  template <std::integral T>
  requires(!std::same_as<T, bool>) At(T i, WEFT_HERE) : integer(Sym::from_int(i)), where(where) {}  // NOLINT
  At(Sym i, WEFT_HERE) : integer(i), where(where) {}                                                // NOLINT
  At(const weft::Tensor& i, WEFT_HERE) : tensor(&i), where(where) {}                                // NOLINT

  Sym integer;
  const weft::Tensor* tensor = nullptr;
  SourceLocation where;
};
}  // namespace indexing

inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Operand& value,
                                  SourceLocation where) {
  return index_put_(std::vector<indexing::TensorIndex>(indices), value, where);
}

// The right operand of an operator: a tensor or a number, with the line that wrote it.
struct Rhs {
  Rhs(const Tensor& t, WEFT_HERE) : operand(t), where(where) {}  // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Sym> || std::same_as<T, Scalar> Rhs(T value, WEFT_HERE)
      : operand(Scalar(value)), where(where) {}  // NOLINT

  Operand operand;
  SourceLocation where;
};
// A number on the left of an operator.
struct Lhs {
  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, Sym> || std::same_as<T, Scalar> Lhs(T value, WEFT_HERE)
      : operand(Scalar(value)), where(where) {}  // NOLINT

  Operand operand;
  SourceLocation where;
};

Tensor operator-(Rhs x);
Tensor operator~(Rhs x);
#define WEFT_BINARY_OPERATOR(symbol)              \
  Tensor operator symbol(const Tensor& a, Rhs b); \
  Tensor operator symbol(Lhs a, const Tensor& b);
WEFT_BINARY_OPERATOR(+)
WEFT_BINARY_OPERATOR(-)
WEFT_BINARY_OPERATOR(*)
WEFT_BINARY_OPERATOR(/)
WEFT_BINARY_OPERATOR(%)
WEFT_BINARY_OPERATOR(&)
WEFT_BINARY_OPERATOR(|)
WEFT_BINARY_OPERATOR(^)
WEFT_BINARY_OPERATOR(<<)
WEFT_BINARY_OPERATOR(>>)
WEFT_BINARY_OPERATOR(==)
WEFT_BINARY_OPERATOR(!=)
WEFT_BINARY_OPERATOR(<)
WEFT_BINARY_OPERATOR(<=)
WEFT_BINARY_OPERATOR(>)
WEFT_BINARY_OPERATOR(>=)
#undef WEFT_BINARY_OPERATOR

// Prints values in PyTorch's form, shortened when long.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

using TensorList = std::span<const Tensor>;

inline Operand::Operand(const Tensor& t) : tensor(t.defined() ? &t : nullptr) {}
inline bool Operand::is_tensor() const { return tensor != nullptr; }

}  // namespace weft
