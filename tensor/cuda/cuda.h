// cuda::is_available(), synchronize(), memory_stats() and their like, under the names of libtorch and torch.cuda.
// Needs allocator. Part of weft.h.
#pragma once

#include "tensor/cuda/allocator.h"

namespace weft::cuda {

// Whether a GPU can be used; why_unavailable() says why not.
inline bool is_available() { return why_unavailable().empty(); }
// 0 where none can be used.
int64_t device_count();
// -1 stands for the current device of the thread, here and below.
std::string get_device_name(int64_t device = -1);
// Waits for all work of the device. Errors: what it ran into.
void synchronize(int64_t device = -1);

MemoryStats memory_stats(int64_t device = -1);
// Bytes.
int64_t memory_allocated(int64_t device = -1);
int64_t max_memory_allocated(int64_t device = -1);
int64_t memory_reserved(int64_t device = -1);
void reset_peak_memory_stats(int64_t device = -1);
// Gives cached memory of all devices back to CUDA.
void empty_cache();

// The time between two points of the current stream, as the GPU counts it.
class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start();
  void stop();
  // Waits for stop().
  float milliseconds();

 private:
  int device_;
  Event start_ = nullptr, stop_ = nullptr;
};

}  // namespace weft::cuda
