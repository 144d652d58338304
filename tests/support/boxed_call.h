// Calling ops found by name with arguments that are known at run time only: positional and by keyword, as in Python.
// Needs tensor/ops/entry.h. The schema says which argument is an operand or an attribute, and what it is by default.
#pragma once

#include <deque>
#include <utility>

#include "tensor/ops/entry.h"

namespace weft::tests {

// An argument before it is bound to a parameter: None, a number, a text, a tensor or a list.
class Arg {
 public:
  enum class Kind : uint8_t { None, Bool, Int, Float, Text, Tensor, List };
  using List = std::vector<Arg>;

  Arg() = default;
  Arg(bool v) : kind_(Kind::Bool), bool_(v) {}                    // NOLINT
  Arg(int v) : kind_(Kind::Int), int_(v) {}                       // NOLINT
  Arg(int64_t v) : kind_(Kind::Int), int_(v) {}                   // NOLINT
  Arg(double v) : kind_(Kind::Float), float_(v) {}                // NOLINT
  Arg(const char* v) : kind_(Kind::Text), text_(v) {}             // NOLINT
  Arg(std::string v) : kind_(Kind::Text), text_(std::move(v)) {}  // NOLINT
  Arg(Tensor v) : kind_(Kind::Tensor), tensor_(std::move(v)) {}   // NOLINT
  Arg(List v) : kind_(Kind::List), list_(std::move(v)) {}         // NOLINT

  bool is_none() const { return kind_ == Kind::None; }
  // Null if the argument is of another kind.
  template <class T>
  const T* get() const {
    if constexpr (std::is_same_v<T, bool>) return kind_ == Kind::Bool ? &bool_ : nullptr;
    else if constexpr (std::is_same_v<T, int64_t>) return kind_ == Kind::Int ? &int_ : nullptr;
    else if constexpr (std::is_same_v<T, double>) return kind_ == Kind::Float ? &float_ : nullptr;
    else if constexpr (std::is_same_v<T, std::string>) return kind_ == Kind::Text ? &text_ : nullptr;
    else if constexpr (std::is_same_v<T, Tensor>) return kind_ == Kind::Tensor ? &tensor_ : nullptr;
    else return kind_ == Kind::List ? &list_ : nullptr;
  }

 private:
  Kind kind_ = Kind::None;
  bool bool_ = false;
  int64_t int_ = 0;
  double float_ = 0;
  std::string text_;
  Tensor tensor_;
  List list_;
};
using Args = std::vector<Arg>;
using Kwargs = std::vector<std::pair<std::string, Arg>>;

// By its short or its full name; nothing for another text.
std::optional<DType> dtype_of_name(std::string_view name);

// Operands and attributes ready for call_boxed; keeps the tensors that the operands point to.
class BoundCall {
 public:
  explicit BoundCall(const Op& op) : op_(&op) {}
  BoundCall(BoundCall&&) = default;

  const Op& op() const { return *op_; }
  std::span<const Operand> operands() const { return operands_; }
  const Attrs& attrs() const { return attrs_; }
  std::vector<Tensor> run(SourceLocation where = SourceLocation::current()) const {
    return call_boxed(*op_, operands_, attrs_, where);
  }
  Call call(SourceLocation where = SourceLocation::current()) const {
    return {*op_, operands_, attrs_, where};
  }

  void add_operand(const Arg& arg, const Param& param);
  void add_attr(Attr attr) { attrs_.push_back(std::move(attr)); }

 private:
  const Op* op_;
  std::deque<Tensor> kept_;  // stable addresses
  std::vector<Operand> operands_;
  Attrs attrs_;
};

// Errors: Error naming the op and the argument that is missing, unknown or of the wrong type.
BoundCall bind_call(const Op& op, const Args& args, const Kwargs& kwargs = {});

}  // namespace weft::tests
