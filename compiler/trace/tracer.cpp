// Tracer: lifting real tensors, recording ops, numbers and breaks. What mutations become is in functionalize.cpp.
#include "compiler/trace/tracer.h"

#include <algorithm>
#include <bit>

#include "autograd/tape.h"
#include "tensor/ops/check.h"

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

// ---- Inputs ---------------------------------------------------------------------------------------------------------

bool Tracer::wants_line(const Tensor& real) const {
  return std::any_of(options_.lines.begin(), options_.lines.end(),
                     [&](const Intrusive<Storage>& storage) { return storage == real->storage; });
}

// The input that holds the whole storage of a tensor.
uint32_t Tracer::line_of(const Tensor& real, uint32_t input) {
  const auto known = lines_.find(real->storage.get());
  if (known != lines_.end()) {
    if (inputs_[known->second].fake->dtype != real->dtype)
      throw CannotCapture{detail::concat("tensors of ", inputs_[known->second].fake->dtype, " and ",
                                         real->dtype, " share memory that the function writes"),
                          here().where};
    return known->second;
  }
  const Sym length = Sym::from_int(static_cast<int64_t>(real->storage->bytes() / size_of(real->dtype)));
  const uint32_t line = static_cast<uint32_t>(inputs_.size());
  lines_.emplace(real->storage.get(), line);
  inputs_.emplace_back();
  used_.push_back(true);
  PathInput& added = inputs_[line];
  added.source = {InputSource::Kind::Line, input};
  added.name = "memory";
  const OutputSpec spec{{length}, real->dtype, real->device, Sizes{Sym::from_int(1)}};
  added.value = graph_.add_input(spec, added.name);
  input_of_value_.emplace(added.value, line);
  added.fake = fake_of(spec, added.value);
  FakeSlot::of(added.fake).storage->input = line;
  return line;
}

uint32_t Tracer::add_input(InputSource source, const Tensor& real, const Layout<Sym>& layout,
                           std::string name) {
  OutputSpec spec{layout.sizes, real->dtype, real->device, layout.strides, layout.offset};
  const uint32_t index = static_cast<uint32_t>(inputs_.size());
  inputs_.emplace_back();
  used_.push_back(false);
  if (wants_line(real)) {
    settle(spec);  // where it lies in the line is fixed
    if (real->needs_grad())
      throw CannotCapture{"tensors that share memory are written by the function while they require grad",
                          here().where};
    const uint32_t line = line_of(real, index);
    auto view = make_intrusive<FakeView>();
    view->op = &WEFT_OP("as_strided");
    view->attrs = {SymList(spec.sizes), SymList(*spec.strides), spec.offset};
    FakeSlot& memory = FakeSlot::of(inputs_[line].fake);
    view->from = memory.storage->spec;
    PathInput& input = inputs_[index];
    input.value = apply_view(*view->op, view->attrs, memory.storage->base, *memory.storage, here().where);
    input.fake = make_fake(life_, spec, shapes_.add_product({spec.sizes.data(), spec.sizes.size()}),
                           inputs_[line].fake->storage, memory.storage, view, input.value);
  } else {
    PathInput& input = inputs_[index];
    input.value = graph_.add_input(spec, name);
    input_of_value_.emplace(input.value, index);
    input.fake = fake_of(spec, input.value);
    FakeSlot::of(input.fake).storage->input = index;
  }
  PathInput& input = inputs_[index];
  FakeSlot::of(input.fake).input = index;
  input.source = source;
  input.real = real;
  input.name = std::move(name);
  input.fake->made_by = real->made_by;
  input.fake->made_at = real->made_at;
  input_of_tensor_.emplace(real.impl(), index);
  if (real->storage && source.kind != InputSource::Kind::Constant)
    inputs_of_storage_[real->storage.get()].push_back(index);
  input.requires_grad = real->needs_grad();
  if (input.requires_grad) follow_gradient(input);
  if (real->needs_grad()) lift_gradient(index);
  return index;
}

namespace {

// Where the gradient of a tensor arrives whose history lies outside of the trace.
class EntryNode final : public autograd::Node {
 public:
  EntryNode(const Tensor& x, std::string input) : input_(std::move(input)) {
    results.push_back(autograd::Meta(x));
  }
  const char* name() const override { return "argument"; }
  void apply(autograd::Step&) override {
    WEFT_CHECK(false, "backward: ", input_,
               " has a history outside of the compiled function, where a backward inside ",
               "cannot go; call backward() outside, or take autograd::grad with respect to ", input_);
  }

 private:
  std::string input_;
};

}  // namespace

// The stand-in requires grad as the real tensor does; one with a history is no leaf, so that in-place ops may write to it.
void Tracer::follow_gradient(PathInput& input) {
  bool is_leaf;
  {
    const TracePause pause;
    is_leaf = autograd::is_leaf(input.real);
  }
  if (is_leaf) {
    input.fake.requires_grad_();
    // A backward inside the function runs the hooks that were set outside; parts of gradients leave before they run.
    const autograd::Node& accumulator = *autograd::tape_of(input.real)->accumulator;
    if (accumulator.hooks != nullptr) {
      autograd::Node& own = *autograd::tape_of(input.fake)->accumulator;
      own.hooks = std::make_unique<autograd::Hooks>();
      own.hooks->entries = accumulator.hooks->entries;
    }
    input.entry = autograd::gradient_edge(input.fake);
  } else {
    enter_history(input);
  }
}

void Tracer::enter_history(PathInput& input) {
  autograd::set_producer(input.fake, make_intrusive<EntryNode>(input.fake, input.name), 0);
  input.entry = autograd::gradient_edge(input.fake);
}

// The gradient of a leaf as the function finds it. Its input is there also while there is no gradient, so that a path does not
// look different after a backward outside; a graph has it only if something reads it.
void Tracer::lift_gradient(uint32_t input) {
  Tensor gradient;
  {
    const TracePause pause;
    if (!autograd::is_leaf(inputs_[input].real)) return;
    gradient = inputs_[input].real.grad();
  }
  const InputSource source{InputSource::Kind::Grad, input};
  const std::string name = inputs_[input].name + ".grad";
  if (!gradient.defined() || input_of_tensor_.contains(gradient.impl())) {
    inputs_.emplace_back();
    used_.push_back(false);
    PathInput& absent = inputs_.back();
    absent.source = source;
    absent.name = name;
    absent.value = graph_.add_input(spec_of(inputs_[input].fake), name);
    input_of_value_.emplace(absent.value, static_cast<uint32_t>(inputs_.size() - 1));
  }
  if (!gradient.defined()) return;
  inputs_[input].has_grad = true;
  const Tensor& fake = lift(gradient, source, name);
  autograd::GradCell& cell = autograd::grad_cell(inputs_[input].fake);
  cell.grad = fake;
  cell.is_touched = false;
}

const Tensor& Tracer::add_argument(uint32_t leaf, const Tensor& real, Layout<Sym> layout, std::string name) {
  const auto known = input_of_tensor_.find(real.impl());
  if (known != input_of_tensor_.end()) return inputs_[known->second].fake;
  const uint32_t index = add_input({InputSource::Kind::Argument, leaf}, real, layout, std::move(name));
  return inputs_[index].fake;
}

Tensor Tracer::add_tangent(uint32_t index, const OutputSpec& spec) {
  const uint32_t input = static_cast<uint32_t>(inputs_.size());
  inputs_.emplace_back();
  used_.push_back(true);
  PathInput& added = inputs_[input];
  added.source = {InputSource::Kind::Tangent, index};
  added.name = detail::concat("tangent", index);
  added.value = graph_.add_input(spec, added.name);
  input_of_value_.emplace(added.value, input);
  added.fake = fake_of(spec, added.value);
  return added.fake;
}

const Tensor& Tracer::lift(const Tensor& real, InputSource source, std::string name) {
  const auto known = input_of_tensor_.find(real.impl());
  if (known != input_of_tensor_.end()) return inputs_[known->second].fake;
  const uint32_t index = add_input(source, real, real->layout, std::move(name));
  return inputs_[index].fake;
}

const Tensor& Tracer::stand_in(const Tensor& x) {
  if (x->is_fake) {
    if (x->trace != nullptr && FakeSlot::of(x).life()->trace == this) return x;
    if (options_.around == nullptr) throw_outlived_trace("compile", x);
  }
  const auto known = input_of_tensor_.find(x.impl());
  if (known != input_of_tensor_.end()) return inputs_[known->second].fake;
  if (options_.around != nullptr) return reach_out(x);
  x->is_captured.store(true, std::memory_order_relaxed);
  std::string name = detail::concat("captured", inputs_.size());
  return lift(x, {InputSource::Kind::Captured, 0}, std::move(name));
}

Tensor Tracer::constant(const Tensor& data, SourceLocation where) {
  if (options_.around != nullptr) {
    Tensor outer;
    {
      const TraceScope scope(*options_.around);
      outer = options_.around->constant(data, where);
    }
    return reach_out(outer);
  }
  Tensor own;
  {
    // The host may change or free its memory later.
    const TracePause pause;
    own = make_tensor(data->layout.sizes, data->dtype, data->device);
    copy_data(data, own);
  }
  return lift(own, {InputSource::Kind::Constant, 0}, detail::concat("constant", inputs_.size()));
}

uint32_t Tracer::input_of(ValueId value) const {
  const auto known = input_of_value_.find(value);
  return known == input_of_value_.end() ? kNoInput : known->second;
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

Scalar Tracer::settle(const Scalar& number) {
  return number.is_symbolic() ? Scalar(shapes_.settle(number.sym())) : number;
}

// In follow mode the plain numbers that differ between calls are read anew at each.
Scalar Tracer::lifted(const Scalar& number) {
  if (number.is_traced() && root().has_arm_items_) check_values_are_there(number);
  // Only where sizes cannot depend on it.
  if (place_.op == nullptr || place_.op->kind != Kind::Pointwise) return number;
  if (number.is_bool() || number.is_traced() || number.is_symbolic()) return number;
  if (options_.around != nullptr) return options_.around->lifted(number);
  const size_t ordinal = plain_numbers_.size();
  plain_numbers_.push_back(number);
  number_uses_.push_back({});
  if (options_.lifted == nullptr || ordinal >= options_.lifted->size() || !(*options_.lifted)[ordinal])
    return number;
  return lifted_input(ordinal);
}

// What is read at each call instead of the plain number.
Scalar Tracer::lifted_input(size_t ordinal) {
  const Scalar& number = plain_numbers_[ordinal];
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index =
      add_number_source({NumberSource::Kind::Lifted, static_cast<uint32_t>(ordinal), {}}, number.to_double());
  return traced(number.category(), expr);
}

bool Tracer::lift(size_t ordinal, NodeId first) {
  const NumberUse use = number_uses_[ordinal];
  if (use.node == kNoNode || use.node < first) return false;
  Node& node = graph_.nodes[use.node];
  if (use.is_attr) node.attrs[use.slot] = Attr(lifted_input(ordinal));
  else node.operands[use.slot].number = lifted_input(ordinal);
  return true;
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
    if (!x.numel.is_symbolic()) continue;
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
  node.grad_mode = grad_mode_enabled();
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
  if (call.op.views_storage && storage.input != kNoInput)
    refuse_in_arm("the memory of a tensor from outside is viewed by its strides", call.where);
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

// ---- Numbers --------------------------------------------------------------------------------------------------------

uint32_t Tracer::add_number_source(NumberSource source, double hint) {
  numbers_.push_back(std::move(source));
  number_hints_.push_back(hint);
  return static_cast<uint32_t>(numbers_.size() - 1);
}

Scalar Tracer::traced(Scalar::Category category, const ScalarExpr& given) {
  ScalarExpr expr = given;
  expr.category = category;
  return Scalar::from_trace(category, graph_.expressions->scalars.add(expr));
}

Scalar Tracer::add_number(uint32_t leaf, Scalar::Category category) {
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index = add_number_source({NumberSource::Kind::Argument, leaf, {}}, 0);
  return traced(category, expr);
}

ScalarId Tracer::scalar_id(const Scalar& number) {
  if (number.is_traced()) return number.trace_id();
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Constant;
  expr.category = number.category();
  expr.constant = settle(number);
  return graph_.expressions->scalars.add(expr);
}

Scalar Tracer::binary(ScalarOp op, const Scalar& a, const Scalar& b) {
  if (!a.is_traced() && !b.is_traced()) {
    // Sizes: they stay sizes while that is exact.
    const Scalar x = settle(a), y = settle(b);
    if (!x.is_symbolic() && !y.is_symbolic()) return detail::scalar_binary(op, x, y);
    if (x.is_integer() && y.is_integer() && op <= ScalarOp::Mul) {
      const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
      const SymOp ops[] = {SymOp::Add, SymOp::Sub, SymOp::Mul};
      return Scalar(shapes_.binary(ops[static_cast<size_t>(op)], sym(x), sym(y)));
    }
  }
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Binary;
  expr.op = op;
  expr.a = scalar_id(a);
  expr.b = scalar_id(b);
  const bool is_floating = op == ScalarOp::Div || a.is_floating() || b.is_floating();
  return traced(is_floating ? Scalar::Category::Floating : Scalar::Category::Integer, expr);
}

bool Tracer::compare(SymCompare op, const Scalar& a, const Scalar& b) {
  if (!a.is_traced() && !b.is_traced()) {
    const Scalar x = settle(a), y = settle(b);
    if (!x.is_symbolic() && !y.is_symbolic()) return detail::scalar_compare(op, x, y);
    if (x.is_integer() && y.is_integer()) {
      const auto sym = [](const Scalar& s) { return s.is_symbolic() ? s.sym() : Sym::from_int(s.to_int()); };
      return shapes_.compare(op, sym(x), sym(y));
    }
  }
  Break stop;
  stop.kind = Break::Kind::Compare;
  stop.compare = op;
  stop.a = scalar_id(a);
  stop.b = scalar_id(b);
  return decide(std::move(stop)) != 0;
}

double Tracer::read_double(const Scalar& a) {
  Break stop;
  stop.kind = Break::Kind::Double;
  stop.a = scalar_id(a);
  return std::bit_cast<double>(decide(std::move(stop)));
}

int64_t Tracer::read_int(const Scalar& a) {
  Break stop;
  stop.kind = Break::Kind::Integer;
  stop.a = scalar_id(a);
  return static_cast<int64_t>(decide(std::move(stop)));
}

Scalar Tracer::read(const Tensor& x, SourceLocation where) {
  WEFT_CHECK_AT(where, x.numel() == 1, "item: the tensor has ", x.numel(), " elements (sizes ", x.sizes(),
                "), not one; reduce or index it first");
  place_ = {where, x->made_by};
  if (FakeSlot& slot = FakeSlot::of(x); slot.input != kNoInput) used_[slot.input] = true;
  const ValueId value = value_of(x);
  const auto known = std::find(graph_.items.begin(), graph_.items.end(), value);
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Item;
  expr.index = static_cast<uint32_t>(known - graph_.items.begin());
  if (known == graph_.items.end()) {
    // Numbered throughout the path.
    expr.index = static_cast<uint32_t>(root().graph_.items.size());
    set_item(expr.index, value);
  }
  const Scalar::Category category = x->dtype == DType::Bool ? Scalar::Category::Bool
                                    : is_floating(x->dtype) ? Scalar::Category::Floating
                                                            : Scalar::Category::Integer;
  return traced(category, expr);
}

Scalar Tracer::read(const Intrusive<CellImpl>& cell) {
  if (options_.around != nullptr) return options_.around->read(cell);
  const auto known = cells_.find(cell.get());
  if (known != cells_.end()) return known->second;
  ScalarExpr expr;
  expr.kind = ScalarExpr::Kind::Input;
  expr.index = add_number_source({NumberSource::Kind::Cell, 0, cell}, cell->value);
  const Scalar number = traced(Scalar::Category::Floating, expr);
  cells_.emplace(cell.get(), number);
  return number;
}

void Tracer::write(const Intrusive<CellImpl>& cell, const Scalar& value) {
  refuse_in_arm("a number that outlives the call (a rate, a step count) is changed", place_.where);
  static_cast<void>(read(cell));  // holds the cell
  const Scalar number = settle(value);
  cells_[cell.get()] = number;
  const auto known = std::find_if(cell_writes_.begin(), cell_writes_.end(),
                                  [&](const CellWrite& write) { return write.cell == cell; });
  if (known != cell_writes_.end()) known->value = scalar_id(number);
  else cell_writes_.push_back({cell, scalar_id(number)});
}

RandomStream Tracer::draw(Sym given) {
  refuse_in_arm("random numbers are drawn, and how many were drawn must not depend on which arm runs",
                place_.where);
  const Sym counters = shapes_.settle(given);
  if (!stream_) {
    const uint32_t segment = static_cast<uint32_t>(breaks_.size());
    ScalarExpr seed, counter;
    seed.kind = counter.kind = ScalarExpr::Kind::Input;
    seed.index = add_number_source({NumberSource::Kind::Seed, segment, {}}, 0);
    counter.index = add_number_source({NumberSource::Kind::Counter, segment, {}}, 0);
    stream_ =
        RandomStream{traced(Scalar::Category::Integer, seed), traced(Scalar::Category::Integer, counter)};
  }
  const RandomStream result{stream_->seed, binary(ScalarOp::Add, stream_->offset, Scalar(counters_))};
  counters_ = counters_ + counters;
  return result;
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
