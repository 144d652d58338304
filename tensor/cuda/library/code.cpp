// Compiling text by NVRTC, loading cubins, launching kernels.
// Place: part of libweft_cuda.so.
#include <nvrtc.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/cuda/library/library.h"

namespace weft::cuda {
namespace {

struct Nvrtc {
  decltype(&nvrtcCreateProgram) create_program;
  decltype(&nvrtcDestroyProgram) destroy_program;
  decltype(&nvrtcCompileProgram) compile_program;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetErrorString) error_string;
  bool is_there;
};

template <class F>
bool find(F& function, const char* symbol) {
  function = reinterpret_cast<F>(find_in("nvrtc", CUDART_VERSION / 1000, symbol));
  return function != nullptr;
}

const Nvrtc& nvrtc() {
  static const Nvrtc found = [] {
    Nvrtc n{};
    n.is_there = find(n.create_program, "nvrtcCreateProgram") &&
                 find(n.destroy_program, "nvrtcDestroyProgram") &&
                 find(n.compile_program, "nvrtcCompileProgram") && find(n.cubin_size, "nvrtcGetCUBINSize") &&
                 find(n.cubin, "nvrtcGetCUBIN") && find(n.log_size, "nvrtcGetProgramLogSize") &&
                 find(n.log, "nvrtcGetProgramLog") && find(n.error_string, "nvrtcGetErrorString");
    return n;
  }();
  return found;
}

char* own_copy(const char* text) {
  const size_t bytes = std::strlen(text) + 1;
  auto* const copy = static_cast<char*>(std::malloc(bytes));
  if (copy != nullptr) std::memcpy(copy, text, bytes);
  return copy;
}

Status compile(const char* text, const char* name, const char* architecture, const char* const* options,
               int num_options, CompiledCode* code) {
  *code = {};
  const Nvrtc& n = nvrtc();
  if (!n.is_there) return fail("compile", "NVRTC of the CUDA Toolkit cannot be loaded");
  nvrtcProgram program = nullptr;
  nvrtcResult result = n.create_program(&program, text, name, 0, nullptr, nullptr);
  if (result != NVRTC_SUCCESS) return fail("nvrtcCreateProgram", n.error_string(result));
  const std::string target = std::string("--gpu-architecture=") + architecture;
  std::vector<const char*> all(options, options + num_options);
  all.push_back(target.c_str());
  result = n.compile_program(program, static_cast<int>(all.size()), all.data());
  size_t bytes = 0;
  if (n.log_size(program, &bytes) == NVRTC_SUCCESS && bytes > 0) {
    code->log = static_cast<char*>(std::malloc(bytes));
    if (code->log != nullptr) n.log(program, code->log);
  }
  if (code->log == nullptr) code->log = own_copy("");
  Status status = Status::Ok;
  if (result != NVRTC_SUCCESS) {
    status = fail("nvrtcCompileProgram", n.error_string(result));
  } else if ((result = n.cubin_size(program, &bytes)) != NVRTC_SUCCESS || bytes == 0) {
    status = fail("nvrtcGetCUBINSize", n.error_string(result));
  } else {
    code->cubin = static_cast<char*>(std::malloc(bytes));
    code->cubin_bytes = bytes;
    if (code->cubin == nullptr) status = fail("compile", "no memory on the host", Status::OutOfMemory);
    else n.cubin(program, code->cubin);
  }
  n.destroy_program(&program);
  return status;
}

void release(void* memory) { std::free(memory); }

Status load_module(Module* module, const void* cubin) {
  return WEFT_CUDA(cudaLibraryLoadData, reinterpret_cast<cudaLibrary_t*>(module), cubin, nullptr, nullptr, 0,
                   nullptr, nullptr, 0);
}
Status unload_module(Module module) {
  return WEFT_CUDA(cudaLibraryUnload, reinterpret_cast<cudaLibrary_t>(module));
}
Status get_function(Function* function, Module module, const char* name) {
  return WEFT_CUDA(cudaLibraryGetKernel, reinterpret_cast<cudaKernel_t*>(function),
                   reinterpret_cast<cudaLibrary_t>(module), name);
}

Status set_max_shared(Function function, size_t bytes) {
  int device = 0;
  if (const Status status = WEFT_CUDA(cudaGetDevice, &device); status != Status::Ok) return status;
  return WEFT_CUDA(cudaKernelSetAttributeForDevice, kernel_of(function),
                   cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes), device);
}

Status launch(Function function, const LaunchConfig* config, void** parameters, Stream stream) {
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (config->cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {config->cluster, 1, 1};
    ++count;
  }
  if (config->is_dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t given{};
  given.gridDim = dim3(config->grid[0], config->grid[1], config->grid[2]);
  given.blockDim = dim3(config->block[0], config->block[1], config->block[2]);
  given.dynamicSmemBytes = config->shared_bytes;
  given.stream = reinterpret_cast<cudaStream_t>(stream);
  given.attrs = attributes;
  given.numAttrs = count;
  return WEFT_CUDA(cudaLaunchKernelExC, &given, reinterpret_cast<const void*>(function), parameters);
}

}  // namespace

cudaKernel_t kernel_of(Function function) { return reinterpret_cast<cudaKernel_t>(function); }

void fill_code(Driver& driver) {
  driver.compile = compile;
  driver.release = release;
  driver.load_module = load_module;
  driver.unload_module = unload_module;
  driver.get_function = get_function;
  driver.set_max_shared = set_max_shared;
  driver.launch = launch;
}

}  // namespace weft::cuda
