// Sharing out the tiles of a body, and the folds between them.
// Place: the out-of-line half of interpreter.h.
#include "compiler/loops/interpreter.h"

#include <algorithm>

#include "compiler/loops/tile_worker.h"
#include "tensor/cpu/parallel.h"

namespace weft::compiler {
namespace {

// Work that is worth a thread, in results of steps: some 50 µs.
constexpr int64_t kGrainSteps = 1 << 18;
// Tiles of a row from which on threads share it pass by pass, where there are too few rows for them.
constexpr int64_t kManyTiles = 8;
// Blocks of rows whose folds are kept at a time before they are added to the totals in order.
constexpr int64_t kBlocksAtOnce = 64;

// Up to so many columns several rows share a tile: more work for each step, but values of rows and of columns are expanded.
constexpr int64_t kShortRow = 512;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t steps_of_columns(const TileProgram& program) {
  size_t count = 1;
  for (const TileProgram::Pass& pass : program.passes) count += pass.columns.size();
  return static_cast<int64_t>(count);
}

// One call.
class Run {
 public:
  Run(const TileCall& call, int threads)
      : call_(call),
        program_(call.program),
        threads_(threads),
        steps_(steps_of_columns(call.program)),
        num_folds_(call.body.folds.size()) {}

  void run(bool keeps_batches_whole) {
    if (keeps_batches_whole) run_batches();
    else if (program_.has_whole_rows()) run_tiles();
    else run_rows();
  }

 private:
  // Calls f(begin, end) with parts of [0, n), each of whose units takes about so many elements.
  template <class F>
  void in_parallel(int64_t n, int64_t elements, const F& f) {
    if (n <= 0) return;
    if (threads_ == 1) return f(int64_t{0}, n);
    const int64_t grain = kGrainSteps / std::max<int64_t>(elements * steps_, 1);
    parallel_for(n, std::max({grain, divide_up(n, threads_), int64_t{1}}), f, 1);
  }

  DType dtype_of(size_t fold) const { return program_.steps[program_.folds[fold].value].dtype; }
  int64_t bytes_of(size_t fold) const { return static_cast<int64_t>(size_of(dtype_of(fold))); }
  bool is_needed(size_t fold) const { return program_.folds[fold].result != kNoStep; }
  bool folds_columns() const {
    for (size_t f = 0; f < num_folds_; ++f)
      if (is_needed(f) && call_.body.folds[f].axis == BodyFold::Axis::Columns) return true;
    return false;
  }
  bool has_columns(size_t fold) const { return program_.steps[program_.folds[fold].value].level.uses_column; }
  const cpu::FoldKernels& kernels_of(size_t fold) const {
    return cpu::fold_kernels(call_.body.folds[fold].fold, dtype_of(fold));
  }

  // Memory for each fold along `axis`, of so many elements each; the others have none.
  struct Arena {
    FoldMemory memory;
    std::unique_ptr<cpu::Workspace> bytes;
  };
  template <class Count>
  Arena arena(BodyFold::Axis axis, const Count& count) const {
    Arena arena;
    std::vector<int64_t> starts(num_folds_ + 1);
    for (size_t f = 0; f < num_folds_; ++f) {
      const bool is_here = is_needed(f) && call_.body.folds[f].axis == axis;
      starts[f + 1] = starts[f] + (is_here ? (count(f) * bytes_of(f) + 63) / 64 * 64 : 0);
    }
    arena.bytes = std::make_unique<cpu::Workspace>(std::max<int64_t>(starts[num_folds_], 1));
    for (size_t f = 0; f < num_folds_; ++f)
      arena.memory.of.push_back(starts[f + 1] == starts[f] ? nullptr : arena.bytes->get() + starts[f]);
    return arena;
  }
  static void add(FoldMemory& memory, const FoldMemory& other) {
    for (size_t f = 0; f < memory.of.size(); ++f)
      if (other.of[f] != nullptr) memory.of[f] = other.of[f];
  }

  // ---- Rows

  int64_t rows_in_tile() const {
    if (program_.kind == TileKind::Row) return 1;
    return std::max<int64_t>(1, program_.tile / std::max<int64_t>(call_.columns, 1));
  }
  int64_t num_tiles() const { return divide_up(call_.columns, program_.tile); }

  // Whole rows, as many as one tile holds.
  void run_tile(TileWorker& worker, int64_t batch, int64_t row, int64_t rows, const FoldMemory* memory) {
    worker.move_to({batch, row, rows, 0, call_.columns});
    for (const TileProgram::Pass& pass : program_.passes) {
      worker.run(pass.rows, memory);
      worker.run(pass.columns, memory);
    }
  }

  // One row of several tiles: pass after pass.
  void run_row(TileWorker& worker, int64_t batch, int64_t row, const FoldMemory& memory, bool is_shared) {
    worker.move_to({batch, row, 1, 0, 0});
    for (size_t p = 0; p < program_.passes.size(); ++p) {
      const TileProgram::Pass& pass = program_.passes[p];
      worker.run(pass.rows, &memory);
      if (pass.columns.empty()) continue;
      if (is_shared) {
        in_parallel(num_tiles(), program_.tile, [&](int64_t begin, int64_t end) {
          TileWorker other(call_);
          other.move_to({batch, row, 1, 0, 0});
          for (size_t before = 0; before <= p; ++before) {
            other.evaluate(program_.passes[before].rows, &memory);
            if (before < p) set_folds(other, program_.passes[before], memory);
          }
          run_columns(other, pass, begin, end, memory);
        });
      } else {
        run_columns(worker, pass, 0, num_tiles(), memory);
      }
      set_folds(worker, pass, memory);
    }
  }
  void run_columns(TileWorker& worker, const TileProgram::Pass& pass, int64_t begin, int64_t end,
                   const FoldMemory& memory) {
    TileWorker::Tile tile = worker.tile();
    for (int64_t t = begin; t < end; ++t) {
      tile.column = t * program_.tile;
      tile.columns = std::min(program_.tile, call_.columns - tile.column);
      worker.move_to(tile);
      worker.run(pass.columns, &memory);
    }
    tile.column = tile.columns = 0;
    worker.move_to(tile);
  }
  void set_folds(TileWorker& worker, const TileProgram::Pass& pass, const FoldMemory& memory) {
    for (const TileItem& item : pass.columns)
      if (item.kind == TileItem::Kind::Fold && call_.body.folds[item.index].axis == BodyFold::Axis::Columns)
        worker.set_fold(item, memory.of[item.index], num_tiles());
  }
  Arena block_values() const {
    return arena(BodyFold::Axis::Columns, [&](size_t) { return num_tiles(); });
  }

  void run_tiles() {
    const int64_t at_once = rows_in_tile(), per_batch = divide_up(call_.rows, at_once);
    in_parallel(call_.batches * per_batch, at_once * call_.columns, [&](int64_t begin, int64_t end) {
      TileWorker worker(call_);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t row = unit % per_batch * at_once;
        run_tile(worker, unit / per_batch, row, std::min(at_once, call_.rows - row), nullptr);
      }
    });
  }
  void run_rows() {
    const int64_t rows = call_.batches * call_.rows;
    if (rows == 1 || (rows < 2 * threads_ && num_tiles() >= kManyTiles)) {  // threads share each row
      TileWorker worker(call_);
      const Arena blocks = block_values();
      for (int64_t r = 0; r < rows; ++r) run_row(worker, r / call_.rows, r % call_.rows, blocks.memory, true);
      return;
    }
    in_parallel(rows, call_.columns, [&](int64_t begin, int64_t end) {
      TileWorker worker(call_);
      const Arena blocks = block_values();
      for (int64_t r = begin; r < end; ++r)
        run_row(worker, r / call_.rows, r % call_.rows, blocks.memory, false);
    });
  }

  // ---- Batches: rows are folded, or something is done after them

  void run_batches() {
    const int64_t elements = call_.rows * call_.columns;
    if (call_.batches < 2 * threads_) {
      for (int64_t b = 0; b < call_.batches; ++b) run_batch(b, threads_ > 1);
      return;
    }
    in_parallel(call_.batches, elements, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) run_batch(b, false);
    });
  }

  void run_batch(int64_t batch, bool is_shared) {
    const Arena totals =
        arena(BodyFold::Axis::Rows, [&](size_t f) { return has_columns(f) ? call_.columns : 1; });
    const Arena values = arena(BodyFold::Axis::RowValues, [&](size_t) { return call_.rows; });
    const Arena results = arena(BodyFold::Axis::Columns, [&](size_t) { return 1; });
    const Arena value_results = arena(BodyFold::Axis::RowValues, [&](size_t) { return 1; });
    for (size_t f = 0; f < num_folds_; ++f)
      if (totals.memory.of[f] != nullptr) kernels_of(f).fill_identity(totals.memory.of[f], width(f));

    const int64_t num_blocks = divide_up(call_.rows, cpu::kOuterBlock);
    const Arena partials =
        arena(BodyFold::Axis::Rows, [&](size_t f) { return std::min(num_blocks, kBlocksAtOnce) * width(f); });
    for (int64_t first = 0; first < num_blocks; first += kBlocksAtOnce) {
      const int64_t count = std::min(kBlocksAtOnce, num_blocks - first);
      run_blocks(batch, first, count, partials, values.memory, results.memory, is_shared);
      for (size_t f = 0; f < num_folds_; ++f)
        if (totals.memory.of[f] != nullptr)
          kernels_of(f).rows(totals.memory.of[f], partials.memory.of[f], width(f), count, width(f));
    }
    for (size_t f = 0; f < num_folds_; ++f)
      if (values.memory.of[f] != nullptr) fold_values(f, values.memory.of[f], value_results.memory.of[f]);

    FoldMemory done = totals.memory;
    add(done, value_results.memory);
    add(done, results.memory);
    run_after(batch, done, is_shared);
  }
  int64_t width(size_t fold) const { return has_columns(fold) ? call_.columns : 1; }

  // So many blocks of kOuterBlock rows, each of which folds into its own part of `partials`.
  void run_blocks(int64_t batch, int64_t first, int64_t count, const Arena& partials,
                  const FoldMemory& values, const FoldMemory& results, bool is_shared) {
    for (size_t f = 0; f < num_folds_; ++f)
      if (partials.memory.of[f] != nullptr)
        kernels_of(f).fill_identity(partials.memory.of[f], count * width(f));
    const auto run_block = [&](TileWorker& worker, FoldMemory& memory, int64_t block, bool shares_rows) {
      use_partials(memory, partials, block);
      const int64_t begin = (first + block) * cpu::kOuterBlock,
                    end = std::min(begin + cpu::kOuterBlock, call_.rows);
      if (!program_.has_whole_rows()) {
        for (int64_t row = begin; row < end; ++row) run_row(worker, batch, row, memory, shares_rows);
        return;
      }
      const int64_t at_once = std::min(rows_in_tile(), cpu::kOuterBlock);
      for (int64_t row = begin; row < end; row += at_once)
        run_tile(worker, batch, row, std::min(at_once, end - row), &memory);
    };
    const auto memory_of_worker = [&](const Arena& blocks) {
      FoldMemory memory = blocks.memory;
      add(memory, values);
      // Of a single row, what the folds along its columns gave may be asked for after it.
      if (program_.has_whole_rows() && !call_.body.row.is_symbolic()) add(memory, results);
      return memory;
    };
    const auto column_blocks = [&] {
      return arena(BodyFold::Axis::Columns,
                   [&](size_t) { return program_.has_whole_rows() ? 0 : num_tiles(); });
    };

    if (is_shared && !program_.has_whole_rows() && count < threads_ && num_tiles() >= kManyTiles) {
      if (!folds_columns()) return run_blocks_by_column(batch, first, count, partials, values);
      TileWorker worker(call_);
      const Arena blocks = column_blocks();
      FoldMemory memory = memory_of_worker(blocks);
      for (int64_t block = 0; block < count; ++block) run_block(worker, memory, block, true);
      keep_results(blocks.memory, results);
      return;
    }
    const auto run = [&](int64_t begin, int64_t end) {
      TileWorker worker(call_);
      const Arena blocks = column_blocks();
      FoldMemory memory = memory_of_worker(blocks);
      for (int64_t block = begin; block < end; ++block) run_block(worker, memory, block, false);
      keep_results(blocks.memory, results);
    };
    if (is_shared) in_parallel(count, cpu::kOuterBlock * call_.columns, run);
    else run(0, count);
  }
  void use_partials(FoldMemory& memory, const Arena& partials, int64_t block) const {
    for (size_t f = 0; f < num_folds_; ++f)
      if (partials.memory.of[f] != nullptr)
        memory.of[f] = partials.memory.of[f] + block * width(f) * bytes_of(f);
  }
  // Nothing is folded along the columns: each thread takes some of them, through all rows.
  void run_blocks_by_column(int64_t batch, int64_t first, int64_t count, const Arena& partials,
                            const FoldMemory& values) {
    const int64_t begin_row = first * cpu::kOuterBlock,
                  end_row = std::min(begin_row + count * cpu::kOuterBlock, call_.rows);
    in_parallel(num_tiles(), program_.tile * (end_row - begin_row), [&](int64_t begin, int64_t end) {
      TileWorker worker(call_);
      FoldMemory memory = values;
      for (int64_t row = begin_row; row < end_row; ++row) {
        use_partials(memory, partials, row / cpu::kOuterBlock - first);
        worker.move_to({batch, row, 1, 0, 0});
        for (const TileProgram::Pass& pass : program_.passes) {
          // What is done once for a row, the first of them does.
          if (begin == 0) worker.run(pass.rows, &memory);
          else worker.evaluate(pass.rows, &memory);
          run_columns(worker, pass, begin, end, memory);
        }
      }
    });
  }
  // The same for a single row of several tiles.
  void keep_results(const FoldMemory& blocks, const FoldMemory& results) const {
    if (program_.has_whole_rows() || call_.body.row.is_symbolic()) return;
    for (size_t f = 0; f < num_folds_; ++f) {
      if (blocks.of[f] == nullptr) continue;
      kernels_of(f).fill_identity(results.of[f], 1);
      kernels_of(f).serial(results.of[f], blocks.of[f], num_tiles());
    }
  }

  void fold_values(size_t f, const char* values, char* total) const {
    const cpu::FoldKernels& kernels = kernels_of(f);
    kernels.fill_identity(total, 1);
    alignas(16) char block[16];
    for (int64_t row = 0; row < call_.rows; row += cpu::kInnerBlock) {
      kernels.run(values + row * bytes_of(f), std::min(cpu::kInnerBlock, call_.rows - row), block);
      kernels.serial(total, block, 1);
    }
  }

  void run_after(int64_t batch, const FoldMemory& results, bool is_shared) {
    if (!program_.after_scalars.empty() || !program_.after_columns.empty()) {
      TileWorker worker(call_);
      worker.move_to({batch, 0, 1, 0, 0});
      worker.run(program_.after_scalars, &results);
    }
    if (program_.after_columns.empty()) return;
    const auto run = [&](int64_t begin, int64_t end) {
      TileWorker worker(call_);
      worker.move_to({batch, 0, 1, 0, 0});
      worker.evaluate(program_.after_scalars, &results);
      for (int64_t t = begin; t < end; ++t) {
        const int64_t column = t * program_.tile;
        worker.move_to({batch, 0, 1, column, std::min(program_.tile, call_.columns - column)});
        worker.run(program_.after_columns, &results);
      }
    };
    if (is_shared) in_parallel(num_tiles(), program_.tile, run);
    else run(0, num_tiles());
  }

  const TileCall& call_;
  const TileProgram& program_;
  const int threads_;
  const int64_t steps_;
  const size_t num_folds_;
};

}  // namespace

struct Interpreter::Kernel {
  explicit Kernel(const LoopBody& of)
      : body(of),
        levels(levels_of(of)),
        rows(of, levels, TileKind::Rows),
        row(of, levels, TileKind::Row),
        piece(of, levels, TileKind::Piece) {
    adds = std::any_of(of.stores.begin(), of.stores.end(),
                       [](const BodyStore& store) { return store.mode == BodyStore::Mode::Add; });
    is_in_place = adds || std::any_of(of.buffers.begin(), of.buffers.end(), [](const BufferParam& buffer) {
                    return buffer.is_read && buffer.is_written;
                  });
  }

  void run(void* const* buffers, const uint64_t* numbers, const int64_t* sizes, KernelError* error,
           int threads, TouchedElements* touched) const {
    if (is_in_place && error->check != 0) return;
    TileCall sizes_only{body, rows, buffers, numbers, sizes, error, nullptr, {}};
    for (size_t b = 0; b < body.buffers.size(); ++b) {
      bool is_written = false;
      for (size_t other = 0; other < body.buffers.size(); ++other)
        is_written |= body.buffers[other].is_written && buffers[other] == buffers[b];
      sizes_only.may_read_in_place.push_back(!is_written);
    }
    const TileWorker extents(sizes_only);
    const int64_t columns = extents.integer(rows.columns);
    const TileProgram& program = columns > piece.tile ? piece : columns > kShortRow ? row : rows;
    const TileCall call{body,
                        program,
                        buffers,
                        numbers,
                        sizes,
                        error,
                        touched,
                        sizes_only.may_read_in_place,
                        extents.integer(rows.batches),
                        extents.integer(rows.rows),
                        columns};
    // Elements that are added to in place are in order.
    if (adds || touched != nullptr) threads = 1;
    Run(call, threads).run(levels.folds_rows || levels.has_after);
  }

  LoopBody body;
  LoopLevels levels;
  TileProgram rows, row, piece;  // by kind of tile
  bool adds = false, is_in_place = false;
};

Interpreter::Interpreter(const LoopBody& body) : kernel_(std::make_unique<Kernel>(body)) {}
Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

void Interpreter::run(void* const* buffers, const uint64_t* numbers, const int64_t* sizes, KernelError* error,
                      int threads) const {
  kernel_->run(buffers, numbers, sizes, error, threads, nullptr);
}

std::vector<BufferTraffic> Interpreter::count_traffic(void* const* buffers, const uint64_t* numbers,
                                                      const int64_t* sizes, KernelError* error) const {
  const std::vector<BufferParam>& params = kernel_->body.buffers;
  std::vector<TouchedElements> touched(params.size());
  kernel_->run(buffers, numbers, sizes, error, 1, touched.data());
  std::vector<BufferTraffic> traffic;
  for (size_t b = 0; b < params.size(); ++b) {
    const size_t bytes = size_of(params[b].dtype);
    traffic.push_back({touched[b].loaded, touched[b].stored,
                       static_cast<int64_t>(touched[b].loads.size() * bytes),
                       static_cast<int64_t>(touched[b].stores.size() * bytes)});
  }
  return traffic;
}

}  // namespace weft::compiler
