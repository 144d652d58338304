// Loop bodies written by hand, compiled together for each instruction set that this processor has, and run on tensors.
// For tests of the CPU code generator. Needs a C++ compiler on PATH; why_not says what is missing.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>

#include "compiler/codegen/cpu_codegen.h"
#include "compiler/loops/kernel_call.h"
#include "tensor/dispatch.h"
#include "tests/compiler/body_builder.h"
#include "tests/compiler/number_slot.h"

namespace weft::compiler::tests {

inline const std::string& system_compiler() {
  static const std::string found = [] {
    for (const char* name : {"c++", "g++", "clang++"})
      if (std::system((std::string("command -v ") + name + " >/dev/null 2>&1").c_str()) == 0)
        return std::string(name);
    return std::string();
  }();
  return found;
}

inline const char* flags_of(cpu::Isa isa) {
  switch (isa) {
    case cpu::Isa::AVX512:
      return "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mavx2 -mfma -mf16c -mbmi2 "
             "-mprefer-vector-width=512";
    case cpu::Isa::AVX2: return "-mavx2 -mfma -mf16c -mbmi2";
    case cpu::Isa::SSE4: break;
  }
  return "-msse4.2";
}

// The sets whose bits are those of the kernels in use. SSE4 code asks libm for its fma, so that it agrees as well.
inline std::vector<cpu::Isa> isas_to_test() {
  switch (cpu::current_isa()) {
    case cpu::Isa::AVX512: return {cpu::Isa::AVX512, cpu::Isa::AVX2};
    case cpu::Isa::AVX2: return {cpu::Isa::AVX2};
    case cpu::Isa::SSE4: break;
  }
  return {};
}

class CompiledBodies {
 public:
  explicit CompiledBodies(std::vector<cpu::Isa> isas = isas_to_test()) : isas_(std::move(isas)) {}
  CompiledBodies(const CompiledBodies&) = delete;

  BodyBuilder& add(const std::string& name) {
    builders_.emplace_back();
    builders_.back().body.name = name;
    return builders_.back();
  }

  // False, after a skip or a failure, where nothing can be run.
  bool compile() {
    if (isas_.empty() || system_compiler().empty()) return false;
    std::vector<const LoopBody*> bodies;
    for (BodyBuilder& builder : builders_) {
      verify(builder.body);
      bodies.push_back(&builder.body);
    }
    for (cpu::Isa isa : isas_) {
      const CpuCode code = generate_cpu(bodies, {isa});
      void* library = build(code.text, isa);
      if (library == nullptr) return false;
      functions_.emplace_back();
      for (const std::string& entry : code.entries) {
        functions_.back().push_back(reinterpret_cast<KernelFunction>(dlsym(library, entry.c_str())));
        if (functions_.back().back() == nullptr) ADD_FAILURE() << entry << " is not there";
      }
    }
    return !::testing::Test::HasFailure();
  }

  const std::vector<cpu::Isa>& isas() const { return isas_; }
  size_t size() const { return builders_.size(); }

  // Body k on the isa-th instruction set.
  KernelError run(size_t k, size_t isa, const std::vector<Tensor>& buffers,
                  const std::vector<int64_t>& sizes = {}, const std::vector<uint64_t>& numbers = {},
                  int threads = 1, KernelError error = {}) const {
    std::vector<void*> pointers;
    for (const Tensor& x : buffers) pointers.push_back(bytes_of(x));
    functions_.at(isa).at(k)(pointers.data(), numbers.data(), sizes.data(), &error, threads);
    return error;
  }

 private:
  static void* build(const std::string& text, cpu::Isa isa) {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_codegen_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return nullptr;
    const std::filesystem::path dir = pattern, source = dir / "k.cpp", object = dir / "k.so",
                                log = dir / "log";
    std::ofstream(source) << text;
    const std::string command = system_compiler() + " -O1 " + flags_of(isa) +
                                " -fopenmp -fwrapv -ffp-contract=off -fno-math-errno -shared -fPIC -o '" +
                                object.string() + "' '" + source.string() + "' 2>'" + log.string() + "'";
    const int status = std::system(command.c_str());
    std::ifstream messages(log);
    const std::string said{std::istreambuf_iterator<char>(messages), std::istreambuf_iterator<char>()};
    void* library = status == 0 ? dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (const char* keep = std::getenv("WEFT_KEEP_SOURCES"))
      std::filesystem::copy(source,
                            std::string(keep) + "/" +
                                ::testing::UnitTest::GetInstance()->current_test_info()->name() + "." +
                                cpu::name_of(isa) + ".cpp",
                            std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove_all(dir);
    if (library == nullptr)
      ADD_FAILURE() << cpu::name_of(isa) << ": " << said.substr(0, 4000) << (status == 0 ? dlerror() : "");
    return library;
  }

  std::vector<cpu::Isa> isas_;
  std::deque<BodyBuilder> builders_;
  std::vector<std::vector<KernelFunction>> functions_;  // by instruction set, by body
};

// Its bytes are no value that a kernel would leave by chance.
inline Tensor empty_of(std::vector<int64_t> sizes, DType dtype) {
  Tensor x = make_tensor(SymList(sizes), dtype);
  std::memset(bytes_of(x), 0x5a, x.nbytes());
  return x;
}
// The element at (b, r, c) of a dense tensor of the size of the loops.
inline Sym element(BodyBuilder& b) { return (b.b * b.body.rows + b.r) * b.body.columns + b.c; }

#define WEFT_COMPILE_OR_SKIP(kernels)                                                                   \
  if (!(kernels).compile()) {                                                                           \
    if (::testing::Test::HasFailure()) return;                                                          \
    GTEST_SKIP()                                                                                        \
        << "no C++ compiler is on PATH, or no instruction set here has the bits of the kernels in use"; \
  }

}  // namespace weft::compiler::tests
