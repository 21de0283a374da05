// f16 in shaders, bit by bit: with what every browser has, with the adapter's f16 but nothing taken on trust, and with all that
// the adapter was found to do as te does it. Skipped where there is no adapter.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/wgsl/passes/halves.h"
#include "types/float_formats.h"
#include "unit/codegen/shader_runner.h"

namespace xyntra {
namespace {

constexpr std::size_t kCodes = 65536;

enum class Trust { Portable, Stored, Asked };

std::vector<std::byte> bytes_of_codes(const std::vector<std::uint16_t>& codes) {
  const auto bytes = std::as_bytes(std::span(codes));
  return {bytes.begin(), bytes.end()};
}

std::uint16_t code_at(const std::vector<std::byte>& bytes, std::size_t i) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[2 * i]) |
                                    std::to_integer<unsigned>(bytes[2 * i + 1]) << 8U);
}

bool is_nan(std::uint16_t code) { return (code & 0x7fffU) > 0x7c00U; }

// z[i] = value for all codes, four elements at a time or one by one.
kir::Kernel kernel_of(const std::string& arguments, const std::string& value, bool vectors) {
  const std::string text = "kernel k(" + arguments + ", z: f16[65536] global out) {\n  grid i < " +
                           (vectors ? "16384 { vector v < 4 { " : "65536 { ") +
                           (vectors ? "z[i * 4 + v]" : "z[i]") + " = " + value + (vectors ? " } }" : " }") +
                           "\n}\n";
  std::string placed;
  for (char c : text) placed += c == '@' ? (vectors ? "i * 4 + v" : "i") : std::string(1, c);
  auto kernel = kir::parse_kernel(placed);
  EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string() << placed;
  return std::move(*kernel);
}

class WgslHalves : public testing::TestWithParam<Trust> {
 protected:
  void SetUp() override {
    if (!device()) GTEST_SKIP() << webgpu::Device::open("").error().message;
    if (GetParam() != Trust::Portable && !device()->adapter().f16) GTEST_SKIP() << "the adapter has no f16";
  }
  WgslFeatures features(const kir::Kernel& kernel) const {
    switch (GetParam()) {
      case Trust::Portable: return {};
      case Trust::Stored: return {.float16 = true};
      case Trust::Asked: return features_for(*device(), std::span(&kernel, 1));
    }
    return {};
  }
  // NaN of whatever bits is NaN here: what is stored for one is the business of other tests.
  template <class Wanted>
  void expect(const std::string& arguments, const std::string& value,
              const std::vector<std::vector<std::byte>>& operands, Wanted wanted) {
    for (bool vectors : {false, true}) {
      const kir::Kernel kernel = kernel_of(arguments, value, vectors);
      const auto results = run_shader(kernel, features(kernel), operands);
      ASSERT_EQ(1U, results.size());
      int shown = 0;
      for (std::size_t i = 0; i < kCodes && shown < 3; ++i) {
        const std::uint16_t found = code_at(results[0], i), right = f32_to_f16(wanted(i));
        if (found == right || (is_nan(found) && is_nan(right))) continue;
        ++shown;
        ADD_FAILURE() << value << (vectors ? " by vectors" : "") << " at " << std::hex << i << ": " << found
                      << ", not " << right;
      }
    }
  }
};

std::vector<std::uint16_t> all_codes() {
  std::vector<std::uint16_t> codes(kCodes);
  for (std::size_t i = 0; i < kCodes; ++i) codes[i] = static_cast<std::uint16_t>(i);
  return codes;
}

TEST_P(WgslHalves, OneOperandWhateverItIs) {
  const std::vector<std::vector<std::byte>> operand{bytes_of_codes(all_codes())};
  struct One {
    const char* value;
    float (*wanted)(float);
  };
  const One kOnes[] = {
      {"x[@]", [](float x) { return x; }},
      {"-x[@]", [](float x) { return -x; }},
      {"f16(abs(f32(x[@])))", [](float x) { return std::fabs(x); }},
      {"f16(max(f32(x[@]), 0.0))", [](float x) { return std::isnan(x) ? x
                                                        : x > 0       ? x
                                                                      : 0.0F; }},
      {"f16(min(f32(x[@]), 6.0))", [](float x) { return x > 6 ? 6.0F : x; }},
      {"f16(f32(x[@]) + 1.0)", [](float x) { return x + 1; }},
      {"f16(0.5 - f32(x[@]))", [](float x) { return 0.5F - x; }},
      {"f16(f32(x[@]) + 0.1)", [](float x) { return x + 0.1F; }},
      {"f16(f32(x[@]) * f32(x[@]))", [](float x) { return x * x; }},
      {"f16(f32(x[@]) * 0.3)", [](float x) { return x * 0.3F; }},
      {"f16(floor(f32(x[@])))", [](float x) { return std::floor(x); }},
      {"f16(select(f32(x[@]) < 1.0, -f32(x[@]), 2.0))", [](float x) { return x < 1 ? -x : 2.0F; }},
  };
  for (const One& one : kOnes)
    expect("x: f16[65536] global", one.value, operand,
           [&](std::size_t i) { return one.wanted(f16_to_f32(static_cast<std::uint16_t>(i))); });
}

TEST_P(WgslHalves, TwoOperandsOfManySizes) {
  // Both signs, all exponents, few bits of the mantissa: sums have ties, denormals and infinities.
  std::vector<std::uint16_t> some;
  for (std::uint32_t exponent = 0; exponent < 32; ++exponent) {
    for (std::uint32_t mantissa : {0x000U, 0x001U, 0x200U, 0x3ffU}) {
      for (std::uint32_t sign : {0U, 0x8000U})
        some.push_back(static_cast<std::uint16_t>(sign | exponent << 10U | mantissa));
    }
  }
  ASSERT_EQ(256U, some.size());
  std::vector<std::uint16_t> x(kCodes), y(kCodes);
  for (std::size_t i = 0; i < kCodes; ++i) {
    x[i] = some[i / 256];
    y[i] = some[i % 256];
  }
  struct Two {
    const char* value;
    float (*wanted)(float, float);
  };
  const Two kTwos[] = {
      {"f16(f32(x[@]) + f32(y[@]))", [](float a, float b) { return a + b; }},
      {"f16(f32(x[@]) - f32(y[@]))", [](float a, float b) { return a - b; }},
      {"f16(f32(x[@]) * f32(y[@]))", [](float a, float b) { return a * b; }},
      {"f16(max(f32(x[@]), f32(y[@])))",
       [](float a, float b) {
         return std::isnan(a) || std::isnan(b) ? NAN : a == 0 && b == 0 ? a + b : std::fmax(a, b);
       }},
      {"f16(min(f32(x[@]), f32(y[@])))",
       [](float a, float b) {
         return std::isnan(a) || std::isnan(b) ? NAN : a == 0 && b == 0 ? -(-a - b) : std::fmin(a, b);
       }},
      {"f16(select(f32(x[@]) < f32(y[@]), 1.0, 0.0))", [](float a, float b) { return a < b ? 1.0F : 0.0F; }},
      {"f16(select(f32(x[@]) == f32(y[@]), 1.0, 0.0))",
       [](float a, float b) { return a == b ? 1.0F : 0.0F; }},
      // Each step is rounded: no product is joined with the sum after it.
      {"f16(f32(f16(f32(x[@]) * f32(y[@]))) + f32(y[@]))",
       [](float a, float b) { return round_to(DType::F16, a * b) + b; }},
      {"f16(f32(f16(f32(x[@]) + f32(y[@]))) - f32(x[@]))",
       [](float a, float b) { return round_to(DType::F16, a + b) - a; }},
  };
  const std::vector<std::vector<std::byte>> operands{bytes_of_codes(x), bytes_of_codes(y)};
  for (const Two& two : kTwos)
    expect("x: f16[65536] global, y: f16[65536] global", two.value, operands,
           [&](std::size_t i) { return two.wanted(f16_to_f32(x[i]), f16_to_f32(y[i])); });
}

// All finite codes, half way to the next one, and just beside that.
TEST_P(WgslHalves, RoundingIsToTheNearestAndTiesToEven) {
  for (int beside : {-1, 0, 1}) {
    std::vector<float> numbers(kCodes);
    for (std::size_t i = 0; i < kCodes; ++i) {
      const auto code = static_cast<std::uint16_t>(i);
      const float here = f16_to_f32(code), next = f16_to_f32(static_cast<std::uint16_t>(code + 1));
      const bool last = (code & 0x7fffU) == 0x7bffU;
      const float middle = last ? std::copysign(65520.F, here) : (here + next) * 0.5F;
      const bool finite = (code & 0x7c00U) != 0x7c00U;
      const auto bits = std::bit_cast<std::uint32_t>(middle) + static_cast<std::uint32_t>(beside);
      numbers[i] = finite ? std::bit_cast<float>(bits) : here;
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    expect("x: f32[65536] global", "f16(x[@])", {{bytes.begin(), bytes.end()}},
           [&](std::size_t i) { return numbers[i]; });
  }
}

std::string name_of_trust(const testing::TestParamInfo<Trust>& trust) {
  constexpr std::array kNames{"Portable", "Stored", "Asked"};
  return kNames.at(static_cast<std::size_t>(trust.param));
}
INSTANTIATE_TEST_SUITE_P(Shaders, WgslHalves, testing::Values(Trust::Portable, Trust::Stored, Trust::Asked),
                         name_of_trust);

TEST(HalvesInShaders, SumsOfHalvesNeedNoF32) {
  const kir::Kernel kernel = kernel_of("x: f16[65536] global, y: f16[65536] global",
                                       "f16(max(f32(f16(f32(x[@]) + f32(y[@]))), 0.0))", true);
  const std::string text = kir::to_string(wgsl::with_halves(kernel));
  EXPECT_NE(std::string::npos, text.find("z[i * 4 + v] = max(x[i * 4 + v] + y[i * 4 + v], 0.0_f16)")) << text;
  const WgslFeatures all{.float16 = true, .float16_rounds = true, .float16_adds = true};
  auto shader = emit_wgsl(kernel, all);
  ASSERT_TRUE(shader.has_value());
  EXPECT_NE(std::string::npos, shader->text.find("array<vec4<f16>, 16384>")) << shader->text;
  EXPECT_EQ(std::string::npos, shader->text.find("round_f16")) << shader->text;
}

// The adapter of this project's own tests rounds as it should; others may not, and then results are right all the same.
TEST(HalvesInShaders, AskingLlvmpipeFindsAll) {
  if (!device() || !device()->adapter().f16 || !device()->adapter().name.starts_with("llvmpipe"))
    GTEST_SKIP() << "another adapter";
  const kir::Kernel kernel = kernel_of("x: f16[65536] global", "x[@]", false);
  const WgslFeatures found = features_for(*device(), std::span(&kernel, 1));
  EXPECT_TRUE(found.float16 && found.float16_rounds && found.float16_adds);
  EXPECT_FALSE(features_for(*device(), {}).float16) << "nobody needs it";
}

TEST(Subgroups, OfLlvmpipeLieInOrder) {
  if (!device() || !device()->adapter().subgroups || !device()->adapter().name.starts_with("llvmpipe"))
    GTEST_SKIP() << "another adapter";
  EXPECT_GE(subgroup_lanes_of(*device()), 4);
  EXPECT_EQ(0, features_for(*device(), {}).subgroup_lanes) << "nobody needs it";
}

// Each thread's value goes to the one whose number differs in a bit, and back: sums of eight neighbours.
TEST(Subgroups, ExchangeValues) {
  if (!device() || subgroup_lanes_of(*device()) < 8) GTEST_SKIP() << "no subgroups of eight";
  auto kernel = kir::parse_kernel(R"(kernel k(x: f32[128] global, y: f32[128] global out) {
  register a: f32[1]
  register b: f32[1]
  grid i < 2 { thread t < 64 {
    a[0] = x[i * 64 + t]
    shuffle_xor(b[0], a[0], 1)
    a[0] = a[0] + b[0]
    shuffle_xor(b[0], a[0], 2)
    a[0] = a[0] + b[0]
    shuffle_xor(b[0], a[0], 4)
    y[i * 64 + t] = a[0] + b[0]
  } }
})");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
  EXPECT_FALSE(emit_wgsl(*kernel, {}).has_value()) << "every browser has none";
  std::vector<float> numbers(128), sums(128);
  for (std::size_t i = 0; i < 128; ++i) numbers[i] = static_cast<float>(i * i);
  const auto bytes = std::as_bytes(std::span(numbers));
  const std::vector<std::vector<std::byte>> operands{{bytes.begin(), bytes.end()}};
  const auto results = run_shader(*kernel, features_for(*device(), std::span(&*kernel, 1)), operands);
  ASSERT_EQ(1U, results.size());
  std::memcpy(sums.data(), results[0].data(), results[0].size());
  for (std::size_t i = 0; i < 128; ++i) {
    float wanted = 0;
    for (std::size_t k = 0; k < 8; ++k) wanted += numbers[i / 8 * 8 + k];
    ASSERT_EQ(wanted, sums[i]) << i;
  }
}

}  // namespace
}  // namespace xyntra
