// Programs started without a shell, their end waited for.
// Needs POSIX. Place: under cpu_toolchain and cpu_compiler, which run a compiler, an assembler and a linker.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::compiler {

using Arguments = std::vector<std::string>;

// A file descriptor that is closed with its owner. Closed as well in programs that are started.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = other.number_;
      other.number_ = -1;
    }
    return *this;
  }
  ~Descriptor() { close(); }
  void close();
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

  static Descriptor read(const std::string& path);
  static Descriptor write(const std::string& path);  // made anew, for the user alone

 private:
  int number_ = -1;
};

// The whole file; empty where it cannot be read.
std::string read_file(const std::string& path);
// False where it cannot be written.
bool write_file(const std::string& path, const std::string& text);

// Where a program's descriptors 0, 1 and 2 go; those that are not given go to /dev/null.
struct Redirections {
  const Descriptor* input = nullptr;
  const Descriptor* output = nullptr;
  const Descriptor* errors = nullptr;
};

class ChildProcess {
 public:
  // Starts arguments[0], which is a path or a name on PATH. Messages come in English, signals in their default state.
  ChildProcess(const Arguments& arguments, const Redirections& to);
  // Waits, if wait() was not called.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // How it ended, in words; empty when well: "exit status 1", "signal 9", "cannot be started: No such file or directory".
  const std::string& wait();
  // The program has ended, but someone else has heard how: the user's program ignores SIGCHLD or waits for every child.
  bool is_status_lost() const { return is_status_lost_; }

 private:
  std::string name_;
  pid_t id_ = -1;
  std::string failure_;
  bool is_waited_ = false;
  bool is_status_lost_ = false;
};

// The same program run by a shell that writes its exit status into a file: for when the status would be lost.
Arguments with_status_file(const Arguments& arguments, const std::string& path);

// The path of a program: the name itself if it has a slash, else the first on PATH. Empty where it is not there.
std::string find_program(const std::string& name);

}  // namespace weft::compiler
