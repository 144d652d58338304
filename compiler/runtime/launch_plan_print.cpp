// The listing of a launch plan: buffers and where they lie, then the steps of a call.
// Place: part of launch_plan.h.
#include <sstream>

#include "compiler/runtime/launch_plan.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

const char* name_of(Buffer::Origin origin) {
  switch (origin) {
    case Buffer::Origin::Input: return "input";
    case Buffer::Origin::Kernel: return "of a kernel";
    case Buffer::Origin::Extern: return "of a call";
    case Buffer::Origin::Shared: return "a view";
  }
  return "";
}

void print_sizes(std::ostream& out, std::span<const Sym> sizes, const SymTable& syms) {
  out << '[';
  for (size_t d = 0; d < sizes.size(); ++d) out << (d > 0 ? ", " : "") << syms.to_string(sizes[d]);
  out << ']';
}

}  // namespace

std::string to_string(const LaunchPlan& plan) {
  const Schedule& schedule = plan.schedule();
  // A copy: expressions are added, while other threads may run the plan.
  Expressions expressions(*schedule.expressions);
  const TableEnvironment environment(expressions);
  const SymTable& syms = expressions.syms;
  std::ostringstream out;

  const MemoryLifetimes lifetimes = lifetimes_of(schedule);
  std::vector<size_t> bytes;
  for (const Lifetime& lifetime : lifetimes.arena) {
    const Buffer& buffer = schedule.buffers[lifetime.buffer];
    Sym count = Sym::from_int(static_cast<int64_t>(size_of(buffer.dtype)));
    for (const Sym size : buffer.sizes) count = count * size;
    bytes.push_back(static_cast<size_t>(count.is_symbolic() ? syms.hint(count) : count.concrete()));
  }
  const MemoryPlan memory = pack(lifetimes, bytes);
  out << "arena: " << memory.bytes << " bytes at the sizes of the traced call (" << memory.unpacked_bytes
      << " side by side)\n";
  for (BufferId b = 0; b < schedule.buffers.size(); ++b) {
    const Buffer& buffer = schedule.buffers[b];
    out << "b" << b << ": " << weft::name_of(buffer.dtype) << ' ';
    print_sizes(out, {buffer.sizes.data(), buffer.sizes.size()}, syms);
    out << ' ' << name_of(buffer.origin);
    for (size_t i = 0; i < lifetimes.arena.size(); ++i)
      if (lifetimes.arena[i].buffer == b)
        out << ", arena " << memory.offsets[i] << " for steps " << lifetimes.arena[i].first << " to "
            << lifetimes.arena[i].last;
    for (const StoredOver& over : schedule.stored_over)
      if (over.buffer == b) out << ", over b" << over.input;
    out << (buffer.is_output ? ", an output\n" : "\n");
  }
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    out << "step " << s << ": ";
    if (step.kind == Step::Kind::Extern) {
      const Node& node = schedule.graph.nodes[schedule.externs[step.index].node];
      out << "call " << node.op->name();
      for (const Argument& operand : node.operands) {
        if (!operand.is_value()) continue;
        const std::optional<MemoryPlace>& place = schedule.places[operand.value];
        if (place) out << " b" << place->buffer << (place->is_whole ? "" : " (a view)");
      }
      const std::optional<MemoryPlace>& result = schedule.places[node.first_output];
      if (result) out << " -> b" << result->buffer;
      out << "   # " << weft::to_string(node.where) << '\n';
      continue;
    }
    const KernelProgram& program = plan.programs()[step.index];
    out << program.entry << (program.function == nullptr ? " (interpreted)" : "");
    for (const std::vector<BufferId>& buffers : schedule.kernels[step.index].buffers) {
      out << " (";
      for (size_t i = 0; i < buffers.size(); ++i) out << (i > 0 ? " b" : "b") << buffers[i];
      out << ')';
    }
    out << '\n';
  }
  out << "outputs:";
  for (const ValueId output : schedule.graph.outputs) {
    const MemoryPlace& place = *schedule.places[output];
    out << " b" << place.buffer << (place.is_whole ? "" : " (a view)");
  }
  out << '\n';
  return std::move(out).str();
}

}  // namespace weft::compiler
