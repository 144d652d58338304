// Schemas from text, the table, printing of attributes.
// Place: the out-of-line half of tensor/op.h.
#include "tensor/op.h"

#include <charconv>
#include <ostream>

namespace weft {

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"pointwise", "reduction", "view",   "index",
                                   "create",    "mutation",  "extern", "composite"};
  return names[static_cast<int>(kind)];
}

std::ostream& operator<<(std::ostream& out, const Attr& attr) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) out << "None";
        else if constexpr (std::is_same_v<T, bool>) out << (value ? "True" : "False");
        else if constexpr (std::is_same_v<T, std::string>) out << '"' << value << '"';
        else if constexpr (std::is_same_v<T, SymList>) out << SizesView(value);
        else if constexpr (std::is_same_v<T, RoutinePtr>) value->print(out);
        else out << value;
      },
      attr.value());
  return out;
}

// ---- Schema ---------------------------------------------------------------------------------------------------------
namespace {

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

ParamType parse_type(std::string_view type, bool optional, std::string_view schema) {
  struct Row {
    std::string_view text;
    ParamType plain, optional;
  };
  static constexpr Row rows[] = {
      {"Tensor", ParamType::Tensor, ParamType::OptionalTensor},
      {"Tensor[]", ParamType::TensorList, ParamType::TensorList},
      {"Tensor?[]", ParamType::OptionalTensorList, ParamType::OptionalTensorList},
      {"Value", ParamType::Value, ParamType::OptionalValue},
      {"Number", ParamType::Number, ParamType::Number},
      {"bool", ParamType::Bool, ParamType::Bool},
      {"int", ParamType::Int, ParamType::Int},
      {"SymInt", ParamType::Int, ParamType::Int},
      {"float", ParamType::Float, ParamType::Float},
      {"Scalar", ParamType::Scalar, ParamType::Scalar},
      {"int[]", ParamType::Dims, ParamType::Dims},
      {"SymInt[]", ParamType::Sizes, ParamType::Sizes},
      {"ScalarType", ParamType::DType, ParamType::DType},
      {"Device", ParamType::Device, ParamType::Device},
      {"str", ParamType::String, ParamType::String},
      {"Routine", ParamType::Routine, ParamType::Routine},
  };
  for (const Row& row : rows)
    if (row.text == type) return optional ? row.optional : row.plain;
  WEFT_ASSERT(false, "schema '", schema, "' has unknown type '", type, "'");
}

Attr parse_default(std::string_view text, ParamType type, std::string_view schema) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  if (text == "[]") return type == ParamType::Dims ? Attr(DimList()) : Attr(SymList());
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\''))
    return text.substr(1, text.size() - 2);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  WEFT_ASSERT(error == std::errc() && end == text.data() + text.size(), "schema '", schema,
              "' has the default '", text, "'");
  const bool integral = text.find_first_of(".e") == std::string_view::npos;
  if (type == ParamType::Float) return number;
  if (type == ParamType::Dims) return DimList{static_cast<int64_t>(number)};
  if (integral)
    return type == ParamType::Int ? Attr(static_cast<int64_t>(number))
                                  : Attr(Scalar(static_cast<int64_t>(number)));
  return Scalar(number);
}

}  // namespace

Schema::Schema(std::string_view text) {
  const size_t open = text.find('('), arrow = text.rfind("->");
  WEFT_ASSERT(open != std::string_view::npos && arrow != std::string_view::npos, "schema '", text, "'");
  const size_t close = text.rfind(')', arrow);
  name = std::string(trim(text.substr(0, open)));
  std::string_view list = text.substr(open + 1, close - open - 1);
  bool keyword_only = false;
  while (!trim(list).empty()) {
    // Commas inside brackets or quotes do not occur in our defaults.
    const size_t comma = list.find(',');
    std::string_view item = trim(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    Param param{};
    param.keyword_only = keyword_only;
    const size_t space = item.find(' ');
    std::string_view type = item.substr(0, space), rest = trim(item.substr(space + 1));
    param.optional = type.ends_with('?');
    if (param.optional) type.remove_suffix(1);
    param.type = parse_type(type, param.optional, text);
    const size_t equals = rest.find('=');
    param.name = std::string(rest.substr(0, equals));
    if (equals != std::string_view::npos) {
      param.has_default = true;
      param.default_value = parse_default(trim(rest.substr(equals + 1)), param.type, text);
    }
    params.push_back(std::move(param));
  }
  std::string_view result = trim(text.substr(arrow + 2));
  if (result == "Tensor[]") {
    returns_list = true;
  } else if (result == "()") {
    num_outputs = 0;
  } else if (result.front() == '(') {
    num_outputs = 1;
    for (char c : result) num_outputs += c == ',';
  }
}

int Schema::num_attrs() const {
  int count = 0;
  for (const Param& param : params) count += !param.is_operand();
  return count;
}

int Schema::operand_index(size_t param) const {
  const auto is_list = [](const Param& p) {
    return p.type == ParamType::TensorList || p.type == ParamType::OptionalTensorList;
  };
  const size_t end = is_list(params[param]) ? params.size() : param;
  int index = 0;
  for (size_t i = 0; i < end; ++i) index += params[i].is_operand() && !is_list(params[i]);
  return index;
}

int Schema::attr_index(size_t param) const {
  int index = 0;
  for (size_t i = 0; i < param; ++i) index += !params[i].is_operand();
  return index;
}

std::ostream& operator<<(std::ostream& out, const Schema& schema) {
  out << schema.name << '(';
  const char* separator = "";
  for (const Param& param : schema.params) {
    out << separator << param.name;
    if (param.has_default) out << '=' << param.default_value;
    separator = ", ";
  }
  return out << ')';
}

// ---- Call -----------------------------------------------------------------------------------------------------------

const Tensor& Call::tensor(size_t i) const {
  if (!has_tensor(i)) [[unlikely]] {
    std::string slot = "operand " + std::to_string(i);
    for (size_t p = 0; p < op.schema.params.size(); ++p) {
      if (op.schema.params[p].is_operand() && op.schema.operand_index(p) == static_cast<int>(i))
        slot = op.schema.params[p].name;
    }
    detail::throw_error(
        detail::concat(name(), ": ", slot, " is ",
                       i < operands.size() && operands[i].is_scalar ? "a number" : "an undefined tensor",
                       "; a tensor is needed"));
  }
  return *operands[i].tensor;
}

// ---- The table ------------------------------------------------------------------------------------------------------

const Op* OpTable::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const Op& OpTable::get(std::string_view name) const {
  const Op* op = find(name);
  WEFT_CHECK(op != nullptr, "op '", name, "' does not exist");
  return *op;
}

Op& OpTable::mutable_op(std::string_view name) {
  const auto found = by_name_.find(name);
  WEFT_ASSERT(found != by_name_.end(), "op '", name, "' does not exist");
  return *found->second;
}

std::vector<const Op*> OpTable::all() const {
  std::vector<const Op*> result;
  for (const auto& op : ops_) result.push_back(op.get());
  return result;
}

Op& OpTable::add(std::unique_ptr<Op> op) {
  Op& added = *op;
  ops_.push_back(std::move(op));
  const bool is_new = by_name_.emplace(added.name(), &added).second;
  WEFT_ASSERT(is_new, "op '", added.name(), "' is registered twice");
  return added;
}

}  // namespace weft
