// CommandLine over CLI11.
#include "tests/support/command_line.h"

#include <CLI/CLI.hpp>

namespace weft::tests {

struct CommandLine::Parser {
  CLI::App app;
};

CommandLine::CommandLine(const std::string& description) : parser_(new Parser{CLI::App(description)}) {}
CommandLine::~CommandLine() = default;

void CommandLine::required(const std::string& name, std::string& value, const std::string& help) {
  parser_->app.add_option(name, value, help)->required();
}
void CommandLine::option(const std::string& name, std::string& value, const std::string& help,
                         const std::vector<std::string>& choices) {
  CLI::Option* const option = parser_->app.add_option(name, value, help);
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}
void CommandLine::option(const std::string& name, int& positive, const std::string& help) {
  parser_->app.add_option(name, positive, help)->check(CLI::PositiveNumber);
}
void CommandLine::list(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       char delimiter) {
  CLI::Option* const option = parser_->app.add_option(name, values, help);
  if (delimiter != '\0') option->delimiter(delimiter);
}
void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  parser_->app.add_flag(name, value, help);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return parser_->app.exit(end);
  }
  return std::nullopt;
}

}  // namespace weft::tests
