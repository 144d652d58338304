// Asks the driver what it would do, and the loader which libraries this process has.
#include "compiler/codegen/cpu_toolchain.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <sstream>

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace weft::compiler {
namespace {

// What values depend on is as for the library's own kernels; what a distribution may have switched on for all programs is
// switched off.
const Arguments kFlags = {"-std=c++20",
                          "-O2",
                          "-w",
                          "-fPIC",
                          "-fwrapv",
                          "-ffp-contract=off",
                          "-fno-math-errno",
                          "-fno-exceptions",
                          "-fno-rtti",
                          "-fno-semantic-interposition",
                          "-fno-stack-protector",
                          "-fcf-protection=none"};

// Note [Passes of g++ that kernels need]
// Generated code is vectors already, has no common subexpressions and no calls worth cloning. Of -O3 it needs that loops over
// lanes are unrolled whole, which -fpeel-loops allows (without it a gather takes 2.4 times as long, a transpose 1.6 times);
// what finds nothing in it is left out. Over 13 kernels (norms, softmax, GELU, Adam, pow, gather, random words, …) on AVX-512
// that takes 22 % less than -O3 to compile, at 0.999 of its run time, 1.06 at worst; -O1 would save 35 % at 1.14.
const Arguments kGnuFlags = {"-fpeel-loops",
                             "-fno-gcse",
                             "-fno-tree-pre",
                             "-fno-code-hoisting",
                             "-fno-tree-vrp",
                             "-fno-tree-loop-vectorize",
                             "-fno-schedule-insns2",
                             "-fno-thread-jumps",
                             "-fno-tree-tail-merge",
                             "-fno-crossjumping",
                             "-fno-ipa-cp",
                             "-fno-ipa-sra",
                             "-fno-ipa-icf",
                             "-fno-partial-inlining",
                             "-fno-ree",
                             "-fno-gnu-unique"};  // the last one: or it could not be unloaded

void append(Arguments& to, const Arguments& more) { to.insert(to.end(), more.begin(), more.end()); }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string resolved_path(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) != nullptr ? std::string(buffer) : path;
}

Arguments split_words(const std::string& text) {
  std::istringstream in(text);
  Arguments words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The words of a command as -### prints it: some in double quotes, in which a backslash protects a character.
Arguments split_command(const std::string& line) {
  Arguments words;
  std::string word;
  bool is_quoted = false, has_word = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      has_word = true;
    } else if (c == '"') {
      is_quoted = !is_quoted;
      has_word = true;
    } else if (c == ' ' && !is_quoted) {
      if (has_word) words.push_back(word);
      word.clear();
      has_word = false;
    } else {
      word += c;
      has_word = true;
    }
  }
  if (has_word) words.push_back(word);
  return words;
}

// ---- The libraries of this process

// The file of the shared library that a function lies in; empty where that is the program itself.
std::string library_of(const void* function) {
  Dl_info info;
  if (function == nullptr || ::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  return path.find('/') != std::string::npos && base_name(path).find(".so") != std::string::npos
             ? path
             : std::string();
}

#ifdef _OPENMP
// A library of OpenMP offers its functions to the code of one compiler or of both (LLVM's has GNU's as well).
bool has_function(const std::string& library, const char* name) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const bool is_there = ::dlsym(handle, name) != nullptr;
  ::dlclose(handle);
  return is_there;
}
#endif

// Kernels must meet the threads that the process has, not bring an OpenMP of their own: they are linked with the file that
// is loaded, and its name is then found loaded already.
void add_libraries(CpuToolchain& toolchain, bool is_clang) {
#ifdef _OPENMP
  const std::string openmp = library_of(reinterpret_cast<const void*>(&::omp_get_max_threads));
  const char* const entry = is_clang ? "__kmpc_fork_call" : "GOMP_parallel";
  if (openmp.empty()) {
    toolchain.note =
        "OpenMP is part of the program and cannot be reached from a library: kernels use one thread";
  } else if (!has_function(openmp, entry)) {
    toolchain.note = fmt::format("{} lacks {}, which code of {} calls: kernels use one thread", openmp, entry,
                                 toolchain.driver.front());
  } else {
    toolchain.has_openmp = true;
    toolchain.flags.push_back("-fopenmp");
    toolchain.libraries.push_back(openmp);
  }
#else
  static_cast<void>(is_clang);
#endif
  for (const char* function : {"cosf", "memcpy"}) {
    const std::string library = library_of(::dlsym(RTLD_DEFAULT, function));
    if (!library.empty() && std::find(toolchain.libraries.begin(), toolchain.libraries.end(), library) ==
                                toolchain.libraries.end())
      toolchain.libraries.push_back(library);
  }
}

void choose_flags(CpuToolchain& toolchain, cpu::Isa isa, bool is_clang) {
  toolchain.flags = kFlags;
  append(toolchain.flags, flags_of(isa));
  if (!is_clang) append(toolchain.flags, kGnuFlags);
  toolchain.libraries.clear();
  toolchain.note.clear();
  toolchain.has_openmp = false;
  add_libraries(toolchain, is_clang);
}

// ---- What is asked of the driver

std::string stderr_of(const Arguments& command, uint64_t& started) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  Descriptor from(ends[0]), to(ends[1]);
  ++started;
  ChildProcess process(command, {nullptr, nullptr, &to});
  to.close();
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(from.number(), buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  return text;  // how it ended does not matter: it says what is looked for, or not
}

std::string line_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) == std::string::npos) continue;
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
  }
  return {};
}

void replace_output(Arguments& command, const std::string& output) {
  const auto option = std::find(command.begin(), command.end(), "-o");
  if (option != command.end() && option + 1 != command.end()) *(option + 1) = output;
}
void remove_output(Arguments& command) {
  const auto option = std::find(command.begin(), command.end(), "-o");
  if (option != command.end() && option + 1 != command.end()) command.erase(option, option + 2);
}

// The steps, out of what g++ -### -pipe says: " /…/cc1plus … - … -o - |", " as --64 -o /tmp/x.o", " /…/collect2 …".
void read_steps(CpuToolchain& toolchain, const std::string& text) {
  Arguments compile, assemble, search;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() != ' ') continue;
    Arguments words = split_command(line);
    if (words.empty()) continue;
    const std::string name = base_name(words.front());
    if (words.back() == "|") words.pop_back();
    if (name == "cc1plus") compile = words;
    else if (name == "as") assemble = words;
    else if (name == "collect2" || name == "ld")
      std::copy_if(words.begin(), words.end(), std::back_inserter(search),
                   [](const std::string& word) { return word.rfind("-L", 0) == 0; });
  }
  if (!compile.empty() && find_program(compile.front()).empty()) {
    toolchain.unavailable =
        fmt::format("{} has no {}: its C++ part is not installed", toolchain.driver.front(), compile.front());
    return;
  }
  if (compile.empty() || assemble.empty()) return;
  replace_output(compile, "-");
  remove_output(assemble);
  const std::string assembler = find_program(assemble.front());
  // The linker beside the assembler: collect2, which would look for it, is a step more.
  const std::string linker = assemble.front().find('/') != std::string::npos
                                 ? find_program(assembler.substr(0, assembler.rfind('/')) + "/ld")
                                 : find_program("ld");
  if (assembler.empty() || linker.empty()) return;
  assemble.front() = assembler;
  toolchain.compile = compile;
  toolchain.assemble = assemble;
  toolchain.link = {linker, "-shared", "-Bsymbolic", "--eh-frame-hdr", "--hash-style=gnu", "--as-needed"};
  toolchain.link_libraries = search;
}

// ---- What is kept of the answer

struct FileState {
  int64_t size = -1, seconds = 0, nanoseconds = 0;
  bool operator==(const FileState&) const = default;
};
FileState state_of(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}
std::string to_string(const FileState& state) {
  return fmt::format("{} {} {}", state.size, state.seconds, state.nanoseconds);
}

// Whether the same question has the same answer: the program, and what decides where it looks for its parts.
CacheKey key_of_answer(const CpuToolchain& toolchain, cpu::Isa isa) {
  const std::string real = resolved_path(toolchain.driver.front());
  CacheKey key("compiler");
  key.add("program",
          fmt::format("{}\n{}\n{}", fmt::join(toolchain.driver, "\n"), real, to_string(state_of(real))));
  for (const char* name : {"PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH"}) {
    const char* const value = std::getenv(name);
    key.add(name, value != nullptr ? value : "");
  }
  key.add("isa", name_of(isa));
  key.add("flags", fmt::format("{}\n{}", fmt::join(kFlags, "\n"), fmt::join(kGnuFlags, "\n")));
#ifdef _OPENMP
  key.add("openmp", library_of(reinterpret_cast<const void*>(&::omp_get_max_threads)));
#endif
  return key;
}

// One word a line, after the letter of its list.
std::string write_answer(const CpuToolchain& toolchain) {
  std::string text;
  const auto put = [&text](char list, const Arguments& words) {
    for (const std::string& word : words) text += fmt::format("{} {}\n", list, word);
  };
  put('v', {toolchain.version});
  put('f', toolchain.flags);
  put('l', toolchain.libraries);
  put('n', {toolchain.note});
  put('o', {toolchain.has_openmp ? "1" : "0"});
  put('c', toolchain.compile);
  put('a', toolchain.assemble);
  put('k', toolchain.link);
  put('s', toolchain.link_libraries);
  for (const Arguments* step : {&toolchain.compile, &toolchain.assemble, &toolchain.link}) {
    if (!step->empty()) text += fmt::format("t {} {}\n", to_string(state_of(step->front())), step->front());
  }
  return text;
}

// False where a program has changed since.
bool read_answer(CpuToolchain& toolchain, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 2) return false;
    const std::string word = line.substr(2);
    switch (line.front()) {
      case 'v': toolchain.version = word; break;
      case 'f': toolchain.flags.push_back(word); break;
      case 'l': toolchain.libraries.push_back(word); break;
      case 'n': toolchain.note = word; break;
      case 'o': toolchain.has_openmp = word == "1"; break;
      case 'c': toolchain.compile.push_back(word); break;
      case 'a': toolchain.assemble.push_back(word); break;
      case 'k': toolchain.link.push_back(word); break;
      case 's': toolchain.link_libraries.push_back(word); break;
      case 't': {
        std::istringstream fields(word);
        FileState then;
        fields >> then.size >> then.seconds >> then.nanoseconds;
        fields.get();
        std::string path;
        std::getline(fields, path);
        if (!fields || state_of(path) != then) return false;
        break;
      }
      default: return false;
    }
  }
  return !toolchain.version.empty();
}

}  // namespace

Arguments flags_of(cpu::Isa isa) {
  Arguments avx2 = {"-mavx2", "-mfma", "-mf16c", "-mbmi2"};
  switch (isa) {
    case cpu::Isa::SSE4: return {"-msse4.2"};
    case cpu::Isa::AVX2: return avx2;
    case cpu::Isa::AVX512: break;
  }
  Arguments flags = {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512cd"};
  append(flags, avx2);
  flags.push_back("-mprefer-vector-width=512");
  return flags;
}

Arguments CpuToolchain::driver_command(const std::string& output) const {
  Arguments command = driver;
  append(command, flags);
  append(command,
         {"-x", "c++", "-", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,--as-needed", "-o", output});
  if (!libraries.empty()) append(command, {"-x", "none"});
  append(command, libraries);
  command.push_back("-lgcc");
  return command;
}

Arguments CpuToolchain::assemble_command(const std::string& object) const {
  Arguments command = assemble;
  append(command, {"-o", object});
  return command;
}

Arguments CpuToolchain::link_command(const std::string& object, const std::string& output) const {
  Arguments command = link;
  append(command, {"-o", output, object});
  append(command, libraries);
  append(command, link_libraries);
  command.push_back("-lgcc");
  return command;
}

CacheKey CpuToolchain::key() const {
  // Names of libraries, not paths: their names are what a library of kernels holds of them.
  Arguments names;
  for (const std::string& library : libraries) names.push_back(base_name(library));
  Arguments words(driver.begin() + 1, driver.end());
  append(words, flags);
  CacheKey key("cpu kernel");
  key.add("compiler", version).add("flags", fmt::format("{}", fmt::join(words, "\n")));
  key.add("libraries", fmt::format("{}\n{}", ::gnu_get_libc_version(), fmt::join(names, "\n")));
  return key;
}

CpuToolchain find_cpu_toolchain(const std::string& command, cpu::Isa isa, DiskCache& cache,
                                uint64_t& started) {
  CpuToolchain toolchain;
  if (!command.empty()) {
    // A path with spaces in it, or a program with arguments.
    toolchain.driver = find_program(command).empty() ? split_words(command) : Arguments{command};
    const std::string program = toolchain.driver.empty() ? "" : find_program(toolchain.driver.front());
    if (program.empty()) {
      toolchain.unavailable = fmt::format("WEFT_CXX={}: there is no such program", command);
      return toolchain;
    }
    toolchain.driver.front() = program;
  } else {
    for (const char* name : {"c++", "g++", "clang++"}) {
      const std::string program = find_program(name);
      if (program.empty()) continue;
      toolchain.driver = {program};
      break;
    }
    if (toolchain.driver.empty()) {
      toolchain.unavailable =
          "no C++ compiler is on PATH: c++, g++ and clang++ are not there, and WEFT_CXX is not set";
      return toolchain;
    }
  }

  const CacheKey key = key_of_answer(toolchain, isa);
  if (const auto kept = cache.load(key)) {
    CpuToolchain answer;
    answer.driver = toolchain.driver;
    if (read_answer(answer, *kept)) return answer;
  }

  // What g++ would do says also which one it is. Others do not understand all of the question, and say that much.
  choose_flags(toolchain, isa, false);
  Arguments ask = toolchain.driver;
  append(ask, toolchain.flags);
  append(ask, {"-###", "-pipe", "-shared", "-x", "c++", "-", "-o", "a.so"});
  std::string said = stderr_of(ask, started);
  std::string version = line_with(said, "gcc version ");
  if (version.empty()) {
    ask = toolchain.driver;
    ask.push_back("-v");
    said = stderr_of(ask, started);
    version = line_with(said, "gcc version ");
  }
  const bool is_clang = version.empty();
  if (is_clang) version = line_with(said, "clang version ");
  if (version.empty()) {
    toolchain.unavailable =
        fmt::format("{} is neither g++ nor clang++: {} -v says \"{}\"", toolchain.driver.front(),
                    toolchain.driver.front(), said.substr(0, 200));
    return toolchain;
  }
  toolchain.version = fmt::format("{}, {}", version, line_with(said, "Target: "));
  if (is_clang) choose_flags(toolchain, isa, true);
  else read_steps(toolchain, said);
  if (toolchain.unavailable.empty()) cache.store(key, write_answer(toolchain));
  return toolchain;
}

}  // namespace weft::compiler
