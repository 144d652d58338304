// README.md shows the quickstart program as it stands in examples/, which is compiled.
#include "tests/io/files.h"

namespace weft {
namespace {

TEST(Readme, ShowsTheQuickstartAsItIsCompiled) {
  const std::string readme = read_file(WEFT_SOURCE_DIR "/README.md");
  const std::string program = read_file(WEFT_SOURCE_DIR "/examples/quickstart/main.cpp");
  const size_t begin = program.find("#include <weft.h>");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_NE(readme.find("```cpp\n" + program.substr(begin) + "```\n"), std::string::npos)
      << "copy the program of examples/quickstart/main.cpp, from its #include on, into README.md";
}

}  // namespace
}  // namespace weft
