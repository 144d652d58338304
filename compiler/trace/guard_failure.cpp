// Which guard failed first, and the words for it.
// Place: the slow half of guards.h; runs once for each miss.
#include "compiler/trace/guard_words.h"
#include "compiler/trace/guards.h"
#include "tensor/op.h"

namespace weft::compiler {
namespace {

using Field = GuardFailure::Field;

std::string fixed_by(const Place& place) {
  const std::string where = weft::to_string(place.where);
  std::string text = place.op == nullptr ? "" : " by " + place.op->name();
  if (!where.empty()) text += " at " + where;
  return text.empty() ? "" : " (fixed" + text + ")";
}

// Collects one failure.
struct Finding {
  GuardFailure failure = {};

  template <class... Parts>
  std::optional<GuardFailure> fail(Field field, int64_t expected, int64_t got, const Parts&... text) {
    failure.field = field;
    failure.expected = expected;
    failure.got = got;
    failure.text = weft::detail::concat(text...) + fixed_by(failure.place);
    return failure;
  }
};

std::optional<GuardFailure> global_failure(const GuardFacts& facts, uint64_t word) {
  Finding finding;
  const uint64_t differing = (word ^ facts.global_word) & facts.global_mask;
  if (differing == 0) return std::nullopt;
  if ((differing & kGradModeBits) != 0) {
    const bool was = (facts.global_word & kGradModeBits) != 0;
    return finding.fail(Field::Global, was, !was, "grad mode was ", was ? "on, is off" : "off, is on");
  }
  const auto dtype = [](uint64_t from) { return static_cast<DType>((from & kDefaultDTypeBits) >> 8); };
  return finding.fail(Field::Global, static_cast<int64_t>(dtype(facts.global_word)),
                      static_cast<int64_t>(dtype(word)), "the default dtype was ", dtype(facts.global_word),
                      ", is ", dtype(word));
}

std::optional<GuardFailure> number_failure(uint32_t leaf, const NumberFacts& was, const NumberLeaf& is) {
  if (!was.fixed.is_fixed) return std::nullopt;
  const auto got = static_cast<int64_t>(bits_of(is.value));
  if (got == was.fixed.value) return std::nullopt;
  Finding finding;
  finding.failure.leaf = leaf;
  finding.failure.place = was.fixed.place;
  return finding.fail(Field::Number, was.fixed.value, got, was.name, " was ",
                      text_of_number(was.kind, was.fixed.value), ", is ", text_of_number(was.kind, got));
}

std::optional<GuardFailure> dims_failure(Finding& finding, Field field, const TensorFacts& was,
                                         const char* what, const SmallVector<FixedFact, kInlineRank>& facts,
                                         const int64_t* values) {
  for (uint32_t d = 0; d < facts.size(); ++d) {
    if (!facts[d].is_fixed || facts[d].value == values[d]) continue;
    finding.failure.dim = d;
    finding.failure.place = facts[d].place;
    return finding.fail(field, facts[d].value, values[d], was.name, what, "(", d, ") was ", facts[d].value,
                        ", is ", values[d]);
  }
  return std::nullopt;
}

std::optional<GuardFailure> tensor_failure(uint32_t leaf, const TensorFacts& was, const Tensor& is,
                                           bool is_recording) {
  Finding finding;
  finding.failure.leaf = leaf;
  const auto differs = [&](Field field, const char* what, const auto& expected, const auto& got,
                           int64_t expected_code, int64_t got_code) {
    return finding.fail(field, expected_code, got_code, was.name, what, " was ", expected, ", is ", got);
  };
  const auto number_differs = [&](Field field, const char* what, int64_t expected, int64_t got) {
    return differs(field, what, expected, got, expected, got);
  };
  if (is.defined() != was.is_defined)
    return finding.fail(Field::Defined, was.is_defined, is.defined(), was.name,
                        was.is_defined ? " was defined, is undefined" : " was undefined, is defined");
  if (!was.is_defined) return std::nullopt;
  if (is->dtype != was.dtype)
    return differs(Field::DType, ".dtype()", was.dtype, is->dtype, static_cast<int64_t>(was.dtype),
                   static_cast<int64_t>(is->dtype));
  if (is->device != was.device)
    return differs(Field::Device, ".device()", was.device, is->device, was.device.index, is->device.index);
  if (is.dim() != was.rank) return number_differs(Field::Rank, ".dim()", was.rank, is.dim());
  if (was.requires_grad.has_value() && is->needs_grad() != *was.requires_grad)
    return finding.fail(Field::RequiresGrad, *was.requires_grad, is->needs_grad(), was.name,
                        ".requires_grad() was ", *was.requires_grad ? "true, is false" : "false, is true");
  if (was.is_grad_free && is_recording && is->needs_grad())
    return finding.fail(Field::RequiresGrad, 0, 1, was.name, ".requires_grad() was false, is true");
  if (auto found = dims_failure(finding, Field::Size, was, ".size", was.sizes, ints(is->layout.sizes)))
    return found;
  if (auto found =
          dims_failure(finding, Field::Stride, was, ".stride", was.strides, ints(is->layout.strides)))
    return found;
  if (const auto rest = static_cast<int64_t>(address_of(*is.impl()) & 15); was.is_aligned && rest != 0)
    return finding.fail(Field::Alignment, 0, rest, "the data of ", was.name,
                        " started at a multiple of 16 bytes, does not now");
  if (was.offset.is_fixed && is->layout.offset.concrete() != was.offset.value)
    return number_differs(Field::Offset, ".storage_offset()", was.offset.value, is->layout.offset.concrete());
  if (const auto bytes = static_cast<int64_t>(is->storage->bytes());
      was.storage_bytes.is_fixed && bytes != was.storage_bytes.value)
    return number_differs(Field::StorageBytes, "'s storage, in bytes,", was.storage_bytes.value, bytes);
  return std::nullopt;
}

std::optional<GuardFailure> overlap_failure(const GuardFacts& facts, GuardedTensors tensors) {
  const std::vector<Overlap> now = find_overlaps(facts, tensors);
  const auto find = [](const std::vector<Overlap>& list, const Overlap& pair) -> const Overlap* {
    for (const Overlap& each : list)
      if (each.a == pair.a && each.b == pair.b) return &each;
    return nullptr;
  };
  const auto name = [&](uint32_t index) {
    return index < facts.tensors.size() ? facts.tensors[index].name
                                        : facts.captured[index - facts.tensors.size()].name;
  };
  const auto fail = [&](const Overlap& pair, int64_t expected, int64_t got, const char* text) {
    Finding finding;
    finding.failure.leaf = pair.a;
    finding.failure.other = pair.b;
    return finding.fail(Field::Overlap, expected, got, name(pair.a), " and ", name(pair.b), text);
  };
  for (const Overlap& pair : now) {
    const Overlap* before = find(facts.overlaps, pair);
    if (before == nullptr)
      return fail(pair, 0, 1, " did not share memory, do now, and the function writes to it");
    if (before->distance != pair.distance)
      return fail(pair, before->distance, pair.distance, " shared memory at another distance");
  }
  for (const Overlap& pair : facts.overlaps)
    if (find(now, pair) == nullptr)
      return fail(pair, 1, 0, " shared memory that the function writes to, do not now");
  return std::nullopt;
}

}  // namespace

std::optional<GuardFailure> GuardBlock::first_failure(const ArgumentLeaves& leaves,
                                                      uint64_t global_word) const {
  if (leaves.structure != facts_.structure || leaves.tensors.size() != facts_.num_leaves() ||
      leaves.numbers.size() != facts_.numbers.size()) {
    return Finding().fail(
        Field::Structure, static_cast<int64_t>(facts_.structure), static_cast<int64_t>(leaves.structure),
        "the arguments had other lengths of lists, presence of optionals, texts or modules");
  }
  if (auto found = global_failure(facts_, global_word)) return found;
  for (uint32_t i = 0; i < facts_.numbers.size(); ++i)
    if (auto found = number_failure(i, facts_.numbers[i], leaves.numbers[i])) return found;
  SmallVector<const Tensor*, 8> room;
  const GuardedTensors tensors = facts_.guarded(leaves, room);
  for (uint32_t i = 0; i < facts_.tensors.size(); ++i)
    if (auto found = tensor_failure(i, facts_.tensors[i], *tensors[i], (global_word & kGradModeBits) != 0))
      return found;
  if (!alias_.check(facts_, tensors))
    if (auto found = overlap_failure(facts_, tensors)) return found;
  for (uint32_t i = 0; i < facts_.same.size(); ++i) {
    const SameTensor& pair = facts_.same[i];
    if (pair.holds(leaves)) continue;
    Finding finding;
    finding.failure.other = i;
    return finding.fail(Field::Identity, 1, 0, pair.a.name, " and ", pair.b.name,
                        " were one tensor, are two");
  }
  if (facts_.reads.empty()) return std::nullopt;
  std::vector<int64_t> symbols(facts_.num_symbols);
  read_symbols(leaves, tensors, symbols);
  const auto fact = facts_.symbols.first_failure(symbols);
  if (!fact) return std::nullopt;
  Finding finding;
  finding.failure.other = static_cast<uint32_t>(*fact);
  return finding.fail(Field::Symbolic, 1, 0, facts_.symbols.explain(*fact, symbols));
}

}  // namespace weft::compiler
