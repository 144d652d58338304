// Workspace: memory of the current device that a call of a library works in.
// Needs allocator.
#pragma once

#include "tensor/cuda/allocator.h"

namespace weft::cuda {

// On the stream that is current. Given back at once at the end: what the stream does next comes after the call.
class Workspace {
 public:
  // `what` (kept as a pointer) names the owner in reports.
  Workspace(int device, size_t bytes, Stream stream, const char* what)
      : device_(device), memory_(allocator_of(device).allocate(bytes, stream, what)) {}
  ~Workspace() {
    if (memory_ != nullptr) allocator_of(device_).deallocate(memory_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* get() const { return memory_; }

 private:
  int device_;
  void* memory_;
};

}  // namespace weft::cuda
