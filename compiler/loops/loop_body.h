// LoopBody: the scalar work of one kernel as SSA, over the indices of three nested loops. The second of the four IRs.
// Needs graph's tables and tensor/expr. Lowering makes it; the interpreter runs it, code generators print it.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/trace/scalar_table.h"
#include "tensor/cpu/reduce.h"
#include "tensor/device.h"
#include "tensor/expr/expr.h"

namespace weft::compiler {

// Note [The loops of a kernel]
// Every kernel has the same shape:
//
//   for batch in [0, batches)              parallel
//     for row in [0, rows)                 parallel, in blocks of kOuterBlock where rows are folded
//       pass 0:  for column in [0, columns)    vectors; parallel, in blocks of kInnerBlock, where it is the only loop
//       pass 1:  for column …              what needs a fold of pass 0 along the columns
//     after the rows:  for column …        what needs a fold along the rows
//
// A value is a node of `values`. On which loops it depends, and which folds must be done before it, follows from the node
// (loop_levels.h); nothing says it twice. A value that two passes need is computed in both, unless the printer keeps it.
// Pointwise kernels that are contiguous throughout have columns only; softmax has rows and columns; a sum over leading
// dimensions folds rows; a sum over everything has columns only.

// Note [Values of a body]
// A node may have any dtype. Primitives compute on compute dtypes (tensor/base/dtype.h) and on Bool; of the others there are
// loads, casts and stores only. A Cast from X to Y is what cpu::convert_kernel(X, Y) does (tensor/cpu/vec_memory.h on vectors),
// so that a Cast to a half type and back rounds as memory would. Registers may hold a half value as the float that it is, and
// a small integer as an int32 within its range. A mathematical function is its body in tensor/expr/math.h on the CPU.

using BodyValue = uint32_t;  // a node of LoopBody::values
inline constexpr BodyValue kNoBodyValue = ~BodyValue{0};

// The same integer, or the same expression of one table.
inline bool is_identical(Sym a, Sym b) {
  if (a.is_symbolic() != b.is_symbolic()) return false;
  return a.is_symbolic() ? a.id() == b.id() : a.concrete() == b.concrete();
}

// For maps of sizes, strides and indices: equal where is_identical() says so. (Integers of 63 bits keep apart.)
inline uint64_t key_of(Sym a) {
  return a.is_symbolic() ? uint64_t{a.id()} << 1 | 1 : static_cast<uint64_t>(a.concrete()) << 1;
}
// Known to be 1.
inline bool is_one(Sym a) { return !a.is_symbolic() && a.concrete() == 1; }

// What stands behind an Input node: its imm is the index into LoopBody::sources.
struct Source {
  enum class Kind : uint8_t {
    Load,    // element `index` of buffer `param`, in the dtype of the buffer
    Place,   // the integer `index` itself (Int64 or Int32)
    Number,  // number `param` of the call
    Fold,    // the result of fold `param`, in its compute dtype
    Random,  // the word that element `index` draws (tensor/random/philox.h), from the stream whose seed and first
             // counter are the numbers `param` and `param` + 1: 32 bits as Int32 or 64 bits as Int64
  };
  Kind kind = Kind::Load;
  uint32_t param = 0;
  Sym index;
  // Load: where this Bool is false nothing is read, and the value is 0. The body selects.
  BodyValue mask = kNoBodyValue;
  // Of the same expressions: nothing is decided about sizes.
  friend bool operator==(const Source& a, const Source& b) {
    return a.kind == b.kind && a.param == b.param && a.mask == b.mask && is_identical(a.index, b.index);
  }
};

// A computed index: the symbol stands, in index expressions, for an integer value of the body. It lies in [-size, size), and
// a negative one counts from the end; otherwise the error record is set and 0 is used.
struct Indirect {
  Sym symbol;
  BodyValue value = kNoBodyValue;  // Int64 or Int32
  Sym size;
  uint32_t check = 0;  // index into LoopBody::checks
};

// What a failed check is reported as.
struct Check {
  std::string op;
  SourceLocation where;
  BodyValue mask = kNoBodyValue;  // checked only where this Bool is true
  bool is_of_divisor = false;     // the index says whether an integer divisor is 0: it is 1 there, of 1
};

// A fold of `value`, whose dtype is one of f32, f64, i64, i32, by Note [Reduction tree] of tensor/cpu/reduce.h.
struct BodyFold {
  enum class Axis : uint8_t {
    Columns,  // the inner tree along the columns: one result for each row
    Rows,  // the outer tree along the rows of a batch: one for each column, or one if the value has no column
    RowValues,  // the inner tree along the rows of a batch, of a value without column: one for each batch
  };
  cpu::Fold fold = cpu::Fold::Sum;
  Axis axis = Axis::Columns;
  BodyValue value = kNoBodyValue;
};

// `value` goes to element `index` of buffer `param`, in the dtype of the buffer, which is the value's.
struct BodyStore {
  enum class Each : uint8_t {
    Element,  // for each batch, row and column
    Row,      // for each batch and row
    Column,   // for each batch and column, after the rows
    Batch,    // for each batch, after the rows
  };
  enum class Mode : uint8_t { Plain, Add /* scatter: adds to what is there */ };
  uint32_t param = 0;
  Sym index;
  BodyValue value = kNoBodyValue;
  Each each = Each::Element;
  Mode mode = Mode::Plain;
  BodyValue mask = kNoBodyValue;  // stored only where this Bool is true
};

struct BufferParam {
  DType dtype = DType::Float32;
  bool is_read = false, is_written = false;
};
struct NumberParam {
  DType dtype = DType::Float32;  // the compute dtype in which the body sees it
};

struct LoopBody {
  std::string name;                          // after the ops: "mul_sum_rsqrt"
  std::shared_ptr<Expressions> expressions;  // sizes, and the loop symbols
  // Loop bounds, and the symbols that stand for the indices; a loop of size 1 has the index 0.
  Sym batches = Sym::from_int(1), rows = Sym::from_int(1), columns = Sym::from_int(1);
  Sym batch, row, column;

  ExprGraph values;
  std::vector<Source> sources;
  std::vector<Indirect> indirects;
  std::vector<Check> checks;
  std::vector<BodyFold> folds;
  std::vector<BodyStore> stores;  // in order: a later store to one place wins

  std::vector<BufferParam> buffers;
  std::vector<NumberParam> numbers;
  std::vector<uint32_t>
      size_symbols;  // of the table, whose values a call brings; loop symbols are not among them
  std::vector<std::string> origins;  // "net.cpp:12 rms_norm", for comments and explain()
};

// "sum", "max": in listings and in the names of generated functions.
const char* name_of(cpu::Fold fold);

std::string to_string(const LoopBody& body);
// InternalError with the listing unless dtypes agree, indices name known symbols, folds do not depend on themselves, a fold
// or store asks for no more loops than its value has, and sizes are those of the loops.
void verify(const LoopBody& body);

}  // namespace weft::compiler
