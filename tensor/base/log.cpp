// Reads WEFT_LOGS and writes whole lines to stderr.
// Needs log.h only; the first log_enabled() of a process parses the variable.
#include "tensor/base/log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

namespace weft {
namespace {

constexpr const char* kNames[kNumLogChannels] = {"graph", "guards", "recompiles", "fusion", "output_code",
                                                 "cache", "timing", "breaks",     "device"};

// One write, so that lines of several threads do not mix.
void write_line(const std::string& text) {
  const std::string line = "weft: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

uint32_t channel_bit(std::string_view name) {
  if (name == "all") return (1u << kNumLogChannels) - 1;
  for (int i = 0; i < kNumLogChannels; ++i) {
    if (name == kNames[i]) return 1u << i;
  }
  std::string known;
  for (const char* each : kNames) known += std::string(each) + ", ";
  write_line("WEFT_LOGS: there is no channel \"" + std::string(name) + "\"; the channels are " + known +
             "all");
  return 0;
}

uint32_t parse_channels(std::string_view list) {
  uint32_t channels = 0;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (!name.empty()) channels |= channel_bit(name);
  }
  return channels;
}

}  // namespace

const char* name_of(LogChannel channel) { return kNames[static_cast<int>(channel)]; }

void set_logs(std::string_view channels) {
  detail::log_channels.store(parse_channels(channels), std::memory_order_relaxed);
}

uint32_t detail::read_log_channels() {
  const char* const value = std::getenv("WEFT_LOGS");
  const uint32_t from_environment = parse_channels(value != nullptr ? value : "");
  // A set_logs() that came in between wins.
  uint32_t expected = kLogsUnread;
  log_channels.compare_exchange_strong(expected, from_environment, std::memory_order_relaxed);
  return log_channels.load(std::memory_order_relaxed);
}

void log_line(LogChannel channel, const std::string& text) {
  if (log_enabled(channel)) write_line(text);
}

void warn_once(const std::string& key, const std::string& text) {
  // Never destroyed: destructors of static objects may warn too.
  static auto* const mutex = new std::mutex;
  static auto* const said = new std::unordered_set<std::string>;
  {
    const std::lock_guard lock(*mutex);
    if (!said->insert(key).second) return;
  }
  write_line(text);
}

}  // namespace weft
