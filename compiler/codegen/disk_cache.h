// DiskCache: compiled things by content, kept between processes in files that are checked before they are trusted.
// Needs cache_key and base/log. Place: under cpu_compiler, and under whatever else compiles: graphs, CUDA, tuning.
//
// Note [Files of the cache]
//   <directory>/v<format>/ab/cdef…   an entry: its bytes, then a footer with key, length and checksum
//   <directory>/v<format>/tmp/       what is being written, and locks of what is being made
//   <directory>/lock                 held while entries are removed
// The footer stands at the end because a shared library is dlopened as it lies there: the loader does not look behind the
// parts that the library lists. An entry is written under a temporary name and renamed: readers see all of it or nothing,
// and what is mapped is never written. So a kill at any moment leaves a temporary file at most, which ages away, and
// processes that store one key at once replace equal files by equal files. No fsync: what a power failure tears is found
// by the checksum. A file of another length, key, format or content is no entry: it is removed, counted, and made anew.
// Since entries are run, the directory must be the user's own and nobody else's to write, and so must be those above it.
// Where it is not, or cannot be written, one warning says so and entries live in memory: a cache is never an error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/codegen/cache_key.h"

namespace weft::compiler {

struct DiskCacheOptions {
  std::string directory;                   // empty: in memory only
  uint64_t max_bytes = uint64_t{1} << 30;  // beyond it, the entries that were used least recently go

  // WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; WEFT_CACHE_SIZE, in bytes or as "512M", "2G"; 0
  // keeps everything in memory.
  static DiskCacheOptions of_environment();
};

struct DiskCacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t stores = 0;         // files published
  uint64_t stores_memory = 0;  // entries that could not become files
  uint64_t corrupt = 0;        // files that were not what they should be; also misses
  uint64_t evictions = 0;
  double seconds = 0;  // spent in here
};

// All functions may be called from several threads.
class DiskCache {
 public:
  explicit DiskCache(DiskCacheOptions options);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The one of the environment; never destroyed.
  static DiskCache& process();

  struct Hit {
    std::string bytes;
    std::string
        path;  // of the file that was read and found intact: the bytes, then the footer. Empty: kept in memory
  };
  std::optional<Hit> find(const CacheKey& key);
  // The bytes that were stored under the key, or nothing.
  std::optional<std::string> load(const CacheKey& key);
  // Publishes an entry, replacing one that is there. Returns the path of its file; nothing where it is kept in memory.
  std::optional<std::string> store(const CacheKey& key, std::string_view bytes);
  // Removes an entry that cannot be used although it is what was stored; counted as corrupt.
  void discard(const CacheKey& key);

  // The sole right to make an entry that is missing, so that processes that start together do not all compile the same. It
  // ends with the object, and with its process. It saves work only: without it everything is as right.
  class Claim {
   public:
    Claim() = default;  // where there is nobody to share with
    Claim(Claim&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
    Claim& operator=(Claim&& other) noexcept {
      std::swap(path_, other.path_);
      std::swap(file_, other.file_);
      return *this;
    }
    ~Claim();

   private:
    friend class DiskCache;
    std::string path_;
    int file_ = -1;
  };
  // Nothing while another process, or another cache of this one, has it.
  std::optional<Claim> claim(const CacheKey& key);
  // Whether there is a file for it, be it intact or not.
  bool is_published(const CacheKey& key) const;

  // A directory for temporary files on the disk of the cache, or nothing where that cannot be written.
  std::optional<std::string> temporary_directory();

  // Empty, or why there are no files: "… may be written by others (mode 0777)".
  std::string why_memory_only() const;
  DiskCacheStats stats() const;
  // The last misses that had a similar request before them: "cpu kernel 3f…: differs in flags". For explain().
  std::vector<std::string> miss_records() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::compiler
