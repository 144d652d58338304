// The listing of a graph.
// Place: the printing of compiler/trace/graph.h.
#include <ostream>
#include <sstream>

#include "compiler/trace/graph.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler {
namespace {

class Printer {
 public:
  Printer(std::ostream& out, const Graph& graph)
      : out_(out), graph_(graph), environment_(*graph.expressions) {}

  void print() {
    out_ << graph_.name << '(';
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      out_ << (i == 0 ? "%" : ", %") << graph_.inputs[i];
      if (i < graph_.input_names.size() && !graph_.input_names[i].empty())
        out_ << ' ' << graph_.input_names[i];
      out_ << ": ";
      print_type(graph_[graph_.inputs[i]]);
    }
    out_ << ") {\n";
    for (const Node& node : graph_.nodes) print_node(node);
    out_ << "  return";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) out_ << (i == 0 ? " %" : ", %") << graph_.outputs[i];
    for (size_t i = 0; i < graph_.overwrites.size(); ++i)
      out_ << (i == 0 ? "   # %" : ", %") << graph_.outputs[graph_.overwrites[i].output] << " overwrites %"
           << graph_.inputs[graph_.overwrites[i].input];
    out_ << "\n}\n";
  }

 private:
  void print_sizes(const Sizes& sizes) {
    out_ << '[';
    for (size_t d = 0; d < sizes.size(); ++d)
      out_ << (d == 0 ? "" : ", ") << graph_.expressions->syms.to_string(sizes[d]);
    out_ << ']';
  }

  // Where a dimension has one element its stride says nothing.
  static bool is_row_major(const Value& value) {
    const Sizes expected = contiguous_strides<Sym>(value.sizes);
    for (size_t d = 0; d < value.sizes.size(); ++d) {
      const Sym size = value.sizes[d];
      if (!size.is_symbolic() && size.concrete() == 1) continue;
      if (!statically_known(SymCompare::Eq, value.strides[d], expected[d])) return false;
    }
    return true;
  }

  void print_type(const Value& value) {
    out_ << short_name_of(value.dtype);
    print_sizes(value.sizes);
    if (!is_row_major(value)) {
      out_ << " strides ";
      print_sizes(value.strides);
    }
    if (value.offset.is_symbolic() || value.offset.concrete() != 0)
      out_ << " offset " << graph_.expressions->syms.to_string(value.offset);
    if (!value.device.is_cpu()) out_ << ' ' << value.device;
  }

  void print_number(const Scalar& number) {
    if (number.is_traced())
      out_ << graph_.expressions->scalars.to_string(number.trace_id(), graph_.expressions->syms);
    else if (number.is_symbolic()) out_ << graph_.expressions->syms.to_string(number.sym());
    else if (number.is_floating()) print_double(number.to_double());
    else out_ << number;
  }

  // With a point where it would look like an integer, and all digits that tell it from its neighbours.
  void print_double(double number) {
    std::ostringstream text;
    for (int digits = 6; digits <= 17; ++digits) {
      text.str({});
      text.precision(digits);
      text << number;
      if (std::stod(text.str()) == number || number != number) break;
    }
    std::string shown = text.str();
    if (shown.find_first_of(".en") == std::string::npos) shown += ".0";
    out_ << shown;
  }

  void print_argument(const Argument& argument) {
    switch (argument.kind) {
      case Argument::Kind::None: out_ << "None"; break;
      case Argument::Kind::Value: out_ << '%' << argument.value; break;
      case Argument::Kind::Number: print_number(argument.number); break;
    }
  }

  void print_attr(const Attr& attr) {
    if (attr.is<Sym>()) out_ << graph_.expressions->syms.to_string(attr.as_int());
    else if (attr.is<Scalar>()) print_number(attr.as<Scalar>());
    else if (attr.is<double>()) print_double(attr.as<double>());
    else if (attr.is<SymList>()) print_sizes(attr.as_sizes());
    else out_ << attr;
  }

  // True for what a caller would not have written: it is there by default.
  static bool is_default(const Attr& attr, const Param& param) {
    if (!param.has_default) return attr.is_none() && param.optional;
    return is_same_value(attr, param.default_value);
  }
  static bool is_same_value(const Attr& a, const Attr& b) {
    const auto number = [](const Attr& attr) -> std::optional<double> {
      if (attr.is<double>()) return attr.as<double>();
      if (attr.is<Sym>() && !attr.as_int().is_symbolic())
        return static_cast<double>(attr.as_int().concrete());
      if (attr.is<Scalar>() && !attr.as<Scalar>().is_traced() && !attr.as<Scalar>().is_symbolic())
        return attr.as<Scalar>().to_double();
      return std::nullopt;
    };
    if (const auto x = number(a), y = number(b); x && y) return *x == *y;
    if (a.value().index() != b.value().index()) return false;
    if (a.is<bool>()) return a.as_bool() == b.as_bool();
    if (a.is<DimList>()) return a.as_dims() == b.as_dims();
    if (a.is<std::string>()) return a.as_string() == b.as_string();
    return a.is_none();
  }

  void print_node(const Node& node) {
    out_ << "  ";
    for (uint32_t k = 0; k < node.num_outputs; ++k) {
      out_ << (k == 0 ? "%" : ", %") << node.first_output + k << ": ";
      print_type(graph_[node.first_output + k]);
    }
    out_ << (node.num_outputs == 0 ? "" : " = ") << node.op->name() << '(';
    const std::vector<Param>& params = node.op->schema.params;
    const char* separator = "";
    const auto begin = [&](const Param& param, bool is_named) {
      out_ << separator;
      if (is_named) out_ << param.name << '=';
      separator = ", ";
    };
    for (size_t p = 0; p < params.size(); ++p) {
      const Param& param = params[p];
      if (!param.is_operand()) {
        const auto at = static_cast<size_t>(node.op->schema.attr_index(p));
        if (at >= node.attrs.size() || is_default(node.attrs[at], param)) continue;
        begin(param, true);
        print_attr(node.attrs[at]);
        continue;
      }
      const auto slot = static_cast<size_t>(node.op->schema.operand_index(p));
      if (param.type == ParamType::TensorList || param.type == ParamType::OptionalTensorList) {
        begin(param, false);
        out_ << '[';
        for (size_t i = slot; i < node.operands.size(); ++i) {
          if (i > slot) out_ << ", ";
          print_argument(node.operands[i]);
        }
        out_ << ']';
        continue;
      }
      if (slot >= node.operands.size()) continue;
      const Argument& argument = node.operands[slot];
      const bool is_by_default = (argument.kind == Argument::Kind::Number && param.has_default &&
                                  is_same_value(Attr(argument.number), param.default_value)) ||
                                 (argument.kind == Argument::Kind::None && param.has_default);
      if (is_by_default) continue;
      begin(param, param.keyword_only || argument.kind == Argument::Kind::Number);
      print_argument(argument);
    }
    out_ << ')';
    std::string remark = weft::to_string(node.where);
    if (node.composite != nullptr) remark += (remark.empty() ? "" : " ") + node.composite->name();
    if (!node.grad_mode) remark += remark.empty() ? "no_grad" : ", no_grad";
    if (!remark.empty()) out_ << "   # " << remark;
    out_ << '\n';
  }

  std::ostream& out_;
  const Graph& graph_;
  TableEnvironment environment_;
};

}  // namespace

std::string to_string(const Graph& graph) {
  std::ostringstream out;
  Printer(out, graph).print();
  return std::move(out).str();
}

std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << to_string(graph); }

}  // namespace weft::compiler
