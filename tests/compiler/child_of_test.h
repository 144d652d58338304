// Runs part of a test in a child process: what another process sees, what a kill leaves, what a limit forbids.
// Needs POSIX. The child must not use what the parent's threads may hold: it calls the code under test and leaves.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

namespace weft::testing {

using namespace ::testing;  // `testing::Test` in namespace weft is still that of GoogleTest

// The child's process id. `body` says by true that all went well there.
inline pid_t start_child(const std::function<bool()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  bool is_well = false;
  try {
    is_well = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in the child: %s\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(is_well ? 0 : 1);
}

inline bool child_is_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

inline bool in_child(const std::function<bool()>& body) { return child_is_well(start_child(body)); }

// All at once; how many went well.
inline int in_children(int count, const std::function<bool(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) children.push_back(start_child([&] { return body(i); }));
  int well = 0;
  for (const pid_t child : children) well += child_is_well(child);
  return well;
}

}  // namespace weft::testing
