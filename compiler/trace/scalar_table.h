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

// Equal expressions have equal ids; operands have smaller ids than what is made of them.
class ScalarTable {
 public:
  // Numbers are compared by their bits, so that 0.0 and -0.0 stay two and NaN is one.
  ScalarId add(const ScalarExpr& expr);
  const ScalarExpr& operator[](ScalarId id) const { return exprs_[id]; }
  size_t size() const { return exprs_.size(); }
  // "(%in0 * 0.5)"
  std::string to_string(ScalarId id, const SymTable& syms) const;
  // The steps that its evaluation takes where nothing is shared.
  uint32_t cost(ScalarId id) const { return costs_[id]; }

 private:
  void print(ScalarId id, const SymTable& syms, size_t limit, std::string& text) const;

  std::vector<ScalarExpr> exprs_;
  std::vector<uint32_t> costs_;
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

// Gives the value of an Item by its index; borrows what it is made from.
class ItemReader {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, ItemReader>) ItemReader(const F& read)  // NOLINT
      : context_(&read), read_([](const void* context, uint32_t index) -> Scalar {
          return (*static_cast<const F*>(context))(index);
        }) {}
  Scalar operator()(uint32_t index) const { return read_(context_, index); }

 private:
  const void* context_;
  Scalar (*read_)(const void*, uint32_t);
};

// The number in one call, by the arithmetic that Scalars have outside a trace. No allocation but in the first evaluation of
// expressions of hundreds of steps, whose parts are then computed once each; whoever evaluates many keeps the values.
// Errors: those of SymTable::evaluate, for a size in it.
Scalar evaluate(const Expressions& tables, ScalarId id, const RunValues& values, const ItemReader& item);
// A number of a graph: a plain one as it is, a traced or symbolic one by its expression.
Scalar evaluate(const Expressions& tables, const Scalar& number, const RunValues& values,
                const ItemReader& item);

}  // namespace weft::compiler
