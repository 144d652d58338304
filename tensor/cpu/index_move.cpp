// Rearranging: copies by pieces, joining rows, coordinates of nonzero elements, triangles.
// Place: part of the out-of-line half of tensor/cpu/index.h.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/index.h"
#include "tensor/cpu/parallel.h"

namespace weft::cpu {
namespace {

bool is_kept(const Pieces<int64_t>& pieces, int64_t n) {
  return pieces.size() == 1 && !pieces[0].is_fill && pieces[0].step == 1 && pieces[0].start == 0 &&
         pieces[0].length == n;
}

// A stretch of the row dimension: `source` and `step` in elements, -1 and 0 for a fill.
struct Stretch {
  int64_t begin, end, source, step;
  bool is_fill;
};

// The offset of each place of an outer dimension, or -1 where the fill stands.
std::vector<int64_t> place_offsets(const Pieces<int64_t>& pieces, int64_t stride) {
  std::vector<int64_t> offsets;
  for (const Piece<int64_t>& piece : pieces)
    for (int64_t i = 0; i < piece.length; ++i)
      offsets.push_back(piece.is_fill ? -1 : (piece.start + piece.step * i) * stride);
  return offsets;
}

template <class T>
void fill_elements(T* out, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

// n blocks of `block` contiguous elements, `step` apart in x.
template <class T>
void copy_blocks(const T* x, int64_t step, int64_t block, T* out, int64_t n) {
  if (step == block) {
    std::memcpy(out, x, static_cast<size_t>(n * block) * sizeof(T));
  } else if (block == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = x[i * step];
  } else {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(out + i * block, x + i * step, static_cast<size_t>(block) * sizeof(T));
  }
}

template <class T>
void move_typed(const MoveRule<int64_t>& rule, std::span<const int64_t> x_sizes,
                std::span<const int64_t> x_strides, const T* x, T fill, T* out) {
  // The trailing dimensions that stay as they are and lie in one piece are moved as a block.
  size_t rank = x_sizes.size();
  int64_t block = 1;
  while (rank > 1 && is_kept(rule.dims[rank - 1], x_sizes[rank - 1]) &&
         (x_strides[rank - 1] == block || x_sizes[rank - 1] == 1))
    block *= x_sizes[--rank];
  const size_t row_dim = rank - 1;
  std::vector<Stretch> row;
  int64_t row_size = 0;
  for (const Piece<int64_t>& piece : rule.dims[row_dim]) {
    row.push_back({row_size, row_size + piece.length, piece.start * x_strides[row_dim],
                   piece.step * x_strides[row_dim], piece.is_fill});
    row_size += piece.length;
  }
  std::vector<std::vector<int64_t>> outer;
  int64_t rows = 1;
  for (size_t d = 0; d < row_dim; ++d) {
    outer.push_back(place_offsets(rule.dims[d], x_strides[d]));
    rows *= static_cast<int64_t>(outer.back().size());
  }
  if (rows * row_size * block == 0) return;

  const int64_t grain = std::max<int64_t>(1, kMoveGrain / block);
  parallel_for(rows * row_size, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t first = begin % row_size, last = std::min(row_size, first + (end - begin));
      int64_t rest = begin / row_size, offset = 0;
      bool filled = false;
      for (size_t d = row_dim; d-- > 0;) {
        const auto size = static_cast<int64_t>(outer[d].size());
        const int64_t place = outer[d][static_cast<size_t>(rest % size)];
        rest /= size;
        filled = filled || place < 0;
        offset += place;
      }
      T* to = out + begin * block;
      if (filled) {
        fill_elements(to, (last - first) * block, fill);
      } else {
        for (const Stretch& stretch : row) {
          const int64_t from = std::max(first, stretch.begin), n = std::min(last, stretch.end) - from;
          if (n <= 0) continue;
          T* const target = to + (from - first) * block;
          if (stretch.is_fill) fill_elements(target, n * block, fill);
          else
            copy_blocks(x + offset + stretch.source + (from - stretch.begin) * stretch.step, stretch.step,
                        block, target, n);
        }
      }
      begin += last - first;
    }
  });
}

template <class T>
bool is_nonzero(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) return (value.bits & 0x7FFF) != 0;
  else return value != T{};
}

}  // namespace

void move(const MoveRule<int64_t>& rule, std::span<const int64_t> x_sizes, std::span<const int64_t> x_strides,
          size_t element_size, const void* x, const void* fill, void* out) {
  visit_bytes(element_size, [&](auto zero) {
    using T = decltype(zero);
    if (x_sizes.empty()) {
      std::memcpy(out, x, sizeof(T));
      return;
    }
    move_typed<T>(rule, x_sizes, x_strides, static_cast<const T*>(x), *static_cast<const T*>(fill),
                  static_cast<T*>(out));
  });
}

void join_rows(std::span<const RowPart> parts, int64_t rows, void* out) {
  int64_t row_bytes = 0;
  for (const RowPart& part : parts) row_bytes += part.row_bytes;
  if (row_bytes == 0) return;
  parallel_for(
      rows, std::max<int64_t>(1, 4 * kMoveGrain / row_bytes),
      [&](int64_t begin, int64_t end) {
        char* to = static_cast<char*>(out) + begin * row_bytes;
        for (int64_t r = begin; r < end; ++r) {
          for (const RowPart& part : parts) {
            if (part.row_bytes == 0) continue;
            std::memcpy(to, static_cast<const char*>(part.data) + r * part.row_bytes,
                        static_cast<size_t>(part.row_bytes));
            to += part.row_bytes;
          }
        }
      },
      1);
}

void count_nonzero_blocks(DType dtype, const void* x, int64_t n, int64_t* counts) {
  const int64_t blocks = (n + kNonzeroBlock - 1) / kNonzeroBlock;
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* values = static_cast<const T*>(x);
    parallel_for(
        blocks, 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t block = begin; block < end; ++block) {
            const int64_t stop = std::min(n, (block + 1) * kNonzeroBlock);
            int64_t count = 0;
            for (int64_t i = block * kNonzeroBlock; i < stop; ++i) count += is_nonzero(values[i]);
            counts[block] = count;
          }
        },
        1);
  });
}

void write_nonzero(DType dtype, const void* x, std::span<const int64_t> sizes, const int64_t* block_starts,
                   int64_t* coordinates) {
  const size_t rank = sizes.size();
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  const int64_t blocks = (n + kNonzeroBlock - 1) / kNonzeroBlock;
  if (rank == 0) return;
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* values = static_cast<const T*>(x);
    parallel_for(
        blocks, 1,
        [&](int64_t begin, int64_t end) {
          IndexList at(rank, 0);
          for (int64_t block = begin; block < end; ++block) {
            int64_t i = block * kNonzeroBlock;
            const int64_t stop = std::min(n, i + kNonzeroBlock);
            int64_t* to = coordinates + block_starts[block] * static_cast<int64_t>(rank);
            for (size_t d = rank, rest = static_cast<size_t>(i); d-- > 0;) {
              at[d] = static_cast<int64_t>(rest) % sizes[d];
              rest /= static_cast<size_t>(sizes[d]);
            }
            for (; i < stop; ++i) {
              if (is_nonzero(values[i])) to = std::copy(at.begin(), at.end(), to);
              for (size_t d = rank; d-- > 0;) {
                if (++at[d] < sizes[d]) break;
                at[d] = 0;
              }
            }
          }
        },
        1);
  });
}

void clear_triangle(Box<1> box, size_t element_size, int64_t diagonal, bool lower, void* x) {
  const size_t rank = box.sizes.size();
  const int64_t rows = box.sizes[rank - 2], columns = box.sizes[rank - 1];
  const int64_t n = box.numel();
  if (n == 0) return;
  const int64_t step = box.strides[0][rank - 1];
  visit_bytes(element_size, [&](auto zero) {
    using T = decltype(zero);
    T* values = static_cast<T*>(x);
    parallel_for(
        n / columns, std::max<int64_t>(1, kMoveGrain / columns),
        [&](int64_t begin, int64_t end) {
          int64_t r = begin % rows;
          box.walk(begin * columns, end * columns, [&](const std::array<int64_t, 1>& offsets, int64_t) {
            const int64_t edge = std::clamp<int64_t>(r + diagonal + (lower ? 1 : 0), 0, columns);
            T* row = values + offsets[0];
            const int64_t from = lower ? edge : 0, to = lower ? columns : edge;
            if (step == 1) std::memset(row + from, 0, static_cast<size_t>(to - from) * sizeof(T));
            else
              for (int64_t c = from; c < to; ++c) row[c * step] = T{};
            if (++r == rows) r = 0;
          });
        },
        1);
  });
}

}  // namespace weft::cpu
