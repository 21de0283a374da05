// Warps: matrix fragments in registers, asynchronous copies of threads.
#include <cmath>

#include "types/float_formats.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra::kir {
namespace {

// One warp: y[16, 16] = a[16, 16] * b[16, 16], b as it is or transposed.
std::string product(const std::string& dtype, bool transposed) {
  const std::string b =
      transposed ? "load_fragment(fb[0], s[1, mod(t, 8) + floordiv(t, 16) * 8, mod(floordiv(t, 8), 2) * 8])"
                 : "load_fragment_transposed(fb[0], s[1, mod(t, 16), floordiv(t, 16) * 8])";
  return R"(
kernel product(a: )" +
         dtype + "[16, 16], b: " + dtype + R"([16, 16], y: f32[16, 16] global out) {
  shared s: )" +
         dtype + R"([2, 16, 24]
  register fa: u32[4]
  register fb: u32[4]
  register c: f32[2, 4]
  grid i < 1 {
    thread t < 32 {
      unrolled j < 2 { unrolled e < 4 { c[j, e] = 1 } }
      async_copy(s[0, floordiv(t, 2), mod(t, 2) * 8], a[floordiv(t, 2), mod(t, 2) * 8], 8)
      async_copy(s[1, floordiv(t, 2), mod(t, 2) * 8], b[floordiv(t, 2), mod(t, 2) * 8], 8)
      async_commit()
      async_wait(0)
      barrier()
      load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8])
      )" +
         b + R"(
      unrolled j < 2 { warp_multiply_)" +
         dtype + R"((c[j, 0], fa[0], fb[j * 2]) }
      unrolled j < 2 {
        unrolled e < 4 { y[floordiv(t, 4) + floordiv(e, 2) * 8, j * 8 + mod(t, 4) * 2 + mod(e, 2)] = c[j, e] }
      }
    }
  }
}
)";
}

TEST(KirWarps, MultiplyFragmentsOfEitherLayout) {
  const std::vector<float> a = small_numbers(256, 3), b = small_numbers(256, 7);
  for (const bool brain : {false, true}) {
    for (const bool transposed : {false, true}) {
      const Kernel kernel = parsed(product(brain ? "bf16" : "f16", transposed));
      const Status sound = verify(kernel);
      ASSERT_TRUE(sound) << sound.error().message;
      Arguments arguments;
      arguments.add(halves(a, brain ? DType::BF16 : DType::F16))
          .add(halves(b, brain ? DType::BF16 : DType::F16))
          .add(std::vector<float>(256));
      ASSERT_EQ(run(kernel, arguments), "");
      const auto y = arguments.get<float>(2);
      for (std::size_t i = 0; i < 16; ++i) {
        for (std::size_t j = 0; j < 16; ++j) {
          float sum = 1;
          for (std::size_t k = 0; k < 16; ++k)
            sum += a[i * 16 + k] * (transposed ? b[j * 16 + k] : b[k * 16 + j]);
          ASSERT_EQ(y[i * 16 + j], sum) << i << " " << j;
        }
      }
    }
  }
}

// Products are added up from the first to the last, and then to what was there.
TEST(KirWarps, SumsHaveAnOrder) {
  std::vector<float> a(256, 0), b(256, 0);
  for (std::size_t k = 0; k < 16; ++k) b[k * 16] = 1;
  a[0] = 0x1p24F;
  a[1] = 1;  // lost
  a[2] = -0x1p24F;
  a[3] = 0.5F;
  Kernel kernel = parsed(product("bf16", false));
  Arguments arguments;
  arguments.add(halves(a, DType::BF16)).add(halves(b, DType::BF16)).add(std::vector<float>(256));
  ASSERT_EQ(run(kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(2)[0], 1.5F);
}

// ---- rules that kernels can break

std::string changed(const std::string& from, const std::string& to) {
  std::string text = product("bf16", false);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refused(const std::string& from, const std::string& to) {
  const Status sound = verify(parsed(changed(from, to)));
  return sound ? "" : sound.error().message;
}

std::string fault(const std::string& from, const std::string& to) {
  Arguments arguments;
  arguments.add(halves(small_numbers(256, 3), DType::BF16))
      .add(halves(small_numbers(256, 7), DType::BF16))
      .add(std::vector<float>(256));
  return run(parsed(changed(from, to)), arguments);
}

TEST(KirWarps, CopiesAreWaitedForAndSeenAfterABarrier) {
  const std::string race = fault("barrier()", "");
  EXPECT_NE(race.find("line 15: reads s["), std::string::npos) << race;
  EXPECT_NE(race.find("which an asynchronous copy of thread 16 wrote with no barrier between: a race"),
            std::string::npos)
      << race;
  EXPECT_NE(fault("async_wait(0)", ""), "");
  EXPECT_NE(fault("async_wait(0)", "async_wait(1)"), "");
  EXPECT_NE(fault("async_commit()", ""), "");
  // Waited for by every thread itself: the barrier comes after.
  EXPECT_NE(fault("async_wait(0)\n      barrier()", "barrier()\n      async_wait(0)"), "");
  EXPECT_NE(
      fault("      barrier()", "      barrier()\n      async_copy(s[0, 0, 16], a[0, 0], select(t < 1, 8, 0))")
          .find("writes s[0, 0, 16], which an asynchronous copy of thread 0 wrote"),
      std::string::npos);
}

TEST(KirWarps, CopiesThatNobodyWaitsForAreReported) {
  EXPECT_EQ(fault("      unrolled j < 2 { warp",
                  "      async_copy(s[0, floordiv(t, 2), 16], a[0, 0], 8)\n      unrolled j < 2 { warp")
                .substr(0, 30),
            "kernel product, line 17: write");
  EXPECT_EQ(fault("      unrolled j < 2 { warp",
                  "      if t < 16 { async_copy(s[0, t, 16], a[0, 0], 8) }\n      unrolled j < 2 { warp"),
            "kernel product: a work item ends while an asynchronous copy is not waited for");
}

TEST(KirWarps, WholeWarpsMultiply) {
  EXPECT_NE(fault("load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8])",
                  "if t < 31 { load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8]) }")
                .find("only 31 of 32 threads of a warp reach this load_fragment"),
            std::string::npos);
  EXPECT_NE(refused("load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8])",
                    "if t < 31 { load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8]) }")
                .find("stands where threads differ"),
            std::string::npos);
  EXPECT_NE(refused("thread t < 32", "thread t < 16").find("needs whole warps of 32 threads"),
            std::string::npos);
}

TEST(KirWarps, SixteenBytesAreAligned) {
  EXPECT_NE(refused("load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8])",
                    "load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 4])")
                .find("multiple of 8 elements"),
            std::string::npos);
  EXPECT_NE(fault("load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 8])",
                  "load_fragment(fa[0], s[0, mod(t, 16), floordiv(t, 16) * 4])")
                .find("begins where none may"),
            std::string::npos);
  EXPECT_NE(refused("a[floordiv(t, 2), mod(t, 2) * 8]", "a[floordiv(t, 2), mod(t, 2) * 4]").find("multiple"),
            std::string::npos);
}

TEST(KirWarps, CopiesReadWhereTheirConditionHolds) {
  EXPECT_NE(refused("a[floordiv(t, 2), mod(t, 2) * 8], 8)", "a[t, 0], 8)").find("is not shown"),
            std::string::npos);
  EXPECT_EQ(refused("a[floordiv(t, 2), mod(t, 2) * 8], 8)", "a[t, 0], select(t < 16, 8, 0))"), "");
  EXPECT_NE(refused("mod(t, 2) * 8], 8)", "mod(t, 2) * 8], 4)").find("moves 8 elements"), std::string::npos);
  Arguments arguments;
  arguments.add(halves(std::vector<float>(256, 1), DType::BF16))
      .add(halves(std::vector<float>(256, 1), DType::BF16))
      .add(std::vector<float>(256));
  ASSERT_EQ(run(parsed(changed("a[floordiv(t, 2), mod(t, 2) * 8], 8)", "a[t, 0], select(t < 16, 8, 0))")),
                arguments),
            "");
  const auto y = arguments.get<float>(2);  // eight rows of ones, and zeros below
  EXPECT_EQ(y[0], 17);
  EXPECT_EQ(y[8 * 16], 1);
}

}  // namespace
}  // namespace xyntra::kir
