// NumPy's .npy files: the header is a Python dictionary of three known keys, read by a parser for just that.
#include "nn/io/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "nn/io/file.h"
#include "nn/io/tensor_bytes.h"
#include "tensor/dispatch.h"

namespace weft::io {

namespace {

const std::string kLoadNpy = "load_npy";
const std::string kSaveNpy = "save_npy";
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMaxNpyHeaderBytes = 1'000'000;

struct Descriptor {
  const char* text;
  DType dtype;
};
constexpr std::array<Descriptor, 9> kDescriptors = {{{"<f8", kFloat64},
                                                     {"<f4", kFloat32},
                                                     {"<f2", kFloat16},
                                                     {"<i8", kInt64},
                                                     {"<i4", kInt32},
                                                     {"<i2", kInt16},
                                                     {"|i1", kInt8},
                                                     {"|u1", kUInt8},
                                                     {"|b1", kBool}}};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order and spacing.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !header.descr) header.descr = string();
      else if (key == "fortran_order" && !header.fortran_order) header.fortran_order = boolean();
      else if (key == "shape" && !header.shape) header.shape = tuple();
      else fail(weft::detail::concat("the key ", in_quotes(key), " is unknown or given twice"));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("text follows the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape)
      fail("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    weft::detail::throw_error(weft::detail::concat(kLoadNpy, ": '", path_,
                                                   "': the header is malformed at character ", at_, ": ",
                                                   what, "; it reads ", in_quotes(text_)));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(weft::detail::concat("'", c, "' is expected"));
  }
  bool accept_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  std::string string() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a quoted text is expected (structured dtypes are not read)");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("the quoted text does not end");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) fail("True or False is expected");
    return false;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("a size is expected");
      if (sizes.size() == kMaxFileRank) fail(weft::detail::concat("more than ", kMaxFileRank, " dimensions"));
      sizes.push_back(size);
      at_ = static_cast<size_t>(end - text_.data());
      accept_word("L");  // long integers of Python 2
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  const std::string& path_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Tensor load_npy(const std::string& path) {
  const InputFile file(kLoadNpy, path);
  unsigned char start[12] = {};
  const size_t start_bytes = std::min<uint64_t>(file.size(), sizeof start);
  file.read(0, start, start_bytes);
  WEFT_CHECK(start_bytes >= 10 && std::memcmp(start, kMagic.data(), kMagic.size()) == 0, kLoadNpy, ": '",
             path, "' does not begin with \"\\x93NUMPY\"; it is no .npy file");
  const int version = start[6];
  WEFT_CHECK(version >= 1 && version <= 3, kLoadNpy, ": '", path, "' has version ", version,
             " of the format; 1 to 3 are read");
  const uint64_t begin = version == 1 ? 10 : 12;
  uint64_t header_bytes = start[8] | uint64_t{start[9]} << 8;
  if (version > 1) header_bytes |= uint64_t{start[10]} << 16 | uint64_t{start[11]} << 24;
  WEFT_CHECK(begin + header_bytes <= file.size() && header_bytes <= kMaxNpyHeaderBytes, kLoadNpy, ": '", path,
             "': the header is said to have ", header_bytes, " bytes, but the file has ",
             file.size() - std::min(begin, file.size()), " after its length (and at most ",
             kMaxNpyHeaderBytes, " are read)");
  std::string text(header_bytes, '\0');
  file.read(begin, text.data(), text.size());
  Header header = HeaderParser(path, text).parse();

  std::optional<DType> dtype;
  std::string descr = *header.descr;
  if (!descr.empty() && descr[0] == '=') descr[0] = '<';
  for (const Descriptor& d : kDescriptors)
    if (descr == d.text || (d.text[0] == '|' && descr.size() == 3 && descr.substr(1) == d.text + 1))
      dtype = d.dtype;
  WEFT_CHECK(dtype.has_value(), kLoadNpy, ": '", path, "' holds the dtype ", in_quotes(*header.descr),
             "; known are <f8, <f4, <f2, <i8, <i4, <i2, |i1, |u1, |b1: convert the array with astype() "
             "before saving it");

  std::vector<int64_t>& sizes = *header.shape;
  const uint64_t data_begin = begin + header_bytes;
  const std::optional<uint64_t> bytes = checked_bytes(sizes, *dtype);
  WEFT_CHECK(bytes && *bytes == file.size() - data_begin, kLoadNpy, ": '", path, "' holds ",
             shape_text(sizes), " ", *dtype, ", which takes ",
             bytes ? std::to_string(*bytes) : "more than 2^63", " bytes, but ", file.size() - data_begin,
             " follow the header");

  Tensor result = make_tensor(SymList(sizes), *dtype);
  if (!*header.fortran_order || sizes.size() < 2) {
    file.read(data_begin, bytes_of(result), *bytes);
  } else {
    // The bytes are the transposed array in rows: read them so, then walk them through turned strides.
    const Tensor turned = make_tensor(SymList(std::vector<int64_t>(sizes.rbegin(), sizes.rend())), *dtype);
    file.read(data_begin, bytes_of(turned), *bytes);
    Layout<Sym> layout = turned->layout;
    std::reverse(layout.sizes.begin(), layout.sizes.end());
    std::reverse(layout.strides.begin(), layout.strides.end());
    copy_data(make_view(turned, layout), result);
  }
  check_bools(result, [&] { return weft::detail::concat(kLoadNpy, ": '", path, "'"); });
  return result;
}

void save_npy(const std::string& path, const Tensor& x) {
  WEFT_CHECK(x.defined(), kSaveNpy, ": the tensor for '", path, "' is undefined");
  WEFT_CHECK(!x.is_fake(), kSaveNpy, ": the tensor for '", path,
             "' belongs to a trace and has no data; save outside the compiled function");
  const char* descr = nullptr;
  for (const Descriptor& d : kDescriptors)
    if (d.dtype == x.dtype()) descr = d.text;
  WEFT_CHECK(descr != nullptr, kSaveNpy, ": NumPy has no ", x.dtype(), "; convert to float32 first, for '",
             path, "'");

  std::string text = weft::detail::concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (int64_t size : x.sizes().vec()) text += std::to_string(size) + ", ";
  if (x.dim() > 1) text.resize(text.size() - 2);
  if (x.dim() == 1) text.pop_back();
  text += "), }";
  // The data begins at a multiple of 64 bytes, and a newline ends the header.
  const size_t length = (10 + text.size() + 1 + 63) / 64 * 64 - 10;
  text.resize(length - 1, ' ');
  text += '\n';
  WEFT_CHECK(length <= 0xFFFF, kSaveNpy, ": a header for ", x.dim(),
             " dimensions does not fit version 1 of the format");

  const Tensor data = contiguous_on_cpu(x);
  OutputFile file(kSaveNpy, path);
  const char start[4] = {1, 0, static_cast<char>(length & 0xFF), static_cast<char>(length >> 8)};
  file.write(kMagic.data(), kMagic.size());
  file.write(start, sizeof start);
  file.write(text.data(), text.size());
  file.write(bytes_of(data), data.nbytes());
  file.commit();
}

}  // namespace weft::io
