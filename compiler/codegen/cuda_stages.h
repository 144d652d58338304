// CudaBody: what generator and launcher agree on for a body: classes, stages, scratch memory, and what sizes ask for.
// Needs cuda_codegen.h and loops. Sizes come as numbers here; the generator sees variants only.
#pragma once

#include <map>

#include "compiler/codegen/cuda_codegen.h"
#include "compiler/loops/loop_levels.h"

namespace weft::compiler {

inline constexpr int64_t kCudaBlockColumns = 32768;
inline constexpr int kCudaLanes = 512;       // of a row, at most
inline constexpr int kCudaThreads = 256;     // of a block where nothing asks for more
inline constexpr int kCudaRowThreads = 128;  // from so many on, the threads of a row are a block
inline constexpr int kCudaTileThreads = 32;  // along the columns of a tile
inline constexpr int kCudaTile = 32;         // Tiled: rows and columns

// The numbers of one call.
struct CudaSizes {
  int64_t batches = 1, rows = 1, columns = 1;
  std::vector<int64_t> values;  // by symbol of the table
  int64_t lines() const { return batches * rows; }
};

// Parts of the reduction tree.
int cuda_lanes(int64_t columns);
int64_t cuda_rows_of_block(int64_t rows);
int64_t cuda_blocks_of_rows(int64_t rows);  // at least 1, which folds nothing where there are no rows

struct CudaStage {
  enum class Kind : uint8_t {
    Flat,
    Tiled,
    Rows,
    RowsOuter,
    Outer,
    Split,   // of pass `pass`
    Finish,  // Split: what follows the last pass
    Values,  // folds of values of rows
    After,   // what follows the rows, by tiles of columns
  };
  Kind kind = Kind::Flat;
  uint32_t pass = 0;
  bool reads_folds = false;  // Outer after Rows: the folds along the columns are in scratch memory
};

// Scratch memory of a kernel: for each fold what earlier blocks leave to later ones.
struct CudaScratch {
  enum class What : uint8_t {
    Counter,  // of blocks that are done: zero before and after; memory of its own
    Part,     // Axis::Rows with columns: the value of each block, or eight, of rows
    Row,      // other folds along the rows: the value of each row
    Eights,   // Axis::Rows without columns: of eight blocks
    Result,   // of each batch
    Block,    // Split: the value of each block of columns
    Fold,     // the result for each row
  };
  What what = What::Counter;
  uint32_t fold = 0;
  friend bool operator==(const CudaScratch&, const CudaScratch&) = default;
};

// What a launch of one stage needs of a body.
struct CudaGeometry {
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;  // that the launch asks for, beside the arrays of the text
};

// The words that a launch passes for each body, before the offsets of its scratch memory.
enum CudaWord : uint32_t {
  kWordBlocks,
  kWordThreads,       // of a block, for this body
  kWordLanes,         // of a row
  kWordRowsOfBlock,   // S of the reduction tree
  kWordBlocksOfRows,  // in a batch
  kWordTileThreads,
  kNumWords
};

class CudaBody {
 public:
  // Adds symbols to a copy of the body's table.
  explicit CudaBody(const LoopBody& given);
  CudaBody(const CudaBody&) = delete;

  LoopBody body;
  LoopLevels levels;

  const ExprGraph::Node& node(BodyValue v) const { return body.values.nodes()[v]; }
  uint32_t num_passes() const { return levels.num_passes; }
  bool has_column_folds() const { return has_column_folds_; }
  bool has_arrays() const { return has_arrays_; }
  bool has_row_values() const { return has_row_values_; }
  // A fold along the rows with a column.
  bool is_array(uint32_t fold) const {
    return body.folds[fold].axis == BodyFold::Axis::Rows && levels.folds[fold].uses_column;
  }
  DType dtype_of(uint32_t fold) const { return node(body.folds[fold].value).dtype; }
  static bool is_after(const BodyStore& store) {
    return store.each == BodyStore::Each::Column || store.each == BodyStore::Each::Batch;
  }
  // Both read and written: the kernel does nothing once the error record is set.
  bool is_in_place() const;
  uint32_t pass_of_store(size_t store) const { return store_pass_[store]; }
  ValueLevel indirect_level(uint32_t indirect) const;
  std::vector<uint32_t> indirects(Sym index) const;

  // An index along the columns: base + column * stride. Nothing where it is otherwise, or a computed index decides.
  struct Access {
    Sym base, stride;
  };
  std::optional<Access> access(Sym index) const;
  // A load or store that packs may do: stride 1, no mask, no computed index.
  bool is_packed(const Source& source) const;
  bool is_packed(const BodyStore& store) const;

  CudaSizes sizes_of(const int64_t* size_values) const;
  CudaSizes traced_sizes() const;
  // `addresses`: of element 0 of each buffer; null stands for aligned ones.
  CudaVariant variant(const CudaSizes& sizes, void* const* addresses, const CudaTarget& target) const;
  std::vector<CudaStage> stages(const CudaVariant& variant) const;
  std::vector<CudaScratch> scratch(const CudaVariant& variant) const;
  int64_t scratch_bytes(const CudaScratch& scratch, const CudaVariant& variant, const CudaSizes& sizes) const;
  CudaGeometry geometry(const CudaStage& stage, const CudaVariant& variant, const CudaSizes& sizes,
                        const CudaTarget& target) const;

  // A load whose neighbours in memory are those of the next row: stride 1 along the rows, another one along the columns.
  bool is_turned(const Source& source) const;

  // Where rows are held: the sources that are, and the bytes of a row of each.
  std::vector<uint32_t> held_sources(const CudaVariant& variant) const;
  int64_t held_bytes(uint32_t source, int64_t columns) const;

  // Threads along the columns of a tile, and columns of a tile.
  static int tile_threads(const CudaVariant& variant, int64_t columns);
  static int lanes_of_thread(const CudaVariant& variant) { return variant.vector == 8 ? 2 : 1; }

 private:
  void place_stores();
  bool is_aligned(Sym base, int64_t multiple, const CudaSizes& sizes) const;
  double bound(Sym index, const CudaSizes& sizes) const;
  int64_t least_multiple(Sym index, const CudaSizes& sizes) const;
  int count_streams() const;
  // Whether something is read, or an index checked, for a row as a whole.
  bool reads_rows() const;

  bool has_column_folds_ = false, has_arrays_ = false, has_row_values_ = false;
  std::vector<uint32_t> store_pass_;
};

}  // namespace weft::compiler
