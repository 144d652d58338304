// CudaProgram: one kernel step made callable on a GPU: its code for sizes as they come, and its launches.
// Needs cuda_codegen, tensor/cuda/driver and the disk cache. Launch plans and eager ops hold one for each kernel.
#pragma once

#include <memory>
#include <mutex>

#include "compiler/codegen/cuda_stages.h"
#include "compiler/loops/kernel_call.h"
#include "tensor/cuda/driver.h"

namespace weft::compiler {

// Machine code that is loaded; kernels of equal texts share it.
class CudaModule {
 public:
  explicit CudaModule(cuda::Module module) : module_(module) {}
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;
  cuda::Module get() const { return module_; }

 private:
  cuda::Module module_;
};

// The cubin of a text for an architecture, from the disk cache or by NVRTC. Needs no GPU.
// Errors: Error with the first lines of what the compiler says.
std::string compile_cuda(const std::string& text, const std::string& name, const CudaTarget& target);

// One explicit launch: what a node of a CUDA graph needs. The parameter's words: see generate_cuda().
struct CudaLaunch {
  cuda::Function function = nullptr;
  std::string entry;
  cuda::LaunchConfig config;
  std::vector<uint64_t> words;  // word k, for k below the number of buffers, is the address of buffer k
};

// Memory that a call needs beside its buffers.
struct CudaMemory {
  size_t scratch_bytes = 0;
  size_t counter_bytes = 0;  // zero before the first call; each call leaves them so
};

class CudaProgram {
 public:
  // The bodies of one step; they are copied. Code is made for the traced sizes at once, for others when they come.
  CudaProgram(std::span<const LoopBody* const> bodies, CudaTarget target);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  // That of the current device.
  static CudaTarget current_target();

  // As a KernelFunction is called, with buffers and error record on the device, on a stream of the current device. Several
  // threads may call it. Later calls with the same sizes cost a few comparisons and the launches.
  void run(void* const* buffers, const uint64_t* numbers, const int64_t* sizes, KernelError* device_error,
           cuda::Stream stream);

  // The launches of such a call, with memory that the caller keeps for it.
  std::vector<CudaLaunch> launches(void* const* buffers, const uint64_t* numbers, const int64_t* sizes,
                                   KernelError* device_error, void* scratch, void* counters);
  CudaMemory memory(void* const* buffers, const int64_t* sizes);

  // "kernel_softmax" and the text of the code for the traced sizes.
  const std::string& entry() const { return entry_; }
  const std::string& source() const { return *source_; }
  // Texts that were compiled, or found on disk: one for each variant that came.
  size_t num_variants() const { return codes_.size(); }

 private:
  struct Code;
  struct Case;
  const Case& find_case(void* const* buffers, const int64_t* sizes);
  std::shared_ptr<const Code> code_for(const std::vector<CudaVariant>& variants);
  struct StreamMemory;
  StreamMemory& memory_of(cuda::Stream stream, const Case& found);
  void fill(uint64_t* words, const Case& found, size_t launch, void* const* buffers, const uint64_t* numbers,
            const int64_t* sizes, KernelError* error, void* scratch, void* counters) const;

  CudaTarget target_;
  std::vector<std::unique_ptr<CudaBody>> bodies_;
  uint32_t num_buffers_ = 0, num_numbers_ = 0, num_sizes_ = 0;
  std::string entry_;
  std::shared_ptr<const std::string> source_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Code>> codes_;
  std::vector<std::unique_ptr<Case>> cases_;  // the latest first
  std::vector<std::unique_ptr<StreamMemory>> stream_memory_;
};

}  // namespace weft::compiler
