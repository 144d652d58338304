// Levels of values by one walk over the body, and what index expressions depend on.
// Place: the out-of-line half of loop_levels.h.
#include "compiler/loops/loop_levels.h"

#include <algorithm>

#include "compiler/loops/index_expr.h"
#include "tensor/base/error.h"

namespace weft::compiler {
void merge(ValueLevel& level, const ValueLevel& other) {
  level.uses_batch |= other.uses_batch;
  level.uses_row |= other.uses_row;
  level.uses_column |= other.uses_column;
  level.pass = std::max(level.pass, other.pass);
  level.after_rows |= other.after_rows;
}

namespace {

const ValueLevel& at(const LoopBody& body, const std::vector<ValueLevel>& values, BodyValue value) {
  WEFT_ASSERT(value < values.size(), "value ", value, " of '", body.name, "' is needed before it is there");
  return values[value];
}

ValueLevel level_of(const LoopBody& body, const std::vector<ValueLevel>& values, Sym index) {
  const SymTable& table = body.expressions->syms;
  ValueLevel level;
  for (uint32_t symbol : table.symbols_of(index)) {
    const auto is = [&](Sym loop) { return table.as_symbol(loop) == symbol; };
    level.uses_batch |= is(body.batch);
    level.uses_row |= is(body.row);
    level.uses_column |= is(body.column);
    for (const Indirect& indirect : body.indirects)
      if (is(indirect.symbol)) merge(level, at(body, values, indirect.value));
  }
  return level;
}

class LevelWalk {
 public:
  explicit LevelWalk(const LoopBody& body) : body_(body) {}

  LoopLevels run() {
    const auto& nodes = body_.values.nodes();
    levels_.values.reserve(nodes.size());
    for (const ExprGraph::Node& node : nodes) {
      ValueLevel level;
      if (node.prim == Prim::Input) level = of_source(body_.sources.at(node.imm));
      else
        for (int i = 0; i < arity_of(node.prim); ++i) merge(level, of_value(node.args[i]));
      levels_.values.push_back(level);
    }
    for (const BodyFold& fold : body_.folds) levels_.folds.push_back(place_of(fold));
    for (const BodyStore& store : body_.stores) levels_.stores.push_back(place_of(store));
    summarise();
    return std::move(levels_);
  }

 private:
  ValueLevel of_value(BodyValue value) const { return at(body_, levels_.values, value); }
  ValueLevel of_index(Sym index) const { return level_of(body_, levels_.values, index); }

  ValueLevel of_source(const Source& source) const {
    ValueLevel level;
    switch (source.kind) {
      case Source::Kind::Number: break;
      case Source::Kind::Fold: level = of_result(body_.folds.at(source.param)); break;
      case Source::Kind::Load:
      case Source::Kind::Place:
      case Source::Kind::Random: level = of_index(source.index); break;
    }
    if (source.mask != kNoBodyValue) merge(level, of_value(source.mask));
    return level;
  }

  ValueLevel place_of(const BodyFold& fold) const {
    ValueLevel level = of_value(fold.value);
    (fold.axis == BodyFold::Axis::Columns ? level.uses_column : level.uses_row) = true;
    return level;
  }
  ValueLevel of_result(const BodyFold& fold) const {
    ValueLevel level = of_value(fold.value);
    if (fold.axis == BodyFold::Axis::Columns) {
      level.uses_column = false;
      ++level.pass;
    } else {
      level.uses_row = false;
      level.after_rows = true;
      level.pass = 0;
    }
    return level;
  }

  ValueLevel place_of(const BodyStore& store) const {
    ValueLevel level = of_value(store.value);
    merge(level, of_index(store.index));
    if (store.mask != kNoBodyValue) merge(level, of_value(store.mask));
    level.uses_batch = true;
    level.uses_row = store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Row;
    level.uses_column = store.each == BodyStore::Each::Element || store.each == BodyStore::Each::Column;
    level.after_rows = !level.uses_row;
    if (level.after_rows) level.pass = 0;
    return level;
  }

  void summarise() {
    for (size_t f = 0; f < body_.folds.size(); ++f) {
      if (body_.folds[f].axis != BodyFold::Axis::Columns) levels_.folds_rows = true;
      if (levels_.folds[f].uses_column) count_pass(levels_.folds[f]);
    }
    for (const ValueLevel& level : levels_.stores) {
      levels_.has_after |= level.after_rows;
      if (level.uses_column && !level.after_rows) count_pass(level);
    }
  }
  void count_pass(const ValueLevel& level) {
    levels_.num_passes = std::max(levels_.num_passes, level.pass + 1);
  }

  const LoopBody& body_;
  LoopLevels levels_;
};

}  // namespace

LoopLevels levels_of(const LoopBody& body) { return LevelWalk(body).run(); }

ValueLevel level_of(const LoopBody& body, const LoopLevels& levels, Sym index) {
  return level_of(body, levels.values, index);
}

IndexUse use_of(const LoopBody& body, const LoopLevels& levels, Sym index) {
  const ValueLevel level = level_of(body, levels, index);
  return {level.uses_batch, level.uses_row, level.uses_column};
}
IndexUse use_of(const LoopBody& body, Sym index) { return use_of(body, levels_of(body), index); }

std::optional<Sym> column_stride(const LoopBody& body, const LoopLevels& levels, Sym index) {
  SymTable& table = body.expressions->syms;
  if (!use_of(body, levels, index).column) return Sym::from_int(0);
  for (uint32_t symbol : table.symbols_of(index))
    for (const Indirect& indirect : body.indirects)
      if (table.as_symbol(indirect.symbol) == symbol && levels.values.at(indirect.value).uses_column)
        return std::nullopt;
  const Sym next = table.binary(SymOp::Add, body.column, Sym::from_int(1));
  const Sym stride = table.binary(SymOp::Sub, substitute(table, index, body.column, next), index);
  return use_of(body, levels, stride).column ? std::nullopt : std::optional(stride);
}
std::optional<Sym> column_stride(const LoopBody& body, Sym index) {
  return column_stride(body, levels_of(body), index);
}

}  // namespace weft::compiler
