// Sym: a size that is a plain integer in eager code and may be an expression inside a trace.
// Needs base only; the compiler installs a SymEnvironment while it traces.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>

namespace weft {

class Sym;
class SymArg;

enum class SymOp : uint8_t { Add, Sub, Mul, FloorDiv, TruncDiv, Mod, Min, Max };
enum class SymCompare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };

// What a trace supplies: the meaning of arithmetic and comparisons on symbolic sizes.
class SymEnvironment {
 public:
  virtual ~SymEnvironment() = default;
  virtual Sym binary(SymOp op, Sym a, Sym b) = 0;
  // Decides by the hint and records the outcome as a guard.
  virtual bool compare(SymCompare op, Sym a, Sym b) = 0;
  // Decides without a guard where the answer follows from what is known; false also means "unknown".
  virtual bool known(SymCompare op, Sym a, Sym b) = 0;
  // Fixes the expression to its hint, with a guard, and returns it.
  virtual int64_t specialize(Sym a) = 0;
  virtual int64_t hint(Sym a) const = 0;
  virtual std::string to_string(Sym a) const = 0;
};

// The environment of this thread's trace, or null.
SymEnvironment*& current_sym_environment();

namespace detail {
Sym sym_binary(SymOp op, Sym a, Sym b);
bool sym_compare(SymCompare op, Sym a, Sym b);
int64_t sym_specialize(Sym a);
[[noreturn]] void throw_size_out_of_range(int64_t value);
[[noreturn]] void throw_size_overflow(const char* op, int64_t a, int64_t b);
}  // namespace detail

// Eight bytes whose bits are the integer itself when the value is concrete, so that it can be passed wherever a
// size is expected. Values below -2^62 denote expressions of the current trace.
class Sym {
 public:
  constexpr Sym() = default;

  // Error for values below -2^62, which no size, stride or offset can have.
  static constexpr Sym from_int(int64_t value) {
    if (value < kSymbolicEnd) [[unlikely]]
      detail::throw_size_out_of_range(value);
    return Sym(value);
  }
  static constexpr Sym from_id(uint32_t id) { return Sym(kSymbolicBase + static_cast<int64_t>(id)); }

  constexpr bool is_symbolic() const { return bits_ < kSymbolicEnd; }
  // The expression's id in the trace that made it. Only for symbolic values.
  constexpr uint32_t id() const { return static_cast<uint32_t>(bits_ - kSymbolicBase); }
  // The plain integer. Only for concrete values.
  constexpr int64_t concrete() const { return bits_; }

  // A symbolic size becomes its hint here, with a guard: code that stays symbolic keeps the Sym (`auto n = x.size(0)`).
  constexpr operator int64_t() const {
    return is_symbolic() ? detail::sym_specialize(*this) : bits_;
  }  // NOLINT
  explicit operator bool() const;

  Sym& operator+=(SymArg other);
  Sym& operator-=(SymArg other);
  Sym& operator*=(SymArg other);
  Sym& operator/=(SymArg other);
  Sym& operator++();
  Sym& operator--();
  Sym operator++(int);
  Sym operator--(int);

 private:
  explicit constexpr Sym(int64_t bits) : bits_(bits) {}

  static constexpr int64_t kSymbolicBase = INT64_MIN;
  static constexpr int64_t kSymbolicEnd = INT64_MIN / 2;

  int64_t bits_ = 0;
};
static_assert(sizeof(Sym) == 8 && std::is_trivially_copyable_v<Sym>);

// A size argument: what a Sym refuses to be built from implicitly.
class SymArg {
 public:
  template <std::integral T>
  constexpr SymArg(T value) : value_(Sym::from_int(static_cast<int64_t>(value))) {}  // NOLINT
  constexpr SymArg(Sym value) : value_(value) {}                                     // NOLINT
  constexpr operator Sym() const { return value_; }                                  // NOLINT

 private:
  Sym value_;
};

namespace detail {
template <class T>
constexpr bool compare(SymCompare op, T a, T b) {
  switch (op) {
    case SymCompare::Eq: return a == b;
    case SymCompare::Ne: return a != b;
    case SymCompare::Lt: return a < b;
    case SymCompare::Le: return a <= b;
    case SymCompare::Gt: return a > b;
    case SymCompare::Ge: return a >= b;
  }
  return false;
}

template <class T>
concept SymOrInt = std::same_as<T, Sym> || std::integral<T>;

template <class T>
constexpr Sym as_sym(T value) {
  return SymArg(value);
}
template <class A, class B>
concept SymPair = SymOrInt<A> && SymOrInt<B> &&(std::same_as<A, Sym> || std::same_as<B, Sym>);
}  // namespace detail

// Arithmetic keeps expressions; `/` truncates and `%` follows C++, as they do for plain integers.
template <class A, class B>
requires detail::SymPair<A, B> Sym operator+(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  int64_t sum;
  if (a.is_symbolic() || b.is_symbolic()) return detail::sym_binary(SymOp::Add, a, b);
  if (__builtin_add_overflow(a.concrete(), b.concrete(), &sum))
    detail::throw_size_overflow("+", a.concrete(), b.concrete());
  return Sym::from_int(sum);
}
template <class A, class B>
requires detail::SymPair<A, B> Sym operator-(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  int64_t difference;
  if (a.is_symbolic() || b.is_symbolic()) return detail::sym_binary(SymOp::Sub, a, b);
  if (__builtin_sub_overflow(a.concrete(), b.concrete(), &difference))
    detail::throw_size_overflow("-", a.concrete(), b.concrete());
  return Sym::from_int(difference);
}
template <class A, class B>
requires detail::SymPair<A, B> Sym operator*(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  int64_t product;
  if (a.is_symbolic() || b.is_symbolic()) return detail::sym_binary(SymOp::Mul, a, b);
  if (__builtin_mul_overflow(a.concrete(), b.concrete(), &product))
    detail::throw_size_overflow("*", a.concrete(), b.concrete());
  return Sym::from_int(product);
}
template <class A, class B>
requires detail::SymPair<A, B> Sym operator/(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  if (a.is_symbolic() || b.is_symbolic()) return detail::sym_binary(SymOp::TruncDiv, a, b);
  if (b.concrete() == 0) detail::throw_size_overflow("/", a.concrete(), 0);
  return Sym::from_int(a.concrete() / b.concrete());
}
template <class A, class B>
requires detail::SymPair<A, B> Sym operator%(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  if (a.is_symbolic() || b.is_symbolic()) return detail::sym_binary(SymOp::Mod, a, b);
  if (b.concrete() == 0) detail::throw_size_overflow("%", a.concrete(), 0);
  return Sym::from_int(a.concrete() % b.concrete());
}
inline Sym operator-(Sym a) { return 0 - a; }

// A comparison of expressions is decided by the hint and leaves a guard.
template <class A, class B>
requires detail::SymPair<A, B>
bool operator==(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  return a.is_symbolic() || b.is_symbolic() ? detail::sym_compare(SymCompare::Eq, a, b)
                                            : a.concrete() == b.concrete();
}
template <class A, class B>
requires detail::SymPair<A, B>
bool operator<(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  return a.is_symbolic() || b.is_symbolic() ? detail::sym_compare(SymCompare::Lt, a, b)
                                            : a.concrete() < b.concrete();
}
template <class A, class B>
requires detail::SymPair<A, B>
bool operator<=(A left, B right) {
  const Sym a = detail::as_sym(left), b = detail::as_sym(right);
  return a.is_symbolic() || b.is_symbolic() ? detail::sym_compare(SymCompare::Le, a, b)
                                            : a.concrete() <= b.concrete();
}
template <class A, class B>
requires detail::SymPair<A, B>
bool operator!=(A left, B right) { return !(left == right); }
template <class A, class B>
requires detail::SymPair<A, B>
bool operator>(A left, B right) { return right < left; }
template <class A, class B>
requires detail::SymPair<A, B>
bool operator>=(A left, B right) { return right <= left; }

inline Sym& Sym::operator+=(SymArg other) { return *this = *this + Sym(other); }
inline Sym& Sym::operator-=(SymArg other) { return *this = *this - Sym(other); }
inline Sym& Sym::operator*=(SymArg other) { return *this = *this * Sym(other); }
inline Sym& Sym::operator/=(SymArg other) { return *this = *this / Sym(other); }
inline Sym& Sym::operator++() { return *this += 1; }
inline Sym& Sym::operator--() { return *this -= 1; }
inline Sym Sym::operator++(int) {
  const Sym before = *this;
  *this += 1;
  return before;
}
inline Sym Sym::operator--(int) {
  const Sym before = *this;
  *this -= 1;
  return before;
}
inline Sym::operator bool() const { return *this != 0; }

// The same questions for code that is generic over int64_t and Sym.
// statically_known: true only if the answer holds for every size; never leaves a guard.
bool statically_known(SymCompare op, Sym a, Sym b);
constexpr bool statically_known(SymCompare op, int64_t a, int64_t b) { return detail::compare(op, a, b); }

// The value that is likely: the integer itself, or the expression's hint. Never leaves a guard; for heuristics only.
int64_t hint_of(Sym a);

std::ostream& operator<<(std::ostream& out, Sym value);

}  // namespace weft
