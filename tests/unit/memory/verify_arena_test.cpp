// The verifier against plans broken in many ways, with a check of every pair as the judge.
#include "memory/verify_arena.h"

#include <gtest/gtest.h>

#include "memory/arena.h"
#include "unit/memory/model_lifetimes.h"

namespace xyntra {
namespace {

using namespace testing;  // NOLINT: the generators of model_lifetimes.h

bool right_by_pairs(const std::vector<ArenaRequest>& requests, const ArenaPlacement& placement) {
  const auto size = [&requests](std::size_t i) { return requests[i].size.constant(); };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const ArenaRequest& a = requests[i];
    const std::int64_t begin = placement.offsets[i], end = begin + size(i);
    if (begin < 0 || end > placement.peak || begin % a.alignment != 0 || a.first > a.last) return false;
    for (std::size_t j = 0; j < i; ++j) {
      const ArenaRequest& b = requests[j];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool meet = begin < placement.offsets[j] + size(j) && placement.offsets[j] < end;
      if (together && meet && size(i) > 0 && size(j) > 0) return false;
    }
  }
  return true;
}

TEST(VerifyArena, AgreesWithAllPairsOnBrokenPlans) {
  int refused = 0, accepted = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<ArenaRequest> requests = random_lifetimes(40, seed);
    const ArenaPlacement good = assign_offsets(requests, plan_arena(requests)->order, {}).value();
    ASSERT_TRUE(verify_arena(requests, good, {}).has_value());
    ASSERT_TRUE(right_by_pairs(requests, good));
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t count) { return random() % count; };
    for (int mutation = 0; mutation < 200; ++mutation) {
      std::vector<ArenaRequest> asked = requests;
      ArenaPlacement broken = good;
      const std::size_t i = below(asked.size()), j = below(asked.size());
      switch (mutation % 10) {
        case 0: broken.offsets[i] += asked[i].alignment; break;
        case 1: broken.offsets[i] -= asked[i].alignment; break;
        case 2: broken.offsets[i] += 1; break;
        case 3: std::swap(broken.offsets[i], broken.offsets[j]); break;
        case 4: broken.offsets[i] = broken.offsets[j]; break;
        case 5: broken.peak -= 1 + static_cast<std::int64_t>(below(100)); break;
        case 6: asked[i].last += 1 + below(30); break;
        case 7: asked[i].first -= std::min(asked[i].first, 1 + below(30)); break;
        case 8: asked[i].size = asked[i].size + Dim(static_cast<std::int64_t>(1 + below(5000))); break;
        case 9: asked[i].alignment *= 8; break;
      }
      const bool right = right_by_pairs(asked, broken);
      EXPECT_EQ(verify_arena(asked, broken, {}).has_value(), right)
          << "seed " << seed << ", mutation " << mutation;
      ++(right ? accepted : refused);
    }
  }
  EXPECT_GT(refused, 5000) << "most mutations break a tight plan";
  EXPECT_GT(accepted, 500) << "some do not, and must pass";
}

TEST(VerifyArena, NamesWhatIsWrong) {
  const std::vector<ArenaRequest> requests = {{64, 0, 2, 64}, {64, 2, 3, 64}};
  const auto message = [&requests](ArenaPlacement placement) {
    const Status status = verify_arena(requests, placement, {});
    EXPECT_FALSE(status.has_value());
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(message({{0, 0}, 128}),
            "the memory plan is wrong: request 0 and request 1 share memory at step 2");
  EXPECT_EQ(message({{0, 32}, 128}), "the memory plan is wrong: request 1 is not aligned");
  EXPECT_EQ(message({{0, 64}, 127}), "the memory plan is wrong: request 1 does not lie inside the arena");
  EXPECT_EQ(message({{0, -64}, 128}), "the memory plan is wrong: request 1 does not lie inside the arena");
  EXPECT_EQ(message({{0, INT64_MAX - 63}, 128}),
            "the memory plan is wrong: request 1 does not lie inside the arena");
  EXPECT_EQ(message({{0}, 128}), "the memory plan is wrong: it does not place every request");
  EXPECT_TRUE(verify_arena(requests, {{64, 0}, 128}, {}).has_value());
}

TEST(VerifyArena, LooksAtTheSizesOfTheRun) {
  const Dim n = Dim::symbol("n");
  const std::vector<ArenaRequest> requests = {{n, 0, 1, 1}, {16, 1, 1, 1}};
  EXPECT_TRUE(verify_arena(requests, {{0, 16}, 32}, {{"n", 16}}).has_value());
  EXPECT_FALSE(verify_arena(requests, {{0, 16}, 32}, {{"n", 17}}).has_value());
  EXPECT_FALSE(verify_arena(requests, {{0, 16}, 32}, {{"n", -1}}).has_value());
  EXPECT_FALSE(verify_arena(requests, {{0, 16}, 32}, {}).has_value());
}

}  // namespace
}  // namespace xyntra
