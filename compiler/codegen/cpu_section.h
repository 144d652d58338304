// CpuSection: the values of one part of a kernel as C++, each in the outermost loop where it can be computed.
// Needs print_vector, cpu_index and loops. cpu_codegen puts loops around what it collects.
#pragma once

#include <map>
#include <set>

#include "compiler/codegen/cpu_index.h"
#include "compiler/codegen/print_vector.h"

namespace weft::compiler {

// A body with what several sections ask of it.
struct CpuBody {
  const LoopBody& body;
  LoopLevels levels;
  CpuIndex index;
  VectorPrinter& printer;

  CpuBody(const LoopBody& b, VectorPrinter& p)
      : body(b), levels(levels_of(b)), index(b, levels), printer(p) {}
  const ExprGraph::Node& node(BodyValue v) const { return body.values.nodes()[v]; }
};

// Text in the order of the loops. A section is a function; `line` is its innermost loop but the columns: a row, or a batch
// where it works after the rows.
class CpuSection {
 public:
  enum class Part : uint8_t { Rows, AfterRows };
  enum class Scope : uint8_t { Head, Batch, Line, Column };

  CpuSection(CpuBody& body, Part part);

  // The vector of a value, its statements put where they belong. Values with a column are those of the present pass.
  CppValue value(BodyValue v);
  // A truth value as a C++ condition (of lane 0), where it has no column.
  std::string condition(BodyValue mask);

  // The pass that is being printed: its own values, in `column`.
  void begin_pass(uint32_t pass);
  uint32_t pass() const { return pass_; }

  void store(const BodyStore& store);
  // Evaluates and checks a computed index though nothing may read it.
  void check(uint32_t indirect);
  // Values with a column that the pass keeps for later ones, or reads from an earlier one: by value, the array.
  void keep(BodyValue v, const std::string& array);
  void use_kept(BodyValue v, const std::string& array) { kept_[v] = array; }

  // Elements that lie in a tile, dense along the columns, instead of the buffer: the address of lane 0.
  void use_tile(uint32_t param, Sym index, const std::string& address) {
    tiles_.push_back({param, index, address});
  }

  // The result of a fold, from where it is computed on.
  void set_fold(uint32_t fold, CppValue result) { folds_[fold] = std::move(result); }
  // The result of a fold along the rows that has a column: its array, which begins with column `first`.
  void set_fold_array(uint32_t fold, const std::string& array) { fold_arrays_[fold] = array; }

  // Another statement of the pass.
  void add(const std::string& statement) { declare({Scope::Column, pass_}, statement); }

  Scope scope_of(const ValueLevel& level) const;
  std::string& text(Scope scope, uint32_t pass);
  // The name of a buffer, declared at the head.
  std::string buffer(uint32_t param);
  // "rows", "columns": the bounds of the loops, declared at the head.
  std::string bound(const char* name, Sym size);
  // An index as C++, with what it needs declared; `column` is how the column is called.
  std::string index_text(Sym index, const char* column = "c");

  // Neighbouring elements that the pass reads or writes, vector after vector.
  struct Stream {
    std::string address;  // of lane 0
    Sym base;             // the index without the column
    size_t element_bytes;
    bool is_written;
  };
  const std::vector<Stream>& streams() const { return streams_; }

  std::string head, batch, column;
  std::vector<std::string> line;  // before pass 0, before pass 1, …, after the last

 private:
  struct At {
    Scope scope;
    uint32_t pass;  // which piece of the line
  };
  At at(const ValueLevel& level) const { return {scope_of(level), level.pass}; }

  CppValue source(BodyValue v, const ExprGraph::Node& node, const Source& source, At at);
  CppValue load(const Source& source, DType dtype, At at, bool is_raw = false);
  CppValue stored_value(const BodyStore& store, std::string& element);
  CppValue place(BodyValue v, Sym index, DType dtype, At at);
  CppValue random(BodyValue v, const Source& source, DType dtype, At at);
  CppValue fold(uint32_t fold, At at);
  void store_column(const BodyStore& store);
  void store_line(const BodyStore& store);

  void declare(At at, const std::string& statement);
  const std::string* tile_of(uint32_t param, Sym index) const;
  std::string symbol_text(uint32_t symbol, const char* column);
  void add_stream(const std::string& address, const LaneStride& lanes, uint32_t param, bool is_written);
  // The address of lane 0 of a vector of elements, and the stride between lanes.
  std::string address(uint32_t param, const LaneStride& lanes);
  // `for` over the lanes (where their bit is set), with the index of a lane as `at`.
  std::string each_lane(Sym index, const std::string& bits, const std::string& statement);
  std::string lane_bits(BodyValue mask);
  void require_indirect(uint32_t k);
  std::string element_text(Scope scope) const;
  std::string fresh(const char* prefix) { return prefix + std::to_string(next_++); }

  CpuBody& code_;
  const LoopBody& body_;
  Part part_;
  uint32_t pass_ = 0;
  uint32_t next_ = 0;
  std::map<BodyValue, CppValue> values_, column_values_;
  std::map<BodyValue, std::string> kept_;
  std::vector<Stream> streams_;
  struct Tile {
    uint32_t param;
    Sym index;
    std::string address;
  };
  std::vector<Tile> tiles_;
  std::map<uint32_t, CppValue> folds_;
  std::map<uint32_t, std::string> fold_arrays_;
  std::set<uint32_t> buffers_, sizes_, indirects_, column_indirects_;
  std::set<std::string> bounds_;
  std::map<std::string, std::string> addresses_;
};

}  // namespace weft::compiler
