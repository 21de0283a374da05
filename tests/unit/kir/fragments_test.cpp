// Matrix units of warps and warpgroups for every dtype of factors, from shared memory and from registers.
#include <cmath>

#include "te/lanes.h"
#include "unit/kir/cases.h"

namespace xyntra::kir {
namespace {

struct Unit {
  const char *dtype, *intrinsic;
  DType element;
  std::size_t bytes;
  DType sums = DType::F32;
  std::size_t in_chunk() const { return 16 / bytes; }
};
constexpr Unit kUnits[] = {{"bf16", "warp_multiply_bf16", DType::BF16, 2},
                           {"f16", "warp_multiply_f16", DType::F16, 2},
                           {"f32", "warp_multiply_tf32", DType::F32, 4},
                           {"f8e4m3fn", "warp_multiply_f8e4m3", DType::F8E4M3FN, 1},
                           {"f8e5m2", "warp_multiply_f8e5m2", DType::F8E5M2, 1},
                           {"i8", "warp_multiply_i8", DType::I8, 1, DType::I32}};

std::vector<std::byte> stored(const Unit& unit, const std::vector<float>& values) {
  std::vector<std::byte> made(values.size() * unit.bytes);
  const std::vector<std::int64_t> whole(values.begin(), values.end());
  const void* lanes = is_float(unit.element) ? static_cast<const void*>(values.data()) : whole.data();
  te::store_lanes(unit.element, made.data(), 1, lanes, static_cast<int>(values.size()));
  return made;
}

std::vector<double> numbers(const Unit& unit, const Arguments& arguments) {
  if (unit.sums == DType::F32) {
    const auto y = arguments.get<float>(2);
    return {y.begin(), y.end()};
  }
  const auto y = arguments.get<std::int32_t>(2);
  return {y.begin(), y.end()};
}

Arguments arguments_of(const Unit& unit, const std::vector<float>& a, const std::vector<float>& b,
                       std::size_t results) {
  return Arguments().add(stored(unit, a)).add(stored(unit, b)).add(std::vector<float>(results));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The text with CHUNK elements in 16 bytes, and twice and eight times as many.
std::string written(std::string text, const Unit& unit) {
  const std::size_t chunk = unit.in_chunk();
  text = replaced(text, "DEPTH", std::to_string(8 * chunk));
  text = replaced(text, "TWO", std::to_string(2 * chunk));
  text = replaced(text, "CHUNK", std::to_string(chunk));
  text = replaced(text, "SUMS", unit.sums == DType::F32 ? "f32" : "i32");
  text = replaced(text, "UNIT", unit.intrinsic);
  return replaced(text, "DTYPE", unit.dtype);
}

// y[16, 8] = 1 + a[16, TWO] * b[8, TWO] transposed, by one warp.
constexpr const char* kByAWarp = R"(
kernel product(a: DTYPE[16, TWO], b: DTYPE[8, TWO], y: SUMS[16, 8] global out) {
  shared s: DTYPE[16, TWO]
  shared r: DTYPE[8, TWO]
  register fa: u32[4]
  register fb: u32[4]
  register c: SUMS[4]
  grid i < 1 {
    thread t < 32 {
      unrolled e < 4 { c[e] = 1 }
      async_copy(s[floordiv(t, 2), mod(t, 2) * CHUNK], a[floordiv(t, 2), mod(t, 2) * CHUNK], CHUNK)
      if t < 16 { async_copy(r[floordiv(t, 2), mod(t, 2) * CHUNK], b[floordiv(t, 2), mod(t, 2) * CHUNK], CHUNK) }
      async_commit()
      async_wait(0)
      barrier()
      load_fragment(fa[0], s[mod(t, 16), floordiv(t, 16) * CHUNK])
      load_fragment(fb[0], r[mod(t, 8), mod(floordiv(t, 8), 2) * CHUNK])
      UNIT(c[0], fa[0], fb[0])
      unrolled e < 4 { y[floordiv(t, 4) + floordiv(e, 2) * 8, mod(t, 4) * 2 + mod(e, 2)] = c[e] }
    }
  }
}
)";

TEST(KirFragments, WarpsMultiplyEveryDtype) {
  for (const Unit& unit : kUnits) {
    SCOPED_TRACE(unit.intrinsic);
    const std::size_t depth = 2 * unit.in_chunk();
    const auto a = small_numbers(static_cast<std::int64_t>(16 * depth), 3),
               b = small_numbers(static_cast<std::int64_t>(8 * depth), 7);
    const Kernel kernel = parsed(written(kByAWarp, unit));
    const Status sound = verify(kernel);
    ASSERT_TRUE(sound) << sound.error().message;
    Arguments arguments = arguments_of(unit, a, b, 128);
    ASSERT_EQ(run(kernel, arguments), "");
    const auto y = numbers(unit, arguments);
    for (std::size_t at = 0; at < y.size(); ++at) {
      double sum = 1;
      for (std::size_t k = 0; k < depth; ++k) sum += a[at / 8 * depth + k] * b[at % 8 * depth + k];
      ASSERT_EQ(y[at], sum) << at;
    }
  }
}

TEST(KirFragments, Tf32HasTenBits) {
  std::vector<float> a(16 * 8, 0.0F), b(8 * 8, 0.0F);
  a[0] = 1 + 0x1p-10F + 0x1p-11F;  // the last one counts for nothing
  b[0] = 1;
  Arguments arguments = arguments_of(kUnits[2], a, b, 128);
  ASSERT_EQ(run(parsed(written(kByAWarp, kUnits[2])), arguments), "");
  EXPECT_EQ(arguments.get<float>(2)[0], 2 + 0x1p-10F);
}

TEST(KirFragments, SumsOfBytesWrap) {
  const Unit& bytes = kUnits[5];
  std::string text = replaced(written(kByAWarp, bytes), "c[e] = 1 ", "c[e] = 2147483647 ");
  std::vector<float> a(16 * 32, 0.0F), b(8 * 32, 0.0F);
  a[0] = -128;
  b[0] = -128;
  Arguments arguments = arguments_of(bytes, a, b, 128);
  ASSERT_EQ(run(parsed(text), arguments), "");
  EXPECT_EQ(arguments.get<std::int32_t>(2)[0], INT32_MIN + 16383);
}

TEST(KirFragments, HalvesAloneAreTransposed) {
  const Status sound = verify(
      parsed(replaced(written(kByAWarp, kUnits[5]), "load_fragment(fb", "load_fragment_transposed(fb")));
  ASSERT_FALSE(sound);
  EXPECT_NE(sound.error().message.find("it takes bf16 or f16, not i8"), std::string::npos)
      << sound.error().message;
}

// y[64, 16] = 1 + a[64, DEPTH] * b[16, DEPTH] transposed, by a warpgroup, a from shared memory or in words.
constexpr const char* kByAWarpgroup = R"(
kernel product(a: DTYPE[64, DEPTH], b: DTYPE[16, DEPTH], y: SUMS[64, 16] global out) {
  shared s: DTYPE[64, DEPTH] swizzle 128
  shared r: DTYPE[16, DEPTH] swizzle 128
  register words: u32[16]
  register c: SUMS[8]
  grid i < 1 {
    thread t < 128 {
      unrolled e < 8 { c[e] = 1 }
      unrolled p < 4 {
        async_copy(s[p * 16 + floordiv(t, 8), mod(t, 8) * CHUNK], a[p * 16 + floordiv(t, 8), mod(t, 8) * CHUNK], CHUNK)
      }
      async_copy(r[floordiv(t, 8), mod(t, 8) * CHUNK], b[floordiv(t, 8), mod(t, 8) * CHUNK], CHUNK)
      async_commit()
      async_wait(0)
      async_fence()
      barrier()
      MULTIPLY
      warpgroup_commit()
      warpgroup_wait(0)
      unrolled g < 2 {
        unrolled h < 2 {
          unrolled e < 2 { y[16 * floordiv(t, 32) + floordiv(mod(t, 32), 4) + 8 * h, 8 * g + 2 * mod(t, 4) + e] = c[4 * g + 2 * h + e] }
        }
      }
    }
  }
}
)";
constexpr const char* kFromShared =
    "warpgroup_fence()\n      warpgroup_multiply(c[0], s[0, 0], r[0, 0], 64, 16, DEPTH)";
constexpr const char* kFromRegisters = R"(unrolled d < 4 {
        load_fragment(words[4 * d], s[16 * floordiv(t, 32) + mod(t, 16), d * TWO + mod(floordiv(t, 16), 2) * CHUNK])
      }
      warpgroup_fence()
      warpgroup_multiply_rs(c[0], words[0], r[0, 0], 64, 16, DEPTH))";

std::string by_a_warpgroup(const Unit& unit, const std::string& multiply) {
  return written(replaced(kByAWarpgroup, "MULTIPLY", multiply), unit);
}

TEST(KirFragments, WarpgroupsMultiplyEveryDtypeFromEitherPlace) {
  for (const Unit& unit : kUnits) {
    for (const char* multiply : {kFromShared, kFromRegisters}) {
      SCOPED_TRACE(unit.dtype);
      const std::size_t depth = 8 * unit.in_chunk();
      const auto a = small_numbers(static_cast<std::int64_t>(64 * depth), 3),
                 b = small_numbers(static_cast<std::int64_t>(16 * depth), 7);
      const Kernel kernel = parsed(by_a_warpgroup(unit, multiply));
      const Status sound = verify(kernel);
      ASSERT_TRUE(sound) << sound.error().message;
      Arguments arguments = arguments_of(unit, a, b, 1024);
      ASSERT_EQ(run(kernel, arguments), "");
      const auto y = numbers(unit, arguments);
      for (std::size_t at = 0; at < y.size(); ++at) {
        double sum = 1;
        for (std::size_t k = 0; k < depth; ++k) sum += a[at / 16 * depth + k] * b[at % 16 * depth + k];
        ASSERT_EQ(y[at], sum) << at;
      }
    }
  }
}

// ---- registers that a unit still reads

std::string fault(const std::string& from, const std::string& to) {
  const Unit& unit = kUnits[0];
  const std::string text = by_a_warpgroup(unit, kFromRegisters);
  EXPECT_NE(text.find(from), std::string::npos) << from;
  Arguments arguments =
      arguments_of(unit, std::vector<float>(64 * 64, 1), std::vector<float>(16 * 64, 1), 1024);
  return run(parsed(replaced(text, from, to)), arguments);
}

TEST(KirFragments, WordsAreFencedAndLeftAloneInFlight) {
  EXPECT_NE(fault("warpgroup_fence()\n", "\n").find("was written with no warpgroup_fence after it"),
            std::string::npos);
  EXPECT_NE(fault("warpgroup_commit()\n", "warpgroup_commit()\n words[3] = 0_u32\n")
                .find("'words' is touched while a multiplication of it is not waited for"),
            std::string::npos);
  // Reading them is nobody's loss; sums are another matter.
  EXPECT_EQ(fault("warpgroup_commit()\n", "warpgroup_commit()\n words[3] = words[3]\n").find("'c'"),
            std::string::npos);
  EXPECT_NE(fault("warpgroup_commit()\n", "warpgroup_commit()\n round_words_bf16(words[0], c[0])\n")
                .find("is touched while a multiplication"),
            std::string::npos);
  EXPECT_NE(fault("warpgroup_commit()\n", "warpgroup_commit()\n shuffle_xor(c[0], c[1], 1)\n")
                .find("'c' is touched while a multiplication into it is not waited for"),
            std::string::npos);
  EXPECT_NE(fault("unrolled d < 4", "unrolled d < 3").find("reads words[12], which nobody wrote"),
            std::string::npos);
}

// To the nearest of 10 bits behind the point, halves away from zero; what is no number stays none.
TEST(KirFragments, WordsAreRoundedToTf32) {
  const Kernel kernel = parsed(R"(kernel k(x: u32[16] global, y: u32[16] global out) {
  register w: u32[4]
  grid i < 4 {
    unrolled e < 4 { w[e] = x[i * 4 + e] }
    round_words_tf32(w[0], w[0])
    unrolled e < 4 { y[i * 4 + e] = w[e] }
  }
}
)");
  const std::vector<std::uint32_t> from{
      0x3f800000, 0x3f800fff, 0x3f801000, 0x3f801fff,  // from 1 on
      0xbf801000, 0xbf800fff, 0x00000000, 0x80000000, 0x00000fff,
      0x00001000, 0x7f800000, 0xff800000, 0x7f7fffff,  // infinities, the largest
      0x7fffffff, 0xffffffff, 0x7f800001};
  const std::vector<std::uint32_t> wanted{
      0x3f800000, 0x3f800000, 0x3f802000, 0x3f802000, 0xbf802000, 0xbf800000, 0x00000000, 0x80000000,
      0x00000000, 0x00002000, 0x7f800000, 0xff800000, 0x7f800000, 0x7fffffff, 0x7fffffff, 0x7fffffff};
  Arguments arguments;
  arguments.add(from).add(std::vector<std::uint32_t>(from.size()));
  ASSERT_EQ(run(kernel, arguments), "");
  EXPECT_EQ(arguments.get<std::uint32_t>(1), wanted);
}

TEST(KirFragments, WarpgroupsAreWhole) {
  const std::string text = by_a_warpgroup(kUnits[0], kFromShared);
  const Status divided =
      verify(parsed(replaced(text, "warpgroup_fence()", "if t < 64 { warpgroup_fence() }")));
  ASSERT_FALSE(divided);
  EXPECT_NE(divided.error().message.find("warpgroup_fence stands where threads differ"), std::string::npos);
  EXPECT_NE(fault("64, 16, 64", "64, 16, 32"), "");
}

}  // namespace
}  // namespace xyntra::kir
