// posix_spawn, whose cost does not grow with the memory of this process.
#include "compiler/codegen/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

namespace weft::compiler {
namespace {

// Of this process, but for the language of messages, which are read here.
std::vector<std::string> environment_of_tools() {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, "LC_", 3) != 0 && std::strncmp(*each, "LANG", 4) != 0) all.emplace_back(*each);
  }
  all.emplace_back("LC_ALL=C");
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}
Descriptor Descriptor::read(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}
Descriptor Descriptor::write(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write_file(const std::string& path, const std::string& text) {
  Descriptor file = Descriptor::write(path);
  size_t done = 0;
  while (file.is_open() && done < text.size()) {
    const ssize_t n = ::write(file.number(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  return file.is_open();
}

ChildProcess::ChildProcess(const Arguments& arguments, const Redirections& to) : name_(arguments.front()) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  const Descriptor* const given[] = {to.input, to.output, to.errors};
  for (int i = 0; i < 3; ++i) {
    if (given[i] != nullptr) ::posix_spawn_file_actions_adddup2(&actions, given[i]->number(), i);
    else ::posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
  }
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = arguments, environment = environment_of_tools();
  const int error = ::posix_spawnp(&id_, name_.c_str(), &actions, &attributes, pointers_to(words).data(),
                                   pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    id_ = -1;
    is_waited_ = true;
    failure_ = fmt::format("{} cannot be started: {}", name_, std::generic_category().message(error));
  }
}

ChildProcess::~ChildProcess() { wait(); }

const std::string& ChildProcess::wait() {
  if (is_waited_) return failure_;
  is_waited_ = true;
  int status = 0;
  pid_t got;
  do got = ::waitpid(id_, &status, 0);
  while (got < 0 && errno == EINTR);
  if (got != id_) {
    is_status_lost_ = true;
    failure_ = name_ + ": its exit status was taken by another part of this program";
  } else if (WIFSIGNALED(status)) {
    failure_ = fmt::format("{}: signal {}", name_, WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    failure_ = fmt::format("{}: exit status {}", name_, WEXITSTATUS(status));
  }
  return failure_;
}

Arguments with_status_file(const Arguments& arguments, const std::string& path) {
  Arguments all = {"/bin/sh", "-c", "file=$1; shift; \"$@\"; echo $? > \"$file\"", "sh", path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::string find_program(const std::string& name) {
  const auto is_program = [](const std::string& path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return is_program(name) ? name : std::string();
  const char* const list = std::getenv("PATH");
  std::string rest = list != nullptr ? list : "/usr/local/bin:/usr/bin:/bin";
  while (!name.empty()) {
    const size_t colon = rest.find(':');
    const std::string directory = rest.substr(0, colon);
    if (std::string path = (directory.empty() ? "." : directory) + "/" + name; is_program(path)) return path;
    if (colon == std::string::npos) break;
    rest.erase(0, colon + 1);
  }
  return {};
}

}  // namespace weft::compiler
