// Files on disk through the POSIX calls, which say why they failed.
#include "nn/io/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace weft::io {

namespace {
// Linux moves at most 2 GiB - 4 KiB a call.
constexpr size_t kMaxBytesPerCall = size_t{1} << 30;
}  // namespace

void throw_errno(const std::string& who, const std::string& what, const std::string& path, int error) {
  weft::detail::throw_error(weft::detail::concat(who, ": cannot ", what, " '", path,
                                                 "': ", std::generic_category().message(error), " (errno ",
                                                 error, ")"));
}

InputFile::InputFile(std::string who, std::string path) : who_(std::move(who)), path_(std::move(path)) {
  descriptor_ =
      ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not wait for its writer
  if (descriptor_ < 0) throw_errno(who_, "open", path_, errno);
  struct stat status;
  int error = ::fstat(descriptor_, &status) != 0 ? errno : 0;
  if (error == 0 && S_ISDIR(status.st_mode)) error = EISDIR;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    if (error != 0) throw_errno(who_, "read", path_, error);
    weft::detail::throw_error(
        weft::detail::concat(who_, ": cannot read '", path_, "': it is no regular file"));
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(uint64_t offset, void* buffer, size_t bytes) const {
  char* to = static_cast<char*>(buffer);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(descriptor_, to + done, std::min(bytes - done, kMaxBytesPerCall),
                              static_cast<off_t>(offset + done));
    if (n < 0) {
      if (errno == EINTR) continue;
      throw_errno(who_, "read", path_, errno);
    }
    WEFT_CHECK(n != 0, who_, ": '", path_, "' ends at byte ", offset + done, ", but ", bytes - done,
               " more bytes are expected there");
    done += static_cast<size_t>(n);
  }
}

std::unique_ptr<char[]> InputFile::read_all() const {
  auto bytes = std::make_unique_for_overwrite<char[]>(size_);
  read(0, bytes.get(), size_);
  return bytes;
}

OutputFile::OutputFile(std::string who, std::string path)
    : who_(std::move(who)), path_(std::move(path)), target_(path_) {
  mode_t mode = 0666;
  bool replaces = false;
  struct stat status;
  if (::stat(path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) throw_errno(who_, "write", path_, EISDIR);
    WEFT_CHECK(S_ISREG(status.st_mode), who_, ": cannot write '", path_,
               "': it is no regular file, so it cannot be replaced in one step");
    mode = status.st_mode & 07777;
    replaces = true;
    if (char* real = ::realpath(path_.c_str(), nullptr)) {
      target_ = real;
      std::free(real);
    }
  }
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = weft::detail::concat(target_, ".tmp.", ::getpid(), ".", counter.fetch_add(1));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw_errno(who_, "write", path_, errno);
  // The mode given to open() is cut by the umask. Failing to keep it is no reason not to save.
  if (replaces && ::fchmod(descriptor_, mode) != 0) errno = 0;
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, from, std::min(bytes, kMaxBytesPerCall));
    if (n < 0) {
      if (errno == EINTR) continue;
      throw_errno(who_, "write", path_, errno);
    }
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

void OutputFile::commit() {
  // Without the sync a crash of the machine may leave the new name with no data behind it.
  if (::fsync(descriptor_) != 0) throw_errno(who_, "write", path_, errno);
  const int closed = ::close(descriptor_);
  const int error = errno;
  descriptor_ = -1;
  if (closed != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int reason = closed != 0 ? error : errno;
    ::unlink(temporary_.c_str());
    throw_errno(who_, "write", path_, reason);
  }
}

}  // namespace weft::io
