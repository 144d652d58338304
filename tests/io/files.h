// For the tests of this room: temporary folders, raw files, tensors with known bytes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tensor/dispatch.h"
#include "tensor/tensor.h"
#include "tests/support/error_text.h"

namespace weft {

// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  size_t num_files() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

inline std::string write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}
inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A contiguous tensor whose bytes count up (bool: 0 and 1 in turn).
inline Tensor counting_tensor(const std::vector<int64_t>& sizes, DType dtype, int start = 1) {
  Tensor x = make_tensor(SymList(sizes), dtype);
  for (size_t i = 0; i < x.nbytes(); ++i)
    bytes_of(x)[i] = static_cast<char>(dtype == kBool ? i % 2 : (i * 7 + static_cast<size_t>(start)) % 251);
  return x;
}
inline std::string raw_bytes(const Tensor& x) { return {bytes_of(x), x.nbytes()}; }

using tests::error_of;

}  // namespace weft
