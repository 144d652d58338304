// The vector dialect: how primitives, conversions and math functions are spelled.
// Place: the out-of-line half of print_vector.h.
#include "compiler/codegen/print_vector.h"

#include <cmath>

#include "tensor/base/error.h"
#include "tensor/expr/math.h"

namespace weft::compiler {
namespace {

int bits_of(const std::string& type) { return type[1] == '6' ? 64 : 32; }
// "x8" of "f32x8".
std::string suffix_of(const std::string& type) { return type.substr(3); }

std::string call(const std::string& what, const std::string& type, std::initializer_list<std::string> args) {
  std::string text = "w_" + what + "_" + type + "(";
  const char* separator = "";
  for (const std::string& arg : args) {
    text += separator + arg;
    separator = ", ";
  }
  return text + ")";
}

const char* comparison(Prim prim) {
  switch (prim) {
    case Prim::Eq: return "eq";
    case Prim::Ne: return "ne";
    case Prim::Lt: return "lt";
    case Prim::Le: return "le";
    case Prim::Gt: return "gt";
    case Prim::Ge: return "ge";
    default: return nullptr;
  }
}

const char* infix(Prim prim) {
  switch (prim) {
    case Prim::Add: return " + ";
    case Prim::Sub: return " - ";
    case Prim::Mul: return " * ";
    case Prim::Div: return " / ";
    case Prim::And: return " & ";
    case Prim::Or: return " | ";
    case Prim::Xor: return " ^ ";
    default: return nullptr;
  }
}

const char* function_of(Prim prim) {
  switch (prim) {
    case Prim::Abs: return "abs";
    case Prim::Fma: return "fma";
    case Prim::Minimum: return "minimum";
    case Prim::Maximum: return "maximum";
    case Prim::CopySign: return "copysign";
    case Prim::FloorDiv: return "floor_div";
    case Prim::TruncDiv: return "trunc_div";
    case Prim::FloorMod: return "floor_mod";
    case Prim::TruncMod: return "trunc_mod";
    case Prim::Floor: return "floor";
    case Prim::Ceil: return "ceil";
    case Prim::Trunc: return "trunc";
    case Prim::RoundEven: return "round_even";
    case Prim::Sqrt: return "sqrt";
    case Prim::Shl: return "shl";
    case Prim::Shr: return "shr";
    case Prim::ToInt:
    case Prim::ToFloat: return "to";
    case Prim::Bitcast: return "as";
    default: return nullptr;
  }
}

int small_bits(DType dtype) { return static_cast<int>(size_of(dtype)) * 8; }

}  // namespace

std::string VectorPrinter::type_of(DType dtype) const {
  const std::string suffix = lanes_suffix(lanes_);
  switch (dtype) {
    case DType::Float64: return "f64" + suffix;
    case DType::Int64: return "i64" + suffix;
    case DType::Bool: return "m32" + suffix;
    default: return (is_floating(dtype) ? "f32" : "i32") + suffix;
  }
}

std::string VectorPrinter::mask_for(const CppValue& mask, int bits) const {
  WEFT_ASSERT(mask.type[0] == 'm', mask.type, " is no mask");
  if (bits_of(mask.type) == bits) return mask.text;
  return "w_m" + std::to_string(bits) + "_of_" + mask.type + "(" + mask.text + ")";
}

CppValue VectorPrinter::constant(const ExprGraph::Node& node) {
  if (node.dtype == DType::Bool) {
    const std::string type = type_of(DType::Bool);
    return {call("splat", type, {node.imm != 0 ? "1" : "0"}), type};
  }
  const std::string type = type_of(node.dtype);
  return {call("splat", type, {number_text(node)}), type};
}

CppValue VectorPrinter::compare_masks(Prim prim, const CppValue& a, const CppValue& b) const {
  const std::string x = a.text, y = mask_for(b, bits_of(a.type));
  switch (prim) {
    case Prim::Eq: return {"~(" + x + " ^ " + y + ")", a.type};
    case Prim::Ne: return {x + " ^ " + y, a.type};
    case Prim::Lt: return {"~" + x + " & " + y, a.type};
    case Prim::Le: return {"~" + x + " | " + y, a.type};
    case Prim::Gt: return {x + " & ~" + y, a.type};
    default: return {x + " | ~" + y, a.type};
  }
}

CppValue VectorPrinter::operation(const ExprGraph& graph, const ExprGraph::Node& node,
                                  std::span<const CppValue> args) {
  if (node.prim == Prim::Cast) return cast(args[0], graph.nodes()[node.args[0]].dtype, node.dtype);
  const bool is_bool = args[0].type[0] == 'm';
  if (const char* name = comparison(node.prim)) {
    if (is_bool) return compare_masks(node.prim, args[0], args[1]);
    return {call(name, args[0].type, {args[0].text, args[1].text}), "m" + args[0].type.substr(1)};
  }
  if (node.prim == Prim::Where) {
    const std::string& a = args[1].text;
    if (node.dtype == DType::Bool) {
      const int bits = bits_of(args[0].type);
      return {call("where", args[0].type, {args[0].text, mask_for(args[1], bits), mask_for(args[2], bits)}),
              args[0].type};
    }
    return {call("where", args[1].type, {mask_for(args[0], bits_of(args[1].type)), a, args[2].text}),
            args[1].type};
  }
  if (node.prim == Prim::IsNan) {
    const std::string mask = "m" + args[0].type.substr(1);
    if (args[0].type[0] != 'f') return {call("splat", mask, {"0"}), mask};
    return {call("unordered", args[0].type, {args[0].text, args[0].text}), mask};
  }
  if (node.prim == Prim::Neg) return {"-" + args[0].text, args[0].type};
  if (node.prim == Prim::Not) return {"~" + args[0].text, args[0].type};
  if (const char* symbol = infix(node.prim)) {
    const std::string b = is_bool ? mask_for(args[1], bits_of(args[0].type)) : args[1].text;
    return {args[0].text + symbol + b, args[0].type};
  }
  if (node.prim == Prim::Lookup) {
    const LookupTable& table = graph.tables()[node.imm];
    use_table(table);
    const std::string type = type_of(table.dtype), index = "i" + type.substr(1);
    const std::string at = index == args[0].type
                               ? args[0].text
                               : "w_" + index.substr(0, 3) + "_of_" + args[0].type + "(" + args[0].text + ")";
    return {
        call("lookup", type, {"(const " + std::string(element_type(table.dtype)) + "*)" + table.name, at}),
        type};
  }
  if (node.prim == Prim::Shl || node.prim == Prim::Shr) {
    const ExprGraph::Node& count = graph.nodes()[node.args[1]];
    if (count.prim == Prim::Constant && count.imm < static_cast<uint64_t>(bits_of(args[0].type)))
      return {args[0].text + (node.prim == Prim::Shl ? " << " : " >> ") + std::to_string(count.imm),
              args[0].type};
  }
  const char* function = function_of(node.prim);
  WEFT_ASSERT(function != nullptr, "primitive ", name_of(node.prim), " is not printed");
  // Conversions are named after what they give, which else is what they take.
  const std::string type = type_of(node.dtype);
  std::string text = "w_" + std::string(function) + "_" + type + "(" + args[0].text;
  for (size_t i = 1; i < args.size(); ++i) text += ", " + args[i].text;
  return {text + ")", type};
}

CppValue VectorPrinter::cast(const CppValue& value, DType from, DType to) const {
  const std::string suffix = suffix_of(value.type);
  CppValue x = value;
  const auto convert = [&](const char* kind) {
    if (x.type == kind + suffix) return;
    x = {"w_" + std::string(kind) + "_of_" + x.type + "(" + x.text + ")", kind + suffix};
  };
  switch (to) {
    case DType::Float32: convert("f32"); return x;
    case DType::Float64: convert("f64"); return x;
    case DType::Int64: convert("i64"); return x;
    case DType::Int32: convert("i32"); return x;
    case DType::Bool:
      if (x.type[0] != 'm') convert(bits_of(x.type) == 32 ? "m32" : "m64");
      return x;
    case DType::BFloat16:
    case DType::Float16:
      if (from == to) return x;
      if (from == DType::Bool || from == DType::Int8 || from == DType::UInt8) {
        convert("f32");  // exact, also in the half type
        return x;
      }
      if (x.type[0] == 'f' && bits_of(x.type) == 32) {
        // Rounded below.
      } else {
        convert("f64");
        x = {call("odd", "f32" + suffix, {x.text}), "f32" + suffix};
      }
      return {call(to == DType::BFloat16 ? "round_bf16" : "round_f16", x.type, {x.text}), x.type};
    case DType::Int16:
    case DType::Int8:
    case DType::UInt8: break;
  }
  const bool from_float = x.type[0] == 'f', from_bool = x.type[0] == 'm';
  convert("i32");
  const int bits = small_bits(to);
  if (from_bool || from == to || (to == DType::Int16 && (from == DType::Int8 || from == DType::UInt8)))
    return x;
  if (from_float) {
    const int low = to == DType::UInt8 ? 0 : -(1 << (bits - 1)), high = to == DType::UInt8 ? 255 : -low - 1;
    const auto limit = [&](int bound) { return call("splat", x.type, {std::to_string(bound)}); };
    return {call("minimum", x.type, {call("maximum", x.type, {x.text, limit(low)}), limit(high)}), x.type};
  }
  if (to == DType::UInt8) return {x.text + " & " + call("splat", x.type, {"255"}), x.type};
  const std::string shift = std::to_string(32 - bits);
  return {"(" + x.text + " << " + shift + ") >> " + shift, x.type};
}

std::string VectorPrinter::math_function(Prim prim, DType dtype) {
  const std::string what = std::string("w_") + weft::name_of(prim) + "_";
  const std::string name = what + type_of(dtype);
  if (!defined_.insert(name).second) return name;
  const int lanes = lanes_, piece = register_lanes(target_, size_of(dtype));
  if (lanes == piece) {
    define(name, prim, dtype);
    return name;
  }
  lanes_ = piece;
  const std::string type = name.substr(what.size()), piece_name = math_function(prim, dtype);
  lanes_ = lanes;
  const int arity = arity_of(prim);
  std::string text = "static inline " + type + " " + name + "(" + type + " a" +
                     (arity == 2 ? ", " + type + " b" : "") + ") { return {{";
  for (int i = 0; i < lanes / piece; ++i) {
    const std::string at = ".v[" + std::to_string(i) + "]";
    text += (i == 0 ? "" : ", ") + piece_name + "(a" + at + (arity == 2 ? ", b" + at : "") + ")";
  }
  definitions_ += text + "}}; }\n";
  return name;
}

void VectorPrinter::define(const std::string& name, Prim prim, DType dtype) {
  switch (prim) {
    case Prim::TruncMod: define_remainder(name, dtype); break;
    case Prim::Sin:
    case Prim::Cos:
    case Prim::Tan: define_angle(name, prim, dtype); break;
    default: define_body(name, prim, dtype);
  }
}

// torch.fmod by long division, until no lane has digits left.
void VectorPrinter::define_remainder(const std::string& name, DType dtype) {
  const std::string type = type_of(dtype), wide = type_of(DType::Float64);
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
  definitions_ += "static " + type + " " + name + "(" + type + " a, " + type + " b) {\n  " + wide +
                  " r = " + name + "_dividend(a, b);\n  const " + wide + " d = " + name +
                  "_divisor(a, b);\n  while (w_any_" + "m64" + suffix_of(wide) + "(w_ge_" + wide +
                  "(r, d))) r = " + name + "_step(r, d);\n  return " + name + "_end(a, b, r);\n}\n";
}

// The reduction of huge arguments runs only when a lane needs it; no lane's value depends on the others.
void VectorPrinter::define_angle(const std::string& name, Prim prim, DType dtype) {
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
  const std::string type = type_of(dtype);
  ExprGraph limits;
  const weft::Expr limit = limits.constant(is_f32 ? expr::kModerateF32 : expr::kModerateF64, dtype);
  definitions_ += "static " + type + " " + name + "(" + type + " x) {\n  if (__builtin_expect(w_any_m" +
                  type.substr(1) + "(w_gt_" + type + "(w_abs_" + type + "(x), " +
                  constant(limits.node(limit)).text + ")), 0)) return " + name + "_huge(x);\n  return " +
                  name + "_moderate(x);\n}\n";
}

}  // namespace weft::compiler
