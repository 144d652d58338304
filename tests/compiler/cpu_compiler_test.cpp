// Sources to functions: compiled once, found again by other processes, and never trusted when something is amiss.
#include "compiler/codegen/cpu_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "compiler/codegen/cache_entry.h"
#include "tensor/base/log.h"
#include "tests/compiler/kernel_compilation.h"

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace weft::compiler {
namespace {

using namespace testing;

// ---- Compiling

TEST_F(CpuCompilerTest, GivesTheFunctionsOfEachSource) {
  CpuCompiler compiler(options());
  const std::vector<CpuSource> sources = {
      adds(1),
      {"extern \"C\" double twice(double x) { return 2 * x; }\nextern \"C\" int one() { return 1; }",
       {"twice", "one"}},
      adds(3),
      adds(4),
      adds(5)};
  const auto libraries = compiler.compile(sources);
  ASSERT_EQ(libraries.size(), 5u);
  EXPECT_EQ(call(libraries[0], "add_1", 10), 11);
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(libraries[1]->entry("twice"))(1.5), 3.0);
  EXPECT_EQ(reinterpret_cast<int (*)()>(libraries[1]->entry("one"))(), 1);
  EXPECT_EQ(call(libraries[4], "add_5", 10), 15);
  EXPECT_EQ(compiler.stats().compiled, 5u);
  EXPECT_EQ(libraries_on_disk().size(), 5u);
  EXPECT_EQ(num_temporaries(), 0u);
  EXPECT_EQ(compiler.compile({}).size(), 0u);
}

TEST_F(CpuCompilerTest, ASourceWithoutAnEntryThatIsAskedForIsAnError) {
  CpuCompiler compiler(options());
  CpuSource source = adds(1);
  source.entries = {"add_1", "add_2"};
  EXPECT_EQ(error_of([&] {
              compiler.compile({&source, 1});
            }),
            "the compiled source has no function extern \"C\" add_2");
}

TEST_F(CpuCompilerTest, EqualTextsShareOneLibrary) {
  CpuCompiler compiler(options());
  const std::vector<CpuSource> sources = {adds(1), adds(2), adds(1)};
  const auto first = compiler.compile(sources);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(compiler.compile(sources)[1], first[1]);
  EXPECT_EQ(compiler.stats().compiled, 2u);
  EXPECT_EQ(compiler.stats().shared, 4u);
}

TEST_F(CpuCompilerTest, ThreadsThatWantTheSameSourceWaitForOneCompilation) {
  CpuCompiler compiler(options());
  std::vector<std::thread> threads;
  std::atomic<int> well{0};
  for (int t = 0; t < 8; ++t) threads.emplace_back([&] { well += adds_well(compiler, 3); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, 8);
  EXPECT_EQ(compiler.stats().compiled, 3u);
}

TEST_F(CpuCompilerTest, ALibraryIsUnloadedWithItsLastHolder) {
  CpuCompiler compiler(options());
  const CpuSource source = adds(1);
  auto libraries = compiler.compile({&source, 1});
  const std::string path = libraries_on_disk().at(0).string();
  const auto is_loaded = [&] {
    void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) ::dlclose(handle);
    return handle != nullptr;
  };
  EXPECT_TRUE(is_loaded());
  libraries.clear();
  EXPECT_FALSE(is_loaded());
  const uint64_t programs = compiler.stats().programs;
  libraries = compiler.compile({&source, 1});
  EXPECT_EQ(call(libraries[0], "add_1", 1), 2);
  EXPECT_EQ(compiler.stats().from_disk, 1u);
  EXPECT_EQ(compiler.stats().programs, programs);
}

// Equal names in different libraries, some of them called within: each library has its own.
TEST_F(CpuCompilerTest, NamesOfDifferentSourcesDoNotMeet) {
  CpuCompiler compiler(options());
  const auto source = [](const char* value) {
    return CpuSource{std::string("extern \"C\" int value() { return ") + value +
                         "; }\nextern \"C\" __attribute__((noinline)) int again() { return value(); }\n"
                         "int (*volatile pointer)() = again; extern \"C\" int run() { return pointer(); }",
                     {"run"}};
  };
  const std::vector<CpuSource> sources = {source("1"), source("2")};
  const auto libraries = compiler.compile(sources);
  EXPECT_EQ(reinterpret_cast<int (*)()>(libraries[0]->entry("run"))(), 1);
  EXPECT_EQ(reinterpret_cast<int (*)()>(libraries[1]->entry("run"))(), 2);
}

// ---- What values depend on

TEST_F(CpuCompilerTest, CodeRoundsEachOperationAndWraps) {
  if (cpu::current_isa() == cpu::Isa::SSE4) GTEST_SKIP() << "SSE4 has no fma to contract to";
  CpuCompiler compiler(options());
  const CpuSource source = {
      "extern \"C\" float product_and_sum(float a, float b, float c) { return a * b + c; }\n"
      "extern \"C\" bool grows(int x) { return x + 1 > x; }\n",
      {"product_and_sum", "grows"}};
  const auto library = compiler.compile({&source, 1})[0];
  const float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);  // a * a is 1 + 2^-11 + 2^-24, which rounds
  EXPECT_EQ(reinterpret_cast<float (*)(float, float, float)>(library->entry("product_and_sum"))(a, a, c),
            0.0f);
  EXPECT_FALSE(reinterpret_cast<bool (*)(int)>(library->entry("grows"))(INT32_MAX));
}

TEST_F(CpuCompilerTest, EveryInstructionSetHasItsLibrary) {
  const CpuSource source = {
      "typedef float v16 __attribute__((vector_size(64)));\n"
      "extern \"C\" void add(float* x) { v16 a; __builtin_memcpy(&a, x, 64); a += a; __builtin_memcpy(x, &a, "
      "64); }\n"
      "extern \"C\" int lanes() {\n"
      "#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) "
      "&& defined(__AVX512CD__)\n"
      "  return 16;\n#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI2__)\n "
      " return 8;\n"
      "#elif defined(__SSE4_2__)\n  return 4;\n#else\n  return 0;\n#endif\n}\n",
      {"add", "lanes"}};
  std::set<CpuLibraryPtr> libraries;
  for (const auto& [isa, lanes] :
       {std::pair(cpu::Isa::SSE4, 4), {cpu::Isa::AVX2, 8}, {cpu::Isa::AVX512, 16}}) {
    CpuCompilerOptions each = options();
    each.isa = isa;
    CpuCompiler compiler(each);
    const auto library = compiler.compile({&source, 1})[0];
    EXPECT_EQ(reinterpret_cast<int (*)()>(library->entry("lanes"))(), lanes);
    libraries.insert(library);
    EXPECT_EQ(compiler.stats().compiled, 1u);
    if (isa > cpu::current_isa()) continue;
    std::vector<float> x(16, 1.5f);
    reinterpret_cast<void (*)(float*)>(library->entry("add"))(x.data());
    EXPECT_EQ(x, std::vector<float>(16, 3.0f));
  }
  EXPECT_EQ(libraries.size(), 3u);
}

TEST_F(CpuCompilerTest, CodeMayCallTheMathLibraryAndHelpersOfTheCompiler) {
  CpuCompiler compiler(options());
  const CpuSource source = {
      "extern \"C\" double lgamma(double);\nextern \"C\" double of_library(double x) { return lgamma(x); }\n"
      "extern \"C\" long high(long a, long b) { return (long)((__int128)a * b / 1000003 >> 64); }\n",
      {"of_library", "high"}};
  const auto library = compiler.compile({&source, 1})[0];
  EXPECT_DOUBLE_EQ(reinterpret_cast<double (*)(double)>(library->entry("of_library"))(5.0), std::log(24.0));
  EXPECT_EQ(reinterpret_cast<long (*)(long, long)>(library->entry("high"))(1L << 62, 1L << 62),
            static_cast<long>((static_cast<__int128>(1L << 62) << 62) / 1000003 >> 64));
}

#ifdef _OPENMP
std::set<std::string> openmp_libraries() {
  std::set<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        const std::string path = info->dlpi_name;
        const std::string name = path.substr(path.rfind('/') + 1);
        if (name.find("omp") != std::string::npos && name.rfind("lib", 0) == 0 &&
            name.find("openblas") == std::string::npos)
          static_cast<std::set<std::string>*>(to)->insert(path);
        return 0;
      },
      &names);
  return names;
}

TEST_F(CpuCompilerTest, KernelsUseTheThreadsOfTheProcess) {
  CpuCompiler compiler(options());
  if (!compiler.note().empty()) GTEST_SKIP() << compiler.note();
  const CpuSource source = {
      "extern \"C\" int omp_get_thread_num(void) noexcept;\nextern \"C\" int omp_get_num_threads(void) "
      "noexcept;\n"
      "extern \"C\" void* address() { return (void*)&omp_get_num_threads; }\n"
      "extern \"C\" int team(int threads, int* seen) {\n  int n = 0;\n#pragma omp parallel "
      "num_threads(threads)\n  {\n"
      "    seen[omp_get_thread_num()] = 1;\n#pragma omp atomic write\n    n = omp_get_num_threads();\n  }\n  "
      "return n;\n}\n",
      {"address", "team"}};
  const auto before = openmp_libraries();
  const auto library = compiler.compile({&source, 1})[0];
  EXPECT_EQ(openmp_libraries(), before);
  EXPECT_EQ(before.size(), 1u);
  EXPECT_EQ(reinterpret_cast<void* (*)()>(library->entry("address"))(),
            reinterpret_cast<void*>(&::omp_get_num_threads));
  std::vector<int> seen(3, 0);
  EXPECT_EQ(reinterpret_cast<int (*)(int, int*)>(library->entry("team"))(3, seen.data()), 3);
  EXPECT_EQ(seen, std::vector<int>(3, 1));
}
#endif

// ---- The disk

// Run by the tests below in a process of its own, with the directory of the cache in WEFT_CACHE_DIR.
TEST(CpuCompilerChild, DISABLED_LoadsWithoutACompiler) {
  CpuCompiler& compiler = CpuCompiler::process();
  EXPECT_TRUE(adds_well(compiler, 4));
  EXPECT_EQ(compiler.stats().from_disk, 4u);
  EXPECT_EQ(compiler.stats().programs, 0u);
}

bool run_this_program(const std::string& test, const std::string& directory) {
  return in_child([&]() -> bool {
    ::setenv("WEFT_CACHE_DIR", directory.c_str(), 1);
    const std::string filter = "--gtest_filter=" + test;
    ::execl("/proc/self/exe", "compiler_test", filter.c_str(), "--gtest_also_run_disabled_tests",
            "--gtest_brief=1", nullptr);
    return false;
  });
}

TEST_F(CpuCompilerTest, AnotherProcessStartsNoProgram) {
  CpuCompiler compiler(options());
  EXPECT_TRUE(adds_well(compiler, 4));
  EXPECT_EQ(compiler.stats().compiled, 4u);
  EXPECT_TRUE(run_this_program("CpuCompilerChild.DISABLED_LoadsWithoutACompiler", directory_));
}

TEST_F(CpuCompilerTest, AFlippedBitOrALostEndIsCompiledAnew) {
  EXPECT_TRUE(in_child([&] {
    CpuCompiler compiler(options());
    return adds_well(compiler, 1);
  }));
  const std::string path = libraries_on_disk().at(0).string();
  const size_t length = fs::file_size(path);
  const auto damage = [&](int kind) {
    if (kind == 2) return fs::resize_file(path, length / 2);
    const int file = ::open(path.c_str(), O_RDWR);
    const off_t at = kind == 0 ? 0x40 : static_cast<off_t>(length) - 1;  // a program header; the checksum
    char byte = 0;
    EXPECT_EQ(::pread(file, &byte, 1, at), 1);
    byte = static_cast<char>(byte ^ 4);
    EXPECT_EQ(::pwrite(file, &byte, 1, at), 1);
    ::close(file);
  };
  for (int kind = 0; kind < 3; ++kind) {
    damage(kind);
    EXPECT_TRUE(in_child([&] {
      forget();
      CpuCompiler compiler(options());
      return adds_well(compiler, 1) && compiler.stats().compiled == 1 && cache_->stats().corrupt == 1;
    })) << kind;
    EXPECT_TRUE(in_child([&] {
      forget();
      CpuCompiler compiler(options());
      return adds_well(compiler, 1) && compiler.stats().compiled == 0 && cache_->stats().corrupt == 0;
    })) << kind;
  }
}

TEST_F(CpuCompilerTest, AnEntryThatIsNoLibraryIsCompiledAnew) {
  uint64_t started = 0;
  CacheKey key = find_cpu_toolchain("", cpu::current_isa(), *cache_, started).key();
  key.add("source", adds(0).text);
  ASSERT_TRUE(cache_
                  ->store(key,
                          "\x7f"
                          "ELF, but not much of one")
                  .has_value());
  CpuCompiler compiler(options());
  EXPECT_TRUE(adds_well(compiler, 1));
  EXPECT_EQ(compiler.stats().compiled, 1u);
  EXPECT_EQ(cache_->stats().corrupt, 1u);
}

TEST_F(CpuCompilerTest, ADirectoryThatCannotBeUsedLeavesMemory) {
  fs::create_directory(directory_ + "2");
  ASSERT_EQ(::chmod((directory_ + "2").c_str(), 0777), 0);
  directory_ += "2";
  ::testing::internal::CaptureStderr();
  forget();
  CpuCompiler compiler(options());
  EXPECT_TRUE(adds_well(compiler, 3));
  EXPECT_EQ(compiler.stats().compiled, 3u);
  const uint64_t programs = compiler.stats().programs;
  EXPECT_TRUE(adds_well(compiler, 3));  // the libraries were dropped: loaded from the bytes that are kept
  EXPECT_EQ(compiler.stats().from_disk, 3u);
  EXPECT_EQ(compiler.stats().programs, programs);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(CpuCompilerTest, ADiskThatForbidsProgramsIsNoError) {
  fs::create_directory(directory_ + "2");
  directory_ += "2";
  const pid_t child = start_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("weft", directory_.c_str(), "tmpfs", MS_NOEXEC, "size=1m,mode=700") != 0)
      ::_exit(77);
    ::testing::internal::CaptureStderr();
    forget();
    CpuCompiler compiler(options());
    const bool is_well = adds_well(compiler, 2) && compiler.stats().failed == 0;
    const std::string text = ::testing::internal::GetCapturedStderr();
    return is_well && text.find("cannot be loaded from the cache") != std::string::npos &&
           std::count(text.begin(), text.end(), '\n') == 1;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "a disk cannot be mounted here";
  EXPECT_EQ(status, 0);
}

TEST_F(CpuCompilerTest, AFullDiskIsNoError) {
  fs::create_directory(directory_ + "2");
  directory_ += "2";
  const pid_t child = start_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("weft", directory_.c_str(), "tmpfs", 0, "size=24k,mode=700") != 0)
      ::_exit(77);
    forget();
    CpuCompiler compiler(options());
    return adds_well(compiler, 4) && cache_->stats().stores_memory > 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "a disk cannot be mounted here";
  EXPECT_EQ(status, 0);
}

// The assembler meets the limit, which ends it; what compiles falls back to the interpreter on this error.
TEST_F(CpuCompilerTest, ALimitOnFilesIsAnErrorThatCanBeCaught) {
  EXPECT_TRUE(in_child([&] {
    const struct rlimit limit = {600, 600};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    CpuCompiler compiler(options());
    const CpuSource source = adds(1);
    return error_of([&] {
             compiler.compile({&source, 1});
           }).find("the compiler refused the code of add_1") == 0;
  }));
}

TEST_F(CpuCompilerTest, ProcessesThatStartTogetherCompileEachSourceOnce) {
  // Each says by its exit status how many it compiled.
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    std::fflush(nullptr);
    children.push_back(::fork());
    if (children.back() != 0) continue;
    CpuCompiler compiler(options());
    ::_exit(adds_well(compiler, 3) ? static_cast<int>(compiler.stats().compiled) : 100);
  }
  int compiled = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    compiled += WEXITSTATUS(status);
  }
  EXPECT_EQ(compiled, 3);
  EXPECT_EQ(num_temporaries(), 0u);
}

TEST_F(CpuCompilerTest, TwelveColdProcessesOfWhichOneIsKilled) {
  const pid_t killed = start_child([&]() -> bool {
    for (int i = 100;; ++i) {
      CpuCompiler compiler(options());
      const CpuSource source = adds(i);
      compiler.compile({&source, 1});
    }
  });
  std::vector<pid_t> others;
  for (int i = 0; i < 11; ++i) {
    others.push_back(start_child([&] {
      CpuCompiler compiler(options());
      return adds_well(compiler, 2);
    }));
  }
  const timespec pause = {0, 150000000};
  ::nanosleep(&pause, nullptr);
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  for (const pid_t child : others) EXPECT_TRUE(child_is_well(child));
  CpuCompiler compiler(options());
  EXPECT_TRUE(adds_well(compiler, 2));
  EXPECT_EQ(compiler.stats().compiled, 0u);
}

// ---- Programs that have plans of their own for children

TEST_F(CpuCompilerTest, AProgramThatIgnoresOrReapsChildrenCompilesAllTheSame) {
  const CpuSource bad = {"extern \"C\" int broken() { return not_declared; }", {"broken"}};
  const auto compiles = [&] {
    CpuCompiler compiler(options());
    return adds_well(compiler, 2) && compiler.stats().failed == 0 &&
           error_of([&] {
             compiler.compile({&bad, 1});
           }).find("'not_declared' was not declared") != std::string::npos;
  };
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGCHLD, SIG_IGN);
    return compiles();
  }));
  fs::remove_all(directory_);
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGCHLD, [](int) {
      const int error = errno;
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      errno = error;
    });
    return compiles();
  }));
}

// ---- Seeing

TEST_F(CpuCompilerTest, TheLogSaysWhatWasFoundAndWhatNot) {
  ::testing::internal::CaptureStderr();
  set_logs("cache");
  {
    CpuCompiler compiler(options());
    EXPECT_TRUE(adds_well(compiler, 2));
    CpuCompiler again(options());
    EXPECT_TRUE(adds_well(again, 3));
  }
  set_logs("");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("weft: cache: the compiler is "), std::string::npos) << text;
  EXPECT_NE(text.find("weft: cache: miss cpu kernel "), std::string::npos) << text;
  EXPECT_NE(text.find("differs from an earlier one in source"), std::string::npos) << text;
  EXPECT_NE(text.find("weft: cache: 2 kernel sources: 2 compiled, 0 from disk, 0 shared; "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("weft: cache: 3 kernel sources: 1 compiled, 2 from disk, 0 shared; "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace weft::compiler
