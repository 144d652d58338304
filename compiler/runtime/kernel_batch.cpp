// Collecting bodies, finding equal ones by the code that they give, and sharing them out over sources.
// Place: the out-of-line half of kernel_batch.h.
#include "compiler/runtime/kernel_batch.h"

#include <algorithm>

#include "compiler/codegen/cpu_codegen.h"

namespace weft::compiler {
namespace {

thread_local KernelBatch* innermost = nullptr;

}  // namespace

KernelBatch::KernelBatch() : outer_(innermost) { innermost = this; }
KernelBatch::~KernelBatch() { innermost = outer_; }
KernelBatch* KernelBatch::current() { return innermost; }

std::shared_ptr<const LateFunctions> KernelBatch::add(const std::vector<LoopBody>& bodies) {
  Waiting waiting{std::make_shared<LateFunctions>(), {}};
  for (const LoopBody& given : bodies) {
    // Names and comments say where a kernel comes from, not what it does.
    auto body = std::make_shared<LoopBody>(given);
    body->name = "batched";
    body->origins.clear();
    waiting.texts.push_back(generate_cpu(*body, CpuTarget::current()).text);
    if (!compiled_.contains(waiting.texts.back())) bodies_.emplace(waiting.texts.back(), std::move(body));
  }
  waiting_.push_back(waiting);
  return waiting.kernel;
}

void KernelBatch::compile() {
  // What a source begins with costs as much as a few kernels; more than this many leave nothing to share out.
  constexpr size_t kKernelsOfASource = 32;
  std::vector<std::string> texts;
  for (const auto& [text, body] : bodies_) texts.push_back(text);
  std::sort(texts.begin(), texts.end());  // the same sources in every process
  std::vector<CpuSource> sources;
  for (size_t begin = 0; begin < texts.size(); begin += kKernelsOfASource) {
    const size_t end = std::min(begin + kKernelsOfASource, texts.size());
    std::vector<const LoopBody*> bodies;
    for (size_t i = begin; i < end; ++i) bodies.push_back(bodies_.at(texts[i]).get());
    CpuCode code = generate_cpu(bodies, CpuTarget::current());
    sources.push_back({std::move(code.text), std::move(code.entries)});
  }
  if (!sources.empty()) {
    const std::vector<CpuLibraryPtr> libraries = CpuCompiler::process().compile(sources);
    for (size_t i = 0; i < texts.size(); ++i) {
      const size_t source = i / kKernelsOfASource;
      const std::string& entry = sources[source].entries[i % kKernelsOfASource];
      compiled_[texts[i]] = {reinterpret_cast<KernelFunction>(libraries[source]->entry(entry)),
                             libraries[source]};
    }
  }
  for (const Waiting& kernel : waiting_) {
    for (const std::string& text : kernel.texts) {
      const Function& found = compiled_.at(text);
      kernel.kernel->functions.push_back(found.function);
      kernel.kernel->libraries.push_back(found.library);
    }
    kernel.kernel->are_there = true;
  }
  waiting_.clear();
  bodies_.clear();
}

}  // namespace weft::compiler
