// Tracer: recording ops and breaks, and what a trace is while it lives. What mutations become is in functionalize.cpp.
// Place: the out-of-line half of tracer.h; tracer_inputs, tracer_numbers and tracer_arm have the other parts.
#include "compiler/trace/tracer.h"

#include <algorithm>

#include "autograd/checkpoint.h"
#include "autograd/tape.h"

namespace weft::compiler {

Tracer::Tracer(TraceOptions options)
    : options_(std::move(options)),
      life_(make_intrusive<TraceLife>()),
      graph_(options_.around != nullptr ? Graph(options_.around->graph_.expressions) : Graph()),
      own_shapes_(options_.around != nullptr ? nullptr
                                             : std::make_unique<ShapeEnv>(graph_.expressions->syms)),
      shapes_(options_.around != nullptr ? options_.around->shapes_ : *own_shapes_) {
  life_->trace = this;
}

Tracer::~Tracer() { life_->trace = nullptr; }

Place Tracer::here() const {
  if (const CompositeScope* scope = CompositeScope::current()) return {scope->where(), place_.op};
  return place_;
}

// ---- Ops ------------------------------------------------------------------------------------------------------------

Tensor Tracer::fake_of(const OutputSpec& spec, ValueId value) {
  auto storage = make_intrusive<FakeStorage>();
  storage->base = value;
  storage->spec = spec;
  if (!storage->spec.strides) storage->spec.strides = contiguous_strides<Sym>(spec.sizes);
  const OutputSpec own = storage->spec;
  return make_fake(life_, own, shapes_.add_product({own.sizes.data(), own.sizes.size()}),
                   Storage::wrap(nullptr, 0, spec.device, {}), std::move(storage), {}, value);
}

Tensor Tracer::wrap(ValueId value) {
  const Value& v = graph_[value];
  return fake_of({v.sizes, v.dtype, v.device, v.strides, v.offset}, value);
}

// Nothing that an op looks at stays a placeholder: neither the sizes of its operands nor its attributes.
void Tracer::settle(const Call& call, Attrs& attrs) {
  place_ = {call.where, &call.op};
  shapes_.set_place(place_);
  used_grad_mode_ = used_grad_mode_ || grad_mode_enabled();
  for (const Operand& operand : call.operands) {
    if (operand.tensor == nullptr) continue;
    TensorImpl& x = *operand.tensor->impl();
    FakeSlot& slot = FakeSlot::of(*operand.tensor);
    if (slot.input != kNoInput) used_[slot.input] = true;
    depends_on_grad_mode_ = depends_on_grad_mode_ || x.needs_grad();
    // The number of elements may be settled before the sizes are.
    const Sizes& sizes = x.layout.sizes;
    if (!x.numel.is_symbolic() &&
        std::none_of(sizes.begin(), sizes.end(), [](Sym size) { return size.is_symbolic(); }))
      continue;
    shapes_.settle(x.layout);
    x.numel = shapes_.settle(x.numel);
    settle(slot.storage->spec);
    settle_value(slot.storage->base);
    settle_value(slot.value);
  }
  attrs = call.attrs;
  for (Attr& attr : attrs) {
    const size_t num_uses = root().number_uses_.size();
    if (attr.is<Sym>()) {
      attr = Attr(shapes_.settle(attr.as<Sym>()));
    } else if (attr.is<SymList>()) {
      SymList sizes = attr.as<SymList>();
      for (Sym& size : sizes) size = shapes_.settle(size);
      attr = Attr(std::move(sizes));
    } else if (attr.is<Scalar>()) {
      attr = Attr(lifted(settle(attr.as<Scalar>())));
      if (root().number_uses_.size() > num_uses)
        root().number_uses_.back() = {kNoNode, true, static_cast<uint32_t>(&attr - attrs.data())};
    }
  }
}

void Tracer::settle(OutputSpec& spec) {
  for (Sym& size : spec.sizes) size = shapes_.settle(size);
  if (spec.strides)
    for (Sym& stride : *spec.strides) stride = shapes_.settle(stride);
  spec.offset = shapes_.settle(spec.offset);
}

void Tracer::settle_value(ValueId id) {
  Value& value = graph_.values[id];
  for (Sym& size : value.sizes) size = shapes_.settle(size);
  for (Sym& stride : value.strides) stride = shapes_.settle(stride);
  value.offset = shapes_.settle(value.offset);
}

Node Tracer::make_node(const Call& call, const Attrs& attrs) {
  Node node;
  node.op = &call.op;
  node.attrs = attrs;
  node.where = call.where;
  node.grad_mode = is_recorded_with_grad();
  if (const uint64_t checkpoint = autograd::checkpoint_being_traced(); checkpoint != 0) {
    if (checkpoints_.empty() || checkpoints_.back() != checkpoint) checkpoints_.push_back(checkpoint);
    node.checkpoint = static_cast<uint32_t>(checkpoints_.size());
  }
  for (const CompositeScope* scope = CompositeScope::current(); scope != nullptr; scope = scope->outer())
    node.composite = &scope->op();
  node.operands.reserve(call.operands.size());
  for (const Operand& operand : call.operands) {
    if (operand.tensor != nullptr) node.operands.push_back(Argument::of(value_of(*operand.tensor)));
    else if (operand.is_scalar) {
      const size_t num_uses = root().number_uses_.size();
      node.operands.push_back(Argument::of(lifted(settle(operand.scalar))));
      if (root().number_uses_.size() > num_uses)
        root().number_uses_.back().slot = static_cast<uint32_t>(node.operands.size() - 1);
    } else node.operands.push_back({});
  }
  return node;
}

namespace {

bool is_laid_out(const Value& value, const Layout<Sym>& layout) {
  const auto equal = [](Sym a, Sym b) { return statically_known(SymCompare::Eq, a, b); };
  return std::equal(value.strides.begin(), value.strides.end(), layout.strides.begin(), layout.strides.end(),
                    equal);
}

}  // namespace

void Tracer::record(const Call& call, std::span<Tensor> outputs) {
  Attrs attrs;
  const size_t first_use = number_uses_.size();
  settle(call, attrs);
  if (call.op.kind == Kind::View) return record_view(call, attrs, outputs[0]);
  if (call.op.data_dependent) return record_data_dependent(call, attrs, outputs);
  Node node = make_node(call, attrs);
  // Rules see the operands as eager lays them out; the graph has its own where a write was made functional.
  bool same_layout = true;
  SmallVector<Operand, 6> operands(call.operands.begin(), call.operands.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!node.operands[i].is_value()) operands[i].scalar = node.operands[i].number;
    else
      same_layout = same_layout && is_laid_out(graph_[node.operands[i].value], (*operands[i].tensor)->layout);
  }
  const Call settled{call.op, {operands.data(), operands.size()}, attrs, call.where};
  WEFT_CHECK(call.op.infer != nullptr, call.name(), ": has no rule for the sizes of its result");
  const OutputSpecs specs = call.op.infer(settled);
  WEFT_ASSERT(specs.size() == outputs.size(), call.name());
  ValueId value;
  if (same_layout) {
    value = graph_.add_node(std::move(node), {specs.data(), specs.size()});
  } else {
    std::deque<Tensor> own;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!node.operands[i].is_value()) continue;
      own.push_back(wrap(node.operands[i].value));
      operands[i].tensor = &own.back();
    }
    const OutputSpecs real =
        call.op.infer(Call{call.op, {operands.data(), operands.size()}, attrs, call.where});
    value = graph_.add_node(std::move(node), {real.data(), real.size()});
  }
  for (size_t use = first_use; use < number_uses_.size(); ++use)
    if (number_uses_[use].node == kNoNode) number_uses_[use].node = graph_[value].node;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = fake_of(specs[i], value + static_cast<ValueId>(i));
    outputs[i]->made_by = &call.op;
    outputs[i]->made_at = call.where;
  }
}

void Tracer::record_view(const Call& call, const Attrs& attrs, Tensor& output) {
  const Tensor& x = call.tensor(0);
  FakeSlot& slot = FakeSlot::of(x);
  FakeStorage& storage = *slot.storage;
  if (call.op.views_storage && storage.input != kNoInput &&
      inputs_[storage.input].source.kind != InputSource::Kind::Line &&
      inputs_[storage.input].real.defined() && !is_whole_storage(storage.input))
    throw RestartTrace{inputs_[storage.input].real->storage};
  if (call.op.views_storage && storage.input != kNoInput) {
    refuse_in_arm("the memory of a tensor from outside is viewed by its strides", call.where);
    inputs_[storage.input].has_place = true;
  }
  Layout<Sym> layout = call.op.view(x->layout, attrs, x->dtype);
  const DType dtype = call.op.view_dtype != nullptr ? call.op.view_dtype(attrs, x->dtype) : x->dtype;
  auto link = make_intrusive<FakeView>();
  link->op = &call.op;
  link->attrs = attrs;
  if (call.op.views_storage) {
    // Whatever led to x, the view starts from the memory.
    if (link->attrs.back().is_none()) link->attrs.back() = Attr(x->layout.offset);
    link->from = storage.spec;
    if (storage.spec.dtype != x->dtype) {
      link->from = spec_of(x);
      link->before = slot.chain;
    }
  } else {
    link->from = spec_of(x);
    link->before = slot.chain;
  }
  const ValueId from = link->before || !call.op.views_storage ? value_of(x) : storage.base;
  const ValueId value = apply_view(call.op, link->attrs, from, storage, call.where);
  output = make_fake(life_, {layout.sizes, dtype, x->device, layout.strides, layout.offset},
                     shapes_.add_product({layout.sizes.data(), layout.sizes.size()}), x->storage,
                     slot.storage, std::move(link), value);
  output->made_by = &call.op;
  output->made_at = call.where;
}

// Sizes that depend on values are known after the op has run: it stands between two segments.
void Tracer::record_data_dependent(const Call& call, const Attrs& attrs, std::span<Tensor> outputs) {
  Break stop;
  stop.kind = Break::Kind::Result;
  refuse_in_arm("the sizes of a result depend on values", call.where);
  stop.node = make_node(call, attrs);
  stop.node.num_outputs = static_cast<uint32_t>(outputs.size());
  const uint32_t index = static_cast<uint32_t>(breaks_.size());
  breaks_.push_back(std::move(stop));
  std::vector<Tensor> results(outputs.size());
  decide(index, results);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& real = results[i];
    // A result is as large as its data say: its sizes are symbols from the start.
    const uint32_t leaf = static_cast<uint32_t>(inputs_.size());
    Layout<Sym> layout = real->layout;
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      layout.sizes[d] = shapes_.add({SymbolSource::Kind::Result, leaf, static_cast<uint32_t>(d)},
                                    int_sizes(real)[d], DimPolicy{DimPolicy::Kind::Dynamic, {}});
    if (real->is_contiguous) layout.strides = contiguous_strides<Sym>(layout.sizes);
    const uint32_t input = add_input({InputSource::Kind::Result, index}, real, layout, call.op.name());
    used_[input] = true;
    breaks_[index].results.push_back(input);
    outputs[i] = inputs_[input].fake;
    // The tape makes it a result of its op, so that it must be a tensor of its own.
    outputs[i]->made_by = &call.op;
    outputs[i]->made_at = call.where;
  }
}

// ---- Effects --------------------------------------------------------------------------------------------------------

RoutinePtr Tracer::host_function(HostCallback callback, SourceLocation where) {
  if (options_.around != nullptr) return options_.around->host_function(std::move(callback), where);
  const uint32_t ordinal = host_calls_[{where.file_name(), where.line()}]++;
  HostFunctions nowhere;
  uint64_t path = breaks_.size();
  for (const Break& stop : breaks_) path = (path ^ stop.outcome) * 0x9E3779B97F4A7C15u;
  return (options_.host != nullptr ? options_.host : &nowhere)
      ->keep(where, ordinal, path, std::move(callback));
}

// ---- Breaks ---------------------------------------------------------------------------------------------------------

std::vector<ValueId> Tracer::live_values() {
  std::vector<ValueId> live;
  // Reading may emit views, which make no new fakes that stay.
  std::vector<FakeSlot*> slots;
  for (FakeSlot* slot = life_->first; slot != nullptr; slot = slot->next()) slots.push_back(slot);
  for (FakeSlot* slot : slots) {
    live.push_back(slot->storage->base);
    if (slot->version == slot->storage->version) live.push_back(slot->value);
  }
  live.insert(live.end(), graph_.items.begin(), graph_.items.end());
  std::sort(live.begin(), live.end());
  live.erase(std::unique(live.begin(), live.end()), live.end());
  std::erase_if(live, [&](ValueId value) { return value == kNoValue || graph_[value].node == kNoNode; });
  return live;
}

uint64_t Tracer::decide(Break stop) {
  breaks_.push_back(std::move(stop));
  std::vector<Tensor> none;
  return decide(breaks_.size() - 1, none);
}

uint64_t Tracer::decide(size_t index, std::vector<Tensor>& results) {
  {
    Break& stop = breaks_[index];
    stop.place = here();
    refuse_in_arm("the value of a tensor is needed", stop.place.where);
    WEFT_CHECK(
        !options_.fullgraph, "compile: the function needs the value of a tensor at ",
        weft::to_string(stop.place.where), stop.place.op != nullptr ? ", made by " : "",
        stop.place.op != nullptr ? stop.place.op->name() : "",
        ", so it cannot become one graph, which fullgraph asks for; use where(), cond() or while_loop()");
    WEFT_CHECK(options_.breaks != nullptr, "compile: a value is needed where none can be computed");
    stop.live = live_values();
    stop.end = static_cast<NodeId>(graph_.nodes.size());
    stop.counters = counters_;
  }
  counters_ = Sym::from_int(0);
  stream_.reset();
  uint64_t outcome;
  {
    const TracePause pause;
    outcome = options_.breaks->decide(index, results);
  }
  breaks_[index].outcome = outcome;
  return outcome;
}

void Tracer::drop_fakes() {
  for (PathInput& input : inputs_) {
    input.fake.reset();
    input.entry = {};
  }
}

const TensorImpl* Tracer::find_escaped() const {
  return life_->first == nullptr ? nullptr : &life_->first->owner();
}

// ---- Scopes ---------------------------------------------------------------------------------------------------------

Tracer& current_tracer() {
  auto* tracer = dynamic_cast<Tracer*>(current_trace());
  WEFT_ASSERT(tracer != nullptr, "this thread traces with something else than a Tracer");
  return *tracer;
}

TraceScope::TraceScope()
    : trace_(std::exchange(current_trace(), nullptr)),
      sym_(std::exchange(current_sym_environment(), nullptr)),
      scalar_(std::exchange(current_scalar_environment(), nullptr)),
      cell_(std::exchange(current_cell_environment(), nullptr)) {}

TraceScope::TraceScope(Tracer& tracer) : TraceScope() {
  current_trace() = &tracer;
  current_sym_environment() = &tracer.shapes();
  current_scalar_environment() = &tracer;
  current_cell_environment() = &tracer;
}

TraceScope::~TraceScope() {
  current_trace() = trace_;
  current_sym_environment() = sym_;
  current_scalar_environment() = scalar_;
  current_cell_environment() = cell_;
}

}  // namespace weft::compiler
