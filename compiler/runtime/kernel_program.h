// KernelProgram: a kernel of a schedule made callable.
// Needs loops and codegen. Launch plans hold one for each kernel step.
#pragma once

#include "compiler/codegen/cpu_compiler.h"
#include "compiler/codegen/cuda_program.h"
#include "compiler/loops/interpreter.h"
#include "compiler/loops/kernel_call.h"
#include "compiler/loops/schedule.h"
#include "compiler/runtime/kernel_batch.h"

namespace weft::compiler {

struct KernelOptions {
  bool interpret = false;    // no code is generated
  bool is_stand_in = false;  // because none can be
  bool replay = false;       // plans on a GPU are recorded as CUDA graphs
};

struct KernelProgram {
  KernelFunction function = nullptr;           // null: interpreted, or on a GPU
  std::vector<Interpreter> interpreters = {};  // of the bodies, one after another
  std::shared_ptr<CudaProgram> cuda;           // of a kernel on a GPU
  std::shared_ptr<const LateFunctions> late;   // that a batch will give; interpreted until then
  CpuLibraryPtr library;                       // keeps the function loaded
  std::string entry;                           // its name in the source
  std::shared_ptr<const std::string> source;   // shared by the kernels that were compiled with it
  std::string text;                            // the part of the source that is its own
  // By body: nanoseconds for each turn of the innermost loop, to choose how many threads the kernel is worth.
  std::vector<double> costs = {};
};

// Programs of all kernels, in order. The program of several bodies takes the buffers, numbers and sizes of the first, then
// those of the second, and so on. Within a KernelBatch the code comes later. Error where the compiler refuses what was
// generated.
std::vector<KernelProgram> make_programs(const Schedule& schedule, const KernelOptions& options);

// Runs a kernel, whatever it is made of.
void run_program(const KernelProgram& program, const KernelStep& kernel, void* const* buffers,
                 const uint64_t* numbers, const int64_t* sizes, KernelError* error, int threads);

// Interprets a kernel that is no code, and says what its loads and stores touch, by the buffers of its bodies one after
// another.
std::vector<BufferTraffic> count_traffic(const KernelProgram& program, const KernelStep& kernel,
                                         void* const* buffers, const uint64_t* numbers, const int64_t* sizes,
                                         KernelError* error);

// Whether code can be generated and compiled. WEFT_CODEGEN=0 says no; so does a system without a compiler, of which a
// warning tells once.
bool can_generate_code();
// The same for kernels on GPUs: WEFT_CUDA_CODEGEN=0 says no, as does a toolkit without NVRTC.
bool can_generate_cuda();

}  // namespace weft::compiler
