// The loops around the sections of a kernel, and the function that shares them over threads.
// Place: the out-of-line half of cpu_codegen.h.
#include "compiler/codegen/cpu_codegen.h"

#include <algorithm>
#include <set>

#include "compiler/codegen/cpu_section.h"
#include "tensor/base/error.h"

namespace weft::compiler {
namespace {

using Scope = CpuSection::Scope;

// A value that costs more primitives than this is kept for later passes: a store and a load in the cache are cheaper.
constexpr double kKeepCost = 6;
// Rows whose kept values are larger (elements) get memory of their own; others lie on the stack.
constexpr int64_t kStackElements = 8192;
// A pass whose body has more primitives than this is unrolled once, not four times: its own instructions keep the core busy.
constexpr double kHeavyCost = 24;
// How far ahead memory is asked for, in bytes (bias_gelu_residual 4096 x 4096, one thread, against a copy of the same bytes: 1.23
// without, 1.09 with 512 bytes, 1.00 with 2 KB or 16 KB).
constexpr int64_t kBytesAhead = 2048;
// Rows of more elements do not stay in L2 until they are read again.
constexpr int64_t kLongRow = 65536;
// Columns that a thread folds along the rows at a time: totals and the block's values stay in L1.
constexpr int64_t kChunkColumns = 1024;

std::string number(int64_t n) { return std::to_string(n); }

bool has_one_row(const LoopBody& body) { return is_int(body.rows, 1); }

// The same body without folds along its only row.
LoopBody without_row_folds(const LoopBody& body) {
  LoopBody made = body;
  made.values = {};
  made.values.set_number_dtype(body.values.number_dtype());
  made.folds.clear();
  std::vector<uint32_t> fold_of(body.folds.size());
  for (size_t f = 0; f < body.folds.size(); ++f) {
    if (body.folds[f].axis != BodyFold::Axis::Columns) continue;
    fold_of[f] = static_cast<uint32_t>(made.folds.size());
    made.folds.push_back(body.folds[f]);
  }
  std::vector<BodyValue> value_of;
  const auto renamed = [&](BodyValue v) { return v == kNoBodyValue ? v : value_of.at(v); };
  for (const ExprGraph::Node& node : body.values.nodes()) {
    const auto args = [&] {
      std::vector<weft::Expr> given;
      for (int i = 0; i < arity_of(node.prim); ++i) given.emplace_back(&made.values, value_of[node.args[i]]);
      return given;
    };
    if (node.prim == Prim::Input && body.sources[node.imm].kind == Source::Kind::Fold) {
      const BodyFold& fold = body.folds[body.sources[node.imm].param];
      if (fold.axis != BodyFold::Axis::Columns) {
        weft::Expr x(&made.values, value_of[fold.value]);
        // The identity +0 takes the sign of -0.
        if (fold.fold == cpu::Fold::Sum && is_floating(node.dtype))
          x = made.values.constant(0, node.dtype) + x;
        value_of.push_back(x.id);
        continue;
      }
      made.sources[node.imm].param = fold_of[body.sources[node.imm].param];
    }
    if (node.prim == Prim::Lookup)
      value_of.push_back(made.values.lookup(body.values.tables()[node.imm], args()[0]).id);
    else value_of.push_back(made.values.make(node.prim, node.dtype, args(), node.imm).id);
  }
  for (Source& source : made.sources) source.mask = renamed(source.mask);
  for (Indirect& indirect : made.indirects) indirect.value = renamed(indirect.value);
  for (Check& check : made.checks) check.mask = renamed(check.mask);
  for (BodyFold& fold : made.folds) fold.value = renamed(fold.value);
  for (BodyStore& store : made.stores) {
    store.value = renamed(store.value);
    store.mask = renamed(store.mask);
    if (store.each == BodyStore::Each::Column) store.each = BodyStore::Each::Element;
    if (store.each == BodyStore::Each::Batch) store.each = BodyStore::Each::Row;
  }
  return made;
}

class KernelWriter {
 public:
  KernelWriter(const LoopBody& body, std::string name, VectorPrinter& printer)
      : body_(body), code_(body, printer), name_(std::move(name)) {
    for (const BodyFold& fold : body.folds) {
      has_column_folds_ |= fold.axis == BodyFold::Axis::Columns;
      has_row_folds_ |= fold.axis != BodyFold::Axis::Columns;
    }
    place_stores();
    plan_kept();
  }

  std::string write() {
    std::string text = "// " + body_.name + "\n";
    for (const std::string& origin : body_.origins) text += "//   " + origin + "\n";
    if (is_flat()) return text + flat_kernel();
    if (has_row_folds_) return text + block_kernel();
    return text + rows_kernel();
  }

 private:
  const LoopLevels& levels() const { return code_.levels; }
  uint32_t num_passes() const { return levels().num_passes; }
  bool is_flat() const { return has_column_folds_ && is_int(body_.batches, 1) && is_int(body_.rows, 1); }
  // Columns where they are known, else -1.
  int64_t known_columns() const { return body_.columns.is_symbolic() ? -1 : body_.columns.concrete(); }
  std::string type_of(uint32_t fold) const {
    return code_.printer.type_of(code_.node(body_.folds[fold].value).dtype);
  }
  const char* element_of(uint32_t fold) const {
    return element_type(code_.node(body_.folds[fold].value).dtype);
  }
  std::string fold_call(const char* what, uint32_t fold) const {
    return "w_" + std::string(what) + "_" + name_of(body_.folds[fold].fold) + "_" + type_of(fold);
  }
  std::string folded(uint32_t fold, const std::string& a, const std::string& b) const {
    return fold_text(name_of(body_.folds[fold].fold), type_of(fold), a, b);
  }
  bool is_array(uint32_t fold) const {  // a fold along the rows with a column
    return body_.folds[fold].axis == BodyFold::Axis::Rows && levels().folds[fold].uses_column;
  }
  std::vector<uint32_t> folds_along(BodyFold::Axis axis) const {
    std::vector<uint32_t> found;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis == axis) found.push_back(f);
    return found;
  }
  static bool is_after(const BodyStore& store) {
    return store.each == BodyStore::Each::Column || store.each == BodyStore::Each::Batch;
  }
  static bool has_column(const BodyStore& store) {
    return store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Column;
  }

  // ---- What each pass does

  // A store happens as soon as its value is there, but not before a later pass has read what it overwrites, nor before an
  // earlier store to the same buffer.
  void place_stores() {
    store_pass_.resize(body_.stores.size());
    for (size_t s = 0; s < body_.stores.size(); ++s) {
      const BodyStore& store = body_.stores[s];
      uint32_t pass = levels().stores[s].pass;
      if (body_.buffers[store.param].is_read)
        pass = std::max(pass, num_passes() - (has_column(store) && num_passes() > 0 ? 1 : 0));
      for (size_t t = 0; t < s; ++t)
        if (body_.stores[t].param == store.param)
          pass = std::max(pass, store_pass_[t] + (has_column(body_.stores[t]) && !has_column(store)));
      store_pass_[s] = pass;
    }
  }

  // The values that a node needs first.
  template <class F>
  void for_each_operand(BodyValue v, F f) const {
    const ExprGraph::Node& node = code_.node(v);
    for (int i = 0; i < arity_of(node.prim); ++i) f(node.args[i]);
    if (node.prim != Prim::Input) return;
    const Source& source = body_.sources[node.imm];
    if (source.mask != kNoBodyValue) f(source.mask);
    for_each_index_value(source.index, f);
  }
  template <class F>
  void for_each_index_value(Sym index, F f) const {
    for (uint32_t k : code_.index.indirects(index)) {
      f(body_.indirects[k].value);
      if (const BodyValue mask = body_.checks[body_.indirects[k].check].mask; mask != kNoBodyValue) f(mask);
    }
  }
  // What pass p over the columns of a row is for.
  template <class F>
  void for_each_root(uint32_t pass, F f) const {
    for (uint32_t k = 0; k < body_.indirects.size(); ++k)
      if (is_checked_in(k, pass)) f(body_.indirects[k].value);
    for (uint32_t i = 0; i < body_.folds.size(); ++i)
      if (levels().folds[i].uses_column && levels().folds[i].pass == pass) f(body_.folds[i].value);
    for (size_t s = 0; s < body_.stores.size(); ++s) {
      const BodyStore& store = body_.stores[s];
      if (store.each != BodyStore::Each::Element || store_pass_[s] != pass) continue;
      f(store.value);
      if (store.mask != kNoBodyValue) f(store.mask);
      for_each_index_value(store.index, f);
    }
  }
  // Every computed index is checked, in the first pass that can.
  bool is_checked_in(uint32_t indirect, uint32_t pass) const {
    const ValueLevel level = indirect_level(indirect);
    return level.uses_column && level.pass == pass && !level.after_rows;
  }
  ValueLevel indirect_level(uint32_t k) const {
    ValueLevel level = levels().values[body_.indirects[k].value];
    if (const BodyValue mask = body_.checks[body_.indirects[k].check].mask; mask != kNoBodyValue)
      merge(level, levels().values[mask]);
    return level;
  }

  struct Kept {
    BodyValue value;
    uint32_t pass;
    std::string array, type;
  };

  double own_cost(BodyValue v) {
    const ExprGraph::Node& node = code_.node(v);
    if (node.prim == Prim::Constant) return 0;
    if (node.prim == Prim::Input) {
      const Source& source = body_.sources[node.imm];
      if (source.kind == Source::Kind::Fold || source.kind == Source::Kind::Number) return 0;
      const std::optional<LaneStride> lanes = code_.index.lanes(source.index);
      const bool is_vector = lanes && (is_int(lanes->stride, 0) || is_int(lanes->stride, 1));
      if (source.kind == Source::Kind::Random) return 24;
      return is_vector ? 1 : 12;
    }
    if (is_math(node.prim)) return 16;
    switch (node.prim) {
      case Prim::Div:
      case Prim::Sqrt: return 4;
      case Prim::FloorDiv:
      case Prim::FloorMod:
      case Prim::TruncDiv:
      case Prim::TruncMod: return 12;
      case Prim::Cast: return 1;
      default: return 1;
    }
  }
  // Of the nodes with a column that computing these takes, where `known` are there.
  double cost_of(const std::vector<BodyValue>& roots, std::set<BodyValue> known = {}) {
    std::set<BodyValue> seen = std::move(known);
    std::vector<BodyValue> open = roots;
    double cost = 0;
    while (!open.empty()) {
      const BodyValue v = open.back();
      open.pop_back();
      if (!levels().values[v].uses_column || !seen.insert(v).second) continue;
      cost += own_cost(v);
      for_each_operand(v, [&](BodyValue operand) { open.push_back(operand); });
    }
    return cost;
  }

  double cost_of_pass(uint32_t pass) {
    std::vector<BodyValue> roots;
    for_each_root(pass, [&](BodyValue v) { roots.push_back(v); });
    std::set<BodyValue> known;
    for (const Kept& kept : kept_)
      if (kept.pass < pass) known.insert(kept.value);
    return cost_of(roots, std::move(known));
  }

  void plan_kept() {
    std::vector<uint32_t> computed_in(body_.values.nodes().size(), ~0u);
    std::set<BodyValue> kept;
    for (uint32_t pass = 0; pass < num_passes(); ++pass) {
      std::set<BodyValue> seen;
      std::vector<BodyValue> open;
      for_each_root(pass, [&](BodyValue v) { open.push_back(v); });
      while (!open.empty()) {
        const BodyValue v = open.back();
        open.pop_back();
        if (!levels().values[v].uses_column || !seen.insert(v).second) continue;
        if (computed_in[v] < pass) {
          if (kept.count(v) != 0) continue;
          if (code_.node(v).dtype != DType::Bool && cost_of({v}) > kKeepCost) {
            kept.insert(v);
            kept_.push_back(
                {v, computed_in[v], "kept" + number(v), code_.printer.type_of(code_.node(v).dtype)});
            continue;
          }
        } else {
          computed_in[v] = pass;
        }
        for_each_operand(v, [&](BodyValue operand) { open.push_back(operand); });
      }
    }
    std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.value < b.value; });
  }

  // ---- One pass over the columns

  struct Pass {
    std::string body;             // the statements of one vector
    std::vector<uint32_t> folds;  // along the columns
    bool is_heavy = false;
  };

  Pass collect_pass(CpuSection& section, uint32_t pass) {
    Pass made;
    made.is_heavy = cost_of_pass(pass) > kHeavyCost;
    for (const Kept& kept : kept_)
      if (kept.pass < pass) section.use_kept(kept.value, kept.array);
    for (uint32_t k = 0; k < body_.indirects.size(); ++k)
      if (is_checked_in(k, pass)) section.check(k);
    for (const Kept& kept : kept_)
      if (kept.pass == pass) section.keep(kept.value, kept.array);
    for (uint32_t f = 0; f < body_.folds.size(); ++f) {
      const ValueLevel& level = levels().folds[f];
      if (!level.uses_column || level.pass != pass) continue;
      const CppValue x = section.value(body_.folds[f].value);
      if (is_array(f)) {
        const std::string at = "rows" + number(f) + " + (c - first)";
        section.column += "        w_put_" + x.type + "(" + at + ", " +
                          folded(f, "w_whole_" + x.type + "(" + at + ")", x.text) + ");\n";
      } else {
        made.folds.push_back(f);
        const std::string total = "a" + number(f);
        section.column += "        " + total + " = " +
                          folded(f, total, fold_call("keep", f) + "(" + x.text + ", n)") + ";\n";
      }
    }
    for (size_t s = 0; s < body_.stores.size(); ++s)
      if (body_.stores[s].each == BodyStore::Each::Element && store_pass_[s] == pass)
        section.store(body_.stores[s]);
    made.body = section.column + prefetches(section, pass);
    return made;
  }

  // Note [Asking for memory ahead]
  // Arithmetic and memory overlap only if lines are asked for long before they are used, and a pass over a row that is in
  // cache leaves memory idle. So the heaviest pass asks for the next row of what the passes read, a single pass for what
  // lies 2 KB ahead; and whoever stores asks for the lines that it will own 2 KB ahead. (softmax 4096 x 4096, one thread, against
  // a copy: 1.80 without, 1.16 with; asking for both in one pass 1.39. Streaming stores gain 6 % more there and nothing
  // for a norm; they are not used, as the next kernel reads what was stored.)
  std::string prefetches(CpuSection& section, uint32_t pass) {
    std::string text;
    const auto ask = [&](const std::string& address, const std::string& ahead, size_t bytes,
                         bool is_written) {
      // Lines of 64 bytes.
      const size_t lines = std::max<size_t>(1, bytes * kCpuLanes / 64);
      for (size_t k = 0; k < lines; ++k)
        text += "        __builtin_prefetch(" + address + " + " + ahead +
                (k == 0 ? "" : " + " + number(static_cast<int64_t>(k * 64 / bytes))) +
                (is_written ? ", 1" : "") + ");\n";
    };
    const bool asks_for_rows = pass == heaviest_pass();
    for (const CpuSection::Stream& stream : section.streams()) {
      const std::string near = number(kBytesAhead / static_cast<int64_t>(stream.element_bytes));
      if (stream.is_written) {
        ask(stream.address, near, stream.element_bytes, true);
        continue;
      }
      if (!asks_for_rows) continue;
      const bool is_one_line = is_int(body_.batches, 1) && is_int(body_.rows, 1);
      const std::optional<Sym> step = line_stride(stream.base);
      if (!is_one_line && step && is_int(*step, 0)) continue;  // the same for every row: it stays in cache
      if (is_one_line || !step || (num_passes() == 1 && !has_row_folds_)) {
        ask(stream.address, near, stream.element_bytes, false);
        continue;
      }
      const std::string next = section.index_text(*step);
      const std::string ahead = known_columns() < 0
                                    ? "(columns < " + number(kLongRow) + " ? " + next + " : " + near + ")"
                                : known_columns() < kLongRow ? next
                                                             : near;
      if (known_columns() < 0) section.bound("columns", body_.columns);
      ask(stream.address, ahead, stream.element_bytes, false);
    }
    return text;
  }
  // How an index moves from one row to the next; nothing where that is not known.
  std::optional<Sym> line_stride(Sym base) {
    SymTable& table = body_.expressions->syms;
    const Sym line = is_int(body_.rows, 1) ? body_.batch : body_.row;
    if (!code_.index.indirects(base).empty()) return std::nullopt;
    if (!line.is_symbolic()) return Sym::from_int(0);
    const Sym next = substitute(table, base, line, table.binary(SymOp::Add, line, Sym::from_int(1)));
    const Sym step = table.binary(SymOp::Sub, next, base);
    for (uint32_t symbol : table.symbols_of(step))
      for (Sym loop : {body_.batch, body_.row, body_.column})
        if (table.as_symbol(loop) == symbol) return std::nullopt;
    return step;
  }
  uint32_t heaviest_pass() {
    if (heaviest_pass_) return *heaviest_pass_;
    uint32_t heaviest = 0;
    double most = -1;
    for (uint32_t pass = 0; pass < num_passes(); ++pass)
      if (const double cost = cost_of_pass(pass); cost > most) most = cost, heaviest = pass;
    heaviest_pass_ = heaviest;
    return heaviest;
  }

  std::string lambda(const std::string& name, const Pass& pass) const {
    std::string text = "      const auto " + name + " = [&](long c, long n";
    for (uint32_t f : pass.folds) text += ", " + type_of(f) + "& a" + number(f);
    return text + ") __attribute__((always_inline)) {\n" + pass.body + "      };\n";
  }
  std::string call_of(const std::string& name, const Pass& pass, const std::string& c, const std::string& n,
                      const std::string& which) const {
    std::string text = name + "(" + c + ", " + n;
    for (uint32_t f : pass.folds) text += ", s" + number(f) + which;
    return text + ");";
  }
  bool columns_are_multiple_of(int64_t n) const { return known_columns() >= 0 && known_columns() % n == 0; }

  // Columns first … last-1.
  std::string plain_loop(const std::string& name, const Pass& pass, const std::string& first,
                         const std::string& last) const {
    if (columns_are_multiple_of(kCpuLanes))
      return "      for (long c = " + first + "; c < " + last + "; c += 16) " +
             call_of(name, pass, "c", "16", "") + "\n";
    return "      {\n        long c = " + first + ";\n        for (; c + 16 <= " + last + "; c += 16) " +
           call_of(name, pass, "c", "16", "") + "\n        if (c < " + last + ") " +
           call_of(name, pass, "c", last + " - c", "") + "\n      }\n";
  }

  // Columns begin … end-1 of one block: four accumulators of each fold, then its value as value(f).
  std::string block_loop(const std::string& name, const Pass& pass, const std::string& begin,
                         const std::string& end, const std::string& indent) const {
    std::string text;
    const bool is_short = known_columns() >= 0 && known_columns() < cpu::kInnerSlots;
    const bool unrolls = !pass.is_heavy && !is_short, has_rest = !columns_are_multiple_of(cpu::kInnerSlots);
    text += indent + "long c = " + begin + ";\n";
    const auto four = [](const std::string& x) { return "{" + x + ", " + x + ", " + x + ", " + x + "}"; };
    for (uint32_t f : pass.folds) {
      const std::string identity = fold_call("identity", f) + "()";
      if (!unrolls) {
        text += indent + type_of(f) + " s" + number(f) + "[4] = " + four(identity) + ";\n";
        continue;
      }
      text += indent + type_of(f);
      for (int k = 0; k < 4; ++k)
        text += (k == 0 ? " s" : ", s") + number(f) + "_" + number(k) + " = " + identity;
      text += ";\n";
    }
    if (unrolls) {
      text += indent + "for (; c + 64 <= " + end + "; c += 64) {\n";
      for (int k = 0; k < 4; ++k)
        text += indent + "  " +
                call_of(name, pass, k == 0 ? "c" : "c + " + number(16 * k), "16", "_" + number(k)) + "\n";
      text += indent + "}\n";
      if (has_rest) {
        std::string arrays, back;
        for (uint32_t f : pass.folds) {
          const std::string s = "s" + number(f);
          text +=
              indent + type_of(f) + " " + s + "[4] = {" + s + "_0, " + s + "_1, " + s + "_2, " + s + "_3};\n";
        }
        text += indent + "for (long k = 0; c < " + end + "; c += 16, ++k) " +
                call_of(name, pass, "c", "w_least(16, " + end + " - c)", "[k]") + "\n";
      }
    } else {
      const std::string which = "[c >> 4 & 3]";
      text +=
          indent + "for (; c + 16 <= " + end + "; c += 16) " + call_of(name, pass, "c", "16", which) + "\n";
      if (!columns_are_multiple_of(kCpuLanes))
        text += indent + "if (c < " + end + ") " + call_of(name, pass, "c", end + " - c", which) + "\n";
    }
    for (uint32_t f : pass.folds) {
      const bool from_array = !unrolls || has_rest;
      const auto s = [&](int k) {
        return "s" + number(f) + (from_array ? "[" + number(k) + "]" : "_" + number(k));
      };
      const auto pair = [&](int k) { return folded(f, s(k), s(k + 1)); };
      text += indent + "const " + type_of(f) + " value" + number(f) + " = " + fold_call("reduce", f) + "(" +
              folded(f, "(" + pair(0) + ")", "(" + pair(2) + ")") + ");\n";
    }
    return text;
  }

  // The pass within a row.
  std::string row_pass(const std::string& name, const Pass& pass) const {
    std::string text = lambda(name, pass);
    if (pass.folds.empty()) return text + plain_loop(name, pass, "first", "last");
    for (uint32_t f : pass.folds)
      text += "      " + type_of(f) + " total" + number(f) + " = " + fold_call("identity", f) + "();\n";
    text +=
        "      for (long block = 0; block < columns; block += 4096) {\n"
        "        const long end = w_least(columns, block + 4096);\n" +
        block_loop(name, pass, "block", "end", "        ");
    for (uint32_t f : pass.folds)
      text +=
          "        total" + number(f) + " = " + folded(f, "total" + number(f), "value" + number(f)) + ";\n";
    text += "      }\n";
    for (uint32_t f : pass.folds)
      text += "      const " + type_of(f) + " fold" + number(f) + " = w_splat_" + type_of(f) + "(w_lane0_" +
              type_of(f) + "(total" + number(f) + "));\n";
    return text;
  }

  // ---- Rows

  static const char* element_of(const Kept& kept) {
    return kept.type == "f64"   ? "double"
           : kept.type == "i64" ? "long long"
           : kept.type == "i32" ? "int"
                                : "float";
  }
  // Memory for the kept values of one row: declared at the head, given back at the end.
  std::string kept_memory(std::string& end) const {
    std::string text;
    const bool on_stack =
        known_columns() >= 0 && known_columns() * static_cast<int64_t>(kept_.size()) <= kStackElements;
    for (const Kept& kept : kept_) {
      const std::string element = element_of(kept);
      if (on_stack) {
        text += "  " + element + " " + kept.array + "[" + number((known_columns() + 15) / 16 * 16) +
                "] __attribute__((aligned(64)));\n";
      } else {
        text += "  " + element + "* const " + kept.array + " = (" + element +
                "*)w_allocate((columns + 15) / 16 * 16 * sizeof(" + element + "));\n";
        end += "  w_release(" + kept.array + ");\n";
      }
    }
    return text;
  }

  // All passes of one row; `row_end` is what else happens in each.
  std::string row_text(CpuSection& section) {
    std::vector<std::string> passes(num_passes() + 1);
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) {
      section.begin_pass(pass);
      for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
        const ValueLevel level = indirect_level(k);
        if (!level.uses_column && !level.after_rows && level.pass == pass) section.check(k);
      }
      for (uint32_t f = 0; f < body_.folds.size(); ++f) {
        const BodyFold& fold = body_.folds[f];
        if (fold.axis == BodyFold::Axis::Columns || is_array(f) || levels().folds[f].pass != pass) continue;
        const CppValue x = section.value(fold.value);
        std::string& line = section.line[pass];
        if (fold.axis == BodyFold::Axis::Rows)
          line += "      total" + number(f) + " = " + folded(f, "total" + number(f), x.text) + ";\n";
        else
          line += "      w_store_" + x.type + "(rows" + number(f) + " + " + line_number() + ", " + x.text +
                  ", 1);\n";
      }
      for (size_t s = 0; s < body_.stores.size(); ++s)
        if (body_.stores[s].each == BodyStore::Each::Row && store_pass_[s] == pass)
          section.store(body_.stores[s]);
      if (pass == num_passes()) break;
      const Pass made = collect_pass(section, pass);
      if (!made.body.empty()) passes[pass] = row_pass("pass" + number(pass), made);
      for (uint32_t f : made.folds) section.set_fold(f, {"fold" + number(f), type_of(f)});
    }
    std::string text;
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) text += section.line[pass] + passes[pass];
    return text;
  }
  std::string line_number() const {
    if (is_int(body_.batches, 1)) return "row";
    return is_int(body_.rows, 1) ? "batch" : "batch * rows + row";
  }
  bool needs_columns() const { return has_column_folds_ || !kept_.empty(); }

  // NAME_rows: the lines begin … end-1 of all batches, columns first … last-1.
  std::string rows_function() {
    CpuSection section(code_, CpuSection::Part::Rows);
    const std::string row = row_text(section);
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    std::string end, text = "static void " + name_ +
                            "_rows(const w_call& call, long begin, long end, long first, long last) {\n";
    const std::string memory = kept_memory(end);
    text += section.head + memory;
    if (is_int(body_.batches, 1)) {
      text += section.batch +
              (is_int(body_.rows, 1) ? "    if (begin < end) {\n"
                                     : "    for (long row = begin; row < end; ++row) {\n") +
              row + "    }\n";
    } else if (is_int(body_.rows, 1)) {
      text += "  for (long batch = begin; batch < end; ++batch) {\n" + section.batch + "    {\n" + row +
              "    }\n  }\n";
    } else {
      text +=
          "  for (long line = begin; line < end;) {\n"
          "    const long batch = line / rows, start = line - batch * rows, stop = w_least(rows, start + end "
          "- line);\n"
          "    line += stop - start;\n" +
          section.batch + "    for (long row = start; row < stop; ++row) {\n" + row + "    }\n  }\n";
    }
    return text + end + "}\n";
  }

  bool has_rows_work() const {
    if (has_row_folds_ || has_column_folds_) return true;
    return std::any_of(body_.stores.begin(), body_.stores.end(),
                       [](const BodyStore& s) { return !is_after(s); }) ||
           !body_.indirects.empty();
  }
  bool has_add() const {
    return std::any_of(body_.stores.begin(), body_.stores.end(),
                       [](const BodyStore& s) { return s.mode == BodyStore::Mode::Add; });
  }

  std::string entry_head() {
    std::string text = "extern \"C\" void " + name_ +
                       "(void* const* buffers, const unsigned long* numbers, const long* sizes, w_error* "
                       "error, int threads) {\n";
    const bool is_in_place =
        has_add() || std::any_of(body_.buffers.begin(), body_.buffers.end(),
                                 [](const BufferParam& b) { return b.is_read && b.is_written; });
    if (is_in_place) text += "  if (error->check != 0) return;\n";
    if (has_add()) text += "  threads = 1;  // places may collide\n";
    text += "  const w_call call = {buffers, numbers, sizes, error};\n";
    CpuSection bounds(code_, CpuSection::Part::Rows);
    bounds.bound("batches", body_.batches);
    bounds.bound("rows", body_.rows);
    bounds.bound("columns", body_.columns);
    return text + bounds.head;
  }

  std::string rows_kernel() {
    std::string text;
    const bool has_rows = has_rows_work(), has_after = levels().has_after;
    if (has_rows) text += rows_function();
    if (has_after) text += after_function();
    text += entry_head();
    if (has_rows) {
      if (shares_columns()) {
        text +=
            "  if (batches * rows >= 2 * threads || threads <= 1) {\n"
            "    w_parallel(batches * rows, threads, [&](long begin, long end) { " +
            name_ +
            "_rows(call, begin, end, 0, columns); });\n"
            "  } else {\n"
            "    w_parallel((columns + 15) / 16, threads, [&](long begin, long end) { " +
            name_ + "_rows(call, 0, batches * rows, begin * 16, w_least(columns, end * 16)); });\n  }\n";
      } else {
        text += "  w_parallel(batches * rows, threads, [&](long begin, long end) { " + name_ +
                "_rows(call, begin, end, 0, columns); });\n";
      }
    }
    if (has_after)
      text +=
          "  w_parallel(batches, threads, [&](long begin, long end) {\n"
          "    for (long batch = begin; batch < end; ++batch) " +
          name_ + "_after(call, batch, 0, columns);\n  });\n";
    return text + "}\n";
  }

  // True where a row need not be done by one thread.
  bool shares_columns() const {
    if (has_column_folds_ || has_add()) return false;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (!is_array(f)) return false;
    return std::none_of(body_.stores.begin(), body_.stores.end(), [](const BodyStore& s) {
      return s.each == BodyStore::Each::Row || s.each == BodyStore::Each::Batch;
    });
  }

  // ---- After the rows

  // "const float* rows2, …": the folds along the rows.
  std::string fold_params(bool is_const) const {
    std::string text;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis != BodyFold::Axis::Columns)
        text += std::string(is_const ? ", const " : ", ") + element_of(f) + "* rows" + number(f);
    return text;
  }

  std::string after_function() {
    CpuSection section(code_, CpuSection::Part::AfterRows);
    section.begin_pass(0);
    for (uint32_t f = 0; f < body_.folds.size(); ++f) {
      const BodyFold& fold = body_.folds[f];
      if (fold.axis == BodyFold::Axis::Columns) continue;
      const std::string array = "rows" + number(f), type = type_of(f);
      if (is_array(f)) section.set_fold_array(f, array);
      else if (fold.axis == BodyFold::Axis::Rows)
        section.set_fold(f, {"w_one_" + type + "(" + array + ")", type});
      else
        section.set_fold(f, {"w_splat_" + type + "(w_lane0_" + type + "(" + fold_call("run", f) + "(" +
                                 array + " + batch * rows, rows)))",
                             type});
    }
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    for (uint32_t k = 0; k < body_.indirects.size(); ++k)
      if (const ValueLevel level = indirect_level(k); level.after_rows) section.check(k);
    for (const BodyStore& store : body_.stores)
      if (is_after(store)) section.store(store);
    std::string text = "static void " + name_ +
                       "_after(const w_call& call, long batch, long first, long last" + fold_params(true) +
                       ") {\n" + section.head + section.line[0];
    if (!section.column.empty()) {
      const Pass pass{section.column, {}, false};
      text += lambda("columns_pass", pass) + plain_loop("columns_pass", pass, "first", "last");
    }
    return text + "}\n";
  }

  // ---- Folds along the rows

  std::string block_function() {
    CpuSection section(code_, CpuSection::Part::Rows);
    const std::string row = row_text(section);
    section.bound("rows", body_.rows);
    section.bound("columns", body_.columns);
    std::string end,
        text = "static void " + name_ +
               "_block(const w_call& call, long batch, long begin, long end, long first, long last" +
               fold_params(false) + ") {\n";
    const std::string memory = kept_memory(end);
    text += section.head + memory + section.batch;
    for (uint32_t f : folds_along(BodyFold::Axis::Rows)) {
      const std::string identity = fold_call("identity", f) + "()";
      if (is_array(f))
        text += "  for (long c = 0; c < last - first; c += 16) w_put_" + type_of(f) + "(rows" + number(f) +
                " + c, " + identity + ");\n";
      else text += "  " + type_of(f) + " total" + number(f) + " = " + identity + ";\n";
    }
    text += "    for (long row = begin; row < end; ++row) {\n" + row + "    }\n";
    for (uint32_t f : folds_along(BodyFold::Axis::Rows))
      if (!is_array(f))
        text += "  w_put_" + type_of(f) + "(rows" + number(f) + ", total" + number(f) + ");\n";
    return text + end + "}\n";
  }

  // An argument for each fold along the rows, by what stands for its array.
  template <class F>
  std::string fold_args(F text_of) const {
    std::string text;
    for (uint32_t f = 0; f < body_.folds.size(); ++f)
      if (body_.folds[f].axis != BodyFold::Axis::Columns)
        text += ", " + (body_.folds[f].axis == BodyFold::Axis::RowValues ? "rows" + number(f) : text_of(f));
    return text;
  }

  std::string block_kernel() {
    std::string text = block_function() + after_function() + entry_head();
    const bool shares = shares_columns();
    const std::vector<uint32_t> folds = folds_along(BodyFold::Axis::Rows),
                                values = folds_along(BodyFold::Axis::RowValues);
    const auto allocate = [&](const std::string& name, uint32_t f, const std::string& count) {
      const std::string element = element_of(f);
      return element + "* const " + name + number(f) + " = (" + element + "*)w_allocate((" + count +
             ") * sizeof(" + element + "));\n";
    };
    // Elements of a fold's array over so many columns.
    const auto width = [&](uint32_t f, const std::string& columns) {
      return is_array(f) ? columns : std::string("16");
    };
    const auto combine = [&](const std::string& indent, const std::string& total, const std::string& block,
                             auto offset) {
      std::string lines;
      for (uint32_t f : folds)
        lines += indent + fold_call("combine", f) + "(" + total + number(f) + ", " + block + number(f) +
                 offset(f) + ", " + width(f, "(last - first + 15) / 16 * 16") + ");\n";
      return lines;
    };
    const auto start = [&](const std::string& indent) {
      std::string lines;
      for (uint32_t f : folds)
        lines += indent + "for (long c = 0; c < " + width(f, "last - first") + "; c += 16) w_put_" +
                 type_of(f) + "(total" + number(f) + " + c, " + fold_call("identity", f) + "());\n";
      return lines;
    };
    const std::string totals = fold_args([](uint32_t f) { return "total" + number(f); });
    text += "  const long blocks = (rows + 63) / 64, width = (columns + 15) / 16 * 16;\n";
    for (uint32_t f : values) text += "  " + allocate("rows", f, "batches * rows");
    text += shares ? "  const long chunk = w_least(width, " + number(kChunkColumns) +
                         "), chunks = chunk == 0 ? 1 : (columns + chunk - 1) / chunk;\n"
                   : "  const long chunk = width, chunks = 1;\n";
    text +=
        "  if (threads <= 1 || blocks <= 1 || batches * chunks >= 2 * threads) {\n"
        "    w_parallel(batches * chunks, threads, [&](long begin, long end) {\n";
    for (uint32_t f : folds) {
      text += "      " + allocate("total", f, width(f, "chunk"));
      text += "      " + allocate("block", f, width(f, "chunk"));
    }
    text +=
        "      for (long unit = begin; unit < end; ++unit) {\n"
        "        const long batch = unit / chunks, first = unit % chunks * chunk, last = w_least(columns, "
        "first + chunk);\n" +
        start("        ") +
        "        for (long b = 0; b < blocks; ++b) {\n"
        "          " +
        name_ + "_block(call, batch, b * 64, w_least(rows, b * 64 + 64), first, last" +
        fold_args([](uint32_t f) { return "block" + number(f); }) + ");\n" +
        combine("          ", "total", "block", [](uint32_t) { return std::string(); }) +
        "        }\n        " + name_ + "_after(call, batch, first, last" + totals + ");\n      }\n";
    for (uint32_t f : folds)
      text += "      w_release(total" + number(f) + ");\n      w_release(block" + number(f) + ");\n";
    text += "    });\n  } else {\n";
    for (uint32_t f : folds) text += "    " + allocate("part", f, "batches * blocks * " + width(f, "width"));
    text +=
        "    w_parallel(batches * blocks, threads, [&](long begin, long end) {\n"
        "      for (long unit = begin; unit < end; ++unit) {\n"
        "        const long batch = unit / blocks, b = unit % blocks;\n"
        "        " +
        name_ + "_block(call, batch, b * 64, w_least(rows, b * 64 + 64), 0, columns" +
        fold_args([&](uint32_t f) { return "part" + number(f) + " + unit * " + width(f, "width"); }) +
        ");\n      }\n    });\n";
    // The combination, and what follows it: over columns where each is for itself.
    const bool splits =
        values.empty() && std::none_of(body_.stores.begin(), body_.stores.end(), [](const BodyStore& s) {
          return s.each == BodyStore::Each::Batch || (is_after(s) && s.mode == BodyStore::Mode::Add);
        });
    text += splits
                ? "    const long piece = 256, pieces = columns == 0 ? 1 : (columns + piece - 1) / piece;\n"
                : "    const long piece = width, pieces = 1;\n";
    text += "    w_parallel(batches * pieces, threads, [&](long begin, long end) {\n";
    for (uint32_t f : folds) text += "      " + allocate("total", f, width(f, "piece"));
    text +=
        "      for (long unit = begin; unit < end; ++unit) {\n"
        "        const long batch = unit / pieces, first = unit % pieces * piece, last = w_least(columns, "
        "first + piece);\n" +
        start("        ") + "        for (long b = 0; b < blocks; ++b) {\n" +
        combine("          ", "total", "part",
                [&](uint32_t f) {
                  return " + (batch * blocks + b) * " + width(f, "width") + (is_array(f) ? " + first" : "");
                }) +
        "        }\n        " + name_ + "_after(call, batch, first, last" + totals + ");\n      }\n";
    for (uint32_t f : folds) text += "      w_release(total" + number(f) + ");\n";
    text += "    });\n";
    for (uint32_t f : folds) text += "    w_release(part" + number(f) + ");\n";
    text += "  }\n";
    for (uint32_t f : values) text += "  w_release(rows" + number(f) + ");\n";
    return text + "}\n";
  }

  // ---- A single row

  // NAME_passK: blocks begin … end-1 of the only row.
  std::string flat_kernel() {
    std::string functions, calls, ends, declarations;
    std::vector<uint32_t> done;
    // Of pass 0 … num_passes-1, then of what follows the last.
    for (uint32_t pass = 0; pass <= num_passes(); ++pass) {
      CpuSection section(code_, CpuSection::Part::Rows);
      for (uint32_t f : done)
        section.set_fold(f, {"w_one_" + type_of(f) + "(&total" + number(f) + ")", type_of(f)});
      section.begin_pass(pass);
      for (uint32_t k = 0; k < body_.indirects.size(); ++k) {
        const ValueLevel level = indirect_level(k);
        if (!level.uses_column && level.pass == pass) section.check(k);
      }
      for (size_t s = 0; s < body_.stores.size(); ++s)
        if (body_.stores[s].each == BodyStore::Each::Row && store_pass_[s] == pass)
          section.store(body_.stores[s]);
      // What is done once, by one thread, before the pass.
      const bool has_line = !section.line[pass].empty();
      std::string params, args;
      for (uint32_t f : done) {
        params += std::string(", ") + element_of(f) + " total" + number(f);
        args += ", total" + number(f);
      }
      for (const Kept& kept : kept_) {
        params += std::string(", ") + element_of(kept) + "* " + kept.array;
        args += ", " + kept.array;
      }
      if (has_line) {
        section.bound("columns", body_.columns);
        std::string lines;
        for (uint32_t p = 0; p <= pass; ++p) lines += section.line[p];
        functions += "static void " + name_ + "_line" + number(pass) + "(const w_call& call" + params +
                     ") {\n" + section.head + section.batch + lines + "}\n";
        calls += "  " + name_ + "_line" + number(pass) + "(call" + args + ");\n";
      }
      if (pass == num_passes()) break;
      CpuSection columns(code_, CpuSection::Part::Rows);
      for (uint32_t f : done)
        columns.set_fold(f, {"w_one_" + type_of(f) + "(&total" + number(f) + ")", type_of(f)});
      columns.begin_pass(pass);
      const Pass made = collect_pass(columns, pass);
      if (made.body.empty()) continue;
      columns.bound("columns", body_.columns);
      const std::string name = name_ + "_pass" + number(pass);
      std::string lines;
      for (uint32_t p = 0; p <= pass; ++p) lines += columns.line[p];
      functions += "static void " + name + "(const w_call& call" + params;
      for (uint32_t f : made.folds) functions += std::string(", ") + element_of(f) + "* part" + number(f);
      functions +=
          ", long begin, long end) {\n" + columns.head + columns.batch + lines + lambda("vector", made);
      std::string parts;
      if (made.folds.empty()) {
        functions += plain_loop("vector", made, "begin * 4096", "w_least(columns, end * 4096)");
      } else {
        functions +=
            "      for (long block = begin; block < end; ++block) {\n"
            "        const long stop = w_least(columns, block * 4096 + 4096);\n" +
            block_loop("vector", made, "block * 4096", "stop", "        ");
        for (uint32_t f : made.folds)
          functions += "        w_store_" + type_of(f) + "(part" + number(f) + " + block, value" + number(f) +
                       ", 1);\n";
        functions += "      }\n";
      }
      functions += "}\n";
      for (uint32_t f : made.folds) {
        const std::string element = element_of(f);
        declarations += "  " + element + "* const part" + number(f) + " = (" + element +
                        "*)w_allocate(blocks * sizeof(" + element + "));\n";
        ends += "  w_release(part" + number(f) + ");\n";
        parts += ", part" + number(f);
      }
      calls += "  w_parallel(blocks, threads, [&](long begin, long end) { " + name + "(call" + args + parts +
               ", begin, end); });\n";
      for (uint32_t f : made.folds) {
        calls += std::string("  const ") + element_of(f) + " total" + number(f) + " = w_lane0_" + type_of(f) +
                 "(" + fold_call("serial", f) + "(part" + number(f) + ", blocks));\n";
        done.push_back(f);
      }
    }
    for (const Kept& kept : kept_) {
      const std::string element = element_of(kept);
      declarations += "  " + element + "* const " + kept.array + " = (" + element +
                      "*)w_allocate((columns + 15) / 16 * 16 * sizeof(" + element + "));\n";
      ends += "  w_release(" + kept.array + ");\n";
    }
    return functions + entry_head() + "  const long blocks = (columns + 4095) / 4096;\n" + declarations +
           calls + ends + "}\n";
  }

  const LoopBody& body_;
  CpuBody code_;
  std::string name_;
  bool has_column_folds_ = false, has_row_folds_ = false;
  std::vector<uint32_t> store_pass_;
  std::vector<Kept> kept_;
  std::optional<uint32_t> heaviest_pass_;
};

// A C identifier after the body's name.
std::string entry_name(const std::string& name) {
  std::string text = "kernel_";
  for (char c : name)
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return text;
}

}  // namespace

CpuCode generate_cpu(std::span<const LoopBody* const> bodies, CpuTarget target) {
  CpuCode code;
  VectorPrinter printer(target);
  std::string kernels;
  std::set<std::string> taken;
  for (const LoopBody* given : bodies) {
    LoopBody body = has_one_row(*given) ? without_row_folds(*given) : *given;
    // Symbols of the printer's own go to a copy of the tables.
    body.expressions = std::make_shared<Expressions>(*given->expressions);
    const std::string base = entry_name(given->name);
    std::string name = base;
    for (int i = 2; !taken.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    kernels += "\n" + KernelWriter(body, name, printer).write();
    code.entries.push_back(name);
  }
  const std::string text = printer.definitions() + kernels;
  code.text = definitions_for(target, text) + text;
  return code;
}

CpuCode generate_cpu(const LoopBody& body, CpuTarget target) {
  const LoopBody* const one = &body;
  return generate_cpu(std::span(&one, 1), target);
}

}  // namespace weft::compiler
