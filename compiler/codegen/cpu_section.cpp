// Statements for values, loads, stores and checks, scope by scope.
// Place: the out-of-line half of cpu_section.h.
#include "compiler/codegen/cpu_section.h"

#include <algorithm>

#include "compiler/codegen/code_text.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

std::string indent(CpuSection::Scope scope) {
  return std::string(scope == CpuSection::Scope::Head    ? 2
                     : scope == CpuSection::Scope::Batch ? 4
                     : scope == CpuSection::Scope::Line  ? 6
                                                         : 8,
                     ' ');
}

}  // namespace

CpuSection::CpuSection(CpuBody& body, Part part)
    : line(body.levels.num_passes + 1), code_(body), body_(body.body), part_(part) {}

CpuSection::Scope CpuSection::scope_of(const ValueLevel& level) const {
  if (level.uses_column) return Scope::Column;
  if (part_ == Part::AfterRows) return level.uses_batch || level.after_rows ? Scope::Line : Scope::Head;
  if (level.uses_row || level.pass > 0) return Scope::Line;
  return level.uses_batch ? Scope::Batch : Scope::Head;
}

std::string& CpuSection::text(Scope scope, uint32_t pass) {
  switch (scope) {
    case Scope::Head: return head;
    case Scope::Batch: return batch;
    case Scope::Line: return line.at(pass);
    case Scope::Column: return column;
  }
  WEFT_ASSERT(false, "unknown scope");
}

void CpuSection::declare(At at, const std::string& statement) {
  text(at.scope, at.pass) += indent(at.scope) + statement + "\n";
}

void CpuSection::begin_pass(uint32_t pass) {
  pass_ = pass;
  column.clear();
  column_values_.clear();
  column_indirects_.clear();
  streams_.clear();
}

std::string CpuSection::bound(const char* name, Sym size) {
  if (bounds_.insert(name).second)
    head += "  const long " + std::string(name) + " = " + index_text(size) + ";\n";
  return name;
}

std::string CpuSection::buffer(uint32_t param) {
  if (buffers_.insert(param).second) {
    const BufferParam& given = body_.buffers.at(param);
    const std::string type = std::string(given.is_written ? "" : "const ") + element_type(given.dtype);
    head += "  " + type + "* const b" + number(param) + " = (" + type + "*)call.buffers[" + number(param) +
            "];\n";
  }
  return "b" + number(param);
}

std::string CpuSection::symbol_text(uint32_t symbol, const char* column) {
  const SymTable& table = body_.expressions->syms;
  if (table.as_symbol(body_.batch) == symbol) return "batch";
  if (table.as_symbol(body_.row) == symbol) return "row";
  if (table.as_symbol(body_.column) == symbol) return column;
  for (size_t k = 0; k < body_.indirects.size(); ++k)
    if (table.as_symbol(body_.indirects[k].symbol) == symbol)
      return "i" + number(k) + (code_.levels.values[body_.indirects[k].value].uses_column ? "[l]" : "");
  const auto found = std::find(body_.size_symbols.begin(), body_.size_symbols.end(), symbol);
  WEFT_ASSERT(found != body_.size_symbols.end(), table.symbols()[symbol].name, " has no value in '",
              body_.name, "'");
  const auto place = static_cast<uint32_t>(found - body_.size_symbols.begin());
  if (sizes_.insert(place).second)
    head += "  const long s" + number(place) + " = call.sizes[" + number(place) + "];\n";
  return "s" + number(place);
}

std::string CpuSection::index_text(Sym index, const char* column) {
  for (uint32_t k : code_.index.indirects(index)) require_indirect(k);
  return code_.index.text(index, [&](uint32_t symbol) { return symbol_text(symbol, column); });
}

// ---- Values

CppValue CpuSection::value(BodyValue v) {
  const ExprGraph::Node& node = code_.node(v);
  if (node.prim == Prim::Constant) return code_.printer.value(body_.values, node, {});
  const ValueLevel& level = code_.levels.values[v];
  const At at = this->at(level);
  auto& known = at.scope == Scope::Column ? column_values_ : values_;
  if (const auto found = known.find(v); found != known.end()) return found->second;

  const std::string name = "t" + number(v);
  CppValue made;
  if (const auto kept = kept_.find(v); kept != kept_.end() && at.scope == Scope::Column) {
    const std::string type = code_.printer.type_of(node.dtype);
    made = {"w_whole_" + type + "(" + kept->second + " + c)", type};
  } else if (node.prim == Prim::Input) {
    made = source(v, node, body_.sources.at(node.imm), at);
  } else {
    CppValue args[3];
    const auto arity = static_cast<size_t>(arity_of(node.prim));
    for (size_t i = 0; i < arity; ++i) args[i] = value(node.args[i]);
    made = code_.printer.value(body_.values, node, std::span<const CppValue>(args, arity));
  }
  declare(at, "const " + made.type + " " + name + " = " + made.text + ";");
  return known[v] = {name, made.type};
}

std::string CpuSection::condition(BodyValue mask) {
  const CppValue m = value(mask);
  return "(w_bits_" + m.type + "(" + m.text + ") & 1)";
}

std::string CpuSection::lane_bits(BodyValue mask) {
  const CppValue m = value(mask);
  return "w_bits_" + m.type + "(" + m.text + ") & ((1u << n) - 1)";
}

void CpuSection::keep(BodyValue v, const std::string& array) {
  const CppValue x = value(v);
  declare({Scope::Column, pass_}, "w_put_" + x.type + "(" + array + " + c, " + x.text + ");");
}

CppValue CpuSection::source(BodyValue v, const ExprGraph::Node& node, const Source& source, At at) {
  switch (source.kind) {
    case Source::Kind::Load: return load(source, node.dtype, at);
    case Source::Kind::Place: return place(v, source.index, node.dtype, at);
    case Source::Kind::Fold: return fold(source.param, at);
    case Source::Kind::Random: return random(v, source, node.dtype, at);
    case Source::Kind::Number: {
      const std::string type = code_.printer.type_of(node.dtype),
                        element = node.dtype == DType::Bool ? "bool" : element_type(node.dtype);
      return {"w_splat_" + type + "(w_number<" + element + ">(call.numbers + " + number(source.param) + "))",
              type};
    }
  }
  WEFT_ASSERT(false, "unknown source");
}

CppValue CpuSection::fold(uint32_t fold, At at) {
  if (const auto array = fold_arrays_.find(fold); array != fold_arrays_.end() && at.scope == Scope::Column) {
    const std::string type = code_.printer.type_of(code_.node(body_.folds[fold].value).dtype);
    return {"w_whole_" + type + "(" + array->second + " + (c - first))", type};
  }
  const auto found = folds_.find(fold);
  WEFT_ASSERT(found != folds_.end(), "fold ", fold, " of '", body_.name, "' is needed before it is there");
  return found->second;
}

// ---- Memory

std::string CpuSection::address(uint32_t param, const LaneStride& lanes) {
  const std::string base = buffer(param);
  if (!lanes.is_affine) return base + " + (" + index_text(lanes.base) + ")";
  std::string pointer = base;
  if (!is_int(lanes.base, 0)) {
    // The part without column is added once, in the scope where it is known.
    const At at = this->at(code_.index.level(lanes.base));
    const std::string index = index_text(lanes.base);
    const std::string key = base + " + " + index;
    auto& known = addresses_[key];
    if (known.empty()) {
      known = fresh("p");
      declare(at, "const auto " + known + " = " + key + ";");
    }
    pointer = known;
  }
  if (is_int(lanes.stride, 0)) return pointer;
  if (is_int(lanes.stride, 1)) return pointer + " + c";
  return pointer + " + c * (" + index_text(lanes.stride) + ")";
}

const std::string* CpuSection::tile_of(uint32_t param, Sym index) const {
  for (const Tile& tile : tiles_)
    if (tile.param == param && same(tile.index, index)) return &tile.address;
  return nullptr;
}

void CpuSection::add_stream(const std::string& address, const LaneStride& lanes, uint32_t param,
                            bool is_written) {
  if (!lanes.is_affine) return;
  for (const Stream& other : streams_)
    if (other.address == address) return;
  streams_.push_back({address, lanes.base, size_of(body_.buffers[param].dtype), is_written});
}

std::string CpuSection::each_lane(Sym index, const std::string& bits, const std::string& statement) {
  const std::string at = index_text(index, "(c + l)");
  return "for (long l = 0; l < n; ++l) " + (bits.empty() ? std::string() : "if (" + bits + " >> l & 1) ") +
         "{ const long at = " + at + "; " + statement + " }";
}

CppValue CpuSection::load(const Source& source, DType dtype, At at, bool is_raw) {
  const std::string name = is_raw ? "raw16" : element_name(dtype),
                    type = is_raw ? "i32" : code_.printer.type_of(dtype);
  if (at.scope != Scope::Column) {
    const std::string one =
        "w_one_" + name + "(" + buffer(source.param) + " + (" + index_text(source.index) + "))";
    if (source.mask == kNoBodyValue) return {one, type};
    return {condition(source.mask) + " ? " + one + " : " + type + "{}", type};
  }
  std::string bits;
  if (source.mask != kNoBodyValue) {
    bits = fresh("m");
    const std::string text = lane_bits(source.mask);
    declare(at, "const unsigned " + bits + " = " + text + ";");
  }
  if (const std::string* tile = tile_of(source.param, source.index))
    return {"w_load_" + name + "(" + *tile + ", n)", type};
  if (const std::optional<LaneStride> lanes = code_.index.lanes(source.index)) {
    const std::string from = address(source.param, *lanes);
    const std::string stride = index_text(lanes->stride);
    if (!bits.empty())
      return {"w_load_masked_" + name + "(" + from + ", " + stride + ", " + bits + ")", type};
    if (is_int(lanes->stride, 1)) {
      add_stream(from, *lanes, source.param, false);
      return {"w_load_" + name + "(" + from + ", n)", type};
    }
    if (is_int(lanes->stride, 0)) return {"w_one_" + name + "(" + from + ")", type};
    return {"w_load_strided_" + name + "(" + from + ", " + stride + ", n)", type};
  }
  const std::string array = fresh("lanes");
  const std::string loop = each_lane(source.index, bits, array + "[l] = " + buffer(source.param) + "[at];");
  declare(at, std::string(element_type(dtype)) + " " + array + "[16] = {};");
  declare(at, loop);
  return {"w_whole_" + name + "(" + array + ")", type};
}

CppValue CpuSection::place(BodyValue v, Sym index, DType dtype, At at) {
  const std::string type = code_.printer.type_of(dtype), element = element_type(dtype);
  const auto splat = [&](const std::string& text) {
    return "w_splat_" + type + "((" + element + ")(" + text + "))";
  };
  if (at.scope != Scope::Column) return {splat(index_text(index)), type};
  if (const std::optional<LaneStride> lanes = code_.index.lanes(index)) {
    const std::string first = index_text(index);
    if (is_int(lanes->stride, 0)) return {splat(first), type};
    if (is_int(lanes->stride, 1)) return {"w_iota_" + type + "((" + element + ")(" + first + "))", type};
    return {"w_iota_" + type + "(0) * " + splat(index_text(lanes->stride)) + " + " + splat(first), type};
  }
  const std::string array = "x" + number(v);
  const std::string loop = each_lane(index, "", array + "[l] = (" + element + ")at;");
  declare(at, element + " " + array + "[16] = {};");
  declare(at, loop);
  return {"w_whole_" + type + "(" + array + ")", type};
}

CppValue CpuSection::random(BodyValue v, const Source& source, DType dtype, At at) {
  const bool is_wide = dtype == DType::Int64;
  const std::string type = code_.printer.type_of(dtype), bits = is_wide ? "64" : "32";
  const std::string stream =
      "call.numbers[" + number(source.param) + "], call.numbers[" + number(source.param + 1) + "], ";
  if (at.scope != Scope::Column)
    return {"w_splat_" + type + "(w_word" + bits + "(" + stream + index_text(source.index) + "))", type};
  const std::optional<LaneStride> lanes = code_.index.lanes(source.index);
  if (lanes && is_int(lanes->stride, 1)) {
    const std::string first = stream + index_text(source.index);
    if (is_wide) return {"w_words64(" + first + ")", type};
    // The next vector finds half of the words made.
    const std::string words = fresh("words");
    declare({Scope::Line, pass_}, "w_words " + words + ";");
    return {"w_words32(" + first + ", " + words + ")", type};
  }
  const std::string array = "x" + number(v);
  const std::string loop = each_lane(source.index, "", array + "[l] = w_word" + bits + "(" + stream + "at);");
  declare(at, std::string(element_type(dtype)) + " " + array + "[16] = {};");
  declare(at, loop);
  return {"w_whole_" + type + "(" + array + ")", type};
}

// ---- Computed indices

std::string CpuSection::element_text(Scope scope) const {
  std::string text = "0";
  const auto next = [&](Sym size, const char* name, const char* index, bool is_known) {
    if (is_int(size, 1)) return;
    text = (text == "0" ? "" : "(" + text + ") * " + name + " + ") + (is_known ? index : "0");
  };
  next(body_.batches, "batches", "batch", scope != Scope::Head);
  next(body_.rows, "rows", "row", part_ == Part::Rows && scope >= Scope::Line);
  next(body_.columns, "columns", "c", scope == Scope::Column);
  return text;
}

void CpuSection::check(uint32_t indirect) { require_indirect(indirect); }

void CpuSection::require_indirect(uint32_t k) {
  const Indirect& indirect = body_.indirects[k];
  const Check& check = body_.checks.at(indirect.check);
  ValueLevel level = code_.levels.values[indirect.value];
  const bool is_column = level.uses_column;
  if (!(is_column ? column_indirects_ : indirects_).insert(k).second) return;
  bound("rows", body_.rows);
  bound("columns", body_.columns);
  const std::string size = index_text(indirect.size);
  CppValue index = value(indirect.value);
  if (index.type == "i32") index = {"w_i64_of_i32(" + index.text + ")", "i64"};
  const std::string name = "i" + number(k);
  if (is_column) {
    const std::string bits = check.mask == kNoBodyValue ? "0xffff" : lane_bits(check.mask);
    const At at{Scope::Column, pass_};
    declare(at, "long long " + name + "[16];");
    declare(at, "w_put_i64(" + name + ", " + index.text + ");");
    declare(at, "w_indices(" + name + ", n, " + size + ", " + bits + ", call.error, " +
                    number(indirect.check) + ", " + element_text(Scope::Column) + ");");
    return;
  }
  std::string is_checked = "true";
  if (check.mask != kNoBodyValue) {
    // A mask that differs within the line cannot say whether its one index counts: it counts where any lane does.
    const ValueLevel& mask = code_.levels.values[check.mask];
    WEFT_ASSERT(!mask.uses_column, "the check of an index without column asks for a column, in '", body_.name,
                "'");
    is_checked = condition(check.mask);
    merge(level, mask);
  }
  const At at = this->at(level);
  declare(at, "const long " + name + " = w_index(w_lane0_i64(" + index.text + "), " + size + ", " +
                  is_checked + ", call.error, " + number(indirect.check) + ", " + element_text(at.scope) +
                  ");");
}

// ---- Stores

void CpuSection::store(const BodyStore& store) {
  if (store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Column) store_column(store);
  else store_line(store);
}

CppValue CpuSection::stored_value(const BodyStore& store, std::string& element) {
  const DType dtype = body_.buffers[store.param].dtype;
  const ExprGraph::Node& node = code_.node(store.value);
  element = element_name(dtype);
  // Elements that are only moved keep their bits, signalling NaNs too.
  if (dtype == DType::Float16 && store.mode == BodyStore::Mode::Plain && node.prim == Prim::Input) {
    const Source& source = body_.sources.at(node.imm);
    if (source.kind == Source::Kind::Load) {
      element = "raw16";
      const CppValue bits = load(source, dtype, this->at(code_.levels.values[store.value]), true);
      const std::string name = fresh("h");
      declare(this->at(code_.levels.values[store.value]),
              "const " + bits.type + " " + name + " = " + bits.text + ";");
      return {name, bits.type};
    }
  }
  CppValue x = value(store.value);
  if (dtype == DType::Bool) x = {code_.printer.mask_for(x, 32), "m32"};
  return x;
}

void CpuSection::store_line(const BodyStore& store) {
  const At at{Scope::Line, pass_};
  std::string element;
  const CppValue x = stored_value(store, element);
  const std::string when = store.mask == kNoBodyValue ? "" : "if " + condition(store.mask) + " ";
  const std::string to = buffer(store.param) + " + (" + index_text(store.index) + ")";
  const char* what = store.mode == BodyStore::Mode::Add ? "w_add_" : "w_store_";
  declare(at, when + what + element + "(" + to + ", " + x.text + ", 1);");
}

void CpuSection::store_column(const BodyStore& store) {
  const At at{Scope::Column, pass_};
  std::string element, bits;
  if (store.mask != kNoBodyValue) {
    const std::string text = lane_bits(store.mask);
    bits = fresh("m");
    declare(at, "const unsigned " + bits + " = " + text + ";");
  }
  const CppValue x = stored_value(store, element);
  if (const std::string* tile = tile_of(store.param, store.index)) {
    declare(at, "w_store_" + element + "(" + *tile + ", " + x.text + ", n);");
    return;
  }
  const std::optional<LaneStride> lanes = code_.index.lanes(store.index);
  const bool adds = store.mode == BodyStore::Mode::Add;
  // Lanes that share a place add one after another.
  if (lanes && !(adds && (!bits.empty() || is_int(lanes->stride, 0) || lanes->stride.is_symbolic()))) {
    const std::string to = address(store.param, *lanes), stride = index_text(lanes->stride);
    const std::string what = adds ? "w_add_" : "w_store_";
    if (bits.empty() && !adds && is_int(lanes->stride, 1)) add_stream(to, *lanes, store.param, true);
    if (!bits.empty())
      declare(at, what + "masked_" + element + "(" + to + ", " + stride + ", " + x.text + ", " + bits + ");");
    else if (is_int(lanes->stride, 1)) declare(at, what + element + "(" + to + ", " + x.text + ", n);");
    else declare(at, what + "strided_" + element + "(" + to + ", " + stride + ", " + x.text + ", n);");
    return;
  }
  const std::string array = fresh("y"), to = buffer(store.param);
  const std::string put =
      adds ? "w_add_" + element + "(" + to + " + at, w_one_" + element + "(" + array + " + l), 1);"
           : to + "[at] = " + array + "[l];";
  const std::string loop = each_lane(store.index, bits, put);
  declare(at, std::string(element_type(body_.buffers[store.param].dtype)) + " " + array + "[16];");
  declare(at, "w_put_" + element + "(" + array + ", " + x.text + ");");
  declare(at, loop);
}

}  // namespace weft::compiler
