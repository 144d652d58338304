// TableEnvironment: answers questions about symbolic sizes and traced numbers when no trace runs, without guards.
// Needs sym_table and scalar_table. What looks at a finished graph (print, verify, passes) installs one.
#pragma once

#include "compiler/trace/scalar_table.h"

namespace weft::compiler {

// Arithmetic goes to the tables. A comparison that holds for every size is decided so; another one by its hint, as the
// trace decided it, and the environment remembers that it guessed. A traced number has no value to guess:
// UnknownNumber is thrown to whoever reads one.
class TableEnvironment final : public SymEnvironment, public ScalarEnvironment {
 public:
  struct UnknownNumber {};

  // Installs itself for this thread; the one that was there comes back at the end of the scope.
  explicit TableEnvironment(Expressions& tables);
  ~TableEnvironment();
  TableEnvironment(const TableEnvironment&) = delete;
  TableEnvironment& operator=(const TableEnvironment&) = delete;

  // An answer since the last reset rested on a hint: it need not hold for other sizes.
  bool has_guessed() const { return has_guessed_; }
  void reset() { has_guessed_ = false; }

  Sym binary(SymOp op, Sym a, Sym b) override;
  bool compare(SymCompare op, Sym a, Sym b) override;
  bool known(SymCompare op, Sym a, Sym b) override;
  int64_t specialize(Sym a) override;
  int64_t hint(Sym a) const override;
  std::string to_string(Sym a) const override;

  Scalar binary(ScalarOp op, const Scalar& a, const Scalar& b) override;
  bool compare(SymCompare op, const Scalar& a, const Scalar& b) override;
  double read_double(const Scalar& a) override;
  int64_t read_int(const Scalar& a) override;

 private:
  // Bounds of a number that is made of sizes alone; nothing for another one.
  struct Range {
    double min, max;
  };
  std::optional<Range> range_of(const Scalar& a) const;

  Expressions& tables_;
  SymEnvironment* outer_sizes_;
  ScalarEnvironment* outer_numbers_;
  bool has_guessed_ = false;
};

}  // namespace weft::compiler
