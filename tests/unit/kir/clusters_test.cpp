// Clusters of work items: where their loops and intrinsics may stand, and what goes wrong between blocks that run at the same time.
#include "unit/kir/sim/sim_testing.h"

namespace xyntra::kir {
namespace {

// Clusters of two blocks of 32 threads, with some shared memory each.
std::string by_clusters(const std::string& body, const std::string& loop = "cluster b < 2") {
  return R"(
kernel both(x: f32[2, 64] global, y: f32[2, 64] global out) {
  shared own: f32[32]
  shared bar: u64[1]
  register got: f32[2]
  register half: f16[2]
  grid i < 2 {
    )" + loop +
         R"( {
      thread t < 32 {
        )" +
         body +
         R"(
      }
    }
  }
}
)";
}

std::string refused(const std::string& text) {
  const Status sound = verify(parsed(text));
  return sound ? "" : sound.error().message;
}

std::string reported(const std::string& body, std::vector<float>* result = nullptr) {
  const Kernel kernel = parsed(by_clusters(body));
  const Status sound = verify(kernel);
  EXPECT_TRUE(sound) << sound.error().message;
  Arguments arguments;
  arguments.add(counting(128)).add(std::vector<float>(128));
  const std::string message = run(kernel, arguments);
  if (result != nullptr) *result = arguments.get<float>(1);
  return message;
}

constexpr const char* kStored = "own[t] = x[i, b * 32 + t]\n";
constexpr const char* kLoaded = "cluster_load(got[0], own[t], 1 - b, 1)\n";
constexpr const char* kMeet = "cluster_barrier()\n";
constexpr const char* kResult = "y[i, b * 32 + t] = got[0]\n";

TEST(KirClusters, BlocksLoadFromOneAnother) {
  std::vector<float> y;
  EXPECT_EQ(reported(std::string(kStored) + kMeet + kLoaded + kMeet + kResult, &y), "");
  for (std::size_t at = 0; at < 128; ++at)
    EXPECT_EQ(y[at], static_cast<float>(at / 64 * 64 + (1 - at % 64 / 32) * 32 + at % 32)) << at;
}

TEST(KirClusters, BlocksStoreToOneAnother) {
  std::vector<float> y;
  EXPECT_EQ(reported(std::string("got[0] = x[i, b * 32 + t]\n") + kMeet +
                         "cluster_store(own[t], got[0], 1 - b, 1)\n" + kMeet + "got[0] = own[t]\n" + kResult,
                     &y),
            "");
  for (std::size_t at = 0; at < 128; ++at)
    EXPECT_EQ(y[at], static_cast<float>(at / 64 * 64 + (1 - at % 64 / 32) * 32 + at % 32)) << at;
}

TEST(KirClusters, ArrivalsOrderThem) {
  const std::string prepared = std::string("if t == 0 { mbarrier_init(bar[0], 32) }\n") + kMeet;
  const std::string told = "cluster_arrive(bar[0], 1 - b)\n", waited = "mbarrier_wait(bar[0], 0)\n";
  EXPECT_EQ(reported(prepared + kStored + told + waited + kLoaded + kMeet + kResult), "");
  const std::string untold = reported(prepared + kStored + kLoaded + kMeet + kResult);
  EXPECT_NE(untold.find("which nobody wrote"), std::string::npos) << untold;
  const std::string deaf =
      reported(prepared + kStored + kMeet + "own[t] = 0.0\n" + told + kLoaded + waited + kMeet + kResult);
  EXPECT_NE(deaf.find("with no barrier between: a race"), std::string::npos) << deaf;
}

TEST(KirClusters, ABarrierIsOfOneBlock) {
  const std::string found =
      reported(std::string(kMeet) + kStored + "barrier()\n" + kLoaded + kMeet + kResult);
  EXPECT_TRUE(found.find("a race") != std::string::npos || found.find("nobody wrote") != std::string::npos)
      << found;
  const std::string after =
      reported(std::string(kStored) + kMeet + "barrier()\n" + "own[t] = 1.0\n" + kLoaded + kMeet + kResult);
  EXPECT_NE(after.find("a race"), std::string::npos) << after;
}

TEST(KirClusters, ABlockHasBegunAndHasNotEnded) {
  const std::string early =
      reported(std::string("got[0] = 1.0\ncluster_store(own[t], got[0], 1 - b, 1)\n") + kMeet + kResult);
  EXPECT_EQ(early,
            "kernel both, line 11: reaches own[0] of block 1, which may not have begun: no cluster_barrier "
            "before (i = 0, b = 0, t = 0)");
  const std::string late = reported(std::string(kStored) + kMeet + kLoaded + kResult);
  EXPECT_EQ(late,
            "kernel both, line 12: block 0 of a cluster may end before thread 0 of block 1 has reached its "
            "shared memory: no cluster_barrier after");
}

TEST(KirClusters, OneThatWaitsForEver) {
  const std::string found = reported(std::string("if t == 0 { mbarrier_init(bar[0], 1) }\n") + kMeet +
                                     "if b == 0 { mbarrier_wait(bar[0], 0) }\n" + kMeet);
  EXPECT_NE(found.find("no thread can go on"), std::string::npos) << found;
}

TEST(KirClusters, WhatIsRefused) {
  const std::string good = std::string(kStored) + kMeet + kLoaded + kMeet + kResult;
  EXPECT_EQ(refused(by_clusters(good)), "");
  EXPECT_EQ(refused(by_clusters(good, "cluster b < 9")),
            "kernel both: the extent of cluster loop 'b' must be a constant from 1 to 8");
  EXPECT_EQ(refused(by_clusters(good, "for b < 2")),
            "kernel both: thread loop 't' must stand directly inside the grid loops");
  EXPECT_EQ(refused("kernel k(y: f32[4] global out) { cluster c < 2 { thread t < 2 { y[t] = 0.0 } } }"),
            "kernel k: cluster loop 'c' must stand directly inside grid loops and around thread loops");
  EXPECT_EQ(refused("kernel k(y: f32[2] global out) { grid i < 1 { cluster c < 2 { y[c] = 0.0 } } }"),
            "kernel k: cluster loop 'c' must stand directly inside grid loops and around thread loops");
  EXPECT_EQ(refused("kernel k(y: f32[2] global out) { grid i < 1 { thread t < 2 { cluster_barrier() } } }"),
            "kernel k: cluster_barrier stands outside of a cluster loop");
  EXPECT_EQ(refused(by_clusters("cluster_load(got[0], own[t], 2 - b, 1)")),
            "kernel both: cluster_load: 2 - b is not shown to be a work item of a cluster of 2");
  EXPECT_EQ(refused(by_clusters("cluster_load(got[0], own[t], b, 2)"))
                .find("kernel both: cluster_load at 'own': index"),
            0U);
  EXPECT_EQ(refused(by_clusters("cluster_load(half[0], own[t], b, 1)")),
            "kernel both: cluster_load moves values of one dtype");
  EXPECT_EQ(refused(by_clusters("cluster_arrive(bar[0], t)")),
            "kernel both: cluster_arrive: t is not shown to be a work item of a cluster of 2");
  for (const std::string condition : {"b == 0", "t == 0", "own[0] > 0.0", "got[0] > 0.0"})
    EXPECT_NE(refused(by_clusters("if " + condition + " { cluster_barrier() }")), "") << condition;
  EXPECT_EQ(refused(by_clusters("if b == 0 { barrier() }")), "");  // all threads of that block
}

// A box of x for both blocks, which block 0 brings.
std::string multicast(const std::string& expected, const std::string& mask, const std::string& last) {
  return R"(
kernel both(x: f32[4, 8] global, y: f32[2, 32] global out) {
  shared box: f32[4, 8]
  shared bar: u64[1]
  grid i < 1 {
    cluster b < 2 {
      thread t < 32 {
        if t == 0 { mbarrier_init(bar[0], 1) }
        cluster_barrier()
        if (t == 0) & (b == 0) { async_copy_box_multicast(box[0, 0], x[0, 0], 4, 8, bar[0], )" +
         mask + R"() }
        if t == 0 { mbarrier_expect(bar[0], )" +
         expected + R"() }
        mbarrier_wait(bar[0], 0)
        y[b, t] = box[floordiv(t, 8), mod(t, 8)]
        )" +
         last + R"(
      }
    }
  }
}
)";
}

std::string multicast_report(const std::string& text) {
  const Kernel kernel = parsed(text);
  const Status sound = verify(kernel);
  if (!sound) return sound.error().message;
  Arguments arguments;
  arguments.add(counting(32)).add(std::vector<float>(64));
  std::string message = run(kernel, arguments);
  if (message.empty()) {
    const auto y = arguments.get<float>(1);
    for (std::size_t at = 0; at < 64; ++at) EXPECT_EQ(y[at], static_cast<float>(at % 32));
  }
  return message;
}

TEST(KirClusters, CopiesToSeveralBlocks) {
  const std::string before = "if t == 0 { mbarrier_expect(bar[0], 128) }\n        ";
  std::string good = multicast("128", "3", "");
  const std::string expect = "if t == 0 { mbarrier_expect(bar[0], 128) }";
  good.erase(good.find(expect), expect.size());
  good.insert(good.find("if (t == 0) &"), before);
  EXPECT_EQ(multicast_report(good), "");
  const std::string early = multicast_report(multicast("128", "3", ""));
  EXPECT_NE(early.find("more than this phase of its barrier expects"), std::string::npos) << early;
  EXPECT_EQ(multicast_report(multicast("128", "4", "")),
            "kernel both: async_copy_box_multicast: 4 are not the bits of work items of a cluster of 2");
  std::string one = good;
  one.replace(one.find("bar[0], 3)"), 10, "bar[0], 1)");
  const std::string forgotten = multicast_report(one);
  EXPECT_NE(forgotten.find("no thread can go on: thread 0 of block 1 waits for parity 0 of bar[0]"),
            std::string::npos)
      << forgotten;
}

}  // namespace
}  // namespace xyntra::kir
