// Log: how a line is spelled in CSV and in JSON.
#include "nn/train/log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nn/io/file.h"

namespace weft::train {

namespace {

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

std::string json_text(const std::string& text) {
  // Text that is not UTF-8 must not end a run.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The shortest text that reads back as the same number.
std::string spell(const LogValue& value, bool json) {
  switch (value.kind) {
    case LogValue::Kind::Integer: return std::to_string(value.integer);
    case LogValue::Kind::Floating:  // JSON has neither NaN nor infinity
      return json && !std::isfinite(value.floating) ? "null" : fmt::format("{}", value.floating);
    case LogValue::Kind::Text: break;
  }
  return json ? json_text(value.text) : csv_text(value.text);
}

}  // namespace

Log::Log(std::string path)
    : path_(std::move(path)), is_json_(path_.ends_with(".jsonl") || path_.ends_with(".json")) {
  file_ = std::fopen(path_.c_str(), "we");
  if (file_ == nullptr) io::throw_errno("log", "write", path_, errno);
}

Log::~Log() { std::fclose(file_); }

void Log::write(Line line) {
  std::string text;
  if (is_json_) {
    for (const auto& [name, value] : line) {
      text += text.empty() ? "{" : ", ";
      text += json_text(std::string(name)) + ": " + spell(value, true);
    }
    text += text.empty() ? "{}\n" : "}\n";
  } else {
    if (columns_.empty()) {
      for (const auto& [name, value] : line) {
        if (!columns_.empty()) text += ',';
        text += csv_text(std::string(name));
        columns_.emplace_back(name);
      }
      text += '\n';
    }
    size_t c = 0;
    for (const auto& [name, value] : line) {
      WEFT_CHECK(c < columns_.size() && columns_[c] == name, "log: '", path_, "' has ",
                 c < columns_.size() ? "'" + columns_[c] + "'" : "no more columns", " at place ", c + 1,
                 ", not '", name, "'; a CSV log keeps the names of its first line (a .jsonl log need not)");
      if (c++ > 0) text += ',';
      text += spell(value, false);
    }
    WEFT_CHECK(c == columns_.size(), "log: '", path_, "' has ", columns_.size(), " columns, but this line ",
               c);
    text += '\n';
  }
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    io::throw_errno("log", "write", path_, errno);
}

}  // namespace weft::train
