// Pieces of the text of generated code.
// Needs nothing; the printers of this folder use it.
#pragma once

#include <string>

namespace weft::compiler {

template <class Integer>
std::string number(Integer n) {
  return std::to_string(n);
}

}  // namespace weft::compiler
