// ScalarTable: the numbers of one compiled path that are known only when it runs: arguments, rates, item().
// Needs sym_table and tensor/scalar. A Scalar with is_traced() names one by its id.
#pragma once

#include <span>
#include <vector>

#include "compiler/trace/sym_table.h"
#include "tensor/scalar.h"

namespace weft::compiler {

using ScalarId = uint32_t;

struct ScalarExpr {
  enum class Kind : uint8_t {
    Constant,  // `constant`; also a symbolic size (Scalar::sym)
    Input,     // `index`: which of the numbers that a call brings
    Item,      // the value of a tensor of one element; `index`: which of Graph::items
    Binary,    // `op` of two others
  };
  Kind kind = Kind::Constant;
  Scalar::Category category = Scalar::Category::Floating;
  ScalarOp op = ScalarOp::Add;
  ScalarId a = 0, b = 0;
  uint32_t index = 0;
  Scalar constant;
};

// Equal expressions have equal ids.
class ScalarTable {
 public:
  ScalarId add(const ScalarExpr& expr);
  const ScalarExpr& operator[](ScalarId id) const { return exprs_[id]; }
  size_t size() const { return exprs_.size(); }
  // "(%in0 * 0.5)"
  std::string to_string(ScalarId id, const SymTable& syms) const;

 private:
  std::vector<ScalarExpr> exprs_;
  std::unordered_multimap<uint64_t, ScalarId> by_hash_;
};

// Both tables of a path: what attributes, sizes and numbers of its graphs refer to.
struct Expressions {
  SymTable syms;
  ScalarTable scalars;
};

// What one call brings beside its tensors.
struct RunValues {
  std::span<const int64_t> symbols;  // by number of the symbol
  std::span<const Scalar> numbers;   // by index of ScalarExpr::Input
};

}  // namespace weft::compiler
