// Kernels of loop bodies: their parameters, and the stages that each launch calls.
// Place: the out-of-line half of cuda_codegen.h.
#include "compiler/codegen/cuda_codegen.h"

#include <algorithm>

#include "compiler/codegen/code_text.h"
#include "compiler/codegen/cuda_stage_writer.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

std::string identifier(const std::string& name) {
  std::string text;
  for (char c : name)
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return text;
}

int max_threads_of(const CudaStage& stage, const CudaBody& code) {
  switch (stage.kind) {
    case CudaStage::Kind::Values:
    case CudaStage::Kind::Split: return kCudaLanes;
    case CudaStage::Kind::Rows:
    case CudaStage::Kind::RowsOuter:
      if (code.body.columns.is_symbolic()) return kCudaLanes;
      return std::max(cuda_lanes(code.body.columns.concrete()), kCudaThreads);
    default: return kCudaThreads;
  }
}

}  // namespace

CudaCode generate_cuda(std::span<const LoopBody* const> bodies, std::span<const CudaVariant> variants,
                       const CudaTarget&) {
  WEFT_ASSERT(bodies.size() == variants.size() && !bodies.empty(), "one variant for each body");
  CudaCode code;
  CudaPrinter printer;
  CudaNeeds needs;
  CudaParams params;
  uint32_t words = 0;
  bool is_wide = false, is_in_place = false;
  std::string functions, origins;
  struct Launch {
    std::string calls, suffix;
    uint32_t bodies = 0;
    int threads = 0;
  };
  std::vector<Launch> launches;
  const std::string name =
      "kernel_" + identifier(bodies[0]->name) +
      (bodies.size() > 1 ? "_and_" + number(static_cast<int64_t>(bodies.size()) - 1) : "");
  for (size_t b = 0; b < bodies.size(); ++b) {
    const CudaBody body(*bodies[b]);
    is_wide |= variants[b].is_wide;
    is_in_place |= body.is_in_place() && !body.body.checks.empty();
    for (const std::string& origin : body.body.origins) origins += "// " + origin + "\n";
    const std::vector<CudaStage> stages = body.stages(variants[b]);
    std::vector<std::string> names;
    std::string own = identifier(body.body.name);
    if (bodies.size() > 1) own += "_" + number(static_cast<int64_t>(b));
    functions += CudaStageWriter(body, variants[b], params, words, own, printer, needs).write(stages, names);
    for (size_t s = 0; s < stages.size(); ++s) {
      if (launches.size() <= s) launches.emplace_back();
      Launch& launch = launches[s];
      const std::string w = "p.launch[" + number(words) + " + ";
      if (bodies.size() == 1) {
        launch.calls += "  " + names[s] + "(p, block);\n";
      } else {
        launch.calls += "  if (block < (unsigned)" + w + number(kWordBlocks) +
                        "]) {\n    if (threadIdx.x < (unsigned)" + w + number(kWordThreads) + "]) " +
                        names[s] + "(p, block);\n    return;\n  }\n  block -= (unsigned)" + w +
                        number(kWordBlocks) + "];\n";
      }
      launch.threads = std::max(launch.threads, max_threads_of(stages[s], body));
      if (s > 0) launch.suffix = names[s].substr(names[s].rfind('_'));
    }
    params.buffers += static_cast<uint32_t>(body.body.buffers.size());
    params.numbers += static_cast<uint32_t>(body.body.numbers.size());
    params.sizes += static_cast<uint32_t>(body.body.size_symbols.size());
    words += kNumWords + static_cast<uint32_t>(body.scratch(variants[b]).size());
  }
  std::string kernels;
  for (const Launch& launch : launches) {
    code.kernels.push_back({name + launch.suffix, launch.threads});
    kernels += "\nextern \"C\" __global__ void __launch_bounds__(" + number(launch.threads) + ") " +
               code.kernels.back().entry + "(const __grid_constant__ w_params p) {\n" +
               (is_in_place ? "  if (*(volatile int*)&p.error->check != 0) return;\n" : "") +
               "  unsigned block = blockIdx.x;\n" + launch.calls + "}\n";
  }
  const auto member = [](const char* type, const char* field, uint32_t n) {
    return n == 0 ? std::string() : "  " + std::string(type) + " " + field + "[" + number(n) + "];\n";
  };
  code.text = std::string(is_wide ? "typedef long w_int;\ntypedef unsigned long w_unsigned;\n"
                                  : "typedef int w_int;\ntypedef unsigned w_unsigned;\n") +
              cuda_prelude() + (needs.random ? cuda_random_prelude() : "") +
              (needs.atomics ? cuda_atomic_prelude() : "") + (needs.arrays ? cuda_array_prelude() : "") +
              "\nstruct w_params {\n" + member("void*", "buffers", params.buffers) +
              member("unsigned long", "numbers", params.numbers) + member("long", "sizes", params.sizes) +
              "  w_error* error;\n  char* scratch;\n  unsigned* counters;\n" +
              member("long", "launch", words) + "};\n\n" + printer.definitions() + "\n" + origins +
              functions + kernels;
  return code;
}

CudaCode generate_cuda(std::span<const LoopBody* const> bodies, const CudaTarget& target) {
  std::vector<CudaVariant> variants;
  for (const LoopBody* body : bodies) {
    const CudaBody own(*body);
    variants.push_back(own.variant(own.traced_sizes(), nullptr, target));
  }
  return generate_cuda(bodies, variants, target);
}

}  // namespace weft::compiler
