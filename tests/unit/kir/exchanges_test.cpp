// What threads of a work item tell one another without the barrier of all of them: shuffles and votes of a warp, barriers with numbers,
// copies of boxes.
#include "unit/kir/sim/sim_testing.h"

namespace xyntra::kir {
namespace {

std::string refused(const std::string& text) {
  const Status sound = verify(parsed(text));
  return sound ? "" : sound.error().message;
}

// Two warps; each thread has x, does something with it, and stores what it has then.
std::string by_warps(const std::string& dtype, const std::string& body) {
  return R"(
kernel exchange(x: f32[64], y: )" +
         dtype + R"([64] global out) {
  register own: f32[1]
  register holds: bool[1]
  register got: )" +
         dtype + R"([1]
  grid i < 1 {
    thread w < 2 {
      thread t < 32 {
        own[0] = x[w * 32 + t]
        holds[0] = own[0] > 20
        )" +
         body +
         R"(
        y[w * 32 + t] = got[0]
      }
    }
  }
}
)";
}

template <class T>
std::vector<T> exchanged(const std::string& dtype, const std::string& body) {
  const Kernel kernel = parsed(by_warps(dtype, body));
  const Status sound = verify(kernel);
  EXPECT_TRUE(sound) << sound.error().message;
  Arguments arguments;
  arguments.add(counting(64)).add(std::vector<T>(64));
  EXPECT_EQ(run(kernel, arguments), "");
  return arguments.get<T>(1);
}

TEST(KirExchanges, ShufflesStayInAWarp) {
  const auto reversed = exchanged<float>("f32", "shuffle_idx(got[0], own[0], 31 - t)");
  const auto further = exchanged<float>("f32", "shuffle_down(got[0], own[0], 5)");
  const auto first = exchanged<float>("f32", "shuffle_idx(got[0], own[0], 0)");
  for (std::size_t t = 0; t < 64; ++t) {
    EXPECT_EQ(reversed[t], static_cast<float>(t / 32 * 32 + 31 - t % 32));
    EXPECT_EQ(further[t], static_cast<float>(t % 32 + 5 < 32 ? t + 5 : t));
    EXPECT_EQ(first[t], static_cast<float>(t / 32 * 32));
  }
}

TEST(KirExchanges, VotesAreOfAWarp) {  // above 20: 11 threads of the first, all of the second
  const auto any = exchanged<std::uint8_t>("bool", "vote_any(got[0], holds[0])");
  const auto all = exchanged<std::uint8_t>("bool", "vote_all(got[0], holds[0])");
  const auto votes = exchanged<std::uint32_t>("u32", "ballot(got[0], holds[0])");
  for (std::size_t t = 0; t < 64; ++t) {
    EXPECT_EQ(any[t], 1);
    EXPECT_EQ(all[t], t < 32 ? 0 : 1);
    EXPECT_EQ(votes[t], t < 32 ? 0xFFE00000U : UINT32_MAX);
  }
}

TEST(KirExchanges, WholeWarpsReachThem) {
  const std::string got = "got[0] = own[0]\n        ";
  // Conditions may tell warps apart, and not the threads of one.
  const auto one_warp = exchanged<float>("f32", got + "if w == 0 { shuffle_idx(got[0], own[0], 31) }");
  EXPECT_EQ(one_warp[3], 31);
  EXPECT_EQ(one_warp[40], 40);
  EXPECT_NE(refused(by_warps("f32", got + "if t < 16 { shuffle_idx(got[0], own[0], 0) }"))
                .find("shuffle_idx stands where threads differ: under if t < 16"),
            std::string::npos);
  EXPECT_NE(refused(by_warps("f32", got + "if own[0] < 3 { shuffle_down(got[0], own[0], 1) }"))
                .find("stands where threads differ"),
            std::string::npos);
  std::string halves = by_warps("f32", "shuffle_idx(got[0], own[0], 0)");
  halves.replace(halves.find("t < 32"), 6, "t < 24");
  EXPECT_NE(refused(halves).find("needs whole warps of 32 threads"), std::string::npos);
}

TEST(KirExchanges, NobodyDoesNothing) {
  std::string nobody = by_warps("f32", "if t < 1 { got[0] = own[0] }");
  nobody.replace(nobody.find("t < 32"), 6, "t < 0");
  EXPECT_EQ(refused(nobody), "");
  Arguments arguments;
  arguments.add(counting(64)).add(std::vector<float>(64));
  EXPECT_EQ(run(parsed(nobody), arguments), "");
}

TEST(KirExchanges, NumbersOfThreadsFit) {
  EXPECT_NE(refused(by_warps("f32", "shuffle_idx(got[0], own[0], t + 1)"))
                .find("shuffle_idx: t + 1 is not shown to be from 0 to 31"),
            std::string::npos);
  EXPECT_NE(refused(by_warps("f32", "shuffle_down(got[0], own[0], 32)")).find("from 1 to 31"),
            std::string::npos);
  EXPECT_NE(refused(by_warps("f32", "shuffle_down(got[0], own[0], t)"))
                .find("operand 3 of shuffle_down must be a constant"),
            std::string::npos);
  EXPECT_NE(refused(by_warps("f32", "ballot(got[0], holds[0])")).find("it takes u32, not f32"),
            std::string::npos);
  EXPECT_NE(refused(by_warps("u32", "shuffle_idx(got[0], own[0], 0)")).find("values of one dtype"),
            std::string::npos);
}

// ---- barriers with numbers

// Each of two pairs of warps reverses its 64 elements through shared memory.
std::string in_pairs(const std::string& barrier) {
  return R"(
kernel pairs(x: f32[2, 64], y: f32[2, 64] global out) {
  shared s: f32[2, 64]
  grid i < 1 {
    thread w < 2 {
      thread t < 64 {
        s[w, t] = x[w, t]
        )" +
         barrier + R"(
        y[w, t] = s[w, 63 - t]
      }
    }
  }
}
)";
}

std::string fault_in_pairs(const std::string& barrier) {
  Arguments arguments;
  arguments.add(counting(128)).add(std::vector<float>(128));
  return run(parsed(in_pairs(barrier)), arguments);
}

TEST(KirExchanges, NamedBarriersOrderThoseWhoMeet) {
  Arguments arguments;
  arguments.add(counting(128)).add(std::vector<float>(128));
  const Kernel kernel = parsed(in_pairs("named_barrier(w + 1, 64)"));
  ASSERT_TRUE(verify(kernel)) << verify(kernel).error().message;
  ASSERT_EQ(run(kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(1)[0], 63);
  EXPECT_EQ(arguments.get<float>(1)[64], 127);
  // One for either pair alone, under a condition; and one for all.
  EXPECT_EQ(fault_in_pairs("if w == 0 { named_barrier(1, 64) } else { named_barrier(2, 64) }"), "");
  EXPECT_EQ(fault_in_pairs("named_barrier(3, 128)"), "");
}

TEST(KirExchanges, NamedBarriersThatAreWrongAreReported) {
  EXPECT_NE(fault_in_pairs("if w == 0 { named_barrier(1, 64) }").find("a race"), std::string::npos);
  EXPECT_NE(fault_in_pairs("if w == 0 { named_barrier(1, 128) }")
                .find("no thread can go on: thread 0 waits at barrier 1"),
            std::string::npos);
  EXPECT_NE(fault_in_pairs("if w == 0 { named_barrier(1, 128) } else { named_barrier(1, 96) }")
                .find("the barrier waits for 128 threads, not 96"),
            std::string::npos);
  // The first 32 that come go on before the others of their pair have written.
  EXPECT_NE(fault_in_pairs("if t < 32 { named_barrier(w + 1, 32) }").find("a race"), std::string::npos);
  EXPECT_NE(refused(in_pairs("named_barrier(w, 64)")).find("w is not shown to be from 1 to 15"),
            std::string::npos);
  EXPECT_NE(refused(in_pairs("named_barrier(1, 65)")).find("must be whole warps"), std::string::npos);
  EXPECT_NE(refused(in_pairs("named_barrier(1, 256)")).find("no more than there are"), std::string::npos);
}

// ---- boxes

// A box of [2, 3, 4] from (1, 3, 4) of x[3, 5, 6], of which a part lies outside, comes and goes on as it came.
std::string boxes(const std::string& columns, const std::string& bytes) {
  return R"(
kernel boxes(x: f32[3, 5, 6], y: f32[2, 2, 4] global out) {
  shared s: f32[2, 3, 4]
  shared ready: u64[1]
  grid i < 1 {
    thread t < 1 {
      mbarrier_init(ready[0], 1)
      mbarrier_expect(ready[0], )" +
         bytes + R"()
      async_copy_box3(s[0, 0, 0], x[1, 3, 4], 2, 3, )" +
         columns + R"(, ready[0])
      mbarrier_wait(ready[0], 0)
      async_store_box3(y[0, 0, 0], s[0, 0, 0], 2, 3, 4)
      async_store_wait()
    }
  }
}
)";
}

TEST(KirExchanges, BoxesHaveUpToFiveExtents) {
  const Kernel kernel = parsed(boxes("4", "96"));
  ASSERT_TRUE(verify(kernel)) << verify(kernel).error().message;
  Arguments arguments;
  arguments.add(counting(90)).add(std::vector<float>(16));
  ASSERT_EQ(run(kernel, arguments), "");
  const auto y = arguments.get<float>(1);
  for (std::size_t at = 0; at < 16; ++at) {
    const std::size_t outer = 1 + at / 8, row = 3 + at / 4 % 2, column = 4 + at % 4;
    EXPECT_EQ(y[at], column < 6 ? static_cast<float>((outer * 5 + row) * 6 + column) : 0.0F) << at;
  }
  EXPECT_NE(refused(boxes("5", "96")).find("dimension 2"), std::string::npos);
  EXPECT_NE(run(parsed(boxes("4", "92")), arguments).find("4 more than this phase"), std::string::npos);
  EXPECT_NE(run(parsed(boxes("4", "100")), arguments).find("no thread can go on"), std::string::npos);
}

TEST(KirExchanges, BoxesOfFiveExtentsLieWhereTheyAreSaid) {
  const Kernel kernel = parsed(R"(
kernel five(x: f32[3, 3, 3, 3, 4], y: f32[2, 2, 2, 2, 4] global out) {
  shared s: f32[2, 2, 2, 2, 4]
  shared ready: u64[1]
  grid i < 1 {
    thread t < 1 {
      mbarrier_init(ready[0], 1)
      mbarrier_expect(ready[0], 256)
      async_copy_box5(s[0, 0, 0, 0, 0], x[1, 1, 0, 1, 0], 2, 2, 2, 2, 4, ready[0])
      mbarrier_wait(ready[0], 0)
      async_store_box5(y[0, 0, 0, 0, 0], s[0, 0, 0, 0, 0], 2, 2, 2, 2, 4)
      async_store_wait()
    }
  }
}
)");
  ASSERT_TRUE(verify(kernel)) << verify(kernel).error().message;
  Arguments arguments;
  arguments.add(counting(324)).add(std::vector<float>(64));
  ASSERT_EQ(run(kernel, arguments), "");
  const auto y = arguments.get<float>(1);
  for (std::size_t at = 0; at < 64; ++at) {
    const std::size_t a = 1 + at / 32, b = 1 + at / 16 % 2, c = at / 8 % 2, d = 1 + at / 4 % 2;
    EXPECT_EQ(y[at], static_cast<float>((((a * 3 + b) * 3 + c) * 3 + d) * 4 + at % 4)) << at;
  }
}

}  // namespace
}  // namespace xyntra::kir
