// Loads and stores of all dtypes, and turning tiles.
// Place: the part of cpu_vocabulary.h about memory. The conversions are those of tensor/cpu/vec_memory.h.
#include "compiler/codegen/cpu_vocabulary.h"

#include <vector>

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using cpu::Isa;

}  // namespace

bool Vocabulary::parse_element(const std::string& name, Element& element) {
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

std::string Vocabulary::memory_text(const std::string& word, const std::string& what,
                                    const std::string& name) const {
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
               : "W f32 " + word + "(const " + e + "* p) { return w_load_strided_" + name + "(p, 0, 16); }\n";
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
           "  if (bits == 0xffff && stride == 1) return w_whole_" + name + "(p);\n  " + e + " x[16] = {};\n" +
           "  for (long l = 0; bits >> l != 0; ++l) if (bits >> l & 1) x[l] = p[l * stride];\n  return "
           "w_whole_" +
           name + "(x);\n}\n";
  if (what == "store_masked")
    return "static void " + word + "(" + e + "* p, long stride, " + type + " a, unsigned bits) {\n  " + e +
           " x[16];\n  w_put_" + name +
           "(x, a);\n  for (long l = 0; bits >> l != 0; ++l) if (bits >> l & 1) p[l * stride] = x[l];\n}\n";
  return {};
}

std::string Vocabulary::register_mask(const Element& element, int i) const {
  const VectorType reg = register_of(element.compute);
  return "(" + reg.with('m').name() + ")(((1u << n) - 1) >> " + number(i * reg.lanes) + ")";
}

const char* Vocabulary::move_letters(const Element& element) {
  if (element.compute.kind == 'f') return element.bytes == 4 ? "ups" : "upd";
  return element.bytes == 4 ? "dqusi" : "dqudi";
}

std::string Vocabulary::load_text(const std::string& word, const Element& element) const {
  const std::string e = element.type, name = element.name;
  std::string text = "W " + element.compute.name() + " " + word + "(const " + e +
                     "* p, long n) {\n  if (n == 16) return w_whole_" + name + "(p);\n";
  if (!has_masked_moves(element))
    return text + "  " + e + " x[16] = {};\n  for (long l = 0; l < n; ++l) x[l] = p[l];\n  return w_whole_" +
           name + "(x);\n}\n";
  const VectorType reg = register_of(element.compute);
  return text + "  return " +
         each_register(element.compute,
                       [&](int i) {
                         return std::string("__builtin_ia32_load") + move_letters(element) +
                                "512_mask((const " + reg.scalar() + "*)p + " + number(i * reg.lanes) + ", " +
                                reg.name() + "{}, " + register_mask(element, i) + ")";
                       }) +
         ";\n}\n";
}

std::string Vocabulary::store_text(const std::string& word, const Element& element) const {
  const std::string e = element.type, name = element.name;
  std::string text = "W void " + word + "(" + e + "* p, " + element.compute.name() +
                     " a, long n) {\n  if (n == 16) return w_put_" + name + "(p, a);\n";
  if (!has_masked_moves(element))
    return text + "  " + e + " x[16];\n  w_put_" + name +
           "(x, a);\n  for (long l = 0; l < n; ++l) p[l] = x[l];\n}\n";
  const VectorType reg = register_of(element.compute);
  for (int i = 0; i < registers(element.compute); ++i)
    text += std::string("  __builtin_ia32_store") + move_letters(element) + "512_mask((" + reg.scalar() +
            "*)p + " + number(i * reg.lanes) + ", " + reg_text("a", element.compute, i) + ", " +
            register_mask(element, i) + ");\n";
  return text + "}\n";
}

std::string Vocabulary::view_text(const char* type, int bytes, int lanes) const {
  return "typedef " + std::string(type) + " at __attribute__((vector_size(" + number(lanes * bytes) +
         "), aligned(" + number(bytes) + "), may_alias));";
}

std::string Vocabulary::whole_load_text(const std::string& word, const Element& element) const {
  const VectorType reg = register_of(element.compute);
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

std::string Vocabulary::whole_store_text(const std::string& word, const Element& element) const {
  const VectorType reg = register_of(element.compute);
  const int lanes = reg.lanes;
  const char* type = element.name == "f16" ? "short" : element.type;
  std::string text = "W void " + word + "(" + element.type + "* p, " + element.compute.name() + " a) {\n  " +
                     view_text(type, element.bytes, lanes) + "\n";
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

std::string Vocabulary::turn_text(const std::string& word, int bytes) const {
  const char* type = bytes == 1   ? "unsigned char"
                     : bytes == 2 ? "unsigned short"
                     : bytes == 4 ? "unsigned"
                                  : "unsigned long";
  const int n = 16 / bytes, tile = 64 / bytes;
  std::string text =
      "static void " + word +
      "(const void* from_any, long stride, void* to_any, long to_stride, long rows, long columns) {\n"
      "  typedef " +
      type +
      " element __attribute__((may_alias));\n"
      "  typedef " +
      type + " block __attribute__((vector_size(16), aligned(" + number(bytes) +
      "), may_alias));\n"
      "  typedef " +
      type +
      " whole __attribute__((vector_size(16), may_alias));\n"
      "  const element* const from = (const element*)from_any;\n  element* const to = (element*)to_any;\n"
      "  element lines[" +
      number(tile * tile) +
      "] __attribute__((aligned(64)));\n"
      "  for (long r = 0; r < rows; r += " +
      number(tile) + ")\n    for (long c = 0; c < columns; c += " + number(tile) +
      ") {\n"
      "      const element* const in = from + c * stride + r;\n      element* const out = to + r * "
      "to_stride + c;\n"
      "      if (rows - r < " +
      number(tile) + " || columns - c < " + number(tile) +
      ") {\n"
      "        const long height = rows - r < " +
      number(tile) + " ? rows - r : " + number(tile) + ", width = columns - c < " + number(tile) +
      " ? columns - c : " + number(tile) +
      ";\n"
      "        for (long i = 0; i < height; ++i)\n          for (long k = 0; k < width; ++k) out[i * "
      "to_stride + k] = in[k * stride + i];\n"
      "        continue;\n      }\n"
      "      for (long k = 0; k < " +
      number(tile) +
      "; ++k) {\n"
      "        __builtin_memcpy(lines + k * " +
      number(tile) +
      ", in + k * stride, 64);\n"
      "        __builtin_prefetch(in + (" +
      number(2 * tile) +
      " + k) * stride);\n      }\n"
      "      for (long i = 0; i < " +
      number(tile) + "; i += " + number(n) + ")\n        for (long k = 0; k < " + number(tile) +
      "; k += " + number(n) +
      ") {\n"
      "          const element* const piece = lines + k * " +
      number(tile) + " + i;\n";
  std::vector<std::string> rows(static_cast<size_t>(n));
  for (int k = 0; k < n; ++k) {
    rows[static_cast<size_t>(k)] = "a" + number(k);
    text += "          const whole a" + number(k) + " = *(const whole*)(piece + " + number(k * tile) + ");\n";
  }
  // Interleaving row k with row k + n/2, log2(n) times over, turns n rows into columns.
  for (int stage = 1, next = n; stage < n; stage *= 2) {
    std::vector<std::string> turned(rows.size());
    for (int k = 0; k < n; ++k) {
      std::string lanes;
      for (int i = 0; i < n; ++i) lanes += ", " + number((i % 2) * n + (k % 2) * (n / 2) + i / 2);
      turned[static_cast<size_t>(k)] = "a" + number(next);
      text += "          const whole a" + number(next++) + " = __builtin_shufflevector(" +
              rows[static_cast<size_t>(k / 2)] + ", " + rows[static_cast<size_t>(k / 2 + n / 2)] + lanes +
              ");\n";
    }
    rows = turned;
  }
  for (int k = 0; k < n; ++k)
    text += "          *(block*)(out + (i + " + number(k) +
            ") * to_stride + k) = " + rows[static_cast<size_t>(k)] + ";\n";
  return text + "        }\n    }\n}\n";
}

}  // namespace weft::compiler
