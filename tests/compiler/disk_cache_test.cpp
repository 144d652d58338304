// The disk cache under what happens to files: other processes, kills, flipped bits, foreign hands, full and read-only disks.
#include "compiler/codegen/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "compiler/codegen/cache_entry.h"
#include "tests/compiler/child_of_test.h"

namespace weft::compiler {
namespace {

namespace fs = std::filesystem;
using weft::testing::child_is_well;
using weft::testing::in_child;
using weft::testing::in_children;
using weft::testing::start_child;

CacheKey key_of(const std::string& text, const std::string& version = "g++ 12.2") {
  return CacheKey("test").add("compiler", version).add("source", text);
}

// Bytes that depend on the number; some 100 to 20,000 of them, zeros included.
std::string bytes_of(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::string bytes(100 + random() % 20000, '\0');
  for (char& each : bytes) each = static_cast<char>(random());
  return bytes;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft_cache_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    directory_ = pattern + "/weft";
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(base_, ignored);
  }

  DiskCacheOptions options(uint64_t max_bytes = uint64_t{1} << 30) const { return {directory_, max_bytes}; }

  std::vector<fs::path> files(const std::string& below = "") const {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(directory_ + below, ignored)) {
      if (entry.is_regular_file() && entry.path().filename() != "lock") found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<fs::path> temporaries() const { return files("/v1/tmp"); }

  // What the constructor and the calls in `body` write on stderr.
  template <class F>
  static std::string stderr_of(F body) {
    ::testing::internal::CaptureStderr();
    body();
    return ::testing::internal::GetCapturedStderr();
  }

  // Keys are not stored to disk, and still serve this process.
  void expect_memory_only(DiskCache& cache) {
    EXPECT_EQ(cache.store(key_of("m"), "bytes"), std::nullopt);
    EXPECT_EQ(cache.load(key_of("m")), "bytes");
    EXPECT_EQ(cache.find(key_of("m"))->path, "");
    EXPECT_EQ(cache.stats().stores, 0u);
    EXPECT_EQ(cache.stats().stores_memory, 1u);
    EXPECT_NE(cache.why_memory_only(), "");
  }

  fs::path base_;
  std::string directory_;
};

// ---- Entries

TEST_F(DiskCacheTest, GivesBackWhatWasStored) {
  DiskCache cache(options());
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  const std::vector<std::string> stored = {"", "x", std::string(1, '\0'), bytes_of(1),
                                           std::string(3 << 20, 'z')};
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto path = cache.store(key_of(std::to_string(i)), stored[i]);
    ASSERT_TRUE(path.has_value());
    struct stat status;
    ASSERT_EQ(::stat(path->c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u);
  }
  for (size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(cache.load(key_of(std::to_string(i))), stored[i]);
  ASSERT_TRUE(cache.store(key_of("0"), "something else").has_value());
  EXPECT_EQ(cache.load(key_of("0")), "something else");
  EXPECT_EQ(cache.stats().hits, stored.size() + 1);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().stores, stored.size() + 1);
  EXPECT_TRUE(temporaries().empty());
  struct stat status;
  ASSERT_EQ(::stat(directory_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
}

TEST_F(DiskCacheTest, AFileHoldsTheBytesFromItsStart) {
  DiskCache cache(options());
  cache.store(key_of("a"), "bytes");
  const auto hit = cache.find(key_of("a"));
  ASSERT_TRUE(hit.has_value());
  std::ifstream file(hit->path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "bytes" + cache_footer(key_of("a").hash(), "bytes"));
}

TEST_F(DiskCacheTest, AnotherProcessHits) {
  DiskCache(options()).store(key_of("a"), bytes_of(7));
  EXPECT_TRUE(in_child([&] {
    DiskCache cache(options());
    return cache.load(key_of("a")) == bytes_of(7) && cache.stats().hits == 1;
  }));
}

TEST_F(DiskCacheTest, AnotherCompilerVersionMissesAndTheMissSaysSo) {
  DiskCache cache(options());
  cache.store(key_of("a", "g++ 12.2"), "of 12");
  EXPECT_EQ(cache.load(key_of("a", "g++ 12.2")), "of 12");
  EXPECT_EQ(cache.load(key_of("a", "g++ 13.1")), std::nullopt);
  cache.store(key_of("a", "g++ 13.1"), "of 13");
  EXPECT_EQ(cache.load(key_of("a", "g++ 12.2")), "of 12");
  EXPECT_EQ(cache.load(key_of("a", "g++ 13.1")), "of 13");
  ASSERT_EQ(cache.miss_records().size(), 1u);
  EXPECT_EQ(cache.miss_records()[0],
            key_of("a", "g++ 13.1").to_string() + ": differs from an earlier one in compiler");
}

// ---- Damage

TEST_F(DiskCacheTest, EveryFlippedBitIsFound) {
  DiskCache cache(options());
  const std::string bytes = "forty bytes or so of a small cache entry";
  const std::string path = *cache.store(key_of("a"), bytes);
  const size_t length = fs::file_size(path);
  ASSERT_EQ(length, bytes.size() + kCacheFooterBytes);
  uint64_t corrupt = 0;
  for (size_t i = 0; i < length; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      const int file = ::open(path.c_str(), O_RDWR);
      char byte = 0;
      ASSERT_EQ(::pread(file, &byte, 1, static_cast<off_t>(i)), 1);
      byte = static_cast<char>(byte ^ (1 << bit));
      ASSERT_EQ(::pwrite(file, &byte, 1, static_cast<off_t>(i)), 1);
      ::close(file);
      EXPECT_EQ(cache.load(key_of("a")), std::nullopt) << "byte " << i << " bit " << bit;
      EXPECT_FALSE(fs::exists(path));
      EXPECT_EQ(cache.stats().corrupt, ++corrupt);
      cache.store(key_of("a"), bytes);
    }
  }
  EXPECT_EQ(cache.load(key_of("a")), bytes);
}

TEST_F(DiskCacheTest, EveryOtherLengthIsFound) {
  DiskCache cache(options());
  const std::string bytes = "a small entry";
  const std::string path = *cache.store(key_of("a"), bytes);
  const auto length = fs::file_size(path);
  for (size_t n = 0; n < 2 * length; ++n) {
    if (n == length) continue;
    cache.store(key_of("a"), bytes);
    fs::resize_file(path, n);
    EXPECT_EQ(cache.load(key_of("a")), std::nullopt) << n;
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(cache.stats().corrupt, 2 * length - 1);
}

TEST_F(DiskCacheTest, AnEntryUnderAnotherNameIsNone) {
  DiskCache cache(options());
  const std::string a = *cache.store(key_of("a"), "of a");
  const std::string b = *cache.store(key_of("b"), "of b");
  fs::copy_file(a, b, fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.load(key_of("b")), std::nullopt);
  EXPECT_EQ(cache.load(key_of("a")), "of a");
  EXPECT_EQ(cache.stats().corrupt, 1u);
}

TEST_F(DiskCacheTest, WhatIsNoFileIsNoEntry) {
  DiskCache cache(options());
  const std::string path = *cache.store(key_of("a"), "of a");
  fs::rename(path, directory_ + "/elsewhere");
  fs::create_symlink(directory_ + "/elsewhere", path);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  ASSERT_TRUE(cache.store(key_of("a"), "of a").has_value());
  EXPECT_EQ(cache.load(key_of("a")), "of a");
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // opening it must not wait
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  fs::create_directory(path);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
}

TEST_F(DiskCacheTest, AFileThatOthersCanWriteIsNoEntry) {
  DiskCache cache(options());
  const std::string path = *cache.store(key_of("a"), "of a");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  EXPECT_EQ(cache.stats().corrupt, 1u);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_TRUE(cache.store(key_of("a"), "of a").has_value());
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  EXPECT_EQ(cache.stats().corrupt, 2u);
}

TEST_F(DiskCacheTest, ADirectoryThatVanishesIsMadeAgain) {
  DiskCache cache(options());
  cache.store(key_of("a"), "of a");
  fs::remove_all(directory_);
  EXPECT_EQ(cache.load(key_of("a")), std::nullopt);
  ASSERT_TRUE(cache.store(key_of("a"), "of a").has_value());
  EXPECT_EQ(cache.load(key_of("a")), "of a");
}

// ---- Whose directory it is

TEST_F(DiskCacheTest, RefusesADirectoryThatOthersMayWrite) {
  for (const unsigned mode : {0777u, 0770u, 01777u}) {
    const std::string text = stderr_of([&] {
      directory_ = (base_ / std::to_string(mode)).string();
      DiskCache(options()).store(key_of("m"), "planted");
      ASSERT_EQ(::chmod(directory_.c_str(), mode), 0);
      DiskCache cache(options());
      expect_memory_only(cache);
      EXPECT_EQ(DiskCache(options()).load(key_of("m")), std::nullopt);
    });
    EXPECT_NE(text.find("may be written by others"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
}

TEST_F(DiskCacheTest, RefusesAFormatDirectoryThatOthersMayWrite) {
  DiskCache(options()).store(key_of("m"), "planted");
  ASSERT_EQ(::chmod((directory_ + "/v1").c_str(), 0777), 0);
  const std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("may be written by others"), std::string::npos) << text;
}

TEST_F(DiskCacheTest, RefusesADirectoryBelowOneThatOthersMayWrite) {
  ASSERT_EQ(::chmod(base_.c_str(), 0777), 0);
  std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("in which it lies, may be written by others (mode 0777)"), std::string::npos) << text;
  ASSERT_EQ(::chmod(base_.c_str(), 01777), 0);  // as /tmp: what is in it cannot be renamed by others
  text = stderr_of([&] { EXPECT_TRUE(DiskCache(options()).store(key_of("a"), "of a").has_value()); });
  EXPECT_EQ(text, "");
}

TEST_F(DiskCacheTest, RefusesADirectoryOfSomeoneElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  DiskCache(options()).store(key_of("m"), "planted");
  ASSERT_EQ(::chown(directory_.c_str(), 12345, 12345), 0);
  std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("belongs to user 12345, not to user 0"), std::string::npos) << text;
  ASSERT_EQ(::chown(directory_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(base_.c_str(), 12345, 12345), 0);
  directory_ += "2";
  text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("in which it lies, belongs to user 12345"), std::string::npos) << text;
}

TEST_F(DiskCacheTest, FollowsALinkToTheDirectoryAndLooksAtItsTarget) {
  DiskCache(options()).store(key_of("a"), "of a");
  const std::string target = directory_;
  directory_ = (base_ / "link").string();
  fs::create_symlink(target, directory_);
  EXPECT_EQ(DiskCache(options()).load(key_of("a")), "of a");
  ASSERT_EQ(::chmod(target.c_str(), 0777), 0);
  const std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("may be written by others"), std::string::npos) << text;
}

// ---- Where nothing can be written

TEST_F(DiskCacheTest, AReadOnlyDirectoryServesHitsAndTakesNothing) {
  DiskCache(options()).store(key_of("a"), "of a");
  ASSERT_EQ(::chmod(directory_.c_str(), 0500), 0);
  const size_t count = files().size();
  std::string text = stderr_of([&] {
    DiskCache cache(options());
    EXPECT_EQ(cache.load(key_of("a")), "of a");
  });
  EXPECT_EQ(text, "");  // a cache that was filled beforehand
  text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
    EXPECT_EQ(cache.store(key_of("n"), "more"), std::nullopt);
    EXPECT_EQ(cache.load(key_of("a")), "of a");
    EXPECT_EQ(cache.temporary_directory(), std::nullopt);
  });
  EXPECT_NE(text.find("is read-only (mode 0500)"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(files().size(), count);
  ASSERT_EQ(::chmod(directory_.c_str(), 0700), 0);
}

TEST_F(DiskCacheTest, AFileInPlaceOfTheDirectoryIsNoError) {
  ASSERT_TRUE(std::ofstream(directory_) << "a file");
  std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("is no directory"), std::string::npos) << text;
  directory_ += "/below";
  text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("Not a directory"), std::string::npos) << text;
}

TEST_F(DiskCacheTest, ADirectoryThatCannotBeMadeIsNoError) {
  directory_ = "/proc/weft_cache";
  const std::string text = stderr_of([&] {
    DiskCache cache(options());
    expect_memory_only(cache);
  });
  EXPECT_NE(text.find("/proc/weft_cache: "), std::string::npos) << text;
}

// A file that may not grow: what write() meets on a full disk, without one.
TEST_F(DiskCacheTest, ALimitOnFilesIsNoError) {
  DiskCache(options()).store(key_of("a"), "of a");
  EXPECT_TRUE(in_child([&] {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) return false;  // a log may be longer by now
    const struct rlimit limit = {1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;  // a write beyond it would end this process
    DiskCache cache(options());
    const std::string large(5000, 'x');
    return cache.store(key_of("b"), large) == std::nullopt && cache.load(key_of("b")) == large &&
           cache.load(key_of("a")) == "of a" && cache.stats().stores_memory == 1;
  }));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskCacheTest, AFullDiskIsNoError) {
  fs::create_directory(directory_);
  const pid_t child = start_child([&] {
    // In a namespace of its own, so that nothing stays mounted whatever happens here.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("weft", directory_.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
      ::_exit(77);
    DiskCache cache(options());
    if (!cache.store(key_of("small"), "fits")) return false;
    const std::string large(200000, 'x');
    if (cache.store(key_of("large"), large)) return false;
    if (cache.load(key_of("large")) != large || cache.load(key_of("small")) != "fits") return false;
    if (cache.why_memory_only().find("No space left") == std::string::npos) return false;
    if (!temporaries().empty()) return false;  // the part that was written
    // And read-only, as a disk.
    if (::mount(nullptr, directory_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=64k,mode=700") != 0)
      return false;
    DiskCache read_only(options());
    return read_only.load(key_of("small")) == "fits" && !read_only.store(key_of("b"), "b") &&
           read_only.why_memory_only().find("read-only disk") != std::string::npos;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "a small disk cannot be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(DiskCacheTest, SizeZeroKeepsEverythingInMemory) {
  const std::string text = stderr_of([&] {
    DiskCache cache(options(0));
    expect_memory_only(cache);
  });
  EXPECT_EQ(text, "");  // it was asked for
  EXPECT_FALSE(fs::exists(directory_));
}

// ---- Many at once

TEST_F(DiskCacheTest, EightProcessesStoreAndLoadTheSameKeys) {
  constexpr int kKeys = 25;
  std::vector<std::string> contents;
  for (int i = 0; i < kKeys; ++i) contents.push_back(bytes_of(i));
  const int well = in_children(8, [&](int process) {
    std::mt19937 random(static_cast<unsigned>(process));
    DiskCache cache(options());
    for (int round = 0; round < 200; ++round) {
      const int which = static_cast<int>(random() % kKeys);
      const CacheKey key = key_of(std::to_string(which));
      if (random() % 3 == 0) {
        if (!cache.store(key, contents[static_cast<size_t>(which)])) return false;
      } else if (const auto got = cache.load(key); got && *got != contents[static_cast<size_t>(which)]) {
        return false;
      }
    }
    return cache.stats().corrupt == 0;
  });
  EXPECT_EQ(well, 8);
  EXPECT_TRUE(temporaries().empty());
  EXPECT_EQ(files().size(), static_cast<size_t>(kKeys));
}

TEST_F(DiskCacheTest, EightThreadsOfOneCache) {
  DiskCache cache(options());
  std::vector<std::string> contents;
  for (int i = 0; i < 10; ++i) contents.push_back(bytes_of(i));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (size_t round = 0; round < 50; ++round) {
        const std::string& bytes = contents[(t + round) % 10];
        const CacheKey key = key_of(std::to_string((t + round) % 10));
        cache.store(key, bytes);
        wrong += cache.load(key) != bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.stats().hits, 400u);
}

TEST_F(DiskCacheTest, AClaimIsOfOneProcessAndEndsWithIt) {
  DiskCache cache(options());
  {
    const auto claim = cache.claim(key_of("a"));
    ASSERT_TRUE(claim.has_value());
    EXPECT_TRUE(in_child([&] {
      DiskCache other(options());
      return !other.claim(key_of("a")) && other.claim(key_of("b"));
    }));
  }
  EXPECT_TRUE(cache.claim(key_of("a")).has_value());
  const pid_t child = start_child([&]() -> bool {
    DiskCache other(options());
    const auto claim = other.claim(key_of("a"));
    ::raise(SIGKILL);
    return claim.has_value();
  });
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(cache.claim(key_of("a")).has_value());
  EXPECT_TRUE(temporaries().empty());
  // Where there are no files, everyone makes what is missing.
  DiskCache memory(options(0));
  const auto first = memory.claim(key_of("a")), second = memory.claim(key_of("a"));
  EXPECT_TRUE(first.has_value() && second.has_value());
}

// At a hundred moments and more of writing and removing: what is there afterwards is whole.
TEST_F(DiskCacheTest, AKillLeavesWholeEntriesOnly) {
  constexpr size_t kKeys = 12;
  constexpr uint64_t kMaxBytes = 100000;  // less than the entries take
  std::vector<std::string> contents;
  for (size_t i = 0; i < kKeys; ++i) contents.push_back(bytes_of(static_cast<int>(i)));
  std::mt19937 random(20260101);
  uint64_t found = 0;
  // Until some were hit while they wrote, which most kills do not.
  for (int kill = 0; kill < 100 || (kill < 1000 && temporaries().empty()); ++kill) {
    const pid_t child = start_child([&]() -> bool {
      DiskCache cache(options(kMaxBytes));
      for (size_t i = 0;; ++i) cache.store(key_of(std::to_string(i % kKeys)), contents[i % kKeys]);
    });
    const timespec pause = {0, static_cast<long>(random() % 4000000)};
    ::nanosleep(&pause, nullptr);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    DiskCache cache(options(kMaxBytes));
    for (size_t i = 0; i < kKeys; ++i) {
      const auto got = cache.load(key_of(std::to_string(i)));
      EXPECT_EQ(got.value_or(contents[i]), contents[i]);
      found += got.has_value();
    }
    EXPECT_EQ(cache.stats().corrupt, 0u);
  }
  EXPECT_GT(found, 100u);
  EXPECT_FALSE(temporaries().empty());
  // What the kills left in tmp goes when it is old.
  std::error_code ignored;
  for (const fs::path& path : temporaries())
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2), ignored);
  std::ofstream(directory_ + "/v1/tmp/of_someone_at_work") << "new";
  DiskCache cache(options(kMaxBytes));
  for (size_t i = 0; i < kKeys; ++i) cache.store(key_of(std::to_string(i)), contents[i]);
  EXPECT_EQ(temporaries(), std::vector<fs::path>{directory_ + "/v1/tmp/of_someone_at_work"});
}

// ---- Size

TEST_F(DiskCacheTest, TheLeastRecentlyUsedEntriesGo) {
  constexpr uint64_t kMaxBytes = 64 * 1064;
  DiskCache cache(options(kMaxBytes));
  const std::string bytes(1000, 'x');
  std::vector<std::string> paths;
  const auto set_age = [&](size_t i, int seconds) {
    fs::last_write_time(paths[i], fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  for (size_t i = 0; i < 60; ++i) {
    paths.push_back(*cache.store(key_of(std::to_string(i)), bytes));
    set_age(i, 1000 - static_cast<int>(i));
  }
  EXPECT_EQ(cache.stats().evictions, 0u);
  EXPECT_EQ(cache.load(key_of("0")), bytes);  // used now, though it is the oldest
  for (size_t i = 60; i < 70; ++i) paths.push_back(*cache.store(key_of(std::to_string(i)), bytes));
  EXPECT_GT(cache.stats().evictions, 0u);
  uint64_t total = 0;
  for (const fs::path& path : files()) total += fs::file_size(path);
  EXPECT_LE(total, kMaxBytes);
  EXPECT_GE(total, kMaxBytes * 8 / 10);  // not more than need be
  EXPECT_TRUE(fs::exists(paths[0]));
  EXPECT_FALSE(fs::exists(paths[1]));
  for (size_t i = 60; i < 70; ++i) EXPECT_TRUE(fs::exists(paths[i])) << i;
  // The ones that went are the oldest ones.
  bool is_there = false;
  for (size_t i = 1; i < 70; ++i) {
    EXPECT_TRUE(!is_there || fs::exists(paths[i])) << i;
    is_there = fs::exists(paths[i]);
  }
}

TEST_F(DiskCacheTest, AnEntryLargerThanTheCacheStaysInMemory) {
  DiskCache cache(options(1000));
  const std::string large(2000, 'x');
  EXPECT_EQ(cache.store(key_of("a"), large), std::nullopt);
  EXPECT_EQ(cache.load(key_of("a")), large);
  EXPECT_TRUE(files().empty());
}

TEST_F(DiskCacheTest, OtherFilesOfTheDirectoryAreLeftAlone) {
  fs::create_directories(directory_ + "/v0/ab");
  fs::create_directories(directory_ + "/v0/cd");
  fs::create_directories(directory_ + "/photos");
  ASSERT_EQ(::chmod(directory_.c_str(), 0700), 0);
  const auto make = [&](const std::string& name, int days) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << std::string(5000, 'y');
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
  };
  make("photos/one.jpg", 999);
  make("v0/ab/0123456789abcdef0123456789abcd", 31);  // of an older Weft, unused for a month
  make("v0/cd/0123456789abcdef0123456789abcd", 1);   // in use
  make("v0/cd/notes", 999);
  DiskCache cache(options(20000));
  for (int i = 0; i < 8; ++i) cache.store(key_of(std::to_string(i)), std::string(1000, 'x'));
  EXPECT_TRUE(fs::exists(directory_ + "/photos/one.jpg"));
  EXPECT_FALSE(fs::exists(directory_ + "/v0/ab"));
  EXPECT_TRUE(fs::exists(directory_ + "/v0/cd/0123456789abcdef0123456789abcd"));
  EXPECT_TRUE(fs::exists(directory_ + "/v0/cd/notes"));
}

}  // namespace
}  // namespace weft::compiler
