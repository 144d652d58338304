// How entries of all kinds but pointwise are written: an op with its rules, and gradients whose parameters say what is saved.
// Needs dispatch. Used by the register_* functions.
//
//   entry(table, "mm(Tensor a, Tensor b) -> Tensor", Kind::Extern)
//       .infer(infer_mm).cpu(run_mm)
//       .grad([](Dy<> dy, In<1> b) { return mm(dy, b.t()); },
//             [](Dy<> dy, In<0> a) { return mm(a.t(), dy); });
#pragma once

#include <functional>
#include <tuple>

#include "tensor/dispatch.h"

namespace weft {

// ---- What a gradient body may take ------------------------------------------------------------------------------

// The gradient of result K; undefined only in ops of several results.
template <int K = 0>
struct Dy : Tensor {};
// Operand K and result K, saved for backward.
template <int K>
struct In : Tensor {};
template <int K = 0>
struct Out : Tensor {};
// Operand K and all after it: the tensors of a list, saved for backward; undefined where an entry is absent.
template <int K>
struct InList {
  std::vector<Tensor> tensors;
};
// Operand K's sizes and dtype: nothing is saved.
template <int K>
struct InSpec {
  const OutputSpec& spec;
  SymList sizes() const { return SymList(spec.sizes); }
  TensorOptions options() const { return TensorOptions(spec.dtype).device(spec.device); }
};
// The number in operand slot K.
template <int K>
struct Number : Scalar {};
// Which operand of a list is asked for.
struct Which {
  size_t index;
};

namespace detail {

template <class T>
struct GradArg;
template <int K>
struct GradArg<Dy<K>> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static Dy<K> get(const GradCall& g, size_t) { return {g.grad_outputs[K]}; }
};
template <int K>
struct GradArg<In<K>> {
  static constexpr uint32_t inputs = 1u << K, outputs = 0;
  static In<K> get(const GradCall& g, size_t) { return {g.inputs[K]}; }
};
template <int K>
struct GradArg<InList<K>> {
  static constexpr uint32_t inputs = ~0u << K, outputs = 0;
  static InList<K> get(const GradCall& g, size_t) { return {{g.inputs.begin() + K, g.inputs.end()}}; }
};
template <int K>
struct GradArg<Out<K>> {
  static constexpr uint32_t inputs = 0, outputs = 1u << K;
  static Out<K> get(const GradCall& g, size_t) { return {g.outputs[K]}; }
};
template <int K>
struct GradArg<InSpec<K>> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static InSpec<K> get(const GradCall& g, size_t) { return {g.input_specs[K]}; }
};
template <int K>
struct GradArg<Number<K>> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static Number<K> get(const GradCall& g, size_t) { return {g.numbers[K]}; }
};
template <>
struct GradArg<Which> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static Which get(const GradCall&, size_t operand) { return {operand}; }
};
template <>
struct GradArg<const Attrs&> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static const Attrs& get(const GradCall& g, size_t) { return g.attrs; }
};
template <>
struct GradArg<const GradCall&> {
  static constexpr uint32_t inputs = 0, outputs = 0;
  static const GradCall& get(const GradCall& g, size_t) { return g; }
};

template <class F, class R, class... Args>
GradRule make_grad_rule_of(F body, R (F::*)(Args...) const) {
  GradRule rule;
  rule.saved_inputs = (0u | ... | GradArg<Args>::inputs);
  rule.saved_outputs = (0u | ... | GradArg<Args>::outputs);
  rule.body = [body](const GradCall& g, size_t operand) -> Tensor {
    return body(GradArg<Args>::get(g, operand)...);
  };
  return rule;
}
template <class F>
GradRule make_grad_rule(F body) {
  return make_grad_rule_of(body, &F::operator());
}
inline GradRule make_grad_rule(std::nullptr_t) { return {}; }

// ---- C++ functions called with operands and attributes ----------------------------------------------------------

// Walks operands and attributes in the order of a function's parameters.
struct Unpacker {
  const Call& call;
  size_t operand = 0, attr = 0;

  const Operand& next_operand() {
    static const Operand none;
    return operand < call.operands.size() ? call.operands[operand++] : none;
  }
  // One that was not given has its default.
  const Attr& next_attr() {
    if (attr < call.attrs.size()) return call.attrs[attr++];
    const std::vector<Param>& params = call.op.schema.params;
    size_t param = 0;
    while (params[param].is_operand() || call.op.schema.attr_index(param) < static_cast<int>(attr)) ++param;
    ++attr;
    return params[param].default_value;
  }
  const Tensor& next_tensor() {
    static const Tensor undefined;
    const Operand& next = next_operand();
    return next.is_tensor() ? *next.tensor : undefined;
  }
  std::vector<Tensor> rest() {
    std::vector<Tensor> tensors;
    while (operand < call.operands.size()) tensors.push_back(next_tensor());
    return tensors;
  }
};

template <class T>
struct Unpack;
template <>
struct Unpack<const Tensor&> {
  static const Tensor& get(Unpacker& u) { return u.next_tensor(); }
};
template <>
struct Unpack<const Operand&> {
  static const Operand& get(Unpacker& u) { return u.next_operand(); }
};
template <>
struct Unpack<TensorList> {
  static std::vector<Tensor> get(Unpacker& u) { return u.rest(); }
};
template <>
struct Unpack<const std::vector<Tensor>&> {
  static std::vector<Tensor> get(Unpacker& u) { return u.rest(); }
};
template <>
struct Unpack<bool> {
  static bool get(Unpacker& u) { return u.next_attr().as_bool(); }
};
template <>
struct Unpack<int64_t> {
  static int64_t get(Unpacker& u) { return u.next_attr().as_int(); }
};
template <>
struct Unpack<SymArg> {
  static SymArg get(Unpacker& u) { return u.next_attr().as_int(); }
};
template <>
struct Unpack<double> {
  static double get(Unpacker& u) { return u.next_attr().as_double(); }
};
template <>
struct Unpack<DType> {
  static DType get(Unpacker& u) { return u.next_attr().as_dtype(); }
};
template <>
struct Unpack<const Scalar&> {
  static Scalar get(Unpacker& u) { return u.next_attr().as_scalar(); }
};
template <>
struct Unpack<const DimList&> {
  static DimList get(Unpacker& u) {
    const Attr& attr = u.next_attr();
    return attr.is_none() ? DimList() : attr.as_dims();
  }
};
template <>
struct Unpack<const SymList&> {
  static SymList get(Unpacker& u) { return u.next_attr().as_sizes(); }
};
template <>
struct Unpack<std::string_view> {
  static std::string_view get(Unpacker& u) {
    const Attr& attr = u.next_attr();
    return attr.is_none() ? std::string_view() : std::string_view(attr.as_string());
  }
};
template <class T>
struct Unpack<std::optional<T>> {
  static std::optional<T> get(Unpacker& u) {
    const Attr& attr = u.next_attr();
    if (attr.is_none()) return std::nullopt;
    if constexpr (std::is_same_v<T, double>) return attr.as_double();
    else if constexpr (std::is_same_v<T, int64_t>) return static_cast<int64_t>(attr.as_int());
    else return attr.as<T>();
  }
};

inline void pack(std::vector<Tensor>& outputs, Tensor result) { outputs.push_back(std::move(result)); }
inline void pack(std::vector<Tensor>& outputs, std::vector<Tensor> result) { outputs = std::move(result); }
inline void pack(std::vector<Tensor>& outputs, std::tuple<Tensor, Tensor> result) {
  outputs = {std::get<0>(result), std::get<1>(result)};
}

template <class R, class... Params>
struct CompositeCaller {
  // All parameters but the last, which is the place.
  template <size_t... I>
  static void run(R (*function)(Params...), const Call& call, std::vector<Tensor>& outputs,
                  std::index_sequence<I...>) {
    using List = std::tuple<Params...>;
    Unpacker unpacker{call};
    // Braces fix the order of evaluation.
    auto args = std::tuple<decltype(Unpack<std::tuple_element_t<I, List>>::get(unpacker))...>{
        Unpack<std::tuple_element_t<I, List>>::get(unpacker)...};
    pack(outputs, function(std::get<I>(args)..., call.where));
  }
};

}  // namespace detail

// ---- Entries ------------------------------------------------------------------------------------------------------

class Entry {
 public:
  explicit Entry(Op& op) : op_(op) {}

  Entry& infer(OutputSpecs (*rule)(const Call&)) {
    op_.infer = rule;
    return *this;
  }
  Entry& cpu(void (*kernel)(const Call&, std::span<Tensor> outputs)) {
    op_.cpu = kernel;
    return *this;
  }
  Entry& cuda(void (*kernel)(const Call&, std::span<Tensor> outputs)) {
    op_.cuda = kernel;
    return *this;
  }
  Entry& any_device() {
    op_.any_device = true;
    return *this;
  }
  // A kernel that makes its outputs itself.
  Entry& cpu_whole(void (*kernel)(const Call&, std::span<Tensor> outputs)) {
    op_.cpu_whole = kernel;
    return *this;
  }
  Entry& view(Layout<Sym> (*rule)(const Layout<Sym>&, const Attrs&, DType from)) {
    op_.view = rule;
    return *this;
  }
  Entry& in_place(void (*kernel)(const Call&, const Tensor& self)) {
    op_.cpu_in_place = kernel;
    return *this;
  }
  // For loops: the fold that a reduction is; one element of a created or indexed tensor.
  Entry& fold(std::optional<FoldRule> (*rule)(const Call&)) {
    op_.fold = rule;
    return *this;
  }
  Entry& element(Expr (*rule)(LoopReader&, const Call&, const OutputSpec&, std::span<const Sym>)) {
    op_.element = rule;
    return *this;
  }
  // One body per operand, nullptr for none; for a list operand one body for all, which takes a Which.
  template <class... Bodies>
  Entry& grad(Bodies... bodies) {
    op_.grad_state = GradState::Formula;
    (op_.grads.push_back(detail::make_grad_rule(bodies)), ...);
    return *this;
  }
  // Differentiable through what it is made of; the function is used instead of the kernel when the tape is on.
  Entry& decompose(std::function<Tensor(const Call&)> function) {
    op_.decompose = std::move(function);
    if (op_.grad_state == GradState::None) op_.grad_state = GradState::Decomposition;
    return *this;
  }
  Entry& samples(Samples samples) {
    op_.samples = std::move(samples);
    return *this;
  }
  Entry& random() {
    op_.is_random = true;
    return *this;
  }
  // Every element is the number in operand 0.
  Entry& fill() {
    op_.algebra.is_fill = true;
    return *this;
  }
  Entry& index_error(std::string (*say)(const Call& inner, int64_t place, int64_t value)) {
    op_.index_error = say;
    return *this;
  }
  Entry& data_dependent() {
    op_.data_dependent = true;
    return *this;
  }
  Op& op() { return op_; }

 private:
  Op& op_;
};

inline Entry entry(OpTable& table, const char* schema, Kind kind) {
  return Entry(table.add(std::make_unique<Op>(Schema(schema), kind)));
}

// A composite: the public function itself, called with operands and attributes in the order of its parameters.
template <class R, class... Params>
Entry composite(OpTable& table, const char* schema, R (*function)(Params...)) {
  Entry result = entry(table, schema, Kind::Composite);
  result.op().composite = [function](const Call& call, std::vector<Tensor>& outputs) {
    detail::CompositeCaller<R, Params...>::run(function, call, outputs,
                                               std::make_index_sequence<sizeof...(Params) - 1>());
  };
  return result;
}

// In place from `base`; without a kernel the base op runs and its result is copied into place.
inline Entry mutation(OpTable& table, const char* name, const char* base,
                      void (*kernel)(const Call&, const Tensor& self) = nullptr) {
  const Op& of = table.get(base);
  Schema schema = of.schema;
  schema.name = name;
  Entry result(table.add(std::make_unique<Op>(std::move(schema), Kind::Mutation)));
  result.op().base = &of;
  result.op().cpu_in_place = kernel;
  result.op().samples = of.samples;
  result.op().samples = of.samples;
  return result;
}

// Calls an op of any kind: for tools that find ops by name. A mutation returns operand 0.
std::vector<Tensor> call_boxed(const Op& op, std::span<const Operand> operands, const Attrs& attrs,
                               SourceLocation where);

}  // namespace weft
