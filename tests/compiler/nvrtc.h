// NVRTC as it lies on this machine, for tests that compile generated CUDA code. Needs no GPU; where there is none, tests skip.
// For tests of the CUDA code generator; loaded by name, so that nothing of CUDA is needed to build them.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace weft::compiler::tests {

class Nvrtc {
 public:
  static const Nvrtc& instance() {
    static const Nvrtc nvrtc;
    return nvrtc;
  }
  bool is_there() const { return library_ != nullptr; }

  // Machine code for sm_90, or nothing with what the compiler says in `log`; or PTX, which takes NVRTC half the time.
  enum class Make : uint8_t { Cubin, Ptx };
  std::string compile(const std::string& text, const std::vector<const char*>& options, std::string& log,
                      Make make = Make::Cubin) const {
    void* program = nullptr;
    function<int(void**, const char*, const char*, int, void*, void*)>("nvrtcCreateProgram")(
        &program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
    std::vector<const char*> all = {make == Make::Cubin ? "-arch=sm_90" : "-arch=compute_90"};
    all.insert(all.end(), options.begin(), options.end());
    const int status = function<int(void*, int, const char* const*)>("nvrtcCompileProgram")(
        program, static_cast<int>(all.size()), all.data());
    log = part(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
    std::string code;
    if (status == 0)
      code = make == Make::Cubin ? part(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
                                 : part(program, "nvrtcGetPTXSize", "nvrtcGetPTX");
    function<int(void**)>("nvrtcDestroyProgram")(&program);
    return code;
  }

 private:
  Nvrtc() {
    for (const char* name :
         {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"})
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  std::string part(void* program, const char* size_name, const char* name) const {
    size_t size = 0;
    function<int(void*, size_t*)>(size_name)(program, &size);
    std::string bytes(size, '\0');
    function<int(void*, char*)>(name)(program, bytes.data());
    return bytes;
  }

  void* library_ = nullptr;
};

}  // namespace weft::compiler::tests
