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

// What an element rule asks of the loop that it stands in. A place may be any expression over the loop's indices and sizes.
// A rule compares places as values, made with place(): a comparison of Syms would settle one answer for all of them.
class LoopReader {
 public:
  virtual ~LoopReader() = default;
  virtual ExprGraph& graph() = 0;
  // An element of the tensor in a slot, in its dtype. Error of ours if the slot holds none.
  virtual Expr load(size_t operand, std::span<const Sym> place) = 0;
  // The same where the condition holds; elsewhere nothing is read, the place may lie anywhere, and the value means nothing.
  virtual Expr load_where(const Expr& condition, size_t operand, std::span<const Sym> place) = 0;
  // A place or a size as a value: Int64.
  virtual Expr place(Sym index) = 0;
  // A value (Int64 or Int32) as an index of [-size, size), the negative ones counted from the end. In the call, another one
  // is the op's index error, whether the answer decides a place or not.
  virtual Sym index(const Expr& value, Sym size) = 0;
  // A value as an index of [0, size): a negative one is an error too. By default that error names the lowest integer.
  virtual Sym index_from_start(const Expr& value, Sym size) {
    const Expr wide = cast(value, DType::Int64);
    return index(where(wide < 0, INT64_MIN, wide), size);
  }
  // A number, which may be known only at the call, in a compute dtype.
  virtual Expr number(const Scalar& number, DType dtype) = 0;
  // The word that element `index` draws from the stream (random/philox.h): Int32, or Int64 where `wide`.
  virtual Expr random(const Scalar& seed, const Scalar& offset, Sym index, bool wide) = 0;
};

// The element of the result at `place`, in the result's dtype, with the bits that the kernel writes. Primitives are applied
// to compute dtypes and Bool alone; other elements are cast. Where the call has no rule, an Expr without graph: loops leave
// such a call to its kernel, with the errors that only that can raise.
using ElementRule = Expr (*)(LoopReader& loop, const Call& call, const OutputSpec& result,
                             std::span<const Sym> place);

// Whether the call has a rule, found by running it. A trace's environment is asked the questions that the rule has of sizes.
bool has_element_rule(const Call& call, const OutputSpec& result);

// Of a call that has a rule: whether it indexes a dimension that may have no elements. A wrong index is then an error for which
// no element can stand in, which a kernel can raise and a loop cannot.
bool may_index_nothing(const Call& call, const OutputSpec& result);

}  // namespace weft
