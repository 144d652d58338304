// Log: the numbers of a run, a line a step, for plots: CSV or JSON lines.
// Needs nn/io/file.h for its errors; the standard library otherwise.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::train {

// One number or text of a line.
struct LogValue {
  enum class Kind : uint8_t { Integer, Floating, Text };
  template <std::integral T>
  LogValue(T value) : kind(Kind::Integer), integer(static_cast<int64_t>(value)) {}  // NOLINT
  template <std::floating_point T>
  LogValue(T value) : kind(Kind::Floating), floating(static_cast<double>(value)) {}  // NOLINT
  LogValue(std::string value) : kind(Kind::Text), text(std::move(value)) {}          // NOLINT
  LogValue(const char* value) : LogValue(std::string(value)) {}                      // NOLINT

  Kind kind;  // which of the others counts; no std::variant, whose header is a fiftieth of weft.h
  int64_t integer = 0;
  double floating = 0;
  std::string text;
};

// train::Log log("run.csv"); log.write({{"step", i}, {"loss", loss.item<double>()}});
class Log {
 public:
  using Line = std::initializer_list<std::pair<std::string_view, LogValue>>;

  // A path that ends in ".jsonl" or ".json" gets an object a line, any other CSV under the names of the first line. What
  // the file held is replaced.  Errors: the file cannot be written.
  explicit Log(std::string path);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // The line is in the file when this returns, so that a run that dies leaves its log.
  // Errors: CSV, and other names than those of the first line; the disk's own.
  void write(Line line);

 private:
  std::string path_;
  bool is_json_;
  std::FILE* file_;
  std::vector<std::string> columns_;
};

}  // namespace weft::train
