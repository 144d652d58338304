// Scalar: one number with its category (bool, integer, floating), which may be a run-time value of a trace.
// Needs sym and base.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include "tensor/base/dtype.h"
#include "tensor/sym.h"

namespace weft {

class Scalar;

enum class ScalarOp : uint8_t { Add, Sub, Mul, Div, Pow };

// What a trace supplies for scalars that are known only when the compiled program runs.
class ScalarEnvironment {
 public:
  virtual ~ScalarEnvironment() = default;
  virtual Scalar binary(ScalarOp op, const Scalar& a, const Scalar& b) = 0;
  virtual bool compare(SymCompare op, const Scalar& a, const Scalar& b) = 0;
  virtual double read_double(const Scalar& a) = 0;
  virtual int64_t read_int(const Scalar& a) = 0;
};

ScalarEnvironment*& current_scalar_environment();

// A number for an op. Its category takes part in promotion as Python numbers do in PyTorch: an integer scalar never
// changes a tensor's dtype, a floating one turns an integer tensor into the default float.
class Scalar {
 public:
  enum class Category : uint8_t { Bool, Integer, Floating };

  constexpr Scalar() : Scalar(int64_t{0}) {}
  template <class T>
  requires std::same_as<T, bool>
  constexpr Scalar(T value) : category_(Category::Bool), int_(value ? 1 : 0) {}  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Scalar(T value)
      : category_(Category::Integer), int_(static_cast<int64_t>(value)) {}  // NOLINT
  template <std::floating_point T>
  constexpr Scalar(T value) : category_(Category::Floating), double_(static_cast<double>(value)) {}  // NOLINT
  constexpr Scalar(Sym value)                                                                        // NOLINT
      : category_(Category::Integer), is_sym_(value.is_symbolic()), sym_(value) {}

  // A run-time value of the current trace.
  static constexpr Scalar from_trace(Category category, uint32_t id) {
    Scalar result;
    result.category_ = category;
    result.is_traced_ = true;
    result.int_ = id;
    return result;
  }

  constexpr Category category() const { return category_; }
  constexpr bool is_floating() const { return category_ == Category::Floating; }
  constexpr bool is_bool() const { return category_ == Category::Bool; }
  constexpr bool is_integer() const { return category_ == Category::Integer; }
  // True if the number is known only inside a trace.
  constexpr bool is_traced() const { return is_traced_; }
  constexpr bool is_symbolic() const { return is_sym_; }
  constexpr uint32_t trace_id() const { return static_cast<uint32_t>(int_); }
  constexpr Sym sym() const { return sym_; }

  double to_double() const;
  int64_t to_int() const;
  // In a trace a question with two answers, whatever the number is.
  bool to_bool() const {
    if (is_traced_ || is_sym_) [[unlikely]]
      return decide_bool();
    return category_ == Category::Floating ? double_ != 0 : int_ != 0;
  }
  template <class T>
  T to() const {
    if constexpr (std::same_as<T, bool>) return to_bool();
    else if constexpr (std::floating_point<T>) return static_cast<T>(to_double());
    else return static_cast<T>(to_int());
  }

  // A traced number read as a native one ends the traced segment there.
  operator double() const { return to_double(); }  // NOLINT: a size ratio stands where a double is wanted
  explicit operator bool() const { return to_bool(); }
  explicit operator float() const { return static_cast<float>(to_double()); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) explicit operator T() const { return to<T>(); }

  // The dtype of a 0-d tensor holding it: bool, int64 or the default float.
  DType dtype() const;

 private:
  bool decide_bool() const;

  Category category_;
  bool is_traced_ = false;
  bool is_sym_ = false;
  union {
    int64_t int_;
    double double_;
    Sym sym_;
  };
};
static_assert(sizeof(Scalar) == 16);

namespace detail {
Scalar scalar_binary(ScalarOp op, const Scalar& a, const Scalar& b);
bool scalar_compare(SymCompare op, const Scalar& a, const Scalar& b);
template <class T>
concept ScalarLike =
    std::same_as<T, Scalar> || std::same_as<T, Sym> || std::integral<T> || std::floating_point<T>;
// A Scalar with any number, or a size with a floating one (`1.0 / x.size(0)`), which stays symbolic in a trace.
template <class A, class B>
concept ScalarPair = ScalarLike<A> && ScalarLike<B> &&
    (std::same_as<A, Scalar> || std::same_as<B, Scalar> || (std::same_as<A, Sym> && std::floating_point<B>) ||
     (std::floating_point<A> && std::same_as<B, Sym>));
}  // namespace detail

template <class A, class B>
requires detail::ScalarPair<A, B> Scalar operator+(const A& a, const B& b) {
  return detail::scalar_binary(ScalarOp::Add, a, b);
}
template <class A, class B>
requires detail::ScalarPair<A, B> Scalar operator-(const A& a, const B& b) {
  return detail::scalar_binary(ScalarOp::Sub, a, b);
}
template <class A, class B>
requires detail::ScalarPair<A, B> Scalar operator*(const A& a, const B& b) {
  return detail::scalar_binary(ScalarOp::Mul, a, b);
}
// True division: the result is floating also for two integers.
template <class A, class B>
requires detail::ScalarPair<A, B> Scalar operator/(const A& a, const B& b) {
  return detail::scalar_binary(ScalarOp::Div, a, b);
}
inline Scalar operator-(const Scalar& a) {
  return detail::scalar_binary(ScalarOp::Sub, Scalar(int64_t{0}), a);
}

template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator==(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Eq, a, b); }
template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator!=(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Ne, a, b); }
template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator<(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Lt, a, b); }
template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator<=(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Le, a, b); }
template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator>(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Gt, a, b); }
template <class A, class B>
requires detail::ScalarPair<A, B>
bool operator>=(const A& a, const B& b) { return detail::scalar_compare(SymCompare::Ge, a, b); }

std::ostream& operator<<(std::ostream& out, const Scalar& value);

// The dtype that floating results take where no tensor decides: float32 unless set.
DType default_dtype();
void set_default_dtype(DType dtype);

}  // namespace weft
