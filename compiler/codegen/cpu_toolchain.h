// CpuToolchain: the compiler, assembler and linker of this system, and how they make a shared library of kernels.
// Needs child_process, disk_cache, tensor/cpu/isa.h. Place: under cpu_compiler.
#pragma once

#include <string>

#include "compiler/codegen/child_process.h"
#include "compiler/codegen/disk_cache.h"
#include "tensor/cpu/isa.h"

namespace weft::compiler {

// Note [The steps of a compilation]
// A driver such as g++ starts cc1plus, as, collect2 and ld, links start files and the C++ library that a kernel does not use,
// and takes 25 ms for that. Here they are started directly: cc1plus piped into as, then ld. What the driver would have started is
// asked of it once (g++ -###) and kept in the disk cache for as long as no file of it changes, so that a warm start
// runs no program at all. Where the answer is not understood (clang), and wherever a direct step fails, the driver is run.
struct CpuToolchain {
  // Why there is none; empty where there is one.
  std::string unavailable;

  Arguments driver;     // "/usr/bin/c++", and what WEFT_CXX says after the program
  std::string version;  // "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1), x86_64-linux-gnu"
  Arguments flags;      // of a compilation
  Arguments libraries;  // files of the C library, libm and OpenMP that this process has loaded
  bool has_openmp = false;
  std::string note;  // why there is no OpenMP although the process has it

  // Direct steps; empty where the driver must be used. The compiler reads stdin and writes stdout, the assembler reads
  // stdin; it gets "-o FILE", the linker "-o FILE FILE.o" in front of its libraries.
  Arguments compile, assemble, link, link_libraries;

  Arguments driver_command(const std::string& output) const;  // reads stdin
  Arguments assemble_command(const std::string& object) const;
  Arguments link_command(const std::string& object, const std::string& output) const;

  // Everything that the bytes of a library depend on but its source.
  CacheKey key() const;
};

// `command`: a program with arguments, or empty for the first of c++, g++ and clang++ on PATH. Adds the programs that it
// had to start to `started`. Never throws on account of the system: see `unavailable`.
CpuToolchain find_cpu_toolchain(const std::string& command, cpu::Isa isa, DiskCache& cache,
                                uint64_t& started);

// The flags of an instruction set, as for *.isa.cpp in CMakeLists.txt.
Arguments flags_of(cpu::Isa isa);

}  // namespace weft::compiler
