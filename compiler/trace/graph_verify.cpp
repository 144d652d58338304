// What must hold of every graph, checked between passes.
// Place: the checking half of compiler/trace/graph.h.
#include <algorithm>

#include "compiler/trace/infer.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), environment_(*graph.expressions), hollow_(graph) {}

  void verify() {
    check_inputs();
    for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      check_node(n, node);
      check_slots(n, node);
      check_attributes(n, node);
      check_results(n, node);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      require(graph_.outputs[i] < graph_.values.size(), "output ", i, " is %", graph_.outputs[i],
              ", which does not exist");
    for (size_t i = 0; i < graph_.items.size(); ++i)
      require(graph_.items[i] == kNoValue || graph_.items[i] < graph_.values.size(), "item ", i, " is %",
              graph_.items[i], ", which does not exist");
    check_overwrites();
  }

 private:
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) [[likely]]
      return;
    std::string listing;
    // A broken graph may not even print.
    try {
      listing = to_string(graph_);
    } catch (const std::exception& error) {
      listing = error.what();
    }
    constexpr bool graph_is_valid = false;
    WEFT_ASSERT(graph_is_valid, "graph '", graph_.name, "': ", parts..., "\n", listing);
  }

  template <class... Parts>
  void require_of(bool condition, NodeId n, const Parts&... parts) const {
    if (!condition) [[unlikely]] {
      const Op* op = graph_.nodes[n].op;
      require(false, "node ", n, " (", op != nullptr ? op->name() : std::string("no op"), "): ", parts...);
    }
  }

  void check_overwrites() const {
    std::vector<bool> is_replaced(graph_.inputs.size()), replaces(graph_.outputs.size());
    for (const auto& [output, input] : graph_.overwrites) {
      require(output < graph_.outputs.size() && input < graph_.inputs.size(), "output ", output,
              " overwrites input ", input, "; there are ", graph_.outputs.size(), " and ",
              graph_.inputs.size());
      require(!replaces[output] && !is_replaced[input], "output ", output, " or input ", input,
              " is part of two overwrites");
      replaces[output] = is_replaced[input] = true;
      const Value &made = graph_[graph_.outputs[output]], &given = graph_[graph_.inputs[input]];
      require(made.dtype == given.dtype && made.device == given.device && is_equal(made.sizes, given.sizes),
              "output ", output, " overwrites input ", input, ", which is of another type");
    }
  }

  void check_inputs() {
    require(graph_.expressions != nullptr, "it has no tables");
    require(graph_.input_names.size() <= graph_.inputs.size(), graph_.input_names.size(), " names for ",
            graph_.inputs.size(), " inputs");
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      require(id < graph_.values.size(), "input ", i, " is %", id, ", which does not exist");
      const Value& value = graph_[id];
      require(value.node == kNoNode && value.index == i, "%", id, " is input ", i, " but says otherwise");
    }
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_[id];
      require(value.sizes.size() == value.strides.size(), "%", id, " has ", value.sizes.size(), " sizes and ",
              value.strides.size(), " strides");
      if (value.node == kNoNode) {
        require(value.index < graph_.inputs.size() && graph_.inputs[value.index] == id, "%", id,
                " has neither a node nor a place among the inputs");
        continue;
      }
      require(value.node < graph_.nodes.size(), "%", id, " comes from node ", value.node,
              ", which does not exist");
      const Node& node = graph_.nodes[value.node];
      require(value.index < node.num_outputs && node.first_output + value.index == id, "%", id,
              " is not the result of its node");
    }
  }

  void check_node(NodeId n, const Node& node) const {
    require(node.op != nullptr, "node ", n, " has no op");
    const Op& op = *node.op;
    require_of(op.kind != Kind::Mutation && op.kind != Kind::Composite, n, "a ", name_of(op.kind),
               " is left in a functional graph of primitive ops");
    require_of(op.schema.returns_list || static_cast<uint32_t>(op.schema.num_outputs) == node.num_outputs, n,
               "it has ", node.num_outputs, " results; the schema says ", op.schema.num_outputs);
    require_of(node.first_output + size_t{node.num_outputs} <= graph_.values.size(), n,
               "its results do not exist");
    for (uint32_t k = 0; k < node.num_outputs; ++k) {
      const Value& value = graph_[node.first_output + k];
      require_of(value.node == n && value.index == k, n, "%", node.first_output + k,
                 " does not know it as its node");
    }
    for (const Argument& argument : node.operands)
      require_of(!argument.is_value() || is_before(argument.value, n), n, "%", argument.value,
                 " is read before it is there");
    check_numbers(n, node);
  }

  void check_numbers(NodeId n, const Node& node) const {
    std::vector<ScalarId> found;  // grows while it is walked
    const auto reach = [&](ScalarId id) {
      require_of(id < graph_.expressions->scalars.size(), n,
                 "a number names an expression that does not exist");
      if (std::find(found.begin(), found.end(), id) == found.end()) found.push_back(id);
    };
    for_each_number(node, [&](const Scalar& number) {
      if (number.is_traced()) reach(number.trace_id());
    });
    for (size_t i = 0; i < found.size(); ++i) {
      const ScalarExpr& expr = graph_.expressions->scalars[found[i]];
      if (expr.kind == ScalarExpr::Kind::Item)
        require_of(expr.index < graph_.items.size() && is_before(graph_.items[expr.index], n), n, "item ",
                   expr.index, " is read before its value is there");
      if (expr.kind != ScalarExpr::Kind::Binary) continue;
      reach(expr.a);
      reach(expr.b);
    }
  }

  bool is_before(ValueId value, NodeId n) const {
    return value < graph_.values.size() && (graph_[value].node == kNoNode || graph_[value].node < n);
  }

  void check_slots(NodeId n, const Node& node) const {
    const std::vector<Param>& params = node.op->schema.params;
    size_t slots = 0;
    bool has_list = false;
    for (size_t p = 0; p < params.size(); ++p) {
      const Param& param = params[p];
      if (!param.is_operand()) continue;
      const auto slot = static_cast<size_t>(node.op->schema.operand_index(p));
      const bool is_list = param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList;
      if (is_list) {
        has_list = true;
        for (size_t i = slot; i < node.operands.size(); ++i) check_slot(n, param, node.operands[i], i);
        continue;
      }
      slots = std::max(slots, slot + 1);
      check_slot(n, param, slot < node.operands.size() ? node.operands[slot] : Argument(), slot);
    }
    require_of(has_list || node.operands.size() <= slots, n, "it has ", node.operands.size(),
               " operands; the schema has ", slots);
  }

  void check_slot(NodeId n, const Param& param, const Argument& argument, size_t slot) const {
    const ParamType type = param.type;
    const bool takes_number =
        type == ParamType::Number || type == ParamType::Value || type == ParamType::OptionalValue;
    bool fits = false;
    switch (argument.kind) {
      case Argument::Kind::None:
        fits = param.optional || type == ParamType::OptionalTensor || type == ParamType::OptionalTensorList ||
               type == ParamType::OptionalValue;
        break;
      case Argument::Kind::Value: fits = type != ParamType::Number; break;
      case Argument::Kind::Number: fits = takes_number; break;
    }
    require_of(fits, n, "slot ", slot, " (", param.name, ") holds ",
               argument.kind == Argument::Kind::None    ? "nothing"
               : argument.kind == Argument::Kind::Value ? "a tensor"
                                                        : "a number",
               ", which it does not take");
  }

  void check_attributes(NodeId n, const Node& node) const {
    const Schema& schema = node.op->schema;
    require_of(node.attrs.size() <= static_cast<size_t>(schema.num_attrs()), n, "it has ", node.attrs.size(),
               " attributes; the schema has ", schema.num_attrs());
    for (size_t p = 0; p < schema.params.size(); ++p) {
      const Param& param = schema.params[p];
      if (param.is_operand()) continue;
      const auto at = static_cast<size_t>(schema.attr_index(p));
      if (at >= node.attrs.size()) {
        require_of(param.has_default || param.optional, n, "attribute ", param.name, " is missing");
        continue;
      }
      require_of(fits(node.attrs[at], param), n, "attribute ", param.name, " is of another type");
    }
  }

  static bool fits(const Attr& attr, const Param& param) {
    if (attr.is_none()) return param.optional;
    switch (param.type) {
      case ParamType::Bool: return attr.is<bool>();
      case ParamType::Int: return attr.is<Sym>();
      case ParamType::Float: return attr.is<double>() || attr.is<Sym>() || attr.is<Scalar>();
      case ParamType::Scalar:
        return attr.is<Scalar>() || attr.is<double>() || attr.is<Sym>() || attr.is<bool>();
      case ParamType::Dims: return attr.is<DimList>();
      case ParamType::Sizes: return attr.is<SymList>();
      case ParamType::DType: return attr.is<DType>();
      case ParamType::Device: return attr.is<Device>();
      case ParamType::String: return attr.is<std::string>();
      case ParamType::Routine: return attr.is<RoutinePtr>();
      default: return false;
    }
  }

  void check_results(NodeId n, const Node& node) {
    std::optional<OutputSpecs> inferred;
    try {
      inferred = infer_results(Call{*node.op, hollow_.operands(node), node.attrs, node.where});
    } catch (const TableEnvironment::UnknownNumber&) {
      return;  // it depends on a number of the call; the trace fixed it
    } catch (const Error& error) {
      require_of(false, n, "its shape rule refuses: ", error.what());
    }
    if (!inferred || node.op->data_dependent) return;
    require_of(inferred->size() == node.num_outputs, n, "its shape rule gives ", inferred->size(),
               " results instead of ", node.num_outputs);
    for (uint32_t k = 0; k < node.num_outputs; ++k) {
      const Value& value = graph_[node.first_output + k];
      const OutputSpec& spec = (*inferred)[k];
      require_of(value.dtype == spec.dtype && value.device == spec.device, n, "result ", k, " is ",
                 value.dtype, " on ", value.device, "; its rule gives ", spec.dtype, " on ", spec.device);
      require_of(is_equal(value.sizes, spec.sizes), n, "result ", k, " has sizes ", value.sizes,
                 "; its rule gives ", spec.sizes);
      const Sizes strides = spec.strides ? *spec.strides : contiguous_strides<Sym>(spec.sizes);
      require_of(is_equal(value.strides, strides), n, "result ", k, " has strides ", value.strides,
                 "; its rule gives ", strides);
      require_of(is_equal(value.offset, spec.offset), n, "result ", k, " has offset ", value.offset,
                 "; its rule gives ", spec.offset);
    }
  }

  // For all sizes where that can be told, else for those of the trace, whose guards hold.
  static bool is_equal(Sym a, Sym b) {
    if (a.is_symbolic() && b.is_symbolic() && a.id() == b.id()) return true;
    return a == b;
  }
  static bool is_equal(const Sizes& a, const Sizes& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Sym x, Sym y) { return is_equal(x, y); });
  }

  const Graph& graph_;
  TableEnvironment environment_;
  HollowValues hollow_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).verify(); }

}  // namespace weft::compiler
