// Keys of the disk cache: what is different must hash differently, and a miss must be able to say what is different.
#include "compiler/codegen/cache_key.h"

#include <gtest/gtest.h>

namespace weft::compiler {
namespace {

TEST(CacheKey, PartsDoNotRunTogether) {
  const auto hash = [](const std::vector<std::pair<std::string, std::string>>& parts) {
    CacheKey key("k");
    for (const auto& [name, text] : parts) key.add(name, text);
    return key.hash();
  };
  EXPECT_EQ(hash({{"a", "xy"}}), hash({{"a", "xy"}}));
  EXPECT_NE(hash({{"a", "xy"}}), hash({{"ax", "y"}}));
  EXPECT_NE(hash({{"a", "x"}, {"b", "y"}}), hash({{"a", "xb"}, {"", "y"}}));
  EXPECT_NE(hash({{"a", "x"}, {"b", "y"}}), hash({{"b", "y"}, {"a", "x"}}));
  EXPECT_NE(hash({{"a", ""}}), hash({{"a", ""}, {"a", ""}}));
  EXPECT_NE(CacheKey("k").hash(), CacheKey("l").hash());
}

TEST(CacheKey, NamesThePartsThatDiffer) {
  const CacheKey a = CacheKey("k").add("compiler", "12").add("flags", "-O2").add("source", "x");
  const CacheKey b =
      CacheKey("k").add("compiler", "13").add("flags", "-O2").add("source", "y").add("isa", "z");
  EXPECT_EQ(a.differing_parts(b), (std::vector<std::string>{"compiler", "source", "isa"}));
  EXPECT_EQ(a.differing_parts(a), std::vector<std::string>());
}

TEST(CacheKey, IsLikeTheOneOfTheSameSourceByAnotherCompiler) {
  const auto key = [](const char* compiler, const char* source) {
    return CacheKey("k").add("compiler", compiler).add("source", source);
  };
  EXPECT_GT(key("13", "x").likeness(key("12", "x")), key("13", "x").likeness(key("13", "y")));
  EXPECT_GT(key("13", "x").likeness(key("13", "y")), key("13", "x").likeness(key("12", "y")));
}

}  // namespace
}  // namespace weft::compiler
