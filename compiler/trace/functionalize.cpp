// What views and in-place ops become: values that are never written.
// Place: the half of Tracer that reads and writes fake tensors.
#include <algorithm>

#include "compiler/trace/tracer.h"
#include "tensor/ops/check.h"
#include "tensor/ops/pointwise_rule.h"
#include "tensor/ops/view.h"

namespace weft::compiler {

// Note [Functional values]
// Memory that fakes share is a FakeStorage with one value, its base. A view keeps the chain of view ops from the base to it. An
// in-place op computes the new value of its tensor, then carries it back through the chain: a view that leaves out elements
// is undone by its scatter, others by their inverse. That gives the base a new value and a new version; a tensor that is
// read afterwards and finds its version behind applies its chain to the base again. The layouts of fakes are those of
// eager; a value may be laid out otherwise after a write, so that views are applied to what is there (through a copy where
// they do not fit), and what leaves the graph is brought back into eager's layout.

namespace {

Layout<Sym> layout_of(const Value& value) { return {value.sizes, value.strides, value.offset}; }

bool same(Sym a, Sym b) { return statically_known(SymCompare::Eq, a, b); }
bool same(const Sizes& a, const Sizes& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](Sym x, Sym y) { return same(x, y); });
}

// Sizes 0 and 1 are never hints: what depends on the others being more holds for all of them.
Layout<Sym> hinted(Layout<Sym> layout) {
  for (Sym& size : layout.sizes) size = Sym::from_int(hint_of(size));
  for (Sym& stride : layout.strides) stride = Sym::from_int(hint_of(stride));
  return layout;
}

// Strides of dimensions of size 1 carry no information.
bool has_strides(const Value& value, const Sizes& strides) {
  for (size_t d = 0; d < strides.size(); ++d)
    if (!same(value.strides[d], strides[d]) && !same(value.sizes[d], Sym::from_int(1))) return false;
  return true;
}

Sizes strides_of(const OutputSpec& spec) {
  return spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes);
}

// One past the last place that a layout reaches.
Sym span_of(const Sizes& sizes, const Sizes& strides, Sym offset) {
  Sym span = offset + 1;
  for (size_t d = 0; d < sizes.size(); ++d) span = span + (sizes[d] - 1) * strides[d];
  return span;
}

}  // namespace

bool Tracer::is_whole_storage(uint32_t input) const {
  const Tensor& real = inputs_[input].real;
  return real->is_contiguous && real->layout.offset == 0 &&
         static_cast<size_t>(int_numel(real)) * size_of(real->dtype) == real->storage->bytes();
}

// The value in the strides and at the offset that eager has.
ValueId Tracer::in_layout(ValueId id, const OutputSpec& spec, SourceLocation where) {
  const Value& value = graph_[id];
  const Sizes strides = strides_of(spec);
  if (has_strides(value, strides) && (value.node != kNoNode || same(value.offset, spec.offset))) return id;
  for (Sym size : spec.sizes)
    if (same(size, Sym::from_int(0))) return id;
  // Through a line of memory: written by the view that the layout is, and read back by it.
  const Op& op = WEFT_OP("as_strided");
  const Attrs attrs = {SymList(spec.sizes), SymList(strides), Sym::from_int(0)};
  const SymList line = {span_of(spec.sizes, strides, Sym::from_int(0))};
  const Tensor memory = scatter_through_view(op, attrs, line, wrap(id), Tensor(), where);
  return value_of(call(op, {memory}, attrs, where));
}

ValueId Tracer::apply_view(const Op& op, const Attrs& attrs, ValueId from, const FakeStorage& storage,
                           SourceLocation where) {
  if (op.views_storage) from = in_layout(from, storage.spec, where);
  const auto apply = [&](ValueId id) {
    const Value value = graph_[id];
    Layout<Sym> layout = op.view(layout_of(value), attrs, value.dtype);
    Node node;
    node.op = &op;
    node.operands = {Argument::of(id)};
    node.attrs = attrs;
    node.where = where;
    node.grad_mode = is_recorded_with_grad();
    for (const CompositeScope* scope = CompositeScope::current(); scope != nullptr; scope = scope->outer())
      node.composite = &scope->op();
    const DType dtype = op.view_dtype != nullptr ? op.view_dtype(attrs, value.dtype) : value.dtype;
    const OutputSpec spec{layout.sizes, dtype, value.device, layout.strides, layout.offset};
    return graph_.add_node(std::move(node), {&spec, 1});
  };
  try {
    return apply(from);
  } catch (const Error&) {
    // The view fits eager's layout, not that of this value: over a row-major copy it does.
    return apply(value_of(clone(wrap(from), where)));
  }
}

ValueId Tracer::value_of(const Tensor& fake) {
  FakeSlot& slot = FakeSlot::of(fake);
  FakeStorage& storage = *slot.storage;
  if (slot.version == storage.version) return slot.value;
  SmallVector<const FakeView*, 8> chain;
  for (const FakeView* view = slot.chain.get(); view != nullptr; view = view->before.get())
    chain.push_back(view);
  ValueId value = storage.base;
  for (size_t i = chain.size(); i-- > 0;)
    value = apply_view(*chain[i]->op, chain[i]->attrs, value, storage, fake->made_at);
  slot.value = value;
  slot.version = storage.version;
  return value;
}

ValueId Tracer::output_of(const Tensor& fake) {
  shapes_.settle(fake->layout);
  OutputSpec spec{fake->layout.sizes, fake->dtype, fake->device, fake->layout.strides, Sym::from_int(0)};
  const ValueId value = value_of(fake);
  settle_value(value);
  if (has_strides(graph_[value], *spec.strides)) return value;
  return in_layout(value, spec, fake->made_at);
}

// What a view's operand becomes when its result becomes `value`.
Tensor Tracer::undo_view(const FakeView& view, ValueId before, const Tensor& value,
                         const FakeStorage& storage, SourceLocation where) {
  const Op& op = *view.op;
  if (op.views_storage) {
    // Places in memory: the operand is spread out as eager has it, written to, and read back.
    const Sizes strides = strides_of(storage.spec);
    const Sym offset = storage.spec.offset;
    const Attrs own = {SymList(storage.spec.sizes), SymList(strides), offset};
    const bool is_line =
        same(offset, Sym::from_int(0)) && same(strides, contiguous_strides<Sym>(storage.spec.sizes));
    if (is_line)
      return scatter_through_view(op, view.attrs, SymList(storage.spec.sizes), value, wrap(before), where);
    const Sym own_span = span_of(storage.spec.sizes, strides, offset);
    const Sym span = span_of(view.attrs[0].as_sizes(), view.attrs[1].as_sizes(), view.attrs[2].as_int());
    const SymList line = {span < own_span ? own_span : span};
    const Tensor memory = scatter_through_view(op, own, line, wrap(before), Tensor(), where);
    return call(op, {scatter_through_view(op, view.attrs, line, value, memory, where)}, own, where);
  }
  if (op.scatter != nullptr)
    return scatter_through_view(op, view.attrs, SymList(view.from.sizes), value, wrap(before), where);
  if (op.view_dtype != nullptr) return call(op, {contiguous(value, where)}, {Attr(view.from.dtype)}, where);
  WEFT_ASSERT(!op.grads.empty() && op.grads[0].body, op.name(), ": a view without inverse");
  const GradCall inverse{{&value, 1}, {}, {}, {}, {&view.from, 1}, view.attrs, where};
  return op.grads[0].body(inverse, 0);
}

void Tracer::write_through(FakeSlot& slot, Tensor value, SourceLocation where) {
  const Intrusive<FakeStorage> storage = slot.storage;
  SmallVector<const FakeView*, 8> chain;  // the last view first
  for (const FakeView* view = slot.chain.get(); view != nullptr; view = view->before.get())
    chain.push_back(view);
  std::vector<ValueId> before(chain.size());  // what each view is applied to
  ValueId at = storage->base;
  for (size_t i = chain.size(); i-- > 0;) {
    before[i] = at;
    if (i > 0) at = apply_view(*chain[i]->op, chain[i]->attrs, at, *storage, where);
  }
  const ValueId own = value_of(value);
  for (size_t i = 0; i < chain.size(); ++i) value = undo_view(*chain[i], before[i], value, *storage, where);
  storage->base = value_of(value);
  ++storage->version;
  storage->is_written = true;
  storage->written_at = where;
  slot.value = chain.empty() ? storage->base : own;
  slot.version = storage->version;
}

// Of nothing, nothing is written; an expanded view of no elements could not be undone either.
void Tracer::write_nothing(FakeSlot& slot, const Tensor& value, SourceLocation where) {
  FakeStorage& storage = *slot.storage;
  ++storage.version;
  storage.is_written = true;
  storage.written_at = where;
  slot.value = value_of(value);
  slot.version = storage.version;
}

void Tracer::mutate(const Call& call, const Tensor& self) {
  Attrs attrs;
  const size_t num_taken = root().plain_numbers_.size();
  settle(call, attrs);
  root().plain_numbers_.resize(num_taken);  // the base op takes them again
  root().number_uses_.resize(num_taken);
  WEFT_CHECK(!may_self_overlap(hinted(self->layout)), call.name(), ": the tensor of sizes ", self.sizes(),
             " and strides ", self.strides(),
             " has several elements at one place (an expanded view); write into a clone() instead");
  FakeSlot& slot = FakeSlot::of(self);
  FakeStorage& storage = *slot.storage;
  check_may_write(call, storage);
  if (storage.input != kNoInput) {
    const PathInput& input = inputs_[storage.input];
    if (input.real.defined() && input.real->storage &&
        inputs_of_storage_[input.real->storage.get()].size() > 1 &&
        input.source.kind != InputSource::Kind::Line && !wants_line(input.real) &&
        overlaps_another(storage.input))
      throw RestartTrace{input.real->storage};
  }
  std::deque<Tensor> own;
  SmallVector<Operand, 6> operands(call.operands.begin(), call.operands.end());
  for (Operand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    own.push_back(wrap(value_of(*operand.tensor)));
    operand.tensor = &own.back();
  }
  const CompositeScope scope(call.op, call.where);  // errors name the op in place, as eager ones do
  if (call.op.cpu_in_place == run_pointwise_in_place) check_fits_in_place(call, self);
  Tensor value = weft::call(*call.op.base, {operands.data(), operands.size()}, call.attrs, call.where);
  WEFT_CHECK(category_of(value->dtype) <= category_of(self->dtype), call.name(), ": the result is ",
             value->dtype, ", which does not fit into the ", self->dtype,
             " tensor it is written to; convert the tensor or use ", call.op.base->name(), "()");
  WEFT_CHECK(value.sizes() == self.sizes(), call.name(), ": the result of sizes ", value.sizes(),
             " does not fit into the tensor of sizes ", self.sizes(), " that it is written to");
  if (value->dtype != self->dtype) value = value.to(self->dtype, false, false, call.where);
  const bool is_empty = std::any_of(self->layout.sizes.begin(), self->layout.sizes.end(),
                                    [](Sym size) { return same(size, Sym::from_int(0)); });
  if (is_empty && slot.chain) write_nothing(slot, value, call.where);
  else write_through(slot, std::move(value), call.where);
  self->storage->bump_version(call.op, call.where);
  self->made_by = &call.op;
  self->made_at = call.where;
}

bool Tracer::overlaps_another(uint32_t input) const {
  const Tensor& real = inputs_[input].real;
  const auto& others = inputs_of_storage_.at(real->storage.get());
  return std::any_of(others.begin(), others.end(), [&](uint32_t other) {
    return other != input && !inputs_[other].real.is_same(real) && share_memory(inputs_[other].real, real);
  });
}

}  // namespace weft::compiler
