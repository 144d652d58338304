// Terms: calling the op behind an operation of a body.
#include "tensor/ops/term.h"

#include <algorithm>

namespace weft {
namespace {

thread_local std::optional<DType> compute_dtype_of_body;

}  // namespace

TermScope::TermScope(DType compute) : outer_(compute_dtype_of_body) { compute_dtype_of_body = compute; }
TermScope::~TermScope() { compute_dtype_of_body = outer_; }

namespace detail {

Term term_call(const Op& op, std::initializer_list<Term> args) {
  SmallVector<Operand, 4> operands;
  for (const Term& arg : args) operands.push_back(arg.operand());
  Tensor number;
  if (compute_dtype_of_body &&
      std::all_of(args.begin(), args.end(), [](const Term& t) { return t.is_number(); })) {
    number = scalar_tensor(args.begin()->number(), TensorOptions(*compute_dtype_of_body), SourceLocation());
    operands[0] = number;
  }
  static const Attrs none = {};
  return Term(
      call(op, std::span<const Operand>(operands.data(), operands.size()), none,
           CompositeScope::current() != nullptr ? CompositeScope::current()->where() : SourceLocation()));
}

}  // namespace detail

Term constant_like(const Term& x, double value) {
  if (x.is_number()) return Term(value);
  return Term(
      scalar_tensor(value, TensorOptions(x.tensor().dtype()).device(x.tensor().device()), SourceLocation()));
}

}  // namespace weft
