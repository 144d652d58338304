// ShapeEnv: placeholders, questions about sizes, and the guards that the answers leave.
// Place: the out-of-line half of shape_env.h.
#include "compiler/trace/shape_env.h"

#include <algorithm>

namespace weft::compiler {
namespace {

// A chain of quotients this long is fixed to its value: nobody indexes by it, and each call would evaluate it.
constexpr uint32_t kMaxNesting = 64;

bool is_same(Sym a, Sym b) { return __builtin_memcmp(&a, &b, sizeof a) == 0; }
uint64_t bits_of(Sym a) { return a.is_symbolic() ? ~uint64_t{a.id()} : static_cast<uint64_t>(a.concrete()); }

std::string describe(const SymbolSource& source) {
  switch (source.kind) {
    case SymbolSource::Kind::Size: return weft::detail::concat("arg", source.leaf, ".size(", source.dim, ")");
    case SymbolSource::Kind::Stride:
      return weft::detail::concat("arg", source.leaf, ".stride(", source.dim, ")");
    case SymbolSource::Kind::Number: return weft::detail::concat("number", source.leaf);
    case SymbolSource::Kind::Product: return "numel";
    case SymbolSource::Kind::Result:
      return weft::detail::concat("result", source.leaf, ".size(", source.dim, ")");
  }
  return "?";
}

// What holds for every number of this kind.
Interval natural_range(SymbolSource::Kind kind) {
  return kind == SymbolSource::Kind::Number ? Interval{} : Interval{0, INT64_MAX};
}

}  // namespace

// ---- Taking in what a call brings

Sym ShapeEnv::add_symbol(SymbolSource source, Symbol symbol) {
  const Sym self = table_.add_symbol(std::move(symbol));
  entries_.resize(table_.symbols().size());
  sources_.resize(table_.symbols().size());
  entries_.back().self = self;
  entries_.back().is_result = source.kind == SymbolSource::Kind::Result;
  sources_.back() = source;
  return self;
}

Sym ShapeEnv::add_placeholder(SymbolSource source, int64_t hint, Sym value, Sym irrelevance) {
  const Interval range = natural_range(source.kind);
  const Sym self = add_symbol(source, {describe(source), hint, std::min(range.min, hint), range.max});
  entries_.back().is_placeholder = true;
  entries_.back().value = value;
  entries_.back().irrelevance = irrelevance;
  return self;
}

Sym ShapeEnv::add(SymbolSource source, int64_t value, const DimPolicy& policy) {
  Interval range;
  switch (policy.kind) {
    case DimPolicy::Kind::Static: range = {value, value}; break;
    case DimPolicy::Kind::Dynamic:
      // Numbers below 0 stay so: the sign decides as much as 0 and 1 do.
      if (value < 0) range = {INT64_MIN / 2, -1};
      else if (value < 2) range = {value, value};
      else range = {2, INT64_MAX};
      break;
    case DimPolicy::Kind::Declared: {
      const Interval natural = natural_range(source.kind);
      range = {std::max(policy.range.min, natural.min), std::min(policy.range.max, natural.max)};
      WEFT_CHECK(range.min <= value && value <= range.max, "mark_dynamic: ", describe(source), " is ", value,
                 ", outside its declared range [", range.min, ", ", range.max,
                 "]; widen the range or pass a size within it");
      break;
    }
  }
  if (range.min == range.max) return add_placeholder(source, value, Sym::from_int(value));
  const Sym self = add_symbol(source, {"s" + std::to_string(num_symbols_++), value, range.min, range.max});
  entries_.back().promised = range;
  return self;
}

DimPolicy ShapeEnv::policy_of(Sym size) const {
  const auto symbol = table_.as_symbol(size);
  if (!symbol || *symbol >= entries_.size() || entries_[*symbol].is_placeholder) return {};
  return {DimPolicy::Kind::Declared, entries_[*symbol].promised};
}

Sym ShapeEnv::add_product(std::span<const Sym> sizes) {
  int64_t hint = 1;
  bool is_pending = false;
  for (const Sym size : sizes) {
    is_pending = is_pending || is_placeholder(size);
    if (__builtin_mul_overflow(hint, this->hint(size), &hint)) hint = INT64_MAX / 2;
  }
  if (!is_pending) {
    // Not by binary(): nobody has asked yet.
    Sym result = Sym::from_int(1);
    for (const Sym size : sizes) result = table_.binary(SymOp::Mul, result, stand_in(size));
    if (table_.depth(result) > kMaxNesting) [[unlikely]]
      return Sym::from_int(specialize(result));
    return result;
  }
  const Sym self = add_placeholder({SymbolSource::Kind::Product, 0, 0}, hint, Sym::from_int(hint));
  entries_.back().factors.assign(sizes.begin(), sizes.end());
  entries_.back().is_product = true;
  return self;
}

Layout<Sym> ShapeEnv::add_layout(uint32_t leaf, std::span<const int64_t> sizes,
                                 std::span<const int64_t> strides, std::span<const DimPolicy> policies,
                                 uint64_t dynamic_strides) {
  const size_t rank = sizes.size();
  WEFT_ASSERT(strides.size() == rank && policies.size() <= rank, "tensor leaf ", leaf);
  Layout<Sym> layout;
  Sizes lengths, steps(rank, Sym::from_int(0));  // the values of sizes and strides without placeholders
  Sym emptiness = Sym::from_int(1);              // 0 where some size is
  for (size_t d = 0; d < rank; ++d) {
    const SymbolSource source = {SymbolSource::Kind::Size, leaf, static_cast<uint32_t>(d)};
    const Sym size = add(source, sizes[d], d < policies.size() ? policies[d] : DimPolicy{});
    layout.sizes.push_back(size);
    lengths.push_back(is_placeholder(size) ? Sym::from_int(sizes[d]) : size);
    if (lengths[d].is_symbolic() && table_.range(size).min <= 0)
      emptiness = table_.binary(SymOp::Mul, emptiness, size);
  }
  layout.strides.resize(rank);
  const bool is_empty = table_.hint(emptiness) == 0;

  // The stride is `product`, unless the call shows otherwise; or a number, or a symbol.
  const auto place_stride = [&](size_t d, std::optional<Sym> product) {
    const SymbolSource source = {SymbolSource::Kind::Stride, leaf, static_cast<uint32_t>(d)};
    // An empty tensor's strides keep the numbers; a product with a size of 0 counts that as 1.
    Sym irrelevance = product && product->is_symbolic() ? emptiness : Sym::from_int(1);
    if (lengths[d].is_symbolic() && table_.range(lengths[d]).min <= 1)
      irrelevance =
          table_.binary(SymOp::Mul, irrelevance, table_.binary(SymOp::Sub, lengths[d], Sym::from_int(1)));
    const bool is_free = table_.hint(irrelevance) == 0;
    const bool is_product = product && (is_free || table_.hint(*product) == strides[d]);
    if (!is_product && (dynamic_strides >> d & 1) != 0) {
      layout.strides[d] = add(source, strides[d], {DimPolicy::Kind::Dynamic, {}});
      steps[d] = is_placeholder(layout.strides[d]) ? Sym::from_int(strides[d]) : layout.strides[d];
      return;
    }
    steps[d] = is_product ? *product : Sym::from_int(strides[d]);
    layout.strides[d] = add_placeholder(source, strides[d], steps[d], irrelevance);
  };

  // From the innermost in memory outwards; dimensions of size 1 have no place there. An empty tensor is as good as any
  // row-major one.
  SmallVector<size_t, kInlineRank> order;
  for (size_t d = rank; d-- > 0;)
    if (sizes[d] != 1 || is_empty) order.push_back(d);
  if (!is_empty)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  std::optional<Sym> product;
  if (is_empty) product = Sym::from_int(1);
  for (size_t d : order) {
    place_stride(d, product);
    product = table_.binary(SymOp::Mul, lengths[d], steps[d]);
  }
  for (size_t d = rank; d-- > 0;) {
    if (sizes[d] != 1 || is_empty) continue;
    steps[d] = d + 1 < rank ? table_.binary(SymOp::Mul, lengths[d + 1], steps[d + 1]) : Sym::from_int(1);
    if (lengths[d].is_symbolic()) place_stride(d, steps[d]);
    else layout.strides[d] = steps[d];
  }
  return layout;
}

// ---- Placeholders

bool ShapeEnv::is_placeholder(Sym a) const {
  const auto symbol = table_.as_symbol(a);
  return symbol && *symbol < entries_.size() && entries_[*symbol].is_placeholder &&
         !entries_[*symbol].is_settled;
}

// The expression as it is known now, with placeholders that nobody has settled left alone.
Sym ShapeEnv::stand_in(Sym a) const {
  if (!a.is_symbolic()) return a;
  a = table_.current(a);
  const auto symbol = table_.as_symbol(a);
  if (!symbol || *symbol >= entries_.size() || !entries_[*symbol].is_placeholder) return a;
  return entries_[*symbol].is_settled ? table_.current(entries_[*symbol].value) : a;
}

// An unread symbol takes no part in guards: what is never looked at may be anything.
void ShapeEnv::mark_read(Sym a) {
  if (!a.is_symbolic()) return;
  const uint32_t id = a.id();
  if (id < marked_.size() && marked_[id]) return;
  if (id >= marked_.size()) marked_.resize(id + 64);
  marked_[id] = true;
  for (const uint32_t symbol : table_.symbols_of(a)) entries_[symbol].is_read = true;
}

Sym ShapeEnv::settle(Sym a) {
  if (!a.is_symbolic()) return a;
  a = table_.current(a);
  const auto symbol = table_.as_symbol(a);
  if (symbol && *symbol < entries_.size() && entries_[*symbol].is_placeholder)
    a = settle_placeholder(*symbol);
  mark_read(a);
  return a;
}

Sym ShapeEnv::settle_placeholder(uint32_t symbol) {
  if (!entries_[symbol].factors.empty()) {
    const std::vector<Sym> factors = std::move(entries_[symbol].factors);
    entries_[symbol].factors.clear();
    entries_[symbol].is_settled = true;
    Sym product = Sym::from_int(1);
    for (const Sym factor : factors) product = table_.binary(SymOp::Mul, product, settle(factor));
    entries_[symbol].value = product;
    return product;
  }
  Entry& entry = entries_[symbol];
  const Sym value = table_.current(entry.value);
  if (entry.is_settled) return value;
  entry.is_settled = true;
  mark_read(entry.value);
  mark_read(entry.irrelevance);
  if (entry.irrelevance.is_symbolic()) {
    const Sym difference = table_.binary(SymOp::Sub, entry.self, entry.value);
    guards_.push_back(
        {SymCompare::Eq, table_.binary(SymOp::Mul, difference, entry.irrelevance), Sym::from_int(0), place_});
  } else if (entry.value.is_symbolic()) {
    guards_.push_back({SymCompare::Eq, entry.self, entry.value, place_});
  } else {
    fixed_.push_back({sources_[symbol], entry.value.concrete(), place_});
  }
  return value;
}

void ShapeEnv::settle(Layout<Sym>& layout) {
  for (Sym& size : layout.sizes) size = settle(size);
  for (Sym& stride : layout.strides) stride = settle(stride);
  layout.offset = settle(layout.offset);
}

std::vector<uint32_t> ShapeEnv::live_symbols() const {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].needs_values()) result.push_back(i);
  return result;
}

// ---- Questions

Sym ShapeEnv::binary(SymOp op, Sym a, Sym b) {
  const Sym result = table_.binary(op, settle(a), settle(b));
  if ((op == SymOp::FloorDiv || op == SymOp::TruncDiv || op == SymOp::Mod) && table_.hint(b) == 0)
      [[unlikely]]
    table_.check_hint(result);
  if (table_.depth(result) > kMaxNesting) [[unlikely]]
    return Sym::from_int(specialize(result));
  return result;
}

bool ShapeEnv::known(SymCompare op, Sym a, Sym b) {
  a = stand_in(a);
  b = stand_in(b);
  if (table_.decide(op, a, b) != true) return false;
  // It may be known by what is promised of the symbols. Of a placeholder nothing is that its kind does not say.
  if (!is_placeholder(a)) mark_read(a);
  if (!is_placeholder(b)) mark_read(b);
  return true;
}

bool ShapeEnv::compare(SymCompare op, Sym a, Sym b) {
  if (is_placeholder(a) || is_placeholder(b)) {
    // What holds for every size needs none of them: x.size(0) >= 0.
    if (const auto answer = table_.decide(op, stand_in(a), stand_in(b))) return *answer;
  }
  a = settle(a);
  b = settle(b);
  if (!a.is_symbolic() && !b.is_symbolic()) return holds(op, a.concrete(), b.concrete());
  const uint64_t key =
      (bits_of(a) * 0x9e3779b97f4a7c15 + bits_of(b)) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(op);
  Answer& slot = answers_[(key ^ key >> 32) % answers_.size()];
  if (slot.is_set && slot.op == op && is_same(slot.a, a) && is_same(slot.b, b)) return slot.holds;
  std::optional<bool> answer = table_.decide(op, a, b);
  if (!answer) {
    answer = holds(op, table_.hint(a), table_.hint(b));
    add_guard(*answer ? op : negated(op), a, b);
  }
  slot = {a, b, op, true, *answer};
  return *answer;
}

void ShapeEnv::add_guard(SymCompare op, Sym a, Sym b) {
  const Relation relation = table_.simplified(op, a, b);
  op = relation.op, a = relation.a, b = relation.b;
  if (op == SymCompare::Eq) {
    std::vector<uint32_t> symbols = table_.symbols_of(a);
    const std::vector<uint32_t> others = table_.symbols_of(b);
    symbols.insert(symbols.end(), others.begin(), others.end());
    const bool is_single = std::count(symbols.begin(), symbols.end(), symbols.front()) == std::ssize(symbols);
    table_.assume(op, a, b);
    const uint32_t symbol = symbols.front();
    WEFT_ASSERT(symbol < entries_.size(), table_.to_string(a));
    const Sym left = table_.current(entries_[symbol].self);
    if (is_single && !left.is_symbolic()) {  // 2·s0 == 8 says more by s0 == 4
      fixed_.push_back({sources_[symbol], left.concrete(), place_});
      return;
    }
  } else {
    table_.assume(op, a, b);
  }
  guards_.push_back({op, a, b, place_});
}

int64_t ShapeEnv::specialize(Sym a) {
  a = settle(a);
  if (!a.is_symbolic()) return a.concrete();
  const int64_t value = table_.hint(a);
  add_guard(SymCompare::Eq, a, Sym::from_int(value));
  return value;
}

int64_t ShapeEnv::hint(Sym a) const { return table_.hint(a); }

std::string ShapeEnv::expression(Sym a) const {
  a = stand_in(a);
  if (is_placeholder(a)) a = table_.current(entries_[*table_.as_symbol(a)].value);
  return table_.to_string(a);
}

// Errors speak of the call that is traced; graphs and guards print expressions by the table.
std::string ShapeEnv::to_string(Sym a) const { return std::to_string(hint(a)); }

}  // namespace weft::compiler
