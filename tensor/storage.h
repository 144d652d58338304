// Storage: the bytes that a tensor and all its views share, with the version that in-place writes bump.
// Needs device, base/intrusive and the allocator.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "tensor/base/intrusive.h"
#include "tensor/device.h"

namespace weft {

class Op;

class Storage : public RefCounted<Storage> {
 public:
  // Uninitialised memory of the device's caching allocator.
  static Intrusive<Storage> allocate(size_t bytes, Device device);
  // Memory of somebody else, released by the deleter (which may be empty) when the last tensor goes.
  static Intrusive<Storage> wrap(void* data, size_t bytes, Device device, std::function<void(void*)> deleter);

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  // Memory of somebody else: another storage may wrap the same.
  bool is_wrapped() const { return deleter_ != nullptr; }

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  // Who wrote last in place; null if nobody has.
  const Op* last_writer() const { return last_writer_; }
  SourceLocation last_write() const { return last_write_; }
  void bump_version(const Op& writer, SourceLocation where) {
    version_.fetch_add(1, std::memory_order_relaxed);
    last_writer_ = &writer;
    last_write_ = where;
  }

  static void destroy(Storage* storage) noexcept;
  static void* operator new(size_t bytes);
  static void operator delete(void* memory, size_t bytes);

 private:
  Storage(void* data, size_t bytes, Device device) : data_(data), bytes_(bytes), device_(device) {}

  void* data_;
  size_t bytes_;
  Device device_;
  std::atomic<uint32_t> version_{0};
  const Op* last_writer_ = nullptr;
  SourceLocation last_write_;
  std::unique_ptr<std::function<void(void*)>> deleter_;  // null for memory of the allocator
};

}  // namespace weft
