// replace_patterns: puts other ops in place of groups of nodes that compute something known. Both are written as functions
// of tensors: `relu(addmm(x, a, b))` -> `mm_epilogue(a, b, x, …)`.
// Before: a graph of the ops that the patterns are made of; patterns go through decompose, simplify and cse as graphs do.
// After:  values keep their specs and their meaning; their bits are those of the replacement. What a group gives to others
//         is replaced; what it keeps to itself is gone.
// Here:   needs rewrite. Passes that replace, such as fuse_epilogues, hold a list of rules.
#pragma once

#include <functional>

#include "compiler/trace/graph.h"

namespace weft::compiler {

// Called with tensors without data. Functional ops only.
using PatternBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

struct PatternRule {
  std::string name;
  // Sizes with which the pattern is recorded, for each of its parameters; distinct where they may differ. What a graph has
  // there may be anything.
  std::vector<std::vector<int64_t>> examples;
  PatternBody pattern;
  // Gets what stands for the parameters. Nothing where the rule does not hold for them: for their sizes, dtype or device.
  PatternBody replacement;
};

namespace detail {

template <class F, class R, class... Args>
constexpr size_t arity_of(R (F::*)(Args...) const) {
  return sizeof...(Args);
}
template <class F, size_t... I>
std::vector<Tensor> call_with(const F& f, std::span<const Tensor> tensors, std::index_sequence<I...>) {
  auto result = f(tensors[I]...);
  if constexpr (std::is_same_v<decltype(result), Tensor>)
    return result.defined() ? std::vector<Tensor>{result} : std::vector<Tensor>{};
  else return result;
}
template <class F>
PatternBody pattern_body(F f) {
  return [f](std::span<const Tensor> tensors) {
    return call_with(f, tensors, std::make_index_sequence<arity_of(&F::operator())>());
  };
}

}  // namespace detail

// Functions of as many tensors as there are examples, that give a tensor or a vector of them.
template <class Pattern, class Replacement>
PatternRule pattern_rule(std::string name, std::vector<std::vector<int64_t>> examples, Pattern pattern,
                         Replacement replacement) {
  return {std::move(name), std::move(examples), detail::pattern_body(std::move(pattern)),
          detail::pattern_body(std::move(replacement))};
}

// A rule whose pattern has become a graph.
class CompiledRule {
 public:
  explicit CompiledRule(PatternRule rule);
  const PatternRule& rule() const { return rule_; }
  const Graph& pattern() const { return pattern_; }

 private:
  PatternRule rule_;
  Graph pattern_;
};

// Groups do not overlap: the last nodes of the graph choose first, and the rules in their order.
Graph replace_patterns(const Graph& graph, std::span<const CompiledRule> rules);

}  // namespace weft::compiler
