// What loops need to know of an op beside its body: which fold it is, or which elements make one of its own.
// Needs op, expr and cpu/reduce. Entries of tensor/ops/ give the rules; the compiler's lowering reads them.
#pragma once

#include "tensor/cpu/reduce.h"
#include "tensor/expr/expr.h"
#include "tensor/op.h"

namespace weft {

// A reduction that is one fold (cpu::ReduceCall, but for the memory). Its result is converted to the dtype that the op infers.
struct FoldRule {
  cpu::Fold fold;
  SmallVector<bool, 2 * kInlineRank> folded;  // by dimension of operand 0
  DType compute;                              // f32, f64, i64 or i32
  std::optional<DType> via = {};              // elements become this dtype first
  bool needs_elements = false;                // over no elements the op has another value than the fold
};

// What an element rule asks of the loop that it stands in.
class LoopReader {
 public:
  virtual ~LoopReader() = default;
  virtual ExprGraph& graph() = 0;
  // An element of the tensor in a slot, in its dtype. Error of ours if the slot holds none.
  virtual Expr load(size_t operand, std::span<const Sym> place) = 0;
  // The same where the condition holds; elsewhere nothing is read, and the value is 0.
  virtual Expr load_where(const Expr& condition, size_t operand, std::span<const Sym> place) = 0;
  // An integer of the loop as a value: Int64.
  virtual Expr place(Sym index) = 0;
  // A value as an index of [-size, size), the negative ones counted from the end. In the call, another one is the op's
  // index error.
  virtual Sym index(const Expr& value, Sym size) = 0;
  // A number, which may be known only at the call, in a compute dtype.
  virtual Expr number(const Scalar& number, DType dtype) = 0;
  // The word that element `index` draws from the stream (random/philox.h): Int32, or Int64 where `wide`.
  virtual Expr random(const Scalar& seed, const Scalar& offset, Sym index, bool wide) = 0;
};

// The element of the result at `place`, in the result's dtype.
using ElementRule = Expr (*)(LoopReader& loop, const Call& call, const OutputSpec& result,
                             std::span<const Sym> place);

}  // namespace weft
