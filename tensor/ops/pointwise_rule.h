// PointwiseRule: what a pointwise entry turns into, and the signature of its vector kernels.
// Needs op, expr and term.
#pragma once

#include <functional>

#include "tensor/cpu/elementwise.h"
#include "tensor/expr/expr.h"
#include "tensor/op.h"
#include "tensor/ops/pointwise_table.h"
#include "tensor/ops/term.h"

namespace weft {

struct PointwiseRule {
  Promote promote;
  int arity = 0;
  Expr (*expr)(std::span<const Expr>) = nullptr;  // the body on expressions
  Term (*term)(std::span<const Term>) = nullptr;  // and on tensors: the decomposition
  cpu::ElementwiseKernels kernels;                // of the instruction set in use
  uint32_t numbers = 0;  // bit: the slot takes a number only, which never decides the dtype
  double cost = 1;       // primitives per element, in additions

  int divisor = -1;           // the slot in which an integer zero is an Error
  int exponent = -1;          // the slot in which a negative number is an Error in integer arithmetic
  bool refuses_bool = false;  // an operand that is bool is an Error

  bool is_predicate() const { return promote == Promote::Predicate || promote == Promote::FloatingPredicate; }
};

// The dtype in which the rule computes these operands, before small types widen, and the dtype of its result.
struct PointwiseTypes {
  DType common, result;
};
PointwiseTypes pointwise_types(const Op& op, std::span<const Operand> operands);

// Computes into `out`, which has the broadcast sizes and any strides and dtype; it may share memory with operands.
void run_pointwise_into(const Call& call, const Tensor& out);

// Installed as infer and cpu_whole of every pointwise op.
OutputSpecs infer_pointwise(const Call& call);
void run_pointwise(const Call& call, std::span<Tensor> outputs);
void run_pointwise_in_place(const Call& call, const Tensor& self);
// Error unless the result of a pointwise mutation may be written into self: by its dtype and sizes.
void check_fits_in_place(const Call& call, const Tensor& self);

}  // namespace weft
