// ShapeEnv: decides questions about symbolic sizes while a trace runs, and keeps what it assumed as guards.
// Needs sym_table. The tracer installs it as the thread's SymEnvironment; guards.h turns its record into checks.
#pragma once

#include <string>

#include "compiler/trace/sym_table.h"
#include "tensor/base/error.h"
#include "tensor/layout.h"

namespace weft {
class Op;
}

namespace weft::compiler {

// Where a call finds the value of a symbol.
struct SymbolSource {
  enum class Kind : uint8_t {
    Size,     // of tensor leaf `leaf`, dimension `dim`
    Stride,   // likewise
    Number,   // number leaf `leaf` of the arguments, an integer
    Product,  // a product of sizes, which no call brings
    Result,  // size `dim` of a data-dependent result, known after a segment has run: `leaf` is its ordinal in the path
  };
  Kind kind = Kind::Size;
  uint32_t leaf = 0, dim = 0;
  friend bool operator==(const SymbolSource&, const SymbolSource&) = default;
};

struct DimPolicy {
  enum class Kind : uint8_t {
    Static,    // fixed to its value as soon as the program uses it
    Dynamic,   // a symbol of at least 2; 0 and 1 are fixed
    Declared,  // mark_dynamic: a symbol over `range`, 0 and 1 included where the range has them
  };
  Kind kind = Kind::Static;
  Interval range = {};
};

// The user's line and the op that asked a question.
struct Place {
  SourceLocation where;
  const Op* op = nullptr;
};

// a `op` b held in the traced call, and the program relies on it.
struct SymGuard {
  SymCompare op;
  Sym a, b;
  Place place;
};

// A size, stride or number that the program relies on as it is.
struct FixedValue {
  SymbolSource source;
  int64_t value;
  Place place;
};

class ShapeEnv final : public SymEnvironment {
 public:
  explicit ShapeEnv(SymTable& table) : table_(table) {}

  // The size or number of a call, under its policy. Static ones become placeholders: Syms that stand for their value until
  // anything asks about them, so that what a program never looks at is never guarded.
  Sym add(SymbolSource source, int64_t value, const DimPolicy& policy);
  // Sizes and strides of tensor leaf `leaf`. A stride that equals a size times the stride next below it in memory follows
  // from the sizes and takes no symbol; another one is fixed, or a symbol where `dynamic_strides` says so (bit d). The stride
  // of a dimension of size 1 carries no information: it becomes what contiguity would make it and is never guarded.
  // Dimensions without a policy are static.
  Layout<Sym> add_layout(uint32_t leaf, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                         std::span<const DimPolicy> policies, uint64_t dynamic_strides = 0);

  // The policy under which another size has the freedom of this one.
  DimPolicy policy_of(Sym size) const;

  // The product of sizes; itself a placeholder while one of them is, whose settling settles them.
  Sym add_product(std::span<const Sym> sizes);

  // Turns placeholders into integers, with a FixedValue for each, or for a stride that follows from symbols into their
  // product, with a guard. Expressions of real symbols stay, but for what guards have made of them since.
  Sym settle(Sym a);
  void settle(Layout<Sym>& layout);
  bool is_placeholder(Sym a) const;

  // What is asking: named in guards. The tracer sets it for each op.
  void set_place(Place place) { place_ = place; }

  // ---- SymEnvironment: placeholders among the operands are settled first.
  Sym binary(SymOp op, Sym a, Sym b) override;
  bool compare(SymCompare op, Sym a, Sym b) override;
  bool known(SymCompare op, Sym a, Sym b) override;
  int64_t specialize(Sym a) override;
  int64_t hint(Sym a) const override;
  std::string to_string(Sym a) const override;
  // What it is in terms of symbols: "s0*4".
  std::string expression(Sym a) const;

  // ---- What the trace relied on, each fact once, in the order in which it was first relied on.
  const std::vector<SymGuard>& guards() const { return guards_; }
  const std::vector<FixedValue>& fixed() const { return fixed_; }
  // By number of the symbol in the table.
  const std::vector<SymbolSource>& sources() const { return sources_; }
  // The symbols whose values a call must bring: those that something asked about, and strides that a guard compares with one.
  std::vector<uint32_t> live_symbols() const;
  SymTable& table() { return table_; }
  const SymTable& table() const { return table_; }
  // What the policy of a symbol promised, before any guard; everything for a placeholder.
  Interval promised(uint32_t symbol) const { return entries_[symbol].promised; }
  // The symbol itself, which a later equation may have replaced.
  Sym symbol(uint32_t number) const { return entries_[number].self; }

 private:
  struct Entry {  // by number of the symbol in the table
    bool is_placeholder = false, is_settled = false, is_product = false;
    bool is_read = false;  // something asked about it: its value, and what was promised of it, count
    bool is_result = false;
    Sym self;
    Interval promised;
    Sym value = {};                      // of a placeholder: an integer, or the product that a stride is
    std::vector<Sym> factors = {};       // of a product of placeholders
    Sym irrelevance = Sym::from_int(1);  // 0 where a stride does not matter: its size is 1, or some size 0
    bool needs_values() const {
      if (is_product) return false;
      if (!is_placeholder) return is_read;
      // Fixed sizes of arguments are checked as such, those of results by their symbols.
      return is_settled && (value.is_symbolic() || irrelevance.is_symbolic() || is_result);
    }
  };
  struct Answer {
    Sym a, b;
    SymCompare op = SymCompare::Eq;
    bool is_set = false, holds = false;
  };
  Sym add_symbol(SymbolSource source, Symbol symbol);
  Sym add_placeholder(SymbolSource source, int64_t hint, Sym value, Sym irrelevance = Sym::from_int(1));
  Sym stand_in(Sym a) const;
  void mark_read(Sym a);
  Sym settle_placeholder(uint32_t symbol);
  void add_guard(SymCompare op, Sym a, Sym b);

  SymTable& table_;
  std::vector<Entry> entries_;
  std::vector<SymbolSource> sources_;
  std::vector<SymGuard> guards_;
  std::vector<FixedValue> fixed_;
  std::vector<bool> marked_;                                // by expression: its symbols are marked as read
  std::vector<Answer> answers_ = std::vector<Answer>(512);  // of compare(), direct-mapped; they stay true
  uint32_t num_symbols_ = 0;                                // that are no placeholders: s0, s1, …
  Place place_;
};

}  // namespace weft::compiler
