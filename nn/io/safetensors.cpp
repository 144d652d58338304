// The safetensors header through a streaming JSON reader that accepts the format's shape and nothing else.
#include "nn/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "nn/io/file.h"
#include "nn/io/tensor_bytes.h"
#include "tensor/dispatch.h"

namespace weft::io {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

const std::string kLoadSafetensors = "load_safetensors";
const std::string kSaveSafetensors = "save_safetensors";
// The limit of the format's own reader. A header of this size names about a million tensors.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  const char* name;
  DType dtype;
};
constexpr std::array<DTypeName, kNumDTypes> kDTypeNames = {{{"F64", kFloat64},
                                                            {"F32", kFloat32},
                                                            {"BF16", kBFloat16},
                                                            {"F16", kFloat16},
                                                            {"I64", kInt64},
                                                            {"I32", kInt32},
                                                            {"I16", kInt16},
                                                            {"I8", kInt8},
                                                            {"U8", kUInt8},
                                                            {"BOOL", kBool}}};

// Reads the header event by event: no document is built, so nesting and size cost nothing beyond the text itself.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& path, std::vector<TensorEntry>& entries, Metadata& metadata)
      : path_(path), entries_(entries), metadata_(metadata) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(int64_t value) override {
    return unexpected("the negative number " + std::to_string(value));
  }
  bool number_float(double, const std::string& text) override { return unexpected("the number " + text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (state_ == State::Shape) {
      check(value <= INT64_MAX, "has a size of ", value, ", which does not fit 63 bits");
      check(shape_->size() < kMaxFileRank, "has more than ", kMaxFileRank, " dimensions");
      shape_->push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::Offsets) {
      check(num_offsets_ < 2, "has more than two data_offsets");
      offsets_[num_offsets_++] = value;
      return true;
    }
    return unexpected("the number " + std::to_string(value));
  }

  bool string(std::string& value) override {
    if (state_ == State::Metadata) {
      const bool is_new = metadata_.emplace(field_, std::move(value)).second;
      check(is_new, "holds the key ", in_quotes(field_), " twice");
      return true;
    }
    if (state_ != State::Tensor || field_ != "dtype") return unexpected("the text " + in_quotes(value));
    check(!dtype_, "gives its dtype twice");
    for (const auto& [name, dtype] : kDTypeNames)
      if (value == name) dtype_ = dtype;
    check(dtype_.has_value(), "has the dtype ", in_quotes(value),
          "; known are F64, F32, BF16, F16, I64, I32, I16, I8, U8, BOOL");
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::Start) {
      state_ = State::Top;
    } else if (state_ == State::Top && name_ == kMetadataKey) {
      check(!has_metadata_, "occurs twice");
      has_metadata_ = true;
      state_ = State::Metadata;
    } else if (state_ == State::Top) {
      state_ = State::Tensor;
      dtype_.reset();
      shape_.reset();
      num_offsets_ = -1;
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(std::string& value) override {
    if (state_ == State::Top) {
      name_ = std::move(value);
      return true;
    }
    field_ = std::move(value);
    check(state_ == State::Metadata || field_ == "dtype" || field_ == "shape" || field_ == "data_offsets",
          "has the field ", in_quotes(field_), "; known are dtype, shape and data_offsets");
    return true;
  }

  bool end_object() override {
    if (state_ == State::Tensor) {
      check(dtype_.has_value(), "has no dtype");
      check(shape_.has_value(), "has no shape");
      check(num_offsets_ == 2, "has ", num_offsets_ < 0 ? "no" : "fewer than two", " data_offsets");
      entries_.push_back({std::move(name_), *dtype_, std::move(*shape_), offsets_[0], offsets_[1]});
    }
    state_ = State::Top;  // at the end of the whole header nothing follows
    return true;
  }

  bool start_array(size_t) override {
    if (state_ != State::Tensor || field_ == "dtype") return unexpected("an array");
    if (field_ == "shape") {
      check(!shape_, "gives its shape twice");
      shape_.emplace();
      state_ = State::Shape;
    } else {
      check(num_offsets_ < 0, "gives its data_offsets twice");
      num_offsets_ = 0;
      state_ = State::Offsets;
    }
    return true;
  }

  bool end_array() override {
    state_ = State::Tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // The library's text: "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error …".
    std::string text = error.what();
    if (const size_t at = text.rfind("]", text.find(' ')); at != std::string::npos) text.erase(0, at + 2);
    weft::detail::throw_error(weft::detail::concat(kLoadSafetensors, ": '", path_,
                                                   "': the header is no valid JSON at byte ", position,
                                                   " of it: ", printable(text, 300)));
  }

 private:
  enum class State { Start, Top, Tensor, Metadata, Shape, Offsets };

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      fail(weft::detail::concat(parts...));
  }
  [[noreturn]] void fail(const std::string& what) const {
    const bool in_metadata = name_ == kMetadataKey;
    weft::detail::throw_error(weft::detail::concat(kLoadSafetensors, ": '", path_,
                                                   "': ", in_metadata ? "" : "tensor ",
                                                   in_metadata ? name_ : in_quotes(name_), " ", what));
  }
  [[noreturn]] bool unexpected(const std::string& what) const {
    if (state_ == State::Start)
      weft::detail::throw_error(
          weft::detail::concat(kLoadSafetensors, ": '", path_, "': the header is ", what, ", not an object"));
    switch (state_) {
      case State::Metadata:
        fail(weft::detail::concat("holds ", what, " under ", in_quotes(field_), ", where only text may be"));
      case State::Shape: fail("has " + what + " in its shape, where only sizes may be");
      case State::Offsets: fail("has " + what + " in its data_offsets, where only byte counts may be");
      case State::Tensor: fail(weft::detail::concat("has ", what, " as its ", field_));
      default: fail("is " + what + ", not an object");
    }
  }

  const std::string& path_;
  std::vector<TensorEntry>& entries_;
  Metadata& metadata_;
  State state_ = State::Start;
  std::string name_, field_;  // the keys that lead here
  bool has_metadata_ = false;
  std::optional<DType> dtype_;
  std::optional<std::vector<int64_t>> shape_;
  std::array<uint64_t, 2> offsets_{};
  int num_offsets_ = -1;
};

// Sizes and byte counts agree, and the tensors cover the data exactly: neither overlaps nor gaps.
void check_entries(const std::string& path, const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  std::vector<const TensorEntry*> by_place;
  by_place.reserve(entries.size());
  for (const TensorEntry& e : entries) {
    const auto context = [&] {
      return weft::detail::concat(kLoadSafetensors, ": '", path, "': tensor ", in_quotes(e.name), " ");
    };
    WEFT_CHECK(e.begin <= e.end && e.end <= data_bytes, context(), "has data_offsets [", e.begin, ", ", e.end,
               "], but the file has ", data_bytes, " bytes of data");
    const std::optional<uint64_t> bytes = checked_bytes(e.sizes, e.dtype);
    WEFT_CHECK(bytes.has_value(), context(), "has the shape ", shape_text(e.sizes),
               ", whose size in bytes does not fit 63 bits");
    WEFT_CHECK(*bytes == e.end - e.begin, context(), "is ", shape_text(e.sizes), " ", e.dtype,
               ", which takes ", *bytes, " bytes, but its data_offsets [", e.begin, ", ", e.end, "] span ",
               e.end - e.begin);
    by_place.push_back(&e);
  }
  std::sort(by_place.begin(), by_place.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::tie(a->begin, a->end) < std::tie(b->begin, b->end);
  });
  uint64_t reached = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry* e : by_place) {
    WEFT_CHECK(e->begin >= reached, kLoadSafetensors, ": '", path, "': tensor ", in_quotes(e->name),
               " begins at byte ", e->begin, " of the data, inside tensor ", in_quotes(previous->name), " [",
               previous->begin, ", ", previous->end, "]");
    WEFT_CHECK(e->begin == reached, kLoadSafetensors, ": '", path, "': bytes ", reached, " to ", e->begin,
               " of the data, before tensor ", in_quotes(e->name), ", belong to no tensor");
    reached = e->end;
    previous = e;
  }
  WEFT_CHECK(reached == data_bytes, kLoadSafetensors, ": '", path, "': the last ", data_bytes - reached,
             " of ", data_bytes, " bytes of data belong to no tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(std::make_unique<InputFile>(kLoadSafetensors, path)) {
  WEFT_CHECK(file_->size() >= 8, kLoadSafetensors, ": '", path, "' has ", file_->size(),
             " bytes; a safetensors file begins with the 8 bytes of its header's length");
  uint64_t header_bytes;
  file_->read(0, &header_bytes, sizeof header_bytes);
  const uint64_t rest = file_->size() - 8;
  WEFT_CHECK(header_bytes <= rest, kLoadSafetensors, ": '", path, "': the header is said to have ",
             header_bytes, " bytes, but the file has ", rest,
             " after the length; it is cut short, or no safetensors file");
  WEFT_CHECK(header_bytes <= kMaxHeaderBytes, kLoadSafetensors, ": '", path, "': the header has ",
             header_bytes, " bytes; at most ", kMaxHeaderBytes, " are read");
  std::string header(header_bytes, '\0');
  file_->read(8, header.data(), header.size());
  WEFT_CHECK(!header.empty() && header[0] == '{', kLoadSafetensors, ": '", path,
             "': the header does not begin with '{'; it is no safetensors file");

  HeaderReader reader(path, entries_, metadata_);
  nlohmann::json::sax_parse(header, &reader);
  index_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i)
    WEFT_CHECK(index_.emplace(entries_[i].name, i).second, kLoadSafetensors, ": '", path, "': tensor ",
               in_quotes(entries_[i].name), " occurs twice");
  check_entries(path, entries_, rest - header_bytes);
  data_begin_ = 8 + header_bytes;
}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

Tensor SafetensorsFile::load(std::string_view name) const {
  const TensorEntry* entry = find(name);
  WEFT_CHECK(entry != nullptr, kLoadSafetensors, ": '", file_->path(), "' has no tensor ", in_quotes(name),
             "; it has ", entries_.size(), " others");
  return load(*entry);
}

Tensor SafetensorsFile::load(const TensorEntry& entry) const {
  Tensor result = make_tensor(SymList(entry.sizes), entry.dtype);
  file_->read(data_begin_ + entry.begin, bytes_of(result), entry.end - entry.begin);
  check_bools(result, [&] {
    return weft::detail::concat(kLoadSafetensors, ": '", file_->path(), "': tensor ", in_quotes(entry.name));
  });
  return result;
}

Safetensors load_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  Safetensors result;
  result.tensors.reserve(file.entries().size());
  for (const TensorEntry& entry : file.entries()) result.tensors.emplace_back(entry.name, file.load(entry));
  result.metadata = file.metadata();
  return result;
}

const Tensor* Safetensors::find(std::string_view name) const {
  for (const auto& [key, tensor] : tensors)
    if (key == name) return &tensor;
  return nullptr;
}

const Tensor& Safetensors::at(std::string_view name) const {
  const Tensor* found = find(name);
  WEFT_CHECK(found != nullptr, kLoadSafetensors, ": the file has no tensor ", in_quotes(name), "; it has ",
             tensors.size(), " others");
  return *found;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::unordered_set<std::string_view> names;
  std::vector<size_t> by_place(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    WEFT_CHECK(tensor.defined(), kSaveSafetensors, ": tensor ", in_quotes(name), " is undefined");
    WEFT_CHECK(!tensor.is_fake(), kSaveSafetensors, ": tensor ", in_quotes(name),
               " belongs to a trace and has no data; save outside the compiled function");
    WEFT_CHECK(name != kMetadataKey, kSaveSafetensors, ": '", kMetadataKey,
               "' is the format's own name and cannot be a tensor's");
    WEFT_CHECK(names.insert(name).second, kSaveSafetensors, ": two tensors are named ", in_quotes(name));
    WEFT_CHECK(tensor.sizes().size() <= kMaxFileRank, kSaveSafetensors, ": tensor ", in_quotes(name), " has ",
               tensor.dim(), " dimensions; at most ", kMaxFileRank, " are written");
    by_place[i] = i;
  }
  // Falling element size keeps each tensor aligned to its element without gaps, which the format forbids.
  std::stable_sort(by_place.begin(), by_place.end(), [&](size_t a, size_t b) {
    return tensors[a].second.itemsize() > tensors[b].second.itemsize();
  });
  std::vector<uint64_t> begins(tensors.size());
  uint64_t data_bytes = 0;
  for (size_t i : by_place) {
    begins[i] = data_bytes;
    data_bytes += tensors[i].second.nbytes();
  }

  std::string text;
  try {
    if (!metadata.empty()) {
      text = nlohmann::ordered_json(metadata).dump();
      text = "{\"" + std::string(kMetadataKey) + "\":" + text;
    } else {
      text = "{";
    }
    // Entry by entry: an ordered_json object looks for each new key among all the old ones.
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      if (text.size() > 1) text += ',';
      nlohmann::ordered_json entry;
      for (const auto& [dtype_name, dtype] : kDTypeNames)
        if (dtype == tensor.dtype()) entry["dtype"] = dtype_name;
      entry["shape"] = tensor.sizes().vec();
      entry["data_offsets"] = {begins[i], begins[i] + tensor.nbytes()};
      text += nlohmann::json(name).dump() + ':' + entry.dump();
    }
  } catch (const nlohmann::json::exception&) {
    weft::detail::throw_error(kSaveSafetensors + ": '" + path +
                              "': a tensor's name or the metadata holds text that is not valid UTF-8");
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();
  WEFT_CHECK(header_bytes <= kMaxHeaderBytes, kSaveSafetensors, ": the header takes ", header_bytes,
             " bytes; at most ", kMaxHeaderBytes, " can be read again");

  OutputFile file(kSaveSafetensors, path);
  file.write(&header_bytes, sizeof header_bytes);
  file.write(text.data(), text.size());
  for (size_t i : by_place) {
    const Tensor data = contiguous_on_cpu(tensors[i].second);
    file.write(bytes_of(data), data.nbytes());
  }
  file.commit();
}

}  // namespace weft::io
