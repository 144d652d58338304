// Numbering, writing, and the sections of the report.
// Place: the out-of-line half of compiler/runtime/debug_directory.h.
#include "compiler/runtime/debug_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tensor/base/log.h"

namespace weft::compiler {
namespace {

namespace fs = std::filesystem;

// Thrown where something cannot be written, and caught at the door.
struct CannotWrite {
  std::string path, reason;
};
[[noreturn]] void give_up(const fs::path& path) { throw CannotWrite{path.string(), std::strerror(errno)}; }

// "train.cpp:38" -> "train.cpp_38": of any name a file's.
std::string file_name_of(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    result += is_plain && !(result.empty() && c == '.') ? c : '_';
  }
  constexpr size_t kMostCharacters = 100;
  result.resize(std::min(result.size(), kMostCharacters));
  return result.empty() ? "function" : result;
}

void write_all(int file, const std::string& text, const fs::path& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(file);
      errno = error;
      give_up(path);
    }
    done += static_cast<size_t>(n);
  }
}

void write_file(const fs::path& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) give_up(path);
  write_all(file, text, path);
  ::close(file);
}

// The first free number, which this call then owns: "<parent>/007_what". Other threads and processes number likewise.
fs::path take_number(const fs::path& parent, const std::string& what, bool is_file) {
  // Whoever comes first leaves a file of the bare number, so that files and folders share one row of numbers.
  constexpr int kMostCompiles = 100000;
  for (int n = 1; n < kMostCompiles; ++n) {
    char number[16];
    std::snprintf(number, sizeof number, "%03d", n);
    const fs::path mark = parent / (std::string(".") + number);
    const int file = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) give_up(mark);
    ::close(file);
    fs::path result = parent / (std::string(number) + "_" + what + (is_file ? ".txt" : ""));
    if (!is_file && ::mkdir(result.c_str(), 0777) != 0) give_up(result);
    return result;
  }
  throw CannotWrite{parent.string(), "it is full of earlier compiles"};
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '&') result += "&amp;";
    else result += c;
  }
  return result;
}

// The end tags of a page are optional, so that a section can be added at its end without reading it.
constexpr const char* kPage =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Weft: what was "
    "compiled</title>\n"
    "<style>\n"
    "body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 110em; padding: 0 1em; color: #222; "
    "background: #fff }\n"
    "details { margin: .3em 0 .3em 1em } summary { cursor: pointer }\n"
    "body > details { border-left: 3px solid #4a7; padding-left: .6em; margin-left: 0 }\n"
    "body > details > summary { font-weight: bold }\n"
    "pre { font: 12px/1.4 monospace; background: #f5f5f2; padding: .8em; overflow-x: auto }\n"
    "@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b } pre { background: "
    "#262626 } }\n"
    "</style></head><body>\n<h1>What Weft compiled</h1>\n"
    "<p>One section for each graph, in the order of compilation: what was traced, what passes made of it, "
    "which "
    "loops became which kernels and why others did not, the code, and the steps of a call.</p>\n";

void add_to_report(const fs::path& directory, const std::string& title, const std::vector<DebugFile>& files) {
  std::string section = "<details><summary>" + escaped(title) + "</summary>\n";
  for (size_t i = 0; i < files.size(); ++i)
    section += std::string("<details") + (i == 0 ? " open" : "") + "><summary>" + escaped(files[i].name) +
               "</summary><pre>" + escaped(files[i].text) + "</pre></details>\n";
  section += "</details>\n";
  const fs::path path = directory / "report.html";
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) section = kPage + section;
  else if (errno == EEXIST) file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) give_up(path);
  write_all(file, section, path);
  ::close(file);
}

}  // namespace

bool has_debug_directory() {
  const char* directory = std::getenv("WEFT_DEBUG_DIR");
  return directory != nullptr && *directory != 0;
}

void write_debug_files(const std::string& function, const std::string& what, const std::string& title,
                       const std::vector<DebugFile>& files) {
  if (!has_debug_directory() || files.empty()) return;
  const fs::path directory = std::getenv("WEFT_DEBUG_DIR");
  try {
    const fs::path parent = directory / file_name_of(function);
    std::error_code error;
    fs::create_directories(parent, error);
    if (error) throw CannotWrite{parent.string(), error.message()};
    const bool is_file = files.size() == 1;
    const fs::path place = take_number(parent, file_name_of(what), is_file);
    for (const DebugFile& file : files)
      write_file(is_file ? place : place / file_name_of(file.name), file.text);
    add_to_report(directory, place.lexically_relative(directory).string() + ": " + title, files);
  } catch (const CannotWrite& failure) {
    warn_once("debug directory " + directory.string(), "WEFT_DEBUG_DIR: cannot write " + failure.path + ": " +
                                                           failure.reason +
                                                           "; what is compiled is not kept there");
  }
}

}  // namespace weft::compiler
