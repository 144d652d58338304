// The loops around the fold kernels: which elements form a run, tiles for strided ones, threads.
#include "tensor/cpu/reduce.h"

#include <algorithm>
#include <vector>

#include "tensor/base/error.h"
#include "tensor/base/small_vector.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

// Columns that an outer fold takes at a time: totals and eight rows of as many stay in L1 and L2, and rows are read in
// pieces of a page.
constexpr int64_t kWideColumns = 1024;
// The same where a batch of rows is converted first: eight rows of eight bytes are 32 KB.
constexpr int64_t kConvertedColumns = 512;
constexpr int64_t kConvertedRows = 8;
// Elements worth a thread (bench: micro/parallel).
constexpr int64_t kGrain = 32768;

struct ReducedAxis {
  int64_t size, stride;
};
// An index space, outermost axis first; its elements are counted in row-major order.
struct Space {
  SmallVector<ReducedAxis, 6> axes;

  // Appends inside the others; merges where the strides allow, which keeps the order.
  void push(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!axes.empty() && axes.back().stride == stride * size) axes.back() = {axes.back().size * size, stride};
    else axes.push_back({size, stride});
  }
  int64_t size() const {
    int64_t n = 1;
    for (const ReducedAxis& axis : axes) n *= axis.size;
    return n;
  }
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (size_t d = axes.size(); d-- > 0;) {
      at += index % axes[d].size * axes[d].stride;
      index /= axes[d].size;
    }
    return at;
  }
  bool is_row() const { return axes.empty() || (axes.size() == 1 && axes[0].stride == 1); }
  int64_t inner_size() const { return axes.empty() ? 1 : axes.back().size; }
  int64_t inner_stride() const { return axes.empty() ? 1 : axes.back().stride; }
};

class Reducer {
 public:
  explicit Reducer(const ReduceCall& call)
      : call_(call),
        element_(static_cast<int64_t>(size_of(call.in_dtype))),
        compute_bytes_(static_cast<int64_t>(size_of(call.compute))),
        out_bytes_(static_cast<int64_t>(size_of(call.out_dtype))),
        dense_(fold_kernels(call.fold, call.compute)) {
    const FoldKernels& own = fold_kernels(call.fold, call.in_dtype);
    is_direct_ = own.run != nullptr && compute_dtype(call.in_dtype) == call.compute &&
                 (!call.via || *call.via == call.in_dtype);
    direct_ = is_direct_ ? own : dense_;

    size_t inner = call.sizes.size();
    while (inner > 0 && call.sizes[inner - 1] == 1) --inner;
    const bool inner_is_folded = inner > 0 && call.folded[inner - 1];
    size_t first = inner;  // dimensions first … inner-1 are the innermost group
    while (first > 0 && (call.sizes[first - 1] == 1 || call.folded[first - 1] == inner_is_folded)) --first;
    has_runs_ = inner_is_folded;
    for (size_t d = 0; d < inner; ++d) {
      Space& space = d >= first ? group_ : call.folded[d] ? folded_ : kept_;
      space.push(call.sizes[d], call.strides[d]);
    }
  }

  void run() const {
    int64_t outputs = 1, folds = 1;
    for (size_t d = 0; d < call_.sizes.size(); ++d) (call_.folded[d] ? folds : outputs) *= call_.sizes[d];
    if (outputs == 0) return;
    if (folds == 0) {
      std::vector<char> totals(static_cast<size_t>(outputs * compute_bytes_));
      dense_.fill_identity(totals.data(), outputs);
      finish(totals.data(), 0, outputs);
    } else if (has_runs_) {
      run_inner();
    } else {
      run_outer();
    }
  }

 private:
  const char* place(int64_t offset) const { return static_cast<const char*>(call_.in) + offset * element_; }

  // Converts n elements `stride` apart to dense ones of the compute dtype, to_stride apart.
  void convert(const char* from, int64_t stride, char* to, int64_t to_stride, int64_t n) const {
    if (!call_.via || *call_.via == call_.in_dtype) {
      convert_kernel(call_.in_dtype, call_.compute)(from, stride, to, to_stride, n);
      return;
    }
    constexpr int64_t kPiece = 256;
    alignas(64) char piece[kPiece * 8];
    for (int64_t i = 0; i < n; i += kPiece) {
      const int64_t count = std::min(kPiece, n - i);
      convert_kernel(call_.in_dtype, *call_.via)(from + i * stride * element_, stride, piece, 1, count);
      convert_kernel(*call_.via, call_.compute)(piece, 1, to + i * to_stride * compute_bytes_, to_stride,
                                                count);
    }
  }

  // Totals become outputs first … first+n-1.
  void finish(char* totals, int64_t first, int64_t n) const {
    if (call_.divisor) {
      const auto divide = [&](auto zero) {
        using T = decltype(zero);
        T* total = reinterpret_cast<T*>(totals);
        for (int64_t i = 0; i < n; ++i) total[i] /= static_cast<T>(*call_.divisor);
      };
      if (call_.compute == DType::Float32) divide(float{});
      else divide(double{});
    }
    convert_kernel(call_.compute, call_.out_dtype)(totals, 1,
                                                   static_cast<char*>(call_.out) + first * out_bytes_, 1, n);
  }

  // ---- Inner runs

  // Elements [begin, end) of the run at `offset`; begin and end lie on block borders.
  void fold_run(int64_t offset, int64_t begin, int64_t end, char* value) const {
    if (is_direct_ && group_.is_row()) {
      direct_.run(place(offset + begin), end - begin, value);
      return;
    }
    alignas(64) char tile[kInnerBlock * 8];
    alignas(8) char block[8];
    dense_.fill_identity(value, 1);
    for (int64_t i = begin; i < end; i += kInnerBlock) {
      const int64_t count = std::min(kInnerBlock, end - i);
      gather(group_, offset, i, count, tile);
      dense_.run(tile, count, block);
      dense_.serial(value, block, 1);
    }
  }

  // Elements start … start+count-1 of a space at `offset`.
  void gather(const Space& space, int64_t offset, int64_t start, int64_t count, char* tile) const {
    const int64_t inner = space.inner_size(), stride = space.inner_stride();
    for (int64_t done = 0; done < count;) {
      const int64_t index = start + done;
      const int64_t length = std::min(count - done, inner - index % inner);
      convert(place(offset + space.offset(index)), stride, tile + done * compute_bytes_, 1, length);
      done += length;
    }
  }

  // Adds blocks of inner values to a total.
  class OuterTree {
   public:
    explicit OuterTree(const FoldKernels& kernels) : kernels_(kernels) { kernels_.fill_identity(total_, 1); }
    void add(const void* values, int64_t n) {  // one block
      alignas(8) char block[8];
      kernels_.fill_identity(block, 1);
      kernels_.serial(block, values, n);
      kernels_.serial(total_, block, 1);
    }
    const char* total() const { return total_; }

   private:
    const FoldKernels& kernels_;
    alignas(8) char total_[8];
  };

  void run_inner() const {
    const int64_t outputs = kept_.size(), folds = folded_.size(), n = group_.size();
    const int64_t per_output = folds * n;
    // Neighbouring outputs lie next to each other and a run jumps: fold columns instead of runs.
    const bool by_columns = is_direct_ && !group_.is_row() && group_.axes.size() == 1 &&
                            kept_.inner_stride() == 1 && kept_.inner_size() >= kVectorColumns;
    const int64_t units =
        by_columns ? outputs / kept_.inner_size() * column_chunks(kept_.inner_size()) : outputs;
    if (outputs * per_output <= kGrain || units >= 2 * num_threads()) {
      const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, outputs * per_output / units));
      parallel_for(
          units, grain,
          [&](int64_t begin, int64_t end) {
            if (by_columns) {
              for (int64_t unit = begin; unit < end; ++unit) columns_unit(unit);
            } else {
              for (int64_t o = begin; o < end; o += kPiece) output_piece(o, std::min(end, o + kPiece));
            }
          },
          1);
      return;
    }
    // Few outputs: threads take blocks of runs.
    const int64_t blocks = (n + kInnerBlock - 1) / kInnerBlock;
    std::vector<char> partials(static_cast<size_t>(outputs * folds * blocks * compute_bytes_));
    parallel_for(
        outputs * folds * blocks, std::max<int64_t>(1, kGrain / std::min(n, kInnerBlock)),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t block = i % blocks, run = i / blocks;
            const int64_t offset = kept_.offset(run / folds) + folded_.offset(run % folds);
            alignas(8) char value[8];
            fold_run(offset, block * kInnerBlock, std::min(n, (block + 1) * kInnerBlock), value);
            std::copy_n(value, compute_bytes_, partials.data() + i * compute_bytes_);
          }
        },
        1);
    for (int64_t output = 0; output < outputs; ++output) {
      OuterTree tree(dense_);
      alignas(64) char values[kOuterBlock * 8];
      for (int64_t j = 0; j < folds; j += kOuterBlock) {
        const int64_t count = std::min(kOuterBlock, folds - j);
        for (int64_t k = 0; k < count; ++k) {
          char* value = values + k * compute_bytes_;
          alignas(8) char sum[8];
          dense_.fill_identity(sum, 1);
          dense_.serial(sum, partials.data() + (output * folds + j + k) * blocks * compute_bytes_, blocks);
          std::copy_n(sum, compute_bytes_, value);
        }
        tree.add(values, count);
      }
      alignas(8) char total[8];
      std::copy_n(tree.total(), 8, total);
      finish(total, output, 1);
    }
  }

  // Up to kPiece outputs: one conversion for many.
  void output_piece(int64_t first, int64_t last) const {
    const int64_t folds = folded_.size(), n = group_.size();
    alignas(64) char totals[kPiece * 8];
    for (int64_t o = first; o < last; ++o) {
      char* total = totals + (o - first) * compute_bytes_;
      const int64_t offset = kept_.offset(o);
      alignas(64) char values[kOuterBlock * 8];
      if (folds == 1) {
        fold_run(offset, 0, n, values);
        std::copy_n(values, compute_bytes_, total);
        continue;
      }
      OuterTree tree(dense_);
      for (int64_t j = 0; j < folds; j += kOuterBlock) {
        const int64_t count = std::min(kOuterBlock, folds - j);
        for (int64_t k = 0; k < count; ++k)
          fold_run(offset + folded_.offset(j + k), 0, n, values + k * compute_bytes_);
        tree.add(values, count);
      }
      std::copy_n(tree.total(), compute_bytes_, total);
    }
    finish(totals, first, last - first);
  }

  static int64_t column_chunks(int64_t width) { return (width + kColumns - 1) / kColumns; }

  void columns_unit(int64_t unit) const {
    const int64_t inner = kept_.inner_size(), chunks = column_chunks(inner);
    const int64_t first = unit / chunks * inner + unit % chunks * kColumns;
    const int64_t width = std::min(kColumns, inner - unit % chunks * kColumns);
    const int64_t offset = kept_.offset(first), folds = folded_.size();
    alignas(64) char totals[kColumns * 8], block[kColumns * 8], values[kColumns * 8];
    const int64_t stride = group_.axes[0].stride, n = group_.size();
    if (folds == 1) {
      direct_.columns(place(offset), stride, n, width, totals);
    } else {
      dense_.fill_identity(totals, width);
      for (int64_t j = 0; j < folds; j += kOuterBlock) {
        dense_.fill_identity(block, width);
        for (int64_t k = j; k < std::min(folds, j + kOuterBlock); ++k) {
          direct_.columns(place(offset + folded_.offset(k)), stride, n, width, values);
          dense_.rows(block, values, 0, 1, width);
        }
        dense_.rows(totals, block, 0, 1, width);
      }
    }
    finish(totals, first, width);
  }

  // ---- Outer folds: vectors lie along the kept group

  void run_outer() const {
    const int64_t width = group_.size(), outer = kept_.size(), folds = folded_.size();
    const bool in_place = is_direct_ && group_.is_row();
    const int64_t chunk = in_place ? kWideColumns : group_.is_row() ? kConvertedColumns : kColumns;
    const int64_t chunks = (width + chunk - 1) / chunk, units = outer * chunks;
    const int64_t blocks = (folds + kOuterBlock - 1) / kOuterBlock;
    const int64_t work = folds * outer * width;
    if (blocks == 1 || work <= kGrain || units >= 2 * num_threads()) {
      parallel_for(
          units, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work / units)),
          [&](int64_t begin, int64_t end) {
            alignas(64) char totals[kWideColumns * 8], block[kWideColumns * 8];
            for (int64_t unit = begin; unit < end; ++unit) {
              const int64_t column = unit % chunks * chunk, count = std::min(chunk, width - column);
              dense_.fill_identity(totals, count);
              for (int64_t b = 0; b < blocks; ++b) {
                fold_block(unit / chunks, column, count, b, in_place, block);
                dense_.rows(totals, block, 0, 1, count);
              }
              finish(totals, unit / chunks * width + column, count);
            }
          },
          1);
      return;
    }
    // Few outputs: threads take blocks of rows.
    std::vector<char> partials(static_cast<size_t>(units * blocks * chunk * compute_bytes_));
    parallel_for(
        units * blocks, std::max<int64_t>(1, kGrain / (kOuterBlock * std::min(chunk, width))),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t unit = i / blocks, column = unit % chunks * chunk;
            fold_block(unit / chunks, column, std::min(chunk, width - column), i % blocks, in_place,
                       partials.data() + i * chunk * compute_bytes_);
          }
        },
        1);
    for (int64_t unit = 0; unit < units; ++unit) {
      alignas(64) char totals[kWideColumns * 8];
      const int64_t column = unit % chunks * chunk, count = std::min(chunk, width - column);
      dense_.fill_identity(totals, count);
      dense_.rows(totals, partials.data() + unit * blocks * chunk * compute_bytes_, chunk, blocks, count);
      finish(totals, unit / chunks * width + column, count);
    }
  }

  // Block b of the folded rows, columns column … column+count-1.
  void fold_block(int64_t outer, int64_t column, int64_t count, int64_t b, bool in_place,
                  char* totals) const {
    const int64_t end = std::min(folded_.size(), (b + 1) * kOuterBlock);
    const int64_t inner = folded_.inner_size(), stride = folded_.inner_stride();
    const int64_t base = kept_.offset(outer);
    dense_.fill_identity(totals, count);
    for (int64_t j = b * kOuterBlock; j < end;) {
      const int64_t rows = std::min(end - j, inner - j % inner);
      const int64_t offset = base + folded_.offset(j);
      if (in_place) {
        direct_.rows(totals, place(offset + column), stride, rows, count);
      } else {
        fold_tiles(totals, offset, column, count, stride, rows);
      }
      j += rows;
    }
  }

  // Rows that cannot be folded where they are: by way of a dense tile.
  void fold_tiles(char* totals, int64_t offset, int64_t column, int64_t count, int64_t stride,
                  int64_t rows) const {
    alignas(64) char tile[kOuterBlock * kColumns * 8];
    static_assert(kConvertedRows * kConvertedColumns <= kOuterBlock * kColumns);
    if (is_direct_ && stride == 1 && rows > 1) {
      transpose_tile(offset, column, count, rows, tile);
      direct_.rows(totals, tile, count, rows, count);
      return;
    }
    const int64_t batch = std::min(rows, kOuterBlock * kColumns / count);
    for (int64_t r = 0; r < rows; r += batch) {
      const int64_t height = std::min(batch, rows - r);
      for (int64_t k = 0; k < height; ++k)
        gather(group_, offset + (r + k) * stride, column, count, tile + k * count * compute_bytes_);
      dense_.rows(totals, tile, count, height, count);
    }
  }

  // tile[r][c] = element r of column c, where the elements of a column are neighbours.
  void transpose_tile(int64_t offset, int64_t column, int64_t count, int64_t rows, char* tile) const {
    const char* columns[kColumns];
    for (int64_t c = 0; c < count; ++c) columns[c] = place(offset + group_.offset(column + c));
    switch (element_) {
      case 2: return copy_columns<uint16_t>(columns, count, rows, tile);
      case 4: return copy_columns<uint32_t>(columns, count, rows, tile);
      default: return copy_columns<uint64_t>(columns, count, rows, tile);
    }
  }
  template <class T>
  static void copy_columns(const char* const* columns, int64_t count, int64_t rows, char* tile) {
    T* const to = reinterpret_cast<T*>(tile);
    const T* from[kColumns];
    for (int64_t c = 0; c < count; ++c) from[c] = reinterpret_cast<const T*>(columns[c]);
    int64_t c = 0;
    for (; c + 8 <= count; c += 8) {
      const T *c0 = from[c], *c1 = from[c + 1], *c2 = from[c + 2], *c3 = from[c + 3], *c4 = from[c + 4],
              *c5 = from[c + 5], *c6 = from[c + 6], *c7 = from[c + 7];
      T* row = to + c;
      for (int64_t r = 0; r < rows; ++r, row += count) {
        const T values[8] = {c0[r], c1[r], c2[r], c3[r], c4[r], c5[r], c6[r], c7[r]};
        std::copy_n(values, 8, row);
      }
    }
    for (; c < count; ++c)
      for (int64_t r = 0; r < rows; ++r) to[r * count + c] = from[c][r];
  }

  static constexpr int64_t kPiece = 64;
  // Fewer neighbouring outputs than this are folded one by one.
  static constexpr int64_t kVectorColumns = 16;

  const ReduceCall& call_;
  const int64_t element_, compute_bytes_, out_bytes_;
  const FoldKernels& dense_;  // on elements of the compute dtype
  FoldKernels direct_;        // on the input's own
  bool is_direct_ = false, has_runs_ = false;
  Space kept_, folded_, group_;  // group_ is the innermost one: folded where has_runs_, else kept
};

}  // namespace

void run_reduce(const ReduceCall& call) {
  WEFT_ASSERT(call.sizes.size() == call.strides.size() && call.sizes.size() == call.folded.size(),
              "sizes, strides and dimensions differ in number");
  Reducer(call).run();
}

}  // namespace weft::cpu
