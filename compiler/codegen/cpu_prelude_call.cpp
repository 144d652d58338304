// What a kernel is besides vectors: its call, checks, threads, memory of its own, random words.
// Place: the part of cpu_vocabulary.h that has no lanes.
#include "compiler/codegen/cpu_vocabulary.h"

#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using cpu::Isa;

}  // namespace

std::string Vocabulary::fixed_text(const std::string& word) const {
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
           "  if (threads < 0) {\n"  // this thread's share
           "    const long t = omp_get_thread_num(), n = omp_get_num_threads();\n"
           "    return f(units * t / n, units * (t + 1) / n);\n  }\n"
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
  // Of numbers that are not negative, by one that is positive.
  if (word == "w_over")
    return "W long w_over(long a, long b) { return (long)((unsigned long)a / (unsigned long)b); }\n";
  if (word == "w_rest")
    return "W long w_rest(long a, long b) { return (long)((unsigned long)a % (unsigned long)b); }\n";
  if (word == "w_quotient") return "W long w_quotient(long a, long b) { return b == 0 ? 0 : a / b; }\n";
  if (word == "w_remainder") return "W long w_remainder(long a, long b) { return b == 0 ? 0 : a % b; }\n";
  if (word == "w_floor_quotient")
    return "W long w_floor_quotient(long a, long b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) "
           "!= (b < 0)); }\n";
  if (word == "w_number")  // a number of the call: its slot's low bytes
    return "template <class T> W T w_number(const unsigned long* slot) { T x; __builtin_memcpy(&x, slot, "
           "sizeof x); return x; }\n";
  if (word == "w_philox") return philox_text();
  for (int bytes : {1, 2, 4, 8})
    if (word == "w_turn" + number(bytes)) return turn_text(word, bytes);
  if (word == "w_words")  // eight blocks of a stream that were made last
    return "struct w_words { long first = -8; unsigned words[32]; };\n";
  if (word == "w_words32")  // the 32-bit words of elements at … at + 15
    return R"(static i32 w_words32(unsigned long seed, unsigned long counter, long at, w_words& made) {
if (at >> 2 < made.first || (at + 15) >> 2 >= made.first + 8) {
  made.first = at >> 2;
  w_philox(seed, counter + made.first, made.words);
}
return w_whole_i32((const int*)made.words + (at - 4 * made.first));
}
)";
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

std::string Vocabulary::philox_text() const {
  const int lanes = bytes_ / 8;
  const VectorType u64{'u', 64, lanes}, i32{'i', 32, 2 * lanes};
  const std::string u = u64.name(), i = i32.name(), u_lanes = lanes_suffix(lanes);
  std::string counts, lower, upper;
  for (int l = 0; l < lanes; ++l) {
    counts += (l == 0 ? "" : ", ") + number(l);
    const int from = l / 2 + (l % 2) * lanes;
    lower += ", " + number(from);
    upper += ", " + number(from + lanes / 2);
  }
  std::string multiply =
      is_512() ? choose("(" + u + ")__builtin_ia32_pmuludq512_mask((" + i + ")a, (" + i + ")b, (" +
                            VectorType{'i', 64, lanes}.name() + "){}, (unsigned char)-1)",
                        "(" + u + ")__builtin_ia32_pmuludq512((" + i + ")a, (" + i + ")b)")
               : "return (" + u + ")__builtin_ia32_pmuludq" + (bytes_ == 32 ? "256" : "128") + "((" + i +
                     ")a, (" + i + ")b);";
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

}  // namespace weft::compiler
