// GuardBlock: the masks and expected words of an entry, and the check over them.
#include "compiler/trace/guards.h"

#include "compiler/trace/guard_words.h"

namespace weft::compiler {
namespace {

constexpr uint64_t kDefinedBit = uint64_t{1} << 40;
constexpr uint64_t kGradBit = uint64_t{1} << 32;      // requires grad
constexpr uint64_t kRecordedBit = uint64_t{1} << 33;  // and grad mode is on
constexpr uint64_t kTypeMask = 0xFFFFFFFF;

constexpr uint64_t word_of(DType dtype, Device device, size_t rank) {
  return static_cast<uint64_t>(dtype) | static_cast<uint64_t>(device.type) << 8 |
         static_cast<uint64_t>(static_cast<uint8_t>(device.index)) << 16 | static_cast<uint64_t>(rank) << 24 |
         kDefinedBit;
}
uint64_t word_of(const TensorImpl& x) {
  return word_of(x.dtype, x.device, x.layout.sizes.size()) | (x.needs_grad() ? kGradBit | kRecordedBit : 0);
}

}  // namespace

GuardBlock::GuardBlock(GuardFacts facts) : facts_(std::move(facts)), alias_(facts_) {
  for (uint32_t leaf = 0; leaf < facts_.tensors.size(); ++leaf) {
    const TensorFacts& x = facts_.tensors[leaf];
    TensorRecord record = {};
    record.leaf = leaf;
    record.is_defined = x.is_defined;
    if (x.is_defined) {
      WEFT_ASSERT(x.rank <= 255, x.rank);
      record.word = word_of(x.dtype, x.device, x.rank) | (x.requires_grad.value_or(false) ? kGradBit : 0);
      record.mask = kTypeMask | kDefinedBit | (x.requires_grad.has_value() ? kGradBit : 0) |
                    (x.is_grad_free ? kRecordedBit : 0);
      record.address_mask = x.is_aligned ? 15 : 0;
      record.has_place = x.offset.is_fixed || x.storage_bytes.is_fixed;
      record.first_dim = static_cast<uint32_t>(dims_.size());
      if (!x.sizes.empty() || !x.strides.empty()) {
        record.num_dims = x.rank;
        for (size_t d = 0; d < x.rank; ++d) {
          DimRecord dim = {};
          if (d < x.sizes.size() && x.sizes[d].is_fixed) dim.size = x.sizes[d].value, dim.size_mask = -1;
          if (d < x.strides.size() && x.strides[d].is_fixed)
            dim.stride = x.strides[d].value, dim.stride_mask = -1;
          dims_.push_back(dim);
        }
      }
    }
    tensors_.push_back(record);
  }
  for (uint32_t leaf = 0; leaf < facts_.numbers.size(); ++leaf)
    if (const FixedFact& fixed = facts_.numbers[leaf].fixed; fixed.is_fixed)
      numbers_.push_back({leaf, static_cast<uint64_t>(fixed.value)});
}

bool GuardBlock::check(const ArgumentLeaves& leaves, uint64_t global_word, std::span<int64_t> symbols) const {
  uint64_t wrong =
      (leaves.structure ^ facts_.structure) | ((global_word ^ facts_.global_word) & facts_.global_mask) |
      (leaves.tensors.size() ^ facts_.num_leaves()) | (leaves.numbers.size() ^ facts_.numbers.size());
  if (wrong != 0) return false;
  SmallVector<const Tensor*, 8> room;
  const GuardedTensors tensors = facts_.guarded(leaves, room);
  const uint64_t counts = (global_word & kGradModeBits) != 0 ? ~uint64_t{0} : ~kRecordedBit;
  for (const NumberRecord& record : numbers_)
    wrong |= bits_of(leaves.numbers[record.leaf].value) ^ record.bits;
  for (const TensorRecord& record : tensors_) {
    const TensorImpl* const x = tensors[record.leaf]->impl();
    if (x == nullptr || !record.is_defined) [[unlikely]] {
      if ((x != nullptr) != record.is_defined) return false;
      continue;
    }
    wrong |= (word_of(*x) ^ record.word) & record.mask & counts;
    if (wrong != 0) return false;
    const int64_t *const sizes = ints(x->layout.sizes), *const strides = ints(x->layout.strides);
    const DimRecord* dim = dims_.data() + record.first_dim;
    for (uint32_t d = 0; d < record.num_dims; ++d, ++dim)
      wrong |= static_cast<uint64_t>(((sizes[d] ^ dim->size) & dim->size_mask) |
                                     ((strides[d] ^ dim->stride) & dim->stride_mask));
    if (record.address_mask != 0) wrong |= address_of(*x) & record.address_mask;
    if (record.has_place) [[unlikely]] {
      const TensorFacts& facts = facts_.tensors[record.leaf];
      if (facts.offset.is_fixed)
        wrong |= static_cast<uint64_t>(x->layout.offset.concrete() ^ facts.offset.value);
      if (facts.storage_bytes.is_fixed)
        wrong |= x->storage->bytes() ^ static_cast<uint64_t>(facts.storage_bytes.value);
    }
  }
  if (wrong != 0 || !alias_.check(facts_, tensors)) return false;
  for (const SameTensor& each : facts_.same)
    if (!each.holds(leaves)) return false;
  if (facts_.reads.empty()) return true;
  read_symbols(leaves, tensors, symbols);
  return facts_.symbols.check(symbols);
}

void GuardBlock::read_symbols(const ArgumentLeaves& leaves, GuardedTensors tensors,
                              std::span<int64_t> symbols) const {
  WEFT_ASSERT(symbols.size() >= facts_.num_symbols, symbols.size(), " of ", facts_.num_symbols);
  for (const SymbolRead& read : facts_.reads) {
    const SymbolSource& source = read.source;
    switch (source.kind) {
      case SymbolSource::Kind::Size:
        symbols[read.symbol] = ints(tensors[source.leaf]->impl()->layout.sizes)[source.dim];
        break;
      case SymbolSource::Kind::Stride:
        symbols[read.symbol] = ints(tensors[source.leaf]->impl()->layout.strides)[source.dim];
        break;
      case SymbolSource::Kind::Number:
        symbols[read.symbol] = static_cast<int64_t>(bits_of(leaves.numbers[source.leaf].value));
        break;
      case SymbolSource::Kind::Product:
      case SymbolSource::Kind::Result: break;
    }
  }
}

}  // namespace weft::compiler
