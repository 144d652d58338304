// Files through the POSIX calls; every byte of one is held against the checksum.
#include "compiler/codegen/cache_entry.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::compiler {
namespace {

constexpr char kMagic[9] = "WEFTENTR";

// No padding: every byte of a footer is compared with the one that should be there.
struct Footer {
  char magic[8];
  uint32_t format;
  uint32_t footer_bytes;
  uint64_t key_high, key_low;
  uint64_t length;
  uint64_t reserved;
  uint64_t checksum_high, checksum_low;  // of the bytes
};
static_assert(sizeof(Footer) == kCacheFooterBytes);

Footer footer_of(const ContentHash& key, std::string_view bytes) {
  Footer footer{{}, kCacheFormat, kCacheFooterBytes, key.high, key.low, bytes.size(), 0, 0, 0};
  std::memcpy(footer.magic, kMagic, sizeof(footer.magic));
  const XXH128_hash_t checksum = XXH3_128bits(bytes.data(), bytes.size());
  footer.checksum_high = checksum.high64;
  footer.checksum_low = checksum.low64;
  return footer;
}

struct OpenFile {
  int number;
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

std::string cache_footer(const ContentHash& key, std::string_view bytes) {
  const Footer footer = footer_of(key, bytes);
  return std::string(reinterpret_cast<const char*>(&footer), sizeof(footer));
}

EntryState read_entry(const std::string& path, const ContentHash& key, std::string& bytes, uint64_t& inode) {
  inode = 0;
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.number < 0) return errno == ELOOP ? EntryState::Corrupt : EntryState::Missing;
  struct stat status;
  if (::fstat(file.number, &status) != 0) return EntryState::Missing;
  inode = status.st_ino;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 || status.st_size < static_cast<off_t>(kCacheFooterBytes))
    return EntryState::Corrupt;
  bytes.resize(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.number, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return EntryState::Corrupt;  // shorter than it was a moment ago, or the disk fails
    done += static_cast<size_t>(n);
  }
  const size_t length = bytes.size() - kCacheFooterBytes;
  const Footer expected = footer_of(key, std::string_view(bytes).substr(0, length));
  if (std::memcmp(bytes.data() + length, &expected, sizeof(expected)) != 0) return EntryState::Corrupt;
  bytes.resize(length);
  // What was used last is removed last. On a disk that cannot be written this fails, and need not work.
  ::futimens(file.number, nullptr);
  return EntryState::Intact;
}

int write_entry(const std::string& path, const ContentHash& key, std::string_view bytes) {
  // Beyond its limit a process gets a signal that ends it.
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes.size() + kCacheFooterBytes > limit.rlim_cur)
    return EFBIG;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return errno;
  const std::string footer = cache_footer(key, bytes);
  int error = 0;
  for (std::string_view part : {bytes, std::string_view(footer)}) {
    while (!part.empty() && error == 0) {
      const ssize_t n = ::write(file, part.data(), part.size());
      if (n >= 0) part.remove_prefix(static_cast<size_t>(n));
      else if (errno != EINTR) error = errno;
    }
  }
  if (::close(file) != 0 && error == 0) error = errno;  // a network disk may say only here that it is full
  if (error != 0) ::unlink(path.c_str());
  return error;
}

}  // namespace weft::compiler
