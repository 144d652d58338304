// Cell: a number that changes between calls without changing the program: a learning rate, a step count.
// Needs scalar and base/intrusive. Optimizers own cells; a trace installs an environment that reads and writes them.
#pragma once

#include "tensor/base/intrusive.h"
#include "tensor/scalar.h"

namespace weft {

struct CellImpl : RefCounted<CellImpl> {
  explicit CellImpl(double v) : value(v) {}
  double value;
};

// What a trace supplies: cells read as run-time values, and writes that happen at each call of the program.
class CellEnvironment {
 public:
  virtual ~CellEnvironment() = default;
  virtual Scalar read(const Intrusive<CellImpl>& cell) = 0;
  virtual void write(const Intrusive<CellImpl>& cell, const Scalar& value) = 0;
};

// The environment of this thread's trace, or null.
CellEnvironment*& current_cell_environment();

// Has the value semantics of a double, but one identity for its life: a copy is another cell, an assignment keeps this one.
class Cell {
 public:
  Cell(double value = 0) : impl_(make_intrusive<CellImpl>(value)) {}  // NOLINT
  Cell(const Cell& other) : Cell(other.value()) {}
  Cell& operator=(const Cell& other) {
    set(other.read());
    return *this;
  }
  Cell& operator=(double value) {
    set(value);
    return *this;
  }

  // The number, which stays a run-time value inside a trace.
  Scalar read() const {
    CellEnvironment* environment = current_cell_environment();
    return environment != nullptr ? environment->read(impl_) : Scalar(impl_->value);
  }
  void set(const Scalar& value) {
    if (CellEnvironment* environment = current_cell_environment()) environment->write(impl_, value);
    else impl_->value = value.to_double();
  }
  // The number as the host needs it; inside a trace this ends the traced segment.
  double value() const { return read().to_double(); }
  operator double() const { return value(); }  // NOLINT: used as the double it stands for
  Cell& operator+=(double other) {
    set(read() + other);
    return *this;
  }
  Cell& operator*=(double other) {
    set(read() * other);
    return *this;
  }

  // What a trace keeps hold of.
  const Intrusive<CellImpl>& impl() const { return impl_; }

 private:
  Intrusive<CellImpl> impl_;
};

// base to the power of exponent, kept as a run-time value where one of them is.
Scalar pow(const Scalar& base, const Scalar& exponent);

}  // namespace weft
