// Where the disk cache lies and how large it is, by the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "compiler/codegen/disk_cache.h"

namespace weft::compiler {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value != nullptr) ::setenv(name, value, 1);
    else ::unsetenv(name);
  }
  ~Variable() {
    if (old_) ::setenv(name_, old_->c_str(), 1);
    else ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(DiskCacheOptions, FollowTheEnvironment) {
  const Variable home("HOME", "/home/me");
  {
    const Variable own("WEFT_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", nullptr),
        size("WEFT_CACHE_SIZE", nullptr);
    EXPECT_EQ(DiskCacheOptions::of_environment().directory, "/home/me/.cache/weft");
    EXPECT_EQ(DiskCacheOptions::of_environment().max_bytes, uint64_t{1} << 30);
  }
  {
    const Variable own("WEFT_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", "/var/x"),
        size("WEFT_CACHE_SIZE", "512M");
    EXPECT_EQ(DiskCacheOptions::of_environment().directory, "/var/x/weft");
    EXPECT_EQ(DiskCacheOptions::of_environment().max_bytes, uint64_t{512} << 20);
  }
  {
    const Variable own("WEFT_CACHE_DIR", "/var/own"), xdg("XDG_CACHE_HOME", "relative"),
        size("WEFT_CACHE_SIZE", "0");
    EXPECT_EQ(DiskCacheOptions::of_environment().directory, "/var/own");
    EXPECT_EQ(DiskCacheOptions::of_environment().max_bytes, 0u);
  }
  {
    const Variable own("WEFT_CACHE_DIR", ""), xdg("XDG_CACHE_HOME", "relative"),
        size("WEFT_CACHE_SIZE", "much");
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(DiskCacheOptions::of_environment().directory, "/home/me/.cache/weft");
    EXPECT_EQ(DiskCacheOptions::of_environment().max_bytes, uint64_t{1} << 30);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("WEFT_CACHE_SIZE=much"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::compiler
