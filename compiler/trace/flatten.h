// flatten: the tensors and numbers inside arguments and results, found by their types at compile time.
// Needs callee and tensor/state_visitor. typed_callee.h walks calls with it; nothing here allocates on a hit.
#pragma once

#include <string_view>
#include <tuple>

#include "compiler/trace/callee.h"
#include "tensor/state_visitor.h"

namespace weft {
class Generator;
}

namespace weft::compiler {

// ---- What a type is ---------------------------------------------------------------------------------------------------

// An object that is used where it lives: never copied, told apart by its address, and without leaves. Specialise it as
// true for your own types that hold state without visit_state().
template <class T>
inline constexpr bool is_state_object =
    VisitsState<std::remove_const_t<T>> || std::is_same_v<T, Cell> || std::is_same_v<T, Generator>;

namespace detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// A pointer of any kind to a state object.
template <class T>
concept StateHandle = !is_optional<T> && requires(const T& handle) {
  *handle;
  static_cast<bool>(handle);
  requires is_state_object<std::remove_cvref_t<decltype(*handle)>>;
};

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T>
concept MapLike = requires(T& map) {
  requires std::is_convertible_v<const typename T::key_type&, std::string_view> ||
      std::is_integral_v<typename T::key_type>;
  typename T::mapped_type;
  map.begin()->second;
};

template <class T>
concept ListLike = !std::is_same_v<T, std::vector<bool>> && requires(T & list, size_t size) {
  list.resize(size);
  list.begin();
  list.end();
  list.data();
};

template <class T>
concept TextLike = std::is_convertible_v<const T&, std::string_view>;

struct IgnoreMember {
  template <class... Parts>
  void operator()(Parts&&...) {}
};
template <class T>
concept VisitsMembers = requires(T& value, IgnoreMember& visitor) {
  value.visit_members(visitor);
};

// Stands for one member while members are counted. std::optional is left to its own converting constructor: both would
// be ambiguous.
struct AnyMember {
  template <class T>
  requires(!is_optional<T>) operator T() const;
};
template <class T, size_t... I>
constexpr bool has_members(std::index_sequence<I...>) {
  return requires { T{((void)I, AnyMember())...}; };
}
inline constexpr size_t kMostMembers = 12;
// One more than the most where there are too many.
template <class T, size_t N = kMostMembers + 1>
constexpr size_t count_members() {
  if constexpr (N == 0) return 0;
  else if constexpr (has_members<T>(std::make_index_sequence<N>())) return N;
  else return count_members<T, N - 1>();
}

// Calls f with each member; a member that is a reference or const could not be replaced.
template <class T, class F>
void for_each_member(T& value, F&& f) {
  constexpr size_t n = count_members<std::remove_const_t<T>>();
  static_assert(n <= kMostMembers,
                "compile: a struct of more than 12 members needs\n"
                "  template <class V> void visit_members(V&& visit) { visit(a, b, …); }");
  auto each = [&](auto&... members) { (f(members), ...); };
  if constexpr (n == 0) each();
#define WEFT_MEMBERS(count, ...)     \
  else if constexpr (n == (count)) { \
    auto& [__VA_ARGS__] = value;     \
    each(__VA_ARGS__);               \
  }
  WEFT_MEMBERS(1, a)
  WEFT_MEMBERS(2, a, b)
  WEFT_MEMBERS(3, a, b, c)
  WEFT_MEMBERS(4, a, b, c, d)
  WEFT_MEMBERS(5, a, b, c, d, e)
  WEFT_MEMBERS(6, a, b, c, d, e, g)
  WEFT_MEMBERS(7, a, b, c, d, e, g, h)
  WEFT_MEMBERS(8, a, b, c, d, e, g, h, i)
  WEFT_MEMBERS(9, a, b, c, d, e, g, h, i, j)
  WEFT_MEMBERS(10, a, b, c, d, e, g, h, i, j, k)
  WEFT_MEMBERS(11, a, b, c, d, e, g, h, i, j, k, l)
  WEFT_MEMBERS(12, a, b, c, d, e, g, h, i, j, k, l, m)
#undef WEFT_MEMBERS
}

template <class T>
inline constexpr bool is_unsupported = true;

}  // namespace detail

// ---- The walk -----------------------------------------------------------------------------------------------------------

// Calls, in the order of members and elements: visitor.tensor(t), visitor.number(kind, x), visitor.word(w) for what else
// tells two values apart, and visitor.enter(index or name), visitor.leave() around each part.
template <class T, class V>
void walk(T& value, V& visitor) {
  using Plain = std::remove_const_t<T>;
  using Kind = NumberLeaf::Kind;
  const auto part = [&](const auto& label, auto& inner) {
    visitor.enter(label);
    walk(inner, visitor);
    visitor.leave();
  };
  if constexpr (std::is_same_v<Plain, Tensor>) {
    visitor.tensor(value);
  } else if constexpr (std::is_same_v<Plain, Scalar>) {
    visitor.number(Kind::Scalar, value);
  } else if constexpr (std::is_same_v<Plain, Sym>) {
    visitor.number(Kind::Size, value);
  } else if constexpr (std::is_same_v<Plain, bool>) {
    visitor.number(Kind::Bool, value);
  } else if constexpr (std::is_integral_v<Plain> || std::is_enum_v<Plain>) {
    visitor.number(Kind::Int, value);
  } else if constexpr (std::is_floating_point_v<Plain>) {
    visitor.number(Kind::Float, value);
  } else if constexpr (detail::TextLike<T>) {
    visitor.word(std::string_view(value));
  } else if constexpr (is_state_object<Plain>) {
    visitor.word(reinterpret_cast<uintptr_t>(std::addressof(value)));
  } else if constexpr (detail::StateHandle<Plain>) {
    visitor.word(static_cast<bool>(value) ? reinterpret_cast<uintptr_t>(std::addressof(*value)) : 0);
  } else if constexpr (std::is_same_v<Plain, Device>) {
    visitor.word(static_cast<uint64_t>(value.type) << 8 | static_cast<uint8_t>(value.index));
  } else if constexpr (std::is_same_v<Plain, TensorOptions>) {
    visitor.word(value.has_dtype() ? 1 + static_cast<uint64_t>(value.dtype()) : 0);
    visitor.word(value.has_device() ? 1 + (static_cast<uint64_t>(value.device().type) << 8 |
                                           static_cast<uint8_t>(value.device().index))
                                    : 0);
    visitor.word(value.requires_grad());
  } else if constexpr (detail::is_optional<Plain>) {
    visitor.word(value.has_value());
    if (value.has_value()) walk(*value, visitor);
  } else if constexpr (detail::VisitsMembers<Plain>) {
    size_t index = 0;
    std::string_view name;
    const auto one = [&](auto& member) {
      if constexpr (std::is_array_v<std::remove_reference_t<decltype(member)>>) name = member;
      else if (name.empty()) part(index++, member);
      else part(std::exchange(name, {}), member), ++index;
    };
    const_cast<Plain&>(value).visit_members([&](auto&... members) {
      if constexpr (std::is_const_v<T>) (one(std::as_const(members)), ...);
      else (one(members), ...);
    });
  } else if constexpr (detail::TupleLike<Plain>) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      static_assert(!(std::is_reference_v<std::tuple_element_t<I, Plain>> || ...),
                    "compile: a tuple of references cannot be copied; hold values");
      using std::get;
      (part(I, get<I>(value)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Plain>>());
  } else if constexpr (detail::MapLike<Plain>) {
    visitor.word(value.size());
    for (auto& [key, inner] : value) {
      if constexpr (std::is_integral_v<typename Plain::key_type>) visitor.word(static_cast<uint64_t>(key));
      else visitor.word(std::string_view(key));
      part(key, inner);
    }
  } else if constexpr (detail::ListLike<Plain>) {
    visitor.word(value.size());
    size_t index = 0;
    for (auto& inner : value) part(index++, inner);
  } else if constexpr (std::is_aggregate_v<Plain> && !std::is_array_v<Plain>) {
    size_t index = 0;
    detail::for_each_member(value, [&](auto& member) { part(index++, member); });
  } else {
    static_assert(
        !detail::is_unsupported<T>,
        "compile: this type can be no argument or result of a compiled function. What can: Tensor, Scalar, "
        "Sym, numbers, enums, text, and tuples, arrays, vectors, optionals, maps by name and plain structs "
        "of "
        "those (a class with private members needs template <class V> void visit_members(V&& visit)); "
        "modules, "
        "optimizers and what else has visit_state(), by reference or handle");
  }
}

// ---- Visitors -----------------------------------------------------------------------------------------------------------

namespace detail {

uint64_t hash_of_text(std::string_view text);
inline uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 32;
}

template <class T>
Scalar number_of(const T& value) {
  if constexpr (std::is_enum_v<T>) return static_cast<int64_t>(value);
  else return value;
}
template <class T>
void set_number(T& value, const Scalar& number) {
  if constexpr (std::is_same_v<T, Scalar>) value = number;
  else if constexpr (std::is_same_v<T, Sym>)
    value = number.is_symbolic() ? number.sym() : Sym::from_int(number.to_int());
  else if constexpr (std::is_enum_v<T>) value = static_cast<T>(number.to_int());
  else value = number.to<T>();
}

struct Unnamed {
  template <class L>
  void enter(const L&) {}
  void leave() {}
};

struct CollectArguments : Unnamed {
  explicit CollectArguments(ArgumentLeaves& to) : leaves(to) {}
  void tensor(const Tensor& x) { leaves.tensors.push_back(&x); }
  template <class T>
  void number(NumberLeaf::Kind kind, const T& value) {
    leaves.numbers.push_back({kind, number_of(value)});
    // The category of a number that may have any decides what dtypes come out.
    if constexpr (std::is_same_v<T, Scalar>) word(static_cast<uint64_t>(value.category()));
  }
  void word(uint64_t w) { leaves.structure = mix(leaves.structure, w); }
  void word(std::string_view text) { word(hash_of_text(text)); }
  ArgumentLeaves& leaves;
};

struct CollectResult : Unnamed {
  void tensor(const Tensor& x) { leaves.tensors.push_back(x); }
  template <class T>
  void number(NumberLeaf::Kind kind, const T& value) {
    leaves.numbers.push_back({kind, number_of(value)});
  }
  template <class W>
  void word(const W&) {}
  ResultLeaves leaves;
};

// Puts leaves in the places of those that are there; with no leaves it empties the places.
struct Replace : Unnamed {
  void tensor(Tensor& x) {
    if (given != nullptr) x = given[tensors++];
    else if (moved != nullptr) x = std::move(moved[tensors++]);
    else x.reset();
  }
  template <class T>
  void number(NumberLeaf::Kind, T& value) {
    if (given_numbers != nullptr) set_number(value, given_numbers[numbers++]);
    else value = T();
  }
  void tensor(const Tensor&) = delete;  // a const member cannot be replaced
  template <class W>
  void word(const W&) {}

  const Tensor* given = nullptr;
  Tensor* moved = nullptr;
  const Scalar* given_numbers = nullptr;
  size_t tensors = 0, numbers = 0;
};

// Finds the path of one leaf: "x.0.mask".
class NameLeaf {
 public:
  NameLeaf(bool of_number, size_t leaf) : of_number_(of_number), left_(leaf) {}
  void tensor(const Tensor&) { count(!of_number_); }
  template <class T>
  void number(NumberLeaf::Kind, const T&) {
    count(of_number_);
  }
  template <class W>
  void word(const W&) {}
  void enter(std::string_view label);
  template <std::integral I>
  void enter(I label) {
    enter(std::string_view(std::to_string(label)));
  }
  void leave();
  const std::string& name() const { return name_; }

 private:
  void count(bool is_of_kind);

  bool of_number_, found_ = false;
  size_t left_;
  std::string path_, name_;
  std::vector<size_t> lengths_;  // of the path outside each part that is open
};

}  // namespace detail
}  // namespace weft::compiler
