// Planning the passes of a kernel.
// Place: the out-of-line half of cpu_plan.h.
#include "compiler/codegen/cpu_plan.h"

#include <algorithm>
#include <cstdlib>

namespace weft::compiler {
namespace {

// A value that costs more primitives than this is kept for later passes: a store and a load in the cache are cheaper.
constexpr double kKeepCost = 6;
// Elements of one row that lie closer together than this along the columns are not worth turning, nor are fewer rows.
constexpr int64_t kTurnedStride = 8;

bool has_column(const BodyStore& store) {
  return store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Column;
}

}  // namespace

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

CpuPlan::CpuPlan(const LoopBody& b, VectorPrinter& printer) : body(b), code(b, printer) {
  for (const BodyFold& fold : body.folds) {
    has_column_folds_ |= fold.axis == BodyFold::Axis::Columns;
    has_row_folds_ |= fold.axis != BodyFold::Axis::Columns;
  }
  for (const BodyStore& store : body.stores)
    if (store.mode == BodyStore::Mode::Add || !code.index.indirects(store.index).empty())
      collisions_.push_back(&store);
  place_stores();
  plan_kept();
  find_tiles();
}

bool CpuPlan::collides_by_column() {
  if (has_column_folds_ || has_row_folds_) return false;
  SymTable& table = body.expressions->syms;
  return std::all_of(body.stores.begin(), body.stores.end(), [&](const BodyStore& store) {
    if (store.each != BodyStore::Each::Element) return false;
    const std::optional<LaneStride> lanes = code.index.lanes(store.index);
    if (!lanes || !lanes->is_affine || is_int(lanes->stride, 0)) return false;
    // base + column * stride, where base is a multiple of columns * stride.
    const Sym row = table.binary(SymOp::Mul, body.columns, lanes->stride);
    return table.range(row).min > 0 && is_int(table.current(table.binary(SymOp::Mod, lanes->base, row)), 0);
  });
}

int64_t CpuPlan::rows_at_a_time() {
  constexpr double kLightPass = 12;  // primitives; the text of the pass is there for each row
  const bool is_light = shares_columns() && has_row_folds_ && num_passes() == 1 && tiles_.empty() &&
                        kept_.empty() && body.indirects.empty() && cost_of_pass(0) <= kLightPass;
  return is_light && std::none_of(body.sources.begin(), body.sources.end(),
                                  [](const Source& s) { return s.kind == Source::Kind::Random; })
             ? 4
             : 1;
}

bool CpuPlan::shares_columns() const {
  if (has_column_folds_ || has_collisions()) return false;
  for (uint32_t f = 0; f < body.folds.size(); ++f)
    if (!is_array(f)) return false;
  return std::none_of(body.stores.begin(), body.stores.end(), [](const BodyStore& s) {
    return s.each == BodyStore::Each::Row || s.each == BodyStore::Each::Batch;
  });
}

// A store happens as soon as its value is there, but not before a later pass has read what it overwrites, nor before an
// earlier store to the same buffer.
void CpuPlan::place_stores() {
  store_pass_.resize(body.stores.size());
  for (size_t s = 0; s < body.stores.size(); ++s) {
    const BodyStore& store = body.stores[s];
    uint32_t pass = code.levels.stores[s].pass;
    if (body.buffers[store.param].is_read)
      pass = std::max(pass, num_passes() - (has_column(store) && num_passes() > 0 ? 1 : 0));
    for (size_t t = 0; t < s; ++t)
      if (body.stores[t].param == store.param)
        pass = std::max(pass, store_pass_[t] + (has_column(body.stores[t]) && !has_column(store)));
    store_pass_[s] = pass;
  }
}

// The values that a node needs first.
template <class F>
void CpuPlan::for_each_operand(BodyValue v, F f) const {
  const ExprGraph::Node& node = code.node(v);
  for (int i = 0; i < arity_of(node.prim); ++i) f(node.args[i]);
  if (node.prim != Prim::Input) return;
  const Source& source = body.sources[node.imm];
  if (source.mask != kNoBodyValue) f(source.mask);
  for_each_index_value(source.index, f);
}

template <class F>
void CpuPlan::for_each_index_value(Sym index, F f) const {
  for (uint32_t k : code.index.indirects(index)) {
    f(body.indirects[k].value);
    if (const BodyValue mask = body.checks[body.indirects[k].check].mask; mask != kNoBodyValue) f(mask);
  }
}

// What pass p over the columns of a row is for.
template <class F>
void CpuPlan::for_each_root(uint32_t pass, F f) const {
  for (uint32_t k = 0; k < body.indirects.size(); ++k)
    if (is_checked_in(k, pass)) f(body.indirects[k].value);
  for (uint32_t i = 0; i < body.folds.size(); ++i)
    if (code.levels.folds[i].uses_column && code.levels.folds[i].pass == pass) f(body.folds[i].value);
  for (size_t s = 0; s < body.stores.size(); ++s) {
    const BodyStore& store = body.stores[s];
    if (store.each != BodyStore::Each::Element || store_pass_[s] != pass) continue;
    f(store.value);
    if (store.mask != kNoBodyValue) f(store.mask);
    for_each_index_value(store.index, f);
  }
}

bool CpuPlan::is_checked_in(uint32_t indirect, uint32_t pass) const {
  const ValueLevel level = indirect_level(indirect);
  return level.uses_column && level.pass == pass && !level.after_rows;
}

ValueLevel CpuPlan::indirect_level(uint32_t k) const {
  ValueLevel level = code.levels.values[body.indirects[k].value];
  if (const BodyValue mask = body.checks[body.indirects[k].check].mask; mask != kNoBodyValue)
    merge(level, code.levels.values[mask]);
  return level;
}

double CpuPlan::own_cost(BodyValue v) {
  const ExprGraph::Node& node = code.node(v);
  if (node.prim == Prim::Constant) return 0;
  if (node.prim == Prim::Input) {
    const Source& source = body.sources[node.imm];
    if (source.kind == Source::Kind::Fold || source.kind == Source::Kind::Number) return 0;
    const std::optional<LaneStride> lanes = code.index.lanes(source.index);
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
double CpuPlan::cost_of(const std::vector<BodyValue>& roots, std::set<BodyValue> known) {
  std::set<BodyValue> seen = std::move(known);
  std::vector<BodyValue> open = roots;
  double cost = 0;
  while (!open.empty()) {
    const BodyValue v = open.back();
    open.pop_back();
    if (!code.levels.values[v].uses_column || !seen.insert(v).second) continue;
    cost += own_cost(v);
    for_each_operand(v, [&](BodyValue operand) { open.push_back(operand); });
  }
  return cost;
}

double CpuPlan::cost_of_pass(uint32_t pass) {
  std::vector<BodyValue> roots;
  for_each_root(pass, [&](BodyValue v) { roots.push_back(v); });
  std::set<BodyValue> known;
  for (const Kept& kept : kept_)
    if (kept.pass < pass) known.insert(kept.value);
  return cost_of(roots, std::move(known));
}

uint32_t CpuPlan::heaviest_pass() {
  if (heaviest_pass_) return *heaviest_pass_;
  uint32_t heaviest = 0;
  double most = -1;
  for (uint32_t pass = 0; pass < num_passes(); ++pass)
    if (const double cost = cost_of_pass(pass); cost > most) most = cost, heaviest = pass;
  heaviest_pass_ = heaviest;
  return heaviest;
}

void CpuPlan::plan_kept() {
  std::vector<uint32_t> computed_in(body.values.nodes().size(), ~0u);
  std::set<BodyValue> kept;
  for (uint32_t pass = 0; pass < num_passes(); ++pass) {
    std::set<BodyValue> seen;
    std::vector<BodyValue> open;
    for_each_root(pass, [&](BodyValue v) { open.push_back(v); });
    while (!open.empty()) {
      const BodyValue v = open.back();
      open.pop_back();
      if (!code.levels.values[v].uses_column || !seen.insert(v).second) continue;
      if (computed_in[v] < pass) {
        if (kept.count(v) != 0) continue;
        if (code.node(v).dtype != DType::Bool && cost_of({v}) > kKeepCost) {
          kept.insert(v);
          kept_.push_back(
              {v, computed_in[v], "kept" + std::to_string(v), code.printer.type_of(code.node(v).dtype)});
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

std::optional<Sym> CpuPlan::line_stride(Sym base) {
  SymTable& table = body.expressions->syms;
  const Sym line = is_int(body.rows, 1) ? body.batch : body.row;
  if (!code.index.indirects(base).empty()) return std::nullopt;
  if (!line.is_symbolic()) return Sym::from_int(0);
  const Sym next = substitute(table, base, line, table.binary(SymOp::Add, line, Sym::from_int(1)));
  const Sym step = table.binary(SymOp::Sub, next, base);
  for (uint32_t symbol : table.symbols_of(step))
    for (Sym loop : {body.batch, body.row, body.column})
      if (table.as_symbol(loop) == symbol) return std::nullopt;
  return step;
}
bool CpuPlan::is_turned(Sym index) {
  const std::optional<LaneStride> lanes = code.index.lanes(index);
  if (!lanes || !lanes->is_affine || !code.index.indirects(index).empty()) return false;
  if (!lanes->stride.is_symbolic() && std::abs(lanes->stride.concrete()) < kTurnedStride) return false;
  const std::optional<Sym> step = line_stride(lanes->base);
  return step && is_int(*step, 1);
}

void CpuPlan::add_tile(uint32_t param, Sym index, bool is_store) {
  for (const Tile& tile : tiles_)
    if (tile.param == param && same(tile.index, index)) return;
  tiles_.push_back(
      {"tile" + std::to_string(tiles_.size()), param, index, code.index.lanes(index)->stride, is_store});
  tile_rows_ = std::min(tile_rows_, 64 / static_cast<int64_t>(size_of(body.buffers[param].dtype)));
}

// Loads first: what is also written keeps its order. A store by tile is the only one to its buffer.
void CpuPlan::find_tiles() {
  const auto is_small = [](Sym size) { return !size.is_symbolic() && size.concrete() < kTurnedStride; };
  if (has_row_folds_ || has_collisions() || is_flat() || num_passes() == 0 || is_small(body.rows) ||
      is_small(body.columns))
    return;
  for (const ExprGraph::Node& node : body.values.nodes()) {
    if (node.prim != Prim::Input) continue;
    const Source& source = body.sources[node.imm];
    if (source.kind == Source::Kind::Load && source.mask == kNoBodyValue &&
        !body.buffers[source.param].is_written && is_turned(source.index))
      add_tile(source.param, source.index, false);
  }
  for (const BodyStore& store : body.stores) {
    const auto stores = std::count_if(body.stores.begin(), body.stores.end(),
                                      [&](const BodyStore& other) { return other.param == store.param; });
    if (store.each == BodyStore::Each::Element && store.mode == BodyStore::Mode::Plain &&
        store.mask == kNoBodyValue && stores == 1 && !body.buffers[store.param].is_read &&
        is_turned(store.index))
      add_tile(store.param, store.index, true);
  }
}

}  // namespace weft::compiler
