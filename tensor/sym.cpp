// Sym: the slow half, which asks the trace.
// Place: the out-of-line half of tensor/sym.h.
#include "tensor/sym.h"

#include <ostream>

#include "tensor/base/error.h"

namespace weft {

SymEnvironment*& current_sym_environment() {
  static thread_local SymEnvironment* environment = nullptr;
  return environment;
}

namespace {

SymEnvironment& environment() {
  SymEnvironment* current = current_sym_environment();
  WEFT_CHECK(current != nullptr,
             "size: a symbolic size is used outside the trace that made it; "
             "read x.size(d) inside the compiled function instead of storing it");
  return *current;
}

}  // namespace

namespace detail {

Sym sym_binary(SymOp op, Sym a, Sym b) { return environment().binary(op, a, b); }
bool sym_compare(SymCompare op, Sym a, Sym b) { return environment().compare(op, a, b); }
int64_t sym_specialize(Sym a) { return environment().specialize(a); }

void throw_size_out_of_range(int64_t value) {
  throw_error(concat("size: ", value, " is out of range; sizes, strides and offsets lie above -2^62"));
}

void throw_size_overflow(const char* op, int64_t a, int64_t b) {
  throw_error(concat("size: ", a, " ", op, " ", b, b == 0 ? " divides by zero" : " does not fit in 64 bits"));
}

}  // namespace detail

bool statically_known(SymCompare op, Sym a, Sym b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return statically_known(op, a.concrete(), b.concrete());
  return environment().known(op, a, b);
}

int64_t hint_of(Sym a) { return a.is_symbolic() ? environment().hint(a) : a.concrete(); }

std::ostream& operator<<(std::ostream& out, Sym value) {
  if (!value.is_symbolic()) return out << value.concrete();
  SymEnvironment* current = current_sym_environment();
  return current != nullptr ? out << current->to_string(value) : out << 's' << value.id();
}

}  // namespace weft
