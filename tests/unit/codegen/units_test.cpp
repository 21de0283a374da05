// Units that multiply a few neighbours, bf16 or bytes: machine code and simulator, bit for bit, over numbers of every kind.
#include <bit>
#include <random>

#include "kir/sim/sim.h"
#include "target/target.h"
#include "target/tiles.h"
#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

constexpr std::size_t kItems = 512;

struct Numbers {
  std::vector<float> sums;
  std::vector<std::uint16_t> a, b;
};

// Random bits are mostly far apart; numbers of like size, and such as fall below the smallest normal one, show how sums are rounded.
Numbers numbers(std::uint32_t seed, std::uint32_t kept, std::uint32_t set, std::size_t sums, std::size_t a,
                std::size_t b) {
  std::mt19937 random(seed);
  auto bits = [&] { return (static_cast<std::uint32_t>(random()) & kept) | set; };
  Numbers made;
  for (std::size_t i = 0; i < kItems * sums; ++i) {
    const float sum = std::bit_cast<float>(bits());
    made.sums.push_back(sum != sum ? 1.0F : sum);  // a NaN has other bits in other registers
  }
  for (std::size_t i = 0; i < kItems * a; ++i) made.a.push_back(static_cast<std::uint16_t>(bits() >> 16));
  for (std::size_t i = 0; i < kItems * b; ++i) made.b.push_back(static_cast<std::uint16_t>(bits() >> 16));
  return made;
}

struct Range {
  std::uint32_t kept, set;
};
constexpr Range kRanges[] = {
    {0xffffffff, 0},  // everything
    {0x80ffffff, 0x3f000000},  // of like size
    {0x83ffffff, 0x1e000000},  // products near the smallest normal number
    {0x81ffffff, 0},  // denormal sums
    {0x80ffffff, 0x5f000000},  // products near the largest one
};

bool has(std::string_view feature) {
  const auto features = host_features();
  return std::find(features.begin(), features.end(), feature) != features.end();
}

void expect_equal_bits(const kir::Kernel& kernel, Numbers given, bool here) {
  std::vector<float> result(given.sums.size());
  auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
  const std::span<std::byte> arguments[] = {bytes(given.sums), bytes(given.a), bytes(given.b), bytes(result)};
  auto report = kir::simulate(kernel, arguments);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  if (!here) return;
  KernelRunner runner(kernel);
  auto buffers = runner.buffers();
  buffers[0].set(given.sums);
  buffers[1].set(given.a);
  buffers[2].set(given.b);
  ASSERT_EQ(0, runner.run(buffers));
  const auto got = buffers[3].as<float>();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(result[i]))
        << "element " << i;
}

kir::Kernel parsed(const std::string& text) {
  auto kernel = kir::parse_kernel(text);
  EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
  EXPECT_EQ(kir::to_string(*kir::parse_kernel(kir::to_string(*kernel))), kir::to_string(*kernel));
  const auto good = kir::verify(*kernel);
  EXPECT_TRUE(good.has_value()) << good.error().to_string();
  return *kernel;
}

kir::Kernel pairs(int count) {
  return parsed(
      R"(kernel pairs(s: f32[512, 16] global, a: bf16[512, 2] global, b: bf16[512, 16, 2] global, y: f32[512, 16] global out) {
  register c: f32[16]
  grid i < 512 {
    vector l < 16 { c[l] = s[i, l] }
    dot2_bf16(c[0], a[i, )" +
      std::string(count == 1 ? "1" : "0") + R"(], b[i, 0, 0], )" + std::to_string(count) + R"()
    vector l < 16 { y[i, l] = c[l] }
  }
})");
}

kir::Kernel mmla_bf16_kernel(int count) {
  return parsed(
      R"(kernel mmla(s: f32[512, 4] global, a: bf16[512, 2, 4] global, b: bf16[512, 8] global, y: f32[512, 4] global out) {
  register c: f32[4]
  grid i < 512 {
    vector l < 4 { c[l] = s[i, l] }
    mmla_bf16(c[0], a[i, 0, 0], a[i, 1, 0], b[i, 0], )" +
      std::to_string(count) + R"()
    vector l < 4 { y[i, l] = c[l] }
  }
})");
}

// ---- bytes

struct Bytes {
  std::vector<std::int32_t> sums;
  std::vector<std::uint8_t> a, b;
};

// Random ones, and such as would be cut off in 16 bits, or in 32 where sums must wrap.
Bytes bytes_of(std::uint32_t seed, bool extreme, std::size_t sums, std::size_t a, std::size_t b) {
  std::mt19937 random(seed);
  constexpr std::uint8_t kEnds[] = {0, 127, 128, 255};
  auto byte = [&] {
    return extreme ? kEnds[random() % std::size(kEnds)] : static_cast<std::uint8_t>(random() & 0xff);
  };
  Bytes made;
  for (std::size_t i = 0; i < sums; ++i) {
    const bool end = random() % 4 == 0;
    made.sums.push_back(end ? (random() % 2 == 0 ? INT32_MAX : INT32_MIN)
                            : static_cast<std::int32_t>(random()));
  }
  for (std::size_t i = 0; i < a; ++i) made.a.push_back(byte());
  for (std::size_t i = 0; i < b; ++i) made.b.push_back(byte());
  return made;
}

// As the simulator has it, as `sum` says, and, where the unit is here, as the CPU has it.
void expect_sums(const kir::Kernel& kernel, Bytes given, const std::vector<std::int32_t>& wanted, bool here) {
  std::vector<std::int32_t> result(given.sums.size());
  auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
  const std::span<std::byte> arguments[] = {bytes(given.sums), bytes(given.a), bytes(given.b), bytes(result)};
  auto report = kir::simulate(kernel, arguments);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_EQ(result, wanted);
  if (!here) return;
  KernelRunner runner(kernel);
  auto buffers = runner.buffers();
  buffers[0].set(given.sums);
  buffers[1].set(given.a);
  buffers[2].set(given.b);
  ASSERT_EQ(0, runner.run(buffers));
  const auto got = buffers[3].as<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(got.begin(), got.end()), wanted);
}

std::int32_t with_sign(std::uint8_t byte, bool has_sign) {
  return has_sign ? std::int32_t{static_cast<std::int8_t>(byte)} : std::int32_t{byte};
}

struct ByteUnit {
  std::size_t rows, columns, groups, group;
};
std::vector<std::int32_t> sums_of(const Bytes& given, const ByteUnit& unit, std::size_t items,
                                  std::size_t count, bool a_sign, bool b_sign) {
  std::vector<std::int32_t> made;
  const std::size_t depth = unit.groups * unit.group;
  for (std::size_t at = 0; at < items * unit.rows * unit.columns; ++at) {
    const std::size_t item = at / (unit.rows * unit.columns), i = at / unit.columns % unit.rows,
                      j = at % unit.columns;
    auto sum = static_cast<std::uint32_t>(given.sums[at]);
    for (std::size_t k = 0; k < depth; ++k) {
      if (k >= count) break;
      const std::uint8_t a = given.a[(item * unit.rows + i) * depth + k],
                         b = given.b[((item * unit.groups + k / unit.group) * unit.columns + j) * unit.group +
                                     k % unit.group];
      sum += static_cast<std::uint32_t>(with_sign(a, a_sign) * with_sign(b, b_sign));
    }
    made.push_back(static_cast<std::int32_t>(sum));
  }
  return made;
}

TEST(Units, Dot4I8WrapsAndNeverSaturates) {
  for (int count : {1, 2, 3, 4}) {
    SCOPED_TRACE(count);
    const kir::Kernel kernel = parsed(
        R"(kernel dot4(s: i32[64, 16] global, a: u8[64, 4] global, b: i8[64, 16, 4] global, y: i32[64, 16] global out) {
  register c: i32[16]
  grid i < 64 {
    vector l < 16 { c[l] = s[i, l] }
    dot4_i8(c[0], a[i, 0], b[i, 0, 0], )" +
        std::to_string(count) + R"()
    vector l < 16 { y[i, l] = c[l] }
  }
})");
    for (std::uint32_t seed = 1; seed < 5; ++seed) {
      const Bytes given = bytes_of(seed, seed % 2 == 0, 64 * 16, 64 * 4, 64 * 64);
      expect_sums(kernel, given,
                  sums_of(given, {1, 16, 1, 4}, 64, static_cast<std::size_t>(count), false, true),
                  has("avx512vnni"));
    }
  }
}

TEST(Units, MmlaI8WrapsAndNeverSaturates) {
  for (const auto& [a, b] : {std::pair("i8", "i8"), std::pair("u8", "u8"), std::pair("u8", "i8")}) {
    for (int count : {3, 8}) {
      SCOPED_TRACE(std::string(a) + " " + b + " " + std::to_string(count));
      const kir::Kernel kernel =
          parsed("kernel mmla(s: i32[64, 4] global, a: " + std::string(a) + "[64, 2, 8] global, b: " + b +
                 R"([64, 16] global, y: i32[64, 4] global out) {
  register c: i32[4]
  grid i < 64 {
    vector l < 4 { c[l] = s[i, l] }
    mmla_i8(c[0], a[i, 0, 0], a[i, 1, 0], b[i, 0], )" +
                 std::to_string(count) + R"()
    vector l < 4 { y[i, l] = c[l] }
  }
})");
      for (std::uint32_t seed = 1; seed < 5; ++seed) {
        const Bytes given = bytes_of(seed, seed % 2 == 0, 64 * 4, 64 * 16, 64 * 16);
        expect_sums(kernel, given,
                    sums_of(given, {2, 2, 1, 8}, 64, static_cast<std::size_t>(count), *a == 'i', *b == 'i'),
                    has("i8mm"));
      }
    }
  }
}

TEST(Units, TilesOfBytesTakeAllSigns) {
  for (const auto& [a, b] :
       {std::pair("i8", "i8"), std::pair("i8", "u8"), std::pair("u8", "i8"), std::pair("u8", "u8")}) {
    SCOPED_TRACE(std::string(a) + " " + b);
    const kir::Kernel kernel = parsed("kernel tiles(s: i32[4, 16, 16] global, a: " + std::string(a) +
                                      "[4, 16, 64] global, b: " + b +
                                      R"([4, 16, 64] global, y: i32[4, 16, 16] global out) {
  register c: i32[16, 16]
  register left: )" + a + R"([16, 64]
  register right: )" + b + R"([16, 64]
  grid i < 4 {
    tile_load(c[0, 0], s[i, 0, 0], 16, 16)
    tile_load(left[0, 0], a[i, 0, 0], 16, 64)
    tile_load(right[0, 0], b[i, 0, 0], 16, 64)
    tile_multiply_i8(c[0, 0], left[0, 0], right[0, 0])
    tile_store(y[i, 0, 0], c[0, 0], 16, 16)
  }
})");
    for (std::uint32_t seed = 1; seed < 5; ++seed) {
      const Bytes given = bytes_of(seed, seed % 2 == 0, 4 * 256, 4 * 1024, 4 * 1024);
      expect_sums(kernel, given, sums_of(given, {16, 16, 16, 4}, 4, 64, *a == 'i', *b == 'i'),
                  has("amx_int8") && allow_tiles().has_value());
    }
  }
}

// Numbers below the smallest normal one count as zero, before and after each step.
TEST(Units, TilesOfBf16GiveTheBitsOfTheCpu) {
  const kir::Kernel kernel = parsed(
      R"(kernel tiles(s: f32[512, 16, 16] global, a: bf16[512, 16, 32] global, b: bf16[512, 16, 32] global, y: f32[512, 16, 16] global out) {
  register c: f32[16, 16]
  register left: bf16[16, 32]
  register right: bf16[16, 32]
  grid i < 8 {
    tile_load(c[0, 0], s[i, 0, 0], 16, 16)
    tile_load(left[0, 0], a[i, 0, 0], 16, 32)
    tile_load(right[0, 0], b[i, 0, 0], 16, 32)
    tile_multiply_bf16(c[0, 0], left[0, 0], right[0, 0])
    tile_store(y[i, 0, 0], c[0, 0], 16, 16)
  }
})");
  for (const Range& range : kRanges) {
    if (range.kept == 0xffffffff || range.set == 0x5f000000)
      continue;  // what is no number has other bits there
    SCOPED_TRACE(range.set);
    expect_equal_bits(kernel, numbers(1, range.kept & 0x80ffffff, range.set, 256, 512, 512),
                      has("amx_bf16") && allow_tiles().has_value());
  }
}

// The bf16x3 split is the number, to the last bit.
TEST(Units, PartsAddUpToTheNumber) {
  const kir::Kernel kernel = parsed(
      R"(kernel split(s: f32[512, 2, 16] global, a: bf16[512, 1] global, b: bf16[512, 1] global, y: f32[512, 6, 16] global out) {
  register x: f32[2, 16]
  shared p: bf16[3, 16, 2]
  grid i < 512 {
    unrolled e < 2 { vector l < 16 { x[e, l] = s[i, e, l] } }
    split_bf16x3(p[0, 0, 0], p[1, 0, 0], p[2, 0, 0], x[0, 0], x[1, 0])
    unrolled n < 3 { unrolled e < 2 { vector l < 16 { y[i, n * 2 + e, l] = f32(p[n, l, e]) } } }
  }
})");
  for (const Range& range : {Range{0x80ffffff, 0x3f000000}, Range{0x83ffffff, 0x1e000000}}) {
    Numbers given = numbers(3, range.kept, range.set, 32, 1, 1);
    std::vector<float> result(kItems * 96);
    auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
    const std::span<std::byte> arguments[] = {bytes(given.sums), bytes(given.a), bytes(given.b),
                                              bytes(result)};
    ASSERT_TRUE(kir::simulate(kernel, arguments).has_value());
    KernelRunner runner(kernel);
    auto buffers = runner.buffers();
    buffers[0].set(given.sums);
    ASSERT_EQ(0, runner.run(buffers));
    EXPECT_EQ(buffers[3].as<float>(), result);
    for (std::size_t i = 0; i < kItems; ++i) {
      for (std::size_t l = 0; l < 32; ++l) {
        const float x = given.sums[i * 32 + l], *part = &result[i * 96 + l];
        ASSERT_EQ(part[0] + (part[32] + part[64]), x);
        ASSERT_LE(std::abs(part[32]), std::abs(x) * 0x1p-8F);
        ASSERT_LE(std::abs(part[64]), std::abs(x) * 0x1p-17F);
      }
    }
  }
}

TEST(Units, Dot2Bf16GivesTheBitsOfTheCpu) {
  for (const Range& range : kRanges) {
    SCOPED_TRACE(range.set);
    for (std::uint32_t seed = 1; seed < 4; ++seed)
      expect_equal_bits(pairs(2), numbers(seed, range.kept, range.set, 16, 2, 32), has("avx512bf16"));
    expect_equal_bits(pairs(1), numbers(9, range.kept, range.set, 16, 2, 32), has("avx512bf16"));
  }
}

TEST(Units, MmlaBf16GivesTheBitsOfTheCpu) {
  for (const Range& range : kRanges) {
    SCOPED_TRACE(range.set);
    for (std::uint32_t seed = 1; seed < 4; ++seed)
      expect_equal_bits(mmla_bf16_kernel(4), numbers(seed, range.kept, range.set, 4, 8, 8), has("bf16"));
    for (int count : {1, 2, 3})
      expect_equal_bits(mmla_bf16_kernel(count), numbers(9, range.kept, range.set, 4, 8, 8), has("bf16"));
  }
}

// By hand: 1 + 2^-24 lies between 1 and its neighbour; rounded to odd it is the neighbour, 2^-24 more than nothing.
TEST(Units, MmlaBf16RoundsToOdd) {
  auto run = [](float sum, std::vector<float> a, std::vector<float> b) {
    Numbers given{std::vector<float>(kItems * 4, sum), std::vector<std::uint16_t>(kItems * 8),
                  std::vector<std::uint16_t>(kItems * 8)};
    for (std::size_t i = 0; i < a.size(); ++i) {
      given.a[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(a[i]) >> 16);
      given.b[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(b[i]) >> 16);
    }
    std::vector<float> result(given.sums.size());
    auto bytes = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
    const std::span<std::byte> arguments[] = {bytes(given.sums), bytes(given.a), bytes(given.b),
                                              bytes(result)};
    EXPECT_TRUE(kir::simulate(mmla_bf16_kernel(4), arguments).has_value());
    return result[0];
  };
  EXPECT_EQ(run(1, {0x1p-12F}, {0x1p-12F}), 0x1.000002p0F);
  EXPECT_EQ(run(1, {0x1p-12F}, {-0x1p-14F}), 0x1.fffffep-1F);  // below 1, where digits are half as far apart
  EXPECT_EQ(run(1, {0x1p-60F}, {0x1p-60F}), 0x1.000002p0F);
  EXPECT_EQ(run(2, {1, 1, 1, 1}, {1, 2, 3, 4}), 12.0F);
  EXPECT_EQ(run(0, {0x1p-100F}, {0x1p-30F}), 0.0F);
  EXPECT_EQ(run(0x1.fffffep127F, {0x1p64F}, {0x1p63F}), std::numeric_limits<float>::infinity());
  EXPECT_EQ(run(0x1.fffffep127F, {0x1p40F}, {0x1p40F}), 0x1.fffffep127F);
}

// A CPU that has no such unit says so.
TEST(Units, AreRefusedWhereThereAreNone) {
  const kir::Kernel two = pairs(2), four = mmla_bf16_kernel(4);
  auto made = compile_kernels(std::span(&two, 1), *cpu_target("avx512"));
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("AVX512_BF16"), std::string::npos) << made.error().message;
  made = compile_kernels(std::span(&four, 1), *cpu_target("neon"));
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("BFMMLA"), std::string::npos) << made.error().message;
  auto text = kernels_text(std::span(&two, 1), *cpu_target("avx512_bf16"), CodeText::Assembly);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_NE(text->find("vdpbf16ps"), std::string::npos);
  text = kernels_text(std::span(&four, 1), *cpu_target("neon_bf16"), CodeText::Assembly);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_NE(text->find("bfmmla"), std::string::npos);
}

TEST(Units, StayInsideTheirBuffers) {
  auto refusal = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    auto kernel = kir::parse_kernel(text);
    EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
    const auto good = kir::verify(*kernel);
    return good ? std::string("none") : good.error().message;
  };
  const std::string two = kir::to_string(pairs(2)), four = kir::to_string(mmla_bf16_kernel(4));
  EXPECT_NE(refusal(two, "a[i, 0]", "a[i, 1]").find("not shown to stay within 2"), std::string::npos);
  EXPECT_NE(refusal(two, "b[i, 0, 0]", "b[i, 0, 1]").find("not shown to stay within 32"), std::string::npos);
  EXPECT_NE(refusal(two, ", 2)", ", 3)").find("from 1 to 2"), std::string::npos);
  EXPECT_NE(refusal(two, "c[0], a", "c[1], a").find("not shown to stay within 16"), std::string::npos);
  EXPECT_NE(refusal(four, "a[i, 1, 0]", "a[i, 1, 2]").find("not shown"), std::string::npos);
  EXPECT_NE(refusal(four, ", 4)", ", 0)").find("from 1 to 4"), std::string::npos);
}

}  // namespace
}  // namespace xyntra
