// Reporting of checks, of crashes too.
#include "tests/support/check_run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

namespace weft::tests {
namespace {

// What the handler of a crash can reach.
char current[256];
int passed, failed;

// Only async-signal-safe calls.
void report_crash(int signal) {
  char text[512];
  const int size = std::snprintf(text, sizeof text, "FAIL %s: crashed with signal %d\n%d passed, %d failed\n",
                                 current, signal, passed, failed + 1);
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text, static_cast<size_t>(size));
  _exit(1);
}

}  // namespace

CheckRun::CheckRun() {
  passed = failed = 0;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, report_crash);
}

void CheckRun::run(const std::string& name, const std::function<std::string()>& check) {
  std::snprintf(current, sizeof current, "%s", name.c_str());
  std::string text;
  try {
    text = check();
  } catch (const std::exception& error) {
    text = error.what();
    if (text.empty()) text = "an exception without a text";
  }
  if (text.empty()) {
    ++passed;
    return;
  }
  ++failed;
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cout << "FAIL " << name << ": " << text << std::endl;
}

int CheckRun::finish() const {
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

bool CheckRun::is_empty() const { return passed + failed == 0; }

}  // namespace weft::tests
