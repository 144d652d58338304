// Terms: calling the op behind an operation of a body.
#include "tensor/ops/term.h"

namespace weft::detail {

Term term_call(const Op& op, std::initializer_list<Term> args) {
  SmallVector<Operand, 4> operands;
  for (const Term& arg : args) operands.push_back(arg.operand());
  static const Attrs none = {};
  return call(op, std::span<const Operand>(operands.data(), operands.size()), none,
              CompositeScope::current() != nullptr ? CompositeScope::current()->where() : SourceLocation());
}

}  // namespace weft::detail
