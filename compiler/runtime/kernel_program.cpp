// From loop bodies to functions: printing them, in as many sources as compile side by side.
// Place: the out-of-line half of compiler/runtime/kernel_program.h.
#include "compiler/runtime/kernel_program.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "compiler/codegen/cpu_codegen.h"
#include "compiler/loops/loop_levels.h"
#include "tensor/base/log.h"
#include "tensor/cuda/context.h"

namespace weft::compiler {

bool can_generate_code() {
  if (const char* set = std::getenv("WEFT_CODEGEN"); set != nullptr && std::strcmp(set, "0") == 0)
    return false;
  if (CpuCompiler::process().is_available()) return true;
  warn_once("no compiler",
            "compile: loops are interpreted, because there is no C++ compiler to make code of them: " +
                CpuCompiler::process().why_unavailable());
  return false;
}

bool can_generate_cuda() {
  if (const char* set = std::getenv("WEFT_CUDA_CODEGEN"); set != nullptr && std::strcmp(set, "0") == 0)
    return false;
  const cuda::Driver* const driver = cuda::find_driver();
  return driver != nullptr && driver->compile != nullptr;
}

namespace {

// The kernels of a GPU, each compiled by itself: equal ones are shared by their text.
void add_cuda_programs(const Schedule& schedule, std::vector<KernelProgram>& programs) {
  std::vector<size_t> wanted;
  for (size_t k = 0; k < schedule.kernels.size(); ++k)
    if (schedule.kernels[k].device.is_cuda()) wanted.push_back(k);
  const auto make = [&](size_t k) {
    const KernelStep& kernel = schedule.kernels[k];
    const cuda::DeviceGuard guard(kernel.device.index);
    std::vector<const LoopBody*> bodies;
    for (const LoopBody& body : kernel.bodies) bodies.push_back(&body);
    KernelProgram& program = programs[k];
    program.cuda = std::make_shared<CudaProgram>(bodies, CudaProgram::current_target());
    program.entry = program.cuda->entry();
    program.source = std::make_shared<const std::string>(program.cuda->source());
  };
  if (wanted.size() == 1) return make(wanted[0]);
  // NVRTC compiles side by side.
  std::vector<std::exception_ptr> failures(wanted.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < wanted.size(); i = next++) {
      try {
        make(wanted[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(wanted.size(), std::max(1u, std::thread::hardware_concurrency()));
  for (size_t t = 1; t < count; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

// The text of a function that calls the kernels of several bodies, each with its part of the arguments: all of them by one
// team of threads where each can be shared so.
std::string combined(const std::string& name, const KernelStep& kernel,
                     std::span<const std::string> entries) {
  const bool is_team = std::all_of(kernel.bodies.begin(), kernel.bodies.end(), can_be_shared_by_a_team);
  size_t buffer = 0, number = 0, size = 0;
  std::string calls;
  for (size_t b = 0; b < kernel.bodies.size(); ++b) {
    calls += "  " + entries[b] + "(buffers + " + std::to_string(buffer) + ", numbers + " +
             std::to_string(number) + ", sizes + " + std::to_string(size) + ", error, " +
             (is_team ? "team" : "threads") + ");\n";
    buffer += kernel.bodies[b].buffers.size();
    number += kernel.bodies[b].numbers.size();
    size += kernel.bodies[b].size_symbols.size();
  }
  // Loops that are given a team (minus its size) are shared by its threads, which do not wait for one another in between.
  if (is_team)
    calls = "  const auto share = [&](int team) {\n" + calls +
            "  };\n#ifdef _OPENMP\n  if (threads > 1) {\n#pragma omp parallel num_threads(threads)\n"
            "    share(-threads);\n    return;\n  }\n#endif\n  share(1);\n";
  return "extern \"C\" void " + name +
         "(void* const* buffers, const unsigned long* numbers, const long* sizes, w_error* error, int "
         "threads) {\n" +
         calls + "}\n";
}

// Nanoseconds of one core for each turn of the innermost loop: of primitives on sixteen lanes, or of memory in its caches.
double cost_of(const LoopBody& body) {
  constexpr double kPrimitives = 40, kBytes = 50;  // in a nanosecond
  // Reading the graph of values asks for a handle that could also add to it.
  auto& values = const_cast<ExprGraph&>(body.values);
  double primitives = 1, bytes = 0;
  for (const BodyStore& store : body.stores) {
    primitives += values.cost_of(Expr(&values, store.value));
    if (store.each == BodyStore::Each::Element)
      bytes += static_cast<double>(size_of(body.buffers[store.param].dtype));
  }
  for (const BodyFold& fold : body.folds) primitives += values.cost_of(Expr(&values, fold.value));
  const LoopLevels levels = levels_of(body);
  for (const Source& source : body.sources)
    if (source.kind == Source::Kind::Load && use_of(body, levels, source.index).column)
      bytes += static_cast<double>(size_of(body.buffers[source.param].dtype));
  return std::max(primitives / kPrimitives, bytes / kBytes);
}

}  // namespace

void run_program(const KernelProgram& program, const KernelStep& kernel, void* const* buffers,
                 const uint64_t* numbers, const int64_t* sizes, KernelError* error, int threads) {
  if (program.function != nullptr) return program.function(buffers, numbers, sizes, error, threads);
  const bool is_code = program.late != nullptr && program.late->are_there;
  for (size_t b = 0; b < kernel.bodies.size(); ++b) {
    if (is_code) program.late->functions[b](buffers, numbers, sizes, error, threads);
    else program.interpreters[b].run(buffers, numbers, sizes, error, threads);
    buffers += kernel.bodies[b].buffers.size();
    numbers += kernel.bodies[b].numbers.size();
    sizes += kernel.bodies[b].size_symbols.size();
  }
}

std::vector<BufferTraffic> count_traffic(const KernelProgram& program, const KernelStep& kernel,
                                         void* const* buffers, const uint64_t* numbers, const int64_t* sizes,
                                         KernelError* error) {
  WEFT_ASSERT(program.function == nullptr, "generated code does not count what it touches");
  std::vector<BufferTraffic> traffic;
  for (size_t b = 0; b < kernel.bodies.size(); ++b) {
    for (const BufferTraffic& each : program.interpreters[b].count_traffic(buffers, numbers, sizes, error))
      traffic.push_back(each);
    buffers += kernel.bodies[b].buffers.size();
    numbers += kernel.bodies[b].numbers.size();
    sizes += kernel.bodies[b].size_symbols.size();
  }
  return traffic;
}

std::vector<KernelProgram> make_programs(const Schedule& schedule, const KernelOptions& options) {
  std::vector<KernelProgram> programs(schedule.kernels.size());
  add_cuda_programs(schedule, programs);
  std::vector<size_t> kernels;  // of the CPU
  for (size_t k = 0; k < schedule.kernels.size(); ++k)
    if (schedule.kernels[k].device.is_cpu()) kernels.push_back(k);
  if (kernels.empty()) return programs;
  KernelBatch* const batch = options.interpret ? nullptr : KernelBatch::current();
  if (options.interpret || batch != nullptr) {
    for (const size_t k : kernels) {
      const KernelStep& kernel = schedule.kernels[k];
      KernelProgram& program = programs[k];
      for (const LoopBody& body : kernel.bodies) {
        program.interpreters.emplace_back(body);
        program.costs.push_back(cost_of(body));
      }
      program.entry = kernel.bodies[0].name;
      program.source = std::make_shared<const std::string>();
      if (batch != nullptr) program.late = batch->add(kernel.bodies);
    }
    return programs;
  }
  // A compilation takes longer to begin than a small kernel takes: several share a source.
  constexpr size_t kKernelsWorthASource = 2;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t num_sources = std::clamp<size_t>(kernels.size() / kKernelsWorthASource, 1, cores);
  std::vector<CpuSource> sources;
  for (size_t s = 0; s < num_sources; ++s) {
    const size_t begin = kernels.size() * s / num_sources, end = kernels.size() * (s + 1) / num_sources;
    std::vector<const LoopBody*> bodies;
    for (size_t k = begin; k < end; ++k)
      for (const LoopBody& body : schedule.kernels[kernels[k]].bodies) bodies.push_back(&body);
    CpuCode code = generate_cpu(bodies, CpuTarget::current());
    CpuSource source;
    size_t next = 0;
    for (size_t k = begin; k < end; ++k) {
      const KernelStep& kernel = schedule.kernels[kernels[k]];
      const std::span<const std::string> own = std::span(code.entries).subspan(next, kernel.bodies.size());
      KernelProgram& program = programs[kernels[k]];
      program.entry = own[0];
      for (size_t b = 0; b < own.size(); ++b) program.text += (b == 0 ? "" : "\n") + code.functions[next + b];
      if (own.size() > 1) {
        program.entry += "_and_" + std::to_string(own.size() - 1);
        const std::string caller = combined(program.entry, kernel, own);
        code.text += caller;
        program.text += "\n" + caller;
      }
      for (const LoopBody& body : kernel.bodies) program.costs.push_back(cost_of(body));
      next += own.size();
      source.entries.push_back(program.entry);
    }
    const auto text = std::make_shared<const std::string>(code.text);
    for (size_t k = begin; k < end; ++k) programs[kernels[k]].source = text;
    source.text = std::move(code.text);
    sources.push_back(std::move(source));
  }
  const std::vector<CpuLibraryPtr> libraries = CpuCompiler::process().compile(sources);
  size_t next = 0;
  for (size_t s = 0; s < num_sources; ++s) {
    for (size_t k = 0; k < sources[s].entries.size(); ++k, ++next) {
      KernelProgram& program = programs[kernels[next]];
      program.library = libraries[s];
      program.function = reinterpret_cast<KernelFunction>(libraries[s]->entry(program.entry));
    }
  }
  return programs;
}

}  // namespace weft::compiler
