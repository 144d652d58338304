// The vector vocabulary of generated CPU code: sixteen lanes on every instruction set, as header-free C++ text.
// Needs isa. The printer writes names of it; definitions_for() gives what a text uses, and nothing else.
//
// Note [Names of the vocabulary]
// Types: f32 f64 i32 i64 are sixteen lanes, m32 and m64 sixteen truth values for elements of that width. A type is a
// vector of the compiler's where one register holds it, else a struct of registers with the same operators. f32x8 and its
// like have another number of lanes: pieces on which math functions work (print_vector.h), and registers themselves.
// Functions: w_<what>_<type>. Every one gives the bits of the Vec function of its name (tensor/cpu/vec*.h):
//   w_splat_f32(x)  w_where_f32(m, a, b)  w_lt_f32(a, b)  w_fma_f32(a, b, c)  w_minimum_f32(a, b) …
//   w_f64_of_i32(a)            cast<double>(Vec<int32_t>);    w_as_i32(f32)  bits;    w_to_i32(f32)  to_int()
//   w_load_bf16(p, n)          the first n <= 16 elements from p on, the other lanes 0; compute type, or a mask for bool
//   w_store_bf16(p, a, n)      the first n lanes
//   w_reduce_sum_f32(a)        lane 0 holds the fold of all lanes by the tree of reduce() (vec.h)
//   w_first_m32(n)             lanes below n;   w_bits_m32(m)  lane l as bit l
// The text asks for -fwrapv -ffp-contract=off -fno-math-errno and the flags of its instruction set.
#pragma once

#include <string>
#include <string_view>

#include "tensor/base/dtype.h"
#include "tensor/cpu/isa.h"
#include "tensor/cpu/reduce.h"

namespace weft::compiler {

// What generated CPU code is printed for.
struct CpuTarget {
  cpu::Isa isa = cpu::Isa::SSE4;
  static CpuTarget current() { return {cpu::current_isa()}; }
};

inline constexpr int kCpuLanes = 16;

// Lanes of one register, for elements of this many bytes.
int register_lanes(CpuTarget target, size_t element_bytes);

// "x8", or nothing for all sixteen lanes.
std::string lanes_suffix(int lanes);

// The definitions of every name of the vocabulary that occurs in `text`, each after what it needs.
std::string definitions_for(CpuTarget target, std::string_view text);

// The C++ type in which memory holds elements of a dtype: halves and bool as unsigned integers.
const char* element_type(DType dtype);
// How loads and stores of a dtype are called: "bf16", "bool".
std::string element_name(DType dtype);
// Two values of a vector type, folded.
std::string fold_text(std::string_view fold, std::string_view type, const std::string& a,
                      const std::string& b);

}  // namespace weft::compiler
