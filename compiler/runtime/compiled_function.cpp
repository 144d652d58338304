// The body of a compiled object.
#include "compiler/runtime/compiled_function.h"

namespace weft::compiler {

struct CompiledFunction::Impl {};

CompiledFunction::CompiledFunction(CompileOptions options, SourceLocation where)
    : options_(std::move(options)), where_(where), impl_(std::make_unique<Impl>()) {
  WEFT_CHECK(
      options_.mode == "default" || options_.mode == "reduce-overhead" || options_.mode == "max-autotune",
      "compile: there is no mode \"", options_.mode,
      "\"; the modes are default, reduce-overhead and max-autotune");
  options_.backend.function();
}
CompiledFunction::~CompiledFunction() = default;

void CompiledFunction::call(const ArgumentLeaves&, Callee& callee) { callee.run_eager(); }

}  // namespace weft::compiler
