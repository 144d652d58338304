// Tracing a call: segments are cut, compiled and run where the function asks for a value.
#include "compiler/runtime/trace_run.h"

#include <algorithm>
#include <bit>

#include "compiler/runtime/compiled_node.h"
#include "tensor/composite_pause.h"

namespace weft::compiler {

// Note [Calls that throw]
// A segment happens as a whole or not at all. When a call throws, be it the function while it is traced, or an op of a segment
// that runs (an index out of range), what the function did until the last break has happened, as code outside may know from
// the value that left the graph there; what came after is dropped. So the function is traced up to that break
// once more, and the path closed there, as if it had returned nothing. That costs a trace, but only calls that throw.

namespace {

// Thrown through the function to leave it at a break.
struct StopHere {};

}  // namespace

Slot TraceRun::slot_of(ValueId value) const {
  const auto carried = carried_.find(value);
  if (carried != carried_.end()) return {true, carried->second};
  const uint32_t input = tracer_->input_of(value);
  WEFT_ASSERT(input != kNoInput, "a value of the path that no segment gives");
  return {false, input};
}

// Those that a segment has to give: neither inputs nor given by an earlier one.
std::vector<ValueId> TraceRun::not_carried(std::span<const ValueId> values) const {
  std::vector<ValueId> result;
  for (const ValueId value : values) {
    if (tracer_->graph()[value].node == kNoNode || carried_.contains(value)) continue;
    if (std::find(result.begin(), result.end(), value) == result.end()) result.push_back(value);
  }
  return result;
}

// What the trace has met since the last segment ended.
std::shared_ptr<SegmentNode> TraceRun::begin_segment() {
  auto node = std::make_shared<SegmentNode>();
  node->expressions = tracer_->graph().expressions;
  node->first_input = next_input_;
  // Others point into them: they are not to move.
  node->held.reserve(tracer_->inputs().size() - next_input_);
  node->held_leaves = std::make_shared<std::vector<Tensor>>();
  node->held_leaves->reserve(tracer_->inputs().size() - next_input_);
  for (; next_input_ < tracer_->inputs().size(); ++next_input_) {
    const PathInput& input = tracer_->inputs()[next_input_];
    if (input.source.kind == InputSource::Kind::Tangent) break;
    const bool is_captured = input.source.kind == InputSource::Kind::Captured;
    const bool is_leaf = is_captured && is_leaf_with_grad(input.real);
    const Tensor* held = nullptr;
    if (is_leaf) held = &node->held_leaves->emplace_back(input.real);
    else if (is_captured || input.source.kind == InputSource::Kind::Constant)
      held = &node->held.emplace_back(input.real);
    node->inputs.push_back({input.source, held, input.name});
    if (is_captured) node->captured.push_back(input.real.impl());
    if (is_captured && !is_leaf && is_floating(input.real->dtype))
      node->grad_needs.push_back({input.real.impl(), input.requires_grad});
    node->num_results += input.source.kind == InputSource::Kind::Result;
  }
  node->first_number = next_number_;
  for (; next_number_ < tracer_->numbers().size(); ++next_number_)
    node->numbers.push_back(tracer_->numbers()[next_number_]);
  const std::vector<SymbolSource>& sources = tracer_->shapes().sources();
  node->num_symbols = sources.size();
  for (uint32_t s = 0; s < sources.size(); ++s)
    if (sources[s].kind == SymbolSource::Kind::Result && sources[s].leaf >= node->first_input &&
        sources[s].leaf < node->first_input + node->inputs.size())
      node->result_sizes.push_back({s, sources[s].leaf, sources[s].dim});
  return node;
}

void TraceRun::add_read(SegmentNode& node, Slot slot) const {
  const Tensor* held = nullptr;
  if (!slot.is_carried && slot.index >= node.first_input)
    held = node.inputs[slot.index - node.first_input].held;
  if (held == nullptr) node.other_reads.push_back(static_cast<uint32_t>(node.reads.size()));
  node.reads.push_back(slot);
  node.held_reads.push_back(held);
}

void TraceRun::close_segment(SegmentNode& node, NodeId begin, NodeId end, std::vector<ValueId> outputs,
                             std::span<const Replaced> replaced) {
  const Graph& path = tracer_->graph();
  node.first_carried = next_carried_;
  std::vector<ValueId> reads;
  Graph graph = extract(path, begin, end, outputs, reads);
  graph.name = name_;
  for (const ValueId value : reads) add_read(node, slot_of(value));
  for (const auto& [value, input] : replaced) {
    const auto output = std::find(outputs.begin(), outputs.end(), value);
    const auto read = std::find_if(node.reads.begin(), node.reads.end(), [input = input](const Slot& slot) {
      return !slot.is_carried && slot.index == input;
    });
    if (output != outputs.end() && read != node.reads.end())
      graph.overwrites.push_back({static_cast<uint32_t>(output - outputs.begin()),
                                  static_cast<uint32_t>(read - node.reads.begin())});
  }
  for (const ValueId value : outputs) carried_.emplace(value, next_carried_++);
  for (const ValueId item : path.items) node.items.push_back(item == kNoValue ? Slot() : slot_of(item));
  node.enables_grad = tracer_->used_grad_mode() && !tracer_->traced_grad_mode();
  const bool has_effect =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op->has_effect; });
  if (outputs.empty() && !has_effect) return;
  bool is_new = false;
  node.plan = plans_.get(std::move(graph), is_new);
  path_.num_compiled += is_new;
  if (is_new) path_.num_extern_calls += node.plan->num_extern_calls();
}

void TraceRun::run_segment(const std::shared_ptr<SegmentNode>& node) {
  frame_->set_lifted(tracer_->plain_numbers());
  const CompositePause pause;  // an op that reads a value is being called
  try {
    frame_->run(*node);
  } catch (...) {
    failure_ = Failure::Segment;
    throw;
  }
}

uint64_t TraceRun::decide(size_t index, std::vector<Tensor>& results) {
  if (failure_ != Failure::Function)
    throw CannotCapture{"it catches an error of an op that ran before the end", where_};
  const Break& stop = tracer_->breaks()[index];
  if (index < prefix_.size()) {
    const std::shared_ptr<SegmentNode>& node = prefix_[index];
    // The same function with the same state stops at the same place with the same values.
    if (!node->stop || node->stop->kind != stop.kind || node->stop->end != stop.end ||
        node->stop->live != stop.live)
      throw PathDiffers{stop.place.where};
    next_input_ = node->first_input + static_cast<uint32_t>(node->inputs.size());
    next_number_ = node->first_number + static_cast<uint32_t>(node->numbers.size());
    for (const ValueId value : not_carried(stop.live)) carried_.emplace(value, next_carried_++);
    next_node_ = stop.end;
    path_.nodes.push_back(node);
    path_.outcomes.push_back(known_[index]);
    if (stop.kind == Break::Kind::Result) {
      if (index + 1 < prefix_.size()) {
        size_t at = 0;
        const SegmentNode& next = *prefix_[index + 1];
        for (uint32_t i = 0; i < next.inputs.size() && at < results.size(); ++i)
          if (next.inputs[i].source.kind == InputSource::Kind::Result)
            results[at++] = frame_->input(next.first_input + i);
      } else {
        results = frame_->results();
      }
    }
    if (stops_ && index + 1 == prefix_.size()) throw StopHere();
    return known_[index];
  }
  const std::shared_ptr<SegmentNode> node = begin_segment();
  close_segment(*node, next_node_, stop.end, not_carried(stop.live));
  next_node_ = stop.end;
  node->counters = stop.counters;
  node->stop = stop;
  if (stop.kind == Break::Kind::Result)
    for (const Argument& operand : stop.node.operands)
      node->operands.push_back(operand.is_value() ? slot_of(operand.value) : Slot{});
  run_segment(node);
  path_.nodes.push_back(node);
  path_.outcomes.push_back(0);
  try {
    path_.outcomes.back() = frame_->outcome(*node);
  } catch (...) {
    failure_ = Failure::Segment;
    throw;
  }
  if (stop.kind == Break::Kind::Result) results = frame_->results();
  path_.needs_follow = path_.needs_follow || stop.kind == Break::Kind::Double;
  return path_.outcomes.back();
}

std::shared_ptr<PathBackward> TraceRun::make_backward(const Effects& effects,
                                                      std::shared_ptr<const Graph> path) const {
  if (effects.differentiable.empty()) return nullptr;
  auto backward = std::make_shared<PathBackward>();
  backward->name = name_;
  backward->where = where_;
  backward->path = path;
  backward->forward_end = effects.forward_end;
  backward->has_functions = effects.has_functions;
  backward->differentiable = effects.differentiable;
  backward->wanted = effects.wanted;
  backward->backend = options_.backend;
  for (const Root root : effects.differentiable)
    backward->outputs.push_back(root.is_result ? effects.views[root.index] : effects.outputs[root.index]);
  for (const ValueId input : path->inputs) {
    const uint32_t index = tracer_->input_of(input);
    const InputSource::Kind kind = tracer_->inputs()[index].source.kind;
    const bool is_kept = kind == InputSource::Kind::Argument || kind == InputSource::Kind::Captured ||
                         kind == InputSource::Kind::Constant || kind == InputSource::Kind::Result;
    backward->path_inputs.push_back(is_kept ? index : kNoInput);
  }
  std::vector<std::vector<ValueId>> read_by;  // of the forward, by program
  for (const Pullback& pullback : effects.pullbacks) {
    PathBackward::Program program;
    program.mask = pullback.mask;
    program.error = pullback.error;
    for (const ValueId gradient : pullback.gradients) program.has_gradient.push_back(gradient != kNoValue);
    backward->programs.push_back(std::move(program));
    std::vector<ValueId>& reads = read_by.emplace_back();
    const auto add = [&](ValueId value) {
      const bool is_tangent =
          std::find(effects.tangents.begin(), effects.tangents.end(), value) != effects.tangents.end();
      if (!is_tangent && ((*path)[value].node == kNoNode || (*path)[value].node < effects.forward_end))
        reads.push_back(value);
    };
    for (NodeId n = pullback.begin; n < pullback.end; ++n)
      for (const ValueId value : values_read_by(*path, path->nodes[n])) add(value);
    for (const ValueId gradient : pullback.gradients)
      if (gradient != kNoValue) add(gradient);
    std::sort(reads.begin(), reads.end());
  }
  for (size_t p = 0; p < read_by.size(); ++p)
    for (const std::vector<ValueId>& other : read_by)
      backward->programs[p].shares_saved.push_back(std::any_of(
          other.begin(), other.end(),
          [&](ValueId value) { return std::binary_search(read_by[p].begin(), read_by[p].end(), value); }));
  return backward;
}

// The value whose memory it lies in.
ValueId TraceRun::root_of(ValueId value) const {
  const Graph& path = tracer_->graph();
  while (path[value].node != kNoNode && path.nodes[path[value].node].op->kind == Kind::View)
    value = path.nodes[path[value].node].operands[0].value;
  return value;
}

namespace {

// Puts the inputs that are tangents behind the others; `reads` are the values that the inputs stand for.
void put_last(Graph& graph, std::vector<ValueId>& reads, std::span<const ValueId> tangents) {
  std::vector<size_t> order;
  for (const bool is_tangent : {false, true})
    for (size_t i = 0; i < reads.size(); ++i)
      if ((std::find(tangents.begin(), tangents.end(), reads[i]) != tangents.end()) == is_tangent)
        order.push_back(i);
  const std::vector<ValueId> inputs = graph.inputs, values = reads;
  std::vector<std::string> names = graph.input_names;
  names.resize(inputs.size());
  graph.input_names.resize(inputs.size());
  for (size_t i = 0; i < order.size(); ++i) {
    graph.inputs[i] = inputs[order[i]];
    graph.values[graph.inputs[i]].index = static_cast<uint32_t>(i);
    graph.input_names[i] = names[order[i]];
    reads[i] = values[order[i]];
  }
}

}  // namespace

// Note [Joint segments]
// The last segment of a path and the backward of all of it are one graph, which the partition cuts: it decides what the forward
// gives besides its results. What earlier segments carry is there for both halves. Eager code decides which tensors may be
// kept for nothing: those that its tape keeps, which nobody may write before backward anyway.
void TraceRun::close_joint(SegmentNode& node, const Effects& effects, const std::vector<ValueId>& outputs,
                           std::span<const Replaced> replaced) {
  const Graph& path = tracer_->graph();
  PartitionOptions options;
  options.memory_budget = options_.activation_memory_budget;
  std::vector<ValueId> results = outputs;
  NodeId end = effects.forward_end;
  std::vector<bool> is_kept(path.values.size());  // by eager code; by the root of the memory
  const auto has_effect = [&](const Pullback& pullback) {
    return std::any_of(path.nodes.begin() + pullback.begin, path.nodes.begin() + pullback.end,
                       [](const Node& node) { return node.op->has_effect; });
  };
  // What a hook prints belongs to one program; the others are rare enough to be run by eager ops.
  PathBackward& backward = *node.backward;
  if (std::any_of(effects.pullbacks.begin(), effects.pullbacks.end(), has_effect))
    backward.programs.resize(1);
  for (const Pullback& pullback : std::span(effects.pullbacks).first(backward.programs.size())) {
    size_t count = 0;
    for (const ValueId gradient : pullback.gradients) {
      if (gradient == kNoValue) continue;
      results.push_back(gradient);
      ++count;
    }
    options.gradients_of.push_back(count);
    end = std::max(end, pullback.end);
    for (NodeId n = pullback.begin; n < pullback.end; ++n)
      for (const ValueId value : values_read_by(path, path.nodes[n])) is_kept[root_of(value)] = true;
  }
  std::vector<ValueId> reads;
  Graph joint = extract(path, next_node_, end, results, reads);
  joint.name = name_;
  put_last(joint, reads, effects.tangents);

  for (const ValueId value : reads) {
    const auto tangent = std::find(effects.tangents.begin(), effects.tangents.end(), value);
    if (tangent != effects.tangents.end()) {
      backward.tangents.push_back(static_cast<uint32_t>(tangent - effects.tangents.begin()));
      continue;
    }
    ++options.num_primals;
    options.primals.push_back(is_written_memory(value, effects) ? SavedAs::Copy
                              : slot_of(value).is_carried       ? SavedAs::Memory
                              : is_kept[root_of(value)]         ? SavedAs::Itself
                                                                : SavedAs::Exposed);
  }
  for (const auto& [value, input] : replaced) {
    const auto output = std::find(outputs.begin(), outputs.end(), value);
    const auto read =
        std::find_if(reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(options.num_primals),
                     [this, input = input](ValueId primal) {
                       const Slot slot = slot_of(primal);
                       return !slot.is_carried && slot.index == input;
                     });
    if (output != outputs.end() && read != reads.begin() + static_cast<std::ptrdiff_t>(options.num_primals))
      joint.overwrites.push_back(
          {static_cast<uint32_t>(output - outputs.begin()), static_cast<uint32_t>(read - reads.begin())});
  }
  std::vector<bool> is_given(path.values.size());  // to the caller; likewise
  const auto give = [&](const OutputPlan& plan) {
    if (plan.kind == OutputPlan::Kind::Fresh || plan.kind == OutputPlan::Kind::Part)
      is_given[root_of(effects.outputs[plan.index])] = true;
  };
  for (const OutputPlan& plan : effects.tensors) give(plan);
  for (const GradWrite& write : effects.grad_writes) give(write.value);
  options.num_outputs = outputs.size();
  for (const ValueId value : outputs)
    options.outputs.push_back(!is_given[root_of(value)] ? SavedAs::Memory
                              : is_kept[root_of(value)] ? SavedAs::Itself
                                                        : SavedAs::Copy);

  bool is_new = false;
  backward.joint = joint_plans_.get(std::move(joint), options, plans_, is_new);
  const JointPlan& plan = *backward.joint;
  node.plan = plan.forward;
  node.enables_grad = tracer_->used_grad_mode() && !tracer_->traced_grad_mode();
  path_.num_compiled += is_new;
  if (is_new) {
    path_.num_extern_calls += node.plan->num_extern_calls();
    for (const JointPlan::Saved& saved : plan.saved())
      path_.saved_bytes += static_cast<uint64_t>(saved.bytes);
  }
  node.first_carried = next_carried_;
  for (const uint32_t primal : plan.forward_reads()) add_read(node, slot_of(reads[primal]));
  for (const ValueId value : outputs) carried_.emplace(value, next_carried_++);
  for (const JointPlan::Saved& saved : plan.saved()) {
    if (!saved.is_primal) next_carried_ = std::max(next_carried_, node.first_carried + saved.index + 1);
    backward.saved.push_back(saved.is_primal ? slot_of(reads[saved.index])
                                             : Slot{true, node.first_carried + saved.index});
  }
  for (const ValueId item : path.items) node.items.push_back(item == kNoValue ? Slot() : slot_of(item));
}

// Which of the inputs that backward asks for are captured leaves.
void TraceRun::find_leaves(const SegmentNode& last, PathBackward& backward) const {
  const auto leaf_of = [&](const SegmentNode& segment, uint32_t index) -> const Tensor* {
    if (index < segment.first_input || index >= segment.first_input + segment.inputs.size()) return nullptr;
    const Tensor* held = segment.inputs[index - segment.first_input].held;
    const std::vector<Tensor>& leaves = *segment.held_leaves;
    return held != nullptr && !leaves.empty() && held >= &leaves.front() && held <= &leaves.back() ? held
                                                                                                   : nullptr;
  };
  std::unordered_map<uint32_t, uint32_t> known;  // by path input
  const auto find = [&](uint32_t index) {
    const auto [at, is_new] = known.emplace(index, kNoInput);
    if (!is_new) return at->second;
    const Tensor* leaf = leaf_of(last, index);
    for (size_t i = 0; leaf == nullptr && i < path_.nodes.size(); ++i) leaf = leaf_of(*path_.nodes[i], index);
    if (leaf == nullptr) return kNoInput;
    backward.leaves.push_back(leaf);
    return at->second = static_cast<uint32_t>(backward.leaves.size() - 1);
  };
  for (const uint32_t input : backward.wanted) backward.wanted_leaves.push_back(find(input));
  for (const uint32_t input : backward.path_inputs)
    backward.input_leaves.push_back(input == kNoInput ? kNoInput : find(input));
  for (size_t i = 0; i < backward.saved.size(); ++i) {
    const bool is_shared = !backward.saved[i].is_carried && !backward.joint->saved()[i].is_copied;
    backward.saved_leaves.push_back(is_shared ? find(backward.saved[i].index) : kNoInput);
  }
  const auto split = [&](const std::vector<uint32_t>& leaves,
                         std::vector<uint32_t> PathBackward::Own::*list) {
    for (uint32_t i = 0; i < leaves.size(); ++i) {
      if (list == &PathBackward::Own::inputs && backward.path_inputs[i] == kNoInput) continue;
      (backward.own[0].*list).push_back(i);
      if (leaves[i] == kNoInput) (backward.own[1].*list).push_back(i);
    }
  };
  split(backward.wanted_leaves, &PathBackward::Own::wanted);
  split(backward.saved_leaves, &PathBackward::Own::saved);
  split(backward.input_leaves, &PathBackward::Own::inputs);
  if (backward.leaves.empty()) return;
  backward.leaf_owners.push_back(last.held_leaves);
  for (const std::shared_ptr<SegmentNode>& segment : path_.nodes)
    backward.leaf_owners.push_back(segment->held_leaves);
}

// Whether the value lies in the memory of an input that the call writes.
bool TraceRun::is_written_memory(ValueId value, const Effects& effects) const {
  value = root_of(value);
  if (tracer_->graph()[value].node != kNoNode) return false;
  const auto storage_of = [&](uint32_t input) -> const Storage* {
    const PathInput& found = tracer_->inputs()[input];
    if (found.source.kind == InputSource::Kind::Line)
      return tracer_->inputs()[found.source.index].real->storage.get();
    return found.real.defined() ? found.real->storage.get() : nullptr;
  };
  const Storage* storage = storage_of(tracer_->input_of(value));
  return storage != nullptr &&
         std::any_of(effects.writes.begin(), effects.writes.end(),
                     [&](const InputWrite& write) { return storage_of(write.input) == storage; });
}

namespace {

// Whether nothing but this write takes the output.
bool is_only_written(const InputWrite& write, const Effects& effects) {
  const auto takes = [&](const OutputPlan& plan) {
    return (plan.kind == OutputPlan::Kind::Fresh || plan.kind == OutputPlan::Kind::Part) &&
           plan.index == write.output;
  };
  const ValueId value = effects.outputs[write.output];
  return std::count(effects.outputs.begin(), effects.outputs.end(), value) == 1 &&
         std::none_of(effects.tensors.begin(), effects.tensors.end(), takes) &&
         std::none_of(effects.grad_writes.begin(), effects.grad_writes.end(),
                      [&](const GradWrite& grad) { return takes(grad.value); }) &&
         std::none_of(effects.differentiable.begin(), effects.differentiable.end(),
                      [&](const Root& root) { return !root.is_result && root.index == write.output; }) &&
         std::count_if(effects.writes.begin(), effects.writes.end(),
                       [&](const InputWrite& other) { return other.output == write.output; }) == 1;
}

}  // namespace

// What the program may store over its inputs at once, instead of leaving it to the end of the call. Only where nothing that
// came before the program, or comes after it, can still ask for what an input held.
std::vector<TraceRun::Replaced> TraceRun::replaced_inputs(const SegmentNode& node,
                                                          const Effects& effects) const {
  if (!path_.nodes.empty()) return {};
  const auto is_written = [&](ValueId value) {
    return value != kNoValue && is_written_memory(value, effects);
  };
  const std::vector<ValueId>& items = tracer_->graph().items;
  if (std::any_of(items.begin(), items.end(), is_written)) return {};
  std::vector<Replaced> replaced;
  for (const InputWrite& write : effects.writes)
    if (!write.is_recorded && !write.is_at_risk && node.only_replaces[write.output])
      replaced.push_back({effects.outputs[write.output], write.input});
  return replaced;
}

void TraceRun::close_path(Effects effects, std::shared_ptr<const void> structure) {
  for (InputWrite& write : effects.writes)
    write.is_at_risk = is_written_memory(effects.outputs[write.output], effects);
  const std::shared_ptr<SegmentNode> node = begin_segment();
  auto path = std::make_shared<const Graph>(tracer_->graph());
  node->backward = make_backward(effects, path);
  std::vector<ValueId> outputs = effects.outputs;
  std::copy_if(path->items.begin(), path->items.end(), std::back_inserter(outputs),
               [](ValueId item) { return item != kNoValue; });
  node->only_replaces.resize(effects.outputs.size());
  for (const InputWrite& write : effects.writes)
    node->only_replaces[write.output] = is_only_written(write, effects);
  const std::vector<Replaced> replaced = replaced_inputs(*node, effects);
  if (node->backward != nullptr && !effects.pullbacks.empty())
    close_joint(*node, effects, not_carried(outputs), replaced);
  else close_segment(*node, next_node_, effects.forward_end, not_carried(outputs), replaced);
  node->counters = tracer_->counters();
  node->effects = effects;
  for (const ValueId output : effects.outputs) node->outputs.push_back(slot_of(output));
  node->structure = std::move(structure);
  if (node->backward != nullptr) find_leaves(*node, *node->backward);
  path_.nodes.push_back(node);
}

// Runs the function on what stands for the arguments.
void TraceRun::enter(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies,
                     Frame* frame) {
  std::vector<Tensor> tensors;
  std::vector<Scalar> numbers;
  for (uint32_t i = 0; i < leaves.tensors.size(); ++i) {
    const Tensor& real = *leaves.tensors[i];
    if (!real.defined()) {
      tensors.emplace_back();
      continue;
    }
    const size_t rank = static_cast<size_t>(real.dim());
    const Layout<Sym> layout =
        tracer_->shapes().add_layout(i, {int_sizes(real), rank}, {int_strides(real), rank}, policies.sizes[i],
                                     policies.dynamic_strides[i]);
    Layout<Sym> placed = layout;
    placed.offset = real->layout.offset;
    tensors.push_back(tracer_->add_argument(i, real, std::move(placed), callee.tensor_name(i)));
  }
  for (uint32_t i = 0; i < leaves.numbers.size(); ++i) {
    const NumberLeaf& number = leaves.numbers[i];
    if (number.kind == NumberLeaf::Kind::Scalar) {
      numbers.push_back(tracer_->add_number(i, number.value.category()));
    } else if (number.kind == NumberLeaf::Kind::Size) {
      numbers.push_back(Scalar(tracer_->shapes().add({SymbolSource::Kind::Number, i, 0},
                                                     number.value.to_int(), policies.numbers[i])));
    } else {
      numbers.push_back(number.value);
    }
  }
  if (frame != nullptr) {
    const size_t num_symbols = tracer_->shapes().sources().size();
    const std::span<int64_t> symbols = frame->symbols(num_symbols);
    for (uint32_t s = 0; s < num_symbols; ++s)
      symbols[s] = tracer_->graph().expressions->syms.symbols()[s].hint;
  }
  callee.run(tensors, numbers);
}

// Numbers that are not what they were in the call before become inputs of the program, so that the next one fits it.
void TraceRun::lift_what_differs(FollowState& following) {
  const std::vector<Scalar>& now = tracer_->plain_numbers();
  const auto bits = [](const Scalar& number) {
    return number.is_floating() ? std::bit_cast<uint64_t>(number.to_double())
                                : static_cast<uint64_t>(number.to_int());
  };
  if (now.size() == following.numbers.size()) {
    following.lifted.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i) {
      if (following.lifted[i] || now[i].category() != following.numbers[i].category() ||
          bits(now[i]) == bits(following.numbers[i]))
        continue;
      following.lifted[i] = true;
      tracer_->lift(i, next_node_);
    }
  }
  following.numbers = now;
}

void TraceRun::begin(const ArgumentLeaves& leaves, std::vector<Intrusive<Storage>> lines, HostFunctions& host,
                     const FollowState* following) {
  path_ = {};
  next_input_ = next_number_ = next_carried_ = 0;
  next_node_ = 0;
  carried_.clear();
  failure_ = Failure::Function;
  tracer_ = std::make_shared<Tracer>(TraceOptions{this, options_.fullgraph, std::move(lines),
                                                  following != nullptr ? &following->lifted : nullptr, &host,
                                                  static_cast<uint32_t>(leaves.tensors.size())});
}

namespace {

// The storages that these segments, which the frame has run, read as lines.
std::vector<Intrusive<Storage>> lines_of(std::span<const std::shared_ptr<SegmentNode>> segments,
                                         const Frame& frame) {
  std::vector<Intrusive<Storage>> lines;
  for (const std::shared_ptr<SegmentNode>& segment : segments)
    for (const SegmentNode::Input& input : segment->inputs)
      if (input.source.kind == InputSource::Kind::Line)
        lines.push_back(frame.input(input.source.index)->storage);
  return lines;
}

}  // namespace

// Whether a segment that has run has an input in this storage.
bool TraceRun::reads_storage(const Storage& storage) const {
  if (path_.nodes.empty()) return false;
  const SegmentNode& last = *path_.nodes.back();
  for (size_t i = 0; i < last.first_input + last.inputs.size(); ++i)
    if (const Tensor& real = tracer_->inputs()[i].real; real.defined() && real->storage.get() == &storage)
      return true;
  return false;
}

TracedPath TraceRun::run(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies,
                         Frame& frame, HostFunctions& host,
                         std::span<const std::shared_ptr<SegmentNode>> prefix,
                         std::span<const uint64_t> outcomes, FollowState* following) {
  std::vector<Intrusive<Storage>> lines = lines_of(prefix, frame);
  std::vector<std::shared_ptr<SegmentNode>> bound(prefix.begin(), prefix.end());
  std::vector<uint64_t> known(outcomes.begin(), outcomes.end());
  size_t num_bound = prefix.size();
  frame_ = &frame;
  const auto carry_out_segments = [&] {
    TraceRun(plans_, joint_plans_, options_, name_, where_)
        .carry_out(leaves, callee, policies, frame, host, path_.nodes, path_.outcomes, following);
  };
  for (;;) {
    prefix_ = bound;
    known_ = known;
    begin(leaves, lines, host, following);
    Effects effects;
    std::shared_ptr<const void> structure;
    try {
      const TraceScope scope(*tracer_);
      enter(leaves, callee, policies, &frame);
      if (failure_ == Failure::Segment)
        throw CannotCapture{"it catches an error of an op that ran before the end", where_};
      failure_ = Failure::Capture;  // from here on
      effects = collect_effects(*tracer_, callee.result());
      structure = callee.structure();
      callee.clear();
      path_.grad_facts = effects.grad_facts;
      tracer_->drop_fakes();
      check_nothing_escaped(*tracer_);
    } catch (const RestartTrace& restart) {
      callee.clear();
      tracer_->drop_fakes();
      WEFT_ASSERT(std::find(lines.begin(), lines.end(), restart.storage) == lines.end(),
                  "a trace starts again for the same reason");
      lines.push_back(restart.storage);
      if (reads_storage(*restart.storage)) {
        // What has run will have other inputs: it is another program.
        bound.clear();
        known.clear();
        num_bound = 0;
        frame.restart();
      } else {
        bound = path_.nodes;
        known = path_.outcomes;
      }
      continue;
    } catch (const CannotCapture&) {
      callee.clear();
      tracer_->drop_fakes();
      frame.return_draws();
      throw;
    } catch (const PathDiffers&) {
      callee.clear();
      tracer_->drop_fakes();
      frame.return_draws();
      throw;
    } catch (...) {
      callee.clear();
      tracer_->drop_fakes();
      if (failure_ != Failure::Capture) carry_out_segments();
      throw;
    }
    if (following != nullptr) lift_what_differs(*following);
    path_.num_bound = num_bound;
    close_path(effects, std::move(structure));
    try {
      run_segment(path_.nodes.back());
    } catch (...) {
      path_.nodes.pop_back();
      carry_out_segments();
      throw;
    }
    frame.finish(*path_.nodes.back(), callee);
    path_.tracer = tracer_;
    return std::move(path_);
  }
}

// The function has been left at a break, and what it did by then is to happen.
void TraceRun::carry_out_trace() {
  Effects effects;
  {
    const TraceScope scope(*tracer_);
    effects = collect_effects(*tracer_, {});
  }
  tracer_->drop_fakes();
  if (effects.writes.empty() && effects.grad_writes.empty() && effects.layout_writes.empty() &&
      effects.cell_writes.empty())
    return;
  close_path(std::move(effects), nullptr);
  run_segment(path_.nodes.back());
  frame_->carry_out(*path_.nodes.back());
}

void TraceRun::carry_out(const ArgumentLeaves& leaves, Callee& callee, const ArgumentPolicies& policies,
                         Frame& frame, HostFunctions& host,
                         std::span<const std::shared_ptr<SegmentNode>> segments,
                         std::span<const uint64_t> outcomes, const FollowState* following) {
  if (segments.empty()) return;
  frame_ = &frame;
  prefix_ = segments;
  known_ = outcomes;
  stops_ = true;
  begin(leaves, lines_of(segments, frame), host, following);
  try {
    const TraceScope scope(*tracer_);
    enter(leaves, callee, policies, &frame);
  } catch (const StopHere&) {
    callee.clear();
    carry_out_trace();
  } catch (...) {
    // The function went another way than before: what it depends on has changed since.
  }
  callee.clear();
  tracer_->drop_fakes();
}

}  // namespace weft::compiler
