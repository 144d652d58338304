// Tests of the log: channels from the environment and by call, the form of a line, warnings said once.
#include "tensor/base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weft {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override { set_logs(""); }
};

TEST_F(Log, ReadsTheEnvironmentAtTheFirstUse) {
  setenv("WEFT_LOGS", "guards, output_code", 1);
  detail::log_channels = detail::kLogsUnread;  // as in a new process
  EXPECT_TRUE(log_enabled(LogChannel::Guards));
  EXPECT_TRUE(log_enabled(LogChannel::OutputCode));
  EXPECT_FALSE(log_enabled(LogChannel::Graph));
  unsetenv("WEFT_LOGS");
}

TEST_F(Log, WritesOnlyToChannelsThatAreOn) {
  set_logs("graph");
  testing::internal::CaptureStderr();
  log_line(LogChannel::Graph, "4 nodes");
  log_line(LogChannel::Timing, "0.2 s");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft: 4 nodes\n");
}

TEST_F(Log, AllMeansEveryChannel) {
  set_logs("all");
  for (int i = 0; i < kNumLogChannels; ++i) EXPECT_TRUE(log_enabled(static_cast<LogChannel>(i)));
  set_logs("");
  for (int i = 0; i < kNumLogChannels; ++i) EXPECT_FALSE(log_enabled(static_cast<LogChannel>(i)));
}

TEST_F(Log, AnUnknownChannelIsNamedWithTheKnownOnes) {
  testing::internal::CaptureStderr();
  set_logs("grpah,fusion");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "weft: WEFT_LOGS: there is no channel \"grpah\"; the channels are graph, guards, recompiles, fusion, "
      "output_code, cache, timing, breaks, device, all\n");
  EXPECT_TRUE(log_enabled(LogChannel::Fusion));
}

TEST_F(Log, AWarningIsSaidOncePerKey) {
  testing::internal::CaptureStderr();
  warn_once("log_test.a", "first");
  warn_once("log_test.a", "first again");
  warn_once("log_test.b", "second");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft: first\nweft: second\n");
}

}  // namespace
}  // namespace weft
