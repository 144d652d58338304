// CommandLine: the options of a tool. CLI11 stands behind it in one object file: its headers take ten seconds to compile.
// Needs nothing of Weft; the tools of tests/ and bench/ use it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::tests {

class CommandLine {
 public:
  explicit CommandLine(const std::string& description);
  ~CommandLine();

  // The values keep what they hold where the option is not given. An option that must be given names what it takes.
  void required(const std::string& name, std::string& value, const std::string& help);
  void option(const std::string& name, std::string& value, const std::string& help,
              const std::vector<std::string>& choices = {});
  void option(const std::string& name, int& positive, const std::string& help);
  // May be given several times; with a delimiter one argument may hold several values too.
  void list(const std::string& name, std::vector<std::string>& values, const std::string& help,
            char delimiter = '\0');
  void flag(const std::string& name, bool& value, const std::string& help);

  // The exit status where the tool is to end at once: --help was asked for, or an argument is wrong, which is printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace weft::tests
