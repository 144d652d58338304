// Expressions as header-free C++: the text of one value, of the functions it calls and of their tables.
// Needs expr and math. What is printed computes the same bits as the library's vector kernels.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tensor/expr/expr.h"

namespace weft {

// A value in printed code.
struct CppValue {
  std::string text;  // its name, or the expression that it is
  std::string type;
};

// Collects the definitions that printed values need, each once. As it stands it prints scalars; what derives from it
// spells types and primitives in its own way and keeps the walk.
class CppPrinter {
 public:
  virtual ~CppPrinter() = default;

  // Statements that compute `result`, one per value, into `out` (indented); returns the name of the result. Input k is
  // the text input_names[k].
  std::string print(const ExprGraph& graph, Expr result, const std::vector<std::string>& input_names,
                    std::string& out);
  // A function `static inline T name(T x0, …)` that returns the value.
  std::string function(const std::string& name, const ExprGraph& graph, Expr result,
                       const std::vector<DType>& inputs);
  // One node that is no input, of arguments that are there already: an expression.
  CppValue value(const ExprGraph& graph, const ExprGraph::Node& node, std::span<const CppValue> args);
  // Everything that must stand before: the fixed prelude, then tables and functions in the order of their use.
  virtual std::string definitions() const;

 protected:
  // How a value of this dtype is declared where nothing else says it: inputs of functions.
  virtual std::string type_of(DType dtype) const;
  virtual CppValue constant(const ExprGraph::Node& node);
  // A primitive that is no function of is_function().
  virtual CppValue operation(const ExprGraph& graph, const ExprGraph::Node& node,
                             std::span<const CppValue> args);
  // Defines the function unless it is there; returns its name.
  virtual std::string math_function(Prim prim, DType dtype);

  // The same by its body, under this name.
  void define_body(const std::string& name, Prim prim, DType dtype);
  void use_table(const LookupTable& table);

  std::set<std::string> defined_;
  std::string definitions_;

 private:
  CppValue print_value(const ExprGraph& graph, Expr result, const std::vector<CppValue>& inputs,
                       std::string& out);
};

// The body of a math function, or of a quotient or remainder of floats, on expressions of its dtype.
Expr math_body(Prim prim, DType dtype, const Expr& a, const Expr& b);
// True where printed code calls a function with such a body.
bool is_function(const ExprGraph::Node& node);
// "0x1.8p+1f", "(int)0x7u", "true": a constant as a C++ literal.
std::string number_text(const ExprGraph::Node& node);

// The C++ type of an element: "float", "long", "bool".
const char* cpp_type(DType dtype);

}  // namespace weft
