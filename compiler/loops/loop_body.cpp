// The listing of a body, and what must hold of every body.
// Place: the out-of-line half of loop_body.h.
#include "compiler/loops/loop_body.h"

#include <algorithm>
#include <bit>
#include <sstream>

#include "compiler/loops/loop_levels.h"
#include "tensor/base/error.h"

namespace weft::compiler {

const char* name_of(cpu::Fold fold) {
  switch (fold) {
    case cpu::Fold::Sum: return "sum";
    case cpu::Fold::Prod: return "prod";
    case cpu::Fold::Max: return "max";
    case cpu::Fold::Min: return "min";
  }
  return "?";
}

namespace {

const char* name_of(BodyFold::Axis axis) {
  switch (axis) {
    case BodyFold::Axis::Columns: return "columns";
    case BodyFold::Axis::Rows: return "rows";
    case BodyFold::Axis::RowValues: return "row values";
  }
  return "?";
}

const char* name_of(BodyStore::Each each) {
  switch (each) {
    case BodyStore::Each::Element: return "element";
    case BodyStore::Each::Row: return "row";
    case BodyStore::Each::Column: return "column";
    case BodyStore::Each::Batch: return "batch";
  }
  return "?";
}

class BodyPrinter {
 public:
  explicit BodyPrinter(const LoopBody& body) : body_(body) {}

  std::string print() {
    out_ << body_.name << '(';
    const char* separator = "";
    for (size_t b = 0; b < body_.buffers.size(); ++b) {
      const BufferParam& buffer = body_.buffers[b];
      out_ << separator << (buffer.is_written ? buffer.is_read ? "inout " : "out " : "in ") << 'b' << b
           << ": " << short_name_of(buffer.dtype);
      separator = ", ";
    }
    for (size_t n = 0; n < body_.numbers.size(); ++n) {
      out_ << separator << 'n' << n << ": " << short_name_of(body_.numbers[n].dtype);
      separator = ", ";
    }
    for (uint32_t symbol : body_.size_symbols) {
      out_ << separator << body_.expressions->syms.symbols().at(symbol).name;
      separator = ", ";
    }
    out_ << ") for ";
    separator = "";
    for (const auto& [index, size] : {std::pair(body_.batch, body_.batches), std::pair(body_.row, body_.rows),
                                      std::pair(body_.column, body_.columns)}) {
      out_ << separator << text(index) << " < " << text(size);
      separator = ", ";
    }
    out_ << " {\n";
    for (BodyValue v = 0; v < body_.values.nodes().size(); ++v) print_value(v);
    for (size_t f = 0; f < body_.folds.size(); ++f) {
      const BodyFold& fold = body_.folds[f];
      out_ << "  fold " << f << " = " << compiler::name_of(fold.fold) << " of %" << fold.value << " along "
           << name_of(fold.axis) << '\n';
    }
    for (const BodyStore& store : body_.stores) {
      out_ << "  b" << store.param << '[' << text(store.index) << "] "
           << (store.mode == BodyStore::Mode::Add ? "+= %" : "= %") << store.value << " for each "
           << name_of(store.each);
      print_mask(store.mask);
      out_ << '\n';
    }
    out_ << "}\n";
    return std::move(out_).str();
  }

 private:
  std::string text(Sym a) const { return body_.expressions->syms.to_string(a); }

  void print_mask(BodyValue mask) {
    if (mask != kNoBodyValue) out_ << " if %" << mask;
  }

  void print_value(BodyValue v) {
    const ExprGraph::Node& node = body_.values.nodes()[v];
    out_ << "  %" << v << ": " << short_name_of(node.dtype) << " = ";
    if (node.prim == Prim::Input) print_source(node.imm);
    else if (node.prim == Prim::Constant) print_constant(node);
    else out_ << weft::name_of(node.prim);
    if (node.prim == Prim::Lookup) out_ << ' ' << body_.values.tables().at(node.imm).name;
    for (int i = 0; i < arity_of(node.prim); ++i) out_ << " %" << node.args[i];
    for (const Indirect& indirect : body_.indirects) {
      if (indirect.value != v) continue;
      out_ << "   # " << text(indirect.symbol) << " in " << text(indirect.size);
      if (indirect.check >= body_.checks.size()) continue;
      const Check& check = body_.checks[indirect.check];
      out_ << ", " << check.op;
      print_mask(check.mask);
    }
    out_ << '\n';
  }

  void print_source(uint64_t slot) {
    if (slot >= body_.sources.size()) {
      out_ << "source " << slot;
      return;
    }
    const Source& source = body_.sources[slot];
    switch (source.kind) {
      case Source::Kind::Load: out_ << 'b' << source.param << '[' << text(source.index) << ']'; break;
      case Source::Kind::Place: out_ << text(source.index); break;
      case Source::Kind::Number: out_ << 'n' << source.param; break;
      case Source::Kind::Fold: out_ << "fold " << source.param; break;
      case Source::Kind::Random:
        out_ << "random n" << source.param << " n" << source.param + 1 << '[' << text(source.index) << ']';
        break;
    }
    print_mask(source.mask);
  }

  void print_constant(const ExprGraph::Node& node) {
    switch (node.dtype) {
      case DType::Float32: out_ << std::bit_cast<float>(static_cast<uint32_t>(node.imm)); break;
      case DType::Float64: out_ << std::bit_cast<double>(node.imm); break;
      case DType::Int32: out_ << static_cast<int32_t>(node.imm); break;
      default: out_ << static_cast<int64_t>(node.imm); break;
    }
  }

  const LoopBody& body_;
  std::ostringstream out_;
};

bool is_compute(DType dtype) { return compute_dtype(dtype) == dtype; }

class BodyVerifier {
 public:
  explicit BodyVerifier(const LoopBody& body) : body_(body) {}

  void verify() {
    require(body_.expressions != nullptr, "it has no tables");
    for (uint32_t symbol : body_.size_symbols)
      require(symbol < table().symbols().size(), "size symbol ", symbol, " does not exist");
    check_loop("batch", body_.batch, body_.batches);
    check_loop("row", body_.row, body_.rows);
    check_loop("column", body_.column, body_.columns);
    for (const Indirect& indirect : body_.indirects) check_indirect(indirect);
    for (const Check& check : body_.checks) check_mask(check.mask, num_values());
    for (BodyValue v = 0; v < num_values(); ++v) check_value(v);
    for (size_t f = 0; f < body_.folds.size(); ++f) {
      const BodyFold& fold = body_.folds[f];
      require(fold.value < num_values(), "fold ", f, " is of %", fold.value, ", which does not exist");
      require(is_compute(dtype_of(fold.value)), "fold ", f, " is of a value in ", dtype_of(fold.value));
    }
    for (const BodyStore& store : body_.stores) check_store(store);
    levels_ = levels_of(body_);
    for (size_t f = 0; f < body_.folds.size(); ++f) check_level(f, body_.folds[f]);
    for (size_t s = 0; s < body_.stores.size(); ++s) check_level(s, body_.stores[s]);
  }

 private:
  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) [[likely]]
      return;
    std::string listing;
    // A broken body may not even print.
    try {
      if (body_.expressions != nullptr) listing = to_string(body_);
    } catch (const std::exception& error) {
      listing = error.what();
    }
    constexpr bool body_is_valid = false;
    WEFT_ASSERT(body_is_valid, "body '", body_.name, "': ", parts..., "\n", listing);
  }

  const SymTable& table() const { return body_.expressions->syms; }
  uint32_t num_values() const { return static_cast<uint32_t>(body_.values.nodes().size()); }
  DType dtype_of(BodyValue v) const { return body_.values.nodes()[v].dtype; }

  bool is_size(uint32_t symbol) const {
    return std::find(body_.size_symbols.begin(), body_.size_symbols.end(), symbol) !=
           body_.size_symbols.end();
  }
  void check_size(const char* what, Sym size) const {
    for (uint32_t symbol : table().symbols_of(size))
      require(is_size(symbol), what, " ", table().to_string(size), " reads ", table().symbols()[symbol].name,
              ", which no call brings");
  }

  void check_loop(const char* what, Sym index, Sym size) const {
    check_size(what, size);
    const bool is_single = !size.is_symbolic() && size.concrete() == 1;
    if (!index.is_symbolic()) {
      require(index.concrete() == 0 && is_single, "the ", what, " of a loop of ", table().to_string(size),
              " is ", index.concrete());
      return;
    }
    const std::optional<uint32_t> symbol = table().as_symbol(index);
    require(symbol.has_value() && !is_size(*symbol), "the ", what, " is ", table().to_string(index),
            ", no symbol of its own");
    int uses = 0;
    for (Sym other : {body_.batch, body_.row, body_.column}) uses += table().as_symbol(other) == symbol;
    for (const Indirect& indirect : body_.indirects) uses += table().as_symbol(indirect.symbol) == symbol;
    require(uses == 1, table().to_string(index), " stands for two indices");
  }

  void check_indirect(const Indirect& indirect) const {
    check_size("an indirect size", indirect.size);
    require(indirect.value < num_values(), "an indirect index is %", indirect.value,
            ", which does not exist");
    const DType dtype = dtype_of(indirect.value);
    require(dtype == DType::Int64 || dtype == DType::Int32, "an indirect index is in ", dtype);
    require(indirect.check < body_.checks.size(), "an indirect index names check ", indirect.check,
            ", which does not exist");
    const std::optional<uint32_t> symbol = table().as_symbol(indirect.symbol);
    require(symbol.has_value() && !is_size(*symbol), table().to_string(indirect.symbol),
            ", an indirect index, is no symbol of its own");
    const auto same = [&](const Indirect& other) { return table().as_symbol(other.symbol) == symbol; };
    require(std::count_if(body_.indirects.begin(), body_.indirects.end(), same) == 1,
            table().to_string(indirect.symbol), " stands for two indices");
  }

  // The index may only ask for values that are there before `before`.
  void check_index(Sym index, BodyValue before) const {
    for (uint32_t symbol : table().symbols_of(index)) {
      const auto is = [&](Sym other) { return table().as_symbol(other) == symbol; };
      bool is_known = is_size(symbol) || is(body_.batch) || is(body_.row) || is(body_.column);
      for (const Indirect& indirect : body_.indirects) {
        if (!is(indirect.symbol)) continue;
        is_known = true;
        const BodyValue mask = body_.checks[indirect.check].mask;
        require(indirect.value < before && (mask == kNoBodyValue || mask < before), "index ",
                table().to_string(index), " asks for %", indirect.value, " before it is there");
      }
      require(is_known, "index ", table().to_string(index), " reads ", table().symbols()[symbol].name,
              ", which is neither a loop, a size nor a value");
    }
  }
  void check_mask(BodyValue mask, BodyValue before) const {
    if (mask == kNoBodyValue) return;
    require(mask < before, "mask %", mask, " is not there yet");
    require(dtype_of(mask) == DType::Bool, "mask %", mask, " is in ", dtype_of(mask));
  }

  void check_source(BodyValue v, const ExprGraph::Node& node) const {
    require(node.imm < body_.sources.size(), "%", v, " reads source ", node.imm, ", which does not exist");
    const Source& source = body_.sources[node.imm];
    check_mask(source.mask, v);
    require(source.mask == kNoBodyValue || source.kind == Source::Kind::Load, "%", v,
            " has a mask but loads nothing");
    const bool is_integer = node.dtype == DType::Int64 || node.dtype == DType::Int32;
    switch (source.kind) {
      case Source::Kind::Load:
        require(source.param < body_.buffers.size(), "%", v, " reads buffer ", source.param,
                ", which does not exist");
        require(body_.buffers[source.param].is_read, "%", v, " reads buffer ", source.param,
                ", which says that it is not read");
        require(node.dtype == body_.buffers[source.param].dtype, "%", v, " is loaded in ", node.dtype,
                " from ", body_.buffers[source.param].dtype);
        check_index(source.index, v);
        break;
      case Source::Kind::Place:
        require(is_integer, "%", v, " is a place in ", node.dtype);
        check_index(source.index, v);
        break;
      case Source::Kind::Number:
        require(source.param < body_.numbers.size(), "%", v, " is number ", source.param,
                ", which does not exist");
        require(node.dtype == body_.numbers[source.param].dtype, "%", v, " is in ", node.dtype,
                ", the number in ", body_.numbers[source.param].dtype);
        break;
      case Source::Kind::Fold: {
        require(source.param < body_.folds.size(), "%", v, " is fold ", source.param,
                ", which does not exist");
        const BodyValue folded = body_.folds[source.param].value;
        require(folded < v, "%", v, " is a fold of %", folded, ", which comes later");
        require(node.dtype == dtype_of(folded), "%", v, " is in ", node.dtype, ", the fold in ",
                dtype_of(folded));
        break;
      }
      case Source::Kind::Random:
        require(is_integer, "%", v, " is a random word in ", node.dtype);
        require(size_t{source.param} + 1 < body_.numbers.size() &&
                    body_.numbers[source.param].dtype == DType::Int64 &&
                    body_.numbers[source.param + 1].dtype == DType::Int64,
                "%", v, " draws from a stream whose seed and counter are no Int64 numbers");
        check_index(source.index, v);
        break;
    }
  }

  void check_value(BodyValue v) const {
    const ExprGraph::Node& node = body_.values.nodes()[v];
    const int arity = arity_of(node.prim);
    for (int i = 0; i < arity; ++i)
      require(node.args[i] < v, "%", v, " reads %", node.args[i], ", which comes later");
    if (node.prim == Prim::Input) return check_source(v, node);
    const DType first = arity > 0 ? dtype_of(node.args[0]) : node.dtype;
    require(is_well_typed(node, first), "%", v, " = ", weft::name_of(node.prim), " gives ", node.dtype,
            " from ", first);
  }

  bool is_well_typed(const ExprGraph::Node& node, DType first) const {
    const DType result = node.dtype;
    const bool is_bool = first == DType::Bool, is_value = is_compute(first);
    bool is_uniform = true;  // all operands have the dtype of the first
    for (int i = 1; i < arity_of(node.prim); ++i) is_uniform &= dtype_of(node.args[i]) == first;
    switch (node.prim) {
      case Prim::Input: return true;
      case Prim::Constant: return is_value || is_bool;
      case Prim::Cast: return true;
      case Prim::Bitcast: return is_value && is_compute(result) && size_of(first) == size_of(result);
      case Prim::ToInt:
        return (first == DType::Float32 && result == DType::Int32) ||
               (first == DType::Float64 && result == DType::Int64);
      case Prim::ToFloat:
        return (first == DType::Int32 && result == DType::Float32) ||
               (first == DType::Int64 && result == DType::Float64);
      case Prim::Lookup:
        return (first == DType::Int32 || first == DType::Int64) && node.imm < body_.values.tables().size() &&
               result == body_.values.tables()[node.imm].dtype;
      case Prim::Where:
        return is_bool && (is_compute(result) || result == DType::Bool) && dtype_of(node.args[1]) == result &&
               dtype_of(node.args[2]) == result;
      case Prim::Eq:
      case Prim::Ne: return is_uniform && result == DType::Bool && (is_value || is_bool);
      case Prim::Lt:
      case Prim::Le:
      case Prim::Gt:
      case Prim::Ge:
      case Prim::IsNan: return is_uniform && result == DType::Bool && is_value;
      case Prim::And:
      case Prim::Or:
      case Prim::Xor:
      case Prim::Not: return is_uniform && result == first && (is_bool || (is_value && !is_floating(first)));
      case Prim::Shl:
      case Prim::Shr: return is_uniform && result == first && is_value && !is_floating(first);
      case Prim::Div:
      case Prim::Sqrt:
      case Prim::CopySign: return is_uniform && result == first && is_value && is_floating(first);
      case Prim::Pow: return is_uniform && result == first && is_value;
      default: break;
    }
    if (is_math(node.prim) && !is_floating(first) && node.prim != Prim::Pow) return false;
    return is_uniform && result == first && is_value;
  }

  void check_store(const BodyStore& store) const {
    require(store.param < body_.buffers.size(), "a store goes to buffer ", store.param,
            ", which does not exist");
    require(body_.buffers[store.param].is_written, "buffer ", store.param, " says that it is not written");
    require(store.value < num_values(), "%", store.value, " is stored, which does not exist");
    require(dtype_of(store.value) == body_.buffers[store.param].dtype, "%", store.value, " in ",
            dtype_of(store.value), " goes to buffer ", store.param, " of ", body_.buffers[store.param].dtype);
    check_mask(store.mask, num_values());
    check_index(store.index, num_values());
  }

  // One row only: what is there in it is there after it.
  bool has_one_row() const { return !body_.row.is_symbolic(); }

  void check_level(size_t f, const BodyFold& fold) const {
    const ValueLevel& value = levels_.values[fold.value];
    require(!value.after_rows, "fold ", f, " needs a fold along the rows");
    require(fold.axis != BodyFold::Axis::RowValues || !value.uses_column, "fold ", f,
            " of row values has a column");
  }

  void check_level(size_t s, const BodyStore& store) const {
    ValueLevel needs = levels_.values[store.value];
    merge(needs, level_of(body_, levels_, store.index));
    if (store.mask != kNoBodyValue) merge(needs, levels_.values[store.mask]);
    const ValueLevel& at = levels_.stores[s];
    require(!needs.uses_row || at.uses_row, "store ", s, " for each ", name_of(store.each),
            " depends on the row");
    require(!needs.uses_column || at.uses_column, "store ", s, " for each ", name_of(store.each),
            " depends on the column");
    require(!needs.after_rows || at.after_rows, "store ", s, " for each ", name_of(store.each),
            " needs a fold along the rows, of which it is part");
    require(!at.after_rows || needs.pass == 0 || has_one_row(), "store ", s, " for each ",
            name_of(store.each), " needs a fold along the columns of one of several rows");
  }

  const LoopBody& body_;
  LoopLevels levels_;
};

}  // namespace

std::string to_string(const LoopBody& body) { return BodyPrinter(body).print(); }
void verify(const LoopBody& body) { BodyVerifier(body).verify(); }

}  // namespace weft::compiler
