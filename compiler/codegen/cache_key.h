// CacheKey: what an entry of the disk cache depends on, as named parts and one 128-bit hash.
// Needs the standard library; xxHash stays in the source file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::compiler {

// 128 bits of xxh3.
struct ContentHash {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
  // 32 hexadecimal digits.
  std::string to_string() const;
};
ContentHash hash_of_content(std::string_view bytes);

// CacheKey("cpu kernel").add("compiler", version).add("source", text). Lengths are hashed as well, so that no two lists of
// parts run together. No pointers, no paths and no order of a hash map may get into a part.
class CacheKey {
 public:
  // What kind of thing is kept: keys of different kinds never meet.
  explicit CacheKey(std::string_view kind) : kind_(kind) { add("kind", kind); }
  CacheKey& add(std::string_view name, std::string_view text);

  const ContentHash& hash() const { return hash_; }
  // "cpu kernel 3f0c…", with all 32 digits.
  std::string to_string() const { return kind_ + " " + hash_.to_string(); }

  // Names of the parts in which two keys differ; a part that one of them lacks counts too.
  std::vector<std::string> differing_parts(const CacheKey& other) const;
  // How much they have in common: the number of equal parts; between equal numbers, the last part tips the scales, which is
  // what is compiled, while those before it are by what.
  size_t likeness(const CacheKey& other) const;

 private:
  struct Part {
    std::string name;
    ContentHash hash;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::string kind_;
  std::vector<Part> parts_;
  ContentHash hash_;
};

}  // namespace weft::compiler

template <>
struct std::hash<weft::compiler::ContentHash> {
  size_t operator()(const weft::compiler::ContentHash& hash) const noexcept { return hash.low; }
};
