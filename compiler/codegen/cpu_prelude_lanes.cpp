// What vectors do: primitives, conversions, folds over lanes.
// Place: the part of cpu_vocabulary.h about lanes. The bits of every function are those of tensor/cpu/vec*.h.
#include "compiler/codegen/cpu_vocabulary.h"

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using cpu::Isa;

}  // namespace

std::string Vocabulary::elementwise_text(const std::string& word, const std::string& what,
                                         const VectorType& type) const {
  const VectorType reg = register_of(type);
  const Elementwise rule = elementwise(what, reg);
  if (rule.signature.empty()) return {};
  const auto type_of = [&](char letter, const VectorType& at) -> std::string {
    switch (letter) {
      case 'M': return at.with('m').name();
      case 'I': return at.with('i').name();
      case 'F': return at.with('f').name();
      case 'S': return at.scalar();
      case 'n': return "long";
      default: return at.name();
    }
  };
  std::string head = "W " + type_of(rule.signature[0], type) + " " + word + "(";
  for (size_t i = 2; i < rule.signature.size(); ++i)
    head += (i == 2 ? "" : ", ") + type_of(rule.signature[i], type) + " " + static_cast<char>('a' + i - 2);
  head += ") { ";
  const int n = registers(type);
  if (n == 1) return head + expanded(rule.body, reg) + " }\n";
  std::string text = head + "return {{";
  for (int k = 0; k < n; ++k) {
    text += (k == 0 ? "w_" : ", w_") + what + "_" + reg.name() + "(";
    for (size_t i = 2; i < rule.signature.size(); ++i) {
      text += (i == 2 ? "" : ", ") + std::string(1, static_cast<char>('a' + i - 2));
      if (rule.signature[i] != 'S' && rule.signature[i] != 'n') text += ".v[" + number(k) + "]";
    }
    text += ")";
  }
  return text + "}}; }\n";
}

std::string Vocabulary::all_lanes(const VectorType& type) {
  return type.bits == 32 ? "(unsigned short)-1" : "(unsigned char)-1";
}

std::string Vocabulary::choose(const std::string& gcc, const std::string& clang) const {
  return "\n#ifdef __clang__\n  return " + clang + ";\n#else\n  return " + gcc + ";\n#endif\n";
}

Vocabulary::Elementwise Vocabulary::elementwise(const std::string& what, const VectorType& type) const {
  const bool is_float = type.kind == 'f';
  const std::string ps = float_letter(type), d = int_letter(type), all = all_lanes(type), w = width_digits();
  if (type.kind == 'm') {
    // Truth values chosen by truth values.
    if (what == "where") return {"V:VVV", "return (a & b) | (~a & c);"};
    if (what == "splat")
      return {"V:n",
              is_512() ? "return ($V)(0 - a);" : "return $V{} - (" + std::string(type.scalar()) + ")a;"};
    return {};
  }
  if (what == "splat") return {"V:S", "return a - $V{};"};
  static const char* const kCompare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  static const char* const kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
  static const int kFloatCodes[] = {0, 4, 17, 18, 30, 29}, kIntCodes[] = {0, 4, 1, 2, 6, 5};
  for (int i = 0; i < 6; ++i) {
    if (what != kCompare[i]) continue;
    if (!is_512()) return {"M:VV", "return ($M)(a " + std::string(kSymbols[i]) + " b);"};
    if (is_float)
      return {"M:VV", "return __builtin_ia32_cmp" + ps + "512_mask(a, b, " + number(kFloatCodes[i]) + ", " +
                          all + ", 4);"};
    return {"M:VV",
            "return __builtin_ia32_cmp" + d + "512_mask(a, b, " + number(kIntCodes[i]) + ", " + all + ");"};
  }
  if (what == "where") {
    const std::string letter = is_float ? ps : d;
    if (is_512())
      return {"V:MVV", choose("__builtin_ia32_blendm" + letter + "_512_mask(c, b, a)",
                              "__builtin_ia32_select" + letter + "_512(a, b, c)")};
    return {"V:MVV", "return ($V)__builtin_ia32_blendv" + ps + w + "(($F)c, ($F)b, ($F)a);"};
  }
  if (what == "abs") {
    if (is_float) return {"V:V", "return ($V)(($U)a & (~($U){} >> 1));"};
    return {"V:V", "const $V s = a >> ($B - 1); return (a ^ s) - s;"};
  }
  if (what == "fma") {
    if (!is_float) return {"V:VVV", "return a * b + c;"};
    if (is_512())
      return {"V:VVV", "return __builtin_ia32_vfmadd" + ps + "512_mask(a, b, c, " + all + ", 4);"};
    if (isa_ == Isa::AVX2) return {"V:VVV", "return __builtin_ia32_vfmadd" + ps + "256(a, b, c);"};
    return {"V:VVV", std::string("$V r; for (int l = 0; l < $L; ++l) r[l] = __builtin_fma") +
                         (type.bits == 32 ? "f" : "") + "(a[l], b[l], c[l]); return r;"};
  }
  if (what == "raw_min" || what == "raw_max") {
    const std::string name = what.substr(4);
    if (!is_512()) return {"V:VV", "return __builtin_ia32_" + name + ps + w + "(a, b);"};
    return {"V:VV", choose("__builtin_ia32_" + name + ps + "512_mask(a, b, $V{}, " + all + ", 4)",
                           "__builtin_ia32_" + name + ps + "512(a, b, 4)")};
  }
  if (what == "minimum") {
    if (!is_float) return {"V:VV", "return a < b ? a : b;"};
    return {"V:VV", "return ($V)(($U)w_raw_min_$V(a, b) | ($U)w_raw_min_$V(b, a));"};
  }
  if (what == "maximum") {
    if (!is_float) return {"V:VV", "return a > b ? a : b;"};
    return {"V:VV",
            "\n  const $V ordered = ($V)(($U)w_raw_max_$V(a, b) & ($U)w_raw_max_$V(b, a));\n"
            "  return w_where_$V(w_unordered_$V(a, b), a + b, ordered);\n"};
  }
  if (what == "unordered") {  // NaN in either
    if (is_512()) return {"M:VV", "return __builtin_ia32_cmp" + ps + "512_mask(a, b, 3, " + all + ", 4);"};
    return {"M:VV", "return ($M)((a != a) | (b != b));"};
  }
  if (what == "copysign")
    return {"V:VV", "const $U rest = ~($U){} >> 1; return ($V)((($U)a & rest) | (($U)b & ~rest));"};
  static const char* const kRounding[] = {"round_even", "floor", "ceil", "trunc"};
  for (int i = 0; i < 4; ++i) {
    if (what != kRounding[i]) continue;
    if (!is_float) return {"V:V", "return a;"};
    const std::string mode = number(8 + i);
    if (is_512())
      return {"V:V", "return __builtin_ia32_rndscale" + ps + "_mask(a, " + mode + ", a, " + all + ", 4);"};
    return {"V:V", "return __builtin_ia32_round" + ps + w + "(a, " + mode + ");"};
  }
  if (what == "sqrt") {
    if (!is_512()) return {"V:V", "return __builtin_ia32_sqrt" + ps + w + "(a);"};
    return {"V:V", choose("__builtin_ia32_sqrt" + ps + "512_mask(a, a, " + all + ", 4)",
                          "__builtin_ia32_sqrt" + ps + "512(a, 4)")};
  }
  if (what == "as" && type.kind == 'i') return {"V:F", "return ($V)a;"};  // the bits of the other kind
  if (what == "as" && type.kind == 'f') return {"V:I", "return ($V)a;"};
  if (what == "to" && type.kind == 'i') return {"V:F", to_int(type)};
  if (what == "to" && type.kind == 'f') {
    if (type.bits == 32 || is_512()) return {"V:I", "return __builtin_convertvector(a, $V);"};
    return {"V:I", "return ($V)(a + 0x4338000000000000ll) - 0x1.8p52;"};
  }
  if (what == "round_f16") {
    if (is_512())
      return {"V:V",
              "return __builtin_ia32_vcvtph2ps512_mask(__builtin_ia32_vcvtps2ph512_mask(a, 8, (short "
              "__attribute__((vector_size(32)))){}, (unsigned short)-1), $V{}, (unsigned short)-1, 4);"};
    if (isa_ == Isa::AVX2)
      return {"V:V", "return __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(a, 8));"};
    return {"V:V", "return w_from_half_$V(w_half_bits_$V(a));"};
  }
  // Half precision without F16C: load_f16 and store_f16 of vec_register.h.
  if (what == "from_half")
    return {"V:I",
            "\n  const $U h = ($U)a, magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;\n"
            "  const $U scaled = ($U)(($V)(magnitude << 13) * 0x1p112f);\n"
            "  const $U special = (magnitude << 13) | 0x7f800000 | (($U)(magnitude > 0x7c00) & 0x00400000);\n"
            "  const $U is_special = ($U)(magnitude >= 0x7c00);\n"
            "  return ($V)(sign | (special & is_special) | (scaled & ~is_special));\n"};
  if (what == "half_bits")
    return {"I:V",
            "\n  const $U u = ($U)a, magnitude = u & 0x7fffffff, sign = (u >> 16) & 0x8000;\n"
            "  const $U normal = (magnitude + ((magnitude >> 13) & 1) + (0xfffu - (112u << 23))) >> 13;\n"
            "  const $U subnormal = ($U)(($V)magnitude + 0.5f) - 0x3f000000;\n"
            "  const $U nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);\n"
            "  const $U tiny = ($U)(magnitude < 0x38800000), huge = ($U)(magnitude >= 0x477ff000);\n"
            "  const $U is_nan = ($U)(magnitude > 0x7f800000);\n"
            "  return ($I)((subnormal & tiny) | (normal & ~tiny & ~huge) | (0x7c00 & huge & ~is_nan) | "
            "(nan & is_nan) | sign);\n"};
  if (what == "shl")
    return {"V:VV", "const $U n = ($U)b; return ($V)((($U)a << (n & ($B - 1))) & ($U)(n < ($U){} + $B));"};
  if (what == "shr")
    return {"V:VV",
            "\n  const $U sign = ($U)(a < 0), n = (($U)b | ($U)(($U)b >= ($U){} + $B)) & ($B - 1);\n"
            "  return ($V)(((($U)a ^ sign) >> n) ^ sign);\n"};
  return {};
}

std::string Vocabulary::to_int(const VectorType& type) const {
  if (type.bits == 32) {
    if (is_512()) return "return __builtin_ia32_cvttps2dq512_mask(a, $V{}, (unsigned short)-1, 4);";
    return std::string("return __builtin_ia32_cvttps2dq") + width_digits() + "(a);";
  }
  if (is_512()) return "return __builtin_ia32_cvttpd2qq512_mask(a, $V{}, (unsigned char)-1, 4);";
  return "return ($V)(w_trunc_$F(a) + 0x1.8p52) - 0x4338000000000000ll;";
}

std::string Vocabulary::lanes_text(const std::string& word, const std::string& what,
                                   const VectorType& type) const {
  const bool is_i32 = type.kind == 'i' && type.bits == 32, is_i64 = type.kind == 'i' && type.bits == 64;
  std::string body;
  const auto binary = [&](const std::string& text) {
    return expanded("static $V " + word + "($V a, $V b) {\n" + text + "}\n", type);
  };
  // 32-bit quotients are exact in double.
  const auto quotient32 = [&](const char* rounding) {
    return "  const f64$x q = w_" + std::string(rounding) +
           "_f64$x(w_f64_of_i32$x(a) / w_f64_of_i32$x(b));\n"
           "  return w_i32_of_i64$x(w_to_i64$x(w_where_f64$x(w_le_f64$x(w_abs_f64$x(q), "
           "w_splat_f64$x(0x1p31)), "
           "q, w_splat_f64$x(0.0))));\n";
  };
  const auto quotient64 = [&](const char* correction) {
    return "  union { i64$x v; long long e[$L]; } x, y;\n  x.v = a;\n  y.v = b;\n"
           "  for (int l = 0; l < $L; ++l) {\n"
           "    const long long n = x.e[l], d = y.e[l];\n"
           "    x.e[l] = d == 0 ? 0 : d == -1 ? -n : n / d" +
           std::string(correction) + ";\n  }\n  return x.v;\n";
  };
  if (is_i32 && what == "trunc_div") return binary(quotient32("trunc"));
  if (is_i32 && what == "floor_div") return binary(quotient32("floor"));
  if (is_i64 && what == "trunc_div") return binary(quotient64(""));
  if (is_i64 && what == "floor_div") return binary(quotient64(" - (n % d != 0 && (n < 0) != (d < 0))"));
  if ((is_i32 || is_i64) && (what == "trunc_mod" || what == "floor_mod"))
    return binary("  return a - w_" + what.substr(0, 6) + "div_$V(a, b) * b;\n");
  if (what == "any") return expanded("W bool " + word + "($M a) { return w_bits_$M(a) != 0; }\n", type);
  if (what == "lane0")
    return expanded("W $S " + word + "($V a) { return a" + (registers(type) == 1 ? "" : ".v[0]") + "[0]; }\n",
                    type);
  if (what == "bits" && type.kind == 'm') return bits_text(word, type);
  if (what == "first" && type.kind == 'm') {
    if (!is_512())
      return expanded("W $V " + word + "(long n) { return w_lt_$I(w_iota_$I(0), w_splat_$I((" +
                          std::string(type.scalar()) + ")n)); }\n",
                      type);
    return expanded("W $V " + word + "(long n) { return w_from_bits_$V((1u << n) - 1); }\n", type);
  }
  if (what == "from_bits" && type.kind == 'm') {
    if (!is_512())
      return expanded("W $V " + word +
                          "(unsigned bits) { return w_ne_$I(w_shr_$I(w_splat_$I(bits), w_iota_$I(0)) & "
                          "w_splat_$I(1), $I{}); }\n",
                      type);
    const VectorType reg = register_of(type);
    return "W " + type.name() + " " + word + "(unsigned bits) { return " +
           each_register(
               type, [&](int i) { return "(" + reg.name() + ")(bits >> " + number(i * reg.lanes) + ")"; }) +
           "; }\n";
  }
  if (what == "iota" && type.kind != 'm') {
    const int lanes = register_of(type).lanes;
    return expanded(
        "W $V " + word + "($S start) { const $V lane = " +
            (registers(type) == 1
                 ? "{" + indices(0, lanes).substr(2) + "}"
                 : each_register(type,
                                 [&](int i) { return "{" + indices(i * lanes, lanes).substr(2) + "}"; })) +
            "; return lane + w_splat_$V(start); }\n",
        type);
  }
  if (const std::string text = folds_text(word, what, type); !text.empty()) return text;
  if (what == "lookup")  // base[index[lane]], for tables
    return expanded("static $V " + word +
                        "(const $S* base, $I index) {\n"
                        "  union { $I v; " +
                        std::string(type.with('i').scalar()) +
                        " e[$L]; } at;\n"
                        "  union { $V v; $S e[$L]; } x;\n  at.v = index;\n"
                        "  for (int l = 0; l < $L; ++l) x.e[l] = base[at.e[l]];\n  return x.v;\n}\n",
                    type);
  if (what == "round_bf16") {  // float rounded as memory would
    return expanded(
        "W $F " + word +
            "($F x) {\n"
            "  const $I u = w_as_$I(x), rounded = u + w_splat_$I(0x7fff) + ((u >> 16) & w_splat_$I(1));\n"
            "  return w_as_$F(w_where_$I(w_unordered_$F(x, x), u | w_splat_$I(0x400000), rounded) & "
            "w_splat_$I((int)0xffff0000));\n"
            "}\n",
        type);
  }
  if (what == "odd" && type.kind == 'f' && type.bits == 32)  // narrow_to_odd
    return expanded(
        "static f32$x " + word +
            "(f64$x x) {\n"
            "  const f32$x f = w_f32_of_f64$x(x);\n  const f64$x back = w_f64_of_f32$x(f);\n"
            "  const i32$x bits = w_as_i32$x(f);\n"
            "  const i32$x toward_zero = w_where_i32$x(w_m32_of_m64$x(w_gt_f64$x(w_abs_f64$x(back), "
            "w_abs_f64$x(x))), bits - w_splat_i32$x(1), bits);\n"
            "  const m64$x inexact = w_ne_f64$x(back, x) & w_eq_f64$x(x, x);\n"
            "  return w_as_f32$x(w_where_i32$x(w_m32_of_m64$x(inexact), toward_zero | w_splat_i32$x(1), "
            "bits));\n}\n",
        type);
  return {};
}

std::string Vocabulary::folds_text(const std::string& word, const std::string& what,
                                   const VectorType& type) const {
  for (const char* fold : {"sum", "prod", "max", "min"}) {
    const std::string name = fold;
    const auto folded = [&](const std::string& a, const std::string& b) {
      return fold_text(name, type.name(), a, b);
    };
    const std::string identity = "w_splat_" + type.name() + "(" + identity_text(name, type) + ")";
    if (what == "identity_" + name)
      return expanded("W $V " + word + "() { return " + identity + "; }\n", type);
    // What lanes below n fold; the others hold the identity.
    if (what == "keep_" + name)
      return expanded("W $V " + word + "($V a, long n) { return n == 16 ? a : w_where_$V(w_first_$M(n), a, " +
                          identity + "); }\n",
                      type);
    // totals[c] takes block[c]; n is a multiple of sixteen.
    if (what == "combine_" + name)
      return expanded("static void " + word +
                          "($S* totals, const $S* block, long n) {\n"
                          "  for (long c = 0; c < n; c += 16) w_put_" +
                          memory_name(type) + "(totals + c, " +
                          folded("w_whole_" + memory_name(type) + "(totals + c)",
                                 "w_whole_" + memory_name(type) + "(block + c)") +
                          ");\n}\n",
                      type);
    // The values one after another; lane 0 counts.
    if (what == "serial_" + name)
      return expanded("static $V " + word + "(const $S* x, long n) {\n  $V total = " + identity +
                          ";\n  for (long i = 0; i < n; ++i) total = " + folded("total", "w_splat_$V(x[i])") +
                          ";\n  return total;\n}\n",
                      type);
    // The inner tree of n values; lane 0 counts.
    if (what == "run_" + name)
      return expanded("static $V " + word + "(const $S* x, long n) {\n  $V total = " + identity +
                          ";\n"
                          "  for (long begin = 0; begin < n; begin += 4096) {\n"
                          "    const long end = n - begin < 4096 ? n : begin + 4096;\n"
                          "    $V a[4] = {" +
                          identity + ", " + identity + ", " + identity + ", " + identity +
                          "};\n"
                          "    for (long i = begin, k = 0; i < end; i += 16, k = (k + 1) & 3) {\n"
                          "      const long n = end - i < 16 ? end - i : 16;\n"
                          "      a[k] = " +
                          folded("a[k]", "w_where_$V(w_first_$M(n), w_load_" + memory_name(type) +
                                             "(x + i, n), " + identity + ")") +
                          ";\n    }\n"
                          "    total = " +
                          folded("total", "w_reduce_" + name + "_$V(" +
                                              folded("(" + folded("a[0]", "a[1]") + ")",
                                                     "(" + folded("a[2]", "a[3]") + ")") +
                                              ")") +
                          ";\n  }\n"
                          "  return total;\n}\n",
                      type);
  }
  return {};
}

std::string Vocabulary::bits_text(const std::string& word, const VectorType& type) const {
  const int n = registers(type), lanes = register_of(type).lanes;
  std::string text = "W unsigned " + word + "($V a) { return ";
  for (int i = 0; i < n; ++i) {
    const std::string reg = n == 1 ? "a" : "a.v[" + number(i) + "]";
    std::string part;
    if (is_512()) part = reg;
    else
      part = std::string("(unsigned)__builtin_ia32_movmsk") + float_letter(type) + width_digits() + "((" +
             register_of(type).with('f').name() + ")" + reg + ")";
    text += (i == 0 ? "" : " | ") + (i == 0 ? part : "((unsigned)" + part + " << " + number(i * lanes) + ")");
  }
  return expanded(text + "; }\n", type);
}

std::string Vocabulary::conversion_text(const std::string& word, const VectorType& to,
                                        const VectorType& from) const {
  const std::string head = "W " + to.name() + " " + word + "(" + from.name() + " a) ";
  const auto text = [&](std::string_view body) {
    return head + "{ return " + expanded(body, from) + "; }\n";
  };
  if (to.kind == 'm') return mask_conversion(head, to, from);
  if (from.kind == 'm') {  // false and true as 0 and 1
    return expanded(
        "W " + to.name() + " " + word + "($V a) { return w_where_" + to.name() + "(" +
            (to.bits == from.bits ? "a" : "w_" + to.with('m').name() + "_of_" + from.name() + "(a)") +
            ", w_splat_" + to.name() + "(1), w_splat_" + to.name() + "(0)); }\n",
        from);
  }
  if (to.kind == from.kind) return to.bits > from.bits ? widen(head, to, from) : narrow(head, to, from);
  if (to.kind == 'f') {
    if (from.bits == 32) return to.bits == 32 ? text("w_to_f32$x(a)") : widen(head, to, from);
    if (is_512()) return to.bits == 64 ? text("w_to_f64$x(a)") : narrow(head, to, from);
    return by_lane(head, to, from, "(" + std::string(to.scalar()) + ")x");
  }
  if (from.bits == 32 && to.bits == 32)
    return text(
        "w_where_i32$x(w_unordered_f32$x(a, a), w_splat_i32$x(0), w_where_i32$x(w_ge_f32$x(a, "
        "w_splat_f32$x(0x1p31f)), w_splat_i32$x(2147483647), w_to_i32$x(a)))");
  if (from.bits == 32) return text("w_i64_of_f64$x(w_f64_of_f32$x(a))");
  if (to.bits == 32)
    return head +
           expanded(
               "{\n  a = w_where_f64$x(w_lt_f64$x(a, w_splat_f64$x(-0x1p31)), w_splat_f64$x(-0x1p31), "
               "w_where_f64$x(w_gt_f64$x(a, w_splat_f64$x(2147483647.0)), w_splat_f64$x(2147483647.0), "
               "a));\n"
               "  return w_i32_of_i64$x(w_to_i64$x(w_where_f64$x(w_unordered_f64$x(a, a), "
               "w_splat_f64$x(0.0), a)));\n}\n",
               from);
  if (is_512())
    return text(
        "w_where_i64$x(w_unordered_f64$x(a, a), w_splat_i64$x(0), w_where_i64$x(w_ge_f64$x(a, "
        "w_splat_f64$x(0x1p63)), w_splat_i64$x(0x7fffffffffffffffll), w_to_i64$x(a)))");
  return by_lane(head, to, from,
                 "!(x > -0x1p63) ? (x != x ? 0 : -0x7fffffffffffffffll - 1) : x >= 0x1p63 ? "
                 "0x7fffffffffffffffll : (long long)x");
}

std::string Vocabulary::by_lane(const std::string& head, const VectorType& to, const VectorType& from,
                                const std::string& value) const {
  return head + "{\n  union { " + from.name() + " v; " + from.scalar() + " e[" + number(from.lanes) +
         "]; } in;\n  union { " + to.name() + " v; " + to.scalar() + " e[" + number(to.lanes) +
         "]; } out;\n  in.v = a;\n  for (int l = 0; l < " + number(to.lanes) + "; ++l) { const " +
         from.scalar() + " x = in.e[l]; out.e[l] = " + value + "; }\n  return out.v;\n}\n";
}

std::string Vocabulary::widen(const std::string& head, const VectorType& to, const VectorType& from) const {
  const int n = registers(to), half = register_of(to).lanes;
  std::string values;
  for (int i = 0; i < n; ++i) {
    const std::string reg = reg_text("a", from, i / 2);
    values += (i == 0 ? "" : ", ") + ("__builtin_convertvector(__builtin_shufflevector(" + reg + ", " + reg) +
              indices(i % 2 * half, half) + "), " + register_of(to).name() + ")";
  }
  return head + (n == 1 ? "{ return " + values + "; }\n" : "{ return {{" + values + "}}; }\n");
}

std::string Vocabulary::narrow(const std::string& head, const VectorType& to, const VectorType& from) const {
  const int n = registers(to), half = register_of(from).lanes;
  const VectorType piece{to.kind, to.bits, half};
  std::string values;
  for (int i = 0; i < n; ++i) {
    values += (i == 0 ? "" : ", ") +
              ("__builtin_shufflevector(__builtin_convertvector(" + reg_text("a", from, 2 * i)) + ", " +
              piece.name() + "), __builtin_convertvector(" + reg_text("a", from, 2 * i + 1) + ", " +
              piece.name() + ")" + indices(0, 2 * half) + ")";
  }
  return head + (n == 1 ? "{ return " + values + "; }\n" : "{ return {{" + values + "}}; }\n");
}

std::string Vocabulary::mask_conversion(const std::string& head, const VectorType& to,
                                        const VectorType& from) const {
  if (from.kind != 'm')  // x != 0
    return head + "{ return w_ne_" + from.name() + "(a, " + from.name() + "{}); }\n";
  if (!is_512())
    return head + "{ return w_i" + number(to.bits) + "_of_i" + number(from.bits) + lanes_suffix(from.lanes) +
           "(a); }\n";
  const std::string reg = register_of({'m', 64, 8}).name();
  if (to.bits == 64) return head + "{ return {{(" + reg + ")a, (" + reg + ")(a >> 8)}}; }\n";
  return head + "{ return (" + to.name() + ")(a.v[0] | a.v[1] << 8); }\n";
}

std::string Vocabulary::identity_text(const std::string& fold, const VectorType& type) {
  if (fold == "sum") return "0";
  if (fold == "prod") return "1";
  const bool is_low = fold == "max";
  if (type.kind == 'f')
    return std::string(is_low ? "-" : "") + "__builtin_inf" + (type.bits == 32 ? "f()" : "()");
  if (type.bits == 32) return is_low ? "(-2147483647 - 1)" : "2147483647";
  return is_low ? "(-0x7fffffffffffffffll - 1)" : "0x7fffffffffffffffll";
}

std::string Vocabulary::reduce_text(const std::string& word, const std::string& fold,
                                    const VectorType& type) const {
  const VectorType reg = register_of(type);
  const int n = registers(type);
  const auto folded = [&](const std::string& a, const std::string& b) {
    return fold_text(fold, reg.name(), a, b);
  };
  std::string text = "static " + type.name() + " " + word + "(" + type.name() + " a) {\n";
  std::string names[8];
  for (int i = 0; i < n; ++i) names[i] = reg_text("a", type, i);
  int next = 0, step = 8, alive = n;
  for (; step >= reg.lanes && step > 0; step /= 2) {  // whole registers
    alive = step / reg.lanes;
    for (int i = 0; i < alive; ++i) {
      const std::string name = "r" + number(next++);
      text += "  const " + reg.name() + " " + name + " = " + folded(names[i], names[i + alive]) + ";\n";
      names[i] = name;
    }
  }
  for (; step > 0; step /= 2) {
    const std::string name = "r" + number(next++);
    std::string lanes;
    for (int l = 0; l < reg.lanes; ++l) lanes += ", " + number(l < step ? l + step : l);
    text += "  const " + reg.name() + " " + name + " = " +
            folded(names[0], "__builtin_shufflevector(" + names[0] + ", " + names[0] + lanes + ")") + ";\n";
    names[0] = name;
  }
  text += "  return " + (n == 1 ? names[0] : "{{" + names[0]);
  for (int i = 1; i < n; ++i) text += ", " + names[0];
  return text + (n == 1 ? ";\n}\n" : "}};\n}\n");
}

}  // namespace weft::compiler
