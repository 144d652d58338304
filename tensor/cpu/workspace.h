// Workspace: scratch memory of a kernel, from the caching allocator, given back at the end of its scope.
// Needs allocator.
#pragma once

#include "tensor/allocator.h"

namespace weft::cpu {

class Workspace {
 public:
  // Uninitialised, aligned to 64 bytes.
  explicit Workspace(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), data_(static_cast<char*>(allocate(bytes_))) {}
  ~Workspace() { deallocate(data_, bytes_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  char* get() const { return data_; }

 private:
  size_t bytes_;
  char* data_;
};

}  // namespace weft::cpu
