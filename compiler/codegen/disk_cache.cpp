// Where files lie, who may write there, what goes when there is too much of it; and memory where there is no disk.
#include "compiler/codegen/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "compiler/codegen/cache_entry.h"
#include "tensor/base/log.h"

namespace weft::compiler {
namespace {

using Clock = std::chrono::steady_clock;

// What a cache without a disk holds at most. Entries are some 20 KB, and their users keep what they are using.
constexpr uint64_t kMaxMemoryBytes = uint64_t{64} << 20;
// Requests that a miss is compared with: enough for the graphs that a function is recompiled to.
constexpr size_t kMaxRecentKeys = 64;
constexpr size_t kMaxMissRecords = 64;
constexpr size_t kLikenessOfKind = 2;  // of keys that have their kind in common and nothing else
// A process that was killed left it.
constexpr time_t kStaleTemporarySeconds = 3600;
// Entries of other formats: of an older Weft that may still be in use elsewhere.
constexpr time_t kOtherFormatSeconds = 30 * 24 * 3600;
// Looking through a full cache of 1 GiB takes some 60 ms: after one in so many entries, or this part of its size.
constexpr uint64_t kStoresPerSweep = 32;
constexpr uint64_t kSweepPart = 64;

std::string message_of(int error) { return std::generic_category().message(error); }

// ---- Whose directory it is

// Empty, or why what lies in the directory must not be run. `path` is free of symbolic links.
std::string why_unsafe(const std::string& path) {
  const uid_t user = ::geteuid();
  struct stat status;
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = end == std::string::npos ? path : path.substr(0, end);
    if (::lstat(part.c_str(), &status) != 0) return fmt::format("{}: {}", part, message_of(errno));
    if (!S_ISDIR(status.st_mode)) return fmt::format("{} is no directory", part);
    const unsigned mode = status.st_mode & 07777;
    if (part == path) {
      if (status.st_uid != user)
        return fmt::format("{} belongs to user {}, not to user {}", part, status.st_uid, user);
      if ((mode & (S_IWGRP | S_IWOTH)) != 0)
        return fmt::format("{} may be written by others (mode {:04o}; it should be 0700)", part, mode);
    } else {
      // Whoever can rename it can put another in its place. Groups are let pass: homes are shared with one's own group.
      if (status.st_uid != user && status.st_uid != 0)
        return fmt::format("{}, in which it lies, belongs to user {}", part, status.st_uid);
      if ((mode & S_IWOTH) != 0 && (mode & S_ISVTX) == 0)
        return fmt::format("{}, in which it lies, may be written by others (mode {:04o})", part, mode);
    }
  }
  return {};
}

std::string real_path(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) != nullptr ? std::string(buffer) : std::string();
}

// mkdir -p, for the user alone. 0, or the errno.
int make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  const size_t slash = path.rfind('/');
  if (errno != ENOENT || slash == std::string::npos || slash == 0) return errno;
  if (const int error = make_directories(path.substr(0, slash)); error != 0) return error;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

// ---- What lies in it

bool is_hex(std::string_view name, size_t digits) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool is_format_directory(std::string_view name) {
  return name.size() > 1 && name.front() == 'v' &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

void for_each_in(const std::string& directory, const std::function<void(const std::string& name)>& visit) {
  DIR* open = ::opendir(directory.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
  ::closedir(open);
}

// A file, or a directory of files.
void remove_temporary(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return;
  for_each_in(path, [&](const std::string& name) { ::unlink((path + "/" + name).c_str()); });
  ::rmdir(path.c_str());
}

struct FileOfEntry {
  std::string path;
  uint64_t bytes;
  timespec used;
};

// Removes entries until they take nine tenths of what they may, so that this is not done for each of the next. Only names
// that this file makes are touched: the directory may hold other things. Returns how many went.
uint64_t sweep(const std::string& directory, const std::string& own_format, uint64_t max_bytes) {
  const time_t now = ::time(nullptr);
  std::vector<FileOfEntry> files;
  uint64_t total = 0, removed = 0;
  struct stat status;
  for_each_in(directory, [&](const std::string& format) {
    if (!is_format_directory(format)) return;
    const std::string root = directory + "/" + format;
    for_each_in(root, [&](const std::string& shard) {
      const std::string in = root + "/" + shard;
      for_each_in(in, [&](const std::string& name) {
        const std::string path = in + "/" + name;
        if (shard == "tmp") {
          if (::lstat(path.c_str(), &status) == 0 && now - status.st_mtime > kStaleTemporarySeconds)
            remove_temporary(path);
        } else if (is_hex(shard, 2) && is_hex(name, 30) && ::lstat(path.c_str(), &status) == 0) {
          if (format != own_format && now - status.st_mtime > kOtherFormatSeconds) {
            removed += ::unlink(path.c_str()) == 0;
          } else {
            files.push_back({path, static_cast<uint64_t>(status.st_size), status.st_mtim});
            total += files.back().bytes;
          }
        }
      });
      if (format != own_format) ::rmdir(in.c_str());  // where it is empty
    });
    if (format != own_format) ::rmdir(root.c_str());
  });
  if (total <= max_bytes) return removed;
  std::sort(files.begin(), files.end(), [](const FileOfEntry& a, const FileOfEntry& b) {
    if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
    return a.used.tv_nsec != b.used.tv_nsec ? a.used.tv_nsec < b.used.tv_nsec : a.path < b.path;
  });
  for (const FileOfEntry& file : files) {
    if (total <= max_bytes - max_bytes / 10) break;
    if (::unlink(file.path.c_str()) != 0) continue;
    total -= file.bytes;
    ++removed;
  }
  return removed;
}

// "512M" in bytes.
std::optional<uint64_t> parse_size(const std::string& text) {
  size_t end = 0;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  if (end == 0 || end > 18) return std::nullopt;
  const uint64_t number = std::strtoull(text.c_str(), nullptr, 10);
  const std::string unit = text.substr(end);
  int shift = 0;
  if (unit == "K" || unit == "k") shift = 10;
  else if (unit == "M" || unit == "m") shift = 20;
  else if (unit == "G" || unit == "g") shift = 30;
  else if (unit == "T" || unit == "t") shift = 40;
  else if (!unit.empty()) return std::nullopt;
  if (number > (UINT64_MAX >> shift)) return std::nullopt;
  return number << shift;
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string home_directory() {
  if (const char* home = environment("HOME")) return home;
  passwd entry, *found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != nullptr)
    return found->pw_dir;
  return {};
}

}  // namespace

DiskCacheOptions DiskCacheOptions::of_environment() {
  DiskCacheOptions options;
  if (const char* size = environment("WEFT_CACHE_SIZE")) {
    if (const std::optional<uint64_t> bytes = parse_size(size)) options.max_bytes = *bytes;
    else
      warn_once("WEFT_CACHE_SIZE", fmt::format("WEFT_CACHE_SIZE={}: a number of bytes is expected, or one "
                                               "with K, M, G or T; the cache holds up to 1G",
                                               size));
  }
  if (const char* directory = environment("WEFT_CACHE_DIR")) {
    options.directory = directory;
  } else if (const char* xdg = environment("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') {
    options.directory = std::string(xdg) + "/weft";  // its specification: paths that are relative are ignored
  } else if (const std::string home = home_directory(); !home.empty()) {
    options.directory = home + "/.cache/weft";
  }
  return options;
}

struct DiskCache::Impl {
  DiskCacheOptions options;
  std::string root;         // <directory>/v<format>
  std::string format_name;  // "v1"
  uint64_t process_random = 0;
  std::atomic<uint64_t> next_temporary{0};

  mutable std::mutex mutex;
  bool is_readable = false;
  bool is_writable = false;
  bool is_made = false;  // the directory exists and was checked
  std::string reason;
  DiskCacheStats stats;
  std::unordered_map<ContentHash, std::string> memory;
  uint64_t memory_bytes = 0;
  std::deque<CacheKey> recent;
  std::deque<std::string> misses;
  uint64_t stored_since_sweep = 0;

  explicit Impl(DiskCacheOptions given) : options(std::move(given)) {
    if (::getrandom(&process_random, sizeof(process_random), GRND_NONBLOCK) !=
        static_cast<ssize_t>(sizeof(process_random)))
      process_random = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
    if (options.max_bytes == 0) {
      reason = "its size is 0";
      return;
    }
    if (options.directory.empty()) {
      refuse("no directory is known for it: neither WEFT_CACHE_DIR nor HOME is set");
      return;
    }
    if (options.directory.front() != '/') {  // the program may change its directory
      char here[PATH_MAX];
      if (::getcwd(here, sizeof(here)) != nullptr)
        options.directory = std::string(here) + "/" + options.directory;
    }
    while (options.directory.size() > 1 && options.directory.back() == '/') options.directory.pop_back();
    format_name = fmt::format("v{}", kCacheFormat);
    root = options.directory + "/" + format_name;
    is_readable = is_writable = true;
    struct stat status;
    if (::stat(options.directory.c_str(), &status) == 0) check_directory();
    else if (errno != ENOENT) refuse(fmt::format("{}: {}", options.directory, message_of(errno)));
  }

  // From now on in memory only, or without new files. Said once per directory.
  void refuse(const std::string& why, bool only_writing = false) {
    is_writable = false;
    if (!only_writing) is_readable = false;
    if (!reason.empty()) return;
    reason = why;
    warn_once("disk cache " + options.directory,
              fmt::format("the cache of compiled kernels is not {}: {}. What is compiled stays in memory; "
                          "WEFT_CACHE_DIR can name another directory",
                          only_writing ? "added to" : "used", why));
  }

  // The directory is there. False when nothing of it may be used.
  bool check_directory() {
    const std::string real = real_path(options.directory);
    std::string why =
        real.empty() ? fmt::format("{}: {}", options.directory, message_of(errno)) : why_unsafe(real);
    if (struct stat status; why.empty() && ::lstat((real + "/" + format_name).c_str(), &status) == 0)
      why = why_unsafe(real + "/" + format_name);
    if (!why.empty()) refuse(why);
    return why.empty();
  }

  // Why new files cannot be made although the directory is the user's, or nothing. Root is held by no mode, but a mode
  // that forbids writing is a wish.
  std::string why_read_only() const {
    for (const std::string& path : {options.directory, root}) {
      struct stat status;
      struct statvfs disk;
      if (::stat(path.c_str(), &status) != 0) continue;
      if ((status.st_mode & S_IWUSR) == 0)
        return fmt::format("{} is read-only (mode {:04o})", path, status.st_mode & 07777u);
      if (::statvfs(path.c_str(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0)
        return fmt::format("{} is on a read-only disk", path);
    }
    return {};
  }

  // Called with the mutex held, before the first file is written. False when that cannot be.
  bool make() {
    if (is_made || !is_writable) return is_made && is_writable;
    // A directory that may not be written is not made part of: its modes are looked at before mkdir, which root can.
    if (std::string why = why_read_only(); !why.empty()) {
      refuse(why, true);
      return false;
    }
    for (const std::string& path : {options.directory, root, root + "/tmp"}) {
      if (const int error = make_directories(path); error != 0) {
        refuse(fmt::format("{}: {}", path, message_of(error)), true);
        return false;
      }
    }
    return is_made = check_directory();
  }

  std::string path_of(const ContentHash& hash) const {
    const std::string digits = hash.to_string();
    return root + "/" + digits.substr(0, 2) + "/" + digits.substr(2);
  }
  std::string temporary_name() {
    return fmt::format("{}/tmp/w-{}-{:016x}-{}", root, ::getpid(), process_random, ++next_temporary);
  }

  // Why this one was not there: the parts in which it differs from the request that is most like it.
  void record_request(const CacheKey& key, bool is_miss) {
    std::string differs;
    if (is_miss) {
      const CacheKey* nearest = nullptr;
      for (const CacheKey& each : recent) {
        if (each.hash() == key.hash() || each.likeness(key) <= kLikenessOfKind) continue;
        if (nearest == nullptr || each.likeness(key) >= nearest->likeness(key)) nearest = &each;
      }
      if (nearest != nullptr) {
        differs = key.to_string() + ": differs from an earlier one in";
        for (const std::string& name : key.differing_parts(*nearest)) differs += " " + name;
        misses.push_back(differs);
        if (misses.size() > kMaxMissRecords) misses.pop_front();
      }
    }
    if (log_enabled(LogChannel::Cache))
      log_line(LogChannel::Cache, fmt::format("cache: {} {}", is_miss ? "miss" : "hit",
                                              differs.empty() ? key.to_string() : differs));
    for (const CacheKey& each : recent) {
      if (each.hash() == key.hash()) return;
    }
    recent.push_back(key);
    if (recent.size() > kMaxRecentKeys) recent.pop_front();
  }

  void keep_in_memory(const ContentHash& hash, std::string_view bytes) {
    ++stats.stores_memory;
    if (bytes.size() > kMaxMemoryBytes) return;
    if (memory_bytes + bytes.size() > kMaxMemoryBytes) {
      memory.clear();
      memory_bytes = 0;
    }
    auto [place, is_new] = memory.insert_or_assign(hash, std::string(bytes));
    if (is_new) memory_bytes += bytes.size();
  }

  // The file, unless it has been replaced since it was read.
  void remove_corrupt(const std::string& path, uint64_t inode) {
    struct stat status;
    if (::lstat(path.c_str(), &status) == 0 && (inode == 0 || status.st_ino == inode)) ::unlink(path.c_str());
  }

  std::optional<Hit> find(const CacheKey& key) {
    const Clock::time_point start = Clock::now();
    Hit hit;
    EntryState state = EntryState::Missing;
    bool may_read;
    {
      const std::lock_guard lock(mutex);
      may_read = is_readable;
    }
    if (may_read) {
      hit.path = path_of(key.hash());
      uint64_t inode = 0;
      state = read_entry(hit.path, key.hash(), hit.bytes, inode);
      if (state == EntryState::Corrupt) {
        remove_corrupt(hit.path, inode);
        log_line(LogChannel::Cache, "cache: dropped " + hit.path + ", which is not what was stored");
      }
    }
    const std::lock_guard lock(mutex);
    bool is_hit = state == EntryState::Intact;
    if (state == EntryState::Corrupt) ++stats.corrupt;
    if (const auto place = memory.find(key.hash()); !is_hit && place != memory.end()) {
      hit = {place->second, {}};
      is_hit = true;
    }
    ++(is_hit ? stats.hits : stats.misses);
    record_request(key, !is_hit);
    stats.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    if (!is_hit) return std::nullopt;
    return hit;
  }

  // 0 or the errno of what failed.
  int publish(const ContentHash& hash, std::string_view bytes, const std::string& path) {
    const std::string temporary = temporary_name();
    int error = write_entry(temporary, hash, bytes);
    if (error == ENOENT) {  // someone removed the directory in the meantime
      if (error = make_directories(root + "/tmp"); error != 0) return error;
      error = write_entry(temporary, hash, bytes);
    }
    if (error != 0) return error;
    error = move_into_place(temporary, path, hash, bytes);
    if (error == ENOENT) {
      error = make_directories(path.substr(0, path.rfind('/')));
      if (error == 0) error = move_into_place(temporary, path, hash, bytes);
    }
    if (error != 0) ::unlink(temporary.c_str());
    return error;
  }

  // To replace a file takes ext4 milliseconds, in which it writes the new one to the disk: not where an equal one was faster.
  static int move_into_place(const std::string& temporary, const std::string& path, const ContentHash& hash,
                             std::string_view bytes) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno == EEXIST) {
      std::string there;
      uint64_t inode = 0;
      if (read_entry(path, hash, there, inode) == EntryState::Intact && there == bytes) {
        ::unlink(temporary.c_str());
        return 0;
      }
    } else if (errno != EINVAL && errno != ENOSYS) {
      return errno;
    }
    return ::rename(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  }

  void sweep_if_due(const ContentHash& hash, uint64_t bytes) {
    {
      const std::lock_guard lock(mutex);
      stored_since_sweep += bytes;
      if (hash.low % kStoresPerSweep != 0 && stored_since_sweep <= options.max_bytes / kSweepPart) return;
      stored_since_sweep = 0;
    }
    const std::string lock_path = options.directory + "/lock";
    const int lock_file = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_file < 0) return;
    uint64_t removed = 0;
    if (::flock(lock_file, LOCK_EX | LOCK_NB) == 0)  // another process is at it already
      removed = sweep(options.directory, format_name, options.max_bytes);
    ::close(lock_file);
    const std::lock_guard lock(mutex);
    stats.evictions += removed;
  }
};

DiskCache::DiskCache(DiskCacheOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
DiskCache::~DiskCache() = default;

DiskCache& DiskCache::process() {
  static auto* const cache = new DiskCache(DiskCacheOptions::of_environment());
  return *cache;
}

std::optional<DiskCache::Hit> DiskCache::find(const CacheKey& key) { return impl_->find(key); }

std::optional<std::string> DiskCache::load(const CacheKey& key) {
  std::optional<Hit> hit = impl_->find(key);
  if (!hit) return std::nullopt;
  return std::move(hit->bytes);
}

std::optional<std::string> DiskCache::store(const CacheKey& key, std::string_view bytes) {
  const Clock::time_point start = Clock::now();
  const std::string path = impl_->path_of(key.hash());
  bool may_write;
  {
    const std::lock_guard lock(impl_->mutex);
    may_write = bytes.size() + kCacheFooterBytes <= impl_->options.max_bytes && impl_->make();
  }
  const int error = may_write ? impl_->publish(key.hash(), bytes, path) : 0;
  const bool is_file = may_write && error == 0;
  {
    const std::lock_guard lock(impl_->mutex);
    if (error != 0) impl_->refuse(fmt::format("{}: {}", impl_->options.directory, message_of(error)), true);
    if (is_file) ++impl_->stats.stores;
    else impl_->keep_in_memory(key.hash(), bytes);
  }
  if (is_file) impl_->sweep_if_due(key.hash(), bytes.size() + kCacheFooterBytes);
  const std::lock_guard lock(impl_->mutex);
  impl_->stats.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  if (!is_file) return std::nullopt;
  return path;
}

void DiskCache::discard(const CacheKey& key) {
  const std::lock_guard lock(impl_->mutex);
  ++impl_->stats.corrupt;
  if (impl_->is_readable) ::unlink(impl_->path_of(key.hash()).c_str());
  if (const auto place = impl_->memory.find(key.hash()); place != impl_->memory.end()) {
    impl_->memory_bytes -= place->second.size();
    impl_->memory.erase(place);
  }
}

std::optional<std::string> DiskCache::temporary_directory() {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->make()) return std::nullopt;
  return impl_->root + "/tmp";
}

DiskCache::Claim::~Claim() {
  if (file_ < 0) return;
  // Who has opened it already locks a file without a name, and may then make what another one makes too: that is all.
  ::unlink(path_.c_str());
  ::close(file_);
}

std::optional<DiskCache::Claim> DiskCache::claim(const CacheKey& key) {
  Claim claim;
  const std::optional<std::string> directory = temporary_directory();
  if (!directory) return claim;
  claim.path_ = *directory + "/lock-" + key.hash().to_string();
  const int file = ::open(claim.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return claim;
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    return std::nullopt;
  }
  claim.file_ = file;
  return claim;
}

bool DiskCache::is_published(const CacheKey& key) const {
  struct stat status;
  const std::lock_guard lock(impl_->mutex);
  return impl_->is_readable && ::lstat(impl_->path_of(key.hash()).c_str(), &status) == 0;
}

std::string DiskCache::why_memory_only() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->reason;
}

DiskCacheStats DiskCache::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

std::vector<std::string> DiskCache::miss_records() const {
  const std::lock_guard lock(impl_->mutex);
  return {impl_->misses.begin(), impl_->misses.end()};
}

}  // namespace weft::compiler
