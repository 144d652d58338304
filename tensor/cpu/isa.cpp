// Asks the processor once.
#include "tensor/cpu/isa.h"

#include <cstdlib>
#include <string>

#include "tensor/base/error.h"

namespace weft::cpu {
namespace {

bool has(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::SSE4: return __builtin_cpu_supports("sse4.2");
    case Isa::AVX2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2");
    case Isa::AVX512:
      return has(Isa::AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd");
  }
  return false;
}

Isa choose() {
  WEFT_CHECK(has(Isa::SSE4),
             "weft: this processor lacks SSE4.2, the least instruction set that the kernels need");
  if (const char* forced = std::getenv("WEFT_ISA"); forced != nullptr && *forced != '\0') {
    for (Isa isa : {Isa::SSE4, Isa::AVX2, Isa::AVX512}) {
      if (std::string(forced) != name_of(isa)) continue;
      WEFT_CHECK(has(isa), "WEFT_ISA=", forced, ": this processor does not have it");
      return isa;
    }
    detail::throw_error(detail::concat("WEFT_ISA=", forced, ": unknown; it takes sse4, avx2 or avx512"));
  }
  return has(Isa::AVX512) ? Isa::AVX512 : has(Isa::AVX2) ? Isa::AVX2 : Isa::SSE4;
}

}  // namespace

Isa current_isa() {
  static const Isa isa = choose();
  return isa;
}

const char* name_of(Isa isa) { return isa == Isa::AVX512 ? "avx512" : isa == Isa::AVX2 ? "avx2" : "sse4"; }

}  // namespace weft::cpu
