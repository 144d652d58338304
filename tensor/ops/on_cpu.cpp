// The way over the CPU inside of kernels for a GPU.
// Place: the out-of-line half of tensor/ops/on_cpu.h.
#include "tensor/ops/on_cpu.h"

#include <vector>

#include "tensor/functions.h"

namespace weft {

void run_on_cpu(const Call& call, std::span<Tensor> outputs) {
  std::vector<Tensor> kept;
  kept.reserve(call.operands.size());
  SmallVector<Operand, 6> operands;
  const AutoGradMode off(false);
  for (const Operand& operand : call.operands) {
    operands.push_back(operand);
    if (operand.tensor == nullptr) continue;
    kept.push_back((*operand.tensor).cpu());
    operands[operands.size() - 1].tensor = &kept.back();
  }
  std::vector<Tensor> results(outputs.size());
  call_into(call.op, std::span<const Operand>(operands.data(), operands.size()), call.attrs, call.where,
            results);
  for (size_t i = 0; i < outputs.size(); ++i) copy_data(results[i], outputs[i]);
}

}  // namespace weft
