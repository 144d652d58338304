// AliasGuard: whether the tensors of a call share memory as those of the traced call did, where one of them is written.
// Needs guard_facts. A part of GuardBlock.
#pragma once

#include "compiler/trace/guard_facts.h"

namespace weft::compiler {

// Those pairs of used tensors of a call that share memory while one of them is written, or that are one object while its
// gradient is written; each with its distance, in ascending order.
std::vector<Overlap> find_overlaps(const GuardFacts& facts, GuardedTensors tensors);

class AliasGuard {
 public:
  explicit AliasGuard(const GuardFacts& facts);

  // Time: nothing if nothing is written; else a few ns per tensor, and a sort where tensors share storage.
  bool check(const GuardFacts& facts, GuardedTensors tensors) const;

 private:
  struct Part {
    uint32_t leaf;
    bool is_written;
  };
  struct Range {
    const char *begin, *end;
    bool is_written;
  };
  // False only if no pair that counts can lie on the same memory.
  bool may_overlap(GuardedTensors tensors) const;
  bool may_overlap_each_other(GuardedTensors tensors) const;

  std::vector<Part> parts_;      // the used leaves; empty where nothing is written
  std::vector<Range> captured_;  // storages of captured tensors by address, joined where they meet
  bool writes_argument_ = false;
};

}  // namespace weft::compiler
