// Which instruction set the kernels of this process use, and how a file compiled once per set is chosen from.
// Needs nothing of Weft. WEFT_ISA=sse4|avx2|avx512 forces a set that the processor has.
#pragma once

namespace weft::cpu {

enum class Isa { SSE4, AVX2, AVX512 };

// The best set of this processor, or the forced one. Throws Error if WEFT_ISA names a set that it lacks.
Isa current_isa();
const char* name_of(Isa isa);

// Declares `Result function()`: a *.isa.cpp file defines it inside its inline namespace, once per set; everywhere else
// the call goes to the set in use.
#ifdef WEFT_ISA_NAMESPACE
#  define WEFT_PER_ISA(Result, function)  \
    inline namespace WEFT_ISA_NAMESPACE { \
    Result function();                    \
    }
#else
#  define WEFT_PER_ISA(Result, function)                 \
    namespace isa_sse4 {                                 \
    Result function();                                   \
    }                                                    \
    namespace isa_avx2 {                                 \
    Result function();                                   \
    }                                                    \
    namespace isa_avx512 {                               \
    Result function();                                   \
    }                                                    \
    inline Result function() {                           \
      switch (current_isa()) {                           \
        case Isa::AVX512: return isa_avx512::function(); \
        case Isa::AVX2: return isa_avx2::function();     \
        case Isa::SSE4: break;                           \
      }                                                  \
      return isa_sse4::function();                       \
    }
#endif

}  // namespace weft::cpu
