// generate_cuda: the loop bodies of one kernel step as header-free CUDA C++, for sizes and addresses of one kind.
// Before: the bodies verify. After: NVRTC compiles the text; cuda_program.h launches its kernels.
// Here: after scheduling, before NVRTC.
//
// Note [A kernel on CUDA]
// The loops of Note [The loops of a kernel] (loops/loop_body.h). Threads hold packs: V neighbouring columns of a row. The class
// of a body says which loops threads share:
//   Flat       nothing is folded: threads share all packs of all rows
//   Tiled      nothing is folded, and something is read along the rows (a transpose): a block takes a tile of 32 × 32, through
//              shared memory, so that neighbouring threads read neighbouring elements there too
//   Rows       folds along the columns: the threads of a row are part of a block, or a block, and walk over its columns
//              together. Up to 16 K columns every element is read once and stays in registers over all passes (persistent);
//              up to what shared memory takes, 56 K columns of float, it stays there (held)
//   Split      the same with few long rows: a block takes 32768 columns; the last to finish a row folds what all left
//   Outer      folds along the rows: a block takes a tile of columns and eight blocks of rows or more; the last to finish a
//              tile folds what all left
//   RowsOuter  both in one pass: blocks of rows as in Outer, rows as in Rows, columns' sums in registers
//   RowsThenOuter  both, where a row does not fit in registers: Rows, then Outer with the values of the rows' folds
// What is known only after all rows (Values, After) comes in launches that follow. Bodies of one step share launches.
//
// Note [Reduction tree on CUDA]
// A function of the sizes of the loops alone, so that an op by itself and a fused kernel give the same bits.
//  - inner, n columns: L lanes, the power of two from n / 16 on, 512 at most, with four accumulators each, fold blocks of
//    32768 columns. If 4 divides n, element 4 (j + k L) + e of a block goes to accumulator e of lane j, else element
//    j + (4 k + e) L, k in order, from the identity. Then (a0 + a1) + (a2 + a3); then lanes two by two, four by four and so
//    on. The values of several blocks are folded as a row of their own.
//  - outer, n rows: serially in blocks of S rows; eight neighbouring blocks as ((0+1)+(2+3))+((4+5)+(6+7)); these eights go
//    to slot q % 8, in order, from the identity, and the slots likewise. S is the power of two up to n / 256, but 8 to 32, or
//    n / 2048 where that is more.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/loops/loop_body.h"

namespace weft::compiler {

struct CudaTarget {
  int major = 9, minor = 0;
  int sms = 132;
};

// What a text depends on beside the body: sizes and addresses choose it at a launch.
struct CudaVariant {
  enum class Class : uint8_t { Flat, Tiled, Rows, RowsOuter, RowsThenOuter, Outer, Split };
  Class kind = Class::Flat;
  bool is_wide = false;        // indices take 64 bits
  bool is_persistent = false;  // Rows, RowsOuter
  // Rows that are too long for registers, RowsOuter: a block has a row in shared memory, and asks for the next one meanwhile.
  bool is_held = false;
  bool has_tail = false;      // columns are no multiple of the vector
  uint8_t vector = 1;         // elements of a pack
  uint8_t packs = 1;          // of a thread at once; of a row where it is persistent
  std::vector<bool> aligned;  // by source, then by store: its packs are
  friend bool operator==(const CudaVariant&, const CudaVariant&) = default;
};

// A launch of the text.
struct CudaKernel {
  std::string entry;
  int max_threads = 0;  // of a block
};

struct CudaCode {
  std::string text;
  std::vector<CudaKernel> kernels;  // in the order of their launches
};

// A kernel has one parameter, made of 8-byte words: the addresses of the buffers of all bodies, their numbers, their sizes; the
// error record, scratch memory, counters; then for each body what the launch says: CudaWord of cuda_stages.h, and where its
// scratch memory begins, in bytes (of counters: in counters).
CudaCode generate_cuda(std::span<const LoopBody* const> bodies, std::span<const CudaVariant> variants,
                       const CudaTarget& target);
// For the sizes that were traced, and aligned buffers.
CudaCode generate_cuda(std::span<const LoopBody* const> bodies, const CudaTarget& target);

}  // namespace weft::compiler
