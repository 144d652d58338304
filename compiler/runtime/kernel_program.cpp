// From loop bodies to functions: printing them, in as many sources as compile side by side.
// Place: the out-of-line half of compiler/runtime/kernel_program.h.
#include "compiler/runtime/kernel_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "compiler/codegen/cpu_codegen.h"
#include "tensor/base/log.h"

namespace weft::compiler {

bool can_generate_code() {
  if (const char* set = std::getenv("WEFT_CODEGEN"); set != nullptr && std::strcmp(set, "0") == 0)
    return false;
  if (CpuCompiler::process().is_available()) return true;
  warn_once("no compiler",
            "compile: graphs run by eager kernels, because there is no C++ compiler to make faster ones: " +
                CpuCompiler::process().why_unavailable());
  return false;
}

std::vector<KernelProgram> make_programs(const Schedule& schedule) {
  std::vector<const LoopBody*> bodies;
  for (const KernelStep& kernel : schedule.kernels)
    for (const LoopBody& body : kernel.bodies) bodies.push_back(&body);
  if (bodies.empty()) return {};
  // A compilation takes longer to begin than a small kernel takes: several share a source.
  constexpr size_t kKernelsWorthASource = 2;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t num_sources = std::clamp<size_t>(bodies.size() / kKernelsWorthASource, 1, cores);
  std::vector<CpuSource> sources;
  std::vector<KernelProgram> programs;
  std::vector<std::shared_ptr<const std::string>> texts;
  for (size_t s = 0; s < num_sources; ++s) {
    const size_t begin = bodies.size() * s / num_sources, end = bodies.size() * (s + 1) / num_sources;
    CpuCode code = generate_cpu(std::span(bodies).subspan(begin, end - begin), CpuTarget::current());
    texts.push_back(std::make_shared<const std::string>(code.text));
    for (size_t i = begin; i < end; ++i) {
      KernelProgram program;
      program.entry = code.entries[i - begin];
      program.source = texts.back();
      program.cost = 1;
      for (const BodyStore& store : bodies[i]->stores)
        program.cost +=
            bodies[i]->values.cost_of(Expr(const_cast<ExprGraph*>(&bodies[i]->values), store.value));
      programs.push_back(std::move(program));
    }
    sources.push_back({std::move(code.text), std::move(code.entries)});
  }
  const std::vector<CpuLibraryPtr> libraries = CpuCompiler::process().compile(sources);
  size_t next = 0;
  for (size_t s = 0; s < num_sources; ++s) {
    for (size_t k = 0; k < sources[s].entries.size(); ++k, ++next) {
      programs[next].library = libraries[s];
      programs[next].function = reinterpret_cast<KernelFunction>(libraries[s]->entry(programs[next].entry));
    }
  }
  return programs;
}

}  // namespace weft::compiler
