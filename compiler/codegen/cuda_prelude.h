// The vocabulary of generated CUDA code: elements in memory, packs of them, folds over lanes, as header-free text.
// Needs base. cuda_codegen puts it before the kernels; print_cuda writes names of it.
//
// Note [Names of the CUDA vocabulary]
// Values are scalars: float (also of half values), double, long, int (also of smaller integers within their range), bool.
// Elements in memory have types of their own: float double long int short i8 u8 bf16 f16 w_bool.
//   w_pack<T, V>         V neighbours of memory in registers, as words;  w_get(pack, e)  w_put(pack, e, value)
//   w_pair<T>            arithmetic of two neighbouring halves in a word: both, get, mul, add, sub
//   w_load, w_store      a pack from or to memory, by 16 bytes where it is aligned; of the last pack n elements only
//   w_one(p) w_set(p, x) one element
//   w_sum w_prod w_max w_min    folds: F::of(a, b) and F::none<T>(), the identity
//   w_fold_lanes<F>(x, threads, shared)   over the threads of a row, by Note [Reduction tree on CUDA]
//   w_index(i, size, …)  a computed index, checked
// Index arithmetic is in w_int: int where the sizes allow it, else long.
#pragma once

#include <string>

#include "tensor/base/dtype.h"
#include "tensor/cpu/reduce.h"

namespace weft::compiler {

// The prelude. w_int is defined before it.
const char* cuda_prelude();
// Part of it that few kernels need: random words, atomic additions to elements.
const char* cuda_random_prelude();
const char* cuda_atomic_prelude();
// Folds of arrays that earlier blocks or kernels left in scratch memory.
const char* cuda_array_prelude();

// The type of an element in memory, and of a value in a register.
const char* cuda_element(DType dtype);
const char* cuda_type(DType dtype);
// "w_sum"
std::string cuda_fold(cpu::Fold fold);

}  // namespace weft::compiler
