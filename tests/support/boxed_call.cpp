// Binding arguments to the parameters of a schema.
#include "tests/support/boxed_call.h"

#include <algorithm>
#include <numeric>

namespace weft::tests {

std::optional<DType> dtype_of_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == short_name_of(dtype) || name == weft::name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

namespace {

std::optional<Scalar> number_of(const Arg& arg) {
  if (const auto* b = arg.get<bool>()) return Scalar(*b);
  if (const auto* i = arg.get<int64_t>()) return Scalar(*i);
  if (const auto* d = arg.get<double>()) return Scalar(*d);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> integers_of(const Arg& arg) {
  if (const auto* i = arg.get<int64_t>()) return std::vector<int64_t>{*i};
  const auto* list = arg.get<Arg::List>();
  if (list == nullptr) return std::nullopt;
  std::vector<int64_t> integers;
  for (const Arg& entry : *list) {
    const auto* i = entry.get<int64_t>();
    if (i == nullptr) return std::nullopt;
    integers.push_back(*i);
  }
  return integers;
}

// Nothing if the argument does not fit the parameter.
std::optional<Attr> attr_of(const Arg& arg, ParamType type) {
  const auto* i = arg.get<int64_t>();
  const auto* d = arg.get<double>();
  const auto* s = arg.get<std::string>();
  switch (type) {
    case ParamType::Bool:
      if (const auto* b = arg.get<bool>()) return Attr(*b);
      return std::nullopt;
    case ParamType::Int: return i != nullptr ? std::optional<Attr>(*i) : std::nullopt;
    case ParamType::Float:
      if (i != nullptr) return Attr(static_cast<double>(*i));
      return d != nullptr ? std::optional<Attr>(*d) : std::nullopt;
    case ParamType::Scalar:
      if (const auto number = number_of(arg)) return Attr(*number);
      return std::nullopt;
    case ParamType::Dims:
      if (const auto list = integers_of(arg)) return Attr(DimList(*list));
      return std::nullopt;
    case ParamType::Sizes:
      if (const auto list = integers_of(arg)) return Attr(SymList(*list));
      return std::nullopt;
    case ParamType::DType:
      if (const auto dtype = s != nullptr ? dtype_of_name(*s) : std::nullopt) return Attr(*dtype);
      return std::nullopt;
    case ParamType::Device:
      return s != nullptr && (*s == "cpu" || *s == "cuda") ? std::optional<Attr>(Device(*s)) : std::nullopt;
    case ParamType::String: return s != nullptr ? std::optional<Attr>(std::string_view(*s)) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

void BoundCall::add_operand(const Arg& arg, const Param& param) {
  if (const auto* x = arg.get<Tensor>()) {
    operands_.emplace_back(kept_.emplace_back(*x));
  } else if (const auto* list = arg.get<Arg::List>()) {
    for (const Arg& entry : *list) add_operand(entry, param);
  } else if (const auto number = number_of(arg)) {
    operands_.emplace_back(*number);
  } else {
    operands_.emplace_back();
  }
}

BoundCall bind_call(const Op& op, const Args& args, const Kwargs& kwargs) {
  const std::vector<Param>& params = op.schema.params;
  std::vector<const Arg*> given(params.size(), nullptr);
  size_t at = 0;
  for (const Arg& arg : args) {
    WEFT_CHECK(at < params.size() && !params[at].keyword_only, op.name(), ": takes ", at,
               " positional arguments, not ", args.size());
    given[at++] = &arg;
  }
  for (const auto& [name, arg] : kwargs) {
    size_t p = 0;
    while (p < params.size() && params[p].name != name) ++p;
    WEFT_CHECK(p < params.size(), op.name(), ": has no parameter '", name, "'");
    WEFT_CHECK(given[p] == nullptr, op.name(), ": '", name, "' is given twice");
    given[p] = &arg;
  }
  BoundCall call(op);
  const auto is_list = [&](size_t p) {
    return params[p].type == ParamType::TensorList || params[p].type == ParamType::OptionalTensorList;
  };
  // A list's tensors come last among the operands.
  std::vector<size_t> order(params.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t p) { return !is_list(p); });
  for (const size_t p : order) {
    const Param& param = params[p];
    const bool absent = given[p] == nullptr || given[p]->is_none();
    const bool nullable =
        param.optional || param.type == ParamType::OptionalTensor || param.type == ParamType::OptionalValue;
    WEFT_CHECK(!absent || param.has_default || nullable, op.name(), ": '", param.name, "' is missing");
    if (!param.is_operand()) {
      if (absent) {
        call.add_attr(given[p] == nullptr ? param.default_value : Attr());
        continue;
      }
      std::optional<Attr> attr = attr_of(*given[p], param.type);
      WEFT_CHECK(attr.has_value(), op.name(), ": '", param.name, "' has an argument of the wrong type");
      call.add_attr(std::move(*attr));
    } else if (!absent) {
      const bool takes_tensor = param.type != ParamType::Number;
      const bool takes_number =
          param.type == ParamType::Value || param.type == ParamType::OptionalValue || !takes_tensor;
      const bool fits = given[p]->get<Arg::List>() != nullptr ? is_list(p)
                        : given[p]->get<Tensor>() != nullptr
                            ? takes_tensor
                            : takes_number && number_of(*given[p]).has_value();
      WEFT_CHECK(fits, op.name(), ": '", param.name, "' has an argument of the wrong type");
      call.add_operand(*given[p], param);
    } else {
      const Attr& number = param.default_value;
      call.add_operand(number.is<Scalar>() || number.is<Sym>() || number.is<double>() || number.is<bool>()
                           ? number.as_scalar().is_floating() ? Arg(number.as_scalar().to_double())
                                                              : Arg(number.as_scalar().to_int())
                           : Arg(),
                       param);
    }
  }
  return call;
}

}  // namespace weft::tests
