// TypedCallee: one call of a function of known types, as the tracer and the compiled function see it.
// Needs flatten. compile.h makes one on the stack of each call.
#pragma once

#include "compiler/trace/flatten.h"

namespace weft::compiler::detail {

// How an argument travels to the callee: a value is only looked at, and copied if the function has to run.
template <class P>
using Pass = std::conditional_t<std::is_reference_v<P>, P&&, const P&>;

template <class T>
struct Borrowed {
  T& value;
  static constexpr bool is_borrowed = true;
};
template <class T>
inline constexpr bool is_span = false;
template <class T, size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;

// What holds the copy of an argument while the function runs on other leaves.
template <class P>
struct StoredAs {
  using Plain = std::remove_cvref_t<P>;
  static auto type() {
    if constexpr (is_span<Plain>)
      return std::type_identity<std::vector<std::remove_cv_t<typename Plain::element_type>>>();
    else if constexpr (is_state_object<Plain> || (StateHandle<Plain> && !std::is_copy_constructible_v<Plain>))
      return std::type_identity<Borrowed<std::remove_reference_t<Pass<P>>>>();
    else return std::type_identity<std::decay_t<P>>();
  }
};
template <class P>
using Stored = typename decltype(StoredAs<P>::type())::type;

template <class P>
Stored<P> store(std::remove_reference_t<Pass<P>>& argument) {
  if constexpr (is_span<std::remove_cvref_t<P>>) return {argument.begin(), argument.end()};
  else return {argument};
}

template <class T, class V>
void walk_argument(T& argument, V& visitor) {
  if constexpr (is_span<std::remove_const_t<T>>) {
    visitor.word(argument.size());
    size_t index = 0;
    for (auto& inner : argument) {
      visitor.enter(index++);
      walk(inner, visitor);
      visitor.leave();
    }
  } else {
    walk(argument, visitor);
  }
}
template <class T, class V>
void walk_argument(Borrowed<T>&, V&) {}

// What a parameter takes: the copy, moved where the function would own it.
template <class P, class A>
decltype(auto) hand_over(A& copy) {
  if constexpr (requires { copy.is_borrowed; }) return (copy.value);
  else if constexpr (std::is_lvalue_reference_v<P> || is_span<std::remove_cvref_t<P>>) return (copy);
  else return std::move(copy);
}

// A function that was given an argument by plain reference may write into its tensors, but must leave the handles and
// numbers that the caller holds: a hit would not change them. Error if it did not.
void check_kept(const Callee& callee, const ArgumentLeaves& before, const ArgumentLeaves& after,
                std::span<const Tensor> tensors, size_t first_tensor, std::span<const Scalar> numbers,
                size_t first_number);

// "x" alone, "x0", "x1" among several, unless the options name them.
std::string name_of_argument(std::span<const std::string> names, size_t index, size_t count);

struct Nothing {};

// The callee of one call of `function`; it stands on the stack of that call.
template <class F, class R, class... Params>
class TypedCallee final : public Callee {
 public:
  using Result = std::conditional_t<std::is_void_v<R>, Nothing, std::decay_t<R>>;

  TypedCallee(F& function, std::span<const std::string> names, Pass<Params>... arguments)
      : function_(function), names_(names), arguments_(static_cast<Pass<Params>>(arguments)...) {}

  void collect(ArgumentLeaves& leaves) const {
    CollectArguments visitor(leaves);
    std::apply([&](auto&... argument) { (walk_argument(argument, visitor), ...); }, arguments_);
  }

  void run(std::span<const Tensor> tensors, std::span<const Scalar> numbers) override {
    run_on(tensors, numbers, std::index_sequence_for<Params...>());
  }
  void run_eager() override {
    keep([&]() -> R {
      return std::apply(
          [&](auto&... argument) -> R { return function_(forward_argument<Params>(argument)...); },
          arguments_);
    });
  }
  ResultLeaves result() const override {
    CollectResult visitor;
    walk(*result_, visitor);
    return std::move(visitor.leaves);
  }
  std::shared_ptr<const void> structure() const override {
    auto copy = std::make_shared<Result>(*result_);
    Replace visitor;
    walk(*copy, visitor);
    return copy;
  }
  void clear() override { result_.reset(); }
  void give(const void* structure, std::span<Tensor> tensors, std::span<const Scalar> numbers) override {
    if constexpr (std::is_same_v<Result, Tensor>) {
      result_.emplace(std::move(tensors[0]));
    } else {
      Replace visitor;
      visitor.moved = tensors.data();
      visitor.given_numbers = numbers.data();
      result_.emplace(*static_cast<const Result*>(structure));
      walk(*result_, visitor);
    }
  }
  std::string tensor_name(size_t leaf) const override { return find(NameLeaf(false, leaf)); }
  std::string number_name(size_t leaf) const override { return find(NameLeaf(true, leaf)); }

  // The kept result, which is thereby gone.
  std::conditional_t<std::is_void_v<R>, void, Result> take() {
    if constexpr (!std::is_void_v<R>) return std::move(*result_);
  }

 private:
  template <size_t... I>
  void run_on(std::span<const Tensor> tensors, std::span<const Scalar> numbers, std::index_sequence<I...>) {
    std::tuple<Stored<Params>...> copies{store<Params>(std::get<I>(arguments_))...};
    Replace visitor;
    visitor.given = tensors.data();
    visitor.given_numbers = numbers.data();
    std::pair<size_t, size_t> first[sizeof...(Params) + 1];
    ((first[I] = {visitor.tensors, visitor.numbers}, walk_argument(std::get<I>(copies), visitor)), ...);
    keep([&]() -> R { return function_(hand_over<Params>(std::get<I>(copies))...); });
    (check_argument<Params>(std::get<I>(copies), std::get<I>(arguments_), tensors, numbers, first[I]), ...);
  }

  template <class P, class C, class A>
  void check_argument(const C& copy, const A& argument, std::span<const Tensor> tensors,
                      std::span<const Scalar> numbers, std::pair<size_t, size_t> first) const {
    constexpr bool by_reference =
        std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>;
    if constexpr (by_reference && !requires { copy.is_borrowed; }) {
      ArgumentLeaves before, after;
      CollectArguments of_argument(before), of_copy(after);
      walk_argument(argument, of_argument);
      walk_argument(copy, of_copy);
      check_kept(*this, before, after, tensors, first.first, numbers, first.second);
    }
  }

  template <class P, class A>
  static decltype(auto) forward_argument(A& argument) {
    if constexpr (std::is_rvalue_reference_v<P>) return static_cast<P>(argument);
    else return (argument);
  }

  template <class Call>
  void keep(const Call& call) {
    result_.reset();
    if constexpr (std::is_void_v<R>) call(), result_.emplace();
    else result_.emplace(call());
  }

  std::string find(NameLeaf visitor) const {
    size_t index = 0;
    const auto one = [&](auto& argument) {
      visitor.enter(name_of_argument(names_, index++, sizeof...(Params)));
      walk_argument(argument, visitor);
      visitor.leave();
    };
    std::apply([&](auto&... argument) { (one(argument), ...); }, arguments_);
    return visitor.name();
  }

  F& function_;
  std::span<const std::string> names_;
  std::tuple<Pass<Params>...> arguments_;
  std::optional<Result> result_;
};

}  // namespace weft::compiler::detail
