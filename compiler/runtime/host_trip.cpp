// Copying the memory that tensors of a GPU reach, and calling ops on the copies.
// Place: the out-of-line half of compiler/runtime/host_trip.h.
#include "compiler/runtime/host_trip.h"

#include <mutex>
#include <unordered_set>

#include "compiler/runtime/stats.h"
#include "tensor/base/log.h"
#include "tensor/cuda/context.h"

namespace weft::compiler {
namespace {

// A tensor in new memory of a device that has the elements from the first to the last that x reaches, at the same strides.
Tensor like_extent(const Tensor& x, Device device) {
  const Extent reach = extent(x->layout);
  Layout<Sym> layout = x->layout;
  layout.offset = Sym::from_int(int_numel(x) == 0 ? 0 : static_cast<int64_t>(x->layout.offset) - reach.begin);
  const int64_t elements = int_numel(x) == 0 ? 0 : reach.end - reach.begin;
  return make_view(make_tensor({Sym::from_int(elements)}, x->dtype, device), std::move(layout));
}

// The memory between the first and the last element, as it is.
void copy_extent(const Tensor& from, const Tensor& to) {
  if (int_numel(from) == 0) return;
  const auto line = [](const Tensor& x) {
    const Extent reach = extent(x->layout);
    Layout<Sym> layout = contiguous_layout<Sym>({Sym::from_int(reach.end - reach.begin)});
    layout.offset = Sym::from_int(reach.begin);
    return make_view(x, std::move(layout));
  };
  copy_data(line(from), line(to));
}

Tensor shadow_of(const Tensor& x) {
  Tensor shadow = like_extent(x, kCPU);
  copy_extent(x, shadow);
  return shadow;
}

Tensor brought_to(const Tensor& x, Device device) {
  Tensor moved = like_extent(x, device);
  copy_extent(x, moved);
  return moved;
}

void say(const Op& op) {
  count(Count::HostTrip);
  if (!log_enabled(LogChannel::Device)) return;
  static std::mutex mutex;
  static auto& said = *new std::unordered_set<const Op*>;
  const std::lock_guard lock(mutex);
  if (said.insert(&op).second)
    log_line(LogChannel::Device,
             op.name() + " has no kernel on the GPU for these operands: the CPU computes it");
}

// The operands of a call on the host.
struct Shadows {
  std::vector<Tensor> tensors;
  SmallVector<Operand, 6> operands;
  Attrs attrs;
  Device device = kCPU;  // that the call was on

  explicit Shadows(const Call& call) : attrs(call.attrs) {
    tensors.reserve(call.operands.size());
    for (const Operand& operand : call.operands) {
      operands.push_back(operand);
      if (operand.tensor == nullptr) continue;
      if ((*operand.tensor)->device.is_cuda()) device = (*operand.tensor)->device;
      tensors.push_back((*operand.tensor)->device.is_cpu() ? *operand.tensor : shadow_of(*operand.tensor));
      operands[operands.size() - 1].tensor = &tensors.back();
    }
    for (Attr& attr : attrs) {
      if (!attr.is<Device>() || attr.as_device().is_cpu()) continue;
      device = attr.as_device();
      attr = Attr(Device(kCPU));
    }
  }
  std::span<const Operand> span() const { return {operands.data(), operands.size()}; }
};

}  // namespace

void run_on_host(const Call& call, std::span<Tensor> outputs) {
  say(call.op);
  const AutoGradMode off(false);
  const Shadows shadows(call);
  std::vector<Tensor> results(outputs.size());
  call_into(call.op, shadows.span(), shadows.attrs, call.where, results);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (results[i].defined()) outputs[i] = brought_to(results[i], shadows.device);
}

void run_on_host_in_place(const Call& call, const Tensor& self) {
  say(call.op);
  const AutoGradMode off(false);
  const Shadows shadows(call);
  call_mutation(call.op, shadows.span(), shadows.attrs, call.where);
  copy_extent(shadows.tensors[0], self);
}

void copy_on_host(const Tensor& from, const Tensor& to) {
  const Tensor source = shadow_of(from), target = shadow_of(to);
  copy_data(source, target);
  copy_extent(target, to);
}

}  // namespace weft::compiler
