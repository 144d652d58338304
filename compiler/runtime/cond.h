// cond() and while_loop(): control flow that depends on values and stays in the graph of a compiled function.
// Needs trace/flatten. Outside of a trace they are an `if` and a `while`.
#pragma once

#include "compiler/trace/flatten.h"

namespace weft {

// What cond() asks: a tensor of one element, where not 0 is true; or a plain bool, which decides at once.
class Predicate {
 public:
  Predicate(const Tensor& x, WEFT_HERE) : tensor_(x), is_tensor_(true), where_(where) {}  // NOLINT
  Predicate(bool decided, WEFT_HERE) : decided_(decided), where_(where) {}                // NOLINT

  bool is_tensor() const { return is_tensor_; }
  const Tensor& tensor() const { return tensor_; }
  SourceLocation where() const { return where_; }
  // The value; of a tensor inside a trace it would end the graph.
  bool value() const;

 private:
  Tensor tensor_;
  bool is_tensor_ = false, decided_ = false;
  SourceLocation where_;
};

namespace compiler::detail {

using Body = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> record_cond(const Predicate& predicate, const Body& true_fn, const Body& false_fn);
std::vector<Tensor> record_while_loop(const Body& cond_fn, const Body& body_fn,
                                      std::span<const Tensor> carried, SourceLocation where);
// Error saying which function gave how many tensors instead of how many.
void check_count(const char* what, size_t given, size_t wanted);
[[noreturn]] void throw_wrong_count(const char* what, size_t given);
[[noreturn]] void throw_number(const char* what);
bool is_tracing();
bool value_of(const char* what, const Tensor& x);

inline constexpr size_t kMostOperands = 8;

template <class F, size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void(I), std::declval<const Tensor&>()))...>;
}

// Calls f with a list: as it is, or with so many tensors as f takes.
template <size_t N = 0, class F>
decltype(auto) spread(const char* what, F& f, const std::vector<Tensor>& tensors) {
  if constexpr (std::is_invocable_v<F&, const std::vector<Tensor>&>) {
    return f(tensors);
  } else {
    static_assert(N <= kMostOperands,
                  "cond, while_loop: the function takes neither so many tensors nor a std::vector of them");
    if constexpr (takes_tensors<F>(std::make_index_sequence<N>())) {
      if (tensors.size() != N) throw_wrong_count(what, tensors.size());
      return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) { return f(tensors[I]...); }
      (std::make_index_sequence<N>());
    } else {
      return spread<N + 1>(what, f, tensors);
    }
  }
}

// Calls f with operands as the user gave them: one by one, a list, or a tuple.
template <class F, class... Operands>
decltype(auto) apply(const char* what, F& f, const Operands&... operands) {
  if constexpr (std::is_invocable_v<F&, const Operands&...>) return f(operands...);
  else if constexpr (sizeof...(Operands) == 1 && (std::is_same_v<Operands, std::vector<Tensor>> && ...))
    return spread(what, f, operands...);
  else return std::apply(f, operands...);
}

template <class T>
std::vector<Tensor> tensors_of(const char* what, const T& value) {
  CollectResult visitor;
  walk(value, visitor);
  if (!visitor.leaves.numbers.empty()) throw_number(what);
  return std::move(visitor.leaves.tensors);
}
// The same structure around other tensors; with none it holds nothing.
template <class T>
void put_tensors(T& value, Tensor* tensors) {
  Replace visitor;
  visitor.moved = tensors;
  walk(value, visitor);
}

}  // namespace compiler::detail

// true_fn(operands…) where the predicate is true, else false_fn(operands…): torch.cond.
// The functions give a Tensor, or a vector, tuple or struct of tensors; they may use what they capture as well. In a compiled
// function both become part of the graph, so that it is no break, and a call runs one of them. There
// - both must give tensors of the same sizes and dtypes, and be pure: no writes to tensors from outside, no random numbers, no
//   value of a tensor asked for (a nested cond() or while_loop() is fine). Errors say which function and what.
// - the results are new tensors in row-major order, also where a function gives back what it was given.
// - it is differentiable: the gradient is a cond of the two gradients, and computes what it needs of the arm again.
template <class T, class F, class... Operands>
auto cond(const Predicate& predicate, T&& true_fn, F&& false_fn, const Operands&... operands) {
  namespace d = compiler::detail;
  using Result = std::decay_t<decltype(d::apply("", true_fn, operands...))>;
  static_assert(std::is_same_v<Result, std::decay_t<decltype(d::apply("", false_fn, operands...))>>,
                "cond: both functions must give the same type");
  if (!predicate.is_tensor() || !d::is_tracing())
    return predicate.value() ? Result(d::apply("true_fn of cond", true_fn, operands...))
                             : Result(d::apply("false_fn of cond", false_fn, operands...));
  std::optional<Result> result;
  const auto body = [&](const char* what, auto& f) {
    return [&, what](std::span<const Tensor>) {
      result.reset();
      result.emplace(d::apply(what, f, operands...));
      std::vector<Tensor> tensors = d::tensors_of(what, *result);
      d::put_tensors(*result, nullptr);
      return tensors;
    };
  };
  std::vector<Tensor> tensors =
      d::record_cond(predicate, body("true_fn of cond", true_fn), body("false_fn of cond", false_fn));
  d::put_tensors(*result, tensors.data());
  return std::move(*result);
}
// With the operands in braces.
template <class T, class F>
auto cond(const Predicate& predicate, T&& true_fn, F&& false_fn, const std::vector<Tensor>& operands) {
  return cond<T, F, std::vector<Tensor>>(predicate, std::forward<T>(true_fn), std::forward<F>(false_fn),
                                         operands);
}

// While cond_fn(carried…) is true, carried = body_fn(carried…): torch.while_loop. Returns what it carries at the end.
// `carried` is a Tensor, a vector of them ({i, x}) or a tuple. In a compiled function both functions become part of the graph.
// There the body gives tensors of the sizes and dtypes that it was given; both are pure, as for cond(); and nothing may
// require grad: a loop has no gradient (Error).
template <class C, class B, class Carried>
Carried while_loop(C&& cond_fn, B&& body_fn, const Carried& carried, WEFT_HERE) {
  namespace d = compiler::detail;
  Carried state = carried;
  const auto put = [&](std::vector<Tensor> tensors) {
    d::check_count("body_fn of while_loop", tensors.size(), d::tensors_of("while_loop", carried).size());
    d::put_tensors(state, tensors.data());
  };
  const auto ask = [&]() -> Tensor { return d::apply("cond_fn of while_loop", cond_fn, state); };
  const auto step = [&] {
    return d::tensors_of("body_fn of while_loop", d::apply("body_fn of while_loop", body_fn, state));
  };
  if (!d::is_tracing()) {
    while (d::value_of("cond_fn of while_loop", ask())) put(step());
    return state;
  }
  const std::vector<Tensor> given = d::tensors_of("while_loop", carried);
  const auto inside = [&](auto&& run) {
    return [&](std::span<const Tensor> parameters) {
      std::vector<Tensor> tensors(parameters.begin(), parameters.end());
      d::put_tensors(state, tensors.data());
      std::vector<Tensor> results = run();
      d::put_tensors(state, nullptr);
      return results;
    };
  };
  std::vector<Tensor> tensors = d::record_while_loop(inside([&] { return std::vector<Tensor>{ask()}; }),
                                                     inside([&] { return step(); }), given, where);
  d::put_tensors(state, tensors.data());
  return state;
}
template <class C, class B>
std::vector<Tensor> while_loop(C&& cond_fn, B&& body_fn, const std::vector<Tensor>& carried, WEFT_HERE) {
  return while_loop<C, B, std::vector<Tensor>>(std::forward<C>(cond_fn), std::forward<B>(body_fn), carried,
                                               where);
}

}  // namespace weft
