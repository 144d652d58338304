// Expressions as header-free scalar C++: the text of one value, of the functions it calls and of their tables.
// Needs expr and math. What is printed computes the same bits as the library's vector kernels.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tensor/expr/expr.h"

namespace weft {

// Collects the definitions that printed values need, each once.
class CppPrinter {
 public:
  // Statements that compute `result`, one per value, into `out` (indented); returns the name of the result. Input k is
  // the text input_names[k].
  std::string print(const ExprGraph& graph, Expr result, const std::vector<std::string>& input_names,
                    std::string& out);
  // A function `static inline T name(T x0, …)` that returns the value.
  std::string function(const std::string& name, const ExprGraph& graph, Expr result,
                       const std::vector<DType>& inputs);
  // Everything that must stand before: the fixed prelude, then tables and functions in the order of their use.
  std::string definitions() const;

 private:
  std::string math_function(Prim prim, DType dtype);
  void use_table(const LookupTable& table);

  std::set<std::string> defined_;
  std::string definitions_;
};

// The C++ type of an element: "float", "long", "bool".
const char* cpp_type(DType dtype);

}  // namespace weft
