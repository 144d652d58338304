// Hashing by xxh3.
#include "compiler/codegen/cache_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace weft::compiler {

std::string ContentHash::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

ContentHash hash_of_content(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

CacheKey& CacheKey::add(std::string_view name, std::string_view text) {
  Part part{std::string(name), hash_of_content(text)};
  // The hash so far, then this part: every field but the name has a fixed length, and the name's stands before it.
  hash_ = hash_of_content(fmt::format("{}{:016x}{}{:016x}{}", hash_.to_string(), part.name.size(), part.name,
                                      text.size(), part.hash.to_string()));
  parts_.push_back(std::move(part));
  return *this;
}

std::vector<std::string> CacheKey::differing_parts(const CacheKey& other) const {
  std::vector<std::string> names;
  const auto collect = [&names](const CacheKey& from, const CacheKey& in) {
    for (const Part& part : from.parts_) {
      if (std::find(in.parts_.begin(), in.parts_.end(), part) != in.parts_.end()) continue;
      if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
    }
  };
  collect(*this, other);
  collect(other, *this);
  return names;
}

size_t CacheKey::likeness(const CacheKey& other) const {
  const auto equal = std::count_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return std::find(other.parts_.begin(), other.parts_.end(), part) != other.parts_.end();
  });
  return 2 * static_cast<size_t>(equal) + (parts_.back() == other.parts_.back());
}

}  // namespace weft::compiler
