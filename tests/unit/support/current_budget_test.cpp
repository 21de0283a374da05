#include "support/limits/current_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/limits/guarded.h"
#include "support/limits/threads.h"

namespace xyntra {
namespace {

std::shared_ptr<CancelToken> cancelled() {
  auto token = std::make_shared<CancelToken>();
  token->cancel();
  return token;
}

// As a pass does that is called for every node.
int poll_often() {
  constexpr int kOften = 100000;
  for (int i = 0; i < kOften; ++i) poll_limits();
  return kOften;
}

TEST(CurrentBudget, PollsDoNothingWithoutABudget) {
  EXPECT_EQ(current_budget(), nullptr);
  EXPECT_NO_THROW(poll_often());
  EXPECT_TRUE(check_limits().has_value());
}

TEST(CurrentBudget, PollsEndTheWorkOfAStoppedBudget) {
  const Budget budget(INT64_MAX, std::nullopt, cancelled());
  const auto done = within(&budget, "counting", []() -> Result<int> { return poll_often(); });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().to_string(), "limit: cancelled while counting");
  EXPECT_EQ(current_budget(), nullptr);
  EXPECT_EQ(budget.phase(), nullptr);
}

TEST(CurrentBudget, ADeadlineThatPassesMeanwhileIsSeen) {
  const Budget budget(INT64_MAX, Budget::Clock::now() + std::chrono::milliseconds(20), nullptr);
  const auto done = within(&budget, "waiting", []() -> Result<int> {
    for (;;) poll_limits();
  });
  EXPECT_EQ(done.error().to_string(), "limit: out of time while waiting");
}

TEST(CurrentBudget, InnerScopesKeepWhatTheyDoNotSay) {
  const Budget outer(1, std::nullopt, nullptr), inner(2, std::nullopt, nullptr);
  const BudgetScope whole(&outer, "rewriting");
  {
    const BudgetScope part("folding");
    EXPECT_EQ(current_budget(), &outer);
    EXPECT_STREQ(outer.phase(), "folding");
    const BudgetScope other(&inner, "running");
    EXPECT_EQ(current_budget(), &inner);
    EXPECT_STREQ(inner.phase(), "running");
  }
  EXPECT_EQ(current_budget(), &outer);
  EXPECT_STREQ(outer.phase(), "rewriting");
}

TEST(CurrentBudget, ThreadsOfAPoolHaveTheirCallersBudget) {
  const Budget budget(INT64_MAX, std::nullopt, nullptr);
  const BudgetScope scope(&budget);
  ThreadPool pool(4);
  std::atomic<int> others = 0;
  pool.parallel_for(0, 64, 1, [&](std::int64_t, std::int64_t) {
    if (current_budget() != &budget) ++others;
    std::this_thread::yield();
  });
  EXPECT_EQ(others, 0);
}

TEST(CurrentBudget, WhatAThreadOfAPoolThrowsComesBackAsAnError) {
  const Budget budget(INT64_MAX, std::nullopt, cancelled());
  ThreadPool pool(4);
  const auto done = within(&budget, "counting", [&]() -> Result<int> {
    pool.parallel_for(0, 64, 1, [](std::int64_t, std::int64_t) { poll_often(); });
    return 0;
  });
  EXPECT_EQ(done.error().to_string(), "limit: cancelled while counting");
}

TEST(CurrentBudget, GuardedTurnsItIntoAnErrorToo) {
  const auto done = guarded([]() -> Result<int> { throw LimitReached(limit_error("out of time").value()); });
  EXPECT_EQ(done.error().to_string(), "limit: out of time");
}

TEST(Budget, WatchesTheProcess) {
  if (process_memory() == 0) GTEST_SKIP() << "this system does not tell what a process takes";
  constexpr std::size_t kBytes = 64 << 20;
  Budget budget(kBytes / 4, std::nullopt, nullptr);
  budget.watch_process(kBytes / 4);
  EXPECT_TRUE(budget.check_time().has_value());
  const std::vector<char> large(kBytes, 'x');  // no tensor: nobody charges for it
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(budget.stopped());
  const Status found = budget.check_time();
  ASSERT_FALSE(found.has_value());
  EXPECT_NE(found.error().message.find("of memory are in use, of at most 16 MiB"), std::string::npos)
      << found.error().message << large.back();
}

}  // namespace
}  // namespace xyntra
