// Classifying what a function returns and leaves behind, and recording its backward.
#include "compiler/trace/effects.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/tape.h"

namespace weft::compiler {
namespace {

// With more differentiable outputs, those that get no gradient are dealt with when that happens.
constexpr size_t kMaxPullbacks = 4;
// More parts of one gradient are added up inside, so that a weight that is used in each step of a long loop does not
// have as many gradients in memory at a time.
constexpr size_t kMaxParts = 16;

std::vector<ViewStep> steps_of(const FakeSlot& slot) {
  std::vector<ViewStep> steps;
  for (const FakeView* view = slot.chain.get(); view != nullptr; view = view->before.get())
    steps.push_back({view->op, view->attrs});
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// Hooks of the tensors that gradients arrive at run outside, when they have arrived there.
class WithoutHooks {
 public:
  explicit WithoutHooks(std::span<const autograd::Target> targets) {
    for (const autograd::Target& target : targets) {
      taken_.emplace_back(target.edge.node, nullptr);
      taken_.back().second.swap(target.edge.node->hooks);
    }
  }
  ~WithoutHooks() {
    while (!taken_.empty()) {
      taken_.back().first->hooks.swap(taken_.back().second);
      taken_.pop_back();
    }
  }
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;

 private:
  std::vector<std::pair<Intrusive<autograd::Node>, std::unique_ptr<autograd::Hooks>>> taken_;
};

class Collector {
 public:
  Collector(Tracer& tracer, Effects& effects) : tracer_(tracer), effects_(effects) {}

  void collect(const ResultLeaves& results) {
    for (const Tensor& tensor : results.tensors)
      results_.push_back(tensor.defined() ? tracer_.stand_in(tensor) : tensor);
    for (const Tensor& tensor : results_) effects_.tensors.push_back(plan(tensor));
    effects_.numbers = results.numbers;
    for (NumberLeaf& number : effects_.numbers)
      if (number.value.is_symbolic()) number.value = Scalar(tracer_.shapes().settle(number.value.sym()));
    check_no_hooks_added();
    collect_gradients();
    collect_layouts();
    collect_writes();
    effects_.cell_writes = tracer_.cell_writes();
    effects_.forward_end = static_cast<NodeId>(tracer_.graph().nodes.size());
    record_backward();
  }

 private:
  // Whether it lies in a tensor of host data.
  bool is_in_constant(const FakeSlot& slot) const {
    const uint32_t input = slot.storage->input;
    return input != kNoInput && tracer_.inputs()[input].source.kind == InputSource::Kind::Constant;
  }

  uint32_t output(const Tensor& fake) {
    ValueId value = tracer_.output_of(fake);
    // One output for one tensor: two tensors with one value stay two.
    for (size_t i = 0; i < fakes_.size(); ++i)
      if (fakes_[i].is_same(fake)) return static_cast<uint32_t>(i);
    if (const FakeSlot& slot = FakeSlot::of(fake); is_in_constant(slot) && !slot.storage->is_written) {
      // Eager code makes it anew at each call; whoever gets it may write into it.
      const AutoGradMode off(false);
      value = tracer_.value_of(clone(tracer_.wrap(value), fake->made_at));
    }
    effects_.outputs.push_back(value);
    fakes_.push_back(fake);
    return static_cast<uint32_t>(fakes_.size() - 1);
  }

  // The result that is the memory of this view as it is now.
  const Tensor* base_among_results(const FakeSlot& slot) const {
    for (const Tensor& result : results_) {
      if (!result.defined()) continue;
      const FakeSlot& other = FakeSlot::of(result);
      if (other.storage == slot.storage && !other.chain) return &result;
    }
    return nullptr;
  }

  // The input that this fake stands for; one that took another layout is still the same tensor.
  uint32_t input_of(const Tensor& fake) const {
    const FakeSlot& slot = FakeSlot::of(fake);
    for (const uint32_t input : {slot.input, slot.storage->input})
      if (input != kNoInput && tracer_.inputs()[input].fake.is_same(fake)) return input;
    return kNoInput;
  }

  OutputPlan plan(const Tensor& given) {
    OutputPlan result;
    if (!given.defined()) return result;
    const Tensor& fake = tracer_.stand_in(given);
    const FakeSlot& slot = FakeSlot::of(fake);
    result.made_by = fake->made_by;
    result.made_at = fake->made_at;
    result.requires_grad = fake->needs_grad();
    for (size_t i = 0; i < effects_.tensors.size(); ++i) {
      if (!results_[i].defined() || !results_[i].is_same(fake)) continue;
      result.kind = OutputPlan::Kind::Again;
      result.index = static_cast<uint32_t>(i);
      return result;
    }
    const bool is_constant = is_in_constant(slot);
    const uint32_t memory = is_constant ? kNoInput : slot.storage->input;
    if (const uint32_t itself = is_constant ? kNoInput : input_of(fake); itself != kNoInput) {
      result.kind = OutputPlan::Kind::Input;
      result.index = itself;
      result.requires_grad = false;  // it is what it is
    } else if (memory != kNoInput) {
      result.kind = OutputPlan::Kind::View;
      const PathInput& input = tracer_.inputs()[memory];
      result.index = input.source.kind == InputSource::Kind::Line ? input.source.index : memory;
      result.steps = steps_of(slot);
    } else {
      // A view of another result follows it, as in eager code.
      const Tensor* base = slot.chain ? base_among_results(slot) : nullptr;
      if (base != nullptr && (*base)->needs_grad() == fake->needs_grad()) {
        result.kind = OutputPlan::Kind::Part;
        result.index = output(*base);
        result.steps = steps_of(slot);
        return result;
      }
      result.kind = OutputPlan::Kind::Fresh;
      result.index = output(fake);
    }
    return result;
  }

  // A hook of a tensor from outside would stay there.
  void check_no_hooks_added() const {
    for (const PathInput& input : tracer_.inputs()) {
      if (!input.entry || input.entry.node->hooks == nullptr) continue;
      size_t outside = 0;
      if (is_leaf_outside(input.real))
        if (const auto& hooks = autograd::tape_of(input.real)->accumulator->hooks)
          outside = hooks->entries.size();
      WEFT_CHECK(
          input.entry.node->hooks->entries.size() <= outside, "register_hook: ", input.name,
          " comes from outside of the compiled function, where the hook would stay; register it outside");
    }
  }

  // What the function did to the .grad of leaves.
  void collect_gradients() {
    for (uint32_t i = 0; i < tracer_.inputs().size(); ++i) {
      const PathInput& input = tracer_.inputs()[i];
      const autograd::Tape* tape = input.fake.defined() ? autograd::tape_of(input.fake) : nullptr;
      if (tape == nullptr || !tape->cell || !tape->cell->is_touched) continue;
      const Tensor gradient = tape->cell->grad;
      if (input.real.defined() && gradient.defined() && input.real->needs_grad() &&
          !is_leaf_outside(input.real))
        WEFT_CHECK(false, "backward: ", input.name, " has a history outside of the compiled function, where ",
                   "a backward inside cannot go; call backward() outside, or detach() ", input.name,
                   " and mark it requires_grad_()");
      effects_.grad_facts.push_back({i, input.has_grad});
      if (!gradient.defined()) {
        if (input.has_grad) effects_.grad_writes.push_back({i, {}});
        continue;
      }
      const FakeSlot& slot = FakeSlot::of(gradient);
      const bool is_former = input.has_grad && slot.input != kNoInput &&
                             tracer_.inputs()[slot.input].source.kind == InputSource::Kind::Grad &&
                             tracer_.inputs()[slot.input].source.index == i &&
                             tracer_.inputs()[slot.input].fake.is_same(gradient);
      if (!is_former) effects_.grad_writes.push_back({i, plan(gradient)});
    }
  }

  static bool is_leaf_outside(const Tensor& real) {
    const TracePause pause;
    return autograd::is_leaf(real);
  }

  void collect_layouts() {
    for (uint32_t i = 0; i < tracer_.inputs().size(); ++i) {
      const PathInput& input = tracer_.inputs()[i];
      if (!input.fake.defined() || input.source.kind == InputSource::Kind::Line ||
          input.source.kind == InputSource::Kind::Tangent)
        continue;
      const FakeSlot& slot = FakeSlot::of(input.fake);
      std::vector<ViewStep> steps = steps_of(slot);
      // A tensor that shares its memory began as a view of the line.
      if (input.real.defined() && tracer_.is_in_line(input.real)) steps.erase(steps.begin());
      else if (slot.storage->input != i) continue;
      if (!steps.empty()) effects_.layout_writes.push_back({i, std::move(steps), input.fake->made_at});
    }
  }

  // The memory of inputs that in-place ops changed.
  void collect_writes() {
    for (uint32_t i = 0; i < tracer_.inputs().size(); ++i) {
      const PathInput& input = tracer_.inputs()[i];
      if (!input.fake.defined() || input.source.kind == InputSource::Kind::Constant) continue;
      FakeSlot& slot = FakeSlot::of(input.fake);
      FakeStorage& storage = *slot.storage;
      if (storage.input != i || !storage.is_written) continue;
      // Where the tensor took another layout, the memory is written as it was.
      const bool is_whole = !slot.chain;
      InputWrite write{i, 0, is_whole && input.fake->is_rewritten && input.fake->needs_grad(), false,
                       storage.written_at};
      write.is_unchanged = storage.base == input.value && !write.is_recorded;
      if (is_whole) {
        write.output = output(input.fake);
      } else {
        effects_.outputs.push_back(storage.base);
        fakes_.push_back(Tensor());
        write.output = static_cast<uint32_t>(fakes_.size() - 1);
      }
      effects_.writes.push_back(write);
    }
  }

  // The joint graph: the ordinary engine runs on the fakes. Note [Backward of a path]
  void record_backward() {
    std::vector<Tensor> roots;
    std::vector<bool> is_given;  // by root: the caller gets it, rather than finds it in an input
    if (grad_mode_enabled() || tracer_.used_grad_mode()) {
      const auto add = [&](const Tensor& fake, Root root, bool given) {
        if (!fake.defined() || !fake->needs_grad() || autograd::is_leaf(fake)) return;
        effects_.differentiable.push_back(root);
        roots.push_back(fake);
        is_given.push_back(given);
      };
      for (uint32_t i = 0; i < fakes_.size(); ++i) {
        const bool is_returned = std::any_of(
            effects_.tensors.begin(), effects_.tensors.end(),
            [&](const OutputPlan& p) { return p.kind == OutputPlan::Kind::Fresh && p.index == i; });
        const bool is_recorded =
            std::any_of(effects_.writes.begin(), effects_.writes.end(),
                        [&](const InputWrite& w) { return w.output == i && w.is_recorded; });
        if (is_returned || is_recorded) add(fakes_[i], {false, i}, is_returned);
      }
      // A view of an input or of another result is made outside, but its gradient goes through here, where the function may have used it too.
      for (uint32_t i = 0; i < effects_.tensors.size(); ++i)
        if ((effects_.tensors[i].kind == OutputPlan::Kind::View ||
             effects_.tensors[i].kind == OutputPlan::Kind::Part) &&
            effects_.tensors[i].requires_grad)
          add(results_[i], {true, i}, true);
      effects_.views.assign(results_.size(), kNoValue);
      for (const Root root : effects_.differentiable)
        if (root.is_result) effects_.views[root.index] = tracer_.value_of(results_[root.index]);
    }
    if (roots.empty()) return;
    effects_.has_functions = tracer_.has_functions();
    check_no_kept_gradients();
    std::vector<uint32_t> inputs;
    for (uint32_t i = 0; i < tracer_.inputs().size(); ++i)
      if (tracer_.inputs()[i].entry) inputs.push_back(i);
    std::vector<Tensor> tangents;
    for (size_t k = 0; k < roots.size(); ++k) {
      tracer_.shapes().settle(roots[k]->layout);
      tangents.push_back(tracer_.add_tangent(static_cast<uint32_t>(k),
                                             {roots[k]->layout.sizes, roots[k]->dtype, roots[k]->device}));
      effects_.tangents.push_back(tracer_.value_of(tangents.back()));
    }
    if (inputs.empty()) return;
    // Undefined gradients are no zeros: 0 times infinity is NaN. Where few outputs differ, each has a pullback of its own.
    const size_t count = roots.size();
    std::vector<Parts> all;
    all.push_back(record_pullback(std::vector<bool>(count, true), roots, inputs, tangents));
    for (size_t k = 0; count > 1 && count <= kMaxPullbacks && k < count; ++k) {
      std::vector<bool> mask(count, false);
      mask[k] = true;
      all.push_back(record_pullback(std::move(mask), roots, inputs, tangents));
    }
    // Backward of the results, without what was written into inputs, is what callers ask for.
    const auto num_given = std::count(is_given.begin(), is_given.end(), true);
    const bool is_known = num_given == 1 && count <= kMaxPullbacks;
    if (num_given > 0 && static_cast<size_t>(num_given) < count && !is_known)
      all.push_back(record_pullback(is_given, roots, inputs, tangents));
    // One edge for each part, so that the engine outside adds them up in eager's order, between what else arrives there.
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t most = 0;
      for (const Parts& parts : all) most = std::max(most, parts.empty() ? 0 : parts[i].size());
      for (size_t k = 0; k < most; ++k) {
        effects_.wanted.push_back(inputs[i]);
        for (size_t p = 0; p < all.size(); ++p)
          effects_.pullbacks[p].gradients.push_back(!all[p].empty() && k < all[p][i].size() ? all[p][i][k]
                                                                                            : kNoValue);
      }
    }
  }

  // The gradient of an intermediate flows inside the function, where nobody outside can see it.
  void check_no_kept_gradients() const {
    for (const FakeSlot* slot = tracer_.life()->first; slot != nullptr; slot = slot->next()) {
      const auto* tape = static_cast<const autograd::Tape*>(slot->owner().tape.get());
      WEFT_CHECK(tape == nullptr || !tape->retains_grad, "retain_grad: the gradient of the ",
                 slot->owner().made_by != nullptr ? slot->owner().made_by->name() : "tensor",
                 " result made at ", weft::to_string(slot->owner().made_at),
                 " flows inside the compiled function, where a backward() from outside cannot keep it; call "
                 "backward() "
                 "inside the function, or take autograd::grad with respect to it");
    }
  }

  using Parts = std::vector<std::vector<ValueId>>;  // by input; empty after an error

  Parts record_pullback(std::vector<bool> mask, const std::vector<Tensor>& roots,
                        const std::vector<uint32_t>& inputs, const std::vector<Tensor>& tangents) {
    Graph& graph = tracer_.graph();
    Pullback pullback;
    pullback.begin = static_cast<NodeId>(graph.nodes.size());
    const size_t num_values = graph.values.size();
    std::vector<autograd::Root> from;
    for (size_t k = 0; k < mask.size(); ++k)
      if (mask[k]) from.push_back({autograd::gradient_edge(roots[k]), tangents[k]});
    std::vector<autograd::Target> targets;
    for (const uint32_t input : inputs) targets.push_back({tracer_.inputs()[input].entry, {}});
    Parts parts(inputs.size());
    const WithoutHooks quiet(targets);
    try {
      autograd::walk(from, targets, {.retain_graph = true, .accumulate = false, .keeps_parts = true});
      for (size_t i = 0; i < inputs.size(); ++i) {
        std::vector<Tensor>& given = targets[i].parts;
        if (given.size() > kMaxParts) {
          Tensor sum = given[0];
          for (size_t k = 1; k < given.size(); ++k) sum = sum + given[k];
          given.assign(1, sum);
        }
        for (const Tensor& part : given) parts[i].push_back(tracer_.value_of(part));
      }
    } catch (const Error& error) {
      // Eager raises it in backward, which may never be called.
      pullback.error = error;
      graph.nodes.resize(pullback.begin);
      graph.values.resize(num_values);
      parts.clear();
    }
    pullback.end = static_cast<NodeId>(graph.nodes.size());
    pullback.mask = std::move(mask);
    effects_.pullbacks.push_back(std::move(pullback));
    return parts;
  }

  Tracer& tracer_;
  Effects& effects_;
  std::vector<Tensor> fakes_;    // by output
  std::vector<Tensor> results_;  // by tensor leaf of the result
};

}  // namespace

Effects collect_effects(Tracer& tracer, const ResultLeaves& results) {
  Effects effects;
  Collector(tracer, effects).collect(results);
  return effects;
}

void check_nothing_escaped(const Tracer& tracer) {
  const TensorImpl* escaped = tracer.find_escaped();
  if (escaped == nullptr) return;
  const std::string place = weft::to_string(escaped->made_at);
  weft::detail::throw_error(weft::detail::concat(
      "compile: the tensor ", SizesView(escaped->layout.sizes), " ", escaped->dtype, " that ",
      escaped->made_by != nullptr ? escaped->made_by->name() : "an op", " made", place.empty() ? "" : " at ",
      place,
      " is still held after the function has returned (stored in a member or a captured variable), where it "
      "has no "
      "data; return it, or keep such state in a tensor made outside and write into that (copy_)"));
}

}  // namespace weft::compiler
