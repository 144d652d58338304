// CudaSection: the values of one stage of a kernel as CUDA C++, each where its loops begin.
// Needs cuda_stages and print_cuda. cuda_codegen puts loops around what it collects.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "compiler/codegen/cuda_stages.h"
#include "compiler/codegen/print_cuda.h"

namespace weft::compiler {

// Where the parameters of a body begin within those of the kernel.
struct CudaParams {
  uint32_t buffers = 0, numbers = 0, sizes = 0;
};

// Text in the order of the loops. Statements see `batch`, `row`, `c0` (the first column of a pack), `n` (how many of its
// elements are there, where the variant has a tail), `k` (the pack), `e` (its element) and `c` (the element's column).
class CudaSection {
 public:
  enum class Part : uint8_t { Rows, AfterRows };
  // `joins_passes`: folds along the columns are there from the start.
  CudaSection(const CudaBody& body, const CudaVariant& variant, const CudaParams& params,
              CudaPrinter& printer, Part part, bool joins_passes = false);

  std::string head;
  std::vector<std::string> line;     // values of each pass, before its packs; then of what follows them
  std::vector<std::string> actions;  // what is done with them: stores
  // Of the present pass:
  std::string declared;                // arrays over the packs
  std::string loads;                   // for each pack, before anything is computed
  std::string before, element, after;  // for each pack: ahead of its elements, for each, behind them

  void begin_pass(uint32_t pass);
  CppValue value(BodyValue v);
  // A truth value as a condition.
  std::string condition(BodyValue mask) { return value(mask).text; }
  void store(const BodyStore& store, size_t s, const std::string& line_condition);
  void check(uint32_t indirect);
  // Keeps a value with a column of this pass for the later ones.
  void keep(BodyValue v);
  void use_fold(uint32_t fold, CppValue result) { folds_[fold] = std::move(result); }
  // Asks for a source in this pass, that later ones have it.
  void preload(uint32_t source);
  // A statement for each element of this pass.
  void statement(const std::string& text);
  // A value of the line goes somewhere: a statement among the actions of this pass.
  void action(const std::string& text) { actions.at(pass_) += "    " + text + "\n"; }
  std::string index_text(Sym index);
  std::string bound(const char* name, Sym size);
  // These sources are read from shared memory, as held0 + c0.
  std::vector<uint32_t> held;
  // These from tiles, as tile0[x][y + 8 * k].
  std::vector<uint32_t> turned;
  // The index of a packed access without its column.
  std::string base_text(Sym index) { return index_text(code_.access(index)->base); }
  std::string buffer(uint32_t param);
  // Loads of packs stay in registers from pass to pass.
  bool keeps_loads = false;
  // What differs from element to element is read by this stage alone, and by each element once.
  bool reads_once = false;
  bool uses_random = false, uses_atomics = false;
  std::string packs = "1";  // the length of arrays over the packs

 private:
  enum class Scope : uint8_t { Head, Line, Column };
  Scope scope_of(const ValueLevel& level) const;
  uint32_t pass_of(const ValueLevel& level) const { return joins_passes_ ? 0 : level.pass; }
  void declare(Scope scope, uint32_t pass, const std::string& text);
  CppValue source(BodyValue v, const ExprGraph::Node& node, const Source& source, const ValueLevel& level);
  std::optional<std::string> pair(BodyValue v);
  std::optional<std::string> pair_of_operand(BodyValue v, DType half);
  CppValue load(uint32_t s, const Source& source, DType dtype, const ValueLevel& level);
  bool is_direct(const Source& source) const;
  std::string packed_address(uint32_t param, Sym index);
  std::string symbol_text(uint32_t symbol);
  std::string atom_text(uint32_t atom);
  void require_indirect(uint32_t k);
  std::string element_text(Scope scope) const;
  std::string count_text() const { return variant_.has_tail ? ", n" : ""; }

  const CudaBody& code_;
  const LoopBody& body_;
  const CudaVariant& variant_;
  CudaParams params_;
  CudaPrinter& printer_;
  Part part_;
  bool joins_passes_;
  uint32_t pass_ = 0;
  std::map<BodyValue, CppValue> values_, column_values_;
  std::map<BodyValue, std::optional<std::string>> pairs_;  // of this pass
  std::map<BodyValue, std::string> kept_;
  std::map<uint32_t, CppValue> folds_;
  std::set<uint32_t> loaded_, buffers_, sizes_, indirects_, column_indirects_;
  std::set<std::string> bounds_;
  std::map<std::string, std::string> bases_;
  uint32_t next_ = 0;
};

}  // namespace weft::compiler
