// Preparing a graph for eager kernels, and the loop that runs it.
// Place: the out-of-line half of compiler/runtime/graph_runner.h.
#include "compiler/runtime/graph_runner.h"

#include <algorithm>

#include "tensor/dispatch.h"

namespace weft::compiler {

// What one run needs of its own. Frames go back to the runner with everything in place but the tensors.
struct GraphRunner::Frame {
  std::vector<Tensor> values;
  std::vector<Operand> operands;
  std::vector<Attrs> attrs;
  std::vector<int64_t> symbols;  // for which `sizes`, and what was made of them, hold
  std::vector<int64_t> sizes;
  std::vector<Scalar> numbers;  // by step
  bool has_sizes = false;
};

class GraphRunner::FrameLease {
 public:
  explicit FrameLease(const GraphRunner& runner) : runner_(runner) {
    {
      const std::lock_guard lock(runner.mutex_);
      if (!runner.free_frames_.empty()) {
        frame_ = std::move(runner.free_frames_.back());
        runner.free_frames_.pop_back();
      }
    }
    if (frame_ == nullptr) frame_ = runner.make_frame();
  }
  ~FrameLease() {
    if (is_broken_)
      for (Tensor& value : frame_->values) value.reset();
    const std::lock_guard lock(runner_.mutex_);
    runner_.free_frames_.push_back(std::move(frame_));
  }
  Frame& operator*() { return *frame_; }
  // The run came to its end: nothing is left in the frame.
  void finish() { is_broken_ = false; }

 private:
  const GraphRunner& runner_;
  std::unique_ptr<Frame> frame_;
  bool is_broken_ = true;
};

// ---- Preparation ----------------------------------------------------------------------------------------------------

GraphRunner::GraphRunner(Graph graph) : graph_(std::move(graph)) {
  instructions_.reserve(graph_.nodes.size());
  input_of_value_.assign(graph_.values.size(), kFixed);
  for (uint32_t i = 0; i < graph_.inputs.size(); ++i) input_of_value_[graph_.inputs[i]] = i;
  // The node after which a value is let go; outputs and inputs stay to the end.
  std::vector<NodeId> last_use(graph_.values.size(), kNoNode);
  for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    for (uint32_t k = 0; k < node.num_outputs; ++k) last_use[node.first_output + k] = n;
    for (ValueId value : values_read_by(graph_, node)) last_use[value] = n;
  }
  for (ValueId value : graph_.inputs) last_use[value] = kNoNode;
  for (ValueId value : graph_.outputs) last_use[value] = kNoNode;
  for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    prepare_node(node);
    const auto release = [&](ValueId value) {
      if (last_use[value] != n) return;
      last_use[value] = kNoNode;
      releases_.push_back(value);
    };
    for (ValueId value : values_read_by(graph_, node)) release(value);
    for (uint32_t k = 0; k < node.num_outputs; ++k) release(node.first_output + k);
    instructions_.back().end_releases = static_cast<uint32_t>(releases_.size());
  }
  std::vector<bool> is_taken(graph_.values.size());
  for (ValueId value : graph_.inputs) is_taken[value] = true;
  is_moved_out_.resize(graph_.outputs.size());
  for (size_t i = graph_.outputs.size(); i-- > 0;) {
    is_moved_out_[i] = !is_taken[graph_.outputs[i]];
    is_taken[graph_.outputs[i]] = true;
  }
}

GraphRunner::~GraphRunner() = default;

uint32_t GraphRunner::size_for(Sym a) {
  const auto [at, is_new] = size_of_.emplace(a.id(), static_cast<uint32_t>(sizes_.size()));
  if (is_new) sizes_.push_back(a);
  return at->second;
}

// Expressions are made after their operands, so that ascending ids are an order in which they can be computed.
uint32_t GraphRunner::step_for(ScalarId root) {
  const ScalarTable& table = graph_.expressions->scalars;
  std::vector<ScalarId> needed = {root};
  for (size_t i = 0; i < needed.size(); ++i) {
    const ScalarExpr& expr = table[needed[i]];
    if (expr.kind != ScalarExpr::Kind::Binary) continue;
    for (ScalarId operand : {expr.a, expr.b})
      if (!step_of_.contains(operand) && std::find(needed.begin(), needed.end(), operand) == needed.end())
        needed.push_back(operand);
  }
  std::sort(needed.begin(), needed.end());
  for (ScalarId id : needed) {
    if (step_of_.contains(id)) continue;
    const ScalarExpr& expr = table[id];
    NumberStep step;
    step.kind = expr.kind;
    step.category = expr.category;
    step.op = expr.op;
    step.index = expr.index;
    step.constant = expr.constant;
    if (expr.kind == ScalarExpr::Kind::Item) step.index = graph_.items[expr.index];
    if (expr.kind == ScalarExpr::Kind::Constant && expr.constant.is_symbolic())
      step.size = size_for(expr.constant.sym());
    if (expr.kind == ScalarExpr::Kind::Binary) {
      step.a = step_of_.at(expr.a);
      step.b = step_of_.at(expr.b);
    }
    step_of_.emplace(id, static_cast<uint32_t>(steps_.size()));
    steps_.push_back(step);
  }
  return step_of_.at(root);
}

void GraphRunner::prepare_node(const Node& node) {
  Instruction instruction;
  instruction.op = node.op;
  instruction.where = node.where;
  instruction.grad_mode = node.grad_mode;
  instruction.composite = node.composite;
  instruction.first_operand = static_cast<uint32_t>(operands_.size());
  instruction.num_operands = static_cast<uint32_t>(node.operands.size());
  instruction.first_output = node.first_output;
  instruction.num_outputs = node.num_outputs;

  const auto add_number = [&](const Scalar& number, bool is_attribute, size_t place) {
    Patch patch;
    patch.is_attribute = is_attribute;
    patch.place = static_cast<uint32_t>(place);
    if (number.is_traced()) {
      patch.number = step_for(number.trace_id());
      number_patches_.push_back(patch);
    } else if (number.is_symbolic()) {
      patch.size = size_for(number.sym());
      size_patches_.push_back(patch);
    }
  };
  for (const Argument& argument : node.operands) {
    operand_values_.push_back(argument.is_value() ? argument.value : kNoValue);
    if (argument.is_value() && input_of_value_[argument.value] != kFixed)
      input_uses_.push_back({static_cast<uint32_t>(operands_.size()), input_of_value_[argument.value]});
    if (argument.kind == Argument::Kind::Number) {
      add_number(argument.number, false, operands_.size());
      operands_.emplace_back(argument.number);
    } else {
      operands_.emplace_back();
    }
  }
  const size_t before = size_patches_.size() + number_patches_.size();
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    const Attr& attr = node.attrs[i];
    if (attr.is<Scalar>()) add_number(attr.as<Scalar>(), true, i);
    if (attr.is<Sym>() && attr.as_int().is_symbolic()) add_number(Scalar(attr.as_int()), true, i);
    if (!attr.is<SymList>()) continue;
    bool any = false;
    for (Sym size : attr.as_sizes()) {
      if (!size.is_symbolic()) continue;
      any = true;
      size_for(size);
    }
    if (any) size_patches_.push_back({true, static_cast<uint32_t>(i), kFixed, kFixed});
  }
  instruction.attrs = &node.attrs;
  if (size_patches_.size() + number_patches_.size() > before) {
    instruction.attrs = nullptr;
    instruction.own_attrs = static_cast<uint32_t>(own_attrs_.size());
    own_attrs_.push_back(&node.attrs);
  }
  instruction.end_steps = static_cast<uint32_t>(steps_.size());
  instruction.end_size_patches = static_cast<uint32_t>(size_patches_.size());
  instruction.end_number_patches = static_cast<uint32_t>(number_patches_.size());
  instructions_.push_back(instruction);
}

std::unique_ptr<GraphRunner::Frame> GraphRunner::make_frame() const {
  auto frame = std::make_unique<Frame>();
  frame->values.resize(graph_.values.size());
  frame->operands = operands_;
  for (size_t i = 0; i < operands_.size(); ++i)
    if (operand_values_[i] != kNoValue) frame->operands[i].tensor = &frame->values[operand_values_[i]];
  for (const Attrs* attrs : own_attrs_) frame->attrs.push_back(*attrs);
  frame->sizes.resize(sizes_.size());
  frame->numbers.resize(steps_.size());
  return frame;
}

// ---- A run ----------------------------------------------------------------------------------------------------------

void GraphRunner::put(Frame& frame, const Instruction& instruction, const Patch& patch) const {
  const auto number = [&] {
    return patch.number != kFixed ? frame.numbers[patch.number] : Scalar(frame.sizes[patch.size]);
  };
  if (!patch.is_attribute) {
    frame.operands[patch.place].scalar = number();
    return;
  }
  const Attr& given = (*own_attrs_[instruction.own_attrs])[patch.place];
  Attr& attr = frame.attrs[instruction.own_attrs][patch.place];
  if (given.is<SymList>()) {
    SymList sizes = given.as_sizes();
    for (Sym& size : sizes)
      if (size.is_symbolic()) size = Sym::from_int(frame.sizes[size_of_.at(size.id())]);
    attr = Attr(std::move(sizes));
  } else if (given.is<Sym>()) {
    attr = Attr(frame.sizes[patch.size]);
  } else {
    attr = Attr(number());
  }
}

void GraphRunner::set_sizes(Frame& frame, std::span<const int64_t> symbols) const {
  if (frame.has_sizes &&
      std::equal(symbols.begin(), symbols.end(), frame.symbols.begin(), frame.symbols.end()))
    return;
  frame.has_sizes = false;
  for (size_t i = 0; i < sizes_.size(); ++i)
    frame.sizes[i] = graph_.expressions->syms.evaluate(sizes_[i], symbols);
  uint32_t at = 0;
  for (const Instruction& instruction : instructions_)
    for (; at < instruction.end_size_patches; ++at) put(frame, instruction, size_patches_[at]);
  frame.symbols.assign(symbols.begin(), symbols.end());
  frame.has_sizes = true;
}

namespace {

Scalar in_category(const Scalar& number, Scalar::Category category) {
  if (number.category() == category) return number;
  switch (category) {
    case Scalar::Category::Bool: return number.to_bool();
    case Scalar::Category::Integer: return number.to_int();
    case Scalar::Category::Floating: break;
  }
  return number.to_double();
}

}  // namespace

Scalar GraphRunner::compute(const Frame& frame, const NumberStep& step, std::span<const Tensor* const> inputs,
                            RunValues values) const {
  switch (step.kind) {
    case ScalarExpr::Kind::Constant:
      return step.size == kFixed ? step.constant : Scalar(frame.sizes[step.size]);
    case ScalarExpr::Kind::Input:
      WEFT_ASSERT(step.index < values.numbers.size(), "a graph reads number ", step.index, " of a call with ",
                  values.numbers.size());
      return in_category(values.numbers[step.index], step.category);
    case ScalarExpr::Kind::Item: {
      const uint32_t input = input_of_value_[step.index];
      const Tensor& tensor = input == kFixed ? frame.values[step.index] : *inputs[input];
      return in_category(tensor.item(), step.category);
    }
    case ScalarExpr::Kind::Binary: break;
  }
  return in_category(weft::detail::scalar_binary(step.op, frame.numbers[step.a], frame.numbers[step.b]),
                     step.category);
}

template <bool kDifferentiable>
void GraphRunner::run_in(Frame& frame, std::span<const Tensor* const> inputs, RunValues values,
                         std::span<Tensor> outputs) const {
  WEFT_ASSERT(current_trace() == nullptr, "a graph is run while this thread traces");
  WEFT_ASSERT(inputs.size() == graph_.inputs.size() && outputs.size() == graph_.outputs.size(), "graph '",
              graph_.name, "' takes ", graph_.inputs.size(), " tensors and gives ", graph_.outputs.size(),
              ", not ", inputs.size(), " and ", outputs.size());
  if (!sizes_.empty()) set_sizes(frame, values.symbols);
  for (const InputUse use : input_uses_) {
    WEFT_ASSERT(inputs[use.input]->defined(), "input ", use.input, " of graph '", graph_.name,
                "' is undefined");
    frame.operands[use.operand].tensor = inputs[use.input];
  }
  const AutoGradMode mode(kDifferentiable && grad_mode_enabled());
  const bool is_on = grad_mode_enabled();

  uint32_t step = 0, patch = 0, release = 0;
  for (const Instruction& instruction : instructions_) {
    if (step < instruction.end_steps || patch < instruction.end_number_patches) [[unlikely]] {
      try {
        for (; step < instruction.end_steps; ++step)
          frame.numbers[step] = compute(frame, steps_[step], inputs, values);
        for (; patch < instruction.end_number_patches; ++patch)
          put(frame, instruction, number_patches_[patch]);
      } catch (Error& error) {
        error.add_place(instruction.where);
        throw;
      }
    }
    if constexpr (kDifferentiable) set_grad_mode(is_on && instruction.grad_mode);
    std::optional<CompositeScope> scope;
    if (instruction.composite != nullptr) scope.emplace(*instruction.composite, instruction.where);
    call_into(*instruction.op, {frame.operands.data() + instruction.first_operand, instruction.num_operands},
              instruction.attrs != nullptr ? *instruction.attrs : frame.attrs[instruction.own_attrs],
              instruction.where, {frame.values.data() + instruction.first_output, instruction.num_outputs});
    for (; release < instruction.end_releases; ++release) frame.values[releases_[release]].reset();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint32_t input = input_of_value_[graph_.outputs[i]];
    Tensor& value = frame.values[graph_.outputs[i]];
    if (input != kFixed) outputs[i] = *inputs[input];
    else if (is_moved_out_[i]) outputs[i] = std::move(value);
    else outputs[i] = value;
  }
}

void GraphRunner::run(std::span<const Tensor* const> inputs, RunValues values,
                      std::span<Tensor> outputs) const {
  FrameLease frame(*this);
  run_in<false>(*frame, inputs, values, outputs);
  frame.finish();
}

void GraphRunner::run_differentiable(std::span<const Tensor* const> inputs, RunValues values,
                                     std::span<Tensor> outputs) const {
  FrameLease frame(*this);
  run_in<true>(*frame, inputs, values, outputs);
  frame.finish();
}

}  // namespace weft::compiler
