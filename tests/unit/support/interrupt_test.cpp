#include "support/limits/interrupt.h"

#include <gtest/gtest.h>

#include "support/limits/current_budget.h"
#include "support/limits/threads.h"

namespace xyntra {
namespace {

using namespace std::chrono_literals;

// Says yes from some moment on, and counts how often it was asked.
struct Caller {
  std::chrono::steady_clock::time_point from;
  int questions = 0;
  static int asked(void* context) {
    auto& caller = *static_cast<Caller*>(context);
    ++caller.questions;
    return std::chrono::steady_clock::now() >= caller.from ? 1 : 0;
  }
};

Caller yes_after(std::chrono::milliseconds time) { return {std::chrono::steady_clock::now() + time}; }

// Until the budget is stopped; false after 10 s.
bool is_stopped(const Budget& budget) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!budget.stopped() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  return budget.stopped();
}

TEST(Interrupt, EndsACallAndNotTheNext) {
  const Budget budget;
  {
    Caller caller = yes_after(50ms);
    Interrupt interrupt(Caller::asked, &caller);
    const InterruptScope scope(&interrupt);
    EXPECT_TRUE(is_stopped(budget));
    EXPECT_EQ(budget.check_time().error().message, "cancelled");
    EXPECT_LE(caller.questions, 10);  // not at every look
  }
  EXPECT_FALSE(budget.stopped());
  EXPECT_TRUE(budget.check_time().has_value());
}

TEST(Interrupt, PollsSeeItWithoutABudget) {
  Caller caller = yes_after(20ms);
  Interrupt interrupt(Caller::asked, &caller);
  const InterruptScope scope(&interrupt);
  const auto forever = [] {
    while (true) poll_limits();
  };
  EXPECT_THROW(forever(), LimitReached);
}

TEST(Interrupt, IsAskedByItsThreadAndSeenByThoseThatHelp) {
  const Budget budget;
  ThreadPool pool(3);
  Caller caller = yes_after(30ms);
  Interrupt interrupt(Caller::asked, &caller);
  const InterruptScope scope(&interrupt);
  std::atomic<int> stopped{0};
  pool.parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) { stopped += is_stopped(budget) ? 1 : 0; });
  EXPECT_EQ(stopped, 3);
}

TEST(Interrupt, IsAskedWhileOthersAreWaitedFor) {
  const Budget budget;
  ThreadPool pool(2);
  Caller caller = yes_after(30ms);
  Interrupt interrupt(Caller::asked, &caller);
  const InterruptScope scope(&interrupt);
  const auto own = std::this_thread::get_id();
  std::atomic<bool> other_began{false}, other_stopped{false};
  pool.parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    if (std::this_thread::get_id() == own) {
      while (!other_began) std::this_thread::yield();
    } else {
      other_began = true;
      other_stopped = is_stopped(budget);
    }
  });
  EXPECT_TRUE(other_stopped);
}

TEST(Interrupt, LeavesOtherCallsAlone) {
  const Budget budget;
  Caller caller = yes_after(0ms);
  Interrupt interrupt(Caller::asked, &caller);
  const InterruptScope scope(&interrupt);
  ASSERT_TRUE(is_stopped(budget));
  bool other = true;
  std::thread([&] { other = budget.stopped(); }).join();
  EXPECT_FALSE(other);
}

}  // namespace
}  // namespace xyntra
