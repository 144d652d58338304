// Running segments and carrying out effects.
#include "compiler/runtime/frame.h"

#include <algorithm>
#include <bit>

#include "autograd/grad_mode.h"
#include "autograd/tape.h"
#include "compiler/runtime/compiled_node.h"

namespace weft::compiler {
namespace {

// The whole storage of a tensor as one line.
Tensor line_of(const Tensor& x) {
  const int64_t length = static_cast<int64_t>(x->storage->bytes() / size_of(x->dtype));
  return make_view(x, contiguous_layout<Sym>({Sym::from_int(length)}), x->dtype);
}

// Whether a gradient is there. Without the lock: who changes gradients while a function that reads them runs has a race
// of his own.
bool has_gradient(const Tensor& x) {
  const autograd::Tape* tape = autograd::tape_of(x);
  return tape != nullptr && tape->cell && tape->cell->grad.defined();
}

// Attributes with the values of this call.
Attrs evaluated(const SegmentNode& node, const Frame& frame, const Attrs& attrs) {
  Attrs result = attrs;
  const SymTable& table = node.expressions->syms;
  const std::span<const int64_t> symbols = frame.values().symbols;
  for (Attr& attr : result) {
    if (attr.is<Sym>() && attr.as<Sym>().is_symbolic()) {
      attr = Attr(Sym::from_int(table.evaluate(attr.as<Sym>(), symbols)));
    } else if (attr.is<SymList>()) {
      SymList sizes = attr.as<SymList>();
      for (Sym& size : sizes)
        if (size.is_symbolic()) size = Sym::from_int(table.evaluate(size, symbols));
      attr = Attr(std::move(sizes));
    } else if (attr.is<Scalar>()) {
      attr = Attr(frame.evaluate(node, attr.as<Scalar>()));
    }
  }
  return result;
}

// What copy_ leaves behind it beside the values.
void note_written(const Tensor& x, SourceLocation where) {
  const Op& copy = WEFT_OP("copy_");
  x->storage->bump_version(copy, where);
  x->made_by = &copy;
  x->made_at = where;
}

}  // namespace

const Tensor* Frame::keep(Tensor tensor) const {
  if (used_ < kFirst) {
    first_[used_] = std::move(tensor);
    return &first_[used_++];
  }
  blocks_.push_back(std::make_unique<Tensor[]>(1));
  blocks_.back()[0] = std::move(tensor);
  return &blocks_.back()[0];
}

const Tensor& Frame::fetch(uint32_t index) const {
  for (const SegmentNode* node : nodes_) {
    if (index < node->first_input || index >= node->first_input + node->inputs.size()) continue;
    const SegmentNode::Input& found = node->inputs[index - node->first_input];
    switch (found.source.kind) {
      case InputSource::Kind::Argument: inputs_[index] = leaves_.tensors[found.source.index]; break;
      case InputSource::Kind::Captured:
      case InputSource::Kind::Constant: inputs_[index] = found.held; break;
      case InputSource::Kind::Grad: inputs_[index] = keep(input(found.source.index).grad()); break;
      case InputSource::Kind::Line: inputs_[index] = keep(line_of(input(found.source.index))); break;
      case InputSource::Kind::Result:  // brought with the segment
      case InputSource::Kind::Tangent: break;
    }
    WEFT_ASSERT(inputs_[index] != nullptr, "path input ", index, " (", found.name, ") has no tensor here");
    return *inputs_[index];
  }
  WEFT_ASSERT(false, "a path input that no segment brings");
  return *inputs_[index];
}

GeneratorState Frame::draw(uint64_t counters) {
  if (num_replayed_ == draws_.size()) draws_.push_back({default_generator().draw(counters), counters});
  WEFT_ASSERT(draws_[num_replayed_].counters == counters, "a segment draws other numbers than before");
  return draws_[num_replayed_++].stream;
}

void Frame::return_draws() {
  while (!draws_.empty()) {
    const auto [stream, counters] = draws_.back();
    if (default_generator().get_state() != GeneratorState{stream.seed, stream.offset + counters}) return;
    default_generator().set_state(stream);
    draws_.pop_back();
  }
}

void Frame::restart() {
  inputs_.clear();
  nodes_.clear();
  carried_.clear();
  numbers_.clear();
  outputs_.clear();
  results_.clear();
  num_replayed_ = 0;
}

void Frame::bring(const SegmentNode& node) {
  nodes_.push_back(&node);
  inputs_.resize(node.first_input + node.inputs.size());
  // Others are found when something reads them.
  for (size_t at = 0, i = 0; node.num_results > at; ++i)
    if (node.inputs[i].source.kind == InputSource::Kind::Result)
      inputs_[node.first_input + i] = keep(results_[at++]);
  if (node.num_symbols > symbols_.size()) symbols_.resize(node.num_symbols);
  for (const SegmentNode::ResultSize& size : node.result_sizes)
    symbols_[size.symbol] = int_sizes(*inputs_[size.input])[size.dim];
  GeneratorState stream;
  if (!node.counters.is_symbolic() && node.counters == 0) {
  } else {
    const int64_t counters = node.counters.is_symbolic()
                                 ? node.expressions->syms.evaluate(node.counters, values().symbols)
                                 : node.counters.concrete();
    stream = draw(static_cast<uint64_t>(counters));
  }
  for (const NumberSource& source : node.numbers) {
    switch (source.kind) {
      case NumberSource::Kind::Argument: numbers_.push_back(leaves_.numbers[source.index].value); break;
      case NumberSource::Kind::Cell: numbers_.push_back(Scalar(source.cell->value)); break;
      case NumberSource::Kind::Seed: numbers_.push_back(Scalar(static_cast<int64_t>(stream.seed))); break;
      case NumberSource::Kind::Counter:
        numbers_.push_back(Scalar(static_cast<int64_t>(stream.offset)));
        break;
      case NumberSource::Kind::Lifted: numbers_.push_back(lifted_[source.index]); break;
    }
  }
}

void Frame::run(const SegmentNode& node) {
  bring(node);
  carried_.resize(node.first_carried);
  if (node.plan == nullptr) return;
  SmallVector<const Tensor*, 16> reads;
  reads.append(node.held_reads.begin(), node.held_reads.end());
  for (const uint32_t i : node.other_reads) reads[i] = &tensor(node.reads[i]);
  const size_t count = node.plan->traced().outputs.size();
  Tensor* outputs;
  if (used_ + count <= kFirst) {
    outputs = &first_[used_];
    used_ += count;
  } else {
    blocks_.push_back(std::make_unique<Tensor[]>(count));
    outputs = blocks_.back().get();
  }
  try {
    node.plan->run({reads.data(), reads.size()}, values(), {outputs, count});
  } catch (...) {
    nodes_.pop_back();
    inputs_.resize(node.first_input);
    numbers_.resize(node.first_number);
    throw;
  }
  for (size_t i = 0; i < count; ++i) carried_.push_back(&outputs[i]);
}

Scalar Frame::evaluate(const SegmentNode& node, const Scalar& number) const {
  if (number.is_symbolic()) return Scalar(node.expressions->syms.evaluate(number.sym(), values().symbols));
  if (!number.is_traced()) return number;
  return compiler::evaluate(*node.expressions, number.trace_id(), values(),
                            [&](uint32_t item) { return tensor(node.items[item]).item(); });
}

uint64_t Frame::outcome(const SegmentNode& node) {
  const Break& stop = *node.stop;
  const auto number = [&](ScalarId id) {
    return compiler::evaluate(*node.expressions, id, values(),
                              [&](uint32_t item) { return tensor(node.items[item]).item(); });
  };
  switch (stop.kind) {
    case Break::Kind::Compare:
      return weft::detail::scalar_compare(stop.compare, number(stop.a), number(stop.b)) ? 1 : 0;
    case Break::Kind::Double: return std::bit_cast<uint64_t>(number(stop.a).to_double());
    case Break::Kind::Integer: return static_cast<uint64_t>(number(stop.a).to_int());
    case Break::Kind::Result: {
      const AutoGradMode off(false);
      std::vector<Operand> operands(stop.node.operands.size());
      for (size_t i = 0; i < operands.size(); ++i) {
        const Argument& argument = stop.node.operands[i];
        if (argument.is_value()) operands[i] = Operand(tensor(node.operands[i]));
        else if (argument.kind == Argument::Kind::Number)
          operands[i] = Operand(evaluate(node, argument.number));
      }
      results_.assign(stop.node.num_outputs, Tensor());
      call_into(*stop.node.op, operands, evaluated(node, *this, stop.node.attrs), stop.node.where, results_);
      return 0;
    }
  }
  return 0;
}

// The sizes of a data-dependent result, before the segment that takes it is entered.
bool Frame::fits_sizes(const Branch& branch, std::span<const int64_t> of_arguments) const {
  const SegmentNode& node = *branch.node;
  SmallVector<int64_t, 8> symbols(std::max(of_arguments.size(), node.num_symbols));
  std::copy(of_arguments.begin(), of_arguments.end(), symbols.begin());
  size_t at = 0;
  for (uint32_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].source.kind != InputSource::Kind::Result) continue;
    const Tensor& result = results_[at++];
    for (const SegmentNode::ResultSize& size : node.result_sizes)
      if (size.input == node.first_input + i) symbols[size.symbol] = int_sizes(result)[size.dim];
  }
  return branch.sizes->check({symbols.data(), symbols.size()});
}

bool Frame::fits(const Branch& branch, uint64_t global_word) {
  // What the guards write belongs to this branch alone until it is taken: another may number the sizes in another way.
  SmallVector<int64_t, 8> symbols;
  if (branch.guards) {
    symbols.resize(std::max(symbols_.size(), branch.node->num_symbols));
    std::copy(symbols_.begin(), symbols_.end(), symbols.begin());
    if (!branch.guards->check(leaves_, global_word, {symbols.data(), symbols.size()})) return false;
  }
  const SmallVector<int64_t, 8>& of_arguments = branch.guards ? symbols : symbols_;
  if (branch.sizes && !fits_sizes(branch, {of_arguments.data(), of_arguments.size()})) return false;
  for (const GradFact& fact : branch.grad_facts) {
    const Tensor* owner = nullptr;
    if (fact.input < inputs_.size()) {
      owner = &input(fact.input);
    } else if (fact.input < branch.node->first_input + branch.node->inputs.size()) {
      const SegmentNode::Input& input = branch.node->inputs[fact.input - branch.node->first_input];
      if (input.source.kind == InputSource::Kind::Argument) owner = leaves_.tensors[input.source.index];
      else owner = input.held;
    }
    if (owner != nullptr && has_gradient(*owner) != fact.is_defined) return false;
  }
  // A captured tensor that nobody else holds has been replaced by another in the user's code.
  for (const TensorImpl* captured : branch.node->captured)
    if (captured->use_count() == 1) return false;
  if (!branch.node->grad_needs.empty() && (branch.node->enables_grad || grad_mode_enabled()))
    for (const SegmentNode::GradNeed& need : branch.node->grad_needs)
      if (need.captured->needs_grad() != need.needs_grad) return false;
  if (branch.guards) symbols_ = std::move(symbols);
  return true;
}

// ---- The end of a call ----------------------------------------------------------------------------------------------

Tensor Frame::view(const SegmentNode& node, const std::vector<ViewStep>& steps, Tensor x,
                   SourceLocation where) const {
  for (const ViewStep& step : steps)
    x = call(*step.op, std::initializer_list<Operand>{x}, evaluated(node, *this, step.attrs), where);
  return x;
}

Tensor Frame::make(const SegmentNode& node, const OutputPlan& plan, std::span<const Tensor> made) {
  switch (plan.kind) {
    case OutputPlan::Kind::Undefined: return {};
    case OutputPlan::Kind::Again: return made[plan.index];
    case OutputPlan::Kind::Fresh: return output(plan.index);
    case OutputPlan::Kind::Part: {
      const AutoGradMode mode(plan.requires_grad);
      return view(node, plan.steps, output(plan.index), plan.made_at);
    }
    case OutputPlan::Kind::Input: return input(plan.index);
    case OutputPlan::Kind::View: {
      const AutoGradMode mode(plan.requires_grad);
      const Tensor& base = input(plan.index);
      if (!plan.requires_grad && base->needs_grad())
        return view(node, plan.steps, base.detach(), plan.made_at);
      if (plan.steps.empty()) return plan.requires_grad ? alias(base, plan.made_at) : base.detach();
      return view(node, plan.steps, base, plan.made_at);
    }
  }
  return {};
}

void Frame::finish(const SegmentNode& node, Callee& callee) {
  Results results = carry_out_effects(node);
  callee.give(node.structure.get(), {results.tensors.data(), results.tensors.size()},
              {results.numbers.data(), results.numbers.size()});
}

void Frame::carry_out(const SegmentNode& node) { static_cast<void>(carry_out_effects(node)); }

Frame::Results Frame::carry_out_effects(const SegmentNode& node) {
  const Effects& effects = node.effects;
  // Numbers first: what follows may overwrite the tensors that they read.
  Results results;
  for (const NumberLeaf& number : effects.numbers) results.numbers.push_back(evaluate(node, number.value));
  SmallVector<double, 8> cells;
  for (const Tracer::CellWrite& write : effects.cell_writes)
    cells.push_back(evaluate(node, Scalar::from_trace(Scalar::Category::Floating, write.value)).to_double());

  // What leaves the function as a tensor of its own follows no base, though a kernel made it as a view of one; and two
  // results with one value are two tensors.
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor& value = tensor(node.outputs[i]);
    const auto is_again = [&] {
      return std::find(outputs_.begin(), outputs_.end(), &value) != outputs_.end();
    };
    const bool is_plain =
        node.only_replaces[i] || (node.outputs[i].is_carried && value->tape == nullptr && !is_again());
    outputs_.push_back(is_plain ? &value : keep(autograd::share_data(value)));
  }
  Intrusive<autograd::Node> step;
  if (node.backward != nullptr) step = connect(*this, node);
  // All values are taken before anything is overwritten: one may be the memory of an input as it is.
  SmallVector<Tensor, 4> values;
  for (const InputWrite& write : effects.writes) {
    const Tensor& value = output(write.output);
    const AutoGradMode mode(write.is_recorded);
    values.push_back(write.is_at_risk ? clone(value, write.where) : value);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const InputWrite& write = effects.writes[i];
    Tensor target = input(write.input);
    if (write.is_unchanged || values[i].is_same(target)) {  // or it was stored there
      note_written(target, write.where);
      continue;
    }
    const AutoGradMode mode(write.is_recorded);
    target.copy_(values[i], false, write.where);
  }
  const auto made = [&] { return std::span<const Tensor>(results.tensors.data(), results.tensors.size()); };
  // Views of inputs count from the layouts that these came with.
  for (const OutputPlan& plan : effects.tensors) results.tensors.push_back(make(node, plan, made()));
  for (const LayoutWrite& write : effects.layout_writes) {
    const Tensor& target = input(write.input);
    become(*write.steps.back().op, target, view(node, write.steps, target, write.where), write.where);
  }
  if (step) connect_views(node, step, made());
  for (const GradWrite& write : effects.grad_writes) {
    Tensor target = input(write.input);
    target.mutable_grad() = make(node, write.value, made());
  }
  for (size_t i = 0; i < cells.size(); ++i) effects.cell_writes[i].cell->value = cells[i];
  return results;
}

}  // namespace weft::compiler
