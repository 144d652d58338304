// Building a graph out of another one.
// Place: the out-of-line half of compiler/passes/rewrite.h.
#include "compiler/passes/rewrite.h"

#include <algorithm>
#include <bit>

namespace weft::compiler {

// ---- Rewriter -------------------------------------------------------------------------------------------------------

Rewriter::Rewriter(const Graph& from)
    : from_(from), to_(from.expressions), now_(from.values.size(), kNoValue) {
  to_.name = from.name;
}

void Rewriter::copy_input(ValueId input) {
  const Value& value = from_[input];
  const bool has_name = value.index < from_.input_names.size();
  set(input, to_.add_input(value.spec(), has_name ? from_.input_names[value.index] : std::string()));
}

void Rewriter::copy_inputs() {
  for (ValueId input : from_.inputs) copy_input(input);
}

ValueId Rewriter::operator[](ValueId old) const {
  WEFT_ASSERT(has(old), "%", old, " is read before anything stands for it\n", from_);
  return now_[old];
}

Node Rewriter::translated(const Node& node) const {
  Node result = node;
  for (Argument& argument : result.operands)
    if (argument.is_value()) argument.value = (*this)[argument.value];
  return result;
}

NodeId Rewriter::copy(NodeId n) {
  const Node& node = from_.nodes[n];
  OutputSpecs specs;
  for (uint32_t k = 0; k < node.num_outputs; ++k) specs.push_back(from_[node.first_output + k].spec());
  const ValueId first = to_.add_node(translated(node), {specs.data(), specs.size()});
  for (uint32_t k = 0; k < node.num_outputs; ++k) set(node.first_output + k, first + k);
  return static_cast<NodeId>(to_.nodes.size() - 1);
}

Graph Rewriter::finish(std::span<const ValueId> old_outputs) {
  for (ValueId output : old_outputs) to_.outputs.push_back((*this)[output]);
  for (ValueId item : from_.items) to_.items.push_back(item == kNoValue ? kNoValue : now_[item]);
  return std::move(to_);
}

Graph Rewriter::finish() {
  to_.overwrites = from_.overwrites;
  return finish(from_.outputs);
}

// ---- Nodes ----------------------------------------------------------------------------------------------------------

namespace {

void mix(uint64_t& hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
}
uint64_t bits_of(Sym a) { return a.is_symbolic() ? ~uint64_t{a.id()} : static_cast<uint64_t>(a.concrete()); }
uint64_t bits_of(double a) { return std::bit_cast<uint64_t>(a); }
uint64_t bits_of(const Scalar& a) {
  if (a.is_traced()) return a.trace_id();
  if (a.is_symbolic()) return bits_of(a.sym());
  return a.is_floating() ? bits_of(a.to_double()) : static_cast<uint64_t>(a.to_int());
}

void mix_attr(uint64_t& hash, const Attr& attr) {
  mix(hash, attr.value().index());
  if (attr.is<bool>()) mix(hash, attr.as_bool());
  if (attr.is<Sym>()) mix(hash, bits_of(attr.as_int()));
  if (attr.is<double>()) mix(hash, bits_of(attr.as<double>()));
  if (attr.is<Scalar>()) mix(hash, bits_of(attr.as<Scalar>()));
  if (attr.is<DType>()) mix(hash, static_cast<uint64_t>(attr.as_dtype()));
  if (attr.is<SymList>())
    for (Sym size : attr.as_sizes()) mix(hash, bits_of(size));
  if (attr.is<DimList>())
    for (int64_t dim : attr.as_dims()) mix(hash, static_cast<uint64_t>(dim));
  if (attr.is<std::string>()) mix(hash, std::hash<std::string>()(attr.as_string()));
  if (attr.is<RoutinePtr>()) mix(hash, std::hash<std::string>()(attr.as<RoutinePtr>()->identity()));
}

}  // namespace

uint64_t hash_of(const Node& node) {
  uint64_t hash = std::hash<const Op*>()(node.op);
  for (const Argument& argument : node.operands) {
    mix(hash, static_cast<uint64_t>(argument.kind));
    if (argument.is_value()) mix(hash, argument.value);
    if (argument.kind == Argument::Kind::Number) mix(hash, bits_of(argument.number));
  }
  for (const Attr& attr : node.attrs) mix_attr(hash, attr);
  return hash;
}

bool is_same(const Scalar& a, const Scalar& b) {
  return a.category() == b.category() && a.is_traced() == b.is_traced() &&
         a.is_symbolic() == b.is_symbolic() && bits_of(a) == bits_of(b);
}

bool is_same(const Attr& a, const Attr& b) {
  if (a.value().index() != b.value().index()) return false;
  const auto same_bits = [](const auto& x, const auto& y) { return bits_of(x) == bits_of(y); };
  if (a.is<bool>()) return a.as_bool() == b.as_bool();
  if (a.is<Sym>()) return same_bits(a.as_int(), b.as_int());
  if (a.is<double>()) return same_bits(a.as<double>(), b.as<double>());
  if (a.is<Scalar>()) return is_same(a.as<Scalar>(), b.as<Scalar>());
  if (a.is<DType>()) return a.as_dtype() == b.as_dtype();
  if (a.is<Device>()) return a.as_device() == b.as_device();
  if (a.is<SymList>())
    return std::equal(a.as_sizes().begin(), a.as_sizes().end(), b.as_sizes().begin(), b.as_sizes().end(),
                      same_bits);
  if (a.is<DimList>()) return a.as_dims() == b.as_dims();
  if (a.is<std::string>()) return a.as_string() == b.as_string();
  if (a.is<RoutinePtr>()) return a.as<RoutinePtr>()->identity() == b.as<RoutinePtr>()->identity();
  return true;
}

bool is_same(const Argument& a, const Argument& b) {
  if (a.kind != b.kind) return false;
  if (a.is_value()) return a.value == b.value;
  return a.kind == Argument::Kind::None || is_same(a.number, b.number);
}

bool is_same(const Node& a, const Node& b) {
  const auto same = [](const auto& x, const auto& y) { return is_same(x, y); };
  return a.op == b.op && a.num_outputs == b.num_outputs &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(), same) &&
         std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(), same);
}

bool is_equal(const SymTable& syms, Sym a, Sym b) {
  if (bits_of(a) == bits_of(b)) return true;
  if (!a.is_symbolic() && !b.is_symbolic()) return false;
  return syms.decide(SymCompare::Eq, a, b).value_or(false);
}

bool has_same_layout(const SymTable& syms, const Value& a, const Value& b) {
  const auto equal = [&](Sym x, Sym y) { return is_equal(syms, x, y); };
  return is_equal(syms, a.offset, b.offset) &&
         std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(), equal) &&
         std::equal(a.strides.begin(), a.strides.end(), b.strides.begin(), b.strides.end(), equal);
}
bool has_same_spec(const SymTable& syms, const Value& a, const Value& b) {
  return a.dtype == b.dtype && a.device == b.device && has_same_layout(syms, a, b);
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

Memory::Memory(const Rewriter& rewriter)
    : from_(rewriter.from()),
      to_(rewriter.to()),
      root_(from_.values.size()),
      is_output_(from_.values.size()),
      escapes_(from_.values.size()),
      new_root_(from_.values.size(), kNoValue) {
  for (ValueId input : from_.inputs) root_[input] = input;
  for (const Node& node : from_.nodes) {
    for (uint32_t k = 0; k < node.num_outputs; ++k)
      root_[node.first_output + k] =
          node.op->kind == Kind::View ? root_[node.operands[0].value] : node.first_output + k;
  }
  for (ValueId output : from_.outputs) {
    is_output_[output] = true;
    escapes_[root_[output]] = true;
  }
}

Memory::New& Memory::of(ValueId now) {
  if (new_.size() <= now) new_.resize(std::max<size_t>(to_.values.size(), now + size_t{1}));
  return new_[now];
}

void Memory::add(ValueId old, ValueId now) {
  const NodeId n = to_[now].node;
  const bool is_input = n == kNoNode, is_view = !is_input && to_.nodes[n].op->kind == Kind::View;
  const ValueId root = is_view ? of(to_.nodes[n].operands[0].value).root : now;
  New& added = of(now);
  added.root = root;
  added.is_visible = is_output_[old] || is_input;
  if (root_[old] == old && root == now) new_root_[old] = now;
  if (escapes_[root_[old]] || is_input) of(root).root_escapes = true;
}

bool Memory::may_stand_for(ValueId now, ValueId old) const {
  const New& value = new_[now];
  if (is_output_[old] && value.is_visible) return false;
  if (new_root_[root_[old]] == value.root) return true;  // they share memory in eager code too
  return !(escapes_[root_[old]] && new_[value.root].root_escapes);
}

void Memory::stands_for(ValueId now, ValueId old) {
  New& value = of(now);
  value.is_visible = value.is_visible || is_output_[old];
  if (root_[old] == old) new_root_[old] = value.root;
  if (escapes_[root_[old]]) of(value.root).root_escapes = true;
}

}  // namespace weft::compiler
