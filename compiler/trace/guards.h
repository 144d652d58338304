// GuardBlock: decides at each call whether what a trace relied on still holds. Guards are data: flat records, no code.
// Needs guard_facts and alias_guard. Made once for an entry; check() is the first half of a hit.
#pragma once

#include "compiler/trace/alias_guard.h"

namespace weft::compiler {

// The first fact that does not hold.
struct GuardFailure {
  enum class Field : uint8_t {
    Structure,
    Global,
    Defined,
    DType,
    Device,
    Rank,
    RequiresGrad,
    Size,
    Stride,
    Offset,
    StorageBytes,
    Alignment,
    Number,
    Overlap,   // of `leaf` and `other`
    Identity,  // of pair `other` of facts().same
    Symbolic,  // fact `other` of the symbolic program
  };
  Field field = Field::Structure;
  uint32_t leaf = 0, dim = 0, other = 0;
  int64_t expected = 0, got = 0;
  Place place = {};
  std::string text;  // "x.size(0) was 64, is 17"
};

// Immutable and thread-safe.
class GuardBlock {
 public:
  explicit GuardBlock(GuardFacts facts);

  // Whether everything holds; then the values of the symbols stand in `symbols`, which has room for num_symbols().
  // The leaves are real tensors. No allocation, except where tensors that are written share storage.
  bool check(const ArgumentLeaves& leaves, uint64_t global_word, std::span<int64_t> symbols) const;
  size_t num_symbols() const { return facts_.num_symbols; }

  // Nothing if all holds.
  std::optional<GuardFailure> first_failure(const ArgumentLeaves& leaves, uint64_t global_word) const;
  const GuardFacts& facts() const { return facts_; }

 private:
  // What is checked of one leaf by masks: bits of the word, then `rank` dimensions from first_dim on.
  struct TensorRecord {
    uint64_t word, mask;
    uint64_t address_mask;  // 15 where alignment counts
    uint32_t leaf;
    uint32_t first_dim, num_dims;
    bool is_defined;
    bool has_place;  // offset and storage size are among the facts
  };
  struct DimRecord {
    int64_t size, size_mask, stride, stride_mask;
  };
  struct NumberRecord {
    uint32_t leaf;
    uint64_t bits;
  };
  void read_symbols(const ArgumentLeaves& leaves, GuardedTensors tensors, std::span<int64_t> symbols) const;

  GuardFacts facts_;
  std::vector<TensorRecord> tensors_;
  std::vector<DimRecord> dims_;
  std::vector<NumberRecord> numbers_;
  AliasGuard alias_;
};

}  // namespace weft::compiler
