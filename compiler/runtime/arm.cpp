// Tracing arms, and running them inside a node.
// Place: the out-of-line half of compiler/runtime/arm.h.
#include "compiler/runtime/arm.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>

#include "autograd/tape.h"
#include "compiler/runtime/plan.h"

namespace weft::compiler {
namespace {

void check_nothing_is_kept(const Tracer& tracer) {
  const TensorImpl* kept = tracer.find_escaped();
  if (kept == nullptr) return;
  const std::string place = weft::to_string(kept->made_at);
  weft::detail::throw_error(weft::detail::concat(
      tracer.part(), ": the tensor ", SizesView(kept->layout.sizes), ' ', kept->dtype, " that ",
      kept->made_by != nullptr ? kept->made_by->name() : "an op", " made", place.empty() ? "" : " at ", place,
      " is held outside of the arm, which may not run at all; return it instead"));
}

// In-place ops on metadata (unsqueeze_) of a tensor from outside.
void check_layouts(const Tracer& tracer) {
  for (const PathInput& input : tracer.inputs()) {
    if (!input.fake.defined()) continue;
    const FakeSlot& slot = FakeSlot::of(input.fake);
    WEFT_CHECK(!slot.chain, tracer.part(), ": the sizes of ", input.name,
               ", a tensor from outside, are changed in place (", slot.chain->op->name(),
               "_); return the new view instead");
  }
}

}  // namespace

Arm trace_arm(Tracer& around, std::string name, std::span<const OutputSpec> parameters, const ArmBody& body) {
  TraceOptions options;
  options.around = &around;
  options.part = name;
  Tracer tracer(std::move(options));
  Arm arm;
  arm.name = std::move(name);
  std::vector<ValueId> outputs;
  {
    const TraceScope scope(tracer);
    std::vector<Tensor> given;
    for (uint32_t i = 0; i < parameters.size(); ++i) given.push_back(tracer.add_parameter(i, parameters[i]));
    const std::vector<Tensor> results = body(given);
    for (size_t i = 0; i < results.size(); ++i) {
      WEFT_CHECK(results[i].defined(), arm.name, ": result ", i, " is an undefined tensor");
      const Tensor& fake = tracer.stand_in(results[i]);
      arm.requires_grad.push_back(fake->needs_grad());
      // What belongs to others is copied, so that the node's results are its own.
      const bool is_own = FakeSlot::of(fake).storage->input == kNoInput;
      const Tensor own = contiguous(is_own ? fake : clone(fake));
      outputs.push_back(tracer.output_of(own));
    }
    check_layouts(tracer);
    tracer.reach_items();
  }
  tracer.tell_around();
  arm.has_functions = tracer.has_functions();
  tracer.drop_fakes();
  check_nothing_is_kept(tracer);

  const Graph& path = tracer.graph();
  arm.has_effect =
      std::any_of(path.nodes.begin(), path.nodes.end(), [](const Node& n) { return n.op->has_effect; });
  std::vector<ValueId> reads;
  arm.graph = extract(path, 0, static_cast<NodeId>(path.nodes.size()), outputs, reads);
  arm.graph.name = arm.name.substr(0, arm.name.rfind(" of "));
  std::replace(arm.graph.name.begin(), arm.graph.name.end(), ' ', '_');
  for (const ValueId value : reads) {
    const PathInput& input = tracer.inputs()[tracer.input_of(value)];
    if (input.source.kind == InputSource::Kind::Tangent) {
      arm.reads.push_back({true, input.source.index});
      continue;
    }
    arm.reads.push_back({false, static_cast<uint32_t>(arm.captured.size())});
    arm.captured.push_back(input.outer);
    arm.values.push_back(input.outer_value);
  }
  return arm;
}

Graph without_effects(Graph graph) {
  std::vector<NodeId> kept(graph.nodes.size(), kNoNode);
  NodeId count = 0;
  for (NodeId n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (node.op->has_effect && node.num_outputs == 0) continue;
    if (node.op->has_effect)
      for (Attr& attr : node.attrs)
        if (attr.is<RoutinePtr>())
          if (const auto* arms = dynamic_cast<const Arms*>(&attr.as_routine())) {
            RoutinePtr silent;
            std::tie(node.op, silent) = arms->without_effects();
            attr = Attr(std::move(silent));
          }
    kept[n] = count;
    if (count != n) graph.nodes[count] = std::move(node);
    ++count;
  }
  graph.nodes.resize(count);
  for (Value& value : graph.values)
    if (value.node != kNoNode) value.node = kept[value.node];
  return graph;
}

std::vector<Tensor> replay(Tracer& tracer, const Graph& given, std::span<const Tensor> inputs) {
  const Graph graph = without_effects(given);
  std::vector<Tensor> values(graph.values.size());
  std::vector<bool> is_item(graph.values.size());
  for (const ValueId item : graph.items)
    if (item != kNoValue) is_item[item] = true;
  const auto tell_item = [&](ValueId value) {
    if (!is_item[value]) return;
    for (uint32_t i = 0; i < graph.items.size(); ++i)
      if (graph.items[i] == value) tracer.set_item(i, tracer.value_of(values[value]));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs[i]] = inputs[i];
    tell_item(graph.inputs[i]);
  }
  const bool is_on = grad_mode_enabled();
  for (const Node& node : graph.nodes) {
    const AutoGradMode mode(is_on && node.grad_mode);
    std::vector<Operand> operands;
    for (const Argument& argument : node.operands) {
      if (argument.is_value()) operands.emplace_back(values[argument.value]);
      else if (argument.kind == Argument::Kind::Number) operands.emplace_back(argument.number);
      else operands.emplace_back();
    }
    const std::span<Tensor> outputs(values.data() + node.first_output, node.num_outputs);
    const Arms* arms = nullptr;
    for (const Attr& attr : node.attrs)
      if (attr.is<RoutinePtr>()) arms = dynamic_cast<const Arms*>(&attr.as_routine());
    if (arms != nullptr) {
      std::vector<Tensor> made = arms->record_again(
          node.attrs[0].as<RoutinePtr>(), {*node.op, operands, node.attrs, node.where}, outputs.size());
      std::move(made.begin(), made.end(), outputs.begin());
    } else {
      call_into(*node.op, operands, node.attrs, node.where, outputs);
    }
    for (uint32_t k = 0; k < node.num_outputs; ++k) tell_item(node.first_output + k);
  }
  std::vector<Tensor> outputs;
  for (const ValueId output : graph.outputs) outputs.push_back(values[output]);
  return outputs;
}

// ---- The routine ------------------------------------------------------------------------------------------------------

std::string Arms::identity() const {
  std::ostringstream text;
  for (const Part& part : parts) {
    text << '{' << identity_of(part.graph) << '}';
    for (const uint32_t tensor : part.reads) text << tensor << ',';
  }
  for (const uint32_t symbol : symbols) text << 's' << symbol << ',';
  for (const Number& number : numbers) text << 'n' << number.index << '=' << number.tensor << ',';
  return std::move(text).str();
}

void Arms::print(std::ostream& out) const {
  for (const Part& part : parts) {
    std::string listing = to_string(part.graph);
    listing.pop_back();
    out << "\n    reads";
    for (const uint32_t tensor : part.reads) out << ' ' << tensor;
    out << ": ";
    for (const char c : listing) {
      out << c;
      if (c == '\n') out << "    ";
    }
  }
}

OutputSpecs Arms::specs_of(size_t part) const {
  OutputSpecs specs;
  const Graph& graph = parts[part].graph;
  for (const ValueId output : graph.outputs)
    specs.push_back({graph[output].sizes, graph[output].dtype, graph[output].device});
  return specs;
}

void Arms::take_silent(const Arms& other) {
  for (const Part& part : other.parts)
    parts.push_back({part.name, weft::compiler::without_effects(part.graph), part.reads});
  symbols = other.symbols;
  numbers = other.numbers;
}

Arms::Values::Values(const Arms& arms, std::span<const Operand> tensors, const SymList& symbols) {
  for (size_t i = 0; i < arms.symbols.size(); ++i) {
    if (symbols_.size() <= arms.symbols[i]) symbols_.resize(arms.symbols[i] + 1);
    symbols_[arms.symbols[i]] = symbols[i];
  }
  for (const Number& number : arms.numbers) {
    if (numbers_.size() <= number.index) numbers_.resize(number.index + 1);
    numbers_[number.index] = tensors[number.tensor].tensor->item();
  }
}

void Arms::run_part(size_t part, std::span<const Tensor* const> tensors, const Values& values,
                    std::span<Tensor> outputs) const {
  const GraphRunner* runner;
  {
    const std::lock_guard lock(mutex_);
    runners_.resize(parts.size());
    if (runners_[part] == nullptr) runners_[part] = std::make_unique<const GraphRunner>(parts[part].graph);
    runner = runners_[part].get();
  }
  SmallVector<const Tensor*, 16> inputs;
  for (const uint32_t tensor : parts[part].reads) inputs.push_back(tensors[tensor]);
  const std::span<const Tensor* const> reads(inputs.data(), inputs.size());
  if (grad_mode_enabled()) runner->run_differentiable(reads, values.get(), outputs);
  else runner->run(reads, values.get(), outputs);
}

// ---- The node ---------------------------------------------------------------------------------------------------------

namespace {

// Symbols and numbers of the call that the nodes of a graph name.
struct Names {
  std::set<uint32_t> symbols;
  std::map<uint32_t, ScalarId> numbers;  // by index of Input

  explicit Names(const Expressions& tables) : tables_(tables) {}

  void add(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for_each_number(node, [&](const Scalar& number) { add(number); });
      for (const Attr& attr : node.attrs) {
        if (attr.is<Sym>()) add(attr.as_int());
        if (!attr.is<SymList>()) continue;
        for (const Sym size : attr.as_sizes()) add(size);
      }
    }
  }

 private:
  void add(Sym size) {
    if (!size.is_symbolic()) return;
    for (const uint32_t symbol : tables_.syms.symbols_of(size)) symbols.insert(symbol);
  }
  void add(const Scalar& number) {
    if (number.is_symbolic()) add(number.sym());
    if (!number.is_traced()) return;
    std::vector<ScalarId> open = {number.trace_id()};
    std::set<ScalarId> found;
    while (!open.empty()) {
      const ScalarId id = open.back();
      open.pop_back();
      if (!found.insert(id).second) continue;
      const ScalarExpr& expr = tables_.scalars[id];
      if (expr.kind == ScalarExpr::Kind::Constant) add(expr.constant);
      if (expr.kind == ScalarExpr::Kind::Input) numbers.emplace(expr.index, id);
      if (expr.kind != ScalarExpr::Kind::Binary) continue;
      open.push_back(expr.a);
      open.push_back(expr.b);
    }
  }

  const Expressions& tables_;
};

DType dtype_of(Scalar::Category category) {
  switch (category) {
    case Scalar::Category::Bool: return DType::Bool;
    case Scalar::Category::Integer: return DType::Int64;
    case Scalar::Category::Floating: break;
  }
  return DType::Float64;
}

}  // namespace

ArmsCall assemble(Tracer& around, std::vector<Arm> arms, std::span<const Tensor> parameters, Arms& routine) {
  ArmsCall call;
  for (const Tensor& parameter : parameters) {
    call.tensors.push_back(around.wrap(around.output_of(parameter)));
    call.histories.push_back(parameter);
  }
  std::vector<ValueId> captured;
  const Expressions& tables = *around.graph().expressions;
  Names names(tables);
  for (Arm& arm : arms) {
    names.add(arm.graph);
    std::vector<uint32_t> reads;
    for (const ArmRead& read : arm.reads) {
      if (read.is_parameter) {
        reads.push_back(read.index);
        continue;
      }
      // Two tensors with one value may have two histories.
      const Tensor& tensor = arm.captured[read.index];
      size_t at = parameters.size();
      for (; at < call.tensors.size(); ++at)
        if (captured[at - parameters.size()] == arm.values[read.index] &&
            (tensor.defined() ? tensor.is_same(call.histories[at]) : !call.histories[at].defined()))
          break;
      reads.push_back(static_cast<uint32_t>(at));
      if (at < call.tensors.size()) continue;
      captured.push_back(arm.values[read.index]);
      call.tensors.push_back(around.wrap(arm.values[read.index]));
      call.histories.push_back(tensor);
    }
    call.has_effect = call.has_effect || arm.has_effect;
    routine.parts.push_back({std::move(arm.name), std::move(arm.graph), std::move(reads)});
  }
  for (const uint32_t symbol : names.symbols) {
    routine.symbols.push_back(symbol);
    call.symbols.push_back(around.shapes().symbol(symbol));
  }
  for (const auto& [index, id] : names.numbers) {
    const Scalar::Category category = tables.scalars[id].category;
    routine.numbers.push_back({index, static_cast<uint32_t>(call.tensors.size())});
    call.tensors.push_back(full({}, Scalar::from_trace(category, id), dtype_of(category)));
    call.histories.emplace_back();
  }
  return call;
}

}  // namespace weft::compiler
