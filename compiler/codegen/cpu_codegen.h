// generate_cpu: loop bodies as one header-free C++ source with a kernel for each.
// Before: the bodies verify. After: each entry is a KernelFunction (loops/kernel_call.h) with the bits of the eager ops at any
// number of threads. Buffers that overlap are one param, or are read and written at the same element of the loops only.
// Here: after scheduling, before the system compiler.
//
// Note [A kernel on the CPU]
// The loops of Note [The loops of a kernel] (loops/loop_body.h), each value in the outermost one where it can be computed, all
// values as sixteen lanes (cpu_prelude.h). Which functions a kernel has:
//   no fold along the rows        NAME_rows(lines, columns): threads share the rows of all batches, or else the columns
//   a single row with folds       NAME_pass0, NAME_pass1, …: threads share blocks of 4096 columns, whose values are folded in
//                                 order in between
//   folds along the rows          NAME_block(batch, 64 rows, columns) gives the block's values; threads share columns where
//                                 rows need not be whole, else blocks; the blocks are then combined in order
//   anything after the rows       NAME_after(batch, columns)
// A value that two passes over the columns need is computed in both if that is cheap, else kept in a buffer of one row.
#pragma once

#include <span>

#include "compiler/codegen/cpu_prelude.h"
#include "compiler/loops/loop_body.h"

namespace weft::compiler {

struct CpuCode {
  std::string text;
  std::vector<std::string> entries;    // by body: names of extern "C" functions
  std::vector<std::string> functions;  // by body: the part of the text that is its own
};

// Whether threads that stand in a team already can share the kernel: given minus their number, each does its part of one
// loop nest.
bool can_be_shared_by_a_team(const LoopBody& body);

CpuCode generate_cpu(std::span<const LoopBody* const> bodies, CpuTarget target);
CpuCode generate_cpu(const LoopBody& body, CpuTarget target);

}  // namespace weft::compiler
