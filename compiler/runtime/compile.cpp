// Reads WEFT_COMPILE.
#include "compiler/runtime/compile.h"

#include <cstdlib>
#include <cstring>

namespace weft {

bool detail::is_compile_enabled_by_environment() {
  static const bool enabled = [] {
    const char* value = std::getenv("WEFT_COMPILE");
    return value == nullptr || std::strcmp(value, "0") != 0;
  }();
  return enabled;
}

}  // namespace weft
