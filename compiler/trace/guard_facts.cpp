// GuardFacts: taking in what a trace found out, and saying it in words.
#include "compiler/trace/guard_facts.h"

#include <algorithm>
#include <bit>

#include "autograd/tape.h"
#include "compiler/trace/alias_guard.h"
#include "tensor/grad_flag.h"
#include "tensor/op.h"

namespace weft::compiler {
namespace {

std::string by(const Place& place) {
  const std::string where = weft::to_string(place.where);
  std::string text;
  if (place.op != nullptr) text += " by " + place.op->name();
  if (!where.empty()) text += " at " + where;
  return text;
}

int64_t raw_bits(const Scalar& value) {
  return value.is_floating() ? std::bit_cast<int64_t>(value.to_double()) : value.to_int();
}

std::string source_text(const GuardFacts& facts, const SymbolSource& source) {
  switch (source.kind) {
    case SymbolSource::Kind::Size:
      return weft::detail::concat(facts.tensors[source.leaf].name, ".size(", source.dim, ")");
    case SymbolSource::Kind::Stride:
      return weft::detail::concat(facts.tensors[source.leaf].name, ".stride(", source.dim, ")");
    case SymbolSource::Kind::Number: return facts.numbers[source.leaf].name;
    case SymbolSource::Kind::Product: return "numel";
    case SymbolSource::Kind::Result:
      return weft::detail::concat("size ", source.dim, " of result ", source.leaf);
  }
  return "?";
}

}  // namespace

uint64_t current_global_word() {
  return (grad_mode_enabled() ? kGradModeBits : 0) | static_cast<uint64_t>(default_dtype()) << 8;
}

std::string text_of_number(NumberLeaf::Kind kind, int64_t bits) {
  if (kind == NumberLeaf::Kind::Bool) return bits != 0 ? "true" : "false";
  if (kind != NumberLeaf::Kind::Float) return std::to_string(bits);
  return weft::detail::concat(Scalar(std::bit_cast<double>(bits)));
}

TensorFacts::TensorFacts(std::string leaf_name, const Tensor& x) : name(std::move(leaf_name)) {
  is_defined = x.defined();
  if (!is_defined) return;
  dtype = x->dtype;
  device = x->device;
  rank = static_cast<uint32_t>(x.dim());
}

// Without the lock of the gradient: who changes gradients while a function that reads them runs has a race of his own.
const Tensor& Route::find(const ArgumentLeaves& leaves) const {
  static const Tensor none;
  const Tensor& x = leaf == kHeld ? held : *leaves.tensors[leaf];
  if (!is_grad) return x;
  const autograd::Tape* tape = x.defined() ? autograd::tape_of(x) : nullptr;
  return tape != nullptr && tape->cell ? tape->cell->grad : none;
}

GuardFacts::GuardFacts(const ArgumentLeaves& leaves, const Callee& callee)
    : structure(leaves.structure), global_word(current_global_word()), global_mask(kDefaultDTypeBits) {
  for (size_t i = 0; i < leaves.tensors.size(); ++i)
    tensors.emplace_back(callee.tensor_name(i), *leaves.tensors[i]);
  for (size_t i = 0; i < leaves.numbers.size(); ++i) {
    const NumberLeaf& leaf = leaves.numbers[i];
    NumberFacts& facts = numbers.emplace_back(callee.number_name(i), leaf.kind);
    if (leaf.kind != NumberLeaf::Kind::Scalar && leaf.kind != NumberLeaf::Kind::Size)
      facts.fixed = {true, raw_bits(leaf.value), {}};
  }
}

TensorFacts& GuardFacts::add_gradient(uint32_t leaf, Route route, const Tensor& gradient) {
  gradient_leaves_.push_back(leaf);
  tensors.emplace_back(route.name, gradient);
  gradients.push_back(std::move(route));
  return tensors.back();
}

uint32_t GuardFacts::place_of(uint32_t leaf) const {
  if (leaf < num_leaves()) return leaf;
  const auto at = std::find(gradient_leaves_.begin(), gradient_leaves_.end(), leaf);
  WEFT_ASSERT(at != gradient_leaves_.end(), "a trace relied on leaf ", leaf, ", of which nothing is guarded");
  return static_cast<uint32_t>(num_leaves() + static_cast<size_t>(at - gradient_leaves_.begin()));
}

GuardedTensors GuardFacts::guarded(const ArgumentLeaves& leaves, SmallVector<const Tensor*, 8>& room) const {
  if (gradients.empty()) return {leaves.tensors.data(), leaves.tensors.size()};
  room.append(leaves.tensors.begin(), leaves.tensors.end());
  for (const Route& gradient : gradients) room.push_back(&gradient.find(leaves));
  return {room.data(), room.size()};
}

void GuardFacts::add_shapes(const ShapeEnv& shapes, std::shared_ptr<const Expressions> expressions) {
  const auto fix = [](FixedFact& fact, const FixedValue& fixed) {
    if (!fact.is_fixed) fact = {true, fixed.value, fixed.place};
  };
  for (const FixedValue& fixed : shapes.fixed()) {
    const SymbolSource& source = fixed.source;
    switch (source.kind) {
      case SymbolSource::Kind::Size:
      case SymbolSource::Kind::Stride: {
        TensorFacts& tensor = tensors[place_of(source.leaf)];
        auto& dims = source.kind == SymbolSource::Kind::Size ? tensor.sizes : tensor.strides;
        dims.resize(tensor.rank);
        fix(dims[source.dim], fixed);
        break;
      }
      case SymbolSource::Kind::Number: fix(numbers[source.leaf].fixed, fixed); break;
      case SymbolSource::Kind::Product:
      case SymbolSource::Kind::Result: break;  // known after a segment has run
    }
  }
  for (uint32_t symbol : shapes.live_symbols()) {
    SymbolSource source = shapes.sources()[symbol];
    if (source.kind >= SymbolSource::Kind::Product) continue;
    if (source.kind != SymbolSource::Kind::Number) source.leaf = place_of(source.leaf);
    reads.push_back({source, symbol});
  }
  tables = std::move(expressions);
  // What is asked of data-dependent results is checked when they are there.
  uint32_t num_known = 0;
  while (num_known < shapes.sources().size() &&
         shapes.sources()[num_known].kind != SymbolSource::Kind::Result)
    ++num_known;
  num_symbols = num_known;
  symbols = SymGuardProgram(shapes, tables, 0, num_known);
}

void GuardFacts::add_overlaps(const ArgumentLeaves& leaves) {
  SmallVector<const Tensor*, 8> room;
  overlaps = find_overlaps(*this, guarded(leaves, room));
}

std::vector<std::string> GuardFacts::describe() const {
  std::vector<std::string> lines;
  const auto say = [&](const auto&... parts) { lines.push_back(weft::detail::concat(parts...)); };
  for (const TensorFacts& x : tensors) {
    if (!x.is_defined) {
      say(x.name, " undefined");
      continue;
    }
    say(x.name, ": ", x.dtype, " on ", x.device, " of ", x.rank, x.rank == 1 ? " dimension" : " dimensions",
        x.is_used ? "" : ", not used");
    if (x.requires_grad.has_value()) say(x.name, *x.requires_grad ? " requires grad" : " requires no grad");
    else if (x.is_grad_free) say(x.name, " requires no grad while grad mode is on");
    if (x.is_aligned) say("data of ", x.name, " at a multiple of 16 bytes");
    for (size_t d = 0; d < x.sizes.size(); ++d)
      if (x.sizes[d].is_fixed)
        say("dim ", d, " of ", x.name, " fixed at ", x.sizes[d].value, by(x.sizes[d].place));
    for (size_t d = 0; d < x.strides.size(); ++d)
      if (x.strides[d].is_fixed)
        say("stride ", d, " of ", x.name, " fixed at ", x.strides[d].value, by(x.strides[d].place));
    if (x.offset.is_fixed) say("offset of ", x.name, " fixed at ", x.offset.value);
    if (x.storage_bytes.is_fixed) say("storage of ", x.name, " fixed at ", x.storage_bytes.value, " bytes");
  }
  for (const NumberFacts& x : numbers)
    if (x.fixed.is_fixed) say(x.name, " fixed at ", text_of_number(x.kind, x.fixed.value), by(x.fixed.place));
  for (const SymbolRead& read : reads)
    say(tables->syms.symbols()[read.symbol].name, " is ", source_text(*this, read.source));
  for (size_t i = 0; i < symbols.size(); ++i) lines.push_back(symbols.to_string(i));
  const auto name = [&](uint32_t index) {
    return index < tensors.size() ? tensors[index].name : captured[index - tensors.size()].name;
  };
  for (const Overlap& each : overlaps)
    say(name(each.a), " and ", name(each.b), " share memory, ", each.distance, " bytes apart");
  for (const SameTensor& each : same) say(each.a.name, " and ", each.b.name, " are one tensor");
  if ((global_mask & kGradModeBits) != 0)
    say("grad mode ", (global_word & kGradModeBits) != 0 ? "on" : "off");
  if ((global_mask & kDefaultDTypeBits) != 0)
    say("default dtype ", static_cast<DType>((global_word & kDefaultDTypeBits) >> 8));
  return lines;
}

}  // namespace weft::compiler
