// How an arm of cond or while_loop is traced: by a tracer inside that of the function.
// Place: the part of Tracer that knows of the trace around it; arm.h uses it.
#include <algorithm>

#include "compiler/trace/tracer.h"

namespace weft::compiler {

// Note [Arms]
// The arms of cond and while_loop are graphs of their own, inside one node of the path. Each is traced by a tracer of its own,
// while the trace around it waits: what the arm reaches of that trace becomes an input of its graph, which the node reads.
// Symbols, numbers and guards are those of the path, so that sizes mean the same inside and outside. An arm must be pure,
// since it may run or not, or many times: it writes to nothing outside, asks for no value and draws no random numbers.

void Tracer::refuse_in_arm(const char* what, SourceLocation where) const {
  if (options_.around == nullptr) return;
  const std::string place = weft::to_string(where);
  weft::detail::throw_error(weft::detail::concat(options_.part, ": ", what, place.empty() ? "" : " at ",
                                                 place,
                                                 "; an arm is one graph without effects on what is outside "
                                                 "of it: do this before or after, or use where()"));
}

void Tracer::check_may_write(const Call& call, const FakeStorage& storage) const {
  if (options_.around == nullptr || storage.input == kNoInput) return;
  const PathInput& input = inputs_[storage.input];
  weft::detail::throw_error(weft::detail::concat(
      options_.part, ": ", call.name(), " writes into ",
      input.outer.defined() ? "a tensor from outside (" : "a tensor that it was given (",
      describe(input.fake), "); an arm must be pure, since it may not run at all: return the new value (",
      call.op.base != nullptr ? call.op.base->name() : "clone", ") and write it outside"));
}

const Tensor& Tracer::reach_out(const Tensor& x) {
  Tracer& around = *options_.around;
  Tensor outer;
  ValueId value;
  {
    const TraceScope scope(around);
    outer = around.stand_in(x);
    const auto known = input_of_tensor_.find(outer.impl());
    if (known != input_of_tensor_.end()) return inputs_[known->second].fake;
    value = around.output_of(outer);
    if (FakeSlot& slot = FakeSlot::of(outer); slot.input != kNoInput) around.used_[slot.input] = true;
  }
  std::string name;
  if (const Value& v = around.graph_[value]; v.node == kNoNode && v.index < around.graph_.input_names.size())
    name = around.graph_.input_names[v.index];
  const uint32_t index =
      add_outer(value, name.empty() ? weft::detail::concat("outer", inputs_.size()) : name);
  PathInput& input = inputs_[index];
  input.outer = outer;
  FakeSlot::of(input.fake).input = index;
  input.fake->made_by = outer->made_by;
  input.fake->made_at = outer->made_at;
  input.requires_grad = outer->needs_grad();
  if (input.requires_grad) enter_history(input);
  input_of_tensor_.emplace(outer.impl(), index);
  if (!x.is_same(outer)) input_of_tensor_.emplace(x.impl(), index);
  return input.fake;
}

uint32_t Tracer::add_outer(ValueId outer_value, std::string name) {
  const uint32_t index = static_cast<uint32_t>(inputs_.size());
  inputs_.emplace_back();
  used_.push_back(true);
  PathInput& input = inputs_[index];
  const OutputSpec spec = options_.around->graph_[outer_value].spec();
  input.source = {InputSource::Kind::Captured, index};
  input.outer_value = outer_value;
  input.value = graph_.add_input(spec, name);
  input.name = std::move(name);
  input_of_value_.emplace(input.value, index);
  input.fake = fake_of(spec, input.value);
  FakeSlot::of(input.fake).storage->input = index;
  return index;
}

Tensor Tracer::add_parameter(uint32_t index, const OutputSpec& spec) {
  const Tensor fake = add_tangent(index, spec);
  FakeSlot::of(fake).storage->input = static_cast<uint32_t>(inputs_.size() - 1);
  return fake;
}

void Tracer::tell_around() {
  Tracer& around = *options_.around;
  around.used_grad_mode_ = around.used_grad_mode_ || used_grad_mode_;
  around.depends_on_grad_mode_ = around.depends_on_grad_mode_ || depends_on_grad_mode_;
}

// ---- Numbers ----------------------------------------------------------------------------------------------------------

void Tracer::set_item(uint32_t index, ValueId value) {
  for (Tracer* tracer = this; tracer != nullptr; tracer = tracer->options_.around) {
    std::vector<ValueId>& items = tracer->graph_.items;
    if (items.size() <= index) items.resize(index + 1, kNoValue);
    if (tracer->options_.around == nullptr && tracer != this) tracer->has_arm_items_ = true;
  }
  graph_.items[index] = value;
}

namespace {

// Calls f(index) for each item() that the number is made of.
template <class F>
void for_each_item(const ScalarTable& table, const Scalar& number, const F& f) {
  if (!number.is_traced()) return;
  std::vector<ScalarId> found = {number.trace_id()};  // grows while it is walked
  for (size_t i = 0; i < found.size(); ++i) {
    const ScalarExpr& expr = table[found[i]];
    if (expr.kind == ScalarExpr::Kind::Item) f(expr.index);
    if (expr.kind != ScalarExpr::Kind::Binary) continue;
    for (const ScalarId part : {expr.a, expr.b})
      if (std::find(found.begin(), found.end(), part) == found.end()) found.push_back(part);
  }
}

}  // namespace

// A number made of an item() inside an arm has no value outside of it.
void Tracer::check_values_are_there(const Scalar& number) {
  for_each_item(graph_.expressions->scalars, number, [&](uint32_t index) {
    for (const Tracer* tracer = this; tracer != nullptr; tracer = tracer->options_.around)
      if (index < tracer->graph_.items.size() && tracer->graph_.items[index] != kNoValue) return;
    weft::detail::throw_error(
        "cond, while_loop: a number that item() gave inside an arm is used outside of it, where it has no "
        "value; let the arm return the tensor");
  });
}

void Tracer::reach_item(uint32_t index) {
  std::vector<ValueId>& items = graph_.items;
  if (index < items.size() && items[index] != kNoValue) return;
  Tracer& around = *options_.around;
  around.reach_item(index);
  const uint32_t input = add_outer(around.graph_.items[index], weft::detail::concat("item", index));
  set_item(index, inputs_[input].value);
}

void Tracer::reach_items() {
  // Inputs come and the nodes stay.
  for (const Node& node : graph_.nodes)
    for_each_number(node, [&](const Scalar& number) {
      for_each_item(graph_.expressions->scalars, number, [&](uint32_t index) { reach_item(index); });
    });
}

}  // namespace weft::compiler
