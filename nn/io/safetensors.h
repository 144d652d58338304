// The safetensors format: named tensors and text metadata in one file, without code in it.
// Needs tensor; file.h in the source. The format: an 8-byte little-endian length, a JSON header of that length
// {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {text: text}}, then the data.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace weft::io {

// Tensors in an order that means something, each with a name of its own.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

// What a file says of one tensor.
struct TensorEntry {
  std::string name;
  DType dtype;
  std::vector<int64_t> sizes;
  uint64_t begin, end;  // bytes from the start of the data
};

// An open file whose header has been read and checked; tensors are read one by one when asked for.
class SafetensorsFile {
 public:
  // Errors: the file cannot be read, or is not well formed (names the tensor and the numbers that disagree). Nothing is
  // allocated for a size that the file only claims to have.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  // In the order of the header.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // A contiguous tensor on the CPU with memory of its own. Errors: no such name.
  Tensor load(std::string_view name) const;

 private:
  const TensorEntry* find(std::string_view name) const;
  Tensor load(const TensorEntry& entry) const;
  friend struct Safetensors load_safetensors(const std::string& path);

  std::unique_ptr<class InputFile> file_;
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string_view, size_t> index_;  // into entries_, whose strings it borrows
  Metadata metadata_;
  uint64_t data_begin_ = 0;
};

// All of a file.
struct Safetensors {
  NamedTensors tensors;  // in the order of the header
  Metadata metadata;

  // Linear in the number of tensors; SafetensorsFile finds names by hash.
  const Tensor* find(std::string_view name) const;
  // Errors: no such name.
  const Tensor& at(std::string_view name) const;
};
Safetensors load_safetensors(const std::string& path);

// Writes the tensors, replacing the file in one step. The header keeps their order; data lies by falling element size,
// so that every tensor is aligned; equal input gives an equal file.
// Dtypes: all. Tensors of any device and strides; they are stored contiguously, without their history.
// Errors: an undefined tensor, a name that occurs twice or is "__metadata__", text that is not UTF-8, the disk's own.
void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

}  // namespace weft::io
