// Loaded libraries, those in the making, and the steps that make one.
#include "compiler/codegen/cpu_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "tensor/base/error.h"
#include "tensor/base/log.h"

namespace weft::compiler {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A source, its object and its library take less than one.
constexpr uint64_t kMinFreeBytes = uint64_t{16} << 20;
constexpr int kMaxMessageLines = 8;
constexpr std::string_view kMagicOfLibraries = "\177ELF";

// How long the compilations of other processes are waited for before they are done here as well, and how often they are
// looked after: a kernel takes some 80 ms, and a process that is stopped may take any time.
constexpr std::chrono::seconds kMaxWait{10};
constexpr std::chrono::milliseconds kPoll{1};

// A directory of this compilation: where it can be written, where there is room, and where libraries may be loaded from.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(DiskCache& cache) {
    std::vector<std::string> places;
    if (const auto of_cache = cache.temporary_directory()) places.push_back(*of_cache);
    if (const char* place = std::getenv("TMPDIR"); place != nullptr && *place == '/')
      places.emplace_back(place);
    places.insert(places.end(), {"/tmp", "/dev/shm", "/var/tmp"});
    for (const std::string& place : places) {
      struct statvfs disk;
      if (::statvfs(place.c_str(), &disk) != 0 || (disk.f_flag & (ST_RDONLY | ST_NOEXEC)) != 0 ||
          disk.f_bavail * disk.f_frsize < kMinFreeBytes)
        continue;
      std::string pattern = place + "/weft-XXXXXX";
      if (::mkdtemp(pattern.data()) == nullptr) continue;
      path_ = pattern;
      return;
    }
    weft::detail::throw_error(
        fmt::format("kernels cannot be compiled: {} cannot be written, are full or forbid running programs; "
                    "TMPDIR can name another directory",
                    fmt::join(places, ", ")));
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

int usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string first_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (count++ == kMaxMessageLines) return all + "\n  …";
    all += "\n  " + line;
  }
  return all;
}

// Keeps a source that was refused, for whoever looks into it. Empty where that cannot be.
std::string keep_source(const std::string& text) {
  const char* directory = std::getenv("WEFT_DEBUG_DIR");
  if (directory == nullptr || *directory == '\0') directory = std::getenv("TMPDIR");
  for (const std::string& place :
       {std::string(directory != nullptr ? directory : "/tmp"), std::string("/tmp")}) {
    std::error_code ignored;
    std::filesystem::create_directories(place, ignored);
    std::string pattern = place + "/weft_kernel_XXXXXX.cpp";
    const Descriptor file(::mkostemps(pattern.data(), 4, O_CLOEXEC));
    if (file.is_open() && write_file(pattern, text)) return pattern;
  }
  return {};
}

std::string names_of(const CpuSource& source) {
  constexpr size_t kMaxNames = 4;
  std::string names;
  for (size_t i = 0; i < std::min(source.entries.size(), kMaxNames); ++i)
    names += (i == 0 ? "" : ", ") + source.entries[i];
  if (source.entries.size() > kMaxNames)
    names += fmt::format(" and {} more", source.entries.size() - kMaxNames);
  return names.empty() ? "a source" : names;
}

// A library of a file. Null, and why, where it cannot be loaded.
CpuLibraryPtr load_library(const std::string& path, std::string& why) {
  // Now, so that a function that is missing shows here and not in a kernel; local, so that names of kernels never meet.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    why = text != nullptr ? text : "no reason is given";
    return nullptr;
  }
  return std::make_shared<const CpuLibrary>(handle);
}

}  // namespace

CpuLibrary::~CpuLibrary() { ::dlclose(handle_); }
void* CpuLibrary::find(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }
void* CpuLibrary::entry(const std::string& name) const {
  void* const function = find(name);
  WEFT_CHECK(function != nullptr, "the compiled source has no function extern \"C\" ", name);
  return function;
}

CpuCompilerOptions CpuCompilerOptions::of_environment() {
  CpuCompilerOptions options;
  if (const char* command = std::getenv("WEFT_CXX")) options.command = command;
  options.isa = cpu::current_isa();
  return options;
}

struct CpuCompiler::Impl {
  CpuCompilerOptions options;
  std::once_flag found;
  CpuToolchain toolchain;
  std::atomic<bool> runs_directly{true};
  std::atomic<bool> loses_status{false};
  std::atomic<uint64_t> programs{0};
  std::atomic<uint64_t> next_file{0};

  mutable std::mutex mutex;
  CpuCompilerStats stats;
  std::unordered_map<ContentHash, std::weak_ptr<const CpuLibrary>> loaded;
  std::unordered_map<ContentHash, std::shared_future<CpuLibraryPtr>> in_the_making;

  explicit Impl(CpuCompilerOptions given) : options(std::move(given)) {}

  DiskCache& cache() { return options.cache != nullptr ? *options.cache : DiskCache::process(); }

  const CpuToolchain& tools() {
    std::call_once(found, [this] {
      uint64_t started = 0;
      toolchain = find_cpu_toolchain(options.command, options.isa, cache(), started);
      programs += started;
      if (toolchain.compile.empty()) runs_directly = false;
      if (log_enabled(LogChannel::Cache))
        log_line(LogChannel::Cache,
                 toolchain.unavailable.empty()
                     ? fmt::format("cache: the compiler is {} ({}){}{}", toolchain.driver.front(),
                                   toolchain.version, toolchain.note.empty() ? "" : "; ", toolchain.note)
                     : fmt::format("cache: no compiler: {}", toolchain.unavailable));
    });
    return toolchain;
  }

  // ---- One source

  // Runs programs of which each reads what the one before it writes. Returns how one failed; empty when all went well.
  std::string run(const std::vector<Arguments>& commands, const std::string& input, const std::string& files,
                  std::string& messages) {
    const auto attempt = [&](bool keeps_status) {
      const Descriptor errors = Descriptor::write(files + ".err");
      Descriptor from = input.empty() ? Descriptor() : Descriptor::read(input);
      std::vector<std::unique_ptr<ChildProcess>> running;
      for (size_t i = 0; i < commands.size(); ++i) {
        Descriptor to, next;
        if (i + 1 < commands.size()) {
          int ends[2];
          if (::pipe2(ends, O_CLOEXEC) != 0) return std::string("no pipe can be made");
          next = Descriptor(ends[0]);
          to = Descriptor(ends[1]);
        }
        ++programs;
        const std::string status = fmt::format("{}.{}", files, i);
        ::unlink(status.c_str());
        running.push_back(std::make_unique<ChildProcess>(
            keeps_status ? with_status_file(commands[i], status) : commands[i],
            Redirections{from.is_open() ? &from : nullptr, to.is_open() ? &to : nullptr,
                         errors.is_open() ? &errors : nullptr}));
        from = std::move(next);
      }
      std::string failure;
      for (size_t i = 0; i < commands.size(); ++i) {
        std::string how = running[i]->wait();
        if (running[i]->is_status_lost() && !keeps_status) {
          loses_status = true;
        } else if (keeps_status) {
          const std::string status = read_file(fmt::format("{}.{}", files, i));
          how = status == "0\n" ? ""
                                : fmt::format("{}: exit status {}", commands[i].front(),
                                              status.substr(0, status.find('\n')));
        }
        if (failure.empty()) failure = how;
      }
      return failure;
    };
    const bool keeps_status = loses_status;
    std::string failure = attempt(keeps_status);
    if (!keeps_status && loses_status && !failure.empty()) failure = attempt(true);
    messages = read_file(files + ".err");
    return failure;
  }

  // The library of a source, as a file in the scratch directory. Error where that fails.
  std::string build(const CpuSource& source, const ScratchDirectory& scratch) {
    const std::string files = scratch / fmt::format("k{}", next_file++);
    const std::string text = files + ".cpp", object = files + ".o";
    std::string library = files + ".so";
    std::string failure, messages;
    if (!write_file(text, source.text)) failure = text + " cannot be written";
    if (failure.empty() && runs_directly) {
      failure = run({toolchain.compile, toolchain.assemble_command(object)}, text, files, messages);
      if (failure.empty()) failure = run({toolchain.link_command(object, library)}, {}, files, messages);
      if (failure.empty()) return library;
    }
    // The driver has the last word: its steps may have come to be others.
    const std::string of_steps = failure;
    failure = run({toolchain.driver_command(library)}, text, files, messages);
    if (failure.empty()) {
      if (runs_directly.exchange(false))
        log_line(LogChannel::Cache, "cache: kernels are compiled by the driver from now on: " + of_steps);
      return library;
    }
    const std::string kept = keep_source(source.text);
    weft::detail::throw_error(fmt::format(
        "the compiler refused the code of {} ({}):{}\n  {}", names_of(source), failure, first_lines(messages),
        kept.empty() ? "its source could not be kept" : "its source is in " + kept));
  }

  CpuLibraryPtr find_on_disk(const CacheKey& key) {
    const std::optional<DiskCache::Hit> hit = cache().find(key);
    if (!hit) return nullptr;
    std::string why;
    CpuLibraryPtr library;
    if (!hit->path.empty()) {
      library = load_library(hit->path, why);
    } else {
      const ScratchDirectory scratch(cache());
      const std::string path = scratch / fmt::format("k{}.so", next_file++);
      if (write_file(path, hit->bytes)) library = load_library(path, why);
    }
    if (library == nullptr) {
      log_line(LogChannel::Cache,
               "cache: " + key.to_string() + " cannot be loaded, and is made anew: " + why);
      cache().discard(key);
    }
    return library;
  }

  CpuLibraryPtr make(const CpuSource& source, const CacheKey& key, const ScratchDirectory& scratch) {
    const std::string built = build(source, scratch);
    const std::string bytes = read_file(built);
    WEFT_CHECK(bytes.rfind(kMagicOfLibraries, 0) == 0, "the compiler wrote no library for ",
               names_of(source));
    std::string why, why_built;
    CpuLibraryPtr library;
    if (const auto published = cache().store(key, bytes)) {
      library = load_library(*published, why);
      if (library != nullptr) return library;
    }
    library = load_library(built, why_built);
    WEFT_CHECK(library != nullptr, "the library of ", names_of(source), " cannot be loaded: ", why_built);
    if (!why.empty() && cache().is_published(key))  // else it has been removed to make room
      warn_once(
          "cpu libraries of the cache",
          "compiled kernels cannot be loaded from the cache, and are compiled anew by each program: " + why);
    return library;
  }

  // ---- Many

  struct Job {
    const CpuSource* source;
    CacheKey key;
    std::promise<CpuLibraryPtr> promise;
    bool is_finished = false;
  };

  // Others may wait for it: called once for each job, whatever happens.
  void finish(Job& job, const CpuLibraryPtr& library, std::exception_ptr failure) {
    job.is_finished = true;
    {
      const std::lock_guard lock(mutex);
      if (library != nullptr) loaded[job.key.hash()] = library;
      else ++stats.failed;
      in_the_making.erase(job.key.hash());
    }
    if (library != nullptr) job.promise.set_value(library);
    else job.promise.set_exception(std::move(failure));
  }

  // How many were compiled here: others may come from processes that compile the same at this moment.
  size_t compile_all(std::vector<Job*>& jobs) {
    std::atomic<size_t> num_compiled{0};
    const int cores = options.jobs > 0 ? options.jobs : usable_cores();
    const size_t workers = std::min(jobs.size(), static_cast<size_t>(cores));
    std::unique_ptr<ScratchDirectory> scratch;
    std::exception_ptr no_scratch;
    try {
      scratch = std::make_unique<ScratchDirectory>(cache());
    } catch (...) {
      no_scratch = std::current_exception();
    }
    std::atomic<size_t> next{0};
    Clock::time_point deadline;
    const auto try_job = [&](Job& job, bool is_patient) {
      std::optional<DiskCache::Claim> claim = cache().claim(job.key);
      while (!claim && is_patient && Clock::now() < deadline) {
        std::this_thread::sleep_for(kPoll);
        claim = cache().claim(job.key);
      }
      if (!claim && !is_patient) return false;
      CpuLibraryPtr library;
      std::exception_ptr failure = no_scratch;
      try {
        if (cache().is_published(job.key)) library = find_on_disk(job.key);
        if (library == nullptr && scratch != nullptr) {
          ++num_compiled;
          library = make(*job.source, job.key, *scratch);
        }
      } catch (...) {
        failure = std::current_exception();
      }
      finish(job, library, failure);
      return true;
    };
    // First what no other process is at.
    std::vector<char> is_elsewhere(jobs.size(), 0);
    const auto work = [&] {
      for (size_t i = next++; i < jobs.size(); i = next++) is_elsewhere[i] = !try_job(*jobs[i], false);
    };
    std::vector<std::thread> threads;
    try {
      for (size_t i = 1; i < workers; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads are to be had: the others do it
    }
    work();
    for (std::thread& thread : threads) thread.join();
    deadline = Clock::now() + kMaxWait;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (is_elsewhere[i] != 0) try_job(*jobs[i], true);
    }
    return num_compiled;
  }

  std::vector<CpuLibraryPtr> compile(std::span<const CpuSource> sources) {
    const Clock::time_point start = Clock::now();
    WEFT_CHECK(tools().unavailable.empty(), "kernels cannot be compiled: ", toolchain.unavailable);
    std::vector<std::shared_future<CpuLibraryPtr>> results(sources.size());
    std::vector<CpuLibraryPtr> libraries(sources.size());
    std::vector<Job> jobs;
    jobs.reserve(sources.size());
    uint64_t shared = 0;
    const CacheKey of_tools = toolchain.key();
    for (size_t i = 0; i < sources.size(); ++i) {
      CacheKey key = of_tools;
      key.add("source", sources[i].text);
      const std::lock_guard lock(mutex);
      if (const auto place = loaded.find(key.hash()); place != loaded.end())
        libraries[i] = place->second.lock();
      if (libraries[i] != nullptr) {
        ++shared;
      } else if (const auto place = in_the_making.find(key.hash()); place != in_the_making.end()) {
        results[i] = place->second;
        ++shared;
      } else {
        jobs.push_back({&sources[i], key, {}, false});
        results[i] = jobs.back().promise.get_future().share();
        in_the_making.emplace(key.hash(), results[i]);
      }
    }
    std::vector<Job*> missing;
    size_t num_compiled = 0;
    try {
      for (Job& job : jobs) {
        const CpuLibraryPtr library = find_on_disk(job.key);
        if (library != nullptr) finish(job, library, nullptr);
        else missing.push_back(&job);
      }
      if (!missing.empty()) num_compiled = compile_all(missing);
    } catch (...) {
      for (Job& job : jobs) {
        if (!job.is_finished) finish(job, nullptr, std::current_exception());
      }
    }
    {
      const std::lock_guard lock(mutex);
      const double seconds = seconds_since(start);
      stats.shared += shared;
      stats.compiled += num_compiled;
      stats.from_disk += jobs.size() - num_compiled;
      (missing.empty() ? stats.load_seconds : stats.compile_seconds) += seconds;
      if (log_enabled(LogChannel::Cache) && !jobs.empty())
        log_line(
            LogChannel::Cache,
            fmt::format("cache: {} kernel sources: {} compiled, {} from disk, {} shared; {:.1f} ms",
                        sources.size(), num_compiled, jobs.size() - num_compiled, shared, seconds * 1e3));
    }
    // The first failure in the order of the sources, whichever came first.
    for (size_t i = 0; i < sources.size(); ++i) {
      if (libraries[i] == nullptr) libraries[i] = results[i].get();
      for (const std::string& entry : sources[i].entries) libraries[i]->entry(entry);
    }
    return libraries;
  }
};

CpuCompiler::CpuCompiler(CpuCompilerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CpuCompiler::~CpuCompiler() = default;

CpuCompiler& CpuCompiler::process() {
  static auto* const compiler = new CpuCompiler(CpuCompilerOptions::of_environment());
  return *compiler;
}

bool CpuCompiler::is_available() { return why_unavailable().empty(); }
const std::string& CpuCompiler::why_unavailable() { return impl_->tools().unavailable; }
const std::string& CpuCompiler::version() { return impl_->tools().version; }
const std::string& CpuCompiler::note() { return impl_->tools().note; }

std::vector<CpuLibraryPtr> CpuCompiler::compile(std::span<const CpuSource> sources) {
  return impl_->compile(sources);
}

CpuCompilerStats CpuCompiler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  CpuCompilerStats stats = impl_->stats;
  stats.programs = impl_->programs;
  return stats;
}

}  // namespace weft::compiler
