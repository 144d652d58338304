// What a call needs beside templates: the names of arguments, and the check of what a function may not change.
#include "compiler/trace/typed_callee.h"

#include <bit>

namespace weft::compiler::detail {
namespace {

// By their bits: inside a trace a comparison would be recorded.
bool is_same_number(const Scalar& a, const Scalar& b) {
  if (a.category() != b.category() || a.is_traced() != b.is_traced() || a.is_symbolic() != b.is_symbolic())
    return false;
  if (a.is_traced()) return a.trace_id() == b.trace_id();
  if (a.is_symbolic()) return a.sym().id() == b.sym().id();
  if (a.is_floating())
    return std::bit_cast<uint64_t>(a.to_double()) == std::bit_cast<uint64_t>(b.to_double());
  return a.to_int() == b.to_int();
}

}  // namespace

void check_kept(const Callee& callee, const ArgumentLeaves& before, const ArgumentLeaves& after,
                std::span<const Tensor> tensors, size_t first_tensor, std::span<const Scalar> numbers,
                size_t first_number) {
  WEFT_CHECK(before.structure == after.structure && before.tensors.size() == after.tensors.size() &&
                 before.numbers.size() == after.numbers.size(),
             "compile: the function changed the length or presence of parts of an argument that it takes by "
             "reference; a later call would not do that again. Return the new value instead");
  for (size_t i = 0; i < after.tensors.size(); ++i) {
    const size_t leaf = first_tensor + i;
    WEFT_CHECK(after.tensors[i]->is_same(tensors[leaf]), "compile: the function re-assigned ",
               callee.tensor_name(leaf),
               ", a handle that it takes by reference; a later call would not do that again. Write into the "
               "tensor (",
               callee.tensor_name(leaf), ".copy_(…)) or return the new one");
  }
  for (size_t i = 0; i < after.numbers.size(); ++i) {
    const size_t leaf = first_number + i;
    WEFT_CHECK(
        is_same_number(after.numbers[i].value, numbers[leaf]), "compile: the function changed ",
        callee.number_name(leaf),
        ", a number that it takes by reference; a later call would not do that again. Return the new value");
  }
}

std::string name_of_argument(std::span<const std::string> names, size_t index, size_t count) {
  if (index < names.size()) return names[index];
  return count == 1 ? "x" : "x" + std::to_string(index);
}

}  // namespace weft::compiler::detail
