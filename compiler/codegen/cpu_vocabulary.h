// The printer of the vocabulary's definitions: one text for each name. Private to cpu_prelude*.cpp.
// Needs cpu_prelude.h, whose Note [Names of the vocabulary] says what the names mean.
#pragma once

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/code_text.h"
#include "compiler/codegen/cpu_prelude.h"

namespace weft::compiler {

// A vector type: what its elements are, and how many there are.
struct VectorType {
  char kind = 'f';  // f, i, u(nsigned), m(ask)
  int bits = 32;
  int lanes = kCpuLanes;

  std::string name() const { return kind + std::to_string(bits) + lanes_suffix(lanes); }
  VectorType with(char other) const { return {other, bits, lanes}; }
  const char* scalar() const {
    switch (kind) {
      case 'f': return bits == 32 ? "float" : "double";
      case 'u': return bits == 32 ? "unsigned" : "unsigned long long";
      default: return bits == 32 ? "int" : "long long";
    }
  }
};

// "f64x8" and its like; false for other words.
bool parse_type(std::string_view word, VectorType& type);

// Of one instruction set. What has been printed is kept: sources have most of their names in common.
class Vocabulary {
 public:
  explicit Vocabulary(cpu::Isa isa)
      : isa_(isa),
        bytes_(isa_ == cpu::Isa::AVX512 ? 64
               : isa_ == cpu::Isa::AVX2 ? 32
                                        : 16) {}

  // The definitions of every name in the text, each once and after what it needs. Threads may ask at once.
  std::string definitions_for(std::string_view text);

 private:
  struct Definition {
    std::string text;
    std::vector<Definition*> needs;  // the names in it, in their order; itself among them
    uint64_t request = 0;            // the last one that has it
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  Definition& find(std::string_view name);
  void take(Definition& definition, std::string& into) const;
  int registers(const VectorType& type) const { return type.lanes * type.bits / 8 / bytes_; }
  VectorType register_of(const VectorType& type) const {
    return {type.kind, type.bits, bytes_ * 8 / type.bits};
  }
  bool is_512() const { return isa_ == cpu::Isa::AVX512; }
  // "$V" and its like in a text, for a type: $V itself, $U $I $F $M its unsigned, integer, floating and mask types, $S an element,
  // $B its bits, $L the lanes, $x the suffix of types of the other width.
  std::string expanded(std::string_view body, const VectorType& type) const;
  // One value for each register of a type: an initialiser.
  std::string each_register(const VectorType& type, const std::function<std::string(int)>& value) const;
  // "0, 1, 2, 3"
  static std::string indices(int first, int count);
  std::string reg_text(const char* name, const VectorType& type, int i) const;

  std::string type_text(const VectorType& type) const;
  std::string function_text(const std::string& word) const;

  // ---- Lanes (cpu_prelude_lanes.cpp)

  // A function of one register: what it takes and gives (V its own type, M its mask, I and F the integer and float of its
  // width, S one element, n a count), and its body. $V, $U, $I, $F, $M, $S stand for types, $B for the bits of an element.
  struct Elementwise {
    std::string signature;
    std::string body;
  };
  std::string elementwise_text(const std::string& word, const std::string& what,
                               const VectorType& type) const;
  // Names of the instruction set's builtins end on the element type.
  static const char* float_letter(const VectorType& type) { return type.bits == 32 ? "ps" : "pd"; }
  static const char* int_letter(const VectorType& type) { return type.bits == 32 ? "d" : "q"; }
  const char* width_digits() const { return bytes_ == 64 ? "512" : bytes_ == 32 ? "256" : ""; }
  static std::string all_lanes(const VectorType& type);
  // A builtin that gcc knows by a masked name at 512 bits and clang by a plain one.
  std::string choose(const std::string& gcc, const std::string& clang) const;
  Elementwise elementwise(const std::string& what, const VectorType& type) const;
  std::string to_int(const VectorType& type) const;
  // Functions of any number of lanes, in terms of others.
  std::string lanes_text(const std::string& word, const std::string& what, const VectorType& type) const;
  // What folds of whole arrays are made of.
  std::string folds_text(const std::string& word, const std::string& what, const VectorType& type) const;
  std::string bits_text(const std::string& word, const VectorType& type) const;
  std::string conversion_text(const std::string& word, const VectorType& to, const VectorType& from) const;
  std::string by_lane(const std::string& head, const VectorType& to, const VectorType& from,
                      const std::string& value) const;
  // Twice as wide: each half of a register fills one.
  std::string widen(const std::string& head, const VectorType& to, const VectorType& from) const;
  // Half as wide: two registers fill one.
  std::string narrow(const std::string& head, const VectorType& to, const VectorType& from) const;
  std::string mask_conversion(const std::string& head, const VectorType& to, const VectorType& from) const;

  static std::string memory_name(const VectorType& type) { return type.kind + std::to_string(type.bits); }
  static std::string identity_text(const std::string& fold, const VectorType& type);
  std::string reduce_text(const std::string& word, const std::string& fold, const VectorType& type) const;

  // ---- Memory (cpu_prelude_memory.cpp)

  struct Element {
    std::string name;
    const char* type;
    int bytes;
    VectorType compute;
  };
  static bool parse_element(const std::string& name, Element& element);
  std::string memory_text(const std::string& word, const std::string& what, const std::string& name) const;
  // The bits of an element in the mask of the lanes below n.
  std::string register_mask(const Element& element, int i) const;
  bool has_masked_moves(const Element& element) const { return is_512() && element.bytes >= 4; }
  static const char* move_letters(const Element& element);
  std::string load_text(const std::string& word, const Element& element) const;
  std::string store_text(const std::string& word, const Element& element) const;
  // "typedef … at;": the elements of one register in memory, at any address.
  std::string view_text(const char* type, int bytes, int lanes) const;
  std::string whole_load_text(const std::string& word, const Element& element) const;
  std::string whole_store_text(const std::string& word, const Element& element) const;
  // Element (r, c) at from[c * stride + r] goes to to[r * to_stride + c]. By lines, as tensor/cpu/transpose.cpp: Note
  // [Transposing by lines] says why. `from` and `to` may be any elements of so many bytes.
  std::string turn_text(const std::string& word, int bytes) const;

  // ---- What has no lanes (cpu_prelude_call.cpp)

  std::string fixed_text(const std::string& word) const;
  // The words of eight counters, in order.
  std::string philox_text() const;

  cpu::Isa isa_;
  int bytes_;  // of a register
  // Under the mutex.
  std::mutex mutex_;
  std::unordered_map<std::string, Definition, Hash, std::equal_to<>> definitions_;
  uint64_t request_ = 0;
};

}  // namespace weft::compiler
