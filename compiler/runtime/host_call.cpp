// The ops behind print() and host_call().
// Place: the out-of-line half of compiler/runtime/host_call.h.
#include "compiler/runtime/host_call.h"

#include <iostream>

#include "autograd/tape.h"
#include "compiler/runtime/routine_op.h"
#include "compiler/trace/tracer.h"
#include "tensor/ops/check.h"

namespace weft {
namespace {

void write(std::string_view text, const Tensor& x) {
  // Without history, which a compiled program does not have: requires_grad=True would be said in one mode only.
  const std::string values = weft::detail::concat(autograd::share_data(x));
  std::string line(text);
  if (!line.empty()) line += values.find('\n') != std::string::npos ? '\n' : ' ';
  line += values;
  line += '\n';
  std::cout << line;
}

const Op& print_op() {
  static const Op op = [] {
    Op made(Schema("print(Tensor x, *, str text=\"\") -> ()"), Kind::Extern);
    made.has_effect = true;
    made.infer = [](const Call&) { return OutputSpecs(); };
    made.cpu_whole = [](const Call& call, std::span<Tensor>) {
      write(call.attr(0).as_string(), call.tensor(0));
    };
    return made;
  }();
  return op;
}

const Op& host_call_op() {
  static const Op op =
      compiler::routine_op("host_call(Tensor[] tensors, Routine function) -> ()", /*has_effect=*/true);
  return op;
}

}  // namespace

void print(const Tensor& x, SourceLocation where) { print({}, x, where); }

void print(std::string_view text, const Tensor& x, SourceLocation where) {
  if (current_trace() == nullptr || !x.defined()) return write(text, x);
  call_into(print_op(), std::initializer_list<Operand>{x}, {Attr(text)}, where, {});
}

void host_call(std::function<void(const std::vector<Tensor>&)> function, const std::vector<Tensor>& tensors,
               SourceLocation where) {
  WEFT_CHECK_AT(where, function != nullptr, "host_call: the function is empty");
  for (size_t i = 0; i < tensors.size(); ++i)
    WEFT_CHECK_AT(where, tensors[i].defined(), "host_call: tensor ", i, " is undefined; leave it out");
  if (current_trace() == nullptr) {
    std::vector<const Tensor*> pointers;
    for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
    return compiler::call_host(function, pointers);
  }
  const std::vector<Operand> operands(tensors.begin(), tensors.end());
  call_into(host_call_op(), operands,
            {Attr(compiler::current_tracer().host_function(std::move(function), where))}, where, {});
}

}  // namespace weft
