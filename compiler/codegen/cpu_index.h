// Index expressions as C++, and how they move over the sixteen lanes of a vector.
// Needs loops/loop_levels. CpuSection prints loads, stores and places by it.
#pragma once

#include <functional>

#include "compiler/loops/index_expr.h"
#include "compiler/loops/loop_levels.h"

namespace weft::compiler {

// An index from one lane to the next, for vectors that begin at multiples of sixteen.
struct LaneStride {
  Sym stride;      // free of the column
  bool is_affine;  // in the column altogether: the index is base + column * stride
  Sym base;        // where it is
};

class CpuIndex {
 public:
  // Adds symbols to the body's table.
  CpuIndex(const LoopBody& body, const LoopLevels& levels);

  ValueLevel level(Sym index) const { return level_of(body_, levels_, index); }
  // Nothing where each lane has to be asked for itself.
  std::optional<LaneStride> lanes(Sym index);
  // The indirect symbols in it, by their place in LoopBody::indirects.
  std::vector<uint32_t> indirects(Sym index) const;

  // A C++ expression of type long; `name` gives the text of a symbol by its number.
  using SymbolText = std::function<std::string(uint32_t)>;
  std::string text(Sym index, const SymbolText& name) const;

 private:
  std::string atom_text(uint32_t atom, const SymbolText& name) const;

  const LoopBody& body_;
  const LoopLevels& levels_;
  SymTable& table_;
  Sym group_, lane_;  // column = 16 * group + lane
};

inline bool same(Sym a, Sym b) { return __builtin_memcmp(&a, &b, sizeof a) == 0; }
inline bool is_int(Sym a, int64_t value) { return !a.is_symbolic() && a.concrete() == value; }

}  // namespace weft::compiler
