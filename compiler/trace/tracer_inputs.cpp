// What a trace reads: tensors of the caller lifted into it, their memory and their gradients.
// Place: the part of Tracer that stands between real tensors and fakes.
#include <algorithm>

#include "autograd/tape.h"
#include "compiler/trace/tracer.h"

namespace weft::compiler {

bool Tracer::wants_line(const Tensor& real) const {
  return std::any_of(options_.lines.begin(), options_.lines.end(),
                     [&](const Intrusive<Storage>& storage) { return storage == real->storage; });
}

// The input that holds the whole storage of a tensor.
uint32_t Tracer::line_of(const Tensor& real, uint32_t input) {
  const auto known = lines_.find(real->storage.get());
  if (known != lines_.end()) {
    if (inputs_[known->second].fake->dtype != real->dtype)
      throw CannotCapture{weft::detail::concat("tensors of ", inputs_[known->second].fake->dtype, " and ",
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
    // Places in the graph count from the first element: where that lies in its storage differs between calls. An op that
    // counts from the start of the storage is given the whole storage.
    OutputSpec from_first = spec;
    from_first.offset = Sym::from_int(0);
    input.value = graph_.add_input(from_first, name);
    input_of_value_.emplace(input.value, index);
    input.fake = fake_of(spec, input.value);
    FakeSlot::of(input.fake).storage->input = index;
  }
  PathInput& input = inputs_[index];
  FakeSlot::of(input.fake).input = index;
  input.source = source;
  input.real = real;
  input.name = std::move(name);
  // A gradient that the function does not read may be added to meanwhile, by a backward in another thread.
  if (source.kind != InputSource::Kind::Grad) {
    input.fake->made_by = real->made_by;
    input.fake->made_at = real->made_at;
  }
  input_of_tensor_.emplace(real.impl(), index);
  if (real->storage && source.kind != InputSource::Kind::Constant)
    inputs_of_storage_[real->storage.get()].push_back(index);
  input.requires_grad = real->needs_grad();
  if (input.requires_grad) follow_gradient(input);
  if (is_floating(real->dtype) && source.kind != InputSource::Kind::Constant &&
      source.kind != InputSource::Kind::Grad)
    lift_gradient(index);
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

// The gradient of a leaf as the function finds it. Its input is there also while there is no gradient or none is required, so
// that a path does not look different then; a graph has it only if something reads it.
void Tracer::lift_gradient(uint32_t input) {
  Tensor gradient;
  if (inputs_[input].requires_grad) {
    const TracePause pause;
    if (autograd::is_leaf(inputs_[input].real)) gradient = inputs_[input].real.grad();
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
    if (gradient.defined()) second_routes_.push_back({input_of_tensor_.at(gradient.impl()), source});
  }
  if (!gradient.defined()) return;
  inputs_[input].has_grad = true;
  const bool is_new = !input_of_tensor_.contains(gradient.impl());
  if (is_new) add_input(source, gradient, layout_of_gradient(input, gradient), name);
  const Tensor& fake = inputs_[input_of_tensor_.at(gradient.impl())].fake;
  autograd::GradCell& cell = autograd::grad_cell(inputs_[input].fake);
  cell.grad = fake;
  cell.is_touched = false;
}

// Like a leaf of the arguments, with sizes as free as those of its tensor.
Layout<Sym> Tracer::layout_of_gradient(uint32_t input, const Tensor& gradient) {
  const uint32_t leaf = options_.num_leaves + static_cast<uint32_t>(gradients_.size());
  gradients_.push_back(static_cast<uint32_t>(inputs_.size()));
  const Tensor& owner = inputs_[input].real;
  const size_t rank = static_cast<size_t>(gradient.dim());
  std::vector<DimPolicy> policies;
  if (gradient.sizes() == owner.sizes())
    for (const Sym size : inputs_[input].fake->layout.sizes) policies.push_back(shapes_.policy_of(size));
  Layout<Sym> layout =
      shapes_.add_layout(leaf, {int_sizes(gradient), rank}, {int_strides(gradient), rank}, policies);
  layout.offset = gradient->layout.offset;
  return layout;
}

const Tensor& Tracer::add_argument(uint32_t leaf, const Tensor& real, Layout<Sym> layout, std::string name) {
  const InputSource source = {InputSource::Kind::Argument, leaf};
  const auto known = input_of_tensor_.find(real.impl());
  if (known != input_of_tensor_.end()) {
    second_routes_.push_back({known->second, source});
    return inputs_[known->second].fake;
  }
  const uint32_t index = add_input(source, real, layout, std::move(name));
  return inputs_[index].fake;
}

Tensor Tracer::add_tangent(uint32_t index, const OutputSpec& spec) {
  const uint32_t input = static_cast<uint32_t>(inputs_.size());
  inputs_.emplace_back();
  used_.push_back(true);
  PathInput& added = inputs_[input];
  added.source = {InputSource::Kind::Tangent, index};
  added.name = weft::detail::concat("tangent", index);
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
  if (known != input_of_tensor_.end()) {
    PathInput& input = inputs_[known->second];
    const bool is_given =
        input.source.kind == InputSource::Kind::Argument || input.source.kind == InputSource::Kind::Grad;
    if (options_.around == nullptr && is_given && !std::exchange(input.is_captured, true)) {
      x->is_captured.store(true, std::memory_order_relaxed);
      second_routes_.push_back({known->second, {InputSource::Kind::Captured, 0}});
    }
    return input.fake;
  }
  if (options_.around != nullptr) return reach_out(x);
  x->is_captured.store(true, std::memory_order_relaxed);
  std::string name = weft::detail::concat("captured", inputs_.size());
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
  return lift(own, {InputSource::Kind::Constant, 0}, weft::detail::concat("constant", inputs_.size()));
}

uint32_t Tracer::input_of(ValueId value) const {
  const auto known = input_of_value_.find(value);
  return known == input_of_value_.end() ? kNoInput : known->second;
}

}  // namespace weft::compiler
