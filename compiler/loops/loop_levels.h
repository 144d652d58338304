// Where in the loops of a kernel each value is computed: on which indices it depends, and after which folds.
// Needs loop_body. Interpreter and printers walk a body by it.
#pragma once

#include "compiler/loops/loop_body.h"

namespace weft::compiler {

struct ValueLevel {
  bool uses_batch = false, uses_row = false, uses_column = false;
  // The first pass over the columns in which it can be computed: one more than the pass of the last fold along the columns
  // that it needs. A value without column is there before that pass.
  uint32_t pass = 0;
  bool after_rows = false;  // needs a fold along the rows
};

// The level at which what needs both can be computed.
void merge(ValueLevel& level, const ValueLevel& other);

struct LoopLevels {
  std::vector<ValueLevel> values;  // by node
  std::vector<ValueLevel> folds;  // of the place where the fold goes on: that of its value, with its own axis
  std::vector<ValueLevel> stores;  // likewise: after value, index and mask, with its own loops
  uint32_t num_passes = 0;  // over the columns, within a row; at least 1 if anything has a column there
  bool has_after = false;   // anything is done after the rows
  bool folds_rows = false;
};

LoopLevels levels_of(const LoopBody& body);

// Where an index expression can be computed: with the values that its indirect symbols stand for.
ValueLevel level_of(const LoopBody& body, const LoopLevels& levels, Sym index);
// The loops that an index expression depends on.
struct IndexUse {
  bool batch = false, row = false, column = false;
};
IndexUse use_of(const LoopBody& body, Sym index);
IndexUse use_of(const LoopBody& body, const LoopLevels& levels, Sym index);
// How an index moves as the column grows by one; nothing where it is not affine in the column, or an indirect symbol that
// depends on the column stands in it.
std::optional<Sym> column_stride(const LoopBody& body, Sym index);
std::optional<Sym> column_stride(const LoopBody& body, const LoopLevels& levels, Sym index);

}  // namespace weft::compiler
