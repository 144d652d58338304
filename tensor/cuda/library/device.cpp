// The entry point of libweft_cuda.so, and devices, memory, streams and events.
// Place: part of libweft_cuda.so.
#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <string>

#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

thread_local std::string last_error_text;

cudaStream_t in(Stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t in(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

const char* last_error() { return last_error_text.c_str(); }

const char* why_no_gpu() {
  static const std::string reason = [] {
    int driver = 0, count = 0;
    const cudaError_t known = cudaDriverGetVersion(&driver);
    if (known != cudaSuccess || driver == 0)
      return std::string("cuda: there is no NVIDIA driver on this machine; install one, or stay on the CPU");
    const cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
      return "cuda: the NVIDIA driver is made for CUDA " + std::to_string(driver / 1000) + "." +
             std::to_string(driver % 1000 / 10) + ", older than the toolkit's " +
             std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
             "; install a newer driver";
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
      return std::string(
          "cuda: there is no NVIDIA GPU that this process may use; see nvidia-smi and CUDA_VISIBLE_DEVICES, "
          "or "
          "stay on the CPU");
    if (error != cudaSuccess)
      return std::string("cuda: the NVIDIA driver does not start: ") + cudaGetErrorString(error);
    return std::string();
  }();
  return reason.empty() ? nullptr : reason.c_str();
}

int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}
int toolkit_version() { return CUDART_VERSION; }

Status device_count(int* count) {
  if (why_no_gpu() != nullptr) {
    *count = 0;
    return Status::Ok;
  }
  return WEFT_CUDA(cudaGetDeviceCount, count);
}

Status get_device(int* device) { return WEFT_CUDA(cudaGetDevice, device); }
Status set_device(int device) { return WEFT_CUDA(cudaSetDevice, device); }
Status synchronize() { return WEFT_CUDA(cudaDeviceSynchronize); }

Status device_properties(int device, DeviceProperties* properties) {
  cudaDeviceProp found;
  if (const Status status = WEFT_CUDA(cudaGetDeviceProperties, &found, device); status != Status::Ok)
    return status;
  *properties = {};
  static_assert(sizeof(properties->name) == sizeof(found.name));
  std::memcpy(properties->name, found.name, sizeof(properties->name));
  properties->compute_major = found.major;
  properties->compute_minor = found.minor;
  properties->num_sms = found.multiProcessorCount;
  properties->threads_per_sm = found.maxThreadsPerMultiProcessor;
  properties->threads_per_block = found.maxThreadsPerBlock;
  properties->registers_per_sm = found.regsPerMultiprocessor;
  properties->shared_per_sm = found.sharedMemPerMultiprocessor;
  properties->shared_per_block = found.sharedMemPerBlockOptin;
  properties->l2_bytes = static_cast<size_t>(found.l2CacheSize);
  properties->memory_bytes = found.totalGlobalMem;
  return Status::Ok;
}

Status allocate(void** memory, size_t bytes) { return WEFT_CUDA(cudaMalloc, memory, bytes); }
Status free_memory(void* memory) { return WEFT_CUDA(cudaFree, memory); }
Status allocate_pinned(void** memory, size_t bytes) {
  return WEFT_CUDA(cudaHostAlloc, memory, bytes, cudaHostAllocPortable);
}
Status free_pinned(void* memory) { return WEFT_CUDA(cudaFreeHost, memory); }
Status memory_info(size_t* free_bytes, size_t* total_bytes) {
  return WEFT_CUDA(cudaMemGetInfo, free_bytes, total_bytes);
}

Status copy(void* to, const void* from, size_t bytes, CopyKind kind, Stream stream) {
  constexpr cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                      cudaMemcpyDeviceToDevice};
  return WEFT_CUDA(cudaMemcpyAsync, to, from, bytes, kinds[static_cast<int>(kind)], in(stream));
}
Status copy_peer(void* to, int to_device, const void* from, int from_device, size_t bytes, Stream stream) {
  return WEFT_CUDA(cudaMemcpyPeerAsync, to, to_device, from, from_device, bytes, in(stream));
}
Status set_memory(void* memory, int value, size_t bytes, Stream stream) {
  return WEFT_CUDA(cudaMemsetAsync, memory, value, bytes, in(stream));
}

Status create_stream(Stream* stream, bool high_priority) {
  int lowest = 0, highest = 0;
  if (const Status status = WEFT_CUDA(cudaDeviceGetStreamPriorityRange, &lowest, &highest);
      status != Status::Ok)
    return status;
  return WEFT_CUDA(cudaStreamCreateWithPriority, reinterpret_cast<cudaStream_t*>(stream),
                   cudaStreamNonBlocking, high_priority ? highest : lowest);
}
Status destroy_stream(Stream stream) { return WEFT_CUDA(cudaStreamDestroy, in(stream)); }
Status synchronize_stream(Stream stream) { return WEFT_CUDA(cudaStreamSynchronize, in(stream)); }
Status query_stream(Stream stream) { return WEFT_CUDA(cudaStreamQuery, in(stream)); }
Status create_event(Event* event, bool timing) {
  return WEFT_CUDA(cudaEventCreateWithFlags, reinterpret_cast<cudaEvent_t*>(event),
                   timing ? cudaEventDefault : cudaEventDisableTiming);
}
Status destroy_event(Event event) { return WEFT_CUDA(cudaEventDestroy, in(event)); }
Status record_event(Event event, Stream stream) { return WEFT_CUDA(cudaEventRecord, in(event), in(stream)); }
Status wait_event(Stream stream, Event event) {
  return WEFT_CUDA(cudaStreamWaitEvent, in(stream), in(event), 0);
}
Status synchronize_event(Event event) { return WEFT_CUDA(cudaEventSynchronize, in(event)); }
Status query_event(Event event) { return WEFT_CUDA(cudaEventQuery, in(event)); }
Status elapsed(float* milliseconds, Event start, Event stop) {
  return WEFT_CUDA(cudaEventElapsedTime, milliseconds, in(start), in(stop));
}

}  // namespace

Status fail(const char* call, const char* reason, Status status) {
  last_error_text = std::string(call) + ": " + reason;
  return status;
}

Status keep(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status::Ok;
  cudaGetLastError();
  if (error == cudaErrorNotReady) return Status::NotReady;
  return fail(call, cudaGetErrorString(error),
              error == cudaErrorMemoryAllocation ? Status::OutOfMemory : Status::Failed);
}

void* find_in(const char* library, int version, const char* symbol) {
  static std::mutex mutex;
  struct Opened {
    std::string name;
    void* handle;
  };
  static Opened opened[2];  // NVRTC and cuBLASLt
  const std::string file = std::string("lib") + library + ".so." + std::to_string(version);
  const std::lock_guard lock(mutex);
  for (Opened& each : opened) {
    if (!each.name.empty() && each.name != library) continue;
    if (each.handle == nullptr) {
      // Where this library's RUNPATH and the system look, then where the toolkit usually stands.
      for (const std::string& path : {file, "/usr/local/cuda/lib64/" + file}) {
        each.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (each.handle != nullptr) break;
      }
    }
    if (each.handle == nullptr) {
      const char* const reason = dlerror();
      fail(file.c_str(), reason != nullptr ? reason : "is not there");
      return nullptr;
    }
    each.name = library;
    void* const found = dlsym(each.handle, symbol);
    if (found == nullptr) fail(symbol, (file + " has no such function").c_str());
    return found;
  }
  return nullptr;
}

void fill_device(Driver& driver) {
  driver.last_error = last_error;
  driver.why_unavailable = why_no_gpu;
  driver.driver_version = driver_version;
  driver.toolkit_version = toolkit_version;
  driver.device_count = device_count;
  driver.get_device = get_device;
  driver.set_device = set_device;
  driver.device_properties = device_properties;
  driver.synchronize = synchronize;
  driver.allocate = allocate;
  driver.free = free_memory;
  driver.allocate_pinned = allocate_pinned;
  driver.free_pinned = free_pinned;
  driver.memory_info = memory_info;
  driver.copy = copy;
  driver.copy_peer = copy_peer;
  driver.memset = set_memory;
  driver.create_stream = create_stream;
  driver.destroy_stream = destroy_stream;
  driver.synchronize_stream = synchronize_stream;
  driver.query_stream = query_stream;
  driver.create_event = create_event;
  driver.destroy_event = destroy_event;
  driver.record_event = record_event;
  driver.wait_event = wait_event;
  driver.synchronize_event = synchronize_event;
  driver.query_event = query_event;
  driver.elapsed = elapsed;
}

}  // namespace weft::cuda

extern "C" __attribute__((visibility("default"))) const weft::cuda::Driver* weft_cuda_driver() {
  static const weft::cuda::Driver driver = [] {
    weft::cuda::Driver filled{};
    filled.version = weft::cuda::Driver::kVersion;
    filled.bytes = sizeof(weft::cuda::Driver);
    fill_device(filled);
    fill_code(filled);
    fill_matmul(filled);
    fill_graph(filled);
    fill_sort(filled);
    fill_scan(filled);
    fill_extreme(filled);
    return filled;
  }();
  return &driver;
}
