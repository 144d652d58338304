// What users ask of devices.
// Place: the out-of-line half of tensor/cuda/cuda.h.
#include "tensor/cuda/cuda.h"

namespace weft::cuda {
namespace {

int index_of(int64_t device) { return device < 0 ? current_device() : static_cast<int>(device); }

}  // namespace

int64_t device_count() {
  if (!is_available()) return 0;
  int count = 0;
  check(driver(), driver().device_count(&count), "device_count");
  return count;
}

std::string get_device_name(int64_t device) { return properties_of(index_of(device)).name; }

void synchronize(int64_t device) { synchronize_device(index_of(device)); }

MemoryStats memory_stats(int64_t device) { return allocator_of(index_of(device)).stats(); }
int64_t memory_allocated(int64_t device) { return memory_stats(device).allocated_bytes; }
int64_t max_memory_allocated(int64_t device) { return memory_stats(device).peak_allocated_bytes; }
int64_t memory_reserved(int64_t device) { return memory_stats(device).reserved_bytes; }
void reset_peak_memory_stats(int64_t device) { allocator_of(index_of(device)).reset_peak(); }

void empty_cache() {
  for (int64_t device = 0; device < device_count(); ++device)
    allocator_of(static_cast<int>(device)).empty_cache();
}

Timer::Timer() : device_(current_device()) {
  const Driver& d = driver();
  check(d, d.create_event(&start_, true), "making an event");
  check(d, d.create_event(&stop_, true), "making an event");
}
Timer::~Timer() {
  const Driver& d = *find_driver();
  if (start_ != nullptr) d.destroy_event(start_);
  if (stop_ != nullptr) d.destroy_event(stop_);
}
void Timer::start() {
  const Driver& d = driver();
  check(d, d.record_event(start_, current_stream(device_)), "starting a timer");
}
void Timer::stop() {
  const Driver& d = driver();
  check(d, d.record_event(stop_, current_stream(device_)), "stopping a timer");
}
float Timer::milliseconds() {
  const Driver& d = driver();
  float result = 0;
  check(d, d.synchronize_event(stop_), "reading a timer");
  check(d, d.elapsed(&result, start_, stop_), "reading a timer");
  return result;
}

}  // namespace weft::cuda
