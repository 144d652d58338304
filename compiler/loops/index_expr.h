// Substitution: index expressions with other expressions in the place of their symbols.
// Needs trace's sym_table. Lowering, levels and schedules move indices between loops by it.
#pragma once

#include <span>
#include <unordered_map>
#include <utility>

#include "compiler/trace/sym_table.h"

namespace weft::compiler {

// Made anew by the table's own arithmetic, so that what became simpler is simplified. Parts are rebuilt once, however many
// expressions share them; what the table learns of a replaced symbol afterwards is not seen.
class Substitution {
 public:
  explicit Substitution(SymTable& table) : table_(table) {}

  // `symbol` is a symbol of the table. All replacements of one Substitution happen at once.
  void replace(Sym symbol, Sym by);
  // Error where plain integers would raise.
  Sym apply(Sym a);

 private:
  Sym rebuild(uint32_t expr);

  SymTable& table_;
  std::unordered_map<uint32_t, Sym> replacements_;  // by number of the symbol
  std::unordered_map<uint32_t, Sym> rebuilt_;       // by id of the expression
};

Sym substitute(SymTable& table, Sym a, std::span<const std::pair<Sym, Sym>> replacements);
Sym substitute(SymTable& table, Sym a, Sym symbol, Sym by);

}  // namespace weft::compiler
