// TileProgram: a loop body as steps over whole tiles, in the order in which an interpreter takes them.
// Needs loop_levels. The interpreter makes one for each kind of tile, and takes what suits the sizes of a call.
#pragma once

#include "compiler/loops/loop_levels.h"
#include "tensor/base/small_vector.h"

namespace weft::compiler {

// Note [Tiles]
// A tile is several whole rows, one whole row, or a piece of a row, where that is longer than kInnerBlock columns. A value is
// computed for the elements that it depends on and no others: for all of a tile (rows · columns), for its columns, for its
// rows, or once (a scalar, which is kept as a vector of equal lanes). Where values of different shapes meet in a tile of
// several rows, the smaller is expanded; in a tile of one row, a value of the row is a scalar.
//
// Index expressions become steps on Int64 like all others. An index that is affine in the column is kept as its value at column
// 0 and its stride, so that loads and stores are strided copies.

using StepId = uint32_t;
inline constexpr StepId kNoStep = ~StepId{0};

struct TileStep {
  enum class Kind : uint8_t {
    Size,      // imm: which of LoopBody::size_symbols
    Constant,  // imm: its bits
    Number,    // imm: which of the numbers
    Batch,
    Row,
    Column,
    Kernel,   // `prim` of the operands
    Lookup,   // operand 0 in the table `imm`
    Convert,  // operand 0 in another dtype
    Bits,     // the bits of operand 0
    Expand,   // operand 0, repeated along the loops that it does not depend on
    Load,  // of buffer `imm`: operand 0 is the index, or that at column 0 where operand 1 is its stride; 2 a mask
    Check,  // operand 0 as an index of operand 1 elements, with the mask 2; imm: which of LoopBody::indirects
    Fold,   // the result of fold `imm`, which the fold writes
    Random,  // operands: seed, first counter, element
  };
  Kind kind = Kind::Constant;
  Prim prim = Prim::Constant;
  DType dtype = DType::Int64;
  DType from = DType::Int64;  // Load: the dtype of the buffer
  StepId operands[3] = {kNoStep, kNoStep, kNoStep};
  uint64_t imm = 0;
  ValueLevel level;
};

// One thing to do. The result of a step, or of a fold along the columns, goes to `place`: bytes from the start of a
// worker's memory.
struct TileItem {
  enum class Kind : uint8_t { Evaluate, Fold, Store };
  Kind kind;
  uint32_t index;  // of the step, fold or store
  uint32_t place = 0;
};

enum class TileKind : uint8_t { Rows, Row, Piece };

struct TileProgram {
  // Adds expressions to the body's table.
  TileProgram(const LoopBody& body, const LoopLevels& levels, TileKind kind);
  // The columns fit into a tile: what a pass computed is there for the next.
  bool has_whole_rows() const { return kind != TileKind::Piece; }

  struct Fold {
    StepId value = kNoStep, result = kNoStep;  // kNoStep: nothing needs it
  };
  struct Store {
    StepId value, index, stride, mask;  // as in a Load
    DType from;                         // the value's dtype, where it is converted on the way
  };
  struct Pass {
    std::vector<TileItem> rows;     // before the columns: values, folds and stores of whole rows
    std::vector<TileItem> columns;  // for each tile
  };

  // Kept as a vector of equal lanes.
  bool is_slot(StepId id) const {
    const ValueLevel& level = steps[id].level;
    return !level.uses_column && (!level.uses_row || kind != TileKind::Rows);
  }

  TileKind kind;
  std::vector<TileStep> steps;
  std::vector<Fold> folds;
  std::vector<Store> stores;
  StepId batches, rows, columns;  // how many there are
  std::vector<TileItem> once;     // what depends on no loop
  std::vector<Pass> passes;       // one more than there are passes over the columns
  std::vector<TileItem> after_scalars,
      after_columns;  // after the rows: for the batch, and for each tile of columns
  int64_t tile = 0;   // elements
  int64_t bytes = 0;  // of a worker's memory
};

}  // namespace weft::compiler
