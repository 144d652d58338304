// Scalar: conversion and arithmetic; traced values go to the trace.
// Place: the out-of-line half of tensor/scalar.h.
#include "tensor/scalar.h"

#include <atomic>
#include <cmath>
#include <ostream>

namespace weft {
namespace {

std::atomic<DType> the_default_dtype{DType::Float32};

ScalarEnvironment& scalars() {
  ScalarEnvironment* current = current_scalar_environment();
  WEFT_CHECK(current != nullptr, "scalar: a number of a trace is used outside the function that was traced");
  return *current;
}

// Saturates, and gives 0 for NaN: the rule of every float-to-integer conversion in Weft.
int64_t to_int_saturating(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return INT64_MAX;
  if (value < -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(value);
}

// Wraps like the arithmetic of integer tensors.
int64_t wrap(ScalarOp op, int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<int64_t>(op == ScalarOp::Add ? x + y : op == ScalarOp::Sub ? x - y : x * y);
}

}  // namespace

ScalarEnvironment*& current_scalar_environment() {
  static thread_local ScalarEnvironment* environment = nullptr;
  return environment;
}

double Scalar::to_double() const {
  if (is_traced_) return scalars().read_double(*this);
  if (category_ == Category::Floating) return double_;
  return static_cast<double>(to_int());
}

bool Scalar::decide_bool() const { return detail::scalar_compare(SymCompare::Ne, *this, Scalar(int64_t{0})); }

int64_t Scalar::to_int() const {
  if (is_traced_) return scalars().read_int(*this);
  if (category_ == Category::Floating) return to_int_saturating(double_);
  return is_sym_ ? static_cast<int64_t>(sym_) : int_;
}

DType Scalar::dtype() const {
  switch (category_) {
    case Category::Bool: return DType::Bool;
    case Category::Integer: return DType::Int64;
    case Category::Floating: break;
  }
  return default_dtype();
}

namespace detail {

Scalar scalar_binary(ScalarOp op, const Scalar& a, const Scalar& b) {
  if (a.is_traced() || b.is_traced() || a.is_symbolic() || b.is_symbolic()) return scalars().binary(op, a, b);
  if (op == ScalarOp::Div) return a.to_double() / b.to_double();
  if (op == ScalarOp::Pow) return std::pow(a.to_double(), b.to_double());
  if (!a.is_floating() && !b.is_floating()) return wrap(op, a.to_int(), b.to_int());
  const double x = a.to_double(), y = b.to_double();
  return op == ScalarOp::Add ? x + y : op == ScalarOp::Sub ? x - y : x * y;
}

bool scalar_compare(SymCompare op, const Scalar& a, const Scalar& b) {
  if (a.is_traced() || b.is_traced() || a.is_symbolic() || b.is_symbolic())
    return scalars().compare(op, a, b);
  if (!a.is_floating() && !b.is_floating()) return compare(op, a.to_int(), b.to_int());
  return compare(op, a.to_double(), b.to_double());
}

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  if (value.is_traced()) return out << '%' << value.trace_id();
  switch (value.category()) {
    case Scalar::Category::Bool: return out << (value.to_bool() ? "true" : "false");
    case Scalar::Category::Integer: return value.is_symbolic() ? out << value.sym() : out << value.to_int();
    case Scalar::Category::Floating: break;
  }
  return out << value.to_double();
}

DType default_dtype() { return the_default_dtype.load(std::memory_order_relaxed); }

void set_default_dtype(DType dtype) {
  WEFT_CHECK(is_floating(dtype), "set_default_dtype: ", dtype, " is not a floating type");
  the_default_dtype.store(dtype, std::memory_order_relaxed);
}

}  // namespace weft
