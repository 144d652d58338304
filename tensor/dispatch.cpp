// The one door: shape rule, then trace or kernel, then tape.
// Place: the out-of-line half of tensor/dispatch.h.
#include "tensor/dispatch.h"

#include <utility>

#include "tensor/base/place.h"
#include "tensor/composite_pause.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cuda/allocator.h"
#include "tensor/state_epoch.h"

namespace weft {
namespace {

thread_local bool grad_mode = true;
thread_local const CompositeScope* composite_scope = nullptr;

bool any_requires_grad(std::span<const Operand> operands) {
  for (const Operand& operand : operands)
    if (operand.tensor != nullptr && (*operand.tensor)->needs_grad()) return true;
  return false;
}

void run_view(const Call& call, Tensor& output) {
  const Tensor& base = call.tensor(0);
  Layout<Sym> layout = call.op.view(base->layout, call.attrs, base->dtype);
  output = make_view(base, std::move(layout),
                     call.op.view_dtype ? call.op.view_dtype(call.attrs, base->dtype) : base->dtype);
}

// A GPU that a create op names.
bool names_gpu(const Call& call) {
  for (const Attr& attr : call.attrs)
    if (attr.is<Device>() && attr.as_device().is_cuda()) return true;
  return false;
}

[[gnu::cold]] [[gnu::noinline]] void run_on_gpu(const Call& call, std::span<Tensor> outputs) {
  const cuda::AllocationScope scope(call.name());
  if (call.op.kind == Kind::View) run_view(call, outputs[0]);
  else device_hook.run(call, outputs);
}

void run(const Call& call, std::span<Tensor> outputs, bool is_on_gpu) {
  const Op& op = call.op;
  if (is_on_gpu) [[unlikely]]
    return run_on_gpu(call, outputs);
  if (op.cpu_whole != nullptr) {
    op.cpu_whole(call, outputs);
  } else if (op.kind == Kind::View) {
    run_view(call, outputs[0]);
  } else {
    WEFT_CHECK(op.infer != nullptr && op.cpu != nullptr, call.name(), ": has no CPU kernel");
    OutputSpecs specs = op.infer(call);
    WEFT_ASSERT(specs.size() == outputs.size(), op.name());
    for (size_t i = 0; i < specs.size(); ++i) outputs[i] = make_tensor(specs[i]);
    op.cpu(call, outputs);
  }
}

// A slot without tensor and number is only right where the schema says that it may be absent.
[[gnu::cold]] void check_may_be_absent(const Call& call, size_t slot) {
  const Schema& schema = call.op.schema;
  for (size_t p = 0; p < schema.params.size(); ++p) {
    const Param& param = schema.params[p];
    if (!param.is_operand()) continue;
    const bool is_list = param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList;
    const size_t first = static_cast<size_t>(schema.operand_index(p));
    if (is_list ? slot < first : slot != first) continue;
    const bool may_be_absent = param.optional || param.type == ParamType::OptionalTensor ||
                               param.type == ParamType::OptionalTensorList ||
                               param.type == ParamType::OptionalValue;
    WEFT_CHECK(
        may_be_absent, call.name(), ": ", param.name, " is an undefined tensor; ",
        param.type == ParamType::Tensor || is_list ? "a tensor is needed" : "a tensor or a number is needed");
    return;
  }
}

// Where the operands of a real call are.
enum class Place : uint8_t { Host, Gpu, Mixed };
Place check_operands(const Call& call) {
  bool on_host = false, on_gpu = false;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Operand& operand = call.operands[i];
    if (operand.tensor == nullptr) {
      if (!operand.is_scalar) [[unlikely]]
        check_may_be_absent(call, i);
      continue;
    }
    if ((*operand.tensor)->device.is_cpu()) [[likely]]
      on_host = true;
    else on_gpu = true;
    if ((*operand.tensor)->is_fake) [[unlikely]]
      throw_outlived_trace(call.name(), *operand.tensor);
  }
  if (!on_gpu) [[likely]]
    return call.op.kind == Kind::Create && !on_host && names_gpu(call) ? Place::Gpu : Place::Host;
  return Place::Mixed;
}

// Inside a trace real operands are exchanged for what stands for them.
using Operands = SmallVector<Operand, 6>;

// Operands of a GPU lie there together; a tensor of the host without dimensions counts as a number and comes along.
struct Moved {
  Operands operands;
  std::vector<Tensor> tensors;
};
[[gnu::cold]] [[gnu::noinline]] void settle_devices(Call& call, Moved& moved) {
  if (call.op.any_device) return;
  const Tensor* first = nullptr;
  bool is_mixed = false;
  for (const Operand& operand : call.operands) {
    if (operand.tensor == nullptr || !(*operand.tensor)->device.is_cuda()) continue;
    if (first == nullptr) first = operand.tensor;
  }
  if (first == nullptr) return;
  const Device device = (*first)->device;
  for (const Operand& operand : call.operands) {
    if (operand.tensor == nullptr) continue;
    const Tensor& x = *operand.tensor;
    if (x->device == device) continue;
    is_mixed = true;
    WEFT_CHECK(x->device.is_cpu() && x.dim() == 0, call.name(), ": operands are on ", device, " (",
               describe(*first), ") and on ", x->device, " (", describe(x), "); move one of them with to()");
  }
  if (!is_mixed) return;
  moved.tensors.reserve(call.operands.size());
  for (const Operand& operand : call.operands) {
    moved.operands.push_back(operand);
    if (operand.tensor == nullptr || (*operand.tensor)->device == device) continue;
    moved.tensors.push_back((*operand.tensor).to(device, false, false, call.where));
    moved.operands[moved.operands.size() - 1].tensor = &moved.tensors.back();
  }
  call.operands = {moved.operands.data(), moved.operands.size()};
}

// Whether some operand of a trace is on a GPU.
bool any_on_gpu(std::span<const Operand> operands) {
  for (const Operand& operand : operands)
    if (operand.tensor != nullptr && (*operand.tensor)->device.is_cuda()) return true;
  return false;
}

[[gnu::cold]] [[gnu::noinline]] std::span<const Operand> exchange(TraceHook& trace, const Call& call,
                                                                  Operands& own) {
  own.reserve(call.operands.size());
  for (size_t i = 0; i < call.operands.size(); ++i) {
    own.push_back(call.operands[i]);
    if (own[i].tensor != nullptr) own[i].tensor = &trace.stand_in(*own[i].tensor);
    else if (!own[i].is_scalar) check_may_be_absent(call, i);
  }
  return {own.data(), own.size()};
}

// The user called a composite, which speaks of its own arguments.
void reword(IndexError& error, const Call& inner) {
  const CompositeScope* scope = composite_scope;
  if (scope == nullptr || error.place() < 0) return;
  while (scope->outer() != nullptr) scope = scope->outer();
  if (scope->op().index_error != nullptr)
    error.say(scope->op().index_error(inner, error.place(), error.value()));
}

}  // namespace

void throw_outlived_trace(const char* what, const Tensor& x) {
  const std::string place = to_string(x->made_at);
  detail::throw_error(detail::concat(
      what, ": a tensor ", describe(x), " that ", x->made_by != nullptr ? x->made_by->name() : "a trace",
      " made", place.empty() ? "" : " at " + place,
      " inside a compiled function is used after the trace of that function has ended, where it has no data; "
      "return it from the function instead of storing it"));
}

void call_into(const Op& op, std::span<const Operand> operands, const Attrs& attrs, SourceLocation where,
               std::span<Tensor> outputs) {
  if (composite_scope != nullptr) where = composite_scope->where();
  Call call{op, operands, attrs, where};
  if (op.kind == Kind::Composite) {
    std::vector<Tensor> made;
    op.composite(call, made);
    WEFT_ASSERT(made.size() == outputs.size(), op.name());
    std::move(made.begin(), made.end(), outputs.begin());
    return;
  }
  try {
    TraceHook* const trace = current_trace();
    Operands own;
    Moved moved;
    Place place = Place::Host;
    if (trace != nullptr) [[unlikely]] {
      call.operands = exchange(*trace, call, own);
      if (any_on_gpu(call.operands)) place = Place::Mixed;
    } else {
      place = check_operands(call);
    }
    if (place == Place::Mixed) [[unlikely]]
      settle_devices(call, moved);
    operands = call.operands;
    const bool needs_grad = grad_mode && op.grad_state != GradState::None && any_requires_grad(operands);
    if (needs_grad && op.grad_state == GradState::Decomposition && op.decompose) {
      if (op.infer != nullptr) op.infer(call);  // what it refuses, its parts might take
      const CompositeScope scope(op, where);
      outputs[0] = op.decompose(call);
      return;
    }
    if (trace != nullptr) {
      trace->record(call, outputs);
    } else {
      run(call, outputs, place != Place::Host && !op.any_device);
      for (Tensor& output : outputs) {
        output->made_by = &op;
        output->made_at = where;
      }
    }
    if (needs_grad) {
      tape_hook.record(call, outputs);
    } else if (op.kind == Kind::View) {
      tape_hook.record_view(call, call.tensor(0), outputs[0]);
    }
  } catch (IndexError& error) {
    reword(error, call);
    error.add_place(where);
    throw;
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

Tensor call(const Op& op, std::span<const Operand> operands, const Attrs& attrs, SourceLocation where) {
  Tensor output;
  call_into(op, operands, attrs, where, std::span(&output, 1));
  return output;
}

namespace {

void run_in_place(const Call& call, const Tensor& self, bool is_on_gpu) {
  const Op& op = call.op;
  if (is_on_gpu) [[unlikely]] {
    const cuda::AllocationScope scope(call.name());
    device_hook.run_in_place(call, self);
    return;
  }
  if (op.cpu_in_place != nullptr) {
    op.cpu_in_place(call, self);
    return;
  }
  // The general form: compute, then copy into place.
  const CompositeScope scope(op, call.where);
  const AutoGradMode off(false);
  const Tensor value = weft::call(*op.base, call.operands, call.attrs, call.where);
  WEFT_CHECK(value.sizes() == self.sizes(), call.name(), ": the result of sizes ", value.sizes(),
             " does not fit into ", self.sizes());
  copy_data(value, self);
}

}  // namespace

void call_mutation(const Op& op, std::span<const Operand> operands, const Attrs& attrs,
                   SourceLocation where) {
  if (composite_scope != nullptr) where = composite_scope->where();
  Call call{op, operands, attrs, where};
  try {
    TraceHook* const trace = current_trace();
    Operands own;
    Moved moved;
    Place place = Place::Host;
    if (trace != nullptr) [[unlikely]] {
      call.operands = exchange(*trace, call, own);
      if (any_on_gpu(call.operands)) place = Place::Mixed;
    } else {
      place = check_operands(call);
    }
    operands = call.operands;
    if (place == Place::Mixed) [[unlikely]]
      settle_devices(call, moved);
    WEFT_CHECK(moved.operands.empty() || call.operands[0].tensor == operands[0].tensor, op.name(),
               ": the tensor that is written to is on the CPU and another operand on a GPU; move one of them "
               "with to()");
    const Tensor self =
        call.tensor(0);  // a handle of our own: the tape may replace what operand 0 points into
    std::unique_ptr<TapeSlot> pending;
    if (grad_mode) pending = tape_hook.before_mutation(call, self);
    if (trace != nullptr) {
      trace->mutate(call, self);
    } else {
      WEFT_CHECK(!may_self_overlap(self->layout), call.name(), ": the tensor of sizes ", self.sizes(),
                 " and strides ", self.strides(),
                 " has several elements at one place (an expanded view); write into a clone() instead");
      run_in_place(call, self, place != Place::Host && !op.any_device);
      self->storage->bump_version(op, where);
      self->made_by = &op;
      self->made_at = where;
    }
    if (pending != nullptr) tape_hook.after_mutation(call, self, std::move(pending));
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
}

void become(const Op& op, const Tensor& given, const Tensor& view, SourceLocation where) {
  const Tensor& self = stand_in(given);
  if (view.is_same(self)) return;
  try {
    tape_hook.become(op, self, view);
  } catch (Error& error) {
    error.add_place(where);
    throw;
  }
  self->layout = view->layout;
  self->numel = view->numel;
  self->is_contiguous = view->is_contiguous;
  if (view->trace != nullptr) self->trace = view->trace->share(*self.impl());
  else if (self->is_captured.load(std::memory_order_relaxed)) bump_state_epoch();
}

const char* called_name(const Op& op) {
  return composite_scope != nullptr ? composite_scope->called().c_name() : op.c_name();
}
const char* Call::name() const { return called_name(op); }

TraceHook*& current_trace() {
  static thread_local TraceHook* trace = nullptr;
  return trace;
}

CompositeScope::CompositeScope(const Op& op, SourceLocation where, std::initializer_list<Operand> operands)
    : op_(op),
      outer_(composite_scope),
      where_(composite_scope != nullptr ? composite_scope->where_ : where),
      place_(where_) {
  static const Attrs none = {};
  const Call call{op, {operands.begin(), operands.size()}, none, where_};
  for (size_t i = 0; i < operands.size(); ++i)
    if (call.operands[i].is_none()) [[unlikely]]
      check_may_be_absent(call, i);
  composite_scope = this;
}
CompositeScope::~CompositeScope() { composite_scope = outer_; }
const CompositeScope* CompositeScope::current() { return composite_scope; }

CompositePause::CompositePause()
    : outer_(std::exchange(composite_scope, nullptr)),
      place_(std::exchange(detail::place_of_errors(), nullptr)) {}
CompositePause::~CompositePause() {
  composite_scope = outer_;
  detail::place_of_errors() = place_;
}

bool grad_mode_enabled() { return grad_mode; }
void set_grad_mode(bool enabled) { grad_mode = enabled; }
bool enter_grad_mode(bool enabled) {
  if (enabled)
    if (TraceHook* trace = current_trace()) trace->note_grad_mode_asked();
  return std::exchange(grad_mode, enabled);
}

Tensor make_tensor(const OutputSpec& spec) {
  Layout<Sym> layout;
  if (spec.strides) layout = {spec.sizes, *spec.strides, Sym::from_int(0)};
  else layout = contiguous_layout<Sym>(spec.sizes);
  const int64_t numel = product(layout.sizes).concrete();
  size_t bytes;
  WEFT_CHECK(numel >= 0 && !__builtin_mul_overflow(static_cast<size_t>(numel), size_of(spec.dtype), &bytes),
             "allocate: a tensor of sizes ", spec.sizes, " ", spec.dtype,
             " has more bytes than 64 bits can count; make it smaller");
  return Tensor(make_intrusive<TensorImpl>(Storage::allocate(bytes, spec.device), std::move(layout),
                                           spec.dtype, spec.device));
}

Tensor make_tensor(Sizes sizes, DType dtype, Device device) {
  return make_tensor(OutputSpec{std::move(sizes), dtype, device});
}

Tensor make_view(const Tensor& base, Layout<Sym> layout, DType dtype) {
  return Tensor(make_intrusive<TensorImpl>(base->storage, std::move(layout), dtype, base->device));
}
Tensor make_view(const Tensor& base, Layout<Sym> layout) {
  return make_view(base, std::move(layout), base->dtype);
}

OutputSpec spec_of(const Tensor& x) {
  return {x->layout.sizes, x->dtype, x->device, x->layout.strides, x->layout.offset};
}

bool share_memory(const Tensor& a, const Tensor& b) {
  // By addresses: different wrappers may lie on the same memory of the caller.
  const Extent in_a = extent(a->layout), in_b = extent(b->layout);
  const auto at = [](const Tensor& x, int64_t element) {
    return static_cast<const char*>(x->storage->data()) + element * static_cast<int64_t>(size_of(x->dtype));
  };
  return at(a, in_a.begin) < at(b, in_b.end) && at(b, in_b.begin) < at(a, in_a.end);
}

namespace {

// Whether the elements of both lie in the same order without gaps, so that their bytes can be copied as they are.
bool is_plain_copy(const Tensor& from, const Tensor& to) {
  if (from->dtype != to->dtype) return false;
  if (from->is_contiguous && to->is_contiguous) return true;
  return from.strides() == to.strides() && SizesView(dense_strides(to->layout)) == to.strides();
}

[[gnu::cold]] [[gnu::noinline]] void copy_between_devices(const Tensor& from, const Tensor& to) {
  if (int_numel(to) == 0) return;
  const size_t bytes = to.nbytes();
  if (from->device == to->device) {
    if (!is_plain_copy(from, to)) return device_hook.copy(from, to);
    const cuda::DeviceGuard guard(to->device.index);
    const cuda::Driver& driver = cuda::driver();
    cuda::check(driver,
                driver.copy(bytes_of(to), bytes_of(from), bytes, cuda::CopyKind::DeviceToDevice,
                            cuda::current_stream(to->device.index)),
                "copy");
    return;
  }
  if (!is_plain_copy(from, to)) {
    // In order first, where it lies; the host converts.
    const bool is_converted_here = from->device.is_cpu();
    if (!from->is_contiguous || (is_converted_here && from->dtype != to->dtype)) {
      const Tensor ordered =
          make_tensor(from->layout.sizes, is_converted_here ? to->dtype : from->dtype, from->device);
      copy_data(from, ordered);
      return copy_data(ordered, to);
    }
    const Tensor arrived = make_tensor(to->layout.sizes, from->dtype, to->device);
    copy_data(from, arrived);
    return copy_data(arrived, to);
  }
  if (to->device.is_cpu()) return cuda::copy_to_host(bytes_of(to), bytes_of(from), bytes, from->device.index);
  const cuda::DeviceGuard guard(to->device.index);
  const cuda::Driver& driver = cuda::driver();
  const cuda::Stream stream = cuda::current_stream(to->device.index);
  if (from->device.is_cpu()) {
    cuda::check(driver,
                driver.copy(bytes_of(to), bytes_of(from), bytes, cuda::CopyKind::HostToDevice, stream),
                "copy to the GPU");
    return;
  }
  // What the other GPU has yet to do to it is done first.
  cuda::synchronize_stream(from->device.index);
  cuda::check(
      driver,
      driver.copy_peer(bytes_of(to), to->device.index, bytes_of(from), from->device.index, bytes, stream),
      "copy between GPUs");
}

}  // namespace

void copy_data(const Tensor& from, const Tensor& to) {
  const size_t rank = static_cast<size_t>(to.dim());
  WEFT_ASSERT(from.sizes() == to.sizes(), "copy between different sizes");
  if (from->device.is_cuda() || to->device.is_cuda()) [[unlikely]]
    return copy_between_devices(from, to);
  const cpu::StridedArray source{bytes_of(from), from->dtype, {int_strides(from), int_strides(from) + rank}};
  const cpu::StridedArray target{bytes_of(to), to->dtype, {int_strides(to), int_strides(to) + rank}};
  cpu::copy_strided({int_sizes(to), rank}, source, target);
}

std::string describe(const Tensor& x) {
  if (!x.defined()) return "an undefined tensor";
  return detail::concat(x.sizes(), " ", x.dtype());
}

DType result_type(std::span<const Operand> operands) {
  std::optional<DType> dims, zero_dim, number;
  const auto join = [](std::optional<DType>& into, DType dtype) {
    into = into ? promote(*into, dtype) : dtype;
  };
  for (const Operand& operand : operands) {
    if (operand.tensor != nullptr)
      join((*operand.tensor).dim() > 0 ? dims : zero_dim, operand.tensor->dtype());
    else if (operand.is_scalar) join(number, operand.scalar.dtype());
  }
  // A lower rank decides only if it has the higher category.
  std::optional<DType> result = dims;
  for (const auto& next : {zero_dim, number}) {
    if (!next) continue;
    if (!result) result = next;
    else if (category_of(*next) > category_of(*result)) result = promote(*result, *next);
  }
  WEFT_ASSERT(result.has_value(), "no operand has a type");
  return *result;
}

}  // namespace weft
