// The vocabulary: the search for what a text uses, and its types.
// Place: the out-of-line half of cpu_prelude.h and cpu_vocabulary.h.
#include "compiler/codegen/cpu_vocabulary.h"

#include <algorithm>
#include <array>

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using cpu::Isa;

constexpr std::array<bool, 256> kIsWordChar = [] {
  std::array<bool, 256> is{};
  for (int c = 0; c < 256; ++c)
    is[static_cast<size_t>(c)] =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  return is;
}();
bool is_word_char(char c) { return kIsWordChar[static_cast<unsigned char>(c)]; }

// The words of the text that are names of the vocabulary.
template <class F>
void for_each_name(std::string_view text, const F& f) {
  for (size_t at = 0; at < text.size();) {
    if (!is_word_char(text[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && is_word_char(text[at])) ++at;
    const std::string_view word = text.substr(begin, at - begin);
    VectorType type;
    if (word.substr(0, 2) == "w_" || parse_type(word, type)) f(word);
  }
}

}  // namespace

bool parse_type(std::string_view word, VectorType& type) {
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

std::string Vocabulary::definitions_for(std::string_view text) {
  const std::lock_guard lock(mutex_);
  ++request_;
  std::string result;
  for_each_name(text, [&](std::string_view name) { take(find(name), result); });
  return result;
}

void Vocabulary::take(Definition& definition, std::string& into) const {
  if (definition.request == request_) return;
  definition.request = request_;
  for (Definition* need : definition.needs) take(*need, into);
  into += definition.text;
}

Vocabulary::Definition& Vocabulary::find(std::string_view name) {
  if (const auto known = definitions_.find(name); known != definitions_.end()) return known->second;
  VectorType type;
  std::string text = parse_type(name, type) ? type_text(type) : function_text(std::string(name));
  // It is there before what it needs is looked for: it names itself.
  Definition& made = definitions_[std::string(name)];
  made.text = std::move(text);
  for_each_name(made.text, [&](std::string_view needed) {
    Definition* const need = &find(needed);
    if (std::find(made.needs.begin(), made.needs.end(), need) == made.needs.end()) made.needs.push_back(need);
  });
  return made;
}

std::string Vocabulary::expanded(std::string_view body, const VectorType& type) const {
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

std::string Vocabulary::each_register(const VectorType& type,
                                      const std::function<std::string(int)>& value) const {
  const int n = registers(type);
  if (n == 1) return value(0);
  std::string text = "{{";
  for (int i = 0; i < n; ++i) text += (i == 0 ? "" : ", ") + value(i);
  return text + "}}";
}

std::string Vocabulary::indices(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += ", " + number(first + i);
  return text;
}

std::string Vocabulary::reg_text(const char* name, const VectorType& type, int i) const {
  return registers(type) == 1 ? name : std::string(name) + ".v[" + number(i) + "]";
}

std::string Vocabulary::type_text(const VectorType& type) const {
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

std::string Vocabulary::function_text(const std::string& word) const {
  if (const std::string text = fixed_text(word); !text.empty()) return text;
  const size_t end = word.rfind('_');
  if (end <= 1) return {};
  const std::string what = word.substr(2, end - 2), last = word.substr(end + 1);
  VectorType type;
  if (!parse_type(last, type)) {
    // Loads and stores are named after the dtype in memory.
    return memory_text(word, what, last);
  }
  if (what.size() > 3 && what.ends_with("_of")) {
    VectorType to;
    WEFT_ASSERT(parse_type(what.substr(0, what.size() - 3), to), word);
    to.lanes = type.lanes;
    return conversion_text(word, to, type);
  }
  if (what.starts_with("reduce_")) return reduce_text(word, what.substr(7), type);
  if (const std::string text = memory_text(word, what, last); !text.empty()) return text;
  if (const std::string text = lanes_text(word, what, type); !text.empty()) return text;
  return elementwise_text(word, what, type);
}

int register_lanes(CpuTarget target, size_t element_bytes) {
  const int bytes = target.isa == Isa::AVX512 ? 64 : target.isa == Isa::AVX2 ? 32 : 16;
  return bytes / static_cast<int>(element_bytes);
}

std::string lanes_suffix(int lanes) { return lanes == kCpuLanes ? "" : "x" + std::to_string(lanes); }

std::string definitions_for(CpuTarget target, std::string_view text) {
  // Never destroyed: compiled functions of static life ask too.
  static auto* const sse4 = new Vocabulary(Isa::SSE4);
  static auto* const avx2 = new Vocabulary(Isa::AVX2);
  static auto* const avx512 = new Vocabulary(Isa::AVX512);
  Vocabulary& vocabulary = target.isa == Isa::AVX512 ? *avx512 : target.isa == Isa::AVX2 ? *avx2 : *sse4;
  return "#define W static inline __attribute__((always_inline))\n" + vocabulary.definitions_for(text);
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
