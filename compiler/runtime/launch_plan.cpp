// Preparing a schedule for its calls, and the loop that runs it.
// Place: the out-of-line half of compiler/runtime/launch_plan.h.
#include "compiler/runtime/launch_plan.h"

#include <algorithm>
#include <bit>

#include "compiler/runtime/launch_frame.h"
#include "compiler/runtime/launch_replay.h"
#include "compiler/runtime/plan.h"
#include "compiler/runtime/stats.h"
#include "compiler/trace/table_environment.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda/products.h"

namespace weft::compiler {

class LaunchPlan::FrameLease {
 public:
  explicit FrameLease(const LaunchPlan& plan)
      : plan_(plan), frame_(plan.spare_frame_.exchange(nullptr, std::memory_order_acquire)) {
    if (frame_ == nullptr) {
      const std::lock_guard lock(plan.mutex_);
      if (!plan.free_frames_.empty()) {
        frame_ = std::move(plan.free_frames_.back());
        plan.free_frames_.pop_back();
      }
    }
    if (frame_ == nullptr) frame_ = plan.make_frame();
    if (!plan.gpu_) return;
    // What another stream still does in the arena is not waited for: this run gets memory of its own.
    const cuda::Stream stream = cuda::current_stream(plan.gpu_->index);
    if (frame_->stream != stream) let_go();
    frame_->stream = stream;
  }
  ~FrameLease() {
    for (const BufferId buffer : plan_.held_) frame_->tensors[buffer].reset();
    // A large arena goes back to the allocator: other plans want memory too.
    constexpr size_t kKept = size_t{32} << 20;
    if (frame_->arena.defined() && frame_->arena.nbytes() > kKept) let_go();
    Frame* none = nullptr;
    if (plan_.spare_frame_.compare_exchange_strong(none, frame_.get(), std::memory_order_release,
                                                   std::memory_order_relaxed)) {
      static_cast<void>(frame_.release());
      return;
    }
    const std::lock_guard lock(plan_.mutex_);
    plan_.free_frames_.push_back(std::move(frame_));
  }
  Frame& operator*() { return *frame_; }

 private:
  void let_go() {
    frame_->arena.reset();
    for (Tensor& tensor : frame_->tensors) tensor.reset();
    frame_->has_sizes = false;
  }

  const LaunchPlan& plan_;
  std::unique_ptr<Frame> frame_;
};

// ---- Preparation --------------------------------------------------------------------------------------------------------

LaunchPlan::LaunchPlan(Schedule schedule, const KernelOptions& options)
    : schedule_(std::move(schedule)),
      programs_(make_programs(schedule_, options)),
      lifetimes_(lifetimes_of(schedule_)) {
  const TableEnvironment environment(*schedule_.expressions);
  for (const Buffer& buffer : schedule_.buffers) {
    buffer_sizes_.push_back(slots_of({buffer.sizes.data(), buffer.sizes.size()}));
    buffer_strides_.push_back(slots_of({buffer.strides.data(), buffer.strides.size()}));
    Sym bytes = Sym::from_int(static_cast<int64_t>(size_of(buffer.dtype)));
    for (const Sym size : buffer.sizes) bytes = bytes * size;
    buffer_bytes_.push_back(slot_of(bytes));
  }
  placed_.resize(schedule_.places.size());
  for (ValueId value = 0; value < schedule_.places.size(); ++value) {
    const std::optional<MemoryPlace>& place = schedule_.places[value];
    if (!place || place->is_whole) continue;
    placed_[value] = {slots_of({place->layout.sizes.data(), place->layout.sizes.size()}),
                      slots_of({place->layout.strides.data(), place->layout.strides.size()}),
                      slot_of(place->layout.offset)};
  }
  for (const KernelStep& kernel : schedule_.kernels) {
    Arguments arguments;
    for (size_t b = 0; b < kernel.bodies.size(); ++b) {
      const LoopBody& body = kernel.bodies[b];
      arguments.buffers.insert(arguments.buffers.end(), kernel.buffers[b].begin(), kernel.buffers[b].end());
      arguments.numbers.insert(arguments.numbers.end(), kernel.numbers[b].begin(), kernel.numbers[b].end());
      for (const NumberParam& number : body.numbers) arguments.number_dtypes.push_back(number.dtype);
      arguments.symbols.insert(arguments.symbols.end(), body.size_symbols.begin(), body.size_symbols.end());
    }
    for (const LoopBody& body : kernel.bodies)
      arguments.work.push_back(slot_of(body.batches * body.rows * body.columns));
    arguments_.push_back(std::move(arguments));
  }
  find_handles();
  for (const ExternStep& step : schedule_.externs) prepare_extern(step.node);
  if (lifetimes_.device.is_cuda()) gpu_ = lifetimes_.device;
  errors_.resize(schedule_.kernels.size());
  for (size_t k = 0; k < schedule_.kernels.size(); ++k) {
    const KernelStep& kernel = schedule_.kernels[k];
    if (kernel.device.is_cpu() || kernel.bodies[0].checks.empty()) continue;
    errors_[k] = std::make_unique<DeviceError>(kernel.device.index, [this, k](const KernelError& error) {
      throw_failed(schedule_.kernels[k].bodies[0], error);
    });
  }
  count(options.is_stand_in ? Count::Interpreted : Count::Kernel, programs_.size());
  is_static_ = std::none_of(sizes_.begin(), sizes_.end(), [](Sym a) { return a.is_symbolic(); });
  if (options.replay) replays_ = std::make_unique<Replays>(*this);
}

LaunchPlan::~LaunchPlan() { delete spare_frame_.load(std::memory_order_acquire); }

std::string LaunchPlan::replay_note() const { return replays_ != nullptr ? replays_->note() : ""; }

// Kernels read inputs by their addresses; a handle is what tensor_at gives.
void LaunchPlan::find_handles() {
  const Graph& graph = schedule_.graph;
  const size_t num_inputs = graph.inputs.size();
  std::vector<bool> is_asked_for(num_inputs);
  const auto need = [&](ValueId value) {
    const std::optional<MemoryPlace>& place = schedule_.places[value];
    if (place && place->buffer < num_inputs) is_asked_for[place->buffer] = true;
  };
  for (const ValueId output : graph.outputs) need(output);
  for (const ValueId item : graph.items)
    if (item != kNoValue) need(item);
  for (const ExternStep& step : schedule_.externs)
    for (const ValueId value : values_read_by(graph, graph.nodes[step.node])) need(value);
  for (BufferId input = 0; input < num_inputs; ++input)
    if (is_asked_for[input]) handles_.push_back(input);
  held_ = handles_;
  for (BufferId buffer = static_cast<BufferId>(num_inputs); buffer < schedule_.buffers.size(); ++buffer)
    if (!lifetimes_.in_arena[buffer]) held_.push_back(buffer);
}

uint32_t LaunchPlan::slot_of(Sym size) {
  const auto [at, is_new] = size_slots_.emplace(key_of(size), static_cast<uint32_t>(sizes_.size()));
  if (is_new) sizes_.push_back(size);
  return at->second;
}

// Consecutive slots.
LaunchPlan::Sizes LaunchPlan::slots_of(std::span<const Sym> sizes) {
  const Sizes result{static_cast<uint32_t>(sizes_.size()), static_cast<uint32_t>(sizes.size())};
  sizes_.insert(sizes_.end(), sizes.begin(), sizes.end());
  return result;
}

void LaunchPlan::prepare_extern(NodeId id) {
  const Node& node = schedule_.graph.nodes[id];
  Extern step;
  step.node = &node;
  // Everything but plain numbers is put in at the call.
  bool is_fixed = node.op->kind != Kind::View;
  for_each_number(node, [&](const Scalar& number) {
    is_fixed = is_fixed && !number.is_traced() && !number.is_symbolic();
  });
  for (const Attr& attr : node.attrs) {
    if (attr.is<Sym>()) is_fixed = is_fixed && !attr.as_int().is_symbolic();
    if (attr.is<SymList>())
      for (const Sym size : attr.as_sizes()) is_fixed = is_fixed && !size.is_symbolic();
  }
  if (!is_fixed) {
    std::vector<ValueId> outputs;
    for (uint32_t k = 0; k < node.num_outputs; ++k) outputs.push_back(node.first_output + k);
    step.runner = std::make_unique<GraphRunner>(extract(schedule_.graph, id, id + 1, outputs, step.inputs));
  }
  externs_.push_back(std::move(step));
}

std::unique_ptr<LaunchPlan::Frame> LaunchPlan::make_frame() const {
  auto frame = std::make_unique<Frame>();
  frame->sizes.resize(sizes_.size());
  frame->pointers.resize(schedule_.buffers.size());
  frame->tensors.resize(schedule_.buffers.size());
  frame->layouts.resize(schedule_.buffers.size());
  for (const Arguments& arguments : arguments_) {
    frame->arguments.emplace_back(arguments.buffers.size());
    frame->numbers.emplace_back(arguments.numbers.size());
    frame->body_sizes.emplace_back(arguments.symbols.size());
  }
  frame->threads.resize(programs_.size());
  return frame;
}

void LaunchPlan::set_sizes(Frame& frame, std::span<const int64_t> symbols) const {
  if (frame.has_sizes &&
      (is_static_ || std::equal(symbols.begin(), symbols.end(), frame.symbols.begin(), frame.symbols.end())))
    return;
  frame.has_sizes = false;
  for (size_t i = 0; i < sizes_.size(); ++i)
    frame.sizes[i] = sizes_[i].is_symbolic() ? schedule_.expressions->syms.evaluate(sizes_[i], symbols)
                                             : sizes_[i].concrete();
  // Nanoseconds that are worth another thread: starting it, and waiting for it, takes one to two microseconds where it still
  // spins.
  constexpr double kThreadWork = 6000;
  for (size_t p = 0; p < programs_.size(); ++p) {
    for (size_t i = 0; i < arguments_[p].symbols.size(); ++i)
      frame.body_sizes[p][i] = symbols[arguments_[p].symbols[i]];
    double work = 0;
    for (size_t b = 0; b < programs_[p].costs.size(); ++b)
      work += static_cast<double>(frame.sizes[arguments_[p].work[b]]) * programs_[p].costs[b];
    constexpr double kMostThreads = 1024;
    frame.threads[p] = static_cast<int>(std::clamp(work / kThreadWork, 1.0, kMostThreads));
  }
  frame.symbols.assign(symbols.begin(), symbols.end());
  prepare_memory(frame);
  frame.has_sizes = true;
}

void LaunchPlan::prepare_memory(Frame& frame) const {
  std::vector<size_t> bytes;
  for (const Lifetime& lifetime : lifetimes_.arena)
    bytes.push_back(static_cast<size_t>(frame.sizes[buffer_bytes_[lifetime.buffer]]));
  const MemoryPlan memory = pack(lifetimes_, bytes);
  for (Tensor& tensor : frame.tensors) tensor.reset();
  if (!frame.arena.defined() || frame.arena.nbytes() < memory.bytes)
    frame.arena =
        make_tensor({Sym::from_int(static_cast<int64_t>(memory.bytes))}, DType::UInt8, lifetimes_.device);
  char* const base = memory.bytes > 0 ? bytes_of(frame.arena) : nullptr;
  for (size_t i = 0; i < lifetimes_.arena.size(); ++i)
    frame.pointers[lifetimes_.arena[i].buffer] = base + memory.offsets[i];
  for (BufferId buffer = 0; buffer < schedule_.buffers.size(); ++buffer)
    if (has_own_memory(buffer))
      frame.layouts[buffer] = layout_in(frame, buffer_sizes_[buffer], buffer_strides_[buffer]);
}

// In memory of its own: neither the caller's, nor the arena's, nor another buffer's.
bool LaunchPlan::has_own_memory(BufferId buffer) const {
  const Buffer::Origin origin = schedule_.buffers[buffer].origin;
  return (origin == Buffer::Origin::Kernel || origin == Buffer::Origin::Extern) &&
         !lifetimes_.in_arena[buffer];
}

// ---- A run --------------------------------------------------------------------------------------------------------------

Layout<Sym> LaunchPlan::layout_in(const Frame& frame, const Sizes& sizes, const Sizes& strides) const {
  Layout<Sym> layout;
  for (uint32_t d = 0; d < sizes.rank; ++d) {
    layout.sizes.push_back(Sym::from_int(frame.sizes[sizes.first + d]));
    layout.strides.push_back(Sym::from_int(frame.sizes[strides.first + d]));
  }
  layout.offset = Sym::from_int(0);
  return layout;
}

// A handle to a buffer; those of the arena get one that shares it when an extern op asks first.
const Tensor& LaunchPlan::tensor_of(Frame& frame, BufferId buffer) const {
  Tensor& tensor = frame.tensors[buffer];
  if (tensor.defined()) return tensor;
  WEFT_ASSERT(buffer >= schedule_.graph.inputs.size(), "input ", buffer, " is asked for, but has no handle");
  const Buffer& b = schedule_.buffers[buffer];
  if (lifetimes_.in_arena[buffer]) {
    Layout<Sym> layout = layout_in(frame, buffer_sizes_[buffer], buffer_strides_[buffer]);
    const int64_t begin = static_cast<char*>(frame.pointers[buffer]) - bytes_of(frame.arena);
    layout.offset = Sym::from_int(begin / static_cast<int64_t>(size_of(b.dtype)));
    tensor = make_view(frame.arena, std::move(layout), b.dtype);
  } else {
    WEFT_ASSERT(has_own_memory(buffer), "buffer ", buffer, ", a view, is asked for before it is made");
    const auto bytes = static_cast<size_t>(frame.sizes[buffer_bytes_[buffer]]);
    tensor = Tensor(make_intrusive<TensorImpl>(Storage::allocate(bytes, b.device), frame.layouts[buffer],
                                               b.dtype, b.device));
    frame.pointers[buffer] = tensor->storage->data();
  }
  return tensor;
}

// Of a buffer; memory outside of the arena is made when it is first asked for.
void* LaunchPlan::address_of(Frame& frame, BufferId buffer) const {
  if (buffer >= schedule_.graph.inputs.size() && !lifetimes_.in_arena[buffer]) tensor_of(frame, buffer);
  return frame.pointers[buffer];
}

Tensor LaunchPlan::tensor_at(Frame& frame, ValueId value) const {
  const MemoryPlace& place = *schedule_.places[value];
  const Tensor& whole = tensor_of(frame, place.buffer);
  if (place.is_whole) return whole;
  Layout<Sym> layout = layout_in(frame, placed_[value].sizes, placed_[value].strides);
  layout.offset = whole->layout.offset + frame.sizes[placed_[value].offset];
  return make_view(whole, std::move(layout), schedule_.graph[value].dtype);
}

Scalar LaunchPlan::item(Frame& frame, uint32_t index) const {
  return tensor_at(frame, schedule_.graph.items[index]).item();
}

namespace {

uint64_t bits_of(const Scalar& number, DType dtype) {
  switch (dtype) {
    case DType::Float32: return std::bit_cast<uint32_t>(static_cast<float>(number.to_double()));
    case DType::Float64: return std::bit_cast<uint64_t>(number.to_double());
    case DType::Int32: return static_cast<uint32_t>(number.to_int());
    default: return static_cast<uint64_t>(number.to_int());
  }
}

}  // namespace

// Number `i` of a kernel, in its slot.
uint64_t LaunchPlan::number_bits(Frame& frame, uint32_t kernel, uint32_t i, const RunValues& values) const {
  const Arguments& given = arguments_[kernel];
  const Scalar value = evaluate(*schedule_.expressions, given.numbers[i], values,
                                [&](uint32_t index) { return item(frame, index); });
  return bits_of(value, given.number_dtypes[i]);
}

void LaunchPlan::run_kernel(Frame& frame, uint32_t index, const RunValues& values,
                            KernelTraffic* traffic) const {
  const Arguments& given = arguments_[index];
  std::vector<void*>& arguments = frame.arguments[index];
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i] = address_of(frame, given.buffers[i]);
  std::vector<uint64_t>& numbers = frame.numbers[index];
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = number_bits(frame, index, i, values);
  const KernelStep& kernel = schedule_.kernels[index];
  if (kernel.device.is_cuda()) {
    const cuda::DeviceGuard guard(kernel.device.index);
    programs_[index].cuda->run(arguments.data(), numbers.data(), frame.body_sizes[index].data(),
                               errors_[index] != nullptr ? errors_[index]->for_launch() : nullptr,
                               cuda::current_stream(kernel.device.index));
    return;
  }
  KernelError error;
  if (traffic != nullptr) [[unlikely]]
    traffic->push_back(weft::compiler::count_traffic(programs_[index], kernel, arguments.data(),
                                                     numbers.data(), frame.body_sizes[index].data(), &error));
  else
    run_program(programs_[index], kernel, arguments.data(), numbers.data(), frame.body_sizes[index].data(),
                &error, std::min(frame.threads[index], num_threads()));
  if (error.check != 0) [[unlikely]]
    throw_failed(kernel.bodies[0], error);
}

void LaunchPlan::throw_failed(const LoopBody& body, const KernelError& error) const {
  const Check& check = body.checks[static_cast<size_t>(error.check - 1)];
  KernelFailed failed(check.is_of_divisor
                          ? check.op + ": the divisor holds 0; integers divided by zero have no value"
                          : weft::detail::concat(check.op, ": index ", error.value,
                                                 " is out of range for a dimension of size ", error.size));
  failed.add_place(check.where);
  throw failed;
}

LaunchPlan::ExternOperands::ExternOperands(const LaunchPlan& plan, Frame& frame, const Node& node) {
  tensors_.reserve(node.operands.size());
  for (const Argument& argument : node.operands) {
    if (argument.is_value()) {
      tensors_.push_back(plan.tensor_at(frame, argument.value));
      operands_.emplace_back(tensors_.back());
    } else if (argument.kind == Argument::Kind::Number) {
      operands_.emplace_back(argument.number);
    } else {
      operands_.emplace_back();
    }
  }
}

void LaunchPlan::run_extern(Frame& frame, const Extern& step, const RunValues& values) const {
  const Node& node = *step.node;
  SmallVector<Tensor, 4> results(node.num_outputs);
  const std::span<Tensor> out(results.data(), results.size());
  if (step.runner != nullptr) {
    std::vector<Tensor> inputs;
    std::vector<const Tensor*> pointers;
    for (const ValueId value : step.inputs) inputs.push_back(tensor_at(frame, value));
    for (const Tensor& input : inputs) pointers.push_back(&input);
    step.runner->run(pointers, values, out);
  } else {
    ExternOperands given(*this, frame, node);
    std::optional<CompositeScope> scope;
    if (node.composite != nullptr) scope.emplace(*node.composite, node.where);
    call_into(*node.op, given.operands(), node.attrs, node.where, out);
  }
  for (uint32_t k = 0; k < node.num_outputs; ++k) {
    const BufferId buffer = schedule_.places[node.first_output + k]->buffer;
    frame.tensors[buffer] = std::move(results[k]);
    frame.pointers[buffer] = bytes_of(frame.tensors[buffer]);
  }
}

void LaunchPlan::run(std::span<const Tensor* const> inputs, const RunValues& values,
                     std::span<Tensor> outputs, bool into_given) const {
  run(inputs, values, outputs, into_given, nullptr);
}

std::vector<std::vector<BufferTraffic>> LaunchPlan::count_traffic(std::span<const Tensor* const> inputs,
                                                                  const RunValues& values,
                                                                  std::span<Tensor> outputs) const {
  KernelTraffic traffic;
  run(inputs, values, outputs, false, &traffic);
  return traffic;
}

// Inputs are the first buffers.
void LaunchPlan::bind(Frame& frame, std::span<const Tensor* const> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) frame.pointers[i] = bytes_of(*inputs[i]);
  for (const BufferId input : handles_) frame.tensors[input] = *inputs[input];
  for (const auto& [buffer, input] : schedule_.stored_over) {
    frame.tensors[buffer] = *inputs[input];
    frame.pointers[buffer] = frame.pointers[input];
  }
}

void LaunchPlan::run(std::span<const Tensor* const> inputs, const RunValues& values,
                     std::span<Tensor> outputs, bool into_given, KernelTraffic* traffic) const {
  WEFT_ASSERT(
      inputs.size() == schedule_.graph.inputs.size() && outputs.size() == schedule_.graph.outputs.size(),
      "a plan of ", schedule_.graph.inputs.size(), " inputs and ", schedule_.graph.outputs.size(),
      " outputs is given ", inputs.size(), " and ", outputs.size());
  const AutoGradMode off(false);
  const cuda::TimedProductsScope timed;
  if (replays_ != nullptr && replays_->run(inputs, values, outputs)) return;
  FrameLease lease(*this);
  Frame& frame = *lease;
  set_sizes(frame, values.symbols);
  bind(frame, inputs);
  for (size_t i = 0; into_given && i < outputs.size(); ++i) {
    const MemoryPlace& place = *schedule_.places[schedule_.graph.outputs[i]];
    WEFT_ASSERT(place.is_whole && schedule_.buffers[place.buffer].origin == Buffer::Origin::Kernel, "output ",
                i, " is not made by a kernel");
    frame.tensors[place.buffer] = outputs[i];
    frame.pointers[place.buffer] = bytes_of(outputs[i]);
  }
  for (const Step& step : schedule_.steps) {
    if (step.kind == Step::Kind::Kernel) run_kernel(frame, step.index, values, traffic);
    else run_extern(frame, externs_[step.index], values);
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = tensor_at(frame, schedule_.graph.outputs[i]);
}

}  // namespace weft::compiler
