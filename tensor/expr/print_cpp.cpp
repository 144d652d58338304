// Printing expressions as C++.
#include "tensor/expr/print_cpp.h"

#include <bit>
#include <cmath>
#include <cstdio>

#include "tensor/expr/math.h"

namespace weft {
namespace {

// Primitives that are more than an operator. Integers wrap (the code is compiled with -fwrapv), shifts by the width or more
// give 0 or the sign, a float becomes an integer toward zero, saturating, with 0 for NaN, and no division traps.
constexpr const char* kPrelude = R"(
template <class T> static inline T w_minimum(T a, T b) {
  if (a != a) return a + b;
  if (b != b) return a + b;
  if (a == b && a == 0) return __builtin_signbit((double)a) ? a : b;
  return a < b ? a : b;
}
template <class T> static inline T w_maximum(T a, T b) {
  if (a != a) return a + b;
  if (b != b) return a + b;
  if (a == b && a == 0) return __builtin_signbit((double)a) ? b : a;
  return a > b ? a : b;
}
static inline float w_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double w_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline int w_fma(int a, int b, int c) { return a * b + c; }
static inline long w_fma(long a, long b, long c) { return a * b + c; }
static inline float w_abs(float x) { return __builtin_fabsf(x); }
static inline double w_abs(double x) { return __builtin_fabs(x); }
static inline int w_abs(int x) { return x < 0 ? -x : x; }
static inline long w_abs(long x) { return x < 0 ? -x : x; }
static inline float w_sqrt(float x) { return __builtin_sqrtf(x); }
static inline double w_sqrt(double x) { return __builtin_sqrt(x); }
static inline float w_floor(float x) { return __builtin_floorf(x); }
static inline double w_floor(double x) { return __builtin_floor(x); }
static inline float w_ceil(float x) { return __builtin_ceilf(x); }
static inline double w_ceil(double x) { return __builtin_ceil(x); }
static inline float w_trunc(float x) { return __builtin_truncf(x); }
static inline double w_trunc(double x) { return __builtin_trunc(x); }
static inline float w_round_even(float x) { return __builtin_rintf(x); }
static inline double w_round_even(double x) { return __builtin_rint(x); }
template <class T> static inline T w_floor(T x) { return x; }
template <class T> static inline T w_ceil(T x) { return x; }
template <class T> static inline T w_trunc(T x) { return x; }
template <class T> static inline T w_round_even(T x) { return x; }
static inline float w_copysign(float a, float b) { return __builtin_copysignf(a, b); }
static inline double w_copysign(double a, double b) { return __builtin_copysign(a, b); }
static inline int w_shl(int a, int n) { return (unsigned)n < 32u ? (int)((unsigned)a << n) : 0; }
static inline long w_shl(long a, long n) { return (unsigned long)n < 64ul ? (long)((unsigned long)a << n) : 0; }
static inline int w_shr(int a, int n) { return a >> ((unsigned)n < 32u ? n : 31); }
static inline long w_shr(long a, long n) { return a >> ((unsigned long)n < 64ul ? n : 63); }
template <class T> static inline T w_trunc_div(T a, T b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
template <class T> static inline T w_trunc_mod(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
template <class T> static inline T w_floor_div(T a, T b) {
  T q = w_trunc_div(a, b), r = w_trunc_mod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
template <class T> static inline T w_floor_mod(T a, T b) {
  T r = w_trunc_mod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int w_to_int(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int)x : (int)0x80000000u; }
static inline long w_to_int(double x) { return x >= -0x1p63 && x < 0x1p63 ? (long)x : (long)0x8000000000000000ul; }
static inline float w_to_float(int x) { return (float)x; }
static inline double w_to_float(long x) { return (double)x; }
template <class To, class From> static inline To w_cast(From x) { return (To)x; }
template <> inline int w_cast<int, double>(double x) { return x != x ? 0 : x <= -0x1p31 ? (int)0x80000000u : x >= 2147483647.0 ? 2147483647 : (int)x; }
template <> inline int w_cast<int, float>(float x) { return w_cast<int, double>(x); }
template <> inline long w_cast<long, double>(double x) { return x != x ? 0 : x <= -0x1p63 ? (long)0x8000000000000000ul : x >= 0x1p63 ? 0x7ffffffffffffffful : (long)x; }
template <> inline long w_cast<long, float>(float x) { return w_cast<long, double>(x); }
)";

std::string number_text(const ExprGraph::Node& node) {
  char text[64];
  const auto floating = [&](double value, const char* suffix) {
    if (std::isnan(value)) return std::string("(") + cpp_type(node.dtype) + ")__builtin_nan(\"\")";
    if (std::isinf(value))
      return std::string(value < 0 ? "(-" : "(") + "(" + cpp_type(node.dtype) + ")__builtin_inf())";
    std::snprintf(text, sizeof(text), "%a%s", value, suffix);
    return std::signbit(value) ? "(" + std::string(text) + ")" : std::string(text);
  };
  switch (node.dtype) {
    case DType::Float32: return floating(std::bit_cast<float>(static_cast<uint32_t>(node.imm)), "f");
    case DType::Float64: return floating(std::bit_cast<double>(node.imm), "");
    case DType::Bool: return node.imm != 0 ? "true" : "false";
    case DType::Int32:
      std::snprintf(text, sizeof(text), "(int)0x%xu", static_cast<uint32_t>(node.imm));
      return text;
    default:
      std::snprintf(text, sizeof(text), "(long)0x%llxul", static_cast<unsigned long long>(node.imm));
      return text;
  }
}

// How a primitive is written: an infix operator, or a function of the prelude.
struct Spelling {
  const char* infix;
  const char* function;
};
Spelling spelling(Prim prim) {
  switch (prim) {
    case Prim::Add: return {"+", nullptr};
    case Prim::Sub: return {"-", nullptr};
    case Prim::Mul: return {"*", nullptr};
    case Prim::Div: return {"/", nullptr};
    case Prim::Eq: return {"==", nullptr};
    case Prim::Ne: return {"!=", nullptr};
    case Prim::Lt: return {"<", nullptr};
    case Prim::Le: return {"<=", nullptr};
    case Prim::Gt: return {">", nullptr};
    case Prim::Ge: return {">=", nullptr};
    case Prim::And: return {"&", nullptr};
    case Prim::Or: return {"|", nullptr};
    case Prim::Xor: return {"^", nullptr};
    case Prim::Abs: return {nullptr, "w_abs"};
    case Prim::Fma: return {nullptr, "w_fma"};
    case Prim::Minimum: return {nullptr, "w_minimum"};
    case Prim::Maximum: return {nullptr, "w_maximum"};
    case Prim::CopySign: return {nullptr, "w_copysign"};
    case Prim::FloorDiv: return {nullptr, "w_floor_div"};
    case Prim::TruncDiv: return {nullptr, "w_trunc_div"};
    case Prim::FloorMod: return {nullptr, "w_floor_mod"};
    case Prim::TruncMod: return {nullptr, "w_trunc_mod"};
    case Prim::Floor: return {nullptr, "w_floor"};
    case Prim::Ceil: return {nullptr, "w_ceil"};
    case Prim::Trunc: return {nullptr, "w_trunc"};
    case Prim::RoundEven: return {nullptr, "w_round_even"};
    case Prim::Sqrt: return {nullptr, "w_sqrt"};
    case Prim::Shl: return {nullptr, "w_shl"};
    case Prim::Shr: return {nullptr, "w_shr"};
    case Prim::ToInt: return {nullptr, "w_to_int"};
    case Prim::ToFloat: return {nullptr, "w_to_float"};
    default: return {nullptr, nullptr};
  }
}

// The body of a math function on expressions of its dtype. Quotients of floats are such functions too.
Expr math_body(Prim prim, DType dtype, const Expr& a, const Expr& b) {
  const bool is_f32 = dtype == DType::Float32;
  if (!is_floating(dtype)) {
    WEFT_ASSERT(prim == Prim::Pow, name_of(prim), " has no body for integers");
    return expr::pow_integer(a, b, dtype == DType::Int32 ? 32 : 64);
  }
  switch (prim) {
#define WEFT_PRIM(name, function, arity) \
  case Prim::name:                       \
    return WEFT_MATH_BODY_##arity(function);
#define WEFT_MATH_BODY_1(function) is_f32 ? expr::function##_f32(a) : expr::function##_f64(a)
#define WEFT_MATH_BODY_2(function) is_f32 ? expr::function##_f32(a, b) : expr::function##_f64(a, b)
    WEFT_FOR_EACH_MATH_PRIM(WEFT_PRIM)
#undef WEFT_MATH_BODY_1
#undef WEFT_MATH_BODY_2
#undef WEFT_PRIM
    case Prim::TruncMod: return is_f32 ? expr::trunc_mod_f32(a, b) : expr::trunc_mod_f64(a, b);
    case Prim::TruncDiv: return trunc(a / b);
    case Prim::FloorMod: return expr::floor_mod_from(b, trunc_mod(a, b));
    case Prim::FloorDiv: return expr::floor_div_from(a, b, trunc_mod(a, b));
    default: break;
  }
  WEFT_ASSERT(false, name_of(prim), " has no body");
}

bool is_function_of(const ExprGraph::Node& node) {
  if (is_math(node.prim)) return true;
  return is_floating(node.dtype) && (node.prim == Prim::TruncMod || node.prim == Prim::TruncDiv ||
                                     node.prim == Prim::FloorMod || node.prim == Prim::FloorDiv);
}

}  // namespace

const char* cpp_type(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    case DType::Int64: return "long";
    case DType::Int32: return "int";
    case DType::Bool: return "bool";
    default: break;
  }
  WEFT_ASSERT(false, "no value of an expression has dtype ", dtype);
}

void CppPrinter::use_table(const LookupTable& table) {
  if (!defined_.insert(table.name).second) return;
  definitions_ += std::string("static const ") + cpp_type(table.dtype) + " " + table.name + "[] = {";
  for (int64_t i = 0; i < table.size; ++i) {
    ExprGraph::Node node{Prim::Constant, table.dtype, {}, 0};
    if (size_of(table.dtype) == 8) node.imm = static_cast<const uint64_t*>(table.data)[i];
    else node.imm = static_cast<const uint32_t*>(table.data)[i];
    definitions_ += (i == 0 ? "" : ", ") + number_text(node);
  }
  definitions_ += "};\n";
}

std::string CppPrinter::math_function(Prim prim, DType dtype) {
  const std::string name = std::string("w_") + name_of(prim) + "_" + short_name_of(dtype);
  if (!defined_.insert(name).second) return name;
  ExprGraph graph;
  graph.set_number_dtype(dtype);
  const Expr a = graph.input(0, dtype), b = graph.input(1, dtype);
  const Expr result = math_body(prim, dtype, a, b);
  // Its own calls come first into the definitions: print before appending.
  const std::string text =
      function(name, graph, result, std::vector<DType>(static_cast<size_t>(arity_of(prim)), dtype));
  definitions_ += text;
  return name;
}

std::string CppPrinter::print(const ExprGraph& graph, Expr result,
                              const std::vector<std::string>& input_names, std::string& out) {
  std::vector<bool> needed(graph.nodes().size());
  needed[result.id] = true;
  for (size_t id = result.id + 1; id-- > 0;) {
    if (!needed[id]) continue;
    const ExprGraph::Node& node = graph.nodes()[id];
    for (int i = 0; i < arity_of(node.prim); ++i) needed[node.args[i]] = true;
  }
  std::vector<std::string> names(graph.nodes().size());
  for (size_t id = 0; id <= result.id; ++id) {
    if (!needed[id]) continue;
    const ExprGraph::Node& node = graph.nodes()[id];
    const auto arg = [&](int i) -> const std::string& { return names[node.args[i]]; };
    if (node.prim == Prim::Input) {
      names[id] = input_names[node.imm];
      continue;
    }
    if (node.prim == Prim::Constant) {
      names[id] = number_text(node);
      continue;
    }
    std::string value;
    if (is_function_of(node)) {
      value = math_function(node.prim, node.dtype) + "(" + arg(0) +
              (arity_of(node.prim) == 2 ? ", " + arg(1) : "") + ")";
    } else if (const Spelling how = spelling(node.prim); how.infix != nullptr) {
      value = arg(0) + " " + how.infix + " " + arg(1);
    } else if (how.function != nullptr) {
      value = std::string(how.function) + "(" + arg(0);
      for (int i = 1; i < arity_of(node.prim); ++i) value += ", " + arg(i);
      value += ")";
    } else {
      switch (node.prim) {
        case Prim::Neg: value = "-" + arg(0); break;
        case Prim::Not: value = (node.dtype == DType::Bool ? "!" : "~") + arg(0); break;
        case Prim::IsNan: value = arg(0) + " != " + arg(0); break;
        case Prim::Where: value = arg(0) + " ? " + arg(1) + " : " + arg(2); break;
        case Prim::Cast:
          value = std::string("w_cast<") + cpp_type(node.dtype) + ", " +
                  cpp_type(graph.nodes()[node.args[0]].dtype) + ">(" + arg(0) + ")";
          break;
        case Prim::Bitcast:
          value = std::string("__builtin_bit_cast(") + cpp_type(node.dtype) + ", " + arg(0) + ")";
          break;
        case Prim::Lookup:
          use_table(graph.tables()[node.imm]);
          value = std::string(graph.tables()[node.imm].name) + "[" + arg(0) + "]";
          break;
        default: WEFT_ASSERT(false, "primitive ", name_of(node.prim), " is not printed");
      }
    }
    names[id] = "t" + std::to_string(id);
    out += std::string("  const ") + cpp_type(node.dtype) + " " + names[id] + " = " + value + ";\n";
  }
  return names[result.id];
}

std::string CppPrinter::function(const std::string& name, const ExprGraph& graph, Expr result,
                                 const std::vector<DType>& inputs) {
  std::vector<std::string> names;
  std::string head = std::string("static inline ") + cpp_type(result.dtype()) + " " + name + "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    head += (i == 0 ? "" : ", ") + std::string(cpp_type(inputs[i])) + " " + names.back();
  }
  std::string body;
  const std::string value = print(graph, result, names, body);
  return head + ") {\n" + body + "  return " + value + ";\n}\n";
}

std::string CppPrinter::definitions() const { return kPrelude + definitions_; }

}  // namespace weft
