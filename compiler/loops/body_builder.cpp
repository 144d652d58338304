// Building the body of a kernel from values of a graph.
// Place: with lowering.cpp the out-of-line half of compiler/loops/body_builder.h.
#include "compiler/loops/body_builder.h"

#include <algorithm>

#include "tensor/ops/pointwise_rule.h"

namespace weft::compiler {
namespace {

// The indices of the element that is number `linear` in row-major order.
Indices delinearize(Sym linear, std::span<const Sym> sizes) {
  Indices at(sizes.size(), Sym::from_int(0));
  size_t outermost = 0;
  while (outermost < sizes.size() && is_one(sizes[outermost])) ++outermost;
  for (size_t d = sizes.size(); d-- > outermost;) {
    if (is_one(sizes[d])) continue;
    // Of nothing there is no element: the loop does not run, but its index must not become a fixed place.
    const bool is_empty = !sizes[d].is_symbolic() && sizes[d].concrete() == 0;
    if (d == outermost || is_empty) {
      at[d] = linear;
      if (is_empty) continue;
      break;
    }
    at[d] = linear % sizes[d];
    linear = linear / sizes[d];
  }
  return at;
}

// What a unit of the group is once it is in the body.
struct Member {
  Indices at;  // of its element at this place of the loops
  Expr value;
  BodyStore::Each each = BodyStore::Each::Element;
};

class BodyBuilder final : public LoopReader {
 public:
  BodyBuilder(Lowering& lowering, const GroupLoops& loops) : lowering_(lowering), loops_(loops) {
    body().expressions = lowering.expressions;
    body().batches = loops.batches;
    body().rows = loops.rows;
    body().columns = loops.columns;
    body().batch = lowering.symbol(Lowering::kBatch, loops.batches);
    body().row = lowering.symbol(Lowering::kRow, loops.rows);
    body().column = lowering.symbol(Lowering::kColumn, loops.columns);
  }

  BuiltBody build(std::span<const uint32_t> units, const std::vector<bool>& stored) {
    for (const uint32_t unit : units) members_.emplace(unit, std::nullopt);
    for (const uint32_t unit : units) {
      const Unit& u = lowering_.units[unit];
      if (u.is_fold) add_fold(unit, u);
      else add_pointwise(unit, u);
    }
    for (const uint32_t unit : units) {
      if (!stored[unit]) continue;
      const Unit& u = lowering_.units[unit];
      const Member& member = *members_.at(unit);
      BodyStore store;
      store.param = param_of(u.value, false);
      store.index = offset_of(*lowering_.layout_of(u.value), {member.at.data(), member.at.size()});
      store.value = member.value.id;
      store.each = member.each;
      body().stores.push_back(store);
    }
    check_levels();
    return std::move(built_);
  }

  // ---- LoopReader: what element rules ask

  ExprGraph& graph() override { return body().values; }
  Expr load(size_t operand, std::span<const Sym> place) override {
    return eval(operand_value(operand), place);
  }
  Expr load_where(const Expr& condition, size_t operand, std::span<const Sym> place) override {
    const BodyValue outer = mask_;
    const Expr both = outer == kNoBodyValue ? condition : Expr(&graph(), outer) & condition;
    mask_ = both.id;
    const Expr value = eval(operand_value(operand), place);
    mask_ = outer;
    return value;
  }
  Expr place(Sym index) override {
    if (!index.is_symbolic()) return graph().integer(index.concrete(), DType::Int64);
    Source source;
    source.kind = Source::Kind::Place;
    source.index = index;
    return add_source(source, DType::Int64);
  }
  Sym index(const Expr& given, Sym size) override {
    const Expr value = at_level_of_mask(given);
    for (const Indirect& known : body().indirects) {
      const BodyValue mask = body().checks[known.check].mask;
      if (known.value == value.id && is_identical(known.size, size) &&
          (mask == kNoBodyValue || mask == mask_))
        return known.symbol;
    }
    const Interval range = lowering_.syms().range(size);
    const int64_t most = range.max == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, range.max - 1);
    Indirect indirect;
    indirect.symbol = lowering_.syms().add_symbol({.name = "j", .hint = 0, .min = 0, .max = most});
    if (size.is_symbolic()) lowering_.syms().assume(SymCompare::Lt, indirect.symbol, size);
    indirect.value = value.id;
    indirect.size = size;
    indirect.check = static_cast<uint32_t>(body().checks.size());
    const Node& node = lowering_.graph.nodes[node_];
    body().checks.push_back({node.op->name(), node.where, mask_});
    body().indirects.push_back(indirect);
    return indirect.symbol;
  }
  Expr number(const Scalar& number, DType dtype) override {
    if (!number.is_traced() && !number.is_symbolic())
      return is_floating(dtype) ? graph().constant(number.to_double(), dtype)
                                : graph().integer(number.to_int(), dtype);
    if (number.is_traced()) check_items(number.trace_id());
    Source source;
    source.kind = Source::Kind::Number;
    source.param = number_param(number, dtype);
    return add_source(source, dtype);
  }
  Expr random(const Scalar& seed, const Scalar& offset, Sym index, bool wide) override {
    Source source;
    source.kind = Source::Kind::Random;
    source.index = index;
    const auto is_pair = [&](size_t i) {
      return is_same_number(built_.numbers[i], seed) && is_same_number(built_.numbers[i + 1], offset) &&
             body().numbers[i].dtype == DType::Int64 && body().numbers[i + 1].dtype == DType::Int64;
    };
    size_t at = 0;
    while (at + 1 < built_.numbers.size() && !is_pair(at)) ++at;
    if (at + 1 >= built_.numbers.size()) {
      at = built_.numbers.size();
      for (const Scalar& each : {seed, offset}) {
        built_.numbers.push_back(each);
        body().numbers.push_back({DType::Int64});
      }
    }
    source.param = static_cast<uint32_t>(at);
    return add_source(source, wide ? DType::Int64 : DType::Int32);
  }

 private:
  LoopBody& body() { return built_.body; }
  // An index that is the same throughout a line, but counts in a part of it alone, becomes one for each element.
  Expr at_level_of_mask(const Expr& index) {
    if (mask_ == kNoBodyValue) return index;
    const LoopLevels levels = levels_of(body());
    if (!levels.values[mask_].uses_column || levels.values[index.id].uses_column) return index;
    return where(Expr(&graph(), mask_), index, graph().integer(0, index.dtype()));
  }
  [[noreturn]] void refuse(std::string reason) { throw Refused{std::move(reason)}; }

  // A number that is read from memory is known before the kernel runs.
  void check_items(ScalarId id) {
    const ScalarExpr& expr = lowering_.expressions->scalars[id];
    if (expr.kind == ScalarExpr::Kind::Binary) {
      check_items(expr.a);
      check_items(expr.b);
    }
    if (expr.kind != ScalarExpr::Kind::Item) return;
    const uint32_t unit = lowering_.unit_of[lowering_.root_of(lowering_.graph.items[expr.index])];
    if (unit != kNoUnit && members_.contains(unit)) refuse("it reads as a number what the other computes");
  }

  // ---- Units

  void add_fold(uint32_t unit, const Unit& u) {
    using Role = Unit::Role;
    const bool is_natural = is_same_size(lowering_, u.batches, loops_.batches) &&
                            is_same_size(lowering_, u.rows, loops_.rows) &&
                            is_same_size(lowering_, u.columns, loops_.columns);
    const bool is_of_rows = !is_natural && u.axis == BodyFold::Axis::Columns && is_one(u.batches) &&
                            is_one(u.rows) && is_one(loops_.batches) &&
                            is_same_size(lowering_, u.columns, loops_.rows);
    if (!is_natural && !is_of_rows) refuse("it folds over loops of other sizes");
    const Sizes& sizes = lowering_.values[u.source].sizes;
    Indices at(sizes.size(), Sym::from_int(0));
    const auto place_role = [&](Role role, Sym linear) {
      Sizes of_role;
      SmallVector<size_t, kInlineRank> dims;
      for (size_t d = 0; d < sizes.size(); ++d)
        if (u.roles[d] == role) of_role.push_back(sizes[d]), dims.push_back(d);
      const Indices own = delinearize(linear, {of_role.data(), of_role.size()});
      for (size_t k = 0; k < dims.size(); ++k) at[dims[k]] = own[k];
    };
    place_role(Role::Batch, body().batch);
    place_role(Role::Row, body().row);
    place_role(Role::Column, is_of_rows ? body().row : body().column);

    Expr element = eval(u.source, {at.data(), at.size()});
    if (u.via) element = cast(element, *u.via);
    element = cast(element, u.compute);
    Member member;
    const bool is_along_columns = !is_of_rows && u.axis == BodyFold::Axis::Columns;
    if (std::optional<Expr> sum =
            u.fold == cpu::Fold::Sum && is_along_columns ? sum_of_one(element) : std::nullopt) {
      member.value = cast(*sum, lowering_.values[u.value].dtype);
    } else {
      BodyFold fold;
      fold.fold = u.fold;
      fold.axis = is_of_rows ? BodyFold::Axis::RowValues : u.axis;
      fold.value = element.id;
      Source source;
      source.kind = Source::Kind::Fold;
      source.param = static_cast<uint32_t>(body().folds.size());
      body().folds.push_back(fold);
      member.value = cast(add_source(source, u.compute), lowering_.values[u.value].dtype);
    }
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (!u.folded[d]) member.at.push_back(at[d]);
      else if (u.keeps_dims) member.at.push_back(Sym::from_int(0));
    }
    for (size_t k = 0; k < u.num_trailing_ones; ++k) member.at.push_back(Sym::from_int(0));
    member.each = is_of_rows                          ? BodyStore::Each::Batch
                  : u.axis == BodyFold::Axis::Columns ? BodyStore::Each::Row
                                                      : BodyStore::Each::Column;
    members_.at(unit) = std::move(member);
  }

  // The sum along the columns of what is 0 but in the column that a computed index names: that one value, to which the zeros
  // add nothing but their sign. The gradient of a gather meets sums so.
  std::optional<Expr> sum_of_one(const Expr& element) {
    const auto node = [&](BodyValue v) -> const ExprGraph::Node& { return graph().nodes()[v]; };
    std::vector<DType> casts;
    BodyValue at = element.id;
    for (; node(at).prim == Prim::Cast; at = node(at).args[0]) casts.push_back(node(at).dtype);
    if (node(at).prim != Prim::Where || node(node(at).args[0]).prim != Prim::Eq) return std::nullopt;
    const ExprGraph::Node condition = node(node(at).args[0]), zero = node(node(at).args[2]);
    if (zero.prim != Prim::Constant || zero.imm != 0) return std::nullopt;
    const auto place_of = [&](BodyValue v) -> std::optional<Sym> {
      if (node(v).prim != Prim::Input) return std::nullopt;
      const Source& source = body().sources[node(v).imm];
      return source.kind == Source::Kind::Place ? std::optional(source.index) : std::nullopt;
    };
    const LoopLevels levels = levels_of(body());
    const auto names_column = [&](BodyValue column, BodyValue index) {
      const std::optional<Sym> own = place_of(column), named = place_of(index);
      if (!own || !named || !is_identical(*own, body().column)) return false;
      for (const Indirect& indirect : body().indirects)
        if (is_identical(*named, indirect.symbol))
          return is_identical(indirect.size, body().columns) && !levels.values[indirect.value].uses_column;
      return false;
    };
    const BodyValue value = node(at).args[1];
    if (levels.values[value].uses_column || (!names_column(condition.args[0], condition.args[1]) &&
                                             !names_column(condition.args[1], condition.args[0])))
      return std::nullopt;
    Expr sum(&graph(), value);
    for (size_t i = casts.size(); i-- > 0;) sum = cast(sum, casts[i]);
    return sum + 0;
  }

  void add_pointwise(uint32_t unit, const Unit& u) {
    const Sizes& sizes = lowering_.values[u.value].sizes;
    const Sym count = product_of({sizes.data(), sizes.size()});
    const auto has = [&](Sym size) { return is_same_size(lowering_, count, size); };
    using Each = BodyStore::Each;
    SmallVector<Each, 4> places;
    const Sym all_rows = loops_.batches * loops_.rows;
    const bool is_shaped = loops_.by_dimension || !loops_.order.empty();
    if (is_shaped || has(all_rows * loops_.columns)) places.push_back(Each::Element);
    if (has(all_rows) && !is_one(loops_.columns)) places.push_back(Each::Row);
    if (is_one(loops_.batches) && !is_one(loops_.rows)) {
      if (has(loops_.columns)) places.push_back(Each::Column);
      if (is_one(count)) places.push_back(Each::Batch);
    }
    std::string reason = "its elements are not those of the loops";
    for (const Each each : places) {
      Member member;
      member.each = each;
      if (!place_elements(each, sizes, member.at)) continue;
      const size_t num_indirects = body().indirects.size();
      try {
        member.value = compute(u.node, {member.at.data(), member.at.size()});
        members_.at(unit) = std::move(member);
        return;
      } catch (const Refused& refused) {
        reason = refused.reason;
        body().indirects.resize(num_indirects);
        body().checks.resize(num_indirects);
        memo_.clear();
      }
    }
    refuse(std::move(reason));
  }

  // Which element of a tensor of these sizes belongs to the loops' place.
  bool place_elements(BodyStore::Each each, const Sizes& sizes, Indices& at) {
    using Each = BodyStore::Each;
    const std::span<const Sym> span(sizes.data(), sizes.size());
    if (loops_.by_dimension || !loops_.order.empty()) {
      if (each != Each::Element || sizes.size() != loops_.sizes.size()) return false;
      for (size_t d = 0; d < sizes.size(); ++d)
        if (!is_same_size(lowering_, sizes[d], loops_.sizes[d])) return false;
      at = Indices(sizes.size(), Sym::from_int(0));
      if (loops_.by_dimension) {
        for (size_t d = 0; d < sizes.size(); ++d)
          at[d] = lowering_.symbol(Lowering::kDimension + static_cast<uint32_t>(d), sizes[d]);
        return true;
      }
      const size_t num_rows = sizes.size() - loops_.num_columns;
      for (const bool columns : {false, true}) {
        Sizes part;
        const size_t begin = columns ? num_rows : 0, end = columns ? sizes.size() : num_rows;
        for (size_t k = begin; k < end; ++k) part.push_back(sizes[loops_.order[k]]);
        const Indices own = delinearize(columns ? body().column : body().row, {part.data(), part.size()});
        for (size_t k = begin; k < end; ++k) at[loops_.order[k]] = own[k - begin];
      }
      return true;
    }
    const Sym row = body().batch * loops_.rows + body().row;
    switch (each) {
      case Each::Element: at = delinearize(row * loops_.columns + body().column, span); break;
      case Each::Row: at = delinearize(row, span); break;
      case Each::Column: at = delinearize(body().column, span); break;
      case Each::Batch: at = Indices(sizes.size(), Sym::from_int(0)); break;
    }
    return true;
  }

  // ---- Values

  ValueId operand_value(size_t operand) const { return lowering_.graph.nodes[node_].operands[operand].value; }

  struct Key {
    ValueId value;
    BodyValue mask;
    Indices at;
    friend bool operator==(const Key& a, const Key& b) {
      return a.value == b.value && a.mask == b.mask && a.at.size() == b.at.size() &&
             std::equal(a.at.begin(), a.at.end(), b.at.begin(), is_identical);
    }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      uint64_t hash = key.value * 0x9E3779B97F4A7C15u + key.mask;
      for (const Sym a : key.at) hash = (hash ^ key_of(a)) * 0xD6E8FEB86659FD93u, hash ^= hash >> 31;
      return hash;
    }
  };

  Expr eval(ValueId value, std::span<const Sym> at) {
    if (const uint32_t unit = lowering_.unit_of[value]; unit != kNoUnit) {
      const auto found = members_.find(unit);
      if (found != members_.end()) return from_member(unit, found->second, at);
      if (!lowering_.units[unit].is_recomputed) return from_memory(value, at);
    }
    if (lowering_.in_memory[value]) return from_memory(value, at);
    Key key{value, mask_, Indices(at.begin(), at.end())};
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    const Expr result = compute(lowering_.values[value].node, at);
    memo_.emplace(std::move(key), result);
    return result;
  }

  Expr from_member(uint32_t unit, const std::optional<Member>& member, std::span<const Sym> at) {
    WEFT_ASSERT(member, "a unit is read before it is there");
    if (std::equal(at.begin(), at.end(), member->at.begin(), member->at.end(), is_identical))
      return member->value;
    const Unit& u = lowering_.units[unit];
    // Little work is done again; the rest would be a read of what other iterations compute.
    constexpr double kCheap = 4;
    if (u.is_fold || (!u.is_recomputed && lowering_.own_cost(u.node) > kCheap))
      refuse("it reads elements that other iterations of the loops compute");
    return compute(u.node, at);
  }

  Expr from_memory(ValueId value, std::span<const Sym> at) {
    const Layout<Sym>* layout = lowering_.layout_of(value);
    WEFT_ASSERT(layout != nullptr, "a value without memory is read from it");
    return load_at(value, lowering_.values[value].dtype, offset_of(*layout, at));
  }
  Expr load_at(ValueId value, DType dtype, Sym index) {
    Source source;
    source.kind = Source::Kind::Load;
    source.param = param_of(value, true);
    source.index = index;
    source.mask = mask_;
    return add_source(source, dtype);
  }
  Sym offset_of(const Layout<Sym>& layout, std::span<const Sym> at) {
    Sym offset = layout.offset;
    for (size_t d = 0; d < at.size(); ++d) offset = offset + at[d] * layout.strides[d];
    return offset;
  }

  // An element of the node's result.
  Expr compute(NodeId id, std::span<const Sym> at) {
    const Node& node = lowering_.graph.nodes[id];
    if (!lowering_.is_inlinable(id) && node.op->kind != Kind::View)
      refuse("no loop computes " + node.op->name());
    if (node.op->kind == Kind::View) return compute_view(id, node, at);
    const NodeId outer = node_;
    node_ = id;
    const Expr result =
        node.op->pointwise != nullptr ? compute_pointwise(node, at) : compute_element(node, at);
    node_ = outer;
    return result;
  }

  DType result_dtype(const Node& node) const { return lowering_.values[node.first_output].dtype; }

  // A number of any dtype: computed in the compute dtype, as kernels fill.
  Expr typed(const Scalar& value, DType dtype) { return cast(number(value, compute_dtype(dtype)), dtype); }

  Expr compute_pointwise(const Node& node, std::span<const Sym> at) {
    const PointwiseRule& rule = *node.op->pointwise;
    const DType result = result_dtype(node);
    const Sizes& sizes = lowering_.values[node.first_output].sizes;
    const auto operand_at = [&](const Argument& argument) {
      const Sizes& own = lowering_.values[argument.value].sizes;
      Indices place;
      const size_t shift = sizes.size() - own.size();
      for (size_t d = 0; d < own.size(); ++d)
        place.push_back(is_one(own[d]) && !is_one(sizes[d + shift]) ? Sym::from_int(0) : at[d + shift]);
      return eval(argument.value, {place.data(), place.size()});
    };
    if (rule.promote == Promote::Move) {
      const Argument& last = node.operands[node.operands.size() - 1];
      return last.is_value() ? cast(operand_at(last), result) : typed(last.number, result);
    }
    const DType compute = compute_dtype(pointwise_types(*node.op, lowering_.hollow.operands(node)).common);
    SmallVector<Expr, 8> args;
    for (const Argument& argument : node.operands)
      args.push_back(argument.is_value() ? cast(operand_at(argument), compute)
                                         : number(argument.number, compute));
    graph().set_number_dtype(compute);
    if (rule.divisor >= 0 && !is_floating(compute))
      check_divisor(args[static_cast<size_t>(rule.divisor)], sizes, at);
    return cast(rule.expr({args.data(), args.size()}), result);
  }

  // An integer divisor of 0 is an error: an index that is out of range there, in a dimension of one.
  void check_divisor(const Expr& divisor, const Sizes& sizes, std::span<const Sym> at) {
    const ExprGraph::Node& node = graph().node(divisor);
    if (node.prim == Prim::Constant && node.imm != 0) return;
    const Expr zero = graph().integer(0, DType::Int64), one = graph().integer(1, DType::Int64);
    const BodyValue outer = mask_;
    // What divides no element is not looked at: a check for each element is made by none.
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (statically_known(SymCompare::Gt, sizes[d], Sym::from_int(0)) || !at[d].is_symbolic()) continue;
      const Expr is_element = place(at[d]) >= zero;
      mask_ = (mask_ == kNoBodyValue ? is_element : Expr(&graph(), mask_) & is_element).id;
    }
    const Sym symbol =
        index(where(divisor == graph().integer(0, divisor.dtype()), one, zero), Sym::from_int(1));
    mask_ = outer;
    for (const Indirect& indirect : body().indirects)
      if (is_identical(indirect.symbol, symbol)) body().checks[indirect.check].is_of_divisor = true;
  }

  Expr compute_element(const Node& node, std::span<const Sym> at) {
    const std::vector<Operand> operands = [&] {
      const std::span<const Operand> hollow = lowering_.hollow.operands(node);
      return std::vector<Operand>(hollow.begin(), hollow.end());
    }();
    const Call call{*node.op, operands, node.attrs, node.where};
    return node.op->element(*this, call, lowering_.values[node.first_output].spec(), at);
  }

  Expr compute_view(NodeId id, const Node& node, std::span<const Sym> at) {
    const ValueId value = node.first_output, operand = node.operands[0].value;
    const Value &from = lowering_.values[operand], &to = lowering_.values[value];
    // A view of memory is read where it lies.
    const ValueId root = lowering_.root_of(value);
    const uint32_t unit = lowering_.unit_of[root];
    const bool is_outside = lowering_.in_memory[root] || (unit != kNoUnit && !members_.contains(unit) &&
                                                          !lowering_.units[unit].is_recomputed);
    if (is_outside && root < lowering_.graph.values.size()) {
      if (const Layout<Sym>* layout = lowering_.layout_of(value)) {
        const Expr read = load_at(root, lowering_.values[root].dtype, offset_of(*layout, at));
        return recast(read, to.dtype);
      }
    }
    if (!lowering_.is_inlinable(id)) refuse("a view of memory that this kernel writes");
    const Sym linear = offset_of(lowering_.view_of_dense(id), at);
    const Indices place = delinearize(linear, {from.sizes.data(), from.sizes.size()});
    return recast(eval(operand, {place.data(), place.size()}), to.dtype);
  }
  Expr recast(const Expr& x, DType dtype) { return x.dtype() == dtype ? x : bitcast(x, dtype); }

  // ---- Params and sources

  Expr add_source(const Source& source, DType dtype) {
    const auto same = std::find(body().sources.begin(), body().sources.end(), source);
    const auto slot = static_cast<int>(same - body().sources.begin());
    if (same == body().sources.end()) body().sources.push_back(source);
    return graph().input(slot, dtype);
  }
  uint32_t param_of(ValueId value, bool reads) {
    const auto same = std::find(built_.buffers.begin(), built_.buffers.end(), value);
    const auto param = static_cast<uint32_t>(same - built_.buffers.begin());
    if (same == built_.buffers.end()) {
      built_.buffers.push_back(value);
      body().buffers.push_back({lowering_.values[value].dtype});
    }
    (reads ? body().buffers[param].is_read : body().buffers[param].is_written) = true;
    return param;
  }
  static bool is_same_number(const Scalar& a, const Scalar& b) {
    if (a.is_traced() || b.is_traced())
      return a.is_traced() && b.is_traced() && a.trace_id() == b.trace_id() && a.category() == b.category();
    if (a.is_symbolic() || b.is_symbolic())
      return a.is_symbolic() && b.is_symbolic() && is_identical(a.sym(), b.sym());
    return a.category() == b.category() &&
           (a.is_floating() ? a.to_double() == b.to_double() : a.to_int() == b.to_int());
  }
  uint32_t number_param(const Scalar& number, DType dtype) {
    for (size_t i = 0; i < built_.numbers.size(); ++i)
      if (body().numbers[i].dtype == dtype && is_same_number(built_.numbers[i], number))
        return static_cast<uint32_t>(i);
    built_.numbers.push_back(number);
    body().numbers.push_back({dtype});
    return static_cast<uint32_t>(built_.numbers.size() - 1);
  }

  // ---- What no loop nest can do

  void check_levels() {
    if (loops_.by_dimension) return;
    using Each = BodyStore::Each;
    const LoopLevels levels = levels_of(body());
    for (const BodyFold& fold : body().folds) {
      const ValueLevel& level = levels.values[fold.value];
      if (level.after_rows) refuse("a fold of what is known after the rows");
      if (fold.axis == BodyFold::Axis::RowValues && level.uses_column) refuse("rows are folded by columns");
    }
    for (const BodyStore& store : body().stores) {
      const ValueLevel& level = levels.values[store.value];
      const bool is_within = store.each == Each::Element || store.each == Each::Row;
      if (is_within && level.after_rows) refuse("a row needs what is known after all rows");
      if (!is_within && level.uses_row) refuse("a result after the rows needs one of them");
      if ((store.each == Each::Row || store.each == Each::Batch) && level.uses_column)
        refuse("a result of a row needs a column");
    }
  }

  Lowering& lowering_;
  const GroupLoops& loops_;
  BuiltBody built_;
  std::unordered_map<uint32_t, std::optional<Member>> members_;  // by unit
  std::unordered_map<Key, Expr, KeyHash> memo_;
  NodeId node_ = kNoNode;  // whose rule runs
  BodyValue mask_ = kNoBodyValue;
};

// x in x · 1, which is x in every dtype; many ops have a factor that is 1 unless the user gives it.
BodyValue factor_of_one(const std::vector<ExprGraph::Node>& nodes, const ExprGraph::Node& node) {
  if (node.prim != Prim::Mul) return kNoBodyValue;
  for (const int one : {0, 1}) {
    const ExprGraph::Node& factor = nodes[node.args[one]];
    if (factor.prim != Prim::Constant) continue;
    ExprGraph number;
    if (factor.imm == number.node(number.integer(1, factor.dtype)).imm) return node.args[1 - one];
  }
  return kNoBodyValue;
}

// Keeps what stores and folds need.
void drop_unused(BuiltBody& built) {
  LoopBody& old = built.body;
  const std::vector<ExprGraph::Node>& nodes = old.values.nodes();
  std::vector<bool> needed(nodes.size()), fold_needed(old.folds.size());
  std::vector<BodyValue> open;
  const auto need = [&](BodyValue value) {
    if (value == kNoBodyValue || needed[value]) return;
    needed[value] = true;
    open.push_back(value);
  };
  for (const BodyStore& store : old.stores) need(store.value), need(store.mask);
  // An index that is out of range is an error even where no place depends on it.
  for (const Indirect& indirect : old.indirects) need(indirect.value), need(old.checks[indirect.check].mask);
  while (!open.empty()) {
    const ExprGraph::Node& node = nodes[open.back()];
    open.pop_back();
    for (int i = 0; i < arity_of(node.prim); ++i) need(node.args[i]);
    if (node.prim != Prim::Input) continue;
    const Source& source = old.sources[node.imm];
    need(source.mask);
    if (source.kind == Source::Kind::Fold && !fold_needed[source.param]) {
      fold_needed[source.param] = true;
      need(old.folds[source.param].value);
    }
  }

  BuiltBody now;
  LoopBody& body = now.body;
  body.name = old.name;
  body.expressions = old.expressions;
  body.batches = old.batches, body.rows = old.rows, body.columns = old.columns;
  body.batch = old.batch, body.row = old.row, body.column = old.column;
  body.origins = old.origins;
  std::vector<BodyValue> id_now(nodes.size(), kNoBodyValue);
  std::vector<uint32_t> buffer_now(old.buffers.size(), ~0u), number_now(old.numbers.size(), ~0u),
      fold_now(old.folds.size(), ~0u);
  const auto buffer = [&](uint32_t param) {
    if (buffer_now[param] == ~0u) {
      buffer_now[param] = static_cast<uint32_t>(body.buffers.size());
      body.buffers.push_back({old.buffers[param].dtype});
      now.buffers.push_back(built.buffers[param]);
    }
    return buffer_now[param];
  };
  const auto number = [&](uint32_t param, uint32_t count) {
    if (number_now[param] == ~0u) {
      number_now[param] = static_cast<uint32_t>(body.numbers.size());
      for (uint32_t k = 0; k < count; ++k) {
        body.numbers.push_back(old.numbers[param + k]);
        now.numbers.push_back(built.numbers[param + k]);
      }
    }
    return number_now[param];
  };
  uint32_t folds = 0;
  for (size_t f = 0; f < old.folds.size(); ++f)
    if (fold_needed[f]) fold_now[f] = folds++;
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (!needed[id]) continue;
    const ExprGraph::Node& node = nodes[id];
    Expr made;
    if (node.prim == Prim::Input) {
      Source source = old.sources[node.imm];
      if (source.kind == Source::Kind::Load) {
        source.param = buffer(source.param);
        body.buffers[source.param].is_read = true;
      }
      if (source.kind == Source::Kind::Number) source.param = number(source.param, 1);
      if (source.kind == Source::Kind::Random) source.param = number(source.param, 2);
      if (source.kind == Source::Kind::Fold) source.param = fold_now[source.param];
      if (source.mask != kNoBodyValue) source.mask = id_now[source.mask];
      body.sources.push_back(source);
      made = body.values.input(static_cast<int>(body.sources.size() - 1), node.dtype);
    } else if (const BodyValue same = factor_of_one(nodes, node); same != kNoBodyValue) {
      id_now[id] = id_now[same];
      continue;
    } else if (node.prim == Prim::Lookup) {
      made = body.values.lookup(old.values.tables()[node.imm], Expr(&body.values, id_now[node.args[0]]));
    } else {
      Expr args[3];
      for (int i = 0; i < arity_of(node.prim); ++i) args[i] = Expr(&body.values, id_now[node.args[i]]);
      made =
          body.values.make(node.prim, node.dtype, {args, static_cast<size_t>(arity_of(node.prim))}, node.imm);
    }
    id_now[id] = made.id;
  }
  for (const Indirect& indirect : old.indirects) {
    if (id_now[indirect.value] == kNoBodyValue) continue;
    Indirect kept = indirect;
    kept.value = id_now[indirect.value];
    kept.check = static_cast<uint32_t>(body.checks.size());
    Check check = old.checks[indirect.check];
    if (check.mask != kNoBodyValue) check.mask = id_now[check.mask];
    body.checks.push_back(check);
    body.indirects.push_back(kept);
  }
  for (size_t f = 0; f < old.folds.size(); ++f) {
    if (!fold_needed[f]) continue;
    body.folds.push_back(old.folds[f]);
    body.folds.back().value = id_now[old.folds[f].value];
  }
  for (BodyStore store : old.stores) {
    store.param = buffer(store.param);
    body.buffers[store.param].is_written = true;
    store.value = id_now[store.value];
    if (store.mask != kNoBodyValue) store.mask = id_now[store.mask];
    body.stores.push_back(store);
  }
  built = std::move(now);
}

// The size symbols that a call must bring.
void list_symbols(Lowering& lowering, LoopBody& body) {
  std::vector<bool> used(lowering.syms().symbols().size());
  const auto use = [&](Sym a) {
    if (a.is_symbolic())
      for (const uint32_t symbol : lowering.syms().symbols_of(a)) used[symbol] = true;
  };
  for (const Sym a : {body.batches, body.rows, body.columns}) use(a);
  for (const Source& source : body.sources) use(source.index);
  for (const BodyStore& store : body.stores) use(store.index);
  for (const Indirect& indirect : body.indirects) use(indirect.size);
  const size_t of_graph = lowering.graph.expressions->syms.symbols().size();
  for (uint32_t symbol = 0; symbol < of_graph; ++symbol)
    if (used[symbol]) body.size_symbols.push_back(symbol);
}

}  // namespace

BuiltBody build_body(Lowering& lowering, std::span<const uint32_t> units, const GroupLoops& loops,
                     const std::vector<bool>& stored) {
  BuiltBody built = BodyBuilder(lowering, loops).build(units, stored);
  if (loops.by_dimension) return built;
  drop_unused(built);
  list_symbols(lowering, built.body);
  return built;
}

}  // namespace weft::compiler
