// Writing loop bodies by hand: buffers, sources, folds and stores with few words, values with the operators of Expr.
// For tests of loops and code generators.
#pragma once

#include "compiler/loops/loop_body.h"
#include "compiler/trace/table_environment.h"

namespace weft::compiler::tests {

struct BodyBuilder {
  using Axis = BodyFold::Axis;
  using Each = BodyStore::Each;

  BodyBuilder() { body.expressions = std::make_shared<Expressions>(); }
  BodyBuilder(int64_t batches, int64_t rows, int64_t columns) : BodyBuilder() {
    loops(Sym::from_int(batches), Sym::from_int(rows), Sym::from_int(columns));
  }
  BodyBuilder(const BodyBuilder&) = delete;
  BodyBuilder& operator=(const BodyBuilder&) = delete;

  // Arithmetic on indices and sizes works while it lives.
  TableEnvironment arithmetic() { return TableEnvironment(*body.expressions); }
  SymTable& table() { return body.expressions->syms; }

  Sym size(const std::string& name, int64_t hint, int64_t min = 2) {
    const Sym symbol = table().add_symbol({name, hint, min});
    body.size_symbols.push_back(*table().as_symbol(symbol));
    return symbol;
  }
  void loops(Sym batches, Sym rows, Sym columns) {
    body.batches = batches;
    body.rows = rows;
    body.columns = columns;
    b = body.batch = loop("b", batches);
    r = body.row = loop("r", rows);
    c = body.column = loop("c", columns);
  }

  uint32_t buffer(DType dtype, bool is_read, bool is_written) {
    body.buffers.push_back({dtype, is_read, is_written});
    return static_cast<uint32_t>(body.buffers.size() - 1);
  }
  uint32_t in(DType dtype) { return buffer(dtype, true, false); }
  uint32_t out(DType dtype) { return buffer(dtype, false, true); }

  Expr source(Source source, DType dtype) {
    body.sources.push_back(source);
    return body.values.input(static_cast<int>(body.sources.size() - 1), dtype);
  }
  Expr load(uint32_t buffer, Sym index) {
    return source({Source::Kind::Load, buffer, index}, body.buffers[buffer].dtype);
  }
  Expr load(uint32_t buffer, Sym index, const Expr& mask) {
    return source({Source::Kind::Load, buffer, index, mask.id}, body.buffers[buffer].dtype);
  }
  Expr place(Sym index, DType dtype = DType::Int64) { return source({Source::Kind::Place, 0, index}, dtype); }
  Expr number(DType dtype) {
    body.numbers.push_back({dtype});
    return source({Source::Kind::Number, static_cast<uint32_t>(body.numbers.size() - 1), Sym()}, dtype);
  }
  // Two numbers, seed and first counter.
  Expr random(Sym index, bool is_wide = false) {
    const auto seed = static_cast<uint32_t>(body.numbers.size());
    body.numbers.resize(seed + 2, {DType::Int64});
    return source({Source::Kind::Random, seed, index}, is_wide ? DType::Int64 : DType::Int32);
  }
  Expr fold(cpu::Fold fold, Axis axis, const Expr& value) {
    body.folds.push_back({fold, axis, value.id});
    return source({Source::Kind::Fold, static_cast<uint32_t>(body.folds.size() - 1), Sym()}, value.dtype());
  }
  Expr sum(Axis axis, const Expr& value) { return fold(cpu::Fold::Sum, axis, value); }
  // A symbol for the value as an index of `size` elements.
  Sym indirect(const Expr& value, Sym size, const std::string& op = "index") {
    const Sym symbol = table().add_symbol({"i" + std::to_string(body.indirects.size()), 0, 0});
    body.checks.push_back({op, {}, kNoBodyValue});
    body.indirects.push_back({symbol, value.id, size, static_cast<uint32_t>(body.checks.size() - 1)});
    return symbol;
  }
  BodyStore& store(uint32_t buffer, Sym index, const Expr& value, Each each = Each::Element) {
    BodyStore made;
    made.param = buffer;
    made.index = index;
    made.value = value.id;
    made.each = each;
    body.stores.push_back(made);
    return body.stores.back();
  }

  LoopBody body;
  Sym b, r, c;

 private:
  Sym loop(const char* name, Sym size) {
    if (!size.is_symbolic() && size.concrete() == 1) return Sym::from_int(0);
    const int64_t last = size.is_symbolic() ? INT64_MAX : size.concrete() - 1;
    const Sym symbol = table().add_symbol({name, 0, 0, last});
    if (size.is_symbolic()) table().assume(SymCompare::Lt, symbol, size);
    return symbol;
  }
};

}  // namespace weft::compiler::tests
