#include "support/limits/stop_hook.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace xyntra {
namespace {

std::atomic<int> stops{0};

void count_stop(const Error&) { ++stops; }

// A call that looks at no budget, long enough for another thread to have looked several times.
void somebody_elses_code() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

class StopHookTest : public testing::Test {
 protected:
  void SetUp() override {
    stops = 0;
    call_when_stopped(&budget_, count_stop);
  }
  void TearDown() override { call_when_stopped(nullptr, nullptr); }

  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  const Budget budget_{INT64_MAX, std::nullopt, token_};
};

TEST_F(StopHookTest, TheWatchdogLooksDuringCallsOfOthers) {
  token_->cancel();
  const Watchdog in_driver;
  somebody_elses_code();
  EXPECT_GT(stops.load(), 0);
}

TEST_F(StopHookTest, TheWatchdogLooksNowhereElse) {
  token_->cancel();
  {
    const Watchdog in_driver;
  }
  const int before = stops.load();
  somebody_elses_code();
  EXPECT_EQ(stops.load(), before);
}

TEST_F(StopHookTest, NothingHappensBeforeTheStop) {
  const Watchdog in_driver;
  somebody_elses_code();
  EXPECT_EQ(stops.load(), 0);
}

}  // namespace
}  // namespace xyntra
