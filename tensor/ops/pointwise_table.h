// The vocabulary of pointwise entries: promotion tags, gradient lists, markers.
// Needs samples only: the vector kernels are built without tensors. pointwise_ops.h is written in these words.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tensor/samples.h"

namespace weft {

// How operand dtypes become the dtype of the computation and of the result.
enum class Promote : uint8_t {
  Common,             // the common type (result_type); bool and small integers compute in int32 and wrap
  Floating,           // the common type, with integers and bool turned into the default float
  Integer,            // the common type, which must not be floating
  Predicate,          // computes in the common type, gives bool
  FloatingPredicate,  // as Floating, gives bool
  Move,  // no arithmetic: the last operand, converted to the dtype that the op's infer rule gives
};

template <Promote P>
struct PromoteTag {
  static constexpr Promote value = P;
};
inline constexpr PromoteTag<Promote::Common> common;
inline constexpr PromoteTag<Promote::Floating> floating;
inline constexpr PromoteTag<Promote::Integer> integral;
inline constexpr PromoteTag<Promote::Predicate> predicate;
inline constexpr PromoteTag<Promote::FloatingPredicate> floating_predicate;

struct NoGrad {};    // this operand has no gradient
struct ZeroGrad {};  // the gradient is zero everywhere
inline constexpr NoGrad no_grad;
inline constexpr ZeroGrad zero_grad;

// One body per operand, in order; operands beyond the list have none.
template <class... Bodies>
struct Grads {
  explicit Grads(Bodies... b) : bodies(b...) {}
  std::tuple<Bodies...> bodies;
};

namespace detail {

// How many parameters a generic body has: the count with which it accepts values of type V.
template <class V, class Body, size_t... I>
constexpr bool accepts(std::index_sequence<I...>) {
  return std::is_invocable_v<Body, decltype((static_cast<void>(I), std::declval<V>()))...>;
}
template <class V, class Body, int N = 1>
constexpr int arity_of_body() {
  static_assert(N <= 8, "a body takes one to eight values");
  if constexpr (N > 8 || accepts<V, Body>(std::make_index_sequence<N>())) return N;
  else return arity_of_body<V, Body, N + 1>();
}

template <int N, class Body, class F, size_t... I>
auto call_body_impl(const Body& body, const F& arg, std::index_sequence<I...>) {
  return body(arg(static_cast<int>(I))...);
}
// body(arg(0), …, arg(N-1))
template <int N, class Body, class F>
auto call_body(const Body& body, const F& arg) {
  return call_body_impl<N>(body, arg, std::make_index_sequence<N>());
}

}  // namespace detail
}  // namespace weft
