// DebugDirectory: the files that WEFT_DEBUG_DIR asks for, one folder for each compile, and the HTML report over all of them.
// Needs base only. compile_log.h says what is written.
//
//   <directory>/step/001_graph/traced.txt …     by function and by the order of its compiles
//   <directory>/step/002_guards.txt
//   <directory>/report.html                     each compile adds a section; several processes may
#pragma once

#include <string>
#include <vector>

namespace weft::compiler {

struct DebugFile {
  std::string name, text;
};

// Whether WEFT_DEBUG_DIR is set; asked anew at each compile.
bool has_debug_directory();

// Writes a numbered folder with these files, or for one file a numbered file, and adds them to the report under `title`. A
// directory that cannot be written is said once, and never an error.
void write_debug_files(const std::string& function, const std::string& what, const std::string& title,
                       const std::vector<DebugFile>& files);

}  // namespace weft::compiler
