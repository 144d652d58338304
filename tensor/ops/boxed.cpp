// Calling ops found by name.
// Place: the out-of-line half of entry.h.
#include "tensor/ops/entry.h"

namespace weft {

std::vector<Tensor> call_boxed(const Op& op, std::span<const Operand> operands, const Attrs& attrs,
                               SourceLocation where) {
  std::vector<Tensor> outputs;
  switch (op.kind) {
    case Kind::Composite: op.composite(Call{op, operands, attrs, where}, outputs); break;
    case Kind::Mutation: {
      const Tensor self = Call{op, operands, attrs, where}.tensor(0);
      call_mutation(op, operands, attrs, where);
      outputs.push_back(self);
      break;
    }
    default:
      outputs.resize(static_cast<size_t>(op.schema.num_outputs));
      call_into(op, operands, attrs, where, outputs);
      break;
  }
  return outputs;
}

}  // namespace weft
