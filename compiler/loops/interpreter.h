// Interpreter: runs a loop body on the tile kernels of this processor, with the results that generated code has.
// Needs loop_body and kernel_call. The reference, the fallback without a compiler and the first tier of compiled functions.
#pragma once

#include <memory>

#include "compiler/loops/kernel_call.h"
#include "compiler/loops/loop_body.h"

namespace weft::compiler {

// Bytes that the loads and stores of a kernel touch in one buffer.
struct BufferTraffic {
  int64_t loaded = 0, stored = 0;                    // each element of a tile once for each load or store
  int64_t distinct_loaded = 0, distinct_stored = 0;  // each element once
};

class Interpreter {
 public:
  // Adds expressions to the body's table; the body itself is not kept.
  explicit Interpreter(const LoopBody& body);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  // As a KernelFunction is called. Any number of threads may run one interpreter at the same time.
  void run(void* const* buffers, const uint64_t* numbers, const int64_t* sizes, KernelError* error,
           int threads) const;
  // Runs it on this thread, and says what it touched, by buffer.
  std::vector<BufferTraffic> count_traffic(void* const* buffers, const uint64_t* numbers,
                                           const int64_t* sizes, KernelError* error) const;

 private:
  struct Kernel;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace weft::compiler
