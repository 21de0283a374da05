#include "support/limits/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {
namespace {

TEST(ThreadPool, VisitsEveryIterationOnceInTheSameChunks) {
  using Chunk = std::pair<std::int64_t, std::int64_t>;
  std::set<Chunk> expected;
  for (std::int64_t at = 3; at < 1000; at += 7) expected.insert({at, std::min<std::int64_t>(at + 7, 1000)});
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::mutex mutex;
      std::set<Chunk> seen;
      pool.parallel_for(3, 1000, 7, [&](std::int64_t begin, std::int64_t end) {
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(seen.insert({begin, end}).second);
      });
      ASSERT_EQ(seen, expected);
    }
  }
}

TEST(ThreadPool, EmptyAndExtremeRanges) {
  ThreadPool pool(3);
  int calls = 0;
  pool.parallel_for(5, 5, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  pool.parallel_for(5, 4, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 0);
  pool.parallel_for(0, INT64_MAX, INT64_MAX, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, INT64_MAX);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(pool.parallel_for(0, 1, 0, [](std::int64_t, std::int64_t) {}), InternalError);
  EXPECT_EQ(ThreadPool(-3).threads(), 1);
}

TEST(ThreadPool, UsesSeveralThreads) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // Each chunk waits until the others have begun, so they cannot run in one thread.
  std::atomic<int> begun{0};
  pool.parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) {
    ++begun;
    while (begun < 3) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3u);
}

TEST(ThreadPool, TheFirstExceptionInLoopOrderArrives) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      std::string message;
      try {
        pool.parallel_for(0, 100, 1, [&](std::int64_t begin, std::int64_t) {
          if (begin >= 17 && begin % 3 == 2) internal_error("chunk " + std::to_string(begin));
        });
      } catch (const InternalError& error) {
        message = error.message();
      }
      ASSERT_EQ(message, "chunk 17");
    }
    std::atomic<int> count{0};
    pool.parallel_for(0, 100, 1, [&](std::int64_t, std::int64_t) { ++count; });
    EXPECT_EQ(count, 100);  // usable afterwards
  }
}

TEST(ThreadPool, NestedAndConcurrentCallsRun) {
  ThreadPool pool(2);
  std::atomic<std::int64_t> sum{0};
  const auto nested = [&] {
    pool.parallel_for(0, 8, 1, [&](std::int64_t, std::int64_t) {
      pool.parallel_for(0, 10, 3, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    });
  };
  nested();
  EXPECT_EQ(sum, 80);
  sum = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) nested();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 80);
}

TEST(ThreadPool, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer starts no threads after a fork";
#endif
  ThreadPool pool(3);
  const auto total = [](ThreadPool& used) {
    std::atomic<std::int64_t> sum{0};
    used.parallel_for(0, 1000, 1, [&](std::int64_t begin, std::int64_t) { sum += begin; });
    return sum.load();
  };
  EXPECT_EQ(total(pool), 499500);
  EXPECT_EQ(total(ThreadPool::shared()), 499500);
  // Another thread keeps the pool busy, so that the fork happens while its locks are taken now and then.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) total(pool);
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a deadlock becomes a failure
      const bool right = total(pool) == 499500 && total(ThreadPool::shared()) == 499500;
      _exit(right ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  stop = true;
  busy.join();
}

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() : root_(testing::TempDir() + "xyntra-cgroup-" + std::to_string(getpid())) {}
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(CgroupTest, TheTightestQuotaOfV2Counts) {
  put("/proc/self/cgroup", "0::/pod/app\n");
  EXPECT_EQ(cgroup_quota(root_), std::nullopt);
  put("/sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_quota(root_), std::nullopt);
  put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_quota(root_), 2);
  put("/sys/fs/cgroup/pod/app/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_quota(root_), 1);
}

TEST_F(CgroupTest, V1AndOddFiles) {
  put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/x\nnonsense\n1:name=a:b:/c\n0::/\n");
  EXPECT_EQ(cgroup_quota(root_), std::nullopt);
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_quota(root_), std::nullopt);
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cgroup_quota(root_), 3);
  put("/sys/fs/cgroup/cpu.max", "garbage\n");
  EXPECT_EQ(cgroup_quota(root_), 3);
  EXPECT_EQ(cgroup_quota(root_ + "/nowhere"), std::nullopt);
}

TEST_F(CgroupTest, TheTightestMemoryLimitCounts) {
  put("/proc/self/cgroup", "5:memory:/a\n0::/b\n");
  EXPECT_EQ(cgroup_memory(root_), std::nullopt);
  put("/sys/fs/cgroup/b/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory(root_), std::nullopt);
  put("/sys/fs/cgroup/memory.max", "5000000000\n");
  EXPECT_EQ(cgroup_memory(root_), 5'000'000'000);
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(cgroup_memory(root_), 1000);
  EXPECT_GT(default_memory_limit(), 0);
}

TEST(Threads, ThereIsAtLeastOne) { EXPECT_GE(available_threads(), 1); }

}  // namespace
}  // namespace xyntra
