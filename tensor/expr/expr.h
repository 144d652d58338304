// Expr: the scalar meaning of an op as a graph of primitives, from which code is printed and facts are read.
// Needs base. Running an op's generic body on Expr values builds the graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/base/dtype.h"

namespace weft {

// The primitives. A body is made of these and nothing else; every printer and interpreter knows them all.
// F(name, number of arguments)
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_ARITHMETIC_PRIM(F) \
  F(Add, 2) F(Sub, 2) F(Mul, 2) F(Div, 2) F(Neg, 1) F(Abs, 1) F(Fma, 3) F(Minimum, 2) F(Maximum, 2) \
  F(CopySign, 2) F(FloorDiv, 2) F(TruncDiv, 2) F(FloorMod, 2) F(TruncMod, 2) F(Floor, 1) F(Ceil, 1) \
  F(Trunc, 1) F(RoundEven, 1) F(Sqrt, 1) F(IsNan, 1) F(Eq, 2) F(Ne, 2) F(Lt, 2) F(Le, 2) F(Gt, 2) F(Ge, 2) \
  F(And, 2) F(Or, 2) F(Xor, 2) F(Not, 1) F(Shl, 2) F(Shr, 2) F(Where, 3) F(Cast, 1) F(Bitcast, 1) \
  F(ToInt, 1) F(ToFloat, 1) F(Lookup, 1)
// clang-format on
// Functions whose CPU meaning is a body of arithmetic primitives (math.h) and whose CUDA meaning is a library function.
// clang-format lays such lists out anew each time.
// clang-format off
#define WEFT_FOR_EACH_MATH_PRIM(F) \
  F(Exp, exp, 1) F(Exp2, exp2, 1) F(Expm1, expm1, 1) F(Log, log, 1) F(Log2, log2, 1) F(Log10, log10, 1) \
  F(Log1p, log1p, 1) F(Sin, sin, 1) F(Cos, cos, 1) F(Tan, tan, 1) F(Asin, asin, 1) F(Acos, acos, 1) \
  F(Atan, atan, 1) F(Sinh, sinh, 1) F(Cosh, cosh, 1) F(Tanh, tanh, 1) F(Asinh, asinh, 1) \
  F(Acosh, acosh, 1) F(Atanh, atanh, 1) F(Erf, erf, 1) F(Erfc, erfc, 1) F(Erfinv, erfinv, 1) \
  F(Lgamma, lgamma, 1) F(Digamma, digamma, 1) F(Rsqrt, rsqrt, 1) F(Sigmoid, sigmoid, 1) F(Pow, pow, 2) \
  F(Atan2, atan2, 2)
// clang-format on

enum class Prim : uint8_t {
  Input,     // imm: which slot of the op
  Constant,  // imm: the bits of the value
#define WEFT_PRIM(name, arity) name,
  WEFT_FOR_EACH_ARITHMETIC_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
#define WEFT_PRIM(name, function, arity) name,
      WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_PRIM
};
const char* name_of(Prim prim);
int arity_of(Prim prim);
// True for the functions of math.h.
bool is_math(Prim prim);

class ExprGraph;

// One value of a graph, or a number that takes the dtype of whatever it meets. The graph must outlive it.
struct Expr {
  Expr() = default;
  Expr(ExprGraph* g, uint32_t i) : graph(g), id(i) {}
  template <class T>
  requires std::is_arithmetic_v<T> Expr(T value)  // NOLINT: numbers stand in bodies as they are
      : is_floating(std::is_floating_point_v<T>),
        floating(static_cast<double>(value)),
        integer(static_cast<int64_t>(is_floating ? 0 : value)) {}

  bool is_number() const { return graph == nullptr; }
  DType dtype() const;

  ExprGraph* graph = nullptr;
  uint32_t id = 0;
  bool is_floating = false;
  double floating = 0;
  int64_t integer = 0;
};

// A constant table that a lookup reads.
struct LookupTable {
  const void* data;
  int64_t size;  // elements
  DType dtype;   // of the elements; unsigned words count as the signed integer of their width
  const char* name;
  friend bool operator==(const LookupTable&, const LookupTable&) = default;
};

// Hash-consed nodes in the order in which they were made, so that arguments precede their users.
class ExprGraph {
 public:
  struct Node {
    Prim prim;
    DType dtype;
    uint32_t args[3];
    uint64_t imm;  // Input: slot; Constant: bits; Lookup: index into tables()
    friend bool operator==(const Node&, const Node&) = default;
  };

  Expr input(int slot, DType dtype);
  Expr constant(double value, DType dtype);
  Expr integer(int64_t value, DType dtype);
  Expr make(Prim prim, DType dtype, std::span<const Expr> args, uint64_t imm = 0);
  Expr lookup(LookupTable table, Expr index);

  // The dtype of numbers that meet only numbers and bools: float32 unless set.
  void set_number_dtype(DType dtype) { number_dtype_ = dtype; }
  DType number_dtype() const { return number_dtype_; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(Expr e) const { return nodes_[e.id]; }
  const std::vector<LookupTable>& tables() const { return tables_; }
  // Which input slots the value depends on, as bits.
  uint64_t inputs_of(Expr e) const;
  // How many primitives it takes, with functions counted as several: a measure of arithmetic per element.
  double cost_of(Expr e) const;

 private:
  struct Hash {
    size_t operator()(const Node& node) const;
  };
  std::vector<Node> nodes_;
  std::vector<LookupTable> tables_;
  DType number_dtype_ = DType::Float32;
  std::unordered_map<Node, uint32_t, Hash> ids_;
};

// "t0 = x0 * sigmoid(x0)"-like text, one node a line: for tests and dumps.
std::string to_string(const ExprGraph& graph, Expr result);

// ---- Building: the operations that bodies use. Two values of different dtypes are our mistake; a number takes the
// dtype of the value it meets; where only numbers are chosen from, that of what the condition compared.

namespace detail {
// The result has the dtype of the values, or bool for a comparison.
Expr expr_call(Prim prim, std::initializer_list<Expr> args, bool is_comparison = false);
}  // namespace detail

#define WEFT_EXPR_BINARY(function, prim, is_comparison)          \
  inline Expr function(const Expr& a, const Expr& b) {           \
    return detail::expr_call(Prim::prim, {a, b}, is_comparison); \
  }
WEFT_EXPR_BINARY(operator+, Add, false)
WEFT_EXPR_BINARY(operator-, Sub, false)
WEFT_EXPR_BINARY(operator*, Mul, false)
WEFT_EXPR_BINARY(operator/, Div, false)
WEFT_EXPR_BINARY(operator&, And, false)
WEFT_EXPR_BINARY(operator|, Or, false)
WEFT_EXPR_BINARY(operator^, Xor, false)
WEFT_EXPR_BINARY(operator&&, And, false)
WEFT_EXPR_BINARY(operator||, Or, false)
WEFT_EXPR_BINARY(operator<<, Shl, false)
WEFT_EXPR_BINARY(operator>>, Shr, false)
WEFT_EXPR_BINARY(operator==, Eq, true)
WEFT_EXPR_BINARY(operator!=, Ne, true)
WEFT_EXPR_BINARY(operator<, Lt, true)
WEFT_EXPR_BINARY(operator<=, Le, true)
WEFT_EXPR_BINARY(operator>, Gt, true)
WEFT_EXPR_BINARY(operator>=, Ge, true)
WEFT_EXPR_BINARY(minimum, Minimum, false)
WEFT_EXPR_BINARY(maximum, Maximum, false)
WEFT_EXPR_BINARY(copysign, CopySign, false)
WEFT_EXPR_BINARY(floor_div, FloorDiv, false)
WEFT_EXPR_BINARY(trunc_div, TruncDiv, false)
WEFT_EXPR_BINARY(floor_mod, FloorMod, false)
WEFT_EXPR_BINARY(trunc_mod, TruncMod, false)
#undef WEFT_EXPR_BINARY
#define WEFT_EXPR_UNARY(function, prim, is_comparison) \
  inline Expr function(const Expr& x) { return detail::expr_call(Prim::prim, {x}, is_comparison); }
WEFT_EXPR_UNARY(operator-, Neg, false)
WEFT_EXPR_UNARY(operator~, Not, false)
WEFT_EXPR_UNARY(operator!, Not, false)
WEFT_EXPR_UNARY(abs, Abs, false)
WEFT_EXPR_UNARY(floor, Floor, false)
WEFT_EXPR_UNARY(ceil, Ceil, false)
WEFT_EXPR_UNARY(trunc, Trunc, false)
WEFT_EXPR_UNARY(round_even, RoundEven, false)
WEFT_EXPR_UNARY(sqrt, Sqrt, false)
WEFT_EXPR_UNARY(is_nan, IsNan, true)
#define WEFT_PRIM(name, function, arity) WEFT_EXPR_MATH_##arity(name, function)
#define WEFT_EXPR_MATH_1(name, function) WEFT_EXPR_UNARY(function, name, false)
#define WEFT_EXPR_MATH_2(name, function) \
  inline Expr function(const Expr& a, const Expr& b) { return detail::expr_call(Prim::name, {a, b}); }
WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_EXPR_MATH_1
#undef WEFT_EXPR_MATH_2
#undef WEFT_PRIM
#undef WEFT_EXPR_UNARY
inline Expr fma(const Expr& a, const Expr& b, const Expr& c) {
  return detail::expr_call(Prim::Fma, {a, b, c});
}
inline Expr exact_fma(const Expr& a, const Expr& b, const Expr& c) { return fma(a, b, c); }
Expr where(const Expr& condition, const Expr& a, const Expr& b);
// Conversions: cast follows the rule of every float-to-integer conversion (saturate, NaN gives 0); to_int is for values
// known to be in range.
Expr cast(const Expr& x, DType dtype);
Expr bitcast(const Expr& x, DType dtype);
Expr as_int(const Expr& x);
Expr as_float(const Expr& x);
Expr to_int(const Expr& x);
Expr to_float(const Expr& x);
inline Expr to_f32(const Expr& x) { return cast(x, DType::Float32); }
inline Expr to_f64(const Expr& x) { return cast(x, DType::Float64); }
// A constant table of math.h (expr::Table) at an integer index.
template <class Table>
Expr lookup(const Table& table, const Expr& index) {
  using T = std::remove_cvref_t<decltype(table.data[0])>;
  constexpr DType dtype = std::is_same_v<T, float>    ? DType::Float32
                          : std::is_same_v<T, double> ? DType::Float64
                          : sizeof(T) == 8            ? DType::Int64
                                                      : DType::Int32;
  return index.graph->lookup({table.data, table.size, dtype, table.name}, index);
}
// A number of x's dtype, for places where only numbers meet.
Expr constant_like(const Expr& x, double value);

}  // namespace weft
