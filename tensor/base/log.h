// What Weft says on stderr: channels chosen by WEFT_LOGS=graph,guards,... and warnings that are said once.
// Needs the standard library only. Each line starts with "weft: ".
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

enum class LogChannel : uint8_t {
  Graph,
  Guards,
  Recompiles,
  Fusion,
  OutputCode,
  Cache,
  Timing,
  Breaks,
  Device
};
inline constexpr int kNumLogChannels = 9;

// "output_code": the channel's name in WEFT_LOGS.
const char* name_of(LogChannel channel);

// Replaces what WEFT_LOGS said: names separated by commas, "all" for every channel, "" for none.
// An unknown name is reported on stderr, not an error: a typo in the environment must not stop a program.
void set_logs(std::string_view channels);

namespace detail {
inline constexpr uint32_t kLogsUnread = 1u << 31;
inline std::atomic<uint32_t> log_channels{kLogsUnread};  // one bit per channel
uint32_t read_log_channels();                            // parses WEFT_LOGS at the first use
}  // namespace detail

// One load and a test: may stand on hot paths.
inline bool log_enabled(LogChannel channel) {
  uint32_t channels = detail::log_channels.load(std::memory_order_relaxed);
  if (channels == detail::kLogsUnread) [[unlikely]]
    channels = detail::read_log_channels();
  return (channels >> static_cast<int>(channel) & 1) != 0;
}

// Writes "weft: text" when the channel is on. Ask log_enabled() first where making the text costs something.
void log_line(LogChannel channel, const std::string& text);

// Writes "weft: text" the first time that this key is seen in the process.
void warn_once(const std::string& key, const std::string& text);

}  // namespace weft
