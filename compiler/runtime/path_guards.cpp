// From the tracer's record to guards.
#include "compiler/runtime/path_guards.h"

#include <algorithm>

namespace weft::compiler {

namespace {

// How a call comes to a path input, or to what a second route to one leads to.
Route route_to(const Tracer& tracer, const InputSource& source, const PathInput& input,
               const Callee& callee) {
  switch (source.kind) {
    case InputSource::Kind::Argument: return {callee.tensor_name(source.index), source.index};
    case InputSource::Kind::Grad: {
      const PathInput& owner = tracer.inputs()[source.index];
      Route route = route_to(tracer, owner.source, owner, callee);
      route.name += ".grad";
      route.is_grad = true;
      return route;
    }
    default: break;
  }
  const bool is_named = input.source.kind == InputSource::Kind::Captured;
  return {is_named ? input.name : "a captured tensor", Route::kHeld, input.real};
}

}  // namespace

GuardFacts argument_facts(const TracedPath& path, const ArgumentLeaves& leaves, const Callee& callee) {
  const Tracer& tracer = *path.tracer;
  GuardFacts facts(leaves, callee);
  const Effects& effects = path.nodes.back()->effects;
  const auto is_written = [&](uint32_t input) {
    return std::any_of(effects.writes.begin(), effects.writes.end(), [&](const InputWrite& write) {
      // A line is the memory of all tensors that lie in it.
      return write.input == input ||
             (tracer.inputs()[write.input].source.kind == InputSource::Kind::Line &&
              tracer.inputs()[input].real.defined() &&
              tracer.inputs()[input].real->storage ==
                  tracer.inputs()[tracer.inputs()[write.input].source.index].real->storage);
    });
  };
  // C++ code asked for it, or a backward added to it.
  const auto is_looked_at = [&](const PathInput& gradient) {
    return std::any_of(effects.grad_facts.begin(), effects.grad_facts.end(),
                       [&](const GradFact& fact) { return fact.input == gradient.source.index; });
  };
  const auto writes_grad = [&](uint32_t input) {
    return std::any_of(effects.grad_writes.begin(), effects.grad_writes.end(),
                       [&](const GradWrite& write) { return write.input == input; }) ||
           std::any_of(effects.grad_facts.begin(), effects.grad_facts.end(),
                       [&](const GradFact& fact) { return fact.input == input; });
  };
  const auto describe = [&](TensorFacts& tensor, uint32_t i) {
    const PathInput& input = tracer.inputs()[i];
    tensor.is_used = tracer.is_used(i) || is_written(i);
    tensor.is_written = is_written(i);
    tensor.is_grad_written = writes_grad(i);
    // What C++ code did not ask matters only where ops may record it.
    const bool is_recorded = tensor.is_used && tracer.depends_on_grad_mode() && tracer.used_grad_mode();
    if (input.is_grad_asked || is_recorded || tensor.is_grad_written)
      tensor.requires_grad = input.requires_grad;
    else tensor.is_grad_free = tensor.is_used && !tracer.depends_on_grad_mode();
    if (tracer.is_in_line(input.real) || input.has_place) {
      tensor.offset = {true, input.real->layout.offset.concrete(), {}};
      tensor.storage_bytes = {true, static_cast<int64_t>(input.real->storage->bytes()), {}};
    }
  };
  for (uint32_t i = 0; i < tracer.inputs().size(); ++i) {
    const PathInput& input = tracer.inputs()[i];
    if (input.source.kind == InputSource::Kind::Captured)
      facts.captured.push_back({input.name, input.real.impl(), is_written(i), writes_grad(i)});
    if (input.source.kind != InputSource::Kind::Argument) continue;
    // The same tensor may stand in several places: what was found out of it holds for each.
    for (size_t leaf = 0; leaf < leaves.tensors.size(); ++leaf)
      if (leaves.tensors[leaf]->is_same(input.real)) describe(facts.tensors[leaf], i);
  }
  for (uint32_t k = 0; k < tracer.gradients().size(); ++k) {
    const uint32_t i = tracer.gradients()[k];
    const PathInput& input = tracer.inputs()[i];
    // What nobody looked at may be as it likes, and away.
    if (!tracer.is_used(i) && !is_written(i) && !is_looked_at(input) && !tracer.is_in_line(input.real))
      continue;
    const auto leaf = static_cast<uint32_t>(leaves.tensors.size()) + k;
    describe(facts.add_gradient(leaf, route_to(tracer, input.source, input, callee), input.real), i);
  }
  if (tracer.depends_on_grad_mode()) facts.global_mask |= kGradModeBits;
  facts.add_shapes(tracer.shapes(), tracer.graph().expressions);
  facts.add_overlaps(leaves);
  for (const SecondRoute& second : tracer.second_routes()) {
    const PathInput& input = tracer.inputs()[second.input];
    facts.same.push_back(
        {route_to(tracer, input.source, input, callee), route_to(tracer, second.source, input, callee)});
  }
  return facts;
}

GuardFacts exact_facts(const ArgumentLeaves& leaves, const Callee& callee) {
  GuardFacts facts(leaves, callee);
  facts.global_mask |= kGradModeBits;
  for (size_t i = 0; i < facts.tensors.size(); ++i) {
    TensorFacts& tensor = facts.tensors[i];
    const Tensor& x = *leaves.tensors[i];
    if (!tensor.is_defined) continue;
    tensor.requires_grad = x->needs_grad();
    tensor.is_used = tensor.is_written = true;
    for (size_t d = 0; d < tensor.rank; ++d) {
      tensor.sizes.push_back({true, int_sizes(x)[d], {}});
      tensor.strides.push_back({true, int_strides(x)[d], {}});
    }
  }
  for (size_t i = 0; i < facts.numbers.size(); ++i)
    if (facts.numbers[i].kind == NumberLeaf::Kind::Size)
      facts.numbers[i].fixed = {true, leaves.numbers[i].value.to_int(), {}};
  facts.add_overlaps(leaves);
  return facts;
}

std::optional<SymGuardProgram> size_guards(const Tracer& tracer, const SegmentNode& node, bool is_first) {
  const std::vector<SymbolSource>& sources = tracer.shapes().sources();
  const auto is_result = [](const SymbolSource& s) { return s.kind == SymbolSource::Kind::Result; };
  auto first =
      static_cast<uint32_t>(std::find_if(sources.begin(), sources.end(), is_result) - sources.begin());
  if (!is_first) {
    if (node.result_sizes.empty()) return {};
    first = node.result_sizes.front().symbol;
  }
  if (first >= node.num_symbols) return {};
  return SymGuardProgram(tracer.shapes(), tracer.graph().expressions, first,
                         static_cast<uint32_t>(node.num_symbols));
}

}  // namespace weft::compiler
