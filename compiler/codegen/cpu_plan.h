// CpuPlan: what the passes of a kernel do: where stores happen, which values are kept, which elements move by tiles.
// Needs cpu_section. cpu_pass and cpu_codegen print by it.
#pragma once

#include <set>

#include "compiler/codegen/cpu_section.h"

namespace weft::compiler {

// The same body without folds along its only row.
LoopBody without_row_folds(const LoopBody& body);

inline bool is_after(const BodyStore& store) {
  return store.each == BodyStore::Each::Column || store.each == BodyStore::Each::Batch;
}

class CpuPlan {
 public:
  CpuPlan(const LoopBody& body, VectorPrinter& printer);
  CpuPlan(const CpuPlan&) = delete;

  const LoopBody& body;
  CpuBody code;

  uint32_t num_passes() const { return code.levels.num_passes; }
  bool has_column_folds() const { return has_column_folds_; }
  bool has_row_folds() const { return has_row_folds_; }
  // A single row whose blocks of columns are folded by several threads.
  bool is_flat() const { return has_column_folds_ && has_one_line(); }
  bool has_one_line() const { return is_int(body.batches, 1) && is_int(body.rows, 1); }
  // Columns where they are known, else -1.
  int64_t known_columns() const { return body.columns.is_symbolic() ? -1 : body.columns.concrete(); }
  bool columns_are_multiple_of(int64_t n) const { return known_columns() >= 0 && known_columns() % n == 0; }
  // A fold along the rows with a column.
  bool is_array(uint32_t fold) const {
    return body.folds[fold].axis == BodyFold::Axis::Rows && code.levels.folds[fold].uses_column;
  }
  // Whether elements of the loops may go to one place: sums, and whatever has a computed index. They go there in order.
  bool has_collisions() const { return !collisions_.empty(); }
  // Such elements have the same column, so that threads may share the columns.
  bool collides_by_column();
  // True where a row need not be done by one thread.
  bool shares_columns() const;

  // Rows that are folded column by column at a time: their totals stay in registers meanwhile.
  int64_t rows_at_a_time();

  // The pass over the columns in which a store happens; for a store of each row, the one that it stands before.
  uint32_t pass_of_store(size_t store) const { return store_pass_[store]; }
  // Every computed index is checked, in the first pass that can.
  bool is_checked_in(uint32_t indirect, uint32_t pass) const;
  ValueLevel indirect_level(uint32_t indirect) const;

  // A value that more than one pass needs and that lies in an array of one row.
  struct Kept {
    BodyValue value;
    uint32_t pass;  // that makes it
    std::string array, type;
  };
  const std::vector<Kept>& kept() const { return kept_; }

  // Primitives of one column, roughly.
  double cost_of_pass(uint32_t pass);
  uint32_t heaviest_pass();

  // How an index moves from one row to the next; nothing where that is not known.
  std::optional<Sym> line_stride(Sym base);

  // Note [Tiles]
  // Elements that are neighbours along the rows while the loop goes along the columns are moved by tiles: some rows of them
  // are turned into an array (w_turn, by lines) before these rows are worked on, or out of one after it. The passes see
  // an array that is dense along the columns.
  struct Tile {
    std::string name;
    uint32_t param;
    Sym index, stride;  // from column to column
    bool is_store;
  };
  const std::vector<Tile>& tiles() const { return tiles_; }
  int64_t tile_rows() const { return tile_rows_; }
  // A row of the tiles is a row of the loops.
  bool has_whole_tiles() const { return has_column_folds_ || num_passes() > 1; }

 private:
  template <class F>
  void for_each_operand(BodyValue v, F f) const;
  template <class F>
  void for_each_index_value(Sym index, F f) const;
  template <class F>
  void for_each_root(uint32_t pass, F f) const;
  double own_cost(BodyValue v);
  double cost_of(const std::vector<BodyValue>& roots, std::set<BodyValue> known = {});
  void place_stores();
  void plan_kept();
  void find_tiles();
  bool is_turned(Sym index);
  void add_tile(uint32_t param, Sym index, bool is_store);

  bool has_column_folds_ = false, has_row_folds_ = false;
  std::vector<const BodyStore*> collisions_;
  std::vector<uint32_t> store_pass_;
  std::vector<Kept> kept_;
  std::optional<uint32_t> heaviest_pass_;
  std::vector<Tile> tiles_;
  int64_t tile_rows_ = 64;
};

}  // namespace weft::compiler
