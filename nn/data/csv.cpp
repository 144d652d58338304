// Reading tables of numbers: one pass over the bytes, without an object per line or field.
#include "nn/data/csv.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "nn/io/file.h"
#include "nn/io/tensor_bytes.h"
#include "tensor/dispatch.h"

namespace weft::data {

namespace {

const std::string kReadCsv = "read_csv";

bool is_space(char c) { return c == ' ' || c == '\t'; }

// Where a number that no double holds lies: true above all of them, false near zero. The text is a valid number.
bool is_too_large(const char* at, const char* end) {
  int64_t digits_before_point = 0;  // of the first digit that is not zero; negative after the point
  bool seen_point = false, seen_digit = false;
  for (; at != end && *at != 'e' && *at != 'E'; ++at) {
    if (*at == '.') seen_point = true;
    else if (*at >= '0' && *at <= '9') {
      if (*at != '0') seen_digit = true;
      if (seen_digit && !seen_point) ++digits_before_point;
      if (!seen_digit && seen_point) --digits_before_point;
    }
  }
  const bool negative_exponent = at != end && at + 1 != end && at[1] == '-';
  int64_t exponent = 0;
  for (; at != end; ++at)
    if (*at >= '0' && *at <= '9')
      exponent = std::min<int64_t>(exponent * 10 + (*at - '0'), 1'000'000'000'000);
  return digits_before_point + (negative_exponent ? -exponent : exponent) > 0;
}

template <class T>
class Reader {
 public:
  Reader(const std::string& path, std::string_view text, const CsvOptions& options)
      : path_(path),
        options_(options),
        delimiter_(options.delimiter()),
        at_(text.data()),
        end_(text.data() + text.size()),
        line_start_(at_) {}

  Tensor read() {
    if (end_ - at_ >= 3 && std::memcmp(at_, "\xEF\xBB\xBF", 3) == 0) at_ += 3;
    line_start_ = at_;
    skip_empty_lines();
    WEFT_CHECK(at_ != end_, kReadCsv, ": '", path_, "' is empty; a table has at least one line");
    columns_ = count_fields();
    if (options_.header()) {
      skip_line();
      skip_empty_lines();
    }
    // An upper bound that no file can inflate: a row takes a character a field, and one between them or at the end.
    const int64_t lines = std::count(at_, end_, '\n') + (at_ != end_ && end_[-1] != '\n');
    const int64_t bound = std::min<int64_t>(lines, (end_ - at_ + 1) / (2 * columns_));
    Tensor table = make_tensor({Sym::from_int(bound), Sym::from_int(columns_)}, dtype_of<T>);
    T* to = data_of<T>(table);
    int64_t rows = 0;
    for (; at_ != end_; skip_empty_lines(), ++rows, to += columns_) {
      if (rows == bound) {
        // Too few characters are left for a whole row: reading it fails, and says how.
        std::vector<T> row(static_cast<size_t>(columns_));
        read_row(row.data());
        WEFT_ASSERT(false, "more rows than the bound of ", bound);
      }
      read_row(to);
    }
    if (rows == bound) return table;
    Tensor exact = make_tensor({Sym::from_int(rows), Sym::from_int(columns_)}, dtype_of<T>);
    std::memcpy(data_of<T>(exact), data_of<T>(table), exact.nbytes());
    return exact;
  }

 private:
  // ---- Lines
  void start_line() {
    ++line_;
    line_start_ = at_;
  }
  bool at_line_end() const {
    return at_ == end_ || *at_ == '\n' || (*at_ == '\r' && (at_ + 1 == end_ || at_[1] == '\n'));
  }
  // Past the end of the line, if one is here.
  bool accept_line_end() {
    if (!at_line_end()) return false;
    if (at_ != end_ && *at_ == '\r') ++at_;
    if (at_ != end_) {
      ++at_;
      start_line();
    }
    return true;
  }
  void skip_empty_lines() {
    while (at_ != end_ && accept_line_end()) {
    }
  }
  const char* line_end() const {
    const void* found = std::memchr(at_, '\n', static_cast<size_t>(end_ - at_));
    const char* stop = found ? static_cast<const char*>(found) : end_;
    return stop != at_ && stop[-1] == '\r' ? stop - 1 : stop;
  }
  void skip_line() {
    at_ = line_end();
    accept_line_end();
  }
  // Of the line that begins here; a delimiter within quotes does not count.
  int64_t count_fields() const {
    int64_t fields = 1;
    bool quoted = false;
    for (const char *p = at_, *stop = line_end(); p != stop; ++p) {
      if (*p == '"') quoted = !quoted;
      else if (*p == delimiter_ && !quoted) ++fields;
    }
    return fields;
  }

  // ---- Fields
  void read_row(T* to) {
    const char* const row = at_;
    for (int64_t c = 0; c < columns_; ++c) {
      to[c] = read_number();
      if (c + 1 < columns_) {
        if (at_ == end_ || *at_ != delimiter_) [[unlikely]]
          fail_row(row);
        ++at_;
      }
    }
    if (!accept_line_end()) fail_row(row);
  }

  // Whole numbers of a few digits, most fields of most tables, need no general parser.
  T read_number() {
    const char* p = at_;
    const bool negative = p != end_ && *p == '-';
    p += negative;
    uint32_t digits = 0;
    const char* const first = p;
    while (p != end_ && static_cast<unsigned char>(*p - '0') < 10 && p - first < 7)
      digits = digits * 10 + static_cast<uint32_t>(*p++ - '0');
    if (p != first && p != end_ && (*p == delimiter_ || *p == '\n')) {
      at_ = p;
      const T value = static_cast<T>(digits);  // below 10^7: exact
      return negative ? -value : value;
    }
    return read_general_number();
  }

  T read_general_number() {
    while (at_ != end_ && is_space(*at_) && *at_ != delimiter_) ++at_;
    const char* const field = at_;
    const bool quoted = at_ != end_ && *at_ == '"';
    if (quoted) ++at_;
    while (quoted && at_ != end_ && is_space(*at_)) ++at_;
    const char* first = at_;
    if (first != end_ && *first == '+' && first + 1 != end_ && first[1] != '-') ++first;
    T value{};
    const auto [stop, error] = std::from_chars(first, end_, value);
    if (error == std::errc::invalid_argument) fail_number(field);
    if (error == std::errc::result_out_of_range) value = out_of_range(field, first, stop);
    at_ = stop;
    while (at_ != end_ && is_space(*at_) && *at_ != delimiter_) ++at_;
    if (quoted) {
      if (at_ == end_ || *at_ != '"') fail_number(field);
      ++at_;
      while (at_ != end_ && is_space(*at_) && *at_ != delimiter_) ++at_;
    }
    if (!at_line_end() && *at_ != delimiter_) fail_number(field);
    return value;
  }

  T out_of_range(const char* field, const char* first, const char* stop) const {
    if (is_too_large(first, stop))
      weft::detail::throw_error(
          weft::detail::concat(place(field), io::in_quotes(field_text(field)), " does not fit ", dtype_of<T>,
                               ", whose largest number is ", std::numeric_limits<T>::max()));
    // Rounds once where a wider type holds it, so that the largest subnormals are right.
    long double wide = 0;
    std::from_chars(first, stop, wide);
    const T value = static_cast<T>(wide);
    return *first == '-' ? -std::abs(value) : value;
  }

  // ---- Errors
  std::string place(const char* where) const {
    return weft::detail::concat(kReadCsv, ": ", path_, ":", line_, ":", where - line_start_ + 1, ": ");
  }
  std::string_view field_text(const char* field) const {
    const char* stop = field;
    const char* const line_stop = line_end();
    bool quoted = false;
    for (; stop < line_stop && (*stop != delimiter_ || quoted); ++stop)
      if (*stop == '"') quoted = !quoted;
    while (stop != field && is_space(stop[-1])) --stop;
    return {field, static_cast<size_t>(stop - field)};
  }
  [[noreturn]] void fail_number(const char* field) const {
    const std::string_view text = field_text(field);
    std::string what = text.empty() ? "the field is empty; it should hold a number"
                                    : io::in_quotes(text.substr(0, 60)) + " is not a number";
    if (line_ == 1 && !options_.header() && !text.empty())
      what += "; if the first line names the columns, set CsvOptions().header(true)";
    weft::detail::throw_error(place(field) + what);
  }
  // A row with another number of fields than the first line.
  [[noreturn]] void fail_row(const char* row) {
    at_ = row;
    const int64_t fields = count_fields();
    weft::detail::throw_error(weft::detail::concat(
        place(line_end()), "the line has ", fields, fields == 1 ? " field" : " fields",
        ", but the first line has ", columns_, ": ",
        io::in_quotes(std::string_view(at_, static_cast<size_t>(line_end() - at_)).substr(0, 60))));
  }

  const std::string& path_;
  const CsvOptions& options_;
  const char delimiter_;
  const char* at_;
  const char* const end_;
  const char* line_start_;
  int64_t line_ = 1;
  int64_t columns_ = 0;
};

}  // namespace

Tensor read_csv(const std::string& path, const CsvOptions& options) {
  WEFT_CHECK(options.dtype() == kFloat32 || options.dtype() == kFloat64, kReadCsv, ": the dtype is ",
             options.dtype(), "; tables are read as float32 or float64, and the tensor's to() converts");
  const char d = options.delimiter();
  WEFT_CHECK(d != '"' && d != '\n' && d != '\r' && d != '.' && d != '-' && d != '+' &&
                 !std::isalnum(static_cast<unsigned char>(d)),
             kReadCsv, ": the delimiter ", io::in_quotes({&d, 1}), " may be a part of a field");
  const io::InputFile file(kReadCsv, path);
  const std::unique_ptr<char[]> bytes = file.read_all();
  const std::string_view text(bytes.get(), file.size());
  return options.dtype() == kFloat32 ? Reader<float>(path, text, options).read()
                                     : Reader<double>(path, text, options).read();
}

}  // namespace weft::data
