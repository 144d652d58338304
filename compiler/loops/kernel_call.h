// How a kernel of a plan is called, be it interpreted or generated: pointers and 8-byte slots, as code without headers has it.
// Needs the standard library only. Interpreter, code generators and launch plans agree on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::compiler {

// The first failed check of a plan. Generated code declares the same fields.
struct KernelError {
  int32_t check = 0;  // 0: none; else one more than its place in LoopBody::checks
  int64_t value = 0;  // the index that lay outside [-size, size)
  int64_t size = 0;
  int64_t element = 0;  // (batch * rows + row) * columns + column
};
static_assert(sizeof(KernelError) == 32 && offsetof(KernelError, value) == 8);

// Sets the record unless it is set: the first to change `check` from 0 writes the rest, which is read after the kernel.
inline void set_error(KernelError& error, uint32_t check, int64_t value, int64_t size, int64_t element) {
  int32_t none = 0;
  if (!std::atomic_ref(error.check).compare_exchange_strong(none, static_cast<int32_t>(check) + 1)) return;
  error.value = value;
  error.size = size;
  error.element = element;
}

// buffers: by LoopBody::buffers, the address of element 0 of each.
// numbers: by LoopBody::numbers, the value in the parameter's dtype in the low bytes of its slot.
// sizes:   by LoopBody::size_symbols.
// threads: the most that it may use. The result does not depend on it.
// A kernel that reads and writes one buffer returns at once if the record is set already.
using KernelFunction = void (*)(void* const* buffers, const uint64_t* numbers, const int64_t* sizes,
                                KernelError* error, int threads);

}  // namespace weft::compiler
