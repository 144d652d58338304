// Running decompositions on tensors without data and putting what they call in place of a node.
// Place: compiler/passes/decompose.h says where it stands.
#include "compiler/passes/decompose.h"

#include <algorithm>
#include <mutex>

#include "compiler/passes/rewrite.h"
#include "compiler/trace/infer.h"
#include "compiler/trace/recorder.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {

// ---- Registered decompositions ----------------------------------------------------------------------------------------

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const Op*, Decomposition> by_op;
};
Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

}  // namespace

void register_decomposition(std::string_view name, Decomposition decomposition) {
  const Op& op = OpTable::instance().get(name);
  WEFT_CHECK(op.schema.num_outputs == 1 && !op.schema.returns_list, "register_decomposition: ", name,
             " has several results; a decomposition gives one");
  const std::lock_guard lock(registry().mutex);
  registry().by_op[&op] = std::move(decomposition);
}

void unregister_decomposition(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  registry().by_op.erase(&OpTable::instance().get(name));
}

Decomposition decomposition_of(const Op& op) {
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().by_op.find(&op);
    if (found != registry().by_op.end()) return found->second;
  }
  return op.decompose;
}

// ---- Sets -------------------------------------------------------------------------------------------------------------

DecompositionSet DecompositionSet::none() {
  DecompositionSet set;
  set.kinds_ = 0;
  return set;
}
DecompositionSet& DecompositionSet::add(Kind kind) {
  kinds_ |= 1u << static_cast<uint32_t>(kind);
  return *this;
}
DecompositionSet& DecompositionSet::remove(Kind kind) {
  kinds_ &= ~(1u << static_cast<uint32_t>(kind));
  return *this;
}
DecompositionSet& DecompositionSet::add(std::string_view name) {
  const Op& op = OpTable::instance().get(name);
  removed_.erase(&op);
  added_.insert(&op);
  return *this;
}
DecompositionSet& DecompositionSet::remove(std::string_view name) {
  const Op& op = OpTable::instance().get(name);
  added_.erase(&op);
  removed_.insert(&op);
  return *this;
}
bool DecompositionSet::contains(const Op& op) const {
  if (added_.contains(&op)) return true;
  return !removed_.contains(&op) && (kinds_ >> static_cast<uint32_t>(op.kind) & 1) != 0;
}

// ---- The pass ---------------------------------------------------------------------------------------------------------

namespace {

class Decomposer {
 public:
  Decomposer(const Graph& graph, const DecompositionSet& set) : graph_(graph), set_(set), rewriter_(graph) {
    // Inside a trace its environment answers, and guards what it assumes.
    if (current_sym_environment() == nullptr) environment_.emplace(*graph.expressions);
  }

  Graph run() {
    rewriter_.copy_inputs();
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!set_.contains(*node.op)) {
        rewriter_.copy(n);
        continue;
      }
      OutputSpecs specs;
      for (uint32_t k = 0; k < node.num_outputs; ++k) specs.push_back(graph_[node.first_output + k].spec());
      const ValueId first = emit(rewriter_.translated(node), specs);
      for (uint32_t k = 0; k < node.num_outputs; ++k) rewriter_.set(node.first_output + k, first + k);
    }
    return rewriter_.finish();
  }

 private:
  // Appends the node, or what it is made of. Nests as deep as the decompositions of the table do.
  ValueId emit(Node node, const OutputSpecs& specs) {
    const bool is_open = std::find(open_.begin(), open_.end(), node.op) != open_.end();
    if (!is_open && set_.contains(*node.op) && !primitives_.contains(node.op)) {
      if (const Decomposition body = decomposition_of(*node.op))
        if (const std::optional<ValueId> result = expand(node, specs[0], body)) return *result;
    }
    return rewriter_.to().add_node(std::move(node), {specs.data(), specs.size()});
  }

  std::optional<ValueId> expand(const Node& node, const OutputSpec& spec, const Decomposition& body) {
    Graph parts(graph_.expressions);
    std::optional<ValueId> result;
    try {
      if (environment_) environment_->reset();
      result = record(node, spec, body, parts);
      if (!result || (environment_ && environment_->has_guessed())) return std::nullopt;
    } catch (const TableEnvironment::UnknownNumber&) {
      return std::nullopt;
    } catch (const Error&) {
      // The op takes these sizes; a part that does not was asked by hint.
      if (!environment_ || !environment_->has_guessed()) throw;
      return std::nullopt;
    }
    const auto is_itself = [&](const Node& part) { return part.op == node.op; };
    if (std::any_of(parts.nodes.begin(), parts.nodes.end(), is_itself)) {
      primitives_.insert(node.op);
      return std::nullopt;
    }
    // The parts go to the end of the graph, each decomposed in turn.
    std::vector<ValueId> now(parts.values.size(), kNoValue);
    size_t input = 0;
    for (const Argument& argument : node.operands)
      if (argument.is_value()) now[parts.inputs[input++]] = argument.value;
    open_.push_back(node.op);
    for (const Node& part : parts.nodes) {
      Node copy = part;
      for (Argument& argument : copy.operands)
        if (argument.is_value()) argument.value = now[argument.value];
      OutputSpecs specs;
      for (uint32_t k = 0; k < part.num_outputs; ++k) specs.push_back(parts[part.first_output + k].spec());
      const ValueId first = emit(std::move(copy), specs);
      for (uint32_t k = 0; k < part.num_outputs; ++k) now[part.first_output + k] = first + k;
    }
    open_.pop_back();
    return now[*result];
  }

  // Runs the body on tensors that stand for the operands; `parts` has an input for each. Nothing where the result cannot
  // be given the strides of the op.
  std::optional<ValueId> record(const Node& node, const OutputSpec& spec, const Decomposition& body,
                                Graph& parts) const {
    for (const Argument& argument : node.operands)
      if (argument.is_value()) parts.add_input(rewriter_.to()[argument.value].spec());
    Recorder recorder(parts, "decomposition of " + node.op->name());
    recorder.set_origin(node);
    std::vector<Tensor> tensors;
    for (ValueId input : parts.inputs) tensors.push_back(recorder.tensor_of(input));
    std::vector<Operand> operands;
    size_t input = 0;
    for (const Argument& argument : node.operands) {
      if (argument.is_value()) operands.emplace_back(tensors[input++]);
      else if (argument.kind == Argument::Kind::Number) operands.emplace_back(argument.number);
      else operands.emplace_back();
    }
    const CompositeScope scope(*node.op, node.where);
    const Tensor result = body(Call{*node.op, operands, node.attrs, node.where});
    WEFT_CHECK(result.defined() && result.dtype() == spec.dtype && result.sizes() == SizesView(spec.sizes),
               "decomposition of ", node.op->name(), ": it gives ", describe(result), " instead of ",
               spec.sizes, ' ', spec.dtype);
    const Value& value = parts[recorder.value_of(result)];
    const bool is_fresh = value.node != kNoNode && parts.nodes[value.node].op->kind != Kind::View;
    if (is_fresh && has_strides(value.strides, spec)) return recorder.value_of(result);
    // A copy has memory of its own, and one of these layouts.
    const Op &clone = WEFT_OP("clone"), &empty = WEFT_OP("empty"), &copy = WEFT_OP("copy");
    for (const bool row_major : {false, true})
      if (gives(clone, {result}, {row_major}, spec))
        return recorder.value_of(call(clone, {result}, {row_major}, {}));
    if (!spec.strides) return std::nullopt;
    const Attrs as_wanted = {SymList(spec.sizes), spec.dtype, spec.device, SymList(*spec.strides)};
    if (!gives(copy, {make_hollow(spec), result}, {false}, spec)) return std::nullopt;
    return recorder.value_of(call(copy, {call(empty, {}, as_wanted, {}), result}, {false}, {}));
  }

  bool has_strides(const Sizes& strides, const OutputSpec& spec) const {
    const Sizes wanted = spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes);
    return std::equal(strides.begin(), strides.end(), wanted.begin(), wanted.end(),
                      [&](Sym a, Sym b) { return is_equal(graph_.expressions->syms, a, b); });
  }
  bool gives(const Op& op, std::initializer_list<Operand> operands, const Attrs& attrs,
             const OutputSpec& spec) const {
    const auto specs = infer_results(Call{op, std::span(operands.begin(), operands.size()), attrs, {}});
    const OutputSpec& given = (*specs)[0];
    return has_strides(given.strides ? *given.strides : contiguous_strides<Sym>(given.sizes), spec);
  }

  const Graph& graph_;
  const DecompositionSet& set_;
  Rewriter rewriter_;
  std::optional<TableEnvironment> environment_;
  std::vector<const Op*> open_;  // being decomposed
  std::unordered_set<const Op*> primitives_;
};

}  // namespace

Graph decompose(const Graph& graph, const DecompositionSet& set) { return Decomposer(graph, set).run(); }

}  // namespace weft::compiler
