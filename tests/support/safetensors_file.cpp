// Safetensors files by nlohmann-json.
#include "tests/support/safetensors_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace weft::tests {
namespace {

struct SafetensorsName {
  const char* text;
  DType dtype;
};
constexpr SafetensorsName kSafetensorsNames[] = {
    {"F32", DType::Float32}, {"F64", DType::Float64}, {"BF16", DType::BFloat16}, {"F16", DType::Float16},
    {"I64", DType::Int64},   {"I32", DType::Int32},   {"I16", DType::Int16},     {"I8", DType::Int8},
    {"U8", DType::UInt8},    {"BOOL", DType::Bool},
};

}  // namespace

// A contiguous tensor with a copy of the bytes.
Tensor tensor_of_bytes(const void* bytes, const std::vector<int64_t>& sizes, DType dtype) {
  Tensor x = make_tensor(SymList(sizes), dtype);
  if (x.nbytes() > 0) std::memcpy(bytes_of(x), bytes, x.nbytes());
  return x;
}

// A contiguous copy of x's values: no op, no tape.
Tensor copy_of(const Tensor& x) {
  Tensor y = make_tensor(x->layout.sizes, x.dtype());
  if (int_numel(x) > 0) copy_data(x, y);
  return y;
}

NamedTensors read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  WEFT_CHECK(file.good(), path, ": cannot be opened");
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  uint64_t header_size = 0;
  WEFT_CHECK(bytes.size() >= sizeof header_size, path, ": ", bytes.size(), " bytes are no safetensors file");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  WEFT_CHECK(header_size <= bytes.size() - sizeof header_size, path, ": the header has ", header_size,
             " bytes, the file ", bytes.size());
  const char* header = bytes.data() + sizeof header_size;
  const std::string_view data(header + header_size, bytes.size() - sizeof header_size - header_size);
  NamedTensors tensors;
  const nlohmann::json entries = nlohmann::json::parse(header, header + header_size);
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    const std::string type = entry.at("dtype");
    const SafetensorsName* known = nullptr;
    for (const auto& row : kSafetensorsNames)
      if (type == row.text) known = &row;
    WEFT_CHECK(known != nullptr, path, ": ", name, " has the unknown dtype ", type);
    const std::vector<int64_t> sizes = entry.at("shape");
    size_t expected = size_of(known->dtype);
    for (int64_t size : sizes) expected *= static_cast<size_t>(size);
    const size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    WEFT_CHECK(begin <= end && end <= data.size() && end - begin == expected, path, ": ", name, " has bytes ",
               begin, " to ", end, " of ", data.size());
    tensors[name] = tensor_of_bytes(data.data() + begin, sizes, known->dtype);
  }
  return tensors;
}

void write_safetensors(const std::string& path, const NamedTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, x] : tensors) {
    const Tensor y = copy_of(x);
    const size_t begin = data.size();
    data.append(bytes_of(y), y.nbytes());
    for (const auto& row : kSafetensorsNames) {
      if (row.dtype == y.dtype())
        header[name] = {
            {"dtype", row.text}, {"shape", y.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
    }
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header_size), sizeof header_size);
  file << text << data;
  file.flush();
  WEFT_CHECK(file.good(), path, ": cannot be written");
}

}  // namespace weft::tests
