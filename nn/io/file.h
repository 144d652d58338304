// Files on disk: reading at offsets and replacing a file in one step; errors carry the path and the system's reason.
// Needs tensor/base/error.h; safetensors, npy and the data readers stand on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/base/error.h"

namespace weft::io {

// "cannot open 'a/b': No such file or directory (errno 2)", after the name of the function that failed.
[[noreturn]] void throw_errno(const std::string& who, const std::string& what, const std::string& path,
                              int error);

// A regular file, open for reading; its size is taken when it is opened.
class InputFile {
 public:
  // `who` begins every error's text. Errors: the file cannot be opened, or is a directory, a pipe or a device.
  InputFile(std::string who, std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Fills the buffer from this offset. Error if the file ends before (it may have been cut since it was opened).
  void read(uint64_t offset, void* buffer, size_t bytes) const;
  // All size() bytes.
  std::unique_ptr<char[]> read_all() const;

 private:
  std::string who_, path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// A file that appears under its name only when commit() has put all of it on disk; until then, and after an error, what
// was there before is untouched. A symbolic link is followed; the permissions of a replaced file are kept.
class OutputFile {
 public:
  OutputFile(std::string who, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();

 private:
  std::string who_, path_, target_, temporary_;
  int descriptor_ = -1;
};

}  // namespace weft::io
