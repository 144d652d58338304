// Devices: names and parsing.
#include "tensor/device.h"

#include <charconv>
#include <ostream>

namespace weft {

Device::Device(const std::string& text) : type(kCPU), index(0) {
  const std::string_view all(text);
  const size_t colon = all.find(':');
  const std::string_view name = all.substr(0, colon);
  int number = 0;
  bool valid = name == "cpu" || name == "cuda";
  if (colon != std::string_view::npos) {
    const std::string_view digits = all.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    valid =
        valid && error == std::errc() && end == digits.data() + digits.size() && number >= 0 && number < 128;
  }
  WEFT_CHECK(valid, "device: '", text, "' is not a device; use \"cpu\", \"cuda\" or \"cuda:1\"");
  type = name == "cuda" ? kCUDA : kCPU;
  index = static_cast<int8_t>(number);
}

std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.is_cpu()) return out << "cpu";
  return out << "cuda:" << static_cast<int>(device.index);
}

}  // namespace weft
