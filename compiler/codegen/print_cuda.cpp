// The scalar dialect of CUDA: constants, conversions, integers that wrap, and functions.
// Place: the out-of-line half of print_cuda.h.
#include "compiler/codegen/print_cuda.h"

#include <bit>
#include <cmath>

#include "tensor/base/error.h"
#include "tensor/expr/math.h"

namespace weft::compiler {
CppValue CudaPrinter::constant(const ExprGraph::Node& node) {
  const std::string type = type_of(node.dtype);
  if (node.dtype == DType::Float32 || node.dtype == DType::Float64) {
    const bool is_f32 = node.dtype == DType::Float32;
    const double value =
        is_f32 ? std::bit_cast<float>(static_cast<uint32_t>(node.imm)) : std::bit_cast<double>(node.imm);
    if (std::isnan(value)) return {is_f32 ? "w_nan_f32()" : "w_nan_f64()", type};
    if (std::isinf(value)) return {"w_limits<" + type + ">::" + (value < 0 ? "least" : "most") + "()", type};
  }
  return {number_text(node), type};
}

CppValue CudaPrinter::operation(const ExprGraph& graph, const ExprGraph::Node& node,
                                std::span<const CppValue> args) {
  const std::string type = type_of(node.dtype);
  const bool is_integer = is_integral(node.dtype);
  const auto call = [&](const char* function) {
    std::string text = std::string(function) + "(" + args[0].text;
    for (size_t i = 1; i < args.size(); ++i) text += ", " + args[i].text;
    return CppValue{text + ")", type};
  };
  switch (node.prim) {
    case Prim::Add:
      if (is_integer) return call("w_add");
      break;
    case Prim::Sub:
      if (is_integer) return call("w_sub");
      break;
    case Prim::Mul:
      if (is_integer) return call("w_mul");
      break;
    case Prim::Neg:
      if (is_integer) return {"w_sub(" + type + "(0), " + args[0].text + ")", type};
      break;
    case Prim::Shl:
    case Prim::Shr: {
      const ExprGraph::Node& count = graph.nodes()[node.args[1]];
      if (count.prim == Prim::Constant && count.imm < (node.dtype == DType::Int32 ? 32u : 64u))
        return {node.prim == Prim::Shl ? "(" + type + ")((unsigned " + type + ")" + args[0].text + " << " +
                                             std::to_string(count.imm) + ")"
                                       : args[0].text + " >> " + std::to_string(count.imm),
                type};
      break;
    }
    case Prim::Bitcast: return call("w_bits");
    case Prim::Cast: return cast(args[0], graph.nodes()[node.args[0]].dtype, node.dtype);
    default: break;
  }
  CppValue made = CppPrinter::operation(graph, node, args);
  made.type = type;
  return made;
}

CppValue CudaPrinter::cast(const CppValue& x, DType from, DType to) {
  const std::string& a = x.text;
  const std::string type = cuda_type(to);
  if (from == to) return x;
  switch (to) {
    case DType::Float32:
    case DType::Float64: return {x.type == type ? a : "(" + type + ")" + a, type};
    case DType::Int64: return {"w_to_i64(" + a + ")", type};
    case DType::Int32: return {x.type == type ? a : "w_to_i32(" + a + ")", type};
    case DType::Bool: return {x.type == "bool" ? a : a + " != 0", type};
    case DType::BFloat16:
    case DType::Float16: {
      if (from == DType::Bool || from == DType::Int8 || from == DType::UInt8) return {"(float)" + a, type};
      const std::string single = x.type == "float" ? a : "w_odd((double)" + a + ")";
      return {std::string(to == DType::BFloat16 ? "w_round_bf16(" : "w_round_f16(") + single + ")", type};
    }
    case DType::Int16:
    case DType::Int8:
    case DType::UInt8: break;
  }
  const std::string whole = "w_to_i32(" + a + ")";
  if (from == DType::Bool || (to == DType::Int16 && (from == DType::Int8 || from == DType::UInt8)))
    return {whole, type};
  const int bits = static_cast<int>(size_of(to)) * 8;
  if (is_floating(from)) {
    const int low = to == DType::UInt8 ? 0 : -(1 << (bits - 1)), high = to == DType::UInt8 ? 255 : -low - 1;
    return {"w_minimum(w_maximum(" + whole + ", " + std::to_string(low) + "), " + std::to_string(high) + ")",
            type};
  }
  return {"(int)(" + std::string(cuda_element(to)) + ")" + whole, type};
}

std::string CudaPrinter::math_function(Prim prim, DType dtype) {
  const std::string name = std::string("w_") + weft::name_of(prim) + "_" + short_name_of(dtype);
  if (!defined_.insert(name).second) return name;
  const bool is_f32 = dtype == DType::Float32;
  switch (prim) {
    case Prim::TruncMod: define_remainder(name, dtype); return name;
    case Prim::Sin:
    case Prim::Cos:
    case Prim::Tan: define_angle(name, prim, dtype); return name;
    case Prim::Exp:
    case Prim::Tanh:
      if (!is_f32) break;
      definitions_ +=
          "static inline float " + name + "(float x) { return " + weft::name_of(prim) + "f(x); }\n";
      return name;
    case Prim::Sigmoid:
      if (!is_f32) break;
      math_function(Prim::Exp, dtype);
      definitions_ +=
          "static inline float w_reciprocal(float x) { float r; asm(\"rcp.approx.ftz.f32 %0, %1;\" : "
          "\"=f\"(r) : \"f\"(x)); return r; }\n"
          "static inline float " +
          name +
          "(float x) {\n  const float e = w_exp_f32(-w_abs(x));\n  return (x < 0 ? e : 1.0f) * "
          "w_reciprocal(1.0f + e);\n}\n";
      return name;
    default: break;
  }
  define_body(name, prim, dtype);
  return name;
}

// torch.fmod by long division, until no digits are left.
void CudaPrinter::define_remainder(const std::string& name, DType dtype) {
  const std::string type = type_of(dtype);
  const DType both[] = {dtype, dtype}, doubles[] = {DType::Float64, DType::Float64};
  const auto define_part = [&](const char* part, std::span<const DType> inputs, auto make) {
    ExprGraph graph;
    std::vector<weft::Expr> args;
    for (size_t i = 0; i < inputs.size(); ++i) args.push_back(graph.input(static_cast<int>(i), inputs[i]));
    const std::string text = function(name + part, graph, make(args), {inputs.begin(), inputs.end()});
    definitions_ += text;
  };
  using Args = const std::vector<weft::Expr>&;
  define_part("_dividend", both, [](Args x) { return expr::remainder_start(to_f64(x[0]), to_f64(x[1])).r; });
  define_part("_divisor", both, [](Args x) { return expr::remainder_start(to_f64(x[0]), to_f64(x[1])).b; });
  define_part("_step", doubles, [](Args x) { return expr::remainder_step_f64(x[0], x[1]); });
  const DType three[] = {dtype, dtype, DType::Float64};
  define_part("_end", three,
              [&](Args x) { return expr::trunc_mod_from(x[0], x[1], weft::cast(x[2], dtype)); });
  definitions_ += "static " + type + " " + name + "(" + type + " a, " + type + " b) {\n  double r = " + name +
                  "_dividend(a, b);\n  const double d = " + name +
                  "_divisor(a, b);\n  while (r >= d) r = " + name + "_step(r, d);\n  return " + name +
                  "_end(a, b, r);\n}\n";
}

// The reduction of huge arguments is for them alone.
void CudaPrinter::define_angle(const std::string& name, Prim prim, DType dtype) {
  const bool is_f32 = dtype == DType::Float32;
  define_body(name + "_huge", prim, dtype);
  ExprGraph graph;
  graph.set_number_dtype(dtype);
  const weft::Expr x = graph.input(0, dtype);
  weft::Expr value;
  switch (prim) {
    case Prim::Sin: value = is_f32 ? expr::sin_moderate_f32(x) : expr::sin_moderate_f64(x); break;
    case Prim::Cos: value = is_f32 ? expr::cos_moderate_f32(x) : expr::cos_moderate_f64(x); break;
    default: value = is_f32 ? expr::tan_moderate_f32(x) : expr::tan_moderate_f64(x); break;
  }
  const std::string text = function(name + "_moderate", graph, value, {dtype});
  definitions_ += text;
  ExprGraph limits;
  const weft::Expr limit = limits.constant(is_f32 ? expr::kModerateF32 : expr::kModerateF64, dtype);
  const std::string type = type_of(dtype);
  definitions_ += "static " + type + " " + name + "(" + type + " x) {\n  return w_abs(x) > " +
                  constant(limits.node(limit)).text + " ? " + name + "_huge(x) : " + name +
                  "_moderate(x);\n}\n";
}

}  // namespace weft::compiler
