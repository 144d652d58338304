// What walking arguments needs beside templates: hashes and names.
#include "compiler/trace/flatten.h"

#include <xxhash.h>

namespace weft::compiler::detail {

uint64_t hash_of_text(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

void NameLeaf::enter(std::string_view label) {
  lengths_.push_back(path_.size());
  if (!path_.empty()) path_ += '.';
  path_ += label;
}
void NameLeaf::leave() {
  path_.resize(lengths_.back());
  lengths_.pop_back();
}
void NameLeaf::count(bool is_of_kind) {
  if (!is_of_kind) return;
  if (!found_ && left_ == 0) name_ = path_, found_ = true;
  --left_;
}

}  // namespace weft::compiler::detail
