// Random numbers as expressions: what tensor/cpu/random.isa.cpp makes of an element's words, with the same bits.
// Needs loop_rule. The element rules of tensor/ops/random.cpp are made of these.
#pragma once

#include "tensor/loop_rule.h"

namespace weft::draw {

// The words of one element, from the stream of its op (the last two attributes).
struct Words {
  Words(LoopReader& reader, const Call& call, const OutputSpec& result, std::span<const Sym> place);
  Expr own32() const { return loop.random(seed, offset, index, false); }
  Expr own64() const { return loop.random(seed, offset, index, true); }

  LoopReader& loop;
  Scalar seed, offset;
  Sym index;
  DType dtype;  // of the result, which the functions below give
};

// Uniform on [low, high); of this mean and deviation; integers of [low, high).
Expr uniform(const Words& words, double low, double high);
Expr normal(const Words& words, double mean, double deviation);
Expr integer(const Words& words, int64_t low, int64_t high);
// `hit`, which has the compute dtype, with chance p, else 0.
Expr with_chance(const Words& words, double p, const Expr& hit);

}  // namespace weft::draw
