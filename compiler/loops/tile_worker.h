// TileWorker: the memory of one thread that runs a tile program, and the steps on it.
// Needs tile_program and kernel_call; the interpreter shares out the tiles.
#pragma once

#include <unordered_set>

#include "compiler/loops/kernel_call.h"
#include "compiler/loops/tile_program.h"
#include "tensor/cpu/workspace.h"

namespace weft::compiler {

// What a call has touched in one buffer: bytes, and which elements.
struct TouchedElements {
  int64_t loaded = 0, stored = 0;
  std::unordered_set<int64_t> loads, stores;
};

// What all workers of one call read.
struct TileCall {
  const LoopBody& body;
  const TileProgram& program;
  void* const* buffers;
  const uint64_t* numbers;
  const int64_t* sizes;
  KernelError* error;
  TouchedElements* touched = nullptr;      // by buffer, where it is counted
  std::vector<uint8_t> may_read_in_place;  // by buffer: nothing is written to it
  int64_t batches = 0, rows = 0, columns = 0;
};

// Where folds of a batch go on. Memory is the caller's.
struct FoldMemory {
  // By fold. Columns, for rows of several tiles: the value of each block. Rows: the totals of this block of rows, by column.
  // RowValues: the value of each row. After the rows: the results.
  std::vector<char*> of;
};

class TileWorker {
 public:
  explicit TileWorker(const TileCall& call);
  TileWorker(const TileWorker&) = delete;
  TileWorker& operator=(const TileWorker&) = delete;

  // The elements that steps are about from now on.
  struct Tile {
    int64_t batch = 0, row = 0, rows = 1, column = 0, columns = 0;
  };
  void move_to(const Tile& tile) { tile_ = tile; }
  const Tile& tile() const { return tile_; }

  // `memory` may be null where no item folds rows or row values, and no row has several tiles.
  void run(std::span<const TileItem> items, const FoldMemory* memory);
  // The same without folds and stores: for values of rows that another worker has stored.
  void evaluate(std::span<const TileItem> items, const FoldMemory* memory);
  // A fold along the columns of a row of several tiles is done: puts the total of its blocks in place.
  void set_fold(const TileItem& item, const char* blocks, int64_t num_blocks);

  int64_t integer(StepId id) const { return *reinterpret_cast<const int64_t*>(data_[id]); }
  const char* data(StepId id) const { return data_[id]; }

 private:
  // How the elements of a value lie in its tile: element (row, column) at row·row_step + column·column_step.
  struct View {
    const char* data;
    int64_t row_step, column_step;
  };
  int64_t count_of(StepId id) const;
  View view(StepId id) const;
  // The rows and columns of a value.
  int64_t rows_of(StepId id) const { return program_.steps[id].level.uses_row ? tile_.rows : 1; }
  int64_t columns_of(StepId id) const { return program_.steps[id].level.uses_column ? tile_.columns : 1; }
  // Element `index` of a view as an Int64.
  static int64_t at(const View& view, int64_t row, int64_t column) {
    return reinterpret_cast<const int64_t*>(view.data)[row * view.row_step + column * view.column_step];
  }
  static bool is_set(const View& view, int64_t row, int64_t column) {
    return view.data == nullptr || view.data[row * view.row_step + column * view.column_step] != 0;
  }
  // The place in a buffer of the element, from an index that has the stride along the columns, or stands for each element.
  struct Address {
    View index, stride;
    int64_t first_column;
    int64_t operator()(int64_t row, int64_t column) const {
      const int64_t first = at(index, row, column);
      return stride.data == nullptr ? first : first + at(stride, row, column) * (first_column + column);
    }
  };
  Address address(StepId index, StepId stride) const;
  // All elements of the tile lie one after the other in memory.
  bool is_dense(const Address& address, int64_t rows, int64_t columns) const;

  void evaluate(StepId id, char* to, const FoldMemory* memory);
  void run_kernel(const TileStep& step, StepId id, char* to);
  void load(const TileStep& step, StepId id, char* to);
  void check(const TileStep& step, StepId id, char* to);
  void expand(const TileStep& step, StepId id, char* to);
  void random(const TileStep& step, StepId id, char* to);
  void read_fold(const TileStep& step, StepId id, char* to, const FoldMemory& memory);
  void fold(const TileItem& item, const FoldMemory* memory);
  void store(uint32_t index);
  void store_where(const TileProgram::Store& store, const BodyStore& body, const Address& to, int64_t rows,
                   int64_t columns);
  void count(const Address& address, const View& mask, int64_t rows, int64_t columns, uint32_t buffer,
             bool is_store) const;

  const TileCall& call_;
  const TileProgram& program_;
  cpu::Workspace memory_;
  std::vector<const char*> data_;  // of the last result of each step
  Tile tile_;
};

}  // namespace weft::compiler
