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

}  // namespace

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

bool is_function(const ExprGraph::Node& node) {
  if (is_math(node.prim)) return true;
  return is_floating(node.dtype) && (node.prim == Prim::TruncMod || node.prim == Prim::TruncDiv ||
                                     node.prim == Prim::FloorMod || node.prim == Prim::FloorDiv);
}

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
  if (defined_.insert(name).second) define_body(name, prim, dtype);
  return name;
}

void CppPrinter::define_body(const std::string& name, Prim prim, DType dtype) {
  ExprGraph graph;
  graph.set_number_dtype(dtype);
  const Expr a = graph.input(0, dtype), b = graph.input(1, dtype);
  const Expr result = math_body(prim, dtype, a, b);
  // Its own calls come first into the definitions: print before appending.
  const std::string text =
      function(name, graph, result, std::vector<DType>(static_cast<size_t>(arity_of(prim)), dtype));
  definitions_ += text;
}

std::string CppPrinter::type_of(DType dtype) const { return cpp_type(dtype); }

CppValue CppPrinter::constant(const ExprGraph::Node& node) {
  return {number_text(node), cpp_type(node.dtype)};
}

CppValue CppPrinter::value(const ExprGraph& graph, const ExprGraph::Node& node,
                           std::span<const CppValue> args) {
  if (node.prim == Prim::Constant) return constant(node);
  if (!is_function(node)) return operation(graph, node, args);
  std::string text = math_function(node.prim, node.dtype) + "(" + args[0].text;
  for (size_t i = 1; i < args.size(); ++i) text += ", " + args[i].text;
  return {text + ")", type_of(node.dtype)};
}

CppValue CppPrinter::operation(const ExprGraph& graph, const ExprGraph::Node& node,
                               std::span<const CppValue> args) {
  std::string value;
  if (const Spelling how = spelling(node.prim); how.infix != nullptr) {
    value = args[0].text + " " + how.infix + " " + args[1].text;
  } else if (how.function != nullptr) {
    value = std::string(how.function) + "(" + args[0].text;
    for (size_t i = 1; i < args.size(); ++i) value += ", " + args[i].text;
    value += ")";
  } else {
    switch (node.prim) {
      case Prim::Neg: value = "-" + args[0].text; break;
      case Prim::Not: value = (node.dtype == DType::Bool ? "!" : "~") + args[0].text; break;
      case Prim::IsNan: value = args[0].text + " != " + args[0].text; break;
      case Prim::Where: value = args[0].text + " ? " + args[1].text + " : " + args[2].text; break;
      case Prim::Cast:
        value =
            std::string("w_cast<") + cpp_type(node.dtype) + ", " + args[0].type + ">(" + args[0].text + ")";
        break;
      case Prim::Bitcast:
        value = std::string("__builtin_bit_cast(") + cpp_type(node.dtype) + ", " + args[0].text + ")";
        break;
      case Prim::Lookup:
        use_table(graph.tables()[node.imm]);
        value = std::string(graph.tables()[node.imm].name) + "[" + args[0].text + "]";
        break;
      default: WEFT_ASSERT(false, "primitive ", name_of(node.prim), " is not printed");
    }
  }
  return {value, cpp_type(node.dtype)};
}

CppValue CppPrinter::print_value(const ExprGraph& graph, Expr result, const std::vector<CppValue>& inputs,
                                 std::string& out) {
  std::vector<bool> needed(graph.nodes().size());
  needed[result.id] = true;
  for (size_t id = result.id + 1; id-- > 0;) {
    if (!needed[id]) continue;
    const ExprGraph::Node& node = graph.nodes()[id];
    for (int i = 0; i < arity_of(node.prim); ++i) needed[node.args[i]] = true;
  }
  std::vector<CppValue> values(graph.nodes().size());
  for (size_t id = 0; id <= result.id; ++id) {
    if (!needed[id]) continue;
    const ExprGraph::Node& node = graph.nodes()[id];
    if (node.prim == Prim::Input) {
      values[id] = inputs[node.imm];
      continue;
    }
    CppValue args[3];
    const auto arity = static_cast<size_t>(arity_of(node.prim));
    for (size_t i = 0; i < arity; ++i) args[i] = values[node.args[i]];
    values[id] = value(graph, node, std::span<const CppValue>(args, arity));
    if (node.prim == Prim::Constant) continue;
    const std::string name = "t" + std::to_string(id);
    out += "  const " + values[id].type + " " + name + " = " + values[id].text + ";\n";
    values[id].text = name;
  }
  return values[result.id];
}

std::string CppPrinter::print(const ExprGraph& graph, Expr result,
                              const std::vector<std::string>& input_names, std::string& out) {
  std::vector<CppValue> inputs;
  for (size_t k = 0; k < input_names.size(); ++k) inputs.push_back({input_names[k], ""});
  for (const ExprGraph::Node& node : graph.nodes())
    if (node.prim == Prim::Input && node.imm < inputs.size()) inputs[node.imm].type = type_of(node.dtype);
  return print_value(graph, result, inputs, out).text;
}

std::string CppPrinter::function(const std::string& name, const ExprGraph& graph, Expr result,
                                 const std::vector<DType>& inputs) {
  std::vector<CppValue> names;
  std::string head;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.push_back({"x" + std::to_string(i), type_of(inputs[i])});
    head += (i == 0 ? "" : ", ") + names.back().type + " " + names.back().text;
  }
  std::string body;
  const CppValue value = print_value(graph, result, names, body);
  return "static inline " + value.type + " " + name + "(" + head + ") {\n" + body + "  return " + value.text +
         ";\n}\n";
}

std::string CppPrinter::definitions() const { return kPrelude + definitions_; }

}  // namespace weft
