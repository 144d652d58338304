// The current device and stream of each thread, waiting for them, and what a device is.
// Needs driver. The allocator and everything that launches stand on it.
#pragma once

#include "tensor/cuda/driver.h"

namespace weft::cuda {

// ---- Devices. Each thread has a current one, 0 at first.
int current_device();
// Error if there is no such device.
void set_device(int device);
// Asked for once for each device.
const DeviceProperties& properties_of(int device);

// Makes a device current until the end of the scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : before_(current_device()) {
    if (device != before_) set_device(device);
  }
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

// ---- Streams. Each thread has a current one on each device: the default stream at first.
Stream current_stream(int device);
inline Stream current_stream() { return current_stream(current_device()); }
// A stream of the device beside the default one, taken in turn from a few that are never destroyed.
Stream stream_from_pool(int device, bool high_priority = false);

// Makes a stream of the device current until the end of the scope. What runs on two streams has no order but that of
// events: a tensor that was made on one is read on another only after wait_event(), and record_use() keeps its memory.
class StreamGuard {
 public:
  StreamGuard(int device, Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  int device_;
  Stream before_;
};

// ---- Waiting
// Waits for all work of a device, or of its current stream. Errors: what the work ran into, such as an index out of range.
void synchronize_device(int device);
void synchronize_stream(int device);
// Copies to the host and waits for it.
void copy_to_host(void* to, const void* from, size_t bytes, int device);

// What is looked at whenever the work of a device has been waited for; may throw. Set once.
void set_synchronize_check(void (*check)(int device));

}  // namespace weft::cuda
