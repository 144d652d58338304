// Devices and streams by thread.
// Place: the out-of-line half of tensor/cuda/context.h.
#include "tensor/cuda/context.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::cuda {
namespace {

constexpr int kMostDevices = 64;

// The driver's own notion is set at the first use in each thread, and by set_device() alone afterwards.
thread_local int device_of_thread = 0;
thread_local std::array<Stream, kMostDevices> streams_of_thread{};
std::atomic<void (*)(int)> synchronize_check{nullptr};

void run_check(int device) {
  if (void (*const check)(int) = synchronize_check.load(std::memory_order_acquire)) check(device);
}

}  // namespace

int current_device() { return device_of_thread; }

void set_device(int device) {
  const Driver& d = driver();
  int count = 0;
  check(d, d.device_count(&count), "set_device");
  WEFT_CHECK(device >= 0 && device < count && device < kMostDevices, "cuda: there is no device cuda:", device,
             "; this machine has ", count, count == 1 ? " GPU, cuda:0" : " GPUs, counted from 0");
  check(d, d.set_device(device), "set_device");
  device_of_thread = device;
}

DeviceGuard::~DeviceGuard() {
  if (device_of_thread == before_) return;
  const Driver& d = *find_driver();
  if (d.set_device(before_) == Status::Ok) device_of_thread = before_;
}

const DeviceProperties& properties_of(int device) {
  static std::mutex mutex;
  static auto& known = *new std::array<std::unique_ptr<DeviceProperties>, kMostDevices>;
  WEFT_CHECK(device >= 0 && device < kMostDevices, "cuda: there is no device cuda:", device);
  const std::lock_guard lock(mutex);
  std::unique_ptr<DeviceProperties>& properties = known[static_cast<size_t>(device)];
  if (properties == nullptr) {
    const Driver& d = driver();
    auto asked = std::make_unique<DeviceProperties>();
    check(d, d.device_properties(device, asked.get()), "properties of a device");
    properties = std::move(asked);
  }
  return *properties;
}

Stream current_stream(int device) { return streams_of_thread[static_cast<size_t>(device)]; }

Stream stream_from_pool(int device, bool high_priority) {
  constexpr size_t kStreams = 16;
  struct Pool {
    std::array<Stream, kStreams> streams{};
    size_t next = 0;
  };
  static std::mutex mutex;
  static auto& pools = *new std::array<std::array<Pool, 2>, kMostDevices>;
  const DeviceGuard guard(device);
  const Driver& d = driver();
  const std::lock_guard lock(mutex);
  Pool& pool = pools[static_cast<size_t>(device)][high_priority ? 1 : 0];
  Stream& stream = pool.streams[pool.next++ % kStreams];
  if (stream == nullptr) check(d, d.create_stream(&stream, high_priority), "making a stream");
  return stream;
}

StreamGuard::StreamGuard(int device, Stream stream) : device_(device), before_(current_stream(device)) {
  streams_of_thread[static_cast<size_t>(device)] = stream;
}
StreamGuard::~StreamGuard() { streams_of_thread[static_cast<size_t>(device_)] = before_; }

void synchronize_device(int device) {
  const Driver& d = driver();
  const DeviceGuard guard(device);
  check(d, d.synchronize(), "synchronize");
  run_check(device);
}

void synchronize_stream(int device) {
  const Driver& d = driver();
  const DeviceGuard guard(device);
  check(d, d.synchronize_stream(current_stream(device)), "synchronize");
  run_check(device);
}

void copy_to_host(void* to, const void* from, size_t bytes, int device) {
  const Driver& d = driver();
  const DeviceGuard guard(device);
  const Stream stream = current_stream(device);
  if (bytes > 0) check(d, d.copy(to, from, bytes, CopyKind::DeviceToHost, stream), "copy to the host");
  check(d, d.synchronize_stream(stream), "copy to the host");
  run_check(device);
}

void set_synchronize_check(void (*check)(int)) { synchronize_check.store(check, std::memory_order_release); }

}  // namespace weft::cuda
