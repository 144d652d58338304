// Terms: calling the op behind an operation of a body.
#include "tensor/ops/term.h"

namespace weft {
namespace detail {

Term term_call(const Op& op, std::initializer_list<Term> args) {
  SmallVector<Operand, 4> operands;
  for (const Term& arg : args) operands.push_back(arg.operand());
  static const Attrs none = {};
  return call(op, std::span<const Operand>(operands.data(), operands.size()), none,
              CompositeScope::current() != nullptr ? CompositeScope::current()->where() : SourceLocation());
}

}  // namespace detail

Term constant_like(const Term& x, double value) {
  if (x.is_number()) return Term(value);
  return Term(
      scalar_tensor(value, TensorOptions(x.tensor().dtype()).device(x.tensor().device()), SourceLocation()));
}

}  // namespace weft
