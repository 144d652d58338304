// The texts of the vocabulary, and the search for what a text uses.
// Place: the out-of-line half of cpu_prelude.h. The bits of every function are those of tensor/cpu/vec*.h.
#include "compiler/codegen/cpu_prelude.h"

#include <functional>
#include <set>

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using cpu::Isa;

std::string number(int64_t n) { return std::to_string(n); }

// A vector type: what its elements are, and how many there are.
struct Type {
  char kind = 'f';  // f, i, u(nsigned), m(ask)
  int bits = 32;
  int lanes = kCpuLanes;

  std::string name() const { return kind + number(bits) + lanes_suffix(lanes); }
  Type with(char other) const { return {other, bits, lanes}; }
  const char* scalar() const {
    switch (kind) {
      case 'f': return bits == 32 ? "float" : "double";
      case 'u': return bits == 32 ? "unsigned" : "unsigned long long";
      default: return bits == 32 ? "int" : "long long";
    }
  }
};

// "f64x8" and its like; false for other words.
bool parse_type(std::string_view word, Type& type) {
  if (word.size() < 3 || std::string_view("fium").find(word[0]) == std::string_view::npos) return false;
  const std::string_view width = word.substr(1, 2);
  if (width != "32" && width != "64") return false;
  type = {word[0], width == "32" ? 32 : 64, kCpuLanes};
  if (word.size() == 3) return true;
  if (word[3] != 'x' || word.size() == 4) return false;
  type.lanes = 0;
  for (char digit : word.substr(4)) {
    if (digit < '0' || digit > '9') return false;
    type.lanes = type.lanes * 10 + (digit - '0');
  }
  return type.lanes > 0 && type.lanes < kCpuLanes;
}

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Vocabulary {
 public:
  explicit Vocabulary(CpuTarget target)
      : isa_(target.isa),
        bytes_(isa_ == Isa::AVX512 ? 64
               : isa_ == Isa::AVX2 ? 32
                                   : 16) {}

  void require_all(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      if (!is_word_char(text[at])) {
        ++at;
        continue;
      }
      const size_t begin = at;
      while (at < text.size() && is_word_char(text[at])) ++at;
      require(text.substr(begin, at - begin));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void require(std::string_view word) {
    Type type;
    const bool is_type = parse_type(word, type);
    if (!is_type && word.substr(0, 2) != "w_") return;
    if (!seen_.insert(std::string(word)).second) return;
    const std::string text = is_type ? type_text(type) : function_text(std::string(word));
    require_all(text);
    text_ += text;
  }

  int registers(const Type& type) const { return type.lanes * type.bits / 8 / bytes_; }
  Type register_of(const Type& type) const { return {type.kind, type.bits, bytes_ * 8 / type.bits}; }
  bool is_512() const { return isa_ == Isa::AVX512; }

  // ---- Types

  std::string type_text(const Type& type) const {
    const std::string name = type.name();
    const int n = registers(type);
    if (type.kind == 'm') {
      if (!is_512()) return "typedef " + type.with('i').name() + " " + name + ";\n";
      if (n == 1)
        return "typedef unsigned " + std::string(type.lanes == 16 ? "short " : "char ") + name + ";\n";
    } else if (n <= 1) {
      return "typedef " + std::string(type.scalar()) + " " + name + " __attribute__((vector_size(" +
             number(type.lanes * type.bits / 8) + ")));\n";
    }
    const std::string reg = register_of(type).name();
    std::string text = "struct " + name + " { " + reg + " v[" + number(n) + "]; };\n";
    const auto add_operator = [&](const char* symbol, bool is_binary, const char* other = nullptr) {
      text += "W " + name + " operator" + symbol + "(" + name + " a";
      if (is_binary) text += std::string(", ") + (other != nullptr ? other : name.c_str()) + " b";
      text += ") { return {{";
      for (int i = 0; i < n; ++i) {
        const std::string index = "[" + number(i) + "]";
        text += (i == 0 ? "" : ", ") + ("(" + reg + ")(");
        if (is_binary) text += "a.v" + index + " " + symbol + " b" + (other != nullptr ? "" : ".v" + index);
        else text += symbol + ("a.v" + index);
        text += ")";
      }
      text += "}}; }\n";
    };
    if (type.kind != 'm') {
      for (const char* symbol : {"+", "-", "*"}) add_operator(symbol, true);
      add_operator("-", false);
    }
    if (type.kind == 'f') add_operator("/", true);
    if (type.kind != 'f') {
      for (const char* symbol : {"&", "|", "^"}) add_operator(symbol, true);
      add_operator("~", false);
    }
    if (type.kind == 'i') {
      add_operator("<<", true, "int");
      add_operator(">>", true, "int");
    }
    return text;
  }

  // ---- Functions

  std::string function_text(const std::string& word) const {
    if (const std::string text = fixed_text(word); !text.empty()) return text;
    const size_t end = word.rfind('_');
    if (end <= 1) return {};
    const std::string what = word.substr(2, end - 2), last = word.substr(end + 1);
    Type type;
    if (!parse_type(last, type)) {
      // Loads and stores are named after the dtype in memory.
      return memory_text(word, what, last);
    }
    if (what.size() > 3 && what.ends_with("_of")) {
      Type to;
      WEFT_ASSERT(parse_type(what.substr(0, what.size() - 3), to), word);
      to.lanes = type.lanes;
      return conversion_text(word, to, type);
    }
    if (what.starts_with("reduce_")) return reduce_text(word, what.substr(7), type);
    if (const std::string text = memory_text(word, what, last); !text.empty()) return text;
    if (const std::string text = lanes_text(word, what, type); !text.empty()) return text;
    return elementwise_text(word, what, type);
  }

  // A function of one register: what it takes and gives (V its own type, M its mask, I and F the integer and float of its
  // width, S one element, n a count), and its body. $V, $U, $I, $F, $M, $S stand for types, $B for the bits of an element.
  struct Elementwise {
    std::string signature;
    std::string body;
  };

  std::string elementwise_text(const std::string& word, const std::string& what, const Type& type) const {
    const Type reg = register_of(type);
    const Elementwise rule = elementwise(what, reg);
    if (rule.signature.empty()) return {};
    const auto type_of = [&](char letter, const Type& at) -> std::string {
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

  std::string expanded(std::string_view body, const Type& type) const {
    std::string text;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '$') {
        text += body[i];
        continue;
      }
      switch (body[++i]) {
        case 'V': text += type.name(); break;
        case 'U': text += type.with('u').name(); break;
        case 'I': text += type.with('i').name(); break;
        case 'F': text += type.with('f').name(); break;
        case 'M': text += type.with('m').name(); break;
        case 'S': text += type.scalar(); break;
        case 'B': text += number(type.bits); break;
        case 'L': text += number(type.lanes); break;
        case 'x': text += lanes_suffix(type.lanes); break;  // after a type of the other width
        default: WEFT_ASSERT(false, "$", body[i]);
      }
    }
    return text;
  }

  // Names of the instruction set's builtins end on the element type.
  static const char* float_letter(const Type& type) { return type.bits == 32 ? "ps" : "pd"; }
  static const char* int_letter(const Type& type) { return type.bits == 32 ? "d" : "q"; }
  const char* width_digits() const { return bytes_ == 64 ? "512" : bytes_ == 32 ? "256" : ""; }
  static std::string all_lanes(const Type& type) {
    return type.bits == 32 ? "(unsigned short)-1" : "(unsigned char)-1";
  }

  // A builtin that gcc knows by a masked name at 512 bits and clang by a plain one.
  std::string choose(const std::string& gcc, const std::string& clang) const {
    return "\n#ifdef __clang__\n  return " + clang + ";\n#else\n  return " + gcc + ";\n#endif\n";
  }

  Elementwise elementwise(const std::string& what, const Type& type) const {
    const bool is_float = type.kind == 'f';
    const std::string ps = float_letter(type), d = int_letter(type), all = all_lanes(type),
                      w = width_digits();
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
      return {
          "V:I",
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

  std::string to_int(const Type& type) const {
    if (type.bits == 32) {
      if (is_512()) return "return __builtin_ia32_cvttps2dq512_mask(a, $V{}, (unsigned short)-1, 4);";
      return std::string("return __builtin_ia32_cvttps2dq") + width_digits() + "(a);";
    }
    if (is_512()) return "return __builtin_ia32_cvttpd2qq512_mask(a, $V{}, (unsigned char)-1, 4);";
    return "return ($V)(w_trunc_$F(a) + 0x1.8p52) - 0x4338000000000000ll;";
  }

  // Functions of any number of lanes, in terms of others.
  std::string lanes_text(const std::string& word, const std::string& what, const Type& type) const {
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
      return expanded(
          "W $S " + word + "($V a) { return a" + (registers(type) == 1 ? "" : ".v[0]") + "[0]; }\n", type);
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
      const Type reg = register_of(type);
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
        return expanded("W $V " + word +
                            "($V a, long n) { return n == 16 ? a : w_where_$V(w_first_$M(n), a, " + identity +
                            "); }\n",
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
                            ";\n  for (long i = 0; i < n; ++i) total = " +
                            folded("total", "w_splat_$V(x[i])") + ";\n  return total;\n}\n",
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
                                                folded(pair_text(folded("a[0]", "a[1]")),
                                                       pair_text(folded("a[2]", "a[3]"))) +
                                                ")") +
                            ";\n  }\n"
                            "  return total;\n}\n",
                        type);
    }
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

  std::string bits_text(const std::string& word, const Type& type) const {
    const int n = registers(type), lanes = register_of(type).lanes;
    std::string text = "W unsigned " + word + "($V a) { return ";
    for (int i = 0; i < n; ++i) {
      const std::string reg = n == 1 ? "a" : "a.v[" + number(i) + "]";
      std::string part;
      if (is_512()) part = reg;
      else
        part = std::string("(unsigned)__builtin_ia32_movmsk") + float_letter(type) + width_digits() + "((" +
               register_of(type).with('f').name() + ")" + reg + ")";
      text +=
          (i == 0 ? "" : " | ") + (i == 0 ? part : "((unsigned)" + part + " << " + number(i * lanes) + ")");
    }
    return expanded(text + "; }\n", type);
  }

  // ---- Conversions between types of the same number of lanes

  std::string conversion_text(const std::string& word, const Type& to, const Type& from) const {
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

  std::string by_lane(const std::string& head, const Type& to, const Type& from,
                      const std::string& value) const {
    return head + "{\n  union { " + from.name() + " v; " + from.scalar() + " e[" + number(from.lanes) +
           "]; } in;\n  union { " + to.name() + " v; " + to.scalar() + " e[" + number(to.lanes) +
           "]; } out;\n  in.v = a;\n  for (int l = 0; l < " + number(to.lanes) + "; ++l) { const " +
           from.scalar() + " x = in.e[l]; out.e[l] = " + value + "; }\n  return out.v;\n}\n";
  }

  // "0, 1, 2, 3"
  static std::string indices(int first, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += ", " + number(first + i);
    return text;
  }
  std::string reg_text(const char* name, const Type& type, int i) const {
    return registers(type) == 1 ? name : std::string(name) + ".v[" + number(i) + "]";
  }

  // Twice as wide: each half of a register fills one.
  std::string widen(const std::string& head, const Type& to, const Type& from) const {
    const int n = registers(to), half = register_of(to).lanes;
    std::string values;
    for (int i = 0; i < n; ++i) {
      const std::string reg = reg_text("a", from, i / 2);
      values += (i == 0 ? "" : ", ") +
                ("__builtin_convertvector(__builtin_shufflevector(" + reg + ", " + reg) +
                indices(i % 2 * half, half) + "), " + register_of(to).name() + ")";
    }
    return head + (n == 1 ? "{ return " + values + "; }\n" : "{ return {{" + values + "}}; }\n");
  }
  // Half as wide: two registers fill one.
  std::string narrow(const std::string& head, const Type& to, const Type& from) const {
    const int n = registers(to), half = register_of(from).lanes;
    const Type piece{to.kind, to.bits, half};
    std::string values;
    for (int i = 0; i < n; ++i) {
      values += (i == 0 ? "" : ", ") +
                ("__builtin_shufflevector(__builtin_convertvector(" + reg_text("a", from, 2 * i)) + ", " +
                piece.name() + "), __builtin_convertvector(" + reg_text("a", from, 2 * i + 1) + ", " +
                piece.name() + ")" + indices(0, 2 * half) + ")";
    }
    return head + (n == 1 ? "{ return " + values + "; }\n" : "{ return {{" + values + "}}; }\n");
  }

  std::string mask_conversion(const std::string& head, const Type& to, const Type& from) const {
    if (from.kind != 'm')  // x != 0
      return head + "{ return w_ne_" + from.name() + "(a, " + from.name() + "{}); }\n";
    if (!is_512())
      return head + "{ return w_i" + number(to.bits) + "_of_i" + number(from.bits) +
             lanes_suffix(from.lanes) + "(a); }\n";
    const std::string reg = register_of({'m', 64, 8}).name();
    if (to.bits == 64) return head + "{ return {{(" + reg + ")a, (" + reg + ")(a >> 8)}}; }\n";
    return head + "{ return (" + to.name() + ")(a.v[0] | a.v[1] << 8); }\n";
  }

  // ---- Folds over lanes

  static std::string memory_name(const Type& type) { return type.kind + number(type.bits); }
  static std::string identity_text(const std::string& fold, const Type& type) {
    if (fold == "sum") return "0";
    if (fold == "prod") return "1";
    const bool is_low = fold == "max";
    if (type.kind == 'f')
      return std::string(is_low ? "-" : "") + "__builtin_inf" + (type.bits == 32 ? "f()" : "()");
    if (type.bits == 32) return is_low ? "(-2147483647 - 1)" : "2147483647";
    return is_low ? "(-0x7fffffffffffffffll - 1)" : "0x7fffffffffffffffll";
  }
  static std::string pair_text(const std::string& sum) { return "(" + sum + ")"; }

  std::string reduce_text(const std::string& word, const std::string& fold, const Type& type) const {
    const Type reg = register_of(type);
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

  // ---- Memory

  struct Element {
    std::string name;
    const char* type;
    int bytes;
    Type compute;
  };
  static bool parse_element(const std::string& name, Element& element) {
    if (name == "raw16") {  // the bits of a half
      element = {name, "unsigned short", 2, {'i', 32, kCpuLanes}};
      return true;
    }
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (element_name(dtype) != name) continue;
      const bool is_wide = dtype == DType::Float64 || dtype == DType::Int64;
      const char kind = dtype == DType::Bool ? 'm' : is_floating(dtype) ? 'f' : 'i';
      element = {
          name, element_type(dtype), static_cast<int>(size_of(dtype)), {kind, is_wide ? 64 : 32, kCpuLanes}};
      return true;
    }
    return false;
  }

  std::string memory_text(const std::string& word, const std::string& what, const std::string& name) const {
    Element element;
    if (!parse_element(name, element)) return {};
    const std::string type = element.compute.name(), e = element.type;
    if (what == "load") return load_text(word, element);
    if (what == "store") return store_text(word, element);
    if (what == "whole") return whole_load_text(word, element);
    if (what == "put") return whole_store_text(word, element);
    if (what == "load_strided")
      return "static " + type + " " + word + "(const " + e + "* p, long stride, long n) {\n  " + e +
             " x[16] = {};\n" + "  for (long l = 0; l < n; ++l) x[l] = p[l * stride];\n  return w_whole_" +
             name + "(x);\n}\n";
    if (what == "store_strided")
      return "static void " + word + "(" + e + "* p, long stride, " + type + " a, long n) {\n  " + e +
             " x[16];\n" + "  w_put_" + name +
             "(x, a);\n  for (long l = 0; l < n; ++l) p[l * stride] = x[l];\n}\n";
    if (what == "one")  // an element in all lanes
      return element.bytes >= 4
                 ? "W " + type + " " + word + "(const " + e + "* p) { return w_splat_" + type + "(*p); }\n"
             : name == "bool" ? "W m32 " + word + "(const " + e + "* p) { return w_splat_m32(*p != 0); }\n"
             : element.compute.kind == 'i'
                 ? "W i32 " + word + "(const " + e + "* p) { return w_splat_i32(*p); }\n"
                 : "W f32 " + word + "(const " + e + "* p) { return w_load_strided_" + name +
                       "(p, 0, 16); }\n";
    // To what is there, in the dtype of memory.
    if (what == "add" || what == "add_strided") {
      const bool is_strided = what == "add_strided";
      const std::string strided = is_strided ? "_strided_" : "_", stride = is_strided ? ", stride" : "";
      const std::string old = "w_load" + strided + name + "(p" + stride + ", n)";
      std::string sum = name == "bool" ? old + " | a" : old + " + a";
      if (name == "bf16" || name == "f16") sum = "w_round_" + name + "_f32(" + sum + ")";
      return "W void " + word + "(" + e + "* p" + (is_strided ? ", long stride, " : ", ") + type +
             " a, long n) { w_store" + strided + name + "(p" + stride + ", " + sum + ", n); }\n";
    }
    // Lanes whose bit is clear are not read, and 0.
    if (what == "load_masked")
      return "static " + type + " " + word + "(const " + e + "* p, long stride, unsigned bits) {\n" +
             "  if (bits == 0xffff && stride == 1) return w_whole_" + name + "(p);\n  " + e +
             " x[16] = {};\n" +
             "  for (long l = 0; bits >> l != 0; ++l) if (bits >> l & 1) x[l] = p[l * stride];\n  return "
             "w_whole_" +
             name + "(x);\n}\n";
    if (what == "store_masked")
      return "static void " + word + "(" + e + "* p, long stride, " + type + " a, unsigned bits) {\n  " + e +
             " x[16];\n  w_put_" + name +
             "(x, a);\n  for (long l = 0; bits >> l != 0; ++l) if (bits >> l & 1) p[l * stride] = x[l];\n}\n";
    return {};
  }

  // A vector of the compiler's over memory of any alignment.
  static std::string view(const std::string& e, int count, int bytes, const char* name) {
    return "typedef " + e + " " + name + " __attribute__((vector_size(" + number(count * bytes) +
           "), aligned(" + number(bytes) + "), may_alias));\n";
  }
  std::string each_register(const Type& type, const std::function<std::string(int)>& value) const {
    const int n = registers(type);
    if (n == 1) return value(0);
    std::string text = "{{";
    for (int i = 0; i < n; ++i) text += (i == 0 ? "" : ", ") + value(i);
    return text + "}}";
  }

  // The bits of an element in the mask of the lanes below n.
  std::string register_mask(const Element& element, int i) const {
    const Type reg = register_of(element.compute);
    return "(" + reg.with('m').name() + ")(((1u << n) - 1) >> " + number(i * reg.lanes) + ")";
  }
  bool has_masked_moves(const Element& element) const { return is_512() && element.bytes >= 4; }
  static const char* move_letters(const Element& element) {
    if (element.compute.kind == 'f') return element.bytes == 4 ? "ups" : "upd";
    return element.bytes == 4 ? "dqusi" : "dqudi";
  }

  std::string load_text(const std::string& word, const Element& element) const {
    const std::string e = element.type, name = element.name;
    std::string text = "W " + element.compute.name() + " " + word + "(const " + e +
                       "* p, long n) {\n  if (n == 16) return w_whole_" + name + "(p);\n";
    if (!has_masked_moves(element))
      return text + "  " + e +
             " x[16] = {};\n  for (long l = 0; l < n; ++l) x[l] = p[l];\n  return w_whole_" + name +
             "(x);\n}\n";
    const Type reg = register_of(element.compute);
    return text + "  return " +
           each_register(element.compute,
                         [&](int i) {
                           return std::string("__builtin_ia32_load") + move_letters(element) +
                                  "512_mask((const " + reg.scalar() + "*)p + " + number(i * reg.lanes) +
                                  ", " + reg.name() + "{}, " + register_mask(element, i) + ")";
                         }) +
           ";\n}\n";
  }
  std::string store_text(const std::string& word, const Element& element) const {
    const std::string e = element.type, name = element.name;
    std::string text = "W void " + word + "(" + e + "* p, " + element.compute.name() +
                       " a, long n) {\n  if (n == 16) return w_put_" + name + "(p, a);\n";
    if (!has_masked_moves(element))
      return text + "  " + e + " x[16];\n  w_put_" + name +
             "(x, a);\n  for (long l = 0; l < n; ++l) p[l] = x[l];\n}\n";
    const Type reg = register_of(element.compute);
    for (int i = 0; i < registers(element.compute); ++i)
      text += std::string("  __builtin_ia32_store") + move_letters(element) + "512_mask((" + reg.scalar() +
              "*)p + " + number(i * reg.lanes) + ", " + reg_text("a", element.compute, i) + ", " +
              register_mask(element, i) + ");\n";
    return text + "}\n";
  }

  // "typedef … at;": the elements of one register in memory, at any address.
  std::string view_text(const char* type, int bytes, int lanes) const {
    return "typedef " + std::string(type) + " at __attribute__((vector_size(" + number(lanes * bytes) +
           "), aligned(" + number(bytes) + "), may_alias));";
  }

  std::string whole_load_text(const std::string& word, const Element& element) const {
    const Type reg = register_of(element.compute);
    const int lanes = reg.lanes;
    const char* type = element.name == "f16" ? "short" : element.type;
    const std::string wide = reg.with('i').name(), f = reg.with('f').name();
    std::string text = "W " + element.compute.name() + " " + word + "(const " + element.type + "* p) {\n  " +
                       view_text(type, element.bytes, lanes) + "\n";
    if (element.name == "bool" && is_512())
      return text +
             "  return __builtin_ia32_ucmpb128_mask((w_bytes)*(const at*)p, w_bytes{}, 4, (unsigned "
             "short)-1);\n}\n";
    return text + "  return " +
           each_register(element.compute,
                         [&](int i) {
                           const std::string at = "*(const at*)(p + " + number(i * lanes) + ")";
                           const std::string as_int = "__builtin_convertvector(" + at + ", " + wide + ")";
                           if (element.name == "bf16") return "(" + f + ")(" + as_int + " << 16)";
                           if (element.name == "bool") return "(" + reg.name() + ")(" + as_int + " != 0)";
                           if (element.name == "f16") {
                             if (is_512())
                               return "__builtin_ia32_vcvtph2ps512_mask(" + at + ", " + f +
                                      "{}, (unsigned short)-1, 4)";
                             if (isa_ == Isa::AVX2) return "__builtin_ia32_vcvtph2ps256(" + at + ")";
                             return "w_from_half_" + f + "(" + as_int + " & 0xffff)";
                           }
                           return element.bytes < 4 ? as_int : at;
                         }) +
           ";\n}\n";
  }
  std::string whole_store_text(const std::string& word, const Element& element) const {
    const Type reg = register_of(element.compute);
    const int lanes = reg.lanes;
    const char* type = element.name == "f16" ? "short" : element.type;
    std::string text = "W void " + word + "(" + element.type + "* p, " + element.compute.name() +
                       " a) {\n  " + view_text(type, element.bytes, lanes) + "\n";
    if (element.name == "bool" && is_512())
      return text + "  *(at*)p = (at)(__builtin_ia32_cvtmask2b128(a) & 1);\n}\n";
    const std::string u = reg.with('u').name();
    const std::string narrow_type = "narrow";
    const bool narrows = element.bytes < 4 && !(element.name == "f16" && isa_ != Isa::SSE4);
    if (narrows)
      text += "  typedef " + std::string(type) + " narrow __attribute__((vector_size(" +
              number(lanes * element.bytes) + ")));\n";
    for (int i = 0; i < registers(element.compute); ++i) {
      const std::string a = reg_text("a", element.compute, i);
      std::string value = a;
      if (element.name == "bf16") value = "(" + u + ")" + a + " >> 16";
      else if (element.name == "bool") value = a + " & 1";
      else if (element.name == "f16" && is_512())
        value = "(at)__builtin_ia32_vcvtps2ph512_mask(" + a +
                ", 8, (short __attribute__((vector_size(32)))){}, (unsigned short)-1)";
      else if (element.name == "f16" && isa_ == Isa::AVX2)
        value = "(at)__builtin_ia32_vcvtps2ph256(" + a + ", 8)";
      else if (element.name == "f16") value = "w_half_bits_" + a + "";
      if (element.name == "f16" && isa_ == Isa::SSE4) value = "w_half_bits_" + reg.name() + "(" + a + ")";
      if (narrows) value = "__builtin_convertvector(" + value + ", narrow)";
      text += "  *(at*)(p + " + number(i * lanes) + ") = " + value + ";\n";
    }
    return text + "}\n";
  }

  // ---- What has no lanes

  std::string fixed_text(const std::string& word) const {
    if (word == "w_bytes") return "typedef char w_bytes __attribute__((vector_size(16)));\n";
    if (word == "w_error") return "struct w_error { int check; long value, size, element; };\n";
    if (word == "w_call")
      return "struct w_call { void* const* buffers; const unsigned long* numbers; const long* sizes; "
             "w_error* error; };\n";
    if (word == "w_allocate")  // whole cache lines
      return "extern \"C\" void* aligned_alloc(unsigned long, unsigned long) noexcept;\n"
             "W void* w_allocate(unsigned long bytes) { return aligned_alloc(64, (bytes + 64) / 64 * 64); "
             "}\n";
    if (word == "w_release")
      return "extern \"C\" void free(void*) noexcept;\nW void w_release(void* p) { free(p); }\n";
    if (word == "w_fail")
      return "static __attribute__((noinline, cold)) void w_fail(w_error* error, int check, long value, long "
             "size, long element) {\n"
             "  int none = 0;\n"
             "  if (!__atomic_compare_exchange_n(&error->check, &none, check + 1, false, __ATOMIC_SEQ_CST, "
             "__ATOMIC_SEQ_CST)) return;\n"
             "  error->value = value;\n  error->size = size;\n  error->element = element;\n}\n";
    if (word == "w_index")  // a computed index, checked
      return "W long w_index(long i, long size, bool is_checked, w_error* error, int check, long element) {\n"
             "  const long from_end = i < 0 ? i + size : i;\n"
             "  if ((unsigned long)from_end < (unsigned long)size) return from_end;\n"
             "  if (is_checked) w_fail(error, check, i, size, element);\n  return 0;\n}\n";
    if (word == "w_indices")  // n of them, checked where their bit is set
      return "static void w_indices(long long* x, long n, long size, unsigned bits, w_error* error, int "
             "check, long element) {\n"
             "  for (long l = 0; l < n; ++l) x[l] = w_index(x[l], size, bits >> l & 1, error, check, element "
             "+ l);\n"
             "  for (long l = n; l < 16; ++l) x[l] = 0;\n}\n";
    if (word == "w_parallel")  // f(begin, end) on parts of [0, units)
      return "#ifdef _OPENMP\nextern \"C\" int omp_get_thread_num(void) noexcept;\nextern \"C\" int "
             "omp_get_num_threads(void) noexcept;\n#endif\n"
             "template <class F> static inline void w_parallel(long units, int threads, const F& f) {\n"
             "#ifdef _OPENMP\n"
             "  if (threads > units) threads = (int)units;\n"
             "  if (threads > 1) {\n"
             "#pragma omp parallel num_threads(threads)\n"
             "    {\n      const long t = omp_get_thread_num(), n = omp_get_num_threads();\n"
             "      f(units * t / n, units * (t + 1) / n);\n    }\n    return;\n  }\n"
             "#endif\n"
             "  f(0, units);\n}\n";
    if (word == "w_least") return "W long w_least(long a, long b) { return a < b ? a : b; }\n";
    if (word == "w_most") return "W long w_most(long a, long b) { return a < b ? b : a; }\n";
    // A divisor of 0 occurs where no loop runs.
    if (word == "w_quotient") return "W long w_quotient(long a, long b) { return b == 0 ? 0 : a / b; }\n";
    if (word == "w_remainder") return "W long w_remainder(long a, long b) { return b == 0 ? 0 : a % b; }\n";
    if (word == "w_floor_quotient")
      return "W long w_floor_quotient(long a, long b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) "
             "!= (b < 0)); }\n";
    if (word == "w_number")  // a number of the call: its slot's low bytes
      return "template <class T> W T w_number(const unsigned long* slot) { T x; __builtin_memcpy(&x, slot, "
             "sizeof x); return x; }\n";
    if (word == "w_philox") return philox_text();
    if (word == "w_words32")  // the 32-bit words of elements at … at + 15
      return "static i32 w_words32(unsigned long seed, unsigned long counter, long at) {\n  unsigned "
             "words[32];\n"
             "  w_philox(seed, counter + (at >> 2), words);\n  return w_whole_i32((const int*)words + (at & "
             "3));\n}\n";
    if (word == "w_words64")
      return "static i64 w_words64(unsigned long seed, unsigned long counter, long at) {\n  unsigned "
             "words[64];\n"
             "  w_philox(seed, counter + (at >> 1), words);\n  if (at & 1) w_philox(seed, counter + (at >> "
             "1) + 8, words + 32);\n"
             "  return w_whole_i64((const long long*)words + (at & 1));\n}\n";
    if (word == "w_word32" || word == "w_word64") {
      const bool is_32 = word == "w_word32";
      return std::string("static ") + (is_32 ? "int" : "long long") + " " + word +
             "(unsigned long seed, unsigned long counter, long at) {\n"
             "  unsigned c0 = 0, c1 = 0, c2 = 0, c3 = 0, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);\n"
             "  const unsigned long place = counter + (unsigned long)(at >> " +
             (is_32 ? "2" : "1") +
             ");\n"
             "  c0 = (unsigned)place;\n  c1 = (unsigned)(place >> 32);\n"
             "  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {\n"
             "    const unsigned long a = 0xD2511F53ul * c0, b = 0xCD9E8D57ul * c2;\n"
             "    c0 = (unsigned)(b >> 32) ^ c1 ^ k0;\n    c1 = (unsigned)b;\n"
             "    c2 = (unsigned)(a >> 32) ^ c3 ^ k1;\n    c3 = (unsigned)a;\n  }\n" +
             (is_32 ? "  return (int)((at & 2) ? (at & 1) ? c3 : c2 : (at & 1) ? c1 : c0);\n}\n"
                    : "  return (long long)((at & 1) ? (unsigned long)c3 << 32 | c2 : (unsigned long)c1 << "
                      "32 | c0);\n}\n");
    }
    return {};
  }

  // The words of eight counters, in order.
  std::string philox_text() const {
    const int lanes = bytes_ / 8;
    const Type u64{'u', 64, lanes}, i32{'i', 32, 2 * lanes};
    const std::string u = u64.name(), i = i32.name(), u_lanes = lanes_suffix(lanes);
    std::string counts, lower, upper;
    for (int l = 0; l < lanes; ++l) {
      counts += (l == 0 ? "" : ", ") + number(l);
      const int from = l / 2 + (l % 2) * lanes;
      lower += ", " + number(from);
      upper += ", " + number(from + lanes / 2);
    }
    std::string multiply = is_512()
                               ? choose("(" + u + ")__builtin_ia32_pmuludq512_mask((" + i + ")a, (" + i +
                                            ")b, (" + Type{'i', 64, lanes}.name() + "){}, (unsigned char)-1)",
                                        "(" + u + ")__builtin_ia32_pmuludq512((" + i + ")a, (" + i + ")b)")
                               : "return (" + u + ")__builtin_ia32_pmuludq" + (bytes_ == 32 ? "256" : "128") +
                                     "((" + i + ")a, (" + i + ")b);";
    return "W " + u + " w_product(" + u + " a, " + u + " b) { " + multiply + " }\n" +
           "static void w_philox(unsigned long seed, unsigned long counter, unsigned* words) {\n"
           "  const " +
           u + " lane = {" + counts + "}, low = " + u +
           "{} + 0xffffffff;\n"
           "  for (int part = 0; part < 8; part += " +
           number(lanes) +
           ") {\n"
           "    const " +
           u +
           " place = lane + (counter + part);\n"
           "    " +
           u +
           " c0 = place, c1 = place >> 32, c2 = {}, c3 = {};\n"
           "    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);\n"
           "    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {\n"
           "      const " +
           u + " a = w_product(c0, " + u + "{} + 0xD2511F53), b = w_product(c2, " + u +
           "{} + 0xCD9E8D57);\n"
           "      c0 = (b >> 32) ^ c1 ^ (unsigned long long)k0;\n      c1 = b;\n"
           "      c2 = (a >> 32) ^ c3 ^ (unsigned long long)k1;\n      c3 = a;\n    }\n"
           "    const " +
           u +
           " first = (c0 & low) | (c1 << 32), second = (c2 & low) | (c3 << 32);\n"
           "    typedef unsigned long long at __attribute__((vector_size(" +
           number(bytes_) +
           "), aligned(4), may_alias));\n"
           "    *(at*)(words + 4 * part) = __builtin_shufflevector(first, second" +
           lower +
           ");\n"
           "    *(at*)(words + 4 * part + " +
           number(2 * lanes) + ") = __builtin_shufflevector(first, second" + upper +
           ");\n"
           "  }\n}\n";
  }

  Isa isa_;
  int bytes_;  // of a register
  std::set<std::string> seen_;
  std::string text_;
};

}  // namespace

int register_lanes(CpuTarget target, size_t element_bytes) {
  const int bytes = target.isa == Isa::AVX512 ? 64 : target.isa == Isa::AVX2 ? 32 : 16;
  return bytes / static_cast<int>(element_bytes);
}

std::string lanes_suffix(int lanes) { return lanes == kCpuLanes ? "" : "x" + std::to_string(lanes); }

std::string definitions_for(CpuTarget target, std::string_view text) {
  Vocabulary vocabulary(target);
  vocabulary.require_all(text);
  return "#define W static inline __attribute__((always_inline))\n" + vocabulary.take();
}

std::string element_name(DType dtype) { return dtype == DType::Bool ? "bool" : short_name_of(dtype); }

const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    case DType::Int64: return "long long";
    case DType::Int32: return "int";
    case DType::Int16: return "short";
    case DType::Int8: return "signed char";
    case DType::UInt8:
    case DType::Bool: return "unsigned char";
    case DType::BFloat16:
    case DType::Float16: return "unsigned short";
  }
  WEFT_ASSERT(false, "unknown dtype");
}

std::string fold_text(std::string_view fold, std::string_view type, const std::string& a,
                      const std::string& b) {
  if (fold == "sum") return a + " + " + b;
  if (fold == "prod") return a + " * " + b;
  return "w_" + std::string(fold == "max" ? "maximum_" : "minimum_") + std::string(type) + "(" + a + ", " +
         b + ")";
}

}  // namespace weft::compiler
