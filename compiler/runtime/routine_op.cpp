// Rules and kernel of ops that hand everything to their routine.
// Place: the out-of-line half of compiler/runtime/routine_op.h.
#include "compiler/runtime/routine_op.h"

#include <algorithm>

namespace weft::compiler {
namespace {

const Routine& routine_of(const Call& call) {
  for (const Attr& attr : call.attrs)
    if (attr.is<RoutinePtr>()) return attr.as_routine();
  WEFT_ASSERT(false, call.name(), ": it has no routine");
}

}  // namespace

Op routine_op(const char* schema, bool has_effect) {
  Op op(Schema(schema), Kind::Extern);
  op.has_effect = has_effect;
  op.any_device = true;  // the routine sees to it
  op.infer = [](const Call& call) { return routine_of(call).infer(call); };
  op.cpu_whole = [](const Call& call, std::span<Tensor> outputs) { routine_of(call).run(call, outputs); };
  return op;
}

}  // namespace weft::compiler
