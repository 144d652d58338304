// DeviceErrors: the error records of kernels on a GPU, in its memory, looked at whenever the GPU has been waited for.
// Needs loops/kernel_call and tensor/cuda. Launch plans take a record for each kernel that checks something.
#pragma once

#include <functional>
#include <memory>

#include "compiler/loops/kernel_call.h"

namespace weft::compiler {

// One record of a device, as long as it lives. What the kernel reports is thrown by the first wait after it: item(), a copy
// to the host, synchronize().
class DeviceError {
 public:
  // `fail` throws what the record says.
  DeviceError(int device, std::function<void(const KernelError&)> fail);
  ~DeviceError();
  DeviceError(const DeviceError&) = delete;
  DeviceError& operator=(const DeviceError&) = delete;

  // In the memory of the device. A kernel is about to be launched that may set it.
  KernelError* for_launch() const;

 private:
  int device_;
  size_t slot_;
};

}  // namespace weft::compiler
