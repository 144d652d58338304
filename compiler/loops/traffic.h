// Traffic: the bytes that kernels and ops read and write, as expressions of the sizes.
// Needs schedule. explain() shows it; tests hold it to what the interpreter counts.
#pragma once

#include "compiler/loops/loop_levels.h"
#include "compiler/loops/schedule.h"

namespace weft::compiler {

// In bytes: each element that is touched counts once, however often it is read. Where two different indices meet the same
// elements, or a gather the same rows, it is an upper bound: never more than the whole buffer.
struct Traffic {
  Sym read = Sym::from_int(0), written = Sym::from_int(0);
};

// Counts over a copy of the tables, since it adds expressions: others may evaluate the schedule's meanwhile.
class TrafficCounter {
 public:
  explicit TrafficCounter(const Expressions& tables) : expressions_(tables) {}

  // Of one kernel, by buffer that it touches, in the order of its parameters.
  std::vector<std::pair<BufferId, Traffic>> by_buffer(const Schedule& schedule, const KernelStep& kernel);
  Traffic of(const Schedule& schedule, const KernelStep& kernel);
  // Of one op that is run by itself: it reads its operands and writes its results. Views touch nothing.
  Traffic of(const Graph& graph, const Node& node);
  // Of all elements of a value.
  Sym bytes_of(const Value& value);
  // Of a graph whose ops are run one by one, and of all steps of a schedule.
  Traffic of(const Graph& graph);
  Traffic of(const Schedule& schedule);

  // For the sizes of the call that was traced, and for others.
  int64_t hint(Sym bytes) const { return bytes.is_symbolic() ? syms().hint(bytes) : bytes.concrete(); }
  int64_t evaluate(Sym bytes, std::span<const int64_t> symbols) const {
    return bytes.is_symbolic() ? syms().evaluate(bytes, symbols) : bytes.concrete();
  }
  std::string to_string(Sym bytes) const { return syms().to_string(bytes); }

 private:
  const SymTable& syms() const { return expressions_.syms; }
  Sym min(Sym a, Sym b) { return expressions_.syms.binary(SymOp::Min, a, b); }
  Sym elements_of(std::span<const Sym> sizes, std::span<const Sym> strides);
  Sym points(const LoopBody& body, const IndexUse& use, Sym index);

  Expressions expressions_;
};

}  // namespace weft::compiler
