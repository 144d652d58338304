// The eager path of GPUs: what computes a call whose tensors lie on one.
// Place: defines device_hook of tensor/dispatch.h.
#include "compiler/runtime/host_trip.h"
#include "compiler/runtime/kernel_program.h"
#include "compiler/runtime/op_plan.h"
#include "tensor/cuda/context.h"
#include "tensor/ops/pointwise_rule.h"

namespace weft {
namespace compiler {
namespace {

Device device_of(const Call& call) {
  for (const Operand& operand : call.operands)
    if (operand.tensor != nullptr && (*operand.tensor)->device.is_cuda()) return (*operand.tensor)->device;
  for (const Attr& attr : call.attrs)
    if (attr.is<Device>()) return attr.as_device();
  return kCPU;
}

// By the op's own kernel, else by its loops, else on the host.
void run_on_device(const Call& call, std::span<Tensor> outputs) {
  const cuda::DeviceGuard guard(device_of(call).index);
  if (call.op.cuda != nullptr) {
    OutputSpecs specs = call.op.infer(call);
    WEFT_ASSERT(specs.size() == outputs.size(), call.name());
    for (size_t i = 0; i < specs.size(); ++i) outputs[i] = make_tensor(specs[i]);
    return call.op.cuda(call, outputs);
  }
  if (can_generate_cuda() && run_by_plan(call, PlanTarget::Outputs, outputs)) return;
  run_on_host(call, outputs);
}

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a->dtype == b->dtype && bytes_of(a) == bytes_of(b) && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

// Whether each element of self may be written as soon as the operands' elements at that place are read.
bool may_write_at_once(const Call& call, const Tensor& self) {
  const Op& base = *call.op.base;
  // A create op reads none.
  if (base.kind != Kind::Pointwise && base.kind != Kind::Create) return false;
  for (const Operand& operand : call.operands)
    if (operand.tensor != nullptr && share_memory(*operand.tensor, self) &&
        !is_same_memory(*operand.tensor, self))
      return false;
  return true;
}

void run_in_place_on_device(const Call& call, const Tensor& self) {
  const cuda::DeviceGuard guard(self->device.index);
  const Op& base = *call.op.base;
  if (base.pointwise != nullptr && base.kind == Kind::Pointwise && !base.any_device)
    check_fits_in_place(call, self);
  // A number that the dtype does not hold is found here: loops take it as it comes.
  if (base.pointwise != nullptr && base.pointwise->promote == Promote::Move)
    static_cast<void>(base.infer(call));
  if (int_numel(self) == 0) return;
  Tensor written = self;
  if (can_generate_cuda()) {
    if (may_write_at_once(call, self) && run_by_plan(call, PlanTarget::InPlace, std::span(&written, 1)))
      return;
  } else if (call.op.cpu_in_place != nullptr) {
    return run_on_host_in_place(call, self);
  }
  const AutoGradMode off(false);
  const Tensor value = weft::call(base, call.operands, call.attrs, call.where);
  WEFT_CHECK(value.sizes() == self.sizes(), call.name(), ": the result of sizes ", value.sizes(),
             " does not fit into ", self.sizes());
  copy_data(value, self);
}

void copy_on_device(const Tensor& from, const Tensor& to) {
  const cuda::DeviceGuard guard(to->device.index);
  const Operand operands[] = {to, from};
  static const Attrs attrs = {false};
  Tensor written = to;
  if (can_generate_cuda() &&
      run_by_plan(Call{WEFT_OP("copy"), operands, attrs, {}}, PlanTarget::Copy, std::span(&written, 1)))
    return;
  copy_on_host(from, to);
}

}  // namespace
}  // namespace compiler

constinit const DeviceHook device_hook = {compiler::run_on_device, compiler::run_in_place_on_device,
                                          compiler::copy_on_device};

}  // namespace weft
