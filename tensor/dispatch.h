// call(): the one door through which every op goes, and the hooks that tape and trace install there.
// Needs op. Order: shape rule -> (trace: record | kernel of the device) -> (tape: record).
#pragma once

#include <array>

#include "tensor/grad_flag.h"
#include "tensor/op.h"

namespace weft {

// ---- The door -------------------------------------------------------------------------------------------------------

Tensor call(const Op& op, std::span<const Operand> operands, const Attrs& attrs, SourceLocation where);
inline Tensor call(const Op& op, std::initializer_list<Operand> operands, SourceLocation where) {
  static const Attrs none = {};
  return call(op, std::span(operands.begin(), operands.size()), none, where);
}
inline Tensor call(const Op& op, std::initializer_list<Operand> operands, const Attrs& attrs,
                   SourceLocation where) {
  return call(op, std::span(operands.begin(), operands.size()), attrs, where);
}
// For ops of several results; outputs.size() must be the op's.
void call_into(const Op& op, std::span<const Operand> operands, const Attrs& attrs, SourceLocation where,
               std::span<Tensor> outputs);
template <size_t N>
std::array<Tensor, N> call_many(const Op& op, std::initializer_list<Operand> operands, const Attrs& attrs,
                                SourceLocation where) {
  std::array<Tensor, N> outputs;
  call_into(op, std::span(operands.begin(), operands.size()), attrs, where, outputs);
  return outputs;
}
// For mutations: writes base(self, …) into self, which is operand 0.
void call_mutation(const Op& op, std::span<const Operand> operands, const Attrs& attrs, SourceLocation where);
inline void call_mutation(const Op& op, std::initializer_list<Operand> operands, const Attrs& attrs,
                          SourceLocation where) {
  call_mutation(op, std::span(operands.begin(), operands.size()), attrs, where);
}

// For in-place ops on metadata (unsqueeze_): self, whose view is `view`, becomes that view; the data stay.
void become(const Op& op, const Tensor& self, const Tensor& view, SourceLocation where);

// ---- Hooks ----------------------------------------------------------------------------------------------------------

// The tape. The autograd floor defines it, as it defines Tensor's methods about gradients: a constant, so that there is
// no moment at which it is not yet installed.
struct TapeHook {
  // After a kernel: some operand requires grad and grad mode is on.
  void (*record)(const Call&, std::span<Tensor> outputs);
  // Around an in-place op in grad mode. The first checks, and keeps what the kernel is about to overwrite in what it
  // returns (null: there is nothing to record); the second makes that the history of self.
  std::unique_ptr<TapeSlot> (*before_mutation)(const Call&, const Tensor& self);
  void (*after_mutation)(const Call&, const Tensor& self, std::unique_ptr<TapeSlot> pending);
  // A view was made while grad mode is off or nothing requires grad: it must still follow its base.
  void (*record_view)(const Call&, const Tensor& base, const Tensor& view);
  // An in-place op on metadata: self is about to take the layout of `view`, a view of it, and takes its history.
  void (*become)(const Op& op, const Tensor& self, const Tensor& view);
};
extern const TapeHook tape_hook;

// What computes on a GPU. The compiler's floor defines it: there every op that has a loop body is a small plan of kernels.
struct DeviceHook {
  // Operands lie on one device. Makes the outputs.
  void (*run)(const Call&, std::span<Tensor> outputs);
  void (*run_in_place)(const Call&, const Tensor& self);
  // copy_data() within one device, of other than plain bytes.
  void (*copy)(const Tensor& from, const Tensor& to);
};
extern const DeviceHook device_hook;

// Where the numbers of a random op come from: the seed and the first of its counters (random/philox.h).
struct RandomStream {
  Scalar seed, offset;
};

// The trace of this thread, or null: it makes the outputs instead of a kernel. Real tensors that a traced function reaches
// are exchanged for their stand-ins at the door, so that neither trace nor tape ever writes to one.
class TraceHook {
 public:
  virtual ~TraceHook() = default;
  virtual void record(const Call&, std::span<Tensor> outputs) = 0;
  virtual void mutate(const Call&, const Tensor& self) = 0;
  virtual Scalar read(const Tensor& x, SourceLocation where) = 0;
  // The tensor of this trace for x: itself, or the one that stands for a real tensor; the reference stays valid as long as
  // the trace. Error for a tensor of another trace.
  virtual const Tensor& stand_in(const Tensor& x) = 0;
  // A tensor of the host's data that was made inside: it is the same in every call of the program.
  virtual Tensor constant(const Tensor& data, SourceLocation where) = 0;
  // So many counters of the default generator, at each call of the program.
  virtual RandomStream draw(Sym counters) = 0;
  // C++ code asks whether x requires grad, or whether grad mode is on or switches it on, and may do different things.
  virtual void note_grad_asked(const Tensor&) {}
  virtual void note_grad_mode_asked() {}
};
TraceHook*& current_trace();

// x, or what stands for it in this thread's trace.
inline const Tensor& stand_in(const Tensor& x) {
  TraceHook* trace = current_trace();
  return trace == nullptr || !x.defined() ? x : trace->stand_in(x);
}
// Error unless a trace of this thread is on: x is a tensor of a trace that has ended.
[[noreturn]] void throw_outlived_trace(const char* what, const Tensor& x);

// Composite functions open one: errors and inner ops report the user's line and the op that the user called, and a trace tags
// what they make. So do decompositions and gradient rules, in the name of the op that they stand for.
class CompositeScope {
 public:
  // `operands` by slot, those of a list apart. Error naming the op and the parameter for one that is absent and may not be.
  CompositeScope(const Op& op, SourceLocation where, std::initializer_list<Operand> operands = {});
  ~CompositeScope();
  CompositeScope(const CompositeScope&) = delete;
  CompositeScope& operator=(const CompositeScope&) = delete;

  const Op& op() const { return op_; }
  const CompositeScope* outer() const { return outer_; }
  // What the user called: the outermost composite and its line.
  const Op& called() const { return outer_ != nullptr ? outer_->called() : op_; }
  SourceLocation where() const { return where_; }
  static const CompositeScope* current();

 private:
  const Op& op_;
  const CompositeScope* outer_;
  SourceLocation where_;
  PlaceScope place_;
};

// What the user called where this op is called: the outermost composite, or the op itself. Call::name() is this.
const char* called_name(const Op& op);

// ---- For kernels ----------------------------------------------------------------------------------------------------

// A new tensor with uninitialised data.
Tensor make_tensor(const OutputSpec& spec);
Tensor make_tensor(Sizes sizes, DType dtype, Device device = kCPU);
// Another handle to the same storage.
Tensor make_view(const Tensor& base, Layout<Sym> layout, DType dtype);
Tensor make_view(const Tensor& base, Layout<Sym> layout);

// The first element's address; for real tensors. Of a GPU's tensor it is the GPU's.
template <class T>
T* data_of(const Tensor& x) {
  return reinterpret_cast<T*>(static_cast<char*>(x->storage->data()) +
                              static_cast<int64_t>(x->layout.offset) *
                                  static_cast<int64_t>(size_of(x->dtype)));
}
inline char* bytes_of(const Tensor& x) { return data_of<char>(x); }
// Sizes and strides as plain integers; for real tensors.
inline const int64_t* int_sizes(const Tensor& x) {
  return reinterpret_cast<const int64_t*>(x->layout.sizes.data());
}
inline const int64_t* int_strides(const Tensor& x) {
  return reinterpret_cast<const int64_t*>(x->layout.strides.data());
}
inline int64_t int_numel(const Tensor& x) { return x->numel.concrete(); }

// What a gradient rule may know about an operand without keeping its data.
OutputSpec spec_of(const Tensor& x);

// True if writing to one real tensor may change the other; a tensor shares memory with itself.
bool share_memory(const Tensor& a, const Tensor& b);

// Copies the values of one real tensor into another of equal sizes, converting the dtype; no tape, no version. Also from
// one device to another: to the host it waits, to a GPU it goes with the current stream.
void copy_data(const Tensor& from, const Tensor& to);

// "[2, 3] float32": what error messages say about a tensor.
std::string describe(const Tensor& x);

// The category of a dtype, which promotion never lowers: 0 bool, 1 integers, 2 floating.
constexpr int category_of(DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::Bool ? 0 : 1; }
// PyTorch's result type: tensors with dimensions decide first, then 0-d tensors, then numbers, each only by raising
// the category (bool < integer < floating).
DType result_type(std::span<const Operand> operands);

}  // namespace weft
