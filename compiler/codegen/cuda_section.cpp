// Statements for values, loads, stores and checks, scope by scope.
// Place: the out-of-line half of cuda_section.h.
#include "compiler/codegen/cuda_section.h"

#include <algorithm>

#include "compiler/codegen/code_text.h"
#include "compiler/codegen/cpu_index.h"
#include "compiler/trace/sym_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {

CudaSection::CudaSection(const CudaBody& body, const CudaVariant& variant, const CudaParams& params,
                         CudaPrinter& printer, Part part, bool joins_passes)
    : line(body.num_passes() + 1),
      actions(body.num_passes() + 1),
      code_(body),
      body_(body.body),
      variant_(variant),
      params_(params),
      printer_(printer),
      part_(part),
      joins_passes_(joins_passes) {}

CudaSection::Scope CudaSection::scope_of(const ValueLevel& level) const {
  if (level.uses_column) return Scope::Column;
  const bool is_line = level.uses_batch || level.uses_row || level.pass > 0 || level.after_rows;
  return is_line ? Scope::Line : Scope::Head;
}

void CudaSection::declare(Scope scope, uint32_t pass, const std::string& text) {
  switch (scope) {
    case Scope::Head: head += "  " + text + "\n"; break;
    case Scope::Line: line.at(pass) += "    " + text + "\n"; break;
    case Scope::Column: element += "        " + text + "\n"; break;
  }
}

void CudaSection::preload(uint32_t source) {
  for (BodyValue v = 0; v < body_.values.nodes().size(); ++v) {
    const ExprGraph::Node& node = code_.node(v);
    if (node.prim == Prim::Input && node.imm == source)
      static_cast<void>(load(source, body_.sources[source], node.dtype, code_.levels.values[v]));
  }
}

void CudaSection::statement(const std::string& text) { declare(Scope::Column, pass_, text); }

void CudaSection::begin_pass(uint32_t pass) {
  pass_ = pass;
  declared.clear();
  loads.clear();
  before.clear();
  element.clear();
  after.clear();
  column_values_.clear();
  column_indirects_.clear();
  pairs_.clear();
  if (!keeps_loads) loaded_.clear();
}

std::string CudaSection::bound(const char* name, Sym size) {
  if (bounds_.insert(name).second)
    head += "  const w_int " + std::string(name) + " = " + index_text(size) + ";\n";
  return name;
}

std::string CudaSection::buffer(uint32_t param) {
  if (buffers_.insert(param).second) {
    const BufferParam& given = body_.buffers.at(param);
    const std::string type = std::string(given.is_written ? "" : "const ") + cuda_element(given.dtype);
    head += "  " + type + "* const b" + number(param) + " = (" + type + "*)p.buffers[" +
            number(params_.buffers + param) + "];\n";
  }
  return "b" + number(param);
}

// ---- Indices

std::string CudaSection::symbol_text(uint32_t symbol) {
  const SymTable& table = body_.expressions->syms;
  if (table.as_symbol(body_.batch) == symbol) return "batch";
  if (table.as_symbol(body_.row) == symbol) return "row";
  if (table.as_symbol(body_.column) == symbol) return "c";
  for (size_t k = 0; k < body_.indirects.size(); ++k)
    if (table.as_symbol(body_.indirects[k].symbol) == symbol) return "i" + number(k);
  const auto found = std::find(body_.size_symbols.begin(), body_.size_symbols.end(), symbol);
  WEFT_ASSERT(found != body_.size_symbols.end(), table.symbols()[symbol].name, " has no value in '",
              body_.name, "'");
  const auto place = static_cast<uint32_t>(found - body_.size_symbols.begin());
  if (sizes_.insert(place).second)
    head += "  const w_int s" + number(place) + " = (w_int)p.sizes[" + number(params_.sizes + place) + "];\n";
  return "s" + number(place);
}

std::string CudaSection::index_text(Sym index) {
  const SymTable& table = body_.expressions->syms;
  index = table.current(index);
  const auto literal = [](int64_t value) {
    return std::to_string(value) + (value > INT32_MAX || value < INT32_MIN ? "l" : "");
  };
  if (!index.is_symbolic()) return literal(index.concrete());
  for (uint32_t k : code_.indirects(index)) require_indirect(k);
  const SymStore& store = table.store();
  std::string text;
  for (const Term& term : store.terms_of(index.id())) {
    const bool is_negative = term.coefficient < 0;
    if (text.empty()) text += is_negative ? "-" : "";
    else text += is_negative ? " - " : " + ";
    std::string product;
    const auto factor = [&](const std::string& part) { product += (product.empty() ? "" : " * ") + part; };
    for (AtomId atom : store.factors_of(term.monomial)) factor(atom_text(atom));
    if (term.coefficient != 1 && term.coefficient != -1)
      factor(literal(is_negative ? -term.coefficient : term.coefficient));
    text += product;
  }
  const int64_t constant = store.exprs[index.id()].constant;
  if (text.empty()) text = literal(constant);
  else if (constant != 0)
    text += (constant < 0 ? " - " : " + ") + literal(constant < 0 ? -constant : constant);
  return text;
}

std::string CudaSection::atom_text(uint32_t id) {
  const SymTable& table = body_.expressions->syms;
  const Atom atom = table.store().atoms[id];
  if (atom.symbol != kNone) return symbol_text(atom.symbol);
  const std::string a = index_text(atom.a), b = index_text(atom.b);
  const auto call = [&](const char* function) { return std::string(function) + "(" + a + ", " + b + ")"; };
  const auto infix = [&](const char* symbol) { return "((" + a + ") " + symbol + " (" + b + "))"; };
  const Interval range_a = table.range(atom.a), range_b = table.range(atom.b);
  const bool divides = range_b.min > 0, is_simple = divides && range_a.min >= 0;
  switch (atom.op) {
    case SymOp::Add: return infix("+");
    case SymOp::Sub: return infix("-");
    case SymOp::Mul: return infix("*");
    case SymOp::Min: return call("w_least");
    case SymOp::Max: return call("w_most");
    case SymOp::TruncDiv: return is_simple ? call("w_over") : divides ? infix("/") : call("w_quotient");
    case SymOp::Mod: return is_simple ? call("w_rest") : divides ? infix("%") : call("w_remainder");
    case SymOp::FloorDiv: return is_simple ? call("w_over") : call("w_floor_quotient");
  }
  WEFT_ASSERT(false, "unknown operation of an index");
}

// The first element of a pack. The part without column is computed once where it is known.
std::string CudaSection::packed_address(uint32_t param, Sym index) {
  const CudaBody::Access at = *code_.access(index);
  const std::string pointer = buffer(param);
  if (is_int(at.base, 0)) return pointer + " + c0";
  const ValueLevel level = level_of(body_, code_.levels, at.base);
  const std::string text = index_text(at.base);
  std::string& base = bases_[text];
  if (base.empty()) {
    base = "x" + number(next_++);
    declare(scope_of(level), pass_of(level), "const w_int " + base + " = " + text + ";");
  }
  return pointer + " + (" + base + " + c0)";
}

// ---- Values

CppValue CudaSection::value(BodyValue v) {
  const ExprGraph::Node& node = code_.node(v);
  if (node.prim == Prim::Constant) return printer_.value(body_.values, node, {});
  const ValueLevel& level = code_.levels.values[v];
  const Scope scope = scope_of(level);
  auto& known = scope == Scope::Column ? column_values_ : values_;
  if (const auto found = known.find(v); found != known.end()) return found->second;

  const std::string name = "t" + number(v), type = cuda_type(node.dtype);
  if (const auto kept = kept_.find(v); kept != kept_.end() && scope == Scope::Column)
    return known[v] = {kept->second, type};
  CppValue made;
  if (const std::optional<std::string> two = scope == Scope::Column ? pair(v) : std::nullopt) {
    made = {std::string("w_pair<") + cuda_element(node.dtype) + ">::get(" + *two + ", e)", type};
  } else if (node.prim == Prim::Input) {
    made = source(v, node, body_.sources.at(node.imm), level);
  } else {
    CppValue args[3];
    const auto arity = static_cast<size_t>(arity_of(node.prim));
    for (size_t i = 0; i < arity; ++i) args[i] = value(node.args[i]);
    made = printer_.value(body_.values, node, std::span<const CppValue>(args, arity));
  }
  declare(scope, pass_of(level), "const " + type + " " + name + " = " + made.text + ";");
  return known[v] = {name, type};
}

// Note [Halves in pairs]
// Sums, differences and products of halves are computed in float and rounded. Float has more than twice the digits of a half, so
// that the second rounding changes nothing, and the instructions for two halves give the same in half the time. The even
// element of two computes the word for both.
std::optional<std::string> CudaSection::pair(BodyValue v) {
  if (const auto known = pairs_.find(v); known != pairs_.end()) return known->second;
  std::optional<std::string>& made = pairs_[v];
  const ExprGraph::Node& rounding = code_.node(v);
  const DType half = rounding.dtype;
  if (variant_.vector % 2 != 0 || rounding.prim != Prim::Cast || !is_half(half)) return made;
  const ExprGraph::Node& node = code_.node(rounding.args[0]);
  const char* const function = node.prim == Prim::Mul   ? "mul"
                               : node.prim == Prim::Add ? "add"
                               : node.prim == Prim::Sub ? "sub"
                                                        : nullptr;
  if (function == nullptr || node.dtype != DType::Float32) return made;
  const std::optional<std::string> a = pair_of_operand(node.args[0], half);
  const std::optional<std::string> b = a ? pair_of_operand(node.args[1], half) : std::nullopt;
  if (!b) return made;
  const std::string name = "pair" + number(v);
  before += "      unsigned " + name + "[" + number(variant_.vector / 2) + "];\n";
  declare(Scope::Column, pass_,
          "if (e % 2 == 0) " + name + "[e / 2] = w_pair<" + cuda_element(half) + ">::" + function + "(" + *a +
              ", " + *b + ");");
  return pairs_[v] = name + "[e / 2]";
}

// A half as a float is half of a word that is there, or the same for all elements.
std::optional<std::string> CudaSection::pair_of_operand(BodyValue v, DType half) {
  const ExprGraph::Node& widening = code_.node(v);
  if (widening.prim != Prim::Cast || code_.node(widening.args[0]).dtype != half) return std::nullopt;
  const BodyValue x = widening.args[0];
  const ExprGraph::Node& node = code_.node(x);
  const ValueLevel& level = code_.levels.values[x];
  if (!level.uses_column)
    return std::string("w_pair<") + cuda_element(half) + ">::both(" + value(x).text + ")";
  if (kept_.count(x) != 0) return std::nullopt;
  if (node.prim != Prim::Input) return pair(x);
  const Source& source = body_.sources.at(node.imm);
  if (source.kind != Source::Kind::Load || !is_direct(source)) return std::nullopt;
  static_cast<void>(value(x));
  return "load" + number(node.imm) + "[k].w[e / 2]";
}

void CudaSection::keep(BodyValue v) {
  const CppValue x = value(v);
  const std::string array = "kept" + number(v);
  declared += "    " + x.type + " " + array + "[" + packs + "][" + number(variant_.vector) + "];\n";
  declare(Scope::Column, pass_, array + "[k][e] = " + x.text + ";");
  kept_[v] = array + "[k][e]";
}

CppValue CudaSection::source(BodyValue v, const ExprGraph::Node& node, const Source& source,
                             const ValueLevel& level) {
  const std::string type = cuda_type(node.dtype);
  switch (source.kind) {
    case Source::Kind::Load: return load(static_cast<uint32_t>(node.imm), source, node.dtype, level);
    case Source::Kind::Place: return {"(" + type + ")(" + index_text(source.index) + ")", type};
    case Source::Kind::Number:
      return {"w_number<" + type + ">::of(p.numbers[" + number(params_.numbers + source.param) + "])", type};
    case Source::Kind::Fold: {
      const auto found = folds_.find(source.param);
      WEFT_ASSERT(found != folds_.end(), "fold ", source.param, " of '", body_.name,
                  "' is needed before it is there");
      return found->second;
    }
    case Source::Kind::Random: {
      uses_random = true;
      const std::string words = "words" + number(v);
      const Scope scope = scope_of(level);
      if (scope == Scope::Column) before += "      w_words " + words + ";\n";
      else declare(scope, pass_of(level), "w_words " + words + ";");
      return {std::string(node.dtype == DType::Int64 ? "w_word64" : "w_word32") + "(p.numbers[" +
                  number(params_.numbers + source.param) + "], p.numbers[" +
                  number(params_.numbers + source.param + 1) + "], " + index_text(source.index) + ", " +
                  words + ")",
              type};
    }
  }
  WEFT_ASSERT(false, "unknown source");
}

// Loads that need nothing that is computed for the element: all packs of a thread are asked for at once.
bool CudaSection::is_direct(const Source& source) const {
  if (source.mask != kNoBodyValue) return false;
  for (uint32_t k : code_.indirects(source.index))
    if (code_.levels.values[body_.indirects[k].value].uses_column) return false;
  return true;
}

CppValue CudaSection::load(uint32_t s, const Source& source, DType dtype, const ValueLevel& level) {
  const std::string type = cuda_type(dtype);
  if (!level.uses_column || !is_direct(source)) {
    const std::string one = "w_one(" + buffer(source.param) + " + (" + index_text(source.index) + "))";
    if (source.mask == kNoBodyValue) return {one, type};
    return {condition(source.mask) + " ? " + one + " : " + type + "(0)", type};
  }
  const std::string pack = "load" + number(s), element = pack + "[k]";
  if (loaded_.insert(s).second) {
    declared += "    w_pack<" + std::string(cuda_element(dtype)) + ", " + number(variant_.vector) + "> " +
                pack + "[" + packs + "];\n";
    if (std::find(turned.begin(), turned.end(), s) != turned.end()) {
      loads += "        " + element + " = tile" + number(s) + "[x][y + 8 * k];\n";
    } else if (code_.is_packed(source)) {
      const bool is_held = std::find(held.begin(), held.end(), s) != held.end();
      const std::string from =
          is_held ? "held" + number(s) + " + c0" : packed_address(source.param, source.index);
      const IndexUse use = use_of(body_, code_.levels, source.index);
      const bool is_once = reads_once && !is_held && (use.row || is_int(body_.rows, 1)) &&
                           (use.batch || is_int(body_.batches, 1)) && !body_.buffers[source.param].is_written;
      loads += std::string(is_once ? "        w_load<w_once, " : "        w_load<w_cached, ") +
               (variant_.aligned[s] || variant_.vector == 1 ? "true" : "false") + ">(" + element + ", " +
               from + count_text() + ");\n";
    } else {
      const std::string from = buffer(source.param) + " + (" + index_text(source.index) + ")";
      loads += "#pragma unroll\n        for (int e = 0; e < " + number(variant_.vector) +
               "; ++e) { const w_int c = c0 + e; " + (variant_.has_tail ? "if (e < n) " : "") +
               "w_put_element(" + element + ", e, " + from + "); }\n";
    }
  }
  return {"w_get(" + element + ", e)", type};
}

// ---- Computed indices

std::string CudaSection::element_text(Scope scope) const {
  std::string text = "0";
  const auto next = [&](Sym size, const char* name, const char* index, bool is_known) {
    if (is_int(size, 1)) return;
    text = (text == "0" ? "(long)" : "(" + text + ") * " + name + " + ") + (is_known ? index : "0");
  };
  next(body_.batches, "batches", "batch", scope != Scope::Head);
  next(body_.rows, "rows", "row", part_ == Part::Rows && scope != Scope::Head);
  next(body_.columns, "columns", "c", scope == Scope::Column);
  return text;
}

void CudaSection::check(uint32_t indirect) { require_indirect(indirect); }

void CudaSection::require_indirect(uint32_t k) {
  const Indirect& indirect = body_.indirects[k];
  const Check& check = body_.checks.at(indirect.check);
  ValueLevel level = code_.levels.values[indirect.value];
  if (!(level.uses_column ? column_indirects_ : indirects_).insert(k).second) return;
  bound("rows", body_.rows);
  bound("columns", body_.columns);
  const std::string size = index_text(indirect.size), index = value(indirect.value).text;
  std::string is_checked = "true";
  if (check.mask != kNoBodyValue) {
    WEFT_ASSERT(level.uses_column || !code_.levels.values[check.mask].uses_column,
                "the check of an index without column asks for a column, in '", body_.name, "'");
    is_checked = condition(check.mask);
    merge(level, code_.levels.values[check.mask]);
  }
  const Scope scope = scope_of(level);
  declare(scope, pass_of(level),
          "const w_int i" + number(k) + " = (w_int)w_index(" + index + ", " + size + ", " + is_checked +
              ", p.error, " + number(indirect.check) + ", " + element_text(scope) + ");");
}

// ---- Stores

void CudaSection::store(const BodyStore& store, size_t s, const std::string& line_condition) {
  const DType dtype = body_.buffers[store.param].dtype;
  const bool is_column = store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Column;
  const std::string element_type = cuda_element(dtype);
  if (is_column && code_.is_packed(store)) {
    const std::string pack = "store" + number(s), to = packed_address(store.param, store.index);
    before += "      w_pack<" + element_type + ", " + number(variant_.vector) + "> " + pack + ";\n";
    const ExprGraph::Node& node = code_.node(store.value);
    const std::string x = value(store.value).text;
    // Elements that are only moved keep their bits, signalling NaNs too.
    const bool is_moved = node.prim == Prim::Input && loaded_.count(static_cast<uint32_t>(node.imm)) != 0 &&
                          body_.sources[node.imm].kind == Source::Kind::Load;
    const auto two = pairs_.find(store.value);
    if (two != pairs_.end() && two->second && node.dtype == dtype)
      declare(Scope::Column, pass_, "if (e % 2 == 0) " + pack + ".w[e / 2] = " + *two->second + ";");
    else if (is_moved)
      declare(Scope::Column, pass_, "w_copy(" + pack + ", load" + number(node.imm) + "[k], e);");
    else declare(Scope::Column, pass_, "w_put(" + pack + ", e, " + x + ");");
    const bool is_aligned = variant_.aligned[body_.sources.size() + s] || variant_.vector == 1;
    after += "      w_store<" + std::string(is_aligned ? "true" : "false") + ">(" + to + ", " + pack +
             count_text() + ");\n";
    return;
  }
  std::string when = is_column ? "" : line_condition;
  if (store.mask != kNoBodyValue) when += (when.empty() ? "" : " && ") + condition(store.mask);
  const std::string x = value(store.value).text,
                    to = buffer(store.param) + " + (" + index_text(store.index) + ")";
  const bool adds = store.mode == BodyStore::Mode::Add;
  uses_atomics |= adds;
  const std::string text =
      (when.empty() ? "" : "if (" + when + ") ") + (adds ? "w_atomic_add(" : "w_set(") + to + ", " + x + ");";
  if (is_column) statement(text);
  else action(text);
}

}  // namespace weft::compiler
